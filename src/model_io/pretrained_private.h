/* pretrained_private.h - what pretrained.c, pretrained_weights.c and pretrained_adapters.c have of one another; private
 * to them. */
#ifndef LVN_PRETRAINED_PRIVATE_H
#define LVN_PRETRAINED_PRIVATE_H

#include "model_io/pretrained.h"

/* --- pretrained.c --- */

/* depth: how many models with adapters name this one as the base of the next. */
enum lvn_status lvn_pretrained_open_at(struct lvn_pretrained *p, const char *model, const char *prefer,
                                       const char *base, int depth) LVN_CHECKED;
/* Of the folder's config.json. */
enum lvn_status lvn_pretrained_config(struct lvn_pretrained *p) LVN_CHECKED;

/* --- pretrained_weights.c --- */

/* Do the files hold the model of p->config? */
enum lvn_status lvn_pretrained_check(struct lvn_pretrained *p) LVN_CHECKED;
/* Do they have this parameter, or is it one that begins anew? */
enum lvn_status lvn_pretrained_holds(const struct lvn_pretrained *p, const struct lvn_param *q,
                                     bool *there) LVN_CHECKED;

/* --- pretrained_adapters.c: the same where p->base is there --- */

enum lvn_status lvn_pretrained_open_adapters(struct lvn_pretrained *p, const char *dir, const char *base,
                                             int depth) LVN_CHECKED;
enum lvn_status lvn_pretrained_check_adapters(const struct lvn_pretrained *p,
                                              const struct lvn_params *params) LVN_CHECKED;
enum lvn_status lvn_pretrained_holds_adapters(const struct lvn_pretrained *p, const struct lvn_param *q,
                                              bool *there) LVN_CHECKED;
enum lvn_status lvn_pretrained_adapted(const struct lvn_pretrained *p, const struct lvn_param *q, float *to,
                                       float *capacity) LVN_CHECKED;

#endif

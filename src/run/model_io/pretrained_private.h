/* pretrained_private.h - functions that pretrained.c, pretrained_weights.c and pretrained_adapters.c share; for these
 * files alone. */
#ifndef LVN_PRETRAINED_PRIVATE_H
#define LVN_PRETRAINED_PRIVATE_H

#include "model_io/pretrained.h"
#include "models/weight_files.h"

/* --- pretrained.c --- */

/* depth: length of the chain of adapters, each of which names the next as its base. */
enum lvn_status lvn_pretrained_open_at(struct lvn_pretrained *p, const char *model, const char *prefer,
                                       const char *base, int depth) LVN_CHECKED;

/* What describes the model, for messages: "config.json". */
const char *lvn_pretrained_source(const struct lvn_pretrained *p);

/* --- pretrained_weights.c --- */

/* FORMAT unless the files hold the model of p->config. */
enum lvn_status lvn_pretrained_check(struct lvn_pretrained *p) LVN_CHECKED;
/* The tensor that is the parameter, with its layout; NULL: the files have none. */
enum lvn_status lvn_pretrained_tensor(const struct lvn_pretrained *p, const struct lvn_param *q, struct lvn_layout *l,
                                      const struct lvn_weight **out) LVN_CHECKED;
/* *there: the files have this parameter, or it starts with initial values. */
enum lvn_status lvn_pretrained_holds(const struct lvn_pretrained *p, const struct lvn_param *q,
                                     bool *there) LVN_CHECKED;

/* --- pretrained_blocks.c --- */

/* The tensor in packed blocks that can be copied to the parameter's memory; NULL: none, or adapters are added to it. */
enum lvn_status lvn_pretrained_blocks(const struct lvn_pretrained *p, const struct lvn_param *q, struct lvn_layout *l,
                                      const struct lvn_weight **out) LVN_CHECKED;
/* Copy it to `to`, memory in its type. NONFINITE with the name of a tensor whose values are not finite. */
enum lvn_status lvn_pretrained_copy_blocks(const struct lvn_weight *t, const struct lvn_layout *l,
                                           void *to) LVN_CHECKED;

/* --- pretrained_adapters.c: the same if p->base is not NULL --- */

enum lvn_status lvn_pretrained_open_adapters(struct lvn_pretrained *p, const char *dir, const char *base,
                                             int depth) LVN_CHECKED;
/* Adapters alone may have trained rows of tokens that were added to their base: then the model has these rows, too. ARG
 * if its vocabulary is fixed. */
enum lvn_status lvn_pretrained_fit_tokens(struct lvn_pretrained *p, bool fixed) LVN_CHECKED;
enum lvn_status lvn_pretrained_check_adapters(const struct lvn_pretrained *p,
                                              const struct lvn_params *params) LVN_CHECKED;
enum lvn_status lvn_pretrained_holds_adapters(const struct lvn_pretrained *p, const struct lvn_param *q,
                                              bool *there) LVN_CHECKED;
/* Do the adapters have the whole parameter? */
bool lvn_pretrained_adapts_whole(const struct lvn_pretrained *p, const struct lvn_param *q);
enum lvn_status lvn_pretrained_adapted(const struct lvn_pretrained *p, const struct lvn_param *q, float *to,
                                       float *scratch) LVN_CHECKED;

#endif

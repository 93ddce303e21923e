/* groups.h - optimizer.groups: parameters with their own learning rate or weight decay. */
#ifndef LVN_GROUPS_H
#define LVN_GROUPS_H

#include "base/arena.h"
#include "graph/params.h"

struct lvn_optimizer_group {
    const char *match;   /* patterns of names (graph/names.h) */
    double lr;           /* below 0: optimizer.lr */
    double weight_decay; /* below 0: optimizer.weight_decay, for those that optimizer.decay names */
};
struct lvn_optimizer_groups {
    struct lvn_optimizer_group *list; /* [n] */
    int n;
};

/* Read the key's text: "" or a list of maps in YAML. Texts are stored in the arena. ARG: an entry lacks `match`, has
 * only `match`, has an unknown key, or has a value that is no number between 0 and 1,000,000. */
enum lvn_status lvn_optimizer_groups_read(struct lvn_optimizer_groups *out, struct lvn_arena *a,
                                          const char *text) LVN_CHECKED;
/* Set rates and decays of the parameters; call it after parameters were frozen, before lvn_params_layout(). lr:
 * optimizer.lr. ARG: a pattern matches no parameter that is trained, or two groups match one. */
enum lvn_status lvn_optimizer_groups_apply(const char *text, double lr, struct lvn_params *p) LVN_CHECKED;

#endif

/* groups.h - optimizer.groups: parameters with their own learning rate, weight decay, betas or kind of update. */
#ifndef LVN_GROUPS_H
#define LVN_GROUPS_H

#include "base/arena.h"
#include "graph/params.h"

struct lvn_optimizer_group {
    const char *match;   /* patterns of names (graph/names.h) */
    double lr;           /* below 0: optimizer.lr */
    double weight_decay; /* below 0: optimizer.weight_decay, for those that optimizer.decay names */
    double betas[2];     /* below 0: optimizer.betas */
    const char *kind;    /* optimizer.kind, or the kind of its updates of elements; NULL: what the optimizer does */
};
struct lvn_optimizer_groups {
    struct lvn_optimizer_group *list; /* [n] */
    int n;
};

/* Read the key's text: "" or a list of maps in YAML. Texts are stored in the arena. kind: optimizer.kind; elements: of
 * an optimizer on matrices, the kind that updates all else, or NULL. ARG: an entry lacks `match`, has only `match`, has
 * an unknown key, or has a value out of range. */
enum lvn_status lvn_optimizer_groups_read(struct lvn_optimizer_groups *out, struct lvn_arena *a, const char *text,
                                          const char *kind, const char *elements) LVN_CHECKED;
/* Set the rules of the parameters; call it after parameters were frozen, before lvn_params_layout(). lr: optimizer.lr.
 * ARG: a pattern matches no parameter that is trained, two groups match one, or `kind` or `betas` cannot be those of a
 * parameter. */
enum lvn_status lvn_optimizer_groups_apply(const char *text, const char *kind, double lr,
                                           struct lvn_params *p) LVN_CHECKED;

#endif

/* optimizer.h - the table of optimizers: from the options of a run to the operation that updates parameters.
 *
 * An optimizer is its operation in src/core/ops, whose outputs define how many moments it keeps and whether they may be
 * bf16, and a function and a row of the table in optimizer.c. Settings check the options (options/choices.h fills
 * them); the engine converts them to a struct lvn_optimizer, which the passes read. */
#ifndef LVN_OPTIMIZER_H
#define LVN_OPTIMIZER_H

#include "base/status.h"
#include "passes/program.h"

/* The options of the part `optimizer`, one field for each row of optimizers.def, and those of clipping. */
struct lvn_optimizer_options {
    double clip_norm;  /* maximum 2-norm of the gradient; 0: off */
    double clip_value; /* maximum absolute value of its elements; 0: off */
    int64_t fall, end; /* steps from which on, and until which the learning rate falls; end 0: it does not */
#define LVN_ROWS_AS_MEMBERS
#define LVN_ROWS "optimizers/optimizers.def"
#include "base/options/rows_each.h"
};

struct lvn_optimizer_kind {
    const char *name;     /* optimizer.kind */
    const char *help;     /* what distinguishes it, for help */
    enum lvn_op_id op;    /* its operation, see struct lvn_optimizer */
    const char *elements; /* with `matrices`: the kind that `op` is, by which groups may name it; else NULL */
    /* Set the operation's decay rates of running means (optimizer.betas). */
    void (*set_betas)(union lvn_attr *attr, const double betas[2]);
    /* Set its other attributes, except those of attr->update. NULL: it has none. */
    void (*set_attributes)(const struct lvn_optimizer_options *o, union lvn_attr *attr);
    /* Set the operations on the matrices of the model's blocks, and their own constants; `op` is then for all other
     * parameters. NULL: it has none. */
    void (*matrices)(const struct lvn_optimizer_options *o, struct lvn_matrix_steps *m);
};

/* All optimizers; the last row has no name. */
extern const struct lvn_optimizer_kind lvn_optimizers[];
/* By name; NULL: there is none. */
const struct lvn_optimizer_kind *lvn_optimizer_find(const char *name);
/* Do its kernels exist for CPUs only? */
bool lvn_optimizer_only_on_cpus(const struct lvn_optimizer_options *o);
/* May its moments be bf16? */
bool lvn_optimizer_in_bf16(const struct lvn_optimizer_kind *k);

/* ARG: options that contradict each other, by name. */
enum lvn_status lvn_optimizer_check(const struct lvn_optimizer_options *o) LVN_CHECKED;
/* The optimizer of a run, whose options have passed lvn_optimizer_check(). */
void lvn_optimizer_init(struct lvn_optimizer *out, const struct lvn_optimizer_options *o);

#endif

/* collective.h - definitions shared by the collective operations: all_reduce, reduce_scatter, all_gather, tree_reduce,
 * wait.
 *
 * They have no kernels: a backend passes each instruction to its binding's struct lvn_collectives (passes/program.h).
 * Each starts a collective without blocking. out[1] is a value without contents, read by the collective's `wait`, which
 * makes the wait depend on the start. out[0] is an operand of the wait too, so in[0] and out[0] live until then; no
 * instruction in between uses them. */
#ifndef LVN_COLLECTIVE_H
#define LVN_COLLECTIVE_H

#include "ops/real.h"
#include "ops/shape.h"

/* Descriptor of the value that connects a collective to its wait. */
static inline struct lvn_desc lvn_handle_desc(void)
{
    return LVN_DESC(LVN_I32, 1);
}

#define LVN_COLLECTIVE(id, shape_rule, ...)                                                                            \
    LVN_OPERATION(id, shape_rule, (lvn_plain_kernel *)0, LVN_NOT_DIFFERENTIABLE, .collective = true, __VA_ARGS__)

#endif

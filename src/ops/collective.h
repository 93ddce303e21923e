/* collective.h - what the operations that ranks do together share.
 *
 * They have no kernels: a backend hands each instruction to the collectives of its binding (passes/program.h). Each
 * starts work and returns at once; out[1] is a token, which stands for that work until a `wait` reads it. Buffers are
 * left alone in between: in[0] and out[0] live until then, for `wait` names out[0] too. */
#ifndef LVN_COLLECTIVE_H
#define LVN_COLLECTIVE_H

#include "ops/real.h"
#include "ops/shape.h"

/* A token has no contents. */
static inline struct lvn_desc lvn_handle_desc(void)
{
    return LVN_DESC(LVN_I32, 1);
}

#define LVN_COLLECTIVE(id, shape_rule, ...)                                                                            \
    LVN_OPERATION(id, shape_rule, (lvn_plain_kernel *)0, LVN_NOT_DIFFERENTIABLE, .collective = true, __VA_ARGS__)

#endif

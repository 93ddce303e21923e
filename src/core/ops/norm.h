/* norm.h - how layernorm, rmsnorm, residual_layernorm and residual_rmsnorm differ, for the kernels that they share:
 * plain kernels (norm_plain.h), CPU kernels (norm_cpu.h) and device kernels (norm_gpu.h).
 *
 *     x = in[0], or after a residual connection s = in[0] + dropout(in[1]), which is then out[0]
 *     y = (x - mean) * rstd * (gamma + offset) + beta,  rstd = 1 / sqrt(mean((x - mean)^2) + eps)
 *
 * The next inputs are gamma (C) and beta (C). Layer normalization requires gamma; beta may be absent. RMS normalization
 * has no beta, and its mean is 0; gamma may be absent, and then y = x * rstd. The next output is y (...,C). The saved
 * outputs are mean (rows; not of RMS normalization) and rstd (rows). */
#ifndef LVN_NORM_H
#define LVN_NORM_H

#include "graph/op.h"

struct lvn_norm {
    bool residual; /* of s = a + dropout(b): inputs (a,b,...), outputs (s,y,...); else of x: (x,...), (y,...) */
    bool has_mean; /* layer normalization */
    bool has_beta; /* beta may be an input */
    double eps;
    double offset;     /* added to gamma */
    double p;          /* of dropout */
    int gamma, beta;   /* numbers of these inputs */
    int y, mean, rstd; /* numbers of these outputs */
};

static inline struct lvn_norm lvn_norm_of(enum lvn_op_id id, const union lvn_attr *a)
{
    struct lvn_norm n = {.residual = id == LVN_OP_residual_layernorm || id == LVN_OP_residual_rmsnorm};
    n.has_mean = n.has_beta = id == LVN_OP_layernorm || id == LVN_OP_residual_layernorm;
    switch (id) {
    case LVN_OP_layernorm:
        n.eps = a->layernorm.eps;
        break;
    case LVN_OP_rmsnorm:
        n.eps = a->rmsnorm.eps, n.offset = a->rmsnorm.offset;
        break;
    case LVN_OP_residual_layernorm:
        n.eps = a->residual_layernorm.eps, n.p = a->residual_layernorm.p;
        break;
    default: /* residual_rmsnorm */
        n.eps = a->residual_rmsnorm.eps, n.offset = a->residual_rmsnorm.offset, n.p = a->residual_rmsnorm.p;
    }
    n.y = n.residual, n.gamma = n.y + 1, n.beta = n.gamma + 1;
    n.mean = n.y + 1, n.rstd = n.mean + n.has_mean;
    return n;
}

#endif

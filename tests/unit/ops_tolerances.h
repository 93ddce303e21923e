/* ops_tolerances.h - how much an operation's kernels may differ from the specification, and why. */
#ifndef LVN_OPS_TOLERANCES_H
#define LVN_OPS_TOLERANCES_H

#include "graph/chain.h"
#include "graph/op.h"

/* Allowed difference of a float kernel from the plain one in double, relative to the largest absolute value of the
 * tensor, or to 1 if that is larger. 6e-8 is half a unit in the last place. 0: the same bits as the plain kernel in
 * float. */
static const struct tolerance {
    double forward, backward;
    const char *reason;
} tolerances[LVN_OP_COUNT] = {
    [LVN_OP_embedding] = {1e-7, 1e-6, "forward is one addition; a gradient row sums up to 66 tokens"},
    [LVN_OP_linear] = {4e-6, 4e-6, "sums of up to 257 products, each partial sum rounded"},
    [LVN_OP_layernorm] = {3e-6, 3e-6, "sums over up to 450 rows; rows of nearly equal values cancel"},
    [LVN_OP_gelu] = {5e-7, 1e-6, "a polynomial for erf, a few units in the last place"},
    [LVN_OP_gelu_tanh] = {5e-7, 3e-6, "a polynomial for tanh; 1 - tanh^2 cancels near one and is multiplied by x^3"},
    [LVN_OP_dropout] = {2e-7, 3e-7, "the scale is rounded, then the product; then an addition"},
    [LVN_OP_scale] = {2e-7, 3e-7, "the factor is rounded, then the product; then an addition"},
    [LVN_OP_relu] = {1e-7, 1e-7, "a copy; then an addition"},
    [LVN_OP_tanh] = {2e-7, 5e-7, "one rounding; 1 - y^2 cancels near one"},
    [LVN_OP_softmax] = {5e-7, 1e-6, "exponentials, divided by their sum; then a difference from a sum"},
    [LVN_OP_concat] = {1e-12, 1e-7, "a copy; then an addition"},
    [LVN_OP_mean] = {3e-7, 3e-7, "one rounding; then an addition"},
    [LVN_OP_mul_rows] = {1e-7, 1e-6, "one rounding; a gradient sums up to 600 products"},
    [LVN_OP_weighted_sum] = {3e-7, 4e-6, "two products and their sum; a gradient sums up to 9,000 products"},
    [LVN_OP_gated_add] = {5e-7, 4e-6, "an exponential and a division; a gradient sums up to 11,000 products"},
    [LVN_OP_previous] = {1e-12, 1e-7, "a copy; then an addition"},
    [LVN_OP_last_token] = {1e-7, 1e-7, "a copy; then an addition"},
    [LVN_OP_conv2d] = {4e-6, 4e-6, "sums of up to 6,000 products, each partial sum rounded"},
    [LVN_OP_conv2d_relu] = {4e-6, 4e-6, "as conv2d"},
    [LVN_OP_max_pool2d] = {1e-12, 5e-7, "a copy"},
    [LVN_OP_normalize] = {1e-7, 0, "one rounding"},
    [LVN_OP_squared_error] = {1e-6, 3e-7, "a sum of squares, each rounded"},
    [LVN_OP_add_rows] = {1e-7, 1e-6, "one rounding; a gradient sums up to 15 rows"},
    [LVN_OP_pack] = {1e-12, 1e-7, "a copy; then an addition"},
    [LVN_OP_zeros] = {1e-12, 0, "zeros"},
    [LVN_OP_widen] = {1e-7, 1e-7, "a copy; then an addition"},
    [LVN_OP_add] = {1e-7, 1e-7, "one rounding"},
    [LVN_OP_attention] = {3e-6, 5e-6, "scores are sums, then exponentials of them, then sums again"},
    [LVN_OP_kv_cache] = {1e-12, 0, "a copy"},
    [LVN_OP_cross_entropy] = {1e-6, 1e-6, "a sum of exponentials; its log is exact to a few units"},
    [LVN_OP_confusion] = {1e-12, 0, "integers"},
    [LVN_OP_regression_sums] = {1e-12, 0, "integers"},
    [LVN_OP_rmsnorm] = {3e-6, 3e-6, "as layernorm"},
    [LVN_OP_rotary_table] = {1e-7, 0, "computed in double, rounded once"},
    [LVN_OP_rotary] = {3e-7, 3e-7, "two products and their sum; then an addition"},
    [LVN_OP_mul] = {1e-7, 2e-7, "one rounding; then an addition"},
    [LVN_OP_silu] = {2e-7, 3e-7, "one rounding; then an addition"},
    [LVN_OP_relu2] = {1e-7, 2e-7, "one rounding; then an addition"},
    [LVN_OP_chain] = {1e-6, 3e-6, "an exponential and a division for each of up to three steps, and products of these"},
    [LVN_OP_linear_gelu] = {4e-6, 6e-6, "as linear, then gelu"},
    [LVN_OP_residual_layernorm] = {3e-6, 3e-6, "as layernorm"},
    [LVN_OP_residual_rmsnorm] = {3e-6, 3e-6, "as layernorm"},
    [LVN_OP_linear_cross_entropy] = {4e-6, 6e-6, "as linear, then cross_entropy"},
    [LVN_OP_grad_norm] = {0, 0, "the order of operations is part of the definition"},
    [LVN_OP_accumulate] = {0, 0, "one addition"},
    [LVN_OP_grad_squares] = {0, 0, "the order of operations is part of the definition"},
    [LVN_OP_parameter_checksum] = {0, 0, "whole numbers are added"},
    [LVN_OP_bits_sum] = {0, 0, "whole numbers are added"},
    [LVN_OP_grad_clip] = {0, 0, "the order of operations is part of the definition"},
    [LVN_OP_unscale] = {0, 0, "the order of operations is part of the definition"},
    [LVN_OP_adamw] = {0, 0, "the order of operations is part of the definition"},
    [LVN_OP_sgd] = {0, 0, "the order of operations is part of the definition"},
    [LVN_OP_lion] = {0, 0, "the order of operations is part of the definition"},
    [LVN_OP_muon_direction] = {0, 0, "the order of operations is part of the definition"},
    [LVN_OP_orthogonalize] = {1e-5, 0, "five iterations of three products, each a sum"},
    [LVN_OP_muon_step] = {0, 0, "the order of operations is part of the definition"},
};

/* The row of an operation: a chain of one step has that of the step. */
static inline const struct tolerance *tolerance_of_op(enum lvn_op_id id, const union lvn_attr *attr)
{
#define STEP(NAME, operation)                                                                                          \
    if (id == LVN_OP_chain && attr->chain.steps == LVN_CHAIN_##NAME) return &tolerances[LVN_OP_##operation];
    LVN_CHAIN_FUNCTIONS(STEP)
    STEP(SCALE, scale)
    STEP(MUL, mul)
#undef STEP
    return &tolerances[id];
}

/* Are the kernels' bits those of the plain kernel in float? */
static inline bool op_is_exact(enum lvn_op_id id)
{
    return tolerances[id].forward == 0;
}

#endif

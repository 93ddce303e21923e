/* accumulate.c - adds gradients to others: those of one node of the summation tree to those of its neighbor
 * (passes/gradient_accumulation.c), or those of a micro-batch to their sharded sum
 * (passes/data_parallel_gradients.c). With attr.copy it copies: shards of parameters
 * (passes/data_parallel_parameters.c), and parameters that are rounded to bf16 (passes/round_parameters.c).
 *
 * in[0] (n), out[0] (n), updated in place: out[0] += in[0]; with attr.copy out[0] = in[0], and out[0] may be bf16 if
 * in[0] is real; values are then rounded like operands of a bf16 matrix multiplication. Otherwise both are real or both
 * bf16, and the sum is one addition (of bf16: in fp32, rounded to nearest). So every node of the tree is rounded
 * identically on every rank. */

#include "base/bf16.h"
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_reals(s, "gradient", 0, 1));
    s->out[0] = LVN_DESC(s->real, lvn_desc_count(&s->in[0]));
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    int64_t n = lvn_desc_count(call->in[0].desc);
    const bool narrows = call->in[0].desc->dtype != LVN_BF16 && call->out[0].desc->dtype == LVN_BF16;
    if (call->attr->accumulate.copy && narrows) {
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)call->out[0].p)[i] = lvn_bf16_make((float)((const real *)call->in[0].p)[i]);
    } else if (call->attr->accumulate.copy) {
        memcpy(call->out[0].p, call->in[0].p, (size_t)(n * lvn_dtype_bytes(call->in[0].desc->dtype)));
    } else if (call->in[0].desc->dtype == LVN_BF16) {
        const uint16_t *source = call->in[0].p;
        uint16_t *target = call->out[0].p;
        for (int64_t i = 0; i < n; i++) target[i] = lvn_bf16_make(lvn_bf16_get(target[i]) + lvn_bf16_get(source[i]));
    } else {
        const real *source = call->in[0].p;
        real *target = call->out[0].p;
        for (int64_t i = 0; i < n; i++) target[i] += source[i];
    }
}

LVN_OPERATION(accumulate, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 1,
              .low_precision_ok = LVN_READS_IN(0) | LVN_READS_OUT(0));

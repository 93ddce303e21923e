/* widen.c - cast to the program's real type (fp32; fp64 in reference runs): y = x, where x may be bf16.
 *
 * The mixed_precision pass inserts it before an operation that does not accept a bf16 parameter, and the data-parallel
 * passes after gradients sent in bf16. The gradient is rounded to x's type, to nearest, once, after all users of y have
 * contributed. differentiate inserts backward alone, to copy a parameter's gradient from the arena. x, y of equal
 * shape, contiguous.
 *
 * CPUs have no fast kernel for backward: such parameters are short, and the gradients that are copied (of a parameter
 * that is used whole and in part, or with zero2 and fsdp only in part) are rare. */

#include "base/bf16.h"
#include "ops/real.h"
#include "ops/shape.h"

static void forward(const struct lvn_call *call)
{
    const uint16_t *bf16 = call->in[0].p;
    real *y = call->out[0].p;
    int64_t n = lvn_desc_count(call->out[0].desc);
    if (call->in[0].desc->dtype != LVN_BF16)
        memcpy(y, bf16, sizeof *y * (size_t)n);
    else
        for (int64_t i = 0; i < n; i++) y[i] = (real)lvn_bf16_get(bf16[i]);
}

static void backward(const struct lvn_call *call)
{
    if (!call->din[0].p) return;
    const real *dy = call->dout[0].p;
    real *dx = call->din[0].p;
    uint16_t *bf16 = call->din[0].p;
    int64_t n = lvn_desc_count(call->dout[0].desc);
    if (call->din[0].desc->dtype != LVN_BF16)
        for (int64_t i = 0; i < n; i++) lvn_put(&dx[i], call->add[0], dy[i]);
    else
        for (int64_t i = 0; i < n; i++)
            bf16[i] = lvn_bf16_make((float)(call->add[0] ? lvn_bf16_get(bf16[i]) + dy[i] : dy[i]));
}

LVN_OPERATION(widen, lvn_shape_each, forward, backward, .n_in = 1, .n_in_min = 1, .n_out = 1,
              .low_precision_ok = LVN_READS_IN(0));

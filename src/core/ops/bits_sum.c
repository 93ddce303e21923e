/* bits_sum.c - adds the bits of a range to a running sum, in the steps in which the range is selected
 * (passes/shard_checksums.c).
 *
 * in[0]: the range (n), or bytes of several types, a multiple of 4. out[0]: I32 (1), updated in place: out[0] += sum of
 * bits(i) mod 2^32. bits(i) are those of element i in fp32 (fp64: of both halves). Any single change is detected;
 * several changes escape detection with probability 2^-32, in bf16 2^-16. For attr.number and attr.period see
 * lvn_bits_sum_is_due(). */
#include "ops/bits_sum.h"

#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    if (s->in[0].dtype != LVN_U8) LVN_TRY(lvn_shape_reals(s, "range", 0, 1));
    s->out[0] = LVN_DESC(LVN_I32, 1);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    if (!lvn_bits_sum_is_due(call->step, call->attr->bits_sum.number, call->attr->bits_sum.period)) return;
    *(uint32_t *)call->out[0].p += lvn_bits_sum(&call->in[0], 0, lvn_desc_count(call->in[0].desc));
}

LVN_OPERATION(bits_sum, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 1,
              .low_precision_ok = LVN_READS_IN(0));

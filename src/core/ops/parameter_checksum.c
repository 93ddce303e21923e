/* parameter_checksum.c - a checksum of a range of parameters, with which ranks compare their replicas.
 *
 * in[0]: parameters (n). out[0]: I32 (4), the two sums as pairs of low and high half:
 *
 *     plain = sum of bits(i)        weighted = sum of bits(i) * (i * 0x9e3779b9 mod 2^32)        mod 2^64
 *
 * bits(i) are those of element i in fp32 (fp64: in fp64). Any single change is detected by the plain sum, and any two
 * changes of fp32 within 2^32 elements by one of the sums; more changes escape detection with probability 2^-64.
 * Integers are added, so every order of summation gives the same bits. */
#include "ops/parameter_checksum.h"

#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_reals(s, "parameters", 0, 1));
    s->out[0] = LVN_DESC(LVN_I32, 4);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const real *x = call->in[0].p;
    const int64_t n = lvn_desc_count(call->in[0].desc);
    struct lvn_checksum_sums s = {0};
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = 0;
        memcpy(&bits, &x[i], sizeof x[i]); /* little-endian machines only */
        s.plain += bits;
        s.weighted += bits * lvn_checksum_factor(i);
    }
    lvn_checksum_put(&s, call->out[0].p);
}

LVN_OPERATION(parameter_checksum, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 1,
              .low_precision_ok = LVN_READS_IN(0));

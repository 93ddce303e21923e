/* regression_sums.c - exact sums of predictions, targets and their products, from which metrics of numbers are
 * computed.
 *
 * prediction, target: n numbers each, one of each for a sample; out[0] (LVN_REGRESSION_SUMS_SIZE) fp64: whole numbers,
 * see graph/regression_sums.h. Predictions count as fp32; one that is not finite makes all sums NaN. Rows of padding
 * (step->end_row) are left out. It has no gradient. It takes little time compared with the model, so CPUs have no fast
 * kernel for it. */

#include "graph/regression_sums.h"
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_reals(s, "prediction", 0, 1));
    LVN_TRY(lvn_shape_reals(s, "target", 1, 1));
    LVN_CHECK(lvn_desc_count(&s->in[0]) == lvn_desc_count(&s->in[1]), SHAPE,
              "regression_sums: %lld predictions and %lld targets; expected one of each for a sample",
              (long long)lvn_desc_count(&s->in[0]), (long long)lvn_desc_count(&s->in[1]));
    s->out[0] = LVN_DESC(LVN_F64, LVN_REGRESSION_SUMS_SIZE);
    return LVN_OK;
}

/* x = *mantissa 2^exponent */
static int split(float x, int64_t *mantissa)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int exponent = (int)(bits >> 23 & 0xff);
    *mantissa = (int64_t)(bits & 0x7fffff) | (exponent ? 0x800000 : 0);
    if (bits >> 31) *mantissa = -*mantissa;
    return (exponent ? exponent : 1) - 150;
}

/* Add m 2^exponent to a sum. |m| < 2^48. */
static void add(double *limb, int64_t m, int exponent)
{
    const int64_t base = (int64_t)1 << LVN_LIMB_BITS, mask = base - 1;
    const int shift = exponent - LVN_LIMB_LOWEST, k = shift / LVN_LIMB_BITS, r = shift % LVN_LIMB_BITS;
    const int64_t low = llabs((long long)m) & mask, high = llabs((long long)m) >> LVN_LIMB_BITS;
    const double sign = m < 0 ? -1 : 1;
    limb[k] += sign * (double)(low << r & mask);
    limb[k + 1] += sign * (double)((low << r >> LVN_LIMB_BITS) + (high << r & mask));
    limb[k + 2] += sign * (double)(high << r >> LVN_LIMB_BITS);
}

static void forward(const struct lvn_call *call)
{
    const real *prediction = call->in[0].p, *target = call->in[1].p;
    double *out = call->out[0].p, *sum = out + 1;
    const int64_t valid = lvn_step_rows(call->step, lvn_desc_count(call->in[0].desc));
    bool finite = true;
    for (int i = 0; i < LVN_REGRESSION_SUMS_SIZE; i++) out[i] = 0;
    for (int64_t i = 0; i < valid; i++) {
        const float p = (float)prediction[i], t = (float)target[i];
        int64_t mp, mt;
        const int ep = split(p, &mp), et = split(t, &mt);
        finite = finite && isfinite(p) && isfinite(t);
        if (!finite) break;
        out[0]++;
        add(sum + LVN_SUM_T * LVN_LIMBS, mt, et);
        add(sum + LVN_SUM_TT * LVN_LIMBS, mt * mt, et + et);
        add(sum + LVN_SUM_P * LVN_LIMBS, mp, ep);
        add(sum + LVN_SUM_PP * LVN_LIMBS, mp * mp, ep + ep);
        add(sum + LVN_SUM_PT * LVN_LIMBS, mp * mt, ep + et);
        add(sum + LVN_SUM_ABS * LVN_LIMBS, p < t ? -mp : mp, ep);
        add(sum + LVN_SUM_ABS * LVN_LIMBS, p < t ? mt : -mt, et);
    }
    for (int i = 0; i < LVN_REGRESSION_SUMS_SIZE && !finite; i++) out[i] = NAN;
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_regression_sums(struct levin_graph *g, struct levin_tensor *prediction,
                                           struct levin_tensor *target)
{
    return lvn_node_append(g, LVN_OP_regression_sums, &(union lvn_attr){0},
                           (struct levin_tensor *[]){prediction, target}, 2);
}
#endif

LVN_OPERATION(regression_sums, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 2, .n_in_min = 2, .n_out = 1);

/* regression.c - see regression.h. */
#include "metrics/regression.h"

#include <math.h>

static long double value_of(const double *limb)
{
    long double x = 0;
    for (int k = LVN_LIMBS - 1; k >= 0; k--) x += ldexpl((long double)limb[k], LVN_LIMB_LOWEST + k * LVN_LIMB_BITS);
    return x;
}

struct lvn_regression lvn_regression_of(const struct lvn_metric_sums *s)
{
    struct lvn_regression m = {.n = s->counts[0]};
    for (int i = 0; i < LVN_SUM_COUNT; i++) m.sum[i] = value_of(s->counts + 1 + i * LVN_LIMBS);
    const long double t = m.sum[LVN_SUM_T], p = m.sum[LVN_SUM_P], n = m.n;
    m.residual = m.sum[LVN_SUM_PP] - 2 * m.sum[LVN_SUM_PT] + m.sum[LVN_SUM_TT];
    m.spread = m.sum[LVN_SUM_TT] - t * t / n;
    m.of_predictions = m.sum[LVN_SUM_PP] - p * p / n;
    m.joint = m.sum[LVN_SUM_PT] - p * t / n;
    return m;
}

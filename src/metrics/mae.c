/* mae.c - the mean absolute error of numbers. */
#include <math.h>

#include "metrics/regression.h"

static double value(const struct lvn_metric_sums *s)
{
    const struct lvn_regression m = lvn_regression_of(s);
    return m.n > 0 ? (double)(m.sum[LVN_SUM_ABS] / m.n) : NAN;
}

extern const struct lvn_metric lvn_metric_mae;
const struct lvn_metric lvn_metric_mae = {
    .name = "mae",
    .labels = LVN_LABELS_OF(NUMBER),
    .counts = lvn_regression_sums,
    .value = value,
};

/* r2.c - the coefficient of determination: 1 - (sum of squared errors) / (sum of squared distances of the numbers from
 * their mean). 1 is a perfect prediction, 0 that of the mean; NaN if all numbers are equal. */
#include <math.h>

#include "metrics/regression.h"

static double value(const struct lvn_metric_sums *s)
{
    const struct lvn_regression m = lvn_regression_of(s);
    return m.n > 0 && m.spread > 0 ? (double)(1 - m.residual / m.spread) : NAN;
}

extern const struct lvn_metric lvn_metric_r2;
const struct lvn_metric lvn_metric_r2 = {
    .name = "r2",
    .labels = LVN_LABELS_OF(NUMBER),
    .higher_is_better = true,
    .counts = lvn_regression_sums,
    .value = value,
};

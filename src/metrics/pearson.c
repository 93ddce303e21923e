/* pearson.c - Pearson's correlation of predictions and numbers; NaN if either are all equal. */
#include <math.h>

#include "metrics/regression.h"

static double value(const struct lvn_metric_sums *s)
{
    const struct lvn_regression m = lvn_regression_of(s);
    const bool varies = m.spread > 0 && m.of_predictions > 0;
    return m.n > 0 && varies ? (double)(m.joint / sqrtl(m.spread * m.of_predictions)) : NAN;
}

extern const struct lvn_metric lvn_metric_pearson;
const struct lvn_metric lvn_metric_pearson = {
    .name = "pearson",
    .labels = LVN_LABELS_OF(NUMBER),
    .higher_is_better = true,
    .counts = lvn_regression_sums,
    .value = value,
};

/* mse.c - the mean squared error: the loss of regression and reconstruction. */
#include <math.h>

#include "metrics/metric.h"

static double value(const struct lvn_metric_sums *s)
{
    return s->labels ? s->loss / (double)s->labels : NAN;
}

extern const struct lvn_metric lvn_metric_mse;
const struct lvn_metric lvn_metric_mse = {
    .name = "mse",
    .labels = LVN_LABELS_OF(NUMBER) | LVN_LABELS_OF(VECTOR),
    .value = value,
};

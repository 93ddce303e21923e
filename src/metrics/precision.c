/* precision.c - true positives / predicted positives; of class 1 if there are two, else the mean over classes
 * ("macro"). */
#include "metrics/metric.h"

static double score(double correct, double predicted, double actual)
{
    (void)actual;
    return predicted > 0.0 ? correct / predicted : 0.0;
}

static double value(const struct lvn_metric_sums *s)
{
    return lvn_metric_of_classes(s, score);
}

extern const struct lvn_metric lvn_metric_precision;
const struct lvn_metric lvn_metric_precision = {
    .name = "precision",
    .labels = LVN_LABELS_OF(CLASS),
    .higher_is_better = true,
    .counts = lvn_confusion,
    .value = value,
};

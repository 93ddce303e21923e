/* recall.c - true positives / actual positives; of class 1 if there are two, else the mean over classes ("macro"). */
#include "metrics/metric.h"

static double score(double correct, double predicted, double actual)
{
    (void)predicted;
    return actual > 0.0 ? correct / actual : 0.0;
}

static double value(const struct lvn_metric_sums *s)
{
    return lvn_metric_of_classes(s, score);
}

extern const struct lvn_metric lvn_metric_recall;
const struct lvn_metric lvn_metric_recall = {
    .name = "recall",
    .labels = LVN_LABELS_OF(CLASS),
    .higher_is_better = true,
    .counts = lvn_confusion,
    .value = value,
};

/* f1.c - the harmonic mean of precision and recall; of class 1 if there are two, else the mean over classes ("macro").
 */
#include "metrics/metric.h"

static double score(double correct, double predicted, double actual)
{
    return 2.0 * correct / (predicted + actual);
}

static double value(const struct lvn_metric_sums *s)
{
    return lvn_metric_of_classes(s, score);
}

extern const struct lvn_metric lvn_metric_f1;
const struct lvn_metric lvn_metric_f1 = {
    .name = "f1",
    .labels = LVN_LABELS_OF(CLASS),
    .higher_is_better = true,
    .counts = lvn_confusion,
    .value = value,
};

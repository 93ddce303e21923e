/* precision.c - of what is taken for a class, the share that is of it; of class 1 of two, else the mean over classes
 * ("macro"). */
#include "metrics/metric.h"

static double score(double right, double taken, double there)
{
    (void)there;
    return taken > 0.0 ? right / taken : 0.0;
}

static double value(const struct lvn_metric_sums *s)
{
    return lvn_metric_of_classes(s, score);
}

extern const struct lvn_metric lvn_metric_precision;
const struct lvn_metric lvn_metric_precision = {
    .name = "precision",
    .tasks = (const char *const[]){"classify", NULL},
    .higher_is_better = true,
    .counts = lvn_confusion,
    .value = value,
};

/* recall.c - of what is of a class, the share that is taken for it; of class 1 of two, else the mean over classes
 * ("macro"). */
#include "metrics/metric.h"

static double score(double right, double taken, double there)
{
    (void)taken;
    return there > 0.0 ? right / there : 0.0;
}

static double value(const struct lvn_metric_sums *s)
{
    return lvn_metric_of_classes(s, score);
}

extern const struct lvn_metric lvn_metric_recall;
const struct lvn_metric lvn_metric_recall = {
    .name = "recall",
    .tasks = (const char *const[]){"classify", NULL},
    .higher_is_better = true,
    .counts = lvn_confusion,
    .value = value,
};

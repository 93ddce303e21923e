/* accuracy.c - the share of samples whose label is the likeliest class, from the confusion matrix. */
#include <math.h>

#include "metrics/metric.h"

static double value(const struct lvn_metric_sums *s)
{
    double correct = 0.0, all = 0.0;
    int64_t K = s->shape->dim[0];
    for (int64_t i = 0; i < K * K; i++) {
        all += s->counts[i];
        if (i / K == i % K) correct += s->counts[i];
    }
    return all > 0.0 ? correct / all : NAN;
}

extern const struct lvn_metric lvn_metric_accuracy;
const struct lvn_metric lvn_metric_accuracy = {
    .name = "accuracy",
    .labels = LVN_LABELS_OF(CLASS),
    .higher_is_better = true,
    .counts = lvn_confusion,
    .value = value,
};

/* metric.c - see metric.h: the table of metrics, scores of classes. */
#include "metrics/metric.h"

#include <math.h>

#define LVN_METRIC(name) extern const struct lvn_metric lvn_metric_##name;
#include "metrics/metrics.def"

static const struct lvn_metric *const metrics[] = {
#define LVN_METRIC(name) &lvn_metric_##name,
#include "metrics/metrics.def"
    NULL};

const struct lvn_metric *const *lvn_metrics(void)
{
    return metrics;
}

bool lvn_metric_is_for(const struct lvn_metric *m, enum lvn_label_kind label)
{
    return m->labels >> label & 1;
}

double lvn_metric_of_classes(const struct lvn_metric_sums *s,
                             double (*score)(double correct, double predicted, double actual))
{
    int64_t K = s->shape->dim[0];
    double sum = 0.0, classes = 0.0;
    for (int64_t k = K == 2; k < K; k++) {
        double predicted = 0.0, actual = 0.0;
        for (int64_t i = 0; i < K; i++) {
            predicted += s->counts[i * K + k];
            actual += s->counts[k * K + i];
        }
        if (predicted + actual == 0.0) continue;
        sum += score(s->counts[k * K + k], predicted, actual);
        classes++;
    }
    const double none = K == 2 ? 0.0 : NAN; /* class 1 neither present nor predicted: 0, as in scikit-learn */
    return classes > 0.0 ? sum / classes : none;
}

/* metric.c - the table of metrics. */
#include "metrics/metric.h"

#include <string.h>

#define LVN_METRIC(name) extern const struct lvn_metric lvn_metric_##name;
#include "metrics/metrics.def"
#undef LVN_METRIC

static const struct lvn_metric *const metrics[] = {
#define LVN_METRIC(name) &lvn_metric_##name,
#include "metrics/metrics.def"
#undef LVN_METRIC
    NULL};

const struct lvn_metric *const *lvn_metrics(void)
{
    return metrics;
}

bool lvn_metric_is_for(const struct lvn_metric *m, const char *task)
{
    for (int i = 0; m->tasks[i]; i++)
        if (strcmp(m->tasks[i], task) == 0) return true;
    return false;
}

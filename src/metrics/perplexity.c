/* perplexity.c - the exponential of the mean loss in nats for each token. */
#include <math.h>

#include "metrics/metric.h"

static double value(const struct lvn_metric_sums *s)
{
    return s->labels ? exp(s->loss / (double)s->labels) : NAN;
}

extern const struct lvn_metric lvn_metric_perplexity;
const struct lvn_metric lvn_metric_perplexity = {
    .name = "perplexity",
    .labels = LVN_LABELS_OF(TOKEN),
    .value = value,
};

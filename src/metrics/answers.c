/* answers.c - exact match: the share of samples for which every valid label is the likeliest token.
 *
 * Greedy decoding gives the right answer exactly if each of its tokens is the likeliest after the right tokens before
 * it, so nothing needs to be generated. */
#include <math.h>

#include "metrics/metric.h"

static double value(const struct lvn_metric_sums *s)
{
    return s->counts[1] > 0.0 ? s->counts[0] / s->counts[1] : NAN;
}

extern const struct lvn_metric lvn_metric_answers;
const struct lvn_metric lvn_metric_answers = {
    .name = "accuracy",
    .labels = LVN_LABELS_OF(TOKEN),
    .higher_is_better = true,
    .needs_answers = true,
    .counts = lvn_answers,
    .value = value,
};

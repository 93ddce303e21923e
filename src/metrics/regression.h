/* regression.h - sums over the samples of a task with numbers, for metrics that count by lvn_regression_sums(). */
#ifndef LVN_REGRESSION_H
#define LVN_REGRESSION_H

#include "graph/regression_sums.h"
#include "metrics/metric.h"

struct lvn_regression {
    double n;                                            /* samples */
    long double sum[LVN_SUM_COUNT];                      /* see enum lvn_regression_sum */
    long double residual, spread, of_predictions, joint; /* sums of (p - t)^2, (t - mean t)^2, (p - mean p)^2, and
                                                            (p - mean p)(t - mean t) */
};

/* The same numbers for the same samples, however they were divided over ranks and micro-batches. */
struct lvn_regression lvn_regression_of(const struct lvn_metric_sums *s);

#endif

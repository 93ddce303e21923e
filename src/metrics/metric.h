/* metric.h - how good a prediction is, besides its loss.
 *
 * A metric is one file that ends in a `struct lvn_metric`, and a line in metrics.def; it says which tasks it is for. It
 * is made of the loss, or of counts: a vector of whole numbers that an operation gives for each micro-batch. Whole
 * numbers in F64 add up exactly (below 2^53), in any order, so a metric is the same for every number of ranks and
 * threads and every split into micro-batches. What is no whole number belongs into the loss, whose order of summation
 * is fixed. */
#ifndef LVN_METRIC_H
#define LVN_METRIC_H

#include "graph/graph.h"

/* What was added up, over a batch or over a whole part of the data. */
struct lvn_metric_sums {
    double loss;
    int64_t labels;               /* that the loss counts */
    const double *counts;         /* NULL where the metric has none */
    const struct lvn_desc *shape; /* of those */
};

struct lvn_metric {
    const char *name;         /* accuracy; val_accuracy and train_accuracy in logs */
    const char *const *tasks; /* names of those that it is for; ends with NULL */
    bool higher_is_better;
    bool of_answers; /* only for data whose samples have right answers, and never while training: it reads the whole
                        prediction, which training of language models does not store */
    /* The counts from prediction and label, an operation; metrics that name the same one share it. NULL: the loss is
     * enough. */
    struct lvn_tensor *(*counts)(struct lvn_graph *g, struct lvn_tensor *prediction, struct lvn_tensor *label);
    double (*value)(const struct lvn_metric_sums *s); /* NaN where nothing was counted */
};

/* From a confusion matrix: of two classes the score of class 1, of more the mean over classes of a class's score, which
 * is made of how many samples were rightly taken for it, how many were taken for it, and how many are of it. Classes
 * that nothing is of, and that nothing was taken for, do not count; NaN where all are so. */
double lvn_metric_of_classes(const struct lvn_metric_sums *s,
                             double (*score)(double right, double taken, double there));

/* All of them; ends with NULL. */
const struct lvn_metric *const *lvn_metrics(void);
bool lvn_metric_is_for(const struct lvn_metric *m, const char *task);

#endif

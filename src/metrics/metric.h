/* metric.h - the quality of predictions, measured by more than the loss.
 *
 * A metric is one file that ends in a `struct lvn_metric`, and a line in metrics.def; it names the kinds of labels that
 * it is for. Its value is a function of the loss, or of counts: whole numbers that an operation computes for each
 * micro-batch. Sums of whole numbers in F64 are exact (below 2^53), in any order, so a metric does not depend on the
 * number of ranks, threads and micro-batches. Sums of other numbers belong into the loss, whose order of summation is
 * fixed, or are counted digit by digit (graph/regression_sums.h). Called by tasks/task.h.
 */
#ifndef LVN_METRIC_H
#define LVN_METRIC_H

#include "base/field.h"
#include "graph/graph.h"

/* Sums over a batch or over a whole split of the data. */
struct lvn_metric_sums {
    double loss;
    int64_t labels;               /* number of labels in the loss */
    const double *counts;         /* NULL if the metric has none */
    const struct lvn_desc *shape; /* of `counts` */
};

#define LVN_LABELS_OF(kind) (1U << LVN_LABEL_##kind)

struct lvn_metric {
    const char *name; /* accuracy; val_accuracy and train_accuracy in logs */
    unsigned labels;  /* the kinds of labels that it is for: LVN_LABELS_OF(CLASS), or-ed */
    bool higher_is_better;
    /* Adds the operation that counts, from prediction and label; metrics with the same function share its output. NULL:
     * the loss is enough. */
    struct lvn_tensor *(*counts)(struct lvn_graph *g, struct lvn_tensor *prediction, struct lvn_tensor *label);
    double (*value)(const struct lvn_metric_sums *s); /* NaN if nothing was counted */
};

/* A score from a confusion matrix (K,K; rows: actual class): score(true positives, predicted, actual) of class 1 if K
 * is 2, otherwise the mean over classes ("macro"). Classes neither present nor predicted are skipped; if all are, NaN,
 * or 0 if K is 2. */
double lvn_metric_of_classes(const struct lvn_metric_sums *s,
                             double (*score)(double correct, double predicted, double actual));

/* All of them; ends with NULL. */
const struct lvn_metric *const *lvn_metrics(void);
bool lvn_metric_is_for(const struct lvn_metric *m, enum lvn_label_kind label);

#endif

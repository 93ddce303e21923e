/* metric.h - the quality of predictions, measured by more than the loss.
 *
 * A metric is a function and a row of the table in metric.c, which names the kinds of labels that it is for. Its value
 * is computed from the loss, or from counts: integers that an operation computes for each micro-batch. Sums of integers
 * in F64 are exact (below 2^53), in any order, so a metric does not depend on the number of ranks, threads and
 * micro-batches. Sums of other values belong into the loss, whose order of summation is fixed, or are counted digit by
 * digit (graph/regression_sums.h). Called by tasks/task.h.
 */
#ifndef LVN_METRIC_H
#define LVN_METRIC_H

#include "base/field.h"
#include "graph/graph.h"

/* Sums over the labels that are text, not special tokens: their losses in nats, and their bytes in UTF-8. */
struct lvn_text_sums {
    double loss;
    int64_t bytes;
};

/* Sums over a batch or over a whole split of the data. */
struct lvn_metric_sums {
    double loss;
    int64_t labels;               /* number of labels in the loss */
    struct lvn_text_sums text;    /* for metrics of text */
    const double *counts;         /* NULL if the metric has none */
    const struct lvn_desc *shape; /* of `counts` */
};

struct lvn_metric {
    const char *name; /* accuracy; val_accuracy and train_accuracy in logs */
    unsigned labels;  /* the kinds of labels that it is for: bit 1 << LVN_LABEL_CLASS for classes */
    bool higher_is_better;
    bool of_text; /* needs the bytes of labels (text of struct lvn_field); computed in validations, not in steps */
    /* Add the operation that counts, from prediction and label; metrics with the same function share its output. NULL:
     * the loss is enough. */
    struct levin_tensor *(*counts)(struct levin_graph *g, struct levin_tensor *prediction, struct levin_tensor *label);
    double (*value)(const struct lvn_metric_sums *s); /* NaN if nothing was counted */
};

/* All metrics; the last row has no name. */
extern const struct lvn_metric lvn_metrics[];
bool lvn_metric_is_for(const struct lvn_metric *m, enum lvn_label_kind label);

#endif

/* task.h - what a model learns: from its prediction to a loss and to metrics.
 *
 * A task is one file that ends in a `struct lvn_task`, and a line in tasks.def. It names the field of the data that it
 * learns from and makes the loss of it; the metrics that are meant for it (metrics/metric.h) put their counts beside. A
 * loss is a sum, and what it is a mean over is counted on the host, before the first backward, over all ranks. */
#ifndef LVN_TASK_H
#define LVN_TASK_H

#include "metrics/metric.h"
#include "models/model.h"

struct lvn_task {
    const char *name; /* task.kind */
    const char *what; /* one line for help */
    /* What it learns from; without a name, what the model says its prediction should be. */
    struct lvn_field label;
    /* The sum (1) F64 over what counts; its node's second output is the loss of each label or sample. */
    struct lvn_tensor *(*loss)(struct lvn_graph *g, struct lvn_tensor *prediction, struct lvn_tensor *target);
    bool masks;          /* samples lose some of their tokens, and these are its labels */
    const char *counted; /* what the loss counts, where people count those and not samples: "tokens"; or NULL */
    const char *peft;  /* what PEFT calls it; NULL: it has no word for it, or one that wants the head beside adapters */
    const char *shown; /* what its prediction is called: "logits" */
    int64_t shown_max; /* so many numbers of a prediction are shown, of its last row; 0: all of it */
};

/* By name; NULL with an error recorded when there is none. */
const struct lvn_task *lvn_task_find(const char *name);
/* The one that is asked for by name. For "auto" that of the head the model has, or the model's first; where the data
 * have nothing that it learns from, the first of the model's tasks that learns from what they have. ARG when the model
 * cannot do it. */
enum lvn_status lvn_task_choose(const struct lvn_task **out, const char *name, const struct lvn_model_config *c,
                                const struct lvn_fields *data) LVN_CHECKED;
/* Have the data (`has`: "data.kind=x has") what the model reads for the task, and what that learns from? ARG if not. */
enum lvn_status lvn_task_check(const struct lvn_task *t, const struct lvn_model *m, const struct lvn_fields *data,
                               const char *has) LVN_CHECKED;

enum { LVN_TASK_COUNTS = 4, LVN_TASK_METRICS = 8 };

/* The graph of a task on a model. */
struct lvn_task_graph {
    const struct lvn_task *task; /* NULL: the prediction alone */
    struct lvn_tensor *prediction;
    struct lvn_tensor *loss;                    /* (1) F64: the sum; NULL without a task */
    struct lvn_tensor *losses;                  /* of each label, or of each sample */
    struct lvn_tensor *counts[LVN_TASK_COUNTS]; /* F64, whole numbers: what metrics are made of */
    int n_counts;
    const struct lvn_metric *metrics[LVN_TASK_METRICS];
    int counts_of[LVN_TASK_METRICS]; /* which of `counts` a metric is made of; -1: the loss alone */
    int n_metrics;
    int64_t numbers; /* of a sample's target: what the loss counts where labels cannot say that they do not */
    int label;       /* which of the fields holds the labels; -1: none does */
};

/* For B samples of these fields; without a task (NULL) the prediction alone, with the metrics of answers where the data
 * have those. Fails as the graph did, or when the data have more classes than the model predicts. */
enum lvn_status lvn_task_build(struct lvn_task_graph *out, struct lvn_graph *g, const struct lvn_model_config *c,
                               const struct lvn_task *task, const struct lvn_fields *fields, int64_t B,
                               bool answers) LVN_CHECKED;
/* How many labels (or, without labels, numbers) of a batch the loss counts. */
int64_t lvn_task_count(const struct lvn_task_graph *t, const struct lvn_samples *b);
/* What a sample counts for in rates: its labels where people count those, else 1. */
int64_t lvn_task_length(const struct lvn_task *task, const struct lvn_fields *fields);
/* What that is, in the plural: "tokens", or "samples". */
const char *lvn_task_unit(const struct lvn_task *task);
/* How many numbers the counts of all metrics are together. */
int64_t lvn_task_counts(const struct lvn_task_graph *t);
/* The value of metric i, from the sum of the loss over `labels`, and from all counts, one after the other. */
double lvn_task_metric(const struct lvn_task_graph *t, int i, double loss, int64_t labels, const double *counts);

#endif

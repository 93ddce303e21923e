/* task.h - what a model learns: the loss and the metrics of a prediction.
 *
 * A task is a row of the table in task.c. It names the label field of the data and builds the loss; metrics for the
 * task (metrics/metric.h) add their counts to the graph. A loss is a sum; its divisor is counted on the host, over all
 * ranks, before the first backward. Called by model_io, inference and train. Its callers reduce sums over
 * micro-batches and ranks. */
#ifndef LVN_TASK_H
#define LVN_TASK_H

#include "metrics/metric.h"
#include "models/model.h"

struct lvn_task {
    const char *name; /* task.kind */
    const char *help; /* one line */
    /* The label field of the data, whose kind of label chooses the metrics; without a name: the target is the model's
     * (lvn_model.target). */
    struct lvn_field label;
    /* The sum (1) F64 over all valid labels; the second output of its node is the loss of each label or sample. */
    struct levin_tensor *(*loss)(struct levin_graph *g, struct levin_tensor *prediction, struct levin_tensor *target);
    bool masks;              /* some tokens of each sample are masked, and these are the labels */
    const char *counted;     /* unit in which the loss and rates are counted: "tokens"; NULL: samples */
    const char *peft;        /* PEFT's task_type; NULL: it has none */
    const char *output_name; /* of its prediction: "logits" */
    int64_t max_printed;     /* numbers of a prediction that commands print, from its last row; 0: all */
};

/* All tasks; the last row has no name. */
extern const struct lvn_task lvn_tasks[];
/* By name; NULL with an error recorded if there is none. */
const struct lvn_task *lvn_task_find(const char *name);
/* The first one that learns from labels of this kind, which the data have; NULL: there is none. */
const struct lvn_task *lvn_task_of(enum lvn_label_kind label);
/* The task by name. "auto": the task of the model's head, or else the model's first; if the data lack its labels, the
 * first of the model's tasks whose labels they have. ARG if the model cannot learn the task. */
enum lvn_status lvn_task_choose(const struct lvn_task **out, const char *name, const struct lvn_model_config *c,
                                const struct lvn_fields *data) LVN_CHECKED;
/* ARG if the data (`has`: "data.kind=x has", for messages) lack fields that the model reads, or the task's labels. */
enum lvn_status lvn_task_check(const struct lvn_task *t, const struct lvn_model *m, const struct lvn_fields *data,
                               const char *has) LVN_CHECKED;

enum { LVN_TASK_COUNTS = 4, LVN_TASK_METRICS = 8 };

/* The graph of a task on a model. */
struct lvn_task_graph {
    const struct lvn_task *task; /* NULL: the prediction alone */
    struct levin_tensor *prediction;
    struct levin_tensor *loss;                    /* (1) F64: the sum; NULL without a task */
    struct levin_tensor *losses;                  /* of each label, or of each sample */
    struct levin_tensor *counts[LVN_TASK_COUNTS]; /* F64, whole numbers: inputs of metrics */
    int n_counts;
    const struct lvn_metric *metrics[LVN_TASK_METRICS];
    int counts_of[LVN_TASK_METRICS]; /* index into `counts` for a metric; -1: it needs the loss alone */
    int n_metrics;
    int64_t numbers; /* of a sample's target; the loss counts all of them if the label field has no invalid labels */
    int label;       /* index of the field with the labels; -1: none */
    const struct lvn_token_bytes *text; /* of the labels, if a metric needs it; else NULL */
};

/* Build the graph for B samples of these fields. task NULL: the prediction alone. Returns the graph's error, or ARG if
 * the data have more classes than the model predicts. */
enum lvn_status lvn_task_build(struct lvn_task_graph *out, struct levin_graph *g, const struct lvn_model_config *c,
                               const struct lvn_task *task, const struct lvn_fields *fields, int64_t B) LVN_CHECKED;
/* Number of labels of a batch (without labels: of numbers) that the loss counts: its divisor. */
int64_t lvn_task_count(const struct lvn_task_graph *t, const struct lvn_samples *b);
/* The sums over the labels of a batch that are text. losses(context): those of each label, called only if some valid
 * label is not text; otherwise the loss of text is `loss`, that of all labels. MEMORY if losses() returns NULL. */
enum lvn_status lvn_task_text(const struct lvn_task_graph *t, const struct lvn_samples *b, double loss,
                              const float *(*losses)(void *context), void *context,
                              struct lvn_text_sums *out) LVN_CHECKED;
/* ARG if the labels of a batch for language modeling are the ids at the same positions: predicting them teaches the
 * model nothing. Labels are next tokens; Hugging Face's trainers shift labels themselves. */
enum lvn_status lvn_task_check_shift(const struct lvn_task *t, const struct lvn_samples *b) LVN_CHECKED;
/* Units per sample, for rates: its tokens if the task counts tokens, else 1. */
int64_t lvn_task_length(const struct lvn_task *task, const struct lvn_fields *fields);
/* Name of the unit: "tokens" or "samples". */
const char *lvn_task_unit(const struct lvn_task *task);
/* Total number of elements of all counts. */
int64_t lvn_task_counts(const struct lvn_task_graph *t);
/* The value of metric i. s: without `counts` and `shape`; counts: all counts, concatenated. */
double lvn_task_metric(const struct lvn_task_graph *t, int i, struct lvn_metric_sums s, const double *counts);

#endif

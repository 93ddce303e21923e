/* evaluation.h - loss and metrics of a model on data, with each sample once; its predictions, losses and gradients.
 *
 * `levin evaluate` and `levin predict` call it. For validation during training see train/validation.h. */
#ifndef LVN_EVALUATION_H
#define LVN_EVALUATION_H

#include "data/dataset.h"
#include "options/values.h"
#include "setup/setup.h"
#include "tasks/task.h"

/* One batch of samples after its evaluation. */
struct lvn_evaluated {
    int64_t samples;       /* the other rows of the batch are padding */
    const int64_t *number; /* [samples] index of each in the data */
    const struct lvn_task *task;
    const struct lvn_model_config *config;
    int64_t n_losses;             /* of a sample */
    const float *losses;          /* (samples, n_losses); 0 for labels that do not count */
    const int32_t *labels;        /* (samples, n_losses); negative: does not count; NULL: the task has no labels */
    const struct lvn_desc *shape; /* of the prediction: (batch, ...) */
    const float *prediction;      /* NULL unless requested */
};

struct lvn_ranks;

struct lvn_evaluate_options {
    struct lvn_ranks *ranks; /* batches are divided over them, and each counts once */
    enum lvn_split_id split; /* to evaluate. With ALL each label counts; in others those of whole windows, as in
                              * validation while training */
    int64_t limit;           /* evaluate this many evenly spaced batches; 0: all */
    double fraction;         /* without a limit: evaluate this fraction of them; 0 or 1: all */
    bool prediction;
    const char
        *gradients; /* file for the gradient of the mean loss, in names and layout of the loaded file; NULL: none */
    void (*batch)(void *context, const struct lvn_evaluated *e); /* called after each batch; NULL: none */
    bool
        each_rank; /* call `batch` on every rank, with the batches that it computed; otherwise there must be one rank */
    void *context;
};

struct lvn_evaluate_result {
    const struct lvn_task *task;
    struct lvn_model_config config;
    int64_t columns; /* last dimension of the prediction */
    double loss;     /* mean over labels */
    int64_t labels;  /* number that count */
    int64_t samples;
    int64_t skipped;         /* rows of the data that cannot be used */
    char *skipped_rows;      /* "FILE:LINE: reason\n" of each; NULL: none */
    enum lvn_split_id split; /* that was evaluated */
    const struct lvn_metric *metrics[LVN_TASK_METRICS];
    double value[LVN_TASK_METRICS]; /* of the metrics */
    int n_metrics;
    int64_t classes;   /* of the confusion matrix; 0: the task has none */
    double *confusion; /* (true class, predicted class): counts */
};

/* Evaluate a model on its data; lvn_model_setup_evaluation() opened both. Dropout is off. ARG: the data has no such
 * split. setup->config may change. */
enum lvn_status lvn_evaluate(struct lvn_model_setup *setup, const struct lvn_values *v,
                             const struct lvn_evaluate_options *o, struct lvn_evaluate_result *r) LVN_CHECKED;
void lvn_evaluate_result_release(struct lvn_evaluate_result *r);

#endif

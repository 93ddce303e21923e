/* evaluation.h - a model's loss and metrics on data, each sample once; its predictions, losses and gradients for
 * comparison. */
#ifndef LVN_EVALUATION_H
#define LVN_EVALUATION_H

#include "data/dataset.h"
#include "model_io/model_setup.h"
#include "settings/settings.h"
#include "tasks/task.h"

/* One batch of samples as it was evaluated. */
struct lvn_evaluated {
    int64_t samples;       /* the rest of the batch only fills it up */
    const int64_t *number; /* (samples) which they are of all that the data hold, in their order */
    const struct lvn_task *task;
    const struct lvn_model_config *config;
    int64_t n_losses;             /* of a sample */
    const float *losses;          /* (samples, n_losses); of labels that do not count 0 */
    const int32_t *labels;        /* (samples, n_losses), those that do not count negative; NULL: the task has none */
    const struct lvn_desc *shape; /* of the prediction: (batch, ...) */
    const float *prediction;      /* NULL unless asked for */
};

struct lvn_ranks;

struct lvn_evaluate_options {
    struct lvn_ranks *ranks; /* who takes part: batches are shared out, each counts once */
    int64_t limit;           /* evenly spaced batches of so many; 0: all */
    double share;            /* without a limit: this share of them; 0 or 1: all */
    bool prediction;
    const char *gradients; /* NULL, or a file: the gradient of the mean loss, in names and layout of the loaded file */
    const struct lvn_new_texts *texts;                           /* without labels, in place of the data; NULL: none */
    void (*batch)(void *context, const struct lvn_evaluated *e); /* NULL: nothing */
    void *context;
};

struct lvn_evaluate_result {
    const struct lvn_task *task;
    double loss;    /* mean over what it counts */
    int64_t labels; /* how many those are */
    int64_t samples;
    int64_t skipped;         /* rows of the data that could not be used */
    char *skipped_rows;      /* "FILE:LINE: reason\n" of each; NULL: none */
    enum lvn_split_id split; /* the part that was scored */
    const struct lvn_metric *metrics[LVN_TASK_METRICS];
    double value[LVN_TASK_METRICS];
    int n_metrics;
    int64_t classes;   /* of the confusion matrix; 0: the task has none */
    double *confusion; /* [true][predicted]: the counts that are a matrix */
};

/* Evaluate settings' model.init on the part of the data that data.split says; ARG where there is none such. Of all of
 * it each label counts; of another part those of whole windows, as in validation while training. Dropout is off. */
enum lvn_status lvn_evaluate(const struct lvn_settings *s, const struct lvn_evaluate_options *o,
                             struct lvn_evaluate_result *r) LVN_CHECKED;
void lvn_evaluate_result_release(struct lvn_evaluate_result *r);

#endif

/* evaluate.h - a model's loss on data, each window once; its logits, token losses and gradients for comparison. */
#ifndef LVN_EVALUATE_H
#define LVN_EVALUATE_H

#include "train/settings.h"

/* One batch of windows as it was evaluated. */
struct lvn_evaluated {
    int64_t windows, T, V;
    const int64_t *window; /* [windows] numbers; -1: a row that fills the batch */
    const float *losses;   /* (windows, T); ignored positions 0 */
    const float *logits;   /* (windows, T, V); NULL unless asked for */
};

struct lvn_ranks;

struct lvn_evaluate_options {
    struct lvn_ranks *ranks; /* who takes part: batches are shared out, each counts once */
    int64_t limit;           /* evenly spaced batches of so many; 0: all */
    bool logits;
    const char *gradients; /* NULL, or a file: the gradient of the mean loss, in names and layout of the loaded file */
    void (*batch)(void *context, const struct lvn_evaluated *e); /* NULL: nothing */
    void *context;
};

struct lvn_evaluate_result {
    double loss;    /* mean over the labels that count */
    int64_t tokens; /* how many those are */
    int64_t
        right; /* tasks with answers (the adder): windows whose whole answer greedy decoding would get right; else -1 */
    int64_t windows;
};

/* Evaluate settings' model.init on the validation part of the data, or, where there is none, on all of it. Dropout is
 * off. */
enum lvn_status lvn_evaluate(const struct lvn_settings *s, const struct lvn_evaluate_options *o,
                             struct lvn_evaluate_result *r) LVN_CHECKED;

#endif

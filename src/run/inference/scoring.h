/* scoring.h - log-likelihoods of the items of benchmarks (benchmarks/benchmark.h): the engine of
 * `levin evaluate --tasks`.
 *
 * A run computes one row of up to 2,048 tokens of many items, of whatever task. The tokens that the sequences of an
 * item share are in it once, and so are those that several items share, such as few-shot examples; each token attends
 * to those of its own sequence alone (graph.h, `hidden`). Only tokens before a scored one pass through the head. On
 * devices whose attention cannot hide tokens, each sequence repeats them. Rows are divided over ranks. They are the
 * same ones for any number of ranks, and so are all values. */
#ifndef LVN_SCORING_H
#define LVN_SCORING_H

#include "benchmarks/benchmark.h"
#include "model_io/model_setup.h"
#include "options/options.h"

struct lvn_ranks;
struct lvn_values;

struct lvn_scoring_options {
    const struct lvn_values *values;
    struct lvn_ranks *ranks;
    struct lvn_model_setup *setup; /* of lvn_model_setup_loaded() */
    const struct lvn_texts *tasks; /* paths of task files and folders */
    int64_t limit;                 /* of each task, the first items only; 0: all */
    int64_t n_fewshot;             /* examples before each item; -1: the number in the task's file */
};

struct lvn_scoring_counts {
    int64_t items, sequences;
    int64_t tokens; /* of all sequences */
    int64_t run;    /* tokens that were run, without padding; all ranks */
};

/* Read the tasks and compute their values with the model, on all ranks. UNSUPPORTED: the model is not a
 * decoder. */
enum lvn_status lvn_score(const struct lvn_scoring_options *o, struct lvn_benchmarks *b,
                          struct lvn_scoring_counts *counts) LVN_CHECKED;

#endif

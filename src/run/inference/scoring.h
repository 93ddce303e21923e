/* scoring.h - log-likelihoods of the items of benchmarks (benchmarks/benchmark.h): the engine of
 * `levin evaluate --tasks`.
 *
 * The tokens that the sequences of an item share are run once; their keys and values stay in caches, to which each
 * sequence in turn adds its other tokens. Items of similar lengths, of whatever task, form a batch, and only rows that
 * are scored pass through the head. Batches are divided over ranks. They are the same ones for any number of ranks, and
 * so are all values. */
#ifndef LVN_SCORING_H
#define LVN_SCORING_H

#include "benchmarks/benchmark.h"
#include "model_io/model_setup.h"

struct lvn_ranks;
struct lvn_values;

struct lvn_scoring_options {
    const struct lvn_values *values;
    struct lvn_ranks *ranks;
    const struct lvn_model_setup *setup;                            /* of the model */
    void (*progress)(void *context, int64_t scored, int64_t total); /* items, on this rank; NULL: none */
    void *context;
};

struct lvn_scoring_counts {
    int64_t items, sequences;
    int64_t tokens; /* of all sequences */
    int64_t run;    /* tokens that were run, without padding; all ranks */
};

/* Sets log_likelihood and greedy of all sequences, on all ranks. UNSUPPORTED: the model is no decoder. */
enum lvn_status lvn_score(const struct lvn_scoring_options *o, struct lvn_benchmarks *b,
                          struct lvn_scoring_counts *counts) LVN_CHECKED;

#endif

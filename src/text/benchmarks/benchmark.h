/* benchmark.h - benchmark tasks of language models: items whose answers are scored by their log-likelihood.
 *
 * Two forms of files are read: a task of lm-evaluation-harness as a .yaml file over local .jsonl files
 * (benchmark_harness.c), and a folder in the form of the CORE bundle (benchmark_core.c). Both become items: each item
 * is a list of token sequences that begin with the same tokens, and of each sequence the last tokens are scored.
 * Prompts, few-shot examples, tokens and metrics are those of lm-evaluation-harness 0.4 and of nanochat's core_eval.py.
 * Called by `levin evaluate --tasks`; inference/scoring.h computes the log-likelihoods. Not supported: tasks that
 * generate text. */
#ifndef LVN_BENCHMARK_H
#define LVN_BENCHMARK_H

#include "base/arena.h"
#include "data/codec.h"
#include "formats/json.h"

/* Tokens after the prefix of their item. */
struct lvn_benchmark_sequence {
    const int32_t *token; /* [n]; the first one is context, and is not scored */
    int64_t n;
    int64_t scored;        /* the last tokens, whose log-likelihood counts; fewer than n */
    int64_t chars;         /* of the answer's text, for acc_norm */
    int64_t bytes;         /* the same in UTF-8, for acc_bytes */
    double log_likelihood; /* set by lvn_score() */
    bool greedy;           /* each scored token is the most probable one; only for items that need it */
};

struct lvn_benchmark_item {
    const int32_t *prefix; /* [n_prefix] tokens with which all sequences begin */
    int64_t n_prefix;
    struct lvn_benchmark_sequence *sequence; /* [n] */
    int n;
    int64_t line;        /* of its file, from 1 */
    const int32_t *gold; /* [n_gold] indices of the correct sequences; -1: an answer that is not among them */
    int n_gold;
    int64_t words, bytes; /* of the text of a rolling item */
    bool needs_greedy;    /* `greedy` of its sequences is used */
    bool truncated;       /* tokens at its beginning do not fit into the context and are left out */
    int choice;           /* set by lvn_benchmark_score(): index of the chosen sequence */
    int choice_norm;      /* the same for acc_norm */
    bool correct;         /* the choice is, or the sequence is greedy */
};

enum lvn_benchmark_kind {
    LVN_BENCHMARK_CHOICE,     /* the sequence with the largest log-likelihood is the answer */
    LVN_BENCHMARK_LIKELIHOOD, /* one sequence: its log-likelihood, and whether it is greedy */
    LVN_BENCHMARK_ROLLING,    /* the sequences are windows of one text */
    LVN_BENCHMARK_MEAN,       /* CORE: the sequence with the smallest mean loss is the answer */
    LVN_BENCHMARK_GREEDY,     /* CORE: correct if the sequence is greedy */
};

enum { LVN_BENCHMARK_METRICS = 8 };

struct lvn_benchmark_value {
    const char *metric; /* "acc" */
    double value;
    double stderr_of_mean; /* NaN: not a mean */
};

struct lvn_benchmark {
    const char *name;
    const char *path; /* of the data, for messages */
    enum lvn_benchmark_kind kind;
    int64_t n_fewshot;
    struct lvn_benchmark_item *item; /* [n] */
    int64_t n;
    int64_t truncated; /* items that do not fit into the context */
    bool is_core;      /* a task of a CORE bundle: its score is centered at `baseline` */
    double baseline;   /* accuracy of a random answer, from 0 to 1 */
    struct lvn_benchmark_value value[LVN_BENCHMARK_METRICS];
    int n_values; /* first the names alone; lvn_benchmark_score() sets the values */
};

/* All tasks of a command. Zero is empty. */
struct lvn_benchmarks {
    struct lvn_arena arena;
    struct lvn_benchmark *list;
    int64_t n, capacity;
};
void lvn_benchmarks_release(struct lvn_benchmarks *b);

struct lvn_benchmark_options {
    const struct lvn_codec *codec; /* text to tokens */
    const char *model;             /* its name, for messages */
    int64_t context;               /* tokens that the model reads */
    int64_t limit;                 /* of each task, the first items only; 0: all */
    int64_t n_fewshot;             /* examples before each item; -1: as the task's file says */
};

/* Add the tasks of a .yaml file, or those of a folder with a core.yaml. ARG for files that are wrong, with file and
 * line; UNSUPPORTED names what is left out. */
enum lvn_status lvn_benchmarks_read(struct lvn_benchmarks *b, const struct lvn_benchmark_options *o,
                                    const char *path) LVN_CHECKED;
/* From the log-likelihoods of its items: choices and values. */
void lvn_benchmark_score(struct lvn_benchmark *b);
/* (accuracy - baseline) / (1 - baseline), for a task of a CORE bundle. */
double lvn_benchmark_centered_accuracy(const struct lvn_benchmark *b);
/* The mean of it over the tasks of CORE bundles, of which there are *n; false: none. */
bool lvn_benchmarks_core(const struct lvn_benchmarks *b, double *core, int64_t *n);
/* Results as JSON: the list of all tasks with their values, and item i of a task. Missing members: no memory. */
json_t *lvn_benchmarks_json(const struct lvn_benchmarks *b);
json_t *lvn_benchmark_item_json(const struct lvn_benchmark *b, int64_t i);

#endif

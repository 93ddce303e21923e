/* prompts.h - prompts to the token sequences of an item, with the rules of lm-evaluation-harness and of core_eval.py
 * for tokens at the beginning of a text and at the border of an answer. Called by benchmark_harness.c and
 * benchmark_core.c. */
#ifndef LVN_PROMPTS_H
#define LVN_PROMPTS_H

#include "benchmarks/benchmark.h"
#include "tokenizers/encoder.h"

enum { LVN_PROMPT_SEQUENCES = 256 }; /* of an item */

/* Encodes for one command. */
struct lvn_prompts {
    const struct lvn_benchmark_options *o;
    struct lvn_arena arena;
    struct lvn_encoder *encoder; /* NULL: a vocabulary of characters */
    int32_t start;               /* token that begins a text; -1: there is none */
    const char *start_text;      /* its text; NULL: none */
    struct lvn_ids scratch;
    /* The item that is being made. */
    const char *path; /* of its file, and its line */
    int64_t line;
    struct lvn_ids ids[LVN_PROMPT_SEQUENCES]; /* of its sequences */
    int64_t scored[LVN_PROMPT_SEQUENCES];
    int n;
};

enum lvn_status lvn_prompts_open(struct lvn_prompts *p, const struct lvn_benchmark_options *o) LVN_CHECKED;
void lvn_prompts_close(struct lvn_prompts *p);
/* Bytes of white space at the beginning of a text, and of the text without that at its end; as Python's strip(). */
int64_t lvn_prompt_space(const char *text, int64_t n);
int64_t lvn_prompt_stripped(const char *text, int64_t n);
/* Begin an item of this line. */
void lvn_prompts_begin(struct lvn_prompts *p, const char *path, int64_t line);

/* Add a sequence: an answer after a context, encoded as lm-evaluation-harness does: spaces at the end of the context
 * count as part of the answer, and an answer without a context follows the token that begins a text. */
enum lvn_status lvn_prompts_pair(struct lvn_prompts *p, const char *context, const char *answer) LVN_CHECKED;
/* Add the sequences of a text that is scored as a whole, in disjoint windows of the context's length. */
enum lvn_status lvn_prompts_windows(struct lvn_prompts *p, const char *text) LVN_CHECKED;
/* Add a sequence after the token that begins a text; the caller sets p->scored[]. */
enum lvn_status lvn_prompts_whole(struct lvn_prompts *p, const char *text, int64_t bytes) LVN_CHECKED;
/* Make the item of the sequences. Those that have more than `most` tokens lose their first ones. */
enum lvn_status lvn_prompts_item(struct lvn_prompts *p, struct lvn_arena *a, int64_t most,
                                 struct lvn_benchmark_item *out) LVN_CHECKED;

#endif

/* word_count.h - how often each word occurs in a text, counted by many threads.
 *
 * Words are the pieces that normalizers and pre-tokenizers make of each line with its end. */
#ifndef LVN_WORD_COUNT_H
#define LVN_WORD_COUNT_H

#include "tokenizers/normalizer.h"
#include "tokenizers/pre_tokenizer.h"

struct lvn_word {
    const char *text;
    uint32_t bytes, hash;
    int64_t count;
};

/* All zero is empty. */
struct lvn_word_counts {
    struct lvn_arena arena; /* of the texts */
    struct lvn_word *slot;  /* open addressing; text NULL: free */
    int64_t n, capacity;
    char *block; /* what is left of the piece of the arena at hand */
    int64_t left;
};
void lvn_word_counts_release(struct lvn_word_counts *w);

struct lvn_word_rules {
    struct lvn_normal_steps normal;
    struct lvn_pre_step pre; /* BERT's words, or tiles */
};
/* Add the words of whole lines to words[0..n_threads), a thread each. */
enum lvn_status lvn_word_counts_count(const struct lvn_word_rules *rules, const char *text, int64_t bytes,
                                      int n_threads, struct lvn_word_counts *words) LVN_CHECKED;
/* All of them into the first; the others are empty then. */
enum lvn_status lvn_word_counts_join(struct lvn_word_counts *words, int n_threads) LVN_CHECKED;

#endif

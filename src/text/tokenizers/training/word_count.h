/* word_count.h - counts the words of a text with several threads. Called by bpe_trainer.c.
 *
 * Words are the pieces of each line (with its line end) after normalizer and pre-tokenizer, or of a whole text. */
#ifndef LVN_WORD_COUNT_H
#define LVN_WORD_COUNT_H

#include "tokenizers/normalizer.h"
#include "tokenizers/pre_tokenizer.h"

struct lvn_counted_word {
    const char *text;
    uint32_t bytes;
    uint32_t hash;
    int64_t count;
};

/* All zero is empty. */
struct lvn_word_counts {
    struct lvn_arena arena;        /* of the texts */
    struct lvn_counted_word *slot; /* open addressing; text NULL: free */
    int64_t n;                     /* words */
    int64_t capacity;              /* slots */
    char *block;                   /* free part of the current block of the arena */
    int64_t left;                  /* bytes of it */
};
void lvn_word_counts_release(struct lvn_word_counts *w);

struct lvn_word_rules {
    struct lvn_normalizer normalizer;
    struct lvn_pre_tokenizer_step pre_tokenizer;
    bool across_lines; /* a word may continue on the next line */
};
/* A byte between two texts, which is in no UTF-8. */
#define LVN_WORDS_END '\xff'
/* Add the words of whole lines, or of texts that LVN_WORDS_END separates, to words[n_threads], one for each thread. */
enum lvn_status lvn_word_counts_count(const struct lvn_word_rules *rules, const char *text, int64_t bytes,
                                      int n_threads, struct lvn_word_counts *words) LVN_CHECKED;
/* Move all counts into the first; the others are then empty. */
enum lvn_status lvn_word_counts_join(struct lvn_word_counts *words, int n_threads) LVN_CHECKED;

#endif

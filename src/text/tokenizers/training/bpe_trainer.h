/* bpe_trainer.h - trains a vocabulary on text: byte-level BPE like GPT-2's, or WordPiece like BERT's. Called by
 * `levin tokenizer`.
 *
 * Words are counted; then, repeatedly, the most frequent pair of neighbors becomes one token (of equal pairs the one
 * with the lowest ids). Rules, their order and special cases are those of Hugging Face's trainers, so the same text
 * gives the same vocabulary, except that their ids of WordPiece's "##x" are in random order, and here ascending.
 * Sennrich, Haddow, Birch: "Neural machine translation of rare words with subword units", 2016. */
#ifndef LVN_BPE_TRAINER_H
#define LVN_BPE_TRAINER_H

#include "tokenizers/training/word_count.h"

struct lvn_vocabulary_options {
    bool wordpiece;         /* else byte-level BPE */
    bool lowercase;         /* WordPiece: lower case without accents */
    int64_t size;           /* number of tokens, including the special ones and the alphabet */
    int64_t min_frequency;  /* of a pair that becomes a token */
    int64_t limit_alphabet; /* WordPiece: the most frequent characters only; 0: all */
    const char *pattern;    /* BPE: expression whose matches are the words, across lines; NULL: GPT-2's, line by line */
    /* BPE: special tokens, which get the last ids; the first ids are the bytes by their values, as in tiktoken's and
     * rustbpe's files. n_special 0: GPT-2's special token is id 0, and bytes are in the order of its alphabet. */
    const char *const *special;
    int n_special;
    int threads;
};

struct lvn_vocabulary_token {
    const char *text; /* BPE: bytes; WordPiece: UTF-8, with the prefix ## if it continues a word */
    int64_t bytes;
};
/* The merge of two tokens. */
struct lvn_vocabulary_merge {
    int32_t left;
    int32_t right;
};

struct lvn_vocabulary {
    struct lvn_vocabulary_options o;
    struct lvn_word_rules rules;
    struct lvn_word_counts *words; /* [threads] */
    struct lvn_arena arena;
    struct lvn_vocabulary_token *token;
    int64_t n; /* tokens */
    int64_t capacity;
    int64_t special; /* id of the first special token */
    int n_special;
    struct lvn_vocabulary_merge *merge;
    int64_t n_merges;
    int64_t merge_capacity;
    int32_t *slot; /* tokens by text: open addressing, -1 free */
    int64_t n_slots;
};

enum lvn_status lvn_vocabulary_open(struct lvn_vocabulary *v, const struct lvn_vocabulary_options *o) LVN_CHECKED;
void lvn_vocabulary_close(struct lvn_vocabulary *v);
/* Count the words of whole lines. LVN_WORDS_END between two texts ends a word. */
enum lvn_status lvn_vocabulary_count(struct lvn_vocabulary *v, const char *text, int64_t bytes) LVN_CHECKED;
/* Make the tokens. LVN_ARG if the alphabet alone is larger than the size, LVN_FORMAT if there are no words. */
enum lvn_status lvn_vocabulary_make(struct lvn_vocabulary *v) LVN_CHECKED;
/* Write a folder for Hugging Face's AutoTokenizer: tokenizer.json, tokenizer_config.json, and vocab.txt or vocab.json
 * with merges.txt. */
enum lvn_status lvn_vocabulary_save(const struct lvn_vocabulary *v, const char *dir) LVN_CHECKED;
/* The id of a token by its text, -1: none. */
int32_t lvn_vocabulary_find(const struct lvn_vocabulary *v, const char *text, int64_t bytes);

#endif

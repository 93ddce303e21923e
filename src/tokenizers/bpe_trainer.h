/* bpe_trainer.h - a vocabulary from text: byte-level BPE as GPT-2's, WordPiece as BERT's.
 *
 * Words are counted, then again and again the neighbours that occur most often become one token, of equals the pair
 * with the lowest ids. The rules, their order and what happens in odd cases are those of Hugging Face's trainers, so
 * that the same text gives the same vocabulary; in WordPiece its ids of "##x" hang on chance, here they ascend.
 * Sennrich, Haddow, Birch: Neural machine translation of rare words with subword units. */
#ifndef LVN_BPE_TRAINER_H
#define LVN_BPE_TRAINER_H

#include "tokenizers/word_count.h"

struct lvn_vocabulary_options {
    bool wordpiece;         /* else byte-level BPE */
    bool lowercase;         /* WordPiece: small letters without accents */
    int64_t size;           /* tokens wanted, the special ones and the alphabet among them */
    int64_t min_frequency;  /* of a pair that becomes a token */
    int64_t limit_alphabet; /* WordPiece: the most frequent characters only; 0: all */
    int threads;
};

struct lvn_vocabulary_token {
    const char *text; /* BPE: bytes; WordPiece: UTF-8, with ## in front where it goes on within a word */
    int64_t bytes;
};
/* The merge of two tokens. */
struct lvn_vocabulary_merge {
    int32_t left, right;
};

struct lvn_vocabulary {
    struct lvn_vocabulary_options o;
    struct lvn_word_rules rules;
    struct lvn_word_counts *words; /* [threads] */
    struct lvn_arena arena;
    struct lvn_vocabulary_token *token;
    int64_t n, capacity;
    int n_special; /* the first tokens */
    struct lvn_vocabulary_merge *merge;
    int64_t n_merges, merge_capacity;
    int32_t *slot; /* tokens by text: open addressing, -1 free */
    int64_t n_slots;
};

enum lvn_status lvn_vocabulary_open(struct lvn_vocabulary *v, const struct lvn_vocabulary_options *o) LVN_CHECKED;
void lvn_vocabulary_close(struct lvn_vocabulary *v);
/* Count the words of whole lines. */
enum lvn_status lvn_vocabulary_count(struct lvn_vocabulary *v, const char *text, int64_t bytes) LVN_CHECKED;
/* Make the tokens. LVN_ARG where the alphabet alone is larger than the size, LVN_FORMAT where there are no words. */
enum lvn_status lvn_vocabulary_make(struct lvn_vocabulary *v) LVN_CHECKED;
/* Write the folder that Hugging Face's AutoTokenizer reads: tokenizer.json, tokenizer_config.json, and vocab.txt or
 * vocab.json with merges.txt. */
enum lvn_status lvn_vocabulary_save(const struct lvn_vocabulary *v, const char *dir) LVN_CHECKED;

/* The id of a token by its text, -1: there is none; and one more, unless it is there. */
int32_t lvn_vocabulary_find(const struct lvn_vocabulary *v, const char *text, int64_t bytes);
enum lvn_status lvn_vocabulary_add(struct lvn_vocabulary *v, const char *text, int64_t bytes, int32_t *id) LVN_CHECKED;
/* bpe_trainer_merge.c: merges of the words until the vocabulary is as large as wanted. */
enum lvn_status lvn_vocabulary_merges(struct lvn_vocabulary *v) LVN_CHECKED;

#endif

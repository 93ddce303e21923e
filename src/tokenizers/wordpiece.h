/* wordpiece.h - BERT's tokens: each word into the longest known pieces.
 *
 * A piece that goes on within a word is written "##piece" in the vocabulary. A word that cannot be put together, or is
 * too long, is [UNK]. Devlin, Chang, Lee, Toutanova: BERT, 2018. */
#ifndef LVN_WORDPIECE_H
#define LVN_WORDPIECE_H

#include "tokenizers/tokenizer.h"

struct lvn_wordpiece {
    const char *inner; /* "##" */
    int64_t n_inner;
    int64_t longest;       /* of a word, in characters */
    int64_t longest_token; /* in bytes */
    struct lvn_token_index index;
};

/* Make t->wordpiece of the tokens that t has; `unknown` is the name of [UNK]. LVN_FORMAT where it has none. */
enum lvn_status lvn_wordpiece_new(struct lvn_tokenizer *t, const char *name, const char *inner, int64_t longest,
                                  const char *unknown) LVN_CHECKED;
/* The tokens of a word at out[0..n), where there is room for n; how many. */
int64_t lvn_wordpiece_word(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n, int32_t *out);

/* vocab.txt: a token a line, its number is its id. `config`: tokenizer_config.json, NULL: there is none. */
enum lvn_status lvn_load_wordpiece(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes,
                                   const char *config_name, const char *config, int64_t config_bytes) LVN_CHECKED;

#endif

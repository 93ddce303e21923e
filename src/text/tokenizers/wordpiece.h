/* wordpiece.h - the WordPiece model: splits each word greedily into the longest tokens. Called by encoder.c and
 * tokenizer.c.
 *
 * A token that continues a word is "##token" in the vocabulary. A word that cannot be split into tokens, or is too
 * long, becomes [UNK]. (Devlin, Chang, Lee, Toutanova: "BERT", 2018.) */
#ifndef LVN_WORDPIECE_H
#define LVN_WORDPIECE_H

#include "tokenizers/tokenizer.h"

struct lvn_wordpiece {
    const char *prefix; /* of tokens that continue a word: "##" */
    int64_t n_prefix;
    int64_t max_word;  /* longest word, in characters */
    int64_t max_token; /* longest token, in bytes */
    struct lvn_token_index index;
};

/* Set t->wordpiece from the tokens of t; `unknown`: the text of [UNK]. LVN_FORMAT if there is no such token. */
enum lvn_status lvn_wordpiece_new(struct lvn_tokenizer *t, const char *name, const char *prefix, int64_t max_word,
                                  const char *unknown) LVN_CHECKED;
/* Write the tokens of a word of n bytes to out, whose capacity must be n. Returns their number. */
int64_t lvn_wordpiece_word(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n, int32_t *out);

#endif

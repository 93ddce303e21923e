/* wordpiece.h - BERT's tokens: words cut at white space and punctuation, and each word into the longest known pieces.
 *
 * Text is cleaned (control characters go), Chinese characters stand alone, letters are made small and lose their
 * accents where the model wants that. A piece that goes on within a word is written "##piece" in the vocabulary. A word
 * that cannot be put together, or of more than 100 characters, is [UNK]. Devlin, Chang, Lee, Toutanova: BERT, 2018. */
#ifndef LVN_WORDPIECE_H
#define LVN_WORDPIECE_H

#include "tokenizers/tokenizer.h"

struct lvn_wordpiece {
    bool lower, strip, chinese; /* small letters, no accents, Chinese characters alone */
    int32_t unknown;            /* the id of [UNK] */
    int32_t *slot;              /* ids by hash, -1 free */
    uint64_t mask;
};

/* vocab.txt: a token a line, its number is its id. `config`: tokenizer_config.json, NULL: there is none. */
enum lvn_status lvn_load_wordpiece(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes,
                                   const char *config_name, const char *config, int64_t config_bytes) LVN_CHECKED;
/* Put a token into the index: for load_wordpiece.c. */
void lvn_wordpiece_index(const struct lvn_tokenizer *t, struct lvn_wordpiece *w, int32_t id);
/* Append the ids of a text. */
enum lvn_status lvn_wordpiece_encode(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n,
                                     struct lvn_ids *ids) LVN_CHECKED;
/* Append tokens to a text: words with a blank before them, "##pieces" without. */
void lvn_wordpiece_decode(const struct lvn_tokenizer *t, int32_t id, struct lvn_text *out);

#endif

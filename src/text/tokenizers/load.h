/* load.h - functions that the readers of tokenizer files share: tokens, index, files; for src/text/tokenizers alone. */
#ifndef LVN_LOAD_H
#define LVN_LOAD_H

#include "formats/json.h"
#include "tokenizers/token_map.h"
#include "tokenizers/tokenizer.h"

/* The alphabet of byte-level BPE writes each byte as one printable character, so that tokens are text in JSON files.
 * Returns the byte of a code point of the alphabet (all are below LVN_ALPHABET), -1 for others; and the code point of a
 * byte. */
enum { LVN_ALPHABET = 0x144 };
int lvn_alphabet_byte(int32_t code);
int32_t lvn_alphabet_code(int byte);

/* Set t->n, t->byte, t->start, t->in_model, t->sum from the vocabulary and the added tokens; with t->model
 * LVN_TOKENIZER_BYTES also the ids of single bytes. */
enum lvn_status lvn_load_tokens(struct lvn_tokenizer *t, const struct lvn_token_map *map) LVN_CHECKED;
/* The same from a list of n tokens by id, and the added tokens. name: of the file, for messages. */
enum lvn_status lvn_load_list(struct lvn_tokenizer *t, const char *name, const struct lvn_raw_token *list,
                              int64_t n) LVN_CHECKED;
/* Set t->sum from t->byte and t->start. */
void lvn_load_sum(struct lvn_tokenizer *t);
/* Encode a text that the pre-tokenizers leave whole, as SentencePiece's files do, word by word if its ids stay the
 * same. */
void lvn_load_split_words(struct lvn_tokenizer *t);
/* Set t->index to the model's tokens, and t->fallback. */
enum lvn_status lvn_load_index(struct lvn_tokenizer *t) LVN_CHECKED;
/* The id of the model's token with this text; -1: none. */
int32_t lvn_token_index_find(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n);
/* Add a file to those of which copies of the tokenizer consist. `text` must outlive the tokenizer. */
void lvn_load_add_file(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes);

/* Copy a text into the arena. */
enum lvn_status lvn_load_text(struct lvn_arena *a, const char *text, const char **out, int64_t *n) LVN_CHECKED;
/* The `pattern` of a normalizer or pre-tokenizer, {"String": ..} or {"Regex": ..}: its text, or *expression, which is
 * NULL for a text. */
enum lvn_status lvn_load_pattern(struct lvn_arena *a, const char *name, const json_t *object, const char **text,
                                 int64_t *n, const char **expression) LVN_CHECKED;
/* Read the contents of a tokenizer.json, or of a vocabulary with its merges; the texts must outlive the tokenizer. */
enum lvn_status lvn_load_json(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes) LVN_CHECKED;
enum lvn_status lvn_load_merges(struct lvn_tokenizer *t, const char *vocab_name, const char *vocab, int64_t vocab_bytes,
                                const char *merges_name, const char *merges, int64_t merges_bytes) LVN_CHECKED;
/* FORMAT if no merge makes a token of a vocabulary with merges, because merges are missing. Single bytes, added tokens
 * and names in brackets need no merge. */
enum lvn_status lvn_load_check_merges(const struct lvn_tokenizer *t) LVN_CHECKED;
/* Read vocab.txt: one token per line, whose number is the id. config: tokenizer_config.json, NULL: none. */
enum lvn_status lvn_load_wordpiece(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes,
                                   const char *config_name, const char *config, int64_t config_bytes) LVN_CHECKED;

#endif

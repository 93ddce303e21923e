/* load.h - what the readers of tokenizer files share; for src/tokenizers alone. */
#ifndef LVN_LOAD_H
#define LVN_LOAD_H

#include "formats/json.h"
#include "tokenizers/token_map.h"
#include "tokenizers/tokenizer.h"

/* Byte-level BPE writes each byte as one printable character, so that tokens are text in JSON files. The byte of a
 * code point of that alphabet, which lies below LVN_ALPHABET; -1: it is not in it. And the code point of a byte. */
enum { LVN_ALPHABET = 0x144 };
int lvn_alphabet_byte(int32_t code);
int32_t lvn_alphabet_code(int byte);

/* Make t->n, t->byte, t->start, t->own, t->sum of the vocabulary and the added tokens; with t->model LVN_MODEL_BYTES
 * also the ids of single bytes. */
enum lvn_status lvn_load_tokens(struct lvn_tokenizer *t, const struct lvn_token_map *map) LVN_CHECKED;
/* The same of a list of n tokens, which the added ones join; for models without an alphabet. `name` is the file's, for
 * messages. */
enum lvn_status lvn_load_list(struct lvn_tokenizer *t, const char *name, const struct lvn_written *list,
                              int64_t n) LVN_CHECKED;
/* Make t->index of the model's tokens; the ids of what fallback to bytes writes. */
enum lvn_status lvn_load_index(struct lvn_tokenizer *t) LVN_CHECKED;
/* The id of the model's token with this text; -1: there is none. */
int32_t lvn_token_index_find(const struct lvn_tokenizer *t, const uint8_t *p, int64_t n);
/* The text of a file, which must outlive the tokenizer, under the name it shall have in copies of that. */
void lvn_load_keep(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes);

/* post_processor.c: the "post_processor"; [CLS] and [SEP] without a file. */
enum lvn_status lvn_post_processor_read(struct lvn_tokenizer *t, const char *name, const json_t *object) LVN_CHECKED;
void lvn_post_processor_bert(struct lvn_tokenizer *t, int32_t first, int32_t last, bool doubled, bool typed);
/* decoder.c: the "decoder", which makes t->shown; of WordPiece without a file. */
enum lvn_status lvn_decoder_read(struct lvn_tokenizer *t, const char *name, const json_t *object) LVN_CHECKED;
enum lvn_status lvn_decoder_wordpiece(struct lvn_tokenizer *t) LVN_CHECKED;

/* Make t->before and t->after from t->added; tokens to be looked for in normalized text are normalized. */
enum lvn_status lvn_added_sets(struct lvn_tokenizer *t) LVN_CHECKED;

/* The contents of a tokenizer.json, or of a vocabulary with its merges; the texts must outlive the tokenizer. */
enum lvn_status lvn_load_json(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes) LVN_CHECKED;
enum lvn_status lvn_load_merges(struct lvn_tokenizer *t, const char *vocab_name, const char *vocab, int64_t vocab_bytes,
                                const char *merges_name, const char *merges, int64_t merges_bytes) LVN_CHECKED;

#endif

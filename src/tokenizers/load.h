/* load.h - what the readers of tokenizer files share; for src/tokenizers alone. */
#ifndef LVN_LOAD_H
#define LVN_LOAD_H

#include "formats/json.h"
#include "tokenizers/tokenizer.h"

/* All tokens of `vocab` ({"token": id}) and the added ones: t->n, t->byte, t->start and the ids of single bytes. `name`
 * is the file's, for messages. */
enum lvn_status lvn_load_tokens(struct lvn_tokenizer *t, const char *name, const json_t *vocab) LVN_CHECKED;
/* The merge of two tokens of `vocab`, as written in `name`, entry `line`. */
enum lvn_status lvn_load_merge(struct lvn_tokenizer *t, const char *name, int64_t line, const json_t *vocab,
                               const char *left, size_t n_left, const char *right, size_t n_right) LVN_CHECKED;
/* Make t->whole. */
enum lvn_status lvn_load_whole(struct lvn_tokenizer *t, const char *name, const json_t *vocab) LVN_CHECKED;
/* Keep a copy of a file under the name it shall have in copies of the tokenizer. */
enum lvn_status lvn_load_keep(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes) LVN_CHECKED;

/* Make t->before and t->after from t->added. */
enum lvn_status lvn_added_sets(struct lvn_tokenizer *t) LVN_CHECKED;

/* The contents of a tokenizer.json, or of a vocabulary with its merges. */
enum lvn_status lvn_load_json(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes) LVN_CHECKED;
enum lvn_status lvn_load_merges(struct lvn_tokenizer *t, const char *vocab_name, const char *vocab, int64_t vocab_bytes,
                                const char *merges_name, const char *merges, int64_t merges_bytes) LVN_CHECKED;

#endif

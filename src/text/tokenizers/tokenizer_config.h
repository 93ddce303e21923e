/* tokenizer_config.h - tokenizer_config.json, special_tokens_map.json and added_tokens.json, which belong to the files
 * of a vocabulary; for tokenizer.c and tests.
 *
 * They add tokens, name the special ones, and change how some classes of transformers encode text. Each key of
 * tokenizer_config.json is a row of a table: read, compared (a value that transformers obeys and levin does not is a
 * warning), or without effect. Where versions of transformers differ, levin follows version 5. chat/chat.c
 * reads chat templates. */
#ifndef LVN_TOKENIZER_CONFIG_H
#define LVN_TOKENIZER_CONFIG_H

#include "formats/json.h"
#include "tokenizers/tokenizer.h"

/* Apply those of these files that `t` has (t->file). dir: their folder, for messages. */
enum lvn_status lvn_tokenizer_config_apply(struct lvn_tokenizer *t, const char *dir) LVN_CHECKED;
/* Add special tokens, `list` as "a, b", with the next free ids, also to the files for copies: to the added tokens of
 * tokenizer.json, else to additional_special_tokens. Call it before encoders are made. ARG: a token exists already. */
enum lvn_status lvn_tokenizer_config_add(struct lvn_tokenizer *t, const char *list) LVN_CHECKED;
/* The tokens that the files name, {"eos_token": "</s>", ...}, as in transformers. Free *out with json_decref(), also
 * after a failure. */
enum lvn_status lvn_tokenizer_named(const struct lvn_tokenizer *t, json_t **out) LVN_CHECKED;
/* The id of one of them; -1: none. */
int32_t lvn_tokenizer_named_id(const struct lvn_tokenizer *t, const json_t *tokens, const char *key);
/* Is it a key of the table, or the name of a token? */
bool lvn_tokenizer_config_knows(const char *key);

#endif

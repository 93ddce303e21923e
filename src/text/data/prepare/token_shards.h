/* token_shards.h - cuts a complete token file into shards, train-00000.bin and so on. Called by the writers of
 * `levin prepare --shard-size`. data/sources/shard_list.h reads shards. */
#ifndef LVN_TOKEN_SHARDS_H
#define LVN_TOKEN_SHARDS_H

#include <jansson.h>

#include "data/dataset.h"

enum { LVN_TOKEN_SHARDS_MAX = 100000 }; /* five digits, so that names sort like numbers */

/* Number of shards of a split with `tokens` tokens; 0: it stays one file, because shard_tokens is 0 or not exceeded. */
int64_t lvn_token_shards_count(int64_t tokens, int64_t shard_tokens);
/* ARG if there would be more than LVN_TOKEN_SHARDS_MAX shards. */
enum lvn_status lvn_token_shards_check(int64_t tokens, int64_t shard_tokens) LVN_CHECKED;
/* Add "shards" and "shard_tokens" to a sidecar, if there are shards. */
void lvn_token_shards_describe(json_t *root, int64_t tokens, int64_t shard_tokens);
/* Remove what earlier preparations left of a split in a local folder: train.bin if shards replace it, and shards that
 * are not among the new ones. */
enum lvn_status lvn_token_shards_remove_others(const char *out, enum lvn_split_id split, int64_t tokens,
                                               int64_t shard_tokens) LVN_CHECKED;
/* Rename the file `part`, which has this split's tokens, to `bin`, or cut it into shards, starting at its end, so that
 * the disk holds at most one shard twice. Each shard appears complete. After an interruption the same call continues;
 * the file then has fewer tokens. */
enum lvn_status lvn_token_shards_finish(const char *out, enum lvn_split_id split, const char *part, const char *bin,
                                        int width, int64_t tokens, int64_t shard_tokens) LVN_CHECKED;
/* "train.bin", or "train-00000.bin ... train-00011.bin". */
const char *lvn_token_shards_text(enum lvn_split_id split, int64_t tokens, int64_t shard_tokens, char text[64]);

#endif

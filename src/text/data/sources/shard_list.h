/* shard_list.h - a split of token ids in several files, the shards. They are read as one stream, the file that they
 * would form one after the other.
 *
 * Called by tokens.c, which finds and describes the files, and by dataset.c, which reads tokens. Shards are opened when
 * they are read; at most LVN_SHARDS_OPEN of a split are open at a time, those that were read last. They are not mapped,
 * so a file that is truncated during a run is an error and no signal.
 *
 * Shards of a store (data.stream) are downloaded into the cache of stores/cache.h while they are open, at most
 * LVN_SHARDS_STREAMED of them; until a download is complete, windows are read by range requests. A shard that is closed
 * may be evicted. */
#ifndef LVN_SHARD_LIST_H
#define LVN_SHARD_LIST_H

#include "base/arena.h"
#include "stores/store.h"

enum { LVN_SHARDS_OPEN = 64, LVN_SHARDS_STREAMED = 6 };

struct lvn_shard_file {
    const char *path; /* or address in a store */
    int64_t bytes;    /* of the file */
    int64_t header;   /* bytes before its tokens */
    int64_t first;    /* position of its first token in the stream */
    const char *bad;  /* why it is damaged, which data.skip_bad_shards permits; NULL: not known to be */
};

struct lvn_shard_list;
/* Copy the list, in the order of the stream, and set `first` of each. width: bytes of a token, 2 or 4. ARG if shards
 * of a store do not fit into the cache. */
enum lvn_status lvn_shard_list_open(struct lvn_shard_list **out, const struct lvn_shard_file *shard, int64_t n,
                                    int width) LVN_CHECKED;
void lvn_shard_list_close(struct lvn_shard_list *s); /* NULL: nothing */
int64_t lvn_shard_list_tokens(const struct lvn_shard_list *s);
/* Read tokens [at, at + n) of the stream, which exist, as they are stored. Thread-safe. IO if a file cannot be read or
 * has changed its size. */
enum lvn_status lvn_shard_list_read(struct lvn_shard_list *s, int64_t at, int64_t n, void *to) LVN_CHECKED;
/* Are the shards in a store? Then windows should be read shard by shard. */
bool lvn_shard_list_streams(const struct lvn_shard_list *s);
/* Tokens of the largest shard. */
int64_t lvn_shard_list_largest(const struct lvn_shard_list *s);
/* Tokens [at, at + n), as far as they exist, will be read soon: opens their shards. What fails is left to the reading.
 */
void lvn_shard_list_prefetch(struct lvn_shard_list *s, int64_t at, int64_t n);
/* The shard that has this token of the stream. */
const struct lvn_shard_file *lvn_shard_list_at(const struct lvn_shard_list *s, int64_t at);
/* A checksum of the shards' names (without their folder) and sizes. */
uint64_t lvn_shard_list_sum(const struct lvn_shard_list *s);

/* data.skip_bad_shards: from now on windows of damaged shards are replaced. A shard is damaged if its size or header is
 * wrong or it has an id that is not below id_limit; it is read once in full for that when it is first needed. So the
 * verdict depends on the file alone, and all ranks and resumed runs agree. */
void lvn_shard_list_skip_bad(struct lvn_shard_list *s, int64_t id_limit);
bool lvn_shard_list_skips(const struct lvn_shard_list *s);
/* *out: `at`, if the shards of tokens [at, at + n) are good, else a position in the next good shard with n tokens.
 * FORMAT if there is none; IO if a file cannot be read, which is no damage. */
enum lvn_status lvn_shard_list_window(struct lvn_shard_list *s, int64_t at, int64_t n, int64_t *out) LVN_CHECKED;
/* A damaged shard that has been found. */
struct lvn_bad_shard {
    const char *path, *reason;
    int64_t tokens;
};
/* The k-th one in the order in which they were found; false: there are fewer. */
bool lvn_shard_list_bad(struct lvn_shard_list *s, int64_t k, struct lvn_bad_shard *out);
/* Mark a shard, by its file name, as damaged; does nothing if there is no such shard. */
void lvn_shard_list_mark(struct lvn_shard_list *s, const char *name, const char *reason);

/* The part of a data set whose files are named like this: 0, 1 or 2 for train-*.bin, val-*.bin and test-*.bin, also
 * PREFIX_train_*.bin and PREFIX_train.bin; -1: none. *prefix: bytes of the name that the shards of one data set share.
 * train.bin itself is no shard. */
int lvn_shard_file_split(const char *name, int64_t *prefix);
/* The shards of a part in a folder's listing, in the arena. FORMAT if two data sets are in the folder; WARN in the log
 * if a number is missing. */
enum lvn_status lvn_shard_list_find(struct lvn_arena *a, const char *folder, const struct lvn_store_entries *files,
                                    int split, struct lvn_shard_file **out, int64_t *n) LVN_CHECKED;

#endif

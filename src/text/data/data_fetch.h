/* data_fetch.h - downloads data from a store. Called by lvn_dataset_open(). See stores/store.h for stores. */
#ifndef LVN_DATA_FETCH_H
#define LVN_DATA_FETCH_H

#include "base/arena.h"

/* The local path, in the arena, of a text, a .bin file or a folder of token files; a path that is no URL is returned
 * unchanged. FILE.bin.json and the tokenizer's files of a .bin file are downloaded, too. */
enum lvn_status lvn_data_fetch(struct lvn_arena *a, const char *path, const char **local) LVN_CHECKED;

struct lvn_streaming_file;
/* The same for token files whose training split is read during its download: *stream reads it, and *local is its path
 * when complete; all other files are downloaded first. *stream is NULL for a file that is local or below 16 MiB.
 * *shards: the folder in the store if its training split is in shards, which are not downloaded; else NULL. */
enum lvn_status lvn_data_stream(struct lvn_arena *a, const char *path, const char **local,
                                struct lvn_streaming_file **stream, const char **shards) LVN_CHECKED;

#endif

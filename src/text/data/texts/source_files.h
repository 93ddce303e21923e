/* source_files.h - the files of a data path, local or in a store, and a checksum of all that determines their ids.
 * Called by kinds of data whose texts are encoded into the cache (encoded_cache.h). The callers read them. */
#ifndef LVN_SOURCE_FILES_H
#define LVN_SOURCE_FILES_H

#include "data/parquet_texts.h"
#include "formats/checksum.h"
#include "tokenizers/tokenizer.h"

/* Download what is in a store. Everything is in the arena. */
enum lvn_status lvn_source_files_find(struct lvn_source_files *out, struct lvn_arena *a, const char *path) LVN_CHECKED;
/* Add the names and contents of the files, the tokenizer and the sources of levin that read them (LVN_ENCODERS_SUM).
 * The sum is the same on all hosts. */
enum lvn_status lvn_source_files_sum(const struct lvn_source_files *s, const struct lvn_tokenizer *t,
                                     struct lvn_checksum *sum) LVN_CHECKED;
#endif

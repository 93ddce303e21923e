/* source_files.h - the files of a data path, local or in a store, and a checksum of all that determines their ids.
 * Called by kinds of data whose texts are encoded into the cache (texts/encoded_cache.h). Left out: reading them. */
#ifndef LVN_SOURCE_FILES_H
#define LVN_SOURCE_FILES_H

#include "base/text.h"
#include "formats/checksum.h"
#include "tokenizers/tokenizer.h"

struct lvn_source_files {
    const char *path;         /* local */
    const char *const *file;  /* [n] */
    const char *const *shown; /* [n] their names for the user: below the path that was given */
    int64_t n;
    bool is_folder;
};

/* Downloads what is in a store. Everything is in the arena. */
enum lvn_status lvn_source_files_find(struct lvn_source_files *out, struct lvn_arena *a, const char *path) LVN_CHECKED;
/* Adds the names and contents of the files, the tokenizer and levin's version. The sum is the same on all hosts. */
enum lvn_status lvn_source_files_sum(const struct lvn_source_files *s, const struct lvn_tokenizer *t,
                                     struct lvn_checksum *sum) LVN_CHECKED;
/* What the user reads for the name of the file `at`, or of a member of this archive. */
enum lvn_status lvn_source_name(struct lvn_text *out, const struct lvn_source_files *s, int64_t at,
                                const char *name) LVN_CHECKED;

#endif

/* parquet_texts.h - Parquet files among the files with texts: the texts of a column, and the name of what is read.
 * Called by everything that reads texts from files (corpus.h, texts/). See formats/parquet/parquet.h for the format. */
#ifndef LVN_PARQUET_TEXTS_H
#define LVN_PARQUET_TEXTS_H

#include "base/arena.h"
#include "base/text.h"
#include "formats/parquet/parquet.h"

bool lvn_is_parquet(const char *name);

/* The files of a data path (texts/source_files.h). */
struct lvn_source_files {
    const char *path;         /* local */
    const char *const *file;  /* [n] */
    const char *const *shown; /* [n] their names for the user: below the path that was given */
    int64_t n;
    bool is_folder;
};
/* What the user reads for `name`: the file `at`, a member of this archive, or the file without the extension of its
 * compression. */
enum lvn_status lvn_source_name(struct lvn_text *out, const struct lvn_source_files *s, int64_t at,
                                const char *name) LVN_CHECKED;

struct lvn_parquet_texts {
    const char *field;  /* the column with the text; "text|document": the first of these that exists */
    const char *option; /* that names another one, for messages: "--field" */
    /* A text, or NULL for a row without one. row: counted from 0 in its row group. */
    enum lvn_status (*each)(void *context, int64_t group, int64_t row, const void *text, int64_t bytes);
    void *context;
};
/* Read all texts of a file. *bytes_read: of the file, so far. */
enum lvn_status lvn_parquet_texts_read(const struct lvn_parquet_texts *t, const char *path,
                                       int64_t *bytes_read) LVN_CHECKED;

#endif

/* text_files.h - the files of a folder that are read for their texts: their types, and the splits that names assign
 * them to. Called by what reads texts, and by what learns from the files beforehand (kind of data, number of steps). */
#ifndef LVN_TEXT_FILES_H
#define LVN_TEXT_FILES_H

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

/* Like lvn_archive_list(), for texts. Of a folder with Parquet files only these and lines of JSON are read: the folder
 * of a dataset also has a description. Of files that names assign to splits (docs/data.md) those for training are read,
 * if some exist. Files that are left out are logged. */
enum lvn_status lvn_text_files(struct lvn_arena *a, const char *path, const char *const **names,
                               int64_t *n) LVN_CHECKED;
/* The same files, without a line in the log: for what is learned from them before they are read. */
enum lvn_status lvn_text_files_quietly(struct lvn_arena *a, const char *path, const char *const **names,
                                       int64_t *n) LVN_CHECKED;
/* Read the beginning of the first of these files that has rows: at most 1 MiB, or the first row of a Parquet file, as
 * JSON. Returns the name of that file. `rows` stays empty if no file has rows that can be read. */
const char *lvn_text_files_look(struct lvn_arena *a, const char *path, struct lvn_text *rows);

#endif

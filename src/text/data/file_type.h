/* file_type.h - recognizes texts, JSON lines and archives by the extension of a file's name, and texts by their bytes:
 * a text is UTF-8 and has no NUL bytes. Called by data sets and `levin prepare`. Magic numbers are not checked. */
#ifndef LVN_FILE_TYPE_H
#define LVN_FILE_TYPE_H

#include "base/status.h"

enum lvn_file_type {
    LVN_FILE_TYPE_UNKNOWN, /* no known extension */
    LVN_FILE_TYPE_TEXT,
    LVN_FILE_TYPE_LINES,   /* of JSON */
    LVN_FILE_TYPE_PARQUET, /* texts in a column */
    LVN_FILE_TYPE_ARCHIVE,
    LVN_FILE_TYPE_REFUSED, /* no text, and levin cannot extract text from it */
};

/* The type by the first n bytes of the name; case does not matter. */
enum lvn_file_type lvn_file_type(const char *name, int64_t n);
/* Length of the name without the extensions of archives and compression: ".gz", ".tar". */
int64_t lvn_file_uncompressed_name(const char *name);
/* Length of the name without all known extensions: "a/b.txt" and "a/b.txt.gz" are "a/b". */
int64_t lvn_file_stem(const char *name);
/* FORMAT, with what the file is and how to convert it, if the extension is one of REFUSED. */
enum lvn_status lvn_file_refuse_name(const char *name) LVN_CHECKED;
/* FORMAT if these n bytes are not UTF-8 or one is zero. offset: of the first in the file. */
enum lvn_status lvn_file_refuse_bytes(const char *name, const void *p, int64_t n, int64_t offset) LVN_CHECKED;
/* FORMAT, with a command that converts it, if lvn_file_begins_array(). */
enum lvn_status lvn_file_refuse_array(const char *path) LVN_CHECKED;
/* True if the first character of the file that is not white space is '['. False if it cannot be read. */
bool lvn_file_begins_array(const char *path);

#endif

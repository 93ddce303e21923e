/* file_type.h - is a file a text? By the ending of its name, and by its bytes: a text has no zero bytes. */
#ifndef LVN_FILE_TYPE_H
#define LVN_FILE_TYPE_H

#include <stdint.h>

#include "base/status.h"

enum lvn_file_type {
    LVN_FILE_TYPE_UNKNOWN, /* the name does not say */
    LVN_FILE_TYPE_TEXT,
    LVN_FILE_TYPE_LINES, /* of JSON */
    LVN_FILE_TYPE_ARCHIVE,
    LVN_FILE_TYPE_REFUSED, /* no text, and nothing that levin makes one of */
};

/* By the first n bytes of the name; large and small letters are the same. */
enum lvn_file_type lvn_file_type(const char *name, int64_t n);
/* The length of the name without ".gz", ".tar" and the like. */
int64_t lvn_file_packed(const char *name);
/* The name without what says its form: "a/b.txt" and "a/b.txt.gz" are "a/b". Its length; that of the name where it has
 * no ending. */
int64_t lvn_file_stem(const char *name);
/* FORMAT, with what the file is and what makes a text of it, where the ending is one of REFUSED. */
enum lvn_status lvn_file_refuse_name(const char *name) LVN_CHECKED;
/* FORMAT where there is a zero byte among these, of which the first is byte `from` of the file. */
enum lvn_status lvn_file_refuse_bytes(const char *name, const void *p, int64_t n, int64_t from) LVN_CHECKED;

#endif

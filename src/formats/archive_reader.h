/* archive_reader.h - all the files in a folder, a file or an archive, also archives within archives.
 *
 * tar, gzip, bzip2, xz and zstd, in any nesting, are looked into (by what the bytes are, not by their names); nothing
 * is written to the disk. What is read is given to a visitor piece by piece, in one order: names sorted by bytes,
 * members of an archive as they stand there. Refused: archives that are damaged or cut, nested more than eight deep,
 * that grow more than a thousandfold, or whose names climb out of their folder. Links, devices and the like are passed
 * over. */
#ifndef LVN_ARCHIVE_READER_H
#define LVN_ARCHIVE_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

enum { LVN_ARCHIVE_DEPTH = 8, LVN_ARCHIVE_GROWTH = 1000, LVN_ARCHIVE_BLOB = 8 << 20 };

/* Where an archive was found, when it is looked into later or elsewhere. */
struct lvn_archive_position {
    int depth;
    double growth; /* of what it was found in: bytes that came out for one that went in */
};

struct lvn_archive_visitor {
    void *context;
    /* A file begins. `named`: the user named it (or its compressed form) and did not find it in a folder or archive.
     * *want false: pass over it. */
    enum lvn_status (*begin)(void *context, const char *name, bool named, bool *want);
    enum lvn_status (*data)(void *context, const void *p, int64_t n);
    enum lvn_status (*end)(void *context);
    /* NULL, or: takes a copy of a small archive found in an archive, to look into it with lvn_archive_read_memory(). */
    enum lvn_status (*blob)(void *context, const char *name, const void *p, int64_t n,
                            struct lvn_archive_position position);
};

/* The files to walk over: the path itself, or all below a folder (hidden ones left out), sorted. */
enum lvn_status lvn_archive_list(struct lvn_arena *a, const char *path, const char *const **names,
                                 int64_t *n) LVN_CHECKED;
/* One of them. `bytes_read` is kept up to date while it is read. */
enum lvn_status lvn_archive_read(const char *path, bool named, const struct lvn_archive_visitor *v,
                                 int64_t *bytes_read) LVN_CHECKED;
enum lvn_status lvn_archive_read_memory(const char *name, const void *p, int64_t n,
                                        struct lvn_archive_position position,
                                        const struct lvn_archive_visitor *v) LVN_CHECKED;

#endif

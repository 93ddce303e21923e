/* archive_reader.h - reads all files of a folder, a file or an archive, including nested archives; used by data
 * preparation and idx.h.
 *
 * tar, gzip, bzip2, xz and zstd in any nesting are recognized by their content, not by their names; nothing is unpacked
 * to the disk. A visitor receives the files chunk by chunk in a fixed order: names sorted by bytes, members of an
 * archive in its order. It refuses archives that are damaged or truncated, nested more than eight deep, that expand
 * more than a thousandfold, or with names that lead out of their folder. Links and devices in archives are skipped. */
#ifndef LVN_ARCHIVE_READER_H
#define LVN_ARCHIVE_READER_H

#include "base/arena.h"

enum { LVN_ARCHIVE_DEPTH = 8, LVN_ARCHIVE_GROWTH = 1000, LVN_ARCHIVE_BLOB = 8 << 20 };

/* Position of a nested archive that is read later or in another thread. */
struct lvn_archive_position {
    int depth;
    double growth; /* expansion of the enclosing archives: bytes out per byte in */
};

struct lvn_archive_visitor {
    void *context;
    /* Start of a file. `named`: its path was given by the user; it is not a member of a folder or archive, except for
     * its compression. *want false: skip it. */
    enum lvn_status (*begin)(void *context, const char *name, bool named, bool *want);
    enum lvn_status (*data)(void *context, const void *p, int64_t n);
    enum lvn_status (*end)(void *context);
    /* Optional: receives a copy of a small nested archive, to be read with lvn_archive_read_memory(). */
    enum lvn_status (*blob)(void *context, const char *name, const void *p, int64_t n,
                            struct lvn_archive_position position);
};

/* Do these bytes begin an archive or a compressed file? */
bool lvn_archive_is(const void *p, int64_t n);
/* The files to read: the path itself, or all below a folder (without hidden ones), sorted. Links are followed, and a
 * folder is read once. */
enum lvn_status lvn_archive_list(struct lvn_arena *a, const char *path, const char *const **names,
                                 int64_t *n) LVN_CHECKED;
/* Read one of them. *bytes_read is updated during the reading. */
enum lvn_status lvn_archive_read(const char *path, bool named, const struct lvn_archive_visitor *visitor,
                                 int64_t *bytes_read) LVN_CHECKED;
enum lvn_status lvn_archive_read_memory(const char *name, const void *p, int64_t n,
                                        struct lvn_archive_position position,
                                        const struct lvn_archive_visitor *visitor) LVN_CHECKED;

#endif

/* archive_api.h - the functions of libarchive that levin calls, found at run time; for walk.c alone.
 *
 * Nothing of libarchive is needed to build or to start: it is opened when the first archive is. */
#ifndef LVN_ARCHIVE_API_H
#define LVN_ARCHIVE_API_H

#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

struct archive;
struct archive_entry;

enum { LVN_ARCHIVE_EOF = 1, LVN_ARCHIVE_OK = 0, LVN_ARCHIVE_WARN = -20, LVN_ARCHIVE_RAW = 0x90000 };

struct lvn_archive_api {
    struct archive *(*read_new)(void);
    int (*read_free)(struct archive *a);
    int (*filter_gzip)(struct archive *a), (*filter_bzip2)(struct archive *a), (*filter_xz)(struct archive *a),
        (*filter_zstd)(struct archive *a), (*format_tar)(struct archive *a), (*format_raw)(struct archive *a),
        (*format_empty)(struct archive *a);
    int (*open)(struct archive *a, void *context, int (*opened)(struct archive *, void *),
                ssize_t (*read)(struct archive *, void *, const void **), int (*closed)(struct archive *, void *));
    int (*next_header)(struct archive *a, struct archive_entry **e);
    ssize_t (*data)(struct archive *a, void *to, size_t bytes);
    int (*format)(struct archive *a);
    const char *(*error)(struct archive *a);
    const char *(*pathname)(struct archive_entry *e), *(*pathname_utf8)(struct archive_entry *e);
    mode_t (*filetype)(struct archive_entry *e);
    int64_t (*size)(struct archive_entry *e);
    const char *(*version)(void);
};

/* LVN_UNSUPPORTED with what to install where libarchive is missing. */
enum lvn_status lvn_archive_api(const struct lvn_archive_api **out) LVN_CHECKED;

#endif

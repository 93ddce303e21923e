/* zip.h - the files within an uncompressed zip archive, seen in memory.
 *
 * Only the central directory is read, and every range that it names is checked against the archive; nothing is copied
 * or unpacked. zip64 is there (archives and members beyond 4 GiB). Left out, and refused by name: compressed and
 * encrypted members, archives in several parts. Checksums are not looked at: writers of large members may leave them
 * out.
 * (PKWARE: APPNOTE.TXT, ".ZIP File Format Specification".) */
#ifndef LVN_ZIP_H
#define LVN_ZIP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

struct lvn_zip_member {
    const char *name;
    const unsigned char *data;
    int64_t bytes;
};

/* Members are sorted by name; they point into the archive's memory. */
struct lvn_zip {
    struct lvn_zip_member *member;
    int n;
};

/* Do these bytes begin as a zip archive does? */
bool lvn_zip_begins(const unsigned char *data, int64_t bytes);
/* `name` is what messages call the archive. Everything lies in the arena. LVN_FORMAT when it is not good. */
LVN_CHECKED enum lvn_status lvn_zip_open(struct lvn_zip *z, struct lvn_arena *a, const char *name,
                                         const unsigned char *data, int64_t bytes);
/* NULL when there is none of that name. */
const struct lvn_zip_member *lvn_zip_find(const struct lvn_zip *z, const char *name);

#endif

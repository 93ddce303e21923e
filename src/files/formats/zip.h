/* zip.h - the members of an uncompressed zip archive in memory; used by torch.h.
 *
 * Only the central directory is read, and its ranges are checked against the archive; nothing is copied or unpacked.
 * zip64 is supported (archives and members beyond 4 GiB). Refused: compressed and encrypted members, archives in
 * several parts. Checksums are not verified: writers may omit them for large members. (PKWARE: APPNOTE.TXT, ".ZIP File
 * Format Specification".) */
#ifndef LVN_ZIP_H
#define LVN_ZIP_H

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

/* True if these bytes begin like a zip archive. */
bool lvn_zip_begins(const unsigned char *data, int64_t bytes);
/* Open an archive; `name` is its name in messages, the list of members is in the arena. LVN_FORMAT if it is invalid,
 * LVN_UNSUPPORTED for compressed or encrypted members. */
enum lvn_status lvn_zip_open(struct lvn_zip *zip, struct lvn_arena *a, const char *name, const unsigned char *data,
                             int64_t bytes) LVN_CHECKED;
/* NULL if there is no member of that name. */
const struct lvn_zip_member *lvn_zip_find(const struct lvn_zip *zip, const char *name);

#endif

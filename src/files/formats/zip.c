/* zip.c - see zip.h. */
#include "formats/zip.h"
#include "base/list.h"

enum {
    END_BYTES = 22,           /* of the end record without its comment */
    LONGEST_COMMENT = 0xffff, /* maximum length of that comment */
    LOCATOR_BYTES = 20,       /* zip64: the locator of its end record */
    END64_BYTES = 56,
    ENTRY_BYTES = 46, /* an entry of the central directory, without names */
    LOCAL_BYTES = 30, /* the local header of a member, without names */
};

struct archive {
    const char *name;
    const unsigned char *data;
    int64_t bytes;
    int64_t directory, directory_bytes, n;
};

static uint64_t number(const unsigned char *p, int bytes)
{
    uint64_t x = 0;
    while (bytes--) x = x << 8 | p[bytes];
    return x;
}

/* True if `count` bytes at `at` are within the archive. */
static bool is_inside(const struct archive *archive, uint64_t at, uint64_t count)
{
    return at <= (uint64_t)archive->bytes && count <= (uint64_t)archive->bytes - at;
}

bool lvn_zip_begins(const unsigned char *data, int64_t bytes)
{
    return bytes >= 4 && memcmp(data, "PK\3\4", 4) == 0;
}

/* Read the zip64 end record, if any: the sizes that do not fit into the plain one. */
static enum lvn_status read_end64(struct archive *archive, int64_t end, uint64_t *n, uint64_t *size, uint64_t *offset)
{
    if (end < LOCATOR_BYTES || memcmp(archive->data + end - LOCATOR_BYTES, "PK\6\7", 4) != 0) return LVN_OK;
    uint64_t at = number(archive->data + end - LOCATOR_BYTES + 8, 8);
    LVN_CHECK(is_inside(archive, at, END64_BYTES) && memcmp(archive->data + at, "PK\6\6", 4) == 0, FORMAT,
              "'%s': its zip64 directory was not found: the archive is damaged", archive->name);
    *n = number(archive->data + at + 32, 8);
    *size = number(archive->data + at + 40, 8);
    *offset = number(archive->data + at + 48, 8);
    return LVN_OK;
}

static enum lvn_status find_directory(struct archive *archive)
{
    int64_t end = archive->bytes - END_BYTES, min = end - LONGEST_COMMENT;
    while (end >= 0 && end >= min && memcmp(archive->data + end, "PK\5\6", 4) != 0) end--;
    LVN_CHECK(end >= 0 && end >= min, FORMAT,
              "'%s' begins like a zip archive, but has no directory at its end: it is truncated", archive->name);
    uint64_t n = number(archive->data + end + 10, 2), size = number(archive->data + end + 12, 4);
    uint64_t offset = number(archive->data + end + 16, 4);
    LVN_TRY(read_end64(archive, end, &n, &size, &offset));
    LVN_CHECK(is_inside(archive, offset, size) && n <= size / ENTRY_BYTES, FORMAT,
              "'%s': its directory of %llu members is not within its %lld bytes: the archive is damaged", archive->name,
              (unsigned long long)n, (long long)archive->bytes);
    archive->directory = (int64_t)offset;
    archive->directory_bytes = (int64_t)size;
    archive->n = (int64_t)n;
    return LVN_OK;
}

/* Read the zip64 extra field of an entry: the values of the 4-byte fields that are all ones, in this order. */
static void read_extra(const unsigned char *p, int64_t bytes, uint64_t *size, uint64_t *compressed, uint64_t *offset)
{
    for (; bytes >= 4; bytes -= 4) {
        int64_t length = (int64_t)number(p + 2, 2);
        bool zip64 = number(p, 2) == 1;
        p += 4;
        if (length > bytes - 4) return;
        uint64_t *const wide[] = {size, compressed, offset};
        int64_t at = 0;
        for (int i = 0; zip64 && i < 3; i++) {
            if (*wide[i] != UINT32_MAX || at + 8 > length) continue;
            *wide[i] = number(p + at, 8);
            at += 8;
        }
        p += length;
        bytes -= length;
    }
}

/* Read the directory entry at *at and advance *at. */
static enum lvn_status read_entry(const struct archive *archive, struct lvn_arena *a, int64_t *at,
                                  struct lvn_zip_member *member)
{
    const unsigned char *p = archive->data + *at;
    int64_t left = archive->directory + archive->directory_bytes - *at;
    LVN_CHECK(left >= ENTRY_BYTES && memcmp(p, "PK\1\2", 4) == 0, FORMAT,
              "'%s': the directory entry at byte %lld is damaged", archive->name, (long long)*at);
    int64_t name_bytes = (int64_t)number(p + 28, 2), extra = (int64_t)number(p + 30, 2);
    int64_t all = ENTRY_BYTES + name_bytes + extra + (int64_t)number(p + 32, 2);
    LVN_CHECK(all <= left && !memchr(p + ENTRY_BYTES, 0, (size_t)name_bytes), FORMAT,
              "'%s': the directory entry at byte %lld is damaged", archive->name, (long long)*at);
    uint64_t compressed = number(p + 20, 4), size = number(p + 24, 4), offset = number(p + 42, 4);
    read_extra(p + ENTRY_BYTES + name_bytes, extra, &size, &compressed, &offset);
    member->name = lvn_arena_printf(a, "%.*s", (int)name_bytes, (const char *)p + ENTRY_BYTES);
    if (!member->name) return LVN_MEMORY;
    LVN_CHECK(!(number(p + 8, 2) & 1), UNSUPPORTED, "'%s': '%.100s' is encrypted", archive->name, member->name);
    LVN_CHECK(
        number(p + 10, 2) == 0 && compressed == size, UNSUPPORTED,
        "'%s': '%.100s' is compressed, but torch.save() never compresses; unpack the archive and pack it with zip -0",
        archive->name, member->name);
    LVN_CHECK(is_inside(archive, offset, LOCAL_BYTES) && memcmp(archive->data + offset, "PK\3\4", 4) == 0, FORMAT,
              "'%s': '%.100s' was not found at its position in the directory: the archive is damaged", archive->name,
              member->name);
    uint64_t data =
        offset + LOCAL_BYTES + number(archive->data + offset + 26, 2) + number(archive->data + offset + 28, 2);
    LVN_CHECK(is_inside(archive, data, size), FORMAT,
              "'%s': '%.100s' has %llu bytes, more than the file contains: it is truncated", archive->name,
              member->name, (unsigned long long)size);
    member->data = archive->data + data;
    member->bytes = (int64_t)size;
    *at += all;
    return LVN_OK;
}

enum lvn_status lvn_zip_open(struct lvn_zip *out, struct lvn_arena *a, const char *name, const unsigned char *data,
                             int64_t bytes)
{
    struct archive archive = {.name = name, .data = data, .bytes = bytes};
    *out = (struct lvn_zip){0};
    LVN_CHECK(lvn_zip_begins(data, bytes), FORMAT, "'%s' is not a zip archive", name);
    LVN_TRY(find_directory(&archive));
    out->member = lvn_arena_alloc(a, sizeof *out->member * (size_t)(archive.n + 1));
    if (!out->member) return LVN_MEMORY;
    int64_t at = archive.directory;
    for (; out->n < archive.n; out->n++) LVN_TRY(read_entry(&archive, a, &at, &out->member[out->n]));
    if (out->n) qsort(out->member, (size_t)out->n, sizeof *out->member, lvn_by_text);
    return LVN_OK;
}

const struct lvn_zip_member *lvn_zip_find(const struct lvn_zip *zip, const char *name)
{
    struct lvn_zip_member key = {.name = name};
    return zip->n ? bsearch(&key, zip->member, (size_t)zip->n, sizeof key, lvn_by_text) : NULL;
}

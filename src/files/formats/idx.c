/* idx.c - see idx.h. Memory grows with the actual size of the file, never with the dimensions in its header. */
#include "formats/idx.h"

#include "base/arena.h"
#include "base/files.h"
#include "base/list.h"
#include "formats/archive_reader.h"

enum { HEADER = 4, UNSIGNED_BYTES = 8 };
static const int64_t max_bytes = INT64_C(4) << 30;

struct reading {
    const char *path;
    unsigned char *p;
    int64_t n, capacity;
    int files;
};

static enum lvn_status begin(void *context, const char *name, bool named, bool *want)
{
    struct reading *reading = context;
    (void)named;
    LVN_CHECK(reading->files++ == 0, FORMAT, "'%s' contains several files ('%s' is another); expected one IDX file",
              reading->path, name);
    *want = true;
    return LVN_OK;
}

static enum lvn_status add(void *context, const void *p, int64_t n)
{
    struct reading *reading = context;
    LVN_CHECK(n <= max_bytes - reading->n, FORMAT, "'%s' has more than %lld bytes, the limit for an IDX file",
              reading->path, (long long)max_bytes);
    if (!lvn_list_reserve(&reading->p, &reading->capacity, reading->n + n, sizeof *reading->p)) return LVN_MEMORY;
    memcpy(reading->p + reading->n, p, (size_t)n);
    reading->n += n;
    return LVN_OK;
}

static enum lvn_status end(void *context)
{
    (void)context;
    return LVN_OK;
}

static int64_t big_endian(const unsigned char *p)
{
    return (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
}

static enum lvn_status parse(const struct reading *reading, struct lvn_idx *idx)
{
    const unsigned char *p = reading->p;
    LVN_CHECK(reading->n >= HEADER, FORMAT, "'%s' has %lld bytes, too few for an IDX file: it is %s", reading->path,
              (long long)reading->n, reading->n ? "truncated" : "empty");
    LVN_CHECK(p[0] == 0 && p[1] == 0, FORMAT, "'%s' is not an IDX file: it begins with %d, %d, expected two zero bytes",
              reading->path, p[0], p[1]);
    LVN_CHECK(p[2] == UNSIGNED_BYTES, UNSUPPORTED,
              "'%s' has elements of IDX type 0x%02x; levin only reads unsigned bytes (0x08)", reading->path, p[2]);
    idx->rank = p[3];
    LVN_CHECK(idx->rank >= 1 && idx->rank <= LVN_IDX_RANK, FORMAT, "'%s' has %d dimensions, expected 1 to %d",
              reading->path, idx->rank, LVN_IDX_RANK);
    int64_t header = HEADER + 4 * idx->rank, count = 1;
    LVN_CHECK(reading->n >= header, FORMAT, "'%s' ends within its %d dimensions, after %lld bytes: it is truncated",
              reading->path, idx->rank, (long long)reading->n);
    for (int k = 0; k < idx->rank; k++) {
        idx->dim[k] = big_endian(p + HEADER + 4 * k);
        LVN_CHECK(!__builtin_mul_overflow(count, idx->dim[k], &count), FORMAT,
                  "'%s' has more elements in its header than any file can contain: its dimensions are damaged",
                  reading->path);
    }
    LVN_CHECK(reading->n - header == count, FORMAT,
              "'%s' has %lld elements, expected %lld from its dimensions: it is %s", reading->path,
              (long long)(reading->n - header), (long long)count,
              reading->n - header < count ? "truncated" : "not such an array");
    idx->file = reading->p;
    idx->data = reading->p + header;
    return LVN_OK;
}

enum lvn_status lvn_idx_read(struct lvn_idx *idx, const char *path)
{
    struct reading reading = {.path = path};
    const struct lvn_archive_visitor visitor = {.context = &reading, .begin = begin, .data = add, .end = end};
    int64_t bytes = 0;
    *idx = (struct lvn_idx){0};
    LVN_CHECK(lvn_path_is_file(path) || !lvn_path_exists(path), IO, "cannot read '%s': it is not a regular file", path);
    enum lvn_status status = lvn_archive_read(path, true, &visitor, &bytes);
    if (status == LVN_OK) status = parse(&reading, idx);
    if (status != LVN_OK) free(reading.p);
    return status;
}

void lvn_idx_release(struct lvn_idx *idx)
{
    free(idx->file);
    *idx = (struct lvn_idx){0};
}

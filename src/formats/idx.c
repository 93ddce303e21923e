/* idx.c - see idx.h. Memory grows with the actual size of the file, never with the dimensions in its header. */
#include "formats/idx.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/files.h"
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
    struct reading *r = context;
    (void)named;
    LVN_CHECK(r->files++ == 0, FORMAT, "'%s' holds several files ('%s' is another); one IDX file is wanted", r->path,
              name);
    *want = true;
    return LVN_OK;
}

static enum lvn_status take(void *context, const void *p, int64_t n)
{
    struct reading *r = context;
    LVN_CHECK(n <= max_bytes - r->n, FORMAT, "'%s' holds more than %lld bytes, the most that is read of an IDX file",
              r->path, (long long)max_bytes);
    if (r->n + n > r->capacity) {
        int64_t capacity = 2 * (r->n + n);
        unsigned char *larger = lvn_realloc(r->p, (size_t)capacity);
        if (!larger) return LVN_MEMORY;
        r->p = larger;
        r->capacity = capacity;
    }
    memcpy(r->p + r->n, p, (size_t)n);
    r->n += n;
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

static enum lvn_status parse(const struct reading *r, struct lvn_idx *x)
{
    const unsigned char *p = r->p;
    LVN_CHECK(r->n >= HEADER && p[0] == 0 && p[1] == 0, FORMAT,
              "'%s' is no IDX file: it begins with %d, %d where two zero bytes should be", r->path,
              r->n > 0 ? p[0] : -1, r->n > 1 ? p[1] : -1);
    LVN_CHECK(p[2] == UNSIGNED_BYTES, UNSUPPORTED,
              "'%s' holds elements of IDX type 0x%02x; levin reads unsigned bytes (0x08)", r->path, p[2]);
    x->rank = p[3];
    LVN_CHECK(x->rank >= 1 && x->rank <= LVN_IDX_RANK, FORMAT, "'%s' says that it has %d dimensions; 1 to %d are read",
              r->path, x->rank, LVN_IDX_RANK);
    int64_t header = HEADER + 4 * x->rank, count = 1;
    LVN_CHECK(r->n >= header, FORMAT, "'%s' ends within its %d dimensions, after %lld bytes: it is cut", r->path,
              x->rank, (long long)r->n);
    for (int k = 0; k < x->rank; k++) {
        x->dim[k] = big_endian(p + HEADER + 4 * k);
        LVN_CHECK(!__builtin_mul_overflow(count, x->dim[k], &count), FORMAT,
                  "'%s' says that it has more elements than any file holds: its dimensions are damaged", r->path);
    }
    LVN_CHECK(r->n - header == count, FORMAT, "'%s' holds %lld elements where its dimensions want %lld: it is %s",
              r->path, (long long)(r->n - header), (long long)count, r->n - header < count ? "cut" : "no such array");
    x->file = r->p;
    x->data = r->p + header;
    return LVN_OK;
}

enum lvn_status lvn_idx_read(struct lvn_idx *x, const char *path)
{
    struct reading r = {.path = path};
    const struct lvn_archive_visitor v = {.context = &r, .begin = begin, .data = take, .end = end};
    int64_t bytes = 0;
    *x = (struct lvn_idx){0};
    LVN_CHECK(lvn_path_is_file(path) || !lvn_path_exists(path), IO, "cannot read '%s': it is not a regular file", path);
    enum lvn_status status = lvn_archive_read(path, true, &v, &bytes);
    if (status == LVN_OK) status = parse(&r, x);
    if (status != LVN_OK) free(r.p);
    return status;
}

void lvn_idx_release(struct lvn_idx *x)
{
    free(x->file);
    *x = (struct lvn_idx){0};
}

/* parquet_numbers.c - the encodings of numbers in Parquet files: levels and indices as runs, lengths as differences;
 * see parquet_private.h. */

#include "formats/parquet/parquet_private.h"

/* `width` bits, at most 64, from bit `bit` of p, which ends at `end`; bits after the end are 0. */
static uint64_t bits_at(const unsigned char *p, const unsigned char *end, int64_t bit, int width)
{
    const unsigned char *at = p + bit / 8;
    const int shift = (int)(bit % 8);
    uint64_t x = 0;
    if (width == 0) return 0;
    if (end - at >= 8)
        memcpy(&x, at, 8);
    else if (end > at)
        memcpy(&x, at, (size_t)(end - at));
    x >>= shift;
    if (shift + width > 64 && end - at > 8) x |= (uint64_t)at[8] << (64 - shift);
    return width == 64 ? x : x & (((uint64_t)1 << width) - 1);
}

bool lvn_varint(const unsigned char **p, const unsigned char *end, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (*p == end) return false;
        const unsigned b = *(*p)++;
        *out |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80)) return true;
    }
    return false;
}

/* --- runs --- */

static bool next_run(struct lvn_hybrid *h)
{
    uint64_t head;
    if (!lvn_varint(&h->p, h->end, &head)) return false;
    h->bit_packed = head & 1;
    if (head >> 1 > INT32_MAX / 8) return false;
    h->left = (int64_t)(head >> 1) * (h->bit_packed ? 8 : 1);
    if (h->bit_packed) {
        const int64_t bytes = (int64_t)(head >> 1) * h->width;
        h->at = h->p;
        h->bit = 0;
        if (bytes > h->end - h->p) h->left = (h->end - h->p) * 8 / h->width; /* some writers cut the last group */
        h->p += bytes > h->end - h->p ? h->end - h->p : bytes;
        return true;
    }
    const int bytes = (h->width + 7) / 8;
    if (bytes > h->end - h->p) return false;
    h->value = 0;
    for (int k = 0; k < bytes; k++) h->value |= (uint32_t)h->p[k] << 8 * k;
    h->p += bytes;
    return true;
}

bool lvn_hybrid_read(struct lvn_hybrid *h, uint32_t *out, int64_t n)
{
    while (n > 0) {
        while (!h->left)
            if (!next_run(h)) return false;
        const int64_t count = n < h->left ? n : h->left;
        if (h->bit_packed)
            for (int64_t i = 0; i < count; i++, h->bit += h->width)
                out[i] = (uint32_t)bits_at(h->at, h->end, h->bit, h->width);
        else
            for (int64_t i = 0; i < count; i++) out[i] = h->value;
        h->left -= count;
        out += count;
        n -= count;
    }
    return true;
}

/* --- differences --- */

static bool begin(struct lvn_delta *d)
{
    uint64_t block, minis, all, first;
    if (!lvn_varint(&d->p, d->end, &block) || !lvn_varint(&d->p, d->end, &minis) || !lvn_varint(&d->p, d->end, &all) ||
        !lvn_varint(&d->p, d->end, &first))
        return false;
    if (block < 8 || block > 1 << 24 || minis < 1 || minis > 4096 || block % minis || block / minis % 8 ||
        all > INT32_MAX)
        return false;
    d->block = (int64_t)block;
    d->minis = (int)minis;
    d->per_mini = d->block / d->minis;
    d->left = (int64_t)all;
    d->value = first >> 1 ^ -(first & 1);
    d->mini = d->minis;
    return true;
}

bool lvn_delta_begin(struct lvn_delta *d, const unsigned char *p, const unsigned char *end)
{
    *d = (struct lvn_delta){.p = p, .end = end};
    return begin(d);
}

/* The next miniblock; d->p is then after it. */
static bool next_mini(struct lvn_delta *d)
{
    uint64_t min;
    if (d->mini == d->minis) {
        if (!lvn_varint(&d->p, d->end, &min) || d->end - d->p < d->minis) return false;
        d->min = min >> 1 ^ -(min & 1);
        d->widths = d->p;
        d->p += d->minis;
        d->mini = 0;
    }
    const int width = d->widths[d->mini++];
    const int64_t bytes = d->per_mini / 8 * width;
    if (width > 64 || bytes > d->end - d->p) return false;
    d->at = d->p;
    d->bit = 0;
    d->in_mini = d->per_mini;
    d->p += bytes;
    return true;
}

bool lvn_delta_read(struct lvn_delta *d, int64_t *out, int64_t n)
{
    if (n > d->left) return false;
    d->left -= n;
    for (int64_t i = 0; i < n; i++) {
        if (d->started) {
            if (!d->in_mini && !next_mini(d)) return false;
            const int width = d->widths[d->mini - 1];
            d->value += d->min + bits_at(d->at, d->p, d->bit, width);
            d->bit += width;
            d->in_mini--;
        }
        d->started = true;
        out[i] = (int64_t)d->value;
    }
    return true;
}

bool lvn_delta_read_lengths(struct lvn_delta *d, int32_t *out, int64_t n)
{
    int64_t length;
    for (int64_t i = 0; i < n; i++) {
        if (!lvn_delta_read(d, &length, 1) || length < 0 || length > INT32_MAX) return false;
        out[i] = (int32_t)length;
    }
    return true;
}

bool lvn_delta_end(const struct lvn_delta *delta, const unsigned char **end)
{
    struct lvn_delta d = *delta;
    for (int64_t left = d.left - 1; left > 0; left -= d.per_mini)
        if (!next_mini(&d)) return false;
    *end = d.p;
    return true;
}

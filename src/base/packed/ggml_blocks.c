/* ggml_blocks.c - see ggml_blocks.h.
 *
 * The arithmetic, in fp32 and without fused multiply-add, is that of the Python package gguf, so values are equal bit
 * by bit. A block of Q4_0 to Q8_0 has 32 values with one scale; of Q4_1 and Q5_1 also a minimum. A block of the K types
 * has 256 values in groups of 32 (Q6_K: 16), whose scales (and minimums) are small integers, multiplied by a scale of
 * the block. All are packed bits; scales of blocks are fp16. */
#include "packed/ggml_blocks.h"

enum { SMALL = 32, LARGE = 256 };

static float half(const unsigned char *p)
{
    return lvn_fp16_get((uint16_t)(p[0] | p[1] << 8));
}

/* --- blocks of 32 --- */

/* Values d q + m of the bits below and, if `high` is not NULL, of one more bit of each. */
static void small(const unsigned char *low, const unsigned char *high, float d, int offset, float m, bool has_m,
                  float *to)
{
    for (int i = 0; i < SMALL; i++) {
        int q = i < SMALL / 2 ? low[i] & 15 : low[i - SMALL / 2] >> 4;
        if (high) q |= (high[i / 8] >> i % 8 & 1) << 4;
        const float x = d * (float)(q - offset);
        to[i] = has_m ? x + m : x;
    }
}

static void read_q4_0(const unsigned char *b, float *to)
{
    small(b + 2, NULL, half(b), 8, 0, false, to);
}

static void read_q4_1(const unsigned char *b, float *to)
{
    small(b + 4, NULL, half(b), 0, half(b + 2), true, to);
}

static void read_q5_0(const unsigned char *b, float *to)
{
    small(b + 6, b + 2, half(b), 16, 0, false, to);
}

static void read_q5_1(const unsigned char *b, float *to)
{
    small(b + 8, b + 4, half(b), 0, half(b + 2), true, to);
}

static void read_q8_0(const unsigned char *b, float *to)
{
    const float d = half(b);
    for (int i = 0; i < SMALL; i++) to[i] = (float)(signed char)b[2 + i] * d;
}

/* --- blocks of 256 --- */

/* Scale and minimum of group i: six bits each, of which the last four groups have their upper two in the bytes of the
 * first four. */
static void scales_of(const unsigned char *s, int i, int *scale, int *minimum)
{
    *scale = i < 4 ? s[i] & 63 : (s[i + 4] & 15) | (s[i - 4] >> 6) << 4;
    *minimum = i < 4 ? s[i + 4] & 63 : s[i + 4] >> 4 | (s[i] >> 6) << 4;
}

static void large(const unsigned char *b, const unsigned char *low, const unsigned char *high, float *to)
{
    const float d = half(b), m = half(b + 2);
    for (int group = 0; group < 8; group++) {
        int scale, minimum;
        scales_of(b + 4, group, &scale, &minimum);
        const float dg = d * (float)scale, mg = m * (float)minimum;
        for (int i = 0; i < 32; i++) {
            const int byte = low[group / 2 * 32 + i];
            int q = group % 2 ? byte >> 4 : byte & 15;
            if (high) q |= (high[i] >> group & 1) << 4;
            const float x = dg * (float)q;
            *to++ = x - mg;
        }
    }
}

static void read_q4_k(const unsigned char *b, float *to)
{
    large(b, b + 16, NULL, to);
}

static void read_q5_k(const unsigned char *b, float *to)
{
    large(b, b + 48, b + 16, to);
}

static void read_q6_k(const unsigned char *b, float *to)
{
    const unsigned char *low = b, *high = b + 128, *scale = b + 192;
    const float d = half(b + 208);
    for (int i = 0; i < LARGE; i++) {
        const int part = i / 128, within = i % 128; /* of 128 values: 64 bytes of low bits, 32 of high ones */
        const int byte = low[part * 64 + within % 64];
        const int q = (within < 64 ? byte & 15 : byte >> 4) | (high[part * 32 + within % 32] >> within / 32 * 2 & 3)
                                                                  << 4;
        const float dg = d * (float)(signed char)scale[i / 16];
        to[i] = dg * (float)(q - 32);
    }
}

/* --- the table --- */

static const struct lvn_ggml_block blocks[] = {
#define ROW(name, function, id, values, bytes, write, file_type)                                                       \
    [LVN_##name - LVN_Q8_0] = {values, bytes, read_##function},
    LVN_GGML_MAP(ROW)
#undef ROW
};

const struct lvn_ggml_block *lvn_ggml_block(enum lvn_dtype dtype)
{
    return dtype >= LVN_Q8_0 ? &blocks[dtype - LVN_Q8_0] : NULL;
}

void lvn_ggml_read(const struct lvn_ggml_block *type, const void *data, int64_t first, int64_t n, float *to)
{
    float part[LARGE];
    while (n > 0) {
        const unsigned char *block = (const unsigned char *)data + first / type->values * type->bytes;
        const int64_t skip = first % type->values, take = type->values - skip < n ? type->values - skip : n;
        if (take == type->values) {
            type->read(block, to);
        } else {
            type->read(block, part);
            memcpy(to, part + skip, sizeof *to * (size_t)take);
        }
        first += take;
        to += take;
        n -= take;
    }
}

void lvn_ggml_put(const struct lvn_blocks *b, const void *from, int64_t row, int64_t to_row, void *p)
{
    const struct lvn_ggml_block *type = lvn_ggml_block(b->dtype);
    const int64_t bytes = b->columns / type->values * type->bytes;
    memcpy((char *)p + to_row * bytes, (const char *)from + row * bytes, (size_t)bytes);
}

/* --- matrices of bitsandbytes, whose parts are in a file --- */

void lvn_nf4_read(const struct lvn_nf4 *x, int64_t first, int64_t n, float *to)
{
    for (int64_t i = first; i < first + n; i++) {
        const uint8_t two = x->value[i / 2];
        *to++ = x->code[i % 2 ? two & 15 : two >> 4] * lvn_nf4_factor(x, i / LVN_NF4_BLOCK);
    }
}

void lvn_nf4_put(const struct lvn_blocks *b, const struct lvn_nf4 *from, void *p)
{
    const struct lvn_nf4 to = lvn_nf4_of(b, p);
    const size_t count = (size_t)(b->rows * b->columns), factors = (count + LVN_NF4_BLOCK - 1) / LVN_NF4_BLOCK,
                 groups = (factors + LVN_NF4_GROUP - 1) / LVN_NF4_GROUP;
    memcpy(to.code, from->code, sizeof *to.code * LVN_NF4_CODES);
    memcpy(to.value, from->value, (count + 1) / 2);
    if (to.scale) {
        memcpy(to.scale, from->scale, sizeof *to.scale * factors);
        return;
    }
    memcpy(to.map, from->map, sizeof *to.map * LVN_NF4_FACTORS);
    to.offset[0] = from->offset[0];
    memcpy(to.group, from->group, sizeof *to.group * groups);
    memcpy(to.factor, from->factor, factors);
}

void lvn_int8_put(const struct lvn_blocks *b, const int8_t *value, const float *factor, const int32_t *row_of, void *p)
{
    float *factors = (float *)(uintptr_t)lvn_int8_factors(b, p);
    for (int64_t row = 0; row < b->rows; row++) {
        memcpy((int8_t *)p + row * b->columns, value + row_of[row] * b->columns, (size_t)b->columns);
        factors[row] = factor[row_of[row]];
    }
}

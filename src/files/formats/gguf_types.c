/* gguf_types.c - the types of tensors in GGUF files, one row each: how a block becomes fp32 values, and the reverse.
 *
 * The arithmetic, in fp32 and without fused multiply-add, is that of the Python package gguf, so values are equal bit
 * by bit. A block of Q4_0 to Q8_0 has 32 values with one scale; of Q4_1 and Q5_1 also a minimum. A block of the K types
 * has 256 values in groups of 32 (Q6_K: 16), whose scales (and minimums) are small integers, multiplied by a scale of
 * the block. All are packed bits; scales of blocks are fp16. */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "formats/gguf.h"

enum { SMALL = 32, LARGE = 256 };

static float half(const unsigned char *p)
{
    float x;
    lvn_tensor_to_f32(LVN_F16, p, &x, 1);
    return x;
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

static void write_q8_0(const float *from, unsigned char *b)
{
    float most = 0;
    for (int i = 0; i < SMALL; i++) most = fmaxf(most, fabsf(from[i]));
    const float d = most / 127, inverse = d == 0 ? 0 : 1 / d;
    lvn_tensor_from_f32(LVN_F16, &d, b, 1);
    for (int i = 0; i < SMALL; i++) b[2 + i] = (unsigned char)(signed char)roundf(from[i] * inverse);
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

static const struct lvn_gguf_type types[] = {
    {"F32", 0, 1, 4, LVN_F32, NULL, NULL, 0},
    {"F16", 1, 1, 2, LVN_F16, NULL, NULL, 1},
    {"BF16", 30, 1, 2, LVN_BF16, NULL, NULL, 32},
    {"Q8_0", 8, SMALL, 34, LVN_F32, read_q8_0, write_q8_0, 7},
    {"Q4_0", 2, SMALL, 18, LVN_F32, read_q4_0, NULL, 0},
    {"Q4_1", 3, SMALL, 20, LVN_F32, read_q4_1, NULL, 0},
    {"Q5_0", 6, SMALL, 22, LVN_F32, read_q5_0, NULL, 0},
    {"Q5_1", 7, SMALL, 24, LVN_F32, read_q5_1, NULL, 0},
    {"Q4_K", 12, LARGE, 144, LVN_F32, read_q4_k, NULL, 0},
    {"Q5_K", 13, LARGE, 176, LVN_F32, read_q5_k, NULL, 0},
    {"Q6_K", 14, LARGE, 210, LVN_F32, read_q6_k, NULL, 0},
};
enum { N_TYPES = sizeof types / sizeof types[0] };

const struct lvn_gguf_type *lvn_gguf_type_of(uint64_t id)
{
    for (int i = 0; i < N_TYPES; i++)
        if ((uint64_t)types[i].id == id) return &types[i];
    return NULL;
}

const struct lvn_gguf_type *lvn_gguf_type_find(const char *name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (strcasecmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}

void lvn_gguf_type_names(struct lvn_text *out)
{
    for (int i = 0; i < N_TYPES; i++)
        lvn_text_printf(out, "%s%s", !i ? "" : i < N_TYPES - 1 ? ", " : " and ", types[i].name);
}

const char *lvn_gguf_foreign_name(uint64_t id)
{
    static const char *const names[] = {
        [9] = "Q8_1",     [10] = "Q2_K",  [11] = "Q3_K",   [15] = "Q8_K",  [16] = "IQ2_XXS", [17] = "IQ2_XS",
        [18] = "IQ3_XXS", [19] = "IQ1_S", [20] = "IQ4_NL", [21] = "IQ3_S", [22] = "IQ2_S",   [23] = "IQ4_XS",
        [24] = "I8",      [25] = "I16",   [26] = "I32",    [27] = "I64",   [28] = "F64",     [29] = "IQ1_M",
        [34] = "TQ1_0",   [35] = "TQ2_0", [39] = "MXFP4"};
    const char *name = id < sizeof names / sizeof names[0] ? names[id] : NULL;
    return name ? name : "of an unknown number";
}

void lvn_gguf_read(const struct lvn_gguf_type *type, const void *data, int64_t first, int64_t n, float *to)
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

/* numbers_gpu.h - vector loads and stores: a work-item processes several consecutive elements, because one element per
 * item keeps too few loads in flight.
 *
 * An item processes LVN_WIDTH elements, from a multiple of LVN_WIDTH on: 8 if rows and operands of the launch are
 * aligned (LVN_LAUNCH_WIDE), else 1. LVN_GETS(x, i) loads a struct lvn_numbers. LVN_PUTS(x, i, v) stores v and returns
 * it rounded to the type of x. LVN_PUTS_OR_ADDS(x, i, add, v) adds the stored values to v first if `add`; v must be an
 * lvalue. An example:
 *
 *     lvn_long i = LVN_INDEX * LVN_WIDTH;
 *     if (i >= n) return;
 *     struct lvn_numbers v = LVN_GETS(x, i);
 *     LVN_EACH(k) v.v[k] *= factor;
 *     LVN_PUTS(y, i, v);
 *
 * Load everything before the first store, because the compiler cannot know that operands do not overlap. */
#ifndef LVN_NUMBERS_GPU_H
#define LVN_NUMBERS_GPU_H

#include "backend/gpu/kernel_language.h"
#ifdef LVN_DEVICE

#ifndef LVN_WIDTH
#define LVN_WIDTH 1
#endif
#define LVN_EACH(k)                                                                                                    \
    LVN_UNROLLED                                                                                                       \
    for (int k = 0; k < LVN_WIDTH; k++)

struct lvn_numbers {
    float v[LVN_WIDTH];
};

#if LVN_WIDTH == 8
LVN_FUNCTION struct lvn_numbers lvn_gets_f32(LVN_GLOBAL const float *p, lvn_long i)
{
    struct lvn_numbers r;
#ifdef LVN_CUDA
    float4 a = ((const float4 *)(p + i))[0], b = ((const float4 *)(p + i))[1];
    r.v[0] = a.x, r.v[1] = a.y, r.v[2] = a.z, r.v[3] = a.w;
    r.v[4] = b.x, r.v[5] = b.y, r.v[6] = b.z, r.v[7] = b.w;
#else
    LVN_EACH(k) r.v[k] = p[i + k];
#endif
    return r;
}

LVN_FUNCTION struct lvn_numbers lvn_puts_f32(LVN_GLOBAL float *p, lvn_long i, struct lvn_numbers x)
{
#ifdef LVN_CUDA
    ((float4 *)(p + i))[0] = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
    ((float4 *)(p + i))[1] = make_float4(x.v[4], x.v[5], x.v[6], x.v[7]);
#else
    LVN_EACH(k) p[i + k] = x.v[k];
#endif
    return x;
}

LVN_FUNCTION void put_eight(LVN_GLOBAL lvn_ushort *p, lvn_long i, struct lvn_eight x)
{
#ifdef LVN_CUDA
    *(uint4 *)(p + i) = make_uint4(x.v[0], x.v[1], x.v[2], x.v[3]);
#else
    LVN_GLOBAL lvn_uint *pair = (LVN_GLOBAL lvn_uint *)(p + i);
    for (int k = 0; k < 4; k++) pair[k] = x.v[k];
#endif
}

#define NUMBERS_OF_16_BITS(type)                                                                                       \
    LVN_FUNCTION struct lvn_numbers numbers_of_##type(struct lvn_eight pairs)                                          \
    {                                                                                                                  \
        struct lvn_numbers r;                                                                                          \
        LVN_EACH(k) r.v[k] = lvn_float_of_##type((lvn_ushort)(pairs.v[k / 2] >> k % 2 * 16));                          \
        return r;                                                                                                      \
    }                                                                                                                  \
    LVN_FUNCTION struct lvn_numbers lvn_gets_##type(LVN_GLOBAL const lvn_ushort *p, lvn_long i)                        \
    {                                                                                                                  \
        struct lvn_eight pairs = lvn_get_eight(p, i);                                                                  \
        return numbers_of_##type(pairs);                                                                               \
    }                                                                                                                  \
    LVN_FUNCTION struct lvn_numbers lvn_puts_##type(LVN_GLOBAL lvn_ushort *p, lvn_long i, struct lvn_numbers x)        \
    {                                                                                                                  \
        struct lvn_eight pairs;                                                                                        \
        LVN_UNROLLED                                                                                                   \
        for (int k = 0; k < 4; k++) pairs.v[k] = lvn_pair_of_##type(x.v[2 * k], x.v[2 * k + 1]);                       \
        put_eight(p, i, pairs);                                                                                        \
        return numbers_of_##type(pairs);                                                                               \
    }
NUMBERS_OF_16_BITS(bf16)
NUMBERS_OF_16_BITS(f16)

#else
#define ONE_NUMBER(type, real)                                                                                         \
    LVN_FUNCTION struct lvn_numbers lvn_gets_##type(LVN_GLOBAL const real *p, lvn_long i)                              \
    {                                                                                                                  \
        struct lvn_numbers r;                                                                                          \
        r.v[0] = lvn_get_##type(p, i);                                                                                 \
        return r;                                                                                                      \
    }                                                                                                                  \
    LVN_FUNCTION struct lvn_numbers lvn_puts_##type(LVN_GLOBAL real *p, lvn_long i, struct lvn_numbers x)              \
    {                                                                                                                  \
        lvn_put_##type(p, i, x.v[0]);                                                                                  \
        return lvn_gets_##type(p, i);                                                                                  \
    }
ONE_NUMBER(f32, float)
ONE_NUMBER(bf16, lvn_ushort)
ONE_NUMBER(f16, lvn_ushort)
#endif

LVN_FUNCTION struct lvn_numbers lvn_sums(struct lvn_numbers a, struct lvn_numbers b)
{
    LVN_EACH(k) a.v[k] += b.v[k];
    return a;
}

/* The partial sums of columns: each item has those of LVN_WIDTH of a group's 32 * LVN_WIDTH columns, in shared
 * (LVN_WIDTH * LVN_ITEMS) after share_column_sums() and a barrier. Add those of the items with the same columns, and
 * store them for these rows (LVN_GROUP_Y) of parts (rows, N), unless these are absent. */
LVN_FUNCTION void share_column_sums(LVN_LOCAL float *shared, struct lvn_numbers sum)
{
    LVN_EACH(k) shared[k * LVN_ITEMS + LVN_ITEM] = sum.v[k];
}

LVN_FUNCTION void put_column_sums(LVN_LOCAL const float *shared, LVN_GLOBAL char *parts, lvn_long N)
{
    const lvn_long first = LVN_GROUP_X * 32 * LVN_WIDTH;
    if (parts != 0 && LVN_ITEM < 32 * LVN_WIDTH && first + LVN_ITEM < N) {
        lvn_wide all = 0;
        for (int i = 0; i < LVN_ITEMS / 32; i++)
            all += shared[LVN_ITEM % LVN_WIDTH * LVN_ITEMS + LVN_ITEM / LVN_WIDTH + 32 * i];
        lvn_put_wide(parts, LVN_GROUP_Y * N + first + LVN_ITEM, all);
    }
}

#define LVN_GETS(x, i) LVN_JOIN(lvn_gets_, TYPE_##x)(LVN_POINTER(x), i)
#define LVN_PUTS(x, i, numbers) LVN_JOIN(lvn_puts_, TYPE_##x)(LVN_POINTER(x), i, numbers)
#define LVN_PUTS_OR_ADDS(x, i, add, numbers)                                                                           \
    do {                                                                                                               \
        if (add) numbers = lvn_sums(LVN_GETS(x, i), numbers);                                                          \
        LVN_PUTS(x, i, numbers);                                                                                       \
    } while (0)

/* The factors of dropout for elements (row, column) and following: lvn_dropout_factor(), with one call of Philox for
 * eight columns. */
LVN_FUNCTION struct lvn_numbers lvn_dropout_factors(LVN_GLOBAL const struct lvn_gpu_step *now, lvn_long row,
                                                    lvn_uint column, int threshold, float scale, int op,
                                                    lvn_long rows_per_sample)
{
    struct lvn_numbers r;
#if LVN_WIDTH == 8
    LVN_EACH(k) r.v[k] = 1;
    if (threshold == 0 || !now->training) return r;
    lvn_ulong at = (lvn_ulong)(now->first_row * rows_per_sample + row);
    struct lvn_four bits = lvn_dropout_words(now->seed, now->step, (lvn_uint)op, at, column);
    LVN_EACH(k) r.v[k] = (bits.v[k / 2] >> k % 2 * 16 & 0xffffu) >= (lvn_uint)threshold ? scale : 0;
#else
    r.v[0] = lvn_dropout_factor(now, row, column, threshold, scale, op, rows_per_sample);
#endif
    return r;
}

#endif
#endif

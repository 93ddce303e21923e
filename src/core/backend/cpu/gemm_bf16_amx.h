/* gemm_bf16_amx.h - a block of gemm_bf16.h on AMX. Source: Intel 64 and IA-32 Architectures Software Developer's
 * Manual, volume 1, chapter 18 (Intel AMX). */
#ifndef LVN_GEMM_BF16_AMX_H
#define LVN_GEMM_BF16_AMX_H

#include "backend/cpu/gemm_bf16_pack.h"

enum {
    BF16_MIN = 16,   /* minimum rows, columns and steps of k that are faster on AMX */
    BF16_SPLITS = 1, /* fp32 operands are split */
};

/* Maximum steps of k of a block: BF16_NC columns of it fill about half of the L2 cache. */
static inline int64_t bf16_kc(int parts)
{
    return parts == 1 ? 1024 : 384;
}

/* Cycles of one step of k of a block of C. */
static inline double bf16_cycles(int parts)
{
    return parts == 1 ? 2 : 12;
}

#define BF16_A(part)                                                                                                   \
    _tile_loadd(4, p + (part)*2 * BF16_TILE, a.row);                                                                   \
    if (two_rows) _tile_loadd(5, p + (part)*2 * BF16_TILE + 16 * a.row, a.row)
#define BF16_B(part)                                                                                                   \
    _tile_loadd(6, b + (part)*2 * BF16_TILE, 64);                                                                      \
    if (two_columns) _tile_loadd(7, b + (part)*2 * BF16_TILE + BF16_TILE, 64)
#define BF16_MULTIPLY()                                                                                                \
    _tile_dpbf16ps(0, 4, 6);                                                                                           \
    if (two_columns) _tile_dpbf16ps(1, 4, 7);                                                                          \
    if (two_rows) _tile_dpbf16ps(2, 5, 6);                                                                             \
    if (two_rows && two_columns) _tile_dpbf16ps(3, 5, 7)

/* Compute four tiles of C at c (strides in bytes), starting from `from` (NULL: zero; stride 0: the same row sixteen
 * times), over `steps` steps. The product of the largest parts is added last. The order of the others needs the fewest
 * loads: each product needs a new part of only one operand. */
static inline void bf16_block(struct bf16_a a, const char *b, int64_t steps, const float *from, int64_t from_row,
                              float *c, int64_t c_row, const bool two_rows, const bool two_columns, const int parts)
{
    enum { FETCH = 4 }; /* rows of C to prefetch per step, before they are written */
    PAIRS_BARRIER();
    if (from) {
        _tile_loadd(0, from, from_row);
        if (two_columns) _tile_loadd(1, from + 16, from_row);
        if (two_rows) _tile_loadd(2, (const char *)from + 16 * from_row, from_row);
        if (two_rows && two_columns) _tile_loadd(3, (const char *)from + 16 * from_row + 64, from_row);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    char *fetch = (char *)c;
    const char *p = a.p;
    for (int lines = two_rows ? BF16_SIDE : 16; steps > 0; steps--, p += a.step, b += bf16_step(parts)) {
        for (int i = 0; i < FETCH && lines > 0; i++, lines--, fetch += c_row) {
            __builtin_prefetch(fetch, 1);
            if (two_columns) __builtin_prefetch(fetch + 64, 1);
        }
        BF16_A(0);
        if (parts == 1) {
            BF16_B(0);
            BF16_MULTIPLY();
            continue;
        }
        BF16_B(2);
        BF16_MULTIPLY();
        BF16_B(1);
        BF16_MULTIPLY();
        BF16_A(1);
        BF16_MULTIPLY();
        BF16_B(0);
        BF16_MULTIPLY();
        BF16_A(2);
        BF16_MULTIPLY();
        BF16_A(0);
        BF16_MULTIPLY();
    }
    _tile_stored(0, c, c_row);
    if (two_columns) _tile_stored(1, c + 16, c_row);
    if (two_rows) _tile_stored(2, (char *)c + 16 * c_row, c_row);
    if (two_rows && two_columns) _tile_stored(3, (char *)c + 16 * c_row + 64, c_row);
    PAIRS_BARRIER();
}

static void bf16_block_by_size(struct bf16_a a, const char *b, int64_t steps, const float *from, int64_t from_row,
                               float *c, int64_t c_row, bool two_rows, bool two_columns, int parts)
{
#define BF16_BLOCK(r, n, p)                                                                                            \
    if (two_rows == (r) && two_columns == (n) && parts == (p))                                                         \
    bf16_block(a, b, steps, from, from_row, c, c_row, r, n, p)
    BF16_BLOCK(true, true, 1);
    BF16_BLOCK(true, false, 1);
    BF16_BLOCK(false, true, 1);
    BF16_BLOCK(false, false, 1);
    BF16_BLOCK(true, true, BF16_PARTS);
    BF16_BLOCK(true, false, BF16_PARTS);
    BF16_BLOCK(false, true, BF16_PARTS);
    BF16_BLOCK(false, false, BF16_PARTS);
#undef BF16_BLOCK
}

#endif

/* gemm_bf16_pack.h - packs operands of a matrix multiplication into the bf16 tiles that AMX and AVX512-BF16 read; see
 * gemm_bf16.h.
 *
 * A's tile is 16 rows of 32 steps of k, B's is 16 pairs of steps of k for 16 columns. An operand with the other memory
 * order is packed as pairs and transposed, 16 x 16 pairs at a time. Everything is compiled for fp32 and bf16 operands,
 * and for one or three parts. */
#ifndef LVN_GEMM_BF16_PACK_H
#define LVN_GEMM_BF16_PACK_H

#include <immintrin.h>

#include "backend/cpu/gemm.h"
#include "backend/cpu/pairs.h"

enum {
    BF16_SIDE = LVN_GEMM_BLOCK,
    BF16_K = 32,      /* steps of k of a tile */
    BF16_TILE = 1024, /* bytes */
    BF16_PARTS = 3,   /* bf16 values into which an fp32 value is split; 1 if it is rounded */
};

/* Bytes of a packed step: all parts of both tiles of one operand. */
LVN_INLINE int64_t bf16_step(int parts)
{
    return 2 * parts * BF16_TILE;
}

/* Rows of A as a block reads them: packed, or in place. */
struct bf16_a {
    const char *p;
    int64_t row;  /* bytes from row to row; a second tile begins 16 rows further */
    int64_t step; /* bytes from step to step */
};

/* The parts of 16 fp32 values: three registers whose 32-bit lanes have bf16 in their upper halves. */
struct bf16_parts {
    __m512i part[BF16_PARTS];
};

LVN_INLINE struct bf16_parts bf16_split(__m512 x)
{
    const __m512i half = _mm512_set1_epi32(0x8000), mask = _mm512_set1_epi32((int)0xffff0000);
    struct bf16_parts s;
    s.part[0] = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), mask);
    x = _mm512_sub_ps(x, _mm512_castsi512_ps(s.part[0]));
    s.part[1] = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), mask);
    s.part[2] = _mm512_castps_si512(_mm512_sub_ps(x, _mm512_castsi512_ps(s.part[1])));
    return s;
}

/* Mask of the first `n` of 16 elements; n may be negative (none) or above 16 (all). */
LVN_INLINE __mmask16 bf16_first(int64_t n)
{
    return (__mmask16)(n >= 16 ? 0xffff : (1u << (n > 0 ? n : 0)) - 1);
}

LVN_INLINE __m256i bf16_load_stored(const uint16_t *p, __mmask16 mask)
{
    return _mm256_maskz_loadu_epi16(mask, p);
}

LVN_INLINE __m512 bf16_load(const void *p, __mmask16 mask, const bool bf16)
{
    if (!bf16) return _mm512_maskz_loadu_ps(mask, p);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16_load_stored(p, mask)), 16));
}

LVN_INLINE const void *bf16_at(const void *p, int64_t i, const bool bf16)
{
    return bf16 ? (const void *)((const uint16_t *)p + i) : (const void *)((const float *)p + i);
}

/* Contiguous in k: 32 steps become one row of 32 bf16. */
LVN_INLINE void bf16_line(const void *p, int64_t k, __m512i row[BF16_PARTS], const int parts, const bool bf16)
{
    const __m512i upper =
        _mm512_setr_epi32(0x30001, 0x70005, 0xb0009, 0xf000d, 0x130011, 0x170015, 0x1b0019, 0x1f001d, 0x230021,
                          0x270025, 0x2b0029, 0x2f002d, 0x330031, 0x370035, 0x3b0039, 0x3f003d);
    if (parts == 1 && bf16) {
        row[0] = _mm512_maskz_loadu_epi16(k >= BF16_K ? 0xffffffffu : (__mmask32)((1u << (k > 0 ? k : 0)) - 1), p);
        return;
    }
    __m512 a = bf16_load(p, bf16_first(k), bf16), b = bf16_load(bf16_at(p, 16, bf16), bf16_first(k - 16), bf16);
    if (parts == 1) {
        row[0] = (__m512i)_mm512_cvtne2ps_pbh(b, a);
        return;
    }
    struct bf16_parts x = bf16_split(a), y = bf16_split(b);
    for (int s = 0; s < BF16_PARTS; s++) row[s] = _mm512_permutex2var_epi16(x.part[s], upper, y.part[s]);
}

/* Contiguous in lines: steps k and k + 1 of 16 lines become one row of 16 pairs. */
LVN_INLINE void bf16_pair(const void *p, int64_t distance, int64_t k, int64_t lines, __m512i row[BF16_PARTS],
                          const int parts, const bool bf16)
{
    const __m512i zip =
        _mm512_setr_epi32(0x100000, 0x110001, 0x120002, 0x130003, 0x140004, 0x150005, 0x160006, 0x170007, 0x180008,
                          0x190009, 0x1a000a, 0x1b000b, 0x1c000c, 0x1d000d, 0x1e000e, 0x1f000f);
    const __mmask16 mask = bf16_first(lines), mask_a = k > 0 ? mask : 0, mask_b = k > 1 ? mask : 0;
    const void *q = k > 1 ? bf16_at(p, distance, bf16) : p;
    if (parts == 1 && bf16) {
        __m512i x = _mm512_cvtepu16_epi32(bf16_load_stored(p, mask_a)),
                y = _mm512_cvtepu16_epi32(bf16_load_stored(q, mask_b));
        row[0] = _mm512_or_si512(x, _mm512_slli_epi32(y, 16));
        return;
    }
    __m512 a = bf16_load(p, mask_a, bf16), b = bf16_load(q, mask_b, bf16);
    if (parts == 1) {
        row[0] = _mm512_permutexvar_epi16(zip, (__m512i)_mm512_cvtne2ps_pbh(b, a));
        return;
    }
    struct bf16_parts x = bf16_split(a), y = bf16_split(b);
    for (int s = 0; s < BF16_PARTS; s++) /* a NaN in the third part may have bits in its lower half */
        row[s] = _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(x.part[s], 16), y.part[s]);
}

/* An operand as lines (rows of A, columns of B) along k. */
struct bf16_operand {
    const void *p;
    int64_t line; /* stride between lines */
    int64_t step; /* stride between steps of k; one of the two is 1 */
    bool bf16;    /* elements are bf16 */
    bool pairs;   /* tiles have rows of pairs (operand B) instead of lines (A) */
};

/* Pack one tile of one step with all parts, which are 2 BF16_TILE apart. `lines` and `k` are the existing ones; the
 * rest is zero. Packing is memory-bound, so the next step's lines are prefetched. */
LVN_INLINE void bf16_pack_tile(const struct bf16_operand *o, const void *p, int64_t lines, int64_t k, char *out,
                               const bool along_k, const int parts, const bool bf16)
{
    __m512i row[BF16_PARTS], tile[16];
    const int64_t distance = along_k ? o->line : 2 * o->step;
    for (int i = 0; i < 16; i++, p = bf16_at(p, distance, bf16)) {
        const void *next = bf16_at(p, BF16_K * o->step, bf16);
        __builtin_prefetch(next);
        if (!along_k || !bf16) __builtin_prefetch(bf16_at(next, along_k ? 16 : o->step, bf16));
        if (along_k)
            bf16_line(i < lines ? p : o->p, i < lines ? k : 0, row, parts, bf16);
        else
            bf16_pair(2 * i < k ? p : o->p, o->step, k - 2 * i, lines, row, parts, bf16);
        for (int s = 0; s < parts; s++) _mm512_store_si512(out + s * 2 * BF16_TILE + i * 64, row[s]);
    }
    for (int s = 0; along_k == o->pairs && s < parts; s++, out += 2 * BF16_TILE) {
        for (int i = 0; i < 16; i++) tile[i] = _mm512_load_si512(out + i * 64);
        pairs_transpose(tile);
        for (int i = 0; i < 16; i++) _mm512_store_si512(out + i * 64, tile[i]);
    }
}

/* Pack one operand of a block: up to 32 lines from `line`, `k` steps from k0, as steps of bf16_step() bytes. */
LVN_INLINE void bf16_pack_side(const struct bf16_operand *o, int64_t line, int64_t lines, int64_t k0, int64_t k,
                               char *out, const bool along_k, const int parts, const bool bf16)
{
    for (int64_t s = 0; s < k; s += BF16_K, out += bf16_step(parts))
        for (int64_t i = 0; i < BF16_SIDE && i < lines; i += 16) {
            const void *p = bf16_at(o->p, (line + i) * o->line + (k0 + s) * o->step, bf16);
            bf16_pack_tile(o, p, lines - i, k - s, out + i / 16 * BF16_TILE, along_k, parts, bf16);
        }
}

static void bf16_pack(const struct bf16_operand *o, int64_t line, int64_t lines, int64_t k0, int64_t k, char *out,
                      int parts)
{
    bool along_k = o->step == 1;
#define BF16_PACK(a, p, h)                                                                                             \
    if (along_k == (a) && parts == (p) && o->bf16 == (h)) bf16_pack_side(o, line, lines, k0, k, out, a, p, h)
    BF16_PACK(false, 1, false);
    BF16_PACK(false, 1, true);
    BF16_PACK(false, BF16_PARTS, false);
    BF16_PACK(false, BF16_PARTS, true);
    BF16_PACK(true, 1, false);
    BF16_PACK(true, 1, true);
    BF16_PACK(true, BF16_PARTS, false);
    BF16_PACK(true, BF16_PARTS, true);
#undef BF16_PACK
}

#endif

/* gemm_pack.h - packs operands of a matrix multiplication into the order in which tiles (gemm_tile.h) read them.
 * gemm.cpu.c calls it.
 *
 * B: panels of up to NV vectors of columns, each (k, vectors * GL), one panel after the other; a partial last vector is
 * padded with zeros. A, if its columns are contiguous (a transposed operand): (k, MR) for one tile of rows. bf16 is
 * converted to fp32; in that case rows of A are copied too, as (MR, k). */
#ifndef LVN_GEMM_PACK_H
#define LVN_GEMM_PACK_H

#include "backend/cpu/blocks_cpu.h"
#include "backend/cpu/gemm_tile.h"
#include "backend/cpu/simd_bf16.h"

/* Columns of a panel that starts `left` columns before the end, rounded up to whole vectors. If four vectors are left,
 * a panel has two of them instead of three, because a panel of one vector uses the multipliers less. */
LVN_INLINE int64_t panel_width(int64_t left)
{
    int64_t vectors = (left + GL - 1) / GL;
    return NV == 3 && vectors == 4 ? 2 * GL : vectors >= NV ? NR : vectors * GL;
}

/* Contiguous rows of B in bf16: n columns of k rows to out[k * width]. */
static void pack_bf16_rows(int64_t k, int64_t n, const uint16_t *b, int64_t b_row, int64_t width, float *out)
{
    for (int64_t i = 0; i < k; i++, b += b_row, out += width) {
        vconvert(b, true, out, false, n);
        for (int64_t j = n; j < width; j++) out[j] = 0;
    }
}

LVN_INLINE float bf16_number(const uint16_t *p)
{
    return vf_of_bf16(vload_bf16_n(p, 1))[0];
}

LVN_INLINE gv gload_bf16(const uint16_t *p)
{
#if defined(__AVX512F__)
    const __m512i x = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(x, 16));
#else
    typedef uint16_t half __attribute__((vector_size(2 * GL)));
    typedef uint32_t whole __attribute__((vector_size(4 * GL)));
    half h;
    memcpy(&h, p, sizeof h);
    return (gv)(__builtin_convertvector(h, whole) << 16);
#endif
}

/* The first n elements; the others are zero. */
LVN_INLINE gv gload_bf16_n(const uint16_t *p, int64_t n)
{
    uint16_t x[GL] = {0};
    memcpy(x, p, (size_t)n * sizeof *p);
    return gload_bf16(x);
}

/* Contiguous rows of B: n columns of k rows to out[k * width]. */
static void pack_rows(int64_t k, int64_t n, const float *b, int64_t b_row, int64_t width, float *out)
{
    for (int64_t i = 0; i < k; i++, b += b_row, out += width)
        for (int64_t j = 0; j < width; j += GL) {
            int64_t left = n - j;
            gstore(out + j, left >= GL ? gload(b + j) : gload_n(b + j, left > 0 ? left : 0));
        }
}

#if defined(__AVX512F__) || defined(__AVX2__)
/* Four elements of every fourth row, from row i: lane group l has row i + 4 l. */
LVN_INLINE gv quads(const float *b, int64_t ld, int i)
{
    const float *p = b + i * ld;
#if defined(__AVX512F__)
    __m512 x = _mm512_castps128_ps512(_mm_loadu_ps(p));
    x = _mm512_mask_broadcast_f32x4(x, 0x00f0, _mm_loadu_ps(p + 4 * ld));
    x = _mm512_mask_broadcast_f32x4(x, 0x0f00, _mm_loadu_ps(p + 8 * ld));
    return _mm512_mask_broadcast_f32x4(x, 0xf000, _mm_loadu_ps(p + 12 * ld));
#else
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + 4 * ld), 1);
#endif
}

#if defined(__AVX512F__)
#define G(name) _mm512_##name
#else
#define G(name) _mm256_##name
#endif

/* GL columns of B, each contiguous in k, by 4 steps of k: x[step]. */
LVN_INLINE void transpose4(const float *b, int64_t ld, gv x[4])
{
    gv x0 = quads(b, ld, 0), x1 = quads(b, ld, 1), x2 = quads(b, ld, 2), x3 = quads(b, ld, 3);
    gv y0 = G(unpacklo_ps)(x0, x1), y1 = G(unpackhi_ps)(x0, x1), y2 = G(unpacklo_ps)(x2, x3),
       y3 = G(unpackhi_ps)(x2, x3);
    x[0] = G(shuffle_ps)(y0, y2, 0x44);
    x[1] = G(shuffle_ps)(y0, y2, 0xee);
    x[2] = G(shuffle_ps)(y1, y3, 0x44);
    x[3] = G(shuffle_ps)(y1, y3, 0xee);
}
#else
LVN_INLINE void transpose4(const float *b, int64_t ld, gv x[4])
{
    for (int i = 0; i < 4; i++) {
        float row[GL];
        for (int j = 0; j < GL; j++) row[j] = b[j * ld + i];
        x[i] = gload(row);
    }
}
#endif

/* GL columns of B, each contiguous in k, by STEPS_OF(bf16) steps of k: x[step]. Two bf16 are transposed as one 32-bit
 * word and then separated, so the column stride must be even. */
#define STEPS_OF(bf16) ((bf16) ? 8 : 4)

LVN_INLINE void transpose_steps(const void *b, int64_t ld, gv *x, const bool bf16)
{
    typedef uint32_t bits __attribute__((vector_size(4 * GL)));
    gv pairs[4];
    if (!bf16) {
        transpose4(b, ld, x);
        return;
    }
    transpose4(b, ld / 2, pairs);
    LVN_UNROLL
    for (int i = 0; i < 4; i++) {
        x[2 * i] = (gv)((bits)pairs[i] << 16);
        x[2 * i + 1] = (gv)((bits)pairs[i] & 0xffff0000u);
    }
}

/* Any strides: n columns of k rows to out[k * width]. Fast for whole vectors of columns that are contiguous in k. */
LVN_INLINE void pack_columns(int64_t k, int64_t n, const void *b, const bool bf16, int64_t b_row, int64_t b_col,
                             int64_t width, float *out)
{
    for (int64_t j = 0; j < width; j += GL) {
        int64_t i = 0;
        if (b_row == 1 && n - j >= GL && (!bf16 || b_col % 2 == 0))
            for (; i + STEPS_OF(bf16) <= k; i += STEPS_OF(bf16)) {
                gv x[STEPS_OF(true)];
                transpose_steps(vat(b, j * b_col + i, bf16), b_col, x, bf16);
                for (int step = 0; step < STEPS_OF(bf16); step++) gstore(out + (i + step) * width + j, x[step]);
            }
        for (; i < k; i++)
            for (int64_t l = 0; l < GL; l++) {
                const int64_t from = i * b_row + (j + l) * b_col;
                if (j + l >= n)
                    out[i * width + j + l] = 0;
                else
                    out[i * width + j + l] = bf16 ? bf16_number((const uint16_t *)b + from) : ((const float *)b)[from];
            }
    }
}

/* One panel: n columns of B, one block of k. */
static void pack_b(int64_t k, int64_t n, const void *b, bool bf16, int64_t b_row, int64_t b_col, int64_t width,
                   float *out)
{
    if (bf16 && b_col == 1)
        pack_bf16_rows(k, n, b, b_row, width, out);
    else if (bf16)
        pack_columns(k, n, b, true, b_row, b_col, width, out);
    else if (b_col == 1)
        pack_rows(k, n, b, b_row, width, out);
    else
        pack_columns(k, n, b, false, b_row, b_col, width, out);
}

/* The same from packed blocks: steps [k0, k0 + k) of columns [j, j + n). */
static void pack_blocks(const struct lvn_gemm *g, int64_t k0, int64_t k, int64_t j, int64_t n, int64_t width,
                        float *out)
{
    enum { STEP = 64 };
    float wide[NR * STEP];
    if (!blocks_are_columns(g)) {
        blocks_widen_part(g, k0, k, j, n, width, out);
        for (int64_t i = 0; i < k; i++)
            for (int64_t l = n; l < width; l++) out[i * width + l] = 0;
        return;
    }
    for (int64_t i = 0, steps; i < k; i += steps) {
        steps = k - i < STEP ? k - i : STEP;
        blocks_widen_part(g, k0 + i, steps, j, n, STEP, wide);
        pack_columns(steps, n, wide, false, 1, STEP, width, out + i * width);
    }
}

/* A tile's rows of A, any strides, to out[k * rows]. */
static void pack_a(int64_t k, int64_t rows, const float *a, int64_t a_row, int64_t a_col, float *out)
{
    for (int64_t i = 0; a_row == 1 && rows == MR && i < k; i++) memcpy(out + i * MR, a + i * a_col, MR * sizeof *a);
    if (a_row == 1 && rows == MR) return;
    for (int64_t i = 0; i < k; i++)
        for (int64_t r = 0; r < rows; r++) out[i * rows + r] = a[r * a_row + i * a_col];
}

/* The same from bf16. */
static void pack_bf16_a(int64_t k, int64_t rows, const uint16_t *a, int64_t a_row, int64_t a_col, float *out)
{
    if (a_row == 1)
        for (int64_t i = 0; i < k; i++) vconvert(a + i * a_col, true, out + i * rows, false, rows);
    else
        for (int64_t i = 0; i < k; i++)
            for (int64_t r = 0; r < rows; r++) out[i * rows + r] = bf16_number(a + r * a_row + i * a_col);
}

#endif

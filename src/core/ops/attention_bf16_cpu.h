/* attention_bf16_cpu.h - attention by blocks with products of bf16 (AMX or AVX512-BF16); sums and softmax in fp32.
 *
 * q, k, v, the output and its gradient are in bf16; probabilities and the gradients of scores are rounded to bf16 once,
 * as operands of all products in mixed precision are. Rows of scores are keys and columns are queries
 * (attention.cpu.c). So no computed matrix is transposed: S = K Q^T, and sums over keys are computed transposed as
 * well,
 *
 *     forward   O^T  = V^T P                    P as interleaved rows
 *     backward  dV  += P dO,  dK += dS Q,       P and dS as rows
 *               dQ^T = K^T dS                   dS as interleaved rows
 *
 * Inputs are transposed once, and O^T and dQ^T once for each block of queries. Factors (the scale, dropout's) are
 * applied in fp32, after the products. Squares of 32 by 32 that a causal mask hides are left out.
 *
 * Only attention.cpu.c includes it. */
#ifndef LVN_ATTENTION_BF16_CPU_H
#define LVN_ATTENTION_BF16_CPU_H

#include "backend/cpu/tile_bf16.h"
#include "ops/attention_block_cpu.h"
#include "ops/attention_softmax_cpu.h"

enum { BF16_BLOCK = TILE_BLOCK * (int)sizeof(uint16_t) }; /* bytes of a row of 64 */

/* May products round to bf16, and are queries and results in bf16? Keys and values are rounded if they are not. */
static bool bf16_fits(const struct lvn_call *c)
{
    return c->matmul_dtype == LVN_BF16 && c->attr->attention.scale > 0 && !c->attr->attention.ring &&
           is_bf16(&c->in[0]) && is_bf16(&c->out[0]) && (c->phase == LVN_FORWARD || is_bf16(&c->dout[0]));
}

static int64_t bf16_ceil(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* --- inputs: as rows, interleaved rows, transposed --------------------------------------------------------------- */

/* Copy rows of bf16, `stride` apart, to (64,width), padded with zeros. */
static void bf16_rows(const uint16_t *from, int64_t stride, int64_t rows, int64_t D, int64_t width, uint16_t *to)
{
    for (int64_t i = 0; i < TILE_BLOCK; i++, to += width)
        for (int64_t x = 0; x < width; x += 32) {
            const __mmask32 mask = i >= rows ? 0 : D - x >= 32 ? 0xffffffffu : (1u << (D - x)) - 1;
            _mm512_storeu_si512(to + x, _mm512_maskz_loadu_epi16(mask, from + (mask ? i * stride + x : 0)));
        }
}

static void bf16_rows_of(const struct lvn_arg *a, int64_t b, int64_t t0, int64_t h, int64_t rows, int64_t width,
                         uint16_t *to)
{
    if (!is_bf16(a)) {
        const float *from = (const float *)a->p + head_offset(a, b, t0, h);
        memset(to, 0, (size_t)(TILE_BLOCK * width) * sizeof *to);
        for (int64_t i = 0; i < rows; i++, from += a->desc->stride[1], to += width)
            vconvert(from, false, to, true, a->desc->dim[3]);
        return;
    }
    bf16_rows((const uint16_t *)a->p + head_offset(a, b, t0, h), a->desc->stride[1], rows, a->desc->dim[3], width, to);
}

/* Transpose words of 32 bits, (rows,columns), to (columns,rows); both are multiples of 16. With pairs of bf16 as words,
 * (64,width) becomes (width/2,64,2), the right operand of a product over channels. */
static void words_transpose(const void *from, int64_t rows, int64_t columns, void *to)
{
    for (int64_t i = 0; i < rows; i += 16)
        for (int64_t x = 0; x < columns; x += 16) {
            __m512i r[16];
            for (int l = 0; l < 16; l++) r[l] = _mm512_loadu_si512((const uint32_t *)from + (i + l) * columns + x);
            pairs_transpose(r);
            for (int l = 0; l < 16; l++) _mm512_storeu_si512((uint32_t *)to + (x + l) * rows + i, r[l]);
        }
}

/* (64,width) to (64/2, width, 2), the right operand of a product over rows. */
static void bf16_zip(const uint16_t *from, int64_t width, uint16_t *to)
{
    for (int64_t i = 0; i < TILE_BLOCK; i += 2, from += 2 * width, to += 2 * width)
        for (int64_t x = 0; x < width; x += 32) {
            const __m512i a = _mm512_loadu_si512(from + x), b = _mm512_loadu_si512(from + width + x);
            _mm512_storeu_si512(to + 2 * x, pairs_interleave(a, b, false));
            _mm512_storeu_si512(to + 2 * x + 32, pairs_interleave(a, b, true));
        }
}

/* (64,width) to (width,64), the left operand of a product over rows. */
static void bf16_transpose(const uint16_t *from, int64_t width, uint16_t *to)
{
    for (int64_t i = 0; i < TILE_BLOCK; i += 32)
        for (int64_t x = 0; x < width; x += 32)
            pairs_transpose_block(from + i * width + x, width, to + x * TILE_BLOCK + i, TILE_BLOCK);
}

/* --- products of a block ----------------------------------------------------------------------------------------- */

/* s (keys, queries) = rows (64,width) times pairs (width/2,64,2), for the keys that some query of 32 sees. */
static void bf16_scores(const struct block *k, int64_t width, const uint16_t *rows, const uint16_t *pairs, float *s)
{
    for (int64_t v = 0; v < k->vectors; v += 2) {
        const int64_t n = k->vectors - v < 2 ? 1 : 2, end = visible_to_any(k, v + n - 1);
        const int64_t from = seen_from(k, v * LVN_LANES, end) / 16 * 16;
        bf16_multiply(&(struct bf16_product){.a = rows + from * width,
                                             .a_row = width * 2,
                                             .b = pairs + v * 2 * LVN_LANES,
                                             .b_row = 2 * BF16_BLOCK,
                                             .steps = width / 32,
                                             .c = s + from * TILE_BLOCK + v * LVN_LANES,
                                             .c_row = 2 * BF16_BLOCK,
                                             .m = bf16_ceil(end, 16) - from,
                                             .n = n * LVN_LANES});
    }
}

/* sums (width, queries) = (or +=) transposed (width,64) times pairs (64/2,64,2), over the keys that queries see. */
static void bf16_sum_over_keys(const struct block *k, int64_t width, const uint16_t *transposed, const uint16_t *pairs,
                               float *sums, bool add)
{
    for (int64_t v = 0; v < k->vectors; v += 2) {
        const int64_t n = k->vectors - v < 2 ? 1 : 2, end = visible_to_any(k, v + n - 1);
        const int64_t from = seen_from(k, v * LVN_LANES, end) / 32 * 32;
        bf16_multiply(&(struct bf16_product){.a = transposed + from,
                                             .a_row = BF16_BLOCK,
                                             .b = pairs + from * TILE_BLOCK + v * 2 * LVN_LANES,
                                             .b_row = 2 * BF16_BLOCK,
                                             .steps = (bf16_ceil(end, 32) - from) / 32,
                                             .c = sums + v * LVN_LANES,
                                             .c_row = 2 * BF16_BLOCK,
                                             .m = width,
                                             .n = n * LVN_LANES,
                                             .add = add});
    }
}

/* sums (keys, width) += p (64,64) times interleaved rows (64/2,width,2), over the queries that see a key of 32. */
static void bf16_sum_over_queries(const struct block *k, int64_t width, const uint16_t *p, const uint16_t *interleaved,
                                  float *sums)
{
    for (int64_t j = 0; j < k->keys; j += 32) {
        const int64_t end = queries_end(k, j + 31), keys = k->keys - j;
        const int64_t first = clamp(j - k->diagonal + 1, end) / 32 * 32;
        bf16_multiply(&(struct bf16_product){.a = p + j * TILE_BLOCK + first,
                                             .a_row = BF16_BLOCK,
                                             .b = interleaved + first * width,
                                             .b_row = width * 4,
                                             .steps = bf16_ceil(end - first, 32) / 32,
                                             .c = sums + j * width,
                                             .c_row = width * 4,
                                             .m = keys < 32 ? bf16_ceil(keys, 16) : 32,
                                             .n = width,
                                             .add = true});
    }
}

/* Vectors [v, v + 2) of row j of s, rounded to bf16; zeros beyond the block. */
LVN_INLINE __m512i rounded_row(const struct block *k, const float *s, int64_t j, int64_t v)
{
    const __m512 zero = _mm512_setzero_ps();
    const bool in = j < k->keys;
    const __m512 a = in ? _mm512_loadu_ps(s + j * TILE_BLOCK + v * LVN_LANES) : zero;
    const __m512 b = in && v + 1 < k->vectors ? _mm512_loadu_ps(s + j * TILE_BLOCK + (v + 1) * LVN_LANES) : zero;
    return (__m512i)_mm512_cvtne2ps_pbh(b, a);
}

/* Round s (keys, queries) to bf16: to rows (64,64) and to interleaved rows (64/2,64,2). NULL: not needed. */
LVN_INLINE void bf16_round(const struct block *k, const float *s, uint16_t *rows, uint16_t *interleaved)
{
    for (int64_t j = 0; j < k->keys; j += 2)
        for (int64_t v = 0; v < TILE_BLOCK / LVN_LANES; v += 2) {
            const __m512i zero = _mm512_setzero_si512();
            const __m512i a = v < k->vectors ? rounded_row(k, s, j, v) : zero;
            const __m512i b = v < k->vectors ? rounded_row(k, s, j + 1, v) : zero;
            if (rows) {
                _mm512_storeu_si512(rows + j * TILE_BLOCK + v * LVN_LANES, a);
                _mm512_storeu_si512(rows + (j + 1) * TILE_BLOCK + v * LVN_LANES, b);
            }
            if (interleaved) {
                _mm512_storeu_si512(interleaved + (j * TILE_BLOCK + 2 * v * LVN_LANES), pairs_interleave(a, b, false));
                _mm512_storeu_si512(interleaved + (j * TILE_BLOCK + 2 * v * LVN_LANES) + 32,
                                    pairs_interleave(a, b, true));
            }
        }
    /* products take 32 keys at a time */
    const int64_t from = bf16_ceil(k->keys, 2), more = bf16_ceil(k->keys, 32) - from;
    if (rows) memset(rows + from * TILE_BLOCK, 0, (size_t)(more * BF16_BLOCK));
    if (interleaved) memset(interleaved + from * TILE_BLOCK, 0, (size_t)(more * BF16_BLOCK));
}

/* --- forward ----------------------------------------------------------------------------------------------------- */

static void bf16_load_values(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t n)
{
    uint16_t *staged = (uint16_t *)w->ot;
    for (int64_t j = 0; j < n; j += TILE_BLOCK) {
        const int64_t rows = n - j < TILE_BLOCK ? n - j : TILE_BLOCK;
        bf16_rows_of(&c->in[1], b, j, h, rows, w->width, w->krows + j * w->width);
        bf16_rows_of(&c->in[2], b, j, h, rows, w->width, staged);
        bf16_transpose(staged, w->width, w->transposed + j * w->width);
    }
}

/* Multiply the sums so far by w->shrink, where that is not 1. */
static void bf16_shrink(struct work *w, const struct block *k)
{
    for (int64_t v = 0; v < k->vectors; v++) {
        const vf shrink = vload(w->shrink + v * LVN_LANES);
        if (_mm512_cmpeq_ps_mask((__m512)shrink, _mm512_set1_ps(1)) == 0xffff) continue;
        for (int64_t x = 0; x < w->width; x++) {
            float *p = w->ot + x * TILE_BLOCK + v * LVN_LANES;
            vstore(p, vload(p) * shrink);
        }
    }
}

static void bf16_forward_block(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t t0)
{
    const struct attention_sizes *s = &w->sizes;
    const int64_t rows = block_rows(s, t0), n_keys = attention_end_key(s, b, t0 + rows - 1);
    const int64_t begin = first_block(s, b, t0);
    const uint64_t dropout_row = attention_dropout_row(s, c->step, b, h, t0);

    ranges_begin(w, b, t0, rows);
    bf16_rows_of(&c->in[0], b, t0, h, rows, w->width, (uint16_t *)w->ot);
    words_transpose((uint16_t *)w->ot, TILE_BLOCK, w->width / 2, w->qpairs);
    softmax_begin(w);
    if (begin >= n_keys) memset(w->ot, 0, (size_t)(TILE_BLOCK * w->width) * sizeof(float));
    pairs_begin();
    for (int64_t j0 = begin; j0 < n_keys; j0 += TILE_BLOCK) {
        const struct block k = block_make(w, b, t0, rows, j0, n_keys);
        bf16_scores(&k, w->width, w->krows + j0 * w->width, w->qpairs, w->s);
        softmax_block(w, &k, dropout_row);
        bf16_round(&k, w->s, NULL, w->pairs);
        if (j0 > begin) bf16_shrink(w, &k);
        bf16_sum_over_keys(&k, w->width, w->transposed + j0 * w->width, w->pairs, w->ot, j0 > begin);
    }
    pairs_end();
    words_transpose(w->ot, w->width, TILE_BLOCK, w->o);
    forward_store(w, c, b, h, t0, rows);
}

/* --- backward ---------------------------------------------------------------------------------------------------- */

static void bf16_load_keys(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t first, int64_t end)
{
    for (int64_t j = first; j < end; j += TILE_BLOCK) {
        const int64_t rows = end - j < TILE_BLOCK ? end - j : TILE_BLOCK, at = j * w->width;
        bf16_rows_of(&c->in[1], b, j, h, rows, w->width, w->krows + at);
        bf16_rows_of(&c->in[2], b, j, h, rows, w->width, w->vrows + at);
        bf16_transpose(w->krows + at, w->width, w->transposed + at);
    }
}

/* Load queries t0.. of head h and the gradient of their output, transposed and interleaved; logsumexp, and row sums of
 * dO O.
 */
static void bf16_load_queries(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t t0, int64_t rows)
{
    const struct attention_sizes *s = &w->sizes;
    const struct lvn_desc *d = c->dout[0].desc;
    uint16_t *staged = (uint16_t *)w->ot;
    bf16_rows_of(&c->in[0], b, t0, h, rows, w->width, staged);
    words_transpose(staged, TILE_BLOCK, w->width / 2, w->qpairs);
    bf16_zip(staged, w->width, w->qrows);
    bf16_rows((const uint16_t *)c->dout[0].p + b * d->stride[0] + t0 * d->stride[1] + h * s->D, d->stride[1], rows,
              s->D, w->width, staged);
    words_transpose(staged, TILE_BLOCK, w->width / 2, w->dpairs);
    bf16_zip(staged, w->width, w->drows);
    row_sums(w, c, b, h, t0, rows);
}

static void bf16_backward_block(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t t0,
                                int64_t first, int64_t end, bool keys, bool queries)
{
    const struct attention_sizes *s = &w->sizes;
    const int64_t rows = block_rows(s, t0), width = w->width;
    const int64_t seen = attention_end_key(s, b, t0 + rows - 1), n_keys = seen < end ? seen : end;
    const int64_t begin = first_block(s, b, t0), from = begin > first ? begin : first;
    const uint64_t dropout_row = attention_dropout_row(s, c->step, b, h, t0);
    if (n_keys <= from && !queries) return;

    ranges_begin(w, b, t0, rows);
    bf16_load_queries(w, c, b, h, t0, rows);
    if (n_keys <= from) memset(w->ot, 0, (size_t)(TILE_BLOCK * width) * sizeof(float));
    pairs_begin();
    for (int64_t j0 = from; j0 < n_keys; j0 += TILE_BLOCK) {
        const struct block k = block_make(w, b, t0, rows, j0, seen);
        bf16_scores(&k, width, w->krows + j0 * width, w->qpairs, w->s);
        bf16_scores(&k, width, w->vrows + j0 * width, w->dpairs, w->dp);
        gradient_block(w, &k, dropout_row);
        if (keys) {
            bf16_round(&k, w->s, w->p, NULL);
            bf16_round(&k, w->dp, w->g, w->pairs);
            bf16_sum_over_queries(&k, width, w->p, w->drows, w->dv + j0 * width);
            bf16_sum_over_queries(&k, width, w->g, w->qrows, w->dk + j0 * width);
        } else {
            bf16_round(&k, w->dp, NULL, w->pairs);
        }
        if (queries) bf16_sum_over_keys(&k, width, w->transposed + j0 * width, w->pairs, w->ot, j0 > from);
    }
    pairs_end();
    if (!queries) return;
    words_transpose(w->ot, width, TILE_BLOCK, w->dq);
    for (int64_t i = 0; i < rows; i++)
        row_store(&c->din[0], head_offset(&c->din[0], b, t0 + i, h), w->dq + i * width, s->D, w->dk_scale, c->add[0]);
}

static const struct method bf16_method = {bf16_load_values, bf16_forward_block, bf16_load_keys, bf16_backward_block};

#endif

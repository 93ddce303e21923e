/* attention_block.h - what one thread holds while it works through blocks of attention, and the products of a block.
 *
 * Only attention.cpu.c includes it. A block is at most 64 keys (rows) by 64 queries (lanes of vectors). */
#ifndef LVN_ATTENTION_BLOCK_H
#define LVN_ATTENTION_BLOCK_H

#include "backend/cpu/simd_half.h"
#include "backend/cpu/simd_math.h"
#include "backend/cpu/simd_random.h"
#include "backend/cpu/tile.h"
#include "ops/attention.h"

/* A thread's scratch. Rows of D channels are padded to `width`, a multiple of 16; transposed blocks are (D,64). */
struct work {
    struct attention_sizes sizes;
    int64_t width;
    bool dropout;
    struct vdropout drop;
    float *kt, *v;             /* keys, one (D,64) block after the other; forward: values (Tk,width) */
    float *plain;              /* (64,width): a block of rows on its way to be transposed */
    float *qt, *s, *o;         /* queries (D,64), scores (64 keys, 64 queries), forward: sums (64,width) */
    float *top, *sum, *shrink; /* by query: running maximum, sum, factor; backward: logsumexp, rowsum(dO O), unused */
    float *vt, *k, *dk, *dv;   /* backward: values like kt; keys and gradients (Tk,width) */
    float *q, *dout, *dq;      /* backward: (64,width) */
    float *doutt, *dp;         /* backward: (D,64) and (64,64) */
};

static bool dropout_on(const struct lvn_call *c)
{
    return c->attr->attention.p > 0 && c->step && c->step->training && lvn_dropout_threshold(c->attr->attention.p) > 0;
}

/* Lays the parts out behind each other from `base`, which may be NULL; returns how many floats they take. */
static int64_t work_place(struct work *w, float *base, bool backward)
{
    const struct attention_sizes *s = &w->sizes;
    const int64_t blocks = (s->Tk + TILE_BLOCK - 1) / TILE_BLOCK * TILE_BLOCK, width = w->width;
    const int64_t d = (s->D + LVN_LANES - 1) / LVN_LANES * LVN_LANES;
    const struct {
        float **p;
        int64_t n;
        int when; /* 0: both, 1: forward, 2: backward */
    } part[] = {
        {&w->kt, blocks * s->D, 0},          {&w->plain, TILE_BLOCK * width, 0}, {&w->qt, d * TILE_BLOCK, 0},
        {&w->s, TILE_BLOCK * TILE_BLOCK, 0}, {&w->top, TILE_BLOCK, 0},           {&w->sum, TILE_BLOCK, 0},
        {&w->shrink, TILE_BLOCK, 0},         {&w->v, s->Tk * width, 1},          {&w->o, TILE_BLOCK * width, 1},
        {&w->vt, blocks * s->D, 2},          {&w->k, s->Tk * width, 2},          {&w->dk, s->Tk * width, 2},
        {&w->dv, s->Tk * width, 2},          {&w->q, TILE_BLOCK * width, 2},     {&w->dout, TILE_BLOCK * width, 2},
        {&w->dq, TILE_BLOCK * width, 2},     {&w->doutt, d * TILE_BLOCK, 2},     {&w->dp, TILE_BLOCK * TILE_BLOCK, 2},
    };
    int64_t floats = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (part[i].when && part[i].when != 1 + backward) continue;
        if (base) *part[i].p = base + floats;
        floats += part[i].n;
    }
    return (floats + 15) / 16 * 16;
}

static int64_t work_floats(const struct attention_sizes *s, bool backward)
{
    struct work w = {.sizes = *s, .width = (s->D + LVN_LANES - 1) / LVN_LANES * LVN_LANES};
    return work_place(&w, NULL, backward);
}

static void work_init(struct work *w, const struct lvn_call *c, int thread, bool backward)
{
    w->width = (w->sizes.D + LVN_LANES - 1) / LVN_LANES * LVN_LANES;
    w->dropout = dropout_on(c);
    if (w->dropout) w->drop = vdropout_make(c->step->seed, (uint64_t)c->step->step, c->op_hash, c->attr->attention.p);
    work_place(w, (float *)c->scratch + thread * work_floats(&w->sizes, backward), backward);
}

/* Where row (b,t,h) of a (B,T,H,D) tensor starts, in elements. */
static int64_t head_at(const struct lvn_arg *a, int64_t b, int64_t t, int64_t h)
{
    return b * a->desc->stride[0] + t * a->desc->stride[1] + h * a->desc->stride[2];
}

static bool is_half(const struct lvn_arg *a)
{
    return a->desc->dtype == LVN_BF16;
}

/* Rows t0.. of head h, times a factor, as (rows,width), padded with zeros. */
LVN_INLINE void pack_rows_of(const struct lvn_arg *a, int64_t b, int64_t t0, int64_t h, int64_t rows, int64_t width,
                             float factor, float *to, const bool half)
{
    const int64_t D = a->desc->dim[3];
    for (int64_t i = 0; i < rows; i++) {
        const int64_t from = head_at(a, b, t0 + i, h);
        int64_t x = 0;
        for (; x + LVN_LANES <= D; x += LVN_LANES)
            vstore(to + i * width + x, vread(a->p, from + x, half) * vset(factor));
        if (x < D) vstore(to + i * width + x, vread_n(a->p, from + x, D - x, half) * vset(factor));
    }
}

static void pack_rows(const struct lvn_arg *a, int64_t b, int64_t t0, int64_t h, int64_t rows, int64_t width,
                      float factor, float *to)
{
    if (is_half(a))
        pack_rows_of(a, b, t0, h, rows, width, factor, to, true);
    else
        pack_rows_of(a, b, t0, h, rows, width, factor, to, false);
}

/* Up to 64 rows t0.. of head h, times a factor, as one (D,64) block. */
static void pack_block(struct work *w, const struct lvn_arg *a, int64_t b, int64_t t0, int64_t h, int64_t rows,
                       float factor, float *to)
{
    const int64_t D = a->desc->dim[3];
    if (is_half(a)) {
        pack_rows_of(a, b, t0, h, rows, w->width, factor, w->plain, true);
        tile_transpose(rows, D, w->plain, w->width, 1.0f, to);
    } else {
        tile_transpose(rows, D, vat(a->p, head_at(a, b, t0, h), false), a->desc->stride[1], factor, to);
    }
}

/* Rows [first, end) of head h as (D,64) blocks; block n starts at 64 n D. `first` is a multiple of 64. */
static void pack_transposed(struct work *w, const struct lvn_arg *a, int64_t b, int64_t h, int64_t first, int64_t end,
                            float *to)
{
    for (int64_t j = first; j < end; j += TILE_BLOCK)
        pack_block(w, a, b, j, h, end - j < TILE_BLOCK ? end - j : TILE_BLOCK, 1.0f, to + j * a->desc->dim[3]);
}

LVN_INLINE void row_store_as(void *p, int64_t to, const float *from, int64_t D, float factor, bool add, const bool half)
{
    for (int64_t x = 0; x < D; x += LVN_LANES) {
        const int64_t n = D - x < LVN_LANES ? D - x : LVN_LANES;
        vf y = vload(from + x) * vset(factor);
        if (n == LVN_LANES)
            vwrite(p, to + x, add ? vread(p, to + x, half) + y : y, half);
        else
            vwrite_n(p, to + x, add ? vread_n(p, to + x, n, half) + y : y, n, half);
    }
}

/* Elements `to`.. (D) = or += factor * from (width). */
static void row_store(const struct lvn_arg *a, int64_t to, const float *from, int64_t D, float factor, bool add)
{
    if (is_half(a))
        row_store_as(a->p, to, from, D, factor, add, true);
    else
        row_store_as(a->p, to, from, D, factor, add, false);
}

/* Blocks of keys that query block i of sample b meets, at least 1: its cost. */
static int64_t query_block_cost(const struct attention_sizes *s, int64_t b, int64_t i)
{
    const int64_t end = (i + 1) * TILE_BLOCK < s->Tq ? (i + 1) * TILE_BLOCK : s->Tq;
    return attention_visible(s, b, end - 1) / TILE_BLOCK + 1;
}

/* Which part of a block counts: query i sees the keys j < keys with j < i + diagonal. */
struct block {
    int64_t first_key, keys, queries, vectors, diagonal;
};

static struct block block_make(const struct attention_sizes *s, int64_t t0, int64_t rows, int64_t j0, int64_t n_keys)
{
    struct block k = {.first_key = j0, .queries = rows, .diagonal = TILE_BLOCK};
    k.keys = n_keys - j0 < TILE_BLOCK ? n_keys - j0 : TILE_BLOCK;
    k.vectors = (rows + LVN_LANES - 1) / LVN_LANES;
    if (s->causal) k.diagonal = t0 + (s->cached ? s->position : s->Tk - s->Tq) + 1 - j0;
    return k;
}

static int64_t clamp(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x < most ? x : most;
}

/* Keys before this one are seen by all 16 queries of vector v; from the other on, by none. */
static int64_t visible_to_all(const struct block *k, int64_t v)
{
    return clamp(v * LVN_LANES + k->diagonal, k->keys);
}

static int64_t visible_to_any(const struct block *k, int64_t v)
{
    return clamp(v * LVN_LANES + LVN_LANES - 1 + k->diagonal, k->keys);
}

LVN_INLINE vi visible_lanes(const struct block *k, int64_t v, int64_t j)
{
    return vgreater_int(viota(), (vi){0} + (int32_t)(j - k->diagonal - v * LVN_LANES));
}

/* s (keys, queries) = sum over D of kt (D,64) and qt (D,64), where some query of a vector sees the key. */
static void scores(const struct block *k, int64_t D, const float *kt, const float *qt, float *s)
{
    for (int64_t v = 0, n; v < k->vectors; v += n) {
        n = tile_vectors(k->vectors - v);
        while (n > 1 && visible_to_any(k, v) < visible_to_any(k, v + n - 1)) n--; /* near the diagonal: by one */
        const int64_t keys = visible_to_any(k, v);
        const struct tile_shape *t = tile_shapes[n];
        for (int64_t j = 0; j < keys; j += t->rows) {
            while (j + t->rows > keys) t++;
            t->function[1](D, kt + j, qt + v * LVN_LANES, TILE_BLOCK, s + j * TILE_BLOCK + v * LVN_LANES, TILE_BLOCK,
                           false);
        }
    }
}

/* c (queries, width) = or += sum over keys of p (keys, queries) and b (keys, width). */
static void sum_over_keys(const struct block *k, int64_t width, const float *p, const float *b, float *c, bool add)
{
    for (int64_t v = 0, left = width / LVN_LANES, n; left > 0; v += n, left -= n) {
        n = tile_vectors(left);
        const struct tile_shape *t = tile_shapes[n];
        for (int64_t i = 0; i < k->queries; i += t->rows) {
            while (i + t->rows > k->queries) t++;
            t->function[1](clamp(i + t->rows - 1 + k->diagonal, k->keys), p + i, b + v * LVN_LANES, width,
                           c + i * width + v * LVN_LANES, width, add);
        }
    }
}

/* c (keys, width) += sum over queries of p (keys, queries) and b (queries, width). */
static void sum_over_queries(const struct block *k, int64_t width, const float *p, const float *b, float *c)
{
    for (int64_t v = 0, left = width / LVN_LANES, n; left > 0; v += n, left -= n) {
        n = tile_vectors(left);
        const struct tile_shape *t = tile_shapes[n];
        for (int64_t j = 0; j < k->keys; j += t->rows) {
            while (j + t->rows > k->keys) t++;
            const int64_t i = clamp(j - k->diagonal + 1, k->queries); /* the first query that sees key j */
            t->function[0](k->queries - i, p + j * TILE_BLOCK + i, b + i * width + v * LVN_LANES, width,
                           c + j * width + v * LVN_LANES, width, true);
        }
    }
}

#endif

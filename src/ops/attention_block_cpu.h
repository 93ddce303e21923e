/* attention_block_cpu.h - what one thread holds while it works through blocks of attention, and the products of a
 * block.
 *
 * Only attention.cpu.c includes it. A block is at most 64 keys (rows) by 64 queries (lanes of vectors). */
#ifndef LVN_ATTENTION_BLOCK_CPU_H
#define LVN_ATTENTION_BLOCK_CPU_H

#include "backend/cpu/simd_bf16.h"
#include "backend/cpu/simd_random.h"
#include "backend/cpu/tile.h"
#include "ops/attention.h"

struct work;

/* How blocks are computed: in fp32, or by products of bf16 (attention_bf16_cpu.h). */
struct method {
    /* Keys and values of key head h, n keys: forward. */
    void (*load_values)(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t n);
    void (*forward_block)(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t t0);
    /* Keys [first, end) and their values: backward. */
    void (*load_keys)(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t first, int64_t end);
    /* Queries t0.. of query head h against the keys of [first, end): adds to dK and dV (`keys`), sets dQ (`queries`).
     */
    void (*backward_block)(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t t0, int64_t first,
                           int64_t end, bool keys, bool queries);
};

/* A thread's scratch. Rows of D channels are padded to `width`, a multiple of 16; transposed blocks are (D,64). */
struct work {
    struct attention_sizes sizes;
    const struct method *method;
    bool bf16; /* products of bf16; width is a multiple of 32 */
    int64_t width;
    float scale, kept;        /* factors of the scores and, backward, of dO V^T, where the products leave them out */
    float dk_scale, dv_scale; /* of the sums in dk and dv */
    bool dropout;
    struct vdropout drop;
    float *s, *dp;             /* (64 keys, 64 queries): scores; backward: dO V^T */
    float *o, *dq;             /* (64,width): sums of queries; forward, backward; bf16: in the place of s */
    float *top, *sum, *shrink; /* by query: running maximum, sum, factor; backward: logsumexp, rowsum(dO O), unused */
    float *dk, *dv;            /* gradients of keys and values (Tk,width); bf16: (blocks of 64, width) */
    /* fp32 */
    float *kt, *vt;    /* keys and, backward, values, one (D,64) block after the other */
    float *v, *k;      /* forward: values (Tk,width); backward: keys */
    float *plain;      /* (64,width): a block of rows on its way to be transposed */
    float *qt, *doutt; /* queries and dO, (D,64) */
    float *q, *dout;   /* backward: (64,width) */
    /* bf16 (attention_bf16_cpu.h) */
    uint16_t *krows, *vrows;   /* keys and, backward, values (blocks of 64, width) */
    uint16_t *transposed;      /* forward: values, backward: keys, one (width,64) block after the other */
    uint16_t *qpairs, *dpairs; /* queries and dO: (width/2, 64, 2) */
    uint16_t *qrows, *drows;   /* backward: the same as (64/2, width, 2) */
    uint16_t *p, *g;           /* backward: probabilities and gradients of scores (64 keys, 64 queries) */
    uint16_t *pairs;           /* forward: probabilities, backward: gradients of scores (64/2, 64, 2) */
    float *ot;                 /* sums of queries, transposed (width,64) */
};

static bool dropout_on(const struct lvn_call *c)
{
    return c->attr->attention.p > 0 && c->step && c->step->training && lvn_dropout_threshold(c->attr->attention.p) > 0;
}

/* Lays the parts out behind each other from `base`, which may be NULL; returns how many floats they take. */
static int64_t work_place(struct work *w, float *base, bool backward)
{
    enum { FORWARD = 1, BACKWARD = 2, BOTH = 3 };
    const struct attention_sizes *s = &w->sizes;
    const int64_t width = w->width, block = TILE_BLOCK * TILE_BLOCK, rows = TILE_BLOCK * width;
    const int64_t blocks = (s->Tk + TILE_BLOCK - 1) / TILE_BLOCK * TILE_BLOCK;
    const int64_t transposed = TILE_BLOCK * ((s->D + LVN_LANES - 1) / LVN_LANES * LVN_LANES);
    const int64_t keys = w->bf16 ? blocks : s->Tk;
    const int F = w->bf16 ? 0 : FORWARD, B = w->bf16 ? 0 : BACKWARD; /* fp32 */
    const int f = FORWARD - F, b = BACKWARD - B;                     /* bf16: two in the place of a float */
    const struct {
        void *p;
        int64_t floats;
        int when;
    } part[] = {
        {&w->s, w->bf16 && rows > block ? rows : block, BOTH},
        {&w->dp, block, BACKWARD},
        {&w->o, rows, F},
        {&w->dq, rows, B},
        {&w->top, TILE_BLOCK, BOTH},
        {&w->sum, TILE_BLOCK, BOTH},
        {&w->shrink, TILE_BLOCK, BOTH},
        {&w->dk, keys * width, BACKWARD},
        {&w->dv, keys * width, BACKWARD},
        {&w->kt, blocks * s->D, F + B},
        {&w->vt, blocks * s->D, B},
        {&w->v, s->Tk * width, F},
        {&w->k, s->Tk * width, B},
        {&w->plain, rows, F + B},
        {&w->qt, transposed, F + B},
        {&w->doutt, transposed, B},
        {&w->q, rows, B},
        {&w->dout, rows, B},
        {&w->krows, blocks * width / 2, f + b},
        {&w->vrows, blocks * width / 2, b},
        {&w->transposed, blocks * width / 2, f + b},
        {&w->qpairs, rows / 2, f + b},
        {&w->dpairs, rows / 2, b},
        {&w->qrows, rows / 2, b},
        {&w->drows, rows / 2, b},
        {&w->p, block / 2, b},
        {&w->g, block / 2, b},
        {&w->pairs, block / 2, f + b},
        {&w->ot, rows, f + b},
    };
    int64_t floats = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        if (!(part[i].when & (backward ? BACKWARD : FORWARD))) continue;
        float *here = base + floats;
        if (base) memcpy(part[i].p, &here, sizeof here);
        floats += part[i].floats;
    }
    if (w->bf16) w->o = w->dq = w->s; /* when the scores are done with */
    return (floats + 15) / 16 * 16;
}

/* Where row (b,t,h) of a (B,T,H,D) tensor starts, in elements. */
static int64_t head_at(const struct lvn_arg *a, int64_t b, int64_t t, int64_t h)
{
    return b * a->desc->stride[0] + t * a->desc->stride[1] + h * a->desc->stride[2];
}

static bool is_bf16(const struct lvn_arg *a)
{
    return a->desc->dtype == LVN_BF16;
}

/* Rows t0.. of head h, times a factor, as (rows,width), padded with zeros. */
LVN_INLINE void pack_rows_of(const struct lvn_arg *a, int64_t b, int64_t t0, int64_t h, int64_t rows, int64_t width,
                             float factor, float *to, const bool bf16)
{
    const int64_t D = a->desc->dim[3];
    for (int64_t i = 0; i < rows; i++) {
        const int64_t from = head_at(a, b, t0 + i, h);
        int64_t x = 0;
        for (; x + LVN_LANES <= D; x += LVN_LANES)
            vstore(to + i * width + x, vread(a->p, from + x, bf16) * vset(factor));
        if (x < D) vstore(to + i * width + x, vread_n(a->p, from + x, D - x, bf16) * vset(factor));
    }
}

static void pack_rows(const struct lvn_arg *a, int64_t b, int64_t t0, int64_t h, int64_t rows, int64_t width,
                      float factor, float *to)
{
    if (is_bf16(a))
        pack_rows_of(a, b, t0, h, rows, width, factor, to, true);
    else
        pack_rows_of(a, b, t0, h, rows, width, factor, to, false);
}

/* Up to 64 rows t0.. of head h, times a factor, as one (D,64) block. */
static void pack_block(struct work *w, const struct lvn_arg *a, int64_t b, int64_t t0, int64_t h, int64_t rows,
                       float factor, float *to)
{
    const int64_t D = a->desc->dim[3];
    if (is_bf16(a)) {
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

LVN_INLINE void row_store_as(void *p, int64_t to, const float *from, int64_t D, float factor, bool add, const bool bf16)
{
    for (int64_t x = 0; x < D; x += LVN_LANES) {
        const int64_t n = D - x < LVN_LANES ? D - x : LVN_LANES;
        vf y = vload(from + x) * vset(factor);
        if (n == LVN_LANES)
            vwrite(p, to + x, add ? vread(p, to + x, bf16) + y : y, bf16);
        else
            vwrite_n(p, to + x, add ? vread_n(p, to + x, n, bf16) + y : y, n, bf16);
    }
}

/* Elements `to`.. (D) = or += factor * from (width). */
static void row_store(const struct lvn_arg *a, int64_t to, const float *from, int64_t D, float factor, bool add)
{
    if (is_bf16(a))
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

static int64_t block_rows(const struct attention_sizes *s, int64_t t0)
{
    return s->Tq - t0 < TILE_BLOCK ? s->Tq - t0 : TILE_BLOCK;
}

/* Which part of a block counts: query i sees the keys j < keys with j < i + diagonal. */
struct block {
    int64_t first_key, keys, queries, vectors, diagonal;
};

static struct block block_make(const struct attention_sizes *s, int64_t b, int64_t t0, int64_t rows, int64_t j0,
                               int64_t n_keys)
{
    struct block k = {.first_key = j0, .queries = rows, .diagonal = TILE_BLOCK};
    k.keys = n_keys - j0 < TILE_BLOCK ? n_keys - j0 : TILE_BLOCK;
    k.vectors = (rows + LVN_LANES - 1) / LVN_LANES;
    if (s->causal) k.diagonal = t0 + attention_first_query(s, b) + 1 - j0;
    return k;
}

static int64_t clamp(int64_t x, int64_t max)
{
    return x < 0 ? 0 : x < max ? x : max;
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

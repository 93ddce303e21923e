/* attention_block_cpu.h - a thread's scratch for attention by blocks, and the fp32 products of a block.
 *
 * A block is at most 64 keys (rows) by 64 queries (lanes of vectors). Only attention.cpu.c includes it, and headers
 * that it includes. */
#ifndef LVN_ATTENTION_BLOCK_CPU_H
#define LVN_ATTENTION_BLOCK_CPU_H

#include "backend/cpu/simd_bf16.h"
#include "backend/cpu/simd_random.h"
#include "backend/cpu/tile.h"
#include "ops/attention.h"

struct work;

/* A sum over more terms (keys, or in backward queries) is divided into parts of this size: a part is summed in fp32,
 * block by block, and the parts are added in double, or to the gradients. So long sums lose no more than those of one
 * part. */
enum { SUM_PART = 64 * TILE_BLOCK };

/* How blocks are computed: in fp32 (attention.cpu.c), or by products of bf16 (attention_bf16_cpu.h). */
struct method {
    /* Forward: load the keys and values [w->base, n) of key head h. */
    void (*load_values)(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t n);
    void (*forward_block)(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t t0);
    /* Backward: load keys [first, end) and their values. */
    void (*load_keys)(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t first, int64_t end);
    /* Queries t0.. of query head h with keys [first, end): add to dK and dV if `keys`, set dQ if `queries`. */
    void (*backward_block)(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t t0, int64_t first,
                           int64_t end, bool keys, bool queries);
};

/* A thread's scratch. Rows of D channels are padded to `width`, a multiple of 16; transposed blocks are (D,64). */
struct work {
    struct attention_sizes sizes;
    const struct method *method;
    bool bf16; /* products of bf16; width is a multiple of 32 */
    int64_t width;
    float scale;               /* factor of the scores; 1: the queries are scaled, or the scores capped, already */
    float cap;                 /* soft cap of the scores; 0: none */
    float cap_scale;           /* factor of the scores before the cap */
    bool ranged;               /* a window or segments hide keys before those that a query sees */
    int32_t first[TILE_BLOCK]; /* if ranged: the first key that each query of the block, or a later one, sees */
    int32_t own[TILE_BLOCK];   /* with hidden keys: the first key that each query sees */
    int32_t hidden[2 * LVN_HIDDEN_RANGES][TILE_BLOCK]; /* begin and end of each range of keys hidden from each query */
    int64_t base;                                      /* forward: the key at the start of kt and v; a multiple of 64 */
    float dropout_scale; /* backward: dropout's factor of dO V^T; 1: dO is scaled already */
    float dk_scale;      /* factor of the sums in dk */
    float dv_scale;      /* factor of the sums in dv */
    bool dropout;
    struct vdropout drop;
    float *s;      /* scores (64 keys, 64 queries) */
    float *dp;     /* backward: dO V^T (64 keys, 64 queries) */
    float *o;      /* forward: output (64,width), not divided yet; bf16: in the memory of s */
    float *dq;     /* backward: gradient of the queries (64,width); bf16: in the memory of s */
    float *top;    /* of each query: running maximum; backward: logsumexp */
    float *sum;    /* of each query: running sum; backward: rowsum(dO O) */
    float *shrink; /* forward: of each query: factor of its earlier sums */
    float *dk;     /* gradient of the keys (Tk,width); bf16: (blocks of 64, width) */
    float *dv;     /* gradient of the values, of the same shape */
    /* fp32 */
    float *kt;    /* keys, one (D,64) block after the other */
    float *vt;    /* backward: values, one (D,64) block after the other */
    float *v;     /* forward: values (Tk,width) */
    float *k;     /* backward: keys (Tk,width) */
    float *plain; /* (64,width): a block of rows, before it is transposed */
    float *qt;    /* queries (D,64) */
    float *doutt; /* backward: dO (D,64) */
    float *q;     /* backward: queries (64,width) */
    float *dout;  /* backward: dO (64,width) */
    /* fp32, of the earlier parts of more than SUM_PART keys */
    double *total;     /* sums in o or dq (64,width) */
    double *total_sum; /* forward: sum of each query */
    float *total_top;  /* forward: the maximum to which both refer */
    /* bf16 (attention_bf16_cpu.h) */
    uint16_t *krows;      /* keys (blocks of 64, width) */
    uint16_t *vrows;      /* backward: values (blocks of 64, width) */
    uint16_t *transposed; /* forward: values, backward: keys, one (width,64) block after the other */
    uint16_t *qpairs;     /* queries (width/2, 64, 2) */
    uint16_t *dpairs;     /* backward: dO (width/2, 64, 2) */
    uint16_t *qrows;      /* backward: queries (64/2, width, 2) */
    uint16_t *drows;      /* backward: dO (64/2, width, 2) */
    uint16_t *p;          /* backward: probabilities (64 keys, 64 queries) */
    uint16_t *g;          /* backward: gradients of the scores (64 keys, 64 queries) */
    uint16_t *pairs;      /* forward: probabilities, backward: gradients of scores (64/2, 64, 2) */
    float *ot;            /* output, or gradient of the queries, transposed (width,64) */
};

static bool dropout_on(const struct lvn_call *c)
{
    return c->attr->attention.p > 0 && c->step && c->step->training && lvn_dropout_threshold(c->attr->attention.p) > 0;
}

/* Lay out the parts of the scratch one after the other from `base`, which may be NULL. Returns their size in floats. */
static int64_t work_layout(struct work *w, float *base, bool backward)
{
    enum { FORWARD = 1, BACKWARD = 2, BOTH = 3 };
    const struct attention_sizes *s = &w->sizes;
    const int64_t width = w->width, block = TILE_BLOCK * TILE_BLOCK, rows = TILE_BLOCK * width;
    const int64_t Tk = s->Tk + (s->ring ? TILE_BLOCK : 0); /* the first block of keys may begin before the ring */
    const int64_t blocks = (Tk + TILE_BLOCK - 1) / TILE_BLOCK * TILE_BLOCK;
    const int64_t transposed = TILE_BLOCK * ((s->D + LVN_LANES - 1) / LVN_LANES * LVN_LANES);
    const int64_t keys = w->bf16 ? blocks : Tk, parts = s->Tk > SUM_PART || s->ring;
    const int F = w->bf16 ? 0 : FORWARD, B = w->bf16 ? 0 : BACKWARD; /* fp32 */
    const int f = FORWARD - F, b = BACKWARD - B;                     /* bf16: two in the memory of a float */
    const struct {
        void *p;
        int64_t floats;
        int phases;
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
        {&w->v, Tk * width, F},
        {&w->k, Tk * width, B},
        {&w->plain, rows, F + B},
        {&w->qt, transposed, F + B},
        {&w->doutt, transposed, B},
        {&w->q, rows, B},
        {&w->dout, rows, B},
        {&w->total, parts * rows * 2, F + B},
        {&w->total_sum, parts * TILE_BLOCK * 2, F},
        {&w->total_top, parts * TILE_BLOCK, F},
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
        if (!(part[i].phases & (backward ? BACKWARD : FORWARD))) continue;
        if (base) memcpy(part[i].p, &(float *){base + floats}, sizeof base);
        floats += part[i].floats;
    }
    if (w->bf16) w->o = w->dq = w->s; /* used after the scores */
    return (floats + 15) / 16 * 16;
}

/* Offset of row (b,t,h) of a (B,T,H,D) tensor, in elements; in a ring t may be T or more. */
static int64_t head_offset(const struct lvn_arg *a, int64_t b, int64_t t, int64_t h)
{
    if (t >= a->desc->dim[1]) t %= a->desc->dim[1];
    return b * a->desc->stride[0] + t * a->desc->stride[1] + h * a->desc->stride[2];
}

static bool is_bf16(const struct lvn_arg *a)
{
    return a->desc->dtype == LVN_BF16;
}

/* Copy rows t0.. of head h, times a factor, to (rows,width), padded with zeros. */
LVN_INLINE void pack_rows_of(const struct lvn_arg *a, int64_t b, int64_t t0, int64_t h, int64_t rows, int64_t width,
                             float factor, float *to, const bool bf16)
{
    const int64_t D = a->desc->dim[3];
    for (int64_t i = 0; i < rows; i++) {
        const int64_t from = head_offset(a, b, t0 + i, h);
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

/* Copy up to 64 rows t0.. of head h, times a factor, to one (D,64) block. */
static void pack_block(struct work *w, const struct lvn_arg *a, int64_t b, int64_t t0, int64_t h, int64_t rows,
                       float factor, float *to)
{
    const int64_t D = a->desc->dim[3], T = a->desc->dim[1];
    if (is_bf16(a) || t0 % T + rows > T) { /* rows that are not side by side: a ring's end and start */
        pack_rows(a, b, t0, h, rows, w->width, factor, w->plain);
        tile_transpose(rows, D, w->plain, w->width, 1.0f, to);
    } else {
        tile_transpose(rows, D, vat(a->p, head_offset(a, b, t0, h), false), a->desc->stride[1], factor, to);
    }
}

/* Copy rows [first, end) of head h to (D,64) blocks; block n starts at 64 n D, and is of the rows from w->base + 64 n
 * on. `first` is a multiple of 64. */
static void pack_transposed(struct work *w, const struct lvn_arg *a, int64_t b, int64_t h, int64_t first, int64_t end,
                            float *to)
{
    to -= w->base * a->desc->dim[3];
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

/* Elements (D) of `a` from index `to` on = (or +=) factor * from (width). */
static void row_store(const struct lvn_arg *a, int64_t to, const float *from, int64_t D, float factor, bool add)
{
    if (is_bf16(a))
        row_store_as(a->p, to, from, D, factor, add, true);
    else
        row_store_as(a->p, to, from, D, factor, add, false);
}

/* Cost of query block i of sample b: the number of blocks of keys that it sees, at least 1. */
static int64_t query_block_cost(const struct attention_sizes *s, int64_t b, int64_t i)
{
    const int64_t end = (i + 1) * TILE_BLOCK < s->Tq ? (i + 1) * TILE_BLOCK : s->Tq;
    const int64_t first = attention_first_key(s, b, i * TILE_BLOCK) / TILE_BLOCK;
    const int64_t last = attention_end_key(s, b, end - 1) / TILE_BLOCK;
    return last < first ? 1 : last - first + 1;
}

static int64_t block_rows(const struct attention_sizes *s, int64_t t0)
{
    return s->Tq - t0 < TILE_BLOCK ? s->Tq - t0 : TILE_BLOCK;
}

/* Is there an end of a part among the keys [first, end)? Their sums are then those of several parts. */
static bool has_parts(int64_t first, int64_t end)
{
    return first < end && first / SUM_PART < (end - 1) / SUM_PART;
}

/* The first block of keys that queries t0.. see. */
static int64_t first_block(const struct attention_sizes *s, int64_t b, int64_t t0)
{
    int64_t first = attention_first_key(s, b, t0);
    for (int64_t i = 1; s->hidden && i < block_rows(s, t0); i++) {
        const int64_t next = attention_first_key(s, b, t0 + i);
        if (next < first) first = next;
    }
    return first / TILE_BLOCK * TILE_BLOCK;
}

/* Before the blocks of queries t0.., of which there are `rows`. */
static void ranges_begin(struct work *w, int64_t b, int64_t t0, int64_t rows)
{
    const struct attention_sizes *s = &w->sizes;
    for (int64_t i = 0; w->ranged && i < TILE_BLOCK; i++)
        w->first[i] = (int32_t)attention_first_key(s, b, t0 + (i < rows ? i : rows - 1));
    if (!s->hidden) return;
    memcpy(w->own, w->first, sizeof w->own);
    for (int64_t i = TILE_BLOCK - 1; i > 0; i--)
        if (w->first[i - 1] > w->first[i]) w->first[i - 1] = w->first[i];
    for (int64_t i = 0; i < TILE_BLOCK; i++)
        for (int k = 0; k < 2 * LVN_HIDDEN_RANGES; k++)
            w->hidden[k][i] = attention_hidden(s, b, t0 + (i < rows ? i : rows - 1))[k];
}

/* The visible part of a block: query i sees the keys j < keys with j < i + diagonal and first_key + j >= first[i]; with
 * hidden ranges those with first_key + j >= own[i] that are in none of these. */
struct block {
    int64_t first_key; /* position of key 0 */
    int64_t keys;      /* at most 64 */
    int64_t queries;   /* at most 64 */
    int64_t vectors;   /* of queries */
    int64_t diagonal;
    const int32_t *first; /* [64], rising; NULL: 0 */
    const int32_t *own;   /* [64]; NULL: `first`, and no hidden ranges */
    const int32_t (*hidden)[TILE_BLOCK];
};

static struct block block_make(const struct work *w, int64_t b, int64_t t0, int64_t rows, int64_t j0, int64_t n_keys)
{
    const struct attention_sizes *s = &w->sizes;
    struct block k = {.first_key = j0, .queries = rows, .diagonal = TILE_BLOCK};
    k.keys = n_keys - j0 < TILE_BLOCK ? n_keys - j0 : TILE_BLOCK;
    k.vectors = (rows + LVN_LANES - 1) / LVN_LANES;
    if (s->causal) k.diagonal = t0 + attention_first_query(s, b) + 1 - j0;
    if (w->ranged && w->first[rows - 1] > j0) k.first = w->first;
    if (s->hidden) k.first = w->first, k.own = w->own, k.hidden = w->hidden;
    return k;
}

static int64_t clamp(int64_t x, int64_t max)
{
    return x < 0 ? 0 : x < max ? x : max;
}

/* All 16 queries of vector v see the keys before this one. */
static int64_t visible_to_all(const struct block *k, int64_t v)
{
    return clamp(v * LVN_LANES + k->diagonal, k->keys);
}

/* No query of vector v sees this key or later ones. */
static int64_t visible_to_any(const struct block *k, int64_t v)
{
    return clamp(v * LVN_LANES + LVN_LANES - 1 + k->diagonal, k->keys);
}

/* No query from i on sees a key before this one, which is at most `end`. */
static int64_t seen_from(const struct block *k, int64_t i, int64_t end)
{
    return k->first ? clamp(k->first[i] - k->first_key, end) : 0;
}

/* The number of queries that see key j or an earlier one, if no key after it hides from them. */
static int64_t queries_end(const struct block *k, int64_t j)
{
    int64_t n = k->queries;
    while (k->first && n > 0 && k->first[n - 1] > k->first_key + j) n--;
    return n;
}

/* Mask of the queries of vector v that see key j. */
LVN_INLINE vi visible_lanes(const struct block *k, int64_t v, int64_t j)
{
    vi before = vgreater_int(viota(), (vi){0} + (int32_t)(j - k->diagonal - v * LVN_LANES)), first;
    if (!k->first) return before;
    const vi key = (vi){0} + (int32_t)(k->first_key + j);
    memcpy(&first, (k->own ? k->own : k->first) + v * LVN_LANES, sizeof first);
    before &= vgreater_int(key + 1, first);
    for (int i = 0; k->own && i < LVN_HIDDEN_RANGES; i++) {
        vi begin, end;
        memcpy(&begin, k->hidden[2 * i] + v * LVN_LANES, sizeof begin);
        memcpy(&end, k->hidden[2 * i + 1] + v * LVN_LANES, sizeof end);
        before &= vgreater_int(begin, key) | vgreater_int(key + 1, end);
    }
    return before;
}

/* The keys that queries of vector v see: all 16 of them see [all, full), some [from, all) and [full, end). */
struct seen {
    int64_t from, all, full, end;
};

static struct seen seen_by(const struct block *k, int64_t v)
{
    struct seen s = {.full = visible_to_all(k, v), .end = visible_to_any(k, v)};
    if (!k->first) return s;
    s.from = seen_from(k, v * LVN_LANES, s.end);
    if (k->own) s.all = s.full = s.from;
    if (k->own) return s;
    s.all = seen_from(k, v * LVN_LANES + LVN_LANES - 1, s.end);
    if (s.full < s.all) s.full = s.all;
    return s;
}

/* s (keys, queries) = kt^T qt, of kt (D,64) and qt (D,64), for the keys that some query of a vector sees. */
static void scores(const struct block *k, int64_t D, const float *kt, const float *qt, float *s)
{
    for (int64_t v = 0, n; v < k->vectors; v += n) {
        n = tile_vectors(k->vectors - v);
        while (n > 1 && visible_to_any(k, v) < visible_to_any(k, v + n - 1))
            n--; /* near the diagonal: one vector at a time */
        const int64_t keys = visible_to_any(k, v);
        const struct tile_shape *t = tile_shapes[n];
        for (int64_t j = seen_from(k, v * LVN_LANES, keys); j < keys; j += t->rows) {
            while (j + t->rows > keys) t++;
            t->function[1](D, kt + j, qt + v * LVN_LANES, TILE_BLOCK, s + j * TILE_BLOCK + v * LVN_LANES, TILE_BLOCK,
                           false);
        }
    }
}

/* c (queries, width) = (or +=) p^T b, of p (keys, queries) and b (keys, width). */
static void sum_over_keys(const struct block *k, int64_t width, const float *p, const float *b, float *c, bool add)
{
    for (int64_t v = 0, left = width / LVN_LANES, n; left > 0; v += n, left -= n) {
        n = tile_vectors(left);
        const struct tile_shape *t = tile_shapes[n];
        for (int64_t i = 0; i < k->queries; i += t->rows) {
            while (i + t->rows > k->queries) t++;
            const int64_t end = clamp(i + t->rows - 1 + k->diagonal, k->keys), j = seen_from(k, i, end);
            t->function[1](end - j, p + j * TILE_BLOCK + i, b + j * width + v * LVN_LANES, width,
                           c + i * width + v * LVN_LANES, width, add);
        }
    }
}

/* c (keys, width) += p b, of p (keys, queries) and b (queries, width). */
static void sum_over_queries(const struct block *k, int64_t width, const float *p, const float *b, float *c)
{
    for (int64_t v = 0, left = width / LVN_LANES, n; left > 0; v += n, left -= n) {
        n = tile_vectors(left);
        const struct tile_shape *t = tile_shapes[n];
        for (int64_t j = 0; j < k->keys; j += t->rows) {
            while (j + t->rows > k->keys) t++;
            const int64_t end = queries_end(k, j + t->rows - 1);
            const int64_t i = clamp(j - k->diagonal + 1, end); /* the first query that sees key j */
            t->function[0](end - i, p + j * TILE_BLOCK + i, b + i * width + v * LVN_LANES, width,
                           c + j * width + v * LVN_LANES, width, true);
        }
    }
}

#endif

/* attention.cpu.c - attention by blocks of 64 queries and 64 keys, whose scores never leave the caches.
 *
 * Scores are kept transposed: rows are keys, and the 16 lanes of a vector are neighbouring queries. So maximum, sum,
 * mask and dropout of a softmax row run down the lanes, and nothing is ever summed across a vector. Forward keeps a
 * running maximum and sum for each query (online softmax); backward computes probabilities again from the logsumexp.
 *
 * Bits do not depend on the number of threads. Forward: a block of queries belongs to one thread, which walks the keys
 * in order. Backward: either a thread owns all queries and keys of one key head, or, when there are more threads than
 * key heads can feed, one pass owns blocks of keys (dK, dV) and another blocks of queries (dQ); both take the same
 * blocks in the same order, so the sums are the same.
 *
 * A few queries at a time (decoding) take attention_decode.h. Sources: Dao et al., "FlashAttention" (2022); Milakov and
 * Gimelshein, "Online normalizer calculation for softmax" (2018). */
#include "ops/attention.h"

#include "backend/cpu/simd_math.h"
#include "backend/cpu/simd_random.h"
#include "backend/cpu/tile.h"
#include "base/threads.h"
#include "ops/attention_block.h"
#include "ops/attention_decode.h"

/* --- forward ----------------------------------------------------------------------------------------------------- */

/* Scores of keys [j, end) and 16 queries become probabilities, and 0 where dropout strikes; returns their sum before
 * dropout. Its factor comes in with the division by the sum. */
LVN_INLINE vf softmax_rows(struct work *w, const struct block *k, int64_t v, int64_t j, int64_t end, vf m,
                           const vlanes *keep, bool masked)
{
    struct vacc sum = vacc_set(vset(0));
    for (int64_t n = 0; n < end - j; n++) {
        float *s = w->s + (j + n) * TILE_BLOCK + v * LVN_LANES;
        vf p = vexp(vload(s) - m);
        if (masked) p = vselect(visible_lanes(k, v, j + n), p, vset(0));
        sum = vacc_add(sum, p);
        vstore(s, keep ? vkeep_lanes(p, keep[n]) : p);
    }
    return vacc_get(sum);
}

/* Keys that queries of vector v see, by 64 without dropout, by the 8 of one draw with it. */
LVN_INLINE vf softmax_keys(struct work *w, const struct block *k, int64_t v, vf m, uint64_t dropout_row)
{
    const int64_t full = visible_to_all(k, v), end = visible_to_any(k, v);
    if (!w->dropout) {
        const vf sum = softmax_rows(w, k, v, 0, full, m, NULL, false);
        return sum + softmax_rows(w, k, v, full, end, m, NULL, true);
    }
    struct vacc sum = vacc_set(vset(0));
    for (int64_t j = 0; j < end; j += 8) {
        vlanes keep[8];
        vdropout_keep_rows(&w->drop, dropout_row + (uint64_t)(v * LVN_LANES), (uint32_t)(k->first_key + j), keep);
        if (j + 8 <= full)
            sum = vacc_add(sum, softmax_rows(w, k, v, j, j + 8, m, keep, false));
        else
            sum = vacc_add(sum, softmax_rows(w, k, v, j, j + 8 < end ? j + 8 : end, m, keep, true));
    }
    return vacc_get(sum);
}

/* The largest score of each query of vector v, and of `top`. */
static void largest_scores(const struct work *w, const struct block *k, int64_t v, float *top)
{
    const float *s = w->s + v * LVN_LANES;
    const int64_t full = visible_to_all(k, v), end = visible_to_any(k, v);
    struct vacc a = vacc_set(vload(top)), b = a, c = a, d = a;
    int64_t j = 0;
    for (; j + 4 <= full; j += 4) {
        a = vacc_max(a, vload(s + j * TILE_BLOCK));
        b = vacc_max(b, vload(s + (j + 1) * TILE_BLOCK));
        c = vacc_max(c, vload(s + (j + 2) * TILE_BLOCK));
        d = vacc_max(d, vload(s + (j + 3) * TILE_BLOCK));
    }
    for (; j < full; j++) a = vacc_max(a, vload(s + j * TILE_BLOCK));
    for (; j < end; j++) b = vacc_max(b, vselect(visible_lanes(k, v, j), vload(s + j * TILE_BLOCK), vset(-INFINITY)));
    a = vacc_max(vacc_max(a, vacc_get(b)), vacc_get(vacc_max(c, vacc_get(d))));
    vstore(top, vacc_get(a));
}

/* Softmax of one block: scores become probabilities, the running maximum and sum move on; w->shrink is what the sums so
 * far must be multiplied with for the new maximum. */
static void softmax_block(struct work *w, const struct block *k, uint64_t dropout_row)
{
    for (int64_t v = 0; v < k->vectors; v++) {
        float *top = w->top + v * LVN_LANES, *sum = w->sum + v * LVN_LANES;
        const vf old = vload(top);
        largest_scores(w, k, v, top);
        /* a query that has seen no key yet: any finite number will do, its sums are zero */
        const vf m = vselect(vgreater(vload(top), vset(-INFINITY)), vload(top), vset(0));
        const vf shrink = vexp(old - m);
        vstore(sum, vfma(vload(sum), shrink, softmax_keys(w, k, v, m, dropout_row)));
        vstore(w->shrink + v * LVN_LANES, shrink);
        for (int64_t j = visible_to_any(k, v); j < k->keys; j++) vstore(w->s + j * TILE_BLOCK + v * LVN_LANES, vset(0));
    }
}

/* out = sums / sum of probabilities, and the logsumexp. */
static void forward_store(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t t0, int64_t rows)
{
    const struct attention_sizes *s = &w->sizes;
    const struct lvn_desc *d = c->out[0].desc;
    float *logsumexp = (float *)c->out[1].p + (b * s->Hq + h) * s->Tq + t0;
    for (int64_t i = 0; i < rows; i += LVN_LANES) {
        const vf sum = vload(w->sum + i);
        const vi seen = vgreater(sum, vset(0));
        vstore(w->shrink + i, vselect(seen, vset(w->dropout ? w->drop.scale : 1.0f) / sum, vset(0)));
        const vf x = vselect(seen, vload(w->top + i) + vlog(vselect(seen, sum, vset(1))), vset(0));
        vstore_n(logsumexp + i, x, rows - i < LVN_LANES ? rows - i : LVN_LANES);
    }
    for (int64_t i = 0; i < rows; i++) {
        int64_t to = b * d->stride[0] + (t0 + i) * d->stride[1] + h * s->D;
        row_store(&c->out[0], to, w->o + i * w->width, s->D, w->shrink[i], false);
    }
}

static void forward_block(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t t0)
{
    const struct attention_sizes *s = &w->sizes;
    const int64_t rows = s->Tq - t0 < TILE_BLOCK ? s->Tq - t0 : TILE_BLOCK;
    const int64_t n_keys = attention_visible(s, b, t0 + rows - 1);
    const uint64_t dropout_row = attention_dropout_row(s, c->step, b, h, t0);

    pack_block(w, &c->in[0], b, t0, h, rows, (float)c->attr->attention.scale, w->qt);
    for (int64_t i = 0; i < TILE_BLOCK; i += LVN_LANES) {
        vstore(w->top + i, vset(-INFINITY));
        vstore(w->sum + i, vset(0));
    }
    if (!n_keys) memset(w->o, 0, (size_t)(rows * w->width) * sizeof(float));
    for (int64_t j0 = 0; j0 < n_keys; j0 += TILE_BLOCK) {
        const struct block k = block_make(s, t0, rows, j0, n_keys);
        scores(&k, s->D, w->kt + j0 * s->D, w->qt, w->s);
        softmax_block(w, &k, dropout_row);
        for (int64_t i = 0; j0 && i < rows; i++)
            for (int64_t x = 0; x < w->width; x += LVN_LANES)
                vstore(w->o + i * w->width + x, vload(w->o + i * w->width + x) * vset(w->shrink[i]));
        sum_over_keys(&k, w->width, w->s, w->v + j0 * w->width, w->o, j0 > 0);
    }
    forward_store(w, c, b, h, t0, rows);
}

/* A few queries of fp32, as when text is generated. */
static bool decodes(const struct lvn_call *c, const struct attention_sizes *s)
{
    return s->Tq <= DECODE_MOST && !is_half(&c->in[0]);
}

static void forward(const struct lvn_call *c, int thread, int n_threads)
{
    struct work w = {.sizes = attention_sizes(c)};
    if (decodes(c, &w.sizes) && !dropout_on(c)) {
        decode_forward(c, thread, n_threads);
        return;
    }
    work_init(&w, c, thread, false);
    const struct attention_sizes *s = &w.sizes;
    const int64_t blocks = (s->Tq + TILE_BLOCK - 1) / TILE_BLOCK;
    int64_t total = 0, done = 0, packed = -1;
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t i = 0; i < blocks; i++) total += s->Hq * query_block_cost(s, b, i);
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t h = 0; h < s->Hq; h++)
            for (int64_t i = 0; i < blocks; i++) {
                const bool mine = done * n_threads / total == thread;
                done += query_block_cost(s, b, i);
                if (!mine) continue;
                const int64_t pair = b * s->Hkv + h / s->group;
                if (packed != pair) {
                    const int64_t n = attention_visible(s, b, s->Tq - 1);
                    pack_transposed(&w, &c->in[1], b, h / s->group, 0, n, w.kt);
                    pack_rows(&c->in[2], b, 0, h / s->group, n, w.width, 1.0f, w.v);
                    packed = pair;
                }
                forward_block(&w, c, b, h, i * TILE_BLOCK);
            }
}

/* --- backward ---------------------------------------------------------------------------------------------------- */

/* Keys [j, end) and the 16 queries of vector v: see gradient_block(). */
LVN_INLINE void gradient_rows(struct work *w, const struct block *k, int64_t v, int64_t j, int64_t end,
                              const vlanes *keep, bool masked)
{
    const vf logsumexp = vload(w->top + v * LVN_LANES), delta = vload(w->sum + v * LVN_LANES);
    for (int64_t n = 0; n < end - j; n++) {
        float *s = w->s + (j + n) * TILE_BLOCK + v * LVN_LANES, *dp = w->dp + (s - w->s);
        vf p = vexp(vload(s) - logsumexp), g = vload(dp);
        if (masked) p = vselect(visible_lanes(k, v, j + n), p, vset(0));
        if (keep) g = vkeep_lanes(g, keep[n]);
        g = p * (g - delta);
        vstore(s, keep ? vkeep_lanes(p, keep[n]) : p);
        vstore(dp, g);
    }
}

/* From scores in s and dO V^T in dp: probabilities, 0 where dropout struck, into s, and gradients of the scores into
 * dp. The factor of dropout is in dO already. */
static void gradient_block(struct work *w, const struct block *k, uint64_t dropout_row)
{
    for (int64_t v = 0; v < k->vectors; v++) {
        const int64_t full = visible_to_all(k, v), end = visible_to_any(k, v);
        if (!w->dropout) {
            gradient_rows(w, k, v, 0, full, NULL, false);
            gradient_rows(w, k, v, full, end, NULL, true);
        }
        for (int64_t j = 0; w->dropout && j < end; j += 8) {
            vlanes keep[8];
            vdropout_keep_rows(&w->drop, dropout_row + (uint64_t)(v * LVN_LANES), (uint32_t)(k->first_key + j), keep);
            if (j + 8 <= full)
                gradient_rows(w, k, v, j, j + 8, keep, false);
            else
                gradient_rows(w, k, v, j, j + 8 < end ? j + 8 : end, keep, true);
        }
        for (int64_t j = end; j < k->keys; j++) {
            vstore(w->s + j * TILE_BLOCK + v * LVN_LANES, vset(0));
            vstore(w->dp + j * TILE_BLOCK + v * LVN_LANES, vset(0));
        }
    }
}

/* Queries t0 .. of head h and their output's gradient: as rows and transposed, dO times dropout's factor; and row sums
 * of dO O. */
static void load_queries(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t t0, int64_t rows)
{
    const struct attention_sizes *s = &w->sizes;
    const struct lvn_desc *d = c->out[0].desc, *dd = c->dout[0].desc;
    const float scale = (float)c->attr->attention.scale;
    const int64_t dout = b * dd->stride[0] + t0 * dd->stride[1] + h * s->D;
    const bool half = is_half(&c->out[0]); /* and its gradient */
    const float *logsumexp = (const float *)c->out[1].p + (b * s->Hq + h) * s->Tq + t0;

    pack_rows(&c->in[0], b, t0, h, rows, w->width, scale, w->q);
    tile_transpose(rows, s->D, w->q, w->width, 1.0f, w->qt);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t out = b * d->stride[0] + (t0 + i) * d->stride[1] + h * s->D;
        float *to = w->dout + i * w->width;
        vf sum = vset(0);
        for (int64_t x = 0; x < s->D; x += LVN_LANES) {
            const int64_t n = s->D - x < LVN_LANES ? s->D - x : LVN_LANES;
            const vf g = vread_n(c->dout[0].p, dout + i * dd->stride[1] + x, n, half);
            vstore(to + x, w->dropout ? g * vset(w->drop.scale) : g);
            sum = vfma(g, vread_n(c->out[0].p, out + x, n, half), sum);
        }
        w->sum[i] = vsum(sum);
        w->top[i] = logsumexp[i];
    }
    for (int64_t i = rows; i % LVN_LANES; i++) w->sum[i] = w->top[i] = 0;
    tile_transpose(rows, s->D, w->dout, w->width, 1.0f, w->doutt);
}

static void load_keys(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t first, int64_t end)
{
    pack_transposed(w, &c->in[1], b, h, first, end, w->kt);
    pack_transposed(w, &c->in[2], b, h, first, end, w->vt);
    pack_rows(&c->in[1], b, first, h, end - first, w->width, 1.0f, w->k + first * w->width);
}

/* Queries t0.. of query head h against the keys of [first, end): adds to dK and dV (`keys`), sets dQ (`queries`). */
static void backward_block(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t t0, int64_t first,
                           int64_t end, bool keys, bool queries)
{
    const struct attention_sizes *s = &w->sizes;
    const int64_t rows = s->Tq - t0 < TILE_BLOCK ? s->Tq - t0 : TILE_BLOCK;
    const int64_t seen = attention_visible(s, b, t0 + rows - 1), n_keys = seen < end ? seen : end;
    const uint64_t dropout_row = attention_dropout_row(s, c->step, b, h, t0);
    if (n_keys <= first && !queries) return;

    load_queries(w, c, b, h, t0, rows);
    if (queries) memset(w->dq, 0, (size_t)(rows * w->width) * sizeof(float));
    for (int64_t j0 = first; j0 < n_keys; j0 += TILE_BLOCK) {
        const struct block k = block_make(s, t0, rows, j0, seen);
        scores(&k, s->D, w->kt + j0 * s->D, w->qt, w->s);
        scores(&k, s->D, w->vt + j0 * s->D, w->doutt, w->dp);
        gradient_block(w, &k, dropout_row);
        if (keys) {
            sum_over_queries(&k, w->width, w->s, w->dout, w->dv + j0 * w->width);
            sum_over_queries(&k, w->width, w->dp, w->q, w->dk + j0 * w->width);
        }
        if (queries) sum_over_keys(&k, w->width, w->dp, w->k + j0 * w->width, w->dq, true);
    }
    for (int64_t i = 0; queries && i < rows; i++)
        row_store(&c->din[0], head_at(&c->din[0], b, t0 + i, h), w->dq + i * w->width, s->D,
                  (float)c->attr->attention.scale, c->add[0]);
}

static void keys_begin(struct work *w, int64_t first, int64_t end)
{
    memset(w->dk + first * w->width, 0, (size_t)((end - first) * w->width) * sizeof(float));
    memset(w->dv + first * w->width, 0, (size_t)((end - first) * w->width) * sizeof(float));
}

static void keys_store(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t first, int64_t end)
{
    for (int64_t j = first; j < end; j++) {
        if (c->din[1].p)
            row_store(&c->din[1], head_at(&c->din[1], b, j, h), w->dk + j * w->width, w->sizes.D, 1, c->add[1]);
        if (c->din[2].p)
            row_store(&c->din[2], head_at(&c->din[2], b, j, h), w->dv + j * w->width, w->sizes.D, 1, c->add[2]);
    }
}

/* Key heads of the batch, each by one thread. */
static void backward_whole(struct work *w, const struct lvn_call *c, int thread, int n_threads)
{
    const struct attention_sizes *s = &w->sizes;
    const bool keys = c->din[1].p || c->din[2].p, queries = c->din[0].p;
    int64_t begin, end;
    lvn_share(s->B * s->Hkv, 1, thread, n_threads, &begin, &end);
    for (int64_t pair = begin; pair < end; pair++) {
        const int64_t b = pair / s->Hkv, hk = pair % s->Hkv;
        load_keys(w, c, b, hk, 0, attention_visible(s, b, s->Tq - 1));
        keys_begin(w, 0, s->Tk);
        for (int64_t h = hk * s->group; h < (hk + 1) * s->group; h++)
            for (int64_t t0 = 0; t0 < s->Tq; t0 += TILE_BLOCK) backward_block(w, c, b, h, t0, 0, s->Tk, keys, queries);
        keys_store(w, c, b, hk, 0, s->Tk);
    }
}

/* Blocks of keys, then blocks of queries; threads take turns, so that the unequal blocks of a causal mask even out. */
static void backward_split(struct work *w, const struct lvn_call *c, int thread, int n_threads)
{
    const struct attention_sizes *s = &w->sizes;
    const int64_t key_blocks = (s->Tk + TILE_BLOCK - 1) / TILE_BLOCK, pairs = s->B * s->Hkv;
    const int64_t query_blocks = (s->Tq + TILE_BLOCK - 1) / TILE_BLOCK;
    for (int64_t task = thread; (c->din[1].p || c->din[2].p) && task < pairs * key_blocks; task += n_threads) {
        const int64_t b = task % pairs / s->Hkv, hk = task % s->Hkv, first = task / pairs * TILE_BLOCK;
        const int64_t end = first + TILE_BLOCK < s->Tk ? first + TILE_BLOCK : s->Tk;
        const int64_t seen = attention_visible(s, b, s->Tq - 1);
        keys_begin(w, first, end);
        if (seen > first) load_keys(w, c, b, hk, first, seen < end ? seen : end);
        for (int64_t h = hk * s->group; h < (hk + 1) * s->group; h++)
            for (int64_t t0 = 0; t0 < s->Tq; t0 += TILE_BLOCK) backward_block(w, c, b, h, t0, first, end, true, false);
        keys_store(w, c, b, hk, first, end);
    }
    for (int64_t task = thread; c->din[0].p && task < s->B * s->Hq * query_blocks; task += n_threads) {
        const int64_t heads = s->B * s->Hq, b = task % heads / s->Hq, h = task % s->Hq;
        const int64_t t0 = (query_blocks - 1 - task / heads) * TILE_BLOCK; /* causal: the dearest first */
        const int64_t last = t0 + TILE_BLOCK < s->Tq ? t0 + TILE_BLOCK - 1 : s->Tq - 1;
        load_keys(w, c, b, h / s->group, 0, attention_visible(s, b, last));
        backward_block(w, c, b, h, t0, 0, s->Tk, false, true);
    }
}

static void backward(const struct lvn_call *c, int thread, int n_threads)
{
    struct work w = {.sizes = attention_sizes(c)};
    work_init(&w, c, thread, true);
    const int64_t pairs = w.sizes.B * w.sizes.Hkv, rounds = (pairs + n_threads - 1) / n_threads;
    /* whole heads cost 5 products a block, split ones 7 and more packing */
    if (rounds * n_threads * 5 <= pairs * 8)
        backward_whole(&w, c, thread, n_threads);
    else
        backward_split(&w, c, thread, n_threads);
}

static int64_t scratch(const struct lvn_call *c, int n_threads)
{
    const struct attention_sizes s = attention_sizes(c);
    const bool decode = c->phase == LVN_FORWARD && decodes(c, &s) && c->attr->attention.p == 0;
    const int64_t floats = decode ? decode_floats(&s) : work_floats(&s, c->phase == LVN_BACKWARD);
    return n_threads * floats * (int64_t)sizeof(float);
}

extern const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_attention);
const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_attention) = {
    .forward = forward, .backward = backward, .scratch = scratch};

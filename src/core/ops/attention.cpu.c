/* attention.cpu.c - attention on CPUs, by blocks of 64 queries and 64 keys, whose scores stay in the caches.
 *
 * Scores are stored transposed: rows are keys, and the 16 lanes of a vector are neighboring queries. So maximum, sum,
 * mask and dropout of a softmax row are computed lane by lane, and nothing is summed across a vector. Forward updates a
 * running maximum and sum for each query (online softmax); backward recomputes probabilities from the logsumexp.
 *
 * Bits do not depend on the number of threads. Forward: one thread computes a block of queries and visits the keys
 * in order. Backward: either a thread owns all queries and keys of one key head, or, if there are too few key heads for
 * the threads, a first pass owns blocks of keys (dK, dV) and a second one blocks of queries (dQ); both methods visit
 * the same blocks in the same order, so the sums are the same.
 *
 * On processors with AVX512-BF16, tensors in bf16 use attention_bf16_cpu.h, with the same blocks and order. A few
 * queries at a time (decoding) use attention_decode_cpu.h. Sources: Dao et al., "FlashAttention" (2022); Milakov
 * and Gimelshein, "Online normalizer calculation for softmax" (2018). */
#include "ops/attention.h"

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/tile.h"
#include "base/threads.h"
#include "ops/attention_block_cpu.h"
#include "ops/attention_decode_cpu.h"
#include "ops/attention_softmax_cpu.h"
#if defined(__AVX512BF16__)
#include "ops/attention_bf16_cpu.h"
#endif

/* --- blocks in fp32 ----------------------------------------------------------------------------------------------- */

static void load_values(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t n)
{
    pack_transposed(w, &c->in[1], b, h, w->base, n, w->kt);
    if (n > w->base) pack_rows(&c->in[2], b, w->base, h, n - w->base, w->width, 1.0f, w->v);
}

/* total (rows,width) = factor total + part; part = total, rounded. No factor: 1. */
static void total_add(double *total, const float *factor, float *part, int64_t rows, int64_t width)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t x = i * width; x < (i + 1) * width; x++) {
            total[x] = (factor ? total[x] * (double)factor[i] : total[x]) + (double)part[x];
            part[x] = (float)total[x];
        }
}

/* Before the keys [begin, end). */
static void forward_begin(struct work *w, int64_t begin, int64_t end)
{
    softmax_begin(w);
    if (begin >= end) memset(w->o, 0, (size_t)(TILE_BLOCK * w->width) * sizeof *w->o);
    if (!has_parts(begin, end)) return;
    memset(w->total, 0, (size_t)(TILE_BLOCK * w->width) * sizeof *w->total);
    memset(w->total_sum, 0, TILE_BLOCK * sizeof *w->total_sum);
    for (int64_t i = 0; i < TILE_BLOCK; i++) w->total_top[i] = -INFINITY;
}

/* A part of the keys has ended: o and sum become those of all keys so far. */
static void forward_part_end(struct work *w, int64_t rows)
{
    for (int64_t i = 0; i < TILE_BLOCK; i += LVN_LANES) {
        vstore(w->shrink + i, vexp(vload(w->total_top + i) - finite_top(vload(w->top + i))));
        vstore(w->total_top + i, vload(w->top + i));
    }
    total_add(w->total, w->shrink, w->o, rows, w->width);
    total_add(w->total_sum, w->shrink, w->sum, TILE_BLOCK, 1);
}

static void forward_block(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t t0)
{
    const struct attention_sizes *s = &w->sizes;
    const int64_t rows = block_rows(s, t0), n_keys = attention_end_key(s, b, t0 + rows - 1);
    const int64_t begin = first_block(s, b, t0);
    const uint64_t dropout_row = attention_dropout_row(s, c->step, b, h, t0);

    ranges_begin(w, b, t0, rows);
    pack_block(w, &c->in[0], b, t0, h, rows, (float)c->attr->attention.scale, w->qt);
    forward_begin(w, begin, n_keys);
    for (int64_t j0 = begin; j0 < n_keys; j0 += TILE_BLOCK) {
        const struct block k = block_make(w, b, t0, rows, j0, n_keys);
        const bool add = j0 > begin && j0 % SUM_PART > 0;
        if (j0 > begin && !add) {
            forward_part_end(w, rows);
            memset(w->sum, 0, TILE_BLOCK * sizeof *w->sum);
        }
        scores(&k, s->D, w->kt + (j0 - w->base) * s->D, w->qt, w->s);
        softmax_block(w, &k, dropout_row);
        for (int64_t i = 0; add && i < rows; i++)
            for (int64_t x = 0; x < w->width; x += LVN_LANES)
                vstore(w->o + i * w->width + x, vload(w->o + i * w->width + x) * vset(w->shrink[i]));
        sum_over_keys(&k, w->width, w->s, w->v + (j0 - w->base) * w->width, w->o, add);
    }
    if (has_parts(begin, n_keys)) forward_part_end(w, rows);
    forward_store(w, c, b, h, t0, rows);
}

/* Load queries t0.. of head h and the gradient of their output, as rows and transposed, dO multiplied by dropout's
 * factor; and the row sums of dO O. */
static void load_queries(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t t0, int64_t rows)
{
    const struct attention_sizes *s = &w->sizes;
    const struct lvn_desc *dd = c->dout[0].desc;
    const float scale = (float)c->attr->attention.scale;
    const int64_t dout = b * dd->stride[0] + t0 * dd->stride[1] + h * s->D;
    const bool bf16 = is_bf16(&c->dout[0]);

    pack_rows(&c->in[0], b, t0, h, rows, w->width, scale, w->q);
    tile_transpose(rows, s->D, w->q, w->width, 1.0f, w->qt);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t x = 0; x < s->D; x += LVN_LANES) {
            const int64_t n = s->D - x < LVN_LANES ? s->D - x : LVN_LANES;
            const vf g = vread_n(c->dout[0].p, dout + i * dd->stride[1] + x, n, bf16);
            vstore(w->dout + i * w->width + x, w->dropout ? g * vset(w->drop.scale) : g);
        }
    tile_transpose(rows, s->D, w->dout, w->width, 1.0f, w->doutt);
    row_sums(w, c, b, h, t0, rows);
}

static void load_keys(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t first, int64_t end)
{
    pack_transposed(w, &c->in[1], b, h, first, end, w->kt);
    pack_transposed(w, &c->in[2], b, h, first, end, w->vt);
    pack_rows(&c->in[1], b, first, h, end - first, w->width, 1.0f, w->k + first * w->width);
}

static void backward_block(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t t0, int64_t first,
                           int64_t end, bool keys, bool queries)
{
    const struct attention_sizes *s = &w->sizes;
    const int64_t rows = block_rows(s, t0);
    const int64_t seen = attention_end_key(s, b, t0 + rows - 1), n_keys = seen < end ? seen : end;
    const int64_t begin = first_block(s, b, t0), from = begin > first ? begin : first;
    const uint64_t dropout_row = attention_dropout_row(s, c->step, b, h, t0);
    if (n_keys <= from && !queries) return;

    ranges_begin(w, b, t0, rows);
    load_queries(w, c, b, h, t0, rows);
    if (queries) memset(w->dq, 0, (size_t)(rows * w->width) * sizeof *w->dq);
    const bool parts = queries && has_parts(from, n_keys);
    if (parts) memset(w->total, 0, (size_t)(rows * w->width) * sizeof *w->total);
    for (int64_t j0 = from; j0 < n_keys; j0 += TILE_BLOCK) {
        const struct block k = block_make(w, b, t0, rows, j0, seen);
        const bool add = j0 > from && j0 % SUM_PART > 0;
        if (queries && j0 > from && !add) total_add(w->total, NULL, w->dq, rows, w->width);
        scores(&k, s->D, w->kt + j0 * s->D, w->qt, w->s);
        scores(&k, s->D, w->vt + j0 * s->D, w->doutt, w->dp);
        gradient_block(w, &k, dropout_row);
        if (keys) {
            sum_over_queries(&k, w->width, w->s, w->dout, w->dv + j0 * w->width);
            sum_over_queries(&k, w->width, w->dp, w->q, w->dk + j0 * w->width);
        }
        if (queries) sum_over_keys(&k, w->width, w->dp, w->k + j0 * w->width, w->dq, add);
    }
    if (parts) total_add(w->total, NULL, w->dq, rows, w->width);
    for (int64_t i = 0; queries && i < rows; i++)
        row_store(&c->din[0], head_offset(&c->din[0], b, t0 + i, h), w->dq + i * w->width, s->D,
                  (float)c->attr->attention.scale, c->add[0]);
}

static const struct method fp32_method = {load_values, forward_block, load_keys, backward_block};

/* The fields that do not depend on the thread. */
static struct work work_make(const struct lvn_call *c)
{
    struct work w = {.sizes = attention_sizes(c), .method = &fp32_method, .scale = 1, .dropout_scale = 1};
    w.width = (w.sizes.D + LVN_LANES - 1) / LVN_LANES * LVN_LANES;
    w.dk_scale = w.dv_scale = 1; /* queries were scaled, and dO times dropout's factor, when they were loaded */
    w.ranged = w.sizes.window || c->in[4].desc;
    w.cap = (float)c->attr->attention.softcap;
    w.cap_scale = 1; /* queries were scaled */
    w.dropout = dropout_on(c);
    if (w.dropout) w.drop = vdropout_make(c->step->seed, (uint64_t)c->step->step, c->op_hash, c->attr->attention.p);
#if defined(__AVX512BF16__)
    if (bf16_fits(c)) {
        w.bf16 = true;
        w.method = &bf16_method;
        w.width = bf16_ceil(w.sizes.D, 32);
        w.dk_scale = (float)c->attr->attention.scale;
        *(w.cap > 0 ? &w.cap_scale : &w.scale) = w.dk_scale;
        w.dropout_scale = w.dv_scale = w.dropout ? w.drop.scale : 1;
    }
#endif
    return w;
}

static struct work work_begin(const struct lvn_call *c, int thread)
{
    struct work w = work_make(c), sized = w;
    const bool backward = c->phase == LVN_BACKWARD;
    work_layout(&w, (float *)c->scratch + thread * work_layout(&sized, NULL, backward), backward);
    return w;
}

/* --- forward ------------------------------------------------------------------------------------------------------ */

/* Is it decoding: a few queries, from which no keys are hidden, and all of it in fp32? */
static bool decodes(const struct lvn_call *c)
{
    const bool bf16 = is_bf16(&c->in[0]) || is_bf16(&c->in[1]) || is_bf16(&c->in[2]) || is_bf16(&c->out[0]);
    return c->in[0].desc->dim[1] <= DECODE_MAX && !bf16 && !c->in[5].desc;
}

static void forward(const struct lvn_call *c, int thread, int n_threads)
{
    if (decodes(c) && !dropout_on(c)) {
        decode_forward(c, thread, n_threads);
        return;
    }
    struct work w = work_begin(c, thread);
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
                    w.base = s->ring ? first_block(s, b, 0) : 0;
                    w.method->load_values(&w, c, b, h / s->group, attention_end_key(s, b, s->Tq - 1));
                    packed = pair;
                }
                w.method->forward_block(&w, c, b, h, i * TILE_BLOCK);
            }
}

/* --- backward ----------------------------------------------------------------------------------------------------- */

/* Set dK and dV of keys [first, end) to zero. */
static void keys_begin(struct work *w, int64_t first, int64_t end)
{
    memset(w->dk + first * w->width, 0, (size_t)((end - first) * w->width) * sizeof(float));
    memset(w->dv + first * w->width, 0, (size_t)((end - first) * w->width) * sizeof(float));
}

/* Store dK and dV of keys [first, end) as gradients; `add`: add them to an earlier part. */
static void keys_store(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t first, int64_t end,
                       bool add)
{
    for (int64_t j = first; j < end; j++) {
        if (c->din[1].p)
            row_store(&c->din[1], head_offset(&c->din[1], b, j, h), w->dk + j * w->width, w->sizes.D, w->dk_scale,
                      c->add[1] || add);
        if (c->din[2].p)
            row_store(&c->din[2], head_offset(&c->din[2], b, j, h), w->dv + j * w->width, w->sizes.D, w->dv_scale,
                      c->add[2] || add);
    }
}

/* All queries with keys [first, end) of key head hk, which are loaded: dK and dV, and, if `queries`, dQ. Parts of the
 * queries are added in the gradients of keys and values, unless these are bf16, which would round each. */
static void backward_keys(struct work *w, const struct lvn_call *c, int64_t b, int64_t hk, int64_t first, int64_t end,
                          bool keys, bool queries)
{
    const struct attention_sizes *s = &w->sizes;
    const bool parts = keys && !(c->din[1].p && is_bf16(&c->din[1])) && !(c->din[2].p && is_bf16(&c->din[2]));
    bool add = false;
    keys_begin(w, first, end);
    for (int64_t h = hk * s->group; h < (hk + 1) * s->group; h++)
        for (int64_t t0 = 0; t0 < s->Tq; t0 += TILE_BLOCK) {
            if (parts && t0 && t0 % SUM_PART == 0) {
                keys_store(w, c, b, hk, first, end, add);
                keys_begin(w, first, end);
                add = true;
            }
            w->method->backward_block(w, c, b, h, t0, first, end, keys, queries);
        }
    keys_store(w, c, b, hk, first, end, add);
}

/* Each key head of the batch by one thread. */
static void backward_whole(struct work *w, const struct lvn_call *c, int thread, int n_threads)
{
    const struct attention_sizes *s = &w->sizes;
    int64_t begin, end;
    lvn_thread_range(s->B * s->Hkv, 1, thread, n_threads, &begin, &end);
    for (int64_t pair = begin; pair < end; pair++) {
        const int64_t b = pair / s->Hkv, hk = pair % s->Hkv;
        w->method->load_keys(w, c, b, hk, 0, attention_end_key(s, b, s->Tq - 1));
        backward_keys(w, c, b, hk, 0, s->Tk, c->din[1].p || c->din[2].p, c->din[0].p);
    }
}

/* Blocks of keys, then blocks of queries, round-robin over the threads, since under a causal mask their costs differ.
 */
static void backward_split(struct work *w, const struct lvn_call *c, int thread, int n_threads)
{
    const struct attention_sizes *s = &w->sizes;
    const int64_t key_blocks = (s->Tk + TILE_BLOCK - 1) / TILE_BLOCK, pairs = s->B * s->Hkv;
    const int64_t query_blocks = (s->Tq + TILE_BLOCK - 1) / TILE_BLOCK;
    for (int64_t task = thread; (c->din[1].p || c->din[2].p) && task < pairs * key_blocks; task += n_threads) {
        const int64_t b = task % pairs / s->Hkv, hk = task % s->Hkv, first = task / pairs * TILE_BLOCK;
        const int64_t end = first + TILE_BLOCK < s->Tk ? first + TILE_BLOCK : s->Tk;
        const int64_t seen = attention_end_key(s, b, s->Tq - 1);
        if (seen > first) w->method->load_keys(w, c, b, hk, first, seen < end ? seen : end);
        backward_keys(w, c, b, hk, first, end, true, false);
    }
    for (int64_t task = thread; c->din[0].p && task < s->B * s->Hq * query_blocks; task += n_threads) {
        const int64_t heads = s->B * s->Hq, b = task % heads / s->Hq, h = task % s->Hq;
        const int64_t t0 = (query_blocks - 1 - task / heads) * TILE_BLOCK; /* causal: the most expensive first */
        const int64_t last = t0 + TILE_BLOCK < s->Tq ? t0 + TILE_BLOCK - 1 : s->Tq - 1;
        w->method->load_keys(w, c, b, h / s->group, first_block(s, b, t0), attention_end_key(s, b, last));
        w->method->backward_block(w, c, b, h, t0, 0, s->Tk, false, true);
    }
}

static void backward(const struct lvn_call *c, int thread, int n_threads)
{
    if (c->attr->attention.ring) { /* generated text is not trained on: not worth a fast kernel */
        if (thread == 0) lvn_op(LVN_OP_attention, LVN_F32)->spec.backward(c);
        return;
    }
    struct work w = work_begin(c, thread);
    const int64_t pairs = w.sizes.B * w.sizes.Hkv, steps = (pairs + n_threads - 1) / n_threads;
    /* backward_whole() needs 5 matrix multiplications per block, backward_split() 7 and more packing */
    if (steps * n_threads * 5 <= pairs * 8)
        backward_whole(&w, c, thread, n_threads);
    else
        backward_split(&w, c, thread, n_threads);
}

static int64_t scratch(const struct lvn_call *c, int n_threads)
{
    struct work w = work_make(c);
    const bool decode = c->phase == LVN_FORWARD && decodes(c) && c->attr->attention.p == 0;
    const int64_t floats = decode ? decode_floats(&w.sizes) : work_layout(&w, NULL, c->phase == LVN_BACKWARD);
    return n_threads * floats * (int64_t)sizeof(float);
}

LVN_CPU_OPERATION(attention, .forward = forward, .backward = backward, .scratch = scratch);

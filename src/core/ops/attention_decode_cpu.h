/* attention_decode_cpu.h - attention of a few queries, as when text is generated token by token.
 *
 * With one query there is nothing to block: every key and value is read once, from its own memory. Lanes are channels;
 * sixteen dot products are summed over their lanes together. One thread computes a head. Included by attention.cpu.c.
 */
#ifndef LVN_ATTENTION_DECODE_CPU_H
#define LVN_ATTENTION_DECODE_CPU_H

#include "backend/cpu/simd_math.h"
#include "base/threads.h"
#include "ops/attention_block_cpu.h"

enum { DECODE_MAX = 8 }; /* queries of a sample; with more, blocks are faster */

static int64_t decode_floats(const struct attention_sizes *s)
{
    return (s->Tk + LVN_LANES - 1) / LVN_LANES * LVN_LANES;
}

/* Products of q and four keys from j on, lane by lane, not summed over lanes. Keys after `last` are replaced by it. */
LVN_INLINE void dot_four(const float *q, const float *k, int64_t stride, int64_t D, int64_t j, int64_t last,
                         float scale, vf *to)
{
    enum { PARTS = LVN_LANES / TILE_LANES }; /* registers of a vector */
    const float *row[4];
    vt sum[4][PARTS];
    LVN_UNROLL for (int i = 0; i < 4; i++)
    {
        row[i] = k + (j + i < last ? j + i : last) * stride;
        LVN_UNROLL for (int c = 0; c < PARTS; c++) sum[i][c] = VT_SET(0);
    }
    int64_t x = 0;
    for (; x + LVN_LANES <= D; x += LVN_LANES) LVN_UNROLL for (int c = 0; c < PARTS; c++)
        {
            const vt y = VT_LOAD(q + x + c * TILE_LANES) * VT_SET(scale);
            LVN_UNROLL for (int i = 0; i < 4; i++) sum[i][c] =
                VT_FMA(VT_LOAD(row[i] + x + c * TILE_LANES), y, sum[i][c]);
        }
    LVN_UNROLL for (int i = 0; i < 4; i++)
    {
        float part[LVN_LANES];
        LVN_UNROLL for (int c = 0; c < PARTS; c++) VT_STORE(part + c * TILE_LANES, sum[i][c]);
        to[i] = vload(part);
        if (x < D) to[i] = vfma(vload_n(row[i] + x, D - x), vload_n(q + x, D - x) * vset(scale), to[i]);
    }
}

/* p[0..n) = scale q k^T; lanes after the end are -inf. Returns the largest. */
static float decode_scores(const float *q, const float *k, int64_t stride, int64_t D, int64_t n, float scale, float *p)
{
    vf top = vset(-INFINITY);
    for (int64_t j = 0; j < n; j += LVN_LANES) {
        vf sum[LVN_LANES];
        for (int i = 0; i < LVN_LANES; i += 4) dot_four(q, k, stride, D, j + i, n - 1, scale, sum + i);
        const vi in = vgreater_int((vi){0} + (int32_t)(n - j < LVN_LANES ? n - j : LVN_LANES), viota());
        const vf y = vselect(in, vsum_each(sum), vset(-INFINITY));
        top = vmax(top, y);
        vstore(p + j, y);
    }
    return vmax_lane(top);
}

/* out = factor * sum over keys of p[j] v[j], for nv vectors of channels and at most SUM_PART keys. */
LVN_INLINE void decode_part(int nv, const float *p, const float *v, int64_t stride, int64_t n, float factor, float *out)
{
    const int parts = nv * LVN_LANES / TILE_LANES;
    vt sum[2][4 * LVN_LANES / TILE_LANES];
    LVN_UNROLL for (int c = 0; c < parts; c++) sum[0][c] = sum[1][c] = VT_SET(0);
    int64_t j = 0;
    for (; j + 2 <= n; j += 2, v += 2 * stride) LVN_UNROLL for (int c = 0; c < parts; c++)
        {
            sum[0][c] = VT_FMA(VT_SET(p[j]), VT_LOAD(v + c * TILE_LANES), sum[0][c]);
            sum[1][c] = VT_FMA(VT_SET(p[j + 1]), VT_LOAD(v + stride + c * TILE_LANES), sum[1][c]);
        }
    LVN_UNROLL for (int c = 0; c < parts; c++)
    {
        if (j < n) sum[0][c] = VT_FMA(VT_SET(p[j]), VT_LOAD(v + c * TILE_LANES), sum[0][c]);
        VT_STORE(out + c * TILE_LANES, (sum[0][c] + sum[1][c]) * VT_SET(factor));
    }
}

/* The same for any number of keys. */
LVN_INLINE void decode_values(int nv, const float *p, const float *v, int64_t stride, int64_t n, float factor,
                              float *out)
{
    struct vtotal total[4] = {0};
    float part[4 * LVN_LANES];
    if (n <= SUM_PART) {
        decode_part(nv, p, v, stride, n, factor, out);
        return;
    }
    for (int64_t j = 0; j < n; j += SUM_PART) {
        decode_part(nv, p + j, v + j * stride, stride, n - j < SUM_PART ? n - j : SUM_PART, 1, part);
        for (int i = 0; i < nv; i++) vtotal_add(&total[i], vload(part + i * LVN_LANES));
    }
    for (int i = 0; i < nv; i++) vstore(out + i * LVN_LANES, vtotal_get(&total[i]) * vset(factor));
}

/* Replace scores by exp(score - top); returns their sum. */
static float decode_softmax(float *p, int64_t n, float top)
{
    struct vtotal total = {0};
    for (int64_t j0 = 0; j0 < n; j0 += SUM_PART) {
        vf sum = vset(0);
        for (int64_t j = j0; j < n && j < j0 + SUM_PART; j += LVN_LANES) {
            const vf y = vexp(vload(p + j) - vset(top));
            sum += y;
            vstore(p + j, y);
        }
        vtotal_add(&total, sum);
    }
    return vsum(vtotal_get(&total));
}

/* The largest of scores p[0..n). */
static float decode_top(const float *p, int64_t n)
{
    vf top = vset(-INFINITY);
    for (int64_t j = 0; j < n; j += LVN_LANES) top = vmax(top, vload(p + j));
    return vmax_lane(top);
}

/* p[0..n) = cap tanh(p / cap); lanes after the end stay -inf. */
static void decode_cap(float *p, int64_t n, float cap)
{
    for (int64_t j = 0; j < n; j += LVN_LANES) {
        const vi in = vgreater_int((vi){0} + (int32_t)(n - j < LVN_LANES ? n - j : LVN_LANES), viota());
        vstore(p + j, vselect(in, vtanh(vload(p + j) / cap) * cap, vset(-INFINITY)));
    }
}

/* Of the scores of a ring's rows, those of keys that query t does not see become -inf. */
static void decode_hide(const struct attention_sizes *s, int64_t b, int64_t t, float *p, int64_t n)
{
    const int64_t first = attention_first_key(s, b, t), end = attention_end_key(s, b, t);
    const int64_t written =
        attention_first_query(s, b) + s->Tq; /* row i has the last key before it with key % Tk = i */
    for (int64_t i = 0; i < n; i++) {
        const int64_t key = written - 1 - (written - 1 - i) % s->Tk;
        if (key < first || key >= end) p[i] = -INFINITY;
    }
}

static void decode_query(const struct lvn_call *c, const struct attention_sizes *s, int64_t b, int64_t h, int64_t t,
                         float *p)
{
    const int64_t first = s->ring ? 0 : attention_first_key(s, b, t), end = attention_end_key(s, b, t);
    const int64_t written = attention_first_query(s, b) + s->Tq;
    const int64_t n = !s->ring ? end - first : written < s->Tk ? written : s->Tk; /* rows of the cache */
    const int64_t hk = h / s->group, stride = c->in[2].desc->stride[1];
    const float cap = (float)c->attr->attention.softcap;
    const struct lvn_desc *d = c->out[0].desc;
    float *out = (float *)c->out[0].p + b * d->stride[0] + t * d->stride[1] + h * s->D;
    float *logsumexp = (float *)c->out[1].p + (b * s->Hq + h) * s->Tq + t;
    if (n <= 0) {
        memset(out, 0, (size_t)s->D * sizeof *out);
        *logsumexp = 0;
        return;
    }
    const float *q = (const float *)c->in[0].p + head_offset(&c->in[0], b, t, h);
    const float *k = (const float *)c->in[1].p + head_offset(&c->in[1], b, first, hk);
    float top = decode_scores(q, k, c->in[1].desc->stride[1], s->D, n, (float)c->attr->attention.scale, p);
    if (cap > 0) decode_cap(p, n, cap);
    if (s->ring) decode_hide(s, b, t, p, n);
    if (cap > 0 || s->ring) top = decode_top(p, n);
    const float total = decode_softmax(p, n, top);
    const float *v = (const float *)c->in[2].p + head_offset(&c->in[2], b, first, hk);
    int64_t x = 0;
    for (; x + 4 * LVN_LANES <= s->D; x += 4 * LVN_LANES) decode_values(4, p, v + x, stride, n, 1 / total, out + x);
    for (; x + 2 * LVN_LANES <= s->D; x += 2 * LVN_LANES) decode_values(2, p, v + x, stride, n, 1 / total, out + x);
    for (; x + LVN_LANES <= s->D; x += LVN_LANES) decode_values(1, p, v + x, stride, n, 1 / total, out + x);
    if (x < s->D) {
        struct vtotal rest = {0};
        for (int64_t j0 = 0; j0 < n; j0 += SUM_PART) {
            vf sum = vset(0);
            for (int64_t j = j0; j < n && j < j0 + SUM_PART; j++)
                sum = vfma(vset(p[j]), vload_n(v + j * stride + x, s->D - x), sum);
            vtotal_add(&rest, sum);
        }
        vstore_n(out + x, vtotal_get(&rest) * vset(1 / total), s->D - x);
    }
    *logsumexp = top + vlog(vset(total))[0];
}

static void decode_forward(const struct lvn_call *c, int thread, int n_threads)
{
    const struct attention_sizes s = attention_sizes(c);
    float *p = (float *)c->scratch + thread * decode_floats(&s);
    int64_t begin, end;
    lvn_thread_range(s.B * s.Hq, 1, thread, n_threads, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        for (int64_t t = 0; t < s.Tq; t++) decode_query(c, &s, i / s.Hq, i % s.Hq, t, p);
}

#endif

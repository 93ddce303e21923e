/* attention_softmax_cpu.h - softmax of a block of scores, forward and backward: the step between the products.
 *
 * Scores s (64 keys, 64 queries) times w->scale are the logits. If both w->scale and w->dropout_scale are 1, the bits
 * are those of plain subtractions. Only attention.cpu.c and attention_bf16_cpu.h include it. */
#ifndef LVN_ATTENTION_SOFTMAX_CPU_H
#define LVN_ATTENTION_SOFTMAX_CPU_H

#include "backend/cpu/simd_math.h"
#include "backend/cpu/simd_random.h"
#include "ops/attention_block_cpu.h"

/* Replace the scores of keys [j, end) and 16 queries by exp(logit - m), by 0 where dropped. Returns their sum before
 * dropout; the division by the sum applies dropout's factor. */
LVN_INLINE vf softmax_rows(struct work *w, const struct block *k, int64_t v, int64_t j, int64_t end, vf m,
                           const vlanes *keep, bool masked)
{
    struct vacc sum = vacc_set(vset(0));
    for (int64_t n = 0; n < end - j; n++) {
        float *s = w->s + (j + n) * TILE_BLOCK + v * LVN_LANES;
        vf p = vexp(vfma(vload(s), vset(w->scale), -m));
        if (masked) p = vselect(visible_lanes(k, v, j + n), p, vset(0));
        sum = vacc_add(sum, p);
        vstore(s, keep ? vkeep_lanes(p, keep[n]) : p);
    }
    return vacc_get(sum);
}

/* The same for all keys that queries of vector v see: in one pass without dropout, else 8 keys at a time, those of one
 * draw of random bits. */
LVN_INLINE vf softmax_keys(struct work *w, const struct block *k, int64_t v, vf m, uint64_t dropout_row)
{
    const struct seen at = seen_by(k, v);
    const int64_t end = at.end;
    if (!w->dropout) {
        vf total = softmax_rows(w, k, v, at.all, at.full, m, NULL, false);
        for (int part = at.from == at.all; part < 2; part++)
            total += softmax_rows(w, k, v, part ? at.full : at.from, part ? end : at.all, m, NULL, true);
        return total;
    }
    struct vacc sum = vacc_set(vset(0));
    for (int64_t j = at.from / 8 * 8; j < end; j += 8) {
        vlanes keep[8];
        vdropout_keep_rows(&w->drop, dropout_row + (uint64_t)(v * LVN_LANES), (uint32_t)(k->first_key + j), keep);
        if (j >= at.all && j + 8 <= at.full)
            sum = vacc_add(sum, softmax_rows(w, k, v, j, j + 8, m, keep, false));
        else
            sum = vacc_add(sum, softmax_rows(w, k, v, j, j + 8 < end ? j + 8 : end, m, keep, true));
    }
    return vacc_get(sum);
}

/* top = max(top, the largest logit of each query of vector v). */
static void largest_scores(const struct work *w, const struct block *k, int64_t v, float *top)
{
    const float *s = w->s + v * LVN_LANES;
    const struct seen at = seen_by(k, v);
    struct vacc a = vacc_set(vset(-INFINITY)), b = a, c = a, d = a;
    int64_t j = at.all;
    for (; j + 4 <= at.full; j += 4) {
        a = vacc_max(a, vload(s + j * TILE_BLOCK));
        b = vacc_max(b, vload(s + (j + 1) * TILE_BLOCK));
        c = vacc_max(c, vload(s + (j + 2) * TILE_BLOCK));
        d = vacc_max(d, vload(s + (j + 3) * TILE_BLOCK));
    }
    for (; j < at.full; j++) a = vacc_max(a, vload(s + j * TILE_BLOCK));
    for (int part = 0; part < 2; part++)
        for (j = part ? at.full : at.from; j < (part ? at.end : at.all); j++)
            b = vacc_max(b, vselect(visible_lanes(k, v, j), vload(s + j * TILE_BLOCK), vset(-INFINITY)));
    a = vacc_max(vacc_max(a, vacc_get(b)), vacc_get(vacc_max(c, vacc_get(d))));
    vstore(top, vacc_get(vacc_max(vacc_set(vload(top)), vacc_get(a) * vset(w->scale))));
}

/* The largest logit of a query; for one that has seen no key yet any finite number, since its sums are zero. */
LVN_INLINE vf finite_top(vf top)
{
    return vselect(vgreater(top, vset(-INFINITY)), top, vset(0));
}

/* Replace the scores that queries of vector v see by capped ones. */
static void cap_scores(const struct work *w, const struct block *k, int64_t v)
{
    const struct seen at = seen_by(k, v);
    const vf factor = vset(w->cap_scale / w->cap);
    for (int64_t j = at.from; j < at.end; j++) {
        float *s = w->s + j * TILE_BLOCK + v * LVN_LANES;
        vstore(s, vtanh(vload(s) * factor) * w->cap);
    }
}

/* Set rows of s that no query of vector v sees to zero. */
static void clear_hidden(const struct block *k, int64_t v, float *s)
{
    const struct seen at = seen_by(k, v);
    for (int64_t j = 0; j < at.from; j++) vstore(s + j * TILE_BLOCK + v * LVN_LANES, vset(0));
    for (int64_t j = at.end; j < k->keys; j++) vstore(s + j * TILE_BLOCK + v * LVN_LANES, vset(0));
}

/* Softmax of one block: replace the scores by probabilities, not divided by their sum yet, and update the running
 * maximum and sum. Sets w->shrink, the factor of the earlier sums for the new maximum. */
static void softmax_block(struct work *w, const struct block *k, uint64_t dropout_row)
{
    for (int64_t v = 0; v < k->vectors; v++) {
        float *top = w->top + v * LVN_LANES, *sum = w->sum + v * LVN_LANES;
        const vf old = vload(top);
        if (w->cap > 0) cap_scores(w, k, v);
        largest_scores(w, k, v, top);
        const vf m = finite_top(vload(top));
        const vf shrink = vexp(old - m);
        vstore(sum, vfma(vload(sum), shrink, softmax_keys(w, k, v, m, dropout_row)));
        vstore(w->shrink + v * LVN_LANES, shrink);
        clear_hidden(k, v, w->s);
    }
}

/* Before the first block of keys. */
static void softmax_begin(struct work *w)
{
    for (int64_t i = 0; i < TILE_BLOCK; i += LVN_LANES) {
        vstore(w->top + i, vset(-INFINITY));
        vstore(w->sum + i, vset(0));
    }
}

/* Store the output, divided by the sum of probabilities, and the logsumexp. */
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

/* For queries t0.. of head h: w->sum = row sums of dO O, w->top = logsumexp. */
static void row_sums(struct work *w, const struct lvn_call *c, int64_t b, int64_t h, int64_t t0, int64_t rows)
{
    const struct attention_sizes *s = &w->sizes;
    const struct lvn_desc *d = c->out[0].desc, *dd = c->dout[0].desc;
    const bool bf16 = is_bf16(&c->out[0]); /* and its gradient */
    const float *logsumexp = (const float *)c->out[1].p + (b * s->Hq + h) * s->Tq + t0;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t out = b * d->stride[0] + (t0 + i) * d->stride[1] + h * s->D;
        const int64_t dout = b * dd->stride[0] + (t0 + i) * dd->stride[1] + h * s->D;
        vf sum = vset(0);
        for (int64_t x = 0; x < s->D; x += LVN_LANES) {
            const int64_t n = s->D - x < LVN_LANES ? s->D - x : LVN_LANES;
            sum = vfma(vread_n(c->dout[0].p, dout + x, n, bf16), vread_n(c->out[0].p, out + x, n, bf16), sum);
        }
        w->sum[i] = vsum(sum);
        w->top[i] = logsumexp[i];
    }
    for (int64_t i = rows; i % LVN_LANES; i++) w->sum[i] = w->top[i] = 0;
}

/* gradient_block() for keys [j, end) and the 16 queries of vector v. */
LVN_INLINE void gradient_rows(struct work *w, const struct block *k, int64_t v, int64_t j, int64_t end,
                              const vlanes *keep, bool masked)
{
    const vf logsumexp = vload(w->top + v * LVN_LANES), delta = vload(w->sum + v * LVN_LANES);
    const float cap = w->cap;
    for (int64_t n = 0; n < end - j; n++) {
        float *s = w->s + (j + n) * TILE_BLOCK + v * LVN_LANES, *dp = w->dp + (s - w->s);
        const vf score = vload(s);
        vf p = vexp(vfma(score, vset(w->scale), -logsumexp)), g = vload(dp);
        if (masked) p = vselect(visible_lanes(k, v, j + n), p, vset(0));
        if (keep) g = vkeep_lanes(g, keep[n]);
        g = p * vfma(g, vset(w->dropout_scale), -delta);
        if (cap > 0) { /* the derivative of c tanh(x / c) is 1 - tanh^2 */
            const vf y = score / cap;
            g *= vfma(-y, y, vset(1));
        }
        vstore(s, keep ? vkeep_lanes(p, keep[n]) : p);
        vstore(dp, g);
    }
}

/* Replace the scores in s by probabilities (0 where dropped), and dO V^T in dp by the gradients of the scores, without
 * the scale. */
static void gradient_block(struct work *w, const struct block *k, uint64_t dropout_row)
{
    for (int64_t v = 0; v < k->vectors; v++) {
        const struct seen at = seen_by(k, v);
        const int64_t end = at.end;
        if (w->cap > 0) cap_scores(w, k, v);
        if (!w->dropout) {
            gradient_rows(w, k, v, at.all, at.full, NULL, false);
            for (int part = at.from == at.all; part < 2; part++)
                gradient_rows(w, k, v, part ? at.full : at.from, part ? end : at.all, NULL, true);
        }
        for (int64_t j = at.from / 8 * 8; w->dropout && j < end; j += 8) {
            vlanes keep[8];
            vdropout_keep_rows(&w->drop, dropout_row + (uint64_t)(v * LVN_LANES), (uint32_t)(k->first_key + j), keep);
            if (j >= at.all && j + 8 <= at.full)
                gradient_rows(w, k, v, j, j + 8, keep, false);
            else
                gradient_rows(w, k, v, j, j + 8 < end ? j + 8 : end, keep, true);
        }
        clear_hidden(k, v, w->s);
        clear_hidden(k, v, w->dp);
    }
}

#endif

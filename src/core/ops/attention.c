/* attention.c - scaled dot-product attention: out = dropout(softmax(cap(scale q k^T) + mask)) v, for every head.
 *
 * Inputs: q (B,Tq,Hq,D), k and v (B,Tk,Hkv,D), all strided, so that views of one (B,T,3C) tensor need no copies; Hq is
 * a multiple of Hkv, and neighboring query heads share a key head. lengths (B), int32, may be absent: keys from
 * lengths[b] on are padding. segments (B,T), int32, may be absent: the position at which the document of each token
 * starts, which never decreases; a query sees no keys before it. hidden (B,T,2 LVN_HIDDEN_RANGES), int32, may be
 * absent: ranges of keys that a query does not see (graph.h); GPUs do not support it. Output: (B,Tq,Hq*D). Saved: the
 * logsumexp of every row of scores, (B,Hq,Tq), from which backward recomputes the probabilities.
 *
 * attr.window: a query sees the last `window` keys, its own included. attr.softcap: a score s becomes
 * c tanh(s / c). A query that sees no key gives zeros and logsumexp 0. Not supported: a bias, relative positions,
 * and windows or segments without a causal mask.
 *
 * The gradient, with P the probabilities, S the capped scores and Z dropout's factors: dV = (P Z)^T dO,
 * dS = P (Z dP - rowsum(dO O)) (1 - (S / c)^2) where dP = dO V^T, dQ = scale dS K, dK = scale dS^T Q (Dao, Fu, Ermon,
 * Rudra, Re: "FlashAttention", NeurIPS 2022; Beltagy, Peters, Cohan: "Longformer", 2020; Gemma team: "Gemma 2", 2024).
 */
#include "ops/attention.h"

#include "levin.h"
#include "ops/real.h"
#include "ops/shape.h"

/* window, segments and soft cap */
static enum lvn_status shape_ranges(const struct lvn_shapes *s)
{
    const struct lvn_desc *q = &s->in[0], *k = &s->in[1];
    const int64_t window = s->attr->attention.window;
    const double cap = s->attr->attention.softcap;
    char text[LVN_SHAPE_TEXT];
    LVN_CHECK(window >= 0, ARG, "attention: the window is %lld keys: give at least 1, or 0 for all keys",
              (long long)window);
    LVN_CHECK(cap >= 0 && isfinite(cap), ARG, "attention: the soft cap is %g: give a number above 0, or 0 for none",
              cap);
    LVN_CHECK(s->attr->attention.causal || (!window && !s->has[4]), UNSUPPORTED,
              "attention: %s without a causal mask, which is not supported: set causal",
              window ? "a window" : "segments");
    LVN_CHECK(!s->attr->attention.ring || (window > 0 && window + q->dim[1] - 1 <= k->dim[1]), SHAPE,
              "attention: a cache of %lld positions for %lld new ones, which see %lld keys each: give levin_kv_cache() "
              "the same window as levin_attention()",
              (long long)k->dim[1], (long long)q->dim[1], (long long)window);
    if (!s->has[4]) return LVN_OK;
    LVN_CHECK(s->in[4].dtype == LVN_I32 && s->in[4].rank == 2 && s->in[4].dim[0] == q->dim[0] &&
                  s->in[4].dim[1] == q->dim[1] && lvn_desc_contiguous(&s->in[4]),
              SHAPE, "attention: segments are %s %s, expected int32 (%lld, %lld)", lvn_dtype_name(s->in[4].dtype),
              lvn_shape_text(&s->in[4], text), (long long)q->dim[0], (long long)q->dim[1]);
    LVN_CHECK(!s->attr->attention.cached && q->dim[1] == k->dim[1], UNSUPPORTED,
              "attention: segments with %s, which is not supported: give each document its own row",
              s->attr->attention.cached ? "a key/value cache" : "other positions of keys than of queries");
    if (!s->has[5]) return LVN_OK;
    LVN_TRY(lvn_shape_integers(s, "hidden", 5, 2 * LVN_HIDDEN_RANGES * q->dim[0] * q->dim[1]));
    return LVN_OK;
}

static enum lvn_status shape(struct lvn_shapes *s)
{
    const struct lvn_desc *q = &s->in[0], *k = &s->in[1], *v = &s->in[2];
    char a[LVN_SHAPE_TEXT], b[LVN_SHAPE_TEXT];
    for (int i = 0; i < 3; i++) {
        LVN_CHECK(s->in[i].rank == 4, SHAPE,
                  "attention: input %d has shape %s, expected (batch, time, heads, head size)", i,
                  lvn_shape_text(&s->in[i], a));
        LVN_CHECK(s->in[i].dtype == s->real, UNSUPPORTED, "attention: input %d is %s, expected %s", i,
                  lvn_dtype_name(s->in[i].dtype), lvn_dtype_name(s->real));
        LVN_CHECK(s->in[i].stride[3] == 1 || s->in[i].dim[3] == 1, SHAPE,
                  "attention: the channels of a head of input %d are not contiguous (stride %lld); copy it first", i,
                  (long long)s->in[i].stride[3]);
    }
    LVN_CHECK(lvn_desc_same_shape(k, v), SHAPE, "attention: keys %s and values %s differ in shape",
              lvn_shape_text(k, a), lvn_shape_text(v, b));
    LVN_CHECK(q->dim[0] == k->dim[0] && q->dim[3] == k->dim[3], SHAPE,
              "attention: queries %s and keys %s differ in batch or head size", lvn_shape_text(q, a),
              lvn_shape_text(k, b));
    LVN_CHECK(k->dim[2] > 0 && q->dim[2] % k->dim[2] == 0, SHAPE,
              "attention: %lld query heads are not a multiple of %lld key heads", (long long)q->dim[2],
              (long long)k->dim[2]);
    int64_t longest = (int64_t)1 << LVN_ATTENTION_QUERY_BITS;
    LVN_CHECK(q->dim[1] <= longest && k->dim[1] <= longest, UNSUPPORTED,
              "attention: %lld queries and %lld keys, at most %lld are supported", (long long)q->dim[1],
              (long long)k->dim[1], (long long)longest);
    const double p = s->attr->attention.p;
    LVN_CHECK(p >= 0.0 && lvn_dropout_threshold(p) < 65536, ARG, "attention: dropout %g is outside [0, 1)", p);
    if (s->has[3])
        LVN_CHECK(s->in[3].dtype == LVN_I32 && s->in[3].rank == 1 && s->in[3].dim[0] == q->dim[0] &&
                      lvn_desc_contiguous(&s->in[3]),
                  SHAPE, "attention: lengths are %s %s, expected int32 (%lld)", lvn_dtype_name(s->in[3].dtype),
                  lvn_shape_text(&s->in[3], a), (long long)q->dim[0]);
    LVN_TRY(shape_ranges(s));
    s->out[0] = LVN_DESC(s->real, q->dim[0], q->dim[1], q->dim[2] * q->dim[3]);
    s->out[1] = LVN_DESC(s->real, q->dim[0], q->dim[2], q->dim[1]);
    return LVN_OK;
}

/* Row (b,t,h) of a (B,T,H,D) tensor. */
static real *row(const struct lvn_arg *a, int64_t b, int64_t t, int64_t h)
{
    return (real *)a->p + b * a->desc->stride[0] + t * a->desc->stride[1] + h * a->desc->stride[2];
}

/* Row (b,t,h) of a (B,T,H*D) tensor. */
static real *out_row(const struct lvn_arg *a, int64_t b, int64_t t, int64_t channel)
{
    return (real *)a->p + b * a->desc->stride[0] + t * a->desc->stride[1] + channel * a->desc->stride[2];
}

static real dot(const real *a, const real *b, int64_t n)
{
    real sum = 0;
    for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Dropout's factor of the probability of key j. */
static real factor(const struct attention_dropout *d, uint64_t dropout_row, int64_t j)
{
    if (!d->threshold) return 1;
    return lvn_dropout_bits(&d->key, dropout_row, (uint32_t)j) >= d->threshold ? (real)d->scale : 0;
}

static void forward_query(const struct lvn_call *c, const struct attention_sizes *s, const struct attention_dropout *d,
                          int64_t b, int64_t h, int64_t t)
{
    const real scale = (real)c->attr->attention.scale;
    const double cap = c->attr->attention.softcap;
    const real *q = row(&c->in[0], b, t, h);
    const int64_t first = attention_first_key(s, b, t), end = attention_end_key(s, b, t), hk = h / s->group;
    const uint64_t dropout_row = attention_dropout_row(s, c->step, b, h, t);
    real *p = (real *)c->scratch; /* (Tk) scores, then probabilities, from key `first` on */
    real *out = out_row(&c->out[0], b, t, h * s->D), top = -INFINITY, sum = 0;
    for (int64_t j = first; j < end; j++) {
        const real score = scale * dot(q, row(&c->in[1], b, attention_row(s, j), hk), s->D);
        p[j - first] = attention_hides(s, b, t, j) ? -INFINITY : (real)attention_capped(score, cap);
        if (p[j - first] > top) top = p[j - first];
    }
    for (int64_t j = first; j < end; j++) sum += p[j - first] = exp(p[j - first] - top);
    for (int64_t i = 0; i < s->D; i++) out[i] = 0;
    for (int64_t j = first; j < end; j++) {
        const real *v = row(&c->in[2], b, attention_row(s, j), hk), w = p[j - first] / sum * factor(d, dropout_row, j);
        for (int64_t i = 0; i < s->D; i++) out[i] += w * v[i];
    }
    ((real *)c->out[1].p)[(b * s->Hq + h) * s->Tq + t] = first < end ? top + log(sum) : 0;
}

static void forward(const struct lvn_call *c)
{
    const struct attention_sizes s = attention_sizes(c);
    const struct attention_dropout d = attention_dropout(c);
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.Hq; h++)
            for (int64_t t = 0; t < s.Tq; t++) forward_query(c, &s, &d, b, h, t);
}

static void clear(const struct lvn_arg *a)
{
    const struct lvn_desc *d = a->desc;
    for (int64_t b = 0; b < d->dim[0]; b++)
        for (int64_t t = 0; t < d->dim[1]; t++)
            for (int64_t h = 0; h < d->dim[2]; h++)
                for (int64_t i = 0; i < d->dim[3]; i++) row(a, b, t, h)[i] = 0;
}

static void backward_query(const struct lvn_call *c, const struct attention_sizes *s, const struct attention_dropout *d,
                           int64_t b, int64_t h, int64_t t)
{
    const real scale = (real)c->attr->attention.scale;
    const real *q = row(&c->in[0], b, t, h), *dout = out_row(&c->dout[0], b, t, h * s->D);
    const real delta = dot(dout, out_row(&c->out[0], b, t, h * s->D), s->D);
    const real logsumexp = ((const real *)c->out[1].p)[(b * s->Hq + h) * s->Tq + t];
    const int64_t end = attention_end_key(s, b, t), hk = h / s->group;
    const uint64_t dropout_row = attention_dropout_row(s, c->step, b, h, t);
    const double cap = c->attr->attention.softcap;

    for (int64_t j = attention_first_key(s, b, t); j < end; j++) {
        if (attention_hides(s, b, t, j)) continue;
        const int64_t at = attention_row(s, j);
        const real *k = row(&c->in[1], b, at, hk), *v = row(&c->in[2], b, at, hk);
        const real score = (real)attention_capped(scale * dot(q, k, s->D), cap);
        const real p = exp(score - logsumexp), z = factor(d, dropout_row, j);
        const real slope = cap > 0 ? 1 - (real)(score / cap * (score / cap)) : 1;
        const real ds = scale * p * (z * dot(dout, v, s->D) - delta) * slope;
        real *dq = c->din[0].p ? row(&c->din[0], b, t, h) : NULL;
        real *dk = c->din[1].p ? row(&c->din[1], b, at, hk) : NULL;
        real *dv = c->din[2].p ? row(&c->din[2], b, at, hk) : NULL;
        for (int64_t i = 0; i < s->D; i++) {
            if (dq) dq[i] += ds * k[i];
            if (dk) dk[i] += ds * q[i];
            if (dv) dv[i] += p * z * dout[i];
        }
    }
}

static void backward(const struct lvn_call *c)
{
    const struct attention_sizes s = attention_sizes(c);
    const struct attention_dropout d = attention_dropout(c);
    for (int i = 0; i < 3; i++)
        if (c->din[i].p && !c->add[i]) clear(&c->din[i]);
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.Hq; h++)
            for (int64_t t = 0; t < s.Tq; t++) backward_query(c, &s, &d, b, h, t);
}

static int64_t scratch(const struct lvn_call *c)
{
    return c->phase == LVN_FORWARD ? c->in[1].desc->dim[1] * (int64_t)sizeof(real) : 0;
}

/* Two products forward (scores, output), four backward. Pairs that shapes and the window hide are not counted, nor is
 * the recomputation of the scores in backward. Segments and lengths are not known here: as if there were none. */
static double flops(const struct lvn_call *c)
{
    struct attention_sizes s = attention_sizes(c);
    s.lengths = s.segments = s.hidden = NULL;
    double pairs = 0;
    for (int64_t t = 0; t < s.Tq; t++) {
        const int64_t n = attention_end_key(&s, 0, t) - attention_first_key(&s, 0, t);
        if (n > 0) pairs += (double)n;
    }
    return (c->phase == LVN_BACKWARD ? 4.0 : 2.0) * 2.0 * (double)(s.B * s.Hq * s.D) * pairs;
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_attention(struct levin_graph *g, struct levin_tensor *q, struct levin_tensor *k,
                                     struct levin_tensor *v, const struct levin_attention_options *options)
{
    const struct levin_attention_options *o = options;
    char text[LVN_SHAPE_TEXT];
    if (!o) return lvn_graph_fail(g, lvn_fail(LVN_ARG, "levin_attention_options is NULL: give its address"));
    if (o->size != (int64_t)sizeof *o)
        return lvn_graph_fail(g, lvn_fail(LVN_ARG,
                                          "levin_attention_options.size is %lld, and this library (ABI %d) expects "
                                          "%lld: set it to sizeof(struct levin_attention_options)",
                                          (long long)o->size, LEVIN_ABI_VERSION, (long long)sizeof *o));
    if (o->dropout > 0 && q && g->n_inputs && q->desc.dim[0] != g->inputs[0]->desc.dim[0])
        return lvn_graph_fail(
            g,
            lvn_fail(LVN_SHAPE,
                     "attention: dropout of queries with shape %s in a micro-batch of %lld samples: with dropout the "
                     "first dimension must be the samples",
                     lvn_shape_text(&q->desc, text), (long long)g->inputs[0]->desc.dim[0]));
    if (!isfinite(o->scale))
        return lvn_graph_fail(g, lvn_fail(LVN_ARG, "attention: the scale is %g; give a finite number", o->scale));
    union lvn_attr attr = {
        .attention = {
            .causal = o->causal, .scale = o->scale, .p = o->dropout, .window = o->window, .softcap = o->softcap}};
    attr.attention.cached = k && k->kind == LVN_TENSOR_OUTPUT && k->node->op == LVN_OP_kv_cache;
    attr.attention.ring = attr.attention.cached && k->node->attr.kv_cache.ring;
    struct levin_tensor *in[] = {q, k, v, o->lengths, o->segments ? o->segments : g->segments, g->hidden};
    return lvn_node_append(g, LVN_OP_attention, &attr, in, 6);
}
#endif

LVN_OPERATION(attention, shape, forward, backward, .n_in = 6, .n_in_min = 3, .n_out = 1, .n_saved = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_IN(2) | LVN_READS_IN(3) | LVN_READS_IN(4) |
                       LVN_READS_IN(5) | LVN_READS_OUT(0) | LVN_READS_OUT(1),
              .low_precision_ok = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_IN(2) | LVN_READS_OUT(0),
              .flops = flops, .spec.scratch = scratch);

/* attention.c - scaled dot-product attention: out = dropout(softmax(scale q k^T + mask)) v, for every head.
 *
 * Inputs: q (B,Tq,Hq,D), k and v (B,Tk,Hkv,D), all strided, so that views of one (B,T,3C) tensor need no copies; Hq is
 * a multiple of Hkv, and neighbouring query heads share a key head. lengths (B), int32, may be absent: keys from
 * lengths[b] on are padding. Output: (B,Tq,Hq*D). Saved: the logsumexp of every row of scores, (B,Hq,Tq), from which
 * backward recomputes the probabilities.
 *
 * A query that sees no key gives zeros and logsumexp 0. Left out: a bias, and masks under which a query does not see a
 * leading part of the keys (sliding windows, relative positions).
 *
 * The gradient, with P the probabilities and Z dropout's factors: dV = (P Z)^T dO, dS = P (Z dP - rowsum(dO O)) where
 * dP = dO V^T, dQ = scale dS K, dK = scale dS^T Q (Dao, Fu, Ermon, Rudra, Re: "FlashAttention", NeurIPS 2022). */
#include "ops/attention.h"

#include "ops/real.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    const struct lvn_desc *q = &s->in[0], *k = &s->in[1], *v = &s->in[2];
    char a[LVN_SHAPE_TEXT], b[LVN_SHAPE_TEXT];
    for (int i = 0; i < 3; i++) {
        LVN_CHECK(s->in[i].rank == 4, SHAPE, "attention: input %d has shape %s, wanted (batch, time, heads, head size)",
                  i, lvn_shape_text(&s->in[i], a));
        LVN_CHECK(s->in[i].dtype == s->real, UNSUPPORTED, "attention: input %d is %s, wanted %s", i,
                  lvn_dtype_name(s->in[i].dtype), lvn_dtype_name(s->real));
        LVN_CHECK(s->in[i].stride[3] == 1 || s->in[i].dim[3] == 1, SHAPE,
                  "attention: the channels of a head of input %d do not lie side by side (stride %lld); copy it first",
                  i, (long long)s->in[i].stride[3]);
    }
    LVN_CHECK(lvn_desc_same_shape(k, v), SHAPE, "attention: keys %s and values %s differ in shape",
              lvn_shape_text(k, a), lvn_shape_text(v, b));
    LVN_CHECK(q->dim[0] == k->dim[0] && q->dim[3] == k->dim[3], SHAPE,
              "attention: queries %s and keys %s differ in batch or head size", lvn_shape_text(q, a),
              lvn_shape_text(k, b));
    LVN_CHECK(k->dim[2] > 0 && q->dim[2] % k->dim[2] == 0, SHAPE,
              "attention: %lld query heads are no multiple of %lld key heads", (long long)q->dim[2],
              (long long)k->dim[2]);
    int64_t longest = (int64_t)1 << LVN_ATTENTION_QUERY_BITS;
    LVN_CHECK(q->dim[1] <= longest && k->dim[1] <= longest, UNSUPPORTED,
              "attention: %lld queries and %lld keys, at most %lld are supported", (long long)q->dim[1],
              (long long)k->dim[1], (long long)longest);
    const double p = s->attr->attention.p;
    LVN_CHECK(p >= 0.0 && lvn_dropout_threshold(p) < 65536, ARG, "attention: dropout %g lies outside [0, 1)", p);
    if (s->has[3])
        LVN_CHECK(s->in[3].dtype == LVN_I32 && s->in[3].rank == 1 && s->in[3].dim[0] == q->dim[0] &&
                      lvn_desc_contiguous(&s->in[3]),
                  SHAPE, "attention: lengths are %s %s, wanted int32 (%lld)", lvn_dtype_name(s->in[3].dtype),
                  lvn_shape_text(&s->in[3], a), (long long)q->dim[0]);
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

static void forward(const struct lvn_call *c)
{
    const struct attention_sizes s = attention_sizes(c);
    const struct attention_dropout d = attention_dropout(c);
    const real scale = (real)c->attr->attention.scale;
    real *p = c->scratch; /* (Tk) scores, then probabilities of one query */

    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.Hq; h++)
            for (int64_t t = 0; t < s.Tq; t++) {
                const real *q = row(&c->in[0], b, t, h);
                const int64_t n = attention_visible(&s, b, t), hk = h / s.group;
                const uint64_t dropout_row = attention_dropout_row(&s, c->step, b, h, t);
                real *out = out_row(&c->out[0], b, t, h * s.D), top = -INFINITY, sum = 0;
                for (int64_t j = 0; j < n; j++) {
                    p[j] = scale * dot(q, row(&c->in[1], b, j, hk), s.D);
                    if (p[j] > top) top = p[j];
                }
                for (int64_t j = 0; j < n; j++) sum += p[j] = exp(p[j] - top);
                for (int64_t i = 0; i < s.D; i++) out[i] = 0;
                for (int64_t j = 0; j < n; j++) {
                    const real *v = row(&c->in[2], b, j, hk), w = p[j] / sum * factor(&d, dropout_row, j);
                    for (int64_t i = 0; i < s.D; i++) out[i] += w * v[i];
                }
                ((real *)c->out[1].p)[(b * s.Hq + h) * s.Tq + t] = n ? top + log(sum) : 0;
            }
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
    const int64_t n = attention_visible(s, b, t), hk = h / s->group;
    const uint64_t dropout_row = attention_dropout_row(s, c->step, b, h, t);

    for (int64_t j = 0; j < n; j++) {
        const real *k = row(&c->in[1], b, j, hk), *v = row(&c->in[2], b, j, hk);
        const real p = exp(scale * dot(q, k, s->D) - logsumexp), z = factor(d, dropout_row, j);
        const real ds = scale * p * (z * dot(dout, v, s->D) - delta);
        real *dq = c->din[0].p ? row(&c->din[0], b, t, h) : NULL;
        real *dk = c->din[1].p ? row(&c->din[1], b, j, hk) : NULL;
        real *dv = c->din[2].p ? row(&c->din[2], b, j, hk) : NULL;
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

/* Two products forward (scores, output), four backward. Pairs that the mask hides by shape alone are not counted, nor
 * is the recomputation of the scores in backward. */
static double flops(const struct lvn_call *c)
{
    struct attention_sizes s = attention_sizes(c);
    s.lengths = NULL;
    double pairs = 0;
    for (int64_t t = 0; t < s.Tq; t++) pairs += (double)attention_visible(&s, 0, t);
    return (c->phase == LVN_BACKWARD ? 4.0 : 2.0) * 2.0 * (double)(s.B * s.Hq * s.D) * pairs;
}

#ifndef LVN_REAL_DOUBLE
struct lvn_tensor *lvn_attention(struct lvn_graph *g, struct lvn_tensor *q, struct lvn_tensor *k, struct lvn_tensor *v,
                                 struct lvn_tensor *lengths, bool causal, double scale, double p)
{
    bool cached = k && k->kind == LVN_TENSOR_OUTPUT && k->node->op == LVN_OP_kv_cache;
    union lvn_attr attr = {.attention = {.causal = causal, .scale = scale, .p = p, .cached = cached}};
    return lvn_node_append(g, LVN_OP_attention, &attr, (struct lvn_tensor *[]){q, k, v, lengths}, 4);
}
#endif

LVN_OPERATION(attention, shape, forward, backward, .n_in = 4, .n_in_min = 3, .n_out = 1, .n_saved = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_IN(2) | LVN_READS_IN(3) | LVN_READS_OUT(0) |
                       LVN_READS_OUT(1),
              .low_precision_ok = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_IN(2) | LVN_READS_OUT(0),
              .flops = flops, .spec.scratch = scratch);

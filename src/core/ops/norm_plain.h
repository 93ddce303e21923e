/* norm_plain.h - shape rule and plain kernels of the normalizations of norm.h.
 *
 *     dx = ds + rstd * (g - mean(g) - xhat * mean(g * xhat)),  g = dy * (gamma + offset),  xhat = (x - mean) * rstd
 *
 * ds is the gradient of out[0] after a residual connection, where either of ds and dy may be absent; then da = dx and
 * db = mask * dx. RMS normalization has no mean(g). y can be restored from x and the saved values, with the same bits.
 * (Ba, Kiros, Hinton: "Layer normalization", 2016, with the biased variance in two passes; Zhang, Sennrich: "Root mean
 * square layer normalization", 2019.) */
#ifndef LVN_NORM_PLAIN_H
#define LVN_NORM_PLAIN_H

#include "ops/dropout.h"
#include "ops/norm.h"
#include "ops/real.h"
#include "ops/shape.h"

static inline enum lvn_status lvn_norm_shape(struct lvn_shapes *s, struct lvn_norm n)
{
    LVN_TRY(n.residual ? lvn_shape_pair(s) : lvn_shape_reals(s, "input", 0, 1));
    LVN_TRY(lvn_shape_dropout(s, n.p));
    const int64_t C = s->in[0].dim[s->in[0].rank - 1];
    if (s->has[n.gamma]) LVN_TRY(lvn_shape_vector(s, "gamma", n.gamma, C));
    if (n.has_beta && s->has[n.beta]) LVN_TRY(lvn_shape_vector(s, "beta", n.beta, C));
    LVN_CHECK(n.eps > 0, ARG, "%s: eps is %g; it must be above 0", s->op, n.eps);
    LVN_CHECK(isfinite(n.offset), ARG, "%s: offset is %g; it must be finite", s->op, n.offset);
    s->out[0] = s->out[n.y] = lvn_desc_make(s->real, s->in[0].rank, s->in[0].dim);
    s->out[n.mean] = s->out[n.rstd] = LVN_DESC(s->real, lvn_desc_rows(&s->in[0]));
    return LVN_OK;
}

/* The operands of a call. */
struct lvn_norm_call {
    int64_t R, C;
    const real *x;           /* (R,C) */
    const real *weight;      /* gamma (C); NULL: 1 */
    const real *beta;        /* (C); NULL: 0 */
    real *mean, *rstd;       /* (R); mean NULL: 0 */
    const real *dy;          /* (R,C); NULL: 0 */
    struct lvn_dropout drop; /* of a residual connection */
};

static inline struct lvn_norm_call lvn_norm_call(const struct lvn_call *call, struct lvn_norm n)
{
    const struct lvn_arg *x = n.residual ? &call->out[0] : &call->in[0];
    return (struct lvn_norm_call){
        .R = lvn_desc_rows(x->desc),
        .C = x->desc->dim[x->desc->rank - 1],
        .x = x->p,
        .weight = call->in[n.gamma].p,
        .beta = n.has_beta ? call->in[n.beta].p : NULL,
        .mean = n.has_mean ? call->out[n.mean].p : NULL,
        .rstd = call->out[n.rstd].p,
        .dy = call->dout[n.y].p,
        .drop = n.residual ? lvn_dropout_make(call, x->desc, n.p) : (struct lvn_dropout){.scale = 1},
    };
}

static inline double lvn_norm_weight(const struct lvn_norm_call *o, struct lvn_norm n, int64_t c)
{
    return o->weight ? o->weight[c] + n.offset : 1;
}

static inline void lvn_norm_restore(const struct lvn_call *call, struct lvn_norm n)
{
    const struct lvn_norm_call o = lvn_norm_call(call, n);
    real *y = call->out[n.y].p;
    for (int64_t r = 0, i = 0; r < o.R; r++)
        for (int64_t c = 0; c < o.C; c++, i++)
            y[i] = (o.x[i] - (o.mean ? o.mean[r] : 0)) * o.rstd[r] * (real)lvn_norm_weight(&o, n, c) +
                   (o.beta ? o.beta[c] : 0);
}

static inline void lvn_norm_forward(const struct lvn_call *call, struct lvn_norm n)
{
    const struct lvn_norm_call o = lvn_norm_call(call, n);
    const real *a = call->in[0].p, *b = call->in[1].p;
    real *sum_out = call->out[0].p;
    for (int64_t r = 0; r < o.R; r++) {
        const real *x = o.x + r * o.C;
        for (int64_t c = 0, i = r * o.C; n.residual && c < o.C; c++, i++)
            sum_out[i] = (real)(a[i] + b[i] * lvn_dropout_factor(&o.drop, r, c));
        double sum = 0, squares = 0;
        for (int64_t c = 0; o.mean && c < o.C; c++) sum += x[c];
        const double mean = sum / (double)o.C;
        for (int64_t c = 0; c < o.C; c++) squares += (x[c] - mean) * (x[c] - mean);
        if (o.mean) o.mean[r] = (real)mean;
        o.rstd[r] = (real)(1 / sqrt(squares / (double)o.C + n.eps));
    }
    lvn_norm_restore(call, n);
}

/* dgamma (C) and dbeta (C), sums over the rows in order. */
static inline void lvn_norm_weight_gradients(const struct lvn_call *call, const struct lvn_norm_call *o,
                                             struct lvn_norm n)
{
    real *dgamma = call->din[n.gamma].p, *dbeta = n.has_beta ? call->din[n.beta].p : NULL;
    for (int64_t c = 0; (dgamma || dbeta) && c < o->C; c++) {
        double g = 0, b = 0;
        for (int64_t r = 0, i = c; o->dy && r < o->R; r++, i += o->C) {
            g += o->dy[i] * (((double)o->x[i] - (o->mean ? o->mean[r] : 0)) * o->rstd[r]);
            b += o->dy[i];
        }
        if (dgamma) lvn_put(&dgamma[c], call->add[n.gamma], g);
        if (dbeta) lvn_put(&dbeta[c], call->add[n.beta], b);
    }
}

static inline void lvn_norm_backward(const struct lvn_call *call, struct lvn_norm n)
{
    const struct lvn_norm_call o = lvn_norm_call(call, n);
    const real *ds = n.residual ? call->dout[0].p : NULL;
    real *da = call->din[0].p, *db = n.residual ? call->din[1].p : NULL;
    lvn_norm_weight_gradients(call, &o, n);
    for (int64_t r = 0; (da || db) && r < o.R; r++) {
        const real *x = o.x + r * o.C, *dy = o.dy ? o.dy + r * o.C : NULL;
        const double mean = o.mean ? o.mean[r] : 0, rstd = o.rstd[r];
        double g = 0, gx = 0; /* means of g and of g * xhat */
        for (int64_t c = 0; dy && c < o.C; c++) {
            if (o.mean) g += dy[c] * lvn_norm_weight(&o, n, c);
            gx += dy[c] * lvn_norm_weight(&o, n, c) * ((x[c] - mean) * rstd);
        }
        g /= (double)o.C, gx /= (double)o.C;
        for (int64_t c = 0, i = r * o.C; c < o.C; c++, i++) {
            double dx = ds ? ds[i] : 0;
            if (dy) dx += rstd * (dy[c] * lvn_norm_weight(&o, n, c) - g - (x[c] - mean) * rstd * gx);
            if (da) lvn_put(&da[i], call->add[0], dx);
            if (db) lvn_put(&db[i], call->add[1], dx * lvn_dropout_factor(&o.drop, r, c));
        }
    }
}

/* The shape rule and the plain kernels of an operation of norm.h. */
#define LVN_NORM_RULES(id)                                                                                             \
    static struct lvn_norm norm_of(const union lvn_attr *attr)                                                         \
    {                                                                                                                  \
        return lvn_norm_of(LVN_OP_##id, attr);                                                                         \
    }                                                                                                                  \
    static enum lvn_status shape(struct lvn_shapes *s)                                                                 \
    {                                                                                                                  \
        return lvn_norm_shape(s, norm_of(s->attr));                                                                    \
    }                                                                                                                  \
    static void forward(const struct lvn_call *call)                                                                   \
    {                                                                                                                  \
        lvn_norm_forward(call, norm_of(call->attr));                                                                   \
    }                                                                                                                  \
    static void restore(const struct lvn_call *call)                                                                   \
    {                                                                                                                  \
        lvn_norm_restore(call, norm_of(call->attr));                                                                   \
    }                                                                                                                  \
    static void backward(const struct lvn_call *call)                                                                  \
    {                                                                                                                  \
        lvn_norm_backward(call, norm_of(call->attr));                                                                  \
    }

/* Of an operation after a residual connection: without dropout da and db are equal, and the differentiate pass
 * requests only da if possible. */
#define LVN_NORM_SAME_GRADIENT                                                                                         \
    static bool same_gradient(const union lvn_attr *attr)                                                              \
    {                                                                                                                  \
        return lvn_dropout_threshold(norm_of(attr).p) == 0;                                                            \
    }

#endif

/* layernorm.cpu.c - the normalizations of norm.h on CPUs, four rows at a time; see norm_cpu.h.
 *
 * After a residual connection forward computes both results while the rows are in the cache, backward all gradients
 * from one pass over s, dy and ds. Backward recomputes the mask, which is not stored. */
#include "backend/cpu/cpu_kernels.h"
#include "ops/norm_cpu.h"

/* The operands of a call. */
struct operands {
    int64_t R, C;
    const float *x; /* (R,C) */
    struct norm_weights w;
    const float *beta;  /* (C); NULL: none */
    float *mean, *rstd; /* (R); mean NULL: RMS normalization */
};

static struct operands operands(const struct lvn_call *call, struct lvn_norm norm)
{
    const struct lvn_arg *x = norm.residual ? &call->out[0] : &call->in[0];
    struct operands o = {
        .R = lvn_desc_rows(x->desc),
        .C = x->desc->dim[x->desc->rank - 1],
        .x = x->p,
        .w = {call->in[norm.gamma].p, 1, (float)norm.offset},
        .beta = norm.has_beta ? call->in[norm.beta].p : NULL,
        .mean = norm.has_mean ? call->out[norm.mean].p : NULL,
        .rstd = call->out[norm.rstd].p,
    };
    if (!o.w.gamma) o.w = (struct norm_weights){norm_ones, 0, 0};
    return o;
}

/* s = a + dropout(b) for n elements of one row, n <= 64. */
LVN_INLINE void add_masked(const float *a, const void *b, const bool bf16, float *s, int64_t n, bool dropout,
                           uint64_t bits, float scale)
{
    int64_t c = 0;
    for (; c + LVN_LANES <= n; c += LVN_LANES, bits >>= LVN_LANES) {
        vf t = vread(b, c, bf16);
        if (dropout) t = vkeep(t * scale, bits);
        vstore(s + c, vload(a + c) + t);
    }
    if (c < n) {
        vf t = vread_n(b, c, n - c, bf16);
        if (dropout) t = vkeep(t * scale, bits);
        vstore_n(s + c, vload_n(a + c, n - c) + t, n - c);
    }
}

LVN_INLINE void add_row_as(const struct dropout *d, const float *a, const void *b, const bool bf16, float *s,
                           int64_t row, int64_t C)
{
    a += row * C, s += row * C;
    for (int64_t c = 0; c < C; c += 64) {
        int64_t n = C - c < 64 ? C - c : 64;
        const void *from_b = vat(b, row * C + c, bf16);
        if (!d->on) {
            add_masked(a + c, from_b, bf16, s + c, n, false, 0, 1);
        } else if (n == 64) {
            add_masked(a + c, from_b, bf16, s + c, 64, true, dropout_keep(d, row, c), d->v.scale);
        } else {
            add_masked(a + c, from_b, bf16, s + c, n, true, dropout_keep(d, row, c), d->v.scale);
        }
    }
}

static void add_row(const struct dropout *d, const float *a, const struct lvn_arg *b, float *s, int64_t row, int64_t C)
{
    if (b->desc->dtype == LVN_BF16)
        add_row_as(d, a, b->p, true, s, row, C);
    else
        add_row_as(d, a, b->p, false, s, row, C);
}

LVN_INLINE void norm_rows(const struct lvn_call *call, const struct operands *o, const struct lvn_norm *norm, int k,
                          int64_t r)
{
    if (o->mean) norm_means(k, o->x + r * o->C, o->C, o->mean + r);
    norm_scales(k, o->x + r * o->C, o->C, norm->eps, o->mean ? o->mean + r : NULL, o->rstd + r);
    norm_results(k, r, o->x, o->mean, o->rstd, &o->w, o->beta, o->C, &call->out[norm->y]);
}

void LVN_ISA_NAME(lvn_norm_forward)(const struct lvn_call *call, struct lvn_norm norm, int thread, int n_threads)
{
    const struct operands o = operands(call, norm);
    struct dropout d = {0};
    int64_t r, end;
    if (norm.residual) d = dropout_make(call, call->out[0].desc, norm.p);
    lvn_thread_range(o.R, ROWS, thread, n_threads, &r, &end);
    for (; r < end; r += ROWS) {
        int k = end - r < ROWS ? (int)(end - r) : ROWS;
        for (int j = 0; norm.residual && j < k; j++)
            add_row(&d, call->in[0].p, &call->in[1], call->out[0].p, r + j, o.C);
        if (k == ROWS) {
            norm_rows(call, &o, &norm, ROWS, r);
        } else {
            for (int64_t i = r; i < end; i++) norm_rows(call, &o, &norm, 1, i);
        }
    }
}

void LVN_ISA_NAME(lvn_norm_restore)(const struct lvn_call *call, struct lvn_norm norm, int thread, int n_threads)
{
    const struct operands o = operands(call, norm);
    int64_t r, end;
    lvn_thread_range(o.R, ROWS, thread, n_threads, &r, &end);
    for (; r < end; r++) norm_results(1, r, o.x, o.mean, o.rstd, &o.w, o.beta, o.C, &call->out[norm.y]);
}

/* Without a gradient of y, the result is the gradient of s. */
static void backward_sum_only(const struct norm_backward *o, bool bf16, int thread, int n_threads)
{
    int64_t C = o->C, r, end;
    lvn_thread_range(o->R, 1, thread, n_threads, &r, &end);
    for (; r < end; r++) {
        for (int64_t c = 0; c < C; c += LVN_LANES) {
            int64_t n = C - c < LVN_LANES ? C - c : LVN_LANES, i = r * C + c;
            vf d = o->ds ? vload_n(o->ds + i, n) : vset(0);
            if (o->da) vstore_n(o->da + i, o->add_a ? vload_n(o->da + i, n) + d : d, n);
            if (o->dropout->on) d = vkeep(d * o->dropout->v.scale, dropout_keep(o->dropout, r, c / 64 * 64) >> c % 64);
            if (o->db) vwrite_n(o->db, i, o->add_b ? vread_n(o->db, i, n, bf16) + d : d, n, bf16);
        }
    }
}

/* Backward of a norm after a residual connection. The combination of options that training uses is compiled separately
 * (`common`). */
static void backward_residual(const struct lvn_call *call, const struct norm_backward *o, int thread, int n_threads)
{
    struct norm_kind kind = {.ds = o->ds, .da = o->da, .db = o->db, .dropout = o->dropout->on, .vectors = o->sums};
    kind.add = (o->da && o->add_a) || (o->db && o->add_b);
    kind.dy_bf16 = o->dy && call->dout[1].desc->dtype == LVN_BF16;
    kind.db_bf16 = o->db && call->din[1].desc->dtype == LVN_BF16;
    bool common = kind.ds && kind.da && kind.db && kind.vectors && !kind.add && kind.dy_bf16 == kind.db_bf16;
    if (!o->dy) {
        backward_sum_only(o, kind.db_bf16, thread, n_threads);
    } else if (common && kind.dy_bf16) {
        kind = (struct norm_kind){.ds = true,
                                  .da = true,
                                  .db = true,
                                  .dropout = o->dropout->on,
                                  .vectors = true,
                                  .dy_bf16 = true,
                                  .db_bf16 = true};
        norm_backward_chunks(o, kind, thread, n_threads);
    } else if (common) {
        kind = (struct norm_kind){.ds = true, .da = true, .db = true, .dropout = o->dropout->on, .vectors = true};
        norm_backward_chunks(o, kind, thread, n_threads);
    } else {
        norm_backward_chunks(o, kind, thread, n_threads);
    }
}

void LVN_ISA_NAME(lvn_norm_backward)(const struct lvn_call *call, struct lvn_norm norm, int thread, int n_threads)
{
    const struct operands p = operands(call, norm);
    const struct lvn_arg *dy = &call->dout[norm.y];
    float *dgamma = call->din[norm.gamma].p, *dbeta = norm.has_beta ? call->din[norm.beta].p : NULL;
    struct dropout dropout = {0};
    struct norm_backward o = {
        .x = p.x,
        .dy = dy->p,
        .mean = p.mean,
        .rstd = p.rstd,
        .w = p.w,
        .da = call->din[0].p,
        .add_a = call->add[0],
        .R = p.R,
        .C = p.C,
        .sums = dy->p && (dgamma || dbeta) ? call->scratch : NULL,
    };
    if (norm.residual) {
        dropout = dropout_make(call, call->out[0].desc, norm.p);
        o.ds = call->dout[0].p, o.db = call->din[1].p, o.add_b = call->add[1], o.dropout = &dropout;
        backward_residual(call, &o, thread, n_threads);
    } else {
        norm_backward_plain(&o, dy->desc->dtype == LVN_BF16, thread, n_threads);
    }
    if (dgamma || dbeta)
        norm_backward_vectors(o.sums, o.R, o.C, dgamma, call->add[norm.gamma], dbeta,
                              norm.has_beta && call->add[norm.beta], thread, n_threads);
}

int64_t LVN_ISA_NAME(lvn_norm_scratch)(const struct lvn_call *call, struct lvn_norm norm)
{
    const struct lvn_desc *x = norm.residual ? call->out[0].desc : call->in[0].desc;
    return call->phase == LVN_BACKWARD ? norm_scratch(lvn_desc_rows(x), x->dim[x->rank - 1]) : 0;
}

NORM_CPU_OPERATION(layernorm);

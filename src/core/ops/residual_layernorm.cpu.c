/* residual_layernorm.cpu.c - residual_layernorm on CPUs: s = a + dropout(b), y = layernorm(s); the code also serves
 * residual_rmsnorm.cpu.c (residual_norm_cpu.h).
 *
 * Forward computes both results while the rows are in the cache, backward all gradients from one pass over s, dy and
 * ds. Backward recomputes the mask, which is not stored. */
#include "ops/residual_norm_cpu.h"

#include "backend/cpu/cpu_kernels.h"

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

LVN_INLINE void residual_norm_rows(const struct lvn_call *call, const struct residual_norm *o, int k, int64_t r)
{
    const int64_t C = residual_columns(call);
    const float *s = call->out[0].p;
    if (o->mean) norm_means(k, s + r * C, C, o->mean + r);
    norm_scales(k, s + r * C, C, o->eps, o->mean ? o->mean + r : NULL, o->rstd + r);
    norm_results(k, r, s, o->mean, o->rstd, &o->w, o->beta, C, &call->out[1]);
}

void LVN_ISA_NAME(lvn_residual_norm_forward)(const struct lvn_call *call, const struct residual_norm *o, int thread,
                                             int n_threads)
{
    const int64_t C = residual_columns(call);
    const struct dropout d = dropout_make(call, call->out[0].desc, o->p);
    int64_t r, end;
    lvn_thread_range(lvn_desc_rows(call->out[0].desc), ROWS, thread, n_threads, &r, &end);
    for (; r < end; r += ROWS) {
        int k = end - r < ROWS ? (int)(end - r) : ROWS;
        for (int j = 0; j < k; j++) add_row(&d, call->in[0].p, &call->in[1], call->out[0].p, r + j, C);
        if (k == ROWS) {
            residual_norm_rows(call, o, ROWS, r);
        } else {
            for (int64_t i = r; i < end; i++) residual_norm_rows(call, o, 1, i);
        }
    }
}

void LVN_ISA_NAME(lvn_residual_norm_restore)(const struct lvn_call *call, const struct residual_norm *o, int thread,
                                             int n_threads)
{
    int64_t r, end;
    lvn_thread_range(lvn_desc_rows(call->out[1].desc), ROWS, thread, n_threads, &r, &end);
    for (; r < end; r++)
        norm_results(1, r, call->out[0].p, o->mean, o->rstd, &o->w, o->beta, residual_columns(call), &call->out[1]);
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

void LVN_ISA_NAME(lvn_residual_norm_backward)(const struct lvn_call *call, const struct residual_norm *norm, int thread,
                                              int n_threads)
{
    enum { GAMMA = 2, BETA = 3 };
    const struct dropout dropout = dropout_make(call, call->out[0].desc, norm->p);
    const struct norm_backward o = {
        .x = call->out[0].p,
        .dy = call->dout[1].p,
        .ds = call->dout[0].p,
        .mean = norm->mean,
        .rstd = norm->rstd,
        .w = norm->w,
        .da = call->din[0].p,
        .db = call->din[1].p,
        .add_a = call->add[0],
        .add_b = call->add[1],
        .dropout = &dropout,
        .R = lvn_desc_rows(call->out[0].desc),
        .C = residual_columns(call),
        .sums = call->dout[1].p && (call->din[GAMMA].p || call->din[BETA].p) ? call->scratch : NULL,
    };
    struct norm_kind kind = {.ds = o.ds, .da = o.da, .db = o.db, .dropout = dropout.on, .vectors = o.sums};
    kind.add = (o.da && o.add_a) || (o.db && o.add_b);
    kind.dy_bf16 = o.dy && call->dout[1].desc->dtype == LVN_BF16;
    kind.db_bf16 = o.db && call->din[1].desc->dtype == LVN_BF16;
    bool common = kind.ds && kind.da && kind.db && kind.vectors && !kind.add && kind.dy_bf16 == kind.db_bf16;
    if (!o.dy) {
        backward_sum_only(&o, kind.db_bf16, thread, n_threads);
    } else if (common && kind.dy_bf16) {
        kind = (struct norm_kind){.ds = true,
                                  .da = true,
                                  .db = true,
                                  .dropout = dropout.on,
                                  .vectors = true,
                                  .dy_bf16 = true,
                                  .db_bf16 = true};
        norm_backward_chunks(&o, kind, thread, n_threads);
    } else if (common) {
        kind = (struct norm_kind){.ds = true, .da = true, .db = true, .dropout = dropout.on, .vectors = true};
        norm_backward_chunks(&o, kind, thread, n_threads);
    } else {
        norm_backward_chunks(&o, kind, thread, n_threads);
    }
    if (call->din[GAMMA].p || call->din[BETA].p)
        norm_backward_vectors(o.sums, o.R, o.C, call->din[GAMMA].p, call->add[GAMMA], call->din[BETA].p,
                              call->add[BETA], thread, n_threads);
}

static struct residual_norm norm_of(const struct lvn_call *call)
{
    return (struct residual_norm){.eps = call->attr->residual_layernorm.eps,
                                  .p = call->attr->residual_layernorm.p,
                                  .w = {call->in[2].p, 1, 0},
                                  .beta = call->in[3].p,
                                  .mean = call->out[2].p,
                                  .rstd = call->out[3].p};
}

RESIDUAL_NORM_CPU_OPERATION(residual_layernorm);

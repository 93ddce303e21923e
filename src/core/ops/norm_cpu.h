/* norm_cpu.h - layer and RMS normalization of rows on CPUs, for the four operations of norm.h, whose code is in
 * layernorm.cpu.c. A NULL `mean` stands for 0 and gives RMS normalization.
 *
 * Four rows are processed at a time, so that their sums do not wait for each other. Forward reads them three times, for
 * mean, variance and result; they stay in the L1 cache. Backward reads them twice: for the two means that a row's
 * gradient requires, and for the gradient itself. The second pass also adds the four rows to dgamma and dbeta, with one
 * load and store of these for all four.
 *
 * dgamma and dbeta are sums over all rows. The rows are divided into chunks that depend only on their number; each
 * chunk has its own sums in scratch, made of blocks of rows, which are added in order after a barrier. So bits do not
 * depend on the number of threads, and no fp32 sum is long. */
#ifndef LVN_NORM_CPU_H
#define LVN_NORM_CPU_H

#include "backend/cpu/simd.h"
#include "backend/cpu/simd_bf16.h"
#include "base/threads.h"
#include "ops/dropout_cpu.h"
#include "ops/norm.h"

/* Rows that are processed at a time. Backward has two sums per row; on AVX2 those of four rows would exceed the
 * registers. Bits do not depend on it. */
#if defined(__AVX2__) && !defined(__AVX512F__)
enum { ROWS = 4, ROWS_BACK = 2 };
#else
enum { ROWS = 4, ROWS_BACK = 4 };
#endif

/* Load or store n elements; unmasked if the compiler knows that n = 16. */
LVN_INLINE vf get(const float *p, int64_t n)
{
    return n == LVN_LANES ? vload(p) : vload_n(p, n);
}

LVN_INLINE void put(float *p, vf v, int64_t n)
{
    if (n == LVN_LANES) {
        vstore(p, v);
    } else {
        vstore_n(p, v, n);
    }
}

/* The same for elements i.. of fp32 or bf16. */
LVN_INLINE vf get_as(const void *p, int64_t i, int64_t n, const bool bf16)
{
    return n == LVN_LANES ? vread(p, i, bf16) : vread_n(p, i, n, bf16);
}

LVN_INLINE void put_as(void *p, int64_t i, vf v, int64_t n, const bool bf16)
{
    if (n == LVN_LANES) {
        vwrite(p, i, v, bf16);
    } else {
        vwrite_n(p, i, v, n, bf16);
    }
}

/* --- forward --- */

/* The means of k rows of C. */
LVN_INLINE void norm_means(int k, const float *x, int64_t C, float *mean)
{
    struct vacc sum[ROWS];
    int64_t c = 0, rest = C % LVN_LANES;
    for (int j = 0; j < k; j++) sum[j] = vacc_set(vset(0));
    for (; c + LVN_LANES <= C; c += LVN_LANES)
        for (int j = 0; j < k; j++) sum[j] = vacc_add(sum[j], vload(x + j * C + c));
    for (int j = 0; j < k; j++) {
        if (rest) sum[j] = vacc_add(sum[j], vload_n(x + j * C + c, rest));
        mean[j] = vsum(vacc_get(sum[j])) / (float)C;
    }
}

/* 1 / sqrt(variance around mean + eps) of k rows of C. */
LVN_INLINE void norm_scales(int k, const float *x, int64_t C, double eps, const float *mean, float *rstd)
{
    struct vacc sum[ROWS];
    int64_t c = 0, rest = C % LVN_LANES;
    for (int j = 0; j < k; j++) sum[j] = vacc_set(vset(0));
    for (; c + LVN_LANES <= C; c += LVN_LANES) {
        for (int j = 0; j < k; j++) {
            vf d = vload(x + j * C + c) - (mean ? mean[j] : 0);
            sum[j] = vacc_fma(sum[j], d, d);
        }
    }
    for (int j = 0; j < k; j++) {
        if (rest) {
            vf d = vload_n(x + j * C + c, rest) - (mean ? mean[j] : 0);
            d = (vf)((vi)d & vgreater_int((vi){0} + (int32_t)rest, viota()));
            sum[j] = vacc_fma(sum[j], d, d);
        }
        rstd[j] = (float)(1 / sqrt(vsum(vacc_get(sum[j])) / (float)C + eps));
    }
}

/* mean and 1 / sqrt(variance + eps) of k rows of C. */
LVN_INLINE void norm_moments(int k, const float *x, int64_t C, double eps, float *mean, float *rstd)
{
    norm_means(k, x, C, mean);
    norm_scales(k, x, C, eps, mean, rstd);
}

/* The factors of columns: elements of gamma + offset, or of gamma if offset is 0. */
struct norm_weights {
    const float *gamma; /* (C); without one, norm_ones */
    int64_t step;       /* 1; 0 for norm_ones, of which every vector of columns reads the same */
    float offset;
};
static const float norm_ones[LVN_LANES] __attribute__((unused)) = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* The factors of columns [c, c + n). */
LVN_INLINE vf get_weights(const struct norm_weights *w, int64_t c, int64_t n)
{
    const vf gamma = get(w->gamma + c * w->step, n);
    return w->offset != 0 ? gamma + w->offset : gamma;
}

/* y = (x - mean) * rstd * (gamma + offset) + beta for k rows from `row` on; forward and restore. y may be bf16. */
LVN_INLINE void norm_results_as(int k, int64_t row, const float *x, const float *mean, const float *rstd,
                                const struct norm_weights *w, const float *beta, int64_t C, void *y, const bool bf16)
{
    int64_t c = 0, rest = C % LVN_LANES, to = row * C;
    float m[ROWS];
    x += to, rstd += row;
    for (int j = 0; j < k; j++) m[j] = mean ? mean[row + j] : 0;
    for (; beta && c + LVN_LANES <= C; c += LVN_LANES) {
        vf g = get_weights(w, c, LVN_LANES), b = vload(beta + c);
        for (int j = 0; j < k; j++)
            vwrite(y, to + j * C + c, vfma((vload(x + j * C + c) - m[j]) * rstd[j], g, b), bf16);
    }
    for (; c + LVN_LANES <= C; c += LVN_LANES) {
        vf g = get_weights(w, c, LVN_LANES);
        for (int j = 0; j < k; j++) vwrite(y, to + j * C + c, (vload(x + j * C + c) - m[j]) * rstd[j] * g, bf16);
    }
    if (!rest) return;
    vf g = get_weights(w, c, rest), b = vset(0);
    if (beta) b = vload_n(beta + c, rest);
    for (int j = 0; j < k; j++)
        vwrite_n(y, to + j * C + c, vfma((vload_n(x + j * C + c, rest) - m[j]) * rstd[j], g, b), rest, bf16);
}

LVN_INLINE void norm_results(int k, int64_t row, const float *x, const float *mean, const float *rstd,
                             const struct norm_weights *w, const float *beta, int64_t C, const struct lvn_arg *y)
{
    if (y->desc->dtype == LVN_BF16)
        norm_results_as(k, row, x, mean, rstd, w, beta, C, y->p, true);
    else
        norm_results_as(k, row, x, mean, rstd, w, beta, C, y->p, false);
}

/* --- backward --- */

struct norm_backward {
    const float *x;    /* (R,C) */
    const void *dy;    /* (R,C), fp32 or bf16 */
    const float *ds;   /* (R,C), a gradient that is added to the result; NULL: none */
    const float *mean; /* (R); NULL: 0 */
    const float *rstd; /* (R) */
    struct norm_weights w;
    float *da;  /* (R,C): the result; NULL: not needed */
    void *db;   /* (R,C), fp32 or bf16: the result times the dropout mask; NULL: not needed */
    bool add_a; /* da += */
    bool add_b; /* db += */
    const struct dropout *dropout;
    int64_t R;
    int64_t C;
    float *sums; /* (chunks,norm_sums()): of dgamma, dbeta; NULL: not needed */
};

/* Compile-time constants; the loops are compiled for each combination. */
struct norm_kind {
    bool ds;      /* is present */
    bool da;      /* is needed */
    bool db;      /* is needed */
    bool add;     /* use add_a and add_b; false: both are false */
    bool dropout; /* is on */
    bool vectors; /* dgamma and dbeta are needed */
    bool dy_bf16; /* dy is bf16 */
    bool db_bf16; /* db is bf16 */
};

/* Factors of a row's gradient, with g = dy * gamma. */
struct norm_row {
    float mean;
    float rstd;
    float g;  /* mean of g */
    float gx; /* mean of g * xhat */
};

LVN_INLINE void norm_row_factors(const struct norm_backward *o, const bool bf16, int k, int64_t row, struct norm_row *f)
{
    struct vacc g[ROWS], gx[ROWS];
    const float *x = o->x + row * o->C;
    const void *dy = vat(o->dy, row * o->C, bf16);
    int64_t C = o->C, c = 0, rest = C % LVN_LANES;
    for (int j = 0; j < k; j++) {
        f[j].mean = o->mean ? o->mean[row + j] : 0, f[j].rstd = o->rstd[row + j];
        g[j] = gx[j] = vacc_set(vset(0));
    }
    for (; c + LVN_LANES <= C; c += LVN_LANES) {
        vf gamma = get_weights(&o->w, c, LVN_LANES);
        for (int j = 0; j < k; j++) {
            vf t = vread(dy, j * C + c, bf16) * gamma;
            g[j] = vacc_add(g[j], t);
            gx[j] = vacc_fma(gx[j], t, vload(x + j * C + c) - f[j].mean);
        }
    }
    for (int j = 0; j < k; j++) {
        if (rest) {
            vf t = vread_n(dy, j * C + c, rest, bf16) * get_weights(&o->w, c, rest);
            g[j] = vacc_add(g[j], t);
            gx[j] = vacc_fma(gx[j], t, vload_n(x + j * C + c, rest) - f[j].mean);
        }
        f[j].g = o->mean ? vsum(vacc_get(g[j])) / (float)C : 0;
        f[j].gx = vsum(vacc_get(gx[j])) * f[j].rstd / (float)C;
    }
}

/* Columns [c, c + n) of k rows. bits: the dropout mask of these columns, a bit set for elements that are not dropped.
 */
LVN_INLINE void norm_columns(const struct norm_backward *o, struct norm_kind kind, int k, int64_t row,
                             const struct norm_row *f, int64_t c, int64_t n, const uint64_t *bits, float *dgamma,
                             float *dbeta)
{
    vf gamma = get_weights(&o->w, c, n), sum_g = vset(0), sum_b = vset(0);
    if (kind.vectors) sum_g = vload(dgamma + c), sum_b = vload(dbeta + c);
    for (int j = 0; j < k; j++) {
        int64_t i = (row + j) * o->C + c;
        vf dy = get_as(o->dy, i, n, kind.dy_bf16), xhat = (get(o->x + i, n) - f[j].mean) * f[j].rstd;
        if (kind.vectors) {
            sum_g = vfma(dy, xhat, sum_g);
            sum_b += dy;
        }
        vf d = vfma(xhat, vset(-f[j].gx), dy * gamma - f[j].g) * f[j].rstd;
        if (kind.ds) d += get(o->ds + i, n);
        if (kind.da && kind.add && o->add_a) {
            put(o->da + i, get(o->da + i, n) + d, n);
        } else if (kind.da) {
            put(o->da + i, d, n);
        }
        if (kind.dropout) d = vkeep(d * o->dropout->v.scale, bits[j]);
        if (kind.db && kind.add && o->add_b) {
            put_as(o->db, i, get_as(o->db, i, n, kind.db_bf16) + d, n, kind.db_bf16);
        } else if (kind.db) {
            put_as(o->db, i, d, n, kind.db_bf16);
        }
    }
    if (kind.vectors) {
        vstore(dgamma + c, sum_g);
        vstore(dbeta + c, sum_b);
    }
}

LVN_INLINE void norm_backward_rows(const struct norm_backward *o, struct norm_kind kind, int k, int64_t row,
                                   float *dgamma, float *dbeta)
{
    struct norm_row f[ROWS];
    norm_row_factors(o, kind.dy_bf16, k, row, f);
    for (int64_t c = 0; c < o->C; c += 64) {
        uint64_t bits[ROWS] = {0};
        if (kind.dropout)
            for (int j = 0; j < k; j++) bits[j] = dropout_keep(o->dropout, row + j, c);
        int64_t i = c, end = o->C < c + 64 ? o->C : c + 64;
        for (; i + LVN_LANES <= end; i += LVN_LANES) {
            norm_columns(o, kind, k, row, f, i, LVN_LANES, bits, dgamma, dbeta);
            for (int j = 0; j < k; j++) bits[j] >>= LVN_LANES;
        }
        if (i < end) norm_columns(o, kind, k, row, f, i, end - i, bits, dgamma, dbeta);
    }
}

/* Rows of a chunk, which has its own sums of dgamma and dbeta; there are at most 128 chunks. */
LVN_INLINE int64_t norm_chunk(int64_t R)
{
    int64_t rows = (R + 127) / 128;
    return rows < 16 ? 16 : (rows + 3) / 4 * 4;
}

LVN_INLINE int64_t norm_padded(int64_t C)
{
    return (C + LVN_LANES - 1) / LVN_LANES * LVN_LANES;
}

/* Floats of a chunk's sums of dgamma and dbeta, and of those of the current block if the chunk has several. */
LVN_INLINE int64_t norm_sums(int64_t R, int64_t C)
{
    return (norm_chunk(R) > LVN_SUM_BLOCK ? 4 : 2) * norm_padded(C);
}

LVN_INLINE int64_t norm_scratch(int64_t R, int64_t C)
{
    int64_t rows = norm_chunk(R);
    return (R + rows - 1) / rows * norm_sums(R, C) * (int64_t)sizeof(float);
}

/* This thread's chunks. */
LVN_INLINE void norm_backward_chunks(const struct norm_backward *o, struct norm_kind kind, int thread, int n_threads)
{
    int64_t rows = norm_chunk(o->R), padded = norm_padded(o->C), chunk, end;
    lvn_thread_range((o->R + rows - 1) / rows, 1, thread, n_threads, &chunk, &end);
    for (; chunk < end; chunk++) {
        float *sums = kind.vectors ? o->sums + chunk * norm_sums(o->R, o->C) : NULL;
        int64_t row = chunk * rows, last = row + rows < o->R ? row + rows : o->R;
        for (int64_t first = row, block; row < last; row = block) {
            float *to = row == first || !sums ? sums : sums + 2 * padded, *dbeta = to ? to + padded : NULL;
            if (to) memset(to, 0, (size_t)(2 * padded) * sizeof *to);
            block = row + LVN_SUM_BLOCK < last ? row + LVN_SUM_BLOCK : last;
            for (; row + ROWS_BACK <= block; row += ROWS_BACK) norm_backward_rows(o, kind, ROWS_BACK, row, to, dbeta);
            for (; row < block; row++) norm_backward_rows(o, kind, 1, row, to, dbeta);
            for (int64_t c = 0; to != sums && c < 2 * padded; c += LVN_LANES)
                vstore(sums + c, vload(sums + c) + vload(to + c));
        }
    }
}

/* The same for an operation without residual connection; bf16: dy is bf16. */
LVN_INLINE void norm_backward_plain(const struct norm_backward *o, bool bf16, int thread, int n_threads)
{
    if (o->da && !o->add_a && o->sums) {
        const struct norm_kind common = {.da = true, .vectors = true, .dy_bf16 = bf16};
        norm_backward_chunks(o, common, thread, n_threads);
    } else {
        struct norm_kind kind = {.da = o->da, .add = true, .vectors = o->sums, .dy_bf16 = bf16};
        norm_backward_chunks(o, kind, thread, n_threads);
    }
}

/* Wait for all threads, then sum the chunks for this thread's columns. sums NULL: the gradients are zero. */
static inline void norm_backward_vectors(const float *sums, int64_t R, int64_t C, float *dgamma, bool add_gamma,
                                         float *dbeta, bool add_beta, int thread, int n_threads)
{
    int64_t rows = norm_chunk(R), padded = norm_padded(C), chunks = sums ? (R + rows - 1) / rows : 0, c, end;
    float *out[2] = {dgamma, dbeta};
    const bool add[2] = {add_gamma, add_beta};
    lvn_team_barrier();
    lvn_thread_range(C, LVN_LANES, thread, n_threads, &c, &end);
    for (; c < end; c += LVN_LANES) {
        int64_t n = end - c < LVN_LANES ? end - c : LVN_LANES;
        for (int v = 0; v < 2; v++) {
            if (!out[v]) continue;
            struct vtotal sum = {0};
            for (int64_t k = 0; k < chunks; k++) vtotal_add(&sum, vload(sums + k * norm_sums(R, C) + v * padded + c));
            if (add[v]) vtotal_add(&sum, vload_n(out[v] + c, n));
            vstore_n(out[v] + c, vtotal_get(&sum), n);
        }
    }
}

/* --- operations --- */

void LVN_ISA_NAME(lvn_norm_forward)(const struct lvn_call *call, struct lvn_norm norm, int thread, int n_threads);
void LVN_ISA_NAME(lvn_norm_restore)(const struct lvn_call *call, struct lvn_norm norm, int thread, int n_threads);
void LVN_ISA_NAME(lvn_norm_backward)(const struct lvn_call *call, struct lvn_norm norm, int thread, int n_threads);
int64_t LVN_ISA_NAME(lvn_norm_scratch)(const struct lvn_call *call, struct lvn_norm norm);

/* The kernels of an operation of norm.h. */
#define NORM_CPU_OPERATION(id)                                                                                         \
    static void forward(const struct lvn_call *call, int thread, int n_threads)                                        \
    {                                                                                                                  \
        LVN_ISA_NAME(lvn_norm_forward)(call, lvn_norm_of(LVN_OP_##id, call->attr), thread, n_threads);                 \
    }                                                                                                                  \
    static void restore(const struct lvn_call *call, int thread, int n_threads)                                        \
    {                                                                                                                  \
        LVN_ISA_NAME(lvn_norm_restore)(call, lvn_norm_of(LVN_OP_##id, call->attr), thread, n_threads);                 \
    }                                                                                                                  \
    static void backward(const struct lvn_call *call, int thread, int n_threads)                                       \
    {                                                                                                                  \
        LVN_ISA_NAME(lvn_norm_backward)(call, lvn_norm_of(LVN_OP_##id, call->attr), thread, n_threads);                \
    }                                                                                                                  \
    static int64_t scratch(const struct lvn_call *call, int n_threads)                                                 \
    {                                                                                                                  \
        (void)n_threads;                                                                                               \
        return LVN_ISA_NAME(lvn_norm_scratch)(call, lvn_norm_of(LVN_OP_##id, call->attr));                             \
    }                                                                                                                  \
    LVN_CPU_OPERATION(id, .forward = forward, .backward = backward, .restore = restore, .scratch = scratch)

#endif

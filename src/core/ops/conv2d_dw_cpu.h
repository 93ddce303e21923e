/* conv2d_dw_cpu.h - the gradients of a convolution's weights and biases on CPUs; for conv2d_cpu.h.
 *
 * Lanes are channels of the output: dy is transposed to (o/16,i,j,16) first, and sixteen channels o are multiplied by
 * single elements of x. So nothing is summed across lanes, and elements between the rows of the wide output are not
 * computed. Each element of dw is the sum, in double, of chains over a block of samples, or over some rows of a long
 * sample. */
#ifndef LVN_CONV2D_DW_CPU_H
#define LVN_CONV2D_DW_CPU_H

#include "base/threads.h"
#include "ops/conv2d_pairs_cpu.h"
#if defined(__AVX512F__)
#include "backend/cpu/pairs.h"
#endif

enum {
    CONV_BLOCK_FLOATS = 160 << 10, /* floats of the samples that are prepared at a time */
    CONV_DW_CHAIN = 320,           /* terms of an element of dw in one chain; at least a row */
    CONV_DB_CHAIN = 8 /* terms of db in one chain: short, for there is one for each lane, and terms cancel */
};

struct conv_dw {
    struct conv_plan plan;
    int64_t bank_rows;
    int64_t K;
    int64_t vectors;    /* of O */
    int64_t channel;    /* floats of a bank's input, for one channel of x */
    int64_t block;      /* samples that are prepared at a time */
    int64_t transposed; /* floats of a block: transposed dy */
    int64_t slopes;     /* floats of a block: a bank's gradient of its output; 0: one bank */
    int64_t staged;     /* floats of a block: a bank's input; 0: it is x itself */
    int64_t local;      /* floats of a thread: 16 channels of dy */
    int64_t kernels;    /* vectors of a bank's gradient (vectors,K) */
};

LVN_INLINE struct conv_dw conv_dw_make(const struct lvn_conv2d *c)
{
    struct conv_dw d = {.plan = conv_plan_make(c), .vectors = conv_up(c->O, LVN_LANES) / LVN_LANES};
    const bool pairs = d.plan.banks > 1;
    d.bank_rows = conv_bank_rows(&d.plan, c->OH);
    d.K = c->C * d.plan.taps * c->KW;
    d.channel = (pairs ? d.bank_rows : c->H) * c->W;
    d.transposed = d.vectors * c->OH * c->OW * LVN_LANES;
    d.slopes = pairs ? d.vectors * d.bank_rows * c->OW * LVN_LANES : 0;
    d.staged = pairs ? c->C * d.channel : 0;
    const int64_t floats = d.transposed + d.plan.banks * (d.slopes + d.staged);
    d.block = CONV_BLOCK_FLOATS / floats < 1 ? 1 : CONV_BLOCK_FLOATS / floats;
    if (d.block > c->N) d.block = c->N;
    d.transposed *= d.block, d.slopes *= d.block, d.staged = conv_up(d.block * d.staged, 16);
    d.local = LVN_LANES * c->OH * c->OW;
    d.kernels = d.vectors * d.K;
    return d;
}

/* Addresses in scratch. */
struct conv_dw_memory {
    struct vtotal *sums;    /* of db; one for each vector of channels */
    struct vtotal *kernels; /* gradients of all banks' kernels */
    float *transposed;
    float *slopes;
    float *staged;
    float *local; /* of this thread */
    int64_t *offset;
};

/* Return the bytes of the scratch, and lay it out in *memory unless `memory` is NULL. */
LVN_INLINE int64_t conv_dw_memory(const struct conv_dw *d, void *scratch, int thread, int n_threads,
                                  struct conv_dw_memory *memory)
{
    const int64_t transposed = 2 * LVN_LANES * (d->vectors + d->plan.banks * d->kernels),
                  slopes = transposed + d->transposed, staged = slopes + d->plan.banks * d->slopes,
                  local = staged + d->plan.banks * d->staged, offset = local + n_threads * d->local;
    if (memory) {
        float *p = scratch;
        *memory = (struct conv_dw_memory){.sums = scratch,
                                          .kernels = (struct vtotal *)scratch + d->vectors,
                                          .transposed = p + transposed,
                                          .slopes = p + slopes,
                                          .staged = p + staged,
                                          .local = p + local + thread * d->local,
                                          .offset = (int64_t *)(void *)(p + offset)};
    }
    return offset * 4 + d->K * 8;
}

/* Transpose channels [o, o + 16) of dy (O,P) to (P,16), 0 where ReLU's output y is not positive (y NULL: without ReLU).
 * They are copied to `local` (16,P) first: memory is read faster as one stream than as sixteen. */
LVN_INLINE void conv_transpose(const float *dy, const float *y, int64_t O, int64_t P, int64_t o, float *local,
                               float *to)
{
    const int64_t all = LVN_LANES * P, present = O - o < LVN_LANES ? (O - o) * P : all;
    const float *g = dy + o * P, *x = y ? y + o * P : NULL;
    int64_t i = 0;
    for (; i + LVN_LANES <= present; i += LVN_LANES) vstore(local + i, conv_slope(g, x, i, LVN_LANES));
    if (i < present) vstore_n(local + i, conv_slope(g, x, i, present - i), present - i);
    memset(local + present, 0, sizeof *local * (size_t)(all - present));
    for (int64_t p = 0; p < P; p += LVN_LANES) {
        const int64_t n = P - p < LVN_LANES ? P - p : LVN_LANES;
#if defined(__AVX512F__)
        __m512i r[LVN_LANES];
        for (int64_t l = 0; l < LVN_LANES; l++) r[l] = (__m512i)vload_n(local + l * P + p, n);
        pairs_transpose(r);
        for (int64_t e = 0; e < n; e++) _mm512_storeu_si512(to + (p + e) * LVN_LANES, r[e]);
#else
        for (int64_t e = p; e < p + n; e++)
            for (int64_t l = 0; l < LVN_LANES; l++) to[e * LVN_LANES + l] = local[l * P + e];
#endif
    }
}

/* Gradients of the banks' outputs (bank_rows,OW,16), d->slopes apart, from the transposed dy. */
LVN_INLINE void conv_transform_slopes(const struct lvn_conv2d *c, const struct conv_dw *d, const float *transposed,
                                      float *to)
{
    const int64_t n = c->OW * LVN_LANES, step = d->slopes;
    for (int64_t i = 0; i < d->bank_rows; i++, to += n) {
        const float *first = transposed + 2 * i * n, *second = 2 * i + 1 < c->OH ? first + n : NULL;
        for (int64_t e = 0; e < n; e += LVN_LANES) {
            const vf y0 = vload(first + e), y1 = second ? vload(second + e) : vset(0);
            vstore(to + e, y0);
            vstore(to + step + e, y0 + y1);
            vstore(to + 2 * step + e, y0 - y1);
            vstore(to + 3 * step + e, -y1);
        }
    }
}

/* A tile of a bank's gradient, `vectors` by `columns`, summed over samples; slope (samples,vectors,bank_rows,OW,16). */
LVN_INLINE void conv_dw_tile(const struct lvn_conv2d *c, const struct conv_dw *d, const int vectors, int64_t samples,
                             const float *slope, const float *x, const int64_t *column, int64_t columns,
                             struct vtotal *out)
{
    const int64_t P = d->bank_rows * c->OW, chains = (P + CONV_DW_CHAIN - 1) / CONV_DW_CHAIN;
    const int64_t rows = (d->bank_rows + chains - 1) / chains;
    const int64_t chain_samples = CONV_DW_CHAIN / P < 1 ? 1 : CONV_DW_CHAIN / P,
                  parts = (d->bank_rows + rows - 1) / rows;
    for (int64_t part = 0; part < (samples + chain_samples - 1) / chain_samples * parts; part++) {
        const int64_t first = part % parts * rows, end = first + rows < d->bank_rows ? first + rows : d->bank_rows;
        const int64_t begin = part / parts * chain_samples,
                      to = begin + chain_samples < samples ? begin + chain_samples : samples;
        struct vacc sum[CONV_DW_VECTORS][CONV_DW_COLUMNS];
        for (int v = 0; v < vectors; v++)
            for (int k = 0; k < CONV_DW_COLUMNS; k++) sum[v][k] = vacc_set(vset(0));
        for (int64_t n = begin; n < to; n++)
            for (int64_t i = first; i < end; i++) {
                const float *g = slope + (n * d->vectors * P + i * c->OW) * LVN_LANES;
                const float *row = x + n * c->C * d->channel + i * c->W;
                for (int64_t j = 0; j < c->OW; j++, g += LVN_LANES) {
                    vf y[CONV_DW_VECTORS];
                    for (int v = 0; v < vectors; v++) y[v] = vload(g + v * P * LVN_LANES);
                    for (int k = 0; k < CONV_DW_COLUMNS; k++) {
                        const vf floats = vset(row[column[k] + j]);
                        for (int v = 0; v < vectors; v++) sum[v][k] = vacc_fma(sum[v][k], y[v], floats);
                    }
                }
            }
        for (int64_t k = 0; k < columns; k++)
            for (int v = 0; v < vectors; v++) vtotal_add(&out[v * d->K + k], vacc_get(sum[v][k]));
    }
}

/* A bank's gradient (vectors,K), summed over the samples of a block. Threads divide its tiles, so that each has
 * separate vectors if there are enough of them. */
static inline void conv_dw_block(const struct lvn_conv2d *c, const struct conv_dw *d, const float *slopes,
                                 const float *x, const int64_t *offset, int64_t samples, struct vtotal *out, int thread,
                                 int n_threads)
{
    const int64_t across = (d->K + CONV_DW_COLUMNS - 1) / CONV_DW_COLUMNS, max = CONV_DW_VECTORS;
    const int64_t high = d->vectors / max * across >= n_threads ? max : 1, down = (d->vectors + high - 1) / high;
    int64_t item, end;
    lvn_thread_range(down * across, 1, thread, n_threads, &item, &end);
    for (; item < end; item++) {
        const int64_t v = item / across * high, k = item % across * CONV_DW_COLUMNS;
        const int64_t columns = d->K - k < CONV_DW_COLUMNS ? d->K - k : CONV_DW_COLUMNS;
        const float *slope = slopes + v * d->bank_rows * c->OW * LVN_LANES;
        struct vtotal *to = out + v * d->K + k;
        int64_t column[CONV_DW_COLUMNS]; /* columns beyond the last one repeat it */
        for (int64_t q = 0; q < CONV_DW_COLUMNS; q++) column[q] = offset[q < columns ? k + q : d->K - 1];
        if (high == max && v + max <= d->vectors)
            conv_dw_tile(c, d, CONV_DW_VECTORS, samples, slope, x, column, columns, to);
        else
            conv_dw_tile(c, d, 1, samples, slope, x, column, columns, to);
    }
}

/* Add a vector of channels of the transposed dy (rows,16) to the sums of db. */
LVN_INLINE void conv_db_sum(const float *transposed, int64_t rows, struct vtotal *sum)
{
    for (int64_t p = 0; p < rows;) {
        struct vacc some = vacc_set(vset(0));
        for (const int64_t last = p + CONV_DB_CHAIN < rows ? p + CONV_DB_CHAIN : rows; p < last; p++)
            some = vacc_add(some, vload(transposed + p * LVN_LANES));
        vtotal_add(sum, vacc_get(some));
    }
}

/* Store the gradient of the weights, from those of the banks' kernels; threads divide the rows of K. */
LVN_INLINE void conv_dw_store(const struct lvn_conv2d *c, const struct conv_dw *d, const struct vtotal *kernels,
                              bool add, float *dw, int thread, int n_threads)
{
    const bool pairs = d->plan.banks > 1;
    int64_t k, end;
    lvn_thread_range(d->K, 1, thread, n_threads, &k, &end);
    for (; k < end; k++)
        for (int64_t u = 0; u < (pairs ? c->KH : 1); u++) {
            const int64_t row = pairs ? (k / c->KW * c->KH + u) * c->KW + k % c->KW : k;
            for (int64_t o = 0; o < c->O; o++) {
                const double *m = &kernels[o / LVN_LANES * d->K + k].lane[o % LVN_LANES];
                const float sum = (float)(pairs ? conv_bank_gradient(u, m, d->kernels * LVN_LANES) : *m);
                float *to = &dw[o * c->C * c->KH * c->KW + row];
                *to = add ? *to + sum : sum;
            }
        }
}

LVN_INLINE void conv_dw_db(const struct lvn_conv2d *c, const struct lvn_call *call, const bool relu, int thread,
                           int n_threads)
{
    const struct conv_dw d = conv_dw_make(c);
    const float *x = call->in[0].p, *dy = call->dout[0].p, *y = relu ? call->out[0].p : NULL;
    float *dw = call->din[1].p, *db = call->din[2].p;
    const int64_t P = c->OH * c->OW, bank_P = d.bank_rows * c->OW;
    const int banks = dw ? d.plan.banks : 0;
    int64_t item, end;
    struct conv_dw_memory memory;
    (void)conv_dw_memory(&d, call->scratch, thread, n_threads, &memory);
    lvn_team_barrier(); /* no thread reads the scratch of dx any more */
    for (int64_t v = thread; v < d.vectors + banks * d.kernels; v += n_threads) memory.sums[v] = (struct vtotal){{0}};
    for (int64_t k = 0; thread == 0 && k < d.K; k++)
        memory.offset[k] =
            k / (d.plan.taps * c->KW) * d.channel + (banks > 1 ? 0 : k / c->KW % c->KH * c->W) + k % c->KW;
    lvn_team_barrier();
    for (int64_t n = 0; n < c->N; n += d.block) {
        const int64_t samples = c->N - n < d.block ? c->N - n : d.block;
        const float *some = x + n * c->C * c->H * c->W;
        lvn_thread_range(d.vectors, 1, thread, n_threads, &item, &end);
        for (int64_t v = item; v < end; v++)
            for (int64_t i = 0; i < samples; i++) {
                const int64_t begin = (n + i) * c->O * P;
                float *transposed = memory.transposed + (i * d.vectors + v) * P * LVN_LANES;
                conv_transpose(dy + begin, y ? y + begin : NULL, c->O, P, v * LVN_LANES, memory.local, transposed);
                if (db) conv_db_sum(transposed, P, &memory.sums[v]);
            }
        for (int64_t v = item; d.slopes && v < end; v++)
            for (int64_t i = v; i < samples * d.vectors; i += d.vectors)
                conv_transform_slopes(c, &d, memory.transposed + i * P * LVN_LANES,
                                      memory.slopes + i * bank_P * LVN_LANES);
        lvn_thread_range(d.staged ? samples * c->C : 0, 1, thread, n_threads, &item, &end);
        for (; item < end; item++)
            conv_bank_inputs(some + item * c->H * c->W, c->H, c->W, d.bank_rows, d.staged,
                             memory.staged + item * d.channel);
        lvn_team_barrier();
        for (int bank = 0; bank < banks; bank++)
            conv_dw_block(c, &d, d.slopes ? memory.slopes + bank * d.slopes : memory.transposed,
                          d.staged ? memory.staged + bank * d.staged : some, memory.offset, samples,
                          memory.kernels + bank * d.kernels, thread, n_threads);
        lvn_team_barrier();
    }
    if (dw) conv_dw_store(c, &d, memory.kernels, call->add[1], dw, thread, n_threads);
    for (int64_t o = thread; db && o < c->O; o += n_threads)
        db[o] = (float)(memory.sums[o / LVN_LANES].lane[o % LVN_LANES] + (call->add[2] ? (double)db[o] : 0));
}

#endif

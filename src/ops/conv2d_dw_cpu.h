/* conv2d_dw_cpu.h - the gradients of a convolution's weights and biases; for conv2d_cpu.h.
 *
 * Lanes are channels of the output: dy is turned to (o/16,i,j,16) first, and sixteen o meet single elements of x. So
 * no sum goes across lanes, and what lies between the rows of a wide output is not computed. Each element of dw is
 * the sum, in double, of chains over a block of samples, or over some rows of a long one. */
#ifndef LVN_CONV2D_DW_CPU_H
#define LVN_CONV2D_DW_CPU_H

#include "base/threads.h"
#include "ops/conv2d_pairs_cpu.h"
#if defined(__AVX512F__)
#include "backend/cpu/pairs.h"
#endif

enum {
    CONV_BLOCK_FLOATS = 160 << 10, /* of the samples that are ready at a time */
    CONV_DW_CHAIN = 320,           /* elements of dw that are summed in one chain, or a row */
    CONV_DB_CHAIN = 8              /* of db: a lane has but one chain, and terms that cancel */
};

struct conv_dw {
    struct conv_way way;
    struct conv_planes planes;
    int64_t bank_rows, K;
    int64_t vectors;        /* of O */
    int64_t channel;        /* floats of what a bank sees of a channel of x */
    int64_t block;          /* samples that are ready at a time */
    int64_t turned, slopes; /* floats of a block: dy turned; what a bank has of it, where there are several */
    int64_t staged;         /* floats of a block: what a bank sees of x, where it is not x itself */
    int64_t own;            /* of a thread: a channel of padded planes that banks are made of; 16 of dy */
    int64_t kernels;        /* vectors of a bank's gradient (vectors,K) */
};

LVN_INLINE struct conv_dw conv_dw_make(const struct lvn_conv2d *c)
{
    struct conv_dw d = {
        .way = conv_way_make(c), .planes = conv_planes_make(c), .vectors = conv_up(c->O, LVN_LANES) / LVN_LANES};
    const bool pairs = d.way.banks > 1;
    d.bank_rows = conv_bank_rows(&d.way, c->OH);
    d.K = c->C * d.way.taps * c->KW;
    d.channel = pairs ? d.bank_rows * d.planes.width : d.planes.channel;
    d.turned = d.vectors * c->OH * c->OW * LVN_LANES;
    d.slopes = pairs ? d.vectors * d.bank_rows * c->OW * LVN_LANES : 0;
    d.staged = d.planes.as_is && !pairs ? 0 : c->C * d.channel;
    const int64_t one = d.turned + d.way.banks * (d.slopes + d.staged);
    d.block = CONV_BLOCK_FLOATS / one < 1 ? 1 : CONV_BLOCK_FLOATS / one;
    if (d.block > c->N) d.block = c->N;
    d.turned *= d.block, d.slopes *= d.block, d.staged = conv_up(d.block * d.staged, 16);
    const int64_t plane = pairs && !d.planes.as_is ? d.planes.channel : 0, some = LVN_LANES * c->OH * c->OW;
    d.own = conv_up(plane > some ? plane : some, 16);
    d.kernels = d.vectors * d.K;
    return d;
}

/* Where they lie. */
struct conv_dw_place {
    struct vtotal *sums;    /* of db; one for each vector of channels */
    struct vtotal *kernels; /* of all banks */
    float *turned, *slopes, *staged, *own;
    int64_t *offset;
};

LVN_INLINE int64_t conv_dw_place(const struct conv_dw *d, void *scratch, int thread, int n_threads,
                                 struct conv_dw_place *at)
{
    float *p = scratch, *const start = p;
    at->sums = (struct vtotal *)(void *)p;
    at->kernels = at->sums + d->vectors;
    at->turned = p += 2 * LVN_LANES * (d->vectors + d->way.banks * d->kernels);
    at->slopes = p += d->turned;
    at->staged = p += d->way.banks * d->slopes;
    at->own = (p += d->way.banks * d->staged) + thread * d->own;
    at->offset = (int64_t *)(void *)(p += n_threads * d->own);
    return (p - start) * 4 + d->K * 8;
}

/* Channels [o, o + 16) of dy (O,P), as far as y lets them through (NULL: all), to (P,16). They are copied to `own`
 * (16,P) first: memory is read fast in one piece, not in sixteen. */
LVN_INLINE void conv_turn(const float *dy, const float *y, int64_t O, int64_t P, int64_t o, float *own, float *to)
{
    const int64_t all = LVN_LANES * P, here = O - o < LVN_LANES ? (O - o) * P : all;
    const float *g = dy + o * P, *x = y ? y + o * P : NULL;
    int64_t i = 0;
    for (; i + LVN_LANES <= here; i += LVN_LANES) vstore(own + i, conv_slope(g, x, i, LVN_LANES));
    if (i < here) vstore_n(own + i, conv_slope(g, x, i, here - i), here - i);
    memset(own + here, 0, sizeof *own * (size_t)(all - here));
    for (int64_t p = 0; p < P; p += LVN_LANES) {
        const int64_t n = P - p < LVN_LANES ? P - p : LVN_LANES;
#if defined(__AVX512F__)
        __m512i r[LVN_LANES];
        for (int64_t l = 0; l < LVN_LANES; l++) r[l] = (__m512i)vload_n(own + l * P + p, n);
        pairs_transpose(r);
        for (int64_t e = 0; e < n; e++) _mm512_storeu_si512(to + (p + e) * LVN_LANES, r[e]);
#else
        for (int64_t e = p; e < p + n; e++)
            for (int64_t l = 0; l < LVN_LANES; l++) to[e * LVN_LANES + l] = own[l * P + e];
#endif
    }
}

/* The banks' slopes (bank_rows,OW,16), `step` apart, of what was turned. */
LVN_INLINE void conv_stage_slopes(const struct lvn_conv2d *c, const struct conv_dw *d, const float *turned, float *to)
{
    const int64_t n = c->OW * LVN_LANES, step = d->slopes;
    for (int64_t i = 0; i < d->bank_rows; i++, to += n) {
        const float *first = turned + 2 * i * n, *second = 2 * i + 1 < c->OH ? first + n : NULL;
        for (int64_t e = 0; e < n; e += LVN_LANES) {
            const vf y0 = vload(first + e), y1 = second ? vload(second + e) : vset(0);
            vstore(to + e, y0);
            vstore(to + step + e, y0 + y1);
            vstore(to + 2 * step + e, y0 - y1);
            vstore(to + 3 * step + e, -y1);
        }
    }
}

/* What the banks see of one sample's channel x (H,W); own: this thread's room for its planes. */
LVN_INLINE void conv_stage_plane(const struct lvn_conv2d *c, const struct conv_dw *d, const float *x, float *own,
                                 float *to)
{
    const struct conv_planes *p = &d->planes;
    if (d->way.banks == 1) return conv_split(c, p, x, to);
    if (!p->as_is) conv_split(c, p, x, own);
    conv_bank_planes(p->as_is ? x : own, p->rows, p->width, d->bank_rows, d->staged, to);
}

/* Vectors of channels and columns of a bank's gradient, of some samples; slope (samples,vectors,bank_rows,OW,16). */
LVN_INLINE void conv_dw_tile(const struct lvn_conv2d *c, const struct conv_dw *d, const int vectors, int64_t samples,
                             const float *slope, const float *x, const int64_t *column, int64_t columns,
                             struct vtotal *out)
{
    const int64_t P = d->bank_rows * c->OW, chains = (P + CONV_DW_CHAIN - 1) / CONV_DW_CHAIN;
    const int64_t rows = (d->bank_rows + chains - 1) / chains;
    const int64_t together = CONV_DW_CHAIN / P < 1 ? 1 : CONV_DW_CHAIN / P, parts = (d->bank_rows + rows - 1) / rows;
    for (int64_t part = 0; part < (samples + together - 1) / together * parts; part++) {
        const int64_t first = part % parts * rows, end = first + rows < d->bank_rows ? first + rows : d->bank_rows;
        const int64_t from = part / parts * together, to = from + together < samples ? from + together : samples;
        struct vacc sum[CONV_DW_VECTORS][CONV_DW_COLUMNS];
        for (int v = 0; v < vectors; v++)
            for (int k = 0; k < CONV_DW_COLUMNS; k++) sum[v][k] = vacc_set(vset(0));
        for (int64_t n = from; n < to; n++)
            for (int64_t i = first; i < end; i++) {
                const float *g = slope + (n * d->vectors * P + i * c->OW) * LVN_LANES;
                const float *row = x + n * c->C * d->channel + i * d->planes.width;
                for (int64_t j = 0; j < c->OW; j++, g += LVN_LANES) {
                    vf y[CONV_DW_VECTORS];
                    for (int v = 0; v < vectors; v++) y[v] = vload(g + v * P * LVN_LANES);
                    for (int k = 0; k < CONV_DW_COLUMNS; k++) {
                        const vf one = vset(row[column[k] + j]);
                        for (int v = 0; v < vectors; v++) sum[v][k] = vacc_fma(sum[v][k], y[v], one);
                    }
                }
            }
        for (int64_t k = 0; k < columns; k++)
            for (int v = 0; v < vectors; v++) vtotal_add(&out[v * d->K + k], vacc_get(sum[v][k]));
    }
}

/* A bank's gradient (vectors,K), of some samples whose slopes and planes are ready. Threads share its tiles, so that
 * each has vectors of its own as far as there are enough. */
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
        int64_t column[CONV_DW_COLUMNS]; /* the last one again where there are no more */
        for (int64_t q = 0; q < CONV_DW_COLUMNS; q++) column[q] = offset[q < columns ? k + q : d->K - 1];
        if (high == max && v + max <= d->vectors)
            conv_dw_tile(c, d, CONV_DW_VECTORS, samples, slope, x, column, columns, to);
        else
            conv_dw_tile(c, d, 1, samples, slope, x, column, columns, to);
    }
}

/* Sums of what was turned of a vector of channels (rows,16). */
LVN_INLINE void conv_db_sum(const float *turned, int64_t rows, struct vtotal *sum)
{
    for (int64_t p = 0; p < rows;) {
        struct vacc some = vacc_set(vset(0));
        for (const int64_t last = p + CONV_DB_CHAIN < rows ? p + CONV_DB_CHAIN : rows; p < last; p++)
            some = vacc_add(some, vload(turned + p * LVN_LANES));
        vtotal_add(sum, vacc_get(some));
    }
}

/* The gradient of the weights, of those of the banks; threads share the rows of K. */
LVN_INLINE void conv_dw_take(const struct lvn_conv2d *c, const struct conv_dw *d, const struct vtotal *kernels,
                             bool add, float *dw, int thread, int n_threads)
{
    const bool pairs = d->way.banks > 1;
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
    const int banks = dw ? d.way.banks : 0;
    int64_t item, end;
    struct conv_dw_place at;
    (void)conv_dw_place(&d, call->scratch, thread, n_threads, &at);
    lvn_team_barrier(); /* the scratch of dx is no longer read */
    for (int64_t v = thread; v < d.vectors + banks * d.kernels; v += n_threads) at.sums[v] = (struct vtotal){{0}};
    for (int64_t k = 0; thread == 0 && k < d.K; k++)
        at.offset[k] = k / (d.way.taps * c->KW) * d.channel +
                       (banks > 1 ? k % c->KW : conv_plane_offset(&d.planes, k / c->KW % c->KH, k % c->KW));
    lvn_team_barrier();
    for (int64_t n = 0; n < c->N; n += d.block) {
        const int64_t samples = c->N - n < d.block ? c->N - n : d.block;
        const float *some = x + n * c->C * c->H * c->W;
        lvn_thread_range(d.vectors, 1, thread, n_threads, &item, &end);
        for (int64_t v = item; v < end; v++)
            for (int64_t i = 0; i < samples; i++) {
                const int64_t from = (n + i) * c->O * P;
                float *turned = at.turned + (i * d.vectors + v) * P * LVN_LANES;
                conv_turn(dy + from, y ? y + from : NULL, c->O, P, v * LVN_LANES, at.own, turned);
                if (db) conv_db_sum(turned, P, &at.sums[v]);
            }
        for (int64_t v = item; d.slopes && v < end; v++)
            for (int64_t i = v; i < samples * d.vectors; i += d.vectors)
                conv_stage_slopes(c, &d, at.turned + i * P * LVN_LANES, at.slopes + i * bank_P * LVN_LANES);
        lvn_thread_range(d.staged ? samples * c->C : 0, 1, thread, n_threads, &item, &end);
        for (; item < end; item++)
            conv_stage_plane(c, &d, some + item * c->H * c->W, at.own, at.staged + item * d.channel);
        lvn_team_barrier();
        for (int bank = 0; bank < banks; bank++)
            conv_dw_block(c, &d, d.slopes ? at.slopes + bank * d.slopes : at.turned,
                          d.staged ? at.staged + bank * d.staged : some, at.offset, samples,
                          at.kernels + bank * d.kernels, thread, n_threads);
        lvn_team_barrier();
    }
    if (dw) conv_dw_take(c, &d, at.kernels, call->add[1], dw, thread, n_threads);
    for (int64_t o = thread; db && o < c->O; o += n_threads)
        db[o] = (float)(at.sums[o / LVN_LANES].lane[o % LVN_LANES] + (call->add[2] ? (double)db[o] : 0));
}

#endif

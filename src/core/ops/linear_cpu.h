/* linear_cpu.h - the three matrix multiplications of a linear layer on CPUs, for linear and the operations fused with
 * it.
 *
 * y = x w + b; dx = dy w^T; dw = x^T dy, in the layout of w. x (R,K), y (R,N), w as in struct lvn_matmul. x with dx, y
 * with dy, w and dw may each be bf16; w may be in packed blocks (packed/packed.h), and has no gradient then. If a
 * result is bf16, it is computed in scratch, in fp32, and each tile is rounded while it is in the cache; dw, which may
 * be large, is computed some rows at a time. Callers insert barriers if a multiplication reads data that other threads
 * wrote. */
#ifndef LVN_LINEAR_CPU_H
#define LVN_LINEAR_CPU_H

#include "backend/cpu/gemm.h"
#include "backend/cpu/simd.h"
#include "backend/cpu/simd_bf16.h"
#include "base/threads.h"
#include "ops/linear.h"

#define LVN_ONCE static __attribute__((noinline, unused)) /* large, and called in several places */

/* Sizes and types of an instruction's linear layer. */
struct linear {
    struct lvn_matmul size;
    bool x_bf16;                /* x is bf16 */
    bool dx_bf16;               /* dx is bf16; that of a bf16 parameter may be fp32 */
    bool w_bf16;                /* w is bf16 */
    struct lvn_blocks w_blocks; /* w is in packed blocks, (N,K) */
    bool y_bf16;                /* y and dy are bf16 */
    bool dw_bf16;               /* dw is bf16 */
    bool bf16;                  /* operands may be rounded to bf16 */
    bool bias;                  /* the gradient of b is needed */
    int64_t y_row;              /* elements from row to row of dy */
};

/* x and w are in[0] and in[1]; y: descriptor of the output or of its gradient. */
LVN_INLINE struct linear linear_make(const struct lvn_call *call, const struct lvn_desc *y, bool in_out)
{
    const struct lvn_matmul size = lvn_matmul_make(lvn_desc_rows(y), call->in[1].desc, in_out);
    const enum lvn_dtype w = call->in[1].desc->dtype;
    return (struct linear){
        .size = size,
        .y_row = size.N,
        .w_blocks = lvn_dtype_is_packed(w) ? (struct lvn_blocks){w, size.N, size.K} : (struct lvn_blocks){0},
        .x_bf16 = call->in[0].desc->dtype == LVN_BF16,
        .w_bf16 = w == LVN_BF16,
        .y_bf16 = y->dtype == LVN_BF16,
        .bf16 = call->matmul_dtype == LVN_BF16,
        .dx_bf16 = call->phase == LVN_BACKWARD && call->din[0].desc && call->din[0].desc->dtype == LVN_BF16,
        .dw_bf16 = call->phase == LVN_BACKWARD && call->din[1].desc && call->din[1].desc->dtype == LVN_BF16,
        .bias = call->phase == LVN_BACKWARD && call->din[2].desc};
}

/* --- multiplications with fp32 results --- */

LVN_INLINE struct lvn_gemm product_y(const struct linear *l, const void *x, const void *w, const float *b, float *y)
{
    const struct lvn_matmul *m = &l->size;
    return (struct lvn_gemm){.m = m->R,
                             .n = m->N,
                             .k = m->K,
                             .a = x,
                             .a_row = m->K,
                             .a_col = 1,
                             .a_bf16 = l->x_bf16,
                             .b = w,
                             .b_row = m->wk,
                             .b_col = m->wn,
                             .b_bf16 = l->w_bf16,
                             .b_blocks = l->w_blocks,
                             .bf16 = l->bf16,
                             .c = y,
                             .c_row = m->N,
                             .bias = b};
}

LVN_INLINE struct lvn_gemm product_dx(const struct linear *l, const void *dy, const void *w, float *dx, bool add)
{
    const struct lvn_matmul *m = &l->size;
    return (struct lvn_gemm){.m = m->R,
                             .n = m->K,
                             .k = m->N,
                             .a = dy,
                             .a_row = l->y_row,
                             .a_col = 1,
                             .a_bf16 = l->y_bf16,
                             .b = w,
                             .b_row = m->wn,
                             .b_col = m->wk,
                             .b_bf16 = l->w_bf16,
                             .b_blocks = l->w_blocks,
                             .bf16 = l->bf16,
                             .c = dx,
                             .c_row = m->K,
                             .add = add};
}

LVN_INLINE struct lvn_gemm product_dw(const struct linear *l, const void *x, const void *dy, float *dw, bool add)
{
    const struct lvn_matmul *m = &l->size;
    struct lvn_gemm g = {.k = m->R, .a_row = 1, .b_col = 1, .bf16 = l->bf16, .c = dw, .add = add};
    if (m->wn == 1) { /* (K,N) = x^T dy */
        g.m = m->K, g.a = x, g.a_col = m->K, g.a_bf16 = l->x_bf16;
        g.n = m->N, g.b = dy, g.b_row = l->y_row, g.b_bf16 = l->y_bf16;
    } else { /* (N,K) = dy^T x */
        g.m = m->N, g.a = dy, g.a_col = l->y_row, g.a_bf16 = l->y_bf16;
        g.n = m->K, g.b = x, g.b_row = m->K, g.b_bf16 = l->x_bf16;
    }
    g.c_row = g.n;
    return g;
}

/* --- bf16 results --- */

struct rounded {
    uint16_t *to; /* the result, of the same shape as c */
    bool add;     /* += */
};

/* lvn_gemm.finish: round a tile of the result. */
static inline void round_tile(const struct lvn_gemm *g, float *c, int64_t row, int64_t i0, int64_t m, int64_t j,
                              int64_t n)
{
    const struct rounded *r = g->argument;
    for (int64_t i = i0; i < i0 + m; i++, c += row) {
        uint16_t *to = r->to + i * g->c_row + j;
        for (int64_t x = 0; r->add && x < n; x += LVN_LANES) {
            int64_t lanes = n - x < LVN_LANES ? n - x : LVN_LANES;
            vstore_n(c + x, vload_n(c + x, lanes) + vread_n(to, x, lanes, true), lanes);
        }
        vconvert(c, false, to, true, n);
    }
}

/* Floats of scratch for an fp32 copy of a bf16 result of a multiplication, also sufficient for fewer rows. */
LVN_ONCE int64_t wide_floats(bool bf16, const struct lvn_gemm *g)
{
    const int64_t rows = g->m > LVN_GEMM_FEW && LVN_ISA_NAME(lvn_gemm).buffers(g) ? LVN_GEMM_FEW : g->m;
    return bf16 ? (rows * g->n + 15) / 16 * 16 : 0;
}

/* Columns that are summed at a time. */
enum { VECTORS = 4, COLUMNS = VECTORS * LVN_LANES };

/* Sums over the rows of dy, in blocks of rows, into sums (N); more: add to the sums of earlier rows. Threads divide the
 * columns, and rows are added in order, so bits do not depend on threads. */
LVN_INLINE void column_sums_as(const struct lvn_matmul *m, const void *dy, const bool bf16, double *sums, bool more,
                               int thread, int n_threads)
{
    int64_t j, end;
    lvn_thread_range(m->N, COLUMNS, thread, n_threads, &j, &end);
    for (; j < end; j += COLUMNS) {
        const int64_t n = end - j < COLUMNS ? end - j : COLUMNS;
        struct vtotal total[VECTORS] = {0};
        if (more) memcpy(total, sums + j, (size_t)n * sizeof *sums);
        for (int64_t r = 0, block; r < m->R; r = block) {
            struct vacc sum[VECTORS];
            for (int v = 0; v < VECTORS; v++) sum[v] = vacc_set(vset(0));
            block = r + LVN_SUM_BLOCK < m->R ? r + LVN_SUM_BLOCK : m->R;
            for (; n == COLUMNS && r < block; r++)
                for (int v = 0; v < VECTORS; v++)
                    sum[v] = vacc_add(sum[v], vread(dy, r * m->N + j + v * LVN_LANES, bf16));
            for (; r < block; r++)
                for (int64_t v = 0; v * LVN_LANES < n; v++) {
                    int64_t left = n - v * LVN_LANES, lanes = left < LVN_LANES ? left : LVN_LANES;
                    sum[v] = vacc_add(sum[v], vread_n(dy, r * m->N + j + v * LVN_LANES, lanes, bf16));
                }
            for (int v = 0; v < VECTORS; v++) vtotal_add(&total[v], vacc_get(sum[v]));
        }
        memcpy(sums + j, total, (size_t)n * sizeof *sums);
    }
}

static inline void column_sums(const struct linear *l, const void *dy, double *sums, bool more, int thread,
                               int n_threads)
{
    if (l->y_bf16)
        column_sums_as(&l->size, dy, true, sums, more, thread, n_threads);
    else
        column_sums_as(&l->size, dy, false, sums, more, thread, n_threads);
}

/* --- scratch: a shared part for bf16 results, then a part for each thread --- */

/* Bytes of a thread's part, for any of the three multiplications. */
LVN_ONCE int64_t thread_scratch(const struct linear *l)
{
    struct lvn_gemm products[] = {product_y(l, NULL, NULL, NULL, NULL), product_dx(l, NULL, NULL, NULL, false),
                                  product_dw(l, NULL, NULL, NULL, false)};
    int64_t max = 0;
    for (int i = 0; i < 3; i++) {
        int64_t bytes = LVN_ISA_NAME(lvn_gemm).scratch(&products[i]);
        max = bytes > max ? bytes : max;
    }
    return max;
}

/* Rows of a bf16 dw (m,n) that are computed at a time: a function of the shape only. */
static inline int64_t panel_rows(int64_t m, int64_t n)
{
    enum { NUMBERS = 1 << 20, SIDE = 64 };
    int64_t rows = NUMBERS / n / SIDE * SIDE;
    if (rows < SIDE) rows = SIDE;
    return rows < m ? rows : m;
}

/* Floats of scratch for the sums over the rows of dy, which are doubles. */
LVN_INLINE int64_t bias_floats(const struct linear *l)
{
    return l->bias ? (2 * l->size.N + 15) / 16 * 16 : 0;
}

/* Floats of scratch for gradients: those sums, and dx or dw in fp32, one after the other, if it is bf16. */
LVN_ONCE int64_t gradient_floats(const struct linear *l)
{
    const struct lvn_gemm dx = product_dx(l, NULL, NULL, NULL, false), dw = product_dw(l, NULL, NULL, NULL, false);
    const int64_t x = wide_floats(l->dx_bf16, &dx), w = l->dw_bf16 ? (panel_rows(dw.m, dw.n) * dw.n + 15) / 16 * 16 : 0;
    return bias_floats(l) + (x > w ? x : w);
}

LVN_ONCE int64_t linear_scratch(const struct linear *l, enum lvn_phase phase, int n_threads)
{
    const struct lvn_gemm y = product_y(l, NULL, NULL, NULL, NULL);
    int64_t wide = phase == LVN_BACKWARD ? gradient_floats(l) : wide_floats(l->y_bf16, &y);
    return wide * (int64_t)sizeof(float) + thread_scratch(l) * n_threads;
}

/* Mask (LVN_READS_IN) of the inputs that each multiplication of this phase rounds if it reads them. forward: y is one
 * of them; chunk: rows that are computed at a time; the last chunk may have few. */
static inline uint32_t linear_rounds(const struct linear *l, const struct lvn_call *call, bool forward, int64_t chunk)
{
    struct linear shortest = *l; /* the shortest chunk; longer ones round if it does */
    if (l->size.R % chunk) shortest.size.R = l->size.R % chunk;
    const struct lvn_gemm y = product_y(&shortest, NULL, NULL, NULL, NULL),
                          dx = product_dx(&shortest, NULL, NULL, NULL, false);
    const bool backward = call->phase == LVN_BACKWARD && call->din[0].desc;
    const bool all =
        (!forward || LVN_ISA_NAME(lvn_gemm).rounds(&y)) && (!backward || LVN_ISA_NAME(lvn_gemm).rounds(&dx));
    return all ? LVN_READS_IN(1) : 0;
}

/* --- running --- */

/* Run a multiplication; threads: start of the threads' scratch. */
static inline void linear_product(const struct linear *l, const struct lvn_gemm *g, void *threads, int thread,
                                  int n_threads)
{
    LVN_ISA_NAME(lvn_gemm).run(g, (char *)threads + thread * thread_scratch(l), thread, n_threads);
}

/* Run a multiplication whose result is rounded to bf16 and stored in `to`; g->c is scratch of wide_floats(). */
LVN_ONCE void linear_rounded(const struct linear *l, struct lvn_gemm *g, void *to, void *threads, int thread,
                             int n_threads)
{
    struct rounded r = {to, g->add};
    g->add = false;
    if (LVN_ISA_NAME(lvn_gemm).buffers(g)) g->c = NULL;
    g->finish = round_tile;
    g->argument = &r;
    linear_product(l, g, threads, thread, n_threads);
}

/* A bf16 dw is summed in fp32 over all R rows, in `wide`, and rounded once. */
LVN_ONCE void rounded_dw(const struct linear *l, const struct lvn_gemm *dw, uint16_t *to, float *wide, void *threads,
                         int thread, int n_threads)
{
    const int64_t rows = panel_rows(dw->m, dw->n);
    for (int64_t i = 0; i < dw->m; i += rows) {
        struct lvn_gemm panel = *dw;
        panel.m = rows < dw->m - i ? rows : dw->m - i;
        panel.a = vat(dw->a, i * dw->a_row, dw->a_bf16);
        panel.c = wide;
        lvn_team_barrier(); /* no thread reads `wide` any more */
        linear_rounded(l, &panel, to + i * dw->n, threads, thread, n_threads);
    }
}

/* dx (R,K) and dw for a chunk of rows; din[0], din[1] NULL: not needed. db is summed in scratch over all chunks,
 * starting with the one for which `first` is set, and stored by linear_bias(). */
LVN_ONCE void linear_gradients(const struct linear *l, const void *x, const void *w, const void *dy, void *const din[2],
                               const bool add[2], bool first, void *scratch, int thread, int n_threads)
{
    float *wide = (float *)scratch + bias_floats(l);
    void *threads = (float *)scratch + gradient_floats(l);
    struct lvn_gemm dx = product_dx(l, dy, w, l->dx_bf16 ? wide : din[0], add[0]),
                    dw = product_dw(l, x, dy, din[1], add[1]);
    if (din[0] && l->dx_bf16) linear_rounded(l, &dx, din[0], threads, thread, n_threads);
    if (din[0] && !l->dx_bf16) linear_product(l, &dx, threads, thread, n_threads);
    if (din[1] && l->dw_bf16) rounded_dw(l, &dw, din[1], wide, threads, thread, n_threads);
    if (din[1] && !l->dw_bf16) linear_product(l, &dw, threads, thread, n_threads);
    if (l->bias) column_sums(l, dy, scratch, !first, thread, n_threads);
}

/* After the last chunk: store this thread's columns of db, which this thread has summed. */
static inline void linear_bias(const struct linear *l, const double *sums, float *db, bool add, int thread,
                               int n_threads)
{
    int64_t j, end;
    lvn_thread_range(l->size.N, COLUMNS, thread, n_threads, &j, &end);
    for (; db && j < end; j++) db[j] = (float)((add ? (double)db[j] : 0) + sums[j]);
}

#endif

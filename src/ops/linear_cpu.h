/* linear_cpu.h - the three products of a linear map on a CPU, which linear and its fused forms share.
 *
 * y = x w + b; dx = dy w^T; dw = x^T dy, in the layout of w. x (R,K), y (R,N), w as struct lvn_matmul says. Nobody
 * waits here: callers put barriers where a product reads what other threads wrote. */
#ifndef LVN_LINEAR_CPU_H
#define LVN_LINEAR_CPU_H

#include "backend/cpu/gemm.h"
#include "backend/cpu/simd.h"
#include "base/threads.h"
#include "ops/linear.h"

LVN_INLINE struct lvn_gemm product_y(const struct lvn_matmul *m, const float *x, const float *w, const float *b,
                                     float *y)
{
    return (struct lvn_gemm){.m = m->R,
                             .n = m->N,
                             .k = m->K,
                             .a = x,
                             .a_row = m->K,
                             .a_col = 1,
                             .b = w,
                             .b_row = m->wk,
                             .b_col = m->wn,
                             .c = y,
                             .c_row = m->N,
                             .bias = b};
}

LVN_INLINE struct lvn_gemm product_dx(const struct lvn_matmul *m, const float *dy, const float *w, float *dx, bool add)
{
    return (struct lvn_gemm){.m = m->R,
                             .n = m->K,
                             .k = m->N,
                             .a = dy,
                             .a_row = m->N,
                             .a_col = 1,
                             .b = w,
                             .b_row = m->wn,
                             .b_col = m->wk,
                             .c = dx,
                             .c_row = m->K,
                             .add = add};
}

LVN_INLINE struct lvn_gemm product_dw(const struct lvn_matmul *m, const float *x, const float *dy, float *dw, bool add)
{
    struct lvn_gemm g = {.k = m->R, .a_row = 1, .b_col = 1, .c = dw, .add = add};
    if (m->wn == 1) { /* (K,N) = x^T dy */
        g.m = m->K, g.a = x, g.a_col = m->K;
        g.n = m->N, g.b = dy, g.b_row = m->N;
    } else { /* (N,K) = dy^T x */
        g.m = m->N, g.a = dy, g.a_col = m->N;
        g.n = m->K, g.b = x, g.b_row = m->K;
    }
    g.c_row = g.n;
    return g;
}

/* db = the sums of dy's columns. Threads share the columns; each walks down all rows, so the order is always the same.
 */
static inline void column_sums(const struct lvn_matmul *m, const float *dy, float *db, bool add, int thread,
                               int n_threads)
{
    enum { VECTORS = 4, WIDTH = VECTORS * LVN_LANES };
    int64_t j, end;
    lvn_share(m->N, WIDTH, thread, n_threads, &j, &end);
    for (; j < end; j += WIDTH) {
        struct vacc sum[VECTORS];
        for (int v = 0; v < VECTORS; v++) sum[v] = vacc_set(vset(0));
        int64_t n = end - j;
        if (n >= WIDTH) {
            for (int64_t r = 0; r < m->R; r++)
                for (int v = 0; v < VECTORS; v++) sum[v] = vacc_add(sum[v], vload(dy + r * m->N + j + v * LVN_LANES));
        } else {
            for (int64_t r = 0; r < m->R; r++)
                for (int64_t v = 0; v * LVN_LANES < n; v++) {
                    int64_t left = n - v * LVN_LANES;
                    sum[v] = vacc_add(sum[v],
                                      vload_n(dy + r * m->N + j + v * LVN_LANES, left < LVN_LANES ? left : LVN_LANES));
                }
        }
        for (int64_t v = 0; v < VECTORS && v * LVN_LANES < n; v++) {
            int64_t left = n - v * LVN_LANES, lanes = left < LVN_LANES ? left : LVN_LANES;
            float *out = db + j + v * LVN_LANES;
            if (add) sum[v] = vacc_add(sum[v], vload_n(out, lanes));
            vstore_n(out, vacc_get(sum[v]), lanes);
        }
    }
}

/* Bytes of scratch of one thread, for any of the three products. */
static inline int64_t thread_scratch(const struct lvn_matmul *m)
{
    struct lvn_gemm products[] = {product_y(m, NULL, NULL, NULL, NULL), product_dx(m, NULL, NULL, NULL, false),
                                  product_dw(m, NULL, NULL, NULL, false)};
    int64_t most = 0;
    for (int i = 0; i < 3; i++) {
        int64_t bytes = LVN_ISA_NAME(lvn_gemm).scratch(&products[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* y of the rows in m, or, with finish(), more. */
static inline void linear_forward(const struct lvn_matmul *m, const struct lvn_gemm *y, void *scratch, int thread,
                                  int n_threads)
{
    LVN_ISA_NAME(lvn_gemm).run(y, (char *)scratch + thread * thread_scratch(m), thread, n_threads);
}

/* Whatever of dx (R,K), dw and db is not NULL. */
static inline void linear_gradients(const struct lvn_matmul *m, const float *x, const float *w, const float *dy,
                                    float *const din[3], const bool add[3], void *scratch, int thread, int n_threads)
{
    struct lvn_gemm dx = product_dx(m, dy, w, din[0], add[0]), dw = product_dw(m, x, dy, din[1], add[1]);
    void *mine = (char *)scratch + thread * thread_scratch(m);
    if (din[0]) LVN_ISA_NAME(lvn_gemm).run(&dx, mine, thread, n_threads);
    if (din[1]) LVN_ISA_NAME(lvn_gemm).run(&dw, mine, thread, n_threads);
    if (din[2]) column_sums(m, dy, din[2], add[2], thread, n_threads);
}

#endif

/* linear.h - matrix multiplication, for the plain kernels of linear and of the operations fused with it.
 *
 * x (R,K), w (K,N) if in_out, else (N,K), b (N) or NULL, y (R,N). */
#ifndef LVN_LINEAR_H
#define LVN_LINEAR_H

#include "ops/real.h"

struct lvn_matmul {
    int64_t R;  /* rows of x */
    int64_t K;  /* input features */
    int64_t N;  /* output features */
    int64_t wk; /* stride of the weight along the input features, in elements */
    int64_t wn; /* stride of the weight along the output features, in elements */
};

static inline struct lvn_matmul lvn_matmul_make(int64_t R, const struct lvn_desc *w, bool in_out)
{
    int64_t K = w->dim[in_out ? 0 : 1], N = w->dim[in_out ? 1 : 0];
    if (lvn_dtype_is_packed(w->dtype)) in_out = false; /* rows of blocks are outputs, whatever the shape */
    return (struct lvn_matmul){.R = R, .K = K, .N = N, .wk = in_out ? N : 1, .wn = in_out ? 1 : K};
}

/* y = x w + b, for one row. */
static inline void lvn_matmul_row(const struct lvn_matmul *m, const real *x, const real *w, const real *b, real *y)
{
    for (int64_t n = 0; n < m->N; n++) {
        double sum = b ? b[n] : 0;
        for (int64_t k = 0; k < m->K; k++) sum += (double)x[k] * w[k * m->wk + n * m->wn];
        y[n] = (real)sum;
    }
}

/* dx = dy w^T, for one row. */
static inline void lvn_matmul_row_dx(const struct lvn_matmul *m, const real *dy, const real *w, real *dx, bool add)
{
    for (int64_t k = 0; k < m->K; k++) {
        double sum = 0;
        for (int64_t n = 0; n < m->N; n++) sum += (double)dy[n] * w[k * m->wk + n * m->wn];
        lvn_put(&dx[k], add, sum);
    }
}

/* The required gradients call->din[0..2] of x, w and b, from dy (R,N). */
static inline void lvn_matmul_backward(const struct lvn_matmul *m, const struct lvn_call *call, const real *dy)
{
    const real *x = call->in[0].p, *w = call->in[1].p;
    real *dx = call->din[0].p, *dw = call->din[1].p, *db = call->din[2].p;
    for (int64_t r = 0; dx && r < m->R; r++) lvn_matmul_row_dx(m, dy + r * m->N, w, dx + r * m->K, call->add[0]);
    for (int64_t k = 0; dw && k < m->K; k++)
        for (int64_t n = 0; n < m->N; n++) {
            double sum = 0;
            for (int64_t r = 0; r < m->R; r++) sum += (double)x[r * m->K + k] * dy[r * m->N + n];
            lvn_put(&dw[k * m->wk + n * m->wn], call->add[1], sum);
        }
    for (int64_t n = 0; db && n < m->N; n++) {
        double sum = 0;
        for (int64_t r = 0; r < m->R; r++) sum += dy[r * m->N + n];
        lvn_put(&db[n], call->add[2], sum);
    }
}

/* Multiplications and additions: one matrix multiplication in forward; in backward one for each required dx and dw. */
static inline double lvn_matmul_flops(const struct lvn_call *call, const struct lvn_matmul *m)
{
    int products = call->phase == LVN_BACKWARD ? (call->din[0].desc != NULL) + (call->din[1].desc != NULL)
                                               : call->phase == LVN_FORWARD;
    return products * 2.0 * (double)m->R * (double)m->K * (double)m->N;
}

#endif

/* layernorm.h - layer normalization of one row, for the plain kernels of layernorm and residual_layernorm.
 *
 * Ba, Kiros, Hinton: "Layer normalization" (2016), with the biased variance, computed in two passes. */
#ifndef LVN_LAYERNORM_H
#define LVN_LAYERNORM_H

#include "ops/real.h"

/* Mean and reciprocal standard deviation of a row x (C). */
static inline void lvn_layernorm_moments(const real *x, int64_t C, double eps, real *mean, real *rstd)
{
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < C; c++) sum += x[c];
    double m = sum / (double)C;
    for (int64_t c = 0; c < C; c++) squares += (x[c] - m) * (x[c] - m);
    *mean = (real)m;
    *rstd = (real)(1 / sqrt(squares / (double)C + eps));
}

/* y (C) of a row. It reads only values that are retained for backward, so forward and restore give the same bits. */
static inline void lvn_layernorm_row(const real *x, real mean, real rstd, const real *gamma, const real *beta,
                                     int64_t C, real *y)
{
    for (int64_t c = 0; c < C; c++) y[c] = (x[c] - mean) * rstd * gamma[c] + (beta ? beta[c] : 0);
}

/* The means over a row that its gradient requires, with g = dy * gamma. */
struct lvn_layernorm_means {
    double g;  /* of g */
    double gx; /* of g * xhat */
};
static inline struct lvn_layernorm_means lvn_layernorm_row_means(const real *x, const real *dy, real mean, real rstd,
                                                                 const real *gamma, int64_t C)
{
    struct lvn_layernorm_means m = {0, 0};
    for (int64_t c = 0; c < C; c++) {
        double g = (double)dy[c] * gamma[c];
        m.g += g;
        m.gx += g * (((double)x[c] - mean) * rstd);
    }
    m.g /= (double)C;
    m.gx /= (double)C;
    return m;
}

/* dgamma (C) and dbeta (C), sums over the rows in order. NULL: not needed. */
static inline void lvn_layernorm_backward_vectors(const real *x, const real *dy, const real *mean, const real *rstd,
                                                  int64_t rows, int64_t C, real *dgamma, bool add_gamma, real *dbeta,
                                                  bool add_beta)
{
    for (int64_t c = 0; c < C; c++) {
        double g = 0, b = 0;
        for (int64_t r = 0; r < rows; r++) {
            g += dy[r * C + c] * (((double)x[r * C + c] - mean[r]) * rstd[r]);
            b += dy[r * C + c];
        }
        if (dgamma) lvn_put(&dgamma[c], add_gamma, g);
        if (dbeta) lvn_put(&dbeta[c], add_beta, b);
    }
}

#endif

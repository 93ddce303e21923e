/* muon.h - sizes and constants of Muon's kernels; see muon.c. */
#ifndef LVN_MUON_H
#define LVN_MUON_H

#include <math.h>

#include "graph/op.h"

/* Coefficients of the Newton-Schulz iteration: it takes every singular value between 0 and 1 near 1. */
static const double muon_a = 3.4445, muon_b = -4.7750, muon_c = 2.0315;
static const double muon_eps = 1e-7; /* smallest norm by which the direction is divided */

/* A matrix: (rows,columns), which are (inputs,outputs) of its linear map. */
struct muon {
    int64_t rows, columns;
    int64_t n;    /* elements */
    int64_t side; /* of the smaller Gram matrix: min(rows, columns) */
    bool tall;    /* rows > columns: the Gram matrix is X^T X, else X X^T */
    double ratio; /* of the step to the learning rate */
};

/* matrix: description of the gradient. */
static inline struct muon muon_make(const struct lvn_desc *matrix, const union lvn_attr *attr)
{
    const int64_t rows = matrix->dim[0], columns = matrix->dim[1];
    const bool tall = rows > columns;
    const double original = tall ? 1 : sqrt((double)columns / (double)rows);
    const double ratio = attr->muon.original ? original : 0.2 * sqrt((double)(tall ? rows : columns));
    return (struct muon){rows, columns, rows * columns, tall ? columns : rows, tall, ratio};
}

/* Multiplications and additions: of each iteration two products with the matrix, and one of Gram matrices. */
static inline double muon_flops(const struct muon *m, int64_t steps)
{
    const double side = (double)m->side, n = (double)m->n;
    return (double)steps * 2.0 * side * (2.0 * n + side * side);
}

#endif

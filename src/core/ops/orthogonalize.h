/* orthogonalize.h - sizes and constants of the kernels of orthogonalize; see orthogonalize.c. */
#ifndef LVN_ORTHOGONALIZE_H
#define LVN_ORTHOGONALIZE_H

#include <math.h>

#include "graph/op.h"

/* Coefficients of the Newton-Schulz iteration: it moves every singular value between 0 and 1 close to 1. */
static const double schulz_a = 3.4445, schulz_b = -4.7750, schulz_c = 2.0315;
static const double smallest_norm = 1e-7; /* minimum divisor of the matrix */

struct matrix {
    int64_t rows, columns;
    int64_t n;    /* elements */
    int64_t side; /* of the smaller Gram matrix: min(rows, columns) */
    bool tall;    /* rows > columns: the Gram matrix is X^T X, else X X^T */
};

static inline struct matrix matrix_make(const struct lvn_desc *d)
{
    const int64_t rows = d->dim[0], columns = d->dim[1];
    const bool tall = rows > columns;
    return (struct matrix){rows, columns, rows * columns, tall ? columns : rows, tall};
}

#endif

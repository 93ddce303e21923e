/* orthogonalize.h - sizes and constants of the kernels of orthogonalize; see orthogonalize.c. */
#ifndef LVN_ORTHOGONALIZE_H
#define LVN_ORTHOGONALIZE_H

#include "graph/op.h"

/* Coefficients of the Newton-Schulz iteration: it moves every singular value between 0 and 1 close to 1. */
static const double schulz_a = 3.4445, schulz_b = -4.7750, schulz_c = 2.0315;
static const double smallest_norm = 1e-7; /* minimum divisor of the matrix */

/* Coefficients of an iteration. */
struct polynomial {
    double a, b, c;
};
/* "Polar express": the best polynomial for each of five iterations, after a division by 1.01 times the norm. Amsel,
 * Persson, Musco, Gower: "The polar express" (2025), for singular values from 2e-2 on; as in nanochat. */
enum { POLAR_STEPS = 5 };
static const double polar_margin = 1.01, polar_smallest = 1e-6; /* smallest: norms are at least this */

static inline struct polynomial polynomial_of(bool polar_express, int64_t step)
{
    static const struct polynomial polar[POLAR_STEPS] = {
        {8.156554524902461, -22.48329292557795, 15.878769915207462},
        {4.042929935166739, -2.808917465908714, 0.5000178451051316},
        {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
        {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
        {2.3465413258596377, -1.7097828382687081, 0.42323551169305323},
    };
    return polar_express ? polar[step] : (struct polynomial){schulz_a, schulz_b, schulz_c};
}

/* max(x, least), and `least` if x is NaN. */
static inline double at_least(double least, double x)
{
    return x > least ? x : least;
}

/* Scaling of X to columns of equal norm, and to a norm a little below 1: column j is multiplied by polar_common() /
 * polar_column(squares[j]). squares: the sum of squares of each column. */
static inline double polar_column(double squares)
{
    return at_least(polar_smallest, sqrt(squares));
}
static inline double polar_common(int64_t columns, const double *squares)
{
    double all = 0, scaled = 0;
    for (int64_t j = 0; j < columns; j++) all += squares[j];
    const double target = sqrt(all / (double)columns);
    for (int64_t j = 0; j < columns; j++) scaled += squares[j] / (polar_column(squares[j]) * polar_column(squares[j]));
    return target / (target * sqrt(scaled) * polar_margin + polar_smallest);
}

struct matrix {
    int64_t rows, columns;
    int64_t n;     /* elements */
    int64_t side;  /* of the smaller Gram matrix: min(rows, columns) */
    int64_t lines; /* max(rows, columns): lines are rows if the matrix is tall, else columns */
    bool tall;     /* rows > columns: the Gram matrix is X^T X, else X X^T */
};

static inline struct matrix matrix_make(const struct lvn_desc *d)
{
    const int64_t rows = d->dim[0], columns = d->dim[1];
    const bool tall = rows > columns;
    return (struct matrix){rows, columns, rows * columns, tall ? columns : rows, tall ? rows : columns, tall};
}

/* The factor that gives a result the norm of an orthogonal matrix. squares: the sum of squares of each line. */
static inline double polar_rescale(const struct matrix *z, const double *squares)
{
    double all = 0;
    for (int64_t j = 0; j < z->lines; j++) all += squares[j];
    return sqrt((double)z->side) / at_least(polar_smallest, sqrt(all));
}

/* NorMuon (Li et al.: "NorMuon: making Muon more efficient and scalable", 2025), as in nanochat: each line is divided
 * by the root of the running mean of its mean square, and the matrix keeps its norm. Line j, scaled by polar_rescale(),
 * is multiplied by line_factor() * line_common(). */
static const double line_decay = 0.9, smallest_line = 1e-10; /* decay rate of the running mean */

/* The line's next moment. */
static inline double line_moment(const struct matrix *z, double moment, double squares, double rescale)
{
    return moment + (1 - line_decay) * (squares * rescale * rescale / (double)z->side - moment);
}
static inline double line_factor(double moment)
{
    return 1 / sqrt(at_least(smallest_line, moment));
}
/* before, after: sums of the squares of all elements, before and after multiplication by line_factor(). */
static inline double line_common(double before, double after)
{
    return sqrt(before) / at_least(smallest_line, sqrt(after));
}

#endif

/* gemm_few.h - products with few rows: generating text, a token at a time.
 *
 * Each number of B is then used once or a few times, and reading it from memory is all the work. So nothing is packed:
 * B is read from where it is, in the order in which it lies there. The sums are those of the tiles, in the same order:
 * the bits are the same.
 *
 * Where the rows of B lie together, a few of them at a time are added to sums that stay in the first cache. Where its
 * columns do (a weight stored (out,in)), GL of them are walked down together. */
#ifndef LVN_GEMM_FEW_H
#define LVN_GEMM_FEW_H

#include "backend/cpu/gemm_pack.h"

enum { FEW = 4, FEW_COLUMNS = 2048, STEPS = 4 };

/* One block of k, of a strip of columns. */
struct few {
    int64_t k, n;
    const float *a;
    int64_t a_row, a_col;
    const float *b;
    int64_t b_row, b_col;
    float *c;
    int64_t c_row;
    const float *start; /* added at the end; NULL: nothing */
    int64_t start_row;
    float *sums; /* (rows, FEW_COLUMNS) */
};

LVN_INLINE void few_store(const struct few *f, int64_t r, int64_t j, gv sum, int64_t n)
{
    float *c = f->c + r * f->c_row + j;
    const float *start = f->start + r * f->start_row + j;
    if (n >= GL)
        gstore(c, f->start ? sum + gload(start) : sum + gset(0));
    else
        gstore_n(c, f->start ? sum + gload_n(start, n) : sum + gset(0), n);
}

/* sums += `steps` steps of k, for the vector of columns at j. */
LVN_INLINE void few_step(const struct few *f, const float *b, gv x[FEW][STEPS], const int rows, const int steps,
                         int64_t j)
{
    gv w[STEPS];
    UNROLLED
    for (int s = 0; s < steps; s++)
        w[s] = f->n - j >= GL ? gload(b + s * f->b_row + j) : gload_n(b + s * f->b_row + j, f->n - j);
    UNROLLED
    for (int r = 0; r < rows; r++) {
        gv sum = gload(f->sums + r * FEW_COLUMNS + j);
        UNROLLED
        for (int s = 0; s < steps; s++) sum = gfma(x[r][s], w[s], sum);
        gstore(f->sums + r * FEW_COLUMNS + j, sum);
    }
}

LVN_INLINE void few_steps(const struct few *f, int64_t k, const int rows, const int steps)
{
    gv x[FEW][STEPS];
    const float *b = f->b + k * f->b_row;
    int64_t j = 0;
    UNROLLED
    for (int r = 0; r < rows; r++) {
        UNROLLED
        for (int s = 0; s < steps; s++) x[r][s] = gset(f->a[r * f->a_row + (k + s) * f->a_col]);
    }
    for (; j + GL <= f->n; j += GL) few_step(f, b, x, rows, steps, j);
    if (j < f->n) few_step(f, b, x, rows, steps, j);
}

/* b_col == 1 */
LVN_INLINE void few_by_rows(const struct few *f, const int rows)
{
    int64_t k = 0;
    for (int r = 0; r < rows; r++)
        for (int64_t j = 0; j < f->n; j += GL) gstore(f->sums + r * FEW_COLUMNS + j, gset(0));
    for (; k + STEPS <= f->k; k += STEPS) few_steps(f, k, rows, STEPS);
    for (; k < f->k; k++) few_steps(f, k, rows, 1);
    for (int r = 0; r < rows; r++)
        for (int64_t j = 0; j < f->n; j += GL) few_store(f, r, j, gload(f->sums + r * FEW_COLUMNS + j), f->n - j);
}

/* One step of k of GL columns, of which n are there. */
LVN_INLINE gv few_gather(const struct few *f, int64_t k, int64_t j, int64_t n)
{
    float x[GL] = {0};
    for (int64_t l = 0; l < n; l++) x[l] = f->b[k * f->b_row + (j + l) * f->b_col];
    return gload(x);
}

/* b_row == 1, or any distances. */
LVN_INLINE void few_by_columns(const struct few *f, const int rows)
{
    for (int64_t j = 0; j < f->n; j += GL) {
        int64_t n = f->n - j < GL ? f->n - j : GL, k = 0;
        const float *b = f->b + j * f->b_col;
        gv sum[FEW];
        UNROLLED
        for (int r = 0; r < rows; r++) sum[r] = gset(0);
        for (; f->b_row == 1 && n == GL && k + STEPS <= f->k; k += STEPS) {
            gv w[STEPS];
            transpose4(b + k, f->b_col, w);
            /* The next columns' numbers of this k: GL streams are more than the processor follows by itself. */
            if (k % 16 == 0)
                for (int l = 0; l < GL; l++) __builtin_prefetch(b + (GL + l) * f->b_col + k, 0, 2);
            UNROLLED
            for (int s = 0; s < STEPS; s++) {
                UNROLLED
                for (int r = 0; r < rows; r++)
                    sum[r] = gfma(gset(f->a[r * f->a_row + (k + s) * f->a_col]), w[s], sum[r]);
            }
        }
        for (; k < f->k; k++) {
            gv w = few_gather(f, k, j, n);
            UNROLLED
            for (int r = 0; r < rows; r++) sum[r] = gfma(gset(f->a[r * f->a_row + k * f->a_col]), w, sum[r]);
        }
        UNROLLED
        for (int r = 0; r < rows; r++) few_store(f, r, j, sum[r], n);
    }
}

static void few_run(const struct few *f, int64_t rows)
{
    bool by_rows = f->b_col == 1;
    switch (rows) {
    case 1:
        return by_rows ? few_by_rows(f, 1) : few_by_columns(f, 1);
    case 2:
        return by_rows ? few_by_rows(f, 2) : few_by_columns(f, 2);
    case 3:
        return by_rows ? few_by_rows(f, 3) : few_by_columns(f, 3);
    default:
        return by_rows ? few_by_rows(f, 4) : few_by_columns(f, 4);
    }
}

#endif

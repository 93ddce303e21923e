/* orthogonalize.cpu.c - orthogonalize on CPUs: Newton-Schulz iterations and polar express. It multiplies with
 * backend/cpu/gemm.h, so bits do not depend on the number of threads; b G + c G G and a X + H X are completed while a
 * tile is in the cache.
 *
 * If multiplications round their operands to bf16, a I is added to H instead, and X, G and H are stored in bf16, as
 * nanochat does; results of multiplications are fp32 until then, and only blocks of them are in memory. G and G G are
 * symmetric: of blocks that are not on the diagonal one half is computed, and the other half copied. */
#include "ops/orthogonalize.h"

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/gemm.h"
#if defined(__AVX512BF16__)
#include "backend/cpu/pairs.h"
#endif
#include "base/threads.h"
#include "ops/grad_norm_cpu.h"

/* X and the next X alternate between out[0] and scratch. Scratch: an X, the Gram matrix, H, their bf16 copies, sums of
 * squares of blocks, factors of lines, and a part for each thread. With `bf16` both X are bf16, in the space of one
 * fp32 X, out[0] receives the last X, and `gram`, `h` and `x` are only written if multiplications need the space. */
struct parts {
    float *x, *next, *gram, *h;
    uint16_t *x_bf16, *next_bf16, *gram_bf16, *h_bf16;
    double *squares;
    float *factors;
    bool bf16; /* operands of multiplications are bf16 */
    char *threads;
    int64_t thread_bytes;
};

static int64_t aligned(int64_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* X X^T, or X^T X. */
static struct lvn_gemm gram_of(const struct matrix *z, const void *x, float *gram)
{
    struct lvn_gemm g = {.m = z->side, .n = z->side, .k = z->n / z->side, .a = x, .b = x, .c = gram, .c_row = z->side};
    g.a_row = g.b_col = z->tall ? 1 : z->columns;
    g.a_col = g.b_row = z->tall ? z->columns : 1;
    g.symmetric = true;
    return g;
}

/* a b, of row-major matrices. */
static struct lvn_gemm product(int64_t m, int64_t n, int64_t k, const void *a, const void *b, float *c)
{
    return (struct lvn_gemm){
        .m = m, .n = n, .k = k, .a = a, .a_row = k, .a_col = 1, .b = b, .b_row = n, .b_col = 1, .c = c, .c_row = n};
}

static struct lvn_gemm product_x(const struct matrix *z, const void *x, const void *h, float *next)
{
    return product(z->rows, z->columns, z->side, z->tall ? x : h, z->tall ? h : x, next);
}

/* Floats before the threads' parts. */
static int64_t shared_floats(const struct matrix *z)
{
    const int64_t blocks = lvn_norm_blocks(z->n), sums = blocks > z->lines ? blocks : z->lines;
    return aligned(z->n) + 3 * aligned(z->side * z->side) + 2 * aligned(sums) + aligned(z->lines);
}

static void set_type(struct lvn_gemm *g, bool bf16)
{
    g->bf16 = g->a_bf16 = g->b_bf16 = bf16;
}

/* Are all operands rounded to bf16? */
static bool rounds(const struct matrix *z, const struct lvn_call *call)
{
    struct lvn_gemm gram = gram_of(z, NULL, NULL), x = product_x(z, NULL, NULL, NULL);
    set_type(&gram, true), set_type(&x, true);
    return call->matmul_dtype == LVN_BF16 && LVN_ISA_NAME(lvn_gemm).rounds(&gram) && LVN_ISA_NAME(lvn_gemm).rounds(&x);
}

static int64_t thread_bytes(const struct matrix *z, const struct lvn_call *call)
{
    struct lvn_gemm all[] = {gram_of(z, NULL, NULL), product(z->side, z->side, z->side, NULL, NULL, NULL),
                             product_x(z, NULL, NULL, NULL)};
    int64_t bytes = 0;
    for (int k = 0; k < 3; k++) {
        set_type(&all[k], rounds(z, call));
        const int64_t one = LVN_ISA_NAME(lvn_gemm).scratch(&all[k]);
        if (one > bytes) bytes = one;
    }
    return bytes;
}

/* The last X is in out[0]. */
static struct parts parts_of(const struct matrix *z, const struct lvn_call *call)
{
    const int64_t n = aligned(z->n), square = aligned(z->side * z->side);
    const bool odd = call->attr->orthogonalize.steps % 2, bf16 = rounds(z, call);
    float *out = call->out[0].p, *scratch = call->scratch;
    return (struct parts){.x = bf16 || !odd ? out : scratch,
                          .next = bf16 || odd ? out : scratch,
                          .x_bf16 = (uint16_t *)scratch,
                          .next_bf16 = (uint16_t *)scratch + n,
                          .gram_bf16 = (uint16_t *)(scratch + n + 2 * square),
                          .h_bf16 = (uint16_t *)(scratch + n + 2 * square) + square,
                          .gram = scratch + n,
                          .h = scratch + n + square,
                          .squares = (double *)(scratch + n + 3 * square),
                          .bf16 = bf16,
                          .factors = scratch + shared_floats(z) - aligned(z->lines),
                          .threads = (char *)(scratch + shared_floats(z)),
                          .thread_bytes = thread_bytes(z, call)};
}

/* --- multiplications --- */

/* What to do with a result: c = product_factor c + factor from + diagonal I; without `from` it is only rounded. */
struct sum {
    const void *from; /* of the shape of c, and bf16 if the result is; NULL: none */
    float factor, product_factor, diagonal;
    uint16_t *rounded; /* the result in bf16; NULL: in c */
};

#if defined(__AVX512BF16__)
/* Copy a block of a symmetric matrix in bf16 to the other side of the diagonal. */
static void mirror(uint16_t *z, int64_t row, int64_t i0, int64_t m, int64_t j0, int64_t n)
{
    if (m == LVN_GEMM_BLOCK && n == LVN_GEMM_BLOCK) {
        pairs_transpose_block(z + i0 * row + j0, row, z + j0 * row + i0, row);
        return;
    }
    for (int64_t i = i0; i < i0 + m; i++)
        for (int64_t j = j0; j < j0 + n; j++) z[j * row + i] = z[i * row + j];
}

/* Round one row of a block: n elements from element `at` of the result on; the diagonal's is the `to`-th. */
LVN_INLINE void round_row(const struct sum *s, const float *c, int64_t at, int64_t n, int64_t to, const bool from,
                          const bool full)
{
    for (int64_t x = 0; x < n; x += LVN_LANES) {
        const int64_t lanes = full || n - x > LVN_LANES ? LVN_LANES : n - x;
        vf sum = full ? vload(c + x) : vload_n(c + x, lanes);
        if (from) {
            const vf addend = full ? vread(s->from, at + x, true) : vread_n(s->from, at + x, lanes, true);
            sum = vfma(vset(s->product_factor), sum, addend * s->factor);
        }
        if (to >= x && to < x + lanes) {
            float unit[LVN_LANES] = {0};
            unit[to - x] = s->diagonal;
            sum += vload(unit);
        }
        if (full)
            vstore_bf16(s->rounded + at + x, bf16_of_vf(sum));
        else
            vstore_bf16_n(s->rounded + at + x, bf16_of_vf(sum), lanes);
    }
}

/* lvn_gemm.finish: of a result in bf16. */
static void round_block(const struct lvn_gemm *g, float *c, int64_t row, int64_t i0, int64_t m, int64_t j, int64_t n)
{
    const struct sum *s = g->argument;
    for (int64_t i = i0; i < i0 + m; i++, c += row) {
        const int64_t at = i * g->c_row + j, to = s->from ? i - j : -1;
        if (n % LVN_LANES)
            round_row(s, c, at, n, to, s->from, false);
        else if (s->from)
            round_row(s, c, at, n, to, true, true);
        else
            round_row(s, c, at, n, -1, false, true);
    }
    if (g->symmetric && !g->c && i0 != j) mirror(s->rounded, g->c_row, i0, m, j, n);
}

#endif

/* The same in fp32. */
static void add_block(const struct lvn_gemm *g, float *c, int64_t row, int64_t i0, int64_t m, int64_t j, int64_t n)
{
    const struct sum *s = g->argument;
    for (int64_t i = i0; i < i0 + m; i++, c += row) {
        const float *from = (const float *)s->from + i * g->c_row + j;
        for (int64_t x = 0; x < n; x += LVN_LANES) {
            const int64_t lanes = n - x < LVN_LANES ? n - x : LVN_LANES;
            vstore_n(c + x, vload_n(c + x, lanes) * s->product_factor + vload_n(from + x, lanes) * s->factor, lanes);
        }
    }
}

static void run(const struct parts *p, struct lvn_gemm g, const struct sum *sum, int thread, int n_threads)
{
    set_type(&g, p->bf16);
    g.finish = sum ? add_block : NULL;
#if defined(__AVX512BF16__)
    if (sum && sum->rounded) g.finish = round_block;
#endif
    g.argument = sum;
    if (sum && sum->rounded && LVN_ISA_NAME(lvn_gemm).buffers(&g)) g.c = NULL;
    LVN_ISA_NAME(lvn_gemm).run(&g, p->threads + thread * p->thread_bytes, thread, n_threads);
    lvn_team_barrier();
}

#if defined(__AVX512BF16__)
static void iterate_in_bf16(struct parts *p, const struct matrix *z, const struct polynomial *q, bool last, int thread,
                            int n_threads)
{
    const int64_t S = z->side;
    const struct sum gram = {.rounded = p->gram_bf16}, next = {.rounded = p->next_bf16};
    const struct sum h = {p->gram_bf16, (float)q->b, (float)q->c, (float)q->a, p->h_bf16};
    struct lvn_gemm square = product(S, S, S, p->gram_bf16, p->gram_bf16, p->h);
    square.symmetric = true;
    run(p, gram_of(z, p->x_bf16, p->gram), &gram, thread, n_threads);
    run(p, square, &h, thread, n_threads);
    run(p, product_x(z, p->x_bf16, p->h_bf16, p->x), last ? NULL : &next, thread, n_threads);
    uint16_t *x = p->next_bf16;
    p->next_bf16 = p->x_bf16;
    p->x_bf16 = x;
}

#endif

static void iterate(struct parts *p, const struct matrix *z, const struct polynomial *q, int thread, int n_threads)
{
    const int64_t S = z->side;
    const struct sum h = {p->gram, (float)q->b, (float)q->c, 0, NULL}, next = {p->x, (float)q->a, 1, 0, NULL};
    run(p, gram_of(z, p->x, p->gram), NULL, thread, n_threads);
    run(p, product(S, S, S, p->gram, p->gram, p->h), &h, thread, n_threads);
    run(p, product_x(z, p->x, p->h, p->next), &next, thread, n_threads);
    float *x = p->next;
    p->next = p->x;
    p->x = x;
}

/* Set n elements of x, or of x_bf16 if that is not NULL: those of `from` times their `factors`, or times `factor` if
 * that is NULL. */
static void scale(float *x, uint16_t *x_bf16, const float *from, const float *factors, float factor, int64_t n)
{
    for (int64_t i = 0; i < n; i += LVN_LANES) {
        const int64_t lanes = n - i < LVN_LANES ? n - i : LVN_LANES;
        const vf y = vload_n(from + i, lanes) * (factors ? vload_n(factors + i, lanes) : vset(factor));
        if (x_bf16)
            vstore_bf16_n(x_bf16 + i, bf16_of_vf(y), lanes);
        else
            vstore_n(x + i, y, lanes);
    }
}

/* Set n elements of x from element `at` on. */
static void set_x(const struct parts *p, const float *from, int64_t at, int64_t n, const float *factors, float factor)
{
    scale(p->x + at, p->bf16 ? p->x_bf16 + at : NULL, from + at, factors, factor, n);
}

/* Set x to the operand divided by its norm. The operand may be x, so a thread reads and writes the same blocks. */
static void normalize(const struct parts *p, const struct matrix *z, const struct lvn_call *call, int thread,
                      int n_threads)
{
    const int64_t blocks = lvn_norm_blocks(z->n);
    const float *from = call->in[0].p;
    int64_t b, last;
    double squares = 0;
    lvn_thread_range(blocks, 1, thread, n_threads, &b, &last);
    norm_blocks(&call->in[0], z->n, p->squares, b, last);
    lvn_team_barrier();
    for (int64_t k = 0; k < blocks; k++) squares += p->squares[k];
    const float factor = (float)(1 / fmax(sqrt(squares), smallest_norm));
    const int64_t i = b * LVN_NORM_BLOCK, end = last * LVN_NORM_BLOCK < z->n ? last * LVN_NORM_BLOCK : z->n;
    set_x(p, from, i, end - i, NULL, factor);
    lvn_team_barrier();
}

/* --- polar express --- */

/* The sums of squares of columns [j, end), each in the order of the rows. */
static void column_squares(const struct matrix *z, const float *x, double *squares, int64_t j, int64_t end)
{
    enum { STRIPS = 4 }; /* at a time, so that additions overlap */
    for (int64_t n; j < end; j += n) {
        n = end - j < STRIPS * LVN_LANES ? end - j : STRIPS * LVN_LANES;
        struct sums sums[STRIPS] = {0};
        for (int64_t i = 0; i < z->rows; i++)
            for (int64_t k = 0; k < n; k += LVN_LANES) {
                float part[LVN_LANES];
                vstore(part, vload_n(x + i * z->columns + j + k, n - k < LVN_LANES ? n - k : LVN_LANES));
                sums[k / LVN_LANES] = add_squares(sums[k / LVN_LANES], part);
            }
        memcpy(squares + j, sums, (size_t)n * sizeof *squares);
    }
}

/* The sums of squares of rows [i, end). */
static void row_squares(const struct matrix *z, const float *x, double *squares, int64_t i, int64_t end)
{
    for (; i < end; i++) squares[i] = sums_fold(add_range((struct sums){0}, x + i * z->columns, false, z->columns));
}

/* Set x to the operand, with columns scaled to equal norm and the matrix to a norm a little below 1. */
static void equalize(const struct parts *p, const struct matrix *z, const float *from, int thread, int n_threads)
{
    int64_t j, end;
    lvn_thread_range(z->columns, 16, thread, n_threads, &j, &end);
    column_squares(z, from, p->squares, j, end);
    lvn_team_barrier();
    const double common = polar_common(z->columns, p->squares);
    for (int64_t k = j; k < end; k++) p->factors[k] = (float)(common / polar_column(p->squares[k]));
    for (int64_t i = 0; i < z->rows; i++) set_x(p, from, i * z->columns + j, end - j, p->factors + j, 0);
    lvn_team_barrier();
}

/* The end of polar express: scale the lines of x. Each thread has a range of lines. */
static void finish_polar(const struct parts *p, const struct matrix *z, const struct lvn_call *call, int thread,
                         int n_threads)
{
    int64_t j, end;
    float *moments = call->out[1].p;
    double before = 0, after = 0;
    lvn_thread_range(z->lines, 16, thread, n_threads, &j, &end);
    if (z->tall)
        row_squares(z, p->x, p->squares, j, end);
    else
        column_squares(z, p->x, p->squares, j, end);
    lvn_team_barrier();
    const double rescale = polar_rescale(z, p->squares);
    for (int64_t k = j; k < end; k++) moments[k] = (float)line_moment(z, moments[k], p->squares[k], rescale);
    lvn_team_barrier();
    for (int64_t k = 0; k < z->lines; k++) {
        const double all = p->squares[k] * rescale * rescale, factor = line_factor(moments[k]);
        before += all;
        after += all * factor * factor;
    }
    const double common = line_common(before, after) * rescale;
    for (int64_t k = j; k < end; k++) p->factors[k] = (float)(line_factor(moments[k]) * common);
    for (int64_t i = z->tall ? j : 0; i < (z->tall ? end : z->rows); i++) {
        float *x = p->x + i * z->columns;
        if (z->tall)
            scale(x, NULL, x, NULL, p->factors[i], z->columns);
        else
            scale(x + j, NULL, x + j, p->factors + j, 0, end - j);
    }
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    if (call->result->clip_scale == 0) return;
    const struct matrix z = matrix_make(call->in[0].desc);
    const bool polar = call->attr->orthogonalize.polar_express;
    struct parts p = parts_of(&z, call);
    if (polar)
        equalize(&p, &z, call->in[0].p, thread, n_threads);
    else
        normalize(&p, &z, call, thread, n_threads);
    for (int64_t k = 0; k < call->attr->orthogonalize.steps; k++) {
        const struct polynomial q = polynomial_of(polar, k);
#if defined(__AVX512BF16__)
        if (p.bf16) {
            iterate_in_bf16(&p, &z, &q, k + 1 == call->attr->orthogonalize.steps, thread, n_threads);
            continue;
        }
#endif
        iterate(&p, &z, &q, thread, n_threads);
    }
    if (polar) finish_polar(&p, &z, call, thread, n_threads);
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    const struct matrix z = matrix_make(call->in[0].desc);
    return shared_floats(&z) * (int64_t)sizeof(float) + thread_bytes(&z, call) * n_threads;
}

LVN_CPU_OPERATION(orthogonalize, .forward = forward, .scratch = scratch);

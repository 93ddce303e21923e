/* test_gemm.c - covers: src/core/backend/cpu/gemm.cpu.c src/core/backend/cpu/cpu_kernels.c
 *
 * label: slow
 * The matrix multiplication against a plain double loop, over odd sizes, all strides and all instruction sets; and that
 * its bits depend on nothing but the numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/gemm.h"
#include "base/random.h"
#include "base/threads.h"
#include "host/pages.h"
#include "packed/ggml_blocks.h"

enum { TILES = LVN_ISA_COUNT };

/* gemm_tiles.cpu.c: AMX without AMX, but with the processor's other instructions. */
#if defined(LVN_X86)
extern const struct lvn_gemm_kernel lvn_gemm_tiles;
#else
#define lvn_gemm_tiles lvn_gemm_generic
#endif

static bool has_tiles(void)
{
    return lvn_isa_processor() >= LVN_ISA_AVX512_BF16;
}

static struct lvn_gemm_kernel kernel_of(int isa)
{
    return isa == TILES ? lvn_gemm_tiles : *lvn_gemm_kernel((enum lvn_isa)isa);
}

static float number(uint64_t seed, int64_t i)
{
    return lvn_uniform(lvn_philox(seed, (uint32_t)i, (uint32_t)(i >> 32), 0, LVN_STREAM_TEST).v[0]) - 0.5f;
}

static float *numbers(uint64_t seed, int64_t n)
{
    float *p = malloc((size_t)n * sizeof *p + 1);
    for (int64_t i = 0; i < n; i++) p[i] = number(seed, i);
    return p;
}

static void poison(float *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) p[i] = NAN;
}

/* The nearest bf16, ties to even. */
static uint16_t half(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* p[i] become what bf16 holds; the same numbers as bf16 come back. */
static uint16_t *halves(float *p, int64_t n)
{
    uint16_t *h = malloc((size_t)n * sizeof *h + 1);
    for (int64_t i = 0; i < n; i++) {
        h[i] = half(p[i]);
        uint32_t u = (uint32_t)h[i] << 16;
        memcpy(&p[i], &u, sizeof u);
    }
    return h;
}

/* Which operands are bf16, and whether the others may be rounded to it. */
enum { A_BF16 = 1, B_BF16 = 2, ROUND = 4, TYPES = 8 };

enum { GAP = 3 };                               /* unused numbers after each row */
enum layout { ROWS, COLUMNS, SPREAD, LAYOUTS }; /* which elements are contiguous; SPREAD: none */

/* A matrix (rows, columns) of the layout: how large, and its distances. */
static int64_t lay_out(enum layout l, int64_t rows, int64_t columns, int64_t *row, int64_t *column)
{
    *row = l == ROWS ? columns + GAP : l == COLUMNS ? 1 : 2 * columns + 1;
    *column = l == ROWS ? 1 : l == COLUMNS ? rows + GAP : 2;
    return (rows - 1) * *row + (columns - 1) * *column + 1;
}

struct finished {
    unsigned char *count; /* (M,N) */
    float *kept;          /* receives the blocks, laid out as C; NULL: they are in C */
};

static void count_pieces(const struct lvn_gemm *g, float *block, int64_t row, int64_t i0, int64_t m, int64_t j0,
                         int64_t n)
{
    const struct finished *f = g->argument;
    for (int64_t i = i0; i < i0 + m; i++)
        for (int64_t j = j0; j < j0 + n; j++) {
            const float x = block[(i - i0) * row + j - j0];
            assert_false(isnan(x));
            if (g->c) assert_ptr_equal(&block[(i - i0) * row + j - j0], &g->c[i * g->c_row + j]);
            if (f->kept) f->kept[i * g->c_row + j] = x;
            f->count[i * g->n + j]++;
        }
}

/* All threads' parts in sequence: no part waits for another. */
static void run(int isa, const struct lvn_gemm *g, int n_threads)
{
    int64_t bytes = kernel_of(isa).scratch(g);
    float *scratch = aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64 + 64);
    poison(scratch, bytes / 4);
    memset((char *)scratch + bytes, 0x5a, 64);
    for (int thread = n_threads - 1; thread >= 0; thread--) kernel_of(isa).run(g, scratch, thread, n_threads);
    for (int i = 0; i < 64; i++) assert_int_equal(((char *)scratch)[bytes + i], 0x5a);
    free(scratch);
}

/* Blocks that are only in scratch have the bits of C, which is complete. */
static void check_buffered(int isa, struct lvn_gemm g, int n_threads)
{
    const float *c = g.c;
    struct finished f = {calloc((size_t)(g.m * g.n), 1), malloc((size_t)(g.m * g.c_row) * sizeof(float))};
    g.c = NULL;
    g.argument = &f;
    run(isa, &g, n_threads);
    for (int64_t i = 0; i < g.m; i++)
        for (int64_t j = 0; j < g.n; j++) {
            const bool left_out = g.symmetric && i / LVN_GEMM_BLOCK > j / LVN_GEMM_BLOCK;
            assert_int_equal(f.count[i * g.n + j], !left_out);
            if (!left_out) assert_memory_equal(&f.kept[i * g.c_row + j], &c[i * g.c_row + j], sizeof(float));
            if (g.symmetric) assert_memory_equal(&c[j * g.c_row + i], &c[i * g.c_row + j], sizeof(float));
        }
    free(f.count), free(f.kept);
}

static void check(int isa, int64_t m, int64_t n, int64_t k, enum layout la, enum layout lb, int mode, int n_threads,
                  int types)
{
    struct lvn_gemm g = {.m = m, .n = n, .k = k, .add = mode == 1, .c_row = n + GAP, .bf16 = types & ROUND};
    int64_t na = lay_out(la, m, k, &g.a_row, &g.a_col), nb = lay_out(lb, k, n, &g.b_row, &g.b_col);
    float *a = numbers(1, na), *b = numbers(2, nb), *bias = numbers(3, n), *c = numbers(4, m * g.c_row);
    float *before = numbers(4, m * g.c_row);
    struct finished f = {calloc((size_t)(m * n), 1), NULL};
    if (mode != 1) poison(c, m * g.c_row);
    uint16_t *a_bf16 = types & A_BF16 ? halves(a, na) : NULL, *b_bf16 = types & B_BF16 ? halves(b, nb) : NULL;
    g.a = a_bf16 ? (void *)a_bf16 : a, g.b = b_bf16 ? (void *)b_bf16 : b, g.a_bf16 = a_bf16, g.b_bf16 = b_bf16;
    g.c = c, g.bias = mode == 2 ? bias : NULL;
    g.finish = count_pieces, g.argument = &f;
    /* Rounding to bf16 is at most 2^-8 of each operand that is not bf16 already. */
    double rounding = types & ROUND ? (!a_bf16 + !b_bf16) / 256.0 : 0;
    run(isa, &g, n_threads);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < g.c_row; j++) {
            float found = c[i * g.c_row + j];
            if (j >= n) {
                assert_true(mode == 1 ? found == before[i * g.c_row + j] : isnan(found));
                continue;
            }
            double sum = mode == 1 ? before[i * g.c_row + j] : mode == 2 ? bias[j] : 0, size = fabs(sum);
            for (int64_t l = 0; l < k; l++) {
                double x = (double)a[i * g.a_row + l * g.a_col] * b[l * g.b_row + j * g.b_col];
                sum += x, size += fabs(x);
            }
            /* The bound of a chain of k roundings is k times larger; the error observed is far below a hundredth of
             * it. */
            if (!(fabs(found - sum) <= 4e-7 * (size + 1) + rounding * size))
                fail_msg(
                    "%s %lldx%lldx%lld layouts %d %d mode %d threads %d types %d: C(%lld,%lld) is %.9g, expected %.9g",
                    isa == TILES ? "AMX in plain C" : lvn_isa_name((enum lvn_isa)isa), (long long)m, (long long)n,
                    (long long)k, la, lb, mode, n_threads, types, (long long)i, (long long)j, (double)found, sum);
            assert_int_equal(f.count[i * n + j], 1);
        }
    if (kernel_of(isa).buffers(&g)) check_buffered(isa, g, n_threads);
    free(a), free(b), free(c), free(bias), free(before), free(f.count), free(a_bf16), free(b_bf16);
}

/* A A^T, of a matrix stored by rows or by columns: the blocks above the diagonal are the others', turned. */
static void symmetric_products(void **state)
{
    (void)state;
    static const int64_t sides[] = {16, 33, 64, 97, 288}, ks[] = {16, 64, 100, 544, 1100};
    for (int isa = 0; isa <= TILES; isa++)
        for (int n = 0; n < 5 * 5 * 2 * 2; n++) {
            const int64_t side = sides[n % 5], k = ks[n / 5 % 5], count = side * k;
            const bool bf16 = n / 25 % 2, tall = n / 50;
            if (isa < TILES ? isa > (int)lvn_isa_best() : !has_tiles()) continue;
            float *a = numbers(1, count), *c = malloc((size_t)(side * side) * sizeof *c);
            uint16_t *half = halves(a, count);
            struct finished f = {calloc((size_t)(side * side), 1), NULL};
            struct lvn_gemm g = {.m = side, .n = side, .k = k, .bf16 = true, .symmetric = true, .c = c, .c_row = side};
            g.a = g.b = bf16 ? (void *)half : a;
            g.a_bf16 = g.b_bf16 = bf16;
            g.a_row = g.b_col = tall ? 1 : k;
            g.a_col = g.b_row = tall ? side : 1;
            g.finish = count_pieces;
            g.argument = &f;
            if (kernel_of(isa).buffers(&g)) {
                run(isa, &g, 1);
                for (int threads = 1; threads <= 5; threads++) check_buffered(isa, g, threads);
            }
            free(a), free(c), free(half), free(f.count);
        }
}

/* With sanitizers, each size is computed in fewer combinations of layouts, and different sizes in different ones. */
#if defined(LVN_SANITIZED)
enum { EVERY = 5 };
#else
enum { EVERY = 1 };
#endif

static void odd_sizes(void **state)
{
    (void)state;
    static const int64_t ms[] = {1, 2, 3, 5, 6, 7, 13, 14, 15, 17, 29, 31, 113};
    static const int64_t ns[] = {1, 2, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 47, 65, 67};
    static const int64_t ks[] = {1, 2, 3, 4, 5, 7, 16, 37};
    static const int threads[] = {1, 2, 3, 8};
    int which = 0;
    for (int isa = 0; isa <= (int)lvn_isa_best(); isa++)
        for (size_t i = 0; i < sizeof ms / sizeof *ms; i++)
            for (size_t j = 0; j < sizeof ns / sizeof *ns; j++)
                for (size_t l = 0; l < sizeof ks / sizeof *ks; l++, which++)
                    for (int layout = which % EVERY; layout < LAYOUTS * LAYOUTS; layout += (1 + which % 2) * EVERY)
                        check(isa, ms[i], ns[j], ks[l], layout / LAYOUTS, layout % LAYOUTS, (which + layout) % 3,
                              threads[(which + layout / 2) % 4], 0);
}

static void many_blocks(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{31, 65, 513},  {15, 1000, 100}, {130, 33, 1300},
                                       {3, 481, 1537}, {127, 487, 61},  {1, 2997, 1025},
                                       {2, 64, 4096},  {5, 2100, 31},   {7, 131, 600}};
    for (int isa = 0; isa <= (int)lvn_isa_best(); isa++)
        for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++)
            for (int layout = i % EVERY; layout < LAYOUTS * LAYOUTS; layout += EVERY)
                check(isa, sizes[i][0], sizes[i][1], sizes[i][2], layout / LAYOUTS, layout % LAYOUTS, layout % 3,
                      1 + layout % 5, 0);
}

/* The error of A^T B, of the largest element, where K is a long batch. */
static double long_error(int isa, enum layout layout, bool add)
{
    enum { M = 17, N = 33, K = 1 << 16 };
    struct lvn_gemm g = {.m = M, .n = N, .k = K, .c_row = N, .add = add};
    int64_t na = lay_out(layout, M, K, &g.a_row, &g.a_col), nb = lay_out(ROWS, K, N, &g.b_row, &g.b_col);
    float *a = numbers(1, na), *b = numbers(2, nb), *c = numbers(3, M * N), *before = numbers(3, M * N);
    double *sum = calloc(M * N, sizeof *sum), error = 0, max = 0;
    for (int64_t l = 0; l < K; l++)
        for (int64_t i = 0; i < M; i++)
            for (int64_t j = 0; j < N; j++) sum[i * N + j] += (double)a[i * g.a_row + l * g.a_col] * b[l * g.b_row + j];
    g.a = a, g.b = b, g.c = c;
    run(isa, &g, 2);
    for (int64_t i = 0; i < M * N; i++) {
        const double expected = sum[i] + (add ? (double)before[i] : 0);
        max = fmax(max, fabs(expected)), error = fmax(error, fabs(c[i] - expected));
    }
    free(a), free(b), free(c), free(before), free(sum);
    return error / max;
}

/* Tests of numbers, which touch no memory that other tests do not. */
static void skip_under_sanitizers(void)
{
#if defined(LVN_SANITIZED)
    skip();
#endif
}

static void long_sums(void **state)
{
    (void)state;
    skip_under_sanitizers();
    for (int isa = 0; isa <= TILES; isa++) {
        if (isa == TILES ? !has_tiles() : isa > (int)lvn_isa_best()) continue;
        for (int add = 0; add < 2; add++) {
            double error = fmax(long_error(isa, ROWS, add), long_error(isa, COLUMNS, add));
            if (!(error < 7e-7)) fail_msg("instruction set %d, adding %d: %.3g", isa, add, error);
        }
    }
}

/* The matrix unit's products on processors without one. */
static void tiles(void **state)
{
    (void)state;
    if (!has_tiles()) skip();
    static const int64_t sizes[][3] = {{16, 16, 16}, {31, 65, 513}, {130, 33, 1300}, {17, 17, 2100}, {48, 97, 768}};
    for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++)
        for (int layout = i % EVERY; layout < LAYOUTS * LAYOUTS; layout += EVERY)
            for (int types = 0; types < TYPES; types += 1 + layout % 3)
                check(TILES, sizes[i][0], sizes[i][1], sizes[i][2], layout / LAYOUTS, layout % LAYOUTS,
                      (layout + types) % 3, 1 + layout % 3, types);
}

/* bf16 operands, and rounding to bf16, over the same kinds of sizes. */
static void half_operands(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{31, 65, 513},  {15, 100, 37}, {130, 33, 1300}, {3, 48, 21},
                                       {127, 487, 61}, {1, 97, 33},   {48, 64, 2100},  {17, 17, 17}};
    for (int isa = 0; isa <= (int)lvn_isa_best(); isa++)
        for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++)
            for (int layout = i % EVERY; layout < LAYOUTS * LAYOUTS; layout += EVERY)
                for (int types = 1; types < TYPES; types++)
                    check(isa, sizes[i][0], sizes[i][1], sizes[i][2], layout / LAYOUTS, layout % LAYOUTS,
                          (layout + types) % 3, 1 + layout % 3, types);
}

/* Blocks of GGUF files: any bytes, with scales that are finite. */
static void fill_blocks(const struct lvn_blocks *blocks, unsigned char *p)
{
    const struct lvn_ggml_block *type = lvn_ggml_block(blocks->dtype);
    const int64_t bytes = blocks->rows * blocks->columns / type->values * type->bytes;
    for (int64_t i = 0; i < bytes; i++) p[i] = (unsigned char)lvn_random_below(4, 0, (uint64_t)i, 256);
    for (int64_t i = 0; i < bytes; i += type->bytes) {
        p[i + 1] = 0x20, p[i + 3] = 0xa4; /* upper bytes of fp16 numbers */
        if (type->bytes > 209) p[i + 209] = 0x1c;
    }
}

/* Blocks of 4 bits, from another table, with factors in fp32. */
static void fill_scales(const struct lvn_blocks *blocks, void *p)
{
    const struct lvn_nf4 x = lvn_nf4_of(blocks, p);
    const int64_t count = blocks->rows * blocks->columns;
    lvn_random_normal(5, 1, 0.3F, 0, LVN_NF4_CODES, x.code);
    lvn_random_normal(6, 1, 0.3F, 0, (count + LVN_NF4_BLOCK - 1) / LVN_NF4_BLOCK, x.scale);
    for (int64_t i = 0; i < (count + 1) / 2; i++) x.value[i] = (uint8_t)lvn_random_below(4, 0, (uint64_t)i, 256);
}

/* Numbers in the type, and the same in fp32. */
static void *pack_numbers(const struct lvn_blocks *blocks, float *wide)
{
    void *packed = aligned_alloc(64, (size_t)lvn_blocks_bytes(blocks));
    if (lvn_ggml_block(blocks->dtype))
        fill_blocks(blocks, packed);
    else if (blocks->dtype == LVN_FP4_F32)
        fill_scales(blocks, packed);
    else
        assert_int_equal(lvn_blocks_write(blocks, wide, packed, 1), LVN_OK);
    for (int64_t r = 0; r < blocks->rows; r++)
        lvn_blocks_read(blocks, packed, r, 0, blocks->columns, wide + r * blocks->columns);
    return packed;
}

static bool has_unit(int isa)
{
    return isa == TILES || isa == LVN_ISA_AMX;
}

/* B in packed blocks gives the bits of the same numbers in fp32, in the order in which they are packed. */
static void check_blocks(int isa, enum lvn_dtype type, int64_t m, const int64_t size[2], bool columns, bool bf16)
{
    const struct lvn_blocks blocks = {type, size[0], size[1]};
    const int64_t n = columns ? size[0] : size[1], k = columns ? size[1] : size[0];
    /* a few rows decode whole units of 64 steps in registers, in another order: decoded_blocks() */
    if (m <= 8 && columns && k % 64 == 0 && isa != LVN_ISA_GENERIC) return;
    if (m < 16 && columns && k % 64 == 0 && bf16 && has_unit(isa)) return; /* few_rows_on_tiles() */
    float *a = numbers(1, m * k), *wide = numbers(2, n * k), *c = numbers(3, m * n), *wanted = numbers(3, m * n);
    void *packed = pack_numbers(&blocks, wide);
    struct lvn_gemm g = {.m = m, .n = n, .k = k, .a = a, .a_row = k, .a_col = 1, .b = wide, .bf16 = bf16};
    g.b_row = columns ? 1 : size[1];
    g.b_col = columns ? size[1] : 1;
    g.c = wanted;
    g.c_row = n;
    run(isa, &g, 1);
    g.b = packed;
    g.b_blocks = blocks;
    g.c = c;
    run(isa, &g, 3);
    if (memcmp(c, wanted, (size_t)(m * n) * sizeof *c) != 0)
        fail_msg("instruction set %d, %s: %lldx%lldx%lld columns %d bf16 %d differ", isa, lvn_dtype_name(type),
                 (long long)m, (long long)n, (long long)k, columns, bf16);
    free(a), free(wide), free(c), free(wanted), free(packed);
}

/* A few rows of A: near the sum in double, with one set of bits whatever the threads, the rows and the instruction
 * set. */
static void check_decoded(enum lvn_dtype type, int64_t n, int64_t k, int mode)
{
    enum { M = 8 };
    const struct lvn_blocks blocks = {type, n, k};
    float *a = numbers(1, M * k), *wide = numbers(2, n * k), *first = NULL, *bias = numbers(4, n);
    void *packed = pack_numbers(&blocks, wide);
    struct finished f = {calloc((size_t)(M * n), 1), NULL};
    struct lvn_gemm g = {.n = n,
                         .k = k,
                         .a = a,
                         .a_row = k,
                         .a_col = 1,
                         .b = packed,
                         .b_row = 1,
                         .b_col = k,
                         .b_blocks = blocks,
                         .add = mode == 1,
                         .bias = mode == 2 ? bias : NULL,
                         .c_row = n,
                         .finish = count_pieces,
                         .argument = &f};
    for (int isa = LVN_ISA_AVX2; isa <= (int)lvn_isa_best(); isa++)
        for (g.m = M; g.m > 0; g.m--) {
            float *c = numbers(3, M * n);
            g.c = c;
            memset(f.count, 0, (size_t)(M * n));
            run(isa, &g, 1 + (int)g.m % 3);
            for (int64_t i = 0; i < g.m * n; i++) assert_int_equal(f.count[i], 1);
            if (first) {
                if (memcmp(c, first, (size_t)(g.m * n) * sizeof *c) != 0)
                    fail_msg("instruction set %d, %s: %lldx%lldx%lld mode %d has other bits", isa, lvn_dtype_name(type),
                             (long long)g.m, (long long)n, (long long)k, mode);
                free(c);
                continue;
            }
            first = c;
        }
    float *before = numbers(3, M * n);
    for (int64_t i = 0; first && i < M; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = mode == 1 ? before[i * n + j] : mode == 2 ? bias[j] : 0, size = fabs(sum);
            for (int64_t l = 0; l < k; l++) {
                const double x = (double)a[i * k + l] * wide[j * k + l];
                sum += x, size += fabs(x);
            }
            if (!(fabs(first[i * n + j] - sum) <= 4e-7 * (size + 1)))
                fail_msg("%s: %lldx%lld C(%lld,%lld) is %.9g, expected %.9g", lvn_dtype_name(type), (long long)n,
                         (long long)k, (long long)i, (long long)j, (double)first[i * n + j], sum);
        }
    free(a), free(wide), free(first), free(bias), free(packed), free(f.count), free(before);
}

static void decoded_blocks(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{70, 192}, {33, 64}, {5, 1088}, {16, 1024}, {3, 9216}, {1, 17472}, {7, 2304}};
    for (int s = 0; s < (int)(sizeof sizes / sizeof *sizes); s++)
        for (int mode = 0; mode < 3; mode++) {
            check_decoded(LVN_NF4, sizes[s][0], sizes[s][1], mode);
            check_decoded(LVN_FP4_F32, sizes[s][0], sizes[s][1], mode);
            check_decoded(LVN_INT8_ROWS, sizes[s][0], sizes[s][1], mode);
            for (int type = LVN_Q8_0; type < LVN_DTYPE_END; type++)
                if (sizes[s][1] % lvn_ggml_block((enum lvn_dtype)type)->values == 0)
                    check_decoded((enum lvn_dtype)type, sizes[s][0], sizes[s][1], mode);
        }
}

/* Fewer than 16 rows of A on the matrix unit, B in a packed type or in bf16 (in_out: with contiguous rows): the bits of
 * the first of 16 rows, whatever the threads and the rows; of int8, whose factor is multiplied after the sum, near the
 * sum in double. */
static void check_few_on_tiles(int isa, enum lvn_dtype type, bool in_out, int64_t n, int64_t k)
{
    enum { M = 16 };
    const struct lvn_blocks blocks = {type, n, k};
    const bool packed = lvn_dtype_is_packed(type);
    const int64_t min = !packed ? 1 : type < LVN_Q8_0 || type == LVN_Q4_0 ? 2 : 5; /* fewer: decoded_blocks() */
    float *a = numbers(1, M * k), *wide = numbers(2, n * k), *bias = numbers(4, n), *all = numbers(3, M * n);
    uint16_t *a_half = halves(a, M * k);
    void *b = packed ? pack_numbers(&blocks, wide) : halves(wide, n * k);
    struct finished f = {calloc((size_t)(M * n), 1), NULL};
    struct lvn_gemm g = {.m = M, .n = n, .k = k, .a = a, .a_row = k, .a_col = 1, .b = b};
    g.b_row = in_out ? n : 1;
    g.b_col = in_out ? 1 : k;
    g.b_blocks = packed ? blocks : (struct lvn_blocks){0};
    g.b_bf16 = !packed;
    g.bf16 = true;
    g.c = all;
    g.c_row = n;
    run(isa, &g, 1);
    for (int64_t i = 0; type == LVN_INT8_ROWS && i < M * n; i++) {
        double sum = 0, size = 0;
        for (int64_t l = 0; l < k; l++) {
            const double x = (double)a[i / n * k + l] * wide[i % n * k + l];
            sum += x, size += fabs(x);
        }
        all[i] = (float)sum;
        assert_true(size < 1e6);
    }
    g.finish = count_pieces;
    g.argument = &f;
    for (g.m = M - 1; g.m >= min; g.m--) {
        const int mode = (int)g.m % 3;
        float *c = numbers(5, M * n), *before = numbers(5, M * n);
        g.c = c;
        g.add = mode == 1;
        g.bias = mode == 2 ? bias : NULL;
        g.a = g.m % 2 ? (const void *)a : a_half;
        g.a_bf16 = g.m % 2 == 0;
        assert_true(kernel_of(isa).rounds(&g));
        memset(f.count, 0, (size_t)(M * n));
        run(isa, &g, 1 + (int)g.m % 4);
        for (int64_t i = 0; i < M * n; i++) {
            const float start = mode == 1 ? before[i] : bias[i % n], wanted = i >= g.m * n ? before[i]
                                                                              : mode == 0  ? all[i]
                                                                                           : all[i] + start;
            assert_int_equal(f.count[i], i < g.m * n);
            if (type == LVN_INT8_ROWS ? !(fabsf(c[i] - wanted) <= 2e-6F * (float)k) : c[i] != wanted)
                fail_msg("instruction set %d, %s: %lldx%lldx%lld C[%lld] is %.9g, expected %.9g", isa,
                         lvn_dtype_name(type), (long long)g.m, (long long)n, (long long)k, (long long)i, (double)c[i],
                         (double)wanted);
        }
        free(c), free(before);
    }
    assert_true(min == 1 || !kernel_of(isa).rounds(&g));
    free(a), free(wide), free(bias), free(all), free(a_half), free(b), free(f.count);
}

static void few_rows_on_tiles(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{70, 192}, {33, 64}, {21, 1088}, {16, 1024}, {35, 2304}, {1061, 128}};
    for (int isa = LVN_ISA_AMX; isa <= TILES; isa++)
        for (int s = 0; s < (int)(sizeof sizes / sizeof *sizes); s++) {
            const int64_t n = sizes[s][0], k = sizes[s][1];
            if (isa == TILES ? !has_tiles() : isa > (int)lvn_isa_best()) continue;
            check_few_on_tiles(isa, LVN_NF4, false, n, k);
            check_few_on_tiles(isa, LVN_FP4_F32, false, n, k);
            check_few_on_tiles(isa, LVN_INT8_ROWS, false, n, k);
            check_few_on_tiles(isa, LVN_BF16, false, n, k - 32);
            check_few_on_tiles(isa, LVN_BF16, true, n, k - 32);
            for (int type = LVN_Q8_0; type < LVN_DTYPE_END; type++)
                if (k % lvn_ggml_block((enum lvn_dtype)type)->values == 0)
                    check_few_on_tiles(isa, (enum lvn_dtype)type, false, n, k);
        }
}

static void packed_blocks(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{70, 192}, {33, 100}, {97, 1088}, {600, 80}, {2, 7}, {50, 48}};
    static const int64_t rows[] = {1, 3, 8, 9, 17, 61};
    for (int isa = 0; isa <= TILES; isa++) {
        if (isa == TILES ? !has_tiles() : isa > (int)lvn_isa_best()) continue;
        for (int s = 0; s < (int)(sizeof sizes / sizeof *sizes); s++)
            for (int r = s % EVERY; r < (int)(sizeof rows / sizeof *rows); r += EVERY)
                for (int which = 0; which < 12; which++) {
                    static const enum lvn_dtype types[] = {LVN_NF4, LVN_INT8_ROWS, LVN_FP4_F32};
                    check_blocks(isa, types[which / 4], rows[r], sizes[s], which & 1, which & 2);
                }
        for (int type = LVN_Q8_0; type < LVN_DTYPE_END; type++)
            for (int which = 0; which < 4; which++) {
                static const int64_t whole[][2] = {{70, 512}, {33, 256}, {9, 1280}, {37, 768}};
                for (int s = 0; s < 4; s++)
                    check_blocks(isa, (enum lvn_dtype)type, 1 + 13 * s, whole[s], which & 1, which & 2);
            }
    }
}

/* One thread's C is what everything else must equal, bit by bit. */
static void same_bits_of(bool bf16)
{
    static const int64_t sizes[][3] = {{61, 131, 1100}, {96, 64, 33}, {17, 1009, 700}, {200, 65, 64}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int layout = 0; layout < 4; layout++) {
            int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            struct lvn_gemm g = {.m = m, .n = n, .k = k, .c_row = n, .add = s % 2, .bf16 = bf16};
            int64_t na = lay_out(layout / 2, m, k, &g.a_row, &g.a_col),
                    nb = lay_out(layout % 2, k, n, &g.b_row, &g.b_col);
            float *a = numbers(1, na), *b = numbers(2, nb), *bias = numbers(3, n);
            float *one = numbers(4, m * n), *c = numbers(4, m * n), *start = numbers(4, m * n);
            size_t bytes = (size_t)(m * n) * sizeof *c;
            g.a = a, g.b = b, g.bias = g.add ? NULL : bias;
            for (int isa = 0; isa <= TILES; isa++) {
                if (isa == TILES ? !has_tiles() : isa > (int)lvn_isa_best()) continue;
                /* products of at least 16 rows use another algorithm; the others are compared with AVX2 */
                const bool own = isa == LVN_ISA_AMX || isa == TILES || (isa == LVN_ISA_AVX512_BF16 && bf16);
                if (own || isa <= LVN_ISA_AVX2) {
                    memcpy(one, start, bytes);
                    g.c = one;
                    run(isa, &g, 1);
                }
                for (int n_threads = 1; n_threads <= 8; n_threads++) {
                    memcpy(c, start, bytes);
                    g.c = c;
                    run(isa, &g, n_threads);
                    assert_memory_equal(c, one, bytes);
                }
                /* some rows alone, some columns alone */
                struct lvn_gemm part = g;
                memcpy(c, start, bytes);
                part.m = m / 2, part.a = a + 5 * g.a_row, part.c = c + 5 * n;
                run(isa, &part, 3);
                if (!own || part.m >= 16) assert_memory_equal(part.c, one + 5 * n, (size_t)(part.m * n) * sizeof *c);
                for (int64_t rows = 1; !own && rows <= 7; rows++) {
                    memcpy(c, start, bytes);
                    part.m = rows;
                    run(isa, &part, 2);
                    assert_memory_equal(part.c, one + 5 * n, (size_t)(part.m * n) * sizeof *c);
                }
                memcpy(c, start, bytes);
                part = g;
                part.n = n / 2, part.b = b + 3 * g.b_col, part.c = c + 3;
                if (g.bias) part.bias = bias + 3;
                run(isa, &part, 2);
                for (int64_t i = 0; i < m; i++)
                    assert_memory_equal(c + i * n + 3, one + i * n + 3, (size_t)part.n * sizeof *c);
            }
            free(a), free(b), free(bias), free(one), free(c), free(start);
        }
}

static void same_bits(void **state)
{
    (void)state;
    skip_under_sanitizers();
    if (lvn_isa_best() > LVN_ISA_AVX2 && lvn_gemm_kernel(LVN_ISA_AVX2) == lvn_gemm_kernel(LVN_ISA_GENERIC))
        skip(); /* AVX2 was left out of this build (LVN_ISAS) */
    same_bits_of(false);
    same_bits_of(true);
}

static int64_t scratch_of(int isa, int types, int64_t m, int64_t n, int64_t k)
{
    int64_t most = 0;
    for (int columns = 0; columns < 2; columns++) { /* contiguous in memory: rows of B, or its columns */
        struct lvn_gemm g = {
            .m = m, .n = n, .k = k, .a_row = k, .a_col = 1, .b_row = columns ? 1 : n, .b_col = columns ? k : 1};
        g.a_bf16 = types & A_BF16, g.b_bf16 = types & B_BF16, g.bf16 = types & ROUND;
        const int64_t bytes = kernel_of(isa).scratch(&g);
        if (bytes > most) most = bytes;
    }
    return most;
}

/* Scratch planned for a product suffices for smaller ones, however they are computed. */
static void scratch_grows(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 7, 15, 16, 17, 32, 50, 96, 100, 511, 512, 513, 3000};
    enum { SIZES = sizeof sizes / sizeof *sizes };
    for (int isa = 0; isa <= (int)lvn_isa_best(); isa++)
        for (int types = 0; types < TYPES; types++)
            for (int which = 0; which < SIZES * SIZES * SIZES; which++) {
                const int m = which % SIZES, n = which / SIZES % SIZES, k = which / SIZES / SIZES;
                const int64_t bytes = scratch_of(isa, types, sizes[m], sizes[n], sizes[k]);
                assert_true(m == 0 || scratch_of(isa, types, sizes[m - 1], sizes[n], sizes[k]) <= bytes);
                assert_true(n == 0 || scratch_of(isa, types, sizes[m], sizes[n - 1], sizes[k]) <= bytes);
                assert_true(k == 0 || scratch_of(isa, types, sizes[m], sizes[n], sizes[k - 1]) <= bytes);
            }
}

struct team {
    const struct lvn_gemm *g;
    char *scratch;
    int64_t bytes; /* of it, for each thread */
};

static void task(void *argument, int thread, int n_threads)
{
    struct team *t = argument;
    kernel_of(lvn_isa_best()).run(t->g, t->scratch + thread * t->bytes, thread, n_threads);
}

static void real_threads(void **state)
{
    (void)state;
    int64_t m = 100, n = 300, k = 600;
    float *a = numbers(1, m * k), *b = numbers(2, k * n), *one = numbers(3, m * n), *c = numbers(3, m * n);
    struct lvn_gemm g = {.m = m, .n = n, .k = k, .a = a, .a_row = k, .a_col = 1, .b = b, .b_row = n, .b_col = 1};
    g.c = one, g.c_row = n;
    run(lvn_isa_best(), &g, 1);
    for (int n_threads = 1; n_threads <= 8; n_threads *= 2) {
        struct team t = {&g, aligned_alloc(64, (size_t)(kernel_of(lvn_isa_best()).scratch(&g) * n_threads)),
                         kernel_of(lvn_isa_best()).scratch(&g)};
        g.c = c;
        poison(c, m * n);
        lvn_team_run(n_threads, task, &t);
        assert_memory_equal(c, one, (size_t)(m * n) * sizeof *c);
        free(t.scratch);
    }
    free(a), free(b), free(one), free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symmetric_products), cmocka_unit_test(odd_sizes),     cmocka_unit_test(many_blocks),
        cmocka_unit_test(half_operands),      cmocka_unit_test(packed_blocks), cmocka_unit_test(decoded_blocks),
        cmocka_unit_test(few_rows_on_tiles),  cmocka_unit_test(same_bits),     cmocka_unit_test(real_threads),
        cmocka_unit_test(scratch_grows),      cmocka_unit_test(tiles),         cmocka_unit_test(long_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

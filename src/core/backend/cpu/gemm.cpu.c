/* gemm.cpu.c - the matrix multiplication of gemm.h: division among threads, blocking and order of summation.
 *
 * Threads divide C as a grid of rows and columns, chosen by shape. A thread processes its columns in strips of at most
 * NC, and K in blocks of at most LVN_GEMM_KC; for each such part of B it computes all of its rows, one tile height at a
 * time. The first row of tiles packs B, which then stays in the L2 cache. Several threads may pack the same part of B,
 * which costs little and avoids waiting. Rows of A are read in place; a transposed A is packed by the first tile of
 * each row.
 *
 * K is never split among threads, because that would change the bits. Batched multiplications are not supported. */
#include "backend/cpu/gemm.h"

#if defined(__AVX512BF16__)
#include "backend/cpu/gemm_bf16.h"
#endif
#if defined(LVN_AMX)
#include "backend/cpu/gemm_few_amx.h"
#endif
#if defined(__AVX512BF16__) && defined(LVN_GEMM_AVX512)
/* All other multiplications are those of AVX-512, whose code need not exist three times. */
#define vectors_scratch lvn_gemm_avx512.scratch
#define vectors_run lvn_gemm_avx512.run
#else
#include "backend/cpu/gemm_few.h"
#include "backend/cpu/gemm_few_blocks.h"
#include "base/threads.h"

/* Maximum columns of a strip: the packed part of B fills about half of the L2 cache. */
#if defined(__AVX512F__)
enum { NC = 480 };
#else
enum { NC = 240 };
#endif

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* --- how work is divided
 * ------------------------------------------------------------------------------------------- */

/* Length of the blocks of K, except the last one: a function of K only; see gemm.h. */
static int64_t block_k(int64_t k)
{
    int64_t blocks = ceil_div(k, LVN_GEMM_KC);
    return blocks <= 1 ? k : ceil_div(ceil_div(k, blocks), 16) * 16;
}

/* Columns per strip if `n` columns are divided evenly. */
static int64_t strip_n(int64_t n)
{
    return ceil_div(ceil_div(n, ceil_div(n, NC)), NR) * NR;
}

struct grid {
    int rows, columns;
};

/* Estimated cycles of the busiest thread for multiplying and for packing A and B. */
static double cost(const struct lvn_gemm *g, struct grid t)
{
    double m = (double)(ceil_div(ceil_div(g->m, 2 * MR), t.rows) * 2 * MR),
           n = (double)(ceil_div(ceil_div(g->n, GL), t.columns) * GL);
    double strips = (double)ceil_div((int64_t)n, NC);
    double multiply = m * n / (2 * GL);
    return multiply + 8.0 / GL * n * (g->b_col == 1 ? 0.4 : 0.6) + strips * m * (g->a_col == 1 ? 0.05 : 0.2);
}

static struct grid choose_grid(const struct lvn_gemm *g, int n_threads)
{
    /* The gradient of a weight has contiguous rows, and the optimizer divides them among threads in the same way
     * (ops/extents_cpu.h). */
    if (g->k == 1) return (struct grid){n_threads, 1};
    struct grid best = {1, n_threads};
    double min = cost(g, best);
    for (int rows = 2; rows <= n_threads; rows++) {
        if (n_threads % rows) continue;
        struct grid t = {rows, n_threads / rows};
        double c = cost(g, t);
        if (c < min) min = c, best = t;
    }
    return best;
}

/* --- one thread's part ------------------------------------------------------------------------------------------ */

typedef void run_tile(const struct tile *t);
#define TILE(rows, vectors, a, b)                                                                                      \
    static void tile_##rows##_##vectors##_##a##_##b(const struct tile *t)                                              \
    {                                                                                                                  \
        tile_run(t, rows, vectors, a, b);                                                                              \
    }
#define ENTRY(rows, vectors, a, b) [rows - 1][vectors - 1][a][b] = tile_##rows##_##vectors##_##a##_##b,
#define PLAIN(X, rows, vectors) X(rows, vectors, A_ROWS, B_PACKED) X(rows, vectors, A_PACKED, B_PACKED)
/* Only tiles of full height pack while they multiply. */
#define PACKING(X, rows, vectors)                                                                                      \
    X(rows, vectors, A_PACK, B_PACKED)                                                                                 \
    X(rows, vectors, A_ROWS, B_PACK) X(rows, vectors, A_PACKED, B_PACK) X(rows, vectors, A_PACK, B_PACK)
#define VECTORS_2(KINDS, X, rows) KINDS(X, rows, 1) KINDS(X, rows, 2)
#define VECTORS_3(KINDS, X, rows) VECTORS_2(KINDS, X, rows) KINDS(X, rows, 3)
#define TILES_6(VECTORS, X)                                                                                            \
    VECTORS(PLAIN, X, 1)                                                                                               \
    VECTORS(PLAIN, X, 2) VECTORS(PLAIN, X, 3) VECTORS(PLAIN, X, 4) VECTORS(PLAIN, X, 5) VECTORS(PLAIN, X, 6)
#if defined(__AVX512F__) /* 8 x 3 */
#define TILES(X) TILES_6(VECTORS_3, X) VECTORS_3(PLAIN, X, 7) VECTORS_3(PLAIN, X, 8) VECTORS_3(PACKING, X, 8)
#elif defined(__aarch64__) /* 6 x 3 */
#define TILES(X) TILES_6(VECTORS_3, X) VECTORS_3(PACKING, X, 6)
#else /* 6 x 2 */
#define TILES(X) TILES_6(VECTORS_2, X) VECTORS_2(PACKING, X, 6)
#endif
TILES(TILE)
static run_tile *const tiles[MR][NV][A_KINDS][B_KINDS] = {TILES(ENTRY)};

static const float zeros[NR];

/* A block of C is complete. */
static void finish(const struct lvn_gemm *g, int64_t i, int64_t m, int64_t j, int64_t n)
{
    if (g->finish) g->finish(g, g->c + i * g->c_row + j, g->c_row, i, m, j, n);
}

/* A thread's part of C, its current strip and block, and its packing buffers. */
struct part {
    const struct lvn_gemm *g;
    int64_t i0, i1; /* rows [i0, i1) */
    int64_t j, n;   /* strip: first column, columns */
    int64_t k0, k;  /* block: first step, steps */
    float *b, *a;   /* packed operands */
    int64_t below;  /* first row of the tile whose A was packed together with that of the tile above; -1: none */
};

static bool packs_a(const struct lvn_gemm *g)
{
    return g->a_col != 1 || g->a_bf16;
}

/* Convert bf16 rows of A to fp32 rows (rows, k). */
static void start_bf16_a(const struct part *p, int64_t i, int64_t rows, struct tile *t)
{
    const struct lvn_gemm *g = p->g;
    const uint16_t *a = (const uint16_t *)g->a + i * g->a_row + p->k0;
    for (int64_t r = 0; r < rows; r++) vconvert(a + r * g->a_row, true, p->a + r * p->k, false, p->k);
    t->a = p->a;
    t->a_row = p->k * 4;
}

/* Set where a tile reads its rows of A for the first panel. Packs them if the tile cannot. */
static enum from_a start_a(struct part *p, int64_t i, int64_t rows, struct tile *t)
{
    const struct lvn_gemm *g = p->g;
    if (g->a_bf16 && g->a_col == 1) {
        start_bf16_a(p, i, rows, t);
        return A_ROWS;
    }
    if (g->a_bf16) {
        pack_bf16_a(p->k, rows, (const uint16_t *)g->a + i * g->a_row + p->k0 * g->a_col, g->a_row, g->a_col, p->a);
        t->a = p->a;
        return A_PACKED;
    }
    t->a = (const float *)g->a + i * g->a_row + p->k0 * g->a_col;
    t->a_row = g->a_row * 4;
    t->a_step = g->a_col;
    t->a_packed = p->a;
    t->a_below = p->a + MR * p->k;
    if (!packs_a(g)) return A_ROWS;
    if (i == p->below) {
        t->a = t->a_below;
        return A_PACKED;
    }
    if (g->a_row == 1 && i + 2 * MR <= p->i1) {
        p->below = i + MR;
        return A_PACK;
    }
    pack_a(p->k, rows, t->a, g->a_row, g->a_col, p->a);
    t->a = p->a;
    return A_PACKED;
}

/* The same for a panel of B that is not packed yet. */
static enum from_b start_b(const struct part *p, int64_t rows, int64_t j, int64_t width, struct tile *t)
{
    const struct lvn_gemm *g = p->g;
    const bool packed = lvn_dtype_is_packed(g->b_blocks.dtype);
    const void *b = packed ? NULL : vat(g->b, p->k0 * g->b_row + (p->j + j) * g->b_col, g->b_bf16);
    t->b_step = g->b_row;
    t->b_packed = p->b + j * p->k;
    if (packed) {
        pack_blocks(g, p->k0, p->k, p->j + j, t->n, width, t->b_packed);
        return B_PACKED;
    }
    if (rows == MR && g->b_col == 1 && t->n == width && !g->b_bf16) {
        t->b = b;
        return B_PACK;
    }
    pack_b(p->k, t->n, b, g->b_bf16, g->b_row, g->b_col, width, t->b_packed);
    return B_PACKED;
}

/* Compute one tile height of rows along the whole strip. */
static void run_rows(struct part *p, int64_t i, int64_t rows)
{
    const struct lvn_gemm *g = p->g;
    struct tile t = {.k = p->k, .c_row = g->c_row};
    enum from_a from_a = start_a(p, i, rows, &t);
    for (int64_t j = 0, width; j < p->n; j += width) {
        width = panel_width(p->n - j);
        t.n = min(p->n - j, width);
        t.b = p->b + j * p->k;
        t.c = g->c + i * g->c_row + p->j + j;
        t.start = t.c;
        t.start_row = g->c_row;
        if (p->k0 == 0 && !g->add) {
            t.start = g->bias ? g->bias + p->j + j : zeros;
            t.start_row = 0;
        }
        enum from_b from_b = i == p->i0 ? start_b(p, rows, j, width, &t) : B_PACKED;
        tiles[rows - 1][width / GL - 1][from_a][from_b](&t);
        if (from_a == A_PACK) t.a = p->a, from_a = A_PACKED;
    }
    if (p->k0 + p->k == g->k) finish(g, i, rows, p->j, p->n);
}

static void run_strip(struct part *p, int64_t block)
{
    for (p->k0 = 0; p->k0 < p->g->k; p->k0 += block) {
        p->k = min(block, p->g->k - p->k0);
        p->below = -1;
        for (int64_t i = p->i0; i < p->i1; i += MR) run_rows(p, i, min(MR, p->i1 - i));
    }
}

/* The same for one block of k if B is in packed blocks: some columns of B at a time are widened. */
static void run_few_blocks(const struct part *p, struct few *f)
{
    const struct lvn_gemm *g = p->g;
    float wide[GL * LVN_GEMM_KC];
    const struct few all = *f;
    const bool columns = blocks_are_columns(g);
    f->b = wide;
    f->b_row = columns ? 1 : GL;
    f->b_col = columns ? LVN_GEMM_KC : 1;
    for (int64_t j = 0; j < all.n; j += GL) {
        f->n = min(GL, all.n - j);
        f->c = all.c + j;
        f->start = all.start ? all.start + j : NULL;
        blocks_widen_part(g, p->k0, p->k, p->j + j, f->n, columns ? LVN_GEMM_KC : GL, wide);
        few_run(f, p->i1 - p->i0, false);
    }
}

/* Compute all rows, at most FEW, of a strip. */
static void run_few(struct part *p, int64_t block)
{
    const struct lvn_gemm *g = p->g;
    for (p->k0 = 0; p->k0 < g->k; p->k0 += block) {
        bool first = p->k0 == 0 && !g->add;
        p->k = min(block, g->k - p->k0);
        float *c = g->c + p->i0 * g->c_row + p->j;
        struct few f = {.k = p->k,
                        .n = p->n,
                        .a = (const float *)g->a + p->i0 * g->a_row + p->k0 * g->a_col,
                        .a_row = g->a_row,
                        .a_col = g->a_col,
                        .b_row = g->b_row,
                        .b_col = g->b_col,
                        .c = c,
                        .c_row = g->c_row,
                        .start = !first    ? c
                                 : g->bias ? g->bias + p->j
                                           : NULL,
                        .start_row = first ? 0 : g->c_row,
                        .sums = p->b,
                        .width = few_columns(p->i1 - p->i0)};
        if (lvn_dtype_is_packed(g->b_blocks.dtype)) {
            run_few_blocks(p, &f);
            continue;
        }
        f.b = vat(g->b, p->k0 * g->b_row + p->j * g->b_col, g->b_bf16);
        few_run(&f, p->i1 - p->i0, g->b_bf16);
    }
    finish(g, p->i0, p->i1 - p->i0, p->j, p->n);
}

/* Scratch grows with the size of C although blocks do not, so that scratch planned for the largest size is enough for
 * all sizes. */
static int64_t scratch_k(const struct lvn_gemm *g)
{
    return min(g->k, LVN_GEMM_KC);
}

static int64_t scratch_b(const struct lvn_gemm *g)
{
    int64_t few = FEW_SUMS, packed = ceil_div(min(ceil_div(g->n, NR) * NR, NC) * scratch_k(g), 1024) * 1024;
    return packed > few ? packed : few;
}

static int64_t scratch_a(const struct lvn_gemm *g)
{
    return packs_a(g) ? ceil_div(2 * MR * scratch_k(g), 1024) * 1024 : 0;
}

static int64_t vectors_scratch(const struct lvn_gemm *g)
{
    return (scratch_b(g) + scratch_a(g)) * 4;
}

static void vectors_run(const struct lvn_gemm *g, void *scratch, int thread, int n_threads)
{
    struct grid grid = choose_grid(g, n_threads);
    struct part p = {.g = g};
    int64_t j0, j1;
    p.b = scratch;
    p.a = p.b + scratch_b(g);
    lvn_thread_range(g->m, 2 * MR, thread / grid.columns, grid.rows, &p.i0, &p.i1);
    lvn_thread_range(g->n, GL, thread % grid.columns, grid.columns, &j0, &j1);
    if (p.i0 == p.i1 || j0 == j1) return;
    if (g->k == 1 && g->b_col == 1 && !g->a_bf16 && !g->b_bf16 && !lvn_dtype_is_packed(g->b_blocks.dtype)) {
        outer_run(g, p.i0, p.i1, j0, j1 - j0);
        finish(g, p.i0, p.i1 - p.i0, j0, j1 - j0);
        return;
    }
    bool few = g->m <= FEW && !g->a_bf16;
#if defined(__AVX2__)
    if (few && few_blocks_fit(g)) {
        few_blocks_run(g, j0, j1);
        finish(g, p.i0, p.i1 - p.i0, j0, j1 - j0);
        return;
    }
#endif
    int64_t strip = few ? few_columns(p.i1 - p.i0) : strip_n(j1 - j0), block = block_k(g->k);
    for (p.j = j0; p.j < j1; p.j += strip) {
        p.n = min(strip, j1 - p.j);
        if (few)
            run_few(&p, block);
        else
            run_strip(&p, block);
    }
}
#endif

static int64_t scratch_bytes(const struct lvn_gemm *g)
{
    int64_t bytes = vectors_scratch(g);
#if defined(__AVX512BF16__)
    /* bf16_run() may not support a smaller multiplication */
    if (bf16_fits(g) && bf16_scratch(g) > bytes) bytes = bf16_scratch(g);
#endif
#if defined(LVN_AMX)
    if (few_amx_may_read(g) && few_amx_scratch(g) > bytes) bytes = few_amx_scratch(g);
#endif
    return bytes;
}

static bool rounds(const struct lvn_gemm *g)
{
#if defined(LVN_AMX)
    if (few_amx_fits(g)) return true;
#endif
#if defined(__AVX512BF16__)
    return g->bf16 && bf16_fits(g);
#else
    (void)g;
    return false;
#endif
}

static bool buffers(const struct lvn_gemm *g)
{
#if defined(LVN_AMX)
    _Static_assert(FEW_AMX_SIDE <= (int)LVN_GEMM_FEW, "callers have memory for LVN_GEMM_FEW rows");
    if (few_amx_fits(g)) return false;
#endif
#if defined(__AVX512BF16__)
    _Static_assert(BF16_MIN <= (int)LVN_GEMM_FEW, "callers have memory for LVN_GEMM_FEW rows");
    return bf16_fits(g) && bf16_buffers(g);
#else
    (void)g;
    return false;
#endif
}

static void run(const struct lvn_gemm *g, void *scratch, int thread, int n_threads)
{
#if defined(LVN_AMX)
    if (few_amx_fits(g)) {
        few_amx_run(g, scratch, thread, n_threads);
        return;
    }
#endif
#if defined(__AVX512BF16__)
    if (bf16_fits(g)) {
        bf16_run(g, scratch, thread, n_threads);
        return;
    }
#endif
    vectors_run(g, scratch, thread, n_threads);
}

const struct lvn_gemm_kernel LVN_ISA_NAME(lvn_gemm) = {
    .scratch = scratch_bytes, .rounds = rounds, .buffers = buffers, .run = run};

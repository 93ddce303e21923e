/* gemm.cpu.c - the matrix product of gemm.h: who computes what, and in which order.
 *
 * Threads share C as a grid of rows and columns, chosen by shape. A thread walks over its columns in strips of at most
 * NC, over K in blocks of at most LVN_GEMM_KC; it packs that part of B (it then fills about half of the second cache),
 * and runs all of its rows of A along it, a tile's height at a time. B may so be packed by several threads: that costs
 * a few percent at most and no thread waits for another. Rows of A are read where they are, unless A is transposed
 * (its rows are neighbours) or so far apart that they would push each other out of the cache.
 *
 * Not here: splitting K among threads (it would change the bits), batches of products. */
#include "backend/cpu/gemm.h"

#include "backend/cpu/gemm_pack.h"
#include "base/threads.h"

/* Columns of a strip: what of B is packed at once. */
#if defined(__AVX512F__)
enum { NC = 480 };
#else
enum { NC = 240 };
#endif
/* Rows of a transposed A that are packed at once: whole cache lines, whole tiles. */
enum { GROUP = 16 * MR };

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* --- how work is cut -------------------------------------------------------------------------------------------- */

/* Length of the blocks of K, but for the last: a function of K alone, see gemm.h. */
static int64_t block_k(int64_t k)
{
    int64_t blocks = ceil_div(k, LVN_GEMM_KC);
    return blocks <= 1 ? k : ceil_div(ceil_div(k, blocks), 16) * 16;
}

/* Columns of a strip of `n` columns, cut evenly. */
static int64_t strip_n(int64_t n)
{
    return ceil_div(ceil_div(n, ceil_div(n, NC)), NR) * NR;
}

struct grid {
    int rows, columns;
};

/* Cycles, roughly, of the busiest thread: multiplying, and packing B and A. */
static double cost(const struct lvn_gemm *g, struct grid t)
{
    double m = (double)(ceil_div(ceil_div(g->m, MR), t.rows) * MR),
           n = (double)(ceil_div(ceil_div(g->n, GL), t.columns) * GL);
    double strips = (double)ceil_div((int64_t)n, NC);
    double multiply = m * n / (2 * GL);
    return multiply + 8.0 / GL * n * (g->b_col == 1 ? 0.4 : 0.6) + strips * m * (g->a_col == 1 ? 0.05 : 0.2);
}

static struct grid choose_grid(const struct lvn_gemm *g, int n_threads)
{
    struct grid best = {1, n_threads};
    double least = cost(g, best);
    for (int rows = 2; rows <= n_threads; rows++) {
        if (n_threads % rows) continue;
        struct grid t = {rows, n_threads / rows};
        double c = cost(g, t);
        if (c < least) least = c, best = t;
    }
    return best;
}

/* --- one thread's part ------------------------------------------------------------------------------------------ */

typedef void run_tile(const struct tile *t);
#define TILE(rows, vectors)                                                                                            \
    static void tile_##rows##_##vectors(const struct tile *t)                                                          \
    {                                                                                                                  \
        tile_run(t, rows, vectors, false);                                                                             \
    }                                                                                                                  \
    static void packed_##rows##_##vectors(const struct tile *t)                                                        \
    {                                                                                                                  \
        tile_run(t, rows, vectors, true);                                                                              \
    }
#define ENTRY(rows, vectors) [rows - 1][vectors - 1] = {tile_##rows##_##vectors, packed_##rows##_##vectors},
#if defined(__AVX512F__)
#define VECTORS(X, rows) X(rows, 1) X(rows, 2) X(rows, 3)
#define TILES(X)                                                                                                       \
    VECTORS(X, 1) VECTORS(X, 2) VECTORS(X, 3) VECTORS(X, 4) VECTORS(X, 5) VECTORS(X, 6) VECTORS(X, 7) VECTORS(X, 8)
#else
#if defined(__aarch64__)
#define VECTORS(X, rows) X(rows, 1) X(rows, 2) X(rows, 3) X(rows, 4)
#else
#define VECTORS(X, rows) X(rows, 1) X(rows, 2)
#endif
#define TILES(X) VECTORS(X, 1) VECTORS(X, 2) VECTORS(X, 3) VECTORS(X, 4) VECTORS(X, 5) VECTORS(X, 6)
#endif
TILES(TILE)
static run_tile *const tiles[MR][NV][2] = {TILES(ENTRY)};

static const float zeros[NC + NR];

/* What a thread works on: its part of C, the current strip and block, and where packed operands go. */
struct part {
    const struct lvn_gemm *g;
    int64_t i0, i1; /* rows */
    int64_t j, n;   /* strip */
    int64_t k0, k;  /* block */
    float *b, *a;
};

static bool packs_a(const struct lvn_gemm *g)
{
    return g->a_col != 1;
}

/* Rows i0..i1-1 of A, for each tile (k, rows). A few k at a time, so that cache lines that two tiles share are read
 * once. */
static void pack_tiles(const struct part *p, int64_t i0, int64_t i1)
{
    enum { STEP = 16 };
    const struct lvn_gemm *g = p->g;
    for (int64_t k = 0; k < p->k; k += STEP)
        for (int64_t i = i0; i < i1; i += MR) {
            int64_t rows = min(MR, i1 - i), steps = min(STEP, p->k - k);
            const float *a = g->a + i * g->a_row + (p->k0 + k) * g->a_col;
            float *out = p->a + (i - i0) * p->k + k * rows;
            if (g->a_row == 1)
                pack_a(steps, rows, a, g->a_col, out);
            else
                pack_a_any(steps, rows, a, g->a_row, g->a_col, out);
        }
}

/* One tile's rows along the whole strip. a: those rows of A, where packed. */
static void run_rows(const struct part *p, int64_t i, int64_t rows, const float *a)
{
    const struct lvn_gemm *g = p->g;
    struct tile t = {.k = p->k, .a = a, .b = p->b, .c_row = g->c_row};
    if (!a) {
        t.a = g->a + i * g->a_row + p->k0;
        t.a_row = g->a_row * 4;
    }
    for (int64_t j = 0; j < p->n;) {
        int64_t width = panel_width(p->n - j);
        t.n = min(p->n - j, width);
        t.c = g->c + i * g->c_row + p->j + j;
        t.start = t.c;
        t.start_row = g->c_row;
        if (p->k0 == 0 && !g->add) {
            t.start = g->bias ? g->bias + p->j + j : zeros;
            t.start_row = 0;
        }
        tiles[rows - 1][width / GL - 1][a != NULL](&t);
        t.b += width * p->k;
        j += width;
    }
    if (p->k0 + p->k == g->k && g->finish) g->finish(g, i, rows, p->j, p->n);
}

static void run_strip(struct part *p, int64_t block)
{
    const struct lvn_gemm *g = p->g;
    for (p->k0 = 0; p->k0 < g->k; p->k0 += block) {
        p->k = min(block, g->k - p->k0);
        pack_b(p->k, p->n, g->b + p->k0 * g->b_row + p->j * g->b_col, g->b_row, g->b_col, p->b);
        for (int64_t i = p->i0; i < p->i1; i += MR) {
            int64_t in_group = (i - p->i0) % GROUP;
            if (packs_a(g) && in_group == 0) pack_tiles(p, i, min(i + GROUP, p->i1));
            run_rows(p, i, min(MR, p->i1 - i), packs_a(g) ? p->a + in_group * p->k : NULL);
        }
    }
}

static int64_t scratch_b(const struct lvn_gemm *g)
{
    return ceil_div(min(ceil_div(g->n, NR) * NR, NC) * block_k(g->k), 1024) * 1024;
}

static int64_t scratch_a(const struct lvn_gemm *g)
{
    return packs_a(g) ? ceil_div(min(GROUP, g->m) * block_k(g->k), 1024) * 1024 : 0;
}

int64_t LVN_ISA_NAME(lvn_gemm_scratch)(const struct lvn_gemm *g)
{
    return (scratch_b(g) + scratch_a(g)) * 4;
}

void LVN_ISA_NAME(lvn_gemm)(const struct lvn_gemm *g, void *scratch, int thread, int n_threads)
{
    if (lvn_gemm_onednn_chosen() && lvn_gemm_onednn(g, thread, n_threads)) return;
    struct grid grid = choose_grid(g, n_threads);
    struct part p = {.g = g};
    int64_t j0, j1;
    p.b = scratch;
    p.a = p.b + scratch_b(g);
    lvn_share(g->m, MR, thread / grid.columns, grid.rows, &p.i0, &p.i1);
    lvn_share(g->n, GL, thread % grid.columns, grid.columns, &j0, &j1);
    if (p.i0 == p.i1 || j0 == j1) return;
    int64_t strip = strip_n(j1 - j0), block = block_k(g->k);
    for (p.j = j0; p.j < j1; p.j += strip) {
        p.n = min(strip, j1 - p.j);
        run_strip(&p, block);
    }
}

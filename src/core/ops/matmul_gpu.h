/* matmul_gpu.h - launches matrix multiplications on devices (struct lvn_gpu_product of kernel_launch.h), for linear,
 * the operations fused with it, and heads. The device's library computes them if it supports them, else linear.k. */
#ifndef LVN_MATMUL_GPU_H
#define LVN_MATMUL_GPU_H

#include "backend/gpu/kernel_language.h"
#ifndef LVN_DEVICE

/* The side of the tile that a group computes. TILE_SMALL is the default of linear.k. */
enum { TILE_SMALL = 64, TILE_LARGE = 128 };

static inline int64_t matmul_tiles(int64_t M, int64_t N, int64_t tile)
{
    return (M + tile - 1) / tile * ((N + tile - 1) / tile);
}

static inline void matmul_launch_tiles(struct lvn_gpu *g, const struct lvn_gpu_product *p, int64_t tile)
{
    const char *source = g->source, *constants = g->constants;
    g->source = "linear";
    if (g->call->matmul_dtype != LVN_F32) lvn_gpu_define_type(g, "ROUNDED", g->call->matmul_dtype);
    if (tile != TILE_SMALL) lvn_gpu_define(g, "TILE", tile);
    LVN_LAUNCH(g, "product", (p->N + tile - 1) / tile, (p->M + tile - 1) / tile, 1, p->a, p->b, p->bias, p->c, p->y,
               p->add, LVN_LONG(p->M), LVN_LONG(p->N), LVN_LONG(p->K), LVN_LONG(p->a_row), LVN_LONG(p->a_col),
               LVN_LONG(p->b_row), LVN_LONG(p->b_col), LVN_LONG(p->c_row ? p->c_row : p->N), LVN_INT(p->tanh_gelu));
    g->source = source, g->constants = constants;
}

/* Large tiles read less memory, but there must be enough of them to occupy a device. */
static inline void matmul_launch(struct lvn_gpu *g, const struct lvn_gpu_product *p)
{
    enum { ENOUGH = 128 };
    const bool large = g->call->matmul_dtype != LVN_F32 && matmul_tiles(p->M, p->N, TILE_LARGE) >= ENOUGH;
    if (!lvn_gpu_product(g, p)) matmul_launch_tiles(g, p, large ? TILE_LARGE : TILE_SMALL);
}

/* Rows per partial sum. Sums over R rows are computed in parts, so that there is work for a whole device, but in no
 * more than CUDA has groups in the second dimension of a grid. */
static inline int64_t column_rows(int64_t R)
{
    enum { ROWS = 256, MAX_PARTS = 65535 };
    const int64_t min = (R + MAX_PARTS - 1) / MAX_PARTS;
    return min > ROWS ? min : ROWS;
}

static inline int64_t column_parts(int64_t R)
{
    return (R + column_rows(R) - 1) / column_rows(R);
}

/* Scratch for the partial sums of N sums over R rows. Returns its offset. */
static inline int64_t column_scratch(struct lvn_gpu *g, int64_t R, int64_t N)
{
    return lvn_gpu_scratch(g, column_parts(R) * N * (int64_t)sizeof(double));
}

enum { COLUMNS = 32 }; /* of a group of the kernels, or groups of LVN_WIDTH columns */

/* Add the partial sums. sums: the argument `sums`, (N). */
static inline void column_parts_launch(struct lvn_gpu *g, int64_t parts, struct lvn_gpu_arg sums,
                                       struct lvn_gpu_arg add, int64_t R, int64_t N)
{
    const char *source = g->source;
    g->source = "linear";
    LVN_LAUNCH(g, "column_parts", (N + COLUMNS - 1) / COLUMNS, 1, 1, LVN_SCRATCH(parts, parts), sums, add,
               LVN_LONG(column_parts(R)), LVN_LONG(N));
    g->source = source;
}

/* Launch a kernel that sums the columns of (R,N), with x_row elements between rows, column_rows(R) at a time;
 * the arguments end with LVN_GPU_END. */
static inline void columns_launch(struct lvn_gpu *g, const char *kernel, int64_t R, int64_t N, int64_t x_row,
                                  const struct lvn_gpu_arg *args)
{
    const char *constants = g->constants;
    const int width = lvn_gpu_width(g, x_row, args);
    const int64_t columns = COLUMNS * width;
    if (width > 1) lvn_gpu_define(g, "LVN_WIDTH", width);
    lvn_gpu_launch(g, kernel, (N + columns - 1) / columns, column_parts(R), 1, args);
    g->constants = constants;
}
#define LVN_LAUNCH_COLUMNS(g, kernel, R, N, x_row, ...)                                                                \
    columns_launch(g, kernel, R, N, x_row, (const struct lvn_gpu_arg[]){__VA_ARGS__, {.kind = LVN_GPU_END}})

/* sums (N) over the rows of x (R,N), with x_row elements between rows; x and sums: the arguments `x` and `sums`. */
static inline void column_sums_launch(struct lvn_gpu *g, int64_t parts, struct lvn_gpu_arg x, struct lvn_gpu_arg sums,
                                      struct lvn_gpu_arg add, int64_t R, int64_t N, int64_t x_row)
{
    const char *source = g->source;
    g->source = "linear";
    LVN_LAUNCH_COLUMNS(g, "column_sums", R, N, x_row, x, LVN_SCRATCH(parts, parts), LVN_LONG(column_rows(R)),
                       LVN_LONG(R), LVN_LONG(N), LVN_LONG(x_row));
    g->source = source;
    column_parts_launch(g, parts, sums, add, R, N);
}

/* c = x w + b, and y = gelu(c) unless y is absent. w (K,N) if in_out, else (N,K). */
static inline void linear_forward(struct lvn_gpu *g, struct lvn_gpu_arg c, struct lvn_gpu_arg y, bool in_out,
                                  int tanh_gelu)
{
    const struct lvn_desc *w = g->call->in[1].desc, *x = g->call->in[0].desc;
    int64_t K = w->dim[in_out ? 0 : 1], N = w->dim[in_out ? 1 : 0];
    struct lvn_gpu_product p = {.a = LVN_IN(0, a),
                                .b = LVN_IN(1, b),
                                .bias = LVN_IN(2, bias),
                                .c = c,
                                .y = y,
                                .add = LVN_INT(0),
                                .M = lvn_desc_rows(x),
                                .N = N,
                                .K = K,
                                .a_row = K,
                                .a_col = 1,
                                .b_row = in_out ? N : 1,
                                .b_col = in_out ? 1 : K,
                                .tanh_gelu = tanh_gelu};
    matmul_launch(g, &p);
}

/* The gradients of x, w and b that are needed, from dy (R,N), whose name the launches replace. parts: scratch with the
 * partial sums of the columns of dy. */
enum { COLUMNS_NOT_SUMMED = -1 };
static inline void linear_backward(struct lvn_gpu *g, struct lvn_gpu_arg dy, bool in_out, int64_t R, int64_t K,
                                   int64_t N, int64_t parts)
{
    const struct lvn_call *call = g->call;
    struct lvn_gpu_arg a = dy, b = dy, x = dy;
    a.name = "a", b.name = "b", x.name = "x";
    if (call->din[0].desc) {
        struct lvn_gpu_product p = {.a = a,
                                    .b = LVN_IN(1, b),
                                    .bias = LVN_ABSENT(bias),
                                    .c = LVN_DIN(0, c),
                                    .y = LVN_ABSENT(y),
                                    .add = LVN_ADDS(0),
                                    .M = R,
                                    .N = K,
                                    .K = N,
                                    .a_row = N,
                                    .a_col = 1,
                                    .b_row = in_out ? 1 : K,
                                    .b_col = in_out ? N : 1};
        matmul_launch(g, &p);
    }
    if (call->din[1].desc) {
        struct lvn_gpu_product p = {
            .bias = LVN_ABSENT(bias), .c = LVN_DIN(1, c), .y = LVN_ABSENT(y), .add = LVN_ADDS(1), .K = R};
        if (in_out) { /* (K,N) = x^T dy */
            p.a = (struct lvn_gpu_arg)LVN_IN(0, a), p.b = b;
            p.M = K, p.N = N, p.a_row = 1, p.a_col = K, p.b_row = N, p.b_col = 1;
        } else { /* (N,K) = dy^T x */
            p.a = a, p.b = (struct lvn_gpu_arg)LVN_IN(0, b);
            p.M = N, p.N = K, p.a_row = 1, p.a_col = N, p.b_row = K, p.b_col = 1;
        }
        matmul_launch(g, &p);
    }
    const struct lvn_gpu_arg sums = LVN_DIN(2, sums), add = LVN_ADDS(2);
    if (call->din[2].desc && parts >= 0)
        column_parts_launch(g, parts, sums, add, R, N);
    else if (call->din[2].desc)
        column_sums_launch(g, column_scratch(g, R, N), x, sums, add, R, N, N);
}

#endif
#endif

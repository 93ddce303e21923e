/* norm_gpu.h - code that normalizations share on devices: sums over a row, and the launches of the kernels of
 * layernorm.k for layernorm, residual_layernorm, rmsnorm and residual_rmsnorm.
 *
 * ROW_ITEMS items process a row of COLUMNS values and hold it in registers, VECTORS times LVN_WIDTH per item. A group
 * processes GROUP_ROWS rows. If a row is short enough, its items are a warp, and its sums need no barrier. */
#ifndef LVN_NORM_GPU_H
#define LVN_NORM_GPU_H

#include "ops/matmul_gpu.h"
#include "ops/numbers_gpu.h"
#ifdef LVN_DEVICE

#define GROUP_ROWS (LVN_ITEMS / ROW_ITEMS)
#define VECTORS ((COLUMNS + ROW_ITEMS * LVN_WIDTH - 1) / (ROW_ITEMS * LVN_WIDTH))
/* The item's first column in vector p; and a loop over the vectors in which it has any. */
#define COLUMN(p) (((p)*ROW_ITEMS + LVN_ITEM % ROW_ITEMS) * LVN_WIDTH)
#define EACH_VECTOR(p)                                                                                                 \
    LVN_UNROLLED                                                                                                       \
    for (int p = 0; p < VECTORS; p++)                                                                                  \
        if (COLUMN(p) < COLUMNS)

/* The sum over the items of a row; all items of the group make the call and get the sum of their row. */
LVN_FUNCTION float row_sum(float x, LVN_LOCAL float *shared)
{
#ifdef LVN_CUDA
    for (int far = 16; far > 0; far /= 2) x += __shfl_xor_sync(0xffffffffu, x, far);
#if ROW_ITEMS > 32
    LVN_BARRIER();
    if (LVN_ITEM % 32 == 0) shared[LVN_ITEM / 32] = x;
    LVN_BARRIER();
    x = 0;
    for (int warp = 0; warp < ROW_ITEMS / 32; warp++) x += shared[LVN_ITEM / ROW_ITEMS * (ROW_ITEMS / 32) + warp];
#endif
    return x;
#else
    LVN_BARRIER();
    shared[LVN_ITEM] = x;
    LVN_BARRIER();
    x = 0; /* not a tree, which would need a barrier per level */
    for (int k = 0; k < ROW_ITEMS; k++) x += shared[LVN_ITEM / ROW_ITEMS * ROW_ITEMS + k];
    return x;
#endif
}

#else /* the host's half */

#include "ops/norm.h"

static inline struct lvn_gpu_arg norm_arg(bool has, struct lvn_gpu_arg a)
{
    return has ? a : (struct lvn_gpu_arg){.kind = LVN_GPU_OPERAND_NONE, .name = a.name};
}
/* The argument, or an absent operand if `has` is false. */
#define NORM_IF(has, argument) norm_arg(has, (struct lvn_gpu_arg)argument)

/* The normalized values, as backward and restore read them. */
static inline struct lvn_gpu_arg norm_x(const struct lvn_norm *n)
{
    return n->residual ? (struct lvn_gpu_arg)LVN_OUT(0, x) : (struct lvn_gpu_arg)LVN_IN(0, x);
}

/* Without gamma the kernels use zeros and the offset 1 (NO_GAMMA). */
static inline struct lvn_gpu_arg norm_gamma(const struct lvn_gpu *g, const struct lvn_norm *n)
{
    return norm_arg(g->call->in[n->gamma].desc, (struct lvn_gpu_arg)LVN_IN(n->gamma, gamma));
}
static inline double norm_offset(const struct lvn_gpu *g, const struct lvn_norm *n)
{
    return g->call->in[n->gamma].desc ? n->offset : 1;
}

/* Number of items per row of C values: a warp, or the number that holds the row in registers. */
static inline int64_t norm_row_items(int64_t C, int width)
{
    enum { WARP = 32, MAX_VECTORS = 4 };
    int64_t items = WARP;
    while (items < LVN_ITEMS && C > items * width * MAX_VECTORS) items *= 2;
    return items;
}

/* Define what the kernels for rows of C values need; returns the number of rows per group. */
static inline int64_t norm_define(struct lvn_gpu *g, int64_t C, bool gamma, const struct lvn_gpu_arg *args)
{
    const int width = lvn_gpu_width(g, C, args);
    const int64_t items = norm_row_items(C, width);
    g->source = "layernorm";
    if (width > 1) lvn_gpu_define(g, "LVN_WIDTH", width);
    lvn_gpu_define(g, "ROW_ITEMS", items);
    lvn_gpu_define(g, "COLUMNS", C);
    if (!gamma) lvn_gpu_define(g, "NO_GAMMA", 1);
    return LVN_ITEMS / items;
}

static inline void norm_forward(struct lvn_gpu *g, const struct lvn_norm *n)
{
    const struct lvn_desc *x = g->call->in[0].desc;
    const int64_t R = lvn_desc_rows(x), C = x->dim[x->rank - 1];
    const struct lvn_gpu_arg args[] = {LVN_IN(0, x),
                                       NORM_IF(n->residual, LVN_IN(1, b)),
                                       NORM_IF(n->residual, LVN_OUT(0, s)),
                                       norm_gamma(g, n),
                                       NORM_IF(n->has_beta, LVN_IN(n->beta, beta)),
                                       LVN_OUT(n->y, y),
                                       NORM_IF(n->has_mean, LVN_OUT(n->mean, mean)),
                                       LVN_OUT(n->rstd, rstd),
                                       LVN_STEP,
                                       LVN_LONG(R),
                                       LVN_FLOAT(n->eps),
                                       LVN_FLOAT(norm_offset(g, n)),
                                       LVN_DROPOUT(g, n->p, x),
                                       {.kind = LVN_GPU_END}};
    const int64_t rows = norm_define(g, C, g->call->in[n->gamma].desc, args);
    lvn_gpu_launch(g, "norm_forward", (R + rows - 1) / rows, 1, 1, args);
}

static inline void norm_restore(struct lvn_gpu *g, const struct lvn_norm *n)
{
    const struct lvn_desc *d = g->call->out[n->y].desc;
    const int64_t C = d->dim[d->rank - 1], count = lvn_desc_count(d);
    const struct lvn_gpu_arg args[] = {norm_x(n),
                                       norm_gamma(g, n),
                                       NORM_IF(n->has_beta, LVN_IN(n->beta, beta)),
                                       LVN_OUT(n->y, y),
                                       NORM_IF(n->has_mean, LVN_OUT(n->mean, mean)),
                                       LVN_OUT(n->rstd, rstd),
                                       LVN_LONG(count),
                                       LVN_FLOAT(norm_offset(g, n)),
                                       {.kind = LVN_GPU_END}};
    (void)norm_define(g, C, g->call->in[n->gamma].desc, args);
    lvn_gpu_launch(g, "norm_restore", lvn_gpu_groups(count / lvn_gpu_width(g, C, args)), 1, 1, args);
}

/* Launch the kernels for the gradients of gamma and beta. constants: g->constants before norm_define(). width: vector
 * width of the kernels. */
static inline void norm_weight_gradients(struct lvn_gpu *g, const struct lvn_norm *n, const char *constants, int width,
                                         int64_t R, int64_t C)
{
    const bool has_gamma = g->call->din[n->gamma].desc, has_beta = n->has_beta && g->call->din[n->beta].desc;
    if (!has_gamma && !has_beta) return;
    const int64_t gammas = has_gamma ? column_scratch(g, R, C) : 0, betas = has_beta ? column_scratch(g, R, C) : 0;
    const int64_t columns = COLUMNS * width;
    LVN_LAUNCH(g, "norm_weight_gradients", (C + columns - 1) / columns, column_parts(R), 1, norm_x(n),
               LVN_DOUT(n->y, dy), NORM_IF(n->has_mean, LVN_OUT(n->mean, mean)), LVN_OUT(n->rstd, rstd),
               NORM_IF(has_gamma, LVN_SCRATCH(gammas, gammas)), NORM_IF(has_beta, LVN_SCRATCH(betas, betas)),
               LVN_LONG(column_rows(R)), LVN_LONG(R));
    g->constants = constants;
    if (has_gamma)
        column_parts_launch(g, gammas, (struct lvn_gpu_arg)LVN_DIN(n->gamma, sums),
                            (struct lvn_gpu_arg)LVN_ADDS(n->gamma), R, C);
    if (has_beta)
        column_parts_launch(g, betas, (struct lvn_gpu_arg)LVN_DIN(n->beta, sums), (struct lvn_gpu_arg)LVN_ADDS(n->beta),
                            R, C);
}

static inline void norm_backward(struct lvn_gpu *g, const struct lvn_norm *n)
{
    const struct lvn_call *c = g->call;
    const struct lvn_gpu_arg x = norm_x(n);
    const struct lvn_desc *d = lvn_gpu_desc(c, &x);
    const int64_t R = lvn_desc_rows(d), C = d->dim[d->rank - 1];
    const struct lvn_gpu_arg args[] = {x,
                                       norm_gamma(g, n),
                                       NORM_IF(n->has_mean, LVN_OUT(n->mean, mean)),
                                       LVN_OUT(n->rstd, rstd),
                                       NORM_IF(n->residual, LVN_DOUT(0, ds)),
                                       LVN_DOUT(n->y, dy),
                                       LVN_DIN(0, da),
                                       NORM_IF(n->residual, LVN_DIN(1, db)),
                                       LVN_STEP,
                                       LVN_LONG(R),
                                       LVN_FLOAT(norm_offset(g, n)),
                                       LVN_ADDS(0),
                                       n->residual ? (struct lvn_gpu_arg)LVN_ADDS(1) : (struct lvn_gpu_arg)LVN_INT(0),
                                       LVN_DROPOUT(g, n->p, d),
                                       {.kind = LVN_GPU_END}};
    const char *constants = g->constants;
    const int64_t rows = norm_define(g, C, g->call->in[n->gamma].desc, args);
    if (c->din[0].desc || (n->residual && c->din[1].desc))
        lvn_gpu_launch(g, "norm_backward", (R + rows - 1) / rows, 1, 1, args);
    norm_weight_gradients(g, n, constants, lvn_gpu_width(g, C, args), R, C);
    g->constants = constants;
}

/* The launches of an operation of norm.h. */
#define NORM_GPU_OPERATION(id)                                                                                         \
    static void forward(struct lvn_gpu *g)                                                                             \
    {                                                                                                                  \
        const struct lvn_norm n = lvn_norm_of(LVN_OP_##id, g->call->attr);                                             \
        norm_forward(g, &n);                                                                                           \
    }                                                                                                                  \
    static void restore(struct lvn_gpu *g)                                                                             \
    {                                                                                                                  \
        const struct lvn_norm n = lvn_norm_of(LVN_OP_##id, g->call->attr);                                             \
        norm_restore(g, &n);                                                                                           \
    }                                                                                                                  \
    static void backward(struct lvn_gpu *g)                                                                            \
    {                                                                                                                  \
        const struct lvn_norm n = lvn_norm_of(LVN_OP_##id, g->call->attr);                                             \
        norm_backward(g, &n);                                                                                          \
    }                                                                                                                  \
    LVN_GPU_OPERATION(id, .forward = forward, .backward = backward, .restore = restore)

#endif
#endif

/* conv2d_cpu.h - convolution on CPUs without im2col, for conv2d.cpu.c and conv2d_relu.cpu.c.
 *
 * All three products use one idea. If the output has the row length of the input, then the element of the input under
 * entry (u,v) of the kernel for element p = i W + j of the output is at p + u W + v: at the same distance for all p. So
 * a convolution is a matrix multiplication in which the rows of B are shifted views of the input, and nothing is
 * copied. The elements between the rows of the narrower output are computed too and dropped (8 % of 26 x 26).
 *
 *   y[o][p]    = sum over k = (c,u,v) of w[o][k] x[off(k) + p]
 *   dx[c][p]   = sum over k = (o,u,v) of w'[c][k] dy'[off(k) + p]    dy' padded with zeros, the kernel reversed
 *   dw[o][k]   = sum over samples, i, j of dy[o][i,j] x[off(k) + i W + j]
 *
 * For kernels of three rows, pairs of rows of y are computed by four such products, called banks (Winograd's algorithm,
 * conv2d_pairs_cpu.h).
 *
 * Each element of y and dx is a sum over fixed blocks of k, each of which is one chain of multiply-adds; each element
 * of dw is a sum over fixed blocks of samples and rows. So bits depend neither on threads nor, from AVX2 up, on the
 * instruction set. */
#ifndef LVN_CONV2D_CPU_H
#define LVN_CONV2D_CPU_H

#include "base/threads.h"
#include "ops/conv2d_dw_cpu.h"

/* --- forward --- */

LVN_INLINE int64_t conv_groups(int64_t rows)
{
    return (rows + CONV_ROWS - 1) / CONV_ROWS;
}

/* Sizes of a product's scratch, in floats: shared parts, then a part for each thread. */
struct conv_sizes {
    int64_t weights;     /* shared: packed weights of all banks */
    int64_t offsets;     /* shared: two floats for each offset */
    int64_t planes;      /* a thread's: padded planes of dy; 0: those of x itself */
    int64_t transformed; /* a thread's: see struct conv_banks */
    int64_t out;         /* a thread's: output of all banks */
};

/* Bytes of scratch. */
LVN_INLINE int64_t conv_bytes(const struct conv_sizes *r, int n_threads)
{
    return 4 * (r->weights + r->offsets + n_threads * (r->planes + r->transformed + r->out));
}

/* For M rows of output. */
LVN_INLINE struct conv_sizes conv_sizes_make(const struct conv_banks *b, int64_t M, int64_t planes)
{
    const int64_t rows = conv_groups(M) * CONV_ROWS, banks = b->plan.banks, K = b->product.K;
    return (struct conv_sizes){.weights = banks * conv_up(K * rows, 16),
                               .offsets = conv_up(2 * K, 16),
                               .planes = conv_up(planes, 16),
                               .transformed =
                                   banks > 1 ? conv_up(banks * b->channels * b->bank_rows * b->width, 16) : 0,
                               .out = banks * rows * conv_up(b->product.P, LVN_LANES)};
}

/* Addresses in scratch, besides those in struct conv_banks. */
struct conv_memory {
    float *weights;
    float *planes;
    int64_t *offset;
};

/* Lay out the scratch: returns its addresses, and sets those of the banks. */
LVN_INLINE struct conv_memory conv_layout(const struct conv_sizes *r, struct conv_banks *b, void *scratch, int thread)
{
    float *shared = scratch, *local = shared + r->weights + r->offsets + thread * (r->planes + r->transformed + r->out);
    const struct conv_memory memory = {shared, local, (int64_t *)(void *)(shared + r->weights)};
    b->transformed = local + r->planes;
    b->weights = r->weights / b->plan.banks;
    b->out = r->out / b->plan.banks;
    b->product.w = memory.weights;
    b->product.offset = memory.offset;
    b->product.out = b->transformed + r->transformed;
    b->product.pitch = conv_up(b->product.P, LVN_LANES);
    return memory;
}

LVN_INLINE struct conv_banks conv_forward_banks(const struct lvn_conv2d *c)
{
    struct conv_banks b = {.plan = conv_plan_make(c), .channels = c->C, .rows = c->H, .width = c->W};
    b.bank_rows = conv_bank_rows(&b.plan, c->OH);
    b.product.K = c->C * b.plan.taps * c->KW;
    b.product.P = (b.bank_rows - 1) * c->W + c->OW;
    return b;
}

/* Strided weights (M,K): element (m, k = (channel,u,v)) at start + m row + channel channel_step + u row_step + v
 * column_step. */
struct conv_weights {
    const float *start;
    int64_t M;
    int64_t K;
    int64_t U; /* rows of the kernel */
    int64_t V; /* columns of the kernel */
    int64_t row;
    int64_t channel_step;
    int64_t row_step;
    int64_t column_step;
};

/* Pack the weights into groups of rows, bank by bank; rows beyond M are zeros. Threads divide the groups. */
static inline void conv_pack(const struct conv_weights *w, const struct conv_banks *b, float *target, int thread,
                             int n_threads)
{
    const int64_t groups = conv_groups(w->M), K = w->K;
    int64_t item, end;
    lvn_thread_range(b->plan.banks * groups, 1, thread, n_threads, &item, &end);
    for (; item < end; item++) {
        const int bank = (int)(item / groups);
        const int64_t group = item % groups;
        float *packed = target + bank * b->weights + group * K * CONV_ROWS;
        for (int64_t k = 0; k < K; k++) {
            const float *source = w->start + k / (w->U * w->V) * w->channel_step + k / w->V % w->U * w->row_step +
                                  k % w->V * w->column_step;
            for (int64_t r = 0; r < CONV_ROWS; r++) {
                const int64_t m = group * CONV_ROWS + r;
                const float *g = source + m * w->row;
                if (m >= w->M)
                    packed[k * CONV_ROWS + r] = 0;
                else
                    packed[k * CONV_ROWS + r] = b->plan.banks == 1 ? *g : conv_bank_weight(bank, g, w->row_step);
            }
        }
    }
}

/* Store channel m of the wide output, without the elements between its rows, to y (OH,OW), with bias and ReLU. */
LVN_INLINE void conv_store_channel(const struct lvn_conv2d *c, const struct conv_banks *b, int64_t m, float bias,
                                   const bool relu, float *y)
{
    for (int64_t i = 0; i < c->OH; i++)
        for (int64_t j = 0; j < c->OW; j += LVN_LANES) {
            int64_t n = c->OW - j < LVN_LANES ? c->OW - j : LVN_LANES;
            vf v = conv_output(b, m, i, j, n) + vset(bias);
            vstore_over(y + i * c->OW + j, relu ? vmax(vset(0), v) : v, n, y + c->OH * c->OW);
        }
}

LVN_INLINE void conv_forward(const struct lvn_conv2d *c, const struct lvn_call *call, const bool relu, int thread,
                             int n_threads)
{
    const float *x = call->in[0].p, *w = call->in[1].p, *bias = call->in[2].p;
    struct conv_banks b = conv_forward_banks(c);
    const struct conv_sizes sizes = conv_sizes_make(&b, c->O, 0);
    const struct conv_memory memory = conv_layout(&sizes, &b, call->scratch, thread);
    int64_t K = b.product.K, U = b.plan.taps, groups = conv_groups(c->O), item, end;
    const struct conv_weights weights = {w, c->O, K, U, c->KW, c->C * c->KH * c->KW, c->KH * c->KW, c->KW, 1};
    const bool pairs = b.plan.banks > 1;
    conv_pack(&weights, &b, memory.weights, thread, n_threads);
    for (int64_t k = 0; thread == 0 && k < K; k++)
        memory.offset[k] = pairs ? k / c->KW * b.bank_rows * b.width + k % c->KW
                                 : (k / (U * c->KW) * c->H + k / c->KW % U) * c->W + k % c->KW;
    lvn_team_barrier();
    lvn_thread_range(c->N * groups, 1, thread, n_threads, &item, &end);
    while (item < end) {
        int64_t n = item / groups, first = item % groups, last = end - n * groups < groups ? end - n * groups : groups;
        const float *s = x + n * c->C * c->H * c->W;
        for (int64_t k = 0; pairs && k < c->C; k++) conv_transform(&b, s + k * c->H * c->W, k);
        conv_multiply_banks(&b, s, first, last);
        for (int64_t o = first * CONV_ROWS; o < last * CONV_ROWS && o < c->O; o++)
            conv_store_channel(c, &b, o, bias ? bias[o] : 0, relu,
                               (float *)call->out[0].p + (n * c->O + o) * c->OH * c->OW);
        item = n * groups + last;
    }
}

/* --- the gradient of x --- */

/* A plane of dy with a border of zeros: KH - 1 rows above and below, KW - 1 columns on the left and on the right. */
struct conv_padded {
    int64_t up, left; /* rows above, columns on the left */
    int64_t width;    /* of a padded row */
    int64_t size;     /* of one padded plane, in floats */
};

LVN_INLINE struct conv_padded conv_padded_make(const struct lvn_conv2d *c)
{
    struct conv_padded a = {.up = c->KH - 1, .left = c->KW - 1, .width = c->W + c->KW - 1};
    a.size = (c->H + a.up) * a.width;
    return a;
}

LVN_INLINE struct conv_banks conv_dx_banks(const struct lvn_conv2d *c, const struct conv_padded *a)
{
    struct conv_banks b = {.plan = conv_plan_make(c), .channels = c->O, .rows = c->H + a->up, .width = a->width};
    b.bank_rows = conv_bank_rows(&b.plan, c->H);
    b.product.K = c->O * b.plan.taps * c->KW;
    b.product.P = (b.bank_rows - 1) * a->width + c->W;
    return b;
}

LVN_INLINE struct conv_sizes conv_dx_sizes(const struct lvn_conv2d *c, const struct conv_padded *a,
                                           const struct conv_banks *b)
{
    return conv_sizes_make(b, c->C, (b->plan.banks > 1 ? 1 : c->O) * a->size);
}

/* Copy one channel of dy (OH,OW), 0 where ReLU's output y is not positive, with padding. */
LVN_INLINE void conv_pad(const struct lvn_conv2d *c, const struct conv_padded *a, const float *dy, const float *y,
                         float *target)
{
    memset(target, 0, sizeof *target * (size_t)a->size);
    for (int64_t i = 0; i < c->OH; i++)
        for (int64_t j = 0; j < c->OW; j += LVN_LANES) {
            const int64_t n = c->OW - j < LVN_LANES ? c->OW - j : LVN_LANES;
            float *row = target + (i + a->up) * a->width + a->left;
            vstore_over(row + j, conv_slope(dy, y, i * c->OW + j, n), n, target + a->size);
        }
}

/* Store the wide plane of channel m to dx (H,W). */
LVN_INLINE void conv_store_plane(const struct lvn_conv2d *c, const struct conv_banks *banks, int64_t m, bool add,
                                 float *dx)
{
    for (int64_t i = 0; i < c->H; i++)
        for (int64_t j = 0; j < c->W; j += LVN_LANES) {
            const int64_t n = c->W - j < LVN_LANES ? c->W - j : LVN_LANES;
            float *to = dx + i * c->W + j;
            const vf v = conv_output(banks, m, i, j, n);
            if (add)
                vstore_n(to, vload_n(to, n) + v, n);
            else
                vstore_over(to, v, n, dx + c->H * c->W);
        }
}

LVN_INLINE void conv_dx(const struct lvn_conv2d *c, const struct lvn_call *call, const bool relu, int thread,
                        int n_threads)
{
    const float *w = call->in[1].p, *dy = call->dout[0].p, *y = relu ? call->out[0].p : NULL;
    const struct conv_padded a = conv_padded_make(c);
    struct conv_banks banks = conv_dx_banks(c, &a);
    const struct conv_sizes sizes = conv_dx_sizes(c, &a, &banks);
    const struct conv_memory memory = conv_layout(&sizes, &banks, call->scratch, thread);
    const int64_t U = banks.plan.taps, V = c->KW, K = banks.product.K;
    const bool pairs = banks.plan.banks > 1;
    struct conv_weights weights = {w, c->C, K, U, V, c->KH * c->KW, c->C * c->KH * c->KW, c->KW, 1};
    int64_t n, end;
    if (pairs)
        weights.start += 2 * c->KW, weights.row_step = -c->KW; /* reversed rows; the offsets reverse the columns */
    conv_pack(&weights, &banks, memory.weights, thread, n_threads);
    for (int64_t k = 0; thread == 0 && k < K; k++)
        memory.offset[k] = pairs ? k / V * banks.bank_rows * a.width + a.left - k % V
                                 : k / (U * V) * a.size + (a.up - k / V % U) * a.width + a.left - k % V;
    lvn_team_barrier();
    lvn_thread_range(c->N, 1, thread, n_threads, &n, &end);
    for (; n < end; n++) {
        for (int64_t o = 0; o < c->O; o++) {
            const int64_t offset = (n * c->O + o) * c->OH * c->OW;
            float *plane = memory.planes + (pairs ? 0 : o * a.size);
            conv_pad(c, &a, dy + offset, y ? y + offset : NULL, plane);
            if (pairs) conv_transform(&banks, plane, o);
        }
        conv_multiply_banks(&banks, memory.planes, 0, conv_groups(c->C));
        for (int64_t m = 0; m < c->C; m++)
            conv_store_plane(c, &banks, m, call->add[0], (float *)call->din[0].p + (n * c->C + m) * c->H * c->W);
    }
}

/* --- the operations --- */

LVN_INLINE int64_t conv_scratch(const struct lvn_call *call, int n_threads)
{
    const struct lvn_conv2d c = lvn_conv2d_of(call);
    if (call->phase == LVN_FORWARD) {
        const struct conv_banks b = conv_forward_banks(&c);
        const struct conv_sizes sizes = conv_sizes_make(&b, c.O, 0);
        return conv_bytes(&sizes, n_threads);
    }
    const struct conv_padded a = conv_padded_make(&c);
    const struct conv_banks b = conv_dx_banks(&c, &a);
    const struct conv_sizes sizes = conv_dx_sizes(&c, &a, &b);
    const struct conv_dw d = conv_dw_make(&c);
    const int64_t dx = conv_bytes(&sizes, n_threads), dw = conv_dw_memory(&d, NULL, 0, n_threads, NULL);
    return dx > dw ? dx : dw;
}

/* The kernels of conv2d and, with `relu`, of conv2d_relu. */
#define CONV2D_CPU_OPERATION(id, relu)                                                                                 \
    static void forward(const struct lvn_call *call, int thread, int n_threads)                                        \
    {                                                                                                                  \
        const struct lvn_conv2d c = lvn_conv2d_of(call);                                                               \
        conv_forward(&c, call, relu, thread, n_threads);                                                               \
    }                                                                                                                  \
    static void backward(const struct lvn_call *call, int thread, int n_threads)                                       \
    {                                                                                                                  \
        const struct lvn_conv2d c = lvn_conv2d_of(call);                                                               \
        if (call->din[0].p) conv_dx(&c, call, relu, thread, n_threads);                                                \
        if (call->din[1].p || call->din[2].p) conv_dw_db(&c, call, relu, thread, n_threads);                           \
    }                                                                                                                  \
    LVN_CPU_OPERATION(id, .forward = forward, .backward = backward, .scratch = conv_scratch)

#endif

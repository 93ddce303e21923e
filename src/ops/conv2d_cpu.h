/* conv2d_cpu.h - convolutions without a matrix of patches; shared by conv2d and conv2d_relu.
 *
 * One idea carries all three products. Write the output with the row length of the input, so that element p = i W + j
 * has the element under entry (u,v) of the kernel at p + u W + v: at one distance for all p. So a convolution is a
 * matrix product whose rows of B are shifted views of the input; nothing is copied. What lies between the rows of the
 * narrower output is computed along and thrown away (8 % of 26 x 26).
 *
 *   y[o][p]    = sum over k = (c,u,v) of w[o][k] plane[off(k) + p]
 *   dx[c][p]   = sum over k = (o,u,v) of w'[c][k] dy'[off(k) + p]    dy' with zeros around, the kernel backwards
 *   dw[o][k]   = sum over samples, i, j of dy[o][i,j] plane[off(k) + i W + j]
 *
 * Where the kernel has three rows, pairs of rows of y go the same way in four banks (conv2d_pairs_cpu.h).
 *
 * Padding is copied around a sample first. A stride of s splits x into s s planes of every s-th row and column, in each
 * of which the stride is 1; the gradient of each of these planes is a product of its own.
 *
 * Each element of y and dx is the sum of fixed blocks of k, each one chain of multiply-adds; each of dw is the sum over
 * fixed blocks of samples and rows. So bits depend neither on threads nor, from AVX2 up, on the instruction set. */
#ifndef LVN_CONV2D_CPU_H
#define LVN_CONV2D_CPU_H

#include "base/threads.h"
#include "ops/conv2d_dw_cpu.h"

/* --- forward --- */

LVN_INLINE int64_t conv_groups(int64_t rows)
{
    return (rows + CONV_ROWS - 1) / CONV_ROWS;
}

/* The product of a phase and its memory in scratch, in floats: what all threads share, then each thread's own. */
struct conv_capacity {
    int64_t weights, offsets;  /* shared: packed, of all banks; two floats each */
    int64_t planes, seen, out; /* a thread's: a sample's, if they are not x's own; as in conv_banks; of all banks */
};

LVN_INLINE int64_t conv_bytes(const struct conv_capacity *r, int n_threads)
{
    return 4 * (r->weights + r->offsets + n_threads * (r->planes + r->seen + r->out));
}

/* M rows of output. */
LVN_INLINE struct conv_capacity conv_capacity_make(const struct conv_banks *b, int64_t M, int64_t planes)
{
    const int64_t rows = conv_groups(M) * CONV_ROWS, banks = b->way.banks, K = b->product.K;
    return (struct conv_capacity){.weights = banks * conv_up(K * rows, 16),
                                  .offsets = conv_up(2 * K, 16),
                                  .planes = conv_up(planes, 16),
                                  .seen = banks > 1 ? conv_up(banks * b->channels * b->bank_rows * b->width, 16) : 0,
                                  .out = banks * rows * conv_up(b->product.P, LVN_LANES)};
}

/* Where things lie: the banks' pointers, and of what is not theirs. */
struct conv_place {
    float *weights, *planes;
    int64_t *offset;
};

LVN_INLINE struct conv_place conv_settle(const struct conv_capacity *r, struct conv_banks *b, void *scratch, int thread)
{
    float *shared = scratch, *own = shared + r->weights + r->offsets + thread * (r->planes + r->seen + r->out);
    const struct conv_place at = {shared, own, (int64_t *)(void *)(shared + r->weights)};
    b->seen = own + r->planes;
    b->weights = r->weights / b->way.banks;
    b->out = r->out / b->way.banks;
    b->product.w = at.weights;
    b->product.offset = at.offset;
    b->product.out = b->seen + r->seen;
    b->product.pitch = conv_up(b->product.P, LVN_LANES);
    return at;
}

LVN_INLINE struct conv_banks conv_forward_banks(const struct lvn_conv2d *c, const struct conv_planes *p)
{
    struct conv_banks b = {.way = conv_way_make(c), .channels = c->C, .rows = p->rows, .width = p->width};
    b.bank_rows = conv_bank_rows(&b.way, c->OH);
    b.product.K = c->C * b.way.taps * c->KW;
    b.product.P = (b.bank_rows - 1) * p->width + c->OW;
    return b;
}

LVN_INLINE struct conv_capacity conv_forward_capacity(const struct lvn_conv2d *c, const struct conv_planes *p,
                                                      const struct conv_banks *b)
{
    return conv_capacity_make(b, c->O, p->as_is ? 0 : (b->way.banks > 1 ? 1 : c->C) * p->channel);
}

/* Weights (M,K) as they lie: element (m, k = (channel,u,v)) at start + m row + channel step + u down + v right. */
struct conv_weights {
    const float *start;
    int64_t M, K, U, V, row, step, down, right;
};

/* Into groups of rows, bank by bank; rows beyond M are zeros. Threads share the groups. */
static inline void conv_pack(const struct conv_weights *w, const struct conv_banks *b, float *to, int thread,
                             int n_threads)
{
    const int64_t groups = conv_groups(w->M), K = w->K;
    int64_t item, end;
    lvn_thread_range(b->way.banks * groups, 1, thread, n_threads, &item, &end);
    for (; item < end; item++) {
        const int bank = (int)(item / groups);
        const int64_t group = item % groups;
        float *packed = to + bank * b->weights + group * K * CONV_ROWS;
        for (int64_t k = 0; k < K; k++) {
            const float *from =
                w->start + k / (w->U * w->V) * w->step + k / w->V % w->U * w->down + k % w->V * w->right;
            for (int64_t r = 0; r < CONV_ROWS; r++) {
                const int64_t m = group * CONV_ROWS + r;
                const float *g = from + m * w->row;
                if (m >= w->M)
                    packed[k * CONV_ROWS + r] = 0;
                else
                    packed[k * CONV_ROWS + r] = b->way.banks == 1 ? *g : conv_bank_weight(bank, g, w->down);
            }
        }
    }
}

/* Channel m of the wide output, without what lies between its rows, into y (OH,OW), with bias and perhaps max(y, 0). */
LVN_INLINE void conv_take(const struct lvn_conv2d *c, const struct conv_banks *b, int64_t m, float bias,
                          const bool relu, float *y)
{
    for (int64_t i = 0; i < c->OH; i++)
        for (int64_t j = 0; j < c->OW; j += LVN_LANES) {
            int64_t n = c->OW - j < LVN_LANES ? c->OW - j : LVN_LANES;
            vf v = conv_wide(b, m, i, j, n) + vset(bias);
            vstore_over(y + i * c->OW + j, relu ? vmax(vset(0), v) : v, n, y + c->OH * c->OW);
        }
}

LVN_INLINE void conv_forward(const struct lvn_conv2d *c, const struct lvn_call *call, const bool relu, int thread,
                             int n_threads)
{
    const float *x = call->in[0].p, *w = call->in[1].p, *bias = call->in[2].p;
    const struct conv_planes p = conv_planes_make(c);
    struct conv_banks b = conv_forward_banks(c, &p);
    const struct conv_capacity capacity = conv_forward_capacity(c, &p, &b);
    const struct conv_place at = conv_settle(&capacity, &b, call->scratch, thread);
    int64_t K = b.product.K, U = b.way.taps, groups = conv_groups(c->O), item, end;
    const struct conv_weights weights = {w, c->O, K, U, c->KW, c->C * c->KH * c->KW, c->KH * c->KW, c->KW, 1};
    const bool pairs = b.way.banks > 1;
    conv_pack(&weights, &b, at.weights, thread, n_threads);
    for (int64_t k = 0; thread == 0 && k < K; k++)
        at.offset[k] = pairs ? k / c->KW * b.bank_rows * b.width + k % c->KW
                             : k / (U * c->KW) * p.channel + conv_plane_offset(&p, k / c->KW % U, k % c->KW);
    lvn_team_barrier();
    lvn_thread_range(c->N * groups, 1, thread, n_threads, &item, &end);
    while (item < end) {
        int64_t n = item / groups, first = item % groups, last = end - n * groups < groups ? end - n * groups : groups;
        const float *s = x + n * c->C * c->H * c->W;
        for (int64_t k = 0; (pairs || !p.as_is) && k < c->C; k++) {
            const float *from = s + k * c->H * c->W;
            float *plane = at.planes + (pairs ? 0 : k * p.channel);
            if (!p.as_is) conv_split(c, &p, from, plane);
            if (pairs) conv_see(&b, p.as_is ? from : plane, k);
        }
        conv_multiply_banks(&b, p.as_is ? s : at.planes, first, last);
        for (int64_t o = first * CONV_ROWS; o < last * CONV_ROWS && o < c->O; o++)
            conv_take(c, &b, o, bias ? bias[o] : 0, relu, (float *)call->out[0].p + (n * c->O + o) * c->OH * c->OW);
        item = n * groups + last;
    }
}

/* --- the gradient of x --- */

/* dy with zeros around: every plane of dx is a product of stride 1 with it. */
struct conv_around {
    int64_t up, left;          /* rows above, columns to the left */
    int64_t rows, width, size; /* of one plane */
};

LVN_INLINE struct conv_around conv_around_make(const struct lvn_conv2d *c, const struct conv_planes *p)
{
    struct conv_around a = {.up = (c->KH - 1) / c->stride, .left = (c->KW - 1) / c->stride};
    a.rows = p->rows + a.up;
    a.width = p->width + a.left;
    a.size = a.rows * a.width;
    return a;
}

LVN_INLINE struct conv_banks conv_dx_banks(const struct lvn_conv2d *c, const struct conv_planes *p,
                                           const struct conv_around *a)
{
    struct conv_banks b = {.way = conv_way_make(c), .channels = c->O, .rows = a->rows, .width = a->width};
    b.bank_rows = conv_bank_rows(&b.way, p->rows);
    b.product.K = c->O * (b.way.banks > 1 ? 1 : a->up + 1) * (a->left + 1); /* at most */
    b.product.P = (b.bank_rows - 1) * a->width + p->width;
    return b;
}

LVN_INLINE struct conv_capacity conv_dx_capacity(const struct lvn_conv2d *c, const struct conv_around *a,
                                                 const struct conv_banks *b)
{
    return conv_capacity_make(b, c->C, (b->way.banks > 1 ? 1 : c->O) * a->size);
}

/* One channel of dy (OH,OW), as far as y lets it through, with zeros around. */
LVN_INLINE void conv_surround(const struct lvn_conv2d *c, const struct conv_around *a, const float *dy, const float *y,
                              float *to)
{
    memset(to, 0, sizeof *to * (size_t)a->size);
    for (int64_t i = 0; i < c->OH; i++)
        for (int64_t j = 0; j < c->OW; j += LVN_LANES) {
            const int64_t n = c->OW - j < LVN_LANES ? c->OW - j : LVN_LANES;
            float *row = to + (i + a->up) * a->width + a->left;
            vstore_over(row + j, conv_slope(dy, y, i * c->OW + j, n), n, to + a->size);
        }
}

/* The wide plane (a,b) of channel m into the rows and columns of dx (H,W). */
static inline void conv_join(const struct lvn_conv2d *c, const struct conv_planes *p, const struct conv_banks *banks,
                             int64_t m, int64_t a, int64_t b, bool add, float *dx)
{
    const int64_t s = p->stride, first = b < p->padding ? (p->padding - b + s - 1) / s : 0; /* columns of the plane */
    const int64_t end = c->W + p->padding > b ? (c->W - 1 + p->padding - b) / s + 1 : 0;
    for (int64_t i = 0; i < p->rows; i++) {
        const int64_t h = i * s + a - p->padding;
        if (h < 0 || h >= c->H) continue;
        float *row = dx + h * c->W + b - p->padding;
        for (int64_t j = first; j < end; j += LVN_LANES) {
            const int64_t n = end - j < LVN_LANES ? end - j : LVN_LANES;
            const vf v = conv_wide(banks, m, i, j, n);
            if (s == 1) {
                if (add)
                    vstore_n(row + j, vload_n(row + j, n) + v, n);
                else
                    vstore_over(row + j, v, n, dx + c->H * c->W);
                continue;
            }
            float wide[LVN_LANES];
            vstore(wide, v);
            for (int64_t q = 0; q < n; q++) row[(j + q) * s] = add ? row[(j + q) * s] + wide[q] : wide[q];
        }
    }
}

LVN_INLINE void conv_dx(const struct lvn_conv2d *c, const struct lvn_call *call, const bool relu, int thread,
                        int n_threads)
{
    const float *w = call->in[1].p, *dy = call->dout[0].p, *y = relu ? call->out[0].p : NULL;
    const struct conv_planes p = conv_planes_make(c);
    const struct conv_around a = conv_around_make(c, &p);
    struct conv_banks banks = conv_dx_banks(c, &p, &a);
    const struct conv_capacity capacity = conv_dx_capacity(c, &a, &banks);
    const struct conv_place at = conv_settle(&capacity, &banks, call->scratch, thread);
    int64_t groups = conv_groups(c->C), s = c->stride, begin, end;
    const bool pairs = banks.way.banks > 1;
    lvn_thread_range(c->N, 1, thread, n_threads, &begin, &end);
    for (int64_t phase = 0; phase < s * s; phase++) {
        int64_t row = phase / s, column = phase % s, V = (c->KW - column + s - 1) / s;
        int64_t U = pairs ? 1 : (c->KH - row + s - 1) / s, K = U > 0 && V > 0 ? c->O * U * V : 0;
        struct conv_weights weights = {w + row * c->KW + column, c->C,      K, U, V, c->KH * c->KW,
                                       c->C * c->KH * c->KW,     s * c->KW, s};
        if (pairs) weights.start += 2 * c->KW, weights.down = -c->KW; /* backwards, as columns are by their offsets */
        lvn_team_barrier(); /* the weights of the phase before are no longer read */
        if (K) conv_pack(&weights, &banks, at.weights, thread, n_threads);
        for (int64_t k = 0; thread == 0 && k < K; k++)
            at.offset[k] = pairs ? k / V * banks.bank_rows * a.width + a.left - k % V
                                 : k / (U * V) * a.size + (a.up - k / V % U) * a.width + a.left - k % V;
        lvn_team_barrier();
        banks.product.K = K;
        for (int64_t n = begin; n < end; n++) {
            for (int64_t o = 0; o < c->O; o++) {
                const int64_t of_y = (n * c->O + o) * c->OH * c->OW;
                float *plane = at.planes + (pairs ? 0 : o * a.size);
                conv_surround(c, &a, dy + of_y, y ? y + of_y : NULL, plane);
                if (pairs) conv_see(&banks, plane, o);
            }
            if (!K)
                memset(banks.product.out, 0,
                       sizeof *at.planes * (size_t)capacity.out); /* no entry lies on this plane */
            conv_multiply_banks(&banks, at.planes, 0, groups);
            for (int64_t m = 0; m < c->C; m++)
                conv_join(c, &p, &banks, m, row, column, call->add[0],
                          (float *)call->din[0].p + (n * c->C + m) * c->H * c->W);
        }
    }
}

/* --- the operation --- */

LVN_INLINE void conv_backward(const struct lvn_conv2d *c, const struct lvn_call *call, const bool relu, int thread,
                              int n_threads)
{
    if (call->din[0].p) conv_dx(c, call, relu, thread, n_threads);
    if (call->din[1].p || call->din[2].p) conv_dw_db(c, call, relu, thread, n_threads);
}

LVN_INLINE int64_t conv_scratch(const struct lvn_conv2d *c, enum lvn_phase phase, int n_threads)
{
    const struct conv_planes p = conv_planes_make(c);
    if (phase == LVN_FORWARD) {
        const struct conv_banks b = conv_forward_banks(c, &p);
        const struct conv_capacity capacity = conv_forward_capacity(c, &p, &b);
        return conv_bytes(&capacity, n_threads);
    }
    const struct conv_around a = conv_around_make(c, &p);
    const struct conv_banks b = conv_dx_banks(c, &p, &a);
    const struct conv_capacity capacity = conv_dx_capacity(c, &a, &b);
    const struct conv_dw d = conv_dw_make(c);
    struct conv_dw_place at;
    const int64_t dx = conv_bytes(&capacity, n_threads), dw = conv_dw_place(&d, NULL, 0, n_threads, &at);
    return dx > dw ? dx : dw;
}

#endif

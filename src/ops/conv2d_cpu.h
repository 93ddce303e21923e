/* conv2d_cpu.h - convolutions without a matrix of patches; shared by conv2d and conv2d_relu.
 *
 * One idea carries all three products. Write the output with the row length of the input, so that element p = i W + j
 * has the element under entry (u,v) of the kernel at p + u W + v: at one distance for all p. So a convolution is a
 * matrix product whose rows of B are shifted views of the input; nothing is copied. What lies between the rows of the
 * narrower output is computed along and thrown away (8 % of 26 x 26).
 *
 *   y[o][p]    = sum over k = (c,u,v) of w[o][k] plane[off(k) + p]
 *   dx[c][p]   = sum over k = (o,u,v) of w'[c][k] dy'[off(k) + p]    dy' with zeros around, the kernel backwards
 *   dw[o][k]   = sum over samples and p of dy''[o][p] plane[off(k) + p]    dy'' with zeros between the rows
 *
 * Padding is copied around a sample first. A stride of s splits x into s s planes of every s-th row and column, in each
 * of which the stride is 1; the gradient of each of these planes is a product of its own.
 *
 * Each element of y and dx is the sum of fixed blocks of k, each one chain of multiply-adds; each of dw is the sum over
 * fixed blocks of samples of sums by lanes. So bits depend neither on threads nor, from AVX2 up, on the instruction
 * set. */
#ifndef LVN_CONV2D_CPU_H
#define LVN_CONV2D_CPU_H

#include "base/threads.h"
#include "ops/conv2d_product_cpu.h"

enum { CONV_BLOCK_FLOATS = 160 << 10 }; /* of a block of samples that dw sums over in one chain */

/* --- forward --- */

/* Memory of a phase: what all threads share, then each thread's own. */
struct conv_room {
    float *weights;  /* packed; shared */
    int64_t *offset; /* shared */
    float *own;      /* this thread's: planes of a sample, then rows of output */
};

LVN_INLINE int64_t conv_groups(int64_t rows)
{
    return (rows + CONV_ROWS - 1) / CONV_ROWS;
}

/* Floats of: the packed weights, the offsets, a thread's own. */
struct conv_sizes {
    int64_t weights, offsets, planes, out;
};

LVN_INLINE int64_t conv_bytes(const struct conv_sizes *z, int n_threads)
{
    return 4 * (z->weights + z->offsets + n_threads * (z->planes + z->out));
}

LVN_INLINE struct conv_room conv_room_at(const struct conv_sizes *z, void *scratch, int thread)
{
    float *p = scratch;
    return (struct conv_room){.weights = p,
                              .offset = (int64_t *)(void *)(p + z->weights),
                              .own = p + z->weights + z->offsets + thread * (z->planes + z->out)};
}

LVN_INLINE int64_t conv_forward_width(const struct lvn_conv2d *c, const struct conv_planes *p)
{
    return (c->OH - 1) * p->width + c->OW;
}

LVN_INLINE struct conv_sizes conv_forward_sizes(const struct lvn_conv2d *c)
{
    struct conv_planes p = conv_planes_make(c);
    int64_t K = c->C * c->KH * c->KW, rows = conv_groups(c->O) * CONV_ROWS;
    return (struct conv_sizes){.weights = conv_up(K * rows, 16),
                               .offsets = conv_up(2 * K, 16),
                               .planes = p.as_is ? 0 : conv_up(c->C * p.channel, 16),
                               .out = rows * conv_up(conv_forward_width(c, &p), LVN_LANES)};
}

/* Weights (M,K) as they lie: element (m, k = (channel,u,v)) at start + m row + channel step + u down + v right. */
struct conv_weights {
    const float *start;
    int64_t M, K, U, V, row, step, down, right;
};

/* Into groups of rows; rows beyond M are zeros. Threads share the groups. */
static inline void conv_pack(const struct conv_weights *w, float *to, int thread, int n_threads)
{
    int64_t group, end;
    lvn_share(conv_groups(w->M), 1, thread, n_threads, &group, &end);
    for (; group < end; group++)
        for (int64_t k = 0; k < w->K; k++) {
            const float *from =
                w->start + k / (w->U * w->V) * w->step + k / w->V % w->U * w->down + k % w->V * w->right;
            for (int64_t r = 0; r < CONV_ROWS; r++) {
                int64_t m = group * CONV_ROWS + r;
                to[(group * w->K + k) * CONV_ROWS + r] = m < w->M ? from[m * w->row] : 0;
            }
        }
}

/* Rows of the wide output, without what lies between them, into y (OH,OW), with bias and perhaps max(y, 0). */
LVN_INLINE void conv_take(const struct lvn_conv2d *c, const float *wide, int64_t width, float bias, const bool relu,
                          float *y)
{
    for (int64_t i = 0; i < c->OH; i++) {
        int64_t j = 0;
        for (; j < c->OW; j += LVN_LANES) {
            int64_t n = c->OW - j < LVN_LANES ? c->OW - j : LVN_LANES;
            vf v = vload_n(wide + i * width + j, n) + vset(bias);
            vstore_n(y + i * c->OW + j, relu ? vmax(vset(0), v) : v, n);
        }
    }
}

LVN_INLINE void conv_forward(const struct lvn_conv2d *c, const struct lvn_call *call, const bool relu, int thread,
                             int n_threads)
{
    const float *x = call->in[0].p, *w = call->in[1].p, *bias = call->in[2].p;
    const struct conv_planes p = conv_planes_make(c);
    const struct conv_sizes z = conv_forward_sizes(c);
    const struct conv_room room = conv_room_at(&z, call->scratch, thread);
    int64_t K = c->C * c->KH * c->KW, groups = conv_groups(c->O), item, end;
    const struct conv_weights weights = {w, c->O, K, c->KH, c->KW, K, c->KH * c->KW, c->KW, 1};
    conv_pack(&weights, room.weights, thread, n_threads);
    for (int64_t k = 0; thread == 0 && k < K; k++)
        room.offset[k] = k / (c->KH * c->KW) * p.channel + conv_plane_offset(&p, k / c->KW % c->KH, k % c->KW);
    lvn_team_barrier();
    struct conv_product g = {
        .w = room.weights, .offset = room.offset, .K = K, .P = conv_forward_width(c, &p), .out = room.own + z.planes};
    g.pitch = conv_up(g.P, LVN_LANES);
    lvn_share(c->N * groups, 1, thread, n_threads, &item, &end);
    while (item < end) {
        int64_t n = item / groups, first = item % groups, last = end - n * groups < groups ? end - n * groups : groups;
        g.s = x + n * c->C * c->H * c->W;
        for (int64_t k = 0; !p.as_is && k < c->C; k++)
            conv_split(c, &p, g.s + k * c->H * c->W, room.own + k * p.channel);
        if (!p.as_is) g.s = room.own;
        conv_multiply(&g, first, last);
        for (int64_t o = first * CONV_ROWS; o < last * CONV_ROWS && o < c->O; o++)
            conv_take(c, g.out + o * g.pitch, p.width, bias ? bias[o] : 0, relu,
                      (float *)call->out[0].p + (n * c->O + o) * c->OH * c->OW);
        item = n * groups + last;
    }
}

/* --- the gradient of x --- */

/* dy with zeros around: every plane of dx is a product of stride 1 with it. */
struct conv_around {
    int64_t up, left;          /* rows above, columns to the left */
    int64_t rows, width, size; /* of one plane */
    int64_t P;                 /* elements of a wide plane of dx */
};

LVN_INLINE struct conv_around conv_around_make(const struct lvn_conv2d *c, const struct conv_planes *p)
{
    struct conv_around a = {.up = (c->KH - 1) / c->stride, .left = (c->KW - 1) / c->stride};
    a.rows = p->rows + a.up;
    a.width = p->width + a.left;
    a.size = a.rows * a.width;
    a.P = (p->rows - 1) * a.width + p->width;
    return a;
}

LVN_INLINE struct conv_sizes conv_dx_sizes(const struct lvn_conv2d *c)
{
    struct conv_planes p = conv_planes_make(c);
    struct conv_around a = conv_around_make(c, &p);
    int64_t K = c->O * (a.up + 1) * (a.left + 1), rows = conv_groups(c->C) * CONV_ROWS;
    return (struct conv_sizes){.weights = conv_up(K * rows, 16),
                               .offsets = conv_up(2 * K, 16),
                               .planes = conv_up(c->O * a.size, 16),
                               .out = rows * conv_up(a.P, LVN_LANES)};
}

/* A row of dy, of which only what y lets through counts (y NULL: all). */
LVN_INLINE void conv_copy_slope(const float *dy, const float *y, int64_t n, float *to)
{
    for (int64_t j = 0; j < n; j += LVN_LANES) {
        int64_t lanes = n - j < LVN_LANES ? n - j : LVN_LANES;
        vf v = vload_n(dy + j, lanes);
        if (y) v = vselect(vgreater(vload_n(y + j, lanes), vset(0)), v, vset(0));
        vstore_n(to + j, v, lanes);
    }
}

LVN_INLINE void conv_surround(const struct lvn_conv2d *c, const struct conv_around *a, const float *dy, const float *y,
                              float *to)
{
    memset(to, 0, sizeof *to * (size_t)(c->O * a->size));
    for (int64_t o = 0; o < c->O; o++)
        for (int64_t i = 0; i < c->OH; i++) {
            int64_t from = (o * c->OH + i) * c->OW;
            conv_copy_slope(dy + from, y ? y + from : NULL, c->OW, to + o * a->size + (i + a->up) * a->width + a->left);
        }
}

/* The wide plane (a,b) of channel dx (H,W) into its rows and columns. */
static inline void conv_join(const struct lvn_conv2d *c, const struct conv_planes *p, const float *wide, int64_t width,
                             int64_t a, int64_t b, bool add, float *dx)
{
    for (int64_t i = 0; i < p->rows; i++) {
        int64_t h = i * p->stride + a - p->padding;
        if (h < 0 || h >= c->H) continue;
        for (int64_t j = 0; j < p->width; j++) {
            int64_t w = j * p->stride + b - p->padding;
            if (w < 0 || w >= c->W) continue;
            float *to = &dx[h * c->W + w];
            *to = add ? *to + wide[i * width + j] : wide[i * width + j];
        }
    }
}

LVN_INLINE void conv_dx(const struct lvn_conv2d *c, const struct lvn_call *call, const bool relu, int thread,
                        int n_threads)
{
    const float *w = call->in[1].p, *dy = call->dout[0].p, *y = relu ? call->out[0].p : NULL;
    const struct conv_planes p = conv_planes_make(c);
    const struct conv_around a = conv_around_make(c, &p);
    const struct conv_sizes z = conv_dx_sizes(c);
    const struct conv_room room = conv_room_at(&z, call->scratch, thread);
    int64_t groups = conv_groups(c->C), s = c->stride, begin, end;
    lvn_share(c->N, 1, thread, n_threads, &begin, &end);
    for (int64_t phase = 0; phase < s * s; phase++) {
        int64_t row = phase / s, column = phase % s, U = (c->KH - row + s - 1) / s, V = (c->KW - column + s - 1) / s;
        int64_t K = U > 0 && V > 0 ? c->O * U * V : 0;
        lvn_team_barrier(); /* the weights of the phase before are no longer read */
        const struct conv_weights weights = {w + row * c->KW + column, c->C,      K, U, V, c->KH * c->KW,
                                             c->C * c->KH * c->KW,     s * c->KW, s};
        if (K) conv_pack(&weights, room.weights, thread, n_threads);
        for (int64_t k = 0; thread == 0 && k < K; k++)
            room.offset[k] = k / (U * V) * a.size + (a.up - k / V % U) * a.width + a.left - k % V;
        lvn_team_barrier();
        struct conv_product g = {.w = room.weights,
                                 .s = room.own,
                                 .offset = room.offset,
                                 .K = K,
                                 .P = a.P,
                                 .out = room.own + z.planes,
                                 .pitch = conv_up(a.P, LVN_LANES)};
        for (int64_t n = begin; n < end; n++) {
            int64_t of_y = n * c->O * c->OH * c->OW;
            conv_surround(c, &a, dy + of_y, y ? y + of_y : NULL, room.own);
            if (!K) memset(g.out, 0, sizeof *g.out * (size_t)z.out); /* no entry of the kernel lies on this plane */
            conv_multiply(&g, 0, groups);
            for (int64_t m = 0; m < c->C; m++)
                conv_join(c, &p, g.out + m * g.pitch, a.width, row, column, call->add[0],
                          (float *)call->din[0].p + (n * c->C + m) * c->H * c->W);
        }
    }
}

/* --- the gradients of w and b --- */

struct conv_dw {
    struct conv_planes planes;
    int64_t K, P, pitch;    /* of dy'': rows of whole vectors */
    int64_t block;          /* samples that are summed in one chain */
    int64_t slopes, staged; /* floats of a block: dy'', planes */
    int64_t sums;           /* of db, in double */
};

LVN_INLINE struct conv_dw conv_dw_make(const struct lvn_conv2d *c)
{
    struct conv_dw d = {.planes = conv_planes_make(c), .K = c->C * c->KH * c->KW};
    d.P = conv_forward_width(c, &d.planes);
    d.pitch = conv_up(d.P, LVN_LANES);
    int64_t one = c->O * d.pitch + c->C * d.planes.channel;
    d.block = CONV_BLOCK_FLOATS / one < 1 ? 1 : CONV_BLOCK_FLOATS / one;
    if (d.block > c->N) d.block = c->N;
    d.slopes = d.block * c->O * d.pitch;
    d.staged = d.planes.as_is ? 0 : conv_up(d.block * c->C * d.planes.channel, 16);
    d.sums = c->O;
    return d;
}

LVN_INLINE int64_t conv_dw_bytes(const struct conv_dw *d)
{
    return 4 * (d->slopes + d->staged + conv_up(2 * d->K, 16)) + 8 * d->sums;
}

/* Sums of dy'' times planes over the samples of a block: rows o.., columns k.. of dw. */
LVN_INLINE void conv_dw_tile(const struct conv_dw *d, int64_t samples, const float *slope, int64_t slope_step,
                             const float *x, int64_t x_step, const int64_t *row, const int64_t *column,
                             float sums[CONV_DW_ROWS][CONV_DW_COLUMNS])
{
    struct vacc sum[CONV_DW_ROWS][CONV_DW_COLUMNS];
    for (int r = 0; r < CONV_DW_ROWS; r++)
        for (int k = 0; k < CONV_DW_COLUMNS; k++) sum[r][k] = vacc_set(vset(0));
    for (int64_t n = 0; n < samples; n++, slope += slope_step, x += x_step)
        for (int64_t p = 0; p < d->P; p += LVN_LANES) {
            vf v[CONV_DW_COLUMNS];
            int64_t lanes = d->P - p;
            for (int k = 0; k < CONV_DW_COLUMNS; k++)
                v[k] = lanes >= LVN_LANES ? vload(x + column[k] + p) : vload_n(x + column[k] + p, lanes);
            for (int r = 0; r < CONV_DW_ROWS; r++) {
                const vf g = vload(slope + row[r] + p);
                for (int k = 0; k < CONV_DW_COLUMNS; k++) sum[r][k] = vacc_fma(sum[r][k], g, v[k]);
            }
        }
    for (int r = 0; r < CONV_DW_ROWS; r++)
        for (int k = 0; k < CONV_DW_COLUMNS; k++) sums[r][k] = vsum(vacc_get(sum[r][k]));
}

/* n: a multiple of the vector. */
LVN_INLINE double conv_row_sum(const float *row, int64_t n)
{
    enum { BLOCK = LVN_LANES * LVN_SUM_BLOCK };
    double total = 0;
    for (int64_t p = 0; p < n;) {
        struct vacc sum = vacc_set(vset(0));
        for (int64_t end = p + BLOCK < n ? p + BLOCK : n; p < end; p += LVN_LANES) sum = vacc_add(sum, vload(row + p));
        total += (double)vsum(vacc_get(sum));
    }
    return total;
}

/* One block of samples, from x and slopes that are ready: this thread's columns of dw, and its part of the sums of db.
 */
static inline void conv_dw_block(const struct lvn_conv2d *c, const struct conv_dw *d, const float *slope,
                                 const float *x, const int64_t *offset, int64_t samples, bool add, float *dw,
                                 double *db, int thread, int n_threads)
{
    int64_t k, end, o, last, per_sample = c->O * d->pitch;
    lvn_share(d->K, CONV_DW_COLUMNS, thread, n_threads, &k, &end);
    for (; dw && k < end; k += CONV_DW_COLUMNS)
        for (o = 0; o < c->O; o += CONV_DW_ROWS) {
            float sums[CONV_DW_ROWS][CONV_DW_COLUMNS];
            int64_t row[CONV_DW_ROWS], column[CONV_DW_COLUMNS]; /* the last ones again where there are no more */
            for (int64_t r = 0; r < CONV_DW_ROWS; r++) row[r] = (o + r < c->O ? o + r : c->O - 1) * d->pitch;
            for (int64_t q = 0; q < CONV_DW_COLUMNS; q++) column[q] = offset[k + q < d->K ? k + q : d->K - 1];
            conv_dw_tile(d, samples, slope, per_sample, x, c->C * d->planes.channel, row, column, sums);
            for (int64_t r = 0; r < CONV_DW_ROWS && o + r < c->O; r++)
                for (int64_t q = 0; q < CONV_DW_COLUMNS && k + q < d->K; q++) {
                    float *to = &dw[(o + r) * d->K + k + q];
                    *to = add ? *to + sums[r][q] : sums[r][q];
                }
        }
    lvn_share(c->O, 1, thread, n_threads, &o, &last);
    for (; db && o < last; o++)
        for (int64_t n = 0; n < samples; n++) db[o] += conv_row_sum(slope + n * per_sample + o * d->pitch, d->pitch);
}

LVN_INLINE void conv_dw_db(const struct lvn_conv2d *c, const struct lvn_call *call, const bool relu, int thread,
                           int n_threads)
{
    const struct conv_dw d = conv_dw_make(c);
    const float *x = call->in[0].p, *dy = call->dout[0].p, *y = relu ? call->out[0].p : NULL;
    float *slope = call->scratch, *staged = slope + d.slopes;
    int64_t *offset = (int64_t *)(void *)(staged + d.staged), sample = c->C * c->H * c->W, row, end;
    double *sums = (double *)(void *)(staged + d.staged + conv_up(2 * d.K, 16));
    float *db = call->din[2].p;
    lvn_team_barrier(); /* the scratch of dx is no longer read */
    for (int64_t o = thread; db && o < c->O; o += n_threads) sums[o] = 0;
    for (int64_t k = 0; thread == 0 && k < d.K; k++)
        offset[k] = k / (c->KH * c->KW) * d.planes.channel + conv_plane_offset(&d.planes, k / c->KW % c->KH, k % c->KW);
    for (int64_t n = 0; n < c->N; n += d.block) {
        int64_t samples = c->N - n < d.block ? c->N - n : d.block;
        lvn_share(samples * c->O, 1, thread, n_threads, &row, &end);
        for (; row < end; row++) {
            float *to = slope + row * d.pitch;
            memset(to, 0, sizeof *to * (size_t)d.pitch);
            for (int64_t i = 0; i < c->OH; i++) {
                int64_t from = ((n * c->O + row) * c->OH + i) * c->OW;
                conv_copy_slope(dy + from, y ? y + from : NULL, c->OW, to + i * d.planes.width);
            }
        }
        lvn_share(d.planes.as_is ? 0 : samples * c->C, 1, thread, n_threads, &row, &end);
        for (; row < end; row++)
            conv_split(c, &d.planes, x + n * sample + row * c->H * c->W, staged + row * d.planes.channel);
        lvn_team_barrier();
        conv_dw_block(c, &d, slope, d.planes.as_is ? x + n * sample : staged, offset, samples, n > 0 || call->add[1],
                      call->din[1].p, db ? sums : NULL, thread, n_threads);
        lvn_team_barrier();
    }
    for (int64_t o = thread; db && o < c->O; o += n_threads)
        db[o] = (float)(sums[o] + (call->add[2] ? (double)db[o] : 0));
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
    if (phase == LVN_FORWARD) {
        const struct conv_sizes z = conv_forward_sizes(c);
        return conv_bytes(&z, n_threads);
    }
    const struct conv_sizes z = conv_dx_sizes(c);
    const struct conv_dw d = conv_dw_make(c);
    int64_t dx = conv_bytes(&z, n_threads), dw = conv_dw_bytes(&d);
    return dx > dw ? dx : dw;
}

#endif

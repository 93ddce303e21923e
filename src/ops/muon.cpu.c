/* muon.cpu.c - Muon on CPUs: its products are those of backend/cpu/gemm.h, so that the bits do not depend on the number
 * of threads; b G + c G G and a X + H X are finished while a tile is in the cache. */
#include "ops/muon.h"

#include "backend/cpu/gemm.h"
#include "base/threads.h"
#include "ops/grad_norm_cpu.h"
#include "ops/update_cpu.h"

/* Scratch: X, and the next X; the Gram matrix, and H; sums of squares of blocks; then a part for each thread. */
struct parts {
    float *x, *next, *gram, *h;
    double *squares;
    char *threads;
    int64_t thread_bytes;
};

static int64_t aligned(int64_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* X X^T, or X^T X. */
static struct lvn_gemm gram_of(const struct muon *z, const float *x, float *gram)
{
    struct lvn_gemm g = {.m = z->side, .n = z->side, .k = z->n / z->side, .a = x, .b = x, .c = gram, .c_row = z->side};
    g.a_row = g.b_col = z->tall ? 1 : z->columns;
    g.a_col = g.b_row = z->tall ? z->columns : 1;
    return g;
}

/* a b, of row-major matrices. */
static struct lvn_gemm product(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c)
{
    return (struct lvn_gemm){
        .m = m, .n = n, .k = k, .a = a, .a_row = k, .a_col = 1, .b = b, .b_row = n, .b_col = 1, .c = c, .c_row = n};
}

static struct lvn_gemm product_x(const struct muon *z, const float *x, const float *h, float *next)
{
    return product(z->rows, z->columns, z->side, z->tall ? x : h, z->tall ? h : x, next);
}

/* Floats in front of the threads' parts. */
static int64_t shared_floats(const struct muon *z)
{
    return 2 * aligned(z->n) + 2 * aligned(z->side * z->side) + aligned(2 * lvn_norm_blocks(z->n));
}

static int64_t thread_bytes(const struct muon *z)
{
    const struct lvn_gemm all[] = {gram_of(z, NULL, NULL), product(z->side, z->side, z->side, NULL, NULL, NULL),
                                   product_x(z, NULL, NULL, NULL)};
    int64_t bytes = 0;
    for (int k = 0; k < 3; k++) {
        const int64_t one = LVN_ISA_NAME(lvn_gemm).scratch(&all[k]);
        if (one > bytes) bytes = one;
    }
    return bytes;
}

static struct parts parts_of(const struct muon *z, float *scratch)
{
    const int64_t n = aligned(z->n), square = aligned(z->side * z->side);
    return (struct parts){.x = scratch,
                          .next = scratch + n,
                          .gram = scratch + 2 * n,
                          .h = scratch + 2 * n + square,
                          .squares = (double *)(scratch + 2 * n + 2 * square),
                          .threads = (char *)(scratch + shared_floats(z)),
                          .thread_bytes = thread_bytes(z)};
}

/* --- products --- */

/* A matrix that is added to a product: c = product_factor c + factor from. */
struct sum {
    const float *from; /* of the shape of c */
    float factor, product_factor;
};

/* lvn_gemm.finish */
static void add_tile(const struct lvn_gemm *g, int64_t i0, int64_t m, int64_t j, int64_t n)
{
    const struct sum *s = g->argument;
    for (int64_t i = i0; i < i0 + m; i++) {
        float *c = g->c + i * g->c_row + j;
        const float *from = s->from + i * g->c_row + j;
        for (int64_t x = 0; x < n; x += LVN_LANES) {
            const int64_t lanes = n - x < LVN_LANES ? n - x : LVN_LANES;
            vstore_n(c + x, vload_n(c + x, lanes) * s->product_factor + vload_n(from + x, lanes) * s->factor, lanes);
        }
    }
}

static void run(const struct parts *p, struct lvn_gemm g, const struct sum *sum, int thread, int n_threads)
{
    g.finish = sum ? add_tile : NULL;
    g.argument = sum;
    LVN_ISA_NAME(lvn_gemm).run(&g, p->threads + thread * p->thread_bytes, thread, n_threads);
    lvn_team_barrier();
}

static void iterate(struct parts *p, const struct muon *z, int thread, int n_threads)
{
    const int64_t S = z->side;
    const struct sum h = {p->gram, (float)muon_b, (float)muon_c}, next = {p->x, (float)muon_a, 1};
    run(p, gram_of(z, p->x, p->gram), NULL, thread, n_threads);
    run(p, product(S, S, S, p->gram, p->gram, p->h), &h, thread, n_threads);
    run(p, product_x(z, p->x, p->h, p->next), &next, thread, n_threads);
    float *x = p->next;
    p->next = p->x;
    p->x = x;
}

/* --- element by element, as ranges of update_cpu.h --- */

struct momentum {
    float scale; /* clip factor of the norm */
    float clip;  /* of values; 0: off */
    float mu, one_minus_mu;
};

/* In place of parameters, x is set. */
LVN_INLINE void momentum(const void *constants, vf g, vf *x, vf moment[LVN_MAX_MOMENTS])
{
    const struct momentum *k = constants;
    g = update_gradient(g, k->scale, k->clip);
    moment[0] = vnormal(vfma(vset(k->one_minus_mu), g - moment[0], moment[0]));
    *x = vfma(vset(k->mu), moment[0] - g, g);
}

struct step {
    float keep, lr;
};

/* In place of the gradient, x is read. */
LVN_INLINE void step(const void *constants, vf x, vf *p, vf moment[LVN_MAX_MOMENTS])
{
    const struct step *k = constants;
    (void)moment;
    *p = *p * k->keep - x * k->lr;
}

/* Momentum and x of elements [begin, end). */
static void set_momentum(const struct lvn_call *call, float *to, int64_t begin, int64_t end)
{
    const double mu = call->attr->muon.momentum;
    const struct momentum k = {(float)call->result->clip_scale, (float)call->attr->update.clip_value, (float)mu,
                               (float)(1 - mu)};
    const bool grads = call->in[0].desc->dtype == LVN_BF16, state = call->out[1].desc->dtype == LVN_BF16;
    const struct update_arrays x = {vat(call->in[0].p, begin, grads), to + begin, {vat(call->out[1].p, begin, state)}};
    const struct rounding r = rounding_make(call->step, call->attr->update.number + begin);
    if (grads && state)
        update_bf16(momentum, &k, 1, &r, true, false, true, &x, end - begin);
    else if (grads)
        update_bf16(momentum, &k, 1, &r, true, false, false, &x, end - begin);
    else if (state)
        update_bf16(momentum, &k, 1, &r, false, false, true, &x, end - begin);
    else
        update_fp32(momentum, &k, 1, &x, end - begin);
}

/* The step of the parameters, elements [begin, end). */
static void set_parameters(const struct lvn_call *call, const struct muon *z, float *from, int64_t begin, int64_t end)
{
    const struct lvn_update *u = &call->attr->update;
    const double lr = call->step->lr * u->lr_scale;
    const struct step k = {(float)(1 - lr * u->weight_decay), (float)(lr * z->ratio)};
    const bool weights = call->out[0].desc->dtype == LVN_BF16;
    const struct update_arrays x = {from + begin, vat(call->out[0].p, begin, weights), {NULL}};
    const struct rounding r = rounding_make(call->step, u->number + begin);
    if (weights)
        update_bf16(step, &k, 0, &r, false, true, false, &x, end - begin);
    else
        update_fp32(step, &k, 0, &x, end - begin);
}

/* Set x: the direction, divided by its norm. A thread's blocks stay its own, up to the norm. */
static void set_direction(const struct parts *p, const struct muon *z, const struct lvn_call *call, int thread,
                          int n_threads)
{
    const int64_t blocks = lvn_norm_blocks(z->n);
    const struct lvn_desc desc = LVN_DESC(LVN_F32, z->n);
    const struct lvn_arg x = {p->x, &desc};
    int64_t b, last, begin, end;
    double squares = 0;
    lvn_thread_range(blocks, 1, thread, n_threads, &b, &last);
    begin = b * LVN_NORM_BLOCK, end = last * LVN_NORM_BLOCK < z->n ? last * LVN_NORM_BLOCK : z->n;
    if (begin < end) set_momentum(call, p->x, begin, end);
    norm_blocks(&x, z->n, p->squares, b, last);
    lvn_team_barrier();
    for (int64_t k = 0; k < blocks; k++) squares += p->squares[k];
    const float factor = (float)(1 / fmax(sqrt(squares), muon_eps));
    for (int64_t i = begin; i < end; i++) p->x[i] *= factor;
    lvn_team_barrier();
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    if (call->result->clip_scale == 0) return;
    const struct muon z = muon_make(call->in[0].desc, call->attr);
    struct parts p = parts_of(&z, call->scratch);
    int64_t begin, end;
    set_direction(&p, &z, call, thread, n_threads);
    for (int64_t k = 0; k < call->attr->muon.steps; k++) iterate(&p, &z, thread, n_threads);
    lvn_thread_range(z.n, 64, thread, n_threads, &begin, &end);
    if (begin < end) set_parameters(call, &z, p.x, begin, end);
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    const struct muon z = muon_make(call->in[0].desc, call->attr);
    return shared_floats(&z) * (int64_t)sizeof(float) + thread_bytes(&z) * n_threads;
}

LVN_CPU_OPERATION(muon, .forward = forward, .scratch = scratch);

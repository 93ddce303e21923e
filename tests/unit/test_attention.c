/* test_attention.c - attention and its cache: the plain kernels against mathematics, the fast ones against the plain.
 *
 * A case is a struct problem; its tensors are views with gaps, as in a model, and outputs start as NaN. Plain kernels
 * in double are held against a formula written down here and against finite differences. Fast kernels are held against
 * the plain ones in double; their bits against each other for every number of threads and, AVX2 against AVX-512, for
 * instruction sets. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "base/threads.h"
#include "graph/graph.h"
#include "ops/attention.h"

struct problem {
    int64_t B, Tq, Tk, Hq, Hkv, D;
    bool causal, lengths, cached;
    int64_t position;
    double p;
    bool add;
};

/* Tensors in double, and the same rounded to float; q, k, v, out, dout, dq, dk, dv, logsumexp. */
enum { Q, K, V, OUT, DOUT, DQ, DK, DV, LSE, N_TENSORS };
struct world {
    struct problem p;
    struct lvn_desc desc[N_TENSORS];
    size_t count[N_TENSORS];
    double *f64[N_TENSORS];
    float *f32[N_TENSORS];
    int32_t lengths[16];
    struct lvn_desc lengths_desc;
    union lvn_attr attr;
    struct lvn_step step;
};

static void check_equal(double found, double wanted, double tolerance)
{
    if (!(fabs(found - wanted) <= tolerance * (1 + fabs(wanted))))
        fail_msg("found %.12g, wanted %.12g, within %g", found, wanted, tolerance);
}

static void check_shape(const struct lvn_desc *found, struct lvn_desc wanted)
{
    assert_true(lvn_desc_same_shape(found, &wanted));
}

static double noise(uint32_t tensor, uint32_t i)
{
    const struct lvn_philox r = lvn_philox(7, i, tensor, 0, LVN_STREAM_TEST);
    return ((double)r.v[0] + r.v[1] + r.v[2]) / 4294967296.0 * 2.0 - 3.0; /* nearly normal, variance 1 */
}

/* (B,T,H,D) with gaps between rows and between samples, so that nothing is aligned. */
static struct lvn_desc view(int64_t B, int64_t T, int64_t H, int64_t D)
{
    struct lvn_desc d = LVN_DESC(LVN_F32, B, T, H, D);
    d.stride[1] = H * D + 3;
    d.stride[0] = T * d.stride[1] + 5;
    return d;
}

static size_t extent(const struct lvn_desc *d)
{
    int64_t n = 1;
    for (int i = 0; i < d->rank; i++) n += (d->dim[i] - 1) * d->stride[i];
    return (size_t)n;
}

static struct world *world_new(struct problem p)
{
    struct world *w = calloc(1, sizeof *w);
    w->p = p;
    w->desc[Q] = w->desc[DQ] = view(p.B, p.Tq, p.Hq, p.D);
    w->desc[K] = w->desc[V] = w->desc[DK] = w->desc[DV] = view(p.B, p.Tk, p.Hkv, p.D);
    w->desc[OUT] = w->desc[DOUT] = LVN_DESC(LVN_F32, p.B, p.Tq, p.Hq * p.D);
    w->desc[LSE] = LVN_DESC(LVN_F32, p.B, p.Hq, p.Tq);
    w->lengths_desc = LVN_DESC(LVN_I32, p.B);
    for (int64_t b = 0; b < p.B; b++) w->lengths[b] = (int32_t)((p.Tk * (b + 1) + 1) / (p.B + 1) + (b == 0 ? -1 : 0));
    for (uint32_t t = 0; t < N_TENSORS; t++) {
        w->count[t] = extent(&w->desc[t]);
        w->f64[t] = malloc(w->count[t] * sizeof(double));
        w->f32[t] = malloc(w->count[t] * sizeof(float));
        for (size_t i = 0; i < w->count[t]; i++) {
            w->f32[t][i] = (float)noise(t, (uint32_t)i);
            w->f64[t][i] = w->f32[t][i];
        }
    }
    w->attr.attention.causal = p.causal;
    w->attr.attention.cached = p.cached;
    w->attr.attention.scale = 1.0 / sqrt((double)p.D);
    w->attr.attention.p = p.p;
    w->step = (struct lvn_step){.seed = 11, .step = 3, .first_row = 5, .position = p.position, .training = 1};
    return w;
}

static void world_free(struct world *w)
{
    for (int t = 0; t < N_TENSORS; t++) {
        free(w->f64[t]);
        free(w->f32[t]);
    }
    free(w);
}

static struct lvn_call make_call(struct world *w, enum lvn_phase phase, bool f64)
{
#define PLACE(t)                                                                                                       \
    {                                                                                                                  \
        f64 ? (void *)w->f64[t] : (void *)w->f32[t], &w->desc[t]                                                       \
    }
    struct lvn_call c = {.phase = phase, .attr = &w->attr, .step = &w->step, .op_hash = 77};
    c.in[0] = (struct lvn_arg)PLACE(Q);
    c.in[1] = (struct lvn_arg)PLACE(K);
    c.in[2] = (struct lvn_arg)PLACE(V);
    if (w->p.lengths) c.in[3] = (struct lvn_arg){w->lengths, &w->lengths_desc};
    c.out[0] = (struct lvn_arg)PLACE(OUT);
    c.out[1] = (struct lvn_arg)PLACE(LSE);
    c.dout[0] = (struct lvn_arg)PLACE(DOUT);
    c.din[0] = (struct lvn_arg)PLACE(DQ);
    c.din[1] = (struct lvn_arg)PLACE(DK);
    c.din[2] = (struct lvn_arg)PLACE(DV);
    c.add[0] = c.add[1] = c.add[2] = w->p.add;
    return c;
}

struct job {
    lvn_kernel *kernel;
    const struct lvn_call *call;
};

static void task(void *argument, int thread, int n_threads)
{
    const struct job *j = argument;
    j->kernel(j->call, thread, n_threads);
}

static void run_call(const struct lvn_kernels *k, struct lvn_call *c, int n_threads)
{
    lvn_kernel *kernel = c->phase == LVN_FORWARD ? k->forward : k->backward;
    int64_t bytes = k->scratch ? k->scratch(c, n_threads) : 0;
    char *scratch = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
    memset(scratch, 0xff, (size_t)bytes + 64); /* NaN */
    c->scratch = scratch;
    lvn_team_run(n_threads, task, &(struct job){kernel, c});
    for (int64_t i = bytes; i < bytes + 64; i++) assert_int_equal((unsigned char)scratch[i], 0xff);
    free(scratch);
}

/* Outputs become NaN, gradients too unless they are added to (then what they were at first). */
static void poison(struct world *w, bool f64)
{
    for (int t = OUT; t < N_TENSORS; t++) {
        if (t == DOUT) continue;
        const bool grad = t == DQ || t == DK || t == DV;
        for (size_t i = 0; i < w->count[t]; i++) {
            const double x = grad && w->p.add ? (double)(float)noise((uint32_t)t, (uint32_t)i) : NAN;
            if (f64)
                w->f64[t][i] = x;
            else
                w->f32[t][i] = (float)x;
        }
    }
}

static void both_phases(struct world *w, const struct lvn_kernels *k, int n_threads, bool f64)
{
    poison(w, f64);
    struct lvn_call c = make_call(w, LVN_FORWARD, f64);
    run_call(k, &c, n_threads);
    c = make_call(w, LVN_BACKWARD, f64);
    run_call(k, &c, n_threads);
}

/* --- the plain kernels against mathematics ----------------------------------------------------------------------- */

static double at(const struct world *w, int t, int64_t b, int64_t i, int64_t h, int64_t x)
{
    const int64_t *s = w->desc[t].stride;
    return w->f64[t][b * s[0] + i * s[1] + h * s[2] + x];
}

static bool sees(const struct problem *p, const int32_t *lengths, int64_t b, int64_t i, int64_t j)
{
    if (p->lengths && j >= lengths[b]) return false;
    if (p->cached) return j < p->position + p->Tq && (!p->causal || j <= p->position + i);
    return !p->causal || j - p->Tk <= i - p->Tq;
}

/* out and logsumexp from the definition, with a sum over all keys. */
static void check_formula(struct world *w)
{
    const struct problem *p = &w->p;
    double *e = malloc((size_t)p->Tk * sizeof *e);
    for (int64_t b = 0; b < p->B; b++)
        for (int64_t h = 0; h < p->Hq; h++)
            for (int64_t i = 0; i < p->Tq; i++) {
                const int64_t g = h / (p->Hq / p->Hkv);
                double sum = 0;
                for (int64_t j = 0; j < p->Tk; j++) {
                    double s = 0;
                    for (int64_t x = 0; x < p->D; x++) s += at(w, Q, b, i, h, x) * at(w, K, b, j, g, x);
                    e[j] = sees(p, w->lengths, b, i, j) ? exp(s / sqrt((double)p->D)) : 0;
                    sum += e[j];
                }
                for (int64_t x = 0; x < p->D; x++) {
                    double want = 0;
                    for (int64_t j = 0; j < p->Tk; j++) {
                        struct lvn_dropout_key key = {11, 3, 77};
                        const uint64_t row = ((uint64_t)((5 + b) * p->Hq + h) << 20) + (uint64_t)(p->position + i);
                        const uint32_t t = lvn_dropout_threshold(p->p);
                        const bool kept = lvn_dropout_bits(&key, row, (uint32_t)j) >= t;
                        if (sum > 0 && kept) want += e[j] / sum / (1 - t / 65536.0) * at(w, V, b, j, g, x);
                    }
                    check_equal(w->f64[OUT][(b * p->Tq + i) * p->Hq * p->D + h * p->D + x], want, 1e-12);
                }
                check_equal(w->f64[LSE][(b * p->Hq + h) * p->Tq + i], sum > 0 ? log(sum) : 0, 1e-12);
            }
    free(e);
}

static double objective(struct world *w)
{
    struct lvn_call c = make_call(w, LVN_FORWARD, true);
    run_call(lvn_reference_kernels(LVN_F64) + LVN_OP_attention, &c, 1);
    double sum = 0;
    for (size_t i = 0; i < w->count[OUT]; i++) sum += w->f64[OUT][i] * w->f64[DOUT][i];
    return sum;
}

static void check_differences(struct world *w)
{
    const double h = 1e-5;
    for (int t = Q; t <= V; t++) {
        const int d = DQ + t;
        double *want = malloc(w->count[d] * sizeof *want);
        memcpy(want, w->f64[d], w->count[d] * sizeof *want);
        const struct lvn_desc *s = &w->desc[t];
        for (int64_t n = 0; n < lvn_desc_count(s); n += 3) { /* every third element: enough, and not too slow */
            const int64_t x = n % s->dim[3], y = n / s->dim[3] % s->dim[2];
            const int64_t i = n / (s->dim[3] * s->dim[2]) % s->dim[1], b = n / (s->dim[3] * s->dim[2] * s->dim[1]);
            const int64_t o = b * s->stride[0] + i * s->stride[1] + y * s->stride[2] + x;
            const double old = w->f64[t][o];
            w->f64[t][o] = old + h;
            const double up = objective(w);
            w->f64[t][o] = old - h;
            const double down = objective(w);
            w->f64[t][o] = old;
            const double before = w->p.add ? (double)(float)noise((uint32_t)d, (uint32_t)o) : 0;
            check_equal(want[o] - before, (up - down) / (2 * h), 1e-8);
        }
        free(want);
    }
}

static const struct problem small[] = {
    {1, 1, 1, 1, 1, 1, .causal = true},
    {2, 5, 5, 2, 2, 3, .causal = true},
    {2, 5, 5, 2, 2, 3, .causal = false},
    {2, 4, 7, 4, 2, 2, .causal = true, .lengths = true},
    {2, 7, 4, 3, 1, 2, .causal = true},
    {3, 3, 6, 2, 2, 4, .lengths = true},
    {2, 6, 6, 2, 1, 3, .causal = true, .p = 0.3, .add = true},
    {2, 3, 9, 2, 2, 3, .causal = true, .cached = true, .position = 4},
    {1, 1, 9, 2, 2, 3, .causal = true, .cached = true, .position = 8},
    {2, 2, 9, 4, 2, 3, .cached = true, .position = 3, .lengths = true},
};

static void test_plain(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        struct world *w = world_new(small[i]);
        both_phases(w, lvn_reference_kernels(LVN_F64) + LVN_OP_attention, 1, true);
        check_formula(w);
        check_differences(w);
        world_free(w);
    }
}

/* --- the fast kernels against the plain ones --------------------------------------------------------------------- */

static void check_close(const struct world *w, int t, const char *what)
{
    double worst = 0, size = 0;
    const struct lvn_desc *d = &w->desc[t];
    for (int64_t n = 0; n < lvn_desc_count(d); n++) {
        int64_t rest = n, o = 0;
        for (int i = d->rank - 1; i >= 0; i--) {
            o += rest % d->dim[i] * d->stride[i];
            rest /= d->dim[i];
        }
        const double error = fabs(w->f32[t][o] - w->f64[t][o]);
        if (!(error <= worst)) worst = error; /* NaN too */
        if (fabs(w->f64[t][o]) > size) size = fabs(w->f64[t][o]);
    }
    /* one rounding of a sum of some hundred terms of the tensor's own size, with room to spare */
    if (!(worst <= 4e-6 * (size + 1)))
        fail_msg("%s, tensor %d: off by %g where values go up to %g (B %d, Tq %d, Tk %d, Hq %d, Hkv %d, D %d)", what, t,
                 worst, size, (int)w->p.B, (int)w->p.Tq, (int)w->p.Tk, (int)w->p.Hq, (int)w->p.Hkv, (int)w->p.D);
}

static uint32_t checksum(const struct world *w)
{
    uint32_t h = 2166136261u;
    for (int t = OUT; t < N_TENSORS; t++) {
        const unsigned char *p = (const unsigned char *)w->f32[t];
        for (size_t i = 0; i < w->count[t] * sizeof(float); i++) h = (h ^ p[i]) * 16777619u;
    }
    return h;
}

static void check_fast(struct problem p)
{
    struct world *w = world_new(p);
    both_phases(w, lvn_reference_kernels(LVN_F64) + LVN_OP_attention, 1, true);
    uint32_t first = 0;
    bool have = false;
    for (int isa = lvn_isa_best(); isa >= LVN_ISA_GENERIC; isa--) {
        const struct lvn_kernels *k = lvn_cpu_kernels((enum lvn_isa)isa) + LVN_OP_attention;
        if (isa == LVN_ISA_GENERIC && have && p.Tq * p.Tk * p.D > 20000) continue; /* slow: fma in software */
        both_phases(w, k, 1, false);
        for (int t = OUT; t < N_TENSORS; t++)
            if (t != DOUT) check_close(w, t, lvn_isa_name((enum lvn_isa)isa));
        if (have && checksum(w) != first)
            fail_msg("%s gives other bits (B %d, Tq %d, Tk %d, Hq %d, Hkv %d, D %d)", lvn_isa_name((enum lvn_isa)isa),
                     (int)p.B, (int)p.Tq, (int)p.Tk, (int)p.Hq, (int)p.Hkv, (int)p.D);
        first = checksum(w);
        have = true;
    }
    static const int teams[] = {2, 3, 4, 8};
    for (int i = 0; i < 4; i++) {
        both_phases(w, lvn_cpu_kernels(lvn_isa_best()) + LVN_OP_attention, teams[i], false);
        if (checksum(w) != first)
            fail_msg("%d threads give other bits (B %d, Tq %d, Tk %d, Hq %d, Hkv %d, D %d)", teams[i], (int)p.B,
                     (int)p.Tq, (int)p.Tk, (int)p.Hq, (int)p.Hkv, (int)p.D);
    }
    world_free(w);
}

static void test_sizes(void **state)
{
    (void)state;
    static const int64_t T[] = {1, 2, 3, 15, 16, 17, 31, 63, 64, 65, 127, 129}, D[] = {1, 8, 16, 17, 32, 64, 80};
    for (size_t i = 0; i < sizeof T / sizeof *T; i++)
        for (size_t j = 0; j < sizeof D / sizeof *D; j++) {
            const bool odd = (i + j) % 2;
            check_fast((struct problem){1 + odd, T[i], T[i], 2, 2, D[j], .causal = true, .p = odd ? 0.1 : 0});
            if (j == i % 7) check_fast((struct problem){1, T[i], T[i], 1, 1, D[j], .causal = false, .add = odd});
        }
}

static void test_kinds(void **state)
{
    (void)state;
    static const struct problem list[] = {
        {2, 65, 65, 2, 2, 16, .causal = false, .lengths = true},
        {3, 70, 70, 2, 2, 16, .causal = true, .lengths = true, .p = 0.2},
        {2, 40, 130, 6, 2, 24, .causal = true},
        {2, 130, 40, 6, 2, 24, .causal = true}, /* the first queries see nothing */
        {2, 17, 200, 4, 1, 48, .lengths = true, .add = true},
        {1, 130, 130, 8, 2, 32, .causal = true, .p = 0.1, .add = true},
        {1, 100, 100, 2, 2, 128, .causal = true},
        {1, 100, 100, 1, 1, 100, .causal = true, .p = 0.5},
        {2, 1, 300, 3, 3, 64, .causal = true, .cached = true, .position = 299}, /* decoding */
        {2, 1, 300, 4, 2, 17, .causal = true, .cached = true, .position = 0},
        {2, 5, 300, 4, 2, 80, .causal = true, .cached = true, .position = 100},
        {1, 8, 30, 4, 2, 5, .cached = true, .position = 3, .lengths = true},
        {2, 20, 300, 4, 2, 64, .causal = true, .cached = true, .position = 77},
        {2, 64, 300, 2, 2, 32, .causal = true, .cached = true, .position = 0},
        {1, 9, 70, 2, 2, 32, .causal = true, .cached = true, .position = 60, .p = 0.1},
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check_fast(list[i]);
}

static void test_evaluation(void **state)
{
    (void)state;
    struct world *w = world_new((struct problem){1, 20, 20, 2, 2, 8, .causal = true, .p = 0.5});
    struct world *plain = world_new((struct problem){1, 20, 20, 2, 2, 8, .causal = true, .p = 0});
    w->step.training = 0;
    both_phases(w, lvn_cpu_kernels(lvn_isa_best()) + LVN_OP_attention, 1, false);
    both_phases(plain, lvn_cpu_kernels(lvn_isa_best()) + LVN_OP_attention, 1, false);
    assert_int_equal(checksum(w), checksum(plain));
    world_free(w);
    world_free(plain);
}

/* Gradients that nobody wants are not written; the others do not change. */
static void test_unwanted(void **state)
{
    (void)state;
    struct world *w = world_new((struct problem){1, 70, 70, 2, 1, 8, .causal = true});
    const struct lvn_kernels *k = lvn_cpu_kernels(lvn_isa_best()) + LVN_OP_attention;
    both_phases(w, k, 1, false);
    float *kept[3];
    for (int i = 0; i < 3; i++) {
        kept[i] = malloc(w->count[DQ + i] * sizeof(float));
        memcpy(kept[i], w->f32[DQ + i], w->count[DQ + i] * sizeof(float));
    }
    for (int mask = 1; mask < 8; mask++)
        for (int threads = 1; threads < 4; threads++) {
            for (int i = 0; i < 3; i++)
                for (size_t n = 0; n < w->count[DQ + i]; n++) w->f32[DQ + i][n] = NAN;
            struct lvn_call c = make_call(w, LVN_BACKWARD, false);
            for (int i = 0; i < 3; i++)
                if (!(mask & 1 << i)) c.din[i].p = NULL;
            run_call(k, &c, threads);
            for (int i = 0; i < 3; i++) {
                if (mask & 1 << i)
                    assert_memory_equal(w->f32[DQ + i], kept[i], w->count[DQ + i] * sizeof(float));
                else
                    assert_true(isnan(w->f32[DQ + i][0]));
            }
        }
    for (int i = 0; i < 3; i++) free(kept[i]);
    world_free(w);
}

/* Samples 2 and 3 of a batch of four draw the masks that they draw as a batch of two that starts at row 2. */
static void test_split(void **state)
{
    (void)state;
    struct problem p = {4, 33, 33, 2, 2, 16, .causal = true, .p = 0.4};
    struct world *whole = world_new(p), *part;
    p.B = 2;
    part = world_new(p);
    part->step.first_row = whole->step.first_row + 2;
    const struct lvn_kernels *k = lvn_cpu_kernels(lvn_isa_best()) + LVN_OP_attention;
    for (int t = Q; t <= V; t++)
        memcpy(part->f32[t], whole->f32[t] + 2 * whole->desc[t].stride[0], part->count[t] * sizeof(float));
    struct lvn_call c = make_call(whole, LVN_FORWARD, false), d = make_call(part, LVN_FORWARD, false);
    run_call(k, &c, 1);
    run_call(k, &d, 1);
    assert_memory_equal(part->f32[OUT], whole->f32[OUT] + 2 * whole->desc[OUT].stride[0],
                        part->count[OUT] * sizeof(float));
    world_free(whole);
    world_free(part);
}

static void test_shapes(void **state)
{
    (void)state;
    const struct lvn_op *op = lvn_op(LVN_OP_attention, LVN_F32);
    union lvn_attr attr = {.attention = {.causal = true, .scale = 1, .p = 0}};
    struct lvn_shapes good = {.attr = &attr, .real = LVN_F32, .has = {true, true, true}};
    good.in[0] = view(2, 5, 4, 8);
    good.in[1] = good.in[2] = view(2, 7, 2, 8);
    assert_int_equal(op->shape(&good), LVN_OK);
    check_shape(&good.out[0], LVN_DESC(LVN_F32, 2, 5, 32));
    check_shape(&good.out[1], LVN_DESC(LVN_F32, 2, 4, 5));
    for (int i = 0; i < 7; i++) {
        struct lvn_shapes s = good;
        union lvn_attr a = attr;
        s.attr = &a;
        if (i == 0) s.in[1].dim[2] = s.in[2].dim[2] = 3;
        if (i == 1) s.in[2].dim[1] = 6;
        if (i == 2) s.in[0].dim[3] = 4;
        if (i == 3) s.in[0].rank = 3;
        if (i == 4) s.in[1].stride[3] = 2;
        if (i == 5) a.attention.p = 1.0;
        if (i == 6) s.has[3] = true, s.in[3] = LVN_DESC(LVN_I32, 3);
        assert_int_not_equal(op->shape(&s), LVN_OK);
        assert_non_null(strstr(lvn_error_text(), "attention: "));
    }
    lvn_error_clear();
}

/* Writing token by token and then attending gives the rows of one causal pass. */
static void test_cache(void **state)
{
    (void)state;
    enum { T = 40, LENGTH = 48 };
    const struct problem p = {2, T, T, 2, 2, 16, .causal = true};
    struct world *w = world_new(p);
    const struct lvn_kernels *table = lvn_cpu_kernels(lvn_isa_best());
    both_phases(w, table + LVN_OP_attention, 1, false);

    float *kept[2];
    struct lvn_desc kept_desc = LVN_DESC(LVN_F32, 2, LENGTH, 2, 16);
    for (int i = 0; i < 2; i++) {
        kept[i] = malloc(2 * LENGTH * 32 * sizeof(float));
        memset(kept[i], 0xff, 2 * LENGTH * 32 * sizeof(float)); /* NaN: what was not written must not be read */
    }
    union lvn_attr attr = {.kv_cache = {.length = LENGTH}};
    for (int64_t t = 0, n; t < T; t += n) {
        n = t == 0 ? 12 : 1; /* a prompt, then token by token */
        struct lvn_step step = {.position = t};
        for (int i = 0; i < 2; i++) {
            struct lvn_desc x = w->desc[K];
            x.dim[1] = n;
            struct lvn_call c = {.phase = LVN_FORWARD, .attr = &attr, .step = &step};
            c.in[0] = (struct lvn_arg){w->f32[K + i] + t * x.stride[1], &x};
            c.out[0] = (struct lvn_arg){kept[i], &kept_desc};
            run_call(table + LVN_OP_kv_cache, &c, 3);
        }
        struct world *d = world_new((struct problem){2, n, LENGTH, 2, 2, 16, .causal = true, .cached = true});
        struct lvn_call c = make_call(d, LVN_FORWARD, false);
        struct lvn_desc q = w->desc[Q];
        q.dim[1] = n;
        c.step = &step;
        c.in[0] = (struct lvn_arg){w->f32[Q] + t * q.stride[1], &q};
        c.in[1] = (struct lvn_arg){kept[0], &kept_desc};
        c.in[2] = (struct lvn_arg){kept[1], &kept_desc};
        run_call(table + LVN_OP_attention, &c, 2);
        for (int64_t b = 0; b < 2; b++)
            for (int64_t x = 0; x < n * 32; x++)
                check_equal(d->f32[OUT][b * n * 32 + x], w->f32[OUT][(b * T + t) * 32 + x], 2e-6);
        world_free(d);
    }
    free(kept[0]);
    free(kept[1]);
    world_free(w);
}

/* The constructors: without a cache kv_cache(x) is x; with one, attention knows that its keys lie in it. */
static void test_graph(void **state)
{
    (void)state;
    for (int cache = 0; cache < 2; cache++) {
        struct lvn_params *params = lvn_params_new();
        struct lvn_graph *g = lvn_graph_new(params, LVN_F32);
        g->cache_length = cache ? 32 : 0;
        struct lvn_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 1, 4, 3 * 16));
        struct lvn_tensor *q = lvn_heads(g, x, 0, 2, 8), *k = lvn_heads(g, x, 16, 2, 8), *v = lvn_heads(g, x, 32, 2, 8);
        lvn_scope(g, "h.%d", 3);
        struct lvn_tensor *kept = lvn_kv_cache(g, "attn.k", k);
        struct lvn_tensor *y = lvn_attention(g, q, kept, lvn_kv_cache(g, "attn.v", v), NULL, true, 0.35, 0.0);
        assert_int_equal(lvn_graph_status(g), LVN_OK);
        check_shape(&y->desc, LVN_DESC(LVN_F32, 1, 4, 16));
        assert_int_equal(y->node->attr.attention.cached, cache);
        assert_int_equal(g->n_kept, 2 * cache);
        if (cache) {
            assert_string_equal(g->kept[1].name, "h.3.attn.v");
            assert_int_equal(g->kept[0].desc.dim[1], 32);
            assert_int_equal(kept->node->kept, 0);
        } else {
            assert_ptr_equal(kept, k);
        }
        assert_null(lvn_kv_cache(g, "z", NULL));
        lvn_graph_free(g);
        lvn_params_free(params);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),      cmocka_unit_test(test_sizes),    cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_evaluation), cmocka_unit_test(test_unwanted), cmocka_unit_test(test_split),
        cmocka_unit_test(test_shapes),     cmocka_unit_test(test_cache),    cmocka_unit_test(test_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

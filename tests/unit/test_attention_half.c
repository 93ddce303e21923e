/* test_attention_half.c - attention of bf16 tensors in mixed precision: every instruction set against the plain kernels
 * in double, and its bits against its own for other numbers of threads.
 *
 * Tensors are views with gaps; the plain kernels get the same numbers. Outputs and scratch start as NaN, and so do keys
 * and values behind the lengths: what is masked must not be read. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "base/random.h"
#include "base/threads.h"

struct problem {
    int64_t B, Tq, Tk, Hq, Hkv, D;
    bool causal, lengths, add;
    double p;
};

enum { Q, K, V, OUT, DOUT, DQ, DK, DV, LSE, N_TENSORS };
static const char *const names[N_TENSORS] = {"q", "k", "v", "out", "dout", "dq", "dk", "dv", "logsumexp"};

struct world {
    struct problem p;
    struct lvn_desc half[N_TENSORS], real[N_TENSORS]; /* bf16 (the logsumexp fp32), and the same for doubles */
    size_t count[N_TENSORS];
    void *found[N_TENSORS];
    double *wanted[N_TENSORS];
    int32_t lengths[8];
    struct lvn_desc lengths_desc;
    union lvn_attr attr;
    struct lvn_step step;
    bool bf16;
};

static double noise(uint32_t tensor, uint32_t i)
{
    const struct lvn_philox r = lvn_philox(7, i, tensor, 0, LVN_STREAM_TEST);
    return ((double)r.v[0] + r.v[1] + r.v[2]) / 4294967296.0 * 2.0 - 3.0; /* nearly normal, variance 1 */
}

static uint16_t half(double x)
{
    const float f = (float)x;
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static double wide(uint16_t h)
{
    const uint32_t u = (uint32_t)h << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static double get(const struct world *w, int t, int64_t i)
{
    return t == LSE ? (double)((const float *)w->found[t])[i] : wide(((const uint16_t *)w->found[t])[i]);
}

static struct lvn_desc view(int64_t B, int64_t T, int64_t H, int64_t D)
{
    struct lvn_desc d = LVN_DESC(LVN_BF16, B, T, H, D);
    d.stride[1] = H * D + 3;
    d.stride[0] = T * d.stride[1] + 5;
    return d;
}

static struct world *world_new(struct problem p)
{
    struct world *w = calloc(1, sizeof *w);
    w->p = p;
    w->bf16 = true;
    w->half[Q] = w->half[DQ] = view(p.B, p.Tq, p.Hq, p.D);
    w->half[K] = w->half[V] = w->half[DK] = w->half[DV] = view(p.B, p.Tk, p.Hkv, p.D);
    w->half[OUT] = w->half[DOUT] = LVN_DESC(LVN_BF16, p.B, p.Tq, p.Hq * p.D);
    w->half[LSE] = LVN_DESC(LVN_F32, p.B, p.Hq, p.Tq);
    w->lengths_desc = LVN_DESC(LVN_I32, p.B);
    for (int64_t b = 0; b < p.B; b++) w->lengths[b] = (int32_t)((p.Tk * (b + 1) + 1) / (p.B + 1) + (b == 0 ? -1 : 0));
    for (int t = 0; t < N_TENSORS; t++) {
        w->real[t] = w->half[t];
        w->real[t].dtype = LVN_F64;
        const struct lvn_desc *d = &w->half[t];
        w->count[t] = 1;
        for (int i = 0; i < d->rank; i++) w->count[t] += (size_t)((d->dim[i] - 1) * d->stride[i]);
        w->found[t] = malloc(w->count[t] * sizeof(float));
        w->wanted[t] = malloc(w->count[t] * sizeof(double));
    }
    for (int t = Q; t <= DOUT; t++)
        for (size_t i = 0; t != OUT && i < w->count[t]; i++) {
            ((uint16_t *)w->found[t])[i] = half(noise((uint32_t)t, (uint32_t)i));
            w->wanted[t][i] = get(w, t, (int64_t)i);
            const int64_t *s = w->half[t].stride, b = (int64_t)i / s[0], n = (int64_t)i % s[0] / s[1];
            if (p.lengths && (t == K || t == V) && b < p.B && n >= w->lengths[b]) ((uint16_t *)w->found[t])[i] = 0x7fff;
        }
    w->attr.attention.causal = p.causal;
    w->attr.attention.scale = 1.0 / sqrt((double)p.D);
    w->attr.attention.p = p.p;
    w->step = (struct lvn_step){.seed = 11, .step = 3, .first_row = 5, .training = 1};
    return w;
}

static void world_free(struct world *w)
{
    for (int t = 0; t < N_TENSORS; t++) {
        free(w->found[t]);
        free(w->wanted[t]);
    }
    free(w);
}

static struct lvn_call make_call(struct world *w, enum lvn_phase phase, bool plain)
{
    struct lvn_call c = {.phase = phase, .attr = &w->attr, .step = &w->step, .op_hash = 77, .bf16 = w->bf16};
    struct lvn_arg a[N_TENSORS];
    for (int t = 0; t < N_TENSORS; t++)
        a[t] = (struct lvn_arg){plain ? w->wanted[t] : w->found[t], plain ? &w->real[t] : &w->half[t]};
    c.in[0] = a[Q], c.in[1] = a[K], c.in[2] = a[V];
    if (w->p.lengths) c.in[3] = (struct lvn_arg){w->lengths, &w->lengths_desc};
    c.out[0] = a[OUT], c.out[1] = a[LSE], c.dout[0] = a[DOUT];
    c.din[0] = a[DQ], c.din[1] = a[DK], c.din[2] = a[DV];
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

static void run_phase(struct world *w, const struct lvn_kernels *k, enum lvn_phase phase, int n_threads, bool plain)
{
    struct lvn_call c = make_call(w, phase, plain);
    const int64_t bytes = k->scratch ? k->scratch(&c, n_threads) : 0;
    char *scratch = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
    memset(scratch, 0xff, (size_t)bytes + 64); /* NaN */
    c.scratch = scratch;
    lvn_team_run(n_threads, task, &(struct job){phase == LVN_FORWARD ? k->forward : k->backward, &c});
    for (int64_t i = bytes; i < bytes + 64; i++) assert_int_equal((unsigned char)scratch[i], 0xff);
    free(scratch);
}

static void run(struct world *w, const struct lvn_kernels *k, int n_threads, bool plain)
{
    for (int t = OUT; t < N_TENSORS; t++)
        for (size_t i = 0; t != DOUT && i < w->count[t]; i++) {
            const double x = t >= DQ && t <= DV && w->p.add ? wide(half(noise((uint32_t)t, (uint32_t)i))) : NAN;
            if (plain)
                w->wanted[t][i] = x;
            else if (t == LSE)
                ((float *)w->found[t])[i] = NAN;
            else
                ((uint16_t *)w->found[t])[i] = isnan(x) ? 0x7fff : half(x);
        }
    run_phase(w, k, LVN_FORWARD, n_threads, plain);
    run_phase(w, k, LVN_BACKWARD, n_threads, plain);
}

/* Each probability and each gradient of a score is rounded once, as is the output, from which rowsum(dO O) comes: an
 * error of 2^-9 at most of the size that the tensor has or, where it is small because terms cancel, its terms have. */
static void check_close(const struct world *w, int t, const char *what)
{
    const struct lvn_desc *d = &w->half[t];
    const int64_t count = lvn_desc_count(d);
    double errors = 0, squares = 0, worst = 0;
    for (int64_t n = 0; n < count; n++) {
        int64_t rest = n, o = 0;
        for (int i = d->rank - 1; i >= 0; i--) {
            o += rest % d->dim[i] * d->stride[i];
            rest /= d->dim[i];
        }
        const double error = fabs(get(w, t, o) - w->wanted[t][o]);
        if (!(error <= worst)) worst = error; /* NaN too */
        errors += error * error;
        squares += w->wanted[t][o] * w->wanted[t][o];
    }
    const double rms = sqrt(errors / (double)count), size = sqrt(squares / (double)count);
    const double limit = t == LSE ? 1e-6 * (size + 1) : 0.004 * size + 0.002;
    if (getenv("SHOW")) print_message("%s %s: %g of %g, worst %g\n", what, names[t], rms, size, worst);
    if (!(rms <= limit && worst <= 12 * limit))
        fail_msg("%s, %s: off by %g, at most %g, where values are %g (B %d, Tq %d, Tk %d, Hq %d, Hkv %d, D %d)", what,
                 names[t], rms, worst, size, (int)w->p.B, (int)w->p.Tq, (int)w->p.Tk, (int)w->p.Hq, (int)w->p.Hkv,
                 (int)w->p.D);
}

static void *copy_of(const struct world *w, int t)
{
    const size_t bytes = w->count[t] * (t == LSE ? sizeof(float) : sizeof(uint16_t));
    return memcpy(malloc(bytes), w->found[t], bytes);
}

static void check_bits(const struct world *w, int t, const void *first, int threads, const char *what)
{
    if (memcmp(first, w->found[t], w->count[t] * (t == LSE ? sizeof(float) : sizeof(uint16_t))))
        fail_msg("%s: %d threads give other bits of %s (B %d, Tq %d, Tk %d, Hq %d, Hkv %d, D %d)", what, threads,
                 names[t], (int)w->p.B, (int)w->p.Tq, (int)w->p.Tk, (int)w->p.Hq, (int)w->p.Hkv, (int)w->p.D);
}

static void check(struct problem p)
{
    static const int teams[] = {2, 3, 4, 8};
    struct world *w = world_new(p);
    run(w, lvn_reference_kernels(LVN_F64) + LVN_OP_attention, 1, true);
    for (int isa = LVN_ISA_GENERIC; isa <= (int)lvn_isa_best(); isa++)
        for (int bf16 = 0; bf16 < 2; bf16++) { /* whether products may round */
            const char *what = lvn_isa_name((enum lvn_isa)isa);
            const struct lvn_kernels *k = lvn_cpu_kernels((enum lvn_isa)isa) + LVN_OP_attention;
            if (isa == LVN_ISA_GENERIC && p.Tq * p.Tk * p.D > 20000) continue; /* slow: fma in software */
            void *first[N_TENSORS] = {NULL};
            w->bf16 = bf16;
            run(w, k, 1, false);
            for (int t = OUT; t < N_TENSORS; t++) {
                if (t == DOUT) continue;
                check_close(w, t, what);
                first[t] = copy_of(w, t);
            }
            for (int i = 0; i < 4; i++) {
                run(w, k, teams[i], false);
                for (int t = OUT; t < N_TENSORS; t++)
                    if (t != DOUT) check_bits(w, t, first[t], teams[i], what);
            }
            for (int t = 0; t < N_TENSORS; t++) free(first[t]);
        }
    world_free(w);
}

static void test_sizes(void **state)
{
    (void)state;
    static const int64_t T[] = {1, 2, 15, 16, 17, 33, 63, 64, 65, 97, 129, 200}, D[] = {1, 8, 16, 31, 32, 64, 80};
    for (size_t i = 0; i < sizeof T / sizeof *T; i++)
        for (size_t j = i % 2; j < sizeof D / sizeof *D; j += 2) {
            const bool odd = (i + j) / 2 % 2;
            check((struct problem){1 + odd, T[i], T[i], 2, 2, D[j], .causal = true, .p = odd ? 0.1 : 0});
            if (j == i % 7) check((struct problem){1, T[i], T[i], 1, 1, D[j], .causal = false, .add = odd});
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
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check(list[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_kinds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* attention_world.h - one attention problem with all its tensors, twice: in double for the plain kernels, and in fp32
 * or bf16 for the fast ones, with the same numbers.
 *
 * Tensors are views with gaps, so nothing is aligned. Outputs and scratch start as NaN; for the fast kernels so do keys
 * and values beyond the lengths: a kernel must not read what is masked. */
#ifndef LVN_ATTENTION_WORLD_H
#define LVN_ATTENTION_WORLD_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/random.h"
#include "base/threads.h"

struct problem {
    int64_t B, Tq, Tk, Hq, Hkv, D;
    bool causal, lengths, cached;
    int64_t position; /* see position_of() */
    double p;
    bool add;
    int64_t window;
    int64_t segments; /* mean length of a document; 0: no segments */
    double softcap;
    int64_t branches; /* mean length of a continuation; with segments, whose documents begin with one text; 0: none */
    bool wide_values; /* v and dv are fp32 */
};

/* The position of the queries of sample b in the cache; it differs between samples. */
static inline int64_t position_of(const struct problem *p, int64_t b)
{
    return b % 2 ? p->position / 2 : p->position;
}

#define PROBLEM_TEXT "(B %d, Tq %d, Tk %d, Hq %d, Hkv %d, D %d)"
#define PROBLEM_NUMBERS(p) (int)(p).B, (int)(p).Tq, (int)(p).Tk, (int)(p).Hq, (int)(p).Hkv, (int)(p).D

/* The cases of training, in sizes that are not a multiple of a vector. */
static const struct problem training_kinds[] = {
    {2, 65, 65, 2, 2, 16, .causal = false, .lengths = true},
    {3, 70, 70, 2, 2, 16, .causal = true, .lengths = true, .p = 0.2},
    {2, 40, 130, 6, 2, 24, .causal = true},
    {2, 130, 40, 6, 2, 24, .causal = true}, /* the first queries see nothing */
    {2, 17, 200, 4, 1, 48, .lengths = true, .add = true},
    {1, 130, 130, 8, 2, 32, .causal = true, .p = 0.1, .add = true},
    {1, 100, 100, 2, 2, 128, .causal = true},
    {1, 100, 100, 1, 1, 100, .causal = true, .p = 0.5},
    {1, 70, 70, 2, 1, 256, .causal = true, .p = 0.1}, /* pythia-1b, Gemma */
    {2, 35, 35, 2, 1, 8, .causal = true, .window = 5},
    {2, 35, 35, 2, 1, 8, .causal = true, .segments = 6, .softcap = 0.5},
    {2, 230, 230, 2, 2, 16, .causal = true, .window = 70},
    {1, 300, 300, 4, 2, 32, .causal = true, .window = 64, .p = 0.2},
    {1, 150, 230, 2, 1, 24, .causal = true, .window = 33, .lengths = true},
    {2, 200, 200, 2, 1, 24, .causal = true, .segments = 30, .lengths = true},
    {2, 330, 330, 2, 2, 40, .causal = true, .window = 100, .segments = 90, .softcap = 1.5, .p = 0.1, .add = true},
    {2, 100, 130, 4, 2, 48, .lengths = true, .softcap = 2},
    {1, 60, 60, 2, 1, 8, .causal = true, .segments = 30, .branches = 5},
    {2, 200, 200, 4, 2, 32, .causal = true, .segments = 90, .branches = 12, .lengths = true},
    {1, 330, 330, 2, 1, 64, .causal = true, .segments = 200, .branches = 30, .window = 40, .softcap = 1, .p = 0.1},
};
enum { N_TRAINING_KINDS = sizeof training_kinds / sizeof *training_kinds };

enum { Q, K, V, OUT, DOUT, DQ, DK, DV, LSE, N_TENSORS };
static const char *const tensor_names[N_TENSORS] = {"q", "k", "v", "out", "dout", "dq", "dk", "dv", "logsumexp"};

struct world {
    struct problem p;
    struct lvn_desc desc[N_TENSORS], desc64[N_TENSORS]; /* the logsumexp is in fp32 with bf16 tensors too */
    size_t count[N_TENSORS];                            /* number of elements, gaps included */
    void *found[N_TENSORS];
    double *f64[N_TENSORS];
    int32_t lengths[16];
    int32_t *segments; /* (B,Tq) */
    int32_t *hidden;   /* (B,Tq,2 LVN_HIDDEN_RANGES) */
    struct lvn_desc lengths_desc, segments_desc, hidden_desc;
    union lvn_attr attr;
    struct lvn_step step;
    bool bf16; /* products may round their operands */
};

static inline double noise(int tensor, size_t i)
{
    const struct lvn_philox r = lvn_philox(7, (uint32_t)i, (uint32_t)tensor, 0, LVN_STREAM_TEST);
    return ((double)r.v[0] + r.v[1] + r.v[2]) / 4294967296.0 * 2.0 - 3.0; /* nearly normal, variance 1 */
}

static inline double get(const struct world *w, int t, int64_t i)
{
    if (w->desc[t].dtype == LVN_F32) return (double)((const float *)w->found[t])[i];
    const uint32_t u = (uint32_t)((const uint16_t *)w->found[t])[i] << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

/* Round in place; return the result. */
static inline double put(struct world *w, int t, size_t i, double x)
{
    const float f = (float)x;
    if (w->desc[t].dtype == LVN_F32) {
        ((float *)w->found[t])[i] = f;
    } else {
        uint32_t u;
        memcpy(&u, &f, sizeof u);
        ((uint16_t *)w->found[t])[i] = isnan(x) ? 0x7fff : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
    }
    return get(w, t, (int64_t)i);
}

static inline size_t bytes_of(const struct world *w, int t)
{
    return w->count[t] * (w->desc[t].dtype == LVN_F32 ? sizeof(float) : sizeof(uint16_t));
}

/* (B,T,H,D) with gaps between rows and between samples. */
static inline struct lvn_desc view(enum lvn_dtype dtype, int64_t B, int64_t T, int64_t H, int64_t D)
{
    struct lvn_desc d = LVN_DESC(dtype, B, T, H, D);
    d.stride[1] = H * D + 3;
    d.stride[0] = T * d.stride[1] + 5;
    return d;
}

/* The offset of element n, counted without gaps. */
static inline int64_t offset_of(const struct lvn_desc *d, int64_t n)
{
    int64_t o = 0;
    for (int i = d->rank - 1; i >= 0; i--) {
        o += n % d->dim[i] * d->stride[i];
        n /= d->dim[i];
    }
    return o;
}

static inline void fill(struct world *w, int t)
{
    const int64_t *s = w->desc[t].stride;
    for (size_t i = 0; i < w->count[t]; i++) {
        const int64_t b = (int64_t)i / s[0], n = (int64_t)i % s[0] / s[1];
        w->f64[t][i] = put(w, t, i, noise(t, i));
        if (w->p.lengths && (t == K || t == V) && b < w->p.B && n >= w->lengths[b]) put(w, t, i, NAN);
    }
}

/* Divide the documents of `segments` into trees: a text, some second texts, and continuations of each. */
static inline void add_branches(struct world *w)
{
    const struct problem *p = &w->p;
    w->hidden_desc = LVN_DESC(LVN_I32, p->B, p->Tq, 2 * LVN_HIDDEN_RANGES);
    w->hidden = calloc((size_t)(p->B * p->Tq), 2 * LVN_HIDDEN_RANGES * sizeof *w->hidden);
    int32_t text = 0, second = 0, end = 0, third = 0; /* where the text ends, and the others begin and end */
    for (int64_t i = 0, stage = 0; p->branches && i < p->B * p->Tq; i++) {
        const int32_t t = (int32_t)(i % p->Tq), start = w->segments[i];
        if (t == start) text = second = end = third = t, stage = 0;
        if (t > start && lvn_random_below(7, 98, (uint64_t)i, p->branches) == 0) {
            if (stage == 0) text = t;
            stage = stage == 2 && i % 3 ? 2 : stage % 2 + 1;
            if (stage == 1) second = t;
            third = t;
        }
        if (stage == 1) end = t + 1; /* the second text grows */
        const int32_t a[2] = {text < second ? text : 0, text < second ? second : 0};
        const int32_t b[2] = {stage == 2 && end < third ? end : 0, stage == 2 && end < third ? third : 0};
        int32_t *h = w->hidden + i * 2 * LVN_HIDDEN_RANGES;
        h[0] = a[0], h[1] = a[1], h[2] = b[0], h[3] = b[1];
        w->segments[i] += a[1] - a[0] + b[1] - b[0];
    }
}

static inline struct world *world_new(struct problem p, enum lvn_dtype dtype)
{
    struct world *w = calloc(1, sizeof *w);
    w->p = p;
    w->desc[Q] = w->desc[DQ] = view(dtype, p.B, p.Tq, p.Hq, p.D);
    w->desc[K] = w->desc[V] = w->desc[DK] = w->desc[DV] = view(dtype, p.B, p.Tk, p.Hkv, p.D);
    if (p.wide_values) w->desc[V].dtype = w->desc[DV].dtype = LVN_F32;
    w->desc[OUT] = w->desc[DOUT] = LVN_DESC(dtype, p.B, p.Tq, p.Hq * p.D);
    w->desc[LSE] = LVN_DESC(LVN_F32, p.B, p.Hq, p.Tq);
    w->lengths_desc = LVN_DESC(LVN_I32, p.B);
    for (int64_t b = 0; b < p.B; b++) w->lengths[b] = (int32_t)((p.Tk * (b + 1) + 1) / (p.B + 1) + (b == 0 ? -1 : 0));
    for (int t = 0; t < N_TENSORS; t++) {
        w->desc64[t] = w->desc[t];
        w->desc64[t].dtype = LVN_F64;
        w->count[t] = 1 + (size_t)offset_of(&w->desc[t], lvn_desc_count(&w->desc[t]) - 1);
        w->found[t] = malloc(bytes_of(w, t));
        w->f64[t] = malloc(w->count[t] * sizeof(double));
        if (t <= V || t == DOUT) fill(w, t);
    }
    w->segments_desc = LVN_DESC(LVN_I32, p.B, p.Tq);
    w->segments = malloc((size_t)(p.B * p.Tq) * sizeof *w->segments);
    for (int64_t i = 0, start = 0; p.segments && i < p.B * p.Tq; i++) {
        if (i % p.Tq == 0 || lvn_random_below(7, 99, (uint64_t)i, p.segments) == 0) start = i % p.Tq;
        w->segments[i] = (int32_t)start;
    }
    add_branches(w);
    w->attr.attention.window = p.window;
    w->attr.attention.softcap = p.softcap;
    w->attr.attention.causal = p.causal;
    w->attr.attention.cached = p.cached;
    w->attr.attention.scale = 1.0 / sqrt((double)p.D);
    w->attr.attention.p = p.p;
    w->step = (struct lvn_step){.seed = 11, .step = 3, .first_row = 5, .training = 1};
    for (int64_t b = 0; b < LVN_DECODE_ROWS; b++) w->step.position[b] = (int32_t)position_of(&p, b);
    return w;
}

static inline void world_free(struct world *w)
{
    for (int t = 0; t < N_TENSORS; t++) {
        free(w->found[t]);
        free(w->f64[t]);
    }
    free(w->segments);
    free(w->hidden);
    free(w);
}

static inline struct lvn_call make_call(struct world *w, enum lvn_phase phase, bool f64)
{
    struct lvn_call c = {.phase = phase,
                         .attr = &w->attr,
                         .step = &w->step,
                         .op_hash = 77,
                         .matmul_dtype = w->bf16 ? LVN_BF16 : LVN_F32};
    struct lvn_arg a[N_TENSORS];
    for (int t = 0; t < N_TENSORS; t++)
        a[t] = (struct lvn_arg){f64 ? w->f64[t] : w->found[t], f64 ? &w->desc64[t] : &w->desc[t]};
    c.in[0] = a[Q], c.in[1] = a[K], c.in[2] = a[V];
    if (w->p.lengths) c.in[3] = (struct lvn_arg){w->lengths, &w->lengths_desc};
    if (w->p.segments) c.in[4] = (struct lvn_arg){w->segments, &w->segments_desc};
    if (w->p.branches) c.in[5] = (struct lvn_arg){w->hidden, &w->hidden_desc};
    c.out[0] = a[OUT], c.out[1] = a[LSE], c.dout[0] = a[DOUT];
    c.din[0] = a[DQ], c.din[1] = a[DK], c.din[2] = a[DV];
    c.add[0] = c.add[1] = c.add[2] = w->p.add;
    return c;
}

struct kernel_job {
    const struct lvn_cpu_op *kernels;
    const struct lvn_call *call;
};

static inline void kernel_task(void *argument, int thread, int n_threads)
{
    const struct kernel_job *j = argument;
    lvn_cpu_call(j->kernels, j->call, thread, n_threads);
}

static inline void run_call(const struct lvn_cpu_op *k, struct lvn_call *c, int n_threads)
{
    const int64_t bytes = lvn_cpu_scratch(k, c, n_threads);
    char *scratch = aligned_alloc(64, (size_t)(bytes + 127) / 64 * 64);
    memset(scratch, 0xff, (size_t)bytes + 64); /* NaN */
    c->scratch = scratch;
    lvn_team_run(n_threads, kernel_task, &(struct kernel_job){k, c});
    for (int64_t i = bytes; i < bytes + 64; i++) assert_int_equal((unsigned char)scratch[i], 0xff);
    free(scratch);
}

/* Outputs become NaN; gradients too, unless they are added to: then they get their first values again. */
static inline void poison(struct world *w, bool f64)
{
    for (int t = OUT; t < N_TENSORS; t++) {
        const bool added = t >= DQ && t <= DV && w->p.add;
        for (size_t i = 0; t != DOUT && i < w->count[t]; i++) {
            const double x = put(w, t, i, added ? noise(t, i) : NAN);
            if (f64) w->f64[t][i] = x;
        }
    }
}

static inline void both_phases(struct world *w, const struct lvn_cpu_op *k, int n_threads, bool f64)
{
    poison(w, f64);
    for (int phase = 0; phase < 2; phase++) {
        struct lvn_call c = make_call(w, phase ? LVN_BACKWARD : LVN_FORWARD, f64);
        run_call(k, &c, n_threads);
    }
}

#endif

/* test_ops_more.c - covers: src/core/ops/ops.def src/core/ops/ops.c
 *
 * Properties of operations apart from their gradients, for the kernels of every instruction set:
 *
 *   - dropout: its rate; the same mask in forward, backward and fused; a mask that does not depend on how a batch is
 * split;
 *   - the optimizers against their textbook formulas, over several steps; clipping; a gradient that is not finite
 * changes nothing;
 *   - shape rules refuse wrong shapes, with a sentence that names them. */
#include <float.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/bf16.h"
#include "ops_cases.h"

enum { PLAIN = LVN_ISA_COUNT, N_SETS };

static const struct lvn_cpu_op *kernels_of(int set, enum lvn_op_id id)
{
    return set == PLAIN ? &lvn_cpu_plain_ops(LVN_F32)[id] : &lvn_cpu_ops((enum lvn_isa)set)[id];
}

static bool set_runs(int set)
{
    return set == PLAIN || set <= (int)lvn_isa_best();
}

/* --- dropout --- */

static void ones(struct buffer *b)
{
    for (int64_t i = 0; i < lvn_desc_count(&b->desc); i++) buffer_set(b, i, 1);
}

static void check_rate(int set, double p)
{
    const struct op_case c = {LVN_OP_dropout, .attr.dropout = {p}, .in = {REAL(16, 50, 65)}};
    struct run r;
    run_init(&r, &c, LVN_F32, kernels_of(set, LVN_OP_dropout));
    ones(&r.in[0]);
    ones(&r.dout[0]);
    run_forward(&r, 2);
    run_backward(&r, 1, 0, 2);
    int64_t n = lvn_desc_count(&r.out[0].desc), kept = 0;
    for (int64_t i = 0; i < n; i++) {
        double y = buffer_get(&r.out[0], i);
        kept += y != 0;
        if (y != 0) assert_true(fabs(y - 1 / (1 - p)) < 1e-4);
        assert_true(y == buffer_get(&r.din[0], i));
    }
    double sigma = sqrt(p * (1 - p) / (double)n);
    if (!(fabs((double)kept / (double)n - (1 - p)) < 4 * sigma))
        fail_msg("dropout %g keeps %lld of %lld", p, (long long)kept, (long long)n);
    run_release(&r);
}

static void test_dropout_keeps_its_rate_and_its_mask(void **state)
{
    (void)state;
    for (int set = 0; set < N_SETS; set++)
        if (set_runs(set)) check_rate(set, 0.1), check_rate(set, 0.5), check_rate(set, 0.01);
}

/* The dropout mask of an input of ones (2,5,33), for this seed, step and first row. */
static void mask_of(int set, uint64_t seed, int64_t step, int64_t first_row, bool kept[330])
{
    const struct op_case c = {LVN_OP_dropout, .attr.dropout = {0.5}, .in = {REAL(2, 5, 33)}};
    struct run r;
    run_init(&r, &c, LVN_F32, kernels_of(set, LVN_OP_dropout));
    ones(&r.in[0]);
    r.step.seed = seed;
    r.step.step = step;
    r.step.first_row = first_row;
    run_forward(&r, 1);
    for (int i = 0; i < 330; i++) kept[i] = buffer_get(&r.out[0], i) != 0;
    run_release(&r);
}

static void test_dropout_masks_differ_where_they_should(void **state)
{
    (void)state;
    for (int set = 0; set < N_SETS; set++) {
        if (!set_runs(set)) continue;
        bool a[330], b[330], c[330], d[330], e[330];
        mask_of(set, 1, 0, 0, a);
        mask_of(set, 2, 0, 0, b);
        mask_of(set, 1, 1, 0, c);
        mask_of(set, 1, 0, 1, d);
        mask_of(set, 1, 0, 0, e);
        int ab = 0, ac = 0, ad = 0;
        for (int i = 0; i < 330; i++) ab += a[i] == b[i], ac += a[i] == c[i], ad += a[i] == d[i];
        assert_true(ab > 120 && ab < 210 && ac > 120 && ac < 210 && ad > 120 && ad < 210);
        assert_memory_equal(a, e, sizeof a);
        assert_memory_equal(a + 165, d, 165 * sizeof a[0]); /* sample 1 of one is sample 0 of the other */
    }
}

/* The second half of a batch of four gives the same values as a separate micro-batch. */
static void check_split(int set, const struct op_case *whole, const struct op_case *half)
{
    struct run w, h;
    run_init(&w, whole, LVN_F32, kernels_of(set, whole->op));
    run_init(&h, half, LVN_F32, kernels_of(set, half->op));
    h.step.first_row = w.step.first_row + 2;
    for (int i = 0; i < w.op->n_in; i++) {
        int64_t n = h.in[i].p ? lvn_desc_count(&h.in[i].desc) : 0;
        bool split = n && lvn_desc_count(&w.in[i].desc) == 2 * n;
        for (int64_t e = 0; e < n; e++) buffer_set(&h.in[i], e, buffer_get(&w.in[i], split ? e + n : e));
    }
    for (int k = 0; k < w.op->n_out; k++)
        for (int64_t e = 0, n = lvn_desc_count(&h.dout[k].desc); e < n; e++)
            buffer_set(&h.dout[k], e, buffer_get(&w.dout[k], e + n));
    run_forward(&w, 2);
    run_forward(&h, 2);
    run_backward(&w, ~0u, 0, 2);
    run_backward(&h, ~0u, 0, 2);
    for (int64_t e = 0, n = lvn_desc_count(&h.out[0].desc); e < n; e++)
        if (buffer_get(&h.out[0], e) != buffer_get(&w.out[0], e + n))
            fail_msg("%s: output %lld depends on the split", case_text(half), (long long)e);
    for (int64_t e = 0, n = lvn_desc_count(&h.din[0].desc); e < n; e++)
        if (buffer_get(&h.din[0], e) != buffer_get(&w.din[0], e + n))
            fail_msg("%s: gradient %lld depends on the split", case_text(half), (long long)e);
    run_release(&w);
    run_release(&h);
}

static void test_dropout_does_not_depend_on_the_split(void **state)
{
    (void)state;
    static const struct op_case whole[] = {
        {LVN_OP_dropout, .attr.dropout = {0.3}, .in = {REAL(4, 7, 33)}},
        {LVN_OP_residual_layernorm, .attr.residual_layernorm = {1e-5, 0.3},
         .in = {REAL(4, 7, 33), REAL(4, 7, 33), GAMMA(33), REAL(33)}},
        {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.3, .p = 0.3},
         .in = {REAL(4, 17, 2, 8), REAL(4, 17, 2, 8), REAL(4, 17, 2, 8)}},
    };
    static const struct op_case half[] = {
        {LVN_OP_dropout, .attr.dropout = {0.3}, .in = {REAL(2, 7, 33)}},
        {LVN_OP_residual_layernorm, .attr.residual_layernorm = {1e-5, 0.3},
         .in = {REAL(2, 7, 33), REAL(2, 7, 33), GAMMA(33), REAL(33)}},
        {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.3, .p = 0.3},
         .in = {REAL(2, 17, 2, 8), REAL(2, 17, 2, 8), REAL(2, 17, 2, 8)}},
    };
    for (int set = 0; set < N_SETS; set++)
        for (int n = 0; set_runs(set) && n < 3; n++) check_split(set, &whole[n], &half[n]);
}

/* The fused operation draws the same dropout mask as dropout. */
static void test_fused_dropout_draws_the_same_mask(void **state)
{
    (void)state;
    const struct op_case alone = {LVN_OP_dropout, .attr.dropout = {0.4}, .in = {REAL(3, 5, 33)}};
    const struct op_case fused = {LVN_OP_residual_layernorm, .attr.residual_layernorm = {1e-5, 0.4},
                                  .in = {REAL(3, 5, 33), REAL(3, 5, 33), GAMMA(33), NONE}};
    for (int set = 0; set < N_SETS; set++) {
        struct run a, f;
        if (!set_runs(set)) continue;
        run_init(&a, &alone, LVN_F32, kernels_of(set, alone.op));
        run_init(&f, &fused, LVN_F32, kernels_of(set, fused.op));
        ones(&a.in[0]);
        ones(&f.in[1]);
        for (int64_t i = 0; i < lvn_desc_count(&f.in[0].desc); i++) buffer_set(&f.in[0], i, 0);
        run_forward(&a, 1);
        run_forward(&f, 1);
        for (int64_t i = 0; i < lvn_desc_count(&a.out[0].desc); i++)
            assert_true(buffer_get(&a.out[0], i) == buffer_get(&f.out[0], i));
        run_release(&a);
        run_release(&f);
    }
}

/* --- optimizers --- */

static bool is_optimizer(enum lvn_op_id id)
{
    return id == LVN_OP_adamw || id == LVN_OP_sgd || id == LVN_OP_lion;
}

/* Adam as the paper writes it, for one element, t = 1, 2, ... */
static void textbook_adamw(const struct op_case *c, int64_t t, double lr, double g, double *p, double *m, double *v)
{
    double b1 = c->attr.adamw.beta1, b2 = c->attr.adamw.beta2, decay = c->attr.update.weight_decay;
    double clip = c->attr.update.clip_value;
    lr *= c->attr.update.lr_scale;
    if (clip > 0) g = fmin(fmax(g, -clip), clip);
    if (c->attr.adamw.coupled)
        g += decay * *p;
    else
        *p -= lr * decay * *p;
    *m = b1 * *m + (1 - b1) * g;
    *v = b2 * *v + (1 - b2) * g * g;
    double mhat = *m / (1 - pow(b1, (double)t)), vhat = *v / (1 - pow(b2, (double)t));
    *p -= lr * mhat / (sqrt(vhat) + c->attr.adamw.eps);
}

static void textbook_sgd(const struct op_case *c, double lr, double g, double *p, double *m)
{
    double clip = c->attr.update.clip_value;
    if (clip > 0) g = fmin(fmax(g, -clip), clip);
    *m = c->attr.sgd.momentum * *m + g + c->attr.update.weight_decay * *p;
    *p -= lr * c->attr.update.lr_scale * *m;
}

/* Algorithm 2 of the paper. */
static void textbook_lion(const struct op_case *c, double lr, double g, double *p, double *m)
{
    const double clip = c->attr.update.clip_value, b1 = c->attr.lion.beta1, b2 = c->attr.lion.beta2;
    lr *= c->attr.update.lr_scale;
    if (clip > 0) g = fmin(fmax(g, -clip), clip);
    const double u = b1 * *m + (1 - b1) * g;
    *p -= lr * ((u > 0) - (u < 0) + c->attr.update.weight_decay * *p);
    *m = b2 * *m + (1 - b2) * g;
}

/* Five steps from zero state with a new gradient each, against the formulas above. */
static void check_updates(const struct op_case *c, enum lvn_dtype real, const struct lvn_cpu_op *kernels)
{
    struct run r;
    double tolerance = real == LVN_F64 ? 1e-13 : 3e-6;
    run_init(&r, c, real, kernels);
    for (int64_t i = 0; i < c->count; i++)
        for (int k = 1; k < r.op->n_out; k++) buffer_set(&r.out[k], i, 0);
    double *p = malloc(3 * (size_t)c->count * sizeof *p), *m = p + c->count, *v = m + c->count;
    assert_non_null(p);
    for (int64_t i = 0; i < c->count; i++) p[i] = buffer_get(&r.out[0], i), m[i] = v[i] = 0;
    for (int64_t t = 1; t <= 5; t++) {
        r.step.step = t - 1;
        r.result.clip_scale = t == 3 ? 0.25 : 1;
        buffer_fill(&r.in[0], 700 + (uint64_t)t, 0, 1);
        for (int64_t i = 0; i < c->count; i++) {
            double g = buffer_get(&r.in[0], i) * r.result.clip_scale;
            if (c->op == LVN_OP_adamw)
                textbook_adamw(c, t, r.step.lr, g, &p[i], &m[i], &v[i]);
            else if (c->op == LVN_OP_lion)
                textbook_lion(c, r.step.lr, g, &p[i], &m[i]);
            else
                textbook_sgd(c, r.step.lr, g, &p[i], &m[i]);
        }
        run_forward(&r, 2);
        for (int64_t i = 0; i < c->count; i++)
            if (!(fabs(buffer_get(&r.out[0], i) - p[i]) <= tolerance))
                fail_msg("%s, step %lld, element %lld: %.17g, by the formula %.17g", case_text(c), (long long)t,
                         (long long)i, buffer_get(&r.out[0], i), p[i]);
    }
    free(p);
    run_release(&r);
}

static void test_optimizers_follow_their_formulas(void **state)
{
    (void)state;
    for (int n = 0; n < N_OP_CASES; n++) {
        const struct op_case *c = &op_cases[n];
        if (!is_optimizer(c->op)) continue;
        check_updates(c, LVN_F64, &lvn_cpu_plain_ops(LVN_F64)[c->op]);
        for (int set = 0; set < N_SETS; set++)
            if (set_runs(set)) check_updates(c, LVN_F32, kernels_of(set, c->op));
    }
}

/* Moments that get no more gradient end at zero, not among the subnormal numbers, which are slow. */
static void check_decayed(const struct op_case *c, const struct lvn_cpu_op *kernels)
{
    struct run r;
    struct op_case still = *c;
    still.attr.update.weight_decay = 0;
    run_init(&r, &still, LVN_F32, kernels);
    r.result.clip_scale = 1;
    for (int64_t i = 0; i < c->count; i++) {
        buffer_set(&r.in[0], i, 0);
        buffer_set(&r.out[0], i, 1);
        buffer_set(&r.out[1], i, i % 2 ? FLT_MIN : -FLT_MIN);
        buffer_set(&r.out[2], i, FLT_MIN);
    }
    run_forward(&r, 2);
    for (int64_t i = 0; i < c->count; i++) {
        assert_true(buffer_get(&r.out[0], i) == 1);
        assert_true(buffer_get(&r.out[1], i) == 0);
        assert_true(buffer_get(&r.out[2], i) == 0);
    }
    run_release(&r);
}

static void test_decayed_moments_are_zero(void **state)
{
    (void)state;
    for (int n = 0; n < N_OP_CASES; n++) {
        if (op_cases[n].op != LVN_OP_adamw) continue;
        check_decayed(&op_cases[n], &lvn_cpu_plain_ops(LVN_F32)[LVN_OP_adamw]);
        for (int set = 0; set < N_SETS; set++)
            if (set_runs(set)) check_decayed(&op_cases[n], kernels_of(set, LVN_OP_adamw));
    }
}

/* One step of AdamW from the same moments and gradient for all elements, with moments in bf16. */
struct bf16_step {
    const struct lvn_cpu_op *kernels;
    int64_t n, first; /* elements, and the number of the first */
    float *p;
    uint16_t *m, *v;
};

static void bf16_step_run(struct bf16_step *h, int64_t n)
{
    union lvn_attr attr = {.adamw = {{.lr_scale = 1, .number = h->first}, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}};
    struct lvn_step step = {.seed = 5, .step = 7, .lr = 0.1};
    struct lvn_result result = {.clip_scale = 1};
    struct lvn_desc real = LVN_DESC(LVN_F32, n), half = LVN_DESC(LVN_BF16, n);
    float *g = malloc((size_t)n * sizeof *g);
    *h = (struct bf16_step){h->kernels,           n, h->first, malloc((size_t)n * sizeof *h->p), malloc((size_t)n * 2),
                            malloc((size_t)n * 2)};
    assert_true(g && h->p && h->m && h->v);
    for (int64_t i = 0; i < n; i++) g[i] = 0.3f, h->p[i] = 1, h->m[i] = 0x3e80, h->v[i] = 0x3dcd; /* 0.25, 0.10009766 */
    struct lvn_call call = {.attr = &attr,
                            .in = {{g, &real}},
                            .out = {{h->p, &real}, {h->m, &half}, {h->v, &half}},
                            .step = &step,
                            .result = &result};
    for (int thread = 0; thread < 3; thread++) lvn_cpu_call(h->kernels, &call, thread, 3);
    free(g);
}

static void bf16_step_free(struct bf16_step *h)
{
    free(h->p), free(h->m), free(h->v);
}

/* Each moment is one of the two bf16 numbers around the exact value; the mean of many is that value; and which of the
 * two it is depends on the number of the element alone. */
static void test_moments_in_bf16_are_rounded_at_random(void **state)
{
    (void)state;
    enum { N = 100003, FIRST = 640 };
    struct bf16_step reference = {.kernels = kernels_of(LVN_ISA_GENERIC, LVN_OP_adamw)};
    bf16_step_run(&reference, N);
    const double m = 0.25 + 0.1 * (0.3 - 0.25), v = 0.999 * 0.10009765625 + 0.001 * 0.09; /* by the formula */
    const double step_m = ldexp(1, -9), step_v = ldexp(1, -11);                           /* those of bf16 */
    double sum_m = 0, sum_v = 0, both = 0;
    for (int64_t i = 0; i < N; i++) {
        double dm = (double)lvn_bf16_get(reference.m[i]) - m, dv = (double)lvn_bf16_get(reference.v[i]) - v;
        assert_true(fabs(dm) < step_m && fabs(dv) < step_v);
        sum_m += dm, sum_v += dv, both += dm * dv;
        assert_true(reference.p[i] == reference.p[0]); /* computed before rounding */
    }
    /* five standard deviations of the mean of N numbers within one step */
    assert_true(fabs(sum_m / N) < 5 * step_m / 2 / sqrt(N));
    assert_true(fabs(sum_v / N) < 5 * step_v / 2 / sqrt(N));
    assert_true(fabs(both / N) < 5 * step_m * step_v / 4 / sqrt(N)); /* the two roundings are independent */
    for (int set = 0; set < (int)LVN_ISA_COUNT; set++) {
        if (!set_runs(set)) continue;
        struct bf16_step part = {.kernels = kernels_of(set, LVN_OP_adamw), .first = FIRST};
        bf16_step_run(&part, N - FIRST);
        assert_memory_equal(part.m, reference.m + FIRST, (N - FIRST) * 2);
        assert_memory_equal(part.v, reference.v + FIRST, (N - FIRST) * 2);
        bf16_step_free(&part);
    }
    bf16_step_free(&reference);
}

/* With a clip factor of 0 nothing changes, not even by a NaN in the gradient. */
static void test_optimizers_change_nothing_on_request(void **state)
{
    (void)state;
    for (int n = 0; n < N_OP_CASES; n++)
        for (int set = 0; set < N_SETS; set++) {
            const struct op_case *c = &op_cases[n];
            if (!is_optimizer(c->op) || !set_runs(set)) continue;
            struct run before, after;
            run_init(&before, c, LVN_F32, kernels_of(set, c->op));
            run_init(&after, c, LVN_F32, kernels_of(set, c->op));
            after.result.clip_scale = 0;
            buffer_set(&after.in[0], 0, NAN);
            run_forward(&after, 2);
            for (int k = 0; k < after.op->n_out; k++)
                assert_memory_equal(before.out[k].p, after.out[k].p, before.out[k].bytes);
            run_release(&before);
            run_release(&after);
        }
}

static void check_norm(int set, int64_t count, double clip)
{
    const struct op_case c = {LVN_OP_grad_norm, .attr.grad_norm.clip_norm = clip, .count = count};
    struct run r;
    run_init(&r, &c, LVN_F32, kernels_of(set, c.op));
    long double sum = 0;
    for (int64_t i = 0; i < count; i++) sum += (long double)buffer_get(&r.in[0], i) * buffer_get(&r.in[0], i);
    double norm = (double)sqrtl(sum);
    run_forward(&r, 2);
    assert_true(fabs(r.result.grad_norm - norm) <= 1e-14 * norm);
    double wanted = clip > 0 ? fmin(1, clip / (norm + 1e-6)) : 1;
    assert_true(fabs(r.result.clip_scale - wanted) < 1e-13);
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int b = 0; b < 3; b++)
        for (int64_t at = 0; at<count; at += count> 1 ? count - 1 : 1) {
            double old = buffer_get(&r.in[0], at);
            buffer_set(&r.in[0], at, bad[b]);
            run_forward(&r, 2);
            assert_false(isfinite(r.result.grad_norm));
            assert_true(r.result.clip_scale == 0);
            buffer_set(&r.in[0], at, old);
        }
    buffer_set(&r.in[0], 0, 3e38); /* its square is beyond float */
    run_forward(&r, 2);
    assert_true(isfinite(r.result.grad_norm) && r.result.grad_norm >= 2.9e38);
    run_release(&r);
}

static void test_grad_norm(void **state)
{
    (void)state;
    for (int set = 0; set < N_SETS; set++) {
        if (!set_runs(set)) continue;
        check_norm(set, 1, 0);
        check_norm(set, 4097, 1);
        check_norm(set, 5 * 4096 + 31, 1e9);
    }
}

/* A gradient that is divided at block boundaries into four shards, one of them empty: the sums of squares of the
 * shards, added, have the bits of the whole. */
static void test_norm_of_shards(void **state)
{
    (void)state;
    enum { COUNT = 7 * 4096 + 33, BLOCKS = 8 };
    const int first[] = {0, 2, 3, 3, BLOCKS};
    for (int set = 0; set < N_SETS; set++) {
        if (!set_runs(set)) continue;
        const struct op_case c = {LVN_OP_grad_norm, .attr.grad_norm.clip_norm = 1, .count = COUNT};
        struct run r;
        run_init(&r, &c, LVN_F32, kernels_of(set, c.op));
        run_forward(&r, 2);
        double sums[BLOCKS] = {0}, some[BLOCKS];
        struct lvn_result result = {0};
        const union lvn_attr clip = {.grad_clip = {1}};
        for (int s = 0; s < 4; s++) {
            const union lvn_attr squares = {.grad_squares = {.first = first[s], .sums = BLOCKS}};
            int64_t begin = (int64_t)first[s] * 4096, end = (int64_t)first[s + 1] * 4096;
            struct lvn_desc d = LVN_DESC(LVN_F32, (end < COUNT ? end : COUNT) - begin);
            struct lvn_call call = {.attr = &squares, .out[0] = {some, NULL}};
            if (end > begin) call.in[0] = (struct lvn_arg){(float *)r.in[0].p + begin, &d};
            memset(some, 0xff, sizeof some);
            lvn_cpu_call(kernels_of(set, LVN_OP_grad_squares), &call, 0, 1);
            for (int b = 0; b < BLOCKS; b++) sums[b] += some[b];
        }
        struct lvn_desc d = LVN_DESC(LVN_F64, BLOCKS);
        struct lvn_call call = {.attr = &clip, .in[0] = {sums, &d}, .result = &result, .step = &r.step};
        lvn_cpu_call(kernels_of(set, LVN_OP_grad_clip), &call, 0, 1);
        assert_memory_equal(&result.grad_norm, &r.result.grad_norm, sizeof(double));
        assert_memory_equal(&result.clip_scale, &r.result.clip_scale, sizeof(double));
        r.step.grad_scale = 0; /* a batch without labels: the optimizer changes nothing */
        lvn_cpu_call(kernels_of(set, LVN_OP_grad_clip), &call, 0, 1);
        assert_true(result.clip_scale == 0);
        run_forward(&r, 2);
        assert_true(r.result.clip_scale == 0);
        run_release(&r);
    }
}

/* --- gradients sent between ranks --- */

/* Cast to bf16 (to nearest) and back to fp32, on any number of threads: the same as one number at a time. */
static void test_bf16_and_back(void **state)
{
    (void)state;
    enum { N = 3 * 417 + 1 };
    float x[N], back[N];
    uint16_t y[N];
    struct lvn_desc wide = LVN_DESC(LVN_F32, N), half = LVN_DESC(LVN_BF16, N);
    for (int i = 0; i < N; i++) x[i] = (float)((i % 7 - 3) * pow(1.37, i % 200 - 100));
    x[5] = NAN, x[6] = INFINITY, x[7] = -0.0f;
    for (int set = 0; set < N_SETS; set++)
        for (int n_threads = 1; set_runs(set) && n_threads <= 3; n_threads++) {
            struct lvn_call to = {.in[0] = {x, &wide}, .out[0] = {y, &half}};
            struct lvn_call from = {.in[0] = {y, &half}, .out[0] = {back, &wide}};
            for (int t = 0; t < n_threads; t++) lvn_cpu_call(kernels_of(set, LVN_OP_narrow), &to, t, n_threads);
            for (int t = 0; t < n_threads; t++) lvn_cpu_call(kernels_of(set, LVN_OP_widen), &from, t, n_threads);
            for (int i = 0; i < N; i++) {
                const float want = lvn_bf16_get(lvn_bf16_make(x[i]));
                assert_memory_equal(&back[i], &want, sizeof want);
            }
        }
}

/* --- shape rules --- */

static void check_refused(const struct op_case *c, const char *name, const char *sentence)
{
    const struct lvn_op *op = lvn_op(c->op, LVN_F32);
    struct lvn_shapes s = {.op = op->name, .attr = &c->attr, .real = LVN_F32};
    for (int i = 0; i < op->n_in; i++) {
        s.has[i] = c->in[i].filling != ABSENT;
        if (s.has[i]) s.in[i] = input_desc(&c->in[i], LVN_F32);
        if (i == 1) s.name[i] = name;
    }
    assert_int_not_equal(op->shape(&s), LVN_OK);
    if (!strstr(levin_error_text(), sentence)) fail_msg("'%s' lacks '%s'", levin_error_text(), sentence);
}

static void test_shape_rules_say_what_does_not_fit(void **state)
{
    (void)state;
    static const struct {
        struct op_case c;
        const char *sentence;
    } table[] = {
        {{LVN_OP_linear, .attr.linear = {true}, .in = {REAL(2, 96), REAL(64, 8)}},
         "linear: input has 96 features, but weight 'w' of shape (64, 8) (stored in, out) requires 64"},
        {{LVN_OP_linear, .attr.linear = {false}, .in = {REAL(2, 96), REAL(8, 96), REAL(9)}},
         "linear: bias has shape (9); expected (8)"},
        {{LVN_OP_linear, .in = {REAL(2, 96), REAL(8)}}, "weight 'w' has shape (8); expected a matrix"},
        {{LVN_OP_linear, .in = {HEADS(2, 3, 1, 4, 9, 0), REAL(8, 4)}}, "expected a contiguous tensor"},
        {{LVN_OP_embedding, .in = {IDS(4, 2, 9), REAL(4, 3), REAL(8, 3)}},
         "sequences of 9 tokens exceed positions with 8 rows"},
        {{LVN_OP_embedding, .in = {REAL(2, 9), REAL(4, 3)}}, "ids has type fp32; expected int32"},
        {{LVN_OP_layernorm, .attr.layernorm = {1e-5}, .in = {REAL(2, 9), GAMMA(8)}}, "has shape (8); expected (9)"},
        {{LVN_OP_add, .in = {REAL(2, 9), REAL(9, 2)}}, "second input 'w' has (9, 2); they must be equal"},
        {{LVN_OP_dropout, .attr.dropout = {1}, .in = {REAL(2, 9)}}, "it must be at least 0 and below 1"},
        {{LVN_OP_cross_entropy, .in = {REAL(2, 9), LABEL(9, 3)}}, "labels 'w' has shape (3); expected 2 elements"},
        {{LVN_OP_linear_cross_entropy, .in = {REAL(2, 9), REAL(5, 9)}}, "no labels given"},
    };
    for (size_t n = 0; n < sizeof table / sizeof table[0]; n++) check_refused(&table[n].c, "w", table[n].sentence);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dropout_keeps_its_rate_and_its_mask),
        cmocka_unit_test(test_dropout_masks_differ_where_they_should),
        cmocka_unit_test(test_dropout_does_not_depend_on_the_split),
        cmocka_unit_test(test_fused_dropout_draws_the_same_mask),
        cmocka_unit_test(test_optimizers_follow_their_formulas),
        cmocka_unit_test(test_decayed_moments_are_zero),
        cmocka_unit_test(test_optimizers_change_nothing_on_request),
        cmocka_unit_test(test_moments_in_bf16_are_rounded_at_random),
        cmocka_unit_test(test_grad_norm),
        cmocka_unit_test(test_norm_of_shards),
        cmocka_unit_test(test_bf16_and_back),
        cmocka_unit_test(test_shape_rules_say_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

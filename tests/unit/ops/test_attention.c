/* test_attention.c - covers: src/core/ops/attention.c src/core/ops/kv_cache.c src/core/ops/attention.cpu.c
 *
 * Attention and its cache. Plain kernels in double are compared with a formula written in this file, with finite
 * differences, and with PyTorch (tests/golden/attention.safetensors). Fast kernels are compared with the plain ones in
 * double; their bits must be equal for every number of threads, and for AVX2 and AVX-512. */
#include "attention_world.h"

#include "formats/safetensors.h"
#include "graph/graph.h"
#include "levin.h"
#include "ops/attention.h"

/* The numbers of a tensor in fp32. */
static float *f32(const struct world *w, int t)
{
    return w->found[t];
}

static void check_equal(double found, double wanted, double tolerance)
{
    if (!(fabs(found - wanted) <= tolerance * (1 + fabs(wanted))))
        fail_msg("found %.12g, expected %.12g, within %g", found, wanted, tolerance);
}

static void check_shape(const struct lvn_desc *found, struct lvn_desc wanted)
{
    assert_true(lvn_desc_same_shape(found, &wanted));
}

/* --- the plain kernels against the formula ----------------------------------------------------------------------- */

static double at(const struct world *w, int t, int64_t b, int64_t i, int64_t h, int64_t x)
{
    const int64_t *s = w->desc[t].stride;
    return w->f64[t][b * s[0] + i * s[1] + h * s[2] + x];
}

static bool sees(const struct world *w, int64_t b, int64_t i, int64_t j)
{
    const struct problem *p = &w->p;
    const int64_t position = i + (p->cached ? position_of(p, b) : p->Tk - p->Tq);
    if (p->lengths && j >= w->lengths[b]) return false;
    int64_t hidden = 0, hidden_after = 0; /* keys before query i; those of them after key j */
    for (int n = 0; p->branches && n < LVN_HIDDEN_RANGES; n++) {
        const int32_t *range = w->hidden + ((b * p->Tq + i) * LVN_HIDDEN_RANGES + n) * 2;
        if (j >= range[0] && j < range[1]) return false;
        hidden += range[1] - range[0];
        if (j < range[0]) hidden_after += range[1] - range[0];
    }
    if (p->window && j + hidden_after <= position - p->window) return false;
    if (p->segments && j < w->segments[b * p->Tq + i] - hidden) return false;
    if (p->cached) return j < position_of(p, b) + p->Tq && (!p->causal || j <= position_of(p, b) + i);
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
                    s /= sqrt((double)p->D);
                    if (p->softcap > 0) s = p->softcap * tanh(s / p->softcap);
                    e[j] = sees(w, b, i, j) ? exp(s) : 0;
                    sum += e[j];
                }
                for (int64_t x = 0; x < p->D; x++) {
                    double want = 0;
                    for (int64_t j = 0; j < p->Tk; j++) {
                        struct lvn_dropout_key key = {11, 3, 77};
                        const uint64_t row =
                            ((uint64_t)((5 + b) * p->Hq + h) << 20) + (uint64_t)(position_of(p, b) + i);
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
    run_call(lvn_cpu_plain_ops(LVN_F64) + LVN_OP_attention, &c, 1);
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
        for (int64_t n = 0; n < lvn_desc_count(s); n += 3) { /* every third element is enough, and not too slow */
            const int64_t o = offset_of(s, n);
            const double old = w->f64[t][o];
            w->f64[t][o] = old + h;
            const double up = objective(w);
            w->f64[t][o] = old - h;
            const double down = objective(w);
            w->f64[t][o] = old;
            const double before = w->p.add ? (double)(float)noise(d, (size_t)o) : 0;
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
    {2, 7, 7, 2, 2, 3, .causal = true, .window = 1},
    {2, 7, 7, 2, 2, 3, .causal = true, .window = 3},
    {2, 7, 7, 2, 2, 3, .causal = true, .window = 7, .softcap = 1},
    {2, 9, 9, 2, 1, 3, .causal = true, .segments = 3, .lengths = true},
    {1, 9, 9, 2, 1, 3, .causal = true, .segments = 5, .window = 3, .softcap = 0.6, .p = 0.2},
    {2, 3, 9, 2, 2, 3, .causal = true, .cached = true, .position = 4, .window = 2},
    {2, 14, 14, 2, 1, 3, .causal = true, .segments = 30, .branches = 2},
    {1, 20, 20, 2, 2, 3, .causal = true, .segments = 12, .branches = 3, .window = 4, .lengths = true},
};

static void test_plain(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        struct world *w = world_new(small[i], LVN_F32);
        both_phases(w, lvn_cpu_plain_ops(LVN_F64) + LVN_OP_attention, 1, true);
        check_formula(w);
        check_differences(w);
        world_free(w);
    }
}

/* --- the plain kernels against PyTorch --------------------------------------------------------------------------- */

/* The cases of tools/make_golden_attention.py. */
static const struct problem golden[] = {
    {1, 5, 5, 2, 2, 4, .causal = true, .window = 8},
    {1, 8, 8, 2, 2, 4, .causal = true, .window = 8},
    {1, 11, 11, 2, 1, 4, .causal = true, .window = 4},
    {1, 11, 11, 4, 2, 4, .causal = true, .segments = 4},
    {1, 11, 11, 2, 2, 4, .causal = true, .window = 3, .segments = 6, .softcap = 0.7},
    {1, 9, 9, 2, 1, 4, .causal = true, .softcap = 2, .lengths = true},
};

static const double *golden_tensor(const struct lvn_safetensors *s, size_t i, const char *name)
{
    char full[32];
    snprintf(full, sizeof full, "%zu.%s", i, name);
    const struct lvn_safetensor *t = lvn_safetensors_find(s, full);
    if (!t) fail_msg("no tensor %s", full);
    return t->data;
}

static void test_golden(void **state)
{
    (void)state;
    struct lvn_safetensors s;
    assert_int_equal(lvn_safetensors_open(&s, "tests/golden/attention.safetensors"), LVN_OK);
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        struct world *w = world_new(golden[i], LVN_F32);
        w->lengths[0] = 6;
        if (golden[i].segments)
            memcpy(w->segments, golden_tensor(&s, i, "segments"), (size_t)golden[i].Tq * sizeof *w->segments);
        for (int t = Q; t <= DOUT; t++)
            for (int64_t n = 0; t != OUT && n < lvn_desc_count(&w->desc[t]); n++)
                w->f64[t][offset_of(&w->desc[t], n)] = golden_tensor(&s, i, tensor_names[t])[n];
        both_phases(w, lvn_cpu_plain_ops(LVN_F64) + LVN_OP_attention, 1, true);
        for (int t = OUT; t <= DV; t++)
            for (int64_t n = 0; n < lvn_desc_count(&w->desc[t]); n++)
                check_equal(w->f64[t][offset_of(&w->desc[t], n)], golden_tensor(&s, i, tensor_names[t])[n], 1e-12);
        world_free(w);
    }
    lvn_safetensors_close(&s);
}

/* --- the fast kernels against the plain ones --------------------------------------------------------------------- */

static void check_close(const struct world *w, int t, const char *what)
{
    double worst = 0, size = 0;
    const struct lvn_desc *d = &w->desc[t];
    for (int64_t n = 0; n < lvn_desc_count(d); n++) {
        const int64_t o = offset_of(d, n);
        const double error = fabs(f32(w, t)[o] - w->f64[t][o]);
        if (!(error <= worst)) worst = error; /* NaN too */
        if (fabs(w->f64[t][o]) > size) size = fabs(w->f64[t][o]);
    }
    /* one rounding of a sum of some hundred terms of the tensor's own size, with a margin */
    if (!(worst <= 4e-6 * (size + 1)))
        fail_msg("%s, tensor %d: off by %g where values go up to %g " PROBLEM_TEXT, what, t, worst, size,
                 PROBLEM_NUMBERS(w->p));
}

static uint32_t checksum(const struct world *w)
{
    uint32_t h = 2166136261u;
    for (int t = OUT; t < N_TENSORS; t++) {
        const unsigned char *p = (const unsigned char *)f32(w, t);
        for (size_t i = 0; i < w->count[t] * sizeof(float); i++) h = (h ^ p[i]) * 16777619u;
    }
    return h;
}

static void check_fast(struct problem p)
{
    struct world *w = world_new(p, LVN_F32);
    both_phases(w, lvn_cpu_plain_ops(LVN_F64) + LVN_OP_attention, 1, true);
    uint32_t first = 0;
    bool have = false;
    for (int isa = lvn_isa_best(); isa >= LVN_ISA_GENERIC; isa--) {
        const struct lvn_cpu_op *k = lvn_cpu_ops((enum lvn_isa)isa) + LVN_OP_attention;
        if (isa == LVN_ISA_GENERIC && have && p.Tq * p.Tk * p.D > 20000) continue; /* slow: fma in software */
        both_phases(w, k, 1, false);
        for (int t = OUT; t < N_TENSORS; t++)
            if (t != DOUT) check_close(w, t, lvn_isa_name((enum lvn_isa)isa));
        if (have && checksum(w) != first)
            fail_msg("%s gives other bits " PROBLEM_TEXT, lvn_isa_name((enum lvn_isa)isa), PROBLEM_NUMBERS(p));
        first = checksum(w);
        have = true;
    }
    static const int teams[] = {2, 3, 4, 8};
    for (int i = 0; i < 4; i++) {
        both_phases(w, lvn_cpu_ops(lvn_isa_best()) + LVN_OP_attention, teams[i], false);
        if (checksum(w) != first) fail_msg("%d threads give other bits " PROBLEM_TEXT, teams[i], PROBLEM_NUMBERS(p));
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
        {2, 1, 300, 3, 3, 64, .causal = true, .cached = true, .position = 299}, /* decoding */
        {2, 1, 300, 4, 2, 17, .causal = true, .cached = true, .position = 0},
        {2, 5, 300, 4, 2, 80, .causal = true, .cached = true, .position = 100},
        {1, 8, 30, 4, 2, 5, .cached = true, .position = 3, .lengths = true},
        {2, 20, 300, 4, 2, 64, .causal = true, .cached = true, .position = 77},
        {2, 64, 300, 2, 2, 32, .causal = true, .cached = true, .position = 0},
        {1, 9, 70, 2, 2, 32, .causal = true, .cached = true, .position = 60, .p = 0.1},
        {1, 4200, 4150, 2, 1, 2, .causal = true, .add = true}, /* sums in parts of 4096 */
        {1, 4350, 4350, 1, 1, 2, .causal = true, .window = 4200},
        {2, 1, 300, 3, 3, 64, .causal = true, .cached = true, .position = 299, .window = 50},
        {2, 3, 300, 4, 2, 80, .causal = true, .cached = true, .position = 100, .window = 30, .softcap = 1},
        {2, 20, 300, 4, 2, 64, .causal = true, .cached = true, .position = 177, .window = 40, .softcap = 0.7},
    };
    for (int i = 0; i < N_TRAINING_KINDS; i++) check_fast(training_kinds[i]);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) check_fast(list[i]);
}

static void test_evaluation(void **state)
{
    (void)state;
    struct world *w = world_new((struct problem){1, 20, 20, 2, 2, 8, .causal = true, .p = 0.5}, LVN_F32);
    struct world *plain = world_new((struct problem){1, 20, 20, 2, 2, 8, .causal = true, .p = 0}, LVN_F32);
    w->step.training = 0;
    both_phases(w, lvn_cpu_ops(lvn_isa_best()) + LVN_OP_attention, 1, false);
    both_phases(plain, lvn_cpu_ops(lvn_isa_best()) + LVN_OP_attention, 1, false);
    assert_int_equal(checksum(w), checksum(plain));
    world_free(w);
    world_free(plain);
}

/* Gradients that are not requested are not written; the others do not change. */
static void test_unwanted(void **state)
{
    (void)state;
    struct world *w = world_new((struct problem){1, 70, 70, 2, 1, 8, .causal = true}, LVN_F32);
    const struct lvn_cpu_op *k = lvn_cpu_ops(lvn_isa_best()) + LVN_OP_attention;
    both_phases(w, k, 1, false);
    float *kept[3];
    for (int i = 0; i < 3; i++) {
        kept[i] = malloc(w->count[DQ + i] * sizeof(float));
        memcpy(kept[i], f32(w, DQ + i), w->count[DQ + i] * sizeof(float));
    }
    for (int mask = 1; mask < 8; mask++)
        for (int threads = 1; threads < 4; threads++) {
            for (int i = 0; i < 3; i++)
                for (size_t n = 0; n < w->count[DQ + i]; n++) f32(w, DQ + i)[n] = NAN;
            struct lvn_call c = make_call(w, LVN_BACKWARD, false);
            for (int i = 0; i < 3; i++)
                if (!(mask & 1 << i)) c.din[i].p = NULL;
            run_call(k, &c, threads);
            for (int i = 0; i < 3; i++) {
                if (mask & 1 << i)
                    assert_memory_equal(f32(w, DQ + i), kept[i], w->count[DQ + i] * sizeof(float));
                else
                    assert_true(isnan(f32(w, DQ + i)[0]));
            }
        }
    for (int i = 0; i < 3; i++) free(kept[i]);
    world_free(w);
}

/* Samples 2 and 3 of a batch of four have the dropout masks of a batch of two that starts at row 2. */
static void test_split(void **state)
{
    (void)state;
    struct problem p = {4, 33, 33, 2, 2, 16, .causal = true, .p = 0.4};
    struct world *whole = world_new(p, LVN_F32), *part;
    p.B = 2;
    part = world_new(p, LVN_F32);
    part->step.first_row = whole->step.first_row + 2;
    const struct lvn_cpu_op *k = lvn_cpu_ops(lvn_isa_best()) + LVN_OP_attention;
    for (int t = Q; t <= V; t++)
        memcpy(f32(part, t), f32(whole, t) + 2 * whole->desc[t].stride[0], part->count[t] * sizeof(float));
    struct lvn_call c = make_call(whole, LVN_FORWARD, false), d = make_call(part, LVN_FORWARD, false);
    run_call(k, &c, 1);
    run_call(k, &d, 1);
    assert_memory_equal(f32(part, OUT), f32(whole, OUT) + 2 * whole->desc[OUT].stride[0],
                        part->count[OUT] * sizeof(float));
    world_free(whole);
    world_free(part);
}

static void test_shapes(void **state)
{
    (void)state;
    const struct lvn_op *op = lvn_op(LVN_OP_attention, LVN_F32);
    union lvn_attr attr = {.attention = {.causal = true, .scale = 1, .p = 0}};
    struct lvn_shapes good = {.op = "attention", .attr = &attr, .real = LVN_F32, .has = {true, true, true}};
    good.in[0] = view(LVN_F32, 2, 5, 4, 8);
    good.in[1] = good.in[2] = view(LVN_F32, 2, 7, 2, 8);
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
        assert_non_null(strstr(levin_error_text(), "attention: "));
    }
    lvn_error_clear();
}

/* Writing token by token and then attending gives the rows of one causal pass; with a window the cache may be a ring of
 * `length` rows. */
static void check_cache(int64_t window, int64_t length, bool ring)
{
    enum { T = 40, LENGTH = 48 };
    const struct problem p = {2, T, T, 2, 2, 16, .causal = true, .window = window};
    struct world *w = world_new(p, LVN_F32);
    const struct lvn_cpu_op *table = lvn_cpu_ops(lvn_isa_best());
    both_phases(w, table + LVN_OP_attention, 1, false);

    float *kept[2];
    struct lvn_desc cache_desc = LVN_DESC(LVN_F32, 2, length, 2, 16);
    for (int i = 0; i < 2; i++) {
        kept[i] = malloc(2 * LENGTH * 32 * sizeof(float));
        memset(kept[i], 0xff, 2 * LENGTH * 32 * sizeof(float)); /* NaN: a read of unwritten rows shows */
    }
    union lvn_attr attr = {.kv_cache = {.length = length, .ring = ring}};
    for (int64_t t = 0, n; t < T; t += n) {
        n = t == 0 ? 12 : t == 20 ? 11 : 1; /* a prompt, then token by token, and a piece that wraps a ring */
        struct lvn_step step = {.position = {(int32_t)t, (int32_t)t}};
        for (int i = 0; i < 2; i++) {
            struct lvn_desc x = w->desc[K];
            x.dim[1] = n;
            struct lvn_call c = {.phase = LVN_FORWARD, .attr = &attr, .step = &step};
            c.in[0] = (struct lvn_arg){f32(w, K + i) + t * x.stride[1], &x};
            c.out[0] = (struct lvn_arg){kept[i], &cache_desc};
            run_call(table + LVN_OP_kv_cache, &c, 3);
        }
        struct world *d = world_new(
            (struct problem){2, n, length, 2, 2, 16, .causal = true, .cached = true, .window = window}, LVN_F32);
        d->attr.attention.ring = ring;
        struct lvn_call c = make_call(d, LVN_FORWARD, false);
        struct lvn_desc q = w->desc[Q];
        q.dim[1] = n;
        c.step = &step;
        c.in[0] = (struct lvn_arg){f32(w, Q) + t * q.stride[1], &q};
        c.in[1] = (struct lvn_arg){kept[0], &cache_desc};
        c.in[2] = (struct lvn_arg){kept[1], &cache_desc};
        run_call(table + LVN_OP_attention, &c, 2);
        for (int64_t b = 0; b < 2; b++)
            for (int64_t x = 0; x < n * 32; x++)
                check_equal(f32(d, OUT)[b * n * 32 + x], f32(w, OUT)[(b * T + t) * 32 + x], 2e-6);
        world_free(d);
    }
    free(kept[0]);
    free(kept[1]);
    world_free(w);
}

static void test_cache(void **state)
{
    (void)state;
    check_cache(0, 48, false);
    check_cache(9, 48, false);
    check_cache(9, 20, true); /* the window and eleven new positions more */
    check_cache(1, 12, true);
    check_cache(25, 36, true);
}

/* The constructors: without a cache kv_cache(x) is x; with one, attention knows that its keys are in it. */
static void test_graph(void **state)
{
    (void)state;
    for (int cache = 0; cache < 2; cache++) {
        struct lvn_params *params = lvn_params_new();
        struct levin_graph *g = lvn_graph_new(params, LVN_F32);
        g->cache_length = cache ? 32 : 0;
        struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 1, 4, 3 * 16));
        struct levin_tensor *q = levin_heads(g, x, 0, 2, 8), *k = levin_heads(g, x, 16, 2, 8),
                            *v = levin_heads(g, x, 32, 2, 8);
        levin_scope(g, "h.%d", 3);
        struct levin_tensor *kept = levin_kv_cache(g, "attn.k", k, 0);
        const struct levin_attention_options how = {.size = sizeof how, .causal = true, .scale = 0.35};
        struct levin_tensor *y = levin_attention(g, q, kept, levin_kv_cache(g, "attn.v", v, 0), &how);
        assert_int_equal(lvn_graph_status(g), LVN_OK);
        check_shape(&y->desc, LVN_DESC(LVN_F32, 1, 4, 16));
        assert_int_equal(y->node->attr.attention.cached, cache);
        assert_int_equal(g->n_caches, 2 * cache);
        if (cache) {
            assert_string_equal(g->caches[1].name, "h.3.attn.v");
            assert_int_equal(g->caches[0].desc.dim[1], 32);
            assert_int_equal(kept->node->cache, 0);
        } else {
            assert_ptr_equal(kept, k);
        }
        assert_null(levin_kv_cache(g, "z", NULL, 0));
        lvn_graph_free(g);
        lvn_params_free(params);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain), cmocka_unit_test(test_golden),     cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_kinds), cmocka_unit_test(test_evaluation), cmocka_unit_test(test_unwanted),
        cmocka_unit_test(test_split), cmocka_unit_test(test_shapes),     cmocka_unit_test(test_cache),
        cmocka_unit_test(test_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

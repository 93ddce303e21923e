/* test_simd_math.c - covers: src/core/backend/cpu/simd.h src/core/backend/cpu/simd_math.h
 * src/core/backend/cpu/simd_gelu.h src/core/backend/cpu/simd_random.h
 *
 * The vector functions against the C library in double, and against each other over instruction sets. Arguments step
 * through all bit patterns of a float, so that every exponent is met. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "host/isa.h"
#include "unit/simd_arrays.h"

extern const struct simd_arrays simd_arrays_generic;
#if defined(LVN_X86)
extern const struct simd_arrays simd_arrays_avx2, simd_arrays_avx512, simd_arrays_avx512_bf16, simd_arrays_amx;
static const struct simd_arrays *const all[] = {&simd_arrays_generic, &simd_arrays_avx2, &simd_arrays_avx512,
                                                &simd_arrays_avx512_bf16, &simd_arrays_amx};
#else
static const struct simd_arrays *const all[] = {&simd_arrays_generic};
#endif

/* How many of `all` run here. */
static int n_isas(void)
{
    return (int)lvn_isa_best() + 1;
}

enum { STEP = 16 * 499 }; /* bit patterns between two vectors of arguments; 499 between two lanes */

static void arguments(uint32_t first, float x[16])
{
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t bits = first + 499 * i;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

typedef void array_function(const float x[16], float y[16]);

/* The largest error in units in the last place; the smallest denormal is the unit near zero. Where the true result is
 * below `tiny`, zero will do too. */
static double largest_error(array_function *f, double (*expected)(double), double tiny, float *where)
{
    double worst = 0;
    for (uint64_t first = 0; first + STEP < 1ull << 32; first += STEP) {
        float x[16], y[16];
        arguments((uint32_t)first, x);
        f(x, y);
        for (int i = 0; i < 16; i++) {
            double w = expected(x[i]);
            int exponent;
            if (isnan(w) || isinf((float)w)) {
                if (isnan(w) ? isnan(y[i]) : y[i] == (float)w) continue;
                *where = x[i];
                return INFINITY;
            }
            if (fabs(w) < tiny && y[i] == 0) continue;
            frexp(w, &exponent);
            double error = fabs(y[i] - w) / ldexp(1, exponent < -125 ? -149 : exponent - 24);
            if (error > worst || isnan(error)) worst = error, *where = x[i];
        }
    }
    return worst;
}

static void check_error(const char *name, array_function *f, double (*expected)(double), double tiny, double limit)
{
    float where = 0;
    double error = largest_error(f, expected, tiny, &where);
    if (!(error <= limit)) fail_msg("%s: %.3g ulp at %a, at most %.3g is allowed", name, error, where, limit);
}

static void test_functions_are_accurate(void **state)
{
    (void)state;
    const struct simd_arrays *a = all[n_isas() - 1];
    check_error("vexp", a->exp, exp, 0x1p-125, 0.95);
    check_error("vlog", a->log, log, 0, 0.9);
    check_error("vtanh", a->tanh, tanh, 0, 5);
    check_error("verf", a->erf, erf, 0, 5.2);
    check_error("vsqrt", a->sqrt, sqrt, 0, 0.501);
}

/* The error of GELU matters relative to 1: absolute, in units of max(|x|, 1) 2^-23. */
static double gelu(double x)
{
    return 0.5 * x * erfc(-x * 0.70710678118654752440);
}
static double gelu_slope(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440) + x * 0.39894228040143267794 * exp(-0.5 * x * x);
}
static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
static double gelu_tanh_slope(double x)
{
    double t = tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * 0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
}

static void test_gelu_is_accurate(void **state)
{
    (void)state;
    const struct simd_arrays *a = all[n_isas() - 1];
    array_function *f[] = {a->gelu, a->gelu_slope, a->gelu_tanh, a->gelu_tanh_slope};
    double (*expected[])(double) = {gelu, gelu_slope, gelu_tanh, gelu_tanh_slope};
    for (int k = 0; k < 4; k++) {
        for (int j = 0; j < 20000; j++) {
            float x[16], y[16];
            for (int i = 0; i < 16; i++) x[i] = (float)(j * 16 + i - 160000) * 1e-4f; /* -16 .. 16 */
            f[k](x, y);
            for (int i = 0; i < 16; i++) {
                double w = expected[k](x[i]), unit = 0x1p-23 * fmax(1, fabs(x[i]));
                if (!(fabs(y[i] - w) <= 4 * unit)) fail_msg("function %d of %a is %a, expected %a", k, x[i], y[i], w);
            }
        }
    }
}

static void test_special_values(void **state)
{
    (void)state;
    const float x[16] = {NAN, INFINITY, -INFINITY, 0,    -0.0f,   1e-45f,   -1e-45f,   1,
                         -1,  88.7228f, 88.723f,   -104, 3.4e38f, -3.4e38f, 0x1p-126f, -NAN};
    for (int s = 0; s < n_isas(); s++) {
        float y[16];
        all[s]->exp(x, y);
        assert_true(isnan(y[0]) && isnan(y[15]));
        assert_true(y[1] == INFINITY && y[2] == 0 && y[3] == 1 && y[4] == 1 && y[5] == 1);
        assert_true(isfinite(y[9]) && y[9] > 3.4e38f && y[10] == INFINITY && y[11] == 0);
        all[s]->log(x, y);
        assert_true(isnan(y[0]) && y[1] == INFINITY && isnan(y[2]) && y[3] == -INFINITY && y[4] == -INFINITY);
        assert_true(fabsf(y[5] + 103.27893f) < 1e-4f && isnan(y[6]) && y[7] == 0 && isnan(y[8]));
        for (int k = 0; k < 2; k++) {
            (k ? all[s]->tanh : all[s]->erf)(x, y);
            assert_true(isnan(y[0]) && fabsf(y[1] - 1) < 2e-7f && fabsf(y[2] + 1) < 2e-7f && y[3] == 0 && y[4] == 0);
            assert_true(y[12] <= 1 && y[12] > 0.999999f && y[13] >= -1 && y[13] < -0.999999f);
        }
    }
}

static void same_bits(const char *name, const float *a, const float *b, const float *x)
{
    for (int i = 0; i < 16; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) && !(isnan(a[i]) && isnan(b[i])))
            fail_msg("%s of %a: %a and %a", name, x[i], a[i], b[i]);
}

static void test_instruction_sets_agree(void **state)
{
    (void)state;
    for (uint64_t first = 0; first + 4 * STEP < 1ull << 32; first += 4 * STEP) {
        float x[16], z[16], y[LVN_ISA_COUNT][16];
        arguments((uint32_t)first, x);
        arguments((uint32_t)first * 2654435761u, z);
#define SAME(function, ...)                                                                                            \
    for (int s = 0; s < n_isas(); s++) all[s]->function(x, __VA_ARGS__ y[s]);                                          \
    for (int s = 1; s < n_isas(); s++) same_bits(#function, y[0], y[s], x)
        SAME(exp, );
        SAME(log, );
        SAME(tanh, );
        SAME(erf, );
        SAME(gelu, );
        SAME(gelu_slope, );
        SAME(gelu_tanh, );
        SAME(gelu_tanh_slope, );
        SAME(sqrt, );
        SAME(larger, z, );
        SAME(fma, z, x, );
#undef SAME
        for (int s = 1; s < n_isas(); s++) {
            float a[2] = {all[0]->sum(x), all[0]->max(x)}, b[2] = {all[s]->sum(x), all[s]->max(x)};
            for (int i = 0; i < 2; i++)
                assert_true(memcmp(&a[i], &b[i], sizeof *a) == 0 || (isnan(a[i]) && isnan(b[i])));
        }
    }
}

/* Sums very close to the middle between two floats: rounding twice would give a wrong result. */
static void test_fma_rounds_once(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 200000; i++) {
        float a[16], b[16], c[16], y[16];
        for (uint32_t l = 0; l < 16; l++) {
            struct lvn_philox r = lvn_philox(7, i, l, 0, LVN_STREAM_TEST);
            const float sign = r.v[0] & 1 ? -1.0f : 1.0f;
            a[l] = 1 + (float)(r.v[1] % 8192) * 0x1p-12f; /* products of 13 bits: often a tie of 24 */
            b[l] = sign * (1 + (float)(r.v[2] % 8192) * 0x1p-12f);
            c[l] = (r.v[0] & 2 ? -1.0f : 1.0f) * ldexpf(1 + lvn_uniform(r.v[3]), (int)(r.v[0] >> 8) % 160 - 155);
        }
        for (int s = 0; s < n_isas(); s++) {
            all[s]->fma(a, b, c, y);
            for (int l = 0; l < 16; l++)
                if (y[l] != fmaf(a[l], b[l], c[l])) fail_msg("%s: %a * %a + %a", all[s]->name, a[l], b[l], c[l]);
        }
    }
}

static void test_part_of_a_vector(void **state)
{
    (void)state;
    for (int s = 0; s < n_isas(); s++) {
        for (int64_t n = 0; n <= 16; n++) {
            float x[16], y[18];
            for (int i = 0; i < 16; i++) x[i] = (float)(i + 1);
            for (int i = 0; i < 18; i++) y[i] = -1;
            all[s]->copy(x, y, n);
            for (int i = 0; i < 18; i++) assert_true(y[i] == (i < n ? x[i] : -1));
        }
    }
}

static void test_dropout_bits(void **state)
{
    (void)state;
    for (int s = 0; s < n_isas(); s++) {
        for (uint64_t i = 0; i < 2000; i++) {
            const double p = i % 7 == 0 ? 0.5 : i % 7 == 1 ? 0.99 : 0.1;
            struct lvn_dropout_key key = {i * 0x9E3779B97F4A7C15ull, i * 77, (uint32_t)i * 2654435761u};
            uint64_t row = i % 3 ? i : i * 0x123456789ull;
            uint32_t column = (uint32_t)(i % 11) * 8 + (i % 13 == 0 ? 0xfffffe00u - 512 : 0);
            uint64_t keep = all[s]->keep(key.seed, key.step, key.op, p, row, column);
            for (uint32_t j = 0; j < 64; j++) {
                bool expected = lvn_dropout_bits(&key, row, column + j) >= lvn_dropout_threshold(p);
                if ((keep >> j & 1) != expected)
                    fail_msg("%s: row %zu, column %u", all[s]->name, (size_t)row, column + j);
            }
            float x[16], y[16];
            for (int j = 0; j < 16; j++) x[j] = (float)(j + 1);
            all[s]->mask(x, keep, y);
            for (int j = 0; j < 16; j++) assert_true(y[j] == (keep >> j & 1 ? x[j] : 0));
        }
    }
}

/* Stochastic rounding is one of the two neighbors; infinities, and NaN with any bits, remain what they are. */
static void test_bf16_at_random(void **state)
{
    (void)state;
    const uint32_t of[16] = {0x3f800000, 0x3f808000, 0xbf808000, 0x00000001, 0x80000000, 0x7f000001,
                             0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7fffffff, 0xffffffff,
                             0x7f800001, 0xff800001, 0x7fff8000, 0xffff0000};
    for (int s = 0; s < n_isas(); s++)
        for (uint32_t random = 0; random < 0x10000; random += 0x1111) {
            float x[16];
            uint16_t y[16];
            uint32_t bits[16];
            memcpy(x, of, sizeof x);
            for (uint32_t i = 0; i < 16; i++) bits[i] = random | i << 16; /* the upper half is ignored */
            all[s]->bf16_at_random(x, bits, y);
            for (int i = 0; i < 16; i++) {
                const bool nan = (of[i] & 0x7fffffff) > 0x7f800000;
                if (nan ? (y[i] & 0x7fff) <= 0x7f80 || y[i] >> 15 != of[i] >> 31 : y[i] != (of[i] + random) >> 16)
                    fail_msg("%s: %08x rounded with %04x is %04x", all[s]->name, of[i], random, y[i]);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions_are_accurate), cmocka_unit_test(test_gelu_is_accurate),
        cmocka_unit_test(test_special_values),         cmocka_unit_test(test_instruction_sets_agree),
        cmocka_unit_test(test_fma_rounds_once),        cmocka_unit_test(test_part_of_a_vector),
        cmocka_unit_test(test_dropout_bits),           cmocka_unit_test(test_bf16_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

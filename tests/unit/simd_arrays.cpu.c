/* simd_arrays.cpu.c - see simd_arrays.h; compiled once per instruction set. */
#include "simd_arrays.h"

#include "backend/cpu/simd_bf16.h"
#include "backend/cpu/simd_gelu.h"
#include "backend/cpu/simd_random.h"

#define UNARY(name)                                                                                                    \
    static void array_##name(const float x[16], float y[16])                                                           \
    {                                                                                                                  \
        vstore(y, v##name(vload(x)));                                                                                  \
    }
UNARY(exp)
UNARY(log)
UNARY(tanh)
UNARY(erf)
UNARY(gelu)
UNARY(gelu_slope)
UNARY(gelu_tanh)
UNARY(gelu_tanh_slope)
UNARY(sqrt)

static float sum(const float x[16])
{
    return vsum(vload(x));
}

static float max(const float x[16])
{
    return vmax_lane(vload(x));
}

static void copy(const float *x, float *y, int64_t n)
{
    vstore_n(y, vload_n(x, n), n);
}

static void larger(const float a[16], const float b[16], float y[16])
{
    vstore(y, vselect(vgreater(vload(a), vload(b)), vload(a), vload(b)));
}

static void array_fma(const float a[16], const float b[16], const float c[16], float y[16])
{
    vstore(y, vfma(vload(a), vload(b), vload(c)));
}

static uint64_t keep(uint64_t seed, uint64_t step, uint32_t op, double p, uint64_t row, uint32_t column)
{
    struct vdropout d = vdropout_make(seed, step, op, p);
    return vdropout_keep(&d, row, column);
}

static void mask(const float x[16], uint64_t bits, float y[16])
{
    vstore(y, vkeep(vload(x), bits));
}

static void array_bf16_at_random(const float x[16], const uint32_t bits[16], uint16_t y[16])
{
    vu random;
    memcpy(&random, bits, sizeof random);
    vstore_bf16(y, bf16_at_random(vload(x), random));
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)

extern const struct simd_arrays LVN_ISA_NAME(simd_arrays);
const struct simd_arrays LVN_ISA_NAME(simd_arrays) = {TEXT(LVN_ISA_SUFFIX),
                                                      array_exp,
                                                      array_log,
                                                      array_tanh,
                                                      array_erf,
                                                      array_gelu,
                                                      array_gelu_slope,
                                                      array_gelu_tanh,
                                                      array_gelu_tanh_slope,
                                                      array_sqrt,
                                                      sum,
                                                      max,
                                                      copy,
                                                      larger,
                                                      array_fma,
                                                      keep,
                                                      mask,
                                                      array_bf16_at_random};

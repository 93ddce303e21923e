/* safetensors_convert.c - lvn_tensor_to_f32() and lvn_tensor_from_f32() of safetensors.h: element types of files to
 * float and back.
 *
 * fp16 and bf16 are converted with integer arithmetic, so that results do not depend on the processor or its handling
 * of denormals. fp16: IEEE 754-2008 binary16; bf16: base/bf16.h. */

#include "base/bf16.h"
#include "formats/safetensors.h"

static float f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff, bits;
    float value;
    if (rest < 0x400) {
        value = (float)rest * 0x1p-24f; /* subnormal in fp16, normal in fp32 */
        return sign ? -value : value;
    }
    if (rest >= 0x7c00)
        bits = sign | 0x7f800000u | (rest & 0x3ff) << 13;
    else
        bits = sign | ((rest << 13) + (112u << 23));
    memcpy(&value, &bits, 4);
    return value;
}

static uint16_t f32_to_f16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 0x1ff));
    if (bits >= 0x477ff000u) return (uint16_t)(sign | 0x7c00); /* 65520 and above round to infinity */
    if (bits < 0x38800000u) {                                  /* below 2^-14: multiples of 2^-24 */
        if (bits < 0x33000000u) return sign;                   /* below 2^-25 */
        uint32_t shift = 126 - (bits >> 23), mantissa = (bits & 0x7fffff) | 0x800000;
        uint32_t midpoint = 1u << (shift - 1), even = mantissa >> shift & 1;
        return (uint16_t)(sign | (mantissa + midpoint - 1 + even) >> shift);
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (uint16_t)(sign | ((bits >> 13) - (112u << 10)));
}

/* Copy each element because src may be unaligned. */
#define READ_EACH(type, expression)                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        type x;                                                                                                        \
        memcpy(&x, p + i * (int64_t)sizeof x, sizeof x);                                                               \
        dst[i] = (expression);                                                                                         \
    }                                                                                                                  \
    break

void lvn_tensor_to_f32(enum lvn_dtype dtype, const void *src, float *dst, int64_t n)
{
    const char *p = src;
    switch (dtype) {
    case LVN_F32:
        if (n) memcpy(dst, src, (size_t)n * sizeof *dst);
        break;
    case LVN_F64:
        READ_EACH(double, (float)x);
    case LVN_F16:
        READ_EACH(uint16_t, f16_to_f32(x));
    case LVN_BF16:
        READ_EACH(uint16_t, lvn_bf16_get(x));
    case LVN_I64:
        READ_EACH(int64_t, (float)x);
    case LVN_I32:
        READ_EACH(int32_t, (float)x);
    case LVN_I16:
        READ_EACH(int16_t, x);
    case LVN_U16:
        READ_EACH(uint16_t, x);
    case LVN_I8:
        READ_EACH(int8_t, x);
    case LVN_U8:
        READ_EACH(uint8_t, x);
    case LVN_BOOL:
        READ_EACH(uint8_t, x != 0);
    default: /* packed blocks: packed/packed.h */
        break;
    }
}

void lvn_tensor_from_f32(enum lvn_dtype dtype, const float *src, void *dst, int64_t n)
{
    switch (dtype) {
    case LVN_F32:
        if (n) memcpy(dst, src, (size_t)n * sizeof *src);
        break;
    case LVN_F64:
        for (int64_t i = 0; i < n; i++) ((double *)dst)[i] = src[i];
        break;
    case LVN_F16:
        for (int64_t i = 0; i < n; i++) ((uint16_t *)dst)[i] = f32_to_f16(src[i]);
        break;
    case LVN_BF16:
        for (int64_t i = 0; i < n; i++) ((uint16_t *)dst)[i] = lvn_bf16_make(src[i]);
        break;
    default:
        break;
    }
}

/* simd_arrays.h - the functions of src/core/backend/cpu/simd*.h on arrays, for test_simd_math.c. */
#ifndef LVN_TEST_SIMD_ARRAYS_H
#define LVN_TEST_SIMD_ARRAYS_H

#include <stdint.h>

struct simd_arrays {
    const char *name;
    void (*exp)(const float x[16], float y[16]);
    void (*log)(const float x[16], float y[16]);
    void (*tanh)(const float x[16], float y[16]);
    void (*erf)(const float x[16], float y[16]);
    void (*gelu)(const float x[16], float y[16]);
    void (*gelu_slope)(const float x[16], float y[16]);
    void (*gelu_tanh)(const float x[16], float y[16]);
    void (*gelu_tanh_slope)(const float x[16], float y[16]);
    void (*sqrt)(const float x[16], float y[16]);
    float (*sum)(const float x[16]);
    float (*max)(const float x[16]);
    void (*copy)(const float *x, float *y, int64_t n);                 /* the first n */
    void (*larger)(const float a[16], const float b[16], float y[16]); /* a > b ? a : b by compare and select */
    void (*fma)(const float a[16], const float b[16], const float c[16], float y[16]);
    uint64_t (*keep)(uint64_t seed, uint64_t step, uint32_t op, double p, uint64_t row, uint32_t column);
    void (*mask)(const float x[16], uint64_t bits, float y[16]);
    void (*bf16_at_random)(const float x[16], const uint32_t bits[16], uint16_t y[16]);
};

#endif

/* kernel_language.h - the language of device kernels: macros and functions with which src/core/ops/NAME.k is both CUDA
 * C++ and OpenCL C.
 *
 * src/core/ops/NAME.k is compiled twice. The host's compiler compiles its host half, which describes the kernels to
 * launch (backend/gpu/kernel_launch.h). The device's compiler compiles the kernels; it gets this file before the
 * source, with LVN_DEVICE defined, and LVN_CUDA if it is NVRTC. Other definitions of the host (LVN_DOUBLE: the device
 * has fp64; LVN_SLOW_DOUBLE: loops do not use it; TYPE_x) come before both.
 *
 * Every work-group has LVN_ITEMS items in one dimension; the grid has up to three dimensions. LVN_OPERAND(x) declares
 * an operand among a kernel's parameters: in CUDA one pointer; in OpenCL, which has no host pointers, a buffer and a
 * byte offset, or one pointer if LVN_POINTERS is defined (the device accepts host pointers). LVN_HAS(x): is the operand
 * present? LVN_AT(type, x): its pointer. LVN_GET(x, i) and LVN_PUT(x, i, value): element i, of type fp32, bf16 or fp16
 * as given by TYPE_x, which the launch defines for each operand. Do not give an operand the name of an OpenCL function
 * (step, length), because compilers may have macros with those names.
 *
 * Multiplication and addition are not contracted: write fma() for a single rounding, which all devices then do. Sums
 * over a group are trees of a fixed shape, and there are no atomics, so a device gives the same bits in every run.
 * Every macro also works on devices without sub-groups, fp16, fp64 and shared virtual memory.
 *
 * Put LVN_UNROLLED before each loop whose counter indexes an array of registers. The compiler places an array in memory
 * unless it knows all indices, and then each multiplication of a tile loads and stores its sums.
 *
 * All items of a group reach every barrier. No item returns early, a loop with a barrier runs at least once, and no
 * `if` depends on a group's sum or maximum: PoCL 3.1 sometimes computes item 0 of such kernels wrongly, even if all
 * items of the group take the same branch.
 *
 * Philox is bitwise identical to base/random.h. */
#ifndef LVN_KERNEL_LANGUAGE_H
#define LVN_KERNEL_LANGUAGE_H

#ifndef LVN_DEVICE
#include "backend/gpu/kernel_launch.h"
#else

#ifdef LVN_CUDA
typedef long long lvn_long;
typedef unsigned long long lvn_ulong;
typedef unsigned int lvn_uint;
typedef unsigned short lvn_ushort;
typedef unsigned char lvn_uchar;
#define LVN_KERNEL(name) extern "C" __global__ void __launch_bounds__(LVN_ITEMS) name
/* A kernel with a minimum number of resident groups per SM (__launch_bounds__). */
#define LVN_KERNEL_OF(name, groups) extern "C" __global__ void __launch_bounds__(LVN_ITEMS, groups) name
#define LVN_FUNCTION inline __device__
#define LVN_GLOBAL
#define LVN_LOCAL
#define LVN_SHARED __shared__
#define LVN_BARRIER() __syncthreads()
#define LVN_ITEM ((int)threadIdx.x)
#define LVN_GROUP_X ((lvn_long)blockIdx.x)
#define LVN_GROUP_Y ((lvn_long)blockIdx.y)
#define LVN_GROUP_Z ((lvn_long)blockIdx.z)
#define LVN_OPERAND(x) char *x##_base
#define LVN_AT(type, x) ((type *)x##_base)
#define LVN_BITS_OF(x) __float_as_uint(x)
#define LVN_FLOAT_OF(bits) __uint_as_float(bits)
#define LVN_MUL_HI(a, b) __umulhi(a, b)
#define LVN_ULONG_DOUBLE(bits) __longlong_as_double((lvn_long)(bits))
#define LVN_NAN __int_as_float(0x7fc00000)
#define LVN_INFINITY __int_as_float(0x7f800000)
#define lvn_exp expf
#define lvn_exp2 exp2f
#define lvn_log logf
#define lvn_tanh tanhf
#define lvn_erf erff
#define lvn_fma fmaf
#define lvn_sqrt sqrtf
#define lvn_rsqrt(x) (1.0f / sqrtf(x))
#define lvn_inverse(x) __fdividef(1.0f, x)
#define lvn_max fmaxf
#define lvn_abs fabsf
#define lvn_rint rintf
#define lvn_sinpi sinpif
#define lvn_cospi cospif
#define LVN_DOUBLE
#define LVN_UNROLLED _Pragma("unroll")
#else
#pragma OPENCL FP_CONTRACT OFF
#ifdef LVN_DOUBLE
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
typedef long lvn_long;
typedef ulong lvn_ulong;
typedef uint lvn_uint;
typedef ushort lvn_ushort;
typedef uchar lvn_uchar;
#define LVN_KERNEL(name) __kernel __attribute__((reqd_work_group_size(LVN_ITEMS, 1, 1))) void name
#define LVN_KERNEL_OF(name, groups) LVN_KERNEL(name)
#define LVN_FUNCTION static inline
#define LVN_GLOBAL __global
#define LVN_LOCAL __local
#define LVN_SHARED __local
#define LVN_BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define LVN_ITEM ((int)get_local_id(0))
#define LVN_GROUP_X ((lvn_long)get_group_id(0))
#define LVN_GROUP_Y ((lvn_long)get_group_id(1))
#define LVN_GROUP_Z ((lvn_long)get_group_id(2))
#ifdef LVN_POINTERS
#define LVN_OPERAND(x) __global char *x##_base
#define LVN_AT(type, x) ((__global type *)x##_base)
#else
#define LVN_OPERAND(x) __global char *x##_base, lvn_ulong x##_offset
#define LVN_AT(type, x) ((__global type *)(x##_base + x##_offset))
#endif
#define LVN_BITS_OF(x) as_uint(x)
#define LVN_FLOAT_OF(bits) as_float(bits)
#define LVN_MUL_HI(a, b) mul_hi(a, b)
#define LVN_ULONG_DOUBLE(bits) as_double(bits)
#define LVN_NAN as_float(0x7fc00000u)
#define LVN_INFINITY INFINITY
#define lvn_exp exp
#define lvn_exp2 exp2
#define lvn_log log
#define lvn_tanh tanh
#define lvn_erf erf
#define lvn_fma fma
#define lvn_sqrt sqrt
#define lvn_rsqrt(x) (1.0f / sqrt(x))
#define lvn_inverse(x) (1.0f / (x)) /* fast, accurate to one ulp */
#define lvn_max fmax
#define lvn_abs fabs
#define lvn_rint rint
#define lvn_sinpi sinpi
#define lvn_cospi cospi
#define LVN_UNROLLED /* Intel's compiler unrolls automatically; a pragma would not change its register spills */
#endif

#include "backend/gpu/step_gpu.h"

/* 2^x; two instructions on NVIDIA devices, with a relative error of 2^-22. */
#ifdef LVN_CUDA
LVN_FUNCTION float lvn_exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
#define lvn_exp2_fast lvn_exp2
#endif
#define LVN_LOG2E 1.44269504088896340736f
#define lvn_exp_fast(x) lvn_exp2_fast((x)*LVN_LOG2E)

#define LVN_HAS(x) (x##_base != 0)
/* Global index of this item in a grid of one dimension. */
#define LVN_INDEX (LVN_GROUP_X * LVN_ITEMS + LVN_ITEM)

/* --- floating-point values in memory --- */

typedef LVN_GLOBAL float *lvn_f32;
typedef LVN_GLOBAL lvn_ushort *lvn_bf16;
typedef LVN_GLOBAL lvn_ushort *lvn_f16;

LVN_FUNCTION float lvn_get_f32(LVN_GLOBAL const float *p, lvn_long i)
{
    return p[i];
}

LVN_FUNCTION void lvn_put_f32(LVN_GLOBAL float *p, lvn_long i, float x)
{
    p[i] = x;
}

/* 16-bit types. Conversion from fp32 rounds to nearest, ties to even, and NaN stays NaN. fp16 is infinite above
 * 65519.9; below 6.1e-5 its values are subnormal and have fewer bits. */
LVN_FUNCTION float lvn_float_of_bf16(lvn_ushort x)
{
    return LVN_FLOAT_OF((lvn_uint)x << 16);
}

LVN_FUNCTION lvn_ushort lvn_bf16_of(float x)
{
    lvn_uint bits = LVN_BITS_OF(x);
    bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return nan ? (lvn_ushort)(bits >> 16 | 0x40u) : (lvn_ushort)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

#ifdef LVN_CUDA
LVN_FUNCTION float lvn_float_of_f16(lvn_ushort x)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

LVN_FUNCTION lvn_ushort lvn_f16_of(float x)
{
    lvn_ushort y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
#else /* works without cl_khr_fp16 */
LVN_FUNCTION float lvn_float_of_f16(lvn_ushort x)
{
    return vload_half(0, (const __private half *)&x);
}

LVN_FUNCTION lvn_ushort lvn_f16_of(float x)
{
    lvn_ushort y;
    vstore_half_rte(x, 0, (__private half *)&y);
    return y;
}
#endif

/* Two values, the first one in the lower half; one instruction on sm_80 and later. */
#if defined(LVN_CUDA) && __CUDA_ARCH__ >= 800
#define LVN_PAIR_OF(type)                                                                                              \
    LVN_FUNCTION lvn_uint lvn_pair_of_##type(float first, float second)                                                \
    {                                                                                                                  \
        lvn_uint y;                                                                                                    \
        asm("cvt.rn." #type "x2.f32 %0, %1, %2;" : "=r"(y) : "f"(second), "f"(first));                                 \
        return y;                                                                                                      \
    }
#else
#define LVN_PAIR_OF(type)                                                                                              \
    LVN_FUNCTION lvn_uint lvn_pair_of_##type(float first, float second)                                                \
    {                                                                                                                  \
        return (lvn_uint)lvn_##type##_of(first) | (lvn_uint)lvn_##type##_of(second) << 16;                             \
    }
#endif
LVN_PAIR_OF(bf16)
LVN_PAIR_OF(f16)

#define LVN_TYPE_OF_16_BITS(type)                                                                                      \
    LVN_FUNCTION float lvn_get_##type(LVN_GLOBAL const lvn_ushort *p, lvn_long i)                                      \
    {                                                                                                                  \
        return lvn_float_of_##type(p[i]);                                                                              \
    }                                                                                                                  \
    LVN_FUNCTION void lvn_put_##type(LVN_GLOBAL lvn_ushort *p, lvn_long i, float x)                                    \
    {                                                                                                                  \
        p[i] = lvn_##type##_of(x);                                                                                     \
    }                                                                                                                  \
    LVN_FUNCTION lvn_ushort lvn_##type##_from_f32(LVN_GLOBAL const float *p, lvn_long i)                               \
    {                                                                                                                  \
        return lvn_##type##_of(p[i]);                                                                                  \
    }                                                                                                                  \
    LVN_FUNCTION lvn_ushort lvn_##type##_from_##type(LVN_GLOBAL const lvn_ushort *p, lvn_long i)                       \
    {                                                                                                                  \
        return p[i];                                                                                                   \
    }
LVN_TYPE_OF_16_BITS(bf16)
LVN_TYPE_OF_16_BITS(f16)

#define LVN_JOIN_(a, b) a##b
#define LVN_JOIN(a, b) LVN_JOIN_(a, b)
#define LVN_POINTER(x) ((LVN_JOIN(lvn_, TYPE_##x))LVN_AT(char, x))
#define LVN_GET(x, i) LVN_JOIN(lvn_get_, TYPE_##x)(LVN_POINTER(x), i)
#define LVN_PUT(x, i, value) LVN_JOIN(lvn_put_, TYPE_##x)(LVN_POINTER(x), i, value)
/* A gradient: the first contribution overwrites, later ones add. */
#define LVN_GIVE(x, i, add, value) LVN_PUT(x, i, (add) ? LVN_GET(x, i) + (value) : (value))

/* --- long sums and results: fp64 if the device has it, else fp32 --- */

#ifdef LVN_DOUBLE
typedef double lvn_wide;
#define LVN_WIDE(x) x
#else
typedef float lvn_wide;
#define LVN_WIDE(x) x##f
#endif

/* Element i of an fp64 array, by integer arithmetic if the device has no fp64. */
LVN_FUNCTION void lvn_put_wide(LVN_GLOBAL char *p, lvn_long i, lvn_wide x)
{
#ifdef LVN_DOUBLE
    ((LVN_GLOBAL double *)p)[i] = x;
#else
    lvn_uint bits = LVN_BITS_OF(x), exponent = bits >> 23 & 0xffu;
    lvn_ulong wide = (lvn_ulong)(bits & 0x7fffffu) << 29;
    if (exponent == 0xffu)
        wide |= (lvn_ulong)0x7ff << 52;
    else if (exponent)
        wide |= (lvn_ulong)(exponent + 896) << 52;
    else
        wide = 0;
    ((LVN_GLOBAL lvn_ulong *)p)[i] = wide | (lvn_ulong)(bits >> 31) << 63;
#endif
}

/* The same for an integer below 2^53, exactly. */
LVN_FUNCTION void lvn_put_whole(LVN_GLOBAL char *p, lvn_long i, lvn_long x)
{
#ifdef LVN_DOUBLE
    ((LVN_GLOBAL double *)p)[i] = (double)x;
#else
    lvn_ulong left = (lvn_ulong)(x < 0 ? -x : x), exponent = 1023 + 52;
    if (left)
        for (; !(left >> 52); left <<= 1) exponent--;
    ((LVN_GLOBAL lvn_ulong *)p)[i] = left ? (left & 0xfffffffffffffUL) | exponent << 52 | (lvn_ulong)(x < 0) << 63 : 0;
#endif
}

LVN_FUNCTION lvn_wide lvn_get_wide(LVN_GLOBAL const char *p, lvn_long i)
{
#ifdef LVN_DOUBLE
    return ((LVN_GLOBAL const double *)p)[i];
#else
    lvn_ulong wide = ((LVN_GLOBAL const lvn_ulong *)p)[i];
    int exponent = (int)(wide >> 52 & 0x7ff);
    lvn_uint sign = (lvn_uint)(wide >> 63) << 31, fraction = (lvn_uint)(wide >> 29) & 0x7fffffu;
    if (exponent == 0x7ff) return LVN_FLOAT_OF(sign | 0x7f800000u | fraction);
    if (exponent <= 896) return LVN_FLOAT_OF(sign);
    if (exponent >= 896 + 255) return LVN_FLOAT_OF(sign | 0x7f800000u);
    return LVN_FLOAT_OF(sign | (lvn_uint)(exponent - 896) << 23 | fraction);
#endif
}

/* The sum of many fp32 values or products of two. Many GPUs compute fp64 at 1/64 of the rate of fp32, or not at all. On
 * these it is two floats: the sum, and the sum of the rounding errors. */
#ifdef LVN_CUDA
#define LVN_FAST_DOUBLE (__CUDA_ARCH__ == 700 || __CUDA_ARCH__ == 800 || __CUDA_ARCH__ == 900 || __CUDA_ARCH__ == 1000)
#elif defined(LVN_DOUBLE) && !defined(LVN_SLOW_DOUBLE)
#define LVN_FAST_DOUBLE 1
#else
#define LVN_FAST_DOUBLE 0
#endif

struct lvn_total {
#if LVN_FAST_DOUBLE
    double sum;
#else
    float sum, error;
#endif
};

LVN_FUNCTION void lvn_total_add(struct lvn_total *t, float x)
{
#if LVN_FAST_DOUBLE
    t->sum += x;
#else
    float sum = t->sum + x, added = sum - t->sum;
    t->error += (t->sum - (sum - added)) + (x - added);
    t->sum = sum;
#endif
}

/* Add x y, exactly. */
LVN_FUNCTION void lvn_total_add_product(struct lvn_total *t, float x, float y)
{
#if LVN_FAST_DOUBLE
    t->sum += (double)x * y;
#else
    float product = x * y;
    lvn_total_add(t, product);
    t->error += lvn_fma(x, y, -product);
#endif
}

LVN_FUNCTION struct lvn_total lvn_total_zero(void)
{
    struct lvn_total t;
    t.sum = 0;
#if !LVN_FAST_DOUBLE
    t.error = 0;
#endif
    return t;
}

/* A sum that is infinite or NaN has an error that is not a number. */
LVN_FUNCTION lvn_wide lvn_total_get(struct lvn_total t)
{
#if LVN_FAST_DOUBLE
    return t.sum;
#else
    return t.sum - t.sum == 0 ? (lvn_wide)t.sum + t.error : t.sum;
#endif
}

/* Eight consecutive 16-bit values from element i on; i is a multiple of eight, and the memory is aligned. */
struct lvn_eight {
    lvn_uint v[4];
};

LVN_FUNCTION struct lvn_eight lvn_get_eight(LVN_GLOBAL const lvn_ushort *p, lvn_long i)
{
    struct lvn_eight r;
#ifdef LVN_CUDA
    uint4 x = *(const uint4 *)(p + i);
    r.v[0] = x.x, r.v[1] = x.y, r.v[2] = x.z, r.v[3] = x.w;
#else
    LVN_GLOBAL const lvn_uint *pair = (LVN_GLOBAL const lvn_uint *)(p + i);
    for (int k = 0; k < 4; k++) r.v[k] = pair[k];
#endif
    return r;
}

/* --- reductions over the items of a group: all items make the call and get the result --- */

#define LVN_GROUP_SHARED(type, name) LVN_SHARED type name[LVN_ITEMS]

#define LVN_REDUCTION(name, type, of_two)                                                                              \
    LVN_FUNCTION type name(type x, LVN_LOCAL type *shared)                                                             \
    {                                                                                                                  \
        LVN_BARRIER();                                                                                                 \
        shared[LVN_ITEM] = x;                                                                                          \
        LVN_BARRIER();                                                                                                 \
        for (int width = LVN_ITEMS / 2; width >= 1; width /= 2) {                                                      \
            if (LVN_ITEM < width) {                                                                                    \
                type a = shared[LVN_ITEM], b = shared[LVN_ITEM + width];                                               \
                shared[LVN_ITEM] = of_two;                                                                             \
            }                                                                                                          \
            LVN_BARRIER();                                                                                             \
        }                                                                                                              \
        return shared[0];                                                                                              \
    }
LVN_REDUCTION(lvn_group_sum, float, a + b)
LVN_REDUCTION(lvn_group_wide_sum, lvn_wide, a + b)
LVN_REDUCTION(lvn_group_max, float, lvn_max(a, b))

/* --- random numbers: base/random.h --- */

struct lvn_four {
    lvn_uint v[4];
};

LVN_FUNCTION struct lvn_four lvn_philox(lvn_ulong key, lvn_uint c0, lvn_uint c1, lvn_uint c2, lvn_uint c3)
{
    lvn_uint k0 = (lvn_uint)key, k1 = (lvn_uint)(key >> 32);
    for (int round = 0; round < 10; round++) {
        lvn_uint hi0 = LVN_MUL_HI(0xD2511F53u, c0), lo0 = 0xD2511F53u * c0;
        lvn_uint hi1 = LVN_MUL_HI(0xCD9E8D57u, c2), lo1 = 0xCD9E8D57u * c2;
        c0 = hi1 ^ c1 ^ k0;
        c2 = hi0 ^ c3 ^ k1;
        c1 = lo1;
        c3 = lo0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    struct lvn_four r;
    r.v[0] = c0, r.v[1] = c1, r.v[2] = c2, r.v[3] = c3;
    return r;
}

#define LVN_NOW(x) ((LVN_GLOBAL const struct lvn_gpu_step *)LVN_AT(char, x))

/* Position of the first token of row b; nonzero only while decoding. */
LVN_FUNCTION lvn_long lvn_position(LVN_GLOBAL const struct lvn_gpu_step *now, lvn_long b)
{
    return b < LVN_GPU_POSITIONS ? now->position[b] : 0;
}

/* The random bits for dropout of eight elements, from column / 8 * 8 on, 16 bits each. */
LVN_FUNCTION struct lvn_four lvn_dropout_words(lvn_ulong seed, lvn_long step, lvn_uint op, lvn_ulong row,
                                               lvn_uint column)
{
    return lvn_philox(seed, column / 8, (lvn_uint)row, op ^ (lvn_uint)(row >> 32) * 0x9E3779B9u,
                      (lvn_uint)step); /* dropout uses stream 0 */
}

/* 16 random bits for dropout of element (row, column). */
LVN_FUNCTION lvn_uint lvn_dropout_bits(lvn_ulong seed, lvn_long step, lvn_uint op, lvn_ulong row, lvn_uint column)
{
    struct lvn_four r = lvn_dropout_words(seed, step, op, row, column);
    lvn_uint low = column & 2 ? r.v[1] : r.v[0], high = column & 2 ? r.v[3] : r.v[2], word = column & 4 ? high : low;
    return column % 2 ? word >> 16 : word & 0xffffu;
}

/* The factor of dropout for element (row, column) of a tensor: 0 or `scale`; 1 if dropout is off. */
LVN_FUNCTION float lvn_dropout_factor(LVN_GLOBAL const struct lvn_gpu_step *now, lvn_long row, lvn_uint column,
                                      int threshold, float scale, int op, lvn_long rows_per_sample)
{
    if (threshold == 0 || !now->training) return 1;
    lvn_ulong at = (lvn_ulong)(now->first_row * rows_per_sample + row);
    lvn_uint bits = lvn_dropout_bits(now->seed, now->step, (lvn_uint)op, at, column);
    return bits >= (lvn_uint)threshold ? scale : 0;
}

/* Number of rows of a micro-batch that are samples; the rest is padding. */
LVN_FUNCTION lvn_long lvn_now_rows(LVN_GLOBAL const struct lvn_gpu_step *now, lvn_long rows)
{
    lvn_long there = now->end_row - now->first_row;
    return !now->end_row || there > rows ? rows : there < 0 ? 0 : there;
}

#endif
#endif

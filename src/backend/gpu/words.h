/* words.h - the words that kernels for devices are written in: CUDA C++ and OpenCL C from one source.
 *
 * src/ops/NAME.k is compiled twice. By the host's compiler it is the host's half: which kernels the operation launches
 * (backend/gpu/launch.h). By the device's compiler, behind the text of this file, it is the kernels; LVN_DEVICE is
 * defined there, and LVN_CUDA where that compiler is NVRTC. Whatever the host says besides (LVN_DOUBLE: the device has
 * fp64; TYPE_x) comes as definitions in front of both.
 *
 * Every group has LVN_ITEMS items in one dimension, the grid has up to three. An operand is LVN_OPERAND(x) among a
 * kernel's parameters, a buffer and a byte offset in OpenCL, which knows no pointers of the host, and one pointer in
 * CUDA, and in OpenCL too where LVN_POINTERS is defined (a device that takes the host's). LVN_HAS(x): is it there;
 * LVN_AT(type, x): the pointer; LVN_GET(x, i) and LVN_PUT(x, i, value): element i of real numbers, fp32 or bf16 as
 * TYPE_x says, which the launch defines for each operand. An operand is not called like a function of OpenCL (step,
 * length): compilers may have macros of those names.
 *
 * Nothing is contracted: multiply-add is one rounding where fma() is written, on every device. Sums of a group are
 * trees of a fixed shape, and there are no atomics: a device gives the same bits in every run. Each word has a form for
 * devices without sub-groups, fp16, fp64 and shared virtual memory.
 *
 * All items of a group come to every barrier. No item returns before the last one, a loop with a barrier in it runs at
 * least once, and no `if` asks for what a group's sum or maximum was: PoCL 3.1 computes item 0 of such kernels wrongly
 * now and then, even where all items of the group do the same.
 *
 * Philox is that of base/random.h, number for number. */
#ifndef LVN_WORDS_H
#define LVN_WORDS_H

#ifndef LVN_DEVICE
#include "backend/gpu/launch.h"
#else

#define LVN_ITEMS 256

#ifdef LVN_CUDA
typedef long long lvn_long;
typedef unsigned long long lvn_ulong;
typedef unsigned int lvn_uint;
typedef unsigned short lvn_ushort;
typedef unsigned char lvn_uchar;
#define LVN_KERNEL(name) extern "C" __global__ void __launch_bounds__(LVN_ITEMS) name
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
#define lvn_max fmaxf
#define lvn_abs fabsf
#define lvn_rint rintf
#define lvn_sinpi sinpif
#define lvn_cospi cospif
#define LVN_DOUBLE
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
#define lvn_max fmax
#define lvn_abs fabs
#define lvn_rint rint
#define lvn_sinpi sinpi
#define lvn_cospi cospi
#endif

#define LVN_HAS(x) (x##_base != 0)
/* The number of this item among all items of a grid of one dimension. */
#define LVN_INDEX (LVN_GROUP_X * LVN_ITEMS + LVN_ITEM)

/* --- real numbers in memory --- */

typedef LVN_GLOBAL float *lvn_f32;
typedef LVN_GLOBAL lvn_ushort *lvn_bf16;

LVN_FUNCTION float lvn_get_f32(LVN_GLOBAL const float *p, lvn_long i)
{
    return p[i];
}

LVN_FUNCTION void lvn_put_f32(LVN_GLOBAL float *p, lvn_long i, float x)
{
    p[i] = x;
}

LVN_FUNCTION float lvn_get_bf16(LVN_GLOBAL const lvn_ushort *p, lvn_long i)
{
    return LVN_FLOAT_OF((lvn_uint)p[i] << 16);
}

/* To the nearest, ties to even; what is no number stays none. */
LVN_FUNCTION lvn_ushort lvn_bf16_of(float x)
{
    lvn_uint bits = LVN_BITS_OF(x);
    bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
    return nan ? (lvn_ushort)(bits >> 16 | 0x40u) : (lvn_ushort)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

LVN_FUNCTION void lvn_put_bf16(LVN_GLOBAL lvn_ushort *p, lvn_long i, float x)
{
    p[i] = lvn_bf16_of(x);
}

LVN_FUNCTION lvn_ushort lvn_round_f32(LVN_GLOBAL const float *p, lvn_long i)
{
    return lvn_bf16_of(p[i]);
}

LVN_FUNCTION lvn_ushort lvn_round_bf16(LVN_GLOBAL const lvn_ushort *p, lvn_long i)
{
    return p[i];
}

#define LVN_JOIN_(a, b) a##b
#define LVN_JOIN(a, b) LVN_JOIN_(a, b)
#define LVN_POINTER(x) ((LVN_JOIN(lvn_, TYPE_##x))LVN_AT(char, x))
#define LVN_GET(x, i) LVN_JOIN(lvn_get_, TYPE_##x)(LVN_POINTER(x), i)
/* Its bits as bf16, rounded if it is none. */
#define LVN_GET_BF16(x, i) LVN_JOIN(lvn_round_, TYPE_##x)(LVN_POINTER(x), i)
#define LVN_PUT(x, i, value) LVN_JOIN(lvn_put_, TYPE_##x)(LVN_POINTER(x), i, value)
/* A gradient: the first contribution overwrites, later ones add. */
#define LVN_GIVE(x, i, add, value) LVN_PUT(x, i, (add) ? LVN_GET(x, i) + (value) : (value))

/* --- what needs more than fp32, where the device has it: long sums, results --- */

#ifdef LVN_DOUBLE
typedef double lvn_wide;
#define LVN_WIDE(x) x
#else
typedef float lvn_wide;
#define LVN_WIDE(x) x##f
#endif

/* Element i of fp64 numbers, with whole-number arithmetic where the device has no others. */
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

/* Eight numbers of bf16 that follow one another, from element i on, a multiple of eight in memory that is aligned. */
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

/* --- sums and maxima over the items of a group: all items call, all get it --- */

#define LVN_ROOM(type, name) LVN_SHARED type name[LVN_ITEMS]

#define LVN_REDUCTION(name, type, of_two)                                                                              \
    LVN_FUNCTION type name(type x, LVN_LOCAL type *room)                                                               \
    {                                                                                                                  \
        LVN_BARRIER();                                                                                                 \
        room[LVN_ITEM] = x;                                                                                            \
        LVN_BARRIER();                                                                                                 \
        for (int width = LVN_ITEMS / 2; width >= 1; width /= 2) {                                                      \
            if (LVN_ITEM < width) {                                                                                    \
                type a = room[LVN_ITEM], b = room[LVN_ITEM + width];                                                   \
                room[LVN_ITEM] = of_two;                                                                               \
            }                                                                                                          \
            LVN_BARRIER();                                                                                             \
        }                                                                                                              \
        return room[0];                                                                                                \
    }
LVN_REDUCTION(lvn_group_sum, float, a + b)
LVN_REDUCTION(lvn_group_wide_sum, lvn_wide, a + b)
LVN_REDUCTION(lvn_group_max, float, lvn_max(a, b))

/* --- matrix units: c (16,16) += a (16,16) b (16,16), bf16 to fp32 --- */

/* A product is a team's: LVN_TEAM items, all of which call; this item's is number LVN_TILE_TEAM. Each holds eight sums
 * of a tile; number e is that of row LVN_TILE_ROW(e), column LVN_TILE_COLUMN(e). a and b lie in local memory, in rooms
 * that LVN_TILES declares, both with k running fastest: a[m * pitch + k], b[n * pitch + k]; of lvn_tile_right_turned()
 * n runs fastest: b[k * pitch + n]. Tiles begin at multiples of 8, a pitch is one, and one of 8 more than a multiple of
 * 16 lets all items read at once. A left or right operand that was taken up serves many products; where LVN_TILE_HELD
 * is defined it lies in registers, and its memory may be written over.
 *
 * Where LVN_TILE_ROWS is defined, the items of a team hand on what they have of a row of sums: this item has sums of so
 * many rows, number e is one of row LVN_TILE_ROW_OF(e) among them, and lvn_tile_row_max() and lvn_tile_row_sum() are
 * over all items that have the row. lvn_tile_left_of() makes sums, rounded, a left operand. These have barriers: all
 * items of the group call them, with LVN_TILE_ROOM floats of local memory.
 *
 * LVN_MATRIX is defined where there are units: NVIDIA's from compute capability 8.0 on (mma.m16n8k16 of PTX), and where
 * LVN_MATRIX_INTEL is the size of the sub-groups of cl_intel_subgroup_matrix_multiply_accumulate, 16 or 8. With
 * LVN_MATRIX_PLAIN it is loops, which the others are held against: that many multiply-adds from local memory are slower
 * than fp32 ones from registers, so kernels do without where there are no units. */
#define LVN_TEAM 32

#if defined(LVN_CUDA) && __CUDA_ARCH__ >= 800
#define LVN_MATRIX_NVIDIA
/* d (16,8) += a (16,16) b (16,8) */
#define LVN_MMA(d, a, b0, b1)                                                                                          \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "         \
                 "{%0,%1,%2,%3};"                                                                                      \
                 : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])                                              \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"(b0), "r"(b1))
/* Four matrices of 8 x 8 into v[0..3], the rows of number m where lanes 8 m to 8 m + 7 say; turned: transposed. */
#define LVN_LDMATRIX(v, row) LVN_LDMATRIX_(v, row, "")
#define LVN_LDMATRIX_TURNED(v, row) LVN_LDMATRIX_(v, row, ".trans")
#define LVN_LDMATRIX_(v, row, turned)                                                                                  \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" turned ".shared.b16 {%0,%1,%2,%3}, [%4];"                             \
                 : "=r"((v)[0]), "=r"((v)[1]), "=r"((v)[2]), "=r"((v)[3])                                              \
                 : "r"((lvn_uint)__cvta_generic_to_shared(row))                                                        \
                 : "memory")
#define LVN_SHUFFLE_XOR(x, mask) __shfl_xor_sync(0xffffffffu, x, mask)
#endif
#if defined(LVN_MATRIX_NVIDIA) || defined(LVN_MATRIX_INTEL) || defined(LVN_MATRIX_PLAIN)
#define LVN_MATRIX
#endif

typedef LVN_LOCAL const lvn_ushort *lvn_tile_rows;
#ifdef LVN_CUDA
#define LVN_TILES(name, count) LVN_SHARED __align__(16) lvn_ushort name[count]
#else
#define LVN_TILES(name, count) LVN_SHARED lvn_ushort name[count] __attribute__((aligned(16)))
#endif

/* Two numbers, rounded; the first one is the lower half. */
LVN_FUNCTION lvn_uint lvn_bf16_pair(float first, float second)
{
#if defined(LVN_CUDA) && __CUDA_ARCH__ >= 800
    lvn_uint r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(second), "f"(first));
    return r;
#else
    return (lvn_uint)lvn_bf16_of(first) | (lvn_uint)lvn_bf16_of(second) << 16;
#endif
}

#if defined(LVN_MATRIX_NVIDIA)
/* Lane 4 g + t of a warp has of a left operand the pairs (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), which are
 * four matrices as ldmatrix spreads them; of a right one columns g and g + 8; of sums two neighbours in row g and two
 * in row g + 8, for either half of the columns (PTX ISA, "Matrix Fragments for mma.m16n8k16"). */
#ifdef LVN_CUDA
#define LVN_TILE_KERNEL LVN_KERNEL
#else /* a double */
#define LVN_TILE_KERNEL(name) __attribute__((intel_reqd_sub_group_size(LVN_TEAM))) LVN_KERNEL(name)
#endif
#define LVN_TILE_TEAM (LVN_ITEM / LVN_TEAM)
#define LVN_TILE_G (LVN_ITEM % 32 / 4)
#define LVN_TILE_T (LVN_ITEM % 4)
#define LVN_TILE_ROW(e) (LVN_TILE_G + (e) % 4 / 2 * 8)
#define LVN_TILE_COLUMN(e) ((e) / 4 * 8 + 2 * LVN_TILE_T + (e) % 2)
#define LVN_TILE_HELD
#define LVN_TILE_ROWS 2
#define LVN_TILE_ROW_OF(e) ((e) % 4 / 2)
#define LVN_TILE_ROOM 1
struct lvn_tile {
    lvn_uint v[4];
};
#define LVN_LEFT struct lvn_tile
#define LVN_RIGHT struct lvn_tile

/* Where this lane's row begins: of matrices 0 and 1 below one another, or side by side. */
LVN_FUNCTION lvn_tile_rows lvn_tile_below(lvn_tile_rows p, int pitch)
{
    return p + (LVN_ITEM % 8 + LVN_ITEM % 16 / 8 * 8) * pitch + LVN_ITEM % 32 / 16 * 8;
}

LVN_FUNCTION lvn_tile_rows lvn_tile_beside(lvn_tile_rows p, int pitch)
{
    return p + (LVN_ITEM % 8 + LVN_ITEM % 32 / 16 * 8) * pitch + LVN_ITEM % 16 / 8 * 8;
}

LVN_FUNCTION LVN_LEFT lvn_tile_left(lvn_tile_rows a, int pitch)
{
    LVN_LEFT r;
    LVN_LDMATRIX(r.v, lvn_tile_below(a, pitch));
    return r;
}

LVN_FUNCTION LVN_RIGHT lvn_tile_right(lvn_tile_rows b, int pitch)
{
    LVN_RIGHT r;
    LVN_LDMATRIX(r.v, lvn_tile_beside(b, pitch));
    return r;
}

LVN_FUNCTION LVN_RIGHT lvn_tile_right_turned(lvn_tile_rows b, int pitch)
{
    LVN_RIGHT r;
    LVN_LDMATRIX_TURNED(r.v, lvn_tile_below(b, pitch));
    return r;
}

/* Four lanes have a row. */
LVN_FUNCTION float lvn_tile_row_max(float x, LVN_LOCAL float *room)
{
    x = lvn_max(x, LVN_SHUFFLE_XOR(x, 1));
    return lvn_max(x, LVN_SHUFFLE_XOR(x, 2));
}

LVN_FUNCTION float lvn_tile_row_sum(float x, LVN_LOCAL float *room)
{
    x += LVN_SHUFFLE_XOR(x, 1);
    return x + LVN_SHUFFLE_XOR(x, 2);
}

/* Sums lie as a left operand does. */
LVN_FUNCTION LVN_LEFT lvn_tile_left_of(const float *sum, LVN_LOCAL float *room)
{
    LVN_LEFT r;
    for (int k = 0; k < 4; k++) r.v[k] = lvn_bf16_pair(sum[2 * k], sum[2 * k + 1]);
    return r;
}

LVN_FUNCTION void lvn_tile_mad(float *sum, LVN_LEFT a, LVN_RIGHT b)
{
    LVN_MMA(sum, a.v, b.v[0], b.v[1]);
    LVN_MMA(sum + 4, a.v, b.v[2], b.v[3]);
}

#elif defined(LVN_MATRIX_INTEL)
/* A sub-group makes 8 rows, of as many columns as it has items: of a left operand item l has column l (pairs of columns
 * where there are eight items), of a right one column l, in pairs along k. */
#define LVN_TILE_KERNEL(name) __attribute__((intel_reqd_sub_group_size(LVN_MATRIX_INTEL))) LVN_KERNEL(name)
#define LVN_TILE_TEAM ((int)get_sub_group_id() * LVN_MATRIX_INTEL / LVN_TEAM)
#define LVN_TILE_LANE ((int)get_sub_group_local_id())
#if LVN_MATRIX_INTEL == 16
#define LVN_LEFT short8
#define LVN_TILE_TOP ((int)get_sub_group_id() % 2 * 8)
#define LVN_TILE_ASIDE 0
#define LVN_TILE_OF(row) ((LVN_LOCAL const short *)(row))[LVN_TILE_LANE]
#else
#define LVN_LEFT int8
#define LVN_TILE_TOP ((int)get_sub_group_id() % 4 / 2 * 8)
#define LVN_TILE_ASIDE ((int)get_sub_group_id() % 2 * 8)
#define LVN_TILE_OF(row) ((LVN_LOCAL const int *)(row))[LVN_TILE_LANE]
#endif
#define LVN_RIGHT int8
#define LVN_TILE_HELD
#define LVN_TILE_ROW(e) (LVN_TILE_TOP + (e))
#define LVN_TILE_COLUMN(e) (LVN_TILE_ASIDE + LVN_TILE_LANE)

LVN_FUNCTION LVN_LEFT lvn_tile_left(lvn_tile_rows a, int pitch)
{
    lvn_tile_rows p = a + LVN_TILE_TOP * pitch;
    return (LVN_LEFT)(LVN_TILE_OF(p), LVN_TILE_OF(p + pitch), LVN_TILE_OF(p + 2 * pitch), LVN_TILE_OF(p + 3 * pitch),
                      LVN_TILE_OF(p + 4 * pitch), LVN_TILE_OF(p + 5 * pitch), LVN_TILE_OF(p + 6 * pitch),
                      LVN_TILE_OF(p + 7 * pitch));
}

LVN_FUNCTION LVN_RIGHT lvn_tile_right(lvn_tile_rows b, int pitch)
{
    return vload8(0, (LVN_LOCAL const int *)(b + LVN_TILE_COLUMN(0) * pitch));
}

LVN_FUNCTION LVN_RIGHT lvn_tile_right_turned(lvn_tile_rows b, int pitch)
{
    lvn_tile_rows p = b + LVN_TILE_COLUMN(0);
    int pair[8];
    for (int j = 0; j < 8; j++) pair[j] = (int)((lvn_uint)p[2 * j * pitch] | (lvn_uint)p[(2 * j + 1) * pitch] << 16);
    return vload8(0, pair);
}

#if LVN_MATRIX_INTEL == 16 /* a row is a sub-group's */
#define LVN_TILE_ROWS 8
#define LVN_TILE_ROW_OF(e) (e)
#define LVN_TILE_ROOM 1
LVN_FUNCTION float lvn_tile_row_max(float x, LVN_LOCAL float *room)
{
    return sub_group_reduce_max(x);
}

LVN_FUNCTION float lvn_tile_row_sum(float x, LVN_LOCAL float *room)
{
    return sub_group_reduce_add(x);
}

LVN_FUNCTION LVN_LEFT lvn_tile_left_of(const float *sum, LVN_LOCAL float *room)
{
    short r[8];
    for (int e = 0; e < 8; e++) r[e] = (short)lvn_bf16_of(sum[e]);
    return vload8(0, r);
}
#endif

LVN_FUNCTION void lvn_tile_mad(float *sum, LVN_LEFT a, LVN_RIGHT b)
{
    vstore8(intel_sub_group_bf16_bf16_matrix_mad_k16(a, b, vload8(0, sum)), 0, sum);
}

#else
/* Two items to a row. */
#define LVN_TILE_KERNEL LVN_KERNEL
#define LVN_TILE_TEAM (LVN_ITEM / LVN_TEAM)
#define LVN_TILE_ROW(e) (LVN_ITEM % 32 / 2)
#define LVN_TILE_COLUMN(e) (LVN_ITEM % 2 * 8 + (e))
#define LVN_TILE_ROWS 1
#define LVN_TILE_ROW_OF(e) 0
#define LVN_TILE_ROOM (LVN_ITEMS * 4)
struct lvn_tile {
    lvn_tile_rows p;
    int pitch, step; /* from row to row, or column to column; along k */
};
#define LVN_LEFT struct lvn_tile
#define LVN_RIGHT struct lvn_tile

LVN_FUNCTION LVN_LEFT lvn_tile_left(lvn_tile_rows p, int pitch)
{
    LVN_LEFT r;
    r.p = p, r.pitch = pitch, r.step = 1;
    return r;
}
#define lvn_tile_right lvn_tile_left

LVN_FUNCTION LVN_RIGHT lvn_tile_right_turned(lvn_tile_rows p, int pitch)
{
    LVN_RIGHT r;
    r.p = p, r.pitch = 1, r.step = pitch;
    return r;
}

LVN_FUNCTION float lvn_tile_other(float x, LVN_LOCAL float *room)
{
    LVN_BARRIER();
    room[LVN_ITEM] = x;
    LVN_BARRIER();
    return room[LVN_ITEM ^ 1];
}

LVN_FUNCTION float lvn_tile_row_max(float x, LVN_LOCAL float *room)
{
    return lvn_max(x, lvn_tile_other(x, room));
}

LVN_FUNCTION float lvn_tile_row_sum(float x, LVN_LOCAL float *room)
{
    return x + lvn_tile_other(x, room);
}

LVN_FUNCTION LVN_LEFT lvn_tile_left_of(const float *sum, LVN_LOCAL float *room)
{
    LVN_LOCAL lvn_ushort *tile = (LVN_LOCAL lvn_ushort *)(room + LVN_TILE_TEAM * 16 * 8);
    LVN_BARRIER();
    for (int e = 0; e < 8; e++) tile[LVN_TILE_ROW(e) * 16 + LVN_TILE_COLUMN(e)] = lvn_bf16_of(sum[e]);
    LVN_BARRIER();
    return lvn_tile_left(tile, 16);
}

LVN_FUNCTION void lvn_tile_mad(float *sum, LVN_LEFT a, LVN_RIGHT b)
{
    for (int e = 0; e < 8; e++) {
        lvn_tile_rows x = a.p + LVN_TILE_ROW(e) * a.pitch, y = b.p + LVN_TILE_COLUMN(e) * b.pitch;
        for (int k = 0; k < 16; k++)
            sum[e] = lvn_fma(LVN_FLOAT_OF((lvn_uint)x[k] << 16), LVN_FLOAT_OF((lvn_uint)y[k * b.step] << 16), sum[e]);
    }
}
#endif

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

/* What changes at every step: struct lvn_gpu_step of launch.h. */
struct lvn_now {
    lvn_ulong seed;
    lvn_long step, first_row, end_row;
    float lr, grad_scale, lr_rest;
    int training;
    int position[8];
};
#define LVN_NOW(x) ((LVN_GLOBAL const struct lvn_now *)LVN_AT(char, x))

/* Where row b of a batch begins. */
LVN_FUNCTION lvn_long lvn_position(LVN_GLOBAL const struct lvn_now *now, lvn_long b)
{
    return b < 8 ? now->position[b] : 0;
}

/* The 16 bits of dropout's element (row, column). */
LVN_FUNCTION lvn_uint lvn_dropout_bits(lvn_ulong seed, lvn_long step, lvn_uint op, lvn_ulong row, lvn_uint column)
{
    struct lvn_four r = lvn_philox(seed, column / 8, (lvn_uint)row, op ^ (lvn_uint)(row >> 32) * 0x9E3779B9u,
                                   (lvn_uint)step); /* the stream of dropout is number 0 */
    lvn_uint low = column & 2 ? r.v[1] : r.v[0], high = column & 2 ? r.v[3] : r.v[2], word = column & 4 ? high : low;
    return column % 2 ? word >> 16 : word & 0xffffu;
}

/* What dropout multiplies element (row, column) of a tensor with. */
LVN_FUNCTION float lvn_dropout_factor(LVN_GLOBAL const struct lvn_now *now, lvn_long row, lvn_uint column,
                                      int threshold, float kept, int op, lvn_long rows_per_sample)
{
    if (threshold == 0 || !now->training) return 1;
    lvn_ulong at = (lvn_ulong)(now->first_row * rows_per_sample + row);
    lvn_uint bits = lvn_dropout_bits(now->seed, now->step, (lvn_uint)op, at, column);
    return bits >= (lvn_uint)threshold ? kept : 0;
}

/* How many of a micro-batch's rows are samples; those behind them fill it up. */
LVN_FUNCTION lvn_long lvn_now_rows(LVN_GLOBAL const struct lvn_now *now, lvn_long rows)
{
    lvn_long there = now->end_row - now->first_row;
    return !now->end_row || there > rows ? rows : there < 0 ? 0 : there;
}

#endif
#endif

/* matrix_gpu.h - matrix units of devices: c (16,16) += a (16,16) b (16,16), ROUNDED to fp32: where products may round
 * their factors, it says to what, bf16 or f16.
 *
 * A product is a team's: LVN_TEAM items, all of which call; this item's is number LVN_TILE_TEAM. Each holds eight sums
 * of a tile; number e is that of row LVN_TILE_ROW(e), column LVN_TILE_COLUMN(e). a and b lie in local memory, both with
 * k running fastest: a[m * pitch + k], b[n * pitch + k]; a pitch is even, and one of 8 more than a multiple of 16 lets
 * all items read at once. A left or right operand that was taken up serves many products.
 *
 * LVN_MATRIX is defined where there are units: NVIDIA's from compute capability 8.0 on (mma.m16n8k16 of PTX), and where
 * LVN_MATRIX_INTEL is the size of the sub-groups of cl_intel_subgroup_matrix_multiply_accumulate, 16 or 8. With
 * LVN_MATRIX_PLAIN it is loops, which the others are held against: that many multiply-adds from local memory are slower
 * than fp32 ones from registers, so kernels do without where there are no units. */
#ifndef LVN_MATRIX_GPU_H
#define LVN_MATRIX_GPU_H

#include "backend/gpu/words.h"
#if defined(LVN_DEVICE) && defined(ROUNDED)

#define LVN_IS_FP16_bf16 0
#define LVN_IS_FP16_f16 1

/* Its bits as ROUNDED, rounded if it is another type. */
#define LVN_GET_ROUNDED(x, i) LVN_JOIN(LVN_JOIN(lvn_, ROUNDED), LVN_JOIN(_from_, TYPE_##x))(LVN_POINTER(x), i)

#define LVN_TEAM 32

#if defined(LVN_CUDA) && __CUDA_ARCH__ >= 800
#define LVN_MATRIX_NVIDIA
#if LVN_JOIN(LVN_IS_FP16_, ROUNDED)
#define LVN_MMA_TYPES "f32.f16.f16.f32"
#else
#define LVN_MMA_TYPES "f32.bf16.bf16.f32"
#endif
/* d (16,8) += a (16,16) b (16,8) */
#define LVN_MMA(d, a, b0, b1)                                                                                          \
    asm volatile("mma.sync.aligned.m16n8k16.row.col." LVN_MMA_TYPES " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "         \
                 "{%0,%1,%2,%3};"                                                                                      \
                 : "+f"((d)[0]), "+f"((d)[1]), "+f"((d)[2]), "+f"((d)[3])                                              \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"(b0), "r"(b1))
#endif
#if defined(LVN_MATRIX_NVIDIA) || defined(LVN_MATRIX_INTEL) || defined(LVN_MATRIX_PLAIN)
#define LVN_MATRIX
#endif

typedef LVN_LOCAL const lvn_ushort *lvn_tile_rows;
#define LVN_TILE_PAIR(p) (*(LVN_LOCAL const lvn_uint *)(p)) /* two that follow one another */

#if defined(LVN_MATRIX_NVIDIA)
/* Lane 4 g + t of a warp has of a left operand the pairs (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8); of a right
 * one columns g and g + 8; of sums two neighbours in row g and two in row g + 8, for either half of the columns (PTX
 * ISA, "Matrix Fragments for mma.m16n8k16"). */
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
struct lvn_tile {
    lvn_uint v[4];
};
#define LVN_LEFT struct lvn_tile
#define LVN_RIGHT struct lvn_tile

LVN_FUNCTION LVN_LEFT lvn_tile_left(lvn_tile_rows a, int pitch)
{
    lvn_tile_rows top = a + LVN_TILE_G * pitch + 2 * LVN_TILE_T, low = top + 8 * pitch;
    LVN_LEFT r;
    r.v[0] = LVN_TILE_PAIR(top), r.v[1] = LVN_TILE_PAIR(low);
    r.v[2] = LVN_TILE_PAIR(top + 8), r.v[3] = LVN_TILE_PAIR(low + 8);
    return r;
}

LVN_FUNCTION LVN_RIGHT lvn_tile_right(lvn_tile_rows b, int pitch)
{
    lvn_tile_rows first = b + LVN_TILE_G * pitch + 2 * LVN_TILE_T, second = first + 8 * pitch;
    LVN_RIGHT r;
    r.v[0] = LVN_TILE_PAIR(first), r.v[1] = LVN_TILE_PAIR(first + 8);
    r.v[2] = LVN_TILE_PAIR(second), r.v[3] = LVN_TILE_PAIR(second + 8);
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

#if LVN_JOIN(LVN_IS_FP16_, ROUNDED)
#define LVN_TILE_MAD intel_sub_group_f16_f16_matrix_mad_k16
#else
#define LVN_TILE_MAD intel_sub_group_bf16_bf16_matrix_mad_k16
#endif
LVN_FUNCTION void lvn_tile_mad(float *sum, LVN_LEFT a, LVN_RIGHT b)
{
    vstore8(LVN_TILE_MAD(a, b, vload8(0, sum)), 0, sum);
}

#else
/* Two items to a row. */
#define LVN_TILE_KERNEL LVN_KERNEL
#define LVN_TILE_TEAM (LVN_ITEM / LVN_TEAM)
#define LVN_TILE_ROW(e) (LVN_ITEM % 32 / 2)
#define LVN_TILE_COLUMN(e) (LVN_ITEM % 2 * 8 + (e))
struct lvn_tile {
    lvn_tile_rows p;
    int pitch;
};
#define LVN_LEFT struct lvn_tile
#define LVN_RIGHT struct lvn_tile

LVN_FUNCTION LVN_LEFT lvn_tile_left(lvn_tile_rows p, int pitch)
{
    LVN_LEFT r;
    r.p = p, r.pitch = pitch;
    return r;
}
#define lvn_tile_right lvn_tile_left

LVN_FUNCTION void lvn_tile_mad(float *sum, LVN_LEFT a, LVN_RIGHT b)
{
    for (int e = 0; e < 8; e++) {
        lvn_tile_rows x = a.p + LVN_TILE_ROW(e) * a.pitch, y = b.p + LVN_TILE_COLUMN(e) * b.pitch;
        for (int k = 0; k < 16; k++)
            sum[e] = lvn_fma(LVN_JOIN(lvn_float_of_, ROUNDED)(x[k]), LVN_JOIN(lvn_float_of_, ROUNDED)(y[k]), sum[e]);
    }
}
#endif

#endif
#endif

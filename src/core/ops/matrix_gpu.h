/* matrix_gpu.h - matrix units (tensor cores) of devices, for kernels: c (16,16) += a (16,16) b (16,16), with factors of
 * type ROUNDED (bf16 or f16) and sums in fp32. Included by linear.k and attention.k.
 *
 * A warp, or the sub-groups that together have LVN_WARP_ITEMS items, computes a product; all of its items call. This
 * item has number LVN_TILE_ITEM in the group, and its warp number LVN_TILE_WARP. Each item holds eight sums of a tile;
 * sum e is that of row LVN_TILE_ROW(e), column LVN_TILE_COLUMN(e). a and b are in local memory, in arrays that
 * LVN_TILES declares, with k contiguous: a[m * pitch + k], b[n * pitch + k]; for lvn_tile_right_transposed() n is
 * contiguous: b[k * pitch + n]. Tiles begin at multiples of 8, and a pitch is a multiple of 8; a pitch of 8 more than a
 * multiple of 16 has no bank conflicts. A left or right operand, once loaded, serves many products; if
 * LVN_TILE_IN_REGISTERS is defined it is in registers, and its memory may be overwritten.
 *
 * If LVN_TILE_ROWS is defined, the items of a warp can combine their sums of a row: this item has sums of LVN_TILE_ROWS
 * rows, sum e belongs to row LVN_TILE_ROW_OF(e) of them, and lvn_tile_row_max() and lvn_tile_row_sum() reduce over all
 * items that have the row. lvn_tile_left_of() rounds sums to a left operand. These have barriers: all items of the
 * group call them, with LVN_TILE_EXCHANGE floats of local memory. If LVN_TILE_PAIRS is defined, sums 2k and 2k + 1 are
 * neighbors of a row, in columns 2m and 2m + 1, and lvn_give_two_TYPE() puts them into memory together.
 *
 * LVN_MATRIX is defined if there are units: NVIDIA's from compute capability 8.0 on (mma.m16n8k16 of PTX), or Intel's
 * (cl_intel_subgroup_matrix_multiply_accumulate; LVN_MATRIX_INTEL is the size of its sub-groups, 16 or 8). With
 * LVN_MATRIX_PLAIN it is plain loops, with which tests compare the others. Kernels do not use those where there are no
 * units: multiply-adds from local memory are slower than fp32 ones from registers. */
#ifndef LVN_MATRIX_GPU_H
#define LVN_MATRIX_GPU_H

#include "backend/gpu/kernel_language.h"
#if defined(LVN_DEVICE) && defined(ROUNDED)

#define LVN_IS_FP16_bf16 0
#define LVN_IS_FP16_f16 1

/* Bits of an operand's element as type ROUNDED, rounded if it has another type. */
#define LVN_GET_ROUNDED(x, i) LVN_JOIN(LVN_JOIN(lvn_, ROUNDED), LVN_JOIN(_from_, TYPE_##x))(LVN_POINTER(x), i)
#define LVN_ROUND(x) LVN_JOIN(LVN_JOIN(lvn_, ROUNDED), _of)(x)
#define LVN_UNROUND(bits) LVN_JOIN(lvn_float_of_, ROUNDED)(bits)

#define LVN_WARP_ITEMS 32
#define LVN_TILE_WARP (LVN_TILE_ITEM / LVN_WARP_ITEMS)
#ifdef LVN_MATRIX_INTEL
#define LVN_TILE_ITEM ((int)get_sub_group_id() * LVN_MATRIX_INTEL + (int)get_sub_group_local_id())
#else
#define LVN_TILE_ITEM LVN_ITEM
#endif

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
/* Load four matrices of 8 x 8 into v[0..3]; lanes 8 m to 8 m + 7 give the addresses of the rows of matrix m. */
#define LVN_LDMATRIX(v, row) LVN_LDMATRIX_(v, row, "")
#define LVN_LDMATRIX_TRANSPOSED(v, row) LVN_LDMATRIX_(v, row, ".trans")
#define LVN_LDMATRIX_(v, row, transposed)                                                                              \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" transposed ".shared.b16 {%0,%1,%2,%3}, [%4];"                         \
                 : "=r"((v)[0]), "=r"((v)[1]), "=r"((v)[2]), "=r"((v)[3])                                              \
                 : "r"((lvn_uint)__cvta_generic_to_shared(row))                                                        \
                 : "memory")
#define LVN_SHUFFLE_XOR(x, mask) __shfl_xor_sync(0xffffffffu, x, mask)
/* Begin to copy eight 16-bit values from global to local memory, both aligned; zeros if not `there`. After
 * LVN_COPY_WAIT() the copies that this item began are done. */
#define LVN_COPY_ASYNC(to, from, there)                                                                                \
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((lvn_uint)__cvta_generic_to_shared(to)),        \
                 "l"(from), "r"((there) ? 16 : 0)                                                                      \
                 : "memory")
#define LVN_COPY_WAIT() asm volatile("cp.async.wait_all;" ::: "memory")
#define LVN_COPIES /* declares what copies need in a kernel: nothing here */
#endif
#if defined(LVN_MATRIX_NVIDIA) || defined(LVN_MATRIX_INTEL) || defined(LVN_MATRIX_PLAIN)
#define LVN_MATRIX
#endif

#ifdef LVN_CUDA
#define LVN_TILE_KERNEL_OF(name, groups) LVN_KERNEL_OF(name, groups)
#else
#define LVN_TILE_KERNEL_OF(name, groups) LVN_TILE_KERNEL(name)
#endif

typedef LVN_LOCAL const lvn_ushort *lvn_tile_rows;
#define LVN_TILES(name, count) LVN_TILES_AT(name, count, 16)
#ifdef LVN_CUDA
#define LVN_TILES_AT(name, count, bytes)                                                                               \
    LVN_SHARED __align__(bytes)                                                                                        \
    lvn_ushort name[count]
#elif !defined(LVN_TILES_AT)
#define LVN_TILES_AT(name, count, bytes) LVN_SHARED lvn_ushort name[count] __attribute__((aligned(bytes)))
#endif

/* Two rounded values; the first one is in the low 16 bits. */
#define lvn_rounded_pair LVN_JOIN(lvn_pair_of_, ROUNDED)

/* Like LVN_GIVE(), for elements i and i + 1; i is even, and p is aligned for two of them. */
LVN_FUNCTION void lvn_give_two_f32(LVN_GLOBAL float *p, lvn_long i, bool add, float a, float b)
{
    p[i] = add ? p[i] + a : a;
    p[i + 1] = add ? p[i + 1] + b : b;
}

LVN_FUNCTION void LVN_JOIN(lvn_give_two_, ROUNDED)(LVN_GLOBAL lvn_ushort *p, lvn_long i, bool add, float a, float b)
{
    LVN_GLOBAL lvn_uint *two = (LVN_GLOBAL lvn_uint *)(p + i);
    lvn_uint before = add ? *two : 0;
    if (add) a = LVN_UNROUND((lvn_ushort)before) + a, b = LVN_UNROUND((lvn_ushort)(before >> 16)) + b;
    *two = lvn_rounded_pair(a, b);
}

#if defined(LVN_MATRIX_NVIDIA)
/* Lane 4 g + t of a warp has these pairs of a left operand: (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), which
 * are four matrices as ldmatrix distributes them; columns g and g + 8 of a right operand; two neighboring sums in row
 * g and two in row g + 8, for each half of the columns (PTX ISA, "Matrix Fragments for mma.m16n8k16"). */
#ifdef LVN_CUDA
#define LVN_TILE_KERNEL LVN_KERNEL
#else /* tests: a double of the matrix unit on OpenCL */
#define LVN_TILE_KERNEL(name) __attribute__((intel_reqd_sub_group_size(LVN_WARP_ITEMS))) LVN_KERNEL(name)
#endif
#define LVN_TILE_G (LVN_ITEM % 32 / 4)
#define LVN_TILE_T (LVN_ITEM % 4)
#define LVN_TILE_ROW(e) (LVN_TILE_G + (e) % 4 / 2 * 8)
#define LVN_TILE_COLUMN(e) ((e) / 4 * 8 + 2 * LVN_TILE_T + (e) % 2)
#define LVN_TILE_IN_REGISTERS
#define LVN_TILE_PAIRS
#define LVN_TILE_ROWS 2
#define LVN_TILE_ROW_OF(e) ((e) % 4 / 2)
#define LVN_TILE_EXCHANGE 1
struct lvn_tile {
    lvn_uint v[4];
};
#define LVN_LEFT struct lvn_tile
#define LVN_RIGHT struct lvn_tile

/* Address of this lane's row, for ldmatrix of four matrices in two by two: by columns, or by rows. */
LVN_FUNCTION lvn_tile_rows lvn_tile_by_columns(lvn_tile_rows p, int pitch)
{
    return p + (LVN_ITEM % 8 + LVN_ITEM % 16 / 8 * 8) * pitch + LVN_ITEM % 32 / 16 * 8;
}

LVN_FUNCTION lvn_tile_rows lvn_tile_by_rows(lvn_tile_rows p, int pitch)
{
    return p + (LVN_ITEM % 8 + LVN_ITEM % 32 / 16 * 8) * pitch + LVN_ITEM % 16 / 8 * 8;
}

LVN_FUNCTION LVN_LEFT lvn_tile_left(lvn_tile_rows a, int pitch)
{
    LVN_LEFT r;
    LVN_LDMATRIX(r.v, lvn_tile_by_columns(a, pitch));
    return r;
}

LVN_FUNCTION LVN_RIGHT lvn_tile_right(lvn_tile_rows b, int pitch)
{
    LVN_RIGHT r;
    LVN_LDMATRIX(r.v, lvn_tile_by_rows(b, pitch));
    return r;
}

LVN_FUNCTION LVN_RIGHT lvn_tile_right_transposed(lvn_tile_rows b, int pitch)
{
    LVN_RIGHT r;
    LVN_LDMATRIX_TRANSPOSED(r.v, lvn_tile_by_columns(b, pitch));
    return r;
}

/* Four lanes share a row. */
LVN_FUNCTION float lvn_tile_row_max(float x, LVN_LOCAL float *shared)
{
    x = lvn_max(x, LVN_SHUFFLE_XOR(x, 1));
    return lvn_max(x, LVN_SHUFFLE_XOR(x, 2));
}

LVN_FUNCTION float lvn_tile_row_sum(float x, LVN_LOCAL float *shared)
{
    x += LVN_SHUFFLE_XOR(x, 1);
    return x + LVN_SHUFFLE_XOR(x, 2);
}

/* Sums have the layout of a left operand. */
LVN_FUNCTION LVN_LEFT lvn_tile_left_of(const float *sum, LVN_LOCAL float *shared)
{
    LVN_LEFT r;
    LVN_UNROLLED
    for (int k = 0; k < 4; k++) r.v[k] = lvn_rounded_pair(sum[2 * k], sum[2 * k + 1]);
    return r;
}

LVN_FUNCTION void lvn_tile_mad(float *sum, LVN_LEFT a, LVN_RIGHT b)
{
    LVN_MMA(sum, a.v, b.v[0], b.v[1]);
    LVN_MMA(sum + 4, a.v, b.v[2], b.v[3]);
}

#elif defined(LVN_MATRIX_INTEL)
/* A sub-group computes 8 rows, with one column per item. Item l has column l of a left operand (pairs of
 * columns if there are eight items), and column l of a right operand, in pairs along k. */
#define LVN_TILE_KERNEL(name) __attribute__((intel_reqd_sub_group_size(LVN_MATRIX_INTEL))) LVN_KERNEL(name)
#define LVN_TILE_LANE ((int)get_sub_group_local_id())
#if LVN_MATRIX_INTEL == 16
#define LVN_LEFT short8
#define LVN_TILE_FIRST_ROW ((int)get_sub_group_id() % 2 * 8)
#define LVN_TILE_FIRST_COLUMN 0
#define LVN_TILE_OF(row) ((LVN_LOCAL const short *)(row))[LVN_TILE_LANE]
#else
#define LVN_LEFT int8
#define LVN_TILE_FIRST_ROW ((int)get_sub_group_id() % 4 / 2 * 8)
#define LVN_TILE_FIRST_COLUMN ((int)get_sub_group_id() % 2 * 8)
#define LVN_TILE_OF(row) ((LVN_LOCAL const int *)(row))[LVN_TILE_LANE]
#endif
#define LVN_RIGHT int8
#define LVN_TILE_IN_REGISTERS
#define LVN_TILE_ROW(e) (LVN_TILE_FIRST_ROW + (e))
#define LVN_TILE_COLUMN(e) (LVN_TILE_FIRST_COLUMN + LVN_TILE_LANE)

LVN_FUNCTION LVN_LEFT lvn_tile_left(lvn_tile_rows a, int pitch)
{
    lvn_tile_rows p = a + LVN_TILE_FIRST_ROW * pitch;
    return (LVN_LEFT)(LVN_TILE_OF(p), LVN_TILE_OF(p + pitch), LVN_TILE_OF(p + 2 * pitch), LVN_TILE_OF(p + 3 * pitch),
                      LVN_TILE_OF(p + 4 * pitch), LVN_TILE_OF(p + 5 * pitch), LVN_TILE_OF(p + 6 * pitch),
                      LVN_TILE_OF(p + 7 * pitch));
}

LVN_FUNCTION LVN_RIGHT lvn_tile_right(lvn_tile_rows b, int pitch)
{
    return vload8(0, (LVN_LOCAL const int *)(b + LVN_TILE_COLUMN(0) * pitch));
}

LVN_FUNCTION LVN_RIGHT lvn_tile_right_transposed(lvn_tile_rows b, int pitch)
{
    lvn_tile_rows p = b + LVN_TILE_COLUMN(0);
    int pair[8];
    LVN_UNROLLED
    for (int j = 0; j < 8; j++) pair[j] = (int)((lvn_uint)p[2 * j * pitch] | (lvn_uint)p[(2 * j + 1) * pitch] << 16);
    return vload8(0, pair);
}

#if LVN_MATRIX_INTEL == 16 /* a sub-group has whole rows */
#define LVN_TILE_ROWS 8
#define LVN_TILE_ROW_OF(e) (e)
#define LVN_TILE_EXCHANGE 1
LVN_FUNCTION float lvn_tile_row_max(float x, LVN_LOCAL float *shared)
{
    return sub_group_reduce_max(x);
}

LVN_FUNCTION float lvn_tile_row_sum(float x, LVN_LOCAL float *shared)
{
    return sub_group_reduce_add(x);
}

LVN_FUNCTION LVN_LEFT lvn_tile_left_of(const float *sum, LVN_LOCAL float *shared)
{
    short r[8];
    LVN_UNROLLED
    for (int e = 0; e < 8; e++) r[e] = (short)LVN_ROUND(sum[e]);
    return vload8(0, r);
}
#endif

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
/* Two items share a row. */
#define LVN_TILE_KERNEL LVN_KERNEL
#define LVN_TILE_ROW(e) (LVN_ITEM % 32 / 2)
#define LVN_TILE_COLUMN(e) (LVN_ITEM % 2 * 8 + (e))
#define LVN_TILE_ROWS 1
#define LVN_TILE_ROW_OF(e) 0
#define LVN_TILE_EXCHANGE (LVN_ITEMS * 4)
struct lvn_tile {
    lvn_tile_rows p;
    int pitch; /* from row to row, or column to column */
    int step;  /* along k */
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

LVN_FUNCTION LVN_RIGHT lvn_tile_right_transposed(lvn_tile_rows p, int pitch)
{
    LVN_RIGHT r;
    r.p = p, r.pitch = 1, r.step = pitch;
    return r;
}

LVN_FUNCTION float lvn_tile_other(float x, LVN_LOCAL float *shared)
{
    LVN_BARRIER();
    shared[LVN_ITEM] = x;
    LVN_BARRIER();
    return shared[LVN_ITEM ^ 1];
}

LVN_FUNCTION float lvn_tile_row_max(float x, LVN_LOCAL float *shared)
{
    return lvn_max(x, lvn_tile_other(x, shared));
}

LVN_FUNCTION float lvn_tile_row_sum(float x, LVN_LOCAL float *shared)
{
    return x + lvn_tile_other(x, shared);
}

LVN_FUNCTION LVN_LEFT lvn_tile_left_of(const float *sum, LVN_LOCAL float *shared)
{
    LVN_LOCAL lvn_ushort *tile = (LVN_LOCAL lvn_ushort *)(shared + LVN_TILE_WARP * 16 * 8);
    LVN_BARRIER();
    for (int e = 0; e < 8; e++) tile[LVN_TILE_ROW(e) * 16 + LVN_TILE_COLUMN(e)] = LVN_ROUND(sum[e]);
    LVN_BARRIER();
    return lvn_tile_left(tile, 16);
}

LVN_FUNCTION void lvn_tile_mad(float *sum, LVN_LEFT a, LVN_RIGHT b)
{
    for (int e = 0; e < 8; e++) {
        lvn_tile_rows x = a.p + LVN_TILE_ROW(e) * a.pitch, y = b.p + LVN_TILE_COLUMN(e) * b.pitch;
        for (int k = 0; k < 16; k++) sum[e] = lvn_fma(LVN_UNROUND(x[k]), LVN_UNROUND(y[k * b.step]), sum[e]);
    }
}
#endif

#endif
#endif

/* wgmma_gpu.h - products of four warps on the tensor cores of compute capability 9.0, for attention_tiles_gpu.h:
 * d (64,n) (+)= a (64,16) b (16,n), for n of 16, 32 and 64, by wgmma.mma_async of PTX. The tensor cores read b from
 * local memory themselves, while the warps continue. LVN_MATRIX_WGMMA is defined if the device has it and the module
 * asks for it (LVN_USE_WGMMA; the variable LEVIN_WGMMA).
 *
 * Each warp has sixteen rows of a and d, in the layout of left operands and sums of matrix_gpu.h (PTX ISA, "Register
 * Fragments for wgmma.mma_async.m64nNk16"): of columns 16 j and following, sum e is d[8 j + e].
 *
 *     LVN_PIN(d, n / 2);                       what was computed before is in registers
 *     LVN_WGMMA_FENCE();                       the tensor cores may use these
 *     LVN_WGMMA(d, n, a, b, width, by_rows, more);   any number of times; more: 0 overwrites d, 1 adds to it
 *     LVN_WGMMA_COMMIT();
 *     LVN_WGMMA_WAIT();                        all that was committed is done
 *     LVN_PIN(d, n / 2);                       what is computed from now on comes after
 *
 * All four warps execute the same calls. by_rows: row k of b is row k of the memory, and n of its channels are columns;
 * otherwise row j of the memory is column j, and sixteen of its channels are rows.
 *
 * b is in a panel: rows of `width` channels (64, 32 or 16), of which the parts of 16 bytes are exchanged within eight
 * rows, "swizzled", so that eight parts of a column are in different banks. Panels begin at multiples of 1024 bytes.
 * Element i of a panel without exchanges is at LVN_WGMMA_SWIZZLED(i, width). LVN_WGMMA_SEES_COPIES() comes between
 * LVN_COPY_WAIT() and the barrier. */
#ifndef LVN_WGMMA_GPU_H
#define LVN_WGMMA_GPU_H

#include "ops/matrix_gpu.h"
#ifdef LVN_DEVICE

#if defined(LVN_USE_WGMMA) && defined(LVN_CUDA) && defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define LVN_MATRIX_WGMMA
#endif
#ifdef LVN_MATRIX_WGMMA

/* In bytes: bits 4 and following of an address are combined with bits 7 and following. */
#define LVN_WGMMA_SWIZZLED(i, width) ((i) ^ (((i) >> 6 & ((width) / 8 - 1)) << 3))

#ifdef LVN_CUDA
#define LVN_WGMMA_ADDRESS(p) ((lvn_uint)__cvta_generic_to_shared(p))
#endif

/* How b is read (PTX ISA, "Matrix Descriptor Format"; CUTLASS names the fields in mma_sm90_desc.hpp), each in units of
 * 16 bytes: bits 0 to 13 the address; 16 to 29 the distance of panels, of which there is one; 32 to 45 that of eight
 * rows and the next eight; 62 and 63 the number of bytes that are swizzled: 128, 64 or 32. */
LVN_FUNCTION lvn_ulong lvn_wgmma_descriptor(lvn_tile_rows b, int width)
{
    lvn_ulong swizzle = width == 64 ? 1 : width == 32 ? 2 : 3;
    return (LVN_WGMMA_ADDRESS(b) & 0x3ffffu) >> 4 | (lvn_ulong)1 << 16 | (lvn_ulong)width << 32 | swizzle << 62;
}

#ifdef LVN_CUDA
#define LVN_WGMMA_FENCE() asm volatile("wgmma.fence.sync.aligned;" ::: "memory")
#define LVN_WGMMA_COMMIT() asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory")
#define LVN_WGMMA_WAIT() asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory")
#define LVN_WGMMA_SEES_COPIES() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")
/* The compiler moves no computation of or from these numbers across it. */
#define LVN_PIN(d, n)                                                                                                  \
    LVN_UNROLLED                                                                                                       \
    for (int i_ = 0; i_ < (n); i_++) asm volatile("" : "+f"((d)[i_])::"memory")
#define LVN_PIN_LEFT(a) asm volatile("" : "+r"((a).v[0]), "+r"((a).v[1]), "+r"((a).v[2]), "+r"((a).v[3])::"memory")

#define LVN_WGMMA_OUT4(d, i) "+f"((d)[i]), "+f"((d)[i + 1]), "+f"((d)[i + 2]), "+f"((d)[i + 3])
#define LVN_WGMMA_OUT8(d, i) LVN_WGMMA_OUT4(d, i), LVN_WGMMA_OUT4(d, i + 4)
#define LVN_WGMMA_OUT16(d, i) LVN_WGMMA_OUT8(d, i), LVN_WGMMA_OUT8(d, i + 8)
#define LVN_WGMMA_OUT32(d, i) LVN_WGMMA_OUT16(d, i), LVN_WGMMA_OUT16(d, i + 16)
#define LVN_WGMMA_8 "%0,%1,%2,%3,%4,%5,%6,%7"
#define LVN_WGMMA_16 LVN_WGMMA_8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define LVN_WGMMA_32 LVN_WGMMA_16 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define LVN_WGMMA_OF(n, sums, a0, a1, a2, a3, b, flag, d, a, descriptor, by_rows, more)                                \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " flag ", 0;\nwgmma.mma_async.sync.aligned.m64n" #n                 \
                 "k16." LVN_WGMMA_TYPES " {" LVN_JOIN(LVN_WGMMA_, sums) "}, {" a0 "," a1 "," a2 "," a3 "}, " b         \
                                                                        ", p, 1, 1, " by_rows ";\n}"                   \
                 : LVN_JOIN(LVN_WGMMA_OUT, sums)(d, 0)                                                                 \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(descriptor), "r"(more))
#define LVN_WGMMA_BY(n, ...)                                                                                           \
    if (n == 64)                                                                                                       \
        LVN_WGMMA_OF(64, 32, "%32", "%33", "%34", "%35", "%36", "%37", __VA_ARGS__);                                   \
    else if (n == 32)                                                                                                  \
        LVN_WGMMA_OF(32, 16, "%16", "%17", "%18", "%19", "%20", "%21", __VA_ARGS__);                                   \
    else                                                                                                               \
        LVN_WGMMA_OF(16, 8, "%8", "%9", "%10", "%11", "%12", "%13", __VA_ARGS__)
#if LVN_JOIN(LVN_IS_FP16_, ROUNDED)
#define LVN_WGMMA_TYPES "f32.f16.f16"
#else
#define LVN_WGMMA_TYPES "f32.bf16.bf16"
#endif
LVN_FUNCTION void lvn_wgmma(float *d, int columns, const lvn_uint *a, lvn_ulong descriptor, bool by_rows, int more)
{
    if (by_rows) {
        LVN_WGMMA_BY(columns, d, a, descriptor, "1", more);
    } else {
        LVN_WGMMA_BY(columns, d, a, descriptor, "0", more);
    }
}
#define LVN_WGMMA(d, n, a, b, width, by_rows, more) lvn_wgmma(d, n, a, lvn_wgmma_descriptor(b, width), by_rows, more)
#endif

#else
#define LVN_WGMMA_SEES_COPIES() (void)0
#endif
#endif
#endif

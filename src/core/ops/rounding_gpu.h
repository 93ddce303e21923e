/* rounding_gpu.h - stochastic rounding to bf16 on devices, for the kernels of the optimizers. The random bits are those
 * of rounding_cpu.h: functions of (seed, step, number of the element). */
#ifndef LVN_ROUNDING_GPU_H
#define LVN_ROUNDING_GPU_H

#include "backend/gpu/kernel_language.h"

#define ROUNDING_STREAM 5 /* LVN_STREAM_ROUNDING */
#ifdef LVN_DEVICE

enum { ROUNDED_MOMENTS, ROUNDED_PARAMETERS };

LVN_FUNCTION lvn_uint rounding_bits(LVN_GLOBAL const struct lvn_gpu_step *now, lvn_long element, int kind)
{
    lvn_ulong counter = (lvn_ulong)(element / 64 * 16 + element % 16);
    struct lvn_four r = lvn_philox(now->seed ^ ((lvn_ulong)ROUNDING_STREAM << 56), (lvn_uint)counter,
                                   (lvn_uint)(counter >> 32), (lvn_uint)kind, (lvn_uint)now->step);
    int word = (int)(element % 64 / 16);
    return word == 0 ? r.v[0] : word == 1 ? r.v[1] : word == 2 ? r.v[2] : r.v[3];
}

/* Store x in element i, rounded stochastically with the lower 16 bits of `bits`; fp32 is not rounded. NaN stays NaN:
 * without the condition CUDA's NaN, 0x7fffffff, would become -0. */
LVN_FUNCTION void rounded_put_f32(LVN_GLOBAL float *p, lvn_long i, float x, lvn_uint bits)
{
    p[i] = x;
}

LVN_FUNCTION void rounded_put_bf16(LVN_GLOBAL lvn_ushort *p, lvn_long i, float x, lvn_uint bits)
{
    lvn_uint u = LVN_BITS_OF(x);
    p[i] = (lvn_ushort)((u & 0x7fffffffu) > 0x7f800000u ? u >> 16 | 0x40u : (u + (bits & 0xffffu)) >> 16);
}

#define ROUNDED_PUT(x, i, value, bits) LVN_JOIN(rounded_put_, TYPE_##x)(LVN_POINTER(x), i, value, bits)
/* Is it bf16? (Neither parameters nor moments are fp16.) */
#define IS_f32 0
#define IS_bf16 1
#define ROUNDS(x) LVN_JOIN(IS_, TYPE_##x)

#else /* the host's half */

#include "base/random.h"
_Static_assert(ROUNDING_STREAM == LVN_STREAM_ROUNDING, "devices and CPUs round with the same random bits");

#endif
#endif

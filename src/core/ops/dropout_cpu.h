/* dropout_cpu.h - the mask of dropout for a tensor (samples,...,C), for the CPU kernels; see dropout.h for the
 * specification. */
#ifndef LVN_DROPOUT_CPU_H
#define LVN_DROPOUT_CPU_H

#include "backend/cpu/simd_random.h"
#include "graph/op.h"

struct dropout {
    struct vdropout v;
    bool on;
    uint64_t first_row; /* number of the tensor's first row in the global batch */
};

LVN_INLINE struct dropout dropout_make(const struct lvn_call *call, const struct lvn_desc *d, double p)
{
    const struct lvn_step *step = call->step;
    struct dropout o = {.on = step->training && lvn_dropout_threshold(p) > 0};
    if (!o.on) return o;
    o.v = vdropout_make(step->seed, (uint64_t)step->step, call->op_hash, p);
    o.first_row = (uint64_t)step->first_row * (uint64_t)(lvn_desc_rows(d) / d->dim[0]);
    return o;
}

/* Bit i, i < 64: element (row, column + i) is not dropped; column is a multiple of 64. */
LVN_INLINE uint64_t dropout_keep(const struct dropout *d, int64_t row, int64_t column)
{
    return vdropout_keep(&d->v, d->first_row + (uint64_t)row, (uint32_t)column);
}

#endif

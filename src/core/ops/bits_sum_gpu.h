/* bits_sum_gpu.h - code of bits_sum.k, for the optimizers on devices. */
#ifndef LVN_BITS_SUM_GPU_H
#define LVN_BITS_SUM_GPU_H

#include "backend/gpu/kernel_language.h"
#ifdef LVN_DEVICE

/* Add the items' sums; item 0 has the total afterwards. */
LVN_FUNCTION void bits_sum_add(LVN_LOCAL lvn_uint *sums)
{
    for (int width = LVN_ITEMS / 2; width >= 1; width /= 2) {
        LVN_BARRIER();
        if (LVN_ITEM < width) sums[LVN_ITEM] += sums[LVN_ITEM + width];
    }
}

#else /* the host's half */

/* Launch the kernels that add the n words of scratch at `parts` to the running sum of update.h. */
void lvn_gpu_bits_sum_update(struct lvn_gpu *g, int64_t parts, int64_t n);

#endif
#endif

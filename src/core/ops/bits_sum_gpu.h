/* bits_sum_gpu.h - the kernels of bits_sum.k, for the optimizers on devices. */
#ifndef LVN_BITS_SUM_GPU_H
#define LVN_BITS_SUM_GPU_H

#include "backend/gpu/kernel_language.h"
#ifndef LVN_DEVICE

/* Launch the kernels that update the running sum of update.h, before and after an optimizer's update. */
void lvn_gpu_bits_sum_update(struct lvn_gpu *g, bool after);

#endif
#endif

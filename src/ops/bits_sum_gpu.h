/* bits_sum_gpu.h - the kernels of bits_sum.k, for the optimizers on devices. */
#ifndef LVN_BITS_SUM_GPU_H
#define LVN_BITS_SUM_GPU_H

#include "backend/gpu/words.h"
#ifndef LVN_DEVICE

/* Launches by an optimizer's operation, before its update and after it: the running sum of update.h. */
void lvn_gpu_bits_sum_update(struct lvn_gpu *g, bool after);

#endif
#endif

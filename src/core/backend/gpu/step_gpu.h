/* step_gpu.h - declarations shared by host and device: the size of a work-group, and the part of struct lvn_step that
 * kernels read, which the host copies to the device.
 *
 * The build inserts it into the text of kernel_language.h, which defines lvn_long and lvn_ulong for devices
 * (tools/embed_kernels.cmake). */
#ifndef LVN_STEP_GPU_H
#define LVN_STEP_GPU_H

#ifndef LVN_DEVICE
#include <stdint.h>
typedef int64_t lvn_long;
typedef uint64_t lvn_ulong;
#endif

#define LVN_ITEMS 256       /* items (threads) of a work-group */
#define LVN_GPU_POSITIONS 8 /* rows of a decoding batch */

struct lvn_gpu_step {
    lvn_ulong seed;
    lvn_long step;
    lvn_long first_row; /* first sample of this micro-batch in the global batch */
    lvn_long end_row;   /* end of the samples; later rows of a micro-batch are padding */
    lvn_long unlabeled; /* steps before this one without a label */
    float lr;
    float grad_scale;
    float lr_rest; /* lr + lr_rest is the learning rate to about 48 bits */
    int training;
    int position[LVN_GPU_POSITIONS];
};

#endif

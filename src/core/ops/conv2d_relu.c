/* conv2d_relu.c - max(conv2d, 0), created by the fuse pass: it saves a pass over memory, forward and backward; see
 * conv2d.h. */
#include "ops/conv2d_plain.h"

LVN_CONV2D_KERNELS(true)

LVN_OPERATION(conv2d_relu, lvn_conv2d_shape, forward, backward, .n_in = 3, .n_in_min = 2, .n_out = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_OUT(0), .flops = lvn_conv2d_flops);

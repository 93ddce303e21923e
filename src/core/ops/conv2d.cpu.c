/* conv2d.cpu.c - convolution on CPUs; see conv2d_cpu.h. */
#include "backend/cpu/cpu_kernels.h"
#include "ops/conv2d_cpu.h"

CONV2D_CPU_OPERATION(conv2d, false);

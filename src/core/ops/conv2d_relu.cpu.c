/* conv2d_relu.cpu.c - convolution and ReLU on CPUs; see conv2d_cpu.h. */
#include "backend/cpu/cpu_kernels.h"
#include "ops/conv2d_cpu.h"

CONV2D_CPU_OPERATION(conv2d_relu, true);

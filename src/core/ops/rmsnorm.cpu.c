/* rmsnorm.cpu.c - RMS normalization on CPUs, by the code of layernorm.cpu.c; see norm_cpu.h. */
#include "backend/cpu/cpu_kernels.h"
#include "ops/norm_cpu.h"

NORM_CPU_OPERATION(rmsnorm);

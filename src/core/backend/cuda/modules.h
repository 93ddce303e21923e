/* modules.h - kernel sources become modules on a device: compiled in parallel or loaded from the kernel cache, once per
 * device. cuda.c calls it when a program is bound. */
#ifndef LVN_CUDA_MODULES_H
#define LVN_CUDA_MODULES_H

#include "backend/cuda/cuda_device.h"
#include "backend/gpu/gpu_program.h"

/* Compile options of every module, besides the architecture; NULL-terminated. */
extern const char *const lvn_cuda_compile_options[];
/* The whole source of a module, in the arena; NULL: out of memory. */
const char *lvn_cuda_module_source(struct lvn_arena *a, const struct lvn_gpu_module *m);

/* Set list[k].backend_data to a struct lvn_cuda_module, owned by the device until it is closed. */
enum lvn_status lvn_cuda_modules(struct lvn_cuda_device *d, struct lvn_gpu_module *list, int n) LVN_CHECKED;
void lvn_cuda_modules_free(struct lvn_cuda_device *d);

#endif

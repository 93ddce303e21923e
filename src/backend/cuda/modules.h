/* modules.h - kernel texts become modules on a device: compiled in parallel, or loaded from the cache of kernels,
 * once per device. cuda.c calls it when a program is bound. */
#ifndef LVN_CUDA_MODULES_H
#define LVN_CUDA_MODULES_H

#include "backend/cuda/cuda_device.h"
#include "backend/gpu/gpu_program.h"

/* Compile options of every text, besides the architecture; ends with NULL. */
extern const char *const lvn_cuda_compile_options[];
/* The whole text of a module, in the arena; NULL: out of memory. */
const char *lvn_cuda_module_text(struct lvn_arena *a, const struct lvn_gpu_module *m);

/* Set list[k].backend_data to a struct lvn_cuda_module, which the device owns until it is closed. */
enum lvn_status lvn_cuda_modules(struct lvn_cuda_device *d, struct lvn_gpu_module *list, int n) LVN_CHECKED;
void lvn_cuda_modules_free(struct lvn_cuda_device *d);

#endif

/* modules.h - texts of kernels become modules on a device: compiled side by side where nobody did it before, from the
 * cache of kernels where somebody did, once a device. */
#ifndef LVN_CUDA_MODULES_H
#define LVN_CUDA_MODULES_H

#include "backend/cuda/cuda_device.h"
#include "backend/gpu/gpu_program.h"

/* What each text is compiled with, besides the architecture; NULL ends it. */
extern const char *const lvn_cuda_compile_options[];
/* The whole text of a module, in the arena; NULL: memory. */
const char *lvn_cuda_module_text(struct lvn_arena *a, const struct lvn_gpu_module *m);

/* list[k].own becomes a struct lvn_cuda_module, which the device keeps until it is closed. */
enum lvn_status lvn_cuda_modules(struct lvn_cuda_device *d, struct lvn_gpu_module *list, int n) LVN_CHECKED;
void lvn_cuda_modules_free(struct lvn_cuda_device *d);

#endif

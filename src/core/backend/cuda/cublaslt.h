/* cublaslt.h - matrix multiplication by cuBLASLt, opened at run time: the struct lvn_gpu_matmul_library of
 * backend/gpu/kernel_launch.c.
 *
 * The algorithm for a shape, types and alignment is chosen once per device, among algorithms that sum along K in one
 * piece or add partial sums in a fixed order. It is the first answer of the library's heuristics, so that a device
 * gives the same bits in every run and on every rank, as long as the library is the same.
 *
 * A training that is not deterministic chooses among more answers by measuring, once per machine: the choice is kept in
 * the cache of kernels (backend/gpu/kernel_cache.h). Multiplications of fp32 operands in fp32 are not measured. */
#ifndef LVN_CUDA_CUBLASLT_H
#define LVN_CUDA_CUBLASLT_H

#include "backend/cuda/cuda_device.h"
#include "backend/gpu/gpu_program.h"

/* Open the library: set d->products and append its name to d->base.note. If none is compatible with the driver,
 * d->products is NULL and the note gives the reason. */
enum lvn_status lvn_cuda_products_open(struct lvn_cuda_device *d, const struct lvn_device_options *o) LVN_CHECKED;
void lvn_cuda_products_close(struct lvn_cuda_device *d);
/* NULL: the device has none. */
const struct lvn_gpu_matmul_library *lvn_cuda_products_library(const struct lvn_device *d);
/* For plans without a device: a library that accepts everything and needs the maximum scratch. */
extern const struct lvn_gpu_matmul_library lvn_cuda_products_planned;
/* Prepare a launch of a matrix multiplication whose memory is bound: set l->backend_data. */
enum lvn_status lvn_cuda_product_prepare(const struct lvn_gpu_program *p, struct lvn_gpu_launch *l) LVN_CHECKED;
enum lvn_status lvn_cuda_product_launch(const struct lvn_cuda_device *d, const struct lvn_gpu_launch *l) LVN_CHECKED;

extern const struct lvn_tuning_ops lvn_cuda_tuning_ops;

#endif

/* products.h - matrix products by cuBLASLt, opened at run time: what backend/gpu asks a device's library for.
 *
 * What a product of some shape, types and alignment is made with is chosen once a device, by the library's heuristics
 * and never by timing, among those algorithms that sum along K in one piece or add the pieces in one order. So a device
 * gives the same bits in every run and for every rank, as long as the library is the same. */
#ifndef LVN_CUDA_PRODUCTS_H
#define LVN_CUDA_PRODUCTS_H

#include "backend/cuda/cuda_device.h"
#include "backend/gpu/gpu_program.h"

/* The device's library of products, into d->products, and what it is into d->base.note; NULL where there is none that
 * fits the driver: the note says why. tf32: operands in fp32 may be rounded to TF32. */
enum lvn_status lvn_cuda_products_open(struct lvn_cuda_device *d, bool tf32) LVN_CHECKED;
void lvn_cuda_products_close(struct lvn_cuda_device *d);
/* NULL: there is none. */
const struct lvn_gpu_library *lvn_cuda_products_library(const struct lvn_device *d);
/* As if it were here, took every product, and wanted as much scratch as it ever may: for plans without a device. */
extern const struct lvn_gpu_library lvn_cuda_products_planned;
/* Makes l->own of a launch that is a product and has its memory. */
enum lvn_status lvn_cuda_product_prepare(const struct lvn_gpu_program *p, struct lvn_gpu_launch *l) LVN_CHECKED;
enum lvn_status lvn_cuda_product_launch(const struct lvn_cuda_device *d, const struct lvn_gpu_launch *l) LVN_CHECKED;

#endif

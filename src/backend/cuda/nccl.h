/* nccl.h - collectives by NCCL, opened at run time: sums and gathers of gradients from device to device.
 *
 * A group is one communicator over all ranks, with a stream of its own that runs concurrently with `work`. A
 * collective waits there for what was computed before it; the next `wait` of the program makes `work` wait for all
 * collectives started so far. Both are events, which a captured graph keeps, so a step needs no processor. Parts of
 * unequal length (zero1) are one reduction or broadcast per rank, in an NCCL group that becomes one launch.
 *
 * While the processor waits for the device it polls NCCL's asynchronous errors. After one, or when a rank is lost,
 * the communicator is aborted: pending collectives end, their results are invalid, and no later call succeeds.
 *
 * Source: NCCL's user guide and nccl.h (docs.nvidia.com/deeplearning/nccl, github.com/NVIDIA/nccl): names, enums and
 * order of arguments are those of 2.13 and later; it works within graphs since 2.9. */
#ifndef LVN_CUDA_NCCL_H
#define LVN_CUDA_NCCL_H

#include "backend/cuda/cuda_device.h"
#include "backend/gpu/gpu_program.h"

extern const struct lvn_group_ops lvn_cuda_group_ops;

/* Launch a collective of the program, or the wait for one. */
enum lvn_status lvn_cuda_group_launch(struct lvn_gpu_program *p, const struct lvn_instr *i,
                                      const struct lvn_collectives *collectives) LVN_CHECKED;
/* Make `work` wait for all collectives that were started. */
enum lvn_status lvn_cuda_group_stream_wait(struct lvn_cuda_device *d) LVN_CHECKED;
/* Wait for the device, collectives too. COMM: one of them failed. */
enum lvn_status lvn_cuda_group_wait(struct lvn_cuda_device *d) LVN_CHECKED;
void lvn_cuda_group_free(struct lvn_cuda_device *d); /* does nothing where there is no group */

#endif

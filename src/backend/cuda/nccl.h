/* nccl.h - NVIDIA's NCCL, opened at run time: sums and gathers of gradients from device to device.
 *
 * A group is one communicator over all ranks, with a stream of its own beside the one that computes. A collective waits
 * there for what was computed before it, and the next wait of the program makes the computing stream wait for all that
 * was started; both are events, which a captured graph keeps, so a step needs no processor. Parts that differ in length
 * (zero1) are one sum or one broadcast a rank, in a group that NCCL makes one launch of.
 *
 * While the processor waits for the device it asks NCCL for errors of its own threads. After one, or when a rank is
 * lost, the communicator is given up: what is under way ends, its numbers are worthless, and no later call succeeds.
 *
 * Source: NCCL's user guide and nccl.h (docs.nvidia.com/deeplearning/nccl, github.com/NVIDIA/nccl): names, enums and
 * order of arguments are those of 2.13 and later; within graphs it works since 2.9. */
#ifndef LVN_CUDA_NCCL_H
#define LVN_CUDA_NCCL_H

#include "backend/cuda/cuda_device.h"
#include "backend/gpu/gpu_program.h"

extern const struct lvn_group_ops lvn_cuda_group_ops;

/* A collective of the program, or the wait for one, asked of the device. */
enum lvn_status lvn_cuda_group_do(struct lvn_gpu_program *p, const struct lvn_instr *i,
                                  const struct lvn_collectives *with) LVN_CHECKED;
/* What the device computes from now on waits for all collectives that were started. */
enum lvn_status lvn_cuda_group_meet(struct lvn_cuda_device *d) LVN_CHECKED;
/* Until the device has done what was asked for, collectives too. COMM: one of them failed. */
enum lvn_status lvn_cuda_group_wait(struct lvn_cuda_device *d) LVN_CHECKED;
void lvn_cuda_group_free(struct lvn_cuda_device *d); /* where there is none, nothing */

#endif

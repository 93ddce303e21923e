/* captured_run.h - a run of a program that was captured as CUDA graphs, with the actions of the host between them.
 * cuda.c calls it.
 *
 * A bound program has one captured run for each kind of run (number of micro-batches, with or without the update,
 * hooks, other ranks). The first run of its kind is captured without executing anything, and then replayed for this and
 * every later run; only a program's first run with collectives between devices is not captured (cuda.c). If there are
 * too many launches, or LEVIN_CUDA_GRAPHS is off, each run launches them one by one, with the same bits. Values that
 * change every step are in pinned memory, one struct per micro-batch, from which they are copied to the device.
 *
 * Operands are part of a captured launch. One or two micro-batches are captured as they are; more are captured in parts
 * (the first micro-batch, a further one for each gradient buffer, the last one, the update), which are launched for all
 * micro-batches: inputs and sums of all but the first are copied into and from one place. */
#ifndef LVN_CUDA_CAPTURED_RUN_H
#define LVN_CUDA_CAPTURED_RUN_H

#include "backend/cuda/cuda_device.h"
#include "backend/gpu/gpu_program.h"

/* Runs of more launches are not captured; tests set it lower. */
extern int64_t lvn_cuda_max_captured;
/* Is this run captured? */
bool lvn_cuda_captures(const struct lvn_gpu_program *p, const struct lvn_execution *execution);
/* *ran is false: it cannot be captured, and nothing was run. */
enum lvn_status lvn_cuda_run_captured(struct lvn_gpu_program *p, const struct lvn_execution *execution,
                                      bool *ran) LVN_CHECKED;
void lvn_cuda_captured_runs_free(struct lvn_gpu_program *p);

#endif

/* script.h - a captured run: the launches as CUDA graphs, and the actions of the processor between them. cuda.c
 * calls it.
 *
 * A bound program has one script for each kind of run (how many micro-batches, with or without the update, hooks,
 * other ranks). It is recorded at the first run of its kind, without executing anything, and then replayed for this
 * and every later run. It contains the launches of every micro-batch, since operands are part of them. Where there
 * are too many, or LEVIN_CUDA_GRAPHS is off, the run is launched one by one each time, with the same bits. Values
 * that change every step lie in pinned memory, one struct per micro-batch, from which the graph copies. */
#ifndef LVN_CUDA_SCRIPT_H
#define LVN_CUDA_SCRIPT_H

#include "backend/cuda/cuda_device.h"
#include "backend/gpu/gpu_program.h"

/* Runs of more launches are not captured; tests set it lower. */
extern int64_t lvn_cuda_max_captured;
/* Is this run captured? */
bool lvn_cuda_script_fits(const struct lvn_gpu_program *p, const struct lvn_execution *execution);
enum lvn_status lvn_cuda_script_run(struct lvn_gpu_program *p, const struct lvn_execution *execution) LVN_CHECKED;
void lvn_cuda_scripts_free(struct lvn_gpu_program *p);

#endif

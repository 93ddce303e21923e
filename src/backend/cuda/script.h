/* script.h - a run that was captured: what is launched, as graphs, and what the processor does between them.
 *
 * A bound program has one script for each way that it is run (how many micro-batches, with or without the update,
 * hooks, other ranks). It is recorded at the first run of that kind, which takes the place of running it, and replayed
 * at every run. It has the launches of every micro-batch, since operands are part of them: where these are very many,
 * or LEVIN_CUDA_GRAPHS is off, the run is walked through each time instead, and the bits are the same. What changes
 * every step lies in pinned memory, one struct a micro-batch, from which the graph copies.
 */
#ifndef LVN_CUDA_SCRIPT_H
#define LVN_CUDA_SCRIPT_H

#include "backend/cuda/cuda_device.h"
#include "backend/gpu/gpu_program.h"

/* Launches of a run that is still captured; tests take less. */
extern int64_t lvn_cuda_max_captured;
/* Is this run captured? Else it is walked through. */
bool lvn_cuda_script_fits(const struct lvn_gpu_program *p, const struct lvn_execution *how);
enum lvn_status lvn_cuda_script_run(struct lvn_gpu_program *p, const struct lvn_execution *how) LVN_CHECKED;
void lvn_cuda_scripts_free(struct lvn_gpu_program *p);

#endif

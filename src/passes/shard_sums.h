/* shard_sums.h - the running sums that the pass shard_sums has a training program keep, for engine/parameter_sums.h.
 * Left out: the pass itself (pass.h). */
#ifndef LVN_SHARD_SUMS_H
#define LVN_SHARD_SUMS_H

#include "passes/program.h"

/* A program that sums the bits of what a training program keeps running sums of (shard_sums.c), as it lies in memory:
 * *sums: I32 (training->n_shard_sums) in the arena, kept. An instruction has block and name of the first parameter that
 * it sums. graph: an empty one over the parameters. */
enum lvn_status lvn_program_new_shard_sums(struct lvn_program **out, struct lvn_graph *graph,
                                           const struct lvn_program *training, const struct lvn_sharding *sharding,
                                           struct lvn_device *device, struct lvn_operand *sums) LVN_CHECKED;
/* Elements of the buffer SUMS: n_shard_sums sums of shards; then for each block the sum of what was gathered, and then
 * for each the sum of this rank's part of it. */
int64_t lvn_program_sums_count(const struct lvn_program *training);

#endif

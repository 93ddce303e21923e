/* shard_checksums.h - the running sums that the pass shard_checksums adds to a training program, for
 * engine/parameter_sums.h. */
#ifndef LVN_SHARD_CHECKSUMS_H
#define LVN_SHARD_CHECKSUMS_H

#include "passes/program.h"

/* A program that sums the bits in memory for which a training program maintains running sums (shard_checksums.c).
 * *sums: I32 (training->n_shard_checksums) in the arena, kept. An instruction has block and name of the first parameter
 * that it sums. graph: a graph over the parameters without nodes. */
enum lvn_status lvn_program_new_shard_checksums(struct lvn_program **out, struct levin_graph *graph,
                                                const struct lvn_program *training, const struct lvn_sharding *sharding,
                                                struct lvn_device *device, struct lvn_operand *sums) LVN_CHECKED;
/* Number of elements of the buffer SUMS: n_shard_checksums sums of shards; then for each block the sum of gathered
 * parameters; then for each block the sum of this rank's part of them. */
int64_t lvn_program_sums_count(const struct lvn_program *training);

#endif

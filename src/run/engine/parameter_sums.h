/* parameter_sums.h - sums of a model state's parameters and moments, computed on the device by separate programs:
 * checksums of replicas, which ranks compare, and sums of shards, which are compared with the running sums maintained
 * by updates (passes/shard_checksums.c).
 *
 * consistency.h makes the comparisons. Trainings with several ranks plan these programs together with their sessions,
 * so their part of the arena is counted; the model state owns them. All functions that run one use the arena. */
#ifndef LVN_PARAMETER_SUMS_H
#define LVN_PARAMETER_SUMS_H

#include "engine/model_state.h"

/* Plan the programs of n->sums; lvn_model_state_allocate() binds them. training: the program of a step. */
enum lvn_status lvn_parameter_sums_new(struct lvn_model_state *n, const struct lvn_program *training,
                                       bool replicas) LVN_CHECKED;
void lvn_parameter_sums_free(struct lvn_parameter_sums *s); /* does nothing if s is NULL */
/* Bytes of the programs, with the calls to which they are bound, and of their results. */
int64_t lvn_parameter_sums_bytes(const struct lvn_parameter_sums *s);
/* For lvn_model_state_allocate(). */
enum lvn_status lvn_parameter_sums_bind(struct lvn_model_state *n) LVN_CHECKED;

/* Do ranks have replicas of parameters? */
bool lvn_parameter_sums_of_replicas(const struct lvn_model_state *n);
/* sum[params->n]: a checksum of each parameter, in the order of declaration. For the certainty of detecting a change
 * see ops/parameter_checksum.c. */
enum lvn_status lvn_parameter_sums_run(const struct lvn_model_state *n, uint64_t *sum) LVN_CHECKED;

/* Does this rank have shards? */
bool lvn_parameter_sums_of_shards(const struct lvn_model_state *n);
/* Initialize the running sums of shards from the memory, after it was written from outside. */
enum lvn_status lvn_parameter_sums_start(const struct lvn_model_state *n) LVN_CHECKED;
/* *changed: NULL, or the instruction that sums the first range of this rank's shards whose bits differ from those that
 * updates wrote; its name is that of a parameter. gathered [2 params->n_blocks]: running sums, for each block that of
 * its gathered copies, then for each block that of this rank's part of them. */
enum lvn_status lvn_parameter_sums_compare(const struct lvn_model_state *n, const struct lvn_instr **changed,
                                           uint32_t *gathered) LVN_CHECKED;

#endif

/* pass.h - the passes, in their order. A pass is one function in a file of its name (differentiate.c:
 * lvn_pass_differentiate(); data_parallel has more files) with its line here; it rewrites a program. lvn_program_new()
 * (program.c) calls them all, tests call single ones.
 *
 * All return MEMORY when out of memory, and the program must then be freed. Other errors are named below. Passes build
 * with the functions of program.h and query the device with device_query.h. */
#ifndef LVN_PASS_H
#define LVN_PASS_H

#include "passes/program.h"

enum lvn_status lvn_pass_prune(struct lvn_program *p) LVN_CHECKED;
enum lvn_status lvn_pass_fuse(struct lvn_program *p) LVN_CHECKED;
enum lvn_status lvn_pass_fuse_chains(struct lvn_program *p) LVN_CHECKED;
/* UNSUPPORTED: the type of an input is not the graph's real type; or the real type is not fp32, and `precision` is not
 * TRUE. */
enum lvn_status lvn_pass_mixed_precision(struct lvn_program *p, enum lvn_precision precision,
                                         const struct lvn_device *device) LVN_CHECKED;
/* UNSUPPORTED: an operation on the way to a trainable parameter has no gradient. */
enum lvn_status lvn_pass_differentiate(struct lvn_program *p) LVN_CHECKED;
/* For all modes but BLOCKS. device: AUTO depends on its memory; NULL: a host. */
enum lvn_status lvn_pass_recompute(struct lvn_program *p, enum lvn_recompute mode,
                                   const struct lvn_device *device) LVN_CHECKED;
enum lvn_status lvn_pass_blocks(struct lvn_program *p) LVN_CHECKED;
/* tree: NULL: all micro-batches add to one gradient. */
enum lvn_status lvn_pass_gradient_accumulation(struct lvn_program *p, const struct lvn_tree_leaves *tree) LVN_CHECKED;
/* Append the norm and the optimizer. side_by_side: order the instructions of several matrices so that threads can
 * compute the matrices concurrently. ARG: the optimizer works on matrices, and the model trains none in its blocks. */
enum lvn_status lvn_pass_update(struct lvn_program *p, const struct lvn_optimizer *o, bool side_by_side) LVN_CHECKED;
/* device: determines which parameters are rounded if s->round is set. UNSUPPORTED: it has no kernel for an instruction.
 */
enum lvn_status lvn_pass_data_parallel(struct lvn_program *p, const struct lvn_sharding *s,
                                       const struct lvn_device *device) LVN_CHECKED;
enum lvn_status lvn_pass_shard_checksums(struct lvn_program *p, const struct lvn_sharding *s) LVN_CHECKED;
enum lvn_status lvn_pass_loss_scaling(struct lvn_program *p, const struct lvn_optimizer *o) LVN_CHECKED;
/* UNSUPPORTED: the device has no kernel for an instruction. */
enum lvn_status lvn_pass_round_parameters(struct lvn_program *p, const struct lvn_device *device) LVN_CHECKED;
/* Bytes of the copies that this pass would make. rounds: for each instruction, lvn_instr.rounds of its kernel. MEMORY.
 */
enum lvn_status lvn_program_rounded_bytes(const struct lvn_program *p, const uint32_t *rounds,
                                          int64_t *bytes) LVN_CHECKED;
/* SHAPE, UNSUPPORTED, INTERNAL: an instruction does not fit its operation. */
enum lvn_status lvn_pass_verify(struct lvn_program *p) LVN_CHECKED;
/* The first n_sums outputs go to RESULT. UNSUPPORTED: the device has no kernel for an instruction. */
enum lvn_status lvn_pass_memory_planning(struct lvn_program *p, int n_sums, struct lvn_device *device) LVN_CHECKED;
/* Run the last two passes on a program whose instructions are complete, and set *out = p. If so_far is a failure or a
 * pass fails, free p. */
enum lvn_status lvn_program_finish(struct lvn_program **out, struct lvn_program *p, int n_sums,
                                   struct lvn_device *device, enum lvn_status so_far) LVN_CHECKED;

#endif

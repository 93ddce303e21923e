/* data_parallel.h - state and functions shared by the parts of the pass data_parallel (data_parallel.c and
 * data_parallel_PART.c): the program being rebuilt and functions that append to it. Out-of-memory is reported through
 * pass->failed. */
#ifndef LVN_DATA_PARALLEL_H
#define LVN_DATA_PARALLEL_H

#include "passes/pass.h"
#include "passes/shard.h"

/* A collective that was started. */
struct collective {
    int handle;
    /* One int32 in the arena, written by the start and read by the wait, which fixes their order; its value is unused.
     */
    struct lvn_operand order;
    struct lvn_operand result; /* the buffer of the collective, in use until the wait */
};

struct bucket;
struct block_gradients;

/* The matrices of a block, from their gradients to their steps (data_parallel_matrices.c). */
struct matrix_block {
    int block; /* lvn_param.block */
    const struct lvn_instr *first,
        *last;                     /* instructions that set the directions of its matrices; first NULL: no block */
    struct lvn_operand directions; /* of the whole block; then the steps */
    struct collective collective;
};
enum { LVN_MATRIX_STAGES = 3 }; /* directions are set; gathered; matrices are computed and steps are being sent */

struct dp_pass {
    struct lvn_program *p;
    const struct lvn_sharding *s;
    const struct lvn_device *device; /* NULL: planned for no device */
    struct bucket *bucket;
    int n_buckets;
    int last_block; /* lvn_block_index() of the last result of lvn_dp_block_of() */
    struct matrix_block matrices[LVN_MATRIX_STAGES];
    double *flops;                    /* [owners] FLOPs for matrices assigned to each rank so far */
    struct block_gradients *blocks;   /* zero2: [n_blocks] */
    struct block_gradients *reducing; /* zero2: the block whose reduction is running; NULL: none */
    bool failed;                      /* out of memory */
};

/* True if the ranks form several groups, each with a copy of the model (trainer.fsdp_size). */
bool lvn_dp_has_groups(const struct dp_pass *pass);
/* True if `what` is sharded. */
bool lvn_dp_has(const struct dp_pass *pass, enum lvn_shards what);

/* Append an instruction; the pointer is valid until the next call. */
struct lvn_instr *lvn_dp_append(struct dp_pass *pass, enum lvn_op_id id, enum lvn_when when, const char *name);
/* A value: elements [offset, offset + count) of a buffer. */
struct lvn_operand lvn_dp_range(struct dp_pass *pass, const char *name, enum lvn_buffer buffer, enum lvn_dtype dtype,
                                int64_t offset, int64_t count);
/* Append the start of a collective on `result`, in place, among the ranks that shard a copy of the model; and its wait.
 */
struct collective lvn_dp_start(struct dp_pass *pass, enum lvn_op_id id, enum lvn_when when, struct lvn_operand in,
                               struct lvn_operand result, const char *name);
void lvn_dp_wait(struct dp_pass *pass, const struct collective *s, enum lvn_when when, const char *name);
/* If gradients are sent in bf16, append their conversion to bf16 and return the copy; otherwise return `gradients`. The
 * second function appends the conversion back into `gradients`, of the same elements. */
struct lvn_operand lvn_dp_to_wire(struct dp_pass *pass, struct lvn_operand gradients, enum lvn_when when,
                                  const char *name);
void lvn_dp_from_wire(struct dp_pass *pass, struct lvn_operand wire, struct lvn_operand gradients, enum lvn_when when,
                      const char *name);
/* The most recently appended instruction. */
struct lvn_instr *lvn_dp_latest(const struct dp_pass *pass);
/* The next block after `block` that has trainable parameters, as in lvn_param.block; begin with LVN_DP_NO_BLOCK.
 * False: no more blocks. */
enum { LVN_DP_NO_BLOCK = LVN_BLOCK_OUTSIDE - 1 };
bool lvn_dp_next_block(const struct dp_pass *pass, int *block);
/* The block that contains a trainable element; successive calls must pass ascending elements. */
int lvn_dp_block_of(struct dp_pass *pass, int64_t element);
/* The range of a block's trainable parameters in the flat buffers, and the part of it that this rank owns. */
const struct lvn_param_block *lvn_dp_block(const struct dp_pass *pass, int block);
struct lvn_shard lvn_dp_shard(const struct dp_pass *pass, int block);
/* The part of any range that this rank owns, and its place in a buffer of shards. */
struct lvn_shard lvn_dp_part(const struct dp_pass *pass, const struct lvn_param_block *range);
int64_t lvn_dp_part_place(const struct dp_pass *pass, const struct lvn_param_block *range, int64_t element);
/* Place of element `element` of the flat parameters, owned by this rank: in a buffer of shards if `what` (enum
 * lvn_shards) is sharded, otherwise in a whole buffer. */
int64_t lvn_dp_place(const struct dp_pass *pass, enum lvn_shards what, int block, int64_t element);
/* Elements [first, first + count) of the flat buffers, as a view of the value `all` of their block. */
struct lvn_operand lvn_dp_view(const struct lvn_param_block *block, struct lvn_operand all, int64_t first,
                               int64_t count);
/* Return a list: number of a parameter -> index of the last instruction that writes its gradient; -1: none. NULL: out
 * of memory. */
int *lvn_dp_last_writers(struct lvn_arena *a, const struct lvn_program *p);
/* Allocate one struct collective per block. NULL: out of memory. */
struct collective *lvn_dp_collectives(struct dp_pass *pass);

/* data_parallel_buckets.c: whole gradients (ddp, zero1) */
/* Divide the gradients into buckets. */
enum lvn_status lvn_dp_find_buckets(struct dp_pass *pass) LVN_CHECKED;
/* Append the n instructions of `old`, followed by sums in buckets, or in tree order. */
void lvn_dp_append_sums(struct dp_pass *pass, const struct lvn_instr *old, int n);

/* data_parallel_gradients.c: the same with sharded gradients (zero2). */
enum lvn_status lvn_dp_append_gradients(struct dp_pass *pass, struct lvn_instr *old, int n) LVN_CHECKED;

/* data_parallel_parameters.c: fsdp. Rebuild the program so that the parameters of a block are gathered before use. */
enum lvn_status lvn_dp_gather_parameters(struct dp_pass *pass, const struct lvn_device *device) LVN_CHECKED;

/* data_parallel_update.c */
/* Append an instruction of `old`; an update is restricted to this rank's shard. */
void lvn_dp_append_one(struct dp_pass *pass, const struct lvn_instr *i);
/* Append this rank's part of an update, if it has any; its operand in the arena becomes a view of `directions`. */
void lvn_dp_append_part(struct dp_pass *pass, struct lvn_instr i, int block, struct lvn_operand directions);
/* Append the gathers of the updated parameters. */
void lvn_dp_append_gathers(struct dp_pass *pass);

/* data_parallel_matrices.c */
/* Handle an instruction of the update that belongs to a matrix of a block; parts of it are appended later. False: it
 * belongs to no matrix. */
bool lvn_dp_append_matrix(struct dp_pass *pass, const struct lvn_instr *i);
/* Append the remaining work on matrices, after the last update. */
void lvn_dp_end_matrices(struct dp_pass *pass);

#endif

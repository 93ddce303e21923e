/* sharder.h - state and functions shared by the parts of the pass sharder (sharder.c, sharder_buckets.c,
 * sharder_gradients.c, sharder_parameters.c, sharder_update.c, sharder_matrices.c): the program being rebuilt and
 * functions that append to it. Out-of-memory is reported through sharder.failed. */
#ifndef LVN_SHARDER_H
#define LVN_SHARDER_H

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

/* The matrices of a block, from their gradients to their steps (sharder_matrices.c). */
struct matrix_block {
    int block; /* lvn_param.block */
    const struct lvn_instr *first,
        *last;                     /* instructions that set the directions of its matrices; first NULL: no block */
    struct lvn_operand directions; /* of the whole block; then the steps */
    struct collective collective;
};
enum { LVN_MATRIX_STAGES = 3 }; /* directions are set; gathered; matrices are computed and steps are being sent */

struct sharder {
    struct lvn_program *p;
    const struct lvn_sharding *s;
    const struct lvn_device *device; /* NULL: planned for no device */
    struct bucket *bucket;
    int n_buckets;
    int last_block; /* lvn_block_index() of the last result of lvn_sharder_block_of() */
    struct matrix_block matrices[LVN_MATRIX_STAGES];
    double *flops;                    /* [owners] FLOPs for matrices assigned to each rank so far */
    struct block_gradients *blocks;   /* zero2: [n_blocks] */
    struct block_gradients *reducing; /* zero2: the block whose reduction is running; NULL: none */
    bool failed;                      /* out of memory */
};

/* True if the ranks form several groups, each with a copy of the model (trainer.fsdp_size). */
bool lvn_sharder_has_groups(const struct sharder *sharder);
/* True if `what` is sharded. */
bool lvn_sharder_has(const struct sharder *sharder, enum lvn_shards what);

/* Append an instruction; the pointer is valid until the next call. */
struct lvn_instr *lvn_sharder_append(struct sharder *sharder, enum lvn_op_id id, enum lvn_when when, const char *name);
/* A value: elements [offset, offset + count) of a buffer. */
struct lvn_operand lvn_sharder_range(struct sharder *sharder, const char *name, enum lvn_buffer buffer,
                                     enum lvn_dtype dtype, int64_t offset, int64_t count);
/* Append the start of a collective on `result`, in place, among the ranks that shard a copy of the model; and its wait.
 */
struct collective lvn_sharder_start(struct sharder *sharder, enum lvn_op_id id, enum lvn_when when,
                                    struct lvn_operand in, struct lvn_operand result, const char *name);
void lvn_sharder_wait(struct sharder *sharder, const struct collective *s, enum lvn_when when, const char *name);
/* If gradients are sent in bf16, append their conversion to bf16 and return the copy; otherwise return `gradients`. The
 * second function appends the conversion back into `gradients`, of the same elements. */
struct lvn_operand lvn_sharder_to_wire(struct sharder *sharder, struct lvn_operand gradients, enum lvn_when when,
                                       const char *name);
void lvn_sharder_from_wire(struct sharder *sharder, struct lvn_operand wire, struct lvn_operand gradients,
                           enum lvn_when when, const char *name);
/* The most recently appended instruction. */
struct lvn_instr *lvn_sharder_latest(const struct sharder *sharder);
/* The next block after `block` that has trainable parameters, as in lvn_param.block; begin with LVN_SHARDER_NO_BLOCK.
 * False: no more blocks. */
enum { LVN_SHARDER_NO_BLOCK = LVN_BLOCK_OUTSIDE - 1 };
bool lvn_sharder_next_block(const struct sharder *sharder, int *block);
/* The block that contains a trainable element; successive calls must pass ascending elements. */
int lvn_sharder_block_of(struct sharder *sharder, int64_t element);
/* The range of a block's trainable parameters in the flat buffers, and the part of it that this rank owns. */
const struct lvn_param_block *lvn_sharder_block(const struct sharder *sharder, int block);
struct lvn_shard lvn_sharder_shard(const struct sharder *sharder, int block);
/* The part of any range that this rank owns, and its place in a buffer of shards. */
struct lvn_shard lvn_sharder_part(const struct sharder *sharder, const struct lvn_param_block *range);
int64_t lvn_sharder_part_place(const struct sharder *sharder, const struct lvn_param_block *range, int64_t element);
/* Place of element `element` of the flat parameters, owned by this rank: in a buffer of shards if `what` (enum
 * lvn_shards) is sharded, otherwise in a whole buffer. */
int64_t lvn_sharder_place(const struct sharder *sharder, enum lvn_shards what, int block, int64_t element);
/* Elements [first, first + count) of the flat buffers, as a view of the value `all` of their block. */
struct lvn_operand lvn_sharder_view(const struct lvn_param_block *block, struct lvn_operand all, int64_t first,
                                    int64_t count);
/* [number of a parameter] index of the last instruction that writes its gradient; -1: none. Returns NULL if memory is
 * out. */
int *lvn_sharder_last_writers(struct lvn_arena *a, const struct lvn_program *p);
/* Allocate one struct collective per block. NULL: out of memory. */
struct collective *lvn_sharder_collectives(struct sharder *sharder);

/* sharder_buckets.c: whole gradients (ddp, zero1) */
/* Divide the gradients into buckets. */
enum lvn_status lvn_sharder_find_buckets(struct sharder *sharder) LVN_CHECKED;
/* Append the n instructions of `old`, followed by sums in buckets, or in tree order. */
void lvn_sharder_append_sums(struct sharder *sharder, const struct lvn_instr *old, int n);

/* sharder_gradients.c: the same with sharded gradients (zero2). */
enum lvn_status lvn_sharder_append_gradients(struct sharder *sharder, struct lvn_instr *old, int n) LVN_CHECKED;

/* sharder_parameters.c: fsdp. Rebuild the program so that the parameters of a block are gathered before use. */
enum lvn_status lvn_sharder_gather_parameters(struct sharder *sharder, const struct lvn_device *device) LVN_CHECKED;

/* sharder_update.c */
/* Append an instruction of `old`; an update is restricted to this rank's shard. */
void lvn_sharder_append_one(struct sharder *sharder, const struct lvn_instr *i);
/* Append this rank's part of an update, if it has any; its operand in the arena becomes a view of `directions`. */
void lvn_sharder_append_part(struct sharder *sharder, struct lvn_instr i, int block, struct lvn_operand directions);
/* Append the gathers of the updated parameters. */
void lvn_sharder_append_gathers(struct sharder *sharder);

/* sharder_matrices.c */
/* Handle an instruction of the update that belongs to a matrix of a block; parts of it are appended later. False: it
 * belongs to no matrix. */
bool lvn_sharder_append_matrix(struct sharder *sharder, const struct lvn_instr *i);
/* Append the remaining work on matrices, after the last update. */
void lvn_sharder_end_matrices(struct sharder *sharder);

#endif

/* sharder.h - state and functions that the parts of the pass shard share (sharder.c, sharder_sums.c,
 * sharder_gradients.c, sharder_parameters.c, sharder_update.c, sharder_matrices.c): the program that is written anew,
 * and functions that append to it. Memory that is out is told by sharder.failed. */
#ifndef LVN_SHARDER_H
#define LVN_SHARDER_H

#include "passes/pass.h"
#include "passes/shard.h"

/* A collective that was started. */
struct collective {
    int handle;
    struct lvn_operand token;  /* makes the wait depend on the start; without contents */
    struct lvn_operand result; /* the buffer of the collective, in use until the wait */
};

struct bucket;
struct block_gradients;

/* The matrices of a block, on the way from their gradients to their steps (sharder_matrices.c). */
struct matrix_block {
    int block;                            /* lvn_param.block */
    const struct lvn_instr *first, *last; /* those that set the directions of its matrices; first NULL: no block */
    struct lvn_operand directions;        /* of the whole block; then the steps */
    struct collective collective;
};
enum { LVN_MATRIX_STAGES = 3 }; /* directions are set; gathered; matrices are computed, and steps on their way */

struct sharder {
    struct lvn_program *p;
    const struct lvn_sharding *s;
    struct bucket *bucket;
    int n_buckets;
    int asked; /* lvn_block_index() of the block that was asked for last */
    struct matrix_block matrices[LVN_MATRIX_STAGES];
    double *work;                     /* [owners] what each rank has computed for matrices so far */
    struct block_gradients *blocks;   /* zero2: [n_blocks] */
    struct block_gradients *reducing; /* zero2: those whose reduction has been started and not ended; NULL: none */
    bool failed;                      /* out of memory */
};

/* Are there several groups of ranks, each of which has the whole model? */
bool lvn_sharder_has_groups(const struct sharder *x);
/* Is this in shards? */
bool lvn_sharder_has(const struct sharder *x, enum lvn_shards what);

/* Append an instruction; the pointer is valid until the next one. */
struct lvn_instr *lvn_sharder_append(struct sharder *x, enum lvn_op_id id, enum lvn_when when, const char *name);
/* A value: elements [offset, offset + count) of a buffer. */
struct lvn_operand lvn_sharder_range(struct sharder *x, const char *name, enum lvn_buffer buffer, enum lvn_dtype dtype,
                                     int64_t offset, int64_t count);
/* Append the start of a collective of the ranks that divide the model on `result`, in place; and its wait. */
struct collective lvn_sharder_start(struct sharder *x, enum lvn_op_id id, enum lvn_when when, struct lvn_operand in,
                                    struct lvn_operand result, const char *name);
void lvn_sharder_wait(struct sharder *x, const struct collective *s, enum lvn_when when, const char *name);
/* Gradients on their way: append their copy in bf16 if they travel so, and return it, or `gradients` themselves; and
 * append its way back, into `gradients`, of the same elements. */
struct lvn_operand lvn_sharder_to_wire(struct sharder *x, struct lvn_operand gradients, enum lvn_when when,
                                       const char *name);
void lvn_sharder_from_wire(struct sharder *x, struct lvn_operand wire, struct lvn_operand gradients, enum lvn_when when,
                           const char *name);
/* The instruction that was appended last. */
struct lvn_instr *lvn_sharder_latest(const struct sharder *x);
/* The next block after `block` that has trainable parameters, as in lvn_param.block; begin with LVN_SHARDER_NO_BLOCK.
 * False: there is none. */
enum { LVN_SHARDER_NO_BLOCK = LVN_BLOCK_OUTSIDE - 1 };
bool lvn_sharder_next_block(const struct sharder *x, int *block);
/* Number of the block in which a trainable element lies; elements that are asked for ascend. */
int lvn_sharder_block_of(struct sharder *x, int64_t element);
/* The range of a block's trainable parameters in the flat buffers, and the part of it that this rank owns. */
const struct lvn_param_block *lvn_sharder_block(const struct sharder *x, int block);
struct lvn_shard lvn_sharder_shard(const struct sharder *x, int block);
/* The part that this rank owns of any range; where it lies in a buffer of shards. */
struct lvn_shard lvn_sharder_part(const struct sharder *x, const struct lvn_param_block *range);
int64_t lvn_sharder_part_place(const struct sharder *x, const struct lvn_param_block *range, int64_t element);
/* Where element `element` of the flat parameters, which this rank owns, lies in a buffer whose contents are in shards,
 * if `what` (enum lvn_shards) is, or else whole. */
int64_t lvn_sharder_place(const struct sharder *x, enum lvn_shards what, int block, int64_t element);
/* Elements [first, first + count) of the flat buffers, as a view of the value `all` of their block. */
struct lvn_operand lvn_sharder_view(const struct lvn_param_block *block, struct lvn_operand all, int64_t first,
                                    int64_t count);
/* Parameter's number -> the last instruction that writes its gradient; -1: none. NULL: memory. */
int *lvn_sharder_last_writers(struct lvn_arena *a, const struct lvn_program *p);
/* Memory for a collective of each block. */
struct collective *lvn_sharder_collectives(struct sharder *x);

/* sharder_sums.c: whole gradients (ddp, zero1) */
/* Cut the gradients into buckets, unless the order of the tree is wanted. */
enum lvn_status lvn_sharder_find_buckets(struct sharder *x) LVN_CHECKED;
/* Append the n instructions of `old`, with sums in buckets, or in the order of the tree, behind backward. */
void lvn_sharder_append_sums(struct sharder *x, const struct lvn_instr *old, int n);

/* sharder_gradients.c: the same with gradients in shards (zero2). */
enum lvn_status lvn_sharder_append_gradients(struct sharder *x, struct lvn_instr *old, int n) LVN_CHECKED;

/* sharder_parameters.c: fsdp. Write the program anew: parameters of a block are gathered before their use. */
enum lvn_status lvn_sharder_gather_parameters(struct sharder *x, const struct lvn_device *device) LVN_CHECKED;

/* sharder_update.c */
/* Append an instruction of `old`: those of the update for what the rank owns. */
void lvn_sharder_append_one(struct sharder *x, const struct lvn_instr *i);
/* Append this rank's part of an update, if it has any; its operand in the arena becomes a view of `directions`. */
void lvn_sharder_append_part(struct sharder *x, struct lvn_instr i, int block, struct lvn_operand directions);
/* Append the gathers of the updated parameters. */
void lvn_sharder_append_gathers(struct sharder *x);

/* sharder_matrices.c */
/* Append what an instruction of the update does for the matrices of a block; the rest of it follows later. False: it is
 * for no matrix. */
bool lvn_sharder_append_matrix(struct sharder *x, const struct lvn_instr *i);
/* Append what is left to do for matrices, behind the last update. */
void lvn_sharder_end_matrices(struct sharder *x);

#endif

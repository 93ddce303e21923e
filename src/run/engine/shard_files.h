/* shard_files.h - tensor files that all ranks write concurrently if the model is sharded.
 *
 * snapshot.c saves with it. Each rank writes the elements that it holds directly to their place, if memory and file
 * have the same order. A tensor in another order, or one computed from several (merged adapters), is gathered on one
 * rank, which writes it; a tensor that all ranks hold is written by one of them; with trainer.fsdp_size one group
 * writes the parts of a tensor. These tensors are assigned to the ranks by their bytes, so that all write about the
 * same amount. No rank needs memory for more than its shards and one tensor, in both orders. The bytes are those of
 * lvn_safetensors_write().
 *
 * The checksum of a tensor covers its bytes from first to last, which its ranks hold in rank order: each adds its part
 * to the checksum received from the previous rank and passes it on.
 *
 * Ranks first do all work that needs messages. Then a thread of each rank writes its other tensors, most of the bytes,
 * while the rank computes, because parameters and moments change only in the update.
 *
 * The caller decides which tensors exist, creates the files, and commits them (checkpoints/checkpoint.h). */
#ifndef LVN_SHARD_FILES_H
#define LVN_SHARD_FILES_H

#include "engine/parameters.h"
#include "formats/safetensors.h"

/* The parameters from which an item is computed: its `origin`. NULL: none of them is sharded. */
enum { LVN_SHARD_PARAMS = 3 };
struct lvn_shard_origin {
    enum lvn_parameters_of of;
    const struct lvn_param *param[LVN_SHARD_PARAMS];
    int n;
    bool plain; /* it is the first parameter, in memory order */
};

struct lvn_shard_file {
    const char *path;
    struct lvn_safetensors_source source;
    struct lvn_safetensors_layout layout;
    struct lvn_shard_file *next;
};
/* The files of one save; the same list on all ranks. */
struct lvn_shard_files {
    const struct lvn_model_state *model_state;
    struct lvn_arena *arena;
    struct lvn_shard_file *first, *last;
    struct lvn_shard_writing *writing; /* from begin to release */
};

/* Add a file; *layout is valid as long as the arena, and has the tensors' checksums after they are written. */
enum lvn_status lvn_shard_files_add(struct lvn_shard_files *s, const char *path,
                                    const struct lvn_safetensors_source *source,
                                    const struct lvn_safetensors_layout **layout) LVN_CHECKED;
/* Memory that a rank allocates to save n in this way, without gathered tensors: one block to write. */
int64_t lvn_shard_files_bytes(const struct lvn_model_state *n);
/* All ranks, while windows are gathered (lvn_parameters_begin_gathering()); so_far: the status of this rank's previous
 * work. Computes the checksums of parts and writes gathered tensors into the files, which exist with headers and sizes.
 * async: the caller computes while a thread writes the rest, so gathered tensors stay in the page cache until then. A
 * failure is returned on all ranks; a rank that cannot write fails in lvn_shard_files_end(). */
enum lvn_status lvn_shard_files_begin(struct lvn_shard_files *s, bool async, enum lvn_status so_far) LVN_CHECKED;
/* Any thread; sends no messages. Write all other tensors from the memory of the model, which must not change until this
 * returns. */
void lvn_shard_files_write(struct lvn_shard_files *s);
void lvn_shard_files_sync(struct lvn_shard_files *s);
/* All ranks, after the other three. OK on all ranks if all have written and synced; then all know all checksums. */
enum lvn_status lvn_shard_files_end(struct lvn_shard_files *s) LVN_CHECKED;
/* After the end or instead of it. */
void lvn_shard_files_release(struct lvn_shard_files *s);

#endif

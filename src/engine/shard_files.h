/* shard_files.h - files of tensors that all ranks write at once, where the model is in shards.
 *
 * snapshot.c saves with it. Each rank writes the elements that it holds, in their place, if they have the same order in
 * memory and in the file. A tensor in another order, or that is made of several (merged adapters), is gathered on one
 * rank, which writes it; a tensor that all ranks hold is written by one of them; with trainer.fsdp_size one group
 * writes the parts of a tensor. These tensors are dealt to the ranks by their bytes, so that all have about as much to
 * write. No rank needs memory for more than its shards and one tensor, in both orders. The bytes are those of
 * lvn_safetensors_write().
 *
 * The checksum of a tensor is that of its bytes from first to last, and its ranks hold them in their order: each adds
 * its own to what the rank before has sent it, and passes that on.
 *
 * Ranks first do all work for which they send messages to each other. Then a thread of each rank writes its other
 * tensors, which are most of the bytes, while the rank computes: parameters and moments change only in the update.
 *
 * Left out: which tensors there are, who creates the files, and when they count as written (checkpoints/checkpoint.h).
 */
#ifndef LVN_SHARD_FILES_H
#define LVN_SHARD_FILES_H

#include "engine/parameters.h"
#include "formats/safetensors.h"

/* The parameters that an item is made of: its `origin`. NULL: of none that is in shards. */
enum { LVN_SHARD_PARAMS = 3 };
struct lvn_shard_origin {
    enum lvn_parameters_of of;
    const struct lvn_param *param[LVN_SHARD_PARAMS];
    int n;
    bool plain; /* it is the first one, in the order of memory */
};

struct lvn_shard_file {
    const char *path;
    struct lvn_safetensors_source source;
    struct lvn_safetensors_places places;
    struct lvn_shard_file *next;
};
/* The files of one save; all ranks have the same list. */
struct lvn_shard_files {
    const struct lvn_model_state *model_state;
    struct lvn_arena *arena;
    struct lvn_shard_file *first, *last;
    struct lvn_shard_writing *writing; /* from begin to release */
};

/* Add a file; *places lives as long as the arena, and gets the checksums of the tensors when they are written. */
enum lvn_status lvn_shard_files_add(struct lvn_shard_files *s, const char *path,
                                    const struct lvn_safetensors_source *source,
                                    const struct lvn_safetensors_places **places) LVN_CHECKED;
/* Bytes that a rank allocates to save n so, apart from gathered tensors: a block on its way to the disk. */
int64_t lvn_shard_files_bytes(const struct lvn_model_state *n);
/* All ranks, while windows are gathered (lvn_parameters_begin_gathering()); so_far: the status of this rank's work
 * before. Computes the checksums of parts, and writes gathered tensors into the files, which exist with their headers
 * and sizes. async: the caller computes while a thread writes the rest, so gathered tensors are left to the page cache
 * until then. A failure is one on all ranks; a rank that cannot write fails in lvn_shard_files_end(). */
enum lvn_status lvn_shard_files_begin(struct lvn_shard_files *s, bool async, enum lvn_status so_far) LVN_CHECKED;
/* Any thread; it sends no messages: write all other tensors, from the memory of the model, which must not change until
 * this returns. */
void lvn_shard_files_write(struct lvn_shard_files *s);
void lvn_shard_files_sync(struct lvn_shard_files *s);
/* All ranks, after the other three: OK, on all, if all have written and synced theirs; then all know all checksums. */
enum lvn_status lvn_shard_files_end(struct lvn_shard_files *s) LVN_CHECKED;
/* After the end or in place of it. */
void lvn_shard_files_release(struct lvn_shard_files *s);

#endif

/* snapshot_files.h - writing the files of a checkpoint by rank 0, or by all ranks if something is sharded.
 *
 * Private to snapshot.c. All ranks write if they see the hidden directory that rank 0 has created, on a file system
 * that supports concurrent writes to one file (checkpoints/common_file.h). Then rank 0 creates the files, each rank
 * writes its tensors or parts of them (engine/shard_files.h), mostly in a thread if the caller chooses, and rank 0
 * commits when all have synced theirs. Otherwise rank 0 collects the tensors and writes alone. The files have the same
 * bytes either way. */
#ifndef LVN_SNAPSHOT_FILES_H
#define LVN_SNAPSHOT_FILES_H

#include "checkpoints/checkpoint.h"
#include "engine/ranks.h"
#include "engine/shard_files.h"

struct lvn_snapshot_files {
    struct lvn_checkpoint_writer *writer; /* of rank 0; NULL on other ranks */
    const struct lvn_model_state *model_state;
    bool collective;  /* all ranks write */
    bool async;       /* and may do so while they compute, because the model is in host memory on all ranks */
    const char *path; /* of the hidden directory if they do */
    struct lvn_arena *arena;
    struct lvn_shard_files shards;
};

/* Begin the files, on all ranks if something is sharded, otherwise only on rank 0. After a failure there is nothing to
 * end. */
enum lvn_status lvn_snapshot_files_begin(struct lvn_snapshot_files *f, struct lvn_arena *a, const char *dir,
                                         int64_t step, const struct lvn_model_state *n,
                                         struct lvn_ranks *ranks) LVN_CHECKED;
/* Does this rank add files? All that do add the same ones in the same order; only rank 0 adds texts. */
bool lvn_snapshot_files_mine(const struct lvn_snapshot_files *f);
enum lvn_status lvn_snapshot_files_add_tensors(struct lvn_snapshot_files *f, const char *name,
                                               const struct lvn_safetensors_source *source) LVN_CHECKED;
void lvn_snapshot_files_add_text(struct lvn_snapshot_files *f, const char *name, const void *data, int64_t bytes);
/* Called by all ranks that add files. Between these calls rank 0 may add files alone, of tensors that it collects. */
void lvn_snapshot_files_begin_alone(struct lvn_snapshot_files *f);
enum lvn_status lvn_snapshot_files_end_alone(struct lvn_snapshot_files *f) LVN_CHECKED;
/* Do the work that needs messages, on every rank that began; so_far: the status of adding. If all ranks write, a
 * failure is returned on all. */
enum lvn_status lvn_snapshot_files_prepare(struct lvn_snapshot_files *f, enum lvn_status so_far) LVN_CHECKED;
/* Then, in any thread: write and sync all other tensors. lvn_snapshot_files_end() returns their failure. */
void lvn_snapshot_files_write(struct lvn_snapshot_files *f);
void lvn_snapshot_files_sync(struct lvn_snapshot_files *f);
/* Commit if everything has been written, on every rank that began. */
enum lvn_status lvn_snapshot_files_end(struct lvn_snapshot_files *f, double val_loss,
                                       const struct lvn_checkpoint_score *score) LVN_CHECKED;
/* Instead of the end, each rank by itself: drop the written files. */
void lvn_snapshot_files_cancel(struct lvn_snapshot_files *f);

#endif

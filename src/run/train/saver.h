/* saver.h - checkpoints from request to disk. The trainer calls it. This is the whole sequence:
 *
 *   step ends   due.c, lvn_due_next()             every_n_steps is due, or some rank's callback set SHOULD_SAVE
 *               callbacks/checkpoint.c            sets SHOULD_SAVE after a validation with one of the best values
 *   begin       trainer.c, save_checkpoint()      step, losses, score, callbacks' states -> lvn_snapshot
 *               saver.c, lvn_saver_begin()        waits for the save before; compares replicas; starts rank 0's thread
 *   next step   snapshot.c, lvn_snapshot_save()   thread: reads weights and optimizer state, writes step-N's files
 *   update      saver.c, lvn_saver_wait_read()    the step's update waits until the memory has been read
 *   written     checkpoints/checkpoint.h          thread: fsync, manifest with checksums, rename, links last and best
 *   step ends   saver.c, lvn_saver_is_written()   exchanged with the step's statistics
 *   announced   saver.c, lvn_saver_finish()       event CHECKPOINT; callbacks/checkpoint.c removes old checkpoints
 *   sent        run_dir.h, lvn_run_dir_push()     if the run is in a store: sent in the background
 *
 * Weights and optimizer state change only in the update, at the end of a step. Until then the thread reads them in
 * place and writes them to the page cache; the update waits only for the part that has not been read yet. So there is
 * no second copy, and the step after a save is only delayed if it is shorter than the reading. Device memory is copied
 * through a small staging buffer, on a queue that is asynchronous to the step's (backend.h, lvn_device_snapshot()).
 *
 * All ranks save a sharded model. A thread of each writes the tensors for which no messages are sent:
 *
 *   begin       snapshot_files.c              rank 0 creates the hidden folder; do all ranks see it?
 *   files       checkpoints/checkpoint.h      rank 0 creates them, with headers, at their sizes, and writes the texts
 *   messages    engine/shard_files.c          checksums of tensors in parts; tensors in another order are gathered
 *   next step   engine/shard_files.c          threads: each rank writes its own tensors and parts, and syncs them
 *   step ends   snapshot.c, lvn_snapshot_end()   all have written: they agree, and exchange checksums
 *   commit      checkpoints/checkpoint.h      rank 0: manifest with checksums, rename, links
 *
 * If a run fails before that, this save is dropped. Sharded device memory is written between two steps, without a
 * thread. If the ranks do not share the folder, they send their shards to rank 0, which writes them between two steps.
 */
#ifndef LVN_SAVER_H
#define LVN_SAVER_H

#include <pthread.h>

#include "data/codec.h"
#include "train/callback.h"

enum { LVN_SAVER_TEXT = 800 };

/* The contents of a checkpoint, its folder, and the callbacks to notify. All pointers but snapshot.codec must outlive
 * the saver. */
struct lvn_saver_target {
    struct lvn_snapshot_target snapshot;
    const struct lvn_model_state *model_state;
    struct lvn_ranks *ranks;
    struct lvn_callbacks *callbacks;
    struct lvn_callback_context *context;
    struct lvn_run_dir *dir; /* of rank 0 */
};

struct lvn_saver {
    int64_t step; /* that is saved or being saved; -1: none */
    bool saving;  /* begun, but not all ranks know the outcome */
    struct lvn_saver_target target;
    struct lvn_codec codec; /* copy of target.snapshot.codec */
    struct lvn_snapshot snapshot;
    struct lvn_snapshot_writing *writing; /* of a sharded model, from begin to end; NULL: none */
    enum lvn_status status;
    char error[LVN_SAVER_TEXT]; /* the message of a failure */
    bool running;               /* a thread was started and not joined */
    pthread_t thread;
    pthread_mutex_t lock; /* protects `reading` and `done` */
    pthread_cond_t changed;
    bool reading; /* the thread still reads the model state */
    bool done;    /* this rank's part is written or has failed; the thread is about to exit */
};

void lvn_saver_init(struct lvn_saver *s);
void lvn_saver_set_target(struct lvn_saver *s, const struct lvn_saver_target *target);
/* Wait for the thread, if any; drop shards, which only all ranks together can commit. */
void lvn_saver_release(struct lvn_saver *s);
/* All ranks: begin to save, after the previous save has ended; does nothing if this step is saved already, with the
 * values of its validation. If they are missing in a step that is saved in a store, only they are written. */
enum lvn_status lvn_saver_begin(struct lvn_saver *s, const struct lvn_snapshot *snapshot) LVN_CHECKED;
/* Before weights or state change: wait until they have been read. */
void lvn_saver_wait_read(struct lvn_saver *s);
/* Has this rank written its part of a save that is not announced yet? When all ranks have, they call
 * lvn_saver_finish(). */
bool lvn_saver_is_written(struct lvn_saver *s);
/* All ranks: wait for the end of a save and announce it to callbacks and listeners; s->step is then the saved step. A
 * failed save does not end a run that has an earlier checkpoint; else it fails: IO. */
enum lvn_status lvn_saver_finish(struct lvn_saver *s) LVN_CHECKED;

#endif

/* saver.h - checkpoints that are written while training goes on.
 *
 * Weights and optimizer state change at the end of a step alone, when the update runs. Until then a thread reads them
 * where they are and hands them to the system; the update waits for what has not been read by then, and for nothing
 * else: that files reach the disk, get their checksums' manifest and their names is the thread's business. So there is
 * no second copy of anything, and the step after a save is as long as any other unless it is shorter than the reading.
 * What a device holds is copied through a small room of the processor's, on a queue beside the step's (backend.h,
 * lvn_device_snapshot()).
 *
 * Only rank 0 has a thread, so it knows first how a save ended, and all ranks a little later: it tells them with the
 * next step's tally, or when they wait for it. Left out: state in shards (zero1), which needs the other ranks while it
 * is read; it is saved between steps. */
#ifndef LVN_SAVER_H
#define LVN_SAVER_H

#include <pthread.h>

#include "data/codec.h"
#include "train/callback.h"

enum { LVN_SAVER_TEXT = 800 };
enum lvn_saved { LVN_SAVED_UNKNOWN, LVN_SAVED, LVN_SAVED_NOT };

/* What is saved and where, and who hears of it; what they point to must stay, but for to->codec. dir: the run's folder,
 * of rank 0. */
struct lvn_saver_target {
    struct lvn_snapshot_target to;
    const struct lvn_model_state *network;
    const struct lvn_sharding *sharding;
    struct lvn_ranks *ranks;
    struct lvn_callbacks *callbacks;
    struct lvn_callback_context *m;
    struct lvn_run_dir *dir;
};

struct lvn_saver {
    int64_t step; /* that is saved, or being saved; -1: none */
    bool saving;  /* begun, and not all ranks know how it ended */
    struct lvn_saver_target aim;
    struct lvn_codec codec;
    /* rank 0's */
    struct lvn_snapshot snapshot;
    enum lvn_status status;
    char text[LVN_SAVER_TEXT]; /* the sentence of a failure */
    bool running;              /* a thread was started and not joined */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool reading, done; /* under the lock: the network is still read; the thread is at its end */
};

void lvn_saver_init(struct lvn_saver *s);
void lvn_saver_target(struct lvn_saver *s, const struct lvn_saver_target *aim);
/* Waits for the thread, if there is one. */
void lvn_saver_release(struct lvn_saver *s);
/* All ranks: begin to save, after the save before has ended; nothing where this step is saved already. */
enum lvn_status lvn_saver_begin(struct lvn_saver *s, const struct lvn_snapshot *at) LVN_CHECKED;
/* Before weights or state change: wait until they are read. */
void lvn_saver_wait_read(struct lvn_saver *s);
/* Rank 0: how the save ended that was begun; UNKNOWN as long as it goes on. */
enum lvn_saved lvn_saver_look(struct lvn_saver *s);
/* All ranks: that is how it ended, and is told. A failure to save is no failure: the run goes on with its former
 * checkpoints. UNKNOWN: nothing happens. */
enum lvn_status lvn_saver_announce(struct lvn_saver *s, enum lvn_saved how) LVN_CHECKED;
/* All ranks: wait for its end, and settle it; s->step is then what is saved. */
enum lvn_status lvn_saver_finish(struct lvn_saver *s) LVN_CHECKED;

#endif

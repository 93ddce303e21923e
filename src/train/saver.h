/* saver.h - checkpoints that are written while training goes on.
 *
 * Weights and optimizer state change at the end of a step alone, when the update runs. Until then a thread reads them
 * where they are and hands them to the system; the update waits for what has not been read by then, and for nothing
 * else: that files reach the disk, get their checksums' manifest and their names is the thread's business. So there is
 * no second copy of anything, and the step after a save is as long as any other unless it is shorter than the reading.
 *
 * Only rank 0 has a thread. Left out: state in shards (zero1), which needs the other ranks while it is read; it is
 * saved between steps. */
#ifndef LVN_SAVER_H
#define LVN_SAVER_H

#include <pthread.h>

#include "data/codec.h"
#include "train/snapshot.h"

enum { LVN_SAVER_TEXT = 800 };

struct lvn_saver {
    bool running; /* a thread was started and not joined */
    struct lvn_snapshot snapshot;
    /* the thread's */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct lvn_snapshot_place to;
    struct lvn_codec codec;
    const struct lvn_network *network;
    const struct lvn_sharding *sharding;
    struct lvn_ranks *ranks;
    bool reading, done; /* under the lock: the network is still read; the thread is at its end */
    enum lvn_status status;
    char text[LVN_SAVER_TEXT]; /* the sentence of a failure */
};

void lvn_saver_init(struct lvn_saver *s);
/* Joins the thread, if there is one. */
void lvn_saver_release(struct lvn_saver *s);
/* Begin to write; what `to` and the network point to must stay. Nothing may be running. */
enum lvn_status lvn_saver_start(struct lvn_saver *s, const struct lvn_snapshot_place *to, const struct lvn_snapshot *at,
                                const struct lvn_network *n, const struct lvn_sharding *sharding,
                                struct lvn_ranks *ranks) LVN_CHECKED;
/* Before weights or state change: wait until they are read. */
void lvn_saver_wait_read(struct lvn_saver *s);
/* Has the thread ended, or, with `wait`, when it has? True once for every start: s->snapshot was saved, or s->status
 * and s->text say why not. */
bool lvn_saver_finished(struct lvn_saver *s, bool wait);

#endif

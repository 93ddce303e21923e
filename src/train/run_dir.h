/* run_dir.h - the folder of a run, runs/NAME/: made, opened, locked, replaced, and sent to a store.
 *
 * The trainer's set-up and the command line call it. What is in checkpoints is snapshot.h's.
 *
 *     settings.yaml            as resolved; reads back as a recipe
 *     status.json              the state of each rank
 *     logs/rank-N.log          the output of each rank, if levin launch started them
 *     checkpoints/step-N, last, best
 *     metrics.csv, ...         outputs of callbacks (callback.h)
 *
 * The folder may be in a store (s3://...): then it is made in the local cache, and sent in the background after each
 * checkpoint and at the end, status.json more often. Such a run can be continued on any machine.
 *
 * A folder that holds a run is refused, unless the run is to be continued or replaced. It holds a run if levin's own
 * settings or a checkpoint's manifest are there: files of another program under these names are refused and not
 * touched, and when a run is replaced, unmanaged files among its checkpoints stay. A lock keeps a second process of
 * this machine out, a lease (stores/lease/lease.h) those of others, if they can reach the folder.
 *
 * The attempts of one levin launch are one run. Its settings.yaml ends with a comment that names the launch, written
 * together with the settings: an attempt that finds its own launch there continues, whatever the command requests. A
 * second comment says that the launch has ended the run: a launcher that comes back later has nothing to do. */
#ifndef LVN_RUN_DIR_H
#define LVN_RUN_DIR_H

#include <pthread.h>
#include <stdbool.h>

#include "base/arena.h"
#include "stores/lease/lease.h"
#include "stores/upload_staging.h"

struct lvn_settings;

#define LVN_RUN_DIR_LOCK ".lock" /* in the folder */
#define LVN_RUN_DIR_STATUS "status.json"

enum lvn_run_mode { LVN_RUN_NEW, LVN_RUN_RESUME, LVN_RUN_OVERWRITE };

struct lvn_run_dir_status { /* run_dir_status.c's thread */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running; /* the thread was started */
    bool stop;    /* atomic: the thread ends, and so does its request */
};

struct lvn_run_dir {
    struct lvn_arena arena;
    const char *url;            /* as given */
    const char *path;           /* on this machine */
    const char *checkpoints;    /* path of the folder */
    const char *settings;       /* path of settings.yaml */
    const char *const *entries; /* [n_entries] names of the files and folders of a run */
    int n_entries;
    int lock;                /* file descriptor; -1: none */
    struct lvn_lease *lease; /* NULL: the lock is enough */
    bool created;            /* the folder is new and no run has begun in it */
    bool replaces;           /* a former run is removed when this one begins */
    bool overwrites;         /* mode OVERWRITE */
    bool continued;          /* it is in a store, and holds a run that is continued */
    bool owner_written;      /* the lock file names this process */
    const char *launch;      /* id of the levin launch that started this process; NULL: none */
    const char *job;         /* names the owner of lock and lease; NULL: none */
    double lease_seconds;    /* after which an owner that does not renew its lease has lost it */
    struct lvn_sender sender;
    struct lvn_run_dir_status status;
};

/* The folder of a run by its path, or by its name below runs/, in the arena; NULL: there is no such folder. */
const char *lvn_run_dir_find(struct lvn_arena *a, const char *name);
struct lvn_run_dir_options {
    enum lvn_run_mode mode;
    const char *launch;  /* id of the levin launch; NULL: none */
    double rank_timeout; /* trainer.rank_timeout: a lease expires after twice this time, and after a minute at most */
};
/* Create or open the folder. ARG when it holds a run and `mode` is NEW, IO when it cannot be written or another process
 * or job uses it. Changes nothing of a former run yet. */
enum lvn_status lvn_run_dir_open(struct lvn_run_dir *d, const char *path,
                                 const struct lvn_run_dir_options *options) LVN_CHECKED;
/* Between steps: IO if the folder belongs to another job now. */
enum lvn_status lvn_run_dir_check(struct lvn_run_dir *d) LVN_CHECKED;
/* Call it after all checks: OVERWRITE now removes the former run's files, and no others. Removes half-written files of
 * a killed process, too. */
enum lvn_status lvn_run_dir_begin(struct lvn_run_dir *d) LVN_CHECKED;
/* Send new files in the background. `text`: the failure of an earlier sending; "": none. */
void lvn_run_dir_push(struct lvn_run_dir *d, char text[1024]);
/* Wait until everything is sent. */
enum lvn_status lvn_run_dir_end(struct lvn_run_dir *d) LVN_CHECKED;
/* Close it, and remove the folder if open created it and the run never began. */
void lvn_run_dir_close(struct lvn_run_dir *d);

/* --- run_dir_launch.c --- */

/* Write or replace settings.yaml: with it the run has begun, and not ended. */
enum lvn_status lvn_run_dir_write_settings(const struct lvn_run_dir *d, const struct lvn_settings *s) LVN_CHECKED;
/* *begun: has this launch begun the run of this path? Reads the folder, and the store if the folder is in one; `store`
 * false: only what is on this machine. */
enum lvn_status lvn_run_dir_begun(const char *path, const char *launch, bool store, bool *begun) LVN_CHECKED;
/* *ended: has this launch, with these `keys` (a digest of what it was to do), ended the run of this path? */
enum lvn_status lvn_run_dir_ended(const char *path, const char *launch, const char *keys, bool *ended) LVN_CHECKED;
/* Write that it has, after all ranks have ended; nothing if the run is another launch's by now. */
enum lvn_status lvn_run_dir_write_end(const char *path, const char *launch, const char *keys) LVN_CHECKED;

/* --- run_dir_status.c: for run_dir.c --- */

/* Send status.json every ten seconds from now on, in the background; if that cannot be, it is sent at checkpoints. */
void lvn_run_dir_status_start(struct lvn_run_dir *d);
/* Nothing is sent any more. Nothing, if it was not started. */
void lvn_run_dir_status_stop(struct lvn_run_dir *d);

/* --- run_dir_lock.c: for run_dir.c --- */

/* Take lock and lease. `path`: of the folder, or of the run in a store. IO, with the owner's name, if another process
 * or job has them. */
enum lvn_status lvn_run_dir_claim(struct lvn_run_dir *d, const char *path) LVN_CHECKED;
/* Write who trains here into the lock file, as the run begins; false: the file has the text of another program and
 * stays. */
bool lvn_run_dir_write_owner(const struct lvn_run_dir *d);
/* Empty the lock file at the run's end, if it was written. */
void lvn_run_dir_clear_owner(const struct lvn_run_dir *d);

#endif

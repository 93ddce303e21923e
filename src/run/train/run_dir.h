/* run_dir.h - the folder of a run, runs/NAME/: created, opened, locked, replaced, and sent to a store.
 *
 * The trainer's set-up and the command line call it. For the contents of checkpoints see snapshot.h.
 *
 *     settings.yaml            as resolved; reads back as a recipe
 *     status.json              the state of each rank
 *     logs/rank-N.log          the output of each rank, if levin launch started them
 *     checkpoints/step-N, last, best
 *     metrics.csv, ...         outputs of callbacks (callback.h)
 *
 * The folder may be in a store (s3://...). Then it is in the local cache, and is sent in the background after each
 * checkpoint and at the end, status.json more often. Such a run can be continued on any machine.
 *
 * A folder that contains a run is refused, unless the run is to be resumed or replaced. It contains a run if it has
 * levin's settings or the manifest of a checkpoint. Files of another program with these names are refused and not
 * touched, and when a run is replaced, unmanaged files among its checkpoints are kept. A lock excludes a second process
 * on this machine, a lease (stores/lease/lease.h) those of other machines that can reach the folder.
 *
 * The attempts of one levin launch are one run. Its settings.yaml ends with a comment that names the launch, written
 * together with the settings. An attempt that finds its own launch there resumes, whatever the command requests. A
 * second comment states that the launch has ended the run, so a launcher that starts later has nothing to do. */
#ifndef LVN_RUN_DIR_H
#define LVN_RUN_DIR_H

#include <pthread.h>

#include "base/arena.h"
#include "stores/lease/lease.h"
#include "stores/upload_staging.h"

struct levin_settings;

#define LVN_RUN_DIR_LOCK ".lock" /* in the folder */
#define LVN_RUN_DIR_STATUS "status.json"

enum lvn_run_mode { LVN_RUN_NEW, LVN_RUN_RESUME, LVN_RUN_OVERWRITE };

struct lvn_run_dir_status { /* of the thread that sends status.json */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running; /* the thread was started */
    bool stop;    /* atomic; ends the thread and its request */
};

struct lvn_run_dir {
    struct lvn_arena arena;
    const char *url;            /* as given */
    const char *path;           /* local path */
    const char *checkpoints;    /* path of the folder */
    const char *settings;       /* path of settings.yaml */
    const char *const *entries; /* [n_entries] names of the files and folders of a run */
    int n_entries;
    int lock;                /* file descriptor; -1: none */
    uint64_t folder[2];      /* device and inode of a local folder when it was locked */
    struct lvn_lease *lease; /* NULL: the lock is sufficient */
    bool created;            /* open created the folder, and no run has begun in it */
    bool replaces;           /* remove the previous run when this one begins */
    bool overwrites;         /* mode OVERWRITE */
    bool continued;          /* it is in a store and contains the run that is resumed */
    bool owner_written;      /* the lock file names this process */
    const char *launch;      /* id of the levin launch that started this process; NULL: none */
    const char *job;         /* name of the owner of lock and lease; NULL: none */
    double lease_seconds;    /* an owner that does not renew its lease within this time loses it */
    struct lvn_sender sender;
    struct lvn_run_dir_status status;
};

/* The folder of a run by its path, or by its name below runs/, in the arena; NULL: no such folder. */
const char *lvn_run_dir_find(struct lvn_arena *a, const char *name);
struct lvn_run_dir_options {
    enum lvn_run_mode mode;
    const char *launch;  /* id of the levin launch; NULL: none */
    double rank_timeout; /* trainer.rank_timeout; a lease expires after twice this time, but at most a minute */
    bool absolute;       /* keep the folder if the process changes its current folder, as a program may */
};
/* Create or open the folder. ARG: it contains a run and `mode` is NEW; IO: it cannot be written, or another process or
 * job uses it. Does not change files of a previous run. */
enum lvn_status lvn_run_dir_open(struct lvn_run_dir *d, const char *path,
                                 const struct lvn_run_dir_options *options) LVN_CHECKED;
/* Between steps. IO: the folder now belongs to another job, or was removed or replaced. */
enum lvn_status lvn_run_dir_check(struct lvn_run_dir *d) LVN_CHECKED;
/* Call this after all checks: OVERWRITE now removes the previous run's files, and no others. Also removes half-written
 * files of a killed process. */
enum lvn_status lvn_run_dir_begin(struct lvn_run_dir *d) LVN_CHECKED;
/* Would OVERWRITE remove `path`, a file, a folder or a URL: is it the run, or in one of its entries? Empty: no. */
bool lvn_run_dir_removes(const struct lvn_run_dir *d, const char *path);
/* Send new files in the background. `text`: the failure of an earlier upload; "": none. */
void lvn_run_dir_push(struct lvn_run_dir *d, char text[1024]);
/* Wait until everything is sent. */
enum lvn_status lvn_run_dir_end(struct lvn_run_dir *d) LVN_CHECKED;
/* Close it, and remove the folder if open created it and no run has begun. */
void lvn_run_dir_close(struct lvn_run_dir *d);

/* --- run_dir_launch.c --- */

/* Write or replace settings.yaml, which marks the run as begun and not ended. */
enum lvn_status lvn_run_dir_write_settings(const struct lvn_run_dir *d, const struct levin_settings *s) LVN_CHECKED;
/* *begun: has this launch begun the run of this path? Reads the folder, and the store if the folder is in one; `store`
 * false: only this machine. */
enum lvn_status lvn_run_dir_begun(const char *path, const char *launch, bool store, bool *begun) LVN_CHECKED;
/* *ended: has this launch, with these `keys` (a digest of its task), ended the run of this path? */
enum lvn_status lvn_run_dir_ended(const char *path, const char *launch, const char *keys, bool *ended) LVN_CHECKED;
/* Record that it has, after all ranks have ended; does nothing if the run now belongs to another launch. */
enum lvn_status lvn_run_dir_write_end(const char *path, const char *launch, const char *keys) LVN_CHECKED;

/* --- run_dir_lock.c: for run_dir.c --- */

/* Acquire lock and lease. `path`: of the folder, or of the run in a store. IO, with the owner's name: another process
 * or job has them. */
enum lvn_status lvn_run_dir_claim(struct lvn_run_dir *d, const char *path) LVN_CHECKED;
/* Write the owner into the lock file when the run begins. False: the file has the text of another program and is not
 * changed. */
bool lvn_run_dir_write_owner(const struct lvn_run_dir *d);
/* Clear the lock file at the run's end, if it was written. */
void lvn_run_dir_clear_owner(const struct lvn_run_dir *d);

#endif

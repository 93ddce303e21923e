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
 * checkpoint and at the end. Such a run can be continued on any machine.
 *
 * A folder that holds a run is refused, unless the run is to be continued or replaced. It holds a run if levin's own
 * settings or a checkpoint's manifest are there: files of another program under these names are refused and not
 * touched, and when a run is replaced, unmanaged files among its checkpoints stay. A lock keeps a second process out.
 *
 * The attempts of one levin launch are one run. Its settings.yaml ends with a comment that names the launch, written
 * together with the settings: an attempt that finds its own launch there continues, whatever the command requests. */
#ifndef LVN_RUN_DIR_H
#define LVN_RUN_DIR_H

#include <stdbool.h>

#include "base/arena.h"
#include "stores/upload_staging.h"

struct lvn_settings;

enum lvn_run_mode { LVN_RUN_NEW, LVN_RUN_RESUME, LVN_RUN_OVERWRITE };

struct lvn_run_dir {
    struct lvn_arena arena;
    const char *url;            /* as given */
    const char *path;           /* on this machine */
    const char *checkpoints;    /* path of the folder */
    const char *settings;       /* path of settings.yaml */
    const char *const *entries; /* [n_entries] names of the files and folders of a run */
    int n_entries;
    int lock;           /* file descriptor; -1: none */
    bool created;       /* the folder is new and no run has begun in it */
    bool replaces;      /* a former run is removed when this one begins */
    bool overwrites;    /* mode OVERWRITE */
    const char *launch; /* id of the levin launch that started this process; NULL: none */
    struct lvn_sender sender;
};

/* The folder of a run by its path, or by its name below runs/, in the arena; NULL: there is no such folder. */
const char *lvn_run_dir_find(struct lvn_arena *a, const char *name);
/* Create or open the folder. ARG when it holds a run and `mode` is NEW, IO when it cannot be written or another process
 * uses it. Changes nothing of a former run yet. */
enum lvn_status lvn_run_dir_open(struct lvn_run_dir *d, const char *path, enum lvn_run_mode mode) LVN_CHECKED;
/* Call it after all checks: OVERWRITE now removes the former run's files, and no others. Removes half-written files of
 * a killed process, too. */
enum lvn_status lvn_run_dir_begin(struct lvn_run_dir *d) LVN_CHECKED;
/* Write or replace settings.yaml: with it the run has begun. */
enum lvn_status lvn_run_dir_write_settings(const struct lvn_run_dir *d, const struct lvn_settings *s) LVN_CHECKED;
/* *begun: has this launch begun the run of this path? Reads the folder, and the store if the folder is in one; `store`
 * false: only what is on this machine. */
enum lvn_status lvn_run_dir_begun(const char *path, const char *launch, bool store, bool *begun) LVN_CHECKED;
/* Send new files in the background. `text`: the failure of an earlier sending; "": none. */
void lvn_run_dir_push(struct lvn_run_dir *d, char text[1024]);
/* Wait until everything is sent. */
enum lvn_status lvn_run_dir_end(struct lvn_run_dir *d) LVN_CHECKED;
/* Close it, and remove the folder if open created it and the run never began. */
void lvn_run_dir_close(struct lvn_run_dir *d);

#endif

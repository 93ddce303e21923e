/* run_dir.h - the folder of a run: runs/NAME/.
 *
 *     settings.yaml            as resolved; reads back as a recipe
 *     status.json              where each rank is
 *     logs/rank-N.log          what each rank printed, where levin launch started them
 *     checkpoints/step-N, last, best
 *     metrics.csv, ...         what callbacks leave there (callback.h)
 *
 * It may be in a store (s3://...): then it is made in the local cache, and sent in the background after each checkpoint
 * and at the end. A run that lies there goes on from there on any machine.
 *
 * A folder that holds a run is refused, unless it is to be continued or replaced. It is a run when levin's own settings
 * or a checkpoint's manifest say so: what another program left under these names is refused and stays, and so does what
 * lies among the checkpoints and is not levin's when a run is replaced. A lock keeps a second process out.
 *
 * Attempts of one levin launch are one run. Its settings.yaml ends with a comment that names the launch and appears
 * with the settings, at once: an attempt that finds its own launch there goes on, whatever the command asks for. */
#ifndef LVN_RUN_DIR_H
#define LVN_RUN_DIR_H

#include <stdbool.h>

#include "base/arena.h"
#include "stores/upload_staging.h"

struct lvn_settings;

enum lvn_run_mode { LVN_RUN_NEW, LVN_RUN_RESUME, LVN_RUN_OVERWRITE };

struct lvn_run_dir {
    struct lvn_arena arena;
    const char *url; /* as it was given */
    const char *path, *checkpoints, *settings;
    const char *const *parts; /* names of what a run leaves in its folder */
    int n_parts;
    int lock;      /* file descriptor; -1: none */
    bool made;     /* the folder is new and nothing has begun in it */
    bool replaces; /* a former run goes when this one begins */
    bool overwrites;
    const char *launch; /* the levin launch that this process belongs to; NULL: none */
    struct lvn_sender sender;
};

/* The folder of a run by its path, or by its name below runs/, in the arena; NULL: there is no such folder. */
const char *lvn_run_dir_find(struct lvn_arena *a, const char *name);
/* Make or open the folder. ARG when it holds a run and `mode` is NEW, IO when it cannot be written or another process
 * uses it. Nothing of a former run is touched yet. */
enum lvn_status lvn_run_dir_open(struct lvn_run_dir *d, const char *path, enum lvn_run_mode mode) LVN_CHECKED;
/* Everything that could be refused was not: OVERWRITE now removes what belongs to a run, and nothing else.
 * What a killed process left half-written goes too. */
enum lvn_status lvn_run_dir_begin(struct lvn_run_dir *d) LVN_CHECKED;
/* Write or replace settings.yaml: from then on the run has begun. */
enum lvn_status lvn_run_dir_write_settings(const struct lvn_run_dir *d, const struct lvn_settings *s) LVN_CHECKED;
/* Has this launch begun the run of this path? Looks into the folder, and into the store of one that lies in a store;
 * `store` false: only at what is on this machine. */
enum lvn_status lvn_run_dir_begun(const char *path, const char *launch, bool store, bool *begun) LVN_CHECKED;
/* There is something new to send; the failure of an earlier sending goes to `text`, "" when there was none. */
void lvn_run_dir_push(struct lvn_run_dir *d, char text[1024]);
/* Waits until all is sent. */
enum lvn_status lvn_run_dir_end(struct lvn_run_dir *d) LVN_CHECKED;
/* A folder that open made goes again if the run never began. */
void lvn_run_dir_close(struct lvn_run_dir *d);

#endif

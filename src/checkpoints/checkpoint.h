/* checkpoint.h - directories checkpoints/step-N that are either whole or not there.
 *
 * Writing: everything goes into a hidden directory `.step-N.tmp-PID` beside, each file fsynced; `state/manifest.json`
 * with sizes and checksums of all others comes last; then one rename makes it step-N, and the parent is fsynced. A kill
 * at any instant leaves the old checkpoints or the old ones and the new one. `last` and `best` are symbolic links
 * replaced by rename (files that hold the name where there are no links). Deleting renames to a hidden name first.
 * Reading believes nothing: the manifest must be there and every size and checksum must agree. Which files and tensors
 * a checkpoint has is the caller's business. One process writes into a directory; others may read at any time. */
#ifndef LVN_CHECKPOINT_H
#define LVN_CHECKPOINT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"
#include "formats/safetensors.h"

/* By what checkpoints are better or worse than one another. */
enum { LVN_SCORE_NAME = 64 };
struct lvn_checkpoint_score {
    char name[LVN_SCORE_NAME]; /* "val_accuracy" */
    bool higher;               /* is better */
    double value;              /* NAN when it is not known */
};

/* --- writing: begin, add ..., commit --- */

struct lvn_checkpoint_writer;
/* dir: the directory that holds the checkpoints (made when missing). On failure *out is NULL. */
LVN_CHECKED enum lvn_status lvn_checkpoint_begin(struct lvn_checkpoint_writer **out, const char *dir, int64_t step);
/* What a source points to is read before add_tensors returns. name: relative, as "config.json" or "state/state.json".
 * The first failure is kept, further calls do nothing, and commit returns it. */
void lvn_checkpoint_add_text(struct lvn_checkpoint_writer *w, const char *name, const void *data, int64_t bytes);
void lvn_checkpoint_add_tensors(struct lvn_checkpoint_writer *w, const char *name,
                                const struct lvn_safetensors_source *source);
/* Makes it step-N (a step-N that is there already is replaced) and moves `last`, and `best` when its score is the best
 * so far. val_loss: NAN when it is not known. score: NULL, or without a name: val_loss, the lower the better. Frees the
 * writer, always. On failure (LVN_IO: disk full, no permission, ...) nothing is left behind and all former checkpoints
 * are untouched: warn and go on. (When only the links could not be moved, that is a failure too, though step-N is
 * there.) */
LVN_CHECKED enum lvn_status lvn_checkpoint_commit(struct lvn_checkpoint_writer *w, double val_loss,
                                                  const struct lvn_checkpoint_score *score);
/* Gives up: removes what was written, frees the writer. NULL is fine. */
void lvn_checkpoint_cancel(struct lvn_checkpoint_writer *w);

/* --- keeping --- */

/* `last` or `best` of the directory `dir` as the path of the checkpoint it stands for, in the arena; *out is NULL when
 * there is none. */
LVN_CHECKED enum lvn_status lvn_checkpoint_link(struct lvn_arena *a, const char *dir, const char *name,
                                                const char **out);
/* What of a checkpoint, here or in a store, its manifest does not name, so that levin did not write it: the first
 * file's name below it, in the arena, or NULL. LVN_FORMAT where there is no good manifest. */
LVN_CHECKED enum lvn_status lvn_checkpoint_unmanaged(struct lvn_arena *a, const char *path, const char **name);
/* The same of a whole folder of checkpoints. Nothing there is no error. */
struct lvn_checkpoints_contents {
    int n;                        /* names in it */
    bool has_manifest;            /* at least one manifest says that levin wrote it */
    const char *without_manifest; /* path of a step-N without a good manifest; NULL: none */
    const char *unmanaged;        /* path of something that levin did not write; NULL: none */
};
LVN_CHECKED enum lvn_status lvn_checkpoints_scan(struct lvn_arena *a, const char *dir,
                                                 struct lvn_checkpoints_contents *seen);
/* Removes every checkpoint, the links, and what a killed process left; nothing else. */
LVN_CHECKED enum lvn_status lvn_checkpoints_remove(const char *dir);
/* Removes all but the top_k best, last, and best. They are compared as the newest one says; those without such a score
 * come after, newest first. top_k < 0: keeps all. What has no readable manifest is left alone and not counted; what
 * holds more than levin wrote stays, which is logged. */
LVN_CHECKED enum lvn_status lvn_checkpoint_prune(const char *dir, int64_t top_k);
/* At start, before anything is written: removes what a killed process left (hidden directories), sets `last` and `best`
 * anew. Fine when dir is not there. */
LVN_CHECKED enum lvn_status lvn_checkpoint_clean(const char *dir);

/* --- reading --- */

struct lvn_checkpoint {
    struct lvn_arena arena;
    const char *path; /* of step-N */
    int64_t step;
    double val_loss;            /* NAN when it was not known */
    const char *const *skipped; /* one sentence for each newer one that is damaged or half-written */
    int n_skipped;
};
/* The newest good checkpoint of `dir`, every checksum verified; the newer ones that are not good are named in
 * `skipped`. When there is none (dir missing included): LVN_OK, and path is NULL. Close it always after LVN_OK. */
LVN_CHECKED enum lvn_status lvn_checkpoint_open_newest(struct lvn_checkpoint *c, const char *dir);
/* Of the newest step-N of `dir` that has a good manifest; nothing else of it is looked at. -1: there is none. */
LVN_CHECKED enum lvn_status lvn_checkpoint_newest_step(const char *dir, int64_t *step);
/* One certain checkpoint, verified; LVN_FORMAT with a sentence when it is not good. */
LVN_CHECKED enum lvn_status lvn_checkpoint_open(struct lvn_checkpoint *c, const char *path);
void lvn_checkpoint_close(struct lvn_checkpoint *c);

/* What people give as MODEL to the directory with config.json and model.safetensors: a run or a folder of checkpoints
 * (its `best` or `last`, as `prefer` says, or, without that, the newest good one), a checkpoint, `last` or `best`
 * itself (link or pointer file), or any directory with a config.json. Weights of a checkpoint are verified by their
 * checksums. LVN_IO with a sentence when it is none of these, LVN_FORMAT when it is damaged. */
LVN_CHECKED enum lvn_status lvn_checkpoint_locate(struct lvn_arena *a, const char *path, const char *prefer,
                                                  const char **out);

#endif

/* checkpoint.h - directories checkpoints/step-N that are complete or do not exist. Training writes them; resuming,
 * evaluation, generation and export read them.
 *
 * Writing: all files are written to a hidden directory `.step-N.tmp-PID` next to it and fsynced; `state/manifest.json`
 * with sizes and checksums of all others is last; then one rename makes it step-N, and the parent is fsynced. If step-N
 * exists, the new directory is first renamed to `.step-N.old-PID` and then exchanged with it (RENAME_EXCHANGE). Where
 * that is not supported, the former step-N is renamed to `.step-N.old-PID` and then the new directory to step-N;
 * lvn_checkpoint_clean() restores the former one after a kill between the two renames. So after a kill at any point the
 * old checkpoints, or the old ones and the new one, exist; docs/checkpoint-format.md has a table. A replaced step-N is
 * removed, or renamed if it has files that levin did not write. `last` and `best` are symbolic links, replaced by
 * rename (files with the name if links are not supported). Removal first renames to a hidden name. Reading verifies:
 * the manifest must exist, and every size and checksum must match. The caller decides which files and tensors a
 * checkpoint contains. One process creates and commits the checkpoints of a directory; other ranks may write tensors
 * into its hidden directory (see lvn_checkpoint_add_layout()). Others may read at any time. */
#ifndef LVN_CHECKPOINT_H
#define LVN_CHECKPOINT_H

#include "base/arena.h"
#include "base/status.h"
#include "formats/safetensors.h"

/* The metric by which checkpoints are compared. */
enum { LVN_SCORE_NAME = 64 };
struct lvn_checkpoint_score {
    char name[LVN_SCORE_NAME]; /* "val_accuracy" */
    bool higher;               /* higher is better */
    double value;              /* NAN: unknown */
};

/* --- writing: begin, add ..., commit --- */

struct lvn_checkpoint_writer;
/* dir: the directory of the checkpoints (created if missing). After a failure *out is NULL. */
enum lvn_status lvn_checkpoint_begin(struct lvn_checkpoint_writer **out, const char *dir, int64_t step) LVN_CHECKED;
/* Add a file. name: relative, as "config.json" or "state/state.json". The data of a source are read before the call
 * returns. The first failure is stored, further calls do nothing, and commit returns it. */
void lvn_checkpoint_add_text(struct lvn_checkpoint_writer *writer, const char *name, const void *data, int64_t bytes);
void lvn_checkpoint_add_tensors(struct lvn_checkpoint_writer *writer, const char *name,
                                const struct lvn_safetensors_source *source);
/* Add a file whose tensors other processes write to its path in the hidden directory. It is created with its header and
 * its full size. The checksums must be in `layout` before commit. */
void lvn_checkpoint_add_layout(struct lvn_checkpoint_writer *writer, const char *name,
                               const struct lvn_safetensors_layout *layout);
/* The first failure of adding files. */
enum lvn_status lvn_checkpoint_status(const struct lvn_checkpoint_writer *writer) LVN_CHECKED;
/* The hidden directory, absolute, in the arena; NULL: out of memory. */
const char *lvn_checkpoint_hidden(const struct lvn_checkpoint_writer *writer, struct lvn_arena *a);
/* Publish it as step-N (an existing step-N is replaced) and update `last`, and `best` if its score is the best so
 * far. val_loss: NAN if unknown. score: NULL, or without a name: val_loss, lower is better. Always frees the writer.
 * After a failure (LVN_IO: disk full, no permission, ...) no partial checkpoint is left and the existing ones are
 * unchanged: warn and continue. (A failure to update only the links is reported too, although step-N exists.) */
enum lvn_status lvn_checkpoint_commit(struct lvn_checkpoint_writer *writer, double val_loss,
                                      const struct lvn_checkpoint_score *score) LVN_CHECKED;
/* Replace val_loss and score in the manifest of step-N, and update `best`. No other file of the checkpoint changes, so
 * the replacement is atomic even in a store. */
enum lvn_status lvn_checkpoint_rescore(const char *dir, int64_t step, double val_loss,
                                       const struct lvn_checkpoint_score *score) LVN_CHECKED;
/* Free the writer, and remove the files of a checkpoint that was not committed. NULL: nothing. */
void lvn_checkpoint_writer_free(struct lvn_checkpoint_writer *writer);

/* --- retention --- */

/* The path of the checkpoint to which `last` or `best` in `dir` refers, in the arena; *out is NULL if there is none. */
enum lvn_status lvn_checkpoint_link(struct lvn_arena *a, const char *dir, const char *name,
                                    const char **out) LVN_CHECKED;
/* The name of the first file in a checkpoint, local or in a store, that its manifest does not list, so that levin did
 * not write it; in the arena, or NULL. LVN_FORMAT without a valid manifest. */
enum lvn_status lvn_checkpoint_unmanaged(struct lvn_arena *a, const char *path, const char **name) LVN_CHECKED;
/* The same for a whole folder of checkpoints. A missing folder is not an error. */
struct lvn_checkpoints_contents {
    int n;                        /* entries of the folder */
    bool has_manifest;            /* at least one checkpoint has a valid manifest: levin wrote here */
    const char *without_manifest; /* path of a step-N without a valid manifest; NULL: none */
    const char *unmanaged;        /* path of an entry that levin did not write; NULL: none */
};
enum lvn_status lvn_checkpoints_scan(struct lvn_arena *a, const char *dir,
                                     struct lvn_checkpoints_contents *seen) LVN_CHECKED;
/* Remove all checkpoints, the links, and leftovers of killed processes; nothing else. */
enum lvn_status lvn_checkpoints_remove(const char *dir) LVN_CHECKED;
/* Remove all checkpoints except the top_k best ones and those that `last` and `best` name. They are compared by the
 * metric that the newest one records; those without this metric rank after the others, newest first. top_k < 0: keeps
 * all. Directories without a readable manifest are neither counted nor removed. Checkpoints with files that levin did
 * not write are kept, which is logged.
 */
enum lvn_status lvn_checkpoint_prune(const char *dir, int64_t top_k) LVN_CHECKED;
/* *yes: would a checkpoint with this score be one of the top_k best ones? */
enum lvn_status lvn_checkpoint_is_among(const char *dir, int64_t top_k, const struct lvn_checkpoint_score *score,
                                        bool *yes) LVN_CHECKED;
/* At start, before anything is written: remove leftovers of a killed process (hidden directories), or rename one with
 * files that levin did not write, and repair `last` and `best`. A missing dir is not an error. UNSUPPORTED: another
 * version of levin wrote the newest checkpoint; nothing is changed. */
enum lvn_status lvn_checkpoint_clean(const char *dir) LVN_CHECKED;

/* --- reading --- */

struct lvn_checkpoint {
    struct lvn_arena arena;
    const char *path; /* path of step-N */
    int64_t step;
    double val_loss;            /* NAN: unknown */
    const char *const *skipped; /* one message for each newer checkpoint that is damaged or incomplete */
    int n_skipped;
};
/* Open the newest valid checkpoint of `dir`; all its checksums are verified, and newer invalid ones are listed in
 * `skipped`. If there is none (or no dir): LVN_OK, and path is NULL. UNSUPPORTED: one of them was written by another
 * version of levin; a run that began again would replace it. IO: the manifest of one that is newer than all valid ones
 * cannot be read now, which is no damage. Always close it after LVN_OK. */
enum lvn_status lvn_checkpoint_open_newest(struct lvn_checkpoint *checkpoint, const char *dir) LVN_CHECKED;
/* The step of the newest step-N in `dir` with a valid manifest, without further verification; -1: none. */
enum lvn_status lvn_checkpoint_newest_step(const char *dir, int64_t *step) LVN_CHECKED;
void lvn_checkpoint_close(struct lvn_checkpoint *checkpoint);

/* Resolve a MODEL argument to the directory with config.json and model.safetensors. It is a run or a folder of
 * checkpoints (then `prefer`, "best" or "last", is used, else the newest valid one), a checkpoint, `last` or `best`
 * itself (link or pointer file), or any directory with a config.json. The weights of a checkpoint are verified by their
 * checksums. LVN_IO if it is none of these, LVN_FORMAT if it is damaged. */
enum lvn_status lvn_checkpoint_locate(struct lvn_arena *a, const char *path, const char *prefer,
                                      const char **out) LVN_CHECKED;

#endif

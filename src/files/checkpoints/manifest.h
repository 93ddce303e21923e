/* manifest.h - state/manifest.json: the files of a checkpoint with sizes and checksums; private to this folder.
 *
 *     {"manifest": {"version": 2, "step", "val_loss",
 *                   "score": {"name", "mode", "value"},  (omitted if it is val_loss, lower is better)
 *                   "files": [{"path", "bytes", "sum"}, or for safetensors:
 *                             {"path", "bytes", "sum": of the header, "header_bytes",
 *                              "tensors": [[name, bytes, sum], ...]}]},
 *      "sum": of the text of "manifest" on one line}
 *
 * Sums are XXH64 in 16 hexadecimal digits. */
#ifndef LVN_MANIFEST_H
#define LVN_MANIFEST_H

#include "checkpoints/checkpoint.h"

#define LVN_MANIFEST_PATH "state/manifest.json"

struct lvn_manifest_tensor {
    const char *name;
    int64_t bytes;
    uint64_t sum;
};

struct lvn_manifest_file {
    const char *path;                   /* relative to the checkpoint */
    int64_t bytes;                      /* of the file */
    int64_t start;                      /* of the header; of the whole file if it has no tensors */
    uint64_t sum;                       /* of the first `start` bytes */
    struct lvn_manifest_tensor *tensor; /* the tensors after the header, in the order of the file */
    int n;
    bool tensors;
};

struct lvn_manifest {
    int64_t step;
    double val_loss; /* NAN: unknown */
    struct lvn_checkpoint_score score;
    struct lvn_manifest_file *file;
    int n;
};

/* Parse a manifest into the arena; `name` is used in messages. LVN_FORMAT unless sizes add up, paths remain inside and
 * the checksum matches. */
enum lvn_status lvn_manifest_parse(struct lvn_arena *a, const char *name, const char *text, int64_t bytes,
                                   struct lvn_manifest *out) LVN_CHECKED;
/* Read the manifest of a checkpoint, local or in a store. */
enum lvn_status lvn_manifest_read(struct lvn_arena *a, const char *checkpoint, struct lvn_manifest *out) LVN_CHECKED;
enum lvn_status lvn_manifest_write(const char *checkpoint, const struct lvn_manifest *manifest) LVN_CHECKED;

/* Depth of the verification: sizes; also the checksums of all files outside state/, whose files may also be missing;
 * all checksums. */
enum lvn_manifest_depth { LVN_MANIFEST_SIZES, LVN_MANIFEST_MODEL, LVN_MANIFEST_ALL };
/* LVN_FORMAT, naming the file or tensor, if one is missing or differs from what was written; LVN_IO if it cannot be
 * read. */
enum lvn_status lvn_manifest_verify(const char *checkpoint, const struct lvn_manifest *manifest,
                                    enum lvn_manifest_depth depth) LVN_CHECKED;

#endif

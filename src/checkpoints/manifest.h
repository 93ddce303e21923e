/* manifest.h - state/manifest.json: what files a checkpoint has, with sizes and checksums; private to checkpoints.
 *
 * {"manifest": {"version": 1, "step", "val_loss", "score": {"name", "mode", "value"}, left out where it is val_loss,
 * the lower the better, "files": [{"path", "bytes", "sum"} or, for safetensors,
 * {"path", "bytes", "sum": of the header, "header_bytes", "tensors": [[name, bytes, sum], ...]}]}, "sum": of the text
 * of "manifest" on one line}. Sums are XXH64 in 16 hexadecimal digits. */
#ifndef LVN_MANIFEST_H
#define LVN_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoints/checkpoint.h"

#define LVN_MANIFEST_PATH "state/manifest.json"

struct lvn_manifest_tensor {
    const char *name;
    int64_t bytes;
    uint64_t sum;
};

struct lvn_manifest_file {
    const char *path;                   /* relative to the checkpoint */
    int64_t bytes, start;               /* of the file; of the header (the whole file when it has no tensors) */
    uint64_t sum;                       /* of the first `start` bytes */
    struct lvn_manifest_tensor *tensor; /* what follows, in the order of the file */
    int n;
    bool tensors;
};

struct lvn_manifest {
    int64_t step;
    double val_loss; /* NAN when not known */
    struct lvn_checkpoint_score score;
    struct lvn_manifest_file *file;
    int n;
};

/* Everything in the arena. LVN_FORMAT when it is not a good manifest: sizes add up, paths stay inside, the sum agrees.
 */
LVN_CHECKED enum lvn_status lvn_manifest_parse(struct lvn_arena *a, const char *name, const char *text, int64_t bytes,
                                               struct lvn_manifest *out);
/* Of a checkpoint here or in a store. */
LVN_CHECKED enum lvn_status lvn_manifest_read(struct lvn_arena *a, const char *checkpoint, struct lvn_manifest *out);
LVN_CHECKED enum lvn_status lvn_manifest_write(const char *checkpoint, const struct lvn_manifest *m);

/* How much of the files is looked at: their sizes; the sums of all that is not below state/, where files may also be
 * missing; all sums. */
enum lvn_manifest_depth { LVN_MANIFEST_SIZES, LVN_MANIFEST_MODEL, LVN_MANIFEST_ALL };
/* LVN_FORMAT naming the file, and the tensor, that is missing or not what was written; LVN_IO when it cannot be read.
 */
LVN_CHECKED enum lvn_status lvn_manifest_verify(const char *checkpoint, const struct lvn_manifest *m,
                                                enum lvn_manifest_depth depth);

#endif

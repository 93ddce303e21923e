/* torch_write.h - tensors as a file that torch.load() reads: an uncompressed zip archive with a pickle of protocol 2.
 *
 * The value written is {"model": {name: tensor, ...}, "model_args": {name: number, ...}}, as checkpoints of models are
 * often kept. Left out: files beyond 4 GiB, types other than fp32, other values. */
#ifndef LVN_TORCH_WRITE_H
#define LVN_TORCH_WRITE_H

#include "formats/safetensors.h"

/* A plain value: a bool, a whole number or a real one. */
struct lvn_torch_arg {
    const char *name;
    enum { LVN_TORCH_BOOL, LVN_TORCH_INT, LVN_TORCH_REAL } kind;
    int64_t integer; /* BOOL, INT */
    double real;
};

/* Write `path` (not atomic: rename yourself), fsynced; after a failure no file is left. Items are fp32. */
LVN_CHECKED enum lvn_status lvn_torch_write(const char *path, const struct lvn_safetensors_source *model,
                                            const struct lvn_torch_arg *args, int n_args);

#endif

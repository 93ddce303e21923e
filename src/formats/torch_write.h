/* torch_write.h - tensors as a file that torch.load() reads: an uncompressed zip archive with a pickle of protocol 2.
 *
 * The value written is {"model": {name: tensor, ...}, "model_args": {name: number, ...}}, as checkpoints of models are
 * often kept, and what training goes on with where that is known: {"optimizer": the state_dict() of an AdamW with two
 * groups, of what has two dimensions or more and of the rest, "iter_num", "best_val_loss", "config": {"dataset": ...}}.
 * Left out: files beyond 4 GiB, types other than fp32, other values. */
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

/* Where training stood. The first source holds exp_avg, the second exp_avg_sq, of the same items, each parameter once
 * and in the order of its module. */
struct lvn_torch_training {
    const struct lvn_safetensors_source *moment[2];
    double lr, betas[2], eps, weight_decay, best_val_loss;
    int64_t step;
    const char *dataset;
};

/* Write `path` (not atomic: rename yourself), fsynced; after a failure no file is left. Items are fp32. */
LVN_CHECKED enum lvn_status lvn_torch_write(const char *path, const struct lvn_safetensors_source *model,
                                            const struct lvn_torch_arg *args, int n_args,
                                            const struct lvn_torch_training *training); /* NULL: not known */

#endif

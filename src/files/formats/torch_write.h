/* torch_write.h - writes tensors as a file for torch.load(): an uncompressed zip archive with a pickle of protocol 2;
 * used by `levin export`.
 *
 * The value is {"model": {name: tensor, ...}, "model_args": {name: number, ...}}, the common layout of training
 * checkpoints, and, where known, the state to resume from: {"optimizer": the state_dict() of an AdamW with two groups,
 * of the parameters with two dimensions or more and of the rest, "iter_num", "best_val_loss", "config": {"dataset":
 * ...}}. Without model_args it is {name: tensor, ...}. Not supported: files beyond 4 GiB, types other than fp32, other
 * values. */
#ifndef LVN_TORCH_WRITE_H
#define LVN_TORCH_WRITE_H

#include "formats/safetensors.h"

/* A scalar: a bool, an integer or a real number. */
struct lvn_torch_arg {
    const char *name;
    enum { LVN_TORCH_BOOL, LVN_TORCH_INT, LVN_TORCH_REAL } kind;
    int64_t integer; /* BOOL, INT */
    double real;
};

#define LVN_TORCH_OPTIMIZER "AdamW" /* the class of torch.optim whose state is in "optimizer" */

/* The state of training. moment[0] has exp_avg and moment[1] exp_avg_sq of the same items, each parameter once and in
 * the order of its module. */
struct lvn_torch_training {
    const struct lvn_safetensors_source *moment[2];
    double lr, betas[2], eps, weight_decay, best_val_loss;
    int64_t step;
    const char *dataset;
};

/* Writes `path`, fsynced. Not atomic: rename it. A failure leaves no file. Items are fp32. */
LVN_CHECKED enum lvn_status lvn_torch_write(const char *path, const struct lvn_safetensors_source *model,
                                            const struct lvn_torch_arg *args, int n_args, /* args NULL: tensors alone */
                                            const struct lvn_torch_training *training);   /* NULL: unknown */

#endif

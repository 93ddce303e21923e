/* torch_write.h - writes tensors as a file for torch.load(): an uncompressed zip archive with a pickle of protocol 2;
 * used by `levin export`.
 *
 * The value is {"model": {name: tensor, ...}, "model_args": {name: number, ...}}, the common layout of training
 * checkpoints; without model_args it is {name: tensor, ...}. Not supported: files beyond 4 GiB, types other than fp32,
 * other values. */
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

/* Write `path`, fsynced. Not atomic: rename it. A failure leaves no file. Items are fp32. */
enum lvn_status lvn_torch_write(const char *path, const struct lvn_safetensors_source *model,
                                const struct lvn_torch_arg *args, int n_args) LVN_CHECKED; /* NULL: tensors alone */

#endif

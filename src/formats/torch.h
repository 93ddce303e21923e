/* torch.h - what torch.save() wrote: plain values and tensors, read through a memory map, running nothing.
 *
 * Such a file is a zip archive (PyTorch 1.6 and later) or a stream of pickles (before). Its main pickle holds the
 * values and says of each tensor which storage it is a view of; storages are the archive's other members, or lie behind
 * the pickles. The pickle may call what makes dicts, tensors and sizes; every other function is refused by name
 * (pickle.h). Tensors are views of the mapped file: several may share a storage, and one need not be contiguous. Left
 * out: more than four dims, types without a name in base/tensor.h, quantized and sparse tensors, big-endian files.
 * (PyTorch: torch/serialization.py, torch/_utils.py.) */
#ifndef LVN_TORCH_H
#define LVN_TORCH_H

#include "base/files.h"
#include "base/tensor.h"
#include "formats/pickle.h"

struct lvn_torch {
    struct lvn_arena arena;
    const char *path;
    const struct lvn_pickle *root; /* the value that was saved */
    struct lvn_mapping map;        /* data == NULL: the caller's memory */
    struct lvn_torch_storage *storages;
};

/* Strides and offset count elements from `data`, the start of its storage, maybe unaligned; all of them lie within. */
struct lvn_torch_tensor {
    struct lvn_desc desc;
    const void *data;
};

/* Does the file begin as torch.save() begins? False for what cannot be read. */
bool lvn_torch_is_file(const char *path);
/* LVN_FORMAT, or LVN_UNSUPPORTED, with a sentence when it is not good. Nothing to close after a failure. */
LVN_CHECKED enum lvn_status lvn_torch_open(struct lvn_torch *t, const char *path);
/* The same for bytes in memory, which must outlive it. */
LVN_CHECKED enum lvn_status lvn_torch_parse(struct lvn_torch *t, const char *name, const void *data, int64_t bytes);
void lvn_torch_close(struct lvn_torch *t);
/* False when the value is no tensor. */
bool lvn_torch_tensor(const struct lvn_pickle *value, struct lvn_torch_tensor *out);

#endif

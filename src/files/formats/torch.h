/* torch.h - reads files of torch.save(): plain values and tensors, through a memory map, without executing code; used
 * by weights.h.
 *
 * Such a file is a zip archive (PyTorch 1.6 and later) or a stream of pickles (before). Its main pickle has the values,
 * and for each tensor the storage that it is a view of; storages are the other members of the archive, or follow the
 * pickles. The pickle may call the functions that build dicts, tensors and sizes; all others are refused (pickle.h).
 * Tensors are views of the mapped file: several may share a storage, and they need not be contiguous. Not supported:
 * more than four dims, types without a name in base/tensor.h, quantized and sparse tensors, big-endian files. (PyTorch:
 * torch/serialization.py, torch/_utils.py.) */
#ifndef LVN_TORCH_H
#define LVN_TORCH_H

#include "base/files.h"
#include "base/tensor.h"
#include "formats/pickle.h"

struct lvn_torch {
    struct lvn_arena arena;
    const char *path;
    const struct lvn_pickle *root; /* the saved value */
    struct lvn_mapping map;        /* data == NULL: memory of the caller */
    struct lvn_torch_storage *storages;
};

/* Strides and offset count elements from `data`, the start of the storage, which may be unaligned; all elements are
 * within the storage. */
struct lvn_torch_tensor {
    struct lvn_desc desc;
    const void *data;
};

/* True if the file begins like one of torch.save(). False if it cannot be read. */
bool lvn_torch_is_file(const char *path);
/* LVN_FORMAT or LVN_UNSUPPORTED if it is invalid. After a failure there is nothing to close. */
enum lvn_status lvn_torch_open(struct lvn_torch *torch, const char *path) LVN_CHECKED;
/* The same for bytes in memory, which must outlive the result. */
enum lvn_status lvn_torch_parse(struct lvn_torch *torch, const char *name, const void *data, int64_t bytes) LVN_CHECKED;
void lvn_torch_close(struct lvn_torch *torch);
/* False if the value is not a tensor. */
bool lvn_torch_tensor(const struct lvn_pickle *value, struct lvn_torch_tensor *out);

#endif

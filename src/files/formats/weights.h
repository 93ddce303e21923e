/* weights.h - the named tensors of a model, in any of these files; used for pretrained models (model_io).
 *
 *     model.safetensors, or several files with model.safetensors.index.json
 *     pytorch_model.bin, or several files with pytorch_model.bin.index.json (torch.save of a state_dict)
 *     ckpt.pt etc. (torch.save of a training checkpoint: a dict whose entry `model` is a state_dict)
 *     NAME.gguf (llama.cpp), or several files, of which any is named: NAME-00001-of-00003.gguf
 *
 * All are memory maps: opening reads headers only. Tensors may be unaligned, those of torch.save() need not be
 * contiguous, and those of GGUF and bitsandbytes' (model_io/bitsandbytes.h) may consist of packed blocks: read them
 * with lvn_weight_read(). */
#ifndef LVN_WEIGHTS_H
#define LVN_WEIGHTS_H

#include "formats/gguf.h"
#include "formats/pickle.h"
#include "formats/safetensors.h"
#include "packed/ggml_blocks.h"

struct lvn_weight {
    const char *name;
    const char *file; /* path of its file */
    struct lvn_desc desc;
    const void *data;          /* desc.offset and strides count elements from here */
    enum lvn_dtype packed;     /* type of the packed blocks (packed/packed.h) whose values are fp32; F32: none */
    const struct lvn_nf4 *nf4; /* the parts of a matrix of bitsandbytes in 4 bits */
    const float *row_factor;   /* of each row of a matrix in INT8_ROWS, whose `data` are its values */
};

struct lvn_weights {
    struct lvn_arena arena;
    struct lvn_weight *tensor; /* sorted by name */
    int n;
    const struct lvn_pickle *args; /* `model_args` of a training checkpoint: a dict; NULL: none */
    struct lvn_gguf *gguf;         /* the file, or the first part, if it is one of GGUF; else NULL */
    struct lvn_weights_file *file;
    int n_files;
};

/* path: one of these files or indices, or a directory with one of them. LVN_IO if it does not exist, LVN_FORMAT if it
 * is invalid. After a failure there is nothing to close. */
enum lvn_status lvn_weights_open(struct lvn_weights *weights, const char *path) LVN_CHECKED;
/* Does the directory have one of these files? */
bool lvn_weights_exist(const char *directory);
void lvn_weights_close(struct lvn_weights *weights);
/* Drop the pages of the files that were read from memory: lvn_file_map_drop(). */
void lvn_weights_evict(const struct lvn_weights *weights);
/* NULL if there is no tensor of that name. */
const struct lvn_weight *lvn_weights_find(const struct lvn_weights *weights, const char *name);
/* Copy a matrix in packed blocks to memory for lvn_blocks_bytes(), rows in the order of row_of: row r of the result
 * is row row_of[r] of the file. Those of matrices in 4 bits must keep their order. */
void lvn_weight_copy_blocks(const struct lvn_weight *weight, const int32_t *row_of, void *to);
/* Read elements [first, first + n) in row-major order as floats. */
void lvn_weight_read(const struct lvn_weight *weight, int64_t first, int64_t n, float *to);

#endif

/* safetensors.h - tensors in files: Hugging Face's safetensors format, read through a memory map, written as a stream.
 *
 * A file is 8 bytes of header length (little-endian), a JSON header {"name": {"dtype", "shape", "data_offsets"}, ...,
 * "__metadata__": {..}}, then the bytes of all tensors without gaps. Everything in a header is checked before it is
 * believed; a failure is LVN_FORMAT and names file and tensor. Reading touches only the pages that are asked for.
 * Data may be unaligned in foreign files: read them with lvn_tensor_to_f32() or memcpy. Little-endian machines only.
 * Left out: more than four dims, 4- to 8-bit floats, uint32 and uint64 (refused by name). */
#ifndef LVN_SAFETENSORS_H
#define LVN_SAFETENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/files.h"
#include "base/status.h"
#include "base/tensor.h"
#include "formats/checksum.h"

/* One tensor of an open file; lives as long as the file is open. */
struct lvn_safetensor {
    const char *name;
    const char *file; /* path of the file it lies in */
    struct lvn_desc desc;
    const void *data; /* maybe unaligned */
    int64_t bytes;
};

/* One file; formats/weights.h makes one of several. Reading from several threads is fine. */
struct lvn_safetensors {
    struct lvn_arena arena;
    struct lvn_mapping map; /* data == NULL: the caller's memory */
    const char *path;
    struct lvn_safetensor *tensor; /* sorted by name */
    int n;
};

/* LVN_IO when nothing is there, LVN_FORMAT when it is not good. Nothing to close after a failure. */
LVN_CHECKED enum lvn_status lvn_safetensors_open(struct lvn_safetensors *s, const char *path);
/* The same for bytes in memory, which must outlive it. */
LVN_CHECKED enum lvn_status lvn_safetensors_parse(struct lvn_safetensors *s, const char *name, const void *data,
                                                  int64_t bytes);
void lvn_safetensors_close(struct lvn_safetensors *s);
/* NULL when there is none of that name. */
const struct lvn_safetensor *lvn_safetensors_find(const struct lvn_safetensors *s, const char *name);

/* n elements of any floating or integer type to float (round to nearest even); src may be unaligned. */
void lvn_tensor_to_f32(enum lvn_dtype dtype, const void *src, float *dst, int64_t n);
/* n floats to F32, F64, F16 or BF16 (round to nearest even, NaN stays NaN); other types: nothing is written. */
void lvn_tensor_from_f32(enum lvn_dtype dtype, const float *src, void *dst, int64_t n);

/* --- writing --- */

struct lvn_safetensors_item {
    const char *name;
    struct lvn_desc desc; /* shape and dtype; strides are ignored: files are row-major */
    const void *data;     /* the row-major bytes; NULL: asked for through `fetch` */
};
/* Points *data to the row-major bytes of item i, good until the next call; so a model needs no second copy. */
typedef enum lvn_status lvn_safetensors_fetch(void *context, int i, const void **data);

struct lvn_safetensors_source {
    const struct lvn_safetensors_item *item;
    int n;
    const char *const (*metadata)[2]; /* key and value; NULL and 0: {"format": "pt"}, which transformers wants */
    int n_metadata;
    lvn_safetensors_fetch *fetch; /* may be NULL when every item has data */
    void *context;
    bool no_sync; /* the file is not fsynced: the caller will, with lvn_file_sync() */
};
/* Checksums of what was written, for manifests; arrays belong to the caller's arena. */
struct lvn_safetensors_sums {
    int64_t bytes;      /* of the file */
    int64_t data_start; /* bytes of the header with its length */
    uint64_t header;    /* of the first data_start bytes */
    int n;
    const char **name; /* in the order of the file */
    int64_t *tensor_bytes;
    uint64_t *tensor; /* of each tensor's bytes */
};
/* Writes `path` (not atomic: write into a fresh directory or rename yourself), fsynced. The bytes depend on names,
 * shapes, types, values and metadata alone, not on the order of the items: larger element types first, then by name, so
 * every tensor is aligned. After a failure no file is left. sums may be NULL. */
LVN_CHECKED enum lvn_status lvn_safetensors_write(const char *path, const struct lvn_safetensors_source *source,
                                                  struct lvn_arena *a, struct lvn_safetensors_sums *sums);

#endif

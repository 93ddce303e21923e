/* safetensors.h - Hugging Face's safetensors format: read through a memory map, written as a stream.
 *
 * A file is 8 bytes of header length (little-endian), a JSON header {"name": {"dtype", "shape", "data_offsets"}, ...,
 * "__metadata__": {..}}, then the bytes of all tensors without gaps. Headers are validated completely before use; a
 * failure is LVN_FORMAT with file and tensor. Reading only touches the pages that are needed. Data may be unaligned in
 * files of other programs: read them with lvn_tensor_to_f32() or memcpy. Little-endian machines only. Not supported
 * (refused): more than four dims, 4- to 8-bit floats, uint32 and uint64. */
#ifndef LVN_SAFETENSORS_H
#define LVN_SAFETENSORS_H

#include "base/arena.h"
#include "base/files.h"
#include "base/status.h"
#include "base/tensor.h"
#include "formats/checksum.h"

/* One tensor of an open file; valid while the file is open. */
struct lvn_safetensor {
    const char *name;
    const char *file; /* path of its file */
    struct lvn_desc desc;
    const void *data; /* may be unaligned */
    int64_t bytes;
};

/* One file; formats/weights.h combines several. Reading is thread-safe. */
struct lvn_safetensors {
    struct lvn_arena arena;
    struct lvn_mapping map; /* data == NULL: memory of the caller */
    const char *path;
    struct lvn_safetensor *tensor; /* sorted by name */
    int n;
};

/* LVN_IO if the file is missing, LVN_FORMAT if it is invalid. After a failure there is nothing to close. */
enum lvn_status lvn_safetensors_open(struct lvn_safetensors *file, const char *path) LVN_CHECKED;
/* The same for bytes in memory, which must outlive the file. */
enum lvn_status lvn_safetensors_parse(struct lvn_safetensors *file, const char *name, const void *data,
                                      int64_t bytes) LVN_CHECKED;
void lvn_safetensors_close(struct lvn_safetensors *file);
/* NULL if there is no tensor of that name. */
const struct lvn_safetensor *lvn_safetensors_find(const struct lvn_safetensors *file, const char *name);

/* Convert n elements of any floating or integer type to float (round to nearest even); src may be unaligned. */
void lvn_tensor_to_f32(enum lvn_dtype dtype, const void *src, float *dst, int64_t n);
/* Convert n floats to F32, F64, F16 or BF16 (round to nearest even, NaN stays NaN). Does nothing for other
 * types. */
void lvn_tensor_from_f32(enum lvn_dtype dtype, const float *src, void *dst, int64_t n);

/* --- write --- */

struct lvn_safetensors_item {
    const char *name;
    struct lvn_desc desc; /* shape and dtype; strides are ignored: files are row-major */
    const void *data;     /* row-major bytes; NULL: `fetch` provides them */
    const void *origin;   /* for the caller; may be NULL */
};
/* The order of two items in a file, as for qsort(): larger element types first, so that everything is aligned; then by
 * name. */
int lvn_safetensors_order(const struct lvn_safetensors_item *a, const struct lvn_safetensors_item *b);
/* Point *data to the row-major bytes of item i, valid until the next call; avoids a second copy of a model. */
typedef enum lvn_status lvn_safetensors_fetch(void *context, int i, const void **data);

struct lvn_safetensors_source {
    const struct lvn_safetensors_item *item;
    int n;
    const char *const (*metadata)[2]; /* key and value; NULL and 0: {"format": "pt"}, which transformers requires */
    int n_metadata;
    lvn_safetensors_fetch *fetch; /* may be NULL if every item has data */
    void *context;
    bool no_sync; /* the file is not fsynced: the caller calls lvn_file_sync() later */
};
/* Checksums of a written file, for manifests; the arrays are in the caller's arena. */
struct lvn_safetensors_sums {
    int64_t bytes;      /* of the file */
    int64_t data_start; /* length of the header, with its length field */
    uint64_t header;    /* of the first data_start bytes */
    int n;
    const char **name; /* in the order of the file */
    int64_t *tensor_bytes;
    uint64_t *tensor; /* of each tensor's bytes */
};
/* Write `path`, fsynced. Not atomic: write to a new directory, or rename. The bytes depend only on names, shapes,
 * types, values and metadata, not on the order of the items: larger element types first, then by name, so every tensor
 * is aligned. A failure leaves no file. sums may be NULL. */
enum lvn_status lvn_safetensors_write(const char *path, const struct lvn_safetensors_source *source,
                                      struct lvn_arena *a, struct lvn_safetensors_sums *sums) LVN_CHECKED;
/* The layout of the same file, for several processes that write it together. */
struct lvn_safetensors_layout {
    const char *header;               /* the first bytes of the file, sums.data_start */
    const int *item;                  /* [sums.n] number in the source of each tensor, in the order of the file */
    const int64_t *at;                /* [sums.n] offset of each tensor */
    struct lvn_safetensors_sums sums; /* those of the tensors are 0 */
};
/* `path` is its name in messages; *out is in the arena. */
enum lvn_status lvn_safetensors_lay_out(struct lvn_safetensors_layout *out, const char *path,
                                        const struct lvn_safetensors_source *source, struct lvn_arena *a) LVN_CHECKED;

/* --- several files for one model --- */

/* A source split into files; in the caller's arena. */
struct lvn_safetensors_shards {
    struct lvn_safetensors_source *part; /* [n] */
    const char **name;                   /* [n] "model-00001-of-00003.safetensors"; "model.safetensors" if n is 1 */
    int n;
    const char *index; /* the text of model.safetensors.index.json; NULL if n is 1 */
};
/* Split a source into files whose tensors have at most max_bytes, in the same order as in one file; a larger tensor
 * gets a separate file. stem: "model". The parts read from `source`, which must outlive them. */
enum lvn_status lvn_safetensors_split(struct lvn_safetensors_shards *out, struct lvn_arena *a,
                                      const struct lvn_safetensors_source *source, const char *stem,
                                      int64_t max_bytes) LVN_CHECKED;

#endif

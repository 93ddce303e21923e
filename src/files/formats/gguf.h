/* gguf.h - GGUF files, as llama.cpp reads and writes them: metadata, and tensors whose values may be packed in blocks.
 *
 * A file is "GGUF", a version, the numbers of tensors and of metadata, the metadata (key, type, value), the tensors'
 * names, shapes, types and offsets, then their data, aligned. All numbers are little-endian. Headers are validated
 * completely before use; a failure names the file and the key or tensor. Files are memory maps: reading touches only
 * the pages that are needed. formats/weights.h lists the tensors, model_io/gguf_model.h knows what the metadata mean.
 * A model may be split into several files, NAME-00001-of-00003.gguf and so on, of which the first has the metadata.
 * Not supported, and refused by name: version 1, big-endian files, lists of lists, other types of blocks.
 * (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md) */
#ifndef LVN_GGUF_H
#define LVN_GGUF_H

#include "base/arena.h"
#include "base/files.h"
#include "base/tensor.h"
#include "base/text.h"
#include "formats/safetensors.h"
#include "packed/ggml_blocks.h"

/* A type of tensors. A block holds `values` consecutive values of a row in `bytes` bytes. */
struct lvn_gguf_type {
    const char *name; /* "Q4_K" */
    int id;           /* in files */
    int values, bytes;
    enum lvn_dtype dtype; /* of the values: F32 if they are in packed blocks */
    enum lvn_dtype type;  /* of the elements: dtype, or that of the packed blocks */
    /* Write a block; NULL: levin writes numbers of dtype, or does not write this type. */
    void (*write)(const float *values, unsigned char *block);
    int file_type; /* general.file_type of a file that is mostly of this type */
};
/* By its name in any case of letters; NULL: there is none. */
const struct lvn_gguf_type *lvn_gguf_type_find(const char *name);
/* By its number in files; NULL: levin does not read it. */
const struct lvn_gguf_type *lvn_gguf_type_of(uint64_t id);
/* Can levin write it? */
bool lvn_gguf_type_is_written(const struct lvn_gguf_type *type);
/* "F32, F16, ...": all types, or those that levin writes. */
void lvn_gguf_type_names(struct lvn_text *out, bool written);
/* The name of a type that levin does not read; "of an unknown number" for others. */
const char *lvn_gguf_foreign_name(uint64_t id);

enum lvn_gguf_kind {
    LVN_GGUF_U8,
    LVN_GGUF_I8,
    LVN_GGUF_U16,
    LVN_GGUF_I16,
    LVN_GGUF_U32,
    LVN_GGUF_I32,
    LVN_GGUF_F32,
    LVN_GGUF_BOOL,
    LVN_GGUF_STRING,
    LVN_GGUF_LIST,
    LVN_GGUF_U64,
    LVN_GGUF_I64,
    LVN_GGUF_F64,
};
struct lvn_gguf_value {
    const char *key;
    enum lvn_gguf_kind kind; /* of the value, or of the items of a list */
    bool list;
    int64_t n;                 /* items; 1 if it is not a list */
    const unsigned char *data; /* the first item */
};
struct lvn_gguf_tensor {
    const char *name;
    const struct lvn_gguf_type *type;
    struct lvn_desc desc; /* the last dimension is contiguous */
    const void *data;     /* may be unaligned */
    int64_t bytes;
};
struct lvn_gguf {
    struct lvn_arena arena;
    struct lvn_mapping map; /* data == NULL: memory of the caller */
    const char *path;
    struct lvn_gguf_value *value; /* sorted by key */
    int n_values;
    struct lvn_gguf_tensor *tensor; /* sorted by name */
    int n;
};

/* True if the file begins as a GGUF file, or if its name ends in .gguf. False if it cannot be read. */
bool lvn_gguf_is_file(const char *path);
/* The path of a part, from 1 on, of the split model of which `path` is a part; *parts is their number. Any other name:
 * NULL and *parts = 1. NULL with more parts: out of memory. */
const char *lvn_gguf_part(struct lvn_arena *a, const char *path, int part, int *parts);
/* LVN_IO if the file is missing, LVN_FORMAT or LVN_UNSUPPORTED if it is invalid. After a failure there is nothing to
 * close. */
enum lvn_status lvn_gguf_open(struct lvn_gguf *file, const char *path) LVN_CHECKED;
/* The same for bytes in memory, which must outlive the file. */
enum lvn_status lvn_gguf_parse(struct lvn_gguf *file, const char *name, const void *data, int64_t bytes) LVN_CHECKED;
void lvn_gguf_close(struct lvn_gguf *file);

/* --- metadata --- */

/* NULL if there is no such key. */
const struct lvn_gguf_value *lvn_gguf_find(const struct lvn_gguf *file, const char *key);
/* The number or truth value of item i, 0 <= i < v->n; 0 for strings. */
double lvn_gguf_number(const struct lvn_gguf_value *v, int64_t i);
/* Iterate over the strings of a value: *at is v->data at first, and is advanced. The text has no NUL at its end. */
void lvn_gguf_next(const unsigned char **at, const char **text, int64_t *bytes);
/* A list of this kind; *out is NULL if there is none, which is an error if `required`. LVN_FORMAT for other values. */
enum lvn_status lvn_gguf_list(const struct lvn_gguf *file, const char *key, enum lvn_gguf_kind kind, bool required,
                              const struct lvn_gguf_value **out) LVN_CHECKED;
/* A string, copied to the file's arena; *out is NULL if there is none. LVN_FORMAT for other values, and for strings
 * that are not UTF-8 or have a NUL. */
enum lvn_status lvn_gguf_string(struct lvn_gguf *file, const char *key, bool required, const char **out) LVN_CHECKED;
/* A whole number in [low, high]; *out is unchanged if there is none. */
enum lvn_status lvn_gguf_int(const struct lvn_gguf *file, const char *key, bool required, int64_t low, int64_t high,
                             int64_t *out) LVN_CHECKED;
enum lvn_status lvn_gguf_bool(const struct lvn_gguf *file, const char *key, bool *out) LVN_CHECKED;

/* --- writing --- */

struct lvn_gguf_writer {
    struct lvn_text metadata;
    int64_t n; /* of metadata */
};
void lvn_gguf_put_int(struct lvn_gguf_writer *w, const char *key, enum lvn_gguf_kind kind, int64_t value);
void lvn_gguf_put_real(struct lvn_gguf_writer *w, const char *key, double value);
void lvn_gguf_put_string(struct lvn_gguf_writer *w, const char *key, const char *text, int64_t bytes);
/* The caller adds the n items with the functions below. */
void lvn_gguf_put_list(struct lvn_gguf_writer *w, const char *key, enum lvn_gguf_kind kind, int64_t n);
void lvn_gguf_item_string(struct lvn_gguf_writer *w, const char *text, int64_t bytes);
void lvn_gguf_item_int(struct lvn_gguf_writer *w, int32_t value);
void lvn_gguf_item_real(struct lvn_gguf_writer *w, float value);
void lvn_gguf_writer_release(struct lvn_gguf_writer *w);
/* Write `path`, fsynced: the metadata, then the source's tensors, which are fp32, in its order. A tensor of two
 * dimensions or more gets the type, or F16 if its rows are not a whole number of blocks; others stay fp32. Not atomic:
 * rename. A failure leaves no file. */
enum lvn_status lvn_gguf_write(const char *path, const struct lvn_gguf_writer *w,
                               const struct lvn_safetensors_source *source,
                               const struct lvn_gguf_type *type) LVN_CHECKED;

#endif

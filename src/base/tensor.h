/* tensor.h - the description of an array: element type, shape, strides.
 *
 * Graph, kernels, files and data share it. It owns no memory. */
#ifndef LVN_TENSOR_H
#define LVN_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name in C, name in messages, bytes, name in safetensors) */
#define LVN_DTYPE_MAP(X)                                                                                               \
    X(F32, "fp32", 4, "F32")                                                                                           \
    X(F64, "fp64", 8, "F64")                                                                                           \
    X(F16, "fp16", 2, "F16")                                                                                           \
    X(BF16, "bf16", 2, "BF16")                                                                                         \
    X(I64, "int64", 8, "I64")                                                                                          \
    X(I32, "int32", 4, "I32")                                                                                          \
    X(I16, "int16", 2, "I16")                                                                                          \
    X(U16, "uint16", 2, "U16")                                                                                         \
    X(I8, "int8", 1, "I8")                                                                                             \
    X(U8, "uint8", 1, "U8")                                                                                            \
    X(BOOL, "bool", 1, "BOOL")

/* Types of matrices that are stored in packed blocks (packed/packed.h; from Q8_0 on those of GGUF files): X(name in C,
 * name in messages). Only weights of linear layers have them. */
#define LVN_BLOCK_MAP(X)                                                                                               \
    X(NF4, "nf4")                                                                                                      \
    X(FP4, "fp4")                                                                                                      \
    X(NF4_F32, "nf4 with factors in fp32")                                                                             \
    X(FP4_F32, "fp4 with factors in fp32")                                                                             \
    X(INT8_ROWS, "int8")                                                                                               \
    X(Q8_0, "Q8_0")                                                                                                    \
    X(Q4_0, "Q4_0")                                                                                                    \
    X(Q4_1, "Q4_1")                                                                                                    \
    X(Q5_0, "Q5_0")                                                                                                    \
    X(Q5_1, "Q5_1")                                                                                                    \
    X(Q4_K, "Q4_K")                                                                                                    \
    X(Q5_K, "Q5_K")                                                                                                    \
    X(Q6_K, "Q6_K")

enum lvn_dtype {
#define LVN_X(name, text, bytes, safetensors) LVN_##name,
    LVN_DTYPE_MAP(LVN_X)
#undef LVN_X
        LVN_DTYPE_COUNT,
#define LVN_X(name, text) LVN_##name,
    LVN_BLOCK_MAP(LVN_X)
#undef LVN_X
        LVN_DTYPE_END
};

/* Bytes of an element; 0 if elements are packed in blocks. */
int64_t lvn_dtype_bytes(enum lvn_dtype dtype);
const char *lvn_dtype_name(enum lvn_dtype dtype);
/* Are elements packed in blocks? */
static inline bool lvn_dtype_is_packed(enum lvn_dtype dtype)
{
    return dtype > LVN_DTYPE_COUNT;
}

enum { LVN_MAX_RANK = 4 };

/* Element (i0, i1, ...) is `offset + i0*stride[0] + i1*stride[1] + ...` elements after the start of the buffer. */
struct lvn_desc {
    enum lvn_dtype dtype;
    int rank;
    int64_t dim[LVN_MAX_RANK];
    int64_t stride[LVN_MAX_RANK];
    int64_t offset;
};

/* A contiguous row-major description; unused dims are ignored. */
struct lvn_desc lvn_desc_make(enum lvn_dtype dtype, int rank, const int64_t *dim);
#define LVN_DESC(dtype, ...)                                                                                           \
    lvn_desc_make(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
/* Product of the dims; 1 for rank 0; -1 if it overflows int64_t or a dim is negative. */
int64_t lvn_desc_count(const struct lvn_desc *d);
/* Product of all dims but the last: a (B,T,C) tensor seen as rows of C. */
int64_t lvn_desc_rows(const struct lvn_desc *d);
/* Product of the dims from `dim` on; 1 if there is none. */
int64_t lvn_desc_count_from(const struct lvn_desc *d, int64_t dim);
/* Row-major without gaps (any offset). */
bool lvn_desc_contiguous(const struct lvn_desc *d);
bool lvn_desc_same_shape(const struct lvn_desc *a, const struct lvn_desc *b);
/* Do these views of one array have no element in common? False if it cannot be seen from shapes and strides. */
bool lvn_desc_disjoint(const struct lvn_desc *a, const struct lvn_desc *b);
/* Are the dimensions of b the last dimensions of a, but not all of them? */
bool lvn_desc_is_row(const struct lvn_desc *a, const struct lvn_desc *b);
/* Write "(12, 64, 128)" into `text`; returns text. */
enum { LVN_SHAPE_TEXT = 96 };
char *lvn_shape_text(const struct lvn_desc *d, char text[LVN_SHAPE_TEXT]);

#endif

/* ggml_blocks.h - matrices in the packed blocks of files, which are only read: those of GGUF files (llama.cpp), where a
 * block holds consecutive values of a row, and those of bitsandbytes, whose parts are where a file has them. packed.h
 * has all others. */
#ifndef LVN_GGML_BLOCKS_H
#define LVN_GGML_BLOCKS_H

#include "packed/packed.h"

/* X(name in LVN_BLOCK_MAP, reader of a block in ggml_blocks.c, number in files, values, bytes,
 * writer of a block in gguf_types.c or NULL, general.file_type of files that are mostly of this type). */
#define LVN_GGML_MAP(X)                                                                                                \
    X(Q8_0, q8_0, 8, 32, 34, write_q8_0, 7)                                                                            \
    X(Q4_0, q4_0, 2, 32, 18, NULL, 0)                                                                                  \
    X(Q4_1, q4_1, 3, 32, 20, NULL, 0)                                                                                  \
    X(Q5_0, q5_0, 6, 32, 22, NULL, 0)                                                                                  \
    X(Q5_1, q5_1, 7, 32, 24, NULL, 0)                                                                                  \
    X(Q4_K, q4_k, 12, 256, 144, NULL, 0)                                                                               \
    X(Q5_K, q5_k, 13, 256, 176, NULL, 0)                                                                               \
    X(Q6_K, q6_k, 14, 256, 210, NULL, 0)

struct lvn_ggml_block {
    int values, bytes;
    void (*read)(const unsigned char *block, float *values);
};
/* NULL: the type is none of these. */
const struct lvn_ggml_block *lvn_ggml_block(enum lvn_dtype dtype);
/* Copy a row of blocks to another row of the matrix p. */
void lvn_ggml_put(const struct lvn_blocks *b, const void *from, int64_t row, int64_t to_row, void *p);
/* Values [first, first + n) of blocks that begin at `data`. */
void lvn_ggml_read(const struct lvn_ggml_block *type, const void *data, int64_t first, int64_t n, float *to);

/* Values [first, first + n) of a matrix in nf4 or fp4, in row-major order. */
void lvn_nf4_read(const struct lvn_nf4 *x, int64_t first, int64_t n, float *to);
/* Copy all parts to the matrix p. */
void lvn_nf4_put(const struct lvn_blocks *b, const struct lvn_nf4 *from, void *p);
/* Copy a matrix in int8 to the matrix p: row r is row row_of[r]. */
void lvn_int8_put(const struct lvn_blocks *b, const int8_t *value, const float *factor, const int32_t *row_of, void *p);

/* One fp16 value as fp32. */
static inline float lvn_fp16_get(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 0) return (float)fraction * (sign ? -0x1p-24F : 0x1p-24F);
    const uint32_t bits = sign | (exponent == 31 ? 255 : exponent + 112) << 23 | fraction << 13;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#endif

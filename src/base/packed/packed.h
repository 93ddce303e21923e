/* packed.h - matrices that are stored in packed blocks (LVN_BLOCK_MAP): weights of linear layers in 4 and 8 bits.
 *
 * A matrix has `rows` rows, one for each output of the layer, as torch.nn.Linear stores it; blocks are ranges of the
 * matrix in row-major order. lvn_blocks_read() specifies the values. Kernels widen the same values, bit for bit, while
 * they pack operands (backend/cpu/blocks_cpu.h).
 *
 *     nf4    4 bits for each value, an index to a table of 16 numbers; each 64 values have a factor. Factors have 8
 *            bits: an index to a table of 256 numbers, times a number for each 256 factors, plus a number for the
 *            matrix. The arithmetic is bitsandbytes', with double quantization. (Dettmers, Pagnoni, Holtzman,
 *            Zettlemoyer, "QLoRA: Efficient finetuning of quantized LLMs", 2023) Files may also have its factors in
 *            fp32, and fp4, which is another table
 *     int8   8 bits for each value; a row has a factor, the largest absolute value / 127, as bitsandbytes' LLM.int8()
 */
#ifndef LVN_PACKED_H
#define LVN_PACKED_H

#include "base/status.h"
#include "base/tensor.h"

struct lvn_blocks {
    enum lvn_dtype dtype; /* lvn_dtype_is_packed(); else there are no blocks, and the other members are 0 */
    int64_t rows, columns;
};

/* Of the whole matrix, a multiple of 64. */
int64_t lvn_blocks_bytes(const struct lvn_blocks *b);
/* Values [column, column + n) of a row. */
void lvn_blocks_read(const struct lvn_blocks *b, const void *p, int64_t row, int64_t column, int64_t n, float *to);
/* Quantize a matrix, (rows,columns). The bits do not depend on the number of threads. MEMORY. */
enum lvn_status lvn_blocks_write(const struct lvn_blocks *b, const float *values, void *p, int threads) LVN_CHECKED;

/* The parts of a matrix in nf4 or fp4, for kernels: scale, or map, offset, group and factor. */
enum { LVN_NF4_BLOCK = 64, LVN_NF4_GROUP = 256, LVN_NF4_CODES = 16, LVN_NF4_FACTORS = 256 };
struct lvn_nf4 {
    float *code;     /* [16] */
    float *scale;    /* for each 64 values, in fp32; NULL: factors have 8 bits */
    float *map;      /* [256] */
    float *offset;   /* [1] */
    float *group;    /* for each 256 factors */
    uint8_t *factor; /* for each 64 values */
    uint8_t *value;  /* two values each, the first in the upper half */
};
struct lvn_nf4 lvn_nf4_of(const struct lvn_blocks *b, const void *p);
static inline bool lvn_dtype_is_nf4(enum lvn_dtype dtype)
{
    return dtype >= LVN_NF4 && dtype <= LVN_FP4_F32;
}
static inline float lvn_nf4_factor(const struct lvn_nf4 *x, int64_t block)
{
    if (x->scale) return x->scale[block];
    return x->map[x->factor[block]] * x->group[block / LVN_NF4_GROUP] + x->offset[0];
}
/* The factors of the rows of a matrix in int8; its values are the first in memory. */
const float *lvn_int8_factors(const struct lvn_blocks *b, const void *p);
static inline float lvn_int8_value(int8_t value, float factor)
{
    return (float)value * factor * (float)(1.0 / 127.0);
}

#endif

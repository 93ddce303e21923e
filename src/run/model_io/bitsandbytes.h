/* bitsandbytes.h - matrices that bitsandbytes has quantized to 4 bits, in safetensors files.
 *
 * Instead of a matrix NAME the file has its values, NAME (uint8: two of 4 bits each), and
 *
 *     NAME.quant_state.bitsandbytes__nf4   JSON as uint8: shape, size of blocks, offset of the factors
 *     NAME.quant_map                       fp32 (16): the number of each code
 *     NAME.absmax                          uint8: the factor of each block of 64 values, quantized
 *     NAME.nested_quant_map                fp32 (256): the number of each quantized factor
 *     NAME.nested_absmax                   fp32: the factor of each 256 quantized factors
 *
 * (packed/packed.h has the arithmetic.) Refused by name: fp4, factors that are not quantized themselves, other sizes of
 * blocks, matrices of LLM.int8(). */
#ifndef LVN_BITSANDBYTES_H
#define LVN_BITSANDBYTES_H

#include "formats/weights.h"

/* Replaces such tensors of a list that is sorted by name by the matrices that they describe, in NF4. Tables are copied
 * to the arena; values stay where they are. FORMAT or UNSUPPORTED, with tensor and file. */
LVN_CHECKED enum lvn_status lvn_bitsandbytes_join(struct lvn_arena *a, struct lvn_weight *tensor, int *n);

#endif

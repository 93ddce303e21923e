/* bitsandbytes.h - matrices that bitsandbytes has quantized to 4 or 8 bits, in safetensors files.
 *
 * Instead of a matrix NAME in 4 bits the file has its values, NAME (uint8: two of 4 bits each), and
 *
 *     NAME.quant_state.bitsandbytes__nf4   JSON as uint8: shape, size of blocks, offset of the factors; or ..._fp4
 *     NAME.quant_map                       fp32 (16): the number of each code
 *     NAME.absmax                          fp32: the factor of each block of 64 values; or, with double quantization,
 *     NAME.absmax                          uint8: the same, quantized
 *     NAME.nested_quant_map                fp32 (256): the number of each quantized factor
 *     NAME.nested_absmax                   fp32: the factor of each 256 quantized factors
 *
 * Of a matrix in 8 bits (LLM.int8()) it has NAME.weight (int8), NAME.SCB (fp32: the factor of each row) and
 * NAME.weight_format (0). (packed/packed.h has the arithmetic.) Other sizes of blocks are refused by name. */
#ifndef LVN_BITSANDBYTES_H
#define LVN_BITSANDBYTES_H

#include "formats/weights.h"

/* Replace such tensors of a list that is sorted by name by the matrices that they describe. Tables are copied to
 * the arena; values stay where they are. FORMAT or UNSUPPORTED, with tensor and file. */
enum lvn_status lvn_bitsandbytes_join(struct lvn_arena *a, struct lvn_weight *tensor, int *n) LVN_CHECKED;

#endif

/* loss_chunk.h - the number of rows for which linear_cross_entropy computes logits and loss at a time.
 *
 * Kernels cut a batch into multiples of it. The engine uses it too, where it counts the partial sums of a gradient. */
#ifndef LVN_LOSS_CHUNK_H
#define LVN_LOSS_CHUNK_H

enum { LVN_LOSS_CHUNK = 512 };

#endif

/* loss_chunk.h - the number of rows for which linear_cross_entropy computes logits and loss at a time.
 *
 * Kernels divide a batch into multiples of it. The engine uses it to count the partial sums of a gradient. */
#ifndef LVN_LOSS_CHUNK_H
#define LVN_LOSS_CHUNK_H

enum { LVN_LOSS_CHUNK = 512 };

#endif

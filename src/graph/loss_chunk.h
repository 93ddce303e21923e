/* loss_chunk.h - the rows that a head and its loss are made in at once come in multiples of these. Kernels cut by it,
 * and whoever counts the pieces that a gradient is summed from counts by it too. */
#ifndef LVN_LOSS_CHUNK_H
#define LVN_LOSS_CHUNK_H

enum { LVN_LOSS_CHUNK = 512 };

#endif

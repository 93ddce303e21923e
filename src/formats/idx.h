/* idx.h - arrays of bytes as the MNIST database has them, plain or compressed.
 *
 * LeCun, Cortes, Burges: "The MNIST database of handwritten digits": two zero bytes, 8 for unsigned bytes, the number
 * of dimensions, each dimension as a big-endian 32-bit number, then the elements in row-major order. */
#ifndef LVN_IDX_H
#define LVN_IDX_H

#include <stdint.h>

#include "base/status.h"

enum { LVN_IDX_RANK = 4 };
struct lvn_idx {
    unsigned char *file;       /* the whole of it; the array's own */
    const unsigned char *data; /* its elements */
    int rank;
    int64_t dim[LVN_IDX_RANK];
};

/* FORMAT where the file is no such array, holds other elements than bytes, or more or fewer of them than it says.
 * gzip, xz, zstd and bzip2 are seen by the bytes. Release it after LVN_OK. */
LVN_CHECKED enum lvn_status lvn_idx_read(struct lvn_idx *x, const char *path);
void lvn_idx_release(struct lvn_idx *x);

#endif

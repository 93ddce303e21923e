/* idx.h - arrays of bytes in the IDX format of the MNIST database, plain or compressed; used by the mnist dataset.
 *
 * LeCun, Cortes, Burges: "The MNIST database of handwritten digits": two zero bytes, 8 for unsigned bytes, the number
 * of dimensions, each dimension as a big-endian 32-bit number, then the elements in row-major order. */
#ifndef LVN_IDX_H
#define LVN_IDX_H

#include "base/status.h"

enum { LVN_IDX_RANK = 4 };
struct lvn_idx {
    unsigned char *file;       /* the whole file; owned by the array */
    const unsigned char *data; /* its elements */
    int rank;
    int64_t dim[LVN_IDX_RANK];
};

/* LVN_FORMAT if the file is not an IDX file or its size does not match its dimensions, LVN_UNSUPPORTED if its elements
 * are not bytes. gzip, xz, zstd and bzip2 are recognized by their content. Release it after LVN_OK. */
enum lvn_status lvn_idx_read(struct lvn_idx *idx, const char *path) LVN_CHECKED;
void lvn_idx_release(struct lvn_idx *idx);

#endif

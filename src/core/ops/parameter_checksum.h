/* parameter_checksum.h - the two sums of parameter_checksum.c, for its CPU kernels. */
#ifndef LVN_PARAMETER_CHECKSUM_H
#define LVN_PARAMETER_CHECKSUM_H

#include <stdint.h>
#include <string.h>

struct lvn_checksum_sums {
    uint64_t plain;
    uint64_t weighted;
};

/* The factor of element i in the weighted sum, distinct within 2^32 consecutive elements. */
static inline uint32_t lvn_checksum_factor(int64_t i)
{
    return (uint32_t)i * UINT32_C(0x9e3779b9);
}

/* The four int32 of an output. */
static inline void lvn_checksum_put(const struct lvn_checksum_sums *s, void *out)
{
    memcpy(out, s, sizeof *s);
}

#endif

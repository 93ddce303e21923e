/* rotary_table.h - the frequency of each pair of channels, scaled by attr.rotary_table.scaling (graph/rotary.h); for
 * all kernels of rotary_table. */
#ifndef LVN_ROTARY_TABLE_H
#define LVN_ROTARY_TABLE_H

#include "graph/op.h"
#include "graph/rotary.h"

#define LVN_TWO_PI 6.28318530717958647693

/* The pair of channels, as a real number, that rotates `rotations` times within the original positions. */
static inline double lvn_rotary_pair_of(const union lvn_attr *attr, double rotations)
{
    double pair = (double)attr->rotary_table.dims * log(attr->rotary_table.original / (rotations * LVN_TWO_PI));
    return pair / (2 * log(attr->rotary_table.theta));
}

static inline double lvn_rotary_between_0_and_1(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* The fraction of frequency i that is not scaled; the rest is divided by factor. */
static inline double lvn_rotary_unscaled_fraction(const union lvn_attr *attr, int64_t i, double frequency)
{
    const double low = attr->rotary_table.low, high = attr->rotary_table.high;
    const double dims = (double)attr->rotary_table.dims;
    double rotations = frequency * attr->rotary_table.original / LVN_TWO_PI, first, last;
    switch (attr->rotary_table.scaling) {
    case LVN_ROTARY_LINEAR:
        return 0;
    case LVN_ROTARY_YARN:
        first = lvn_rotary_pair_of(attr, high), last = lvn_rotary_pair_of(attr, low);
        if (attr->rotary_table.whole) first = floor(first), last = ceil(last);
        first = first < 0 ? 0 : first;
        last = last > dims - 1 ? dims - 1 : last;
        return 1 - lvn_rotary_between_0_and_1(((double)i - first) / (first == last ? 0.001 : last - first));
    case LVN_ROTARY_LLAMA3:
        return lvn_rotary_between_0_and_1((rotations - low) / (high - low));
    default:
        return 1;
    }
}

/* Frequency of pair i, in radians per position. */
static inline double lvn_rotary_frequency(const union lvn_attr *attr, int64_t i)
{
    double frequency = pow(attr->rotary_table.theta, -2.0 * (double)i / (double)attr->rotary_table.dims);
    double unscaled = lvn_rotary_unscaled_fraction(attr, i, frequency);
    return unscaled < 1 ? frequency * unscaled + frequency / attr->rotary_table.factor * (1 - unscaled) : frequency;
}

#endif

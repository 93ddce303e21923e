/* rotary_table.h - the frequency of each pair of channels, scaled as attr.rotary_table says: see rotary_table.c. */
#ifndef LVN_ROTARY_TABLE_H
#define LVN_ROTARY_TABLE_H

#include <math.h>

#include "graph/op.h"
#include "graph/rotary.h"

#define LVN_TWO_PI 6.28318530717958647693

/* Which pair of channels turns `turns` times within the original positions. */
static inline double lvn_rotary_pair_of(const union lvn_attr *attr, double turns)
{
    double pair = (double)attr->rotary_table.dims * log(attr->rotary_table.original / (turns * LVN_TWO_PI));
    return pair / (2 * log(attr->rotary_table.theta));
}

static inline double lvn_rotary_between_0_and_1(double x)
{
    return x < 0 ? 0 : x > 1 ? 1 : x;
}

/* The share of frequency i that stays as it is; the rest is divided by factor. */
static inline double lvn_rotary_share_kept(const union lvn_attr *attr, int64_t i, double frequency)
{
    const double low = attr->rotary_table.low, high = attr->rotary_table.high;
    const double dims = (double)attr->rotary_table.dims;
    double turns = frequency * attr->rotary_table.original / LVN_TWO_PI, first, last;
    switch (attr->rotary_table.scaling) {
    case LVN_ROTARY_LINEAR:
        return 0;
    case LVN_ROTARY_YARN:
        first = lvn_rotary_pair_of(attr, low), last = lvn_rotary_pair_of(attr, high);
        if (attr->rotary_table.whole) first = floor(first), last = ceil(last);
        first = first < 0 ? 0 : first;
        last = last > dims - 1 ? dims - 1 : last;
        return 1 - lvn_rotary_between_0_and_1(((double)i - first) / (first == last ? 0.001 : last - first));
    case LVN_ROTARY_LLAMA3:
        return lvn_rotary_between_0_and_1((turns - low) / (high - low));
    default:
        return 1;
    }
}

static inline double lvn_rotary_frequency(const union lvn_attr *attr, int64_t i)
{
    double frequency = pow(attr->rotary_table.theta, -2.0 * (double)i / (double)attr->rotary_table.dims);
    double kept = lvn_rotary_share_kept(attr, i, frequency);
    return kept < 1 ? frequency * kept + frequency / attr->rotary_table.factor * (1 - kept) : frequency;
}

#endif

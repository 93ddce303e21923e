/* regression_sums.h - exact sums of products of fp32 numbers, as limbs that are whole numbers: what
 * ops/regression_sums.c writes and metrics/metric.c reads.
 *
 * A sum is a number in base 2^LVN_LIMB_BITS with LVN_LIMBS digits, the first one worth 2^LVN_LIMB_LOWEST; digits may be
 * negative and large, and are not carried. Every product of two fp32 numbers fits exactly. Digits are added apart, as
 * whole numbers in fp64, which is exact up to 2^28 samples: so sums do not depend on the order of samples, nor on how
 * ranks, micro-batches and threads divide them. */
#ifndef LVN_REGRESSION_SUMS_H
#define LVN_REGRESSION_SUMS_H

enum { LVN_LIMB_BITS = 24, LVN_LIMBS = 24, LVN_LIMB_LOWEST = -312 };
/* The sums, over samples with prediction p and target t. */
enum lvn_regression_sum {
    LVN_SUM_T,   /* t */
    LVN_SUM_TT,  /* t t */
    LVN_SUM_P,   /* p */
    LVN_SUM_PP,  /* p p */
    LVN_SUM_PT,  /* p t */
    LVN_SUM_ABS, /* |p - t| */
    LVN_SUM_COUNT
};
/* Elements of the operation's output: the number of samples, then the limbs of each sum. */
enum { LVN_REGRESSION_SUMS_SIZE = 1 + LVN_SUM_COUNT * LVN_LIMBS };

#endif

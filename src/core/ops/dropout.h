/* dropout.h - the mask of dropout, for the plain kernels of dropout and residual_layernorm.
 *
 * Srivastava et al.: "Dropout" (JMLR 2014), inverted: retained values are multiplied by 1 / (1 - rate), so evaluation
 * needs no factor. The mask is a function of (seed, step, operation, position in the global batch, row within the
 * sample, channel). So backward recomputes it, and it does not depend on the split of the batch. The rate is p rounded
 * to a multiple of 1/65536, and the factor is that of the rounded rate. */
#ifndef LVN_DROPOUT_H
#define LVN_DROPOUT_H

#include "ops/real.h"

#include "base/random.h"

struct lvn_dropout {
    struct lvn_dropout_key key;
    uint32_t threshold; /* rate * 65536; 0: dropout is off */
    uint64_t first_row; /* number of the tensor's first row in the global batch */
    double scale;       /* factor of the retained elements */
};

/* For a tensor (samples,...,C) with this descriptor. Off outside of training. */
static inline struct lvn_dropout lvn_dropout_make(const struct lvn_call *call, const struct lvn_desc *d, double p)
{
    uint32_t threshold = call->step->training ? lvn_dropout_threshold(p) : 0;
    if (threshold == 0) return (struct lvn_dropout){.scale = 1};
    uint64_t rows_per_sample = (uint64_t)(lvn_desc_rows(d) / d->dim[0]);
    return (struct lvn_dropout){
        .key = {.seed = call->step->seed, .step = (uint64_t)call->step->step, .op = call->op_hash},
        .threshold = threshold,
        .first_row = (uint64_t)call->step->first_row * rows_per_sample,
        .scale = threshold < 65536 ? 1 / (1 - threshold / 65536.0) : 0,
    };
}

/* Factor of element (row, column) of the tensor: 0 or the scale. */
static inline double lvn_dropout_factor(const struct lvn_dropout *d, int64_t row, int64_t column)
{
    if (d->threshold == 0) return 1;
    uint32_t bits = lvn_dropout_bits(&d->key, d->first_row + (uint64_t)row, (uint32_t)column);
    return bits >= d->threshold ? d->scale : 0;
}

#endif

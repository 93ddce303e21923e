/* step.h - what changes at every step.
 *
 * One small struct lies on the device; kernels read it by pointer. So a captured step stays valid while the learning
 * rate moves, and neither clipping nor the check for non-finite gradients waits for the host. */
#ifndef LVN_STEP_H
#define LVN_STEP_H

#include <stdint.h>

struct lvn_step {
    /* written by the host before the step */
    uint64_t seed;
    int64_t step;      /* optimizer steps done before this one: 0, 1, ... */
    double lr;         /* learning rate of this step */
    double grad_scale; /* 1 / number of valid labels of the whole global batch: what the loss kernels seed with */
    int64_t first_row; /* position in the global batch of this micro-batch's first sample */
    int64_t position;  /* decoding: how many tokens the key/value cache holds already */
    int32_t add_grads; /* 0: parameter gradients overwrite (first micro-batch); 1: they add */
    int32_t training;  /* 0: dropout passes through */
    /* written by the update instructions */
    double grad_norm; /* global 2-norm of the gradient before clipping */
    double
        clip_scale; /* what the optimizer multiplies the gradient with; 0 and no update when the norm is not finite */
};

#endif

/* step.h - arguments and results of a step: two small structs in device memory.
 *
 * The trainer and the sampler write struct lvn_step before each run, kernels read both structs by pointer, and the host
 * reads struct lvn_result after the run. So a captured step (a CUDA graph) stays valid while the learning rate changes,
 * and neither clipping nor the check for non-finite gradients waits for the host. Data are bound as inputs of the
 * program. */
#ifndef LVN_STEP_H
#define LVN_STEP_H

#include <stdint.h>

enum { LVN_DECODE_ROWS = 8 }; /* maximum batch size of decoding */

struct lvn_step {
    uint64_t seed;
    int64_t step;      /* optimizer steps done before this one: 0, 1, ... */
    double lr;         /* learning rate of this step */
    double grad_scale; /* 1 / number of valid labels of the global batch, the gradient of each label's loss; 0: there
                          are no labels, and the optimizer changes nothing */
    int64_t unlabeled; /* earlier steps whose batch had no label */
    int64_t first_row; /* position in the global batch of this micro-batch's first sample */
    int64_t end_row;   /* samples of the global batch from this position on are padding; 0: no padding */
    int32_t position[LVN_DECODE_ROWS]; /* decoding: number of tokens in each row's key/value cache */
    int32_t training;                  /* 0: dropout is off */
};

/* Position of the first token of row b; nonzero only while decoding. */
static inline int64_t lvn_step_position(const struct lvn_step *s, int64_t b)
{
    return s && b < LVN_DECODE_ROWS ? s->position[b] : 0;
}

/* State of the loss scale in 16-mixed (passes/loss_scaling.c). It stays in device memory between steps; the host reads
 * it and stores it in checkpoints. The rule is the default of torch.amp.GradScaler
 * (https://docs.pytorch.org/docs/stable/amp.html): start at 65536; halve and skip the step after a non-finite gradient;
 * double after 2,000 steps without one. */
struct lvn_scaling {
    double scale;        /* factor of the next step's loss: a power of two */
    double finite_steps; /* consecutive steps with finite gradients since the scale last changed */
    double skipped;      /* steps of the run without an update */
};
enum {
    LVN_SCALING_FIELDS = 3,    /* fields of struct lvn_scaling */
    LVN_SCALING_START = 65536, /* the first scale */
    LVN_SCALING_EVERY = 2000   /* finite steps after which the scale doubles */
};
#define LVN_SCALING_MIN 0x1p-10 /* if gradients are not finite at a smaller scale, the scale is not the cause */

/* Results of a step, read by the host once after the step. In device memory the sums of each micro-batch (losses,
 * metrics) follow. */
struct lvn_result {
    double grad_norm;  /* global 2-norm of the gradient before clipping */
    double clip_scale; /* factor applied to gradients by the optimizer; 0: no update, because the norm is not finite or
                          the batch has no label */
    struct lvn_scaling scaling; /* after the step; all zero without loss scaling */
};

/* The gradient norm is summed over blocks of this many elements, from the start of the flat buffer (ops/grad_norm.c).
 * Shards begin and end at block boundaries. */
enum { LVN_NORM_BLOCK = 4096 };
static inline int64_t lvn_norm_blocks(int64_t n)
{
    return (n + LVN_NORM_BLOCK - 1) / LVN_NORM_BLOCK;
}

/* Number of rows of a micro-batch that are samples; the remaining rows are padding. */
static inline int64_t lvn_step_rows(const struct lvn_step *s, int64_t rows)
{
    int64_t samples = s->end_row - s->first_row;
    if (!s->end_row || samples > rows) return rows;
    return samples < 0 ? 0 : samples;
}

#endif

/* step.h - the arguments of a step, and its results: two small structs in the device's memory.
 *
 * The trainer and the sampler write struct lvn_step before each run, kernels read both structs by pointer, and the host
 * reads struct lvn_result after the run. So a captured step (a CUDA graph) stays valid while the learning rate changes,
 * and neither clipping nor the check for non-finite gradients waits for the host.
 *
 * Left out: data, which is bound as inputs of the program. */
#ifndef LVN_STEP_H
#define LVN_STEP_H

#include <stdint.h>

enum { LVN_DECODE_ROWS = 8 }; /* maximum batch size of decoding */

struct lvn_step {
    uint64_t seed;
    int64_t step;      /* optimizer steps done before this one: 0, 1, ... */
    double lr;         /* learning rate of this step */
    double grad_scale; /* 1 / number of valid labels of the global batch: the gradient of each label's loss */
    int64_t first_row; /* position in the global batch of this micro-batch's first sample */
    int64_t end_row;   /* samples of the global batch from this one on are padding; 0: none is */
    int32_t position[LVN_DECODE_ROWS]; /* decoding: tokens of each row that the key/value cache holds */
    int32_t training;                  /* 0: dropout is off */
};

/* Position of the first token of row b: above 0 only while decoding. */
static inline int64_t lvn_step_position(const struct lvn_step *s, int64_t b)
{
    return s && b < LVN_DECODE_ROWS ? s->position[b] : 0;
}

/* State of the loss scale in 16-mixed (passes/loss_scaling.c). It stays in the device's memory between steps; the host
 * reads it, and stores it in checkpoints. The rule is the default of torch.amp.GradScaler
 * (https://docs.pytorch.org/docs/stable/amp.html): start at 65536; halve after a gradient that is not finite, and skip
 * that step; double after 2,000 steps without one. */
struct lvn_scaling {
    double scale;   /* factor of the next step's loss: a power of two */
    double good;    /* steps with a finite gradient since the scale last changed */
    double skipped; /* steps of the run without an update */
};
enum {
    LVN_SCALING_NUMBERS = 3,   /* fields of struct lvn_scaling */
    LVN_SCALING_START = 65536, /* the first scale */
    LVN_SCALING_EVERY = 2000   /* good steps after which the scale doubles */
};
#define LVN_SCALING_MIN 0x1p-10 /* if gradients are not finite below this scale, the scale is not the cause */

/* Results of a step, which the host reads once after it. In the device's memory the sums of each micro-batch (losses,
 * metrics) follow. */
struct lvn_result {
    double grad_norm;           /* global 2-norm of the gradient before clipping */
    double clip_scale;          /* factor of the gradient in the optimizer; 0: the norm is not finite, no update */
    struct lvn_scaling scaling; /* after the step; all zero if the loss is not scaled */
};

/* Elements of the blocks over which the gradient's norm is summed, from the start of the flat buffer (ops/grad_norm.c).
 * Shards begin and end between blocks. */
enum { LVN_NORM_BLOCK = 4096 };
static inline int64_t lvn_norm_blocks(int64_t n)
{
    return (n + LVN_NORM_BLOCK - 1) / LVN_NORM_BLOCK;
}

/* Number of a micro-batch's rows that are samples; the rows after them are padding. */
static inline int64_t lvn_step_rows(const struct lvn_step *s, int64_t rows)
{
    int64_t samples = s->end_row - s->first_row;
    if (!s->end_row || samples > rows) return rows;
    return samples < 0 ? 0 : samples;
}

#endif

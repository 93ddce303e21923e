/* step.h - what changes at every step, and what a step gives back.
 *
 * Two small structs lie on the device; kernels read and write them by pointer. So a captured step stays valid while the
 * learning rate moves, and neither clipping nor the check for non-finite gradients waits for the host. */
#ifndef LVN_STEP_H
#define LVN_STEP_H

#include <stdint.h>

enum { LVN_DECODE_ROWS = 8 }; /* most rows that decode together */

struct lvn_step {
    uint64_t seed;
    int64_t step;      /* optimizer steps done before this one: 0, 1, ... */
    double lr;         /* learning rate of this step */
    double grad_scale; /* 1 / number of valid labels of the whole global batch: what the loss kernels seed with */
    int64_t first_row; /* position in the global batch of this micro-batch's first sample */
    int64_t end_row; /* samples of the global batch from here on only fill it up and count nothing; 0: there are none */
    int32_t position[LVN_DECODE_ROWS]; /* decoding: how many tokens of each row the key/value cache holds already */
    int32_t training;                  /* 0: dropout passes through */
};

/* Where row b of a batch begins. Only what decodes begins elsewhere than at 0. */
static inline int64_t lvn_step_position(const struct lvn_step *s, int64_t b)
{
    return s && b < LVN_DECODE_ROWS ? s->position[b] : 0;
}

/* The scale of the loss in 16-mixed (passes/loss_scaling.c), and how it came to it: numbers of the device's memory that
 * live between steps, which the processor only reads and keeps in checkpoints. As torch.amp.GradScaler has it by
 * default (https://docs.pytorch.org/docs/stable/amp.html): 65536 at the start, half of it after a gradient that is not
 * finite, whose step is skipped, twice as much after 2,000 steps without one. */
struct lvn_scaling {
    double scale;   /* what the next step multiplies its loss with: a power of two */
    double good;    /* steps with a finite gradient since it last changed */
    double skipped; /* steps of the run that changed nothing */
};
enum { LVN_SCALING_NUMBERS = 3, LVN_SCALING_START = 65536, LVN_SCALING_EVERY = 2000 };
#define LVN_SCALING_MIN 0x1p-10 /* where even less would be wanted, it is not the scale that is wrong */

/* What a step gives back: one small block of the device's memory, read once after the step. Behind it lie the sums of
 * each micro-batch: losses, metrics. */
struct lvn_result {
    double grad_norm; /* global 2-norm of the gradient before clipping */
    double
        clip_scale; /* what the optimizer multiplies the gradient with; 0 and no update when the norm is not finite */
    struct lvn_scaling scaling; /* as the step left it; all zero where the loss is not scaled */
};

/* The gradient's norm sums over blocks of so many elements, from the start of the flat buffer (ops/grad_norm.c); shards
 * are cut between them. */
enum { LVN_NORM_BLOCK = 4096 };
static inline int64_t lvn_norm_blocks(int64_t n)
{
    return (n + LVN_NORM_BLOCK - 1) / LVN_NORM_BLOCK;
}

/* How many of a micro-batch's rows are samples; those behind them fill it up. */
static inline int64_t lvn_step_rows(const struct lvn_step *s, int64_t rows)
{
    int64_t there = s->end_row - s->first_row;
    if (!s->end_row || there > rows) return rows;
    return there < 0 ? 0 : there;
}

#endif

/* training.h - the tasks of a training run, planned from settings: what `train` runs, `bench` times and `plan` shows.
 */
#ifndef LVN_TRAINING_H
#define LVN_TRAINING_H

#include "train/network.h"
#include "train/sampler.h"

struct lvn_settings;

struct lvn_training {
    const struct lvn_settings *settings;
    int64_t block_size;
    int64_t micro, accumulation; /* sequences run at once; micro-batches of a step */
    struct lvn_optimizer optimizer;
    struct lvn_network *network;
    struct lvn_task *step, *eval; /* eval: NULL without validation */
    struct lvn_sampler *sampler;  /* NULL where no samples are asked for */
};

/* Plan for the whole batch at once, or, where this machine's memory does not hold it and trainer.micro_batch_size is
 * not given, for the largest parts that it holds. Allocates no buffers: lvn_network_allocate() does. Release it always.
 */
enum lvn_status lvn_training_plan(struct lvn_training *t, const struct lvn_settings *s,
                                  const struct lvn_model_config *c, int64_t block_size, bool validate) LVN_CHECKED;
void lvn_training_release(struct lvn_training *t);
/* One optimizer step on the ids and labels of t->step. `step` counts from 0. Returns the mean loss; the gradient's norm
 * is in t->step->step.grad_norm. When either is not finite, no parameter has changed. */
double lvn_training_step(struct lvn_training *t, int64_t step, double lr);

#endif

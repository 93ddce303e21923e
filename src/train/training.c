/* training.c - see training.h. */
#include "train/training.h"

#include "base/machine.h"
#include "data/dataset.h"
#include "train/settings.h"

static struct lvn_optimizer optimizer_of(const struct lvn_settings *s)
{
    static const int kind[] = {[LVN_OPTIMIZER_KIND_ADAMW] = LVN_ADAMW,
                               [LVN_OPTIMIZER_KIND_ADAM] = LVN_ADAM,
                               [LVN_OPTIMIZER_KIND_SGD] = LVN_SGD};
    bool by_norm = s->trainer.gradient_clip_algorithm == LVN_TRAINER_CLIP_NORM;
    struct lvn_optimizer o = {.beta1 = s->optimizer.betas[0],
                              .beta2 = s->optimizer.betas[1],
                              .momentum = s->optimizer.betas[0],
                              .eps = s->optimizer.eps,
                              .weight_decay = s->optimizer.weight_decay,
                              .clip_norm = by_norm ? s->trainer.gradient_clip_val : 0.0,
                              .clip_value = by_norm ? 0.0 : s->trainer.gradient_clip_val};
    o.kind = kind[s->optimizer.kind];
    return o;
}

static enum lvn_status plan_once(struct lvn_training *t, const struct lvn_model_config *c, bool validate)
{
    const struct lvn_settings *s = t->settings;
    struct lvn_network_options network = {
        .real = LVN_F32, .threads = (int)s->trainer.threads, .decay = (enum lvn_decay)s->optimizer.decay};
    LVN_TRY(lvn_network_new(&t->network, c, &network));
    t->accumulation = s->trainer.batch_size / t->micro;
    struct lvn_task_options o = {.B = t->micro, .T = t->block_size, .n_micro = t->accumulation, .with_loss = true};
    if (validate) LVN_TRY(lvn_task_new(&t->eval, t->network, &o));
    o.train = true;
    o.deterministic = s->trainer.deterministic;
    o.recompute = (enum lvn_recompute)s->trainer.recompute;
    o.optimizer = &t->optimizer;
    LVN_TRY(lvn_task_new(&t->step, t->network, &o));
    if (s->sample.every_n_steps) LVN_TRY(lvn_sampler_new(&t->sampler, t->network, t->block_size));
    return LVN_OK;
}

/* The next smaller divisor of the batch; false: there is none. */
static bool smaller_micro(struct lvn_training *t)
{
    int64_t micro = t->micro - 1;
    while (micro > 0 && t->settings->trainer.batch_size % micro) micro--;
    if (micro < 1) return false;
    t->micro = micro;
    return true;
}

static void forget_plan(struct lvn_training *t)
{
    lvn_sampler_free(t->sampler);
    lvn_network_free(t->network);
    t->network = NULL;
    t->sampler = NULL;
    t->step = t->eval = NULL;
}

enum lvn_status lvn_training_plan(struct lvn_training *t, const struct lvn_settings *s,
                                  const struct lvn_model_config *c, int64_t block_size, bool validate)
{
    int64_t given = s->trainer.micro_batch_size, room = lvn_memory_available();
    *t = (struct lvn_training){.settings = s, .block_size = block_size, .optimizer = optimizer_of(s)};
    t->micro = given ? given : s->trainer.batch_size;
    for (;;) {
        LVN_TRY(plan_once(t, c, validate));
        bool fits = room <= 0 || lvn_network_bytes(t->network) <= room;
        /* Smaller parts do not help a model that is itself too large. */
        bool hopeless = lvn_network_bytes(t->network) - t->network->bytes[LVN_BUFFER_ARENA] > room;
        if (given || fits || hopeless || !smaller_micro(t)) return LVN_OK;
        forget_plan(t);
    }
}

void lvn_training_release(struct lvn_training *t)
{
    forget_plan(t);
}

double lvn_training_step(struct lvn_training *t, int64_t step, double lr)
{
    struct lvn_task *task = t->step;
    int64_t valid = lvn_labels_valid(task->labels, t->settings->trainer.batch_size * t->block_size);
    task->step = (struct lvn_step){.seed = (uint64_t)t->settings->trainer.seed,
                                   .step = step,
                                   .lr = lr,
                                   .grad_scale = valid ? 1.0 / (double)valid : 0.0,
                                   .training = 1};
    return lvn_task_run(task, t->accumulation) * task->step.grad_scale;
}

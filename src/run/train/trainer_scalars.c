/* trainer_scalars.c - describes a run in the event of its callbacks, and declares the run's scalars. trainer_setup.c
 * calls it after planning; trainer.c sets the values. */

#include "host/isa.h"
#include "train/trainer_private.h"

static void describe_run(struct lvn_trainer *trainer)
{
    struct lvn_event *e = &trainer->context.event;
    e->name = trainer->settings->values.name;
    e->run_dir = trainer->settings->values.trainer.fast_dev_run ? "no folder, nothing is saved"
                                                                : trainer->settings->values.run_dir;
    const struct lvn_params *params = trainer->planned.programs.model_state->params;
    e->parameters = lvn_params_total(params);
    for (int i = 0; i < params->n; i++) e->trained += params->list[i]->trainable ? params->list[i]->count : 0;
    e->max_steps = trainer->opened.last_step == INT64_MAX ? 0 : trainer->opened.last_step;
    e->batch_size = trainer->settings->values.trainer.batch_size;
    e->ranks = trainer->ranks->size;
    e->hosts = trainer->ranks->hosts;
    e->block_size = trainer->planned.programs.block_size;
    e->unit = lvn_task_unit(trainer->opened.setup.task);
    e->steps_per_epoch = trainer->opened.train_loader.steps_per_epoch;
    e->fill = trainer->planned.programs.fill;
    lvn_dataset_count(trainer->opened.setup.data, LVN_SPLIT_TRAIN, &e->train_tokens, &e->train_samples);
    e->val_tokens = e->val_samples = 0;
    if (trainer->opened.validation.on)
        lvn_dataset_count(trainer->opened.setup.data, LVN_SPLIT_VAL, &e->val_tokens, &e->val_samples);
    e->threads = trainer->planned.programs.model_state->threads;
    e->isa = lvn_isa_name(lvn_isa_best());
    e->step = trainer->running.step;
    e->epoch = trainer->running.step / trainer->opened.train_loader.steps_per_epoch;
}

static void declare(struct lvn_trainer *trainer, struct lvn_scalar scalar)
{
    struct lvn_event *e = &trainer->context.event;
    scalar.value = NAN;
    if (e->n_scalars < LVN_SCALARS) e->scalar[e->n_scalars++] = scalar;
}

static void declare_metric(struct lvn_trainer *trainer, char name[48], const char *part,
                           const struct lvn_metric *metric, enum lvn_event_kind kind, bool implied)
{
    snprintf(name, 48, "%s%s", part, metric->name);
    declare(trainer, (struct lvn_scalar){name, kind, metric->higher_is_better ? LVN_BETTER_HIGHER : LVN_BETTER_LOWER,
                                         .computed = true, .implied = implied});
}

/* Declare the scalars of a run, in the order of the columns of metrics.csv; its task's metrics follow. */
static void declare_scalars(struct lvn_trainer *trainer)
{
    const enum lvn_event_kind step = LVN_EVENT_STEP, validation = LVN_EVENT_VALIDATION;
    const bool validates = trainer->opened.validation.on;
    const struct lvn_train_programs *programs = &trainer->planned.programs;
    char(*name)[48] = trainer->planned.metric_name;
    declare(trainer, (struct lvn_scalar){"loss", step, LVN_BETTER_LOWER, .computed = true});
    declare(trainer, (struct lvn_scalar){"grad_norm", step, LVN_BETTER_UNKNOWN, .computed = true});
    declare(trainer, (struct lvn_scalar){"lr", step, LVN_BETTER_UNKNOWN, .computed = true});
    declare(trainer, (struct lvn_scalar){"tokens_per_s", step, LVN_BETTER_HIGHER, .computed = true});
    declare(trainer, (struct lvn_scalar){"epoch", step, LVN_BETTER_UNKNOWN, .computed = false});
    declare(trainer, (struct lvn_scalar){"time", step, LVN_BETTER_UNKNOWN, .computed = false});
    declare(trainer, (struct lvn_scalar){"memory_bytes", step, LVN_BETTER_UNKNOWN, .computed = false});
    declare(trainer, (struct lvn_scalar){"val_loss", validation, LVN_BETTER_LOWER, .computed = validates});
    const struct lvn_task_graph *task = validates ? &programs->eval_session->outputs : NULL;
    for (int i = 0; task && i < task->n_metrics; i++)
        declare_metric(trainer, name[i], "val_", task->metrics[i], validation, false);

    /* Training metrics cover the steps since the last validation or, in runs without validation, an epoch. Those that
     * follow from the loss are implied: the column of the loss has them. */
    const enum lvn_event_kind kind = validates ? LVN_EVENT_VALIDATION : LVN_EVENT_EPOCH;
    trainer->context.train_metrics = trainer->context.event.n_scalars;
    declare(trainer, (struct lvn_scalar){"train_loss", kind, LVN_BETTER_LOWER, .computed = true, .implied = true});
    task = &programs->step_session->outputs;
    for (int i = 0; i < task->n_metrics; i++)
        declare_metric(trainer, name[LVN_TASK_METRICS + i], "train_", task->metrics[i], kind, task->counts_of[i] < 0);

    static const char *const attempts[] = {"goodput", "restarts", "restart_seconds"}; /* callbacks/goodput.c */
    for (int i = 0; i < 3 && trainer->context.resumed_step >= 0; i++)
        declare(trainer, (struct lvn_scalar){attempts[i], step, LVN_BETTER_UNKNOWN, .computed = false});

    if (programs->model_state->precision != LVN_PRECISION_16_MIXED) return;
    declare(trainer, (struct lvn_scalar){"loss_scale", step, LVN_BETTER_UNKNOWN, .computed = true});
    trainer->running.loss_scale = &trainer->context.event.scalar[trainer->context.event.n_scalars - 1];
}

void lvn_trainer_describe(struct lvn_trainer *trainer)
{
    describe_run(trainer);
    declare_scalars(trainer);
}

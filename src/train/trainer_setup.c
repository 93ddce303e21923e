/* trainer_setup.c - everything before the first step.
 *
 * Each part that one rank may fail in ends with an agreement. Rank 0 alone opens the run's folder and reads checkpoints
 * and pretrained weights; the others get them from it, so they need no common file system. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/files.h"
#include "base/log.h"
#include "base/work.h"
#include "engine/consistency.h"
#include "engine/devices.h"
#include "engine/memory_advice.h"
#include "host/isa.h"
#include "model_io/model_find.h"
#include "train/limits.h"
#include "train/trainer_state.h"

static enum lvn_status open_data(struct trainer *t)
{
    const struct lvn_settings *s = t->s;
    LVN_TRY(lvn_model_setup_open(&t->setup, s, t->o->model));
    LVN_TRY(lvn_limits_loader(&t->train, t->setup.data, s));
    LVN_TRY(lvn_validation_open(&t->validation, s, &t->train, t->setup.data));
    LVN_TRY(lvn_dataset_fingerprint(t->setup.data, &t->fingerprint));
    t->schedule_steps = lvn_limits_steps(s, t->train.steps_per_epoch);
    t->last_step = lvn_limits_last(s, t->train.steps_per_epoch);
    LVN_CHECK(t->validation.on || !s->trainer.num_sanity_val_steps, ARG,
              "trainer.num_sanity_val_steps is %" PRId64 ", but this run does not validate: leave it out, or give "
              "validation data, and trainer.val_check_interval and trainer.limit_val_batches above 0",
              s->trainer.num_sanity_val_steps);
    return LVN_OK;
}

/* --- the run to continue --- */

/* What is not as it was so far, in one line: a key that was not given again falls back to the recipe. */
static enum lvn_status tell_differences(struct trainer *t)
{
    LVN_LOCAL_TEXT(list);
    bool asked = true;
    enum lvn_status status =
        lvn_path_is_file(t->dir.settings) ? lvn_settings_differences(t->dir.settings, t->s, &list, &asked) : LVN_OK;
    if (status == LVN_OK && list.n && asked)
        lvn_log(LVN_LOG_INFO, "other settings than in the run so far: %s", list.p);
    else if (status == LVN_OK && list.n)
        lvn_log(LVN_LOG_WARN,
                "other settings than in the run so far: %s (`levin train %s --resume` continues with the old ones)",
                list.p, t->dir.url);
    return status;
}

static enum lvn_status open_run(struct trainer *t)
{
    LVN_CHECK(
        !t->s->trainer.fast_dev_run || t->o->mode == LVN_RUN_NEW, ARG,
        "trainer.fast_dev_run saves nothing, so there is nothing to resume or to overwrite: leave one of them out");
    if (t->ranks->rank || t->s->trainer.fast_dev_run) return LVN_OK;
    LVN_TRY(lvn_run_dir_open(&t->dir, t->s->run_dir, t->o->mode));
    t->dir_open = true;
    if (t->o->mode != LVN_RUN_RESUME) return LVN_OK;
    LVN_TRY(lvn_checkpoint_clean(t->dir.checkpoints));
    LVN_TRY(lvn_checkpoint_open_newest(&t->from, t->dir.checkpoints));
    t->from_open = true;
    for (int i = 0; i < t->from.n_skipped; i++) lvn_callback_notify(&t->m, LVN_EVENT_NOTE, t->from.skipped[i]);
    t->goes_on = t->from.path != NULL;
    if (!t->goes_on) {
        lvn_log(LVN_LOG_WARN, "there is no checkpoint in '%s' to continue from: starting from the beginning",
                t->dir.url);
        return LVN_OK;
    }
    LVN_TRY(lvn_snapshot_check(&t->from, t->s, t->setup.config.model));
    LVN_TRY(lvn_snapshot_read(&t->from, &t->at));
    LVN_CHECK(
        t->at.data == t->fingerprint, ARG,
        "'%s' was trained on other data than '%s' holds now: continuing would mix them; set data.path back, or start "
        "a new run",
        t->from.path, t->s->data.path);
    int64_t micro = t->s->trainer.micro_batch_size;
    LVN_CHECK(
        !t->s->trainer.deterministic || t->at.micro_batch == micro, ARG,
        "trainer.micro_batch_size is %lld here and was %lld in '%s': with trainer.deterministic that would change "
        "the bits; set it back",
        (long long)micro, (long long)t->at.micro_batch, t->from.path);
    return tell_differences(t);
}

/* The newest checkpoint that the host of this rank has of a run; -1: none. One rank of each host looks. */
static enum lvn_status look_on_host(const struct trainer *t, int64_t *step)
{
    LVN_LOCAL_ARENA(a);
    *step = -1;
    if (t->ranks->on_host) return LVN_OK;
    const char *dir = lvn_path_join(&a, t->s->run_dir, "checkpoints");
    return dir ? lvn_checkpoint_newest_step(dir, step) : LVN_MEMORY;
}

/* Hosts that share no folder: who starts rank 0 elsewhere than the last time must not lose what was done since. A run
 * in a store is where all see it. */
static enum lvn_status compare_hosts(struct trainer *t)
{
    const struct lvn_ranks *r = t->ranks;
    const char *dir = t->s->run_dir;
    char theirs[40], ours[40];
    int64_t mine;
    int max = 0;
    if (t->o->mode != LVN_RUN_RESUME || r->hosts == 1 || lvn_store_is_url(dir)) return LVN_OK;
    LVN_TRY(lvn_ranks_agree(t->ranks, look_on_host(t, &mine)));
    double *step = lvn_calloc((size_t)r->size, sizeof *step);
    LVN_TRY(lvn_ranks_agree(t->ranks, step ? LVN_OK : LVN_MEMORY));
    step[r->rank] = (double)mine + 1;
    enum lvn_status status = lvn_ranks_sum(t->ranks, step, r->size);
    for (int i = 1; i < r->size; i++)
        if (step[i] > step[max]) max = i;
    snprintf(theirs, sizeof theirs, "step %.0f", step[max] - 1);
    if (step[0] > 0)
        snprintf(ours, sizeof ours, "step %.0f", step[0] - 1);
    else
        snprintf(ours, sizeof ours, "none");
    free(step);
    LVN_TRY(status);
    if (max)
        status = lvn_fail(LVN_ARG,
                          "the last checkpoint of '%s' is %s on %s, where rank %d runs, and %s on %s, where rank 0 "
                          "would go on from it: start with rank 0 on %s, or copy the folder; with run_dir in a "
                          "folder that all hosts share or in a store (run_dir=s3://...) a run goes on from any host",
                          dir, theirs, r->host[max], max, ours, r->host[0], r->host[max]);
    return lvn_ranks_agree(t->ranks, status);
}

/* Where rank 0's checkpoint stood, to all. */
static enum lvn_status share_run(struct trainer *t)
{
    LVN_TRY(compare_hosts(t));
    LVN_TRY(lvn_ranks_agree(t->ranks, open_run(t)));
    LVN_TRY(lvn_ranks_broadcast(t->ranks, &t->goes_on, (int64_t)sizeof t->goes_on));
    LVN_TRY(lvn_ranks_broadcast(t->ranks, &t->at, (int64_t)sizeof t->at));
    if (!t->goes_on) return LVN_OK;
    t->step = t->saver.step = t->at.step;
    t->m.event.best_val_loss = t->at.best_val_loss;
    t->m.event.start_val_loss = t->at.start_val_loss;
    t->m.resumed_at = t->at.step;
    if (!isnan(t->at.val_loss)) t->validated_step = t->at.step;
    return LVN_OK;
}

/* Rank 0: what checkpoints say of the model that adapters stand beside. */
static enum lvn_status find_base(struct trainer *t)
{
    const struct lvn_pretrained *p = &t->setup.pretrained;
    if (!t->s->lora.rank || t->ranks->rank) return LVN_OK;
    t->base.fresh_head = p->fresh;
    LVN_TRY(lvn_model_find_name(&t->s->arena, t->s->model.init, p->path, &t->base.name));
    LVN_TRY(lvn_pretrained_sum(p, &t->base.sum));
    if (lvn_store_is_url(t->s->run_dir) && !t->s->lora.merge_checkpoints)
        lvn_log(LVN_LOG_INFO,
                "checkpoints go to %s without the base model of their adapters: whoever loads them must find it as "
                "'%s', or say where it is (lora.merge_checkpoints=true sends it with each)",
                t->s->run_dir, t->base.name);
    return LVN_OK;
}

/* Rank 0: of model.init, and adapters that there are already. */
static enum lvn_status load_pretrained(struct trainer *t)
{
    LVN_TRY(find_base(t));
    struct lvn_model_state *n = t->training.network;
    LVN_TRY(lvn_pretrained_load(&t->setup.pretrained, n->params, n->memory[LVN_BUFFER_PARAM], n->weights));
    return *t->s->lora.init ? lvn_adapters_read(t->s->lora.init, n) : LVN_OK;
}

/* Weights: of the checkpoint to continue from, of model.init, or fresh. */
static enum lvn_status load_weights(struct trainer *t)
{
    struct lvn_model_state *n = t->training.network;
    uint64_t seed = (uint64_t)t->s->trainer.seed;
    if (t->goes_on) {
        LVN_TRY(lvn_ranks_agree(t->ranks, lvn_model_state_set_scaling(n, &t->at.scaling)));
        LVN_TRY(lvn_ranks_agree(t->ranks, find_base(t)));
        const struct lvn_snapshot_from from = {&t->setup.pretrained, t->s->lora.merge_checkpoints};
        return lvn_snapshot_load(&t->from, n, &from, &t->training.reduction.sharding, t->ranks);
    }
    LVN_TRY(lvn_ranks_agree(t->ranks, lvn_model_state_init_values(n, seed, t->setup.has_pretrained)));
    if (!t->setup.has_pretrained) return LVN_OK;
    LVN_TRY(lvn_ranks_agree(t->ranks, t->ranks->rank ? LVN_OK : load_pretrained(t)));
    return lvn_ranks_broadcast_memory(t->ranks, n->memory[LVN_BUFFER_PARAM], 0, n->bytes[LVN_BUFFER_PARAM]);
}

/* --- all of it --- */

static void aim_saver(struct trainer *t)
{
    const struct lvn_saver_target aim = {
        .to = {.dir = t->dir.checkpoints, .settings = t->s, .codec = &t->m.codec, .base = &t->base},
        .network = t->training.network,
        .sharding = &t->training.reduction.sharding,
        .ranks = t->ranks,
        .callbacks = &t->callbacks,
        .m = &t->m,
        .dir = &t->dir};
    lvn_saver_target(&t->saver, &aim);
}

static void describe_run(struct trainer *t)
{
    struct lvn_event *e = &t->m.event;
    e->name = t->s->name;
    e->run_dir = t->s->trainer.fast_dev_run ? "no folder: nothing is saved" : t->s->run_dir;
    const struct lvn_params *params = t->training.network->params;
    e->parameters = lvn_params_total(params);
    for (int i = 0; i < params->n; i++) e->trained += params->list[i]->trainable ? params->list[i]->count : 0;
    e->max_steps = t->last_step == INT64_MAX ? 0 : t->last_step;
    e->batch_size = t->s->trainer.batch_size;
    e->ranks = t->ranks->size;
    e->hosts = t->ranks->hosts;
    e->block_size = t->training.block_size;
    e->unit = lvn_task_unit(t->setup.task);
    e->steps_per_epoch = t->train.steps_per_epoch;
    const struct lvn_split *train = &t->setup.data->split[LVN_SPLIT_TRAIN], *val = &t->setup.data->split[LVN_SPLIT_VAL];
    e->train_tokens = train->n_tokens;
    e->val_tokens = t->validation.on ? val->n_tokens : 0;
    e->train_samples = train->n_samples;
    e->val_samples = t->validation.on ? val->n_samples : 0;
    e->threads = t->training.network->threads;
    e->isa = lvn_isa_name(lvn_isa_best());
    e->step = t->step;
    e->epoch = t->step / t->train.steps_per_epoch;
}

static void declare(struct trainer *t, struct lvn_scalar scalar)
{
    struct lvn_event *e = &t->m.event;
    scalar.value = NAN;
    if (e->n_scalars < LVN_SCALARS) e->scalar[e->n_scalars++] = scalar;
}

static void declare_metric(struct trainer *t, char name[48], const char *part, const struct lvn_metric *metric,
                           enum lvn_event_kind kind, bool implied)
{
    snprintf(name, 48, "%s%s", part, metric->name);
    declare(t, (struct lvn_scalar){name, kind, metric->higher_is_better ? LVN_BETTER_HIGHER : LVN_BETTER_LOWER,
                                   .computed = true, .implied = implied});
}

/* Over the steps since the last validation, or, in runs without any, of an epoch. What is made of the loss alone is in
 * the column of the loss already. */
static void declare_train_metrics(struct trainer *t)
{
    const struct lvn_task_graph *task = &t->training.step->outputs;
    enum lvn_event_kind kind = t->validation.on ? LVN_EVENT_VALIDATION : LVN_EVENT_EPOCH;
    t->m.train_metrics = t->m.event.n_scalars;
    declare(t, (struct lvn_scalar){"train_loss", kind, LVN_BETTER_LOWER, .computed = true, .implied = true});
    for (int i = 0; i < task->n_metrics; i++)
        declare_metric(t, t->metric[LVN_TASK_METRICS + i], "train_", task->metrics[i], kind, task->counts_of[i] < 0);
}

/* The numbers of a run, in the order of the columns of metrics.csv; what its task measures follows. */
static void declare_scalars(struct trainer *t)
{
    const enum lvn_event_kind step = LVN_EVENT_STEP, validation = LVN_EVENT_VALIDATION;
    declare(t, (struct lvn_scalar){"loss", step, LVN_BETTER_LOWER, .computed = true});
    declare(t, (struct lvn_scalar){"grad_norm", step, LVN_BETTER_UNKNOWN, .computed = true});
    declare(t, (struct lvn_scalar){"lr", step, LVN_BETTER_UNKNOWN, .computed = true});
    declare(t, (struct lvn_scalar){"tokens_per_s", step, LVN_BETTER_HIGHER, .computed = true});
    declare(t, (struct lvn_scalar){"epoch", step, LVN_BETTER_UNKNOWN, .computed = false});
    declare(t, (struct lvn_scalar){"time", step, LVN_BETTER_UNKNOWN, .computed = false});
    declare(t, (struct lvn_scalar){"memory_bytes", step, LVN_BETTER_UNKNOWN, .computed = false});
    declare(t, (struct lvn_scalar){"val_loss", validation, LVN_BETTER_LOWER, .computed = t->validation.on});
    const struct lvn_task_graph *task = t->validation.on ? &t->training.eval->outputs : NULL;
    for (int i = 0; task && i < task->n_metrics; i++)
        declare_metric(t, t->metric[i], "val_", task->metrics[i], validation, false);
    declare_train_metrics(t);
    if (t->training.network->precision != LVN_PRECISION_16_MIXED) return;
    declare(t, (struct lvn_scalar){"loss_scale", step, LVN_BETTER_UNKNOWN, .computed = true});
    t->scaling = &t->m.event.scalar[t->m.event.n_scalars - 1];
}

/* All that may take long before the first step. */
static enum lvn_status at_work(const char *what, enum lvn_status (*run)(struct trainer *t), struct trainer *t)
{
    const char *before = lvn_work_begin(what);
    enum lvn_status status = run(t);
    lvn_work_end(before);
    return status;
}

static void meet_callbacks(struct trainer *t)
{
    t->m = (struct lvn_callback_context){.settings = t->s,
                                         .ranks = t->ranks,
                                         .resumed_at = -1,
                                         .scored_at = -1,
                                         .listeners = t->o->listeners,
                                         .n_listeners = t->o->n_listeners};
    t->m.event = (struct lvn_event){
        .utilisation = NAN, .eta_s = NAN, .best_val_loss = NAN, .start_val_loss = NAN, .epoch_s = NAN};
}

static void wait_for_saver(void *saver)
{
    lvn_saver_wait_read(saver);
}

/* What others see of this rank's rows. */
static void point_to_rows(struct trainer *t)
{
    struct lvn_train_programs *g = &t->training;
    struct lvn_event *e = &t->m.event;
    e->micro_batch_size = g->micro;
    e->accumulation = g->n_micro;
    e->flops_per_token = lvn_program_flops(g->step->program) / (double)(g->micro * g->block_size);
    t->m.task = &g->step->outputs;
    t->m.counts = lvn_step_statistics_sums(&t->tally);
    for (int i = 0; i < LVN_LENGTHS && g->steps[i]; i++) {
        g->steps[i]->before_update = wait_for_saver;
        g->steps[i]->context = &t->saver;
    }
}

enum lvn_status lvn_trainer_allocate(struct trainer *t)
{
    const struct lvn_train_programs *g = &t->training;
    LVN_TRY(lvn_train_programs_allocate(g));
    LVN_TRY(lvn_step_statistics_init(&t->tally, t->ranks, g->n_micro, lvn_task_counts(&g->step->outputs)));
    LVN_TRY(lvn_prefetch_open(&t->ahead, &t->train, g->first_row, g->rows, t->last_step));
    point_to_rows(t);
    return lvn_validation_allocate(&t->validation, g);
}

void lvn_trainer_release_rows(struct trainer *t)
{
    lvn_step_statistics_release(&t->tally);
    lvn_validation_release(&t->validation);
    lvn_prefetch_close(t->ahead);
    t->ahead = NULL;
}

enum lvn_status lvn_trainer_load_batch(struct trainer *t, int64_t step, int64_t *labels)
{
    const struct lvn_samples *batch;
    LVN_TRY(lvn_prefetch_take(t->ahead, step, &batch));
    return lvn_train_programs_feed(&t->training, batch, labels);
}

/* The first batch. Later ones are loaded at the end of the step before, with which ranks exchange the counts. */
static enum lvn_status load_first(struct trainer *t)
{
    int64_t labels = 0;
    if (t->step >= t->last_step) return LVN_OK; /* a run that goes on and has nothing left to do */
    LVN_TRY(lvn_ranks_agree(t->ranks, lvn_trainer_load_batch(t, t->step, &labels)));
    double all = (double)labels;
    LVN_TRY(lvn_ranks_sum(t->ranks, &all, 1));
    t->labels = (int64_t)all;
    return LVN_OK;
}

/* Who comes from Lightning expects another batch. */
static void explain_accumulation(struct trainer *t)
{
    long long n = t->s->trainer.accumulate_grad_batches, batch = t->s->trainer.batch_size;
    if (n <= 1) return;
    snprintf(t->text, sizeof t->text,
             "trainer.accumulate_grad_batches %lld cuts the batch of %lld into micro-batches of %lld; Lightning would "
             "make a step of %lld such batches: for that, set trainer.batch_size to %lld",
             n, batch, batch / n, n, n * batch);
    lvn_callback_notify(&t->m, LVN_EVENT_NOTE, t->text);
}

static void explain_recompute(struct trainer *t)
{
    const struct lvn_train_programs *n = &t->training;
    bool asked = t->s->trainer.recompute == LVN_TRAINER_RECOMPUTE_BLOCKS;
    if (n->recompute != LVN_RECOMPUTE_BLOCKS || (asked && n->step->graph->n_blocks > 1)) return;
    snprintf(t->text, sizeof t->text,
             asked ? "a %s has no blocks to recompute: trainer.recompute=blocks changes nothing"
                   : "the activations of this %s do not fit into memory, so the forward pass of each block runs twice "
                     "(trainer.recompute=auto chose blocks)",
             t->setup.config.model->name);
    lvn_callback_notify(&t->m, LVN_EVENT_NOTE, t->text);
}

enum lvn_status lvn_trainer_set_up(struct trainer *t)
{
    meet_callbacks(t);
    LVN_TRY(lvn_callbacks_init(&t->callbacks, t->s, t->o->callback));
    LVN_TRY(lvn_consistency_start(t->ranks, t->s, t->text, sizeof t->text));
    if (*t->text) lvn_callback_notify(&t->m, LVN_EVENT_NOTE, t->text);
    LVN_TRY(lvn_ranks_check(t->ranks, t->s));
    LVN_TRY(lvn_ranks_agree(t->ranks, at_work("opening the data", open_data, t)));
    LVN_TRY(lvn_consistency_data(t->ranks, t->fingerprint));
    LVN_TRY(at_work("opening the run's folder", share_run, t));
    explain_accumulation(t);
    LVN_TRY(lvn_ranks_agree(t->ranks, lvn_trainer_shares_begin(t)));
    LVN_TRY(lvn_trainer_plan(t));
    explain_recompute(t);
    LVN_TRY(lvn_ranks_agree(t->ranks, lvn_trainer_allocate(t)));
    LVN_TRY(at_work("loading the weights", load_weights, t));
    LVN_TRY(lvn_consistency_replicas(t->ranks, t->training.network, t->step));
    LVN_TRY(at_work("reading data", load_first, t));
    LVN_TRY(at_work("measuring shares", lvn_trainer_shares_measure, t));
    describe_run(t);
    declare_scalars(t);
    t->m.network = t->training.network;
    t->m.dir = t->dir_open ? &t->dir : NULL;
    t->m.codec = lvn_model_setup_codec(&t->setup);
    aim_saver(t);
    return lvn_callbacks_open(&t->callbacks, &t->m, t->at.callbacks);
}

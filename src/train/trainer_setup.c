/* trainer_setup.c - everything before the first step: lvn_trainer_set_up() at the end of this file has the order.
 *
 * lvn_trainer_open() calls it. Load weights are trainer_load_balance.c's. Each part that can fail on one rank ends with
 * an agreement. Rank 0 alone opens the run's folder, so ranks need no common file system. Values of parameters are
 * trainer_parameters.c's. */
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
#include "engine/parameter_sums.h"
#include "engine/parameters.h"
#include "engine/strategy.h"
#include "host/isa.h"
#include "settings/choices.h"
#include "train/limits.h"
#include "train/trainer_private.h"

static enum lvn_status open_data(struct trainer *t)
{
    const struct lvn_settings *s = t->settings;
    const struct lvn_schedule_options schedule = lvn_schedule_options_of(s);
    LVN_TRY(lvn_model_setup_open(&t->opened.setup, s, t->options->model));
    LVN_TRY(lvn_limits_loader(&t->opened.train_loader, t->opened.setup.data, s));
    LVN_TRY(lvn_validation_open(&t->opened.validation, s, &t->opened.train_loader, t->opened.setup.data));
    LVN_TRY(lvn_dataset_fingerprint(t->opened.setup.data, &t->opened.fingerprint));
    lvn_schedule_init(&t->opened.schedule, &schedule, lvn_limits_steps(s, t->opened.train_loader.steps_per_epoch));
    t->opened.last_step = lvn_limits_last(s, t->opened.train_loader.steps_per_epoch);
    LVN_CHECK(t->opened.validation.on || !s->trainer.num_sanity_val_steps, ARG,
              "trainer.num_sanity_val_steps is %" PRId64 ", but this run does not validate: leave it out, or give "
              "validation data, and trainer.val_check_interval and trainer.limit_val_batches above 0",
              s->trainer.num_sanity_val_steps);
    return LVN_OK;
}

/* --- the run to continue --- */

/* Log settings that differ from those of the run so far: a key that is not given again falls back to the recipe. */
static enum lvn_status log_differences(const struct trainer *t)
{
    LVN_LOCAL_TEXT(list);
    const struct lvn_run_dir *d = &t->opened.run_dir;
    bool explicit_only = true;
    enum lvn_status status = LVN_OK;
    if (lvn_path_is_file(d->settings))
        status = lvn_settings_differences(d->settings, t->settings, &list, &explicit_only);
    if (status == LVN_OK && list.n && explicit_only)
        lvn_log(LVN_LOG_INFO, "other settings than in the run so far: %s", list.p);
    else if (status == LVN_OK && list.n)
        lvn_log(LVN_LOG_WARN,
                "other settings than in the run so far: %s (`levin train %s --resume` continues with the old ones)",
                list.p, d->url);
    return status;
}

/* Rank 0 opens the folder and the newest checkpoint. */
static enum lvn_status open_run(struct trainer *t)
{
    LVN_CHECK(
        !t->settings->trainer.fast_dev_run || t->options->mode == LVN_RUN_NEW, ARG,
        "trainer.fast_dev_run saves nothing, so there is nothing to resume or to overwrite: leave one of them out");
    if (t->ranks->rank || t->settings->trainer.fast_dev_run) return LVN_OK;
    const struct lvn_run_dir_options options = {
        .mode = t->options->mode, .launch = t->options->launch, .rank_timeout = t->settings->trainer.rank_timeout};
    LVN_TRY(lvn_run_dir_open(&t->opened.run_dir, t->settings->run_dir, &options));
    t->opened.run_dir_open = true;
    if (t->options->mode != LVN_RUN_RESUME) return LVN_OK;
    LVN_TRY(lvn_checkpoint_clean(t->opened.run_dir.checkpoints));
    LVN_TRY(lvn_checkpoint_open_newest(&t->opened.checkpoint, t->opened.run_dir.checkpoints));
    t->opened.checkpoint_open = true;
    for (int i = 0; i < t->opened.checkpoint.n_skipped; i++)
        lvn_callback_notify(&t->context, LVN_EVENT_NOTE, t->opened.checkpoint.skipped[i]);
    t->opened.resuming = t->opened.checkpoint.path != NULL;
    if (!t->opened.resuming) {
        int64_t damaged; /* of a checkpoint that was complete once: saves of a run from its beginning would remove it */
        LVN_TRY(lvn_checkpoint_newest_step(t->opened.run_dir.checkpoints, &damaged));
        LVN_CHECK(damaged < 0, FORMAT,
                  "all checkpoints in '%s' are damaged: put one back from a copy, or begin again with --overwrite",
                  t->opened.run_dir.url);
        lvn_log(LVN_LOG_WARN, "there is no checkpoint in '%s' to continue from: starting from the beginning",
                t->opened.run_dir.url);
        return LVN_OK;
    }
    LVN_TRY(lvn_snapshot_check(&t->opened.checkpoint, t->settings, t->opened.setup.config.model));
    LVN_TRY(lvn_snapshot_read(&t->opened.checkpoint, &t->opened.snapshot));
    LVN_CHECK(
        t->opened.snapshot.data == t->opened.fingerprint, ARG,
        "'%s' was trained on other data than '%s' holds now: continuing would mix them; set data.path back, or start "
        "a new run",
        t->opened.checkpoint.path, t->settings->data.path);
    int64_t micro = t->settings->trainer.micro_batch_size;
    LVN_CHECK(
        !t->settings->trainer.deterministic || t->opened.snapshot.micro_batch == micro, ARG,
        "trainer.micro_batch_size is %lld here and was %lld in '%s': with trainer.deterministic that would change "
        "the bits; set it back",
        (long long)micro, (long long)t->opened.snapshot.micro_batch, t->opened.checkpoint.path);
    return log_differences(t);
}

/* The step of the newest checkpoint of the run on this rank's host; -1: none. One rank of each host looks. */
static enum lvn_status newest_on_host(const struct trainer *t, int64_t *step)
{
    LVN_LOCAL_ARENA(a);
    *step = -1;
    if (t->ranks->local_rank) return LVN_OK;
    const char *dir = lvn_path_join(&a, t->settings->run_dir, "checkpoints");
    return dir ? lvn_checkpoint_newest_step(dir, step) : LVN_MEMORY;
}

/* If hosts share no folder, and rank 0 starts on another host than last time, it must not continue from an older
 * checkpoint. A run in a store is seen by all hosts. */
static enum lvn_status compare_hosts(struct trainer *t)
{
    const struct lvn_ranks *r = t->ranks;
    const char *dir = t->settings->run_dir;
    char theirs[40], ours[40];
    int64_t mine;
    int max = 0;
    if (t->options->mode != LVN_RUN_RESUME || r->hosts == 1 || lvn_store_is_url(dir)) return LVN_OK;
    LVN_TRY(lvn_ranks_agree(t->ranks, newest_on_host(t, &mine)));
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
                          "would continue from it: start with rank 0 on %s, or copy the folder; with run_dir in a "
                          "folder that all hosts share or in a store (run_dir=s3://...) a run continues on any host",
                          dir, theirs, r->host[max], max, ours, r->host[0], r->host[max]);
    return lvn_ranks_agree(t->ranks, status);
}

/* Open the run; all ranks get the progress of rank 0's checkpoint. */
static enum lvn_status share_run(struct trainer *t)
{
    struct trainer_opened *o = &t->opened;
    LVN_TRY(compare_hosts(t));
    LVN_TRY(lvn_ranks_agree(t->ranks, open_run(t)));
    LVN_TRY(lvn_ranks_broadcast(t->ranks, &o->resuming, (int64_t)sizeof o->resuming));
    LVN_TRY(lvn_ranks_broadcast(t->ranks, &o->snapshot, (int64_t)sizeof o->snapshot));
    if (!o->resuming) return LVN_OK;
    t->running.step = t->running.saver.step = o->snapshot.step;
    t->context.event.best_val_loss = o->snapshot.best_val_loss;
    t->context.event.start_val_loss = o->snapshot.start_val_loss;
    t->context.resumed_step = o->snapshot.step;
    if (!isnan(o->snapshot.val_loss)) t->running.validated_step = o->snapshot.step;
    return LVN_OK;
}

/* --- the event and its scalars --- */

static void describe_run(struct trainer *t)
{
    struct lvn_event *e = &t->context.event;
    e->name = t->settings->name;
    e->run_dir = t->settings->trainer.fast_dev_run ? "no folder: nothing is saved" : t->settings->run_dir;
    const struct lvn_params *params = t->planned.programs.model_state->params;
    e->parameters = lvn_params_total(params);
    for (int i = 0; i < params->n; i++) e->trained += params->list[i]->trainable ? params->list[i]->count : 0;
    e->max_steps = t->opened.last_step == INT64_MAX ? 0 : t->opened.last_step;
    e->batch_size = t->settings->trainer.batch_size;
    e->ranks = t->ranks->size;
    e->hosts = t->ranks->hosts;
    e->block_size = t->planned.programs.block_size;
    e->unit = lvn_task_unit(t->opened.setup.task);
    e->steps_per_epoch = t->opened.train_loader.steps_per_epoch;
    const struct lvn_split *train = &t->opened.setup.data->split[LVN_SPLIT_TRAIN],
                           *val = &t->opened.setup.data->split[LVN_SPLIT_VAL];
    e->train_tokens = train->n_tokens;
    e->val_tokens = t->opened.validation.on ? val->n_tokens : 0;
    e->train_samples = train->n_samples;
    e->val_samples = t->opened.validation.on ? val->n_samples : 0;
    e->threads = t->planned.programs.model_state->threads;
    e->isa = lvn_isa_name(lvn_isa_best());
    e->step = t->running.step;
    e->epoch = t->running.step / t->opened.train_loader.steps_per_epoch;
}

static void declare(struct trainer *t, struct lvn_scalar scalar)
{
    struct lvn_event *e = &t->context.event;
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

/* Declare the scalars of a run, in the order of the columns of metrics.csv; its task's metrics follow. */
static void declare_scalars(struct trainer *t)
{
    const enum lvn_event_kind step = LVN_EVENT_STEP, validation = LVN_EVENT_VALIDATION;
    const bool validates = t->opened.validation.on;
    const struct lvn_train_programs *g = &t->planned.programs;
    char(*name)[48] = t->planned.metric_name;
    declare(t, (struct lvn_scalar){"loss", step, LVN_BETTER_LOWER, .computed = true});
    declare(t, (struct lvn_scalar){"grad_norm", step, LVN_BETTER_UNKNOWN, .computed = true});
    declare(t, (struct lvn_scalar){"lr", step, LVN_BETTER_UNKNOWN, .computed = true});
    declare(t, (struct lvn_scalar){"tokens_per_s", step, LVN_BETTER_HIGHER, .computed = true});
    declare(t, (struct lvn_scalar){"epoch", step, LVN_BETTER_UNKNOWN, .computed = false});
    declare(t, (struct lvn_scalar){"time", step, LVN_BETTER_UNKNOWN, .computed = false});
    declare(t, (struct lvn_scalar){"memory_bytes", step, LVN_BETTER_UNKNOWN, .computed = false});
    declare(t, (struct lvn_scalar){"val_loss", validation, LVN_BETTER_LOWER, .computed = validates});
    const struct lvn_task_graph *task = validates ? &g->eval_session->outputs : NULL;
    for (int i = 0; task && i < task->n_metrics; i++)
        declare_metric(t, name[i], "val_", task->metrics[i], validation, false);

    /* Training metrics are over the steps since the last validation or, in runs without validation, of an epoch. Those
     * that follow from the loss are implied: the column of the loss has them. */
    const enum lvn_event_kind kind = validates ? LVN_EVENT_VALIDATION : LVN_EVENT_EPOCH;
    t->context.train_metrics = t->context.event.n_scalars;
    declare(t, (struct lvn_scalar){"train_loss", kind, LVN_BETTER_LOWER, .computed = true, .implied = true});
    task = &g->step_session->outputs;
    for (int i = 0; i < task->n_metrics; i++)
        declare_metric(t, name[LVN_TASK_METRICS + i], "train_", task->metrics[i], kind, task->counts_of[i] < 0);

    static const char *const attempts[] = {"goodput", "restarts", "restart_seconds"}; /* callbacks/goodput.c */
    for (int i = 0; i < 3 && t->context.resumed_step >= 0; i++)
        declare(t, (struct lvn_scalar){attempts[i], step, LVN_BETTER_UNKNOWN, .computed = false});

    if (g->model_state->precision != LVN_PRECISION_16_MIXED) return;
    declare(t, (struct lvn_scalar){"loss_scale", step, LVN_BETTER_UNKNOWN, .computed = true});
    t->running.loss_scale = &t->context.event.scalar[t->context.event.n_scalars - 1];
}

/* --- what depends on this rank's rows --- */

static void wait_for_saver(void *saver)
{
    lvn_saver_wait_read(saver);
}

enum lvn_status lvn_trainer_allocate(struct trainer *t)
{
    struct lvn_train_programs *g = &t->planned.programs;
    struct lvn_event *e = &t->context.event;
    const struct lvn_task_graph *outputs = &g->step_session->outputs;
    LVN_TRY(lvn_train_programs_allocate(g));
    LVN_TRY(lvn_step_statistics_init(&t->planned.statistics, t->ranks, g->n_micro, lvn_task_counts(outputs)));
    LVN_TRY(
        lvn_prefetch_open(&t->planned.prefetcher, &t->opened.train_loader, g->first_row, g->rows, t->opened.last_step));
    e->micro_batch_size = g->micro_batch;
    e->accumulation = g->n_micro;
    e->flops_per_token = lvn_program_flops(g->step_session->program) / (double)(g->micro_batch * g->block_size);
    t->context.task = outputs;
    t->context.counts = lvn_step_statistics_sums(&t->planned.statistics);
    for (int i = 0; i < LVN_LENGTHS && g->step_sessions[i]; i++) {
        g->step_sessions[i]->before_update = wait_for_saver;
        g->step_sessions[i]->context = &t->running.saver;
    }
    return lvn_validation_allocate(&t->opened.validation, g);
}

void lvn_trainer_release_rows(struct trainer *t)
{
    lvn_step_statistics_release(&t->planned.statistics);
    lvn_validation_release(&t->opened.validation);
    lvn_prefetch_close(t->planned.prefetcher);
    t->planned.prefetcher = NULL;
}

enum lvn_status lvn_trainer_load_batch(struct trainer *t, int64_t step, int64_t *labels)
{
    const struct lvn_samples *batch;
    LVN_TRY(lvn_prefetch_take(t->planned.prefetcher, step, &batch));
    return lvn_train_programs_feed(&t->planned.programs, batch, labels);
}

/* Load the first batch. Later ones are loaded during the step before, whose statistics carry their labels. */
static enum lvn_status load_first(struct trainer *t)
{
    int64_t labels = 0;
    if (t->running.step >= t->opened.last_step) return LVN_OK; /* a resumed run with nothing left to do */
    LVN_TRY(lvn_ranks_agree(t->ranks, lvn_trainer_load_batch(t, t->running.step, &labels)));
    double all = (double)labels;
    LVN_TRY(lvn_ranks_sum(t->ranks, &all, 1));
    t->running.labels = (int64_t)all;
    return LVN_OK;
}

/* In Lightning the option multiplies the batch instead. */
static void explain_accumulation(struct trainer *t)
{
    long long n = t->settings->trainer.accumulate_grad_batches, batch = t->settings->trainer.batch_size;
    if (n <= 1) return;
    snprintf(t->text, sizeof t->text,
             "trainer.accumulate_grad_batches %lld cuts the batch of %lld into micro-batches of %lld; Lightning would "
             "make a step of %lld such batches: for that, set trainer.batch_size to %lld",
             n, batch, batch / n, n, n * batch);
    lvn_callback_notify(&t->context, LVN_EVENT_NOTE, t->text);
}

static void explain_recompute(struct trainer *t)
{
    const struct lvn_train_programs *n = &t->planned.programs;
    bool requested = t->settings->trainer.recompute == LVN_TRAINER_RECOMPUTE_BLOCKS;
    if (n->recompute != LVN_RECOMPUTE_BLOCKS || (requested && n->step_session->graph->n_blocks > 1)) return;
    snprintf(t->text, sizeof t->text,
             requested
                 ? "a %s has no blocks to recompute: trainer.recompute=blocks changes nothing"
                 : "the activations of this %s do not fit into memory, so the forward pass of each block runs twice "
                   "(trainer.recompute=auto chose blocks)",
             t->opened.setup.config.model->name);
    lvn_callback_notify(&t->context, LVN_EVENT_NOTE, t->text);
}

static void explain_strategy(struct trainer *t)
{
    const struct lvn_train_programs *n = &t->planned.programs;
    char whole[LVN_NUMBER_TEXT], available[LVN_NUMBER_TEXT];
    if (t->settings->trainer.strategy == LVN_TRAINER_STRATEGY_AUTO && n->shards) {
        snprintf(t->text, sizeof t->text,
                 "trainer.strategy auto is %s: with ddp a rank needs %s, and %s are free for it",
                 lvn_strategy_name(t->settings, n->reduction.sharding.sharded), lvn_bytes_text(n->whole_bytes, whole),
                 lvn_bytes_text(n->free_bytes, available));
        lvn_callback_notify(&t->context, LVN_EVENT_NOTE, t->text);
    }
    if (lvn_strategy_note(t->settings, t->text, sizeof t->text))
        lvn_callback_notify(&t->context, LVN_EVENT_NOTE, t->text);
}

/* Run one part of the set-up that may take long; the heartbeat reports it as the current operation. */
static enum lvn_status run_part(const char *operation, enum lvn_status (*part)(struct trainer *t), struct trainer *t)
{
    const char *before = lvn_work_begin(operation);
    enum lvn_status status = part(t);
    lvn_work_end(before);
    return status;
}

enum lvn_status lvn_trainer_set_up(struct trainer *t)
{
    const struct lvn_train_options *o = t->options;
    struct lvn_train_programs *g = &t->planned.programs;
    t->context = (struct lvn_callback_context){.settings = t->settings,
                                               .ranks = t->ranks,
                                               .resumed_step = -1,
                                               .scored_step = -1,
                                               .listeners = o->listeners,
                                               .n_listeners = o->n_listeners};
    t->context.event = (struct lvn_event){
        .utilisation = NAN, .eta_s = NAN, .best_val_loss = NAN, .start_val_loss = NAN, .epoch_s = NAN};
    LVN_TRY(lvn_callbacks_init(&t->callbacks, t->settings, o->callback));
    t->context.callbacks = &t->callbacks;

    /* What settings, data and the run's folder determine. */
    LVN_TRY(lvn_consistency_start(t->ranks, t->settings, t->text, sizeof t->text));
    if (*t->text) lvn_callback_notify(&t->context, LVN_EVENT_NOTE, t->text);
    LVN_TRY(lvn_ranks_check(t->ranks, t->settings));
    LVN_TRY(lvn_ranks_agree(t->ranks, run_part("opening the data", open_data, t)));
    LVN_TRY(lvn_consistency_data(t->ranks, t->opened.fingerprint));
    LVN_TRY(run_part("opening the run's folder", share_run, t));
    explain_accumulation(t);

    /* The plan, its memory, and weights in it. */
    LVN_TRY(lvn_ranks_agree(t->ranks, lvn_trainer_load_weights_init(t)));
    LVN_TRY(lvn_trainer_plan(t));
    explain_strategy(t);
    explain_recompute(t);
    LVN_TRY(lvn_ranks_agree(t->ranks, lvn_trainer_allocate(t)));
    LVN_TRY(run_part("loading the weights", lvn_trainer_load_parameters, t));
    LVN_TRY(lvn_ranks_agree(t->ranks, lvn_parameter_sums_start(g->model_state)));
    LVN_TRY(lvn_consistency_replicas(t->ranks, g->model_state, t->running.step));
    LVN_TRY(run_part("reading data", load_first, t));
    LVN_TRY(run_part("measuring shares", lvn_trainer_load_weights_measure, t));

    /* What callbacks, listeners and the saver see of the run. */
    describe_run(t);
    declare_scalars(t);
    t->context.model_state = g->model_state;
    t->context.config = &t->opened.setup.config;
    t->context.dir = t->opened.run_dir_open ? &t->opened.run_dir : NULL;
    t->context.codec = lvn_model_setup_codec(&t->opened.setup);
    const struct lvn_saver_target target = {.snapshot = {.dir = t->opened.run_dir.checkpoints,
                                                         .settings = t->settings,
                                                         .codec = &t->context.codec,
                                                         .base = &t->opened.adapter_base},
                                            .model_state = g->model_state,
                                            .ranks = t->ranks,
                                            .callbacks = &t->callbacks,
                                            .context = &t->context,
                                            .dir = &t->opened.run_dir};
    lvn_saver_target(&t->running.saver, &target);
    return lvn_callbacks_open(&t->callbacks, &t->context, t->opened.snapshot.callbacks);
}

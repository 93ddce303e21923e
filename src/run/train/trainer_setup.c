/* trainer_setup.c - everything before the first step: lvn_trainer_set_up() at the end of this file has the order.
 *
 * lvn_trainer_open() calls it. Each part that can fail on one rank ends with an agreement. Only rank 0 opens the run's
 * folder, so ranks need no common file system. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "base/random.h"
#include "base/work.h"
#include "engine/consistency.h"
#include "engine/devices.h"
#include "engine/memory_advice.h"
#include "engine/parameter_sums.h"
#include "engine/parameters.h"
#include "engine/shares.h"
#include "engine/strategy.h"
#include "host/isa.h"
#include "host/machine.h"
#include "model_io/adapters.h"
#include "model_io/model_config.h"
#include "model_io/model_find.h"
#include "options/choices.h"
#include "settings/settings_model.h"
#include "setup/setup.h"
#include "stores/store.h"
#include "train/limits.h"
#include "train/trainer_private.h"

/* --- the values of the parameters before the first step ---
 *
 * Those of a checkpoint, of model.init and lora.init, or initial ones. Rank 0 reads files and sends the values to the
 * others. If parameters are sharded and all ranks see the same files, each rank reads those of its own elements that
 * have the same order in the file and in memory. */

/* Rank 0: name and checksum of the adapters' base model, for checkpoints. */
static enum lvn_status find_base(struct lvn_trainer *trainer)
{
    const struct lvn_pretrained *p = &trainer->opened.setup.pretrained;
    struct lvn_adapter_base *base = &trainer->opened.adapter_base;
    if (!trainer->settings->values.lora.rank || trainer->ranks->rank) return LVN_OK;
    base->fresh_head = p->fresh_head;
    LVN_TRY(lvn_model_find_name(&trainer->settings->arena, trainer->settings->values.model.init, p->path, &base->name));
    LVN_TRY(lvn_pretrained_checksum(p, &base->checksum));
    if (lvn_store_is_url(trainer->settings->values.run_dir) && !trainer->settings->values.lora.merge_checkpoints)
        lvn_log(
            LVN_LOG_INFO,
            "checkpoints are sent to %s without the base model of their adapters; programs that load them need it as "
            "'%s', or a path to it (lora.merge_checkpoints=true sends it with each)",
            trainer->settings->values.run_dir, base->name);
    return LVN_OK;
}

/* Rank 0: the values of trained rows, and those of lora.init. */
static enum lvn_status load_adapters(struct lvn_trainer *trainer, struct lvn_model_state *n)
{
    const char *init = trainer->settings->values.lora.init;
    if (!*init && !n->config.lora.n_tokens) return LVN_OK;
    lvn_parameters_begin_collecting(n);
    enum lvn_status status = trainer->ranks->rank ? LVN_OK : lvn_adapters_start(&trainer->opened.setup.pretrained, n);
    if (status == LVN_OK && *init && !trainer->ranks->rank) status = lvn_adapters_read(init, n);
    const enum lvn_status ended = lvn_parameters_end_collecting(n);
    return lvn_ranks_agree(trainer->ranks, status == LVN_OK ? ended : status);
}

static enum lvn_status load_parameters(struct lvn_trainer *trainer)
{
    const struct levin_settings *s = trainer->settings;
    const struct lvn_pretrained *p = &trainer->opened.setup.pretrained;
    const struct lvn_snapshot_source source = {p, s->values.lora.merge_checkpoints};
    struct lvn_model_state *n = trainer->planned.programs.model_state;
    if (trainer->opened.resuming) {
        LVN_TRY(lvn_ranks_agree(trainer->ranks, lvn_model_state_set_scaling(n, &trainer->opened.snapshot.scaling)));
        LVN_TRY(lvn_ranks_agree(trainer->ranks, find_base(trainer)));
        return lvn_snapshot_load(&trainer->opened.checkpoint, n, &source, trainer->ranks);
    }
    const bool pretrained = trainer->opened.setup.has_pretrained;
    LVN_TRY(
        lvn_ranks_agree(trainer->ranks, lvn_parameters_init_values(n, (uint64_t)s->values.trainer.seed, pretrained)));
    if (!pretrained) return LVN_OK;
    LVN_TRY(lvn_pretrained_load_on_ranks(p, n, trainer->ranks));
    LVN_TRY(lvn_ranks_agree(trainer->ranks, find_base(trainer)));
    LVN_TRY(load_adapters(trainer, n));
    return lvn_parameters_broadcast(n, trainer->ranks);
}

/* --- opening --- */

/* Settings that the data and the model have determined, for the run's settings.yaml. */
static void resolve_settings(struct lvn_trainer *trainer)
{
    struct levin_settings *s = trainer->settings;
    const struct lvn_model_setup *m = &trainer->opened.setup;
    if (strcmp(s->values.data.kind, m->data_kind) != 0) {
        s->values.data.kind = m->data_kind;
        s->origin[LVN_OPT_data_kind] = (struct lvn_origin){.source = LVN_SOURCE_DERIVED, .where = "model.init"};
    }
    if (m->has_pretrained && strcmp(s->values.model.kind, m->config.model->name) != 0) {
        s->values.model.kind = m->config.model->name;
        s->origin[LVN_OPT_model_kind] = (struct lvn_origin){.source = LVN_SOURCE_DERIVED, .where = "model.init"};
    }
    char here[PATH_MAX];
    if (((*s->values.data.path && *s->values.data.path != '/') || *s->values.data.mix) && !*s->values.data.folder &&
        getcwd(here, sizeof here)) {
        const char *folder = lvn_arena_strdup(&s->arena, here);
        if (folder && lvn_utf8_check(folder, (int64_t)strlen(folder)) < 0) s->values.data.folder = folder;
        s->origin[LVN_OPT_data_folder] =
            (struct lvn_origin){.source = LVN_SOURCE_DERIVED, .where = "the current folder"};
    }
    if (!m->has_pretrained && !trainer->options->model)
        lvn_settings_resolve(s, m->config.model, LVN_ROLE_VOCABULARY, lvn_model_value(&m->config, LVN_ROLE_VOCABULARY));
}

static enum lvn_status open_data(struct lvn_trainer *trainer)
{
    const struct levin_settings *s = trainer->settings;
    const struct lvn_schedule_options schedule = lvn_schedule_options_of(&s->values);
    const struct lvn_model_config *trained = trainer->opened.trained.model ? &trainer->opened.trained : NULL;
    LVN_TRY(lvn_model_setup_open(&trainer->opened.setup, s, trainer->options->model, trained));
    resolve_settings(trainer);
    LVN_TRY(lvn_limits_loader(&trainer->opened.train_loader, trainer->opened.setup.data, s));
    LVN_TRY(
        lvn_validation_open(&trainer->opened.validation, s, &trainer->opened.train_loader, trainer->opened.setup.data));
    LVN_TRY(lvn_dataset_fingerprint(trainer->opened.setup.data, &trainer->opened.fingerprint));
    if (trainer->ranks->size > 1)
        LVN_TRY(lvn_dataset_shards_hash(trainer->opened.setup.data, &trainer->opened.shards_hash));
    lvn_schedule_init(&trainer->opened.schedule, &schedule,
                      lvn_limits_steps(s, trainer->opened.train_loader.steps_per_epoch));
    trainer->opened.last_step = lvn_limits_last(s, trainer->opened.train_loader.steps_per_epoch);
    LVN_CHECK(trainer->opened.validation.on || !s->values.trainer.num_sanity_val_steps, ARG,
              "trainer.num_sanity_val_steps is %" PRId64 ", but this run does not validate; omit it, or give "
              "validation data, and trainer.val_check_interval and trainer.limit_val_batches above 0",
              s->values.trainer.num_sanity_val_steps);
    return LVN_OK;
}

/* --- the run to continue --- */

/* Log settings that differ from those of the run so far: a key that was given on the command line then and not now has
 * the recipe's value again. */
static enum lvn_status log_differences(const struct lvn_trainer *trainer)
{
    LVN_LOCAL_TEXT(list);
    const struct lvn_run_dir *d = &trainer->opened.run_dir;
    bool explicit_only = true;
    enum lvn_status status = LVN_OK;
    if (lvn_path_is_file(d->settings))
        status = lvn_settings_differences(d->settings, trainer->settings, &list, &explicit_only);
    if (status == LVN_OK && list.n && explicit_only)
        lvn_log(LVN_LOG_INFO, "settings differ from the run so far: %s", list.p);
    else if (status == LVN_OK && list.n)
        lvn_log(LVN_LOG_WARN,
                "settings differ from the run so far: %s (`levin train %s --resume` continues with the old ones)",
                list.p, d->url);
    return status;
}

/* Warn of a warm-up that no step ends, of keys that a constant rate ignores, and of steps after the schedule's end with
 * a learning rate of 0. */
static void warn_of_rates(const struct lvn_trainer *trainer)
{
    const struct lvn_schedule *now = &trainer->opened.schedule;
    const int64_t last = trainer->opened.last_step;
    if (last > 0 && now->warmup >= last && now->options.lr > 0)
        lvn_log(LVN_LOG_WARN,
                "the learning rate rises for %" PRId64
                " step%s (schedule.warmup_steps) and the run ends at step %" PRId64
                ", so no step has optimizer.lr (%g); give a shorter warm-up",
                now->warmup, lvn_plural(now->warmup), last, now->options.lr);
    if (!now->kind->falls && (now->options.min_lr > 0 || now->options.decay_steps))
        lvn_log(LVN_LOG_WARN, "schedule.%s has no effect, because schedule.kind is %s",
                now->options.min_lr > 0 ? "min_lr" : "decay_steps", now->kind->name);
    if (!now->kind->falls || now->options.min_lr > 0 || now->options.lr == 0 || now->end >= last) return;
    lvn_log(LVN_LOG_WARN,
            "the learning rate is 0 from step %" PRId64 " on, because schedule.decay_steps is %" PRId64
            ": give schedule.min_lr, or schedule.decay_steps=0, which lets the schedule end with the run",
            now->end + 1, now->end);
}

/* Do the learning rates of the steps from `first` on differ? Some steps suffice, because a schedule has few parameters.
 */
static bool rates_differ(const struct lvn_schedule *a, const struct lvn_schedule *b, int64_t first, int64_t last)
{
    const int64_t steps = last - first, every = steps > 1000 ? steps / 1000 : 1;
    for (int64_t k = 0; k < steps / every; k++) /* `last` may be INT64_MAX: first + steps may not overflow */
        if (lvn_schedule_lr(a, first + k * every) != lvn_schedule_lr(b, first + k * every)) return true;
    return false;
}

/* "cosine to step 16" */
static const char *schedule_text(const struct lvn_schedule *s, char text[80])
{
    if (s->kind->falls)
        snprintf(text, 80, "%s to step %" PRId64, s->kind->name, s->end);
    else
        snprintf(text, 80, "%s", s->kind->name);
    return text;
}

/* Report the learning rate before and after the checkpoint if the run continues with another schedule, or after the end
 * of its schedule. ARG: no additional step could change anything. */
static enum lvn_status report_rates(const struct lvn_trainer *trainer, const struct levin_settings *then)
{
    const struct lvn_schedule_options options = lvn_schedule_options_of(&then->values);
    const struct lvn_schedule *now = &trainer->opened.schedule;
    const int64_t step = trainer->opened.snapshot.step, last = trainer->opened.last_step;
    struct lvn_schedule old;
    struct lvn_loader loader;
    char text[160], was[80], is[80];
    LVN_TRY(lvn_limits_loader(&loader, trainer->opened.setup.data, then));
    lvn_schedule_init(&old, &options, lvn_limits_steps(then, loader.steps_per_epoch));
    const bool longer = last != lvn_limits_last(then, loader.steps_per_epoch);
    const bool constant = !old.kind->falls && !now->kind->falls && step >= old.warmup && step >= now->warmup;
    if (step == 0 || step >= last) return LVN_OK;
    const double before = lvn_schedule_lr(&old, step - 1), after = lvn_schedule_lr(now, step);
    snprintf(text, sizeof text, "the learning rate was %.3g at step %" PRId64 " and is %.3g at step %" PRId64, before,
             step, after, step + 1);
    if (longer && now->kind->falls && step >= now->end) {
        LVN_CHECK(after > 0 || now->options.lr == 0, ARG,
                  "%s and in all later ones, because schedule.decay_steps is %" PRId64
                  ": further steps would change nothing. Add --schedule.decay_steps=0, which moves the schedule's end "
                  "to the run's (the learning rate then rises again), or --schedule.kind=constant with a small "
                  "--optimizer.lr",
                  text, now->end);
        lvn_log(LVN_LOG_WARN,
                "%s, where it stays (schedule.min_lr), because schedule.decay_steps is %" PRId64
                "; --schedule.decay_steps=0 moves the schedule's end to the run's",
                text, now->end);
    } else if (!constant && rates_differ(&old, now, step, last)) {
        lvn_log(after > before && step >= now->warmup ? LVN_LOG_WARN : LVN_LOG_INFO,
                "%s, because the schedule has changed: it is %s and was %s", text, schedule_text(now, is),
                schedule_text(&old, was));
    }
    if (longer) warn_of_rates(trainer);
    return LVN_OK;
}

/* Use the settings of the checkpoint, because those in the run's folder may be from a start that failed. */
static enum lvn_status check_rates(const struct lvn_trainer *trainer)
{
    LVN_LOCAL_ARENA(a);
    struct levin_settings then;
    const char *path = lvn_path_join(&a, trainer->opened.checkpoint.path, "state/settings.yaml");
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_settings_of_run(&then, path, trainer->opened.snapshot.ranks));
    const enum lvn_status status = report_rates(trainer, &then);
    lvn_settings_release(&then);
    return status;
}

/* Rank 0 opens the folder and, if resuming, the newest checkpoint. */
static enum lvn_status open_folder(struct lvn_trainer *trainer)
{
    LVN_CHECK(!trainer->settings->values.trainer.fast_dev_run || trainer->options->mode == LVN_RUN_NEW, ARG,
              "trainer.fast_dev_run saves nothing, so there is nothing to resume or to overwrite; omit one of them");
    if (trainer->ranks->rank || trainer->settings->values.trainer.fast_dev_run) return LVN_OK;
    const struct lvn_run_dir_options options = {.mode = trainer->options->mode,
                                                .absolute = trainer->options->callback != NULL,
                                                .launch = trainer->options->launch,
                                                .rank_timeout = trainer->settings->values.trainer.rank_timeout};
    LVN_TRY(lvn_run_dir_open(&trainer->opened.run_dir, trainer->settings->values.run_dir, &options));
    trainer->opened.run_dir_open = true;
    if (trainer->options->mode != LVN_RUN_RESUME) return LVN_OK;
    LVN_TRY(lvn_checkpoint_clean(trainer->opened.run_dir.checkpoints));
    LVN_TRY(lvn_checkpoint_open_newest(&trainer->opened.checkpoint, trainer->opened.run_dir.checkpoints));
    trainer->opened.checkpoint_open = true;
    for (int i = 0; i < trainer->opened.checkpoint.n_skipped; i++)
        lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->opened.checkpoint.skipped[i]);
    trainer->opened.resuming = trainer->opened.checkpoint.path != NULL;
    if (!trainer->opened.resuming) {
        int64_t damaged; /* of a checkpoint that was once complete; saves of a restarted run would remove it */
        LVN_TRY(lvn_checkpoint_newest_step(trainer->opened.run_dir.checkpoints, &damaged));
        LVN_CHECK(damaged < 0, FORMAT,
                  "all checkpoints in '%s' are damaged; restore one from a copy, or start again with --overwrite",
                  trainer->opened.run_dir.url);
        lvn_log(LVN_LOG_WARN, "no checkpoint in '%s' to resume from; starting from the beginning",
                trainer->opened.run_dir.url);
    }
    return LVN_OK;
}

/* Rank 0: may the run continue from the checkpoint with these settings and data? */
static enum lvn_status check_run(struct lvn_trainer *trainer)
{
    if (trainer->ranks->rank || trainer->settings->values.trainer.fast_dev_run) return LVN_OK;
    if (trainer->options->mode != LVN_RUN_RESUME) warn_of_rates(trainer);
    if (!trainer->opened.resuming) return LVN_OK;
    LVN_TRY(lvn_snapshot_check(&trainer->opened.checkpoint, trainer->settings, trainer->opened.setup.config.model));
    LVN_TRY(lvn_snapshot_read(&trainer->opened.checkpoint, &trainer->opened.snapshot));
    const struct lvn_codec codec = lvn_model_setup_codec(&trainer->opened.setup);
    LVN_CHECK(
        trainer->opened.snapshot.data == trainer->opened.fingerprint, ARG,
        "'%s' was trained on other data than '%s' contains now%s, or by a levin that reads the files differently, and "
        "continuing would mix them; set data.path back, use the levin that began the run, or start a new run",
        trainer->opened.checkpoint.path, trainer->opened.setup.data->path,
        codec.tokenizer ? ", or with another tokenizer or chat template" : "");
    int64_t micro = trainer->settings->values.trainer.micro_batch_size;
    LVN_CHECK(
        !trainer->settings->values.trainer.deterministic || trainer->opened.snapshot.micro_batch == micro, ARG,
        "trainer.micro_batch_size is %lld here but was %lld in '%s', which with trainer.deterministic would change "
        "the bits; set it back",
        (long long)micro, (long long)trainer->opened.snapshot.micro_batch, trainer->opened.checkpoint.path);
    LVN_TRY(log_differences(trainer));
    return check_rates(trainer);
}

/* The step of the newest checkpoint on this rank's host; -1: none, or another rank of the host checks. */
static enum lvn_status newest_on_host(const struct lvn_trainer *trainer, int64_t *step)
{
    LVN_LOCAL_ARENA(a);
    *step = -1;
    if (trainer->ranks->local_rank) return LVN_OK;
    const char *dir = lvn_path_join(&a, trainer->settings->values.run_dir, "checkpoints");
    return dir ? lvn_checkpoint_newest_step(dir, step) : LVN_MEMORY;
}

/* If hosts share no folder and rank 0 starts on another host than last time, it must not resume from an older
 * checkpoint. All hosts see a run in a store. */
static enum lvn_status compare_hosts(struct lvn_trainer *trainer)
{
    const struct lvn_ranks *r = trainer->ranks;
    const char *dir = trainer->settings->values.run_dir;
    char theirs[40], ours[40];
    int64_t mine;
    int max = 0;
    if (trainer->options->mode != LVN_RUN_RESUME || r->hosts == 1 || lvn_store_is_url(dir)) return LVN_OK;
    LVN_TRY(lvn_ranks_agree(trainer->ranks, newest_on_host(trainer, &mine)));
    double *step = lvn_calloc((size_t)r->size, sizeof *step);
    enum lvn_status status = lvn_ranks_agree(trainer->ranks, step ? LVN_OK : LVN_MEMORY);
    if (!step || status != LVN_OK) {
        free(step);
        return status;
    }
    step[r->rank] = (double)mine + 1;
    status = lvn_ranks_sum(trainer->ranks, step, r->size);
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
        status =
            lvn_fail(LVN_ARG,
                     "the last checkpoint of '%s' is %s on %s, where rank %d runs, but %s on %s, where rank 0 "
                     "would resume from it; start with rank 0 on %s, or copy the folder. With run_dir in a "
                     "folder that all hosts share or in a store (run_dir=s3://...) a run can be resumed on any host",
                     dir, theirs, r->host[max], max, ours, r->host[0], r->host[max]);
    return lvn_ranks_agree(trainer->ranks, status);
}

/* A hash of the class names, which are not part of the data's fingerprint. */
static uint64_t names_hash(const struct lvn_model_config *c)
{
    uint64_t hash = 0;
    const char *name = c->class_names;
    for (int64_t k = 0; name && k < c->classes; k++, name += strlen(name) + 1)
        hash = (hash ^ lvn_name_hash(name)) * 0x100000001b3u;
    return hash;
}

static enum lvn_status open_run(struct lvn_trainer *trainer)
{
    LVN_TRY(compare_hosts(trainer));
    return lvn_ranks_agree(trainer->ranks, open_folder(trainer));
}

/* The model of a checkpoint, from the text of its config.json. */
static enum lvn_status read_trained(struct lvn_model_config *c, const char *text, int64_t bytes)
{
    static const char name[] = "config.json of the run's checkpoint";
    const struct lvn_model *variant;
    json_t *root;
    json_error_t error;
    LVN_TRY(lvn_json_load(text, bytes, 0, &root, &error));
    LVN_CHECK(root, FORMAT, "%s: %s", name, error.text);
    enum lvn_status status = lvn_config_read(c, &variant, name, root);
    json_decref(root);
    return status;
}

/* Open the run to resume before its data, because labels must have the classes of its model. */
static enum lvn_status open_run_so_far(struct lvn_trainer *trainer)
{
    LVN_LOCAL_ARENA(a);
    char *text = NULL;
    int64_t bytes = 0;
    LVN_TRY(open_run(trainer));
    enum lvn_status status = LVN_OK;
    if (!trainer->ranks->rank && trainer->opened.resuming && !trainer->options->model) {
        const char *path = lvn_path_join(&a, trainer->opened.checkpoint.path, "config.json");
        status = path ? lvn_file_read(path, 0, &text, &bytes) : LVN_MEMORY;
    } else if (!trainer->ranks->rank) {
        text = lvn_strdup("");
        status = text ? LVN_OK : LVN_MEMORY;
    }
    LVN_TRY(lvn_ranks_agree(trainer->ranks, status));
    status = lvn_ranks_broadcast_text(trainer->ranks, &text, &bytes);
    if (status == LVN_OK && bytes) status = read_trained(&trainer->opened.trained, text, bytes);
    free(text);
    return lvn_ranks_agree(trainer->ranks, status);
}

/* All ranks get the progress of rank 0's checkpoint. */
static enum lvn_status share_run(struct lvn_trainer *trainer)
{
    struct lvn_trainer_opened *o = &trainer->opened;
    if (trainer->options->mode != LVN_RUN_RESUME) LVN_TRY(open_run(trainer));
    LVN_TRY(lvn_ranks_agree(trainer->ranks, check_run(trainer)));
    LVN_TRY(lvn_ranks_broadcast(trainer->ranks, &o->resuming, (int64_t)sizeof o->resuming));
    LVN_TRY(lvn_ranks_broadcast(trainer->ranks, &o->snapshot, (int64_t)sizeof o->snapshot));
    if (!o->resuming) return LVN_OK;
    LVN_TRY(lvn_ranks_agree(trainer->ranks, lvn_dataset_mark_shards(o->setup.data, o->snapshot.skipped)));
    trainer->running.step = trainer->running.saver.step = o->snapshot.step;
    trainer->context.event.best_val_loss = o->snapshot.best_val_loss;
    trainer->context.event.start_val_loss = o->snapshot.start_val_loss;
    trainer->context.resumed_step = o->snapshot.step;
    if (!isnan(o->snapshot.val_loss)) trainer->running.validated_step = o->snapshot.step;
    return LVN_OK;
}

/* --- the event and its scalars --- */

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

/* --- the plan, and what depends on this rank's rows --- */

/* The shares of a run that continues with another number of ranks are dropped, unless they are given now. */
static void drop_old_shares(struct lvn_trainer *trainer)
{
    struct levin_settings *s = trainer->settings;
    const int n = lvn_shares_count(s->values.trainer.shares);
    if (trainer->options->mode != LVN_RUN_RESUME || n == 0 || n == trainer->ranks->size ||
        s->origin[LVN_OPT_trainer_shares].source >= LVN_SOURCE_ENVIRONMENT)
        return;
    snprintf(trainer->text, sizeof trainer->text,
             "trainer.shares is %.60s, for %d rank%s, but there are now %d; they compute equal parts",
             s->values.trainer.shares, n, lvn_plural(n), trainer->ranks->size);
    lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->text);
    s->values.trainer.shares = "";
}

static enum lvn_status plan_training(struct lvn_trainer *trainer)
{
    /* The bits of a resumed run must not depend on how much memory is free today. */
    bool same_ranks = trainer->opened.resuming && trainer->opened.snapshot.ranks == trainer->ranks->size;
    const struct lvn_train_programs_options options = {
        .ranks = trainer->ranks,
        .fields = &trainer->opened.setup.fields,
        .task = trainer->opened.setup.task,
        .fill = lvn_dataset_fill(trainer->opened.setup.data, LVN_SPLIT_TRAIN),
        .validate = trainer->opened.validation.on,
        .min_micro_batches = same_ranks ? trainer->opened.snapshot.min_micro_batches : 0,
        .planner = lvn_callbacks_planner(&trainer->callbacks)};
    return lvn_train_programs_plan(&trainer->planned.programs, &trainer->settings->values,
                                   &trainer->opened.setup.config, &options);
}

static void wait_for_saver(void *saver)
{
    lvn_saver_wait_read(saver);
}

static enum lvn_status allocate(struct lvn_trainer *trainer)
{
    struct lvn_train_programs *programs = &trainer->planned.programs;
    struct lvn_event *e = &trainer->context.event;
    const struct lvn_task_graph *outputs = &programs->step_session->outputs;
    LVN_TRY(lvn_train_programs_allocate(programs));
    LVN_TRY(lvn_step_statistics_init(&trainer->planned.statistics, trainer->ranks, programs->global_micro_batches,
                                     lvn_task_counts(outputs)));
    LVN_TRY(lvn_prefetch_open(&trainer->planned.prefetcher, &trainer->opened.train_loader, programs->first_row,
                              programs->rows, trainer->opened.last_step));
    e->micro_batch_size = programs->micro_batch;
    e->accumulation = programs->global_micro_batches;
    e->flops_per_token =
        lvn_program_flops(programs->step_session->program, programs->accumulation) /
        ((double)(programs->micro_batch * programs->accumulation * programs->block_size) * programs->fill);
    trainer->context.task = outputs;
    trainer->context.counts = lvn_step_statistics_sums(&trainer->planned.statistics);
    for (int i = 0; i < LVN_LENGTHS && programs->step_sessions[i]; i++) {
        programs->step_sessions[i]->before_update = wait_for_saver;
        programs->step_sessions[i]->context = &trainer->running.saver;
    }
    return lvn_validation_allocate(&trainer->opened.validation, programs);
}

/* Choose algorithms. A run that resumes on the same device uses its recorded ones; if it has none, it measures
 * nothing. */
static enum lvn_status tune(struct lvn_trainer *trainer)
{
    struct lvn_train_programs *programs = &trainer->planned.programs;
    const struct lvn_snapshot *so_far = &trainer->opened.snapshot;
    const struct lvn_device *d = programs->model_state->device;
    const char *device = lvn_device_text(d);
    const bool same = trainer->opened.resuming && !strcmp(so_far->device, device), first = !trainer->ranks->rank;
    enum lvn_status status = LVN_OK;
    int refused;
    LVN_LOCAL_TEXT(recorded);
    if (!d->backend->tuning) return LVN_OK;
    if (first && trainer->opened.resuming) status = lvn_snapshot_read_choices(&trainer->opened.checkpoint, &recorded);
    LVN_TRY(lvn_ranks_agree(trainer->ranks, status));
    LVN_TRY(lvn_train_programs_tune(programs, lvn_text_string(&recorded), !same || recorded.n, &refused));
    if (first) d->backend->tuning->list(d, &trainer->planned.choices);
    LVN_TRY(lvn_ranks_agree(trainer->ranks, lvn_text_status(&trainer->planned.choices)));
    if (refused && same)
        lvn_log(LVN_LOG_WARN,
                "until step %lld this run used algorithms for %d matrix multiplications that '%s' does not accept now: "
                "its bits are not those of a run that was never stopped",
                (long long)so_far->step, refused, device);
    return LVN_OK;
}

void lvn_trainer_release_rows(struct lvn_trainer *trainer)
{
    lvn_step_statistics_release(&trainer->planned.statistics);
    lvn_validation_release(&trainer->opened.validation);
    lvn_prefetch_close(trainer->planned.prefetcher);
    trainer->planned.prefetcher = NULL;
}

enum lvn_status lvn_trainer_load_batch(struct lvn_trainer *trainer, int64_t step, int64_t *labels)
{
    const struct lvn_samples *batch;
    LVN_TRY(lvn_prefetch_take(trainer->planned.prefetcher, step, &batch));
    return lvn_train_programs_feed(&trainer->planned.programs, batch, labels);
}

static enum lvn_status load_checked(struct lvn_trainer *trainer, int64_t *labels)
{
    const struct lvn_samples *batch;
    LVN_TRY(lvn_trainer_load_batch(trainer, trainer->running.step, labels));
    LVN_TRY(lvn_prefetch_take(trainer->planned.prefetcher, trainer->running.step, &batch));
    return lvn_task_check_shift(trainer->opened.setup.task, batch);
}

/* Load the first batch. Later ones are loaded during the previous step, whose statistics include their labels. */
static enum lvn_status load_first(struct lvn_trainer *trainer)
{
    int64_t labels = 0;
    if (trainer->running.step >= trainer->opened.last_step) return LVN_OK; /* a resumed run with nothing left to do */
    LVN_TRY(lvn_ranks_agree(trainer->ranks, load_checked(trainer, &labels)));
    double all = (double)labels;
    LVN_TRY(lvn_ranks_sum(trainer->ranks, &all, 1));
    trainer->running.labels = (int64_t)all;
    return LVN_OK;
}

/* Run one part of the set-up that may take long; the heartbeat reports it as the current operation. */
static enum lvn_status run_part(const char *operation, enum lvn_status (*part)(struct lvn_trainer *trainer),
                                struct lvn_trainer *trainer)
{
    const char *before = lvn_work_begin(operation);
    enum lvn_status status = part(trainer);
    lvn_work_end(before);
    if (status == LVN_OK && trainer->ranks->size == 1) status = lvn_interrupt_check();
    return status;
}

static enum lvn_status read_carried(struct lvn_trainer *trainer)
{
    const bool reads = trainer->opened.setup.has_pretrained && trainer->opened.run_dir_open;
    if (!reads) return LVN_OK;
    LVN_TRY(lvn_carried_files_read(&trainer->opened.carried, &trainer->opened.setup.pretrained, true));
    const int64_t end = trainer->opened.setup.data->answer_end;
    return end >= 0 ? lvn_carried_files_add_end(&trainer->opened.carried, end) : LVN_OK;
}

/* Describe the run to callbacks, listeners and the saver, and open the callbacks. */
static enum lvn_status open_callbacks(struct lvn_trainer *trainer)
{
    struct lvn_train_programs *programs = &trainer->planned.programs;
    describe_run(trainer);
    declare_scalars(trainer);
    trainer->context.model_state = programs->model_state;
    trainer->context.config = &trainer->opened.setup.config;
    trainer->context.dir = trainer->opened.run_dir_open ? &trainer->opened.run_dir : NULL;
    trainer->context.codec = lvn_model_setup_codec(&trainer->opened.setup);
    LVN_TRY(lvn_ranks_agree(trainer->ranks, read_carried(trainer)));
    const struct lvn_saver_target target = {.snapshot = {.dir = trainer->opened.run_dir.checkpoints,
                                                         .settings = trainer->settings,
                                                         .codec = &trainer->context.codec,
                                                         .carried = &trainer->opened.carried,
                                                         .base = &trainer->opened.adapter_base},
                                            .model_state = programs->model_state,
                                            .ranks = trainer->ranks,
                                            .callbacks = &trainer->callbacks,
                                            .context = &trainer->context,
                                            .dir = &trainer->opened.run_dir};
    lvn_saver_set_target(&trainer->running.saver, &target);
    return lvn_callbacks_open(&trainer->callbacks, &trainer->context, trainer->opened.snapshot.callbacks);
}

enum lvn_status lvn_trainer_set_up(struct lvn_trainer *trainer)
{
    const struct lvn_train_options *o = trainer->options;
    struct lvn_train_programs *programs = &trainer->planned.programs;
    trainer->context = (struct lvn_callback_context){.settings = trainer->settings,
                                                     .ranks = trainer->ranks,
                                                     .resumed_step = -1,
                                                     .scored_step = -1,
                                                     .listeners = o->listeners,
                                                     .n_listeners = o->n_listeners};
    trainer->context.event = (struct lvn_event){
        .utilization = NAN, .eta_s = NAN, .best_val_loss = NAN, .start_val_loss = NAN, .epoch_s = NAN};
    LVN_TRY(lvn_callbacks_init(&trainer->callbacks, trainer->settings, o->callback));
    trainer->context.callbacks = &trainer->callbacks;

    /* Settings, data and the run's folder. */
    LVN_TRY(lvn_consistency_start(trainer->ranks, &trainer->settings->values, trainer->text, sizeof trainer->text));
    if (*trainer->text) lvn_callback_notify(&trainer->context, LVN_EVENT_NOTE, trainer->text);
    LVN_TRY(lvn_settings_check_utf8(trainer->settings));
    LVN_TRY(lvn_ranks_check(trainer->ranks, &trainer->settings->values));
    if (o->mode == LVN_RUN_RESUME) LVN_TRY(run_part("opening the run's folder", open_run_so_far, trainer));
    LVN_TRY(lvn_ranks_agree(trainer->ranks, run_part("opening the data", open_data, trainer)));
    LVN_TRY(lvn_consistency_data(trainer->ranks, trainer->opened.fingerprint ^ trainer->opened.shards_hash ^
                                                     names_hash(&trainer->opened.setup.config)));
    LVN_TRY(run_part("opening the run's folder", share_run, trainer));
    lvn_trainer_note_data(trainer);

    /* The plan, its memory, and the weights. */
    drop_old_shares(trainer);
    LVN_TRY(plan_training(trainer));
    programs->unlabeled = trainer->opened.snapshot.unlabeled;
    lvn_trainer_note_plan(trainer);
    LVN_TRY(lvn_ranks_agree(trainer->ranks, allocate(trainer)));
    LVN_TRY(run_part("choosing algorithms of matrix multiplications", tune, trainer));
    LVN_TRY(run_part("loading the weights", load_parameters, trainer));
    LVN_TRY(lvn_ranks_agree(trainer->ranks, lvn_parameter_sums_start(programs->model_state)));
    LVN_TRY(lvn_consistency_replicas(trainer->ranks, programs->model_state, trainer->running.step));
    LVN_TRY(run_part("reading data", load_first, trainer));
    lvn_trainer_note_shards(trainer);
    return open_callbacks(trainer);
}

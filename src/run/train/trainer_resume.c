/* trainer_resume.c - opens the run's folder and, if resuming, its newest good checkpoint; checks that this run can
 * continue it, and reports what differs.
 *
 * trainer_setup.c calls it. Only rank 0 opens the folder, so ranks need no common file system. */

#include "base/files.h"
#include "base/log.h"
#include "model_io/model_config.h"
#include "options/choices.h"
#include "train/limits.h"
#include "train/trainer_private.h"

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
        const bool same = !strcmp(schedule_text(now, is), schedule_text(&old, was));
        lvn_log(after > before && step >= now->warmup ? LVN_LOG_WARN : LVN_LOG_INFO,
                same ? "%s, because optimizer.lr or another key of the rate has changed"
                     : "%s, because the schedule has changed: it is %s and was %s",
                text, is, was);
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

/* ARG: --overwrite would remove a model that this run has loaded. */
static enum lvn_status check_overwrites(const struct lvn_trainer *trainer)
{
    const struct lvn_run_dir *d = &trainer->opened.run_dir;
    const struct lvn_model_setup *m = &trainer->opened.setup;
    const struct lvn_values *v = &trainer->settings->values;
    const char *const init[] = {v->lora.init, v->model.init, v->lora.base};
    const char *inside = NULL;
    for (int i = 0; i < 3; i++)
        if (lvn_run_dir_removes(d, init[i])) inside = init[i];
    for (const struct lvn_pretrained *p = m->has_pretrained ? &m->pretrained : NULL; p; p = p->base)
        if (lvn_run_dir_removes(d, p->path)) inside = p->path;
    LVN_CHECK(!inside, ARG,
              "this run begins with '%s', which is in '%s', and --overwrite would remove it; choose another name or "
              "run_dir",
              inside, d->url);
    return LVN_OK;
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
    if (trainer->options->mode == LVN_RUN_OVERWRITE) LVN_TRY(check_overwrites(trainer));
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
        "continuing would mix them; set data.path back, use the levin that began the run, or start a new run, which "
        "may "
        "begin with the weights of this one (--model.init=%s)",
        trainer->opened.checkpoint.path, trainer->opened.setup.data->path,
        codec.tokenizer ? ", or with another tokenizer or chat template" : "", trainer->opened.run_dir.url);
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

static enum lvn_status open_run(struct lvn_trainer *trainer)
{
    LVN_TRY(compare_hosts(trainer));
    return lvn_ranks_agree(trainer->ranks, open_folder(trainer));
}

/* Rank 0: ARG for a key of the command line that gives other initial weights than those that the run began with.
 * Another path of a model or of adapters is accepted if it names the same folder, or if they may have moved: the path
 * that the run began with does not exist. */
static enum lvn_status check_weights(const struct lvn_trainer *trainer)
{
    static const enum lvn_option_id ids[] = {LVN_OPT_model_init, LVN_OPT_lora_init, LVN_OPT_task_fresh_head};
    LVN_LOCAL_ARENA(a);
    struct levin_settings then;
    char old[LVN_VALUE_TEXT], now[LVN_VALUE_TEXT];
    const struct levin_settings *s = trainer->settings;
    const char *path = lvn_path_join(&a, trainer->opened.checkpoint.path, "state/settings.yaml");
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_settings_of_run(&then, path, trainer->ranks->size));
    enum lvn_status status = LVN_OK;
    for (size_t i = 0; i < sizeof ids / sizeof *ids && status == LVN_OK; i++) {
        const char *was = lvn_settings_value(&then, ids[i], old), *is = lvn_settings_value(s, ids[i], now);
        const bool moved = *was && (ids[i] == LVN_OPT_model_init ||
                                    (ids[i] == LVN_OPT_lora_init && (!lvn_path_exists(was) || lvn_path_same(was, is))));
        if (s->origin[ids[i]].source > LVN_SOURCE_RECIPE && *is && !moved && strcmp(was, is) && strcmp(is, "false"))
            status = lvn_fail(LVN_ARG,
                              "%s is '%s', but the run began with '%s' and continues with the weights of its "
                              "checkpoint, '%s': leave it out, or start a new run",
                              lvn_option_by_id(ids[i])->key, is, was, trainer->opened.checkpoint.path);
    }
    lvn_settings_release(&then);
    return status;
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

enum lvn_status lvn_trainer_open_run_so_far(struct lvn_trainer *trainer)
{
    LVN_LOCAL_ARENA(a);
    char *text = NULL;
    int64_t bytes = 0;
    LVN_TRY(open_run(trainer));
    enum lvn_status status = LVN_OK;
    if (!trainer->ranks->rank && trainer->opened.resuming && !trainer->options->model) {
        const char *path = lvn_path_join(&a, trainer->opened.checkpoint.path, "config.json");
        status = path ? check_weights(trainer) : LVN_MEMORY;
        if (status == LVN_OK) status = lvn_file_read(path, 0, &text, &bytes);
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

enum lvn_status lvn_trainer_open_run(struct lvn_trainer *trainer)
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
    if (isfinite(o->snapshot.val_loss) && !(o->snapshot.val_loss >= o->snapshot.best_val_loss))
        trainer->context.event.best_val_loss = o->snapshot.val_loss; /* of a validation after state.json was written */
    trainer->context.event.start_val_loss = o->snapshot.start_val_loss;
    trainer->context.resumed_step = o->snapshot.step;
    trainer->running.saver.snapshot = o->snapshot;
    trainer->running.due = o->snapshot.due;
    if (!isnan(o->snapshot.val_loss) && !(o->snapshot.due & LVN_DUE_VALIDATION))
        trainer->running.validated_step = o->snapshot.step;
    return LVN_OK;
}

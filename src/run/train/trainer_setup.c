/* trainer_setup.c - everything before the first step: lvn_trainer_set_up() at the end of this file has the order.
 *
 * lvn_trainer_open() calls it. Each part that can fail on one rank ends with an agreement. The run's folder and its
 * checkpoint: trainer_resume.c; the event and its scalars: trainer_scalars.c. */
#include <unistd.h>

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
#include "model_io/adapters.h"
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

/* Is the base model of this run's adapters a checkpoint of another run, which that run may remove when it continues? */
static bool base_is_checkpoint(const struct lvn_trainer *trainer)
{
    LVN_LOCAL_ARENA(a);
    const struct lvn_values *v = &trainer->settings->values;
    const struct lvn_model_setup *m = &trainer->opened.setup;
    if (!v->lora.rank || !m->has_pretrained || lvn_store_is_url(v->model.init)) return false;
    const char *folder = lvn_path_dir(&a, m->pretrained.path);
    return folder && !strcmp(lvn_path_name(folder), "checkpoints");
}

/* Rank 0: name and checksum of the adapters' base model, for checkpoints. */
static enum lvn_status find_base(struct lvn_trainer *trainer)
{
    const struct lvn_pretrained *p = &trainer->opened.setup.pretrained;
    struct lvn_adapter_base *base = &trainer->opened.adapter_base;
    if (!trainer->settings->values.lora.rank || trainer->ranks->rank) return LVN_OK;
    LVN_TRY(lvn_model_find_name(&trainer->settings->arena, trainer->settings->values.model.init, p->path, &base->name));
    LVN_TRY(lvn_pretrained_checksum(p, &base->checksum));
    const bool merges = trainer->settings->values.lora.merge_checkpoints;
    if (base_is_checkpoint(trainer) && !merges && !trainer->opened.resuming)
        lvn_log(LVN_LOG_INFO,
                "the adapters need '%s', a checkpoint that its run may remove if it continues (checkpoint.top_k); "
                "`levin export` copies it, lora.merge_checkpoints=true saves whole models",
                base->name);
    if (lvn_store_is_url(trainer->settings->values.run_dir) && !merges)
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
    const struct lvn_pretrained *p = &trainer->opened.setup.pretrained;
    if (!*init && !n->config.lora.n_tokens) return LVN_OK;
    lvn_parameters_begin_collecting(n);
    enum lvn_status status = trainer->ranks->rank ? LVN_OK : lvn_adapters_start(p, n);
    if (status == LVN_OK && *init && !trainer->ranks->rank)
        status = lvn_adapters_read(init, p, trainer->opened.adapter_base.checksum, n);
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
static enum lvn_status resolve_settings(struct lvn_trainer *trainer)
{
    struct levin_settings *s = trainer->settings;
    const struct lvn_model_setup *m = &trainer->opened.setup;
    if (strcmp(s->values.data.kind, m->data_kind) != 0) {
        s->values.data.kind = m->data_kind;
        s->origin[LVN_OPT_data_kind] = (struct lvn_origin){.source = LVN_SOURCE_DERIVED, .where = "model.init"};
    }
    if (m->has_pretrained) LVN_TRY(lvn_settings_loaded(s, m->config.model));
    if (base_is_checkpoint(trainer)) { /* `best` may name another checkpoint of that run later */
        const char *path = lvn_arena_strdup(&s->arena, m->pretrained.path);
        if (path) s->values.model.init = path;
    }
    char here[PATH_MAX];
    if (!*s->values.data.folder && getcwd(here, sizeof here)) { /* for all relative paths of the settings */
        const char *folder = lvn_arena_strdup(&s->arena, here);
        if (folder && lvn_utf8_check(folder, (int64_t)strlen(folder)) < 0) s->values.data.folder = folder;
        s->origin[LVN_OPT_data_folder] =
            (struct lvn_origin){.source = LVN_SOURCE_DERIVED, .where = "the current folder"};
    }
    if (!m->has_pretrained && !trainer->options->model)
        lvn_settings_resolve(s, m->config.model, LVN_ROLE_VOCABULARY, lvn_model_value(&m->config, LVN_ROLE_VOCABULARY));
    return LVN_OK;
}

/* A run that resumes continues with the model of its checkpoint. ARG: model.init has other sizes now. The vocabulary
 * also depends on settings, and is compared with the shapes of the tensors. */
static enum lvn_status check_sizes(const struct lvn_trainer *trainer)
{
    const struct lvn_model_setup *m = &trainer->opened.setup;
    char one[LVN_KEY_TEXT], two[LVN_KEY_TEXT];
    if (!trainer->opened.trained.model || !m->has_pretrained) return LVN_OK;
    const struct lvn_model_config was = lvn_model_resolved(&trainer->opened.trained),
                                  now = lvn_model_resolved(&m->config);
    LVN_CHECK(was.model == now.model, ARG,
              "model.init, '%s', is of the kind %s now, and the run's checkpoint is of the kind %s; restore the "
              "original model",
              m->pretrained.path, now.model->name, was.model->name);
    for (const struct lvn_key *k = now.model->keys; k->kind; k++) {
        const double before = lvn_key_get(k, &was), after = lvn_key_get(k, &now);
        LVN_CHECK(k->any_time || k->role == LVN_ROLE_VOCABULARY || before == after, ARG,
                  "model.init, '%s', has %s %s now, and the run's checkpoint has %s; restore the original model",
                  m->pretrained.path, k->recipe ? k->recipe : k->json, lvn_key_text(k, after, one),
                  lvn_key_text(k, before, two));
    }
    return LVN_OK;
}

static enum lvn_status open_data(struct lvn_trainer *trainer)
{
    const struct levin_settings *s = trainer->settings;
    const struct lvn_schedule_options schedule = lvn_schedule_options_of(&s->values);
    const struct lvn_model_config *trained = trainer->opened.trained.model ? &trainer->opened.trained : NULL;
    LVN_TRY(lvn_model_setup_open(&trainer->opened.setup, s, trainer->options->model, trained));
    LVN_TRY(check_sizes(trainer));
    LVN_TRY(resolve_settings(trainer));
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

/* A hash of the class names, which are not part of the data's fingerprint. */
static uint64_t names_hash(const struct lvn_model_config *c)
{
    uint64_t hash = 0;
    const char *name = c->class_names;
    for (int64_t k = 0; name && k < c->classes; k++, name += strlen(name) + 1)
        hash = (hash ^ lvn_name_hash(name)) * 0x100000001b3u;
    return hash;
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
    lvn_trainer_describe(trainer);
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
    if (o->mode == LVN_RUN_RESUME) LVN_TRY(run_part("opening the run's folder", lvn_trainer_open_run_so_far, trainer));
    LVN_TRY(lvn_ranks_agree(trainer->ranks, run_part("opening the data", open_data, trainer)));
    LVN_TRY(lvn_consistency_data(trainer->ranks, trainer->opened.fingerprint ^ trainer->opened.shards_hash ^
                                                     names_hash(&trainer->opened.setup.config)));
    LVN_TRY(run_part("opening the run's folder", lvn_trainer_open_run, trainer));
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

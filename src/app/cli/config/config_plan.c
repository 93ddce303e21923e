/* config_plan.c - memory and micro-batch of a rank of the recipe, from the same plan that training runs (plan.c prints
 * it in full). Called by config.c.
 *
 * A rank's sequences are split into as few micro-batches as fit into its share of a machine's memory, as training does
 * at its start. */

#include "base/files.h"
#include "cli/config/config.h"
#include "cli/plan/plan.h"
#include "engine/train_programs.h"
#include "models/keys.h"
#include "options/choices.h"
#include "setup/setup.h"
#include "stores/store.h"
#include "train/callback.h"
#include "train/limits.h"

/* Copy the recipe's settings, finished, so that planning may change them. */
static enum lvn_status copy_settings(struct lvn_config *cf, struct levin_settings *copy)
{
    char *text = lvn_settings_yaml(cf->s);
    if (!text) return LVN_MEMORY;
    enum lvn_status status = lvn_settings_read(copy, text, strlen(text), "the recipe");
    free(text);
    LVN_TRY(status);
    copy->values.ranks = cf->machines * cf->per_machine;
    if (lvn_config_names_gpu(cf)) /* the GPU need not be in this machine */
        LVN_TRY(lvn_settings_set(copy, "trainer.accelerator", "trace", LVN_SOURCE_PROGRAM));
    LVN_TRY(lvn_settings_set(copy, "data.path", "", LVN_SOURCE_PROGRAM)); /* sizes do not depend on it */
    LVN_TRY(lvn_settings_set(copy, "data.url", "", LVN_SOURCE_PROGRAM));
    return lvn_settings_finish(copy, LVN_USES_ALL & ~LVN_USES_DEVICE);
}

/* Estimate the time of a step, if the device is in this machine. */
static enum lvn_status find_time(struct lvn_config *cf, const struct levin_settings *s, const struct lvn_model_setup *m,
                                 const struct lvn_train_programs *programs)
{
    struct lvn_compute compute;
    if (!programs->model_state->device->backend->rate || !programs->model_state->device->backend->computes)
        return LVN_OK;
    LVN_TRY(lvn_plan_compute(&compute, cf->c, s, programs, &m->config, (int)(cf->machines * cf->per_machine)));
    cf->measured = compute.method != LVN_COMPUTED_BY_RATES;
    cf->step_seconds =
        (compute.parts.forward + compute.parts.backward) * (double)programs->accumulation + compute.parts.update;
    return LVN_OK;
}

/* Count the training samples, if the data are on this machine; a problem with them is a warning. */
static enum lvn_status count_samples(struct lvn_config *cf, const struct levin_settings *s,
                                     const struct lvn_model_setup *m)
{
    struct lvn_dataset *d;
    struct lvn_data_options o = lvn_data_options_of(&s->values);
    o.path = cf->s->values.data.path;
    o.block_size = m->block_size;
    o.label = m->task->label.label;
    o.trains_tokenizer = true;
    if (!*o.path || lvn_store_is_url(o.path) || !lvn_path_exists(o.path)) return LVN_OK;
    const struct lvn_dataset_kind *kind = lvn_dataset_kind_find(o.kind);
    if (*s->values.model.init && kind && kind->needs_tokenizer) return LVN_OK; /* the model's own is not opened here */
    lvn_log_set(lvn_cli_log, NULL, LVN_LOG_WARN); /* what training reports about the data is not repeated here */
    const enum lvn_status status = lvn_dataset_open(&d, &o);
    lvn_log_set(lvn_cli_log, NULL, lvn_cli_log_level(cf->c));
    if (status == LVN_MEMORY) return status;
    if (status != LVN_OK) {
        lvn_log(LVN_LOG_WARN, "the data cannot be trained on as they are: %s", levin_error_text());
        lvn_error_clear();
        return LVN_OK;
    }
    cf->samples = lvn_dataset_samples(d, LVN_SPLIT_TRAIN);
    lvn_dataset_close(d);
    return LVN_OK;
}

/* Plan rank 0 with at least this number of micro-batches. */
static enum lvn_status plan_once(struct lvn_config *cf, const struct levin_settings *s, const struct lvn_model_setup *m,
                                 int64_t pieces)
{
    struct lvn_train_programs programs = {0};
    struct lvn_callbacks callbacks;
    struct lvn_train_programs_options o = {.size = (int)(cf->machines * cf->per_machine),
                                           .fields = &m->fields,
                                           .task = m->task,
                                           .validate = true,
                                           .planner = lvn_callbacks_planner(&callbacks),
                                           .min_micro_batches = pieces};
    enum lvn_status status = lvn_callbacks_init(&callbacks, s, NULL);
    if (status == LVN_OK) status = lvn_train_programs_plan(&programs, &s->values, &m->config, &o);
    if (status == LVN_OK) {
        cf->parameters = lvn_params_total(programs.model_state->params);
        cf->rank_bytes = lvn_model_state_bytes(programs.model_state);
        cf->fits = cf->memory <= 0 || (double)cf->rank_bytes <= 0.9 * (double)cf->memory / (double)cf->per_machine;
        cf->micro = programs.micro_batch;
        cf->accumulation = programs.accumulation;
    }
    if (status == LVN_OK && cf->fits) status = find_time(cf, s, m, &programs);
    lvn_train_programs_release(&programs);
    lvn_callbacks_release(&callbacks);
    return status;
}

static enum lvn_status plan(struct lvn_config *cf, const struct levin_settings *s, const struct lvn_model_setup *m)
{
    int64_t ranks = cf->machines * cf->per_machine, batch = s->values.trainer.batch_size;
    LVN_CHECK(batch >= ranks, ARG,
              "%lld ranks cannot share the %lld sequence%s of a step: use fewer machines or a larger "
              "trainer.batch_size",
              (long long)ranks, (long long)batch, lvn_plural(batch));
    for (int64_t pieces = 1;; pieces = cf->accumulation + 1) {
        LVN_TRY(plan_once(cf, s, m, pieces));
        if (cf->fits || cf->micro == 1 || s->values.trainer.micro_batch_size) return LVN_OK;
    }
}

/* Does levin know a published model of that name? */
static bool is_published(const char *name)
{
    const struct lvn_model *model;
    return lvn_published_find(name, &model) != NULL;
}

/* Reduce data.max_length to the context length of the model, if the template chose it and not the user. */
static void fit_length(struct lvn_config *cf, struct levin_settings *s, const struct lvn_model_setup *m)
{
    const struct lvn_origin *origin = &cf->s->origin[LVN_OPT_data_max_length];
    const int64_t positions = lvn_model_value(&m->config, LVN_ROLE_POSITIONS);
    if (origin->source != LVN_SOURCE_RECIPE || origin->line) return;
    if (positions > 0 && cf->s->values.data.max_length > positions)
        cf->s->values.data.max_length = s->values.data.max_length = positions;
}

enum lvn_status lvn_config_plan(struct lvn_config *cf)
{
    struct levin_settings s;
    struct lvn_model_setup m = {0};
    enum lvn_status status = lvn_settings_init(&s);
    if (status == LVN_OK) status = copy_settings(cf, &s);
    /* A model that is not on this machine (an address, a folder of the cluster) is not planned. */
    bool elsewhere = status == LVN_OK && *s.values.model.init && !lvn_path_exists(s.values.model.init) &&
                     !is_published(s.values.model.init);
    if (status == LVN_OK && !elsewhere) {
        status = lvn_model_setup_sizes(&m, &s, NULL);
        if (status == LVN_OK) fit_length(cf, &s, &m);
        if (status == LVN_OK) status = plan(cf, &s, &m);
        cf->planned = status == LVN_OK;
        if (status == LVN_OK) status = count_samples(cf, &s, &m);
        const int64_t steps = lvn_limits_steps(&s, cf->samples / s.values.trainer.batch_size);
        cf->steps = steps == INT64_MAX ? 0 : steps;
    }
    lvn_model_setup_close(&m);
    lvn_settings_release(&s);
    return status;
}

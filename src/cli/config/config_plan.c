/* config_plan.c - memory and micro-batch of a rank of the recipe, from the same plan that training runs (plan.c prints
 * it in full). Called by config.c.
 *
 * A rank's sequences are split into as few micro-batches as fit into its share of a machine's memory, as training does
 * at its start. */
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "cli/config/config.h"
#include "engine/train_programs.h"
#include "model_io/model_setup.h"
#include "train/callback.h"

/* The recipe's settings, finished, in a copy that planning may change. */
static enum lvn_status copy_settings(struct lvn_config *cf, struct lvn_settings *copy)
{
    char *text = lvn_settings_yaml(cf->s);
    if (!text) return LVN_MEMORY;
    enum lvn_status status = lvn_settings_read(copy, text, strlen(text), "the recipe");
    free(text);
    LVN_TRY(status);
    copy->ranks = cf->machines * cf->per_machine;
    if (lvn_config_names_gpu(cf)) /* the GPU need not be in this machine */
        LVN_TRY(lvn_settings_set(copy, "trainer.accelerator", "trace", LVN_SOURCE_PROGRAM));
    LVN_TRY(lvn_settings_set(copy, "data.path", "", LVN_SOURCE_PROGRAM)); /* sizes do not depend on it */
    LVN_TRY(lvn_settings_set(copy, "data.url", "", LVN_SOURCE_PROGRAM));
    return lvn_settings_finish(copy, LVN_USES_ALL & ~LVN_USES_DEVICE);
}

/* Plan rank 0 with at least so many micro-batches. */
static enum lvn_status plan_once(struct lvn_config *cf, const struct lvn_settings *s, const struct lvn_model_setup *m,
                                 int64_t pieces)
{
    struct lvn_train_programs t = {0};
    struct lvn_callbacks callbacks;
    struct lvn_train_programs_options o = {.size = (int)(cf->machines * cf->per_machine),
                                           .fields = &m->fields,
                                           .task = m->task,
                                           .validate = true,
                                           .planner = lvn_callbacks_planner(&callbacks),
                                           .min_micro = pieces};
    enum lvn_status status = lvn_callbacks_init(&callbacks, s, NULL);
    if (status == LVN_OK) status = lvn_train_programs_plan(&t, s, &m->config, &o);
    if (status == LVN_OK) {
        cf->parameters = lvn_params_total(t.model_state->params);
        cf->rank_bytes = lvn_model_state_bytes(t.model_state);
        cf->fits = cf->memory <= 0 || (double)cf->rank_bytes <= 0.9 * (double)cf->memory / (double)cf->per_machine;
        cf->micro = t.micro_batch;
        cf->accumulation = t.accumulation;
    }
    lvn_train_programs_release(&t);
    lvn_callbacks_release(&callbacks);
    return status;
}

static enum lvn_status plan(struct lvn_config *cf, const struct lvn_settings *s, const struct lvn_model_setup *m)
{
    int64_t ranks = cf->machines * cf->per_machine, batch = s->trainer.batch_size;
    LVN_CHECK(batch >= ranks, ARG,
              "%lld ranks cannot share the %lld sequences of a step: take fewer machines or a larger "
              "trainer.batch_size",
              (long long)ranks, (long long)batch);
    for (int64_t pieces = 1;; pieces = cf->accumulation + 1) {
        LVN_TRY(plan_once(cf, s, m, pieces));
        if (cf->fits || cf->micro == 1 || s->trainer.micro_batch_size) return LVN_OK;
    }
}

/* Does levin know a published model of that name? */
static bool is_published(const char *name)
{
    const struct lvn_model *model;
    return lvn_published_find(name, &model) != NULL;
}

enum lvn_status lvn_config_plan(struct lvn_config *cf)
{
    struct lvn_settings s;
    struct lvn_model_setup m = {0};
    enum lvn_status status = lvn_settings_init(&s);
    if (status == LVN_OK) status = copy_settings(cf, &s);
    /* A model that is not on this machine (an address, a folder of the cluster) is not planned. */
    bool elsewhere = status == LVN_OK && *s.model.init && !lvn_path_exists(s.model.init) && !is_published(s.model.init);
    if (status == LVN_OK && !elsewhere) {
        status = lvn_model_setup_sizes(&m, &s, NULL);
        if (status == LVN_OK) status = plan(cf, &s, &m);
        cf->planned = status == LVN_OK;
    }
    lvn_model_setup_close(&m);
    lvn_settings_release(&s);
    return status;
}

/* api_evaluation.c - a model on data: loss and metrics, gradients, and the classes or numbers of new texts, for
 * programs.
 *
 * Each call opens the model that the settings name, as the commands `levin evaluate` and `levin predict` do. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "inference/evaluation.h"
#include "inference/prediction.h"
#include "model_io/model_config.h"

static enum lvn_status open_ranks(struct lvn_ranks **ranks, struct lvn_settings *s, unsigned parts)
{
    struct lvn_identity identity;
    if (lvn_identity_find(&identity) == LVN_OK) s->ranks = identity.size;
    return lvn_ranks_open(ranks, s, NULL, lvn_settings_finish(s, parts));
}

/* The names of the classes, each ended by a newline. */
static enum lvn_status names_of(const struct lvn_model_config *c, int64_t classes, char **out)
{
    LVN_LOCAL_TEXT(names);
    char name[LVN_CLASS_NAMES];
    for (int64_t k = 0; k < classes; k++) lvn_text_printf(&names, "%s\n", lvn_class_name(c, k, name));
    const char *text = lvn_text_string(&names);
    *out = text ? lvn_strdup(text) : NULL;
    return *out ? LVN_OK : LVN_MEMORY;
}

int lvn_classify(struct lvn_settings *s, const char *const *texts, const char *const *pairs, int64_t n,
                 struct lvn_classified *out)
{
    locale_t before = lvn_api_begin();
    struct lvn_ranks *ranks = NULL;
    struct lvn_prediction prediction = {0};
    const struct lvn_new_texts given = {.text = texts, .pair = pairs, .n = n};
    *out = (struct lvn_classified){.size = (int64_t)sizeof *out, .n = n};
    enum lvn_status status = open_ranks(&ranks, s, LVN_USES_MODEL | LVN_USES_TRAINER | LVN_USES_DEVICE);
    if (status == LVN_OK) status = lvn_predict(s, ranks, &given, &prediction);
    const int64_t classes = prediction.is_number ? 0 : prediction.columns;
    if (status == LVN_OK) status = names_of(&prediction.config, classes, &out->names);
    if (status == LVN_OK) {
        out->classes = prediction.columns;
        out->probability = prediction.value;
        prediction.value = NULL;
    }
    lvn_prediction_release(&prediction);
    lvn_ranks_close(ranks);
    return lvn_api_return(before, status);
}

int lvn_evaluate_model(struct lvn_settings *s, int64_t limit, const char *gradients, struct lvn_evaluated_model *out)
{
    locale_t before = lvn_api_begin();
    struct lvn_ranks *ranks = NULL;
    struct lvn_evaluate_result r = {0};
    *out = (struct lvn_evaluated_model){.size = (int64_t)sizeof *out};
    enum lvn_status status =
        open_ranks(&ranks, s, LVN_USES_MODEL | LVN_USES_DATA | LVN_USES_TRAINER | LVN_USES_SPLIT | LVN_USES_DEVICE);
    const struct lvn_evaluate_options o = {.ranks = ranks, .limit = limit, .gradients = gradients};
    if (status == LVN_OK) status = lvn_evaluate(s, &o, &r);
    if (status == LVN_OK) {
        out->loss = r.loss;
        out->labels = r.labels;
        out->samples = r.samples;
        out->skipped = r.skipped;
        out->split = lvn_split_names[r.split];
        out->n_metrics = r.n_metrics;
        for (int i = 0; i < r.n_metrics; i++)
            out->metric[i] = (struct lvn_run_scalar){.name = r.metrics[i]->name, .value = r.value[i], .is_new = 1};
        out->classes = r.classes;
        out->confusion = r.confusion;
        r.confusion = NULL;
    }
    lvn_evaluate_result_release(&r);
    lvn_ranks_close(ranks);
    return lvn_api_return(before, status);
}

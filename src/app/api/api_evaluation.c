/* api_evaluation.c - a model on data: loss and metrics, gradients, and the classes or numbers of new texts, for
 * programs; and its scores in benchmark tasks.
 *
 * Each call opens the model that the settings name, as the commands `levin evaluate` and `levin predict` do. */

#include "api/api.h"
#include "base/files.h"
#include "inference/evaluation.h"
#include "inference/prediction.h"
#include "inference/scoring.h"
#include "models/model.h"
#include "setup/setup.h"
#include "train/snapshot.h"

enum lvn_status lvn_api_class_names(const struct lvn_model_config *c, int64_t classes, char **out)
{
    LVN_LOCAL_TEXT(names);
    char label[LVN_CLASS_NAME];
    for (int64_t k = 0; k < classes; k++) {
        const int64_t start = names.n;
        lvn_text_add(&names, lvn_class_name(c, k, label));
        for (int64_t i = start; i < names.n; i++)
            if (names.p[i] == '\n') names.p[i] = ' ';
        lvn_text_add(&names, "\n");
    }
    const char *text = lvn_text_string(&names);
    *out = text ? lvn_strdup(text) : NULL;
    return *out ? LVN_OK : LVN_MEMORY;
}

int levin_classify(struct levin_settings *s, const char *const *texts, const char *const *pairs, int64_t n,
                   struct levin_classified *out)
{
    locale_t before = lvn_api_begin();
    struct lvn_ranks *ranks = NULL;
    struct lvn_prediction prediction = {0};
    struct lvn_model_setup setup = {0};
    const struct lvn_new_texts given = {.text = texts, .pair = pairs, .n = n};
    struct levin_classified filled = {0};
    enum lvn_status status = LVN_API_WRITE(out, &filled, names, levin_classified);
    if (status == LVN_OK && (!texts || n < 1)) status = lvn_fail(LVN_ARG, "there are no texts: give at least one");
    if (status == LVN_OK) status = lvn_api_ranks(&ranks, s, LVN_USES_MODEL | LVN_USES_TRAINER | LVN_USES_DEVICE);
    if (status == LVN_OK) status = lvn_ranks_agree(ranks, lvn_model_setup_prediction(&setup, s, &given));
    if (status == LVN_OK) status = lvn_predict(&setup, &s->values, ranks, &prediction);
    const int64_t classes = prediction.is_number ? 0 : prediction.columns;
    if (status == LVN_OK) status = lvn_api_class_names(&prediction.config, classes, &filled.names);
    if (status == LVN_OK) {
        filled.n = n;
        filled.classes = prediction.columns;
        filled.probability = prediction.values;
        prediction.values = NULL;
        status = LVN_API_WRITE(out, &filled, names, levin_classified);
    }
    lvn_prediction_release(&prediction);
    lvn_model_setup_close(&setup);
    lvn_ranks_close(ranks);
    return lvn_api_return(before, status);
}

/* Samples that a program gives are those of its open run: ARG if the model is a checkpoint of a run with others. */
static enum lvn_status check_samples(const struct levin_settings *s, const struct lvn_dataset *d)
{
    LVN_LOCAL_ARENA(a);
    const struct lvn_checkpoint c = {.path = s->values.model.init};
    const char *state = lvn_path_join(&a, c.path, "state/state.json");
    struct lvn_snapshot *trained = lvn_arena_alloc(&a, sizeof *trained);
    uint64_t data;
    if (!state || !trained) return LVN_MEMORY;
    if (strcmp(s->values.data.kind, "program") != 0 || !lvn_path_is_file(state)) return LVN_OK;
    LVN_TRY(lvn_snapshot_read(&c, trained));
    LVN_TRY(lvn_dataset_fingerprint(d, &data));
    LVN_CHECK(trained->data == data, ARG,
              "'%s' was trained on samples of a program, and the open run has others: evaluate it with a run that has "
              "its samples, or give data.kind and data.path",
              c.path);
    return LVN_OK;
}

int levin_evaluate_model(struct levin_settings *s, int64_t limit, const char *gradients,
                         struct levin_evaluated_model *out)
{
    locale_t before = lvn_api_begin();
    struct lvn_ranks *ranks = NULL;
    struct lvn_model_setup setup = {0};
    struct lvn_evaluate_result r = {0};
    struct levin_evaluated_model filled = {0};
    enum lvn_status status = LVN_API_WRITE(out, &filled, confusion, levin_evaluated_model);
    if (status == LVN_OK && limit < 0)
        status = lvn_fail(LVN_ARG, "limit is %lld: give a number of batches, or 0 for all", (long long)limit);
    if (status == LVN_OK)
        status = lvn_api_ranks(&ranks, s,
                               LVN_USES_MODEL | LVN_USES_DATA | LVN_USES_TRAINER | LVN_USES_SPLIT | LVN_USES_DEVICE);
    struct lvn_evaluate_options o = {.ranks = ranks, .limit = limit, .gradients = gradients};
    if (status == LVN_OK) status = lvn_ranks_agree(ranks, lvn_model_setup_evaluation(&setup, s, NULL, NULL, NULL));
    if (status == LVN_OK) status = lvn_ranks_agree(ranks, check_samples(s, setup.data));
    if (status == LVN_OK) o.split = lvn_model_setup_split(&setup, s);
    if (status == LVN_OK && !limit) {
        const struct lvn_amount part = lvn_model_setup_limit(s, gradients != NULL);
        o.limit = part.count;
        o.fraction = part.fraction;
    }
    if (status == LVN_OK) status = lvn_evaluate(&setup, &s->values, &o, &r);
    struct levin_run_scalar *metric = status == LVN_OK ? lvn_calloc((size_t)r.n_metrics + 1, sizeof *metric) : NULL;
    if (status == LVN_OK && !metric) status = LVN_MEMORY;
    if (status == LVN_OK) {
        for (int i = 0; i < r.n_metrics; i++)
            metric[i] = (struct levin_run_scalar){
                .size = (int64_t)sizeof *metric, .name = r.metrics[i]->name, .value = r.value[i], .is_new = 1};
        filled = (struct levin_evaluated_model){.loss = r.loss,
                                                .labels = r.labels,
                                                .samples = r.samples,
                                                .skipped = r.skipped,
                                                .split = lvn_split_names[r.split],
                                                .n_metrics = r.n_metrics,
                                                .metric = metric,
                                                .classes = r.classes,
                                                .confusion = r.confusion};
        r.confusion = NULL;
        status = LVN_API_WRITE(out, &filled, confusion, levin_evaluated_model);
    }
    lvn_evaluate_result_release(&r);
    lvn_model_setup_close(&setup);
    lvn_ranks_close(ranks);
    return lvn_api_return(before, status);
}

static json_t *json_of_items(const struct lvn_benchmarks *b)
{
    json_t *items = json_array();
    for (int64_t k = 0; k < b->n; k++)
        for (int64_t i = 0; i < b->list[k].n; i++)
            json_array_append_new(items, lvn_benchmark_item_json(&b->list[k], i));
    return items;
}

static enum lvn_status write_scores(const struct lvn_benchmarks *b, struct levin_task_scores *t)
{
    LVN_LOCAL_TEXT(text);
    double core;
    int64_t n;
    const long begun = lvn_json_begin();
    json_t *all = json_object();
    json_object_set_new(all, "tasks", lvn_benchmarks_json(b));
    if (lvn_benchmarks_core(b, &core, &n)) json_object_set_new(all, "core", json_real(core));
    if (t->items) json_object_set_new(all, "items", json_of_items(b));
    lvn_json_add(&text, begun, all, 0);
    json_decref(all);
    LVN_TRY(lvn_text_status(&text));
    t->result = lvn_strdup(lvn_text_string(&text));
    return t->result ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status check_tasks(const struct levin_task_scores *t)
{
    LVN_CHECK(t->task && t->n_tasks > 0 && t->n_tasks <= INT32_MAX, ARG, "there are no tasks: give at least one");
    LVN_CHECK(t->limit >= 0, ARG, "limit is %lld: give a number of items, or 0 for all", (long long)t->limit);
    LVN_CHECK(t->num_fewshot >= -1, ARG, "num_fewshot is %lld: give a number of examples, or -1 for that of the task",
              (long long)t->num_fewshot);
    return LVN_OK;
}

int levin_evaluate_tasks(struct levin_settings *s, struct levin_task_scores *scores)
{
    locale_t before = lvn_api_begin();
    struct lvn_ranks *ranks = NULL;
    struct lvn_model_setup setup = {0};
    struct lvn_benchmarks b = {0};
    struct lvn_scoring_counts counts;
    struct levin_task_scores t = {0};
    enum lvn_status status = LVN_API_READ(&t, scores, result, levin_task_scores);
    if (status == LVN_OK) status = check_tasks(&t);
    if (status == LVN_OK) status = lvn_api_ranks(&ranks, s, LVN_USES_MODEL | LVN_USES_DEVICE);
    const struct lvn_texts tasks = {t.task, (int)t.n_tasks};
    const struct lvn_scoring_options o = {.values = &s->values,
                                          .ranks = ranks,
                                          .setup = &setup,
                                          .tasks = &tasks,
                                          .limit = t.limit,
                                          .n_fewshot = t.num_fewshot};
    if (status == LVN_OK) status = lvn_ranks_agree(ranks, lvn_model_setup_loaded(&setup, s));
    if (status == LVN_OK) status = lvn_score(&o, &b, &counts);
    if (status == LVN_OK) status = write_scores(&b, &t);
    if (status == LVN_OK) status = LVN_API_WRITE(scores, &t, result, levin_task_scores);
    lvn_benchmarks_release(&b);
    lvn_model_setup_close(&setup);
    lvn_ranks_close(ranks);
    return lvn_api_return(before, status);
}

/* benchmark_json.c - the results of benchmarks as JSON, for `levin evaluate --tasks` and for programs. */
#include "benchmarks/benchmark.h"

static json_t *json_of_task(const struct lvn_benchmark *b)
{
    json_t *task = json_object();
    char name[64];
    json_object_set_new(task, "task", json_string(b->name));
    json_object_set_new(task, "items", json_integer(b->n));
    json_object_set_new(task, "num_fewshot", json_integer(b->n_fewshot));
    json_object_set_new(task, "truncated", json_integer(b->truncated));
    for (int k = 0; k < b->n_values; k++) {
        const struct lvn_benchmark_value *v = &b->value[k];
        json_object_set_new(task, v->metric, lvn_json_number(v->value));
        snprintf(name, sizeof name, "%s_stderr", v->metric);
        if (!strncmp(v->metric, "acc", 3)) json_object_set_new(task, name, lvn_json_number(v->stderr_of_mean));
    }
    if (b->is_core) json_object_set_new(task, "baseline", lvn_json_number(b->baseline));
    if (b->is_core) json_object_set_new(task, "centered", lvn_json_number(lvn_benchmark_centered_accuracy(b)));
    return task;
}

json_t *lvn_benchmark_item_json(const struct lvn_benchmark *b, int64_t i)
{
    const struct lvn_benchmark_item *item = &b->item[i];
    json_t *line = json_object(), *values = json_array();
    for (int j = 0; j < item->n; j++) json_array_append_new(values, lvn_json_number(item->sequence[j].log_likelihood));
    json_object_set_new(line, "task", json_string(b->name));
    json_object_set_new(line, "item", json_integer(i));
    json_object_set_new(line, "line", json_integer(item->line));
    if (lvn_benchmark_chooses(b)) {
        json_object_set_new(line, "choice", json_integer(item->choice));
        json_object_set_new(line, "choice_norm", json_integer(item->choice_norm));
    }
    if (b->kind != LVN_BENCHMARK_ROLLING) json_object_set_new(line, "correct", json_boolean(item->correct));
    json_object_set_new(line, "log_likelihoods", values);
    return line;
}

bool lvn_benchmarks_core(const struct lvn_benchmarks *b, double *core, int64_t *n)
{
    *core = 0;
    *n = 0;
    for (int64_t i = 0; i < b->n; i++)
        if (b->list[i].is_core) *core += lvn_benchmark_centered_accuracy(&b->list[i]), ++*n;
    if (*n) *core /= (double)*n;
    return *n > 0;
}

json_t *lvn_benchmarks_json(const struct lvn_benchmarks *b)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < b->n; i++) json_array_append_new(list, json_of_task(&b->list[i]));
    return list;
}

/* benchmark.c - see benchmark.h: reading tasks of both forms, and the values of their metrics. */
#include "benchmarks/benchmark.h"

#include "base/files.h"
#include "benchmarks/benchmark_private.h"

void lvn_benchmarks_release(struct lvn_benchmarks *b)
{
    lvn_arena_release(&b->arena);
    *b = (struct lvn_benchmarks){0};
}

enum lvn_status lvn_benchmarks_add(struct lvn_benchmarks *b, struct lvn_benchmark **out)
{
    if (!lvn_arena_list_reserve(&b->arena, &b->list, b->n, &b->capacity, b->n + 1, sizeof *b->list)) return LVN_MEMORY;
    *out = &b->list[b->n++];
    **out = (struct lvn_benchmark){0};
    return LVN_OK;
}

enum lvn_status lvn_benchmarks_read(struct lvn_benchmarks *b, const struct lvn_benchmark_options *o, const char *path)
{
    struct lvn_prompts prompts;
    const char *core = lvn_arena_printf(&b->arena, "%s/core.yaml", path);
    if (!core) return LVN_MEMORY;
    const bool is_folder = lvn_path_is_dir(path);
    LVN_CHECK(lvn_path_exists(path), ARG,
              "--tasks: '%s' does not exist; give a task of lm-evaluation-harness as .yaml, or the folder of a CORE "
              "bundle",
              path);
    LVN_CHECK(!is_folder || lvn_path_is_file(core), ARG,
              "--tasks: the folder '%s' has no core.yaml, so it is no CORE bundle; give one, or a task's .yaml", path);
    LVN_CHECK(is_folder || lvn_ends_with(path, ".yaml") || lvn_ends_with(path, ".yml"), ARG,
              "--tasks: '%s' is neither a .yaml file nor the folder of a CORE bundle%s", path,
              lvn_ends_with(path, ".zip") ? "; unpack it first" : "");
    enum lvn_status status = lvn_prompts_open(&prompts, o);
    if (status == LVN_OK) status = is_folder ? lvn_core_read(b, &prompts, path) : lvn_harness_read(b, &prompts, path);
    lvn_prompts_close(&prompts);
    return status;
}

/* --- metrics --- */

/* Index of the largest value, the first of equal ones. */
static int largest(const struct lvn_benchmark_item *item, double (*value)(const struct lvn_benchmark_sequence *))
{
    int best = 0;
    for (int i = 1; i < item->n; i++)
        if (value(&item->sequence[i]) > value(&item->sequence[best])) best = i;
    return best;
}

static double whole(const struct lvn_benchmark_sequence *x)
{
    return x->log_likelihood;
}

static double per_char(const struct lvn_benchmark_sequence *x)
{
    return x->log_likelihood / (double)x->chars;
}

static double per_byte(const struct lvn_benchmark_sequence *x)
{
    return x->log_likelihood / (double)x->bytes;
}

/* NaN without a scored token. As in core_eval.py, such a choice has the smallest loss only if it is the first one. */
static double per_token(const struct lvn_benchmark_sequence *x)
{
    return x->log_likelihood / (double)x->scored;
}

static bool is_gold(const struct lvn_benchmark_item *item, int choice)
{
    for (int i = 0; i < item->n_gold; i++)
        if (item->gold[i] == choice) return true;
    return false;
}

static double is_correct(const struct lvn_benchmark *b, const struct lvn_benchmark_item *item, const char *metric)
{
    if (b->kind == LVN_BENCHMARK_LIKELIHOOD || b->kind == LVN_BENCHMARK_GREEDY) return item->sequence->greedy;
    if (b->kind == LVN_BENCHMARK_MEAN) return is_gold(item, largest(item, per_token));
    return is_gold(item, largest(item, !strcmp(metric, "acc_norm")    ? per_char
                                       : !strcmp(metric, "acc_bytes") ? per_byte
                                                                      : whole));
}

/* The share of correct items, with its standard error. */
static void accuracy(const struct lvn_benchmark *b, struct lvn_benchmark_value *v)
{
    const double n = (double)b->n;
    double sum = 0;
    for (int64_t i = 0; i < b->n; i++) sum += is_correct(b, &b->item[i], v->metric);
    v->value = sum / n;
    v->stderr_of_mean = n > 1 ? sqrt(v->value * (1 - v->value) / (n - 1)) : NAN;
}

/* The perplexity of answers, or of whole texts per word or byte; or bits per byte. */
static void perplexity(const struct lvn_benchmark *b, struct lvn_benchmark_value *v)
{
    const bool words = !strcmp(v->metric, "word_perplexity"), bits = !strcmp(v->metric, "bits_per_byte"),
               items = !strcmp(v->metric, "perplexity");
    double sum = 0, units = 0;
    for (int64_t i = 0; i < b->n; i++) {
        const struct lvn_benchmark_item *item = &b->item[i];
        for (int k = 0; k < item->n; k++) sum += item->sequence[k].log_likelihood;
        units += items ? 1.0 : words ? (double)item->words : (double)item->bytes;
    }
    v->value = bits ? -sum / units / log(2) : exp(-sum / units);
    v->stderr_of_mean = NAN;
}

/* Do its items have a choice? */
static bool has_choices(const struct lvn_benchmark *b)
{
    return b->kind == LVN_BENCHMARK_CHOICE || b->kind == LVN_BENCHMARK_MEAN;
}

void lvn_benchmark_score(struct lvn_benchmark *b)
{
    const bool chooses = has_choices(b), mean = b->kind == LVN_BENCHMARK_MEAN;
    for (int k = 0; k < b->n_values; k++)
        if (!strncmp(b->value[k].metric, "acc", 3))
            accuracy(b, &b->value[k]);
        else
            perplexity(b, &b->value[k]);
    for (int64_t i = 0; i < b->n; i++) {
        struct lvn_benchmark_item *item = &b->item[i];
        item->choice = chooses ? largest(item, mean ? per_token : whole) : 0;
        item->choice_norm = chooses && !mean ? largest(item, per_char) : item->choice;
        item->correct = b->kind != LVN_BENCHMARK_ROLLING && is_correct(b, item, "acc") != 0;
    }
}

double lvn_benchmark_centered_accuracy(const struct lvn_benchmark *b)
{
    return (b->value->value - b->baseline) / (1 - b->baseline);
}

/* --- results as JSON, for `levin evaluate --tasks` and for programs --- */

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
    if (has_choices(b)) {
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

/* evaluate.c - levin evaluate MODEL: loss and metrics on data; predictions, token losses and gradients for comparison
 * with other programs; with --tasks the scores in benchmark tasks. inference/evaluation.h and inference/scoring.h do
 * the work, benchmarks/benchmark.h reads the tasks. */
#include "base/clock.h"
#include "base/list.h"
#include "base/target.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/cli_ranks.h"
#include "cli/model_arg.h"
#include "inference/evaluation.h"
#include "inference/scoring.h"
#include "setup/setup.h"

/* Prediction and losses of a sample. */
struct row {
    int64_t number;     /* of the sample in the data */
    json_t *prediction; /* NULL: not requested */
    json_t *losses;     /* NULL: not requested */
};

struct lists {
    bool predictions; /* requested */
    bool losses;      /* requested */
    struct row *row;
    int64_t n;
    int64_t capacity;
    bool out_of_memory;
};

static json_t *numbers(const float *x, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++) json_array_append_new(list, lvn_json_number((double)x[i]));
    return list;
}

/* Index of the last of the n rows of sample i that is at a token. */
static int64_t last_token(const struct lvn_evaluated *e, int64_t i, int64_t n)
{
    int64_t at = n - 1;
    if (e->labels && e->n_losses == n)
        while (at > 0 && e->labels[i * n + at] < 0) at--;
    return at;
}

/* The prediction for sample i; of a language model the first logits at the last token. */
static json_t *prediction(const struct lvn_evaluated *e, int64_t i)
{
    int64_t all = lvn_desc_count(e->shape) / e->shape->dim[0], row = e->shape->dim[e->shape->rank - 1];
    const float *x = e->prediction + i * all;
    if (!e->task->max_printed) return numbers(x, all);
    return numbers(x + last_token(e, i, all / row) * row, row < e->task->max_printed ? row : e->task->max_printed);
}

static void collect(void *context, const struct lvn_evaluated *e)
{
    struct lists *l = context;
    if (!lvn_list_reserve(&l->row, &l->capacity, l->n + e->samples, sizeof *l->row)) {
        l->out_of_memory = true;
        return;
    }
    for (int64_t i = 0; i < e->samples; i++) {
        bool losses = l->losses && e->task->counted;
        l->row[l->n++] = (struct row){.number = e->number[i],
                                      .prediction = l->predictions ? prediction(e, i) : NULL,
                                      .losses = losses ? numbers(e->losses + i * e->n_losses, e->n_losses) : NULL};
    }
}

static int by_number(const void *a, const void *b)
{
    int64_t x = ((const struct row *)a)->number, y = ((const struct row *)b)->number;
    return x < y ? -1 : x > y;
}

/* The lists in the order of the data; NULL: not requested. Frees the rows. */
static void sort_lists(struct lists *l, json_t **predictions, json_t **losses)
{
    *predictions = l->predictions ? json_array() : NULL;
    *losses = l->losses ? json_array() : NULL;
    if (l->n) qsort(l->row, (size_t)l->n, sizeof *l->row, by_number);
    for (int64_t i = 0; i < l->n; i++) {
        if (*predictions) json_array_append_new(*predictions, l->row[i].prediction);
        if (*losses && l->row[i].losses) json_array_append_new(*losses, l->row[i].losses);
    }
    free(l->row);
}

/* The path or kind of the data that the split was taken from. */
static const char *split_source(const struct levin_settings *s, enum lvn_split_id split)
{
    bool val_path_counts = s->origin[LVN_OPT_data_val_path].source >= s->origin[LVN_OPT_data_path].source;
    if (split == LVN_SPLIT_VAL && val_path_counts && *s->values.data.val_path) return s->values.data.val_path;
    if (split == LVN_SPLIT_TEST && *s->values.data.test_path) return s->values.data.test_path;
    return *s->values.data.path ? s->values.data.path : s->values.data.kind;
}

static json_t *matrix(const double *x, int64_t n)
{
    json_t *rows = json_array();
    for (int64_t i = 0; i < n; i++) {
        json_t *row = json_array();
        for (int64_t j = 0; j < n; j++) json_array_append_new(row, json_integer((json_int_t)x[i * n + j]));
        json_array_append_new(rows, row);
    }
    return rows;
}

/* The names of the rows and columns of the matrix. */
static json_t *class_names(const struct lvn_model_config *c, int64_t n)
{
    json_t *names = json_array();
    char text[LVN_CLASS_NAME];
    for (int64_t k = 0; k < n; k++) json_array_append_new(names, json_string(lvn_class_name(c, k, text)));
    return names;
}

/* Lines of a text as strings. */
static json_t *lines_of(const char *text)
{
    json_t *list = json_array();
    for (size_t n; *text; text += n + 1) {
        n = strcspn(text, "\n");
        json_array_append_new(list, json_stringn(text, n));
    }
    return list;
}

static void show(struct lvn_cli *c, const struct lvn_evaluate_result *r, json_t *predictions, json_t *token_losses)
{
    char count[LVN_NUMBER_TEXT];
    int64_t counted = r->task->counted ? r->labels : r->samples;
    const char *unit = lvn_task_unit(r->task);
    lvn_cli_print(c, "loss %.6f over %s %s, %s of '%s'\n", r->loss, lvn_count_text(counted, count), unit,
                  lvn_split_names[r->split], split_source(&c->settings, r->split));
    lvn_cli_add(c, "loss", lvn_json_number(r->loss));
    if (r->task->counted) lvn_cli_add(c, unit, json_integer(counted));
    lvn_cli_add(c, "samples", json_integer(r->samples));
    if (r->skipped) {
        lvn_cli_print(c, "%s row%s cannot be used and %s skipped; the first: %.*s\n", lvn_count_text(r->skipped, count),
                      r->skipped == 1 ? "" : "s", r->skipped == 1 ? "is" : "are", (int)strcspn(r->skipped_rows, "\n"),
                      r->skipped_rows);
        lvn_cli_add(c, "skipped", json_integer(r->skipped));
        lvn_cli_add(c, "skipped_rows", lines_of(r->skipped_rows)); /* the lists below have no entry for these */
    }
    lvn_cli_add(c, "split", json_string(lvn_split_names[r->split]));
    for (int i = 0; i < r->n_metrics; i++) {
        lvn_cli_print(c, isnan(r->value[i]) ? "%s -\n" : "%s %.6g\n", r->metrics[i]->name, r->value[i]);
        lvn_cli_add(c, r->metrics[i]->name, lvn_json_number(r->value[i]));
    }
    if (r->confusion) {
        lvn_cli_add(c, "classes", class_names(&r->config, r->classes));
        lvn_cli_add(c, "confusion", matrix(r->confusion, r->classes));
    }
    lvn_cli_add(c, r->task->output_name, predictions);
    if (r->task->counted)
        lvn_cli_add(c, "token_losses", token_losses);
    else
        json_decref(token_losses);
}

/* --- scores in benchmark tasks --- */

/* ARG for an option that has an effect with --tasks alone. */
static enum lvn_status check_without_tasks(const struct lvn_cli *c)
{
    static const enum lvn_flag_id flags[] = {LVN_FLAG_evaluate_limit, LVN_FLAG_evaluate_num_fewshot,
                                             LVN_FLAG_evaluate_items};
    return lvn_cli_refuse(c, flags, sizeof flags / sizeof *flags,
                          "has no effect without --tasks: add --tasks=FILE.yaml, or leave it out");
}

static enum lvn_status check_options(const struct lvn_cli *c)
{
    static const enum lvn_flag_id flags[] = {LVN_FLAG_evaluate_logits, LVN_FLAG_evaluate_token_losses,
                                             LVN_FLAG_evaluate_gradients};
    LVN_TRY(lvn_cli_refuse(c, flags, sizeof flags / sizeof *flags,
                           "belongs to an evaluation on data and has no effect with --tasks: leave one of them out"));
    return lvn_cli_refuse_keys(c, "model, lora, trainer",
                               "has no effect with --tasks, whose files name their data: leave one of them out");
}

static void print_task(struct lvn_cli *c, const struct lvn_benchmark *b, int width)
{
    char count[LVN_NUMBER_TEXT];
    for (int k = 0; k < b->n_values; k++) {
        const struct lvn_benchmark_value *v = &b->value[k];
        if (!k)
            lvn_cli_print(c, "%-*s %8s %6lld", width, b->name, lvn_count_text(b->n, count), (long long)b->n_fewshot);
        else
            lvn_cli_print(c, "%-*s %8s %6s", width, "", "", "");
        lvn_cli_print(c, "  %-15s %8.4f", v->metric, v->value);
        if (b->is_core)
            lvn_cli_print(c, "  %8.4f\n", lvn_benchmark_centered_accuracy(b));
        else
            lvn_cli_print(c, isnan(v->stderr_of_mean) ? "\n" : "  %8.4f\n", v->stderr_of_mean);
    }
}

static void show_tasks(struct lvn_cli *c, const struct lvn_benchmarks *b, const struct lvn_scoring_counts *counts,
                       double seconds)
{
    char items[LVN_NUMBER_TEXT], tokens[LVN_NUMBER_TEXT], run[LVN_NUMBER_TEXT];
    int width = 4;
    int64_t n_core;
    double core;
    for (int64_t i = 0; i < b->n; i++)
        if ((int)strlen(b->list[i].name) > width) width = (int)strlen(b->list[i].name);
    for (int64_t i = 0; i < b->n; i++) {
        const struct lvn_benchmark *task = &b->list[i];
        if (!i || task->is_core != task[-1].is_core)
            lvn_cli_print(c, "%-*s %8s %6s  %-15s %8s  %8s\n", width, "task", "items", "shots", "metric", "value",
                          task->is_core ? "centered" : "stderr");
        print_task(c, task, width);
    }
    if (lvn_benchmarks_core(b, &core, &n_core))
        lvn_cli_print(c, "CORE %.4f, the mean of %lld centered accuracies\n", core, (long long)n_core);
    for (int64_t i = 0; i < b->n; i++)
        if (b->list[i].truncated)
            lvn_cli_print(c, "%s: %s of %lld items do not fit into the context; their first tokens were left out\n",
                          b->list[i].name, lvn_count_text(b->list[i].truncated, items), (long long)b->list[i].n);
    lvn_cli_print(c, "%s items with %s tokens, of which %s were run, in %.1f s\n", lvn_count_text(counts->items, items),
                  lvn_count_text(counts->tokens, tokens), lvn_count_text(counts->run, run), seconds);
    lvn_cli_add(c, "tasks", lvn_benchmarks_json(b));
    if (n_core) lvn_cli_add(c, "core", lvn_json_number(core));
    lvn_cli_add(c, "seconds", lvn_json_number(seconds));
}

/* A line of JSON for each item, in the order of the tasks. */
static enum lvn_status write_items(const struct lvn_benchmarks *b, const char *path)
{
    LVN_LOCAL_TEXT(text);
    for (int64_t k = 0; k < b->n; k++)
        for (int64_t i = 0; i < b->list[k].n; i++) {
            const long begun = lvn_json_begin();
            json_t *line = lvn_benchmark_item_json(&b->list[k], i);
            lvn_json_add(&text, begun, line, 0);
            lvn_text_add(&text, "\n");
            json_decref(line);
        }
    LVN_TRY(lvn_text_status(&text));
    return lvn_target_write(path, lvn_text_string(&text), text.n);
}

static enum lvn_status score_tasks(struct lvn_cli *c, struct lvn_model_setup *setup, struct lvn_benchmarks *b)
{
    const char *items = c->flag[LVN_FLAG_evaluate_items].t;
    const struct lvn_scoring_options o = {
        .values = &c->settings.values,
        .ranks = c->ranks,
        .setup = setup,
        .tasks = &c->flag[LVN_FLAG_evaluate_tasks].texts,
        .limit = c->flag[LVN_FLAG_evaluate_limit].i,
        .n_fewshot = c->given[LVN_FLAG_evaluate_num_fewshot] ? c->flag[LVN_FLAG_evaluate_num_fewshot].i : -1};
    struct lvn_scoring_counts counts;
    const double begin = lvn_seconds();
    enum lvn_status status = *items ? lvn_cli_check_output(c, items) : LVN_OK;
    if (status == LVN_OK) status = lvn_model_setup_loaded(setup, &c->settings);
    LVN_TRY(lvn_ranks_agree(c->ranks, status));
    LVN_TRY(lvn_score(&o, b, &counts));
    if (*items) LVN_TRY(lvn_ranks_agree(c->ranks, c->ranks->rank ? LVN_OK : write_items(b, items)));
    show_tasks(c, b, &counts, lvn_seconds() - begin);
    return LVN_OK;
}

static enum lvn_status evaluate_tasks(struct lvn_cli *c)
{
    struct lvn_model_setup setup = {0};
    struct lvn_benchmarks b = {0};
    LVN_TRY(check_options(c));
    LVN_TRY(lvn_cli_join_ranks(c, lvn_cli_model_settings(c, c->operand[0], LVN_USES_MODEL | LVN_USES_DEVICE)));
    if (lvn_cli_shows_settings(c)) return LVN_OK;
    enum lvn_status status = score_tasks(c, &setup, &b);
    lvn_benchmarks_release(&b);
    lvn_model_setup_close(&setup);
    return status;
}

/* --- the command --- */

/* Warn if keys of the command line choose other validation rows than those that the run has held back. */
static void warn_of_rows(const struct levin_settings *s, enum lvn_split_id split)
{
    static const enum lvn_option_id ids[] = {LVN_OPT_trainer_seed, LVN_OPT_data_val_fraction};
    const bool chosen = lvn_option_is_for(lvn_option_by_id(LVN_OPT_data_val_fraction), s->values.data.kind);
    if (split != LVN_SPLIT_VAL || !chosen || *s->values.data.val_path) return;
    if (s->origin[LVN_OPT_data_path].source != LVN_SOURCE_RUN) return;
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (s->origin[ids[i]].source >= LVN_SOURCE_COMMAND)
            lvn_log(LVN_LOG_WARN,
                    "--%s chooses the rows that are scored: unless the run had the same value, it has trained on some "
                    "of them",
                    lvn_option_by_id(ids[i])->key);
}

enum lvn_status lvn_command_evaluate(struct lvn_cli *c)
{
    if (c->flag[LVN_FLAG_evaluate_tasks].texts.n) return evaluate_tasks(c);
    LVN_TRY(check_without_tasks(c));
    unsigned parts = LVN_USES_MODEL | LVN_USES_DATA | LVN_USES_TRAINER | LVN_USES_SPLIT | LVN_USES_DEVICE;
    LVN_TRY(lvn_cli_join_ranks(c, lvn_cli_model_settings(c, c->operand[0], parts)));
    if (lvn_cli_shows_settings(c)) return LVN_OK;
    bool logits = lvn_cli_on(c, LVN_FLAG_evaluate_logits), losses = lvn_cli_on(c, LVN_FLAG_evaluate_token_losses);
    const char *gradients = c->flag[LVN_FLAG_evaluate_gradients].t;
    LVN_CHECK(c->json || (!logits && !losses), ARG, "--logits and --token-losses are lists of numbers: add --json");
    struct lists lists = {.predictions = logits, .losses = losses};
    json_t *predictions, *token_losses;
    struct lvn_amount limit = lvn_model_setup_limit(&c->settings, *gradients);
    struct lvn_evaluate_options o = {.ranks = c->ranks,
                                     .limit = limit.count,
                                     .fraction = limit.fraction,
                                     .prediction = logits,
                                     .gradients = *gradients ? gradients : NULL,
                                     .batch = logits || losses ? collect : NULL,
                                     .context = &lists};
    struct lvn_evaluate_result r = {0};
    struct lvn_model_setup setup = {0};
    enum lvn_status status =
        lvn_ranks_agree(c->ranks, lvn_model_setup_evaluation(&setup, &c->settings, NULL, NULL, NULL));
    if (status == LVN_OK && losses && !setup.task->counted)
        status = lvn_fail(LVN_ARG,
                          "--token-losses is for language models, and the model '%s' has one loss for a sample "
                          "(task.kind=%s): leave it out",
                          setup.pretrained.path, setup.task->name);
    if (status == LVN_OK) o.split = lvn_model_setup_split(&setup, &c->settings);
    if (status == LVN_OK && !c->ranks->rank) warn_of_rows(&c->settings, o.split);
    if (status == LVN_OK) status = lvn_evaluate(&setup, &c->settings.values, &o, &r);
    if (status == LVN_OK && lists.out_of_memory) status = LVN_MEMORY;
    sort_lists(&lists, &predictions, &token_losses);
    if (status == LVN_OK) {
        show(c, &r, predictions, token_losses);
    } else {
        json_decref(predictions);
        json_decref(token_losses);
    }
    lvn_evaluate_result_release(&r);
    lvn_model_setup_close(&setup);
    return status;
}

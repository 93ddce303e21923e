/* evaluate_tasks.c - see evaluate_tasks.h. benchmarks/benchmark.h reads the tasks, inference/scoring.h computes; here
 * are options, the table, --json and the file of --items. */
#include "cli/evaluate/evaluate_tasks.h"
#include "cli/cli_ranks.h"

#include "base/clock.h"
#include "base/target.h"
#include "cli/args.h"
#include "cli/model_arg.h"
#include "inference/scoring.h"
#include "setup/setup.h"

enum lvn_status lvn_evaluate_without_tasks(const struct lvn_cli *c)
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
    for (int i = 0; i < c->n_keys; i++)
        LVN_CHECK(strncmp(c->keys[i].key, "data.", 5) != 0 && strncmp(c->keys[i].key, "task.", 5) != 0, ARG,
                  "--%s has no effect on --tasks, whose files name their data: leave one out", c->keys[i].key);
    return LVN_OK;
}

/* --- results --- */

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

static void show(struct lvn_cli *c, const struct lvn_benchmarks *b, const struct lvn_scoring_counts *counts,
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

/* --- the command --- */

static enum lvn_status evaluate(struct lvn_cli *c, struct lvn_model_setup *setup, struct lvn_benchmarks *b)
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
    show(c, b, &counts, lvn_seconds() - begin);
    return LVN_OK;
}

enum lvn_status lvn_evaluate_tasks(struct lvn_cli *c)
{
    struct lvn_model_setup setup = {0};
    struct lvn_benchmarks b = {0};
    LVN_TRY(check_options(c));
    LVN_TRY(lvn_cli_join_ranks(c, lvn_cli_model_settings(c, c->operand[0], LVN_USES_MODEL | LVN_USES_DEVICE)));
    if (lvn_cli_shows_settings(c)) return LVN_OK;
    enum lvn_status status = evaluate(c, &setup, &b);
    lvn_benchmarks_release(&b);
    lvn_model_setup_close(&setup);
    return status;
}

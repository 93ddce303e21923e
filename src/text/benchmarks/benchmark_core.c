/* benchmark_core.c - the folder of a CORE bundle, as nanochat and DCLM have it: core.yaml lists tasks, eval_data has
 * their items as .jsonl, and eval_meta_data.csv the accuracy of a random answer for each of them.
 *
 * Prompts, few-shot examples, their order and what is scored are those of nanochat's core_eval.py and base_eval.py: the
 * items are shuffled with seed 1337, and item i chooses its examples with seed 1234 + i. */

#include "base/files.h"
#include "base/log.h"
#include "benchmarks/benchmark_private.h"
#include "benchmarks/benchmark_rows.h"
#include "benchmarks/python_random.h"
#include "data/table.h"
#include "formats/yaml.h"

enum { SHUFFLE_SEED = 1337, EXAMPLES_SEED = 1234 };

struct bundle {
    struct lvn_benchmarks *b;
    struct lvn_prompts *p;
    const char *folder, *yaml, *csv;
    /* Of the task that is read. */
    const struct lvn_yaml *task;
    const char *delimiter; /* between context and answer */
    enum { CHOICES, SCHEMA, LANGUAGE } type;
    struct lvn_rows rows;
    int64_t *order; /* [rows.n] after shuffling */
    int64_t n;      /* of these that are used */
};

/* --- members of items --- */

static enum lvn_status member(const struct bundle *c, int64_t i, const char *key, const json_t **out)
{
    *out = json_object_get(c->rows.row[i], key);
    LVN_CHECK(*out, ARG, "%s:%lld: the item has no '%s', which a task of this icl_task_type needs", c->rows.path,
              (long long)c->rows.line[i], key);
    return LVN_OK;
}

/* A text, or a number as text. trims: without white space at both ends. */
static enum lvn_status add_value(const struct bundle *c, int64_t i, const char *key, const json_t *value, bool trims,
                                 struct lvn_text *to)
{
    LVN_CHECK(json_is_string(value) || json_is_integer(value), ARG, "%s:%lld: '%s' must be a text", c->rows.path,
              (long long)c->rows.line[i], key);
    if (json_is_integer(value)) {
        lvn_text_printf(to, "%lld", (long long)json_integer_value(value));
        return LVN_OK;
    }
    const char *text = json_string_value(value);
    const int64_t n = (int64_t)json_string_length(value), from = trims ? lvn_prompt_space(text, n) : 0;
    lvn_text_add_bytes(to, text + from, trims ? lvn_prompt_stripped(text + from, n - from) : n);
    return LVN_OK;
}

static enum lvn_status add_member(const struct bundle *c, int64_t i, const char *key, bool trims, struct lvn_text *to)
{
    const json_t *value;
    LVN_TRY(member(c, i, key, &value));
    return add_value(c, i, key, value, trims, to);
}

/* The list of choices or contexts, with the index of the correct one. */
static enum lvn_status options_of(const struct bundle *c, int64_t i, const char *key, const json_t **list, int *gold)
{
    const json_t *index;
    LVN_TRY(member(c, i, key, list));
    LVN_TRY(member(c, i, "gold", &index));
    const int64_t n = (int64_t)json_array_size(*list);
    LVN_CHECK(n >= 2, ARG, "%s:%lld: '%s' must be a list of two or more texts, so that there is a choice", c->rows.path,
              (long long)c->rows.line[i], key);
    LVN_CHECK(json_is_integer(index) && json_integer_value(index) >= 0 && json_integer_value(index) < n, ARG,
              "%s:%lld: 'gold' must be the index of one of the %lld texts of '%s', from 0", c->rows.path,
              (long long)c->rows.line[i], (long long)n, key);
    *gold = (int)json_integer_value(index);
    return LVN_OK;
}

static const char *options_key(const struct bundle *c)
{
    return c->type == CHOICES ? "choices" : "context_options";
}

/* --- prompts --- */

/* Item i with option k, for LANGUAGE without its answer if k is -1. */
static enum lvn_status add_item(const struct bundle *c, int64_t i, const json_t *options, int k, struct lvn_text *to)
{
    const json_t *option = options ? json_array_get(options, (size_t)(k < 0 ? 0 : k)) : NULL;
    if (c->type == CHOICES)
        LVN_TRY(add_member(c, i, "query", false, to));
    else if (c->type == SCHEMA)
        LVN_TRY(add_value(c, i, "context_options", option, false, to));
    else
        LVN_TRY(add_member(c, i, "context", true, to));
    lvn_text_add(to, c->delimiter);
    if (c->type == CHOICES) return add_value(c, i, "choices", option, false, to);
    return k < 0 ? LVN_OK : add_member(c, i, "continuation", false, to);
}

/* Item i with its correct answer, as an example. */
static enum lvn_status add_example(const struct bundle *c, int64_t i, struct lvn_text *to)
{
    const json_t *options = NULL;
    int gold = 0;
    if (c->type != LANGUAGE) LVN_TRY(options_of(c, i, options_key(c), &options, &gold));
    LVN_TRY(add_item(c, i, options, gold, to));
    lvn_text_add(to, "\n\n");
    return LVN_OK;
}

/* The examples before the item at `at` of the order. */
static enum lvn_status add_examples(const struct bundle *c, int64_t at, int64_t n_examples, struct lvn_text *to)
{
    struct lvn_python_random random;
    LVN_CHECK(n_examples < c->n, ARG, "'%s' has %lld items, so there are no %lld examples beside an item", c->rows.path,
              (long long)c->n, (long long)n_examples);
    int64_t *chosen = lvn_malloc(sizeof *chosen * (size_t)(n_examples + 1));
    if (!chosen) return LVN_MEMORY;
    lvn_python_random_init(&random, (uint32_t)(EXAMPLES_SEED + at));
    enum lvn_status status = n_examples ? lvn_python_sample(&random, c->n - 1, n_examples, chosen) : LVN_OK;
    for (int64_t k = 0; k < n_examples && status == LVN_OK; k++)
        status = add_example(c, c->order[chosen[k] + (chosen[k] >= at)], to);
    free(chosen);
    return status;
}

/* Number of tokens that all sequences have in common at their beginning, or at their end. */
static int64_t common_tokens(const struct lvn_prompts *p, bool at_end)
{
    int64_t n = 0;
    for (;; n++)
        for (int i = 0; i < p->n; i++) {
            const struct lvn_ids *ids = &p->ids[i], *first = &p->ids[0];
            if (n == ids->n) return n;
            if (at_end ? ids->p[ids->n - 1 - n] != first->p[first->n - 1 - n] : ids->p[n] != first->p[n]) return n;
        }
}

static enum lvn_status language_item(const struct bundle *c, int64_t i, struct lvn_text *text, int64_t before)
{
    struct lvn_prompts *p = c->p;
    LVN_TRY(add_item(c, i, NULL, -1, text));
    LVN_TRY(lvn_text_status(text));
    /* Without white space at both ends, which would become part of the answer's first token. */
    const int64_t from = lvn_prompt_space(text->p, text->n);
    LVN_TRY(lvn_prompts_whole(p, text->p + from, lvn_prompt_stripped(text->p + from, text->n - from)));
    text->n = before;
    LVN_TRY(add_item(c, i, NULL, 0, text));
    LVN_TRY(lvn_text_status(text));
    LVN_TRY(lvn_prompts_whole(p, text->p, text->n));
    struct lvn_ids context = p->ids[0];
    bool begins = context.n < p->ids[1].n;
    for (int64_t k = 0; k < context.n && begins; k++) begins = context.p[k] == p->ids[1].p[k];
    LVN_CHECK(begins, ARG,
              "%s:%lld: the tokens of the context are not the first ones of context and continuation, so the answer "
              "cannot be separated; the continuation is empty, or a space is missing at the border",
              c->rows.path, (long long)c->rows.line[i]);
    p->scored[0] = p->ids[1].n - context.n;
    p->ids[0] = p->ids[1]; /* the only sequence is the whole text; the other list is kept for the next item */
    p->ids[1] = context;
    p->n = 1;
    return LVN_OK;
}

static enum lvn_status options_item(const struct bundle *c, int64_t i, struct lvn_text *text, int64_t before,
                                    struct lvn_benchmark_item *item)
{
    struct lvn_prompts *p = c->p;
    const json_t *options;
    int gold;
    LVN_TRY(options_of(c, i, options_key(c), &options, &gold));
    for (size_t k = 0; k < json_array_size(options); k++) {
        text->n = before;
        LVN_TRY(add_item(c, i, options, (int)k, text));
        LVN_TRY(lvn_text_status(text));
        LVN_TRY(lvn_prompts_whole(p, text->p, text->n));
    }
    const int64_t common = common_tokens(p, c->type == SCHEMA);
    for (int k = 0; k < p->n; k++)
        LVN_CHECK(
            c->type != SCHEMA || common < p->ids[k].n, ARG,
            "%s:%lld: the last tokens of 'context_options' are all those of text %d, so nothing comes before what is "
            "scored: two of the texts are the same",
            c->rows.path, (long long)c->rows.line[i], k + 1);
    for (int k = 0; k < p->n; k++) p->scored[k] = c->type == SCHEMA ? common : p->ids[k].n - common;
    int32_t *index = lvn_arena_alloc(&c->b->arena, sizeof *index);
    if (!index) return LVN_MEMORY;
    *index = gold;
    item->gold = index;
    item->n_gold = 1;
    return LVN_OK;
}

static enum lvn_status read_item(const struct bundle *c, int64_t at, int64_t n_examples,
                                 struct lvn_benchmark_item *item)
{
    LVN_LOCAL_TEXT(text);
    const int64_t i = c->order[at];
    lvn_prompts_begin(c->p, c->rows.path, c->rows.line[i]);
    LVN_TRY(add_examples(c, at, n_examples, &text));
    const int64_t before = text.n;
    LVN_TRY(c->type == LANGUAGE ? language_item(c, i, &text, before) : options_item(c, i, &text, before, item));
    item->needs_greedy = c->type == LANGUAGE;
    return lvn_prompts_item(c->p, &c->b->arena, c->p->o->context, item);
}

/* --- tasks --- */

/* The accuracy of a random answer, in percent, from eval_meta_data.csv. */
static enum lvn_status read_baseline(const struct bundle *c, const char *label, double *out)
{
    struct lvn_table table;
    struct lvn_table_row row = {0};
    bool more = true, found = false;
    enum lvn_status status = lvn_table_open(&table, c->csv);
    table.reals[1] = true;
    table.column_option = "";
    if (status == LVN_OK) status = lvn_table_column(&table, "Eval Task", true);
    if (status == LVN_OK) status = lvn_table_column(&table, "Random baseline", true);
    while (status == LVN_OK && more && !found) {
        status = lvn_table_next(&table, &row, &more);
        if (status != LVN_OK || !more || *row.bad || strlen(label) != (size_t)row.cell[0].n) continue;
        if (memcmp(row.cell[0].p, label, strlen(label)) != 0) continue;
        char number[40], *end = number;
        found = true;
        if (row.cell[1].n < (int64_t)sizeof number) {
            memcpy(number, row.cell[1].p, (size_t)row.cell[1].n);
            number[row.cell[1].n] = '\0';
            *out = 0.01 * strtod(number, &end);
        }
        if (end == number || *end || !(*out >= 0 && *out < 1))
            status = lvn_fail(LVN_ARG, "%s:%lld: the random baseline of '%s' must be a number from 0 to below 100",
                              c->csv, (long long)row.line, label);
    }
    lvn_table_close(&table);
    LVN_TRY(status);
    LVN_CHECK(found, ARG, "'%s' has no row for the task '%s', whose score needs its random baseline", c->csv, label);
    return LVN_OK;
}

static enum lvn_status text_of(const struct bundle *c, const char *key, const char *otherwise, const char **out)
{
    const struct lvn_yaml *node = lvn_yaml_get(c->task, key);
    *out = node ? node->text : otherwise;
    LVN_CHECK(*out && (!node || node->kind == LVN_YAML_SCALAR), ARG, "%s:%d: the task needs '%s', a text", c->yaml,
              node ? node->line : c->task->line, key);
    return LVN_OK;
}

static enum lvn_status read_type(struct bundle *c)
{
    static const char *const names[] = {"multiple_choice", "schema", "language_modeling"};
    const char *type;
    LVN_TRY(text_of(c, "icl_task_type", NULL, &type));
    for (int i = 0; i < 3; i++) {
        c->type = i;
        if (!strcmp(type, names[i])) return LVN_OK;
    }
    LVN_FAIL(UNSUPPORTED,
             "%s:%d: the icl_task_type '%s' is not supported; levin has multiple_choice, schema and "
             "language_modeling",
             c->yaml, lvn_yaml_get(c->task, "icl_task_type")->line, type);
}

/* The first number of the list num_fewshot. */
static enum lvn_status read_fewshot(const struct bundle *c, int64_t *out)
{
    const struct lvn_yaml *node = lvn_yaml_get(c->task, "num_fewshot");
    const struct lvn_yaml *first = node && node->kind == LVN_YAML_LIST ? node->child : node;
    char *end = NULL;
    const long n = first && first->kind == LVN_YAML_SCALAR ? strtol(first->text, &end, 10) : -1;
    LVN_CHECK(end && *first->text && !*end && n >= 0 && n <= 1000, ARG,
              "%s:%d: the task needs 'num_fewshot', a list with a number such as [10]", c->yaml,
              node ? node->line : c->task->line);
    *out = c->p->o->n_fewshot >= 0 ? c->p->o->n_fewshot : n;
    return LVN_OK;
}

static void warn_of_keys(const struct bundle *c)
{
    static const char *const known[] = {
        "label", "dataset_uri", "icl_task_type", "num_fewshot", "continuation_delimiter", "has_categories"};
    for (const struct lvn_yaml *key = c->task->child; key; key = key->next) {
        bool is_known = false;
        for (int i = 0; i < 6; i++) is_known |= !strcmp(key->key, known[i]);
        if (!is_known)
            lvn_log_once(LVN_LOG_WARN, "%s:%d: '%s' has no effect here, nor in nanochat's core_eval.py", c->yaml,
                         key->line, key->key);
    }
}

static enum lvn_status read_items(struct bundle *c, struct lvn_benchmark *task)
{
    struct lvn_python_random random;
    c->n = c->rows.n;
    c->order = lvn_malloc(sizeof *c->order * (size_t)c->n);
    if (!c->order) return LVN_MEMORY;
    for (int64_t i = 0; i < c->n; i++) c->order[i] = i;
    lvn_python_random_init(&random, SHUFFLE_SEED);
    lvn_python_shuffle(&random, c->order, c->n);
    if (c->p->o->limit && c->p->o->limit < c->n) c->n = c->p->o->limit;
    task->n = c->n;
    task->item = lvn_arena_alloc(&c->b->arena, sizeof *task->item * (size_t)c->n);
    if (!task->item) return LVN_MEMORY;
    for (int64_t i = 0; i < c->n; i++) {
        LVN_TRY(read_item(c, i, task->n_fewshot, &task->item[i]));
        task->truncated += task->item[i].truncated;
    }
    return LVN_OK;
}

static enum lvn_status read_task(struct bundle *c, const struct lvn_yaml *node)
{
    const char *label, *uri;
    struct lvn_benchmark *task;
    c->task = node;
    LVN_CHECK(node->kind == LVN_YAML_MAP, ARG, "%s:%d: a task is a map with label, dataset_uri and others", c->yaml,
              node->line);
    LVN_TRY(text_of(c, "label", NULL, &label));
    LVN_TRY(text_of(c, "dataset_uri", NULL, &uri));
    LVN_TRY(text_of(c, "continuation_delimiter", " ", &c->delimiter));
    LVN_TRY(read_type(c));
    warn_of_keys(c);
    LVN_TRY(lvn_benchmarks_add(c->b, &task));
    LVN_TRY(read_fewshot(c, &task->n_fewshot));
    LVN_TRY(read_baseline(c, label, &task->baseline));
    task->name = lvn_arena_strdup(&c->b->arena, label);
    task->path = lvn_arena_printf(&c->b->arena, "%s/eval_data/%s", c->folder, uri);
    if (!task->name || !task->path) return LVN_MEMORY;
    LVN_CHECK(lvn_path_is_file(task->path), ARG, "%s:%d: the data of task '%s' are missing: there is no file '%s'",
              c->yaml, lvn_yaml_get(node, "dataset_uri")->line, label, task->path);
    task->is_core = true;
    task->kind = c->type == LANGUAGE ? LVN_BENCHMARK_GREEDY : LVN_BENCHMARK_MEAN;
    task->value[task->n_values++].metric = "acc";
    enum lvn_status status = lvn_rows_read(&c->rows, task->path);
    if (status == LVN_OK) status = read_items(c, task);
    free(c->order);
    c->order = NULL;
    lvn_rows_release(&c->rows);
    return status;
}

enum lvn_status lvn_core_read(struct lvn_benchmarks *b, struct lvn_prompts *p, const char *folder)
{
    struct bundle c = {.b = b, .p = p, .folder = folder};
    LVN_LOCAL_ARENA(a);
    const struct lvn_yaml *top;
    c.yaml = lvn_path_join(&a, folder, "core.yaml");
    c.csv = lvn_path_join(&a, folder, "eval_meta_data.csv");
    if (!c.yaml || !c.csv) return LVN_MEMORY;
    LVN_TRY(lvn_yaml_read(&a, c.yaml, &top));
    const struct lvn_yaml *tasks = lvn_yaml_get(top, "icl_tasks");
    LVN_CHECK(tasks && tasks->kind == LVN_YAML_LIST && tasks->n, ARG, "'%s' has no list 'icl_tasks'", c.yaml);
    for (const struct lvn_yaml *node = tasks->child; node; node = node->next) LVN_TRY(read_task(&c, node));
    return LVN_OK;
}

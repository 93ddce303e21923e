/* benchmark_harness.c - a task of lm-evaluation-harness: a .yaml file whose data are local .jsonl or .json files.
 *
 * Keys, templates, few-shot examples and requests are those of version 0.4 of that program. A field of a document
 * becomes a value; values become a context and answers. Not supported, and refused by name: other keys, tasks that
 * generate text, data sets other than `json`, and Python functions. Only those of hellaswag and winogrande are
 * supported: this file has templates for them. */

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "benchmarks/benchmark_private.h"
#include "benchmarks/benchmark_rows.h"
#include "benchmarks/python_random.h"
#include "formats/yaml.h"
#include "templates/chat_template.h"

enum { EXAMPLES_SEED = 1234, INCLUDES = 8 };

static const char *const splits[] = {"training_split", "validation_split", "test_split"};

/* --- the fields of a task: what doc_to_text, doc_to_target, doc_to_choice and description give for a document ---
 *
 * A field is a column of the data, a number, a list, or a template of Jinja over the columns. */

struct harness_field {
    const struct lvn_yaml *node;            /* NULL: the task has no such field */
    const struct lvn_chat_template *parsed; /* NULL: it is no template */
};

struct harness_function;
enum { FIELD_TEMPLATES = 24 };

struct harness_run {
    const char *path, *task; /* of the task, for messages */
    struct lvn_arena *arena; /* of the fields */
    struct lvn_chat_template *parsed[FIELD_TEMPLATES];
    int n_parsed;
    const struct harness_function *process; /* process_docs; NULL: none */
    struct harness_field made[3];           /* columns that it adds */
    /* The current document. */
    const struct lvn_rows *rows;
    json_t *document;
    int64_t line;
    struct lvn_arena scratch;
};

/* How the text of a template is converted. NUMBER: digits become a number; LIST: it is a list as Python writes it;
 * TARGET: a text in brackets is a list if it can be one. */
enum use_of_text { FIELD_TEXT = 0, FIELD_NUMBER = 1, FIELD_LIST = 2, FIELD_TARGET = 4 };

/* The value for the current document; the caller owns it. */
static enum lvn_status value_of_field(struct harness_run *run, const struct harness_field *field, unsigned use,
                                      json_t **out);

/* Functions in Python of lm-evaluation-harness as templates, for its tasks whose name begins with `task`. */
struct harness_function {
    const char *name, *task;
    const char *text; /* of a field; NULL: it adds columns */
    struct {
        const char *column, *text;
        unsigned use;
    } made[3];
};

#define CLEAN                                                                                                          \
    "{% macro clean(text) %}{{ text.strip().replace(' [title]', '. ') | regex_replace('\\\\[.*?\\\\]', '') | "         \
    "replace('  ', ' ') }}{% endmacro %}"

static const struct harness_function functions[] = {
    {.name = "utils.process_docs",
     .task = "hellaswag",
     .made = {{"query", CLEAN "{{ clean(activity_label + ': ' + ctx_a + ' ' + ctx_b.capitalize()) }}", FIELD_TEXT},
              {"choices", CLEAN "[{% for e in endings %}{{ clean(e) | tojson }}, {% endfor %}]", FIELD_LIST},
              {"gold", "{{ label | int }}", FIELD_NUMBER}}},
    {.name = "preprocess_winogrande.doc_to_text", .task = "winogrande", .text = "{{ {'1': 0, '2': 1}[answer] }}"},
    {.name = "preprocess_winogrande.doc_to_target",
     .task = "winogrande",
     .text = "{{ sentence.split('_', 1)[1].strip() }}"},
    {.name = "preprocess_winogrande.doc_to_choice",
     .task = "winogrande",
     .text = "{{ [sentence.split('_')[0] + option1, sentence.split('_')[0] + option2] }}"},
};

static void run_init(struct harness_run *run, const char *path, struct lvn_arena *a)
{
    *run = (struct harness_run){.path = path, .arena = a};
}

static void run_release(struct harness_run *run)
{
    for (int i = 0; i < run->n_parsed; i++) lvn_chat_template_free(run->parsed[i]);
    json_decref(run->document);
    lvn_arena_release(&run->scratch);
}

/* --- values of YAML --- */

/* Is the value null or omitted? */
static bool is_null(const struct lvn_yaml *node)
{
    return node->kind == LVN_YAML_SCALAR && !node->quoted && !node->tag &&
           (!*node->text || !strcmp(node->text, "null") || !strcmp(node->text, "~"));
}

static json_t *scalar(const struct lvn_yaml *node)
{
    char *end;
    if (node->quoted) return json_string(node->text);
    if (is_null(node)) return json_null();
    if (!strcasecmp(node->text, "true") || !strcasecmp(node->text, "false"))
        return json_boolean(!strcasecmp(node->text, "true"));
    const long long i = strtoll(node->text, &end, 10);
    if (!*end) return json_integer(i);
    const double x = strtod(node->text, &end);
    return *end || strchr("nNiI", node->text[0]) ? json_string(node->text) : json_real(x);
}

static json_t *value_of_yaml(const struct lvn_yaml *node)
{
    if (node->kind == LVN_YAML_SCALAR) return scalar(node);
    json_t *out = node->kind == LVN_YAML_MAP ? json_object() : json_array();
    for (const struct lvn_yaml *one = node->child; one; one = one->next)
        if (node->kind == LVN_YAML_MAP)
            json_object_set_new(out, one->key, value_of_yaml(one));
        else
            json_array_append_new(out, value_of_yaml(one));
    return out;
}

/* The documents of a list in the task's file. */
static enum lvn_status read_samples(struct harness_run *run, const struct lvn_yaml *list, struct lvn_rows *out)
{
    LVN_CHECK(list->kind == LVN_YAML_LIST && list->n, ARG, "%s:%d: 'samples' must be a list of documents", run->path,
              list->line);
    out->path = run->path;
    for (const struct lvn_yaml *node = list->child; node; node = node->next) {
        LVN_CHECK(node->kind == LVN_YAML_MAP, ARG, "%s:%d: a document must be a map", run->path, node->line);
        const long begun = lvn_json_begin();
        json_t *row = value_of_yaml(node);
        LVN_TRY(lvn_rows_add(out, row, node->line));
        LVN_TRY(lvn_json_check(begun));
    }
    return LVN_OK;
}

/* --- fields --- */

static enum lvn_status parse_template(struct harness_run *run, const char *name, int line, const char *text,
                                      const struct lvn_chat_template **out)
{
    LVN_CHECK(run->n_parsed < FIELD_TEMPLATES, INTERNAL, "more than %d templates in a task", FIELD_TEMPLATES);
    const char *where = lvn_arena_printf(run->arena, "%s:%d: %s", run->path, line, name);
    if (!where) return LVN_MEMORY;
    LVN_TRY(lvn_template_parse(&run->parsed[run->n_parsed], where, text));
    *out = run->parsed[run->n_parsed++];
    return LVN_OK;
}

static enum lvn_status find_function(const struct harness_run *run, const struct lvn_yaml *node, bool columns,
                                     const struct harness_function **out)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        *out = &functions[i];
        if (!strcmp(node->tag, "!function") && !strcmp(functions[i].name, node->text) &&
            !functions[i].text == columns && !strncmp(run->task, functions[i].task, strlen(functions[i].task))) {
            lvn_log_once(LVN_LOG_INFO, "%s:%d: levin has a template for the function %s of lm-evaluation-harness",
                         run->path, node->line, node->text);
            return LVN_OK;
        }
    }
    LVN_FAIL(UNSUPPORTED,
             "%s:%d: '%s' is '%s %s', a function in Python, which levin does not run: write a template of Jinja, or "
             "the finished texts into the data",
             run->path, node->line, node->key, node->tag, node->text);
}

static bool is_integer(const struct lvn_yaml *node)
{
    char *end;
    (void)strtoll(node->text, &end, 10);
    return !node->quoted && *node->text && !*end;
}

/* UNSUPPORTED for a function in Python that levin does not know. */
static enum lvn_status read_field(struct harness_run *run, const struct lvn_yaml *node, struct harness_field *out)
{
    const struct harness_function *function = NULL;
    *out = (struct harness_field){.node = node};
    if (!node || node->kind != LVN_YAML_SCALAR) return LVN_OK;
    if (node->tag) LVN_TRY(find_function(run, node, false, &function));
    if (!function && is_integer(node)) return LVN_OK;
    return parse_template(run, node->key, node->line, function ? function->text : node->text, &out->parsed);
}

/* Read process_docs (NULL: none); set_document() then adds its columns to each document of a data file. */
static enum lvn_status read_process(struct harness_run *run, const struct lvn_yaml *node)
{
    if (!node) return LVN_OK;
    LVN_CHECK(node->kind == LVN_YAML_SCALAR && node->tag, ARG, "%s:%d: 'process_docs' must be a !function", run->path,
              node->line);
    LVN_TRY(find_function(run, node, true, &run->process));
    for (int i = 0; i < 3; i++)
        if (run->process->made[i].column) {
            run->made[i].node = node;
            LVN_TRY(parse_template(run, node->key, node->line, run->process->made[i].text, &run->made[i].parsed));
        }
    return LVN_OK;
}

/* --- documents --- */

/* The columns of all documents: one that a document lacks is null there. */
static enum lvn_status find_columns(struct lvn_rows *rows)
{
    const char *key;
    json_t *value;
    if (rows->columns) return LVN_OK;
    const long begun = lvn_json_begin();
    rows->columns = json_object();
    for (int64_t i = 0; i < rows->n; i++)
        json_object_foreach(rows->row[i], key, value) if (!json_object_get(rows->columns, key))
            json_object_set_new(rows->columns, key, json_null());
    return lvn_json_check(begun);
}

/* Make row i the current document. */
static enum lvn_status set_document(struct harness_run *run, struct lvn_rows *rows, int64_t i)
{
    LVN_TRY(find_columns(rows));
    const long begun = lvn_json_begin();
    json_decref(run->document);
    run->document = json_copy(rows->columns);
    json_object_update(run->document, rows->row[i]);
    run->rows = rows;
    run->line = rows->line[i];
    LVN_TRY(lvn_json_check(begun));
    for (int k = 0; k < 3 && run->process && rows->path != run->path; k++) { /* not for read_samples() */
        json_t *value;
        if (!run->made[k].parsed) continue;
        LVN_TRY(value_of_field(run, &run->made[k], run->process->made[k].use, &value));
        if (json_object_set_new(run->document, run->process->made[k].column, value)) return LVN_MEMORY;
    }
    return LVN_OK;
}

/* --- lists as Python writes them --- */

struct literal {
    const char *p, *end;
    int depth;
};

static void skip_space(struct literal *x)
{
    while (x->p < x->end && strchr(" \t\r\n", *x->p)) x->p++;
}

static bool hex(struct literal *x, int digits, struct lvn_text *to)
{
    char out[4];
    const int64_t code = x->end - x->p < digits ? -1 : lvn_hex_number(x->p, digits);
    if (code < 0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    lvn_text_add_bytes(to, out, lvn_utf8_encode((int32_t)code, out));
    x->p += digits;
    return true;
}

static json_t *literal_text(struct literal *x)
{
    static const char letters[] = "n\nt\tr\r\\\\''\"\"a\ab\bf\fv\v";
    LVN_LOCAL_TEXT(text);
    const char quote = *x->p++;
    while (x->p < x->end && *x->p != quote) {
        if (*x->p != '\\' || x->p + 1 == x->end) {
            lvn_text_add_bytes(&text, x->p++, 1);
            continue;
        }
        const char c = x->p[1];
        x->p += 2;
        if (c == 'x' || c == 'u' || c == 'U') {
            if (!hex(x, c == 'x' ? 2 : c == 'u' ? 4 : 8, &text)) return NULL;
            continue;
        }
        const char *l = letters;
        while (*l && *l != c) l += 2;
        if (!*l) lvn_text_add(&text, "\\");
        lvn_text_add_bytes(&text, *l ? l + 1 : &c, 1);
    }
    if (x->p == x->end || text.failed) return NULL;
    x->p++;
    return json_stringn(text.p ? text.p : "", (size_t)text.n);
}

static json_t *literal(struct literal *x);

static json_t *literal_list(struct literal *x)
{
    const char close = *x->p++ == '[' ? ']' : ')';
    json_t *list = json_array(), *one;
    for (skip_space(x); x->p < x->end && *x->p != close; skip_space(x)) {
        if (x->depth > 8 || !(one = literal(x))) break;
        json_array_append_new(list, one);
        skip_space(x);
        if (x->p < x->end && *x->p == ',')
            x->p++;
        else if (x->p == x->end || *x->p != close)
            break;
    }
    if (x->p < x->end && *x->p++ == close) return list;
    json_decref(list);
    return NULL;
}

/* NULL: it is no literal. */
static json_t *literal(struct literal *x)
{
    json_t *out = NULL;
    char *end;
    skip_space(x);
    if (x->p == x->end) return NULL;
    x->depth++;
    if (*x->p == '\'' || *x->p == '"') {
        out = literal_text(x);
    } else if (*x->p == '[' || *x->p == '(') {
        out = literal_list(x);
    } else if (!strncmp(x->p, "None", 4)) {
        out = json_null();
        x->p += 4;
    } else if (!strncmp(x->p, "True", 4) || !strncmp(x->p, "False", 5)) {
        out = json_boolean(*x->p == 'T');
        x->p += *x->p == 'T' ? 4 : 5;
    } else {
        const long long i = strtoll(x->p, &end, 10);
        const bool whole = end > x->p && !strchr(".eE", *end);
        const double real = whole ? 0 : strtod(x->p, &end);
        if (end > x->p) out = whole ? json_integer(i) : json_real(real);
        x->p = end;
    }
    x->depth--;
    return out;
}

/* The value of a whole text; NULL: it is no literal. */
static json_t *whole_literal(const char *text, int64_t n)
{
    struct literal x = {text, text + n, 0};
    json_t *out = literal(&x);
    skip_space(&x);
    if (out && x.p < x.end) {
        json_decref(out);
        return NULL;
    }
    return out;
}

/* --- values --- */

static enum lvn_status render(struct harness_run *run, const struct harness_field *field, struct lvn_rendered *out)
{
    struct lvn_tpl_variable *variables;
    const char *key;
    json_t *value;
    int n = 0;
    lvn_arena_release(&run->scratch);
    lvn_arena_init(&run->scratch);
    variables = lvn_arena_alloc(&run->scratch, sizeof *variables * (json_object_size(run->document) + 1));
    if (!variables) return LVN_MEMORY;
    json_object_foreach(run->document, key, value)
    {
        variables[n].name = key;
        LVN_TRY(lvn_tpl_value_of_json(&run->scratch, value, 0, &variables[n++].value));
    }
    LVN_TRY_WHILE(lvn_chat_template_render(field->parsed, &run->scratch, variables, n, NULL, NULL, out),
                  "making the item %s:%lld", run->rows->path, (long long)run->line);
    return LVN_OK;
}

/* A text of the digits 0 to 9 alone. */
static bool is_digits(const char *text)
{
    return *text && strspn(text, "0123456789") == strlen(text) && strlen(text) < 18;
}

static json_t *value_of_text(const struct lvn_rendered *r, unsigned use)
{
    json_t *out = NULL;
    if (use & FIELD_LIST) return whole_literal(r->text, r->n);
    if (use & FIELD_NUMBER && is_digits(r->text)) return json_integer(strtoll(r->text, NULL, 10));
    if (use & FIELD_TARGET && r->n >= 2 && r->text[0] == '[' && r->text[r->n - 1] == ']')
        out = whole_literal(r->text, r->n);
    return out ? out : json_stringn(r->text, (size_t)r->n);
}

static enum lvn_status value_of_field(struct harness_run *run, const struct harness_field *field, unsigned use,
                                      json_t **out)
{
    const struct lvn_yaml *node = field->node;
    const long begun = lvn_json_begin();
    struct lvn_rendered r;
    const json_t *list = NULL;
    *out = NULL;
    if (node->kind == LVN_YAML_SCALAR && !node->tag) *out = json_incref(json_object_get(run->document, node->text));
    if (*out) return LVN_OK;
    if (node->kind == LVN_YAML_LIST) *out = value_of_yaml(node);
    if (node->kind == LVN_YAML_MAP) { /* its values, in order */
        *out = json_array();
        for (const struct lvn_yaml *one = node->child; one; one = one->next)
            json_array_append_new(*out, value_of_yaml(one));
    }
    if (node->kind == LVN_YAML_SCALAR && !field->parsed) *out = scalar(node);
    if (node->kind != LVN_YAML_SCALAR || !field->parsed) return lvn_json_check(begun);
    LVN_TRY(render(run, field, &r));
    list = *out = value_of_text(&r, use);
    LVN_TRY(lvn_json_check(begun));
    LVN_CHECK(list, ARG, "%s:%d: '%s' gives '%.60s' for %s:%lld, which is not a list as Python writes it", run->path,
              node->line, node->key, r.text, run->rows->path, (long long)run->line);
    return LVN_OK;
}

/* Keys of a task. READ: below; NONE: without effect on the result; REFUSED: it may change the result. */
static const struct {
    const char *name;
    enum { READ, NONE, REFUSED } use;
} keys[] = {
    {"task", READ},
    {"task_alias", NONE},
    {"tag", NONE},
    {"group", REFUSED},
    {"include", READ},
    {"dataset_path", READ},
    {"dataset_name", NONE},
    {"dataset_kwargs", READ},
    {"training_split", READ},
    {"validation_split", READ},
    {"test_split", READ},
    {"fewshot_split", READ},
    {"fewshot_config", READ},
    {"num_fewshot", READ},
    {"process_docs", READ},
    {"doc_to_text", READ},
    {"doc_to_target", READ},
    {"doc_to_choice", READ},
    {"description", READ},
    {"target_delimiter", READ},
    {"fewshot_delimiter", READ},
    {"output_type", READ},
    {"metric_list", READ},
    {"metadata", NONE},
    {"should_decontaminate", NONE},
    {"doc_to_decontamination_query", NONE},
    {"repeats", NONE},
    {"unsafe_code", REFUSED},
    {"filter_list", REFUSED},
    {"process_results", REFUSED},
    {"generation_kwargs", REFUSED},
    {"gen_prefix", REFUSED},
    {"use_prompt", REFUSED},
    {"custom_dataset", REFUSED},
    {"doc_to_image", REFUSED},
    {"doc_to_audio", REFUSED},
};

/* metric: with the aggregation that it has; kind: of the tasks that have it. by_default: without a metric_list. */
static const struct {
    const char *name, *aggregation;
    enum lvn_benchmark_kind kind;
    bool by_default;
} metrics[] = {
    {"acc", "mean", LVN_BENCHMARK_CHOICE, true},
    {"acc_norm", "mean", LVN_BENCHMARK_CHOICE, true},
    {"acc_bytes", "mean", LVN_BENCHMARK_CHOICE, false},
    {"perplexity", "perplexity", LVN_BENCHMARK_LIKELIHOOD, true},
    {"acc", "mean", LVN_BENCHMARK_LIKELIHOOD, true},
    {"word_perplexity", "weighted_perplexity", LVN_BENCHMARK_ROLLING, true},
    {"byte_perplexity", "weighted_perplexity", LVN_BENCHMARK_ROLLING, true},
    {"bits_per_byte", "bits_per_byte", LVN_BENCHMARK_ROLLING, true},
};
enum { N_METRICS = sizeof metrics / sizeof *metrics };

/* The fields of a task that are made from a document, for items and for examples. */
struct parts {
    struct harness_field text, target, choice;
    const char *target_delimiter, *fewshot_delimiter;
};

struct task {
    struct lvn_benchmarks *b;
    struct lvn_prompts *p;
    struct lvn_arena arena; /* of the files */
    const char *path;
    const struct lvn_yaml *map[INCLUDES]; /* the file, then those that it includes */
    const char *map_path[INCLUDES];
    int n_maps;
    struct lvn_benchmark *out;
    struct parts parts, example;
    struct harness_field description;
    struct lvn_rows rows, examples;
    bool examples_are_rows;  /* of the same split: examples.row is empty */
    bool excludes_item;      /* an example that equals the item is left out */
    bool first_n;            /* fewshot_config.sampler */
    bool options_are_inputs; /* doc_to_text gives a number: the choices are contexts, the target is the answer */
    struct lvn_python_random random;
    struct harness_run run;
};

/* --- keys --- */

static const struct lvn_yaml *get(const struct task *t, const char *key)
{
    for (int i = 0; i < t->n_maps; i++) {
        const struct lvn_yaml *node = lvn_yaml_get(t->map[i], key);
        if (node) return is_null(node) ? NULL : node;
    }
    return NULL;
}

/* A text, or `otherwise`. */
static enum lvn_status text_of(const struct task *t, const struct lvn_yaml *node, const char *otherwise,
                               const char **out)
{
    *out = node ? node->text : otherwise;
    LVN_CHECK(!node || (node->kind == LVN_YAML_SCALAR && !node->tag), ARG, "%s:%d: '%s' must be a text", t->path,
              node->line, node->key);
    return LVN_OK;
}

static enum lvn_status number_of(const struct task *t, const struct lvn_yaml *node, int64_t otherwise, int64_t *out)
{
    char *end = NULL;
    *out = otherwise;
    if (!node) return LVN_OK;
    const long n = node->kind == LVN_YAML_SCALAR ? strtol(node->text, &end, 10) : -1;
    LVN_CHECK(end && *node->text && !*end && n >= 0 && n <= 1000, ARG, "%s:%d: '%s' must be a number from 0 to 1000",
              t->path, node->line, node->key);
    *out = n;
    return LVN_OK;
}

static enum lvn_status check_keys(const struct task *t)
{
    for (int i = 0; i < t->n_maps; i++)
        for (const struct lvn_yaml *node = t->map[i]->child; node; node = node->next) {
            size_t k = 0;
            while (k < sizeof keys / sizeof *keys && strcmp(keys[k].name, node->key)) k++;
            LVN_CHECK(
                k < sizeof keys / sizeof *keys, ARG,
                "%s:%d: '%s' is not a key of a task of lm-evaluation-harness that levin knows; remove it, or correct "
                "its name",
                t->map_path[i], node->line, node->key);
            LVN_CHECK(keys[k].use != REFUSED || is_null(node), UNSUPPORTED,
                      "%s:%d: '%s' is not supported; remove it if the task does not need it", t->map_path[i],
                      node->line, node->key);
        }
    return LVN_OK;
}

/* Read the file and those that it includes. */
static enum lvn_status read_maps(struct task *t, const char *path)
{
    for (;;) {
        LVN_CHECK(t->n_maps < INCLUDES, ARG, "'%s': more than %d files include each other", path, INCLUDES);
        t->map_path[t->n_maps] = path;
        LVN_TRY(lvn_yaml_read_tagged(&t->arena, path, &t->map[t->n_maps++]));
        const struct lvn_yaml *include = lvn_yaml_get(t->map[t->n_maps - 1], "include");
        if (!include) return LVN_OK;
        LVN_CHECK(include->kind == LVN_YAML_SCALAR, ARG, "%s:%d: 'include' must be the path of a file", path,
                  include->line);
        const char *dir = lvn_path_dir(&t->arena, path);
        const char *next = dir ? lvn_path_join(&t->arena, dir, include->text) : NULL;
        if (!next) return LVN_MEMORY;
        LVN_CHECK(lvn_path_is_file(next), ARG, "%s:%d: the included file '%s' does not exist", path, include->line,
                  next);
        path = next;
    }
}

static enum lvn_status read_kind(struct task *t)
{
    static const char *const names[] = {"multiple_choice", "loglikelihood", "loglikelihood_rolling"};
    const struct lvn_yaml *node = get(t, "output_type");
    const char *type;
    LVN_TRY(text_of(t, node, "generate_until", &type));
    for (int i = 0; i < 3; i++) {
        t->out->kind = (enum lvn_benchmark_kind)i;
        if (!strcmp(type, names[i])) return LVN_OK;
    }
    LVN_FAIL(UNSUPPORTED,
             "%s:%d: the output_type is '%s'%s, and levin has multiple_choice, loglikelihood and loglikelihood_rolling",
             t->path, node ? node->line : 1, type, node ? "" : " where none is given");
}

static enum lvn_status add_metric(struct task *t, const struct lvn_yaml *node)
{
    const struct lvn_yaml *name = lvn_yaml_get(node, "metric"), *aggregation = lvn_yaml_get(node, "aggregation");
    const char *how;
    int k = 0;
    LVN_CHECK(name && name->kind == LVN_YAML_SCALAR, ARG, "%s:%d: an entry of metric_list needs 'metric', a name",
              t->path, node->line);
    while (k < N_METRICS && (metrics[k].kind != t->out->kind || strcmp(metrics[k].name, name->text))) k++;
    LVN_CHECK(k < N_METRICS, UNSUPPORTED, "%s:%d: the metric '%s' is not supported for this output_type", t->path,
              name->line, name->text);
    LVN_TRY(text_of(t, aggregation, metrics[k].aggregation, &how));
    LVN_CHECK(!strcmp(how, metrics[k].aggregation), UNSUPPORTED,
              "%s:%d: the metric '%s' is aggregated by '%s' here, not by '%s'", t->path, aggregation->line, name->text,
              metrics[k].aggregation, how);
    for (const struct lvn_yaml *key = node->child; key; key = key->next)
        LVN_CHECK(!strcmp(key->key, "metric") || !strcmp(key->key, "aggregation") ||
                      !strcmp(key->key, "higher_is_better"),
                  UNSUPPORTED, "%s:%d: '%s' of a metric is not supported", t->path, key->line, key->key);
    LVN_CHECK(t->out->n_values < LVN_BENCHMARK_METRICS, ARG, "%s:%d: too many metrics", t->path, node->line);
    t->out->value[t->out->n_values++].metric = metrics[k].name;
    return LVN_OK;
}

static enum lvn_status read_metrics(struct task *t)
{
    const struct lvn_yaml *list = get(t, "metric_list");
    for (int k = 0; k < N_METRICS && !list; k++)
        if (metrics[k].by_default && metrics[k].kind == t->out->kind)
            t->out->value[t->out->n_values++].metric = metrics[k].name;
    LVN_CHECK(!list || (list->kind == LVN_YAML_LIST && list->n), ARG, "%s:%d: 'metric_list' must be a list", t->path,
              list->line);
    for (const struct lvn_yaml *node = list ? list->child : NULL; node; node = node->next) LVN_TRY(add_metric(t, node));
    return LVN_OK;
}

/* --- data --- */

/* A path as lm-evaluation-harness sees it, from the current folder, or else beside the task's file. */
static enum lvn_status add_file(struct task *t, const struct lvn_yaml *node, struct lvn_rows *rows)
{
    LVN_CHECK(node->kind == LVN_YAML_SCALAR, ARG, "%s:%d: a file of data_files must be a path", t->path, node->line);
    const char *path = lvn_path_home(&t->b->arena, node->text);
    if (path && !lvn_path_exists(path)) {
        const char *dir = lvn_path_dir(&t->arena, t->path);
        const char *beside = dir ? lvn_path_join(&t->b->arena, dir, node->text) : NULL;
        if (!beside) return LVN_MEMORY;
        if (lvn_path_exists(beside)) path = beside;
    }
    if (!path) return LVN_MEMORY;
    LVN_CHECK(lvn_path_exists(path), ARG,
              "%s:%d: there is no file '%s', neither in the current folder nor beside the "
              "task's file",
              t->path, node->line, node->text);
    t->out->path = path;
    return lvn_rows_read(rows, path);
}

/* The files of a split: data_files is a map of splits, or a file or a list, which is the split `train`. */
static enum lvn_status read_split(struct task *t, const char *split, const struct lvn_yaml *named,
                                  struct lvn_rows *rows)
{
    const struct lvn_yaml *files = lvn_yaml_get(get(t, "dataset_kwargs"), "data_files");
    LVN_CHECK(files, ARG, "%s:%d: 'dataset_kwargs' needs 'data_files', with the .jsonl files of the splits", t->path,
              get(t, "dataset_kwargs") ? get(t, "dataset_kwargs")->line : 1);
    const struct lvn_yaml *of_split = files->kind == LVN_YAML_MAP   ? lvn_yaml_get(files, split)
                                      : strcmp(split, "train") == 0 ? files
                                                                    : NULL;
    LVN_CHECK(of_split, ARG, "%s:%d: '%s' is the split '%s', and data_files (line %d) has no file for it", t->path,
              named->line, named->key, split, files->line);
    if (of_split->kind != LVN_YAML_LIST) return add_file(t, of_split, rows);
    LVN_CHECK(of_split->n, ARG, "%s:%d: the split '%s' has no files", t->path, of_split->line, split);
    for (const struct lvn_yaml *node = of_split->child; node; node = node->next) LVN_TRY(add_file(t, node, rows));
    return LVN_OK;
}

static enum lvn_status check_dataset(const struct task *t)
{
    const struct lvn_yaml *node = get(t, "dataset_path"), *more = get(t, "dataset_kwargs");
    LVN_CHECK(node && node->kind == LVN_YAML_SCALAR && !strcmp(node->text, "json"), UNSUPPORTED,
              "%s:%d: dataset_path is '%s', and levin reads local files: write 'dataset_path: json' and "
              "'dataset_kwargs: {data_files: {test: FILE.jsonl}}'",
              t->path, node ? node->line : 1, node && node->text ? node->text : "");
    for (const struct lvn_yaml *key = more && more->kind == LVN_YAML_MAP ? more->child : NULL; key; key = key->next)
        LVN_CHECK(!strcmp(key->key, "data_files"), UNSUPPORTED, "%s:%d: '%s' of dataset_kwargs is not supported",
                  t->path, key->line, key->key);
    return LVN_OK;
}

/* Choose the split of the items and the split of the few-shot examples. */
static enum lvn_status read_data(struct task *t)
{
    const struct lvn_yaml *items = get(t, splits[2]) ? get(t, splits[2]) : get(t, splits[1]);
    const struct lvn_yaml *config = get(t, "fewshot_config"), *examples = get(t, "fewshot_split");
    const struct lvn_yaml *samples = lvn_yaml_get(config, "samples");
    const char *of_items, *of_test, *of_examples;
    LVN_TRY(check_dataset(t));
    LVN_CHECK(!config || config->kind == LVN_YAML_MAP, ARG, "%s:%d: 'fewshot_config' must be a map", t->path,
              config->line);
    LVN_CHECK(items, ARG, "%s:1: the task needs test_split or validation_split, the split with its items", t->path);
    LVN_TRY(text_of(t, items, NULL, &of_items));
    LVN_TRY(read_split(t, of_items, items, &t->rows));
    const char *path = t->out->path;
    if (lvn_yaml_get(config, "split")) examples = lvn_yaml_get(config, "split");
    LVN_TRY(text_of(t, get(t, splits[2]), NULL, &of_test));
    LVN_TRY(text_of(t, examples, NULL, &of_examples));
    t->excludes_item = of_examples ? of_test && !strcmp(of_examples, of_test) : !of_test;
    if (!t->out->n_fewshot) return LVN_OK;
    if (samples && !examples) return read_samples(&t->run, samples, &t->examples);
    for (int i = 0; i < 3 && !examples; i++) examples = get(t, splits[i]);
    LVN_TRY(text_of(t, examples, NULL, &of_examples));
    t->examples_are_rows = !strcmp(of_examples, of_items);
    if (!t->examples_are_rows) LVN_TRY(read_split(t, of_examples, examples, &t->examples));
    t->out->path = path;
    return LVN_OK;
}

/* --- fields --- */

static enum lvn_status read_parts(struct task *t, const struct lvn_yaml *over, struct parts *out)
{
    static const char *const names[] = {"doc_to_text", "doc_to_target", "doc_to_choice", "target_delimiter",
                                        "fewshot_delimiter"};
    const struct lvn_yaml *node[5];
    struct harness_field *const field[] = {&out->text, &out->target, &out->choice};
    for (int i = 0; i < 5; i++) {
        node[i] = lvn_yaml_get(over, names[i]);
        if (!node[i] || is_null(node[i])) node[i] = get(t, names[i]);
    }
    for (int i = 0; i < 3; i++) LVN_TRY(read_field(&t->run, node[i], field[i]));
    LVN_TRY(text_of(t, node[3], " ", &out->target_delimiter));
    return text_of(t, node[4], "\n\n", &out->fewshot_delimiter);
}

static enum lvn_status read_fields(struct task *t)
{
    static const char *const known[] = {"sampler",       "split",         "samples",          "doc_to_text",
                                        "doc_to_choice", "doc_to_target", "target_delimiter", "fewshot_delimiter"};
    const struct lvn_yaml *config = get(t, "fewshot_config"), *sampler = lvn_yaml_get(config, "sampler");
    const struct lvn_yaml *description = get(t, "description");
    const char *text;
    for (const struct lvn_yaml *key = config ? config->child : NULL; key; key = key->next) {
        bool found = false;
        for (int i = 0; i < 8; i++) found |= !strcmp(key->key, known[i]);
        LVN_CHECK(found, UNSUPPORTED, "%s:%d: '%s' of fewshot_config is not supported", t->path, key->line, key->key);
    }
    LVN_TRY(text_of(t, sampler, "default", &text));
    t->first_n = !strcmp(text, "first_n");
    LVN_CHECK(t->first_n || !strcmp(text, "default"), UNSUPPORTED,
              "%s:%d: the sampler '%s' is not supported; levin has default and first_n", t->path, sampler->line, text);
    LVN_CHECK(t->out->kind == LVN_BENCHMARK_ROLLING || get(t, "doc_to_text"), ARG,
              "%s:1: the task needs doc_to_text, the context of an item", t->path);
    LVN_CHECK(get(t, "doc_to_target"), ARG, "%s:1: the task needs doc_to_target, the answer of an item", t->path);
    LVN_CHECK(t->out->kind != LVN_BENCHMARK_CHOICE || get(t, "doc_to_choice"), ARG,
              "%s:1: a task of output_type multiple_choice needs doc_to_choice, the list of answers", t->path);
    LVN_TRY(read_process(&t->run, get(t, "process_docs")));
    LVN_CHECK(!description || description->kind == LVN_YAML_SCALAR, ARG, "%s:%d: 'description' must be a text", t->path,
              description->line);
    LVN_TRY(read_field(&t->run, description, &t->description));
    LVN_TRY(read_parts(t, NULL, &t->parts));
    return read_parts(t, config, &t->example);
}

/* --- prompts --- */

/* The texts that the templates of the fields give for one document. */
struct turn {
    json_t *text, *target, *choice;
};

static void turn_release(struct turn *turn)
{
    json_decref(turn->text);
    json_decref(turn->target);
    json_decref(turn->choice);
}

static enum lvn_status check_choices(const struct task *t, const struct turn *turn)
{
    const size_t n = json_array_size(turn->choice);
    LVN_CHECK(json_is_array(turn->choice), ARG, "%s:%lld: doc_to_choice gives no list", t->run.rows->path,
              (long long)t->run.line);
    LVN_CHECK(n >= 2, ARG, "%s:%lld: the item has %zu answers; it needs two or more, so that there is a choice",
              t->run.rows->path, (long long)t->run.line, n);
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(turn->choice, i);
        LVN_CHECK(json_is_string(one), ARG, "%s:%lld: answer %zu is not a text", t->run.rows->path,
                  (long long)t->run.line, i + 1);
        LVN_CHECK(json_string_length(one) > 0, ARG, "%s:%lld: answer %zu is empty", t->run.rows->path,
                  (long long)t->run.line, i + 1);
    }
    return LVN_OK;
}

/* A text of digits is a number where there are choices. */
static enum lvn_status read_turn(struct task *t, const struct parts *parts, struct lvn_rows *rows, int64_t i,
                                 struct turn *out)
{
    *out = (struct turn){0};
    LVN_TRY(set_document(&t->run, rows, i));
    if (parts->choice.node) LVN_TRY(value_of_field(&t->run, &parts->choice, FIELD_LIST, &out->choice));
    if (parts->choice.node && t->out->kind == LVN_BENCHMARK_CHOICE) LVN_TRY(check_choices(t, out));
    const enum use_of_text use = parts->choice.node ? FIELD_NUMBER : FIELD_TEXT;
    if (parts->text.node) LVN_TRY(value_of_field(&t->run, &parts->text, use, &out->text));
    return value_of_field(&t->run, &parts->target, use | FIELD_TARGET, &out->target);
}

/* Choice i, or NULL. */
static const char *choice_text(const struct turn *turn, const json_t *index)
{
    const json_int_t i = json_is_integer(index) ? json_integer_value(index) : -1;
    return i < 0 ? NULL : json_string_value(json_array_get(turn->choice, (size_t)i));
}

static enum lvn_status add_example(struct task *t, struct lvn_rows *rows, int64_t i, struct lvn_text *to)
{
    struct turn turn;
    enum lvn_status status = read_turn(t, &t->example, rows, i, &turn);
    const char *text = t->options_are_inputs ? choice_text(&turn, turn.text) : json_string_value(turn.text);
    const json_t *target = json_is_array(turn.target) ? json_array_get(turn.target, 0) : turn.target;
    const char *answer = json_is_string(target) ? json_string_value(target) : choice_text(&turn, target);
    if (status == LVN_OK && (!text || !answer))
        status = lvn_fail(LVN_ARG, "%s:%lld: the example has no %s: doc_to_%s gives no text and no index of a choice",
                          rows->path, (long long)rows->line[i], text ? "answer" : "context", text ? "target" : "text");
    if (status == LVN_OK) {
        lvn_text_add(to, text);
        if (*answer) { /* an empty one has no delimiters either */
            lvn_text_add(to, t->example.target_delimiter);
            lvn_text_add(to, answer);
            lvn_text_add(to, t->example.fewshot_delimiter);
        }
    }
    turn_release(&turn);
    return status;
}

/* n of the rows that differ from the item, if there are that many; otherwise *kept stays. */
static enum lvn_status draw_different(struct task *t, const struct lvn_rows *pool, const json_t *item, int64_t n,
                                      int64_t *out, int64_t *kept)
{
    int64_t left = 0, *list = lvn_malloc(sizeof *list * (size_t)pool->n);
    if (!list) return LVN_MEMORY;
    for (int64_t i = 0; i < pool->n; i++)
        if (!json_equal(pool->row[i], item)) list[left++] = i;
    enum lvn_status status = left < n ? LVN_OK : lvn_python_sample(&t->random, left, n, out);
    for (int64_t i = 0; i < n && left >= n && status == LVN_OK; i++) out[i] = list[out[i]];
    if (left >= n) *kept = n;
    free(list);
    return status;
}

/* The indices of the examples before item `at`. As in lm-evaluation-harness, one more than needed is drawn because the
 * item may be among them; if it is repeatedly, because its row has copies, all are drawn again. */
static enum lvn_status choose_examples(struct task *t, const struct lvn_rows *pool, int64_t at, int64_t *out)
{
    const json_t *item = t->rows.row[at];
    const int64_t n = t->out->n_fewshot, drawn = n + t->excludes_item;
    int64_t kept = 0;
    if (!t->first_n) {
        LVN_CHECK(drawn <= pool->n, ARG, "'%s' has %lld items for examples, and %lld are drawn", pool->path,
                  (long long)pool->n, (long long)drawn);
        LVN_TRY(lvn_python_sample(&t->random, pool->n, drawn, out));
    }
    for (int64_t i = 0; i < (t->first_n ? pool->n : drawn) && kept < n; i++) {
        const int64_t k = t->first_n ? i : out[i];
        if (!t->excludes_item || !json_equal(pool->row[k], item)) out[kept++] = k;
    }
    if (kept < n && !t->first_n) LVN_TRY(draw_different(t, pool, item, n, out, &kept));
    LVN_CHECK(kept == n, ARG, "'%s' has too few items that differ from the item of line %lld for %lld examples",
              pool->path, (long long)t->rows.line[at], (long long)n);
    return LVN_OK;
}

static enum lvn_status add_examples(struct task *t, int64_t at, struct lvn_text *to)
{
    struct lvn_rows *pool = t->examples_are_rows ? &t->rows : &t->examples;
    const int64_t n = t->out->n_fewshot;
    if (!n) return LVN_OK;
    int64_t *chosen = lvn_malloc(sizeof *chosen * (size_t)(n + 1));
    if (!chosen) return LVN_MEMORY;
    enum lvn_status status = choose_examples(t, pool, at, chosen);
    for (int64_t k = 0; k < n && status == LVN_OK; k++) status = add_example(t, pool, chosen[k], to);
    free(chosen);
    return status;
}

/* Description and examples. */
static enum lvn_status add_preamble(struct task *t, int64_t at, struct lvn_text *to)
{
    json_t *value = NULL;
    LVN_TRY(set_document(&t->run, &t->rows, at));
    if (t->description.node && *t->description.node->text) {
        LVN_TRY(value_of_field(&t->run, &t->description, FIELD_TEXT, &value));
        lvn_text_add(to, json_is_string(value) ? json_string_value(value) : "");
        json_decref(value);
    }
    return add_examples(t, at, to);
}

static enum lvn_status add_requests(struct task *t, const struct turn *turn, struct lvn_text *context)
{
    const int64_t before = context->n;
    LVN_LOCAL_TEXT(answer);
    const char *text = json_string_value(turn->text), *target = json_string_value(turn->target);
    LVN_CHECK(t->options_are_inputs ? json_is_integer(turn->text) : text != NULL, ARG,
              "%s:%lld: doc_to_text gives %s, as for the first item it did not", t->rows.path, (long long)t->run.line,
              text ? "a text" : "no text");
    if (!t->options_are_inputs) lvn_text_add(context, text);
    if (t->out->kind == LVN_BENCHMARK_LIKELIHOOD) {
        LVN_CHECK(target && *target, ARG, "%s:%lld: doc_to_target gives no text, or an empty one", t->rows.path,
                  (long long)t->run.line);
        LVN_TRY(lvn_text_status(context));
        return lvn_prompts_pair(t->p, lvn_text_string(context), target);
    }
    LVN_CHECK(!t->options_are_inputs || target, ARG, "%s:%lld: doc_to_target gives no text", t->rows.path,
              (long long)t->run.line);
    for (size_t i = 0; i < json_array_size(turn->choice); i++) {
        const char *choice = json_string_value(json_array_get(turn->choice, i));
        if (t->options_are_inputs) context->n = before;
        if (t->options_are_inputs) lvn_text_add(context, choice);
        lvn_text_clear(&answer);
        lvn_text_add(&answer, t->parts.target_delimiter);
        lvn_text_add(&answer, t->options_are_inputs ? target : choice);
        LVN_TRY(lvn_text_status(context));
        LVN_TRY(lvn_text_status(&answer));
        LVN_TRY(lvn_prompts_pair(t->p, lvn_text_string(context), lvn_text_string(&answer)));
    }
    return LVN_OK;
}

/* The indices of the correct choices, from a number, a text among the choices, or a list of numbers. */
static enum lvn_status read_gold(struct task *t, const struct turn *turn, struct lvn_benchmark_item *item)
{
    const json_t *gold = t->options_are_inputs ? turn->text : turn->target;
    const int n = json_is_array(gold) ? (int)json_array_size(gold) : 1;
    int32_t *list = lvn_arena_alloc(&t->b->arena, sizeof *list * (size_t)(n + 1));
    if (!list) return LVN_MEMORY;
    bool found = n > 0;
    for (int i = 0; i < n; i++) {
        const json_t *one = json_is_array(gold) ? json_array_get(gold, (size_t)i) : gold;
        const json_int_t index = json_integer_value(one);
        list[i] = json_is_true(one) ? 1 : json_is_false(one) ? 0 : -1;
        if (json_is_integer(one) && index >= 0 && index < item->n) list[i] = (int32_t)index;
        for (int k = item->n - 1; k >= 0 && json_is_string(one); k--)
            if (json_equal(one, json_array_get(turn->choice, (size_t)k))) list[i] = k;
        found &= list[i] >= 0;
    }
    LVN_CHECK(
        found, ARG,
        "%s:%lld: the correct answer%s%.40s is neither the number of one of the %d choices, from 0, nor the text of "
        "one",
        t->rows.path, (long long)t->run.line, json_is_string(gold) ? ", " : "",
        json_is_string(gold) ? json_string_value(gold) : "", item->n);
    item->gold = list;
    item->n_gold = n;
    return LVN_OK;
}

static enum lvn_status count_text(const char *text, struct lvn_benchmark_item *item)
{
    const int64_t n = (int64_t)strlen(text);
    item->bytes = n;
    item->words = 1; /* as re.split("\\s+", text): one more than the runs of white space */
    for (int64_t at = 0; at < n;) {
        const int64_t space = lvn_prompt_space(text + at, n - at);
        item->words += space > 0;
        at += space;
        while (at < n && !lvn_prompt_space(text + at, n - at)) at++;
    }
    return LVN_OK;
}

static void count_answers(const struct turn *turn, struct lvn_benchmark_item *item)
{
    for (int i = 0; i < item->n; i++) {
        const json_t *choice = json_array_get(turn->choice, (size_t)i);
        const char *text = json_string_value(choice);
        struct lvn_benchmark_sequence *sequence = &item->sequence[i];
        sequence->bytes = text ? (int64_t)json_string_length(choice) : 0;
        for (int64_t k = 0; k < sequence->bytes; k++) sequence->chars += ((unsigned char)text[k] & 0xc0) != 0x80;
    }
}

static enum lvn_status make_item(struct task *t, int64_t i, const struct turn *turn, struct lvn_text *context,
                                 struct lvn_benchmark_item *item)
{
    const bool rolling = t->out->kind == LVN_BENCHMARK_ROLLING;
    const char *target = json_string_value(turn->target);
    lvn_prompts_begin(t->p, t->rows.path, t->rows.line[i]);
    LVN_CHECK(!rolling || target, ARG, "%s:%lld: doc_to_target gives no text", t->rows.path,
              (long long)t->rows.line[i]);
    if (rolling) LVN_TRY(count_text(target, item));
    LVN_TRY(rolling ? lvn_prompts_windows(t->p, target) : add_requests(t, turn, context));
    LVN_TRY(lvn_prompts_item(t->p, &t->b->arena, t->p->o->context + 1, item));
    item->needs_greedy = t->out->kind == LVN_BENCHMARK_LIKELIHOOD;
    if (t->out->kind != LVN_BENCHMARK_CHOICE) return LVN_OK;
    count_answers(turn, item);
    return read_gold(t, turn, item);
}

static enum lvn_status read_item(struct task *t, int64_t i, struct lvn_benchmark_item *item)
{
    LVN_LOCAL_TEXT(context);
    struct turn turn = {0};
    if (!i) { /* the first item decides for all */
        enum lvn_status status = read_turn(t, &t->parts, &t->rows, i, &turn);
        t->options_are_inputs = t->out->kind == LVN_BENCHMARK_CHOICE && json_is_integer(turn.text);
        turn_release(&turn);
        LVN_TRY(status);
    }
    if (t->out->kind != LVN_BENCHMARK_ROLLING) LVN_TRY(add_preamble(t, i, &context));
    enum lvn_status status = read_turn(t, &t->parts, &t->rows, i, &turn);
    if (status == LVN_OK) status = make_item(t, i, &turn, &context, item);
    turn_release(&turn);
    return status;
}

static enum lvn_status read_items(struct task *t)
{
    const struct lvn_benchmark_options *o = t->p->o;
    t->out->n = o->limit && o->limit < t->rows.n ? o->limit : t->rows.n;
    t->out->item = lvn_arena_alloc(&t->b->arena, sizeof *t->out->item * (size_t)(t->out->n + 1));
    if (!t->out->item) return LVN_MEMORY;
    lvn_python_random_init(&t->random, EXAMPLES_SEED);
    for (int64_t i = 0; i < t->out->n; i++) {
        LVN_TRY(read_item(t, i, &t->out->item[i]));
        t->out->truncated += t->out->item[i].truncated;
    }
    return LVN_OK;
}

/* As in lm-evaluation-harness, the option does not change a 0 in the file. */
static enum lvn_status read_fewshot(struct task *t)
{
    const int64_t given = t->p->o->n_fewshot;
    LVN_TRY(number_of(t, get(t, "num_fewshot"), -1, &t->out->n_fewshot));
    if (t->out->kind == LVN_BENCHMARK_ROLLING)
        t->out->n_fewshot = 0;
    else if (!t->out->n_fewshot && given > 0)
        lvn_log_once(LVN_LOG_WARN,
                     "%s: 'num_fewshot: 0' is kept, so items have no examples; remove this key to use %lld", t->path,
                     (long long)given);
    else
        t->out->n_fewshot = given >= 0 ? given : t->out->n_fewshot < 0 ? 0 : t->out->n_fewshot;
    return LVN_OK;
}

static enum lvn_status read_task(struct task *t)
{
    const char *name, *stem = lvn_path_name(t->path);
    LVN_TRY(read_maps(t, t->path));
    LVN_TRY(check_keys(t));
    LVN_TRY(text_of(t, get(t, "task"), stem, &name));
    t->run.task = name;
    if (!(t->out->name = lvn_arena_strdup(&t->b->arena, name))) return LVN_MEMORY;
    LVN_TRY(read_kind(t));
    LVN_TRY(read_metrics(t));
    LVN_TRY(read_fewshot(t));
    LVN_TRY(read_data(t));
    LVN_TRY(read_fields(t));
    return read_items(t);
}

enum lvn_status lvn_harness_read(struct lvn_benchmarks *b, struct lvn_prompts *p, const char *path)
{
    struct task *t = lvn_calloc(1, sizeof *t);
    if (!t) return LVN_MEMORY;
    *t = (struct task){.b = b, .p = p, .path = path};
    run_init(&t->run, path, &t->arena);
    enum lvn_status status = lvn_benchmarks_add(b, &t->out);
    if (status == LVN_OK) status = read_task(t);
    run_release(&t->run);
    lvn_rows_release(&t->rows);
    lvn_rows_release(&t->examples);
    lvn_arena_release(&t->arena);
    free(t);
    return status;
}

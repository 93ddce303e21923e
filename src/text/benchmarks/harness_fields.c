/* harness_fields.c - see harness_fields.h. */
#include "benchmarks/harness_fields.h"

#include "base/log.h"
#include "base/text.h"

/* Functions in Python of lm-evaluation-harness as templates, for its tasks whose name begins with `task`. */
struct lvn_harness_function {
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

static const struct lvn_harness_function functions[] = {
    {.name = "utils.process_docs",
     .task = "hellaswag",
     .made = {{"query", CLEAN "{{ clean(activity_label + ': ' + ctx_a + ' ' + ctx_b.capitalize()) }}",
               LVN_HARNESS_TEXT},
              {"choices", CLEAN "[{% for e in endings %}{{ clean(e) | tojson }}, {% endfor %}]", LVN_HARNESS_LIST},
              {"gold", "{{ label | int }}", LVN_HARNESS_NUMBER}}},
    {.name = "preprocess_winogrande.doc_to_text", .task = "winogrande", .text = "{{ {'1': 0, '2': 1}[answer] }}"},
    {.name = "preprocess_winogrande.doc_to_target",
     .task = "winogrande",
     .text = "{{ sentence.split('_', 1)[1].strip() }}"},
    {.name = "preprocess_winogrande.doc_to_choice",
     .task = "winogrande",
     .text = "{{ [sentence.split('_')[0] + option1, sentence.split('_')[0] + option2] }}"},
};

void lvn_harness_run_init(struct lvn_harness_run *run, const char *path, struct lvn_arena *a)
{
    *run = (struct lvn_harness_run){.path = path, .arena = a};
}

void lvn_harness_run_release(struct lvn_harness_run *run)
{
    for (int i = 0; i < run->n_parsed; i++) lvn_chat_template_free(run->parsed[i]);
    json_decref(run->document);
    lvn_arena_release(&run->scratch);
}

/* --- values of YAML --- */

bool lvn_harness_is_null(const struct lvn_yaml *node)
{
    return node->kind == LVN_YAML_SCALAR && !node->quoted && !node->tag &&
           (!*node->text || !strcmp(node->text, "null") || !strcmp(node->text, "~"));
}

static json_t *scalar(const struct lvn_yaml *node)
{
    char *end;
    if (node->quoted) return json_string(node->text);
    if (lvn_harness_is_null(node)) return json_null();
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

enum lvn_status lvn_harness_samples(struct lvn_harness_run *run, const struct lvn_yaml *list, struct lvn_rows *out)
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

static enum lvn_status parse_template(struct lvn_harness_run *run, const char *name, int line, const char *text,
                                      const struct lvn_chat_template **out)
{
    LVN_CHECK(run->n_parsed < LVN_HARNESS_TEMPLATES, INTERNAL, "more than %d templates in a task",
              LVN_HARNESS_TEMPLATES);
    const char *where = lvn_arena_printf(run->arena, "%s:%d: %s", run->path, line, name);
    if (!where) return LVN_MEMORY;
    LVN_TRY(lvn_template_parse(&run->parsed[run->n_parsed], where, text));
    *out = run->parsed[run->n_parsed++];
    return LVN_OK;
}

static enum lvn_status find_function(const struct lvn_harness_run *run, const struct lvn_yaml *node, bool columns,
                                     const struct lvn_harness_function **out)
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

enum lvn_status lvn_harness_field(struct lvn_harness_run *run, const struct lvn_yaml *node,
                                  struct lvn_harness_field *out)
{
    const struct lvn_harness_function *function = NULL;
    *out = (struct lvn_harness_field){.node = node};
    if (!node || node->kind != LVN_YAML_SCALAR) return LVN_OK;
    if (node->tag) LVN_TRY(find_function(run, node, false, &function));
    if (!function && is_integer(node)) return LVN_OK;
    return parse_template(run, node->key, node->line, function ? function->text : node->text, &out->parsed);
}

enum lvn_status lvn_harness_process(struct lvn_harness_run *run, const struct lvn_yaml *node)
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

enum lvn_status lvn_harness_document(struct lvn_harness_run *run, struct lvn_rows *rows, int64_t i)
{
    LVN_TRY(find_columns(rows));
    const long begun = lvn_json_begin();
    json_decref(run->document);
    run->document = json_copy(rows->columns);
    json_object_update(run->document, rows->row[i]);
    run->rows = rows;
    run->line = rows->line[i];
    LVN_TRY(lvn_json_check(begun));
    for (int k = 0; k < 3 && run->process && rows->path != run->path; k++) { /* not for lvn_harness_samples() */
        json_t *value;
        if (!run->made[k].parsed) continue;
        LVN_TRY(lvn_harness_value(run, &run->made[k], run->process->made[k].use, &value));
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

static enum lvn_status render(struct lvn_harness_run *run, const struct lvn_harness_field *field,
                              struct lvn_rendered *out)
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
    if (use & LVN_HARNESS_LIST) return whole_literal(r->text, r->n);
    if (use & LVN_HARNESS_NUMBER && is_digits(r->text)) return json_integer(strtoll(r->text, NULL, 10));
    if (use & LVN_HARNESS_TARGET && r->n >= 2 && r->text[0] == '[' && r->text[r->n - 1] == ']')
        out = whole_literal(r->text, r->n);
    return out ? out : json_stringn(r->text, (size_t)r->n);
}

enum lvn_status lvn_harness_value(struct lvn_harness_run *run, const struct lvn_harness_field *field, unsigned use,
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

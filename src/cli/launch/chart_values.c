/* chart_values.c - the values of the chart: defaults, a user's file, and what is refused. See chart.h. */
#include <string.h>

#include "base/files.h"
#include "cli/launch/chart.h"
#include "models/model.h"
#include "tokenizers/regex/regex.h"

const struct lvn_chart_value lvn_chart_values[] = {
#define CHART_ROW(section_, name_, kind_, ...)                                                                         \
    {.section = #section_, .name = #name_, .kind = LVN_CHART_##kind_, __VA_ARGS__},
#define CHART_TEXT(section, name, pattern_, wanted_)                                                                   \
    CHART_ROW(section, name, TEXT, .pattern = pattern_, .wanted = wanted_)
#define CHART_WORD(section, name, pattern_, wanted_)                                                                   \
    CHART_ROW(section, name, WORD, .pattern = pattern_, .wanted = wanted_)
#define CHART_INT(section, name, min_, max_) CHART_ROW(section, name, INT, .min = min_, .max = max_)
#define CHART_SWITCH(section, name) CHART_ROW(section, name, SWITCH, .min = 0)
#define CHART_CHOICE(section, name, words) CHART_ROW(section, name, CHOICE, .wanted = words)
#define CHART_MODEL(section, name) CHART_ROW(section, name, MODEL, .min = 0)
#define CHART_TEXTS(section, name) CHART_ROW(section, name, TEXTS, .min = 0)
#define CHART_NAMES(section, name) CHART_ROW(section, name, NAMES, .min = 0)
#define CHART_OBJECT(section, name) CHART_ROW(section, name, OBJECT, .min = 0)
#define CHART_OBJECTS(section, name) CHART_ROW(section, name, OBJECTS, .min = 0)
#include "cli/launch/chart_values.def"
    {.name = NULL}};

const char *lvn_chart_file(const char *name)
{
    for (const struct lvn_embedded_file *f = lvn_chart_files; f->name; f++)
        if (!strcmp(f->name, name)) return f->text;
    return NULL;
}

const char *lvn_chart_model(int i)
{
    const struct lvn_model *m = lvn_model_find("neox");
    for (const struct lvn_size *z = m ? m->sizes : NULL; z && z->name; z++)
        if (!i--) return z->name;
    return NULL;
}

enum lvn_status lvn_chart_defaults(struct lvn_arena *a, struct lvn_variant **out)
{
    const char *text = lvn_chart_file("values.yaml");
    const struct lvn_yaml *top;
    LVN_TRY(lvn_yaml_parse(a, "the chart's values.yaml", text, (int64_t)strlen(text), &top));
    return lvn_variant_from_yaml(a, top, "the chart's values.yaml", out);
}

enum lvn_status lvn_chart_read(struct lvn_arena *a, const char *path, struct lvn_variant **out)
{
    const struct lvn_yaml *top;
    LVN_TRY(lvn_yaml_read(a, path, &top));
    return lvn_variant_from_yaml(a, top, path, out);
}

enum lvn_status lvn_chart_set(struct lvn_arena *a, struct lvn_variant *values, const char *section, const char *name,
                              const struct lvn_variant *value)
{
    const struct lvn_variant *there = lvn_variant_get(values, section);
    struct lvn_variant *one = lvn_variant_new(a, LVN_VARIANT_MAP), *merged, *over = lvn_variant_new(a, LVN_VARIANT_MAP);
    if (!one || !over || !value) return LVN_MEMORY;
    LVN_TRY(lvn_variant_set(a, over, name, value));
    LVN_TRY(lvn_variant_merge(a, there && there->kind == LVN_VARIANT_MAP ? there : one, over, &merged));
    return lvn_variant_set(a, values, section, merged);
}

const struct lvn_variant *lvn_chart_get(const struct lvn_variant *values, const char *section, const char *name)
{
    const struct lvn_variant *v = lvn_variant_get(lvn_variant_get(values, section), name);
    return v && v->kind != LVN_VARIANT_NULL ? v : NULL;
}

/* --- checks --- */

struct check {
    const struct lvn_chart_value *row; /* NULL: none */
    const char *path;                  /* "cluster.nNodes" */
    const struct lvn_variant *value;
};

/* "values.yaml:7: ", or what else is known. */
static const char *place(const struct lvn_variant *v, char text[300])
{
    text[0] = '\0';
    if (v->where) lvn_print_append(text, 300, "%.250s:%d: ", v->where, v->line);
    return text;
}

static enum lvn_status refuse(const struct check *k, const char *wanted)
{
    char where[300];
    LVN_LOCAL_TEXT(found);
    lvn_variant_print(&found, k->value);
    if (found.p) LVN_FAIL(ARG, "%s%s is %s, not '%.60s'", place(k->value, where), k->path, wanted, found.p);
    LVN_FAIL(ARG, "%s%s is %s, not a %s", place(k->value, where), k->path, wanted, lvn_variant_kind_text(k->value));
}

/* Does the pattern match the whole text? */
static enum lvn_status matches(const char *text, const char *pattern, bool *is)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_regex *regex;
    struct lvn_regex_scratch scratch = {0};
    const int64_t n = (int64_t)strlen(text);
    int64_t begin = 0, end = n;
    *is = !pattern;
    if (!pattern) return LVN_OK;
    LVN_TRY(lvn_regex_new(&regex, &a, "chart_values.def", pattern));
    enum lvn_status status = lvn_regex_find(regex, &scratch, (const uint8_t *)text, n, -1, is, &begin, &end);
    lvn_regex_scratch_release(&scratch);
    *is = *is && begin == 0 && end == n;
    return status;
}

static enum lvn_status check_text(const struct check *k)
{
    const struct lvn_variant *v = k->value;
    bool is = false;
    if (k->row->kind == LVN_CHART_WORD && (v->kind == LVN_VARIANT_INT || v->kind == LVN_VARIANT_REAL)) {
        if (v->kind == LVN_VARIANT_INT && v->i >= 0) return LVN_OK;
        return refuse(k, k->row->wanted);
    }
    if (v->kind == LVN_VARIANT_TEXT) LVN_TRY(matches(v->text, k->row->pattern, &is));
    return is ? LVN_OK : refuse(k, k->row->wanted);
}

static enum lvn_status check_int(const struct check *k)
{
    char wanted[120];
    snprintf(wanted, sizeof wanted, "a whole number from %lld to %lld", (long long)k->row->min, (long long)k->row->max);
    const struct lvn_variant *v = k->value;
    return v->kind == LVN_VARIANT_INT && v->i >= k->row->min && v->i <= k->row->max ? LVN_OK : refuse(k, wanted);
}

/* One of the words of the row: of a switch, of a choice, of the models. */
static enum lvn_status check_choice(const struct check *k)
{
    const enum lvn_chart_kind kind = k->row->kind;
    const char *words = kind == LVN_CHART_SWITCH ? " yes no" : kind == LVN_CHART_CHOICE ? k->row->wanted : "";
    char wanted[600] = "one of";
    const struct lvn_variant *v = k->value;
    if (kind == LVN_CHART_SWITCH && v->kind == LVN_VARIANT_BOOL) return LVN_OK;
    if (kind != LVN_CHART_CHOICE && v->kind == LVN_VARIANT_TEXT && !*v->text) return LVN_OK;
    for (int i = 0; kind == LVN_CHART_MODEL && lvn_chart_model(i); i++) {
        lvn_print_append(wanted, sizeof wanted, "%s %s", i ? "," : "", lvn_chart_model(i));
        if (v->kind == LVN_VARIANT_TEXT && !strcmp(v->text, lvn_chart_model(i))) return LVN_OK;
    }
    for (const char *w = words; kind != LVN_CHART_MODEL; w++) {
        const int n = (int)strcspn(w, " ");
        if (v->kind == LVN_VARIANT_TEXT && (int)strlen(v->text) == n && !strncmp(v->text, w, (size_t)n)) return LVN_OK;
        if (n) lvn_print_append(wanted, sizeof wanted, "%s %.*s", strcmp(wanted, "one of") ? "," : "", n, w);
        w += n;
        if (!*w) break;
    }
    return refuse(k, wanted);
}

/* A map or a list with children of one kind; `texts`: the children are texts. */
static enum lvn_status check_container(const struct check *k, enum lvn_variant_kind kind, enum lvn_variant_kind below)
{
    static const char *const wanted[] = {[LVN_CHART_TEXTS] = "a map of names to texts; write numbers in quotes",
                                         [LVN_CHART_NAMES] = "a list of names",
                                         [LVN_CHART_OBJECT] = "a map",
                                         [LVN_CHART_OBJECTS] = "a list of maps"};
    if (k->value->kind != kind) return refuse(k, wanted[k->row->kind]);
    for (const struct lvn_variant *c = k->value->child; c; c = c->next) {
        const struct check one = {.row = k->row, .path = k->path, .value = c};
        if (k->row->kind != LVN_CHART_OBJECT && c->kind != below) return refuse(&one, wanted[k->row->kind]);
    }
    return LVN_OK;
}

static enum lvn_status check_row(const struct check *k)
{
    if (k->value->kind == LVN_VARIANT_NULL) return LVN_OK;
    switch (k->row->kind) {
    case LVN_CHART_TEXT:
    case LVN_CHART_WORD:
        return check_text(k);
    case LVN_CHART_INT:
        return check_int(k);
    case LVN_CHART_SWITCH:
    case LVN_CHART_CHOICE:
    case LVN_CHART_MODEL:
        return check_choice(k);
    case LVN_CHART_NAMES:
        return check_container(k, LVN_VARIANT_LIST, LVN_VARIANT_TEXT);
    case LVN_CHART_OBJECTS:
        return check_container(k, LVN_VARIANT_LIST, LVN_VARIANT_MAP);
    case LVN_CHART_TEXTS:
    case LVN_CHART_OBJECT:
        break;
    }
    return check_container(k, LVN_VARIANT_MAP, LVN_VARIANT_TEXT);
}

/* The row of a value; NULL: none, with the name that may be meant in *near. */
static const struct lvn_chart_value *find_row(const char *section, const char *name, const char **near)
{
    const char *names[64];
    int n = 0;
    for (const struct lvn_chart_value *row = lvn_chart_values; row->name; row++) {
        if (strcmp(row->section, section)) continue;
        if (!strcmp(row->name, name)) return row;
        if (n < 64) names[n++] = row->name;
    }
    *near = lvn_nearest(name, names, n);
    return NULL;
}

static bool is_section(const char *name)
{
    for (const struct lvn_chart_value *row = lvn_chart_values; row->name; row++)
        if (!strcmp(row->section, name)) return true;
    return false;
}

static enum lvn_status check_value(const char *section, const struct lvn_variant *v)
{
    char path[200], where[300];
    const char *near = NULL;
    const struct lvn_chart_value *row = find_row(section, v->key, &near);
    snprintf(path, sizeof path, "%s%s%s", section, *section ? "." : "", v->key);
    LVN_CHECK(row, ARG, "%s%.180s is no value of the chart%s%s%s%s%s", place(v, where), path,
              near ? "; did you mean " : "", near ? section : "", near && *section ? "." : "", near ? near : "",
              near ? "?" : "; its values.yaml lists them");
    const struct check k = {.row = row, .path = path, .value = v};
    return check_row(&k);
}

/* A key of the recipe. 1 and 1.0 are told apart by recipes and not by Helm. */
static enum lvn_status check_key(const char *part, const struct lvn_variant *v)
{
    char key[200], where[300];
    snprintf(key, sizeof key, "%s%s%s", part, *part ? "." : "", v->key);
    const struct lvn_option *o = lvn_option_find(key);
    const char *near = o ? NULL : lvn_option_nearest(key);
    LVN_CHECK(o, ARG, "%srecipe.%s: recipes have no such key%s%s%s", place(v, where), key,
              near ? "; did you mean recipe." : "", near ? near : "", near ? "?" : "");
    LVN_CHECK(v->kind != LVN_VARIANT_NULL || !v->where, ARG, "%srecipe.%s has no value; leave it out", place(v, where),
              key);
    LVN_CHECK(v->kind != LVN_VARIANT_BOOL || (o->kind != LVN_KIND_TEXT && o->kind != LVN_KIND_PATH), ARG,
              "%srecipe.%s is a text, and this word means true or false to YAML: write it in quotes", place(v, where),
              key);
    const bool one = (v->kind == LVN_VARIANT_INT && v->i == 1) || (v->kind == LVN_VARIANT_REAL && v->r == 1);
    LVN_CHECK(o->kind != LVN_KIND_AMOUNT || !one, ARG,
              "%srecipe.%s: 1 is a count and 1.0 is all, and Helm does not tell them apart: write it in quotes",
              place(v, where), key);
    return LVN_OK;
}

static enum lvn_status check_recipe(const struct lvn_variant *recipe, struct lvn_text *wrong)
{
    char where[300];
    for (const struct lvn_variant *part = recipe->child; part; part = part->next) {
        if (part->kind != LVN_VARIANT_MAP && !lvn_part_help(part->key)) {
            LVN_TRY(lvn_collect_error(wrong, check_key("", part)));
            continue;
        }
        enum lvn_status status = LVN_OK;
        if (!lvn_part_help(part->key))
            status = lvn_fail(LVN_ARG, "%srecipe.%.60s: recipes have no such part", place(part, where), part->key);
        else if (part->kind != LVN_VARIANT_MAP)
            status = lvn_fail(LVN_ARG, "%srecipe.%s is a map of keys, not %s", place(part, where), part->key,
                              lvn_variant_kind_text(part));
        LVN_TRY(lvn_collect_error(wrong, status));
        for (const struct lvn_variant *v = status ? NULL : part->child; v; v = v->next)
            LVN_TRY(lvn_collect_error(wrong, check_key(part->key, v)));
    }
    return LVN_OK;
}

enum lvn_status lvn_chart_check(const struct lvn_variant *values)
{
    struct lvn_text wrong = {0};
    enum lvn_status status = LVN_OK;
    char where[300];
    for (const struct lvn_variant *v = values->child; v && status == LVN_OK; v = v->next) {
        const bool recipe = !strcmp(v->key, "recipe");
        if (!recipe && !is_section(v->key)) {
            status = lvn_collect_error(&wrong, check_value("", v));
        } else if (v->kind != LVN_VARIANT_MAP) {
            status = lvn_collect_error(&wrong, lvn_fail(LVN_ARG, "%s%s is a map of values, not %s", place(v, where),
                                                        v->key, lvn_variant_kind_text(v)));
        } else if (recipe) {
            status = check_recipe(v, &wrong);
        } else {
            for (const struct lvn_variant *c = v->child; c && status == LVN_OK; c = c->next)
                status = lvn_collect_error(&wrong, check_value(v->key, c));
        }
    }
    return lvn_collected_errors(&wrong, status);
}

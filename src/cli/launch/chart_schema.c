/* chart_schema.c - values.schema.json of the chart in deploy/helm/levin, from chart_values.def and the table of
 * options. `levin help --values-schema` prints it; `make docs` writes the file. */
#include <string.h>

#include "cli/help.h"
#include "cli/launch/chart.h"
#include "formats/json.h"

enum { EXACT = 53 }; /* bits of the numbers that Helm reads */

static json_t *type(const char *one, const char *other)
{
    json_t *t = json_object(), *names = json_array();
    json_array_append_new(names, json_string(one));
    if (other) json_array_append_new(names, json_string(other));
    json_array_append_new(names, json_string("null"));
    json_object_set_new(t, "type", names);
    return t;
}

static json_t *words(const char *text)
{
    json_t *t = json_object(), *list = json_array();
    for (const char *w = text;; w++) {
        const size_t n = strcspn(w, " ");
        json_array_append_new(list, json_stringn(w, n));
        w += n;
        if (!*w) break;
    }
    json_object_set_new(t, "enum", list);
    return t;
}

static json_t *of_row(const struct lvn_chart_value *row)
{
    json_t *t;
    switch (row->kind) {
    case LVN_CHART_TEXT:
    case LVN_CHART_WORD:
        t = type("string", row->kind == LVN_CHART_WORD ? "integer" : NULL);
        if (row->pattern) json_object_set_new(t, "pattern", json_string(row->pattern));
        return t;
    case LVN_CHART_INT:
        t = type("integer", NULL);
        json_object_set_new(t, "minimum", json_integer(row->min));
        json_object_set_new(t, "maximum", json_integer(row->max));
        return t;
    case LVN_CHART_SWITCH:
        t = words(" yes no");
        json_array_append_new(json_object_get(t, "enum"), json_true());
        json_array_append_new(json_object_get(t, "enum"), json_false());
        break;
    case LVN_CHART_CHOICE:
        t = words(row->wanted);
        break;
    case LVN_CHART_MODEL:
        t = words("");
        for (int i = 0; lvn_chart_model(i); i++)
            json_array_append_new(json_object_get(t, "enum"), json_string(lvn_chart_model(i)));
        break;
    case LVN_CHART_TEXTS:
        t = type("object", NULL);
        json_object_set_new(t, "additionalProperties", json_pack("{s:s}", "type", "string"));
        return t;
    case LVN_CHART_NAMES:
    case LVN_CHART_OBJECTS:
        t = type("array", NULL);
        json_object_set_new(t, "items", json_pack("{s:s}", "type", row->kind == LVN_CHART_NAMES ? "string" : "object"));
        return t;
    case LVN_CHART_OBJECT:
    default:
        return type("object", NULL);
    }
    json_array_append_new(json_object_get(t, "enum"), json_null());
    return t;
}

/* --- keys of recipes --- */

/* Is the text a value of the option? */
static bool parses(const struct lvn_option *o, const char *text)
{
    LVN_LOCAL_ARENA(a);
    char field[256];
    if (lvn_option_parse(o, text, field, &a) == LVN_OK) return true;
    lvn_error_clear();
    return false;
}

static json_t *number(const char *kind, double min, double max)
{
    const double exact = (double)((int64_t)1 << EXACT);
    json_t *t = json_pack("{s:s}", "type", kind);
    const bool whole = !strcmp(kind, "integer");
    if (whole && max > exact) max = exact;
    json_object_set_new(t, "minimum", whole ? json_integer((json_int_t)min) : json_real(min));
    json_object_set_new(t, "maximum", whole ? json_integer((json_int_t)max) : json_real(max));
    return t;
}

static json_t *any_of(json_t *one, json_t *other)
{
    return json_pack("{s:[o,o]}", "anyOf", one, other);
}

/* The words of the option, and those of other programs; numbers among them Helm reads as such (precision: 16). */
static json_t *of_choices(const struct lvn_option *o)
{
    json_t *list = json_array(), *numbers = json_array();
    for (int i = 0; o->choices[i]; i++) json_array_append_new(list, json_string(o->choices[i]));
    for (const char *w = o->aliases ? o->aliases : ""; *w; w += strcspn(w, " "), w += *w == ' ') {
        const size_t n = strcspn(w, "=");
        json_array_append_new(list, json_stringn(w, n));
        if (strspn(w, "0123456789") == n) json_array_append_new(numbers, json_integer(strtol(w, NULL, 10)));
    }
    json_t *t = json_pack("{s:o}", "enum", list);
    if (json_array_size(numbers)) return any_of(t, json_pack("{s:o}", "enum", numbers));
    json_decref(numbers);
    return t;
}

static json_t *text_like(const char *pattern)
{
    return json_pack("{s:s,s:s}", "type", "string", "pattern", pattern);
}

/* A count, a fraction below 1, or a text. 1 is no number here: Helm does not tell it from 1.0. */
static json_t *of_amount(void)
{
    json_t *t = json_object(), *list = json_array();
    json_array_append_new(list, text_like("^([0-9]+|[0-9]*\\.[0-9]+|[0-9]+\\.|off|none)$"));
    json_array_append_new(list, json_pack("{s:[b,i]}", "enum", 0, 0));
    json_array_append_new(list, json_pack("{s:s,s:i}", "type", "integer", "minimum", 2));
    json_array_append_new(list,
                          json_pack("{s:s,s:i,s:i}", "type", "number", "exclusiveMinimum", 0, "exclusiveMaximum", 1));
    json_object_set_new(t, "anyOf", list);
    return t;
}

static json_t *of_option(const struct lvn_option *o)
{
    static const char real[] = "^[-+]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][-+]?[0-9]+)?$|^(off|none)$";
    json_t *t = NULL;
    if (o->choices) return of_choices(o);
    switch (o->kind) {
    case LVN_KIND_INT:
        t = any_of(number("integer", o->min, o->max), text_like("^(-?[0-9]+|auto|none|off|true|false)$"));
        break;
    case LVN_KIND_REAL:
        t = any_of(number("number", o->min, o->max), text_like(real));
        break;
    case LVN_KIND_PAIR:
        t = any_of(json_pack("{s:s,s:o,s:i,s:i}", "type", "array", "items", number("number", o->min, o->max),
                             "minItems", 2, "maxItems", 2),
                   text_like("^[^,]+,[^,]+$"));
        break;
    case LVN_KIND_BOOL:
        return json_pack("{s:s}", "type", "boolean");
    case LVN_KIND_LIST:
        t = any_of(json_pack("{s:s,s:{s:s}}", "type", "array", "items", "type", "string"),
                   json_pack("{s:s}", "type", "string"));
        break;
    case LVN_KIND_MAPS:
        t = any_of(json_pack("{s:s,s:{s:s}}", "type", "array", "items", "type", "object"),
                   json_pack("{s:s}", "type", "string"));
        break;
    case LVN_KIND_TIME:
        t = any_of(json_pack("{s:s,s:i}", "type", "number", "minimum", 0),
                   text_like("^[0-9][0-9.:]*[smhd]?$|^(off|none)$"));
        break;
    case LVN_KIND_AMOUNT:
        return of_amount();
    case LVN_KIND_PATH:
        return json_pack("{s:s}", "type", "string");
    case LVN_KIND_CHOICE:
    case LVN_KIND_WORD:
    case LVN_KIND_TEXT:
    case LVN_KIND_TEXTS:
        return json_pack("{s:[s,s]}", "type", "string", "integer");
    }
    for (int b = 0; b < 2; b++) {
        json_t *list = json_object_get(t, "anyOf");
        if (parses(o, b ? "true" : "false")) json_array_append_new(list, json_pack("{s:[b]}", "enum", b));
    }
    return t;
}

static json_t *strict(void)
{
    return json_pack("{s:s,s:b,s:{}}", "type", "object", "additionalProperties", 0, "properties");
}

/* The object of a section below `top`, which is made at its first use. */
static json_t *section_of(json_t *top, const char *name)
{
    json_t *properties = json_object_get(top, "properties"), *section = json_object_get(properties, name);
    if (!*name) return properties;
    if (!section) {
        section = strict();
        json_object_set_new(properties, name, section);
    }
    return json_object_get(section, "properties");
}

enum lvn_status lvn_chart_schema(struct lvn_text *t)
{
    long begun = lvn_json_begin();
    json_t *top = strict(), *recipe = strict();
    json_object_set_new(top, "$schema", json_string("http://json-schema.org/draft-07/schema#"));
    json_object_set_new(top, "$comment",
                        json_string("Written by `levin help --values-schema` from src/cli/launch/chart_values.def and "
                                    "src/settings/options.def; edit those, and run make docs."));
    for (const struct lvn_chart_value *row = lvn_chart_values; row->name; row++)
        json_object_set_new(section_of(top, row->section), row->name, of_row(row));
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        const char *dot = strchr(o->key, '.');
        json_object_set_new(section_of(recipe, o->part), dot ? dot + 1 : o->key, of_option(o));
    }
    json_object_set_new(section_of(top, ""), "recipe", recipe);
    json_object_set_new(section_of(top, ""), "global", json_pack("{s:s}", "type", "object")); /* Helm adds it */
    lvn_json_add(t, begun, top, 2);
    lvn_text_add(t, "\n");
    json_decref(top);
    return lvn_text_status(t);
}

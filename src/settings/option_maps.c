/* option_maps.c - see option_maps.h. */
#include "settings/option_maps.h"

#include <string.h>

/* Numbers stand as they are, for people; other scalars in quotes where YAML wants them. */
static void add_value(struct lvn_text *text, const char *value)
{
    if (*value && strspn(value, "0123456789+-.eE") == strlen(value))
        lvn_text_add(text, value);
    else
        lvn_yaml_add_scalar(text, value);
}

static enum lvn_status add_entry(const struct lvn_yaml *entry, const char *key, struct lvn_text *text)
{
    LVN_LOCAL_TEXT(joined);
    LVN_CHECK(entry->kind == LVN_YAML_SCALAR || entry->kind == LVN_YAML_LIST, ARG,
              "%s: '%s' must be one value or a list of them, got a map", key, entry->key);
    for (const struct lvn_yaml *y = entry->child; y; y = y->next) {
        LVN_CHECK(y->kind == LVN_YAML_SCALAR, ARG, "%s: '%s' wants plain values in its list", key, entry->key);
        lvn_text_printf(&joined, "%s%s", joined.n ? ", " : "", y->text);
    }
    LVN_TRY(lvn_text_status(&joined));
    lvn_yaml_add_scalar(text, entry->key);
    lvn_text_add(text, ": ");
    add_value(text, entry->kind == LVN_YAML_SCALAR ? entry->text : joined.p ? joined.p : "");
    return LVN_OK;
}

enum lvn_status lvn_maps_text(const struct lvn_yaml *list, const char *key, struct lvn_text *text)
{
    static const char wanted[] = "as [{match: wte, lr: 1e-4}]";
    LVN_CHECK(list->kind == LVN_YAML_LIST, ARG, "%s must be a list of maps, %s", key, wanted);
    if (!list->child) return LVN_OK;
    lvn_text_add(text, "[");
    for (const struct lvn_yaml *map = list->child; map; map = map->next) {
        LVN_CHECK(map->kind == LVN_YAML_MAP, ARG, "%s must be a list of maps, %s", key, wanted);
        lvn_text_add(text, "{");
        for (const struct lvn_yaml *y = map->child; y; y = y->next) {
            LVN_TRY(add_entry(y, key, text));
            if (y->next) lvn_text_add(text, ", ");
        }
        lvn_text_add(text, map->next ? "}, " : "}");
    }
    lvn_text_add(text, "]");
    return lvn_text_status(text);
}

enum lvn_status lvn_maps_parse(const char *value, const char *key, struct lvn_text *text)
{
    LVN_LOCAL_ARENA(a);
    LVN_LOCAL_TEXT(yaml);
    const struct lvn_yaml *top;
    if (!*value || !strcmp(value, "none") || !strcmp(value, "off")) return LVN_OK;
    lvn_text_printf(&yaml, "value: %s", value);
    LVN_TRY(lvn_text_status(&yaml));
    const enum lvn_status status = lvn_yaml_parse(&a, key, yaml.p, yaml.n, &top);
    if (status == LVN_ARG && strchr(value, '*')) LVN_FAIL(ARG, "%s; put patterns with * in quotes", lvn_error_text());
    LVN_TRY(status);
    LVN_CHECK(top->n == 1, ARG, "%s must be a list of maps, got '%.60s'", key, value);
    return lvn_maps_text(top->child, key, text);
}

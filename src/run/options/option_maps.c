/* option_maps.c - see option_maps.h. */
#include "options/option_maps.h"

/* Numbers are written unquoted, for readability; other scalars in quotes if YAML requires them. */
static void add_value(struct lvn_text *text, const char *value)
{
    if (strpbrk(value, "0123456789") && strspn(value, "0123456789+-.eE") == strlen(value))
        lvn_text_add(text, value);
    else
        lvn_yaml_add_scalar(text, value);
}

static enum lvn_status add_entry(const struct lvn_option *o, const struct lvn_yaml *entry, struct lvn_text *text)
{
    LVN_LOCAL_TEXT(joined);
    LVN_CHECK(entry->kind == LVN_YAML_SCALAR || o->lists, ARG,
              "%s: '%s' must be one value, got a %s; put texts in quotes", o->key, entry->key,
              entry->kind == LVN_YAML_LIST ? "list" : "map");
    LVN_CHECK(entry->kind != LVN_YAML_MAP, ARG, "%s: '%s' must be one value or a list of them, got a map", o->key,
              entry->key);
    for (const struct lvn_yaml *y = entry->child; y; y = y->next) {
        LVN_CHECK(y->kind == LVN_YAML_SCALAR, ARG, "%s: the list '%s' must contain plain values", o->key, entry->key);
        lvn_text_printf(&joined, "%s%s", joined.n ? ", " : "", y->text);
    }
    LVN_TRY(lvn_text_status(&joined));
    lvn_yaml_add_scalar(text, entry->key);
    lvn_text_add(text, ": ");
    add_value(text, entry->kind == LVN_YAML_SCALAR ? entry->text : joined.p ? joined.p : "");
    return LVN_OK;
}

enum lvn_status lvn_maps_text(const struct lvn_option *o, const struct lvn_yaml *list, struct lvn_text *text)
{
    LVN_CHECK(list->kind == LVN_YAML_LIST, ARG, "%s must be a list of maps, as %s", o->key, o->example);
    if (!list->child) return LVN_OK;
    lvn_text_add(text, "[");
    for (const struct lvn_yaml *map = list->child; map; map = map->next) {
        LVN_CHECK(map->kind == LVN_YAML_MAP, ARG, "%s must be a list of maps, as %s", o->key, o->example);
        lvn_text_add(text, "{");
        for (const struct lvn_yaml *y = map->child; y; y = y->next) {
            LVN_TRY(add_entry(o, y, text));
            if (y->next) lvn_text_add(text, ", ");
        }
        lvn_text_add(text, map->next ? "}, " : "}");
    }
    lvn_text_add(text, "]");
    return lvn_text_status(text);
}

enum lvn_status lvn_maps_parse(const struct lvn_option *o, const char *value, struct lvn_text *text)
{
    LVN_LOCAL_ARENA(a);
    const struct lvn_yaml *list;
    if (!*value || !strcmp(value, "none") || !strcmp(value, "off")) return LVN_OK;
    const enum lvn_status status = lvn_yaml_value(&a, o->key, value, &list);
    if (status == LVN_ARG && strchr(value, '*')) LVN_FAIL(ARG, "%s; put patterns with * in quotes", levin_error_text());
    LVN_TRY(status);
    return lvn_maps_text(o, list, text);
}

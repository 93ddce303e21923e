/* args_show.c - --show-settings: prints every key, its value and where the value came from. Called by commands that
 * take keys of recipes. */
#include <string.h>

#include "cli/args.h"
#include "cli/cli.h"
#include "formats/json.h"

/* The text on one line, with newlines and tabs escaped. */
static const char *one_line(const char *value, struct lvn_text *t)
{
    lvn_text_clear(t);
    for (; *value; value++) {
        if (*value == '\n' || *value == '\t')
            lvn_text_add(t, *value == '\n' ? "\\n" : "\\t");
        else
            lvn_text_add_bytes(t, value, 1);
    }
    return t->p ? t->p : "";
}

static json_t *as_json(const struct lvn_option *o, const char *value)
{
    json_t *parsed = NULL;
    if (o->kind == LVN_KIND_INT || o->kind == LVN_KIND_REAL || o->kind == LVN_KIND_PAIR || o->kind == LVN_KIND_BOOL ||
        o->kind == LVN_KIND_TIME || o->kind == LVN_KIND_AMOUNT) {
        json_error_t error;
        if (lvn_json_load(value, (int64_t)strlen(value), JSON_DECODE_ANY, &parsed, &error) != LVN_OK)
            lvn_error_clear(); /* main.c reports incomplete results */
    }
    return parsed ? parsed : json_string(value);
}

bool lvn_cli_shows_settings(struct lvn_cli *c)
{
    if (!lvn_cli_on(c, LVN_FLAG_any_show_settings)) return false;
    json_t *all = c->json ? json_object() : NULL;
    LVN_LOCAL_TEXT(line);
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        char text[LVN_VALUE_TEXT], from[LVN_VALUE_TEXT];
        const char *value = lvn_settings_value(&c->settings, o->id, text);
        const char *origin = lvn_settings_origin(&c->settings, o->id, from);
        bool open = !*o->default_text && c->settings.origin[o->id].source == LVN_SOURCE_DEFAULT;
        if (all) {
            json_t *one = json_object();
            json_object_set_new(one, "value", open ? json_null() : as_json(o, value));
            json_object_set_new(one, "from", json_string(origin));
            json_object_set_new(all, o->key, one);
        }
        lvn_cli_print(c, "%-34s %-28s %s\n", o->key, one_line(open ? "" : value, &line), origin);
    }
    lvn_cli_add(c, "settings", all);
    return true;
}

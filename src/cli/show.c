/* show.c - --show-settings: every key, its value, and where that came from. */
#include <string.h>

#include "cli/cli.h"

/* A text on one line. */
static void one_line(const char *value, char *text, size_t room)
{
    size_t n = 0;
    for (; *value && n + 3 < room; value++) {
        if (*value == '\n' || *value == '\t') text[n++] = '\\';
        text[n++] = *value == '\n' ? 'n' : *value == '\t' ? 't' : *value;
    }
    text[n] = '\0';
}

static json_t *as_json(const struct lvn_option *o, const char *value)
{
    json_t *parsed = NULL;
    if (o->kind == LVN_KIND_INT || o->kind == LVN_KIND_REAL || o->kind == LVN_KIND_PAIR || o->kind == LVN_KIND_BOOL ||
        o->kind == LVN_KIND_TIME || o->kind == LVN_KIND_AMOUNT) {
        parsed = json_loads(value, JSON_DECODE_ANY, NULL);
    }
    return parsed ? parsed : json_string(value);
}

void lvn_cli_show_settings(struct lvn_cli *c)
{
    json_t *all = c->json ? json_object() : NULL;
    for (int id = 0; id < LVN_OPT_COUNT; id++) {
        char text[LVN_VALUE_TEXT], from[LVN_VALUE_TEXT], line[LVN_VALUE_TEXT];
        const char *value = lvn_settings_value(&c->settings, (enum lvn_option_id)id, text);
        const char *origin = lvn_settings_origin(&c->settings, (enum lvn_option_id)id, from);
        bool open = !*lvn_options[id].initial && c->settings.origin[id].source == LVN_SOURCE_DEFAULT;
        if (all) {
            json_t *one = json_object();
            json_object_set_new(one, "value", open ? json_null() : as_json(&lvn_options[id], value));
            json_object_set_new(one, "from", json_string(origin));
            json_object_set_new(all, lvn_options[id].key, one);
        }
        one_line(open ? "" : value, line, sizeof line);
        lvn_cli_print(c, "%-34s %-28s %s\n", lvn_options[id].key, line, origin);
    }
    lvn_cli_add(c, "settings", all);
}

/* api_settings.c - settings by key, for programs: include/levin.h has the declarations, settings/settings.h the work.
 */
#include <stdlib.h>

#include "api/api.h"

struct lvn_settings *lvn_settings_new(void)
{
    locale_t before = lvn_api_begin();
    struct lvn_settings *s = lvn_calloc(1, sizeof *s);
    if (s && lvn_settings_init(s) != LVN_OK) {
        free(s);
        s = NULL;
    }
    lvn_api_return(before, LVN_OK);
    return s;
}

void lvn_settings_free(struct lvn_settings *s)
{
    if (s) lvn_settings_release(s);
    free(s);
}

int lvn_settings_put(struct lvn_settings *s, const char *key, const char *value)
{
    locale_t before = lvn_api_begin();
    return lvn_api_return(before, lvn_settings_set(s, key, value, LVN_SOURCE_PROGRAM));
}

int lvn_settings_recipe(struct lvn_settings *s, const char *path)
{
    locale_t before = lvn_api_begin();
    return lvn_api_return(before, lvn_settings_load(s, path));
}

int lvn_settings_variables(struct lvn_settings *s)
{
    locale_t before = lvn_api_begin();
    return lvn_api_return(before, lvn_settings_environment(s));
}

int lvn_settings_check(struct lvn_settings *s)
{
    struct lvn_identity identity;
    locale_t before = lvn_api_begin();
    enum lvn_status status = lvn_identity_find(&identity);
    if (status == LVN_OK) {
        s->ranks = identity.size;
        status = lvn_settings_finish(s, LVN_USES_ALL);
    }
    return lvn_api_return(before, status);
}

int64_t lvn_settings_count(void)
{
    return lvn_option_count();
}

int lvn_settings_describe(int64_t i, struct lvn_setting *out)
{
    static const char *const types[] = {
        [LVN_KIND_INT] = "int",   [LVN_KIND_REAL] = "float",    [LVN_KIND_PAIR] = "pair",
        [LVN_KIND_BOOL] = "bool", [LVN_KIND_CHOICE] = "choice", [LVN_KIND_WORD] = "choice",
        [LVN_KIND_TEXT] = "str",  [LVN_KIND_PATH] = "path",     [LVN_KIND_LIST] = "list",
        [LVN_KIND_TIME] = "time", [LVN_KIND_AMOUNT] = "amount", [LVN_KIND_TEXTS] = "list",
        [LVN_KIND_MAPS] = "maps",
    };
    static _Thread_local char help[LVN_HELP_TEXT];
    LVN_CHECK(i >= 0 && i < lvn_option_count(), ARG, "there is no setting number %lld: there are %d, counted from 0",
              (long long)i, lvn_option_count());
    const struct lvn_option *o = lvn_option_at((int)i);
    *out = (struct lvn_setting){.key = o->key,
                                .type = types[o->kind],
                                .default_value = o->default_text,
                                .help = lvn_option_help(o, help),
                                .choices = o->choices,
                                .min = o->min,
                                .max = o->max,
                                .fixed = o->fixed};
    return LVN_OK;
}

/* The option of a key; NULL, with a sentence, if there is none. */
static const struct lvn_option *find(const char *key)
{
    const struct lvn_option *o = lvn_option_find(key);
    const char *near = o ? NULL : lvn_option_nearest(key);
    if (!o)
        (void)lvn_fail(LVN_ARG, "there is no setting '%s'%s%s%s", key, near ? "; did you mean '" : "", near ? near : "",
                       near ? "'?" : "");
    return o;
}

const char *lvn_settings_get(const struct lvn_settings *s, const char *key)
{
    static _Thread_local char text[LVN_VALUE_TEXT];
    locale_t before = lvn_api_begin();
    const struct lvn_option *o = find(key);
    const char *value = o ? lvn_settings_value(s, o->id, text) : NULL;
    lvn_api_return(before, LVN_OK);
    return value;
}

const char *lvn_settings_source(const struct lvn_settings *s, const char *key)
{
    static _Thread_local char text[LVN_VALUE_TEXT];
    const struct lvn_option *o = find(key);
    return o ? lvn_settings_origin(s, o->id, text) : NULL;
}

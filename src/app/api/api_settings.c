/* api_settings.c - settings by key, for programs: the functions of include/levin.h, which call settings/settings.h. */

#include "api/api.h"

struct levin_settings *levin_settings_new(void)
{
    locale_t before = lvn_api_begin();
    struct levin_settings *s = lvn_calloc(1, sizeof *s);
    if (s && lvn_settings_init(s) != LVN_OK) {
        free(s);
        s = NULL;
    }
    lvn_api_return(before, LVN_OK);
    return s;
}

void levin_settings_free(struct levin_settings *s)
{
    if (s) lvn_settings_release(s);
    free(s);
}

int levin_settings_put(struct levin_settings *s, const char *key, const char *value)
{
    LVN_CHECK(key && value, ARG, "%s is NULL: give a text", key ? key : "the key");
    locale_t before = lvn_api_begin();
    return lvn_api_return(before, lvn_settings_set(s, key, value, LVN_SOURCE_PROGRAM));
}

int levin_settings_recipe(struct levin_settings *s, const char *path)
{
    LVN_CHECK(path, ARG, "the path of the recipe is NULL: give one");
    locale_t before = lvn_api_begin();
    return lvn_api_return(before, lvn_settings_load(s, path));
}

int levin_settings_variables(struct levin_settings *s)
{
    locale_t before = lvn_api_begin();
    return lvn_api_return(before, lvn_settings_environment(s));
}

int levin_settings_check(struct levin_settings *s)
{
    struct lvn_identity identity;
    locale_t before = lvn_api_begin();
    enum lvn_status status = lvn_identity_find(&identity);
    if (status == LVN_OK) {
        s->values.ranks = identity.size;
        status = lvn_settings_finish(s, LVN_USES_ALL);
    }
    return lvn_api_return(before, status);
}

int64_t levin_settings_count(void)
{
    return lvn_option_count();
}

int levin_settings_describe(int64_t i, struct levin_setting *out)
{
    static const char *const types[] = {
        [LVN_KIND_INT] = "int",   [LVN_KIND_REAL] = "float",    [LVN_KIND_PAIR] = "pair",
        [LVN_KIND_BOOL] = "bool", [LVN_KIND_CHOICE] = "choice", [LVN_KIND_WORD] = "choice",
        [LVN_KIND_TEXT] = "str",  [LVN_KIND_PATH] = "path",     [LVN_KIND_LIST] = "list",
        [LVN_KIND_TIME] = "time", [LVN_KIND_AMOUNT] = "amount", [LVN_KIND_TEXTS] = "list",
        [LVN_KIND_MAPS] = "maps",
    };
    static _Thread_local char help[LVN_HELP_TEXT];
    LVN_CHECK(i >= 0 && i < lvn_option_count(), ARG, "setting %lld does not exist: indices are 0 to %d", (long long)i,
              lvn_option_count() - 1);
    const struct lvn_option *o = lvn_option_at((int)i);
    const struct levin_setting filled = {.key = o->key,
                                         .type = types[o->kind],
                                         .default_value = o->default_text,
                                         .help = lvn_option_help(o, help),
                                         .choices = o->choices,
                                         .min = o->min,
                                         .max = o->max,
                                         .fixed = o->fixed};
    return LVN_API_WRITE(out, &filled, fixed, levin_setting);
}

/* Find the option of a key. NULL, with an error message, if the key does not exist. */
static const struct lvn_option *find(const char *key)
{
    const struct lvn_option *o = lvn_option_find(key ? key : "");
    const char *near = o || !key ? NULL : lvn_option_nearest(key);
    if (!o)
        (void)lvn_fail(LVN_ARG, "there is no setting '%s'%s%s%s", key ? key : "NULL", near ? "; did you mean '" : "",
                       near ? near : "", near ? "'?" : "");
    return o;
}

const char *levin_settings_get(const struct levin_settings *s, const char *key)
{
    static _Thread_local char text[LVN_VALUE_TEXT];
    locale_t before = lvn_api_begin();
    const struct lvn_option *o = find(key);
    const char *value = o ? lvn_settings_value(s, o->id, text) : NULL;
    lvn_api_return(before, LVN_OK);
    return value;
}

const char *levin_settings_source(const struct levin_settings *s, const char *key)
{
    static _Thread_local char text[LVN_VALUE_TEXT];
    const struct lvn_option *o = find(key);
    return o ? lvn_settings_origin(s, o->id, text) : NULL;
}

/* chart_recipe.c - from the settings of a recipe to the values of the chart. Called by launch_kubernetes.c. */
#include <string.h>

#include "base/files.h"
#include "cli/launch/chart.h"
#include "settings/device_list.h"

/* A value of the option as a recipe in YAML has it. Numbers and lists keep their kinds; amounts are texts, since 1.0
 * and 1 differ. */
static enum lvn_status value_of(struct lvn_arena *a, const struct lvn_settings *s, const struct lvn_option *o,
                                struct lvn_variant **out)
{
    LVN_LOCAL_TEXT(yaml);
    const struct lvn_yaml *top;
    char text[LVN_VALUE_TEXT];
    const char *value = lvn_settings_value(s, o->id, text);
    lvn_text_add(&yaml, "v: ");
    if (o->kind == LVN_KIND_AMOUNT || o->kind == LVN_KIND_TIME || o->choices)
        lvn_variant_quote(&yaml, value);
    else
        lvn_option_yaml(&yaml, o, value);
    LVN_TRY(lvn_text_status(&yaml));
    LVN_TRY(lvn_yaml_parse(a, o->key, yaml.p, yaml.n, &top));
    const struct lvn_yaml *node = top->child;
    if (o->kind == LVN_KIND_TEXT || o->kind == LVN_KIND_PATH) {
        *out = lvn_variant_text(a, node->text);
        return *out ? LVN_OK : LVN_MEMORY;
    }
    LVN_TRY(lvn_variant_from_yaml(a, node, NULL, out));
    (*out)->key = NULL;
    return LVN_OK;
}

enum lvn_status lvn_chart_check_secret(const struct lvn_settings *s, const struct lvn_option *o)
{
    LVN_CHECK(!s->origin[o->id].redacted, ARG,
              "%s holds a password or a signature, and everybody who may read the job's ConfigMap could see it: give "
              "the address without it, and the credential by a Secret",
              o->key);
    return LVN_OK;
}

/* Files of a recipe have to be where pods are. */
static enum lvn_status check_option(const struct lvn_settings *s, const struct lvn_option *o)
{
    static const enum lvn_option_id files[] = {LVN_OPT_model_init, LVN_OPT_lora_init, LVN_OPT_lora_base,
                                               LVN_OPT_data_tokenizer};
    char text[LVN_VALUE_TEXT];
    LVN_TRY(lvn_chart_check_secret(s, o));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *value = lvn_settings_value(s, o->id, text);
        LVN_CHECK(o->id != files[i] || !lvn_path_exists(value), ARG,
                  "%s: '%s' is on this machine, and pods do not have it: copy it into a store (levin cp) and give its "
                  "address",
                  o->key, value);
    }
    return LVN_OK;
}

/* Numbers of the recipe and of the command line that mean the same. */
static enum lvn_status agree(const char *key, long recipe, const char *flag, long *number)
{
    LVN_CHECK(!*number || *number == recipe, ARG, "%s is %ld in the recipe, and %s says %ld: leave one of the two out",
              key, recipe, flag, *number);
    *number = recipe;
    return LVN_OK;
}

enum lvn_status lvn_chart_add_recipe(struct lvn_arena *a, struct lvn_variant *values, const struct lvn_settings *s,
                                     long *nodes, long *ranks)
{
    struct lvn_variant *recipe = lvn_variant_new(a, LVN_VARIANT_MAP), *value = lvn_variant_text(a, s->name), *copy;
    if (!recipe || !value) return LVN_MEMORY;
    LVN_TRY(lvn_variant_merge(a, lvn_variant_get(values, "recipe"), recipe, &copy));
    LVN_TRY(lvn_variant_set(a, copy, "name", value));
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        const char *dot = strchr(o->key, '.');
        if (!lvn_settings_given(s, o->id)) continue;
        LVN_TRY(check_option(s, o));
        if (o->id == LVN_OPT_trainer_num_nodes) {
            if (s->trainer.num_nodes) LVN_TRY(agree(o->key, (long)s->trainer.num_nodes, "--nodes", nodes));
        } else if (o->id == LVN_OPT_trainer_devices) {
            const long devices = (long)lvn_devices_count(s);
            if (devices) LVN_TRY(agree(o->key, devices, "--nproc-per-node", ranks));
        } else {
            LVN_TRY(value_of(a, s, o, &value));
            LVN_TRY(dot ? lvn_chart_set(a, copy, o->part, dot + 1, value) : lvn_variant_set(a, copy, o->key, value));
        }
    }
    return lvn_variant_set(a, values, "recipe", copy);
}

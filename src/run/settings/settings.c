/* settings.c - see settings.h: setting values from defaults, recipes, environment and command line, and writing them.
 * settings_check.c derives values and refuses contradictions. */
#include "settings/settings.h"

#include "base/files.h"
#include "base/getenv.h"
#include "base/redact.h"
#include "base/text.h"
#include "formats/yaml.h"
#include "options/option_maps.h"
#include "settings/synonyms.h"

extern char **environ;

static void *field_of(const struct levin_settings *s, const struct lvn_option *o)
{
    return (char *)(uintptr_t)&s->values + o->offset;
}

/* Is the value a text, "" if it is not given? */
static bool is_text(const struct lvn_option *o)
{
    return o->kind == LVN_KIND_TEXT || o->kind == LVN_KIND_PATH || o->kind == LVN_KIND_LIST || o->kind == LVN_KIND_MAPS;
}

enum lvn_status lvn_settings_default(struct levin_settings *s, enum lvn_option_id id)
{
    const struct lvn_option *o = lvn_option_by_id(id);
    s->origin[id] = (struct lvn_origin){.source = LVN_SOURCE_DEFAULT};
    if (!*o->default_text && !is_text(o)) return LVN_OK; /* zero until it is derived */
    return lvn_option_parse(o, o->default_text, field_of(s, o), &s->arena);
}

enum lvn_status lvn_settings_init(struct levin_settings *s)
{
    memset(s, 0, sizeof *s);
    lvn_arena_init(&s->arena);
    for (int i = 0; i < lvn_option_count(); i++) LVN_TRY(lvn_settings_default(s, lvn_option_at(i)->id));
    return LVN_OK;
}

void lvn_settings_release(struct levin_settings *s)
{
    lvn_arena_release(&s->arena);
    memset(s, 0, sizeof *s);
}

const char *lvn_settings_variable(const char *key, char text[LVN_VALUE_TEXT])
{
    snprintf(text, LVN_VALUE_TEXT, "LEVIN_%s", key);
    for (char *p = text; *p; p++) *p = *p == '.' ? '_' : (char)toupper((unsigned char)*p);
    return text;
}

/* "recipes/x.yaml:7", "the command line" */
static const char *origin_text(const struct lvn_origin *at, const char *key, char text[LVN_VALUE_TEXT])
{
    switch (at->source) {
    case LVN_SOURCE_DEFAULT:
        return "default";
    case LVN_SOURCE_DERIVED:
    case LVN_SOURCE_SUGGESTED:
        snprintf(text, LVN_VALUE_TEXT, "from %s", at->where ? at->where : "other values");
        return text;
    case LVN_SOURCE_RUN:
    case LVN_SOURCE_RECIPE:
        snprintf(text, LVN_VALUE_TEXT, "%s:%d", at->where ? at->where : "recipe", at->line);
        return text;
    case LVN_SOURCE_ENVIRONMENT:
        return lvn_settings_variable(key, text);
    case LVN_SOURCE_COMMAND:
        if (at->count < 2) return "command line";
        snprintf(text, LVN_VALUE_TEXT, "command line, the last of %d", at->count);
        return text;
    case LVN_SOURCE_PROGRAM:
        break;
    }
    return "program";
}

const char *lvn_settings_origin(const struct levin_settings *s, enum lvn_option_id id, char text[LVN_VALUE_TEXT])
{
    return origin_text(&s->origin[id], lvn_option_by_id(id)->key, text);
}

bool lvn_settings_given(const struct levin_settings *s, enum lvn_option_id id)
{
    return s->origin[id].source > LVN_SOURCE_DERIVED;
}

const char *lvn_settings_value(const struct levin_settings *s, enum lvn_option_id id, char text[LVN_VALUE_TEXT])
{
    if (s->origin[id].redacted) return s->origin[id].redacted;
    return lvn_value_text(&s->values, id, text);
}

bool lvn_settings_differs(const struct levin_settings *s, enum lvn_option_id id)
{
    LVN_LOCAL_ARENA(a);
    union lvn_option_value initial;
    const struct lvn_option *o = lvn_option_by_id(id);
    char text[LVN_VALUE_TEXT], initial_text[LVN_VALUE_TEXT];
    const char *value = lvn_settings_value(s, id, text);
    if (!strcmp(value, o->default_text)) return false;
    /* the table may write a number in another way than lvn_option_text(): 1e-8 */
    if (!*o->default_text || lvn_option_parse(o, o->default_text, &initial, &a) != LVN_OK) return true;
    return strcmp(value, lvn_option_text(o, &initial, initial_text)) != 0;
}

static enum lvn_status unknown_key(const char *key)
{
    const struct lvn_synonym *synonym = lvn_synonym_find(key, NULL, NULL);
    char text[LVN_SYNONYM_TEXT];
    if (lvn_part_help(key)) {
        LVN_FAIL(ARG, "'%s' is a part, not a key: set its keys, as in %s.%s (`levin help %s` lists them)", key, key,
                 synonym ? strchr(synonym->target, '.') + 1 : "NAME", key);
    }
    if (synonym) LVN_FAIL(ARG, "unknown key '%.60s'; %s", key, lvn_synonym_text(synonym, false, text));
    const char *near = lvn_option_nearest(key);
    if (near) LVN_FAIL(ARG, "unknown key '%.60s'; did you mean '%s'?", key, near);
    LVN_FAIL(ARG, "unknown key '%.60s'; `levin help options` lists all keys", key);
}

/* A key that is twice in one file is an error, because both lines are easily overlooked; on the command line the later
 * one wins. */
static enum lvn_status check_twice(const struct lvn_origin *old, const struct lvn_origin *new, const char *key)
{
    const bool is_file = new->source == LVN_SOURCE_RUN || new->source == LVN_SOURCE_RECIPE;
    LVN_CHECK(!is_file || old->source != new->source || strcmp(old->where, new->where) != 0, ARG,
              "%s is given twice, at lines %d and %d", key, old->line, new->line);
    return LVN_OK;
}

/* A recipe's data.url and data.sha256 belong to the recipe's data.path only. */
static enum lvn_status drop_download(struct levin_settings *s, enum lvn_source source, const char *path)
{
    static const enum lvn_option_id ids[] = {LVN_OPT_data_url, LVN_OPT_data_sha256};
    for (int i = 0; i < 2; i++) {
        if (s->origin[ids[i]].source >= source || !strcmp(s->values.data.path, path)) continue;
        LVN_TRY(lvn_settings_default(s, ids[i]));
    }
    return LVN_OK;
}

/* Store the value without its secret, for messages and files. */
static enum lvn_status note_secret(struct levin_settings *s, const struct lvn_option *o, struct lvn_origin *at)
{
    if (!is_text(o)) return LVN_OK;
    char *copy = lvn_arena_strdup(&s->arena, *(const char *const *)field_of(s, o));
    if (!copy) return LVN_MEMORY;
    if (lvn_secrets_hide(copy)) at->redacted = copy;
    return LVN_OK;
}

enum lvn_status lvn_settings_check_utf8(const struct levin_settings *s)
{
    char text[LVN_VALUE_TEXT];
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        const bool recorded = is_text(o) && o->id != LVN_OPT_run_dir && lvn_settings_given(s, o->id);
        const char *value = recorded ? *(const char *const *)field_of(s, o) : NULL;
        const int64_t wrong = value ? lvn_utf8_check(value, (int64_t)strlen(value)) : -1;
        LVN_CHECK(wrong < 0, ARG,
                  "byte %lld of %s (%s) is not UTF-8, so the run could not be resumed: its settings.yaml cannot "
                  "record the value%s",
                  (long long)wrong + 1, o->key, lvn_settings_origin(s, o->id, text),
                  o->kind == LVN_KIND_PATH ? "; rename the file or folder" : "");
    }
    return LVN_OK;
}

/* Note a library that is not loaded: only the settings of a run name it. */
static void note_library(struct levin_settings *s)
{
    static const enum lvn_option_id ids[] = {LVN_OPT_trainer_mpi_library, LVN_OPT_trainer_nccl_library};
    s->values.foreign_library = 0;
    for (int i = 1; i >= 0; i--) { /* of both, the first is noted */
        const char *const *value = field_of(s, lvn_option_by_id(ids[i]));
        if (s->origin[ids[i]].source == LVN_SOURCE_RUN && **value) s->values.foreign_library = ids[i];
    }
}

/* A run that an earlier levin wrote may have a shorter time than is permitted now: it is raised to the minimum. */
static enum lvn_status parse_value(struct levin_settings *s, const struct lvn_option *o, const char *value,
                                   enum lvn_source source, void *field)
{
    if (o->kind != LVN_KIND_TIME || source != LVN_SOURCE_RUN) return lvn_option_parse(o, value, field, &s->arena);
    struct lvn_option any = *o;
    any.min = 0;
    LVN_TRY(lvn_option_parse(&any, value, field, &s->arena));
    double *seconds = field;
    if (*seconds < o->min) *seconds = o->min;
    return LVN_OK;
}

static enum lvn_status set_checked(struct levin_settings *s, const char *key, const char *value,
                                   const struct lvn_origin *origin)
{
    const struct lvn_option *o = lvn_option_find(key);
    if (!o) return unknown_key(key);
    struct lvn_origin *at = &s->origin[o->id];
    LVN_TRY(check_twice(at, origin, key));
    bool download = o->id == LVN_OPT_data_url || o->id == LVN_OPT_data_sha256;
    bool others = download && origin->source <= LVN_SOURCE_RECIPE &&
                  s->origin[LVN_OPT_data_path].source > LVN_SOURCE_RECIPE; /* they belong to the recipe's data.path */
    if (at->source > origin->source || others) {                           /* not set, but still checked */
        union lvn_option_value unused;
        return parse_value(s, o, value, origin->source, &unused);
    }
    if (o->id == LVN_OPT_data_path && origin->source > LVN_SOURCE_RECIPE) {
        LVN_TRY(drop_download(s, origin->source, value));
    }
    LVN_TRY(parse_value(s, o, value, origin->source, field_of(s, o)));
    int times = at->source == LVN_SOURCE_COMMAND ? at->count : 0;
    *at = *origin;
    if (at->source == LVN_SOURCE_COMMAND) at->count = times + 1;
    note_library(s);
    return note_secret(s, o, at);
}

enum lvn_status lvn_settings_set_at(struct levin_settings *s, const char *key, const char *value,
                                    struct lvn_origin origin)
{
    enum lvn_status status = set_checked(s, key, value, &origin);
    char text[LVN_VALUE_TEXT];
    if (status == LVN_ARG && origin.source >= LVN_SOURCE_RUN && origin.source <= LVN_SOURCE_ENVIRONMENT) {
        LVN_FAIL(ARG, "%s: %s", origin_text(&origin, key, text), levin_error_text());
    }
    return status;
}

enum lvn_status lvn_settings_set(struct levin_settings *s, const char *key, const char *value, enum lvn_source source)
{
    return lvn_settings_set_at(s, key, value, (struct lvn_origin){.source = source});
}

/* --- recipes --- */

/* The values of a list as "a, b", with quotes if a value has brackets. */
static enum lvn_status list_text(const struct lvn_yaml *list, const char *path, const char *key, struct lvn_text *text)
{
    for (const struct lvn_yaml *y = list->child; y; y = y->next) {
        LVN_CHECK(y->kind == LVN_YAML_SCALAR, ARG, "%s:%d: the list of %s must contain plain values", path, y->line,
                  key);
        const char *quote = strpbrk(y->text, "[](){}") ? "\"" : "";
        lvn_text_printf(text, "%s%s%s%s", text->n ? ", " : "", quote, y->text, quote);
    }
    return lvn_text_status(text);
}

static bool is_null(const struct lvn_yaml *y)
{
    return !y->quoted && (!*y->text || !strcmp(y->text, "~") || !strcmp(y->text, "null"));
}

static enum lvn_status read_list(struct levin_settings *s, const struct lvn_yaml *y, const char *key,
                                 struct lvn_origin origin)
{
    const struct lvn_option *o = lvn_option_find(key);
    LVN_LOCAL_TEXT(text);
    const bool maps = o && o->kind == LVN_KIND_MAPS;
    LVN_CHECK(!o || maps || o->kind == LVN_KIND_PAIR || o->kind == LVN_KIND_LIST, ARG,
              "%s:%d: %s must be one value, got a list", origin.where, y->line, key);
    enum lvn_status status = maps ? lvn_maps_text(o, y, &text) : list_text(y, origin.where, key, &text);
    if (maps && status == LVN_ARG) LVN_FAIL(ARG, "%s:%d: %s", origin.where, y->line, levin_error_text());
    if (status == LVN_OK) status = lvn_settings_set_at(s, key, text.p ? text.p : "", origin);
    return status;
}

static enum lvn_status read_map(struct levin_settings *s, const struct lvn_yaml *map, const char *prefix,
                                const char *path, struct lvn_text *wrong);

static enum lvn_status read_one(struct levin_settings *s, const struct lvn_yaml *y, const char *prefix,
                                const char *path, struct lvn_text *wrong)
{
    const char *key = *prefix ? lvn_arena_printf(&s->arena, "%s.%s", prefix, y->key) : y->key;
    if (!key) return LVN_MEMORY;
    const struct lvn_option *o = lvn_option_find(key);
    const bool of_run = !strcmp(lvn_path_name(path), "settings.yaml");
    struct lvn_origin origin = {.source = of_run ? LVN_SOURCE_RUN : LVN_SOURCE_RECIPE, .where = path, .line = y->line};
    if (y->kind == LVN_YAML_MAP) {
        LVN_CHECK(!o, ARG, "%s:%d: %s must be %s, got a map", path, y->line, key,
                  o->kind == LVN_KIND_MAPS ? "a list of maps, as [{...}, {...}]" : "one value");
        LVN_CHECK(!*prefix, ARG, "%s:%d: unknown key '%s'; keys have one part and one name, as optimizer.lr", path,
                  y->line, key);
        return read_map(s, y, key, path, wrong);
    }
    if (y->kind == LVN_YAML_LIST) return read_list(s, y, key, origin);
    if (is_null(y) && (o || lvn_part_help(key))) return LVN_OK; /* "url:" without a value says nothing */
    return lvn_settings_set_at(s, key, y->text, origin);
}

/* Continue after an error, so that all errors are reported together. */
static enum lvn_status read_map(struct levin_settings *s, const struct lvn_yaml *map, const char *prefix,
                                const char *path, struct lvn_text *wrong)
{
    for (const struct lvn_yaml *y = map->child; y; y = y->next)
        LVN_TRY(lvn_collect_error(wrong, read_one(s, y, prefix, path, wrong)));
    return LVN_OK;
}

enum lvn_status lvn_settings_name_by(struct levin_settings *s, const char *path, const char *origin)
{
    if (s->origin[LVN_OPT_name].source > LVN_SOURCE_DERIVED) return LVN_OK;
    char *plain = lvn_path_plain(&s->arena, path);
    if (!plain) return LVN_MEMORY;
    plain[lvn_path_stem(plain)] = '\0';
    const char *name = lvn_path_name(plain);
    int bytes;
    for (char *at; (at = (char *)lvn_control_find(name)); memset(at, '_', (size_t)bytes))
        (void)lvn_utf8_decode(at, (int64_t)strlen(at), &bytes);
    s->values.name = *name == '.' ? "" : name;
    s->origin[LVN_OPT_name] = (struct lvn_origin){.source = LVN_SOURCE_DERIVED, .where = origin};
    return LVN_OK;
}

static enum lvn_status read_tree(struct levin_settings *s, const struct lvn_yaml *top, const char *path)
{
    struct lvn_text wrong = {0};
    enum lvn_status status = read_map(s, top, "", path, &wrong);
    LVN_TRY(lvn_collected_errors(&wrong, status));
    return lvn_settings_name_by(s, path, "the recipe's file name");
}

enum lvn_status lvn_settings_read(struct levin_settings *s, const char *text, size_t length, const char *path)
{
    const struct lvn_yaml *top;
    char *where = lvn_arena_strdup(&s->arena, path);
    if (!where) return LVN_MEMORY;
    LVN_TRY(lvn_yaml_parse(&s->arena, where, text, (int64_t)length, &top));
    return read_tree(s, top, where);
}

enum lvn_status lvn_settings_load(struct levin_settings *s, const char *path)
{
    const struct lvn_yaml *top;
    char *where = lvn_arena_strdup(&s->arena, path);
    if (!where) return LVN_MEMORY;
    LVN_TRY(lvn_yaml_read(&s->arena, where, &top));
    return read_tree(s, top, where);
}

enum lvn_status lvn_settings_environment(struct levin_settings *s)
{
    for (int i = 0; i < lvn_option_count(); i++) {
        char name[LVN_VALUE_TEXT];
        const char *key = lvn_option_at(i)->key, *value = lvn_getenv(lvn_settings_variable(key, name));
        if (value) LVN_TRY(lvn_settings_set(s, key, value, LVN_SOURCE_ENVIRONMENT));
    }
    return LVN_OK;
}

/* --- writing --- */

/* These are not written:
 * - empty defaults;
 * - a batch size that was derived from batch_size_per_device, and micro-batches from accumulate_grad_batches;
 * - the end of a schedule that was derived from max_steps: it moves with max_steps when the run is resumed;
 * - model.depth if it was derived from model.n_layer, because a given depth chooses the optimizer;
 * - limits if none was given: a resumed run derives max_epochs 1 again, unless it is given a limit. */
static bool is_written(const struct levin_settings *s, const struct lvn_option *o)
{
    enum lvn_option_id id = o->id;
    bool by_device = s->values.trainer.batch_size_per_device > 0, derived = s->origin[id].source == LVN_SOURCE_DERIVED;
    bool no_limit = s->origin[LVN_OPT_trainer_max_epochs].source == LVN_SOURCE_DERIVED;
    if (s->origin[id].source == LVN_SOURCE_DEFAULT && !*o->default_text) return false;
    if (id == LVN_OPT_trainer_batch_size) return !derived || !by_device;
    if (id == LVN_OPT_trainer_micro_batch_size && s->values.trainer.accumulate_grad_batches > 1) return !derived;
    if (id == LVN_OPT_schedule_decay_steps || !strcmp(o->key, "model.depth")) return !derived;
    return !no_limit || (id != LVN_OPT_trainer_max_steps && id != LVN_OPT_trainer_max_epochs);
}

char *lvn_settings_yaml(const struct levin_settings *s)
{
    struct lvn_text t = {0};
    const char *part = "";
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        char text[LVN_VALUE_TEXT];
        const char *dot = strchr(o->key, '.');
        if (strcmp(part, o->part)) lvn_text_printf(&t, "%s:\n", o->part);
        part = o->part;
        if (!is_written(s, o)) continue;
        lvn_text_printf(&t, "%s%s: ", *part ? "  " : "", dot ? dot + 1 : o->key);
        lvn_option_yaml(&t, o, lvn_settings_value(s, o->id, text));
        lvn_text_add(&t, "\n");
    }
    if (!lvn_text_string(&t)) lvn_text_release(&t);
    return t.p;
}

enum lvn_status lvn_settings_write(const struct levin_settings *s, const char *path, const char *comment)
{
    LVN_LOCAL_TEXT(t);
    char *yaml = lvn_settings_yaml(s);
    if (!yaml) return LVN_MEMORY;
    lvn_text_add(&t, yaml);
    free(yaml);
    if (comment) lvn_text_printf(&t, "# %s\n", comment);
    const char *text = lvn_text_string(&t);
    return text ? lvn_file_write(path, text, t.n) : LVN_MEMORY;
}

/* --- comparing --- */

enum lvn_status lvn_settings_of_run(struct levin_settings *s, const char *path, int64_t ranks)
{
    enum lvn_status status = lvn_settings_init(s);
    if (status == LVN_OK) status = lvn_settings_load(s, path);
    if (status != LVN_OK) {
        lvn_settings_release(s);
        return status;
    }
    s->values.ranks = ranks;
    if (lvn_settings_finish(s, LVN_USES_ALL) != LVN_OK) lvn_error_clear(); /* another machine allowed these settings */
    return LVN_OK;
}

static void add_differences(const struct levin_settings *then, const struct levin_settings *now, struct lvn_text *out,
                            bool *explicit_only)
{
    for (int i = 0; i < lvn_option_count(); i++) {
        const struct lvn_option *o = lvn_option_at(i);
        enum lvn_option_id id = o->id;
        char was[LVN_VALUE_TEXT], is[LVN_VALUE_TEXT];
        const char *a = lvn_settings_value(then, id, was), *b = lvn_settings_value(now, id, is);
        if (id == LVN_OPT_run_dir || !strcmp(a, b)) continue; /* a folder can have several paths */
        /* These follow from where a run is. */
        const bool is_derived = id == LVN_OPT_data_folder || id == LVN_OPT_name;
        if (is_derived && now->origin[id].source <= LVN_SOURCE_DERIVED) continue;
        lvn_text_printf(out, "%s%s: %s -> %s", out->n ? "; " : "", o->key, *a ? a : "\"\"", *b ? b : "\"\"");
        const bool follows = now->origin[id].source == LVN_SOURCE_DERIVED ||
                             (id == LVN_OPT_schedule_decay_steps && now->origin[id].source < LVN_SOURCE_DERIVED);
        *explicit_only = *explicit_only && (follows || now->origin[id].source >= LVN_SOURCE_COMMAND);
    }
}

enum lvn_status lvn_settings_differences(const char *path, const struct levin_settings *now, struct lvn_text *out,
                                         bool *explicit_only)
{
    struct levin_settings then;
    *explicit_only = true;
    LVN_TRY(lvn_settings_of_run(&then, path, now->values.ranks));
    add_differences(&then, now, out, explicit_only);
    lvn_settings_release(&then);
    return lvn_text_status(out);
}

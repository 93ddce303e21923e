/* settings_model.c - see settings_model.h. */
#include "settings/settings_model.h"

#include "base/text.h"

/* The key of m for an option of families; NULL: m has no such key. */
static const struct lvn_key *key_of(const struct lvn_model *m, const struct lvn_option *o)
{
    return lvn_key_find(m, strchr(o->key, '.') + 1);
}

static double value_of(const struct levin_settings *s, const struct lvn_option *o)
{
    const union lvn_option_value *v = &s->values.family[o->id - LVN_OPT_COUNT];
    return o->kind == LVN_KIND_INT ? (double)v->integer : o->kind == LVN_KIND_BOOL ? v->boolean : v->real[0];
}

static void set_value(struct levin_settings *s, const struct lvn_option *o, double value)
{
    union lvn_option_value *v = &s->values.family[o->id - LVN_OPT_COUNT];
    if (o->kind == LVN_KIND_INT)
        v->integer = (int64_t)value;
    else if (o->kind == LVN_KIND_BOOL)
        v->boolean = value != 0.0;
    else
        v->real[0] = value;
}

static enum lvn_status refuse_key(const struct lvn_model *m, const struct lvn_option *o)
{
    char list[512];
    LVN_FAIL(ARG, "%s: %s has no such key; it has %s", o->key, m->name, lvn_model_keys_text(m, list, sizeof list));
}

/* Refuse a value that belongs to another variant of the family, and name the variants that allow it. */
static enum lvn_status refuse_fixed(const struct lvn_model *m, const struct lvn_key *k, const char *key, double value)
{
    char text[LVN_KEY_TEXT], others[256] = "";
    const char *has = NULL;
    for (const struct lvn_key_word *w = k->words; w && w->description; w++)
        if (w->value == (int64_t)k->default_value) has = w->description;
    for (const struct lvn_model *const *o = lvn_models(); *o; o++) {
        const struct lvn_key *other =
            lvn_model_file_variant(*o) == lvn_model_file_variant(m) ? lvn_key_find(*o, k->recipe) : NULL;
        if (other && !other->fixed) lvn_print_append(others, sizeof others, " or use %s", (*o)->name);
    }
    LVN_FAIL(ARG, "%s: %s contradicts model.kind: %s, which has %s; leave it out%s", key, lvn_key_text(k, value, text),
             m->name, has ? has : "another value", others);
}

static enum lvn_status check_given(const struct lvn_model *m, const struct lvn_option *o, double value)
{
    const struct lvn_key *k = key_of(m, o);
    if (!k) return refuse_key(m, o);
    LVN_TRY(lvn_key_check(k, value, true));
    return k->fixed && value != k->default_value ? refuse_fixed(m, k, o->key, value) : LVN_OK;
}

/* --- sizes by name --- */

/* The family that has this size; NULL: none. */
static const struct lvn_model *other_family(const char *size)
{
    for (const struct lvn_model *const *m = lvn_models(); *m; m++)
        if (lvn_size_find(*m, size)) return *m;
    return NULL;
}

static enum lvn_status find_size(struct levin_settings *s, const struct lvn_model *m, const struct lvn_size **out)
{
    const char *names[64], *near;
    int n = 0;
    if (!strcasecmp(s->values.model.size, "none")) s->values.model.size = "";
    *out = *s->values.model.size ? lvn_size_find(m, s->values.model.size) : NULL;
    if (*out || !*s->values.model.size) return LVN_OK;
    const struct lvn_model *other = other_family(s->values.model.size);
    LVN_CHECK(!other, ARG, "model.size '%.60s' is one of the family %s, and model.kind is %s; set model.kind: %s",
              s->values.model.size, other->name, m->name, other->name);
    for (const struct lvn_size *z = m->sizes; z && z->name && n < 64; z++) names[n++] = z->name;
    near = lvn_nearest(s->values.model.size, names, n);
    LVN_FAIL(ARG, "model.size '%.60s' is not known; %s%s%s", s->values.model.size,
             near ? "did you mean '" : "`levin help model` lists the sizes", near ? near : "", near ? "'?" : "");
}

/* The value of a key in this size; false: none. */
static bool size_has(const struct lvn_model *m, const struct lvn_size *size, const char *recipe, double *value)
{
    for (int i = 0; size && i < LVN_SIZE_KEYS && m->size_keys[i]; i++) {
        if (strcmp(m->size_keys[i], recipe) != 0) continue;
        *value = (double)size->value[i];
        return true;
    }
    return false;
}

/* --- all keys --- */

static void derive(struct levin_settings *s, const struct lvn_option *o, double value, const char *source)
{
    set_value(s, o, value);
    s->origin[o->id] = (struct lvn_origin){.source = LVN_SOURCE_DERIVED, .where = source};
}

/* A given option whose key has the same field under another name; NULL: none. */
static const struct lvn_option *other_name(const struct levin_settings *s, const struct lvn_model *m,
                                           const struct lvn_key *k)
{
    const struct lvn_option *o;
    for (int i = 0; (o = lvn_option_family_key(i)); i++) {
        const struct lvn_key *other = key_of(m, o);
        if (other && other->offset == k->offset && strcmp(other->recipe, k->recipe) != 0 &&
            lvn_settings_given(s, o->id))
            return o;
    }
    return NULL;
}

static enum lvn_status check_names(const struct levin_settings *s, const struct lvn_model *m,
                                   const struct lvn_option *o)
{
    const struct lvn_key *k = key_of(m, o);
    const struct lvn_option *other = k ? other_name(s, m, k) : NULL;
    LVN_CHECK(!other || value_of(s, other) == value_of(s, o), ARG,
              "%s is %.15g and %s is %.15g, which are two names of one setting: give one of them", o->key,
              value_of(s, o), other->key, value_of(s, other));
    return LVN_OK;
}

/* The number of layers, as given or by default. */
static double layers_of(const struct levin_settings *s, const struct lvn_model *m)
{
    const struct lvn_key *k = lvn_key_by_role(m, LVN_ROLE_LAYERS);
    const struct lvn_option *o, *other = other_name(s, m, k);
    for (int i = 0; (o = lvn_option_family_key(i)); i++)
        if (key_of(m, o) == k && lvn_settings_given(s, o->id)) return value_of(s, o);
    return other ? value_of(s, other) : k->default_value;
}

static void fill(struct levin_settings *s, const struct lvn_model *m, const struct lvn_option *o,
                 const struct lvn_size *size)
{
    const struct lvn_key *k = key_of(m, o);
    const struct lvn_option *other = k ? other_name(s, m, k) : NULL;
    double value = k ? k->default_value : 0.0;
    if (other) {
        derive(s, o, value_of(s, other), other->key);
    } else if (k && k->of_layers) {
        derive(s, o, (double)k->of_layers((int64_t)layers_of(s, m)), "model.n_layer");
    } else if (!k) {
        set_value(s, o, 0.0);
        s->origin[o->id] = (struct lvn_origin){.source = LVN_SOURCE_DEFAULT};
    } else if (size_has(m, size, k->recipe, &value)) {
        derive(s, o, value, "model.size");
    } else {
        derive(s, o, value, "model.kind");
    }
}

/* ARG: a window of a new model that exceeds its positions. */
static enum lvn_status check_in_positions(const struct lvn_model_config *c)
{
    const int64_t positions = lvn_model_value(c, LVN_ROLE_POSITIONS);
    for (const struct lvn_key *k = c->model->keys; k->kind; k++)
        LVN_CHECK(!k->in_positions || lvn_key_get(k, c) <= (double)positions, ARG,
                  "model.%s (%.0f) exceeds the %lld positions of the model (model.%s): set at most that many",
                  k->recipe, lvn_key_get(k, c), (long long)positions,
                  lvn_key_by_role(c->model, LVN_ROLE_POSITIONS)->recipe);
    return LVN_OK;
}

enum lvn_status lvn_settings_finish_family(struct levin_settings *s)
{
    const struct lvn_model *m = lvn_model_find(s->values.model.kind);
    const struct lvn_size *size;
    const struct lvn_option *o;
    struct lvn_model_config c;
    LVN_CHECK(m, ARG, "model.kind '%.60s' is not known", s->values.model.kind);
    LVN_TRY(find_size(s, m, &size));
    for (int i = 0; (o = lvn_option_family_key(i)); i++) {
        if (!lvn_settings_given(s, o->id)) {
            fill(s, m, o, size);
            continue;
        }
        LVN_TRY(check_given(m, o, value_of(s, o)));
        LVN_TRY(check_names(s, m, o));
    }
    LVN_TRY(lvn_settings_config(s, m, &c));
    LVN_TRY(lvn_model_check(&c, true));
    return check_in_positions(&c);
}

enum lvn_status lvn_settings_config(const struct levin_settings *s, const struct lvn_model *m,
                                    struct lvn_model_config *c)
{
    const struct lvn_option *o;
    lvn_model_config_init(c, m);
    for (int i = 0; (o = lvn_option_family_key(i)); i++) {
        const struct lvn_key *k = key_of(m, o);
        if (k && s->origin[o->id].source != LVN_SOURCE_DEFAULT) LVN_TRY(lvn_model_put(c, k->recipe, value_of(s, o)));
    }
    return LVN_OK;
}

/* Does the recipe give this key for a model that model.init of a later source (the command line) replaces? */
static bool is_replaced(const struct levin_settings *s, enum lvn_option_id id)
{
    return s->origin[id].source == LVN_SOURCE_RECIPE && s->origin[LVN_OPT_model_init].source > LVN_SOURCE_RECIPE;
}

/* Was this key given for the model that is loaded? Not by the settings of a run, which name the kind of its model. */
static bool given_for_loaded(const struct levin_settings *s, enum lvn_option_id id)
{
    return s->origin[id].source >= LVN_SOURCE_RECIPE && !is_replaced(s, id);
}

/* Does a loaded model determine this key? Not block_size, because windows may be shorter than its context length, and
 * not vocab_size, because its vocabulary may be padded. */
static bool is_fixed_by_model(const struct lvn_key *k)
{
    return k && !k->any_time && k->role != LVN_ROLE_POSITIONS && k->role != LVN_ROLE_VOCABULARY;
}

/* ARG: the loaded model determines the key, and has another value. */
static enum lvn_status check_same(const struct levin_settings *s, const struct lvn_model_config *c,
                                  const struct lvn_option *o, const struct lvn_key *k)
{
    const struct lvn_model_config resolved = lvn_model_resolved(c);
    const double value = value_of(s, o), has = lvn_key_get(k, &resolved);
    char one[LVN_KEY_TEXT], two[LVN_KEY_TEXT];
    if (!is_fixed_by_model(k) || !given_for_loaded(s, o->id) || value == has || value == lvn_key_get(k, c))
        return LVN_OK;
    struct lvn_model_config asked = *c;
    lvn_key_set(k, &asked, value);
    asked = lvn_model_resolved(&asked);
    if (lvn_key_get(k, &asked) == has) return LVN_OK; /* 0: the derived default, which the model has */
    LVN_FAIL(ARG, "%s is %s, but the loaded model has %s, and only a new one can have another value: leave it out",
             o->key, lvn_key_text(k, value, one), lvn_key_text(k, has, two));
}

static enum lvn_status check_kind(const struct levin_settings *s, const struct lvn_model_config *c)
{
    LVN_CHECK(!given_for_loaded(s, LVN_OPT_model_kind) || !strcmp(s->values.model.kind, c->model->name), ARG,
              "model.kind is %s, but the loaded model is of the kind %s: leave it out", s->values.model.kind,
              c->model->name);
    LVN_CHECK(!given_for_loaded(s, LVN_OPT_model_size) || !*s->values.model.size, ARG,
              "model.size (%.60s) is for a new model, and one is loaded: leave it out", s->values.model.size);
    return LVN_OK;
}

enum lvn_status lvn_settings_adjust(const struct levin_settings *s, struct lvn_model_config *c)
{
    const struct lvn_option *o;
    LVN_TRY(check_kind(s, c));
    for (int i = 0; (o = lvn_option_family_key(i)); i++) {
        const struct lvn_key *k = key_of(c->model, o);
        if (!lvn_settings_given(s, o->id)) continue;
        if (!k) return refuse_key(c->model, o);
        if (k->any_time)
            LVN_TRY(lvn_model_put(c, k->recipe, value_of(s, o)));
        else
            LVN_TRY(check_same(s, c, o, k));
    }
    return LVN_OK;
}

enum lvn_status lvn_settings_loaded(struct levin_settings *s, const struct lvn_model *m)
{
    const struct lvn_option *o;
    if (strcmp(s->values.model.kind, m->name) != 0) {
        s->values.model.kind = m->name;
        s->origin[LVN_OPT_model_kind] = (struct lvn_origin){.source = LVN_SOURCE_DERIVED, .where = "model.init"};
    }
    if (is_replaced(s, LVN_OPT_model_size)) LVN_TRY(lvn_settings_default(s, LVN_OPT_model_size));
    for (int i = 0; (o = lvn_option_family_key(i)); i++)
        if (is_replaced(s, o->id) && is_fixed_by_model(key_of(m, o))) LVN_TRY(lvn_settings_default(s, o->id));
    return LVN_OK;
}

int64_t lvn_settings_role(const struct levin_settings *s, const struct lvn_model *m, enum lvn_role role)
{
    const struct lvn_key *k = lvn_key_by_role(m, role);
    const struct lvn_option *o;
    for (int i = 0; k && k->recipe && (o = lvn_option_family_key(i)); i++)
        if (key_of(m, o) == k) return lvn_settings_given(s, o->id) ? (int64_t)value_of(s, o) : 0;
    return 0;
}

void lvn_settings_resolve(struct levin_settings *s, const struct lvn_model *m, enum lvn_role role, int64_t value)
{
    const struct lvn_key *k = lvn_key_by_role(m, role);
    const struct lvn_option *o;
    for (int i = 0; k && k->recipe && (o = lvn_option_family_key(i)); i++) {
        if (key_of(m, o) != k || lvn_settings_given(s, o->id)) continue;
        s->values.family[o->id - LVN_OPT_COUNT].integer = value;
        s->origin[o->id] = (struct lvn_origin){.source = LVN_SOURCE_DERIVED, .where = "the data"};
        return;
    }
}

/* keys.c - see keys.h: values of keys, configurations, checks. */
#include "models/keys.h"

#include "base/text.h"
#include "models/rope.h"

static bool has_field(const struct lvn_key *k)
{
    return k->kind >= LVN_KEY_INT && k->kind <= LVN_KEY_WORD;
}

double lvn_key_get(const struct lvn_key *k, const struct lvn_model_config *c)
{
    const void *field = (const char *)c->fields + k->offset;
    switch (k->kind) {
    case LVN_KEY_INT:
        if (k->default_multiple && !*(const int64_t *)field)
            return (double)(k->default_multiple *
                            *(const int64_t *)(const void *)((const char *)c->fields + k->default_multiple_of));
        return (double)*(const int64_t *)field;
    case LVN_KEY_WORD:
        return (double)*(const int64_t *)field;
    case LVN_KEY_REAL:
        return *(const double *)field;
    case LVN_KEY_BOOL:
        return *(const bool *)field;
    default:
        return k->default_value;
    }
}

void lvn_key_set(const struct lvn_key *k, struct lvn_model_config *c, double value)
{
    void *field = (char *)c->fields + k->offset;
    if (k->kind == LVN_KEY_INT || k->kind == LVN_KEY_WORD) *(int64_t *)field = (int64_t)value;
    if (k->kind == LVN_KEY_REAL) *(double *)field = value;
    if (k->kind == LVN_KEY_BOOL) *(bool *)field = value != 0.0;
}

static const struct lvn_key_word *word_of(const struct lvn_key *k, double value)
{
    for (const struct lvn_key_word *w = k->words; w && w->description; w++)
        if (w->value == (int64_t)value) return w;
    return NULL;
}

/* A key's name for messages: "model.n_layer", or, if recipes lack it, "layer_norm_epsilon". */
static const char *name_of(const struct lvn_key *k, char text[LVN_KEY_TEXT])
{
    snprintf(text, LVN_KEY_TEXT, "%s%s", k->recipe ? "model." : "", k->recipe ? k->recipe : k->json ? k->json : "");
    return text;
}

const char *lvn_key_text(const struct lvn_key *k, double value, char text[LVN_KEY_TEXT])
{
    const struct lvn_key_word *w = word_of(k, value);
    if (k->kind == LVN_KEY_BOOL || k->kind == LVN_KEY_MUST) return value != 0.0 ? "true" : "false";
    if (k->kind == LVN_KEY_WORD) return w ? w->name : "?";
    if (k->kind == LVN_KEY_REAL)
        snprintf(text, LVN_KEY_TEXT, "%.15g", value);
    else
        snprintf(text, LVN_KEY_TEXT, "%" PRId64, (int64_t)value);
    return text;
}

enum lvn_status lvn_key_check(const struct lvn_key *k, double value, bool open)
{
    char name[LVN_KEY_TEXT], text[LVN_KEY_TEXT];
    bool number = k->kind == LVN_KEY_INT || k->kind == LVN_KEY_REAL;
    if (!number || (open && k->by_data && value == 0.0)) return LVN_OK;
    LVN_CHECK(value >= k->min && value <= k->max, ARG, "%s must be between %.15g and %.15g, got %s", name_of(k, name),
              k->min, k->max, lvn_key_text(k, value, text));
    return LVN_OK;
}

const struct lvn_key *lvn_key_find(const struct lvn_model *m, const char *recipe)
{
    for (const struct lvn_key *k = m->keys; k->kind; k++)
        if (k->recipe && strcmp(k->recipe, recipe) == 0) return k;
    return NULL;
}

const struct lvn_key *lvn_key_by_role(const struct lvn_model *m, enum lvn_role role)
{
    for (const struct lvn_key *k = m->keys; k->kind; k++)
        if (k->role == role) return k;
    return NULL;
}

void lvn_model_config_init(struct lvn_model_config *c, const struct lvn_model *m)
{
    *c = (struct lvn_model_config){.model = m, .head = m->heads, .classes = 2, .end_id = -1, .pad_id = LVN_PAD_END};
    for (const struct lvn_key *k = m->keys; k->kind; k++) {
        lvn_key_set(k, c, k->default_value);
        if (k->kind == LVN_KEY_TOKEN) c->end_id = (int64_t)k->default_value;
    }
}

/* Is it the first key of its name in a recipe? */
static bool is_first(const struct lvn_model *m, const struct lvn_key *k)
{
    return k->recipe && lvn_key_find(m, k->recipe) == k;
}

const char *lvn_model_keys_text(const struct lvn_model *m, char *text, size_t capacity)
{
    int left = 0;
    for (const struct lvn_key *k = m->keys; k->kind; k++) left += is_first(m, k);
    snprintf(text, capacity, "%s", left ? "" : "none");
    for (const struct lvn_key *k = m->keys; k->kind; k++) {
        if (!is_first(m, k)) continue;
        left--;
        lvn_print_append(text, capacity, "%s%s", k->recipe, left > 1 ? ", " : left ? " and " : "");
    }
    return text;
}

enum lvn_status lvn_model_put(struct lvn_model_config *c, const char *recipe, double value)
{
    char list[512];
    int n = 0;
    for (const struct lvn_key *k = c->model->keys; k->kind; k++) {
        if (!k->recipe || strcmp(k->recipe, recipe) != 0) continue;
        LVN_TRY(lvn_key_check(k, value, true));
        lvn_key_set(k, c, value);
        n++;
    }
    LVN_CHECK(n, ARG, "model.%s: %s has no such key; it has %s", recipe, c->model->name,
              lvn_model_keys_text(c->model, list, sizeof list));
    return LVN_OK;
}

enum lvn_status lvn_model_put_all(struct lvn_model_config *c, const struct lvn_key_value *values)
{
    for (const struct lvn_key_value *v = values; v && v->key; v++) LVN_TRY(lvn_model_put(c, v->key, v->value));
    return LVN_OK;
}

enum lvn_status lvn_model_put_size(struct lvn_model_config *c, const struct lvn_size *size)
{
    for (int i = 0; i < LVN_SIZE_KEYS && c->model->size_keys[i]; i++)
        LVN_TRY(lvn_model_put(c, c->model->size_keys[i], (double)size->value[i]));
    return size->repository ? lvn_model_put_all(c, c->model->published) : LVN_OK;
}

int64_t lvn_model_value(const struct lvn_model_config *c, enum lvn_role role)
{
    const struct lvn_key *k = lvn_key_by_role(c->model, role);
    return k ? (int64_t)lvn_key_get(k, c) : 0;
}

void lvn_model_set(struct lvn_model_config *c, enum lvn_role role, int64_t value)
{
    const struct lvn_key *k = lvn_key_by_role(c->model, role);
    if (k) lvn_key_set(k, c, (double)value);
}

enum lvn_status lvn_model_shorten(struct lvn_model_config *c, int64_t positions)
{
    if (c->model->shorten) LVN_TRY(c->model->shorten(c->fields, positions));
    if (c->model->rope)
        lvn_rope_keep_original((struct lvn_rope *)((char *)c->fields + c->model->rope),
                               lvn_model_value(c, LVN_ROLE_POSITIONS));
    lvn_model_set(c, LVN_ROLE_POSITIONS, positions);
    return LVN_OK;
}

struct lvn_model_config lvn_model_resolved(const struct lvn_model_config *c)
{
    struct lvn_model_config resolved = *c;
    if (c->model->resolve_defaults) c->model->resolve_defaults(resolved.fields);
    return resolved;
}

/* --- checks --- */

/* A key's value for messages: "the tanh GELU", "bias false". */
static const char *describe(const struct lvn_key *k, double value, char text[2 * LVN_KEY_TEXT])
{
    const struct lvn_key_word *w = word_of(k, value);
    char name[LVN_KEY_TEXT], number[LVN_KEY_TEXT];
    if (w) return w->description;
    snprintf(text, (size_t)2 * LVN_KEY_TEXT, "%s %s", name_of(k, name), lvn_key_text(k, value, number));
    return text;
}

enum lvn_status lvn_model_check(const struct lvn_model_config *c, bool open)
{
    char is[2 * LVN_KEY_TEXT], must[2 * LVN_KEY_TEXT];
    for (const struct lvn_key *k = c->model->keys; k->kind; k++) {
        double value = lvn_key_get(k, c);
        LVN_TRY(lvn_key_check(k, value, open));
        LVN_CHECK(!k->fixed || value == k->default_value, ARG, "models of the kind %s have %s, and this one has %s",
                  c->model->name, describe(k, k->default_value, must), describe(k, value, is));
    }
    struct lvn_model_config resolved = lvn_model_resolved(c);
    return c->model->check ? c->model->check(resolved.fields) : LVN_OK;
}

/* The first key whose value the variant's files cannot express; NULL: they express all. */
static const struct lvn_key *inexpressible(const struct lvn_model *variant, const struct lvn_model_config *c)
{
    for (const struct lvn_key *k = variant->keys; k->kind; k++) {
        if (has_field(k) && k->fixed && !k->json && lvn_key_get(k, c) != k->default_value) return k;
    }
    return NULL;
}

/* Does the variant's config.json name the head? */
static bool names_head(const struct lvn_model *variant)
{
    for (const struct lvn_key *k = variant->keys; k->kind; k++)
        if (k->kind == LVN_KEY_NAME) return true;
    return false;
}

enum lvn_status lvn_model_check_variant(const struct lvn_model *variant, const struct lvn_model_config *c)
{
    const struct lvn_key *k = inexpressible(variant, c);
    char is[2 * LVN_KEY_TEXT], must[2 * LVN_KEY_TEXT], others[256] = "huggingface";
    LVN_CHECK(names_head(variant) || c->head == c->model->heads, UNSUPPORTED,
              "files of %s cannot record that the model is a %s; write it as huggingface", variant->name,
              c->head->architecture);
    if (!k) return LVN_OK;
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        bool other =
            lvn_model_file_variant(*m) == lvn_model_file_variant(variant) && *m != lvn_model_file_variant(variant);
        if (other && !inexpressible(*m, c)) lvn_print_append(others, sizeof others, " or %s", (*m)->name);
    }
    LVN_FAIL(UNSUPPORTED, "files of %s are of models with %s, and this one has %s; write it as %s", variant->name,
             describe(k, k->default_value, must), describe(k, lvn_key_get(k, c), is), others);
}

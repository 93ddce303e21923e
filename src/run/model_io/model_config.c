/* model_config.c - see model_config.h. */
#include "model_io/model_config.h"

#include "base/log.h"
#include "base/text.h"

static const char own_object[] = "levin";

/* Members of config.json that are never written back, and why. */
static const char *const not_kept[] = {
    own_object,            /* levin writes it itself */
    "auto_map",            /* names Python files, which checkpoints and exports do not have */
    "num_labels",          /* the size of id2label, which is written */
    "quantization_config", /* the weights are written unquantized */
};
/* Those that belong to a classification head, which levin writes itself. */
static const char *const of_classes[] = {"id2label", "label2id", "problem_type"};

/* Split "levin.bias" into its object, "levin", in text, and the key "bias", which is returned; other keys have the
 * object "". Of "a.b.key" the object is "a.b". */
static const char *split(const char *json, char object[LVN_KEY_TEXT])
{
    const char *dot = strrchr(json, '.');
    snprintf(object, LVN_KEY_TEXT, "%.*s", dot ? (int)(dot - json) : 0, json);
    return dot ? dot + 1 : json;
}

/* The object "a.b" of root; "": root itself. NULL: there is none. */
static const json_t *object_at(const json_t *root, const char *path)
{
    char name[LVN_KEY_TEXT];
    while (*path && root) {
        const size_t n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        root = json_object_get(root, name);
        path += path[n] ? n + 1 : n;
    }
    return root;
}

/* --- reading --- */

/* A list of words, as their first letters. */
static enum lvn_status read_list(struct lvn_model_config *c, const char *name, const struct lvn_key *k,
                                 const json_t *json)
{
    LVN_LOCAL_ARENA(a);
    const size_t n = json_array_size(json);
    char *letters = lvn_arena_alloc(&a, n + 1);
    LVN_CHECK(json_is_array(json), FORMAT, "%s: '%s' must be a list", name, k->json);
    if (!letters) return LVN_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(json, i));
        const struct lvn_key_word *w = k->words;
        char list[256] = "";
        LVN_CHECK(text, FORMAT, "%s: '%s' must be a list of strings", name, k->json);
        for (; w->description && strcmp(w->name, text) != 0; w++)
            lvn_print_append(list, sizeof list, "%s%s", *list ? ", " : "", w->name);
        LVN_CHECK(w->description, UNSUPPORTED, "%s: %s has '%.40s'; this version has %s", name, k->json, text, list);
        letters[i] = *text;
    }
    letters[n] = '\0';
    const char *kept = lvn_intern(letters, n + 1);
    memcpy((char *)c->fields + k->offset, &kept, sizeof kept);
    return kept ? LVN_OK : LVN_MEMORY;
}

/* A word, or a list of words: the last one in the order of `words` counts. */
static enum lvn_status read_word(const char *name, const struct lvn_key *k, const json_t *json, double *value)
{
    const size_t n = json_is_array(json) ? json_array_size(json) : 1;
    int64_t last = -1;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(json) ? json_array_get(json, i) : json;
        const char *text = json_string_value(one);
        char list[256] = "";
        const struct lvn_key_word *w = k->words;
        LVN_CHECK(text, FORMAT, "%s: '%s' must be a string", name, k->json);
        for (; w->description && strcmp(w->name, text) != 0; w++)
            lvn_print_append(list, sizeof list, "%s%s", *list ? ", " : "", w->name);
        LVN_CHECK(w->description, UNSUPPORTED, "%s: %s is '%.40s'; this version has %s", name, k->json, text, list);
        if (w->value > last) last = w->value;
    }
    LVN_CHECK(n, FORMAT, "%s: '%s' must be a string, or a list of strings that is not empty", name, k->json);
    *value = (double)last;
    return LVN_OK;
}

/* Of all models that generate text. A family with its own key for the factor reads only that one. */
static const struct lvn_key decoder_keys[] = {
    {LVN_KEY_MUST, .json = "is_causal", .default_value = true},
    {LVN_KEY_MUST, .json = "partial_rotary_factor", .default_value = 1},
    {LVN_KEY_MUST, .json = "rope_scaling.partial_rotary_factor", .default_value = 1},
    {LVN_KEY_MUST, .json = "rope_parameters.partial_rotary_factor", .default_value = 1},
    {LVN_KEY_MUST, .json = "rope_parameters.full_attention.partial_rotary_factor", .default_value = 1},
    {.kind = LVN_KEY_END},
};

static enum lvn_status read_must(const char *name, const struct lvn_key *k, const json_t *json)
{
    const bool number = json_is_number(json);
    const double value = number ? json_number_value(json) : json_is_true(json);
    char is[LVN_KEY_TEXT], must[LVN_KEY_TEXT];
    LVN_CHECK(number || json_is_boolean(json), FORMAT, "%s: '%s' must be true, false or a number", name, k->json);
    snprintf(is, sizeof is, "%g", value);
    snprintf(must, sizeof must, "%g", k->default_value);
    LVN_CHECK(value == k->default_value, UNSUPPORTED, "%s: %s is %s; this version has %s", name, k->json,
              number ? is : lvn_key_text(k, value, is), number ? must : lvn_key_text(k, k->default_value, must));
    return LVN_OK;
}

static enum lvn_status read_number(const char *name, const json_t *object, const struct lvn_key *k, const char *key,
                                   double *value)
{
    if (k->kind == LVN_KEY_INT) {
        const int64_t offset = k->json_offset, min = (int64_t)k->min + offset, max = (int64_t)k->max + offset;
        int64_t whole = (int64_t)*value + offset;
        LVN_TRY(lvn_json_int(name, object, key, k->required, min, max, &whole));
        *value = (double)(whole - offset);
        return LVN_OK;
    }
    LVN_TRY(lvn_json_real(name, object, key, k->required, value));
    LVN_CHECK(*value >= k->min && *value <= k->max, FORMAT, "%s: %s is %g; it must be between %g and %g", name, k->json,
              *value, k->min, k->max);
    return LVN_OK;
}

/* `but`: an object to skip, or NULL. */
static enum lvn_status read_key(struct lvn_model_config *c, const char *name, const json_t *root,
                                const struct lvn_key *k, const char *but)
{
    char part[LVN_KEY_TEXT];
    if (!k->json) return LVN_OK;
    const char *key = split(k->json, part);
    const json_t *object = object_at(root, part);
    if (!object || json_is_null(object) || (but && strcmp(but, part) == 0)) return LVN_OK;
    LVN_CHECK(json_is_object(object), FORMAT, "%s: '%s' must be an object", name, part);
    const json_t *json = json_object_get(object, key);
    const bool none = !json || (json_is_null(json) && (k->role == LVN_ROLE_POSITIONS || k->kind == LVN_KEY_REAL));
    double value = none && k->absent != 0.0 ? k->absent : lvn_key_get(k, c);
    if (json_is_null(json) && k->null_value != 0.0) value = k->null_value;
    bool yes = value != 0.0, there = json && !json_is_null(json);
    switch (k->kind) {
    case LVN_KEY_INT:
    case LVN_KEY_REAL:
        LVN_TRY(read_number(name, object, k, key, &value));
        break;
    case LVN_KEY_BOOL:
        LVN_TRY(lvn_json_bool(name, object, key, k->required, &yes));
        value = yes;
        break;
    case LVN_KEY_MUST:
        return there ? read_must(name, k, json) : LVN_OK;
    case LVN_KEY_WORD:
        if (there) LVN_TRY(read_word(name, k, json, &value));
        break;
    case LVN_KEY_LIST:
        return there ? read_list(c, name, k, json) : LVN_OK;
    default:
        return LVN_OK;
    }
    lvn_key_set(k, c, value);
    return LVN_OK;
}

static enum lvn_status read_keys(struct lvn_model_config *c, const struct lvn_model *variant, const char *name,
                                 const json_t *root, const char *but)
{
    for (const struct lvn_key *k = variant->keys; k->kind; k++) LVN_TRY(read_key(c, name, root, k, but));
    return LVN_OK;
}

/* Does the variant read a key of this name, or one of an object of this name? */
static bool reads(const struct lvn_model *variant, const char *name)
{
    char part[LVN_KEY_TEXT];
    for (const struct lvn_key *k = variant->keys; k->kind; k++)
        if (k->json && (strcmp(split(k->json, part), name) == 0 || strcmp(part, name) == 0)) return true;
    return false;
}

/* Refuse what a decoder of this version does not compute, in members that its family's keys do not name. */
static enum lvn_status check_decoder(struct lvn_model_config *c, const struct lvn_model *variant, const char *name,
                                     const json_t *root)
{
    static const char *const ropes[] = {"rope_scaling", "rope_parameters"};
    char text[LVN_KEY_TEXT];
    const char *member;
    json_t *value;
    for (const struct lvn_key *k = decoder_keys; k->kind; k++)
        if (!reads(variant, split(k->json, text))) LVN_TRY(read_key(c, name, root, k, NULL));
    for (int i = 0; i < 2; i++) json_object_foreach(json_object_get(root, ropes[i]), member, value)
        {
            snprintf(text, sizeof text, "%s.%.40s", ropes[i], member);
            LVN_CHECK(!json_is_object(value) || reads(variant, text), UNSUPPORTED,
                      "%s: %s describes the rotary positions of some layers, which this version does not have in a %s",
                      name, text, lvn_model_type(variant));
        }
    return LVN_OK;
}

/* If both an old and a new object describe the same thing (`k` belongs to the one that is only read), each must be
 * complete and both equal: other programs read only one of them. */
static enum lvn_status agree(const struct lvn_model_config *c, const struct lvn_model *variant, const char *name,
                             const json_t *root, const struct lvn_key *k)
{
    char newer[LVN_KEY_TEXT], older[LVN_KEY_TEXT];
    if (!k->json || !k->read_only || !*split(k->json, newer) || !*newer || !json_object_size(object_at(root, newer)))
        return LVN_OK;
    for (const struct lvn_key *o = variant->keys; o->kind; o++) {
        if (!o->json || o->offset != k->offset || o->kind != k->kind || !*split(o->json, older) || !*older ||
            strcmp(older, newer) == 0 || !json_object_size(object_at(root, older)))
            continue;
        struct lvn_model_config one = *c, two = *c;
        LVN_TRY(read_keys(&one, variant, name, root, newer));
        LVN_TRY(read_keys(&two, variant, name, root, older));
        LVN_CHECK(lvn_key_get(k, &one) == lvn_key_get(k, &two), FORMAT,
                  "%s: %s and %s contradict each other in '%s': leave one of them out", name, older, newer,
                  split(k->json, newer));
    }
    return LVN_OK;
}

/* The variant, if the file's model_type is that of several. */
static enum lvn_status read_kind(struct lvn_model_config *c, const struct lvn_model *variant, const char *name,
                                 const json_t *root)
{
    const json_t *levin = json_object_get(root, own_object);
    const char *kind = NULL;
    if (!levin) return LVN_OK;
    LVN_CHECK(json_is_object(levin), FORMAT, "%s: '%s' must be an object", name, own_object);
    LVN_TRY(lvn_json_string(name, levin, "kind", false, &kind));
    const struct lvn_model *m = kind ? lvn_model_find(kind) : variant;
    LVN_CHECK(m && lvn_model_file_variant(m) == lvn_model_file_variant(variant), FORMAT,
              "%s: %s.kind '%.40s' is not a model of this version that is saved as %s", name, own_object, kind,
              variant->name);
    c->model = m;
    return LVN_OK;
}

static const char *first_architecture(const json_t *root)
{
    return json_string_value(json_array_get(json_object_get(root, "architectures"), 0));
}

/* type NULL: the file has no model_type, as in the first files of BERT, and the model is the one with a head of this
 * architecture. */
static enum lvn_status find_variant(const char *type, const char *architecture, const char *name,
                                    const struct lvn_model **variant)
{
    char list[512] = "";
    *variant = NULL;
    for (const struct lvn_model *const *m = lvn_models(); *m && !type && architecture; m++)
        for (const struct lvn_head *h = (*m)->heads; h && h->architecture; h++)
            if (strcmp(h->architecture, architecture) == 0) type = lvn_model_type(*m);
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        if (type && (strcmp(lvn_model_type(*m), type) == 0 || ((*m)->whole && strcmp((*m)->whole, type) == 0)))
            *variant = *m;
        lvn_print_append(list, sizeof list, "%s%s", !*list ? "" : m[1] ? ", " : " and ", lvn_model_type(*m));
    }
    LVN_CHECK(type, FORMAT, "%s: 'model_type' is missing: add the family of the model, one of %s", name, list);
    LVN_CHECK(*variant, UNSUPPORTED, "%s: model_type is '%.40s'; this version loads %s", name, type, list);
    return LVN_OK;
}

/* The description of the text model in that of a whole one; special tokens are those of the whole. */
static enum lvn_status text_part(const struct lvn_model *variant, const char *name, const json_t *root, json_t **out)
{
    static const char *const shared[] = {"bos_token_id", "eos_token_id", "pad_token_id", "torch_dtype",
                                         "quantization_config"};
    const json_t *text = json_object_get(root, "text_config");
    LVN_CHECK(json_is_object(text), FORMAT,
              "%s: a %s must have an object 'text_config', which describes the text model in it", name, variant->whole);
    *out = json_deep_copy(text);
    if (!*out) return LVN_MEMORY;
    json_object_del(*out, "architectures");
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) {
        json_t *value = json_object_get(root, shared[i]);
        if (value && !json_is_null(value)) json_object_set(*out, shared[i], value);
    }
    return LVN_OK;
}

enum lvn_status lvn_config_read(struct lvn_model_config *c, const struct lvn_model **variant, const char *name,
                                const json_t *root)
{
    const char *type = NULL;
    LVN_TRY(lvn_json_string(name, root, "model_type", false, &type));
    LVN_TRY(find_variant(type, first_architecture(root), name, variant));
    if (!(*variant)->whole || !type || strcmp((*variant)->whole, type) != 0)
        return lvn_config_read_as(c, *variant, name, root);
    json_t *text = NULL;
    LVN_TRY(text_part(*variant, name, root, &text));
    enum lvn_status status = lvn_config_read_as(c, *variant, name, text);
    json_decref(text);
    return status;
}

/* The end token; of a list the first one (all are in c->kept). An empty list, or null: the tokenizer's, or none, as in
 * transformers. */
static enum lvn_status read_end(struct lvn_model_config *c, const char *name, const json_t *root)
{
    int64_t *ids;
    int n;
    LVN_TRY(lvn_json_ints(name, root, "eos_token_id", INT32_MIN, INT32_MAX, &ids, &n));
    c->end_known = n > 0;
    if (json_object_get(root, "eos_token_id")) c->end_id = n > 0 ? ids[0] : -1;
    free(ids);
    return LVN_OK;
}

/* The names of the classes: all of them, or none if they are the default ones. */
static enum lvn_status read_names(struct lvn_model_config *c, const char *name, const json_t *names)
{
    LVN_LOCAL_ARENA(a);
    const char **list = lvn_arena_alloc(&a, sizeof *list * (size_t)c->classes);
    bool named = false;
    if (!list) return LVN_MEMORY;
    for (int64_t i = 0; i < c->classes; i++) {
        char key[24], default_name[LVN_CLASS_NAME];
        snprintf(key, sizeof key, "%lld", (long long)i);
        list[i] = json_string_value(json_object_get(names, key));
        LVN_CHECK(list[i], FORMAT,
                  "%s: id2label has no name for class %s; it must have one for each of the %lld classes, 0 to %lld",
                  name, key, (long long)c->classes, (long long)c->classes - 1);
        named |= strcmp(list[i], lvn_class_name(c, i, default_name)) != 0;
    }
    return named ? lvn_model_name_classes(c, list) : LVN_OK;
}

static const char *const problems[] = {[LVN_SINGLE_LABEL] = "single_label_classification",
                                       [LVN_REGRESSION] = "regression",
                                       [LVN_MULTI_LABEL] = "multi_label_classification"};
enum { N_PROBLEMS = sizeof problems / sizeof problems[0] };

/* A head with one class and no problem_type is a regression, as in transformers. */
static enum lvn_status read_problem(struct lvn_model_config *c, const char *name, const json_t *root)
{
    const char *json = NULL;
    int i = 0;
    LVN_TRY(lvn_json_string(name, root, "problem_type", false, &json));
    while (json && i < N_PROBLEMS && strcmp(json, problems[i]) != 0) i++;
    LVN_CHECK(i < N_PROBLEMS, UNSUPPORTED, "%s: problem_type is '%.40s'; this version knows %s, %s and %s", name, json,
              problems[0], problems[1], problems[2]);
    c->problem = !json && c->classes == 1 ? LVN_REGRESSION : (enum lvn_problem)i;
    const struct lvn_head *numbers = lvn_model_head_of(c->model, LVN_LABEL_NUMBER);
    if (lvn_model_predicts(c, LVN_LABEL_CLASS) && c->problem == LVN_REGRESSION && c->classes == 1 && numbers)
        c->head = numbers;
    return LVN_OK;
}

/* Set the head, and its number of classes. With an unknown architecture it is the head that predicts tokens. If that
 * architecture has a head of another kind (other_head), the model is loaded without it; a decoder's own head may have
 * any name. */
static enum lvn_status read_head(struct lvn_model_config *c, const char *name, const json_t *root)
{
    const json_t *names = json_object_get(root, "id2label");
    const char *first = first_architecture(root);
    const struct lvn_head *h = c->model->heads;
    char known[256] = "";
    if (!h) return LVN_OK;
    for (; first && h->architecture && strcmp(h->architecture, first) != 0; h++)
        if (!strstr(known, h->architecture)) /* heads for classes and for numbers have one name */
            lvn_print_append(known, sizeof known, "%s%s", *known ? ", " : "", h->architecture);
    const struct lvn_head *tokens = lvn_model_head_of(c->model, LVN_LABEL_TOKEN);
    if (!h->architecture && tokens) {
        h = tokens;
        c->other_head = c->model->heads != tokens || strstr(first, "Classification") || strstr(first, "Answering");
    }
    if (c->other_head)
        lvn_log_once(LVN_LOG_INFO, "%s: %.60s has a head that levin does not have: the model is loaded without it",
                     name, first);
    LVN_CHECK(h->architecture, UNSUPPORTED, "%s: architectures is '%.60s'; this version has %s", name, first, known);
    c->head = *h->task ? lvn_model_head(c->model, h->task) : h;
    if (json_is_object(names) && json_object_size(names)) c->classes = (int64_t)json_object_size(names);
    const int64_t named = c->classes;
    LVN_TRY(lvn_json_int(name, root, "num_labels", false, 1, 1 << 20, &c->classes));
    if (json_is_object(names) && named == c->classes) LVN_TRY(read_names(c, name, names));
    return read_problem(c, name, root);
}

static bool is_one_of(const char *word, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(word, list[i]) == 0) return true;
    return false;
}

/* Can the value of a key change after the file was read? */
static bool is_fixed(const struct lvn_key *k)
{
    return k->role == LVN_ROLE_NOTHING && !k->any_time;
}

/* A member is kept if levin does not write it, or if it says more than levin's configuration: several end tokens, an
 * object with further members. Such objects describe rotary embeddings, which settings cannot change. */
static bool is_kept(const struct lvn_model_config *c, const struct lvn_model *variant, const char *member,
                    const json_t *value)
{
    if (is_one_of(member, not_kept, sizeof not_kept / sizeof not_kept[0])) return false;
    if (lvn_model_predicts_samples(c) && is_one_of(member, of_classes, sizeof of_classes / sizeof of_classes[0]))
        return false;
    if (json_is_null(value)) return true;
    for (const struct lvn_key *k = variant->keys; k->kind; k++) {
        if (!k->json || strcmp(k->json, member) != 0 || k->kind == LVN_KEY_TOKEN) continue;
        if (!(k->kind == LVN_KEY_MUST || (k->read_only && is_fixed(k)))) return false;
    }
    return true;
}

static enum lvn_status keep(struct lvn_model_config *c, const struct lvn_model *variant, const json_t *root)
{
    LVN_LOCAL_TEXT(text);
    long begun = lvn_json_begin();
    json_t *kept = json_object();
    const char *member;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)root, member, value)
    {
        if (is_kept(c, variant, member, value)) json_object_set(kept, member, value);
    }
    lvn_json_add(&text, begun, kept, 0);
    json_decref(kept);
    LVN_TRY(lvn_text_status(&text));
    c->kept = lvn_intern(text.p, (size_t)text.n + 1);
    c->kept_variant = variant;
    return c->kept ? LVN_OK : LVN_MEMORY;
}

/* UNSUPPORTED for quantized weights, but those of bitsandbytes: their tensors may have the names and shapes of plain
 * ones, as in fp8 with scales. */
static enum lvn_status check_quantized(const char *name, const json_t *root)
{
    const json_t *packed = json_object_get(root, "quantization_config");
    const char *method = json_string_value(json_object_get(packed, "quant_method"));
    if (method && strcmp(method, "bitsandbytes") == 0) return LVN_OK; /* model_io/bitsandbytes.h checks the tensors */
    LVN_CHECK(
        !packed || json_is_null(packed), UNSUPPORTED,
        "%s: quantization_config (%.40s) says that the weights are quantized, and levin reads fp32, fp16, bf16, fp64 "
        "and those of bitsandbytes: save the model dequantized, or remove this entry if its tensors are plain "
        "numbers",
        name, method ? method : "of no quant_method");
    return LVN_OK;
}

enum lvn_status lvn_config_read_as(struct lvn_model_config *c, const struct lvn_model *variant, const char *name,
                                   const json_t *root)
{
    LVN_TRY(check_quantized(name, root));
    lvn_model_config_init(c, variant);
    LVN_TRY(read_kind(c, variant, name, root));
    LVN_TRY(read_head(c, name, root));
    for (const struct lvn_key *k = variant->keys; k->kind; k++) {
        if (k->kind == LVN_KEY_TOKEN) LVN_TRY(read_end(c, name, root));
        LVN_TRY(agree(c, variant, name, root, k));
    }
    if (variant->generates) LVN_TRY(check_decoder(c, variant, name, root));
    LVN_TRY(read_keys(c, variant, name, root, NULL));
    enum lvn_status status = lvn_model_check(c, false);
    if (status != LVN_OK) LVN_FAIL(FORMAT, "%s: %s", name, levin_error_text());
    return keep(c, variant, root);
}

/* --- writing --- */

/* The end token; null if it is not in the vocabulary, about which transformers complains. */
static json_t *end_of(const struct lvn_model_config *c)
{
    const int64_t id = c->end_id;
    return id >= 0 && id < lvn_model_value(c, LVN_ROLE_VOCABULARY) ? json_integer(id) : json_null();
}

static bool is_token(const json_t *id, const struct lvn_model_config *c)
{
    return json_is_integer(id) && json_integer_value(id) >= 0 &&
           json_integer_value(id) < lvn_model_value(c, LVN_ROLE_VOCABULARY);
}

/* The tokens that the file named, if the vocabulary has them; otherwise the end token. */
static json_t *tokens_of(const char *key, const struct lvn_model_config *c, const json_t *kept)
{
    json_t *named = json_object_get(kept, key), *list = json_array();
    for (size_t i = 0; i < json_array_size(named); i++)
        if (is_token(json_array_get(named, i), c)) json_array_append(list, json_array_get(named, i));
    if (json_array_size(list)) return list;
    json_decref(list);
    if (is_token(named, c)) return json_incref(named);
    return named && strcmp(key, "eos_token_id") != 0 ? json_null() : end_of(c);
}

static json_t *dtype_of(enum lvn_dtype type)
{
    return json_string(type == LVN_BF16 ? "bfloat16" : "float32");
}

static json_t *value_of(const struct lvn_key *k, const struct lvn_model_config *c, enum lvn_dtype type,
                        const json_t *kept)
{
    double value = lvn_key_get(k, c);
    char text[LVN_KEY_TEXT];
    switch (k->kind) {
    case LVN_KEY_INT:
        return json_integer((json_int_t)value + k->json_offset);
    case LVN_KEY_REAL:
        return k->count && value == floor(value) ? json_integer((json_int_t)value) : json_real(value);
    case LVN_KEY_BOOL:
        return json_boolean(value != 0.0);
    case LVN_KEY_WORD:
        return json_string(lvn_key_text(k, value, text));
    case LVN_KEY_NAME:
        return json_pack("[s]", c->head ? c->head->architecture : k->text);
    case LVN_KEY_TOKEN:
        return tokens_of(k->json, c, kept);
    case LVN_KEY_DTYPE:
        return dtype_of(type);
    default:
        return NULL;
    }
}

static bool is_written(const struct lvn_model *variant, const struct lvn_model_config *c, const struct lvn_key *k)
{
    if (!k->json || k->read_only || k->kind == LVN_KEY_MUST || k->kind == LVN_KEY_LIST) return false;
    if (k->omit_default && lvn_key_get(k, c) == k->default_value) return false;
    for (const struct lvn_key *before = variant->keys; before < k; before++)
        if (before->json && strcmp(before->json, k->json) == 0) return false;
    return true;
}

/* id2label and label2id, from which transformers derives the number of classes. */
static void write_classes(json_t *root, const struct lvn_model_config *c)
{
    json_t *names = json_object(), *numbers = json_object();
    char key[24], text[LVN_CLASS_NAME];
    const char *given = c->class_names;
    for (int64_t i = 0; i < c->classes; i++) {
        snprintf(key, sizeof key, "%lld", (long long)i);
        const char *name = given ? given : lvn_class_name(c, i, text);
        json_object_set_new(names, key, json_string(name));
        json_object_set_new(numbers, name, json_integer(i));
        if (given) given += strlen(given) + 1;
    }
    json_object_set_new(root, "id2label", names);
    json_object_set_new(root, "label2id", numbers);
    json_object_set_new(root, "problem_type", json_string(problems[c->problem]));
}

/* transformers' decoders predict from the last token that is not padding. The file's padding token is kept; without one
 * it is the tokenizer's (c->pad_id), or the end token. null: texts cannot be padded. */
static void write_padding(json_t *root, const struct lvn_model_config *c, const json_t *kept)
{
    json_t *end = json_object_get(root, "eos_token_id");
    if (!end || is_token(json_object_get(kept, "pad_token_id"), c)) return;
    if (json_is_array(end)) end = json_array_get(end, 0);
    json_t *pad = json_integer(c->pad_id);
    json_object_set(root, "pad_token_id", c->pad_id == LVN_PAD_END ? end : is_token(pad, c) ? pad : json_null());
    json_decref(pad);
}

/* Add what the file had and levin does not write. */
static void write_kept(json_t *root, const struct lvn_model_config *c, json_t *kept, enum lvn_dtype type)
{
    json_t *pad = json_object_get(kept, "pad_token_id");
    if (json_object_get(kept, "torch_dtype")) json_object_set_new(kept, "torch_dtype", dtype_of(type));
    if (json_is_integer(pad) && !is_token(pad, c)) json_object_set_new(kept, "pad_token_id", json_null());
    if (json_object_get(kept, "n_ctx")) /* an old copy of n_positions */
        json_object_set_new(kept, "n_ctx", json_integer(lvn_model_value(c, LVN_ROLE_POSITIONS)));
    if (json_is_false(json_object_get(kept, "tie_word_embeddings"))) /* of a bert, whose head is always tied */
        json_object_del(kept, "tie_word_embeddings");
    json_object_update_missing(root, kept);
}

/* The object of a key, created at its first key. NULL: out of memory. */
static json_t *object_of(json_t *root, const char *part, const struct lvn_model_config *c)
{
    if (!*part) return root;
    if (!json_object_get(root, part))
        json_object_set_new(root, part,
                            strcmp(part, own_object) == 0 ? json_pack("{s:s}", "kind", c->model->name) : json_object());
    return json_object_get(root, part); /* jansson frees a value that could not be set */
}

enum lvn_status lvn_config_write(struct lvn_text *t, const struct lvn_model *variant,
                                 const struct lvn_model_config *config, enum lvn_dtype type)
{
    struct lvn_model_config c = lvn_model_resolved(config);
    json_error_t error;
    json_t *kept = NULL;
    long begun = lvn_json_begin();
    if (c.kept && c.kept_variant == variant) LVN_TRY(lvn_json_load(c.kept, (int64_t)strlen(c.kept), 0, &kept, &error));
    json_t *root = json_pack("{s:s}", "model_type", lvn_model_type(variant));
    for (const struct lvn_key *k = variant->keys; k->kind; k++) {
        char part[LVN_KEY_TEXT];
        if (!is_written(variant, &c, k)) continue;
        const char *key = split(k->json, part);
        json_t *whole = *part ? json_object_get(kept, part) : NULL;
        if (json_is_object(whole)) json_object_set(root, part, whole); /* as it was, at its key's place */
        const bool added = k->omit_default && k->kind == LVN_KEY_REAL && !json_object_get(whole, key) &&
                           !json_object_get(kept, key); /* since the model was loaded (lvn_model_shorten()) */
        if (json_is_object(whole) && !added) continue;
        const double value = lvn_key_get(k, &c);
        bool null = (k->null && value == k->default_value) || (k->null_value != 0.0 && value == k->null_value);
        json_object_set_new(object_of(root, part, &c), key, null ? json_null() : value_of(k, &c, type, kept));
    }
    const json_t *scaling = json_object_get(root, "rope_scaling");
    if (!json_is_object(json_object_get(kept, "rope_scaling")) && !json_object_get(scaling, "rope_type"))
        json_object_del(root, "rope_scaling"); /* of unscaled positions: its other members have no effect */
    else if (json_is_object(scaling))          /* has all of it, and what has changed */
        json_object_del(kept, "rope_parameters");
    if (lvn_model_predicts_samples(&c)) write_classes(root, &c);
    if (lvn_model_predicts_samples(&c)) write_padding(root, &c, kept);
    if (kept) write_kept(root, &c, kept, type);
    json_decref(kept);
    lvn_json_add(t, begun, root, 2);
    lvn_text_add(t, "\n");
    json_decref(root);
    LVN_TRY_WHILE(lvn_text_status(t), "writing config.json");
    return LVN_OK;
}

enum lvn_status lvn_config_add_end(struct lvn_text *out, const char *name, const char *text, int64_t old, int64_t id)
{
    const long begun = lvn_json_begin();
    json_t *root, *ends = json_pack("[I]", (json_int_t)id);
    int64_t *known = NULL;
    int n = 0;
    bool named = old == id;
    enum lvn_status status = lvn_json_parse(name, text, (int64_t)strlen(text), &root);
    if (status == LVN_OK) status = lvn_json_ints(name, root, "eos_token_id", INT32_MIN, INT32_MAX, &known, &n);
    if (status == LVN_OK && !n && old >= 0) json_array_append_new(ends, json_integer(old));
    if (n) named = false;
    for (int i = 0; i < n; i++) {
        named |= known[i] == id;
        json_array_append_new(ends, json_integer(known[i]));
    }
    if (json_array_size(ends) == 1) {
        json_decref(ends);
        ends = json_integer(id);
    }
    if (status == LVN_OK && !named) {
        json_object_set(root, "eos_token_id", ends);
        lvn_json_add(out, begun, root, 2);
        lvn_text_add(out, "\n");
    }
    free(known);
    json_decref(ends);
    json_decref(root);
    LVN_TRY(status);
    return lvn_text_status(out);
}

enum lvn_status lvn_model_add_end(struct lvn_model_config *c, int64_t id, bool *added)
{
    LVN_LOCAL_TEXT(text);
    LVN_TRY(lvn_config_add_end(&text, "config.json", c->kept ? c->kept : "{}", c->end_id, id));
    *added = text.n > 0;
    if (!text.n) return LVN_OK;
    c->end_id = id;
    if (!c->kept) c->kept_variant = lvn_model_file_variant(c->model);
    c->kept = lvn_intern(text.p, (size_t)text.n + 1);
    return c->kept ? LVN_OK : LVN_MEMORY;
}

json_t *lvn_config_sizes(const struct lvn_model *variant, const struct lvn_model_config *config)
{
    const struct lvn_model_config c = lvn_model_resolved(config);
    json_t *sizes = json_object();
    for (const struct lvn_key *k = variant->keys; k->kind; k++)
        if (is_written(variant, &c, k) && k->kind <= LVN_KEY_WORD && !strchr(k->json, '.'))
            json_object_set_new(sizes, k->json, value_of(k, &c, LVN_F32, NULL));
    return sizes;
}

int lvn_config_args(const struct lvn_model *variant, const struct lvn_model_config *c,
                    struct lvn_torch_arg args[LVN_CONFIG_ARGS])
{
    int n = 0;
    for (const struct lvn_key *k = variant->keys; k->kind && n < LVN_CONFIG_ARGS; k++) {
        if (!is_written(variant, c, k) || k->kind > LVN_KEY_BOOL) continue;
        double value = lvn_key_get(k, c);
        args[n++] = (struct lvn_torch_arg){.name = k->json,
                                           .kind = k->kind == LVN_KEY_INT    ? LVN_TORCH_INT
                                                   : k->kind == LVN_KEY_REAL ? LVN_TORCH_REAL
                                                                             : LVN_TORCH_BOOL,
                                           .integer = (int64_t)value,
                                           .real = value};
    }
    return n;
}

/* model_config.c - see model_config.h. */
#include "model_io/model_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static const char own_object[] = "levin";

/* Split "levin.bias" into its object, "levin", in text, and the key "bias", which is returned; other keys have the
 * object "". */
static const char *split(const char *json, char object[LVN_KEY_TEXT])
{
    const char *dot = strchr(json, '.');
    snprintf(object, LVN_KEY_TEXT, "%.*s", dot ? (int)(dot - json) : 0, json);
    return dot ? dot + 1 : json;
}

/* --- reading --- */

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
    if (n) *value = (double)last;
    return LVN_OK;
}

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
    int64_t whole = (int64_t)*value;
    if (k->kind == LVN_KEY_INT) {
        LVN_TRY(lvn_json_int(name, object, key, k->required, (int64_t)k->min, (int64_t)k->max, &whole));
        *value = (double)whole;
        return LVN_OK;
    }
    LVN_TRY(lvn_json_real(name, object, key, k->required, value));
    LVN_CHECK(*value >= k->min && *value <= k->max, FORMAT, "%s: %s is %g; it must lie between %g and %g", name,
              k->json, *value, k->min, k->max);
    return LVN_OK;
}

/* `but`: an object to skip, or NULL. */
static enum lvn_status read_key(struct lvn_model_config *c, const char *name, const json_t *root,
                                const struct lvn_key *k, const char *but)
{
    char part[LVN_KEY_TEXT];
    if (!k->json) return LVN_OK;
    const char *key = split(k->json, part);
    const json_t *object = *part ? json_object_get(root, part) : root;
    if (!object || json_is_null(object) || (but && strcmp(but, part) == 0)) return LVN_OK;
    LVN_CHECK(json_is_object(object), FORMAT, "%s: '%s' must be an object", name, part);
    const json_t *json = json_object_get(object, key);
    double value = !json && k->absent != 0.0 ? k->absent : lvn_key_get(k, c);
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

/* If both an old and a new object describe the same thing (`k` belongs to the one that is only read), each must be
 * complete and both equal: other programs read only one of them. */
static enum lvn_status agree(const struct lvn_model_config *c, const struct lvn_model *variant, const char *name,
                             const json_t *root, const struct lvn_key *k)
{
    char newer[LVN_KEY_TEXT], older[LVN_KEY_TEXT];
    if (!k->json || !k->read_only || !*split(k->json, newer) || !json_object_size(json_object_get(root, newer)))
        return LVN_OK;
    for (const struct lvn_key *o = variant->keys; o->kind; o++) {
        if (!o->json || o->offset != k->offset || o->kind != k->kind || strcmp(split(o->json, older), "") == 0 ||
            strcmp(older, newer) == 0 || !json_object_size(json_object_get(root, older)))
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

static enum lvn_status find_variant(const char *type, const char *name, const struct lvn_model **variant)
{
    char list[512] = "";
    *variant = NULL;
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        if (strcmp(lvn_model_type(*m), type) == 0) *variant = *m;
        lvn_print_append(list, sizeof list, "%s%s", !*list ? "" : m[1] ? ", " : " and ", lvn_model_type(*m));
    }
    LVN_CHECK(*variant, UNSUPPORTED, "%s: model_type is '%.40s'; this version loads %s", name, type, list);
    return LVN_OK;
}

enum lvn_status lvn_config_read(struct lvn_model_config *c, const struct lvn_model **variant, const char *name,
                                const json_t *root)
{
    const char *type = NULL;
    LVN_TRY(lvn_json_string(name, root, "model_type", true, &type));
    LVN_TRY(find_variant(type, name, variant));
    return lvn_config_read_as(c, *variant, name, root);
}

/* The end token; of a list the first one. An empty list, or null: the tokenizer's, or none, as in transformers. */
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

/* The names of the classes, unless they are the default names or do not fit. */
static void read_names(struct lvn_model_config *c, const json_t *names)
{
    size_t used = 0;
    bool named = false;
    for (int64_t i = 0; i < c->classes; i++) {
        char key[24], default_name[32];
        snprintf(key, sizeof key, "%lld", (long long)i);
        snprintf(default_name, sizeof default_name, "LABEL_%lld", (long long)i);
        const char *text = json_string_value(json_object_get(names, key));
        named |= text && strcmp(text, default_name) != 0;
        if (!text || strchr(text, '\n') || used + strlen(text) + 2 > sizeof c->class_names) {
            named = false;
            break;
        }
        used += (size_t)snprintf(c->class_names + used, sizeof c->class_names - used, "%s\n", text);
    }
    if (!named) c->class_names[0] = '\0';
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

/* The head, and its number of classes. A decoder's default head may have any name. */
static enum lvn_status read_head(struct lvn_model_config *c, const char *name, const json_t *root)
{
    const json_t *list = json_object_get(root, "architectures"), *names = json_object_get(root, "id2label");
    const char *first = json_string_value(json_array_get(list, 0));
    const struct lvn_head *h = c->model->heads;
    char known[256] = "";
    if (!h) return LVN_OK;
    for (; first && h->architecture && strcmp(h->architecture, first) != 0; h++)
        if (!strstr(known, h->architecture)) /* heads for classes and for numbers have one name */
            lvn_print_append(known, sizeof known, "%s%s", *known ? ", " : "", h->architecture);
    if (!h->architecture && c->model->heads->label == LVN_LABEL_TOKEN && !strstr(first, "Classification"))
        h = c->model->heads;
    LVN_CHECK(h->architecture, UNSUPPORTED, "%s: architectures is '%.60s'; this version has %s", name, first, known);
    c->head = *h->task ? lvn_model_head(c->model, h->task) : h;
    if (json_is_object(names) && json_object_size(names)) c->classes = (int64_t)json_object_size(names);
    LVN_TRY(lvn_json_int(name, root, "num_labels", false, 1, 1 << 20, &c->classes));
    if (json_is_object(names)) read_names(c, names);
    return read_problem(c, name, root);
}

/* UNSUPPORTED for packed weights: their tensors may have the names and shapes of plain ones, as in fp8 with scales. */
static enum lvn_status check_quantized(const char *name, const json_t *root)
{
    const json_t *packed = json_object_get(root, "quantization_config");
    const char *method = json_string_value(json_object_get(packed, "quant_method"));
    LVN_CHECK(
        !packed || json_is_null(packed), UNSUPPORTED,
        "%s: quantization_config (%.40s) says that the weights are quantized, and levin reads fp32, fp16, bf16 and "
        "fp64 alone: save the model dequantized, or remove this entry if its tensors are plain numbers",
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
    LVN_TRY(read_keys(c, variant, name, root, NULL));
    enum lvn_status status = lvn_model_check(c, false);
    if (status != LVN_OK) LVN_FAIL(FORMAT, "%s: %s", name, lvn_error_text());
    return LVN_OK;
}

/* --- writing --- */

/* The end token; null if it is not in the vocabulary, about which transformers complains. */
static json_t *end_of(const struct lvn_model_config *c)
{
    const int64_t id = c->end_id;
    return id >= 0 && id < lvn_model_value(c, LVN_ROLE_VOCABULARY) ? json_integer(id) : json_null();
}

static json_t *value_of(const struct lvn_key *k, const struct lvn_model_config *c, enum lvn_dtype type)
{
    double value = lvn_key_get(k, c);
    char text[LVN_KEY_TEXT];
    switch (k->kind) {
    case LVN_KEY_INT:
        return json_integer((json_int_t)value);
    case LVN_KEY_REAL:
        return json_real(value);
    case LVN_KEY_BOOL:
        return json_boolean(value != 0.0);
    case LVN_KEY_WORD:
        return json_string(lvn_key_text(k, value, text));
    case LVN_KEY_NAME:
        return json_pack("[s]", c->head ? c->head->architecture : k->text);
    case LVN_KEY_TOKEN:
        return end_of(c);
    case LVN_KEY_DTYPE:
        return json_string(type == LVN_BF16 ? "bfloat16" : "float32");
    default:
        return NULL;
    }
}

static bool is_written(const struct lvn_model *variant, const struct lvn_model_config *c, const struct lvn_key *k)
{
    if (!k->json || k->read_only || k->kind == LVN_KEY_MUST) return false;
    if (k->omit_default && lvn_key_get(k, c) == k->default_value) return false;
    for (const struct lvn_key *before = variant->keys; before < k; before++)
        if (before->json && strcmp(before->json, k->json) == 0) return false;
    return true;
}

const char *lvn_class_name(const struct lvn_model_config *c, int64_t i, char text[LVN_CLASS_NAMES])
{
    const char *p = c->class_names;
    for (int64_t k = 0; k < i && *p; k++) p += strcspn(p, "\n") + 1;
    if (*p)
        snprintf(text, LVN_CLASS_NAMES, "%.*s", (int)strcspn(p, "\n"), p);
    else
        snprintf(text, LVN_CLASS_NAMES, "LABEL_%lld", (long long)i);
    return text;
}

/* id2label and label2id, from which transformers takes the number of classes; its decoders need pad_token_id. */
static void write_classes(json_t *root, const struct lvn_model_config *c)
{
    json_t *names = json_object(), *numbers = json_object();
    char key[24], text[LVN_CLASS_NAMES];
    for (int64_t i = 0; i < c->classes; i++) {
        snprintf(key, sizeof key, "%lld", (long long)i);
        lvn_class_name(c, i, text);
        json_object_set_new(names, key, json_string(text));
        json_object_set_new(numbers, text, json_integer(i));
    }
    json_object_set_new(root, "id2label", names);
    json_object_set_new(root, "label2id", numbers);
    json_object_set_new(root, "problem_type", json_string(problems[c->problem]));
    json_t *end = json_object_get(root, "eos_token_id");
    if (end) json_object_set(root, "pad_token_id", end);
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
    long begun = lvn_json_begin();
    json_t *root = json_pack("{s:s}", "model_type", lvn_model_type(variant));
    for (const struct lvn_key *k = variant->keys; k->kind; k++) {
        char part[LVN_KEY_TEXT];
        if (!is_written(variant, &c, k)) continue;
        const char *key = split(k->json, part);
        bool null = k->null && lvn_key_get(k, &c) == k->default_value;
        json_object_set_new(object_of(root, part, &c), key, null ? json_null() : value_of(k, &c, type));
    }
    if (lvn_model_predicts_samples(&c)) write_classes(root, &c);
    lvn_json_add(t, begun, root, 2);
    lvn_text_add(t, "\n");
    json_decref(root);
    LVN_TRY_WHILE(lvn_text_status(t), "writing config.json");
    return LVN_OK;
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

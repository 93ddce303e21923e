/* gguf_model.c - see gguf_model.h. The metadata become the object of a config.json, which model_config.c reads: ranges,
 * defaults and checks are those of Hugging Face's directories. */
#include "model_io/gguf_model.h"

#include "base/log.h"
#include "formats/json.h"
#include "model_io/model_config.h"

/* The object that is built from the metadata of a file. */
struct reader {
    struct lvn_gguf *file;
    const char *architecture;
    const struct lvn_model *model;
    json_t *root;
    struct lvn_arena *arena;
};

/* The double with the fewest digits that is this number in fp32: 1e-05 for 9.99999974737875e-06. */
static double shortest(double x)
{
    char text[40];
    for (int digits = 1; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if ((float)strtod(text, NULL) == (float)x) return strtod(text, NULL);
    }
    return x;
}

/* "llama.block_count". NULL: out of memory. */
static const char *full_key(struct reader *r, const char *name)
{
    return lvn_arena_printf(r->arena, "%s.%s", r->architecture, name);
}

static const struct lvn_weight *tensor_of(const struct lvn_pretrained *p, const char *name)
{
    return lvn_weights_find(&p->weights, name);
}

/* A number, or true or false, as JSON. */
static enum lvn_status scalar_of(const struct reader *r, const struct lvn_gguf_value *v, json_t **out)
{
    LVN_CHECK(!v->list && v->kind != LVN_GGUF_STRING, UNSUPPORTED,
              "'%s': '%s' is a %s, and levin supports one number for all layers", r->file->path, v->key,
              v->list ? "list" : "string");
    const double x = lvn_gguf_number(v, 0);
    LVN_CHECK(isfinite(x), FORMAT, "'%s': '%s' is not finite", r->file->path, v->key);
    *out = v->kind == LVN_GGUF_BOOL                             ? json_boolean(x != 0)
           : v->kind == LVN_GGUF_F32 || v->kind == LVN_GGUF_F64 ? json_real(shortest(x))
                                                                : json_integer((json_int_t)x);
    return LVN_OK;
}

/* layer_types: from a list with true for each layer with a window. */
static enum lvn_status layers_of(const struct reader *r, const struct lvn_gguf_value *v, json_t **out)
{
    LVN_CHECK(v->list && v->kind == LVN_GGUF_BOOL, UNSUPPORTED, "'%s': '%s' must be a list of true and false",
              r->file->path, v->key);
    *out = json_array();
    for (int64_t i = 0; i < v->n; i++)
        json_array_append_new(*out, json_string(lvn_gguf_number(v, i) != 0 ? "sliding_attention" : "full_attention"));
    return LVN_OK;
}

static bool is_required(const struct lvn_model *m, const char *json)
{
    for (const struct lvn_key *k = m->keys; k->kind; k++)
        if (k->json && strcmp(k->json, json) == 0) /* defaults of config.json do not apply to GGUF */
            return k->required || k->role == LVN_ROLE_POSITIONS || strcmp(json, "rms_norm_eps") == 0;
    return false;
}

/* Channels of a head. */
static enum lvn_status head_size(struct reader *r, double *out)
{
    int64_t width = 0, heads = 0, size = 0;
    const char *embedding = full_key(r, "embedding_length"), *count = full_key(r, "attention.head_count"),
               *key = full_key(r, "attention.key_length");
    if (!embedding || !count || !key) return LVN_MEMORY;
    LVN_TRY(lvn_gguf_int(r->file, embedding, true, 1, INT32_MAX, &width));
    LVN_TRY(lvn_gguf_int(r->file, count, true, 1, INT32_MAX, &heads));
    LVN_TRY(lvn_gguf_int(r->file, key, false, 1, INT32_MAX, &size));
    *out = size ? (double)size : (double)width / (double)heads;
    return LVN_OK;
}

static bool has_key(const struct lvn_model *m, const char *json)
{
    for (const struct lvn_key *k = m->keys; k->kind; k++)
        if (k->json && strcmp(k->json, json) == 0) return true;
    return false;
}

static enum lvn_status put_key(struct reader *r, const struct lvn_pretrained *p, const struct lvn_gguf_key *k)
{
    json_t *value = NULL;
    if (!has_key(r->model, k->json)) return LVN_OK;
    if (k->how == LVN_GGUF_TENSOR) {
        json_object_set_new(r->root, k->json, json_boolean(tensor_of(p, k->name) != NULL));
        return LVN_OK;
    }
    const char *key = full_key(r, k->name);
    if (!key) return LVN_MEMORY;
    const struct lvn_gguf_value *v = lvn_gguf_find(r->file, key);
    LVN_CHECK(v || !is_required(r->model, k->json), FORMAT, "'%s' has no '%s' in its metadata", r->file->path, key);
    if (!v) return LVN_OK;
    LVN_TRY(k->how == LVN_GGUF_LAYERS && v->list ? layers_of(r, v, &value) : scalar_of(r, v, &value));
    if (k->how == LVN_GGUF_PER_HEAD) {
        double size;
        LVN_TRY(head_size(r, &size));
        json_decref(value);
        value = json_real(lvn_gguf_number(v, 0) / size);
    }
    json_object_set_new(r->root, k->how == LVN_GGUF_LAYERS && !v->list ? "sliding_window_pattern" : k->json, value);
    return LVN_OK;
}

/* Metadata that must not differ from what levin computes. */
static enum lvn_status check_values(struct reader *r)
{
    static const char *const sizes[] = {"attention.value_length", "rope.dimension_count"};
    const struct lvn_gguf_key *k = r->model->gguf->keys;
    double size;
    int64_t experts = 0;
    LVN_TRY(head_size(r, &size));
    for (int i = 0; i < 2; i++) {
        const char *key = full_key(r, sizes[i]);
        if (!key) return LVN_MEMORY;
        const struct lvn_gguf_value *v = lvn_gguf_find(r->file, key);
        for (k = r->model->gguf->keys; k->name && strcmp(k->name, sizes[i]) != 0; k++) {
        }
        LVN_CHECK(k->name || !v || (!v->list && lvn_gguf_number(v, 0) == size), UNSUPPORTED,
                  "'%s': '%s' is %g, and a head has %g channels; levin supports models where both are equal",
                  r->file->path, key, lvn_gguf_number(v, 0), size);
    }
    const char *key = full_key(r, "expert_count");
    if (!key) return LVN_MEMORY;
    LVN_TRY(lvn_gguf_int(r->file, key, false, 0, INT32_MAX, &experts));
    LVN_CHECK(!experts, UNSUPPORTED, "'%s' is a mixture of %lld experts (%s), which levin does not have", r->file->path,
              (long long)experts, key);
    return LVN_OK;
}

/* --- rotary positions --- */

static void put_scaling(struct reader *r, const char *key, json_t *value)
{
    json_t *scaling = json_object_get(r->root, "rope_scaling");
    if (!scaling) {
        scaling = json_object();
        json_object_set_new(r->root, "rope_scaling", scaling);
    }
    json_object_set_new(scaling, key, value);
}

const struct lvn_gguf_key lvn_gguf_scaling[] = {
    {"rope.scaling.factor", "rope_scaling.factor", LVN_GGUF_PLAIN},
    {"rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings", LVN_GGUF_PLAIN},
    {"rope.scaling.yarn_beta_fast", "rope_scaling.beta_fast", LVN_GGUF_PLAIN},
    {"rope.scaling.yarn_beta_slow", "rope_scaling.beta_slow", LVN_GGUF_PLAIN},
    {NULL, NULL, LVN_GGUF_PLAIN},
};

static enum lvn_status read_scaling(struct reader *r)
{
    const char *key = full_key(r, "rope.scaling.type"), *type;
    if (!key) return LVN_MEMORY;
    LVN_TRY(lvn_gguf_string(r->file, key, false, &type));
    if (!type || strcmp(type, "none") == 0) return LVN_OK;
    LVN_CHECK(strcmp(type, "linear") == 0 || strcmp(type, "yarn") == 0, UNSUPPORTED,
              "'%s': '%s' is '%.40s'; levin supports linear and yarn", r->file->path, key, type);
    put_scaling(r, "rope_type", json_string(type));
    for (const struct lvn_gguf_key *k = lvn_gguf_scaling; k->name; k++) {
        json_t *value;
        key = full_key(r, k->name);
        if (!key) return LVN_MEMORY;
        const struct lvn_gguf_value *v = lvn_gguf_find(r->file, key);
        if (!v) continue;
        LVN_TRY(scalar_of(r, v, &value));
        put_scaling(r, strchr(k->json, '.') + 1, value);
    }
    return LVN_OK;
}

/* The divisor of frequency i that rope_scaling of the type llama3 gives (graph/rotary.h). */
double lvn_gguf_divisor(const struct lvn_gguf_divisors *d, int64_t i)
{
    const double pi = acos(-1.0), length = 2 * pi * pow(d->theta, 2 * (double)i / (double)d->dims);
    if (length < d->original / d->high) return 1;
    if (length > d->original / d->low) return d->factor;
    const double smooth = (d->original / length - d->low) / (d->high - d->low);
    return 1 / ((1 - smooth) / d->factor + smooth);
}

static enum lvn_status read_divisors(struct reader *r, const struct lvn_pretrained *p)
{
    const struct lvn_weight *t = tensor_of(p, "rope_freqs.weight");
    double size;
    if (!t) return LVN_OK;
    LVN_TRY(head_size(r, &size));
    const int64_t n = lvn_desc_count(&t->desc), dims = (int64_t)size;
    const json_t *base = json_object_get(r->root, "rope_theta");
    struct lvn_gguf_divisors d = {.theta = base ? json_number_value(base) : 10000,
                                  .factor = 1,
                                  .low = 1,
                                  .high = 4,
                                  .original = 8192,
                                  .dims = dims};
    const struct {
        const char *key;
        double *value;
    } known[] = {{LVN_GGUF_LOW, &d.low}, {LVN_GGUF_HIGH, &d.high}, {LVN_GGUF_ORIGINAL, &d.original}};
    for (int i = 0; i < 3; i++) {
        const struct lvn_gguf_value *v = lvn_gguf_find(r->file, known[i].key);
        if (v && !v->list && v->kind == LVN_GGUF_F32) *known[i].value = shortest(lvn_gguf_number(v, 0));
    }
    bool equal = n == dims / 2 && n <= 4096;
    float x;
    for (int64_t i = 0; i < n && equal; i++) {
        lvn_weight_read(t, i, 1, &x);
        if (x > d.factor) d.factor = x;
    }
    for (int64_t i = 0; i < n && equal; i++) {
        lvn_weight_read(t, i, 1, &x);
        const double expected = lvn_gguf_divisor(&d, i);
        equal = fabs(x - expected) <= 1e-4 * expected;
    }
    LVN_CHECK(equal, UNSUPPORTED,
              "'%s': the values of the tensor '%s' are not Llama 3's divisors of rotary frequencies for %g original "
              "positions; "
              "levin supports no others",
              r->file->path, t->name, d.original);
    if (d.factor == 1) return LVN_OK;
    put_scaling(r, "rope_type", json_string("llama3"));
    put_scaling(r, "factor", json_real(shortest(d.factor)));
    put_scaling(r, "low_freq_factor", json_real(d.low));
    put_scaling(r, "high_freq_factor", json_real(d.high));
    put_scaling(r, "original_max_position_embeddings", json_integer((json_int_t)d.original));
    return LVN_OK;
}

/* --- further metadata --- */

static bool is_in(const struct lvn_gguf_key *k, const char *name)
{
    while (k->name && strcmp(k->name, name) != 0) k++;
    return k->name != NULL;
}

/* Is x a value other than 1 with which this factor has no effect? llama.cpp's converter and training write such values.
 */
static bool is_unset(const struct reader *r, const char *name, double x)
{
    const json_t *scaling = json_object_get(r->root, "rope_scaling");
    const char *type = json_string_value(json_object_get(scaling, "rope_type"));
    const bool is_yarn = type && strcmp(type, "yarn") == 0;
    if (strcmp(name, "rope.scaling.yarn_ext_factor") == 0) return x < 0 || (x == 0 && !is_yarn);
    if (strcmp(name, "rope.scaling.yarn_attn_factor") == 0) /* attention_factor of a config.json: the default */
        return is_yarn && fabs(x - 1 - 0.1 * log(json_number_value(json_object_get(scaling, "factor")))) <= 1e-4;
    return x == 0 && lvn_ends_with(name, "_scale");
}

/* Metadata of the architecture that nothing above reads: some must have no effect, and others are reported. */
static enum lvn_status check_rest(const struct reader *r)
{
    static const char *const factors = " rope.scale_linear rope.scaling.attn_factor rope.scaling.yarn_attn_factor "
                                       "rope.scaling.yarn_ext_factor logit_scale embedding_scale residual_scale "
                                       "attention.causal ";
    static const char *const zeros = " rope.scaling.yarn_log_multiplier attention.scale attention.clamp_kqv "
                                     "attention.max_alibi_bias ";
    /* read elsewhere, equal to shapes of tensors, or without an effect on the model */
    static const char *const known = " vocab_size tensor_data_layout attention.value_length rope.dimension_count "
                                     "expert_count expert_used_count rope.scaling.type rope.scaling.finetuned ";
    LVN_LOCAL_TEXT(rest);
    const size_t prefix = strlen(r->architecture);
    int n = 0;
    for (int i = 0; i < r->file->n_values; i++) {
        const struct lvn_gguf_value *v = &r->file->value[i];
        char word[80];
        if (strncmp(v->key, r->architecture, prefix) != 0 || v->key[prefix] != '.') continue;
        const char *name = v->key + prefix + 1;
        const bool fits = lvn_fit(word, sizeof word, " %s ", name);
        if ((fits && strstr(known, word)) || is_in(r->model->gguf->keys, name) || is_in(lvn_gguf_scaling, name))
            continue;
        const double x = v->list ? NAN : lvn_gguf_number(v, 0);
        const bool is_factor = fits && strstr(factors, word), is_zero = fits && strstr(zeros, word);
        LVN_CHECK((!is_factor && !is_zero) || x == is_factor || (is_factor && is_unset(r, name, x)), UNSUPPORTED,
                  "'%s': '%s' is %g, and levin supports only %d", r->file->path, v->key, x, is_factor);
        if (!is_factor && !is_zero) lvn_text_printf(&rest, "%s%.60s", n++ ? ", " : "", v->key);
    }
    LVN_TRY(lvn_text_status(&rest));
    if (n)
        lvn_log_once(LVN_LOG_WARN, "'%s' has metadata that levin does not know and ignores: %s", r->file->path, rest.p);
    return LVN_OK;
}

/* --- the file --- */

/* Tied: the file has no head, or one with the bytes of the embedding. */
static bool is_tied(const struct lvn_pretrained *p)
{
    const struct lvn_weight *head = tensor_of(p, "output.weight"), *table = tensor_of(p, "token_embd.weight");
    if (!head) return true;
    const struct lvn_ggml_block *block = lvn_ggml_block(head->packed);
    const int64_t n = lvn_desc_count(&head->desc),
                  bytes = block ? n / block->values * block->bytes : n * lvn_dtype_bytes(head->desc.dtype);
    return table && head->packed == table->packed && head->desc.dtype == table->desc.dtype &&
           lvn_desc_same_shape(&head->desc, &table->desc) && memcmp(head->data, table->data, (size_t)bytes) == 0;
}

static enum lvn_status put_tokens(struct reader *r)
{
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    int64_t id = -1;
    json_t *list = json_array();
    enum lvn_status status = lvn_gguf_int(r->file, "tokenizer.ggml.bos_token_id", false, 0, UINT32_MAX, &id);
    if (status == LVN_OK && id >= 0 && id <= INT32_MAX) json_object_set_new(r->root, "bos_token_id", json_integer(id));
    for (int i = 0; i < 3 && status == LVN_OK; i++) {
        bool known = false;
        id = -1;
        status = lvn_gguf_int(r->file, ends[i], false, 0, UINT32_MAX, &id);
        for (size_t k = 0; k < json_array_size(list); k++) known |= json_integer_value(json_array_get(list, k)) == id;
        if (id >= 0 && id <= INT32_MAX && !known) json_array_append_new(list, json_integer(id));
    }
    if (json_array_size(list) == 1)
        json_object_set(r->root, "eos_token_id", json_array_get(list, 0));
    else
        json_object_set(r->root, "eos_token_id", list);
    json_decref(list);
    return status;
}

static enum lvn_status find_model(struct reader *r)
{
    LVN_LOCAL_TEXT(names);
    const char *type;
    LVN_TRY(lvn_gguf_string(r->file, "general.type", false, &type));
    LVN_CHECK(!type || strcmp(type, "model") == 0, UNSUPPORTED, "'%s' has general.type '%.40s'; expected 'model'",
              r->file->path, type);
    LVN_TRY(lvn_gguf_string(r->file, "general.architecture", true, &r->architecture));
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        const struct lvn_gguf_family *f = (*m)->gguf;
        if (!f) continue;
        if (strcmp(f->architecture, r->architecture) == 0) {
            r->model = *m;
            return LVN_OK;
        }
        if (!names.p || !strstr(names.p, f->architecture))
            lvn_text_printf(&names, "%s%s", names.n ? ", " : "", f->architecture);
    }
    LVN_FAIL(UNSUPPORTED, "'%s' is a model of the architecture '%.60s', which levin does not have; it has %s",
             r->file->path, r->architecture, names.p ? names.p : "none");
}

static enum lvn_status fill(struct reader *r, const struct lvn_pretrained *p)
{
    const struct lvn_weight *table = tensor_of(p, "token_embd.weight");
    LVN_CHECK(table && table->desc.rank == 2, FORMAT, "'%s' has no tensor 'token_embd.weight' of two dimensions",
              r->file->path);
    json_object_set_new(r->root, "model_type", json_string(lvn_model_type(r->model)));
    static const char *const by_heads[] = {"head_dim", "num_key_value_heads"};
    for (int i = 0; i < 2; i++) /* absent from the file: by n_head, not the default of config.json */
        if (has_key(r->model, by_heads[i])) json_object_set_new(r->root, by_heads[i], json_null());
    for (const struct lvn_gguf_key *k = r->model->gguf->keys; k->name; k++) LVN_TRY(put_key(r, p, k));
    json_object_set_new(r->root, "vocab_size", json_integer(table->desc.dim[0]));
    json_object_set_new(r->root, "tie_word_embeddings", json_boolean(is_tied(p)));
    LVN_TRY(check_values(r));
    LVN_TRY(put_tokens(r));
    LVN_TRY(read_scaling(r));
    LVN_TRY(check_rest(r));
    return read_divisors(r, p);
}

const struct lvn_model *lvn_gguf_variant(struct lvn_arena *a, const struct lvn_model *variant)
{
    struct lvn_model *copy = lvn_arena_alloc(a, sizeof *copy);
    if (!copy) return NULL;
    *copy = *variant;
    copy->files = variant->gguf->files;
    copy->prefix = NULL;
    return copy;
}

enum lvn_status lvn_gguf_model_read(struct lvn_pretrained *p)
{
    struct reader r = {.file = p->weights.gguf, .arena = &p->arena};
    const char *name = lvn_arena_printf(&p->arena, "the metadata of '%s'", p->path);
    if (!name) return LVN_MEMORY;
    LVN_TRY(find_model(&r));
    const long begun = lvn_json_begin();
    r.root = json_object();
    enum lvn_status status = fill(&r, p);
    if (status == LVN_OK) status = lvn_json_check(begun);
    if (status == LVN_OK) status = lvn_config_read(&p->config, &p->variant, name, r.root);
    json_decref(r.root);
    LVN_TRY(status);
    if (p->variant->gguf->derive) p->variant->gguf->derive(p->config.fields);
    p->files = lvn_gguf_variant(&p->arena, p->variant);
    return p->files ? LVN_OK : LVN_MEMORY;
}

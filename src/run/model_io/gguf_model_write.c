/* gguf_model_write.c - see gguf_model.h: a model as a GGUF file. The metadata are made from the config.json that the
 * model would have, by the same tables as reading. */

#include "formats/json.h"
#include "model_io/gguf_model.h"
#include "model_io/model_config.h"
#include "models/keys.h"
#include "models/rope.h"
#include "tokenizers/gguf_tokenizer.h"

struct writer {
    struct lvn_gguf_writer w;
    struct lvn_arena arena;
    const struct lvn_model *variant;
    struct lvn_model_config config; /* resolved */
    json_t *root;                   /* config.json */
};

enum lvn_status lvn_gguf_model_check(const struct lvn_model_config *c)
{
    const struct lvn_model_config resolved = lvn_model_resolved(c);
    const struct lvn_gguf_family *family = c->model->gguf;
    LVN_CHECK(family, UNSUPPORTED, "a %s cannot be written as GGUF: llama.cpp does not have this family",
              c->model->name);
    LVN_CHECK(!c->head || c->head == c->model->heads, UNSUPPORTED,
              "a %s cannot be written as GGUF: levin writes models that generate text", c->head->architecture);
    if (family->check)
        LVN_TRY_WHILE(family->check(resolved.fields), "writing the %s as GGUF, for llama.cpp", c->model->name);
    return LVN_OK;
}

static const char *full_key(struct writer *x, const char *name)
{
    return lvn_arena_printf(&x->arena, "%s.%s", x->variant->gguf->architecture, name);
}

/* The value of a key of config.json; 0: the family does not have it. */
static double value_of(const struct writer *x, const char *json, const struct lvn_key **key)
{
    const struct lvn_key *k = x->variant->keys;
    while (k->kind && (!k->json || strcmp(k->json, json) != 0)) k++;
    if (key) *key = k;
    return k->kind ? lvn_key_get(k, &x->config) : 0;
}

/* The value of config.json that the metadata of this name hold. */
static double value_as(const struct writer *x, const char *name)
{
    for (const struct lvn_gguf_key *k = x->variant->gguf->keys; k->name; k++)
        if (strcmp(k->name, name) == 0) return value_of(x, k->json, NULL);
    return 0;
}

/* Channels of a head. */
static double head_size(const struct writer *x)
{
    const double whole = value_as(x, "attention.key_length");
    return whole > 0 ? whole : value_as(x, "embedding_length") / value_as(x, "attention.head_count");
}

static enum lvn_status put(struct writer *x, const char *name, enum lvn_gguf_kind kind, double value)
{
    const char *key = full_key(x, name);
    if (!key) return LVN_MEMORY;
    if (kind == LVN_GGUF_F32)
        lvn_gguf_put_real(&x->w, key, value);
    else
        lvn_gguf_put_int(&x->w, key, kind, (int64_t)value);
    return LVN_OK;
}

static enum lvn_status put_key(struct writer *x, const struct lvn_gguf_key *k)
{
    const struct lvn_key *key;
    double value = value_of(x, k->json, &key);
    if (k->how == LVN_GGUF_PER_HEAD) return put(x, k->name, LVN_GGUF_U32, round(value * head_size(x)));
    if (k->how != LVN_GGUF_PLAIN || !key->kind || value < 0 || !isfinite(value)) return LVN_OK;
    return put(x, k->name,
               key->kind == LVN_KEY_REAL   ? LVN_GGUF_F32
               : key->kind == LVN_KEY_BOOL ? LVN_GGUF_BOOL
                                           : LVN_GGUF_U32,
               value);
}

static enum lvn_status put_keys(struct writer *x)
{
    for (const struct lvn_gguf_key *k = x->variant->gguf->keys; k->name; k++) LVN_TRY(put_key(x, k));
    LVN_TRY(put(x, "vocab_size", LVN_GGUF_U32, value_of(x, "vocab_size", NULL)));
    if (value_as(x, "attention.key_length") <= 0) return LVN_OK;
    LVN_TRY(put(x, "attention.value_length", LVN_GGUF_U32, head_size(x)));
    return put(x, "rope.dimension_count", LVN_GGUF_U32, head_size(x));
}

/* --- rotary positions --- */

/* Linear scaling, and yarn. That of the type llama3 is a tensor. */
static enum lvn_status put_scaling(struct writer *x, bool *llama3)
{
    static const char *const refused[] = {"rope_scaling.attention_factor", "rope_scaling.mscale",
                                          "rope_scaling.mscale_all_dim"};
    const struct lvn_key *key, *truncate;
    char text[LVN_KEY_TEXT];
    const double type = value_of(x, "rope_scaling.rope_type", &key);
    const bool whole = value_of(x, "rope_scaling.truncate", &truncate) != 0;
    *llama3 = type == LVN_ROTARY_LLAMA3;
    if (type == LVN_ROTARY_PLAIN || *llama3) return LVN_OK;
    const char *word = lvn_key_text(key, type, text), *name = full_key(x, "rope.scaling.type");
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        LVN_CHECK(value_of(x, refused[i], NULL) == 0, UNSUPPORTED, "%s cannot be written into a GGUF file", refused[i]);
    LVN_CHECK(whole || !truncate->kind || type != LVN_ROTARY_YARN, UNSUPPORTED,
              "rope_scaling.truncate is false, which llama.cpp does not support");
    if (!name) return LVN_MEMORY;
    lvn_gguf_put_string(&x->w, name, word, (int64_t)strlen(word));
    for (const struct lvn_gguf_key *k = lvn_gguf_scaling; k->name; k++) {
        const double value = value_of(x, k->json, NULL);
        if (value > 0)
            LVN_TRY(put(x, k->name, value == floor(value) && value > 256 ? LVN_GGUF_U32 : LVN_GGUF_F32, value));
    }
    return LVN_OK;
}

/* The tensor rope_freqs.weight, by which llama.cpp divides the frequencies, as an additional item; and the values from
 * which it was computed, which llama.cpp ignores. */
static enum lvn_status add_divisors(struct writer *x, struct lvn_safetensors_source *source,
                                    const struct lvn_gguf_divisors *d)
{
    struct lvn_safetensors_item *items = lvn_arena_alloc(&x->arena, sizeof *items * (size_t)(source->n + 1));
    float *values = lvn_arena_alloc(&x->arena, sizeof *values * (size_t)(d->dims / 2 + 1));
    if (!items || !values) return LVN_MEMORY;
    memcpy(items, source->item, sizeof *items * (size_t)source->n);
    for (int64_t i = 0; i < d->dims / 2; i++) values[i] = (float)lvn_gguf_divisor(d, i);
    items[source->n++] = (struct lvn_safetensors_item){
        .name = "rope_freqs.weight", .desc = LVN_DESC(LVN_F32, d->dims / 2), .data = values};
    source->item = items;
    return LVN_OK;
}

static void put_divisors(struct writer *x, struct lvn_gguf_divisors *d)
{
    *d = (struct lvn_gguf_divisors){.theta = value_as(x, "rope.freq_base"),
                                    .factor = value_of(x, "rope_scaling.factor", NULL),
                                    .low = value_of(x, "rope_scaling.low_freq_factor", NULL),
                                    .high = value_of(x, "rope_scaling.high_freq_factor", NULL),
                                    .original = value_of(x, "rope_scaling.original_max_position_embeddings", NULL),
                                    .dims = (int64_t)head_size(x)};
    if (d->original <= 0) d->original = value_as(x, "context_length");
    lvn_gguf_put_real(&x->w, LVN_GGUF_LOW, d->low);
    lvn_gguf_put_real(&x->w, LVN_GGUF_HIGH, d->high);
    lvn_gguf_put_real(&x->w, LVN_GGUF_ORIGINAL, d->original);
}

/* --- the file --- */

/* The end tokens in config.json: a number or a list. */
static enum lvn_status put_tokenizer(struct writer *x, const struct lvn_tokenizer *t)
{
    struct lvn_gguf_named_tokens named = {.bos = -1};
    LVN_TRY(lvn_json_int("config.json", x->root, "bos_token_id", false, INT32_MIN, INT32_MAX, &named.bos));
    LVN_TRY(lvn_json_ints("config.json", x->root, "eos_token_id", INT32_MIN, INT32_MAX, &named.ends, &named.n_ends));
    enum lvn_status status = lvn_gguf_tokenizer_write(t, (int64_t)value_of(x, "vocab_size", NULL), &named, &x->w);
    free(named.ends);
    return status;
}

static enum lvn_status put_all(struct writer *x, const struct lvn_gguf_model *model, bool *llama3)
{
    const char *architecture = x->variant->gguf->architecture;
    lvn_gguf_put_string(&x->w, "general.architecture", architecture, (int64_t)strlen(architecture));
    lvn_gguf_put_string(&x->w, "general.type", "model", 5);
    lvn_gguf_put_string(&x->w, "general.name", model->name, (int64_t)strlen(model->name));
    lvn_gguf_put_int(&x->w, "general.file_type", LVN_GGUF_U32, model->type->file_type);
    if (model->type->write) lvn_gguf_put_int(&x->w, "general.quantization_version", LVN_GGUF_U32, 2);
    LVN_TRY(put_keys(x));
    LVN_TRY(put_scaling(x, llama3));
    return put_tokenizer(x, model->tokenizer);
}

static enum lvn_status write_file(struct writer *x, const char *path, const struct lvn_gguf_model *model)
{
    struct lvn_model_files files;
    const struct lvn_model_state *n = model->model_state;
    const struct lvn_model *names = lvn_gguf_variant(&x->arena, x->variant);
    LVN_LOCAL_TEXT(config);
    struct lvn_gguf_divisors divisors;
    bool llama3;
    if (!names) return LVN_MEMORY;
    LVN_TRY(lvn_config_write(&config, x->variant, &n->config, LVN_F32));
    LVN_TRY(lvn_json_parse("config.json", config.p, config.n, &x->root));
    LVN_TRY(put_all(x, model, &llama3));
    if (llama3) put_divisors(x, &divisors);
    LVN_TRY(lvn_model_files_stream(&files, names, n, model->values, true));
    struct lvn_safetensors_source source = files.source;
    enum lvn_status status = llama3 ? add_divisors(x, &source, &divisors) : LVN_OK;
    if (status == LVN_OK) status = lvn_gguf_write(path, &x->w, &source, model->type);
    lvn_model_files_release(&files);
    return status;
}

enum lvn_status lvn_gguf_model_write(const char *path, const struct lvn_gguf_model *model)
{
    LVN_TRY(lvn_gguf_model_check(&model->model_state->config));
    struct writer x = {.variant = model->model_state->config.model,
                       .config = lvn_model_resolved(&model->model_state->config)};
    lvn_arena_init(&x.arena);
    if (x.variant->gguf->derive) x.variant->gguf->derive(x.config.fields);
    enum lvn_status status = write_file(&x, path, model);
    json_decref(x.root);
    lvn_gguf_writer_release(&x.w);
    lvn_arena_release(&x.arena);
    return status;
}

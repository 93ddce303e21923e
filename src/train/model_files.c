/* model_files.c - a model in memory as config.json and model.safetensors of a dialect; see pretrained.h.
 *
 * Most tensors lie in the flat values as the file wants them. What must be turned or is zeros is made when the writer
 * asks for it, in one buffer as large as the largest of them: the model is never copied whole. Adapters are merged into
 * the weights that they stand beside. */
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "models/lora.h"
#include "train/dialect.h"

bool lvn_dialect_transposes(enum lvn_dialect d, const struct lvn_param *p)
{
    return d != LVN_DIALECT_HUGGINGFACE && p->kind == LVN_WEIGHT && strcmp(p->name, "lm_head.weight") != 0;
}

struct lvn_desc lvn_dialect_desc(enum lvn_dialect d, const struct lvn_param *p)
{
    return lvn_dialect_transposes(d, p) ? LVN_DESC(LVN_F32, p->desc.dim[1], p->desc.dim[0])
                                        : lvn_desc_make(LVN_F32, p->desc.rank, p->desc.dim);
}

/* How item i comes to be. */
struct source {
    const void *values; /* flat; NULL: zeros */
    const struct lvn_param *p;
    bool turned, merged;
    struct lvn_lora_pair adapter; /* merged: what with */
};

struct context {
    struct source *sources;
    const struct lvn_lora *lora;
    enum lvn_dtype type; /* of the values, and of what is made */
    /* In the arena: what is turned or merged; zeros for what is not there; for merging, a weight and its adapter. */
    void *made, *zeros;
    float *wide;
};

static const void *value_of(const struct context *c, const void *values, const struct lvn_param *p)
{
    return (const char *)values + p->offset * lvn_dtype_bytes(c->type);
}

static void merge(const struct context *c, const struct source *s)
{
    const struct lvn_param *w = s->p, *a = s->adapter.a, *b = s->adapter.b;
    float *wide_a = c->wide + w->count, *wide_b = wide_a + a->count;
    lvn_tensor_to_f32(c->type, value_of(c, s->values, w), c->wide, w->count);
    lvn_tensor_to_f32(c->type, value_of(c, s->values, a), wide_a, a->count);
    lvn_tensor_to_f32(c->type, value_of(c, s->values, b), wide_b, b->count);
    lvn_lora_merge(c->lora, w, wide_a, wide_b, c->wide);
    lvn_tensor_from_f32(c->type, c->wide, c->made, w->count);
}

static void turn(const void *from, void *to, int64_t rows, int64_t columns, int64_t bytes)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < columns; k++)
            memcpy((char *)to + (k * rows + r) * bytes, (const char *)from + (r * columns + k) * bytes, (size_t)bytes);
}

static enum lvn_status fetch(void *opaque, int i, const void **data)
{
    const struct context *c = opaque;
    const struct source *s = &c->sources[i];
    if (!s->values) {
        *data = c->zeros;
        return LVN_OK;
    }
    *data = c->made;
    if (s->merged)
        merge(c, s);
    else if (c->type == LVN_F32) /* a number that the compiler knows: half the time */
        turn(value_of(c, s->values, s->p), c->made, s->p->desc.dim[0], s->p->desc.dim[1], 4);
    else
        turn(value_of(c, s->values, s->p), c->made, s->p->desc.dim[0], s->p->desc.dim[1], lvn_dtype_bytes(c->type));
    return LVN_OK;
}

struct builder {
    struct lvn_model_files *f;
    struct context *c;
    struct lvn_safetensors_item *items;
    enum lvn_dialect dialect;
    const struct lvn_params *params;
    const void *values;
};

static enum lvn_status add(struct builder *b, const char *name, const struct lvn_param *p)
{
    int i = b->f->source.n++;
    bool turned = lvn_dialect_transposes(b->dialect, p);
    const char *copy = lvn_arena_strdup(&b->f->arena, name);
    if (!copy) return LVN_MEMORY;
    struct source s = {.values = b->values, .p = p, .turned = turned};
    s.merged = lvn_lora_find(b->params, p, &s.adapter);
    LVN_CHECK(!s.merged || !turned, UNSUPPORTED, "adapters are merged into Hugging Face's files only");
    b->c->sources[i] = s;
    bool made = turned || s.merged;
    b->items[i] = (struct lvn_safetensors_item){
        .name = copy, .desc = lvn_dialect_desc(b->dialect, p), .data = made ? NULL : value_of(b->c, b->values, p)};
    b->items[i].desc.dtype = b->c->type;
    return LVN_OK;
}

static enum lvn_status add_zeros(struct builder *b, const char *name, int64_t count)
{
    int i = b->f->source.n++;
    const char *copy = lvn_arena_strdup(&b->f->arena, name);
    if (!copy) return LVN_MEMORY;
    b->c->sources[i] = (struct source){0};
    b->items[i] = (struct lvn_safetensors_item){.name = copy, .desc = LVN_DESC(b->c->type, count)};
    return LVN_OK;
}

/* The bias that Hugging Face's GPT-2 has beside this weight, and a model without biases lacks: its size; 0: none. */
static int64_t missing_bias(const struct lvn_param *p, char name[512])
{
    size_t n = strlen(p->name);
    bool norm = p->kind == LVN_VECTOR, linear = p->kind == LVN_WEIGHT && strcmp(p->name, "lm_head.weight") != 0;
    if (n < 7 || strcmp(p->name + n - 7, ".weight") != 0 || (!norm && !linear)) return 0;
    snprintf(name, 512, "%.*s.bias", (int)(n - 7), p->name);
    return norm ? p->count : p->desc.dim[1];
}

static enum lvn_status add_all(struct builder *b, const struct lvn_model_config *c, const struct lvn_params *params,
                               bool gradients)
{
    bool fill = b->dialect == LVN_DIALECT_HUGGINGFACE && !c->bias && !gradients;
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *p = params->list[i];
        char name[512];
        if (p->adapter) continue;
        LVN_TRY(add(b, p->name, p));
        int64_t zeros = fill ? missing_bias(p, name) : 0;
        if (zeros) LVN_TRY(add_zeros(b, name, zeros));
        /* nanoGPT's and minGPT's state dicts hold a tied head twice. */
        bool twice = c->tied && !gradients && b->dialect != LVN_DIALECT_HUGGINGFACE;
        if (twice && p->kind == LVN_EMBEDDING && strcmp(p->name, "transformer.wte.weight") == 0)
            LVN_TRY(add(b, "lm_head.weight", p));
    }
    return LVN_OK;
}

static enum lvn_status make_source(struct lvn_model_files *f, enum lvn_dialect dialect,
                                   const struct lvn_model_config *c, const struct lvn_params *params,
                                   const void *values, enum lvn_dtype type, bool gradients)
{
    int64_t most = 1, longest = 1, adapter = 0;
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *p = params->list[i];
        bool made = lvn_dialect_transposes(dialect, p) || c->lora.rank;
        if (made && p->kind == LVN_WEIGHT && p->count > most) most = p->count;
        if (p->adapter && p->count > adapter) adapter = p->count;
        for (int k = 0; k < p->desc.rank; k++)
            if (p->kind != LVN_EMBEDDING && p->desc.dim[k] > longest) longest = p->desc.dim[k];
    }
    size_t n = 2 * (size_t)params->n + 1;
    struct context *x = lvn_arena_alloc(&f->arena, sizeof *x);
    struct builder b = {.f = f, .c = x, .dialect = dialect, .params = params, .values = values};
    b.items = lvn_arena_alloc(&f->arena, sizeof *b.items * n);
    if (!x || !b.items) return LVN_MEMORY;
    x->sources = lvn_arena_alloc(&f->arena, sizeof *x->sources * n);
    x->type = type;
    x->made = lvn_arena_alloc(&f->arena, (size_t)(lvn_dtype_bytes(type) * most));
    x->zeros = lvn_arena_alloc(&f->arena, (size_t)(lvn_dtype_bytes(type) * longest));
    x->wide = lvn_arena_alloc(&f->arena, sizeof(float) * (adapter ? (size_t)(most + 2 * adapter) : 1));
    x->lora = &c->lora;
    if (!x->sources || !x->made || !x->zeros || !x->wide) return LVN_MEMORY;
    f->source.item = b.items;
    f->source.fetch = fetch;
    f->source.context = x;
    return add_all(&b, c, params, gradients);
}

/* --- config.json --- */

enum { END_OF_TEXT = 50256 };

static json_t *huggingface_config(const struct lvn_model_config *c, enum lvn_dtype type)
{
    /* transformers' default is GPT-2's end of text, and it complains where the vocabulary has no such token */
    bool has_end = c->vocab_size > END_OF_TEXT;
    bool known = lvn_model_find(c->model->name) == c->model; /* a program's own model is nobody's GPT-2 */
    json_t *begin = has_end ? json_integer(END_OF_TEXT) : json_null(), *end = json_incref(begin);
    return json_pack("{s:s, s:[s], s:o, s:o, s:s, s:b, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:I, s:s, s:{s:s, s:b}}",
                     "model_type", known ? "gpt2" : c->model->name, "architectures",
                     known ? "GPT2LMHeadModel" : c->model->name, "bos_token_id", begin, "eos_token_id", end,
                     "activation_function", c->gelu_tanh ? "gelu_new" : "gelu", "tie_word_embeddings", c->tied,
                     "embd_pdrop", c->dropout_embedding, "resid_pdrop", c->dropout_residual, "attn_pdrop",
                     c->dropout_attention, "layer_norm_epsilon", c->eps, "n_layer", (json_int_t)c->n_layer, "n_head",
                     (json_int_t)c->n_head, "n_embd", (json_int_t)c->n_embd, "n_positions", (json_int_t)c->n_positions,
                     "vocab_size", (json_int_t)c->vocab_size, "dtype", type == LVN_BF16 ? "bfloat16" : "float32",
                     "levin", "kind", c->model->name, "bias", c->bias);
}

static json_t *nanogpt_config(const struct lvn_model_config *c, enum lvn_dtype type)
{
    (void)type;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:b, s:f}", "model_type", "nanogpt", "n_layer",
                     (json_int_t)c->n_layer, "n_head", (json_int_t)c->n_head, "n_embd", (json_int_t)c->n_embd,
                     "block_size", (json_int_t)c->n_positions, "vocab_size", (json_int_t)c->vocab_size, "bias", c->bias,
                     "dropout", c->dropout_residual);
}

static json_t *mingpt_config(const struct lvn_model_config *c, enum lvn_dtype type)
{
    (void)type;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "model_type", "mingpt", "n_layer",
                     (json_int_t)c->n_layer, "n_head", (json_int_t)c->n_head, "n_embd", (json_int_t)c->n_embd,
                     "block_size", (json_int_t)c->n_positions, "vocab_size", (json_int_t)c->vocab_size, "embd_pdrop",
                     c->dropout_embedding, "resid_pdrop", c->dropout_residual, "attn_pdrop", c->dropout_attention);
}

/* A dialect has no word for some differences: saying nothing would load back as another model. */
static enum lvn_status check_dialect(enum lvn_dialect d, const struct lvn_model_config *c)
{
    if (d == LVN_DIALECT_NANOGPT)
        LVN_CHECK(c->tied && !c->gelu_tanh, UNSUPPORTED,
                  "nanoGPT's models have a tied head and the erf GELU, this one %s; write it as %s",
                  c->tied ? "the tanh GELU" : "a head of its own", c->tied ? "huggingface" : "mingpt or huggingface");
    if (d == LVN_DIALECT_MINGPT)
        LVN_CHECK(!c->tied && c->gelu_tanh && c->bias, UNSUPPORTED,
                  "minGPT's models have a head of their own, the tanh GELU and biases, this one %s; write it as %s",
                  c->tied    ? "a tied head"
                  : !c->bias ? "no biases"
                             : "the erf GELU",
                  c->tied && !c->gelu_tanh ? "nanogpt or huggingface" : "huggingface");
    return LVN_OK;
}

static enum lvn_status make_config(struct lvn_model_files *f, enum lvn_dialect d, const struct lvn_model_config *c,
                                   enum lvn_dtype type)
{
    static json_t *(*const make[])(const struct lvn_model_config *,
                                   enum lvn_dtype) = {[LVN_DIALECT_HUGGINGFACE] = huggingface_config,
                                                      [LVN_DIALECT_NANOGPT] = nanogpt_config,
                                                      [LVN_DIALECT_MINGPT] = mingpt_config};
    json_t *root = make[d](c, type);
    if (!root) LVN_FAIL(MEMORY, "not enough memory for config.json");
    lvn_json_add(&f->config, root, 2);
    lvn_text_add(&f->config, "\n");
    json_decref(root);
    return lvn_text_status(&f->config);
}

enum lvn_status lvn_model_files_make(struct lvn_model_files *f, enum lvn_dialect dialect,
                                     const struct lvn_model_config *c, const struct lvn_params *params,
                                     const void *values, enum lvn_dtype type, bool gradients)
{
    *f = (struct lvn_model_files){0};
    lvn_arena_init(&f->arena);
    enum lvn_status status = check_dialect(dialect, c);
    if (status == LVN_OK) status = make_config(f, dialect, c, type);
    if (status == LVN_OK) status = make_source(f, dialect, c, params, values, type, gradients);
    if (status != LVN_OK) lvn_model_files_release(f);
    return status;
}

void lvn_model_files_release(struct lvn_model_files *f)
{
    lvn_text_release(&f->config);
    lvn_arena_release(&f->arena);
    *f = (struct lvn_model_files){0};
}

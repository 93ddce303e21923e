/* pretrained_adapters.c - a pretrained model that consists of a base model and adapters; see pretrained.h.
 *
 * The base is a MODEL like any other, so it may have adapters itself. Adapters are merged when a parameter is read:
 * callers get the same values as from an ordinary model. */

#include "base/files.h"
#include "graph/names.h"
#include "model_io/pretrained_private.h"
#include "models/keys.h"
#include "models/lora.h"
#include "stores/store.h"
#include "tokenizers/tokenizer.h"

/* --- opening --- */

/* A relative path is relative to the working folder, as in PEFT, or else to the adapters' folder. */
static const char *place_of(struct lvn_pretrained *p, const char *name)
{
    const char *path = lvn_path_join(&p->arena, p->adapters.dir, name);
    bool here = lvn_store_is_url(name) || name[0] == '/' || name[0] == '~' || lvn_path_exists(name);
    return here || !path || !lvn_path_exists(path) ? name : path;
}

static enum lvn_status check_sum(const struct lvn_pretrained *p)
{
    char sum[LVN_CHECKSUM_TEXT];
    uint64_t value;
    if (!p->adapters.sum) return LVN_OK;
    LVN_TRY(lvn_pretrained_checksum(p->base, &value));
    LVN_CHECK(strcmp(lvn_checksum_text(value, sum), p->adapters.sum) == 0, FORMAT,
              "the base model '%s' is not the one that the adapters in '%s' were trained with: its weights have the "
              "checksum %s, expected %s; put the former weights back, or name their path (--lora.base=PATH, `levin "
              "export --base PATH`)",
              p->base->path, p->adapters.dir, sum, p->adapters.sum);
    return LVN_OK;
}

static enum lvn_status open_base(struct lvn_pretrained *p, const char *given, int depth)
{
    const char *name = given && *given ? given : p->adapters.base;
    LVN_CHECK(name, FORMAT,
              "'%s/%s' names no base model (base_model_name_or_path): say which (--lora.base=PATH, `levin export "
              "--base PATH`)",
              p->adapters.dir, LVN_ADAPTERS_CONFIG);
    const bool by_user = given && *given, hub = !strncmp(name, "hf://", 5);
    LVN_CHECK(
        by_user || !lvn_store_is_remote(name) || hub, ARG,
        "'%s/%s' names the base model '%s', and an address is fetched, with your credentials, only if you name it "
        "yourself: %s",
        p->adapters.dir, LVN_ADAPTERS_CONFIG, name,
        depth ? "merge these adapters with it first (`levin export --base ADDRESS`), and use the result"
              : "--lora.base=ADDRESS, or lora.base in a recipe (`levin export --base ADDRESS`)");
    p->base = lvn_calloc(1, sizeof *p->base);
    if (!p->base) return LVN_MEMORY;
    enum lvn_status status = lvn_pretrained_open_at(p->base, place_of(p, name), "best", NULL, depth + 1);
    if (status == LVN_OK) return check_sum(p);
    free(p->base);
    p->base = NULL;
    return lvn_while_at(status,
                        "opening '%s', the base model of the adapters in '%s'; if it is elsewhere now, name it "
                        "(--lora.base=PATH, `levin export --base PATH`)",
                        name, p->adapters.dir);
}

/* The output layer of a head is the last of its parameters: "classifier" of "bert.pooler, classifier". */
static const struct lvn_weight *output_of(const struct lvn_pretrained *p, const struct lvn_head *h)
{
    const char *comma = h->params ? strrchr(h->params, ',') : NULL, *last = comma ? comma + 2 : h->params;
    for (int i = 0; last && i < p->adapters.weights.n; i++) {
        const struct lvn_weight *t = &p->adapters.weights.tensor[i];
        if (t->desc.rank == 2 && !strstr(t->name, ".lora_") && lvn_names_match(last, t->name)) return t;
    }
    return NULL;
}

/* Adapters without config.json have the head that is stored whole with them. */
static enum lvn_status find_head(struct lvn_pretrained *p)
{
    const struct lvn_head *h = lvn_model_head_of(p->config.model, LVN_LABEL_CLASS);
    const struct lvn_weight *t = h ? output_of(p, h) : NULL;
    const struct lvn_head *tokens = t ? NULL : lvn_model_head_of(p->config.model, LVN_LABEL_TOKEN);
    if (tokens && !lvn_model_predicts(&p->config, LVN_LABEL_TOKEN) && output_of(p, tokens))
        lvn_model_set_head(&p->config, tokens, p->config.classes);
    if (!t || (p->config.head == h && p->config.classes == t->desc.dim[0])) return LVN_OK;
    if (t->desc.dim[0] == 1) h = lvn_model_head_of(p->config.model, LVN_LABEL_NUMBER);
    lvn_model_set_head(&p->config, h, t->desc.dim[0]);
    return LVN_OK;
}

/* PEFT trains a copy of an embedding or a head that it saves whole. What the base ties to it stays as it was, so from
 * then on the model is untied. */
static void untie(struct lvn_pretrained *p)
{
    static const char *const embeddings[] = {"model.embed_tokens.weight", "transformer.wte.weight",
                                             "gpt_neox.embed_in.weight"};
    const struct lvn_head *h = p->config.head;
    const struct lvn_key *tie = p->variant->keys;
    const char *prefix = p->variant->prefix, *name = NULL;
    bool embedding = false, head = false;
    while (tie->kind && (!tie->json || strcmp(tie->json, "tie_word_embeddings") != 0)) tie++;
    for (int i = 0; prefix && i < 3; i++)
        if (strncmp(embeddings[i], prefix, strlen(prefix)) == 0) name = embeddings[i];
    if (tie->kind != LVN_KEY_BOOL || !name || !h || h->label != LVN_LABEL_TOKEN || !lvn_key_get(tie, &p->config))
        return;
    for (int i = 0; i < p->adapters.weights.n; i++) {
        const char *tensor = p->adapters.weights.tensor[i].name;
        if (strstr(tensor, ".lora_")) continue;
        embedding |= lvn_ends_with(tensor, name + strlen(prefix));
        head |= lvn_names_match(h->params, tensor);
    }
    if (!head && (!embedding || p->adapters.keeps_ties)) return;
    lvn_key_set(tie, &p->config, 0);
    p->was_tied = name;
}

/* The base's parameter that becomes q: for a head that was tied there, the embedding. */
static struct lvn_param base_of(const struct lvn_pretrained *p, const struct lvn_param *q)
{
    struct lvn_param b = *q;
    if (p->was_tied && lvn_names_match(p->config.head->params, q->name)) b.name = p->was_tied;
    return b;
}

static enum lvn_status find_codec(struct lvn_pretrained *p)
{
    const char *characters = lvn_path_join(&p->arena, p->path, "state/vocabulary.json");
    if (!characters) return LVN_MEMORY;
    p->dir = lvn_path_is_file(characters) || lvn_tokenizer_exists(p->path) ? p->path : p->base->dir;
    return LVN_OK;
}

enum lvn_status lvn_pretrained_fit_tokens(struct lvn_pretrained *p, bool fixed)
{
    const struct lvn_lora *lora = &p->adapters.lora;
    int64_t rows = lvn_model_value(&p->config, LVN_ROLE_VOCABULARY), most = 0;
    for (int i = 0; i < lora->n_tokens; i++) most = lora->tokens[i] >= most ? lora->tokens[i] + 1 : most;
    LVN_CHECK(most <= rows || !fixed, ARG,
              "'%s/%s' has trained rows of the token %lld (trainable_token_indices), and the model has %lld tokens",
              p->adapters.dir, LVN_ADAPTERS_CONFIG, (long long)most - 1, (long long)rows);
    if (most > rows) lvn_model_set(&p->config, LVN_ROLE_VOCABULARY, most);
    return LVN_OK;
}

enum lvn_status lvn_pretrained_open_adapters(struct lvn_pretrained *p, const char *dir, const char *base, int depth)
{
    enum { DEEPEST = 8 };
    LVN_CHECK(depth < DEEPEST, FORMAT,
              "the base model of the adapters in '%s' consists of adapters, too, and so on, more than %d times: does a "
              "base model name itself?",
              dir, DEEPEST);
    const char *config = lvn_path_join(&p->arena, p->path, "config.json");
    if (!config) return LVN_MEMORY;
    LVN_TRY(lvn_adapter_files_open(&p->adapters, dir));
    LVN_TRY(open_base(p, base, depth));
    p->config = p->base->config;
    p->files = p->variant = p->base->variant;
    LVN_TRY(lvn_path_is_file(config) ? lvn_pretrained_config(p) : find_head(p));
    LVN_TRY(lvn_pretrained_fit_tokens(p, lvn_path_is_file(config)));
    untie(p);
    LVN_TRY(find_codec(p));
    return lvn_pretrained_check(p);
}

/* --- what belongs together --- */

/* The adapters' tensors of one parameter; NULL: none. */
struct found {
    struct lvn_layout layout[4];
    const struct lvn_weight *whole, *a, *b, *rows;
};

static enum lvn_status find(const struct lvn_pretrained *p, const struct lvn_param *q, struct found *f)
{
    const struct lvn_adapter_files *files = &p->adapters;
    *f = (struct found){0};
    LVN_TRY(lvn_adapter_layout(p->variant, &p->config, q, files->lora.rank, '\0', &f->layout[0]));
    f->whole = lvn_adapter_find(files, p->variant, &f->layout[0]);
    if (q->desc.rank != 2) return LVN_OK;
    LVN_TRY(lvn_adapter_layout(p->variant, &p->config, q, files->lora.rank, 'A', &f->layout[1]));
    LVN_TRY(lvn_adapter_layout(p->variant, &p->config, q, files->lora.rank, 'B', &f->layout[2]));
    f->a = lvn_adapter_find(files, p->variant, &f->layout[1]);
    f->b = lvn_adapter_find(files, p->variant, &f->layout[2]);
    LVN_TRY(lvn_adapter_layout(p->variant, &p->config, q, files->lora.n_tokens, 'R', &f->layout[3]));
    f->rows = q->kind == LVN_EMBEDDING ? lvn_adapter_find(files, p->variant, &f->layout[3]) : NULL;
    LVN_CHECK(!f->a == !f->b, FORMAT, "'%s' has '%s' without its other half, '%s'", files->path,
              f->layout[f->a ? 1 : 2].name, f->layout[f->a ? 2 : 1].name);
    return LVN_OK;
}

static enum lvn_status check_shape(const struct lvn_weight *t, const struct lvn_layout *l)
{
    char have[LVN_SHAPE_TEXT], want[LVN_SHAPE_TEXT];
    LVN_CHECK(!t || lvn_desc_same_shape(&t->desc, &l->desc), FORMAT,
              "'%s': '%s' has shape %s, and this base model needs %s: these adapters were made for another model",
              t->file, t->name, lvn_shape_text(&t->desc, have), lvn_shape_text(&l->desc, want));
    return LVN_OK;
}

/* The first tensor of the adapters for which the base has no parameter; those of a replaced head are skipped. */
static const char *find_stray(const struct lvn_pretrained *p, const struct lvn_params *params)
{
    const struct lvn_head *classify = lvn_model_head_of(p->config.model, LVN_LABEL_CLASS);
    for (int i = 0; i < p->adapters.weights.n; i++) {
        const char *name = p->adapters.weights.tensor[i].name;
        bool known = p->config.fresh_head && classify && lvn_names_match(classify->params, name);
        for (int k = 0; k < params->n && !known; k++) {
            struct found f;
            if (find(p, params->list[k], &f) != LVN_OK) continue;
            const struct lvn_weight *t = &p->adapters.weights.tensor[i];
            known = t == f.whole || t == f.a || t == f.b || t == f.rows;
        }
        if (!known) return name;
    }
    return NULL;
}

enum lvn_status lvn_pretrained_check_adapters(const struct lvn_pretrained *p, const struct lvn_params *params)
{
    int seen = 0;
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *q = params->list[i];
        struct found f;
        bool there;
        LVN_TRY(find(p, q, &f));
        LVN_TRY(check_shape(f.whole, &f.layout[0]));
        LVN_TRY(check_shape(f.a, &f.layout[1]));
        LVN_TRY(check_shape(f.b, &f.layout[2]));
        LVN_TRY(check_shape(f.rows, &f.layout[3]));
        seen += (f.whole != NULL) + 2 * (f.a != NULL) + (f.rows != NULL);
        LVN_TRY(lvn_pretrained_holds(p, q, &there));
        LVN_CHECK(there, FORMAT, "neither the adapters in '%s' nor their base model '%s' have '%s'", p->adapters.dir,
                  p->base->path, q->name);
    }
    const char *stray = seen == p->adapters.weights.n ? NULL : find_stray(p, params);
    LVN_CHECK(
        !stray, FORMAT,
        "'%s' holds '%s', and the base model '%s' has no linear layer for it: these adapters were made for another "
        "model, or for parts that levin does not adapt, as an embedding or a head that is tied to it: merge them with "
        "PEFT first",
        p->adapters.path, stray, p->base->path);
    return LVN_OK;
}

enum lvn_status lvn_pretrained_holds_adapters(const struct lvn_pretrained *p, const struct lvn_param *q, bool *there)
{
    struct found f;
    LVN_TRY(find(p, q, &f));
    *there = true;
    const struct lvn_param b = base_of(p, q);
    return f.whole ? LVN_OK : lvn_pretrained_holds(p->base, &b, there);
}

/* --- values --- */

static enum lvn_status merge(const struct lvn_pretrained *p, const struct lvn_param *q, const struct found *f,
                             float *to, float *values)
{
    const int64_t a = lvn_desc_count(&f->layout[1].desc), b = lvn_desc_count(&f->layout[2].desc);
    float *scratch = values + a + b;
    LVN_TRY(lvn_adapter_read(f->a, &f->layout[1], values, scratch));
    LVN_TRY(lvn_adapter_read(f->b, &f->layout[2], values + a, scratch));
    const bool in_out = (f->layout[1].flags & LVN_FILE_TRANSPOSED) != 0;
    lvn_lora_merge(&p->adapters.lora, q, in_out ? values : values + a, in_out ? values + a : values, to);
    return LVN_OK;
}

static enum lvn_status put_rows(const struct lvn_pretrained *p, const struct lvn_param *q, const struct found *f,
                                float *to)
{
    const int64_t n = lvn_desc_count(&f->layout[3].desc);
    for (int i = 0; i < p->adapters.lora.n_tokens; i++)
        LVN_CHECK(p->adapters.lora.tokens[i] < q->desc.dim[0], ARG,
                  "'%s' has a trained row for the token %d, but the vocabulary has only %lld tokens", p->adapters.path,
                  p->adapters.lora.tokens[i], (long long)q->desc.dim[0]);
    float *rows = lvn_malloc(sizeof *rows * (size_t)(2 * n));
    enum lvn_status status = rows ? lvn_adapter_read(f->rows, &f->layout[3], rows, rows + n) : LVN_MEMORY;
    if (status == LVN_OK) lvn_lora_put_rows(&p->adapters.lora, f->layout[3].desc.dim[1], rows, to);
    free(rows);
    return status;
}

enum lvn_status lvn_pretrained_adapted(const struct lvn_pretrained *p, const struct lvn_param *q, float *to,
                                       float *scratch)
{
    struct found f;
    LVN_TRY(find(p, q, &f));
    if (f.whole) return lvn_adapter_read(f.whole, &f.layout[0], to, scratch);
    const struct lvn_param base = base_of(p, q);
    LVN_TRY(lvn_pretrained_values(p->base, &base, to, scratch));
    if (p->apart) return LVN_OK;
    if (f.rows) LVN_TRY(put_rows(p, q, &f, to));
    if (!f.a) return LVN_OK;
    const int64_t a = lvn_desc_count(&f.layout[1].desc), b = lvn_desc_count(&f.layout[2].desc);
    float *values = lvn_malloc(sizeof *values * (size_t)(a + b + (a > b ? a : b)));
    enum lvn_status status = values ? merge(p, q, &f, to, values) : LVN_MEMORY;
    free(values);
    return status;
}

bool lvn_pretrained_adapts_whole(const struct lvn_pretrained *p, const struct lvn_param *q)
{
    struct found f;
    const bool known = find(p, q, &f) == LVN_OK;
    if (!known) lvn_error_clear(); /* loading reports it */
    return !known || f.whole;
}

enum lvn_status lvn_pretrained_keep_adapters(struct lvn_pretrained *p, struct lvn_model_config *c)
{
    if (!p->base) return LVN_OK;
    const int n = p->adapters.lora.n_tokens;
    int32_t *tokens = lvn_arena_alloc(&p->arena, sizeof *tokens * (size_t)(n + 1));
    if (!tokens) return LVN_MEMORY;
    c->lora = p->adapters.lora;
    c->lora.dropout = 0;
    for (int i = 0; i < n; i++) { /* in rising order */
        int at = i;
        for (; at > 0 && tokens[at - 1] > p->adapters.lora.tokens[i]; at--) tokens[at] = tokens[at - 1];
        tokens[at] = p->adapters.lora.tokens[i];
    }
    c->lora.tokens = tokens;
    p->apart = true;
    return lvn_adapter_files_targets(&p->arena, p->adapters.dir, &c->lora.targets);
}

/* --- the checksum --- */

static void add_tensor(struct lvn_checksum *c, const char *name, const struct lvn_desc *d)
{
    int64_t shape[2] = {(int64_t)d->dtype, d->rank};
    lvn_checksum_add(c, name, (int64_t)strlen(name) + 1);
    lvn_checksum_add(c, shape, (int64_t)sizeof shape);
    lvn_checksum_add(c, d->dim, (int64_t)sizeof d->dim[0] * d->rank);
}

/* Tensors of torch.save() may be views: elements are hashed in the order of the shape. */
static void add_weight(struct lvn_checksum *c, const struct lvn_weight *t)
{
    enum { STEP = 4096 };
    float part[STEP];
    const int64_t count = lvn_desc_count(&t->desc), each = lvn_dtype_bytes(t->desc.dtype);
    add_tensor(c, t->name, &t->desc);
    if (!t->packed && lvn_desc_contiguous(&t->desc)) {
        lvn_checksum_add(c, (const char *)t->data + t->desc.offset * each, count * each);
        return;
    }
    for (int64_t i = 0; i < count; i += STEP) {
        const int64_t n = count - i < STEP ? count - i : STEP;
        lvn_weight_read(t, i, n, part);
        lvn_checksum_add(c, part, n * (int64_t)sizeof part[0]);
    }
}

enum lvn_status lvn_pretrained_checksum(const struct lvn_pretrained *p, uint64_t *sum)
{
    struct lvn_checksum c;
    lvn_checksum_init(&c);
    for (int i = 0; i < p->weights.n; i++) {
        add_weight(&c, &p->weights.tensor[i]);
        lvn_weights_evict(&p->weights);
    }
    if (p->base) {
        uint64_t base;
        LVN_TRY(lvn_pretrained_checksum(p->base, &base));
        lvn_checksum_add(&c, &base, (int64_t)sizeof base);
        lvn_checksum_add(&c, &p->adapters.lora.alpha, (int64_t)sizeof p->adapters.lora.alpha);
        if (p->adapters.lora.rslora) lvn_checksum_add(&c, "rslora", 6);
        const int32_t *tokens = p->adapters.lora.tokens;
        if (tokens) lvn_checksum_add(&c, tokens, (int64_t)sizeof *tokens * p->adapters.lora.n_tokens);
        for (int i = 0; i < p->adapters.weights.n; i++) add_weight(&c, &p->adapters.weights.tensor[i]);
    }
    *sum = lvn_checksum_value(&c);
    return LVN_OK;
}

/* model_files.c - see model_files.h.
 *
 * Most tensors have the file's layout in the flat values already. Those in another layout, and zeros, are made when the
 * writer requests them, in one buffer of the size of the largest: the model is never copied whole. Adapters are merged
 * into the weights that they adapt. */
#include "model_io/model_files.h"
#include "model_io/model_config.h"
#include "model_io/pretrained.h"
#include "models/lora.h"
#include "models/weight_files.h"

/* The origin of item i. */
struct source {
    const struct lvn_memory *values; /* flat; NULL: zeros */
    const struct lvn_param *p;
    const struct lvn_layout *layout;
    bool merged;
    struct lvn_lora_pair adapter; /* the adapter, if merged */
};

struct context {
    struct source *sources;
    const struct lvn_lora *lora;
    enum lvn_dtype type; /* of the values, and of the tensors made from them */
    /* In the arena: a tensor in the layout of the file; a merged one in the order of memory; zeros; for merging, a
     * weight and its adapter in fp32. */
    void *made, *merged, *zeros;
    void *capacity; /* for one parameter, if the processor cannot address it */
    float *wide;
};

/* A parameter's values, valid until the next call; NULL: they cannot be read. */
static const void *value_of(const struct context *c, const struct lvn_memory *values, const struct lvn_param *p)
{
    const int64_t each = lvn_dtype_bytes(c->type);
    return lvn_memory_view(values, p->offset * each, p->count * each, c->capacity);
}

static enum lvn_status cast_up(const struct context *c, const struct source *s, const struct lvn_param *p, float *to)
{
    const void *values = value_of(c, s->values, p);
    if (!values) return LVN_INTERNAL;
    lvn_tensor_to_f32(c->type, values, to, p->count);
    return LVN_OK;
}

static enum lvn_status merge(const struct context *c, const struct source *s, void *to)
{
    const struct lvn_param *w = s->p, *a = s->adapter.a, *b = s->adapter.b;
    float *wide_a = c->wide + w->count, *wide_b = wide_a + a->count;
    LVN_TRY(cast_up(c, s, w, c->wide));
    LVN_TRY(cast_up(c, s, a, wide_a));
    LVN_TRY(cast_up(c, s, b, wide_b));
    lvn_lora_merge(c->lora, w, wide_a, wide_b, c->wide);
    lvn_tensor_from_f32(c->type, c->wide, to, w->count);
    return LVN_OK;
}

static enum lvn_status fetch(void *opaque, int i, const void **data)
{
    const struct context *c = opaque;
    const struct source *s = &c->sources[i];
    if (!s->values) {
        *data = c->zeros;
        return LVN_OK;
    }
    bool moves = lvn_layout_moves(s->layout);
    const void *values = s->merged ? moves ? c->merged : c->made : value_of(c, s->values, s->p);
    if (!values) return LVN_INTERNAL;
    if (s->merged) LVN_TRY(merge(c, s, moves ? c->merged : c->made));
    if (moves) lvn_layout_to_file(s->layout, lvn_dtype_bytes(c->type), values, c->made);
    *data = moves ? c->made : values;
    return LVN_OK;
}

struct builder {
    struct lvn_model_files *f;
    struct context *c;
    struct lvn_safetensors_item *items;
    const struct lvn_model *variant;
    const struct lvn_model_config *config;
    const struct lvn_params *params;
    const struct lvn_memory *values;
};

static enum lvn_status add(struct builder *b, const char *name, const struct lvn_param *p)
{
    struct lvn_layout *l = lvn_arena_alloc(&b->f->arena, sizeof *l);
    if (!l) return LVN_MEMORY;
    LVN_TRY(lvn_file_layout(b->variant, b->config, p, l));
    const char *copy = name ? lvn_arena_strdup(&b->f->arena, name) : l->name;
    if (!copy) return LVN_MEMORY;
    int i = b->f->source.n++;
    struct source s = {.values = b->values, .p = p, .layout = l};
    s.merged = lvn_lora_find(b->params, p, &s.adapter);
    b->c->sources[i] = s;
    bool made = lvn_layout_moves(l) || s.merged || !b->values->host;
    b->items[i] = (struct lvn_safetensors_item){
        .name = copy, .desc = l->desc, .data = made ? NULL : value_of(b->c, b->values, p)};
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

static enum lvn_status add_all(struct builder *b, bool gradients)
{
    for (int i = 0; i < b->params->n; i++) {
        const struct lvn_param *p = b->params->list[i];
        char name[LVN_FILE_NAME];
        unsigned flags;
        if (p->adapter) continue;
        LVN_TRY(add(b, NULL, p));
        for (int row = 0; !gradients && (flags = lvn_file_next_extra(b->variant, b->params, p, &row, name));)
            LVN_TRY(flags & LVN_FILE_DUPLICATE ? add(b, name, p) : add_zeros(b, name, p->desc.dim[p->desc.rank - 1]));
    }
    return LVN_OK;
}

/* Upper bounds: the number of items, and the largest tensor that is made, is zeros, is an adapter, is a parameter. */
struct extent {
    int items;
    int64_t made, zeros, adapter, param;
};

static enum lvn_status measure(const struct builder *b, struct extent *e)
{
    struct lvn_layout l;
    char name[LVN_FILE_NAME];
    *e = (struct extent){.made = 1, .zeros = 1};
    for (int i = 0; i < b->params->n; i++) {
        const struct lvn_param *p = b->params->list[i];
        struct lvn_lora_pair pair;
        LVN_TRY(lvn_file_layout(b->variant, b->config, p, &l));
        bool made = lvn_layout_moves(&l) || lvn_lora_find(b->params, p, &pair);
        int64_t columns = p->desc.dim[p->desc.rank - 1];
        e->items++;
        for (int row = 0; lvn_file_next_extra(b->variant, b->params, p, &row, name); e->items++)
            if (columns > e->zeros) e->zeros = columns;
        if (made && p->count > e->made) e->made = p->count;
        if (p->adapter && p->count > e->adapter) e->adapter = p->count;
        if (p->count > e->param) e->param = p->count;
    }
    return LVN_OK;
}

static enum lvn_status make_source(struct builder *b, enum lvn_dtype type, bool gradients)
{
    struct lvn_model_files *f = b->f;
    struct extent e;
    LVN_TRY(measure(b, &e));
    size_t each = (size_t)lvn_dtype_bytes(type), n = (size_t)e.items + 1;
    struct context *x = lvn_arena_alloc(&f->arena, sizeof *x);
    b->items = lvn_arena_alloc(&f->arena, sizeof *b->items * n);
    b->c = x;
    if (!x || !b->items) return LVN_MEMORY;
    x->sources = lvn_arena_alloc(&f->arena, sizeof *x->sources * n);
    x->type = type;
    x->made = lvn_arena_alloc(&f->arena, each * (size_t)e.made);
    x->merged = lvn_arena_alloc(&f->arena, e.adapter ? each * (size_t)e.made : 1);
    x->zeros = lvn_arena_alloc(&f->arena, each * (size_t)e.zeros);
    x->wide = lvn_arena_alloc(&f->arena, sizeof(float) * (e.adapter ? (size_t)(e.made + 2 * e.adapter) : 1));
    x->capacity = b->values->host ? NULL : lvn_arena_alloc(&f->arena, each * (size_t)e.param);
    x->lora = &b->config->lora;
    if (!x->sources || !x->made || !x->merged || !x->zeros || !x->wide) return LVN_MEMORY;
    if (!b->values->host && !x->capacity) return LVN_MEMORY;
    f->source.item = b->items;
    f->source.fetch = fetch;
    f->source.context = x;
    return add_all(b, gradients);
}

enum lvn_status lvn_model_files_make(struct lvn_model_files *f, const struct lvn_model *variant,
                                     const struct lvn_model_config *c, const struct lvn_params *params,
                                     const struct lvn_memory *values, enum lvn_dtype type, bool gradients)
{
    struct builder b = {.f = f, .variant = variant, .config = c, .params = params, .values = values};
    *f = (struct lvn_model_files){0};
    lvn_arena_init(&f->arena);
    enum lvn_status status = lvn_model_check_variant(variant, c);
    if (status == LVN_OK) status = lvn_config_write(&f->config, variant, c, type);
    if (status == LVN_OK) status = make_source(&b, type, gradients);
    if (status != LVN_OK) lvn_model_files_release(f);
    return status;
}

void lvn_model_files_release(struct lvn_model_files *f)
{
    lvn_text_release(&f->config);
    lvn_arena_release(&f->arena);
    *f = (struct lvn_model_files){0};
}

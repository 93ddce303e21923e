/* model_files.c - see model_files.h.
 *
 * Most tensors have the file's layout in the flat values already. Those in another layout, and zeros, are made when the
 * writer requests them, in one buffer of the size of the largest: the model is never copied whole. Adapters are merged
 * into the weights that they adapt. */
#include "model_io/model_files.h"
#include "engine/shard_files.h"
#include "model_io/model_config.h"
#include "model_io/pretrained.h"
#include "models/lora.h"
#include "models/weight_files.h"

/* The origin of item i. */
struct source {
    const struct lvn_param *p; /* NULL: zeros */
    const struct lvn_layout *layout;
    bool merged;
    struct lvn_lora_pair adapter; /* the adapter, if merged */
};

struct context {
    struct source *sources;
    const struct lvn_model_state *model_state;
    enum lvn_parameters_of of;
    struct lvn_model_values values; /* read NULL: those of the model state */
    enum lvn_dtype type;            /* of the values, and of the tensors made from them */
    /* In the arena: a tensor in the layout of the file; a merged one in the order of memory; zeros; for merging, a
     * weight and its adapter in fp32, or a parameter of `values`, if the type is another one. */
    void *made, *merged, *zeros;
    void *scratch; /* for one parameter, if the processor cannot address it */
    float *wide;
};

/* A parameter's values, valid until the next call; NULL: they cannot be read. */
static const void *value_of(const struct context *c, const struct lvn_param *p)
{
    if (c->values.read) {
        float *to = c->type == LVN_F32 ? c->scratch : c->wide;
        if (c->values.read(c->values.context, p, to) != LVN_OK) return NULL;
        if (to != c->scratch) lvn_tensor_from_f32(c->type, to, c->scratch, p->count);
        return c->scratch;
    }
    const struct lvn_parameter_window w = lvn_parameters_at(c->model_state, c->of, p);
    return lvn_parameter_view(&w, c->scratch);
}

static enum lvn_status cast_up(const struct context *c, const struct lvn_param *p, float *to)
{
    const void *values = value_of(c, p);
    if (!values) return LVN_INTERNAL;
    lvn_tensor_to_f32(c->type, values, to, p->count);
    return LVN_OK;
}

static enum lvn_status merge(const struct context *c, const struct source *s, void *to)
{
    const struct lvn_param *w = s->p, *a = s->adapter.a, *b = s->adapter.b, *rows = s->adapter.rows;
    const struct lvn_lora *lora = &c->model_state->config.lora;
    float *first = c->wide + w->count;
    LVN_TRY(cast_up(c, w, c->wide));
    LVN_TRY(cast_up(c, rows ? rows : a, first));
    if (!rows) LVN_TRY(cast_up(c, b, first + a->count));
    if (rows)
        lvn_lora_put_rows(lora, w->desc.dim[1], first, c->wide);
    else if (lvn_lora_in_out(w, &s->adapter))
        lvn_lora_merge(lora, w, first, first + a->count, c->wide);
    else
        lvn_lora_merge(lora, w, first + a->count, first, c->wide);
    lvn_tensor_from_f32(c->type, c->wide, to, w->count);
    return LVN_OK;
}

static enum lvn_status fetch(void *opaque, int i, const void **data)
{
    const struct context *c = opaque;
    const struct source *s = &c->sources[i];
    if (!s->p) {
        *data = c->zeros;
        return LVN_OK;
    }
    bool moves = lvn_layout_moves(s->layout);
    const void *values = s->merged ? moves ? c->merged : c->made : value_of(c, s->p);
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
    const struct lvn_model_state *model_state;
    enum lvn_parameters_of of;
    const struct lvn_model_values *values; /* NULL: those of the model state */
};

static enum lvn_status add(struct builder *b, const char *name, const struct lvn_param *p)
{
    struct lvn_layout *l = lvn_arena_alloc(&b->f->arena, sizeof *l);
    if (!l) return LVN_MEMORY;
    LVN_CHECK(p->trainable || b->of != LVN_PARAMETER_GRADIENTS, INTERNAL, "'%s' has no gradient", p->name);
    LVN_TRY(lvn_file_layout(b->variant, &b->model_state->config, p, l));
    const char *copy = name ? lvn_arena_strdup(&b->f->arena, name) : l->name;
    if (!copy) return LVN_MEMORY;
    int i = b->f->source.n++;
    struct source s = {.p = p, .layout = l};
    s.merged = lvn_lora_find(b->model_state->params, p, &s.adapter);
    b->c->sources[i] = s;
    bool made = lvn_layout_moves(l) || s.merged;
    struct lvn_shard_origin *o = lvn_arena_alloc(&b->f->arena, sizeof *o);
    if (!o) return LVN_MEMORY;
    *o = (struct lvn_shard_origin){b->of,
                                   {p, s.adapter.rows ? s.adapter.rows : s.adapter.a, s.adapter.b},
                                   !s.merged        ? 1
                                   : s.adapter.rows ? 2
                                                    : 3,
                                   !made};
    b->items[i] = (struct lvn_safetensors_item){.name = copy,
                                                .desc = l->desc,
                                                .origin = o,
                                                .data = made ? NULL : lvn_parameters_at(b->model_state, b->of, p).host};
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

static enum lvn_status add_all(struct builder *b, bool parameters_only)
{
    const struct lvn_params *params = b->model_state->params;
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *p = params->list[i];
        char name[LVN_FILE_NAME];
        unsigned flags;
        if (p->adapter) continue;
        LVN_TRY(add(b, NULL, p));
        for (int row = 0; !parameters_only && (flags = lvn_file_next_extra(b->variant, params, p, &row, name));)
            LVN_TRY(flags & LVN_FILE_DUPLICATE ? add(b, name, p) : add_zeros(b, name, p->desc.dim[p->desc.rank - 1]));
    }
    return LVN_OK;
}

/* Upper bounds: the number of items, and the largest tensor that is made, is zeros, is an adapter, is a parameter that
 * is not in host memory. */
struct extent {
    int items;
    int64_t made, zeros, adapter, hidden;
};

static enum lvn_status measure(const struct builder *b, struct extent *e)
{
    const struct lvn_params *params = b->model_state->params;
    struct lvn_layout l;
    char name[LVN_FILE_NAME];
    *e = (struct extent){.made = 1, .zeros = 1};
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *p = params->list[i];
        struct lvn_lora_pair pair;
        LVN_TRY(lvn_file_layout(b->variant, &b->model_state->config, p, &l));
        bool made = lvn_layout_moves(&l) || lvn_lora_find(params, p, &pair);
        int64_t columns = p->desc.dim[p->desc.rank - 1];
        e->items++;
        for (int row = 0; lvn_file_next_extra(b->variant, params, p, &row, name); e->items++)
            if (columns > e->zeros) e->zeros = columns;
        if (made && p->count > e->made) e->made = p->count;
        if (p->adapter && p->count > e->adapter) e->adapter = p->count;
        if (p->count > e->hidden && !lvn_parameters_at(b->model_state, b->of, p).host) e->hidden = p->count;
    }
    return LVN_OK;
}

static enum lvn_status make_source(struct builder *b, enum lvn_dtype type, bool parameters_only)
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
    x->model_state = b->model_state;
    x->of = b->of;
    x->type = type;
    if (b->values) x->values = *b->values;
    x->made = lvn_arena_alloc(&f->arena, each * (size_t)e.made);
    x->merged = lvn_arena_alloc(&f->arena, e.adapter ? each * (size_t)e.made : 1);
    x->zeros = lvn_arena_alloc(&f->arena, each * (size_t)e.zeros);
    const int64_t wide = e.adapter ? e.made + 2 * e.adapter : b->values ? e.hidden : 0;
    x->wide = lvn_arena_alloc(&f->arena, sizeof(float) * (size_t)(wide + 1));
    x->scratch = lvn_arena_alloc(&f->arena, each * (size_t)e.hidden + 1);
    if (!x->sources || !x->made || !x->merged || !x->zeros || !x->wide || !x->scratch) return LVN_MEMORY;
    f->source.item = b->items;
    f->source.fetch = fetch;
    f->source.context = x;
    return add_all(b, parameters_only);
}

static enum lvn_status make(struct builder *b, bool parameters_only)
{
    const struct lvn_model_state *n = b->model_state;
    const enum lvn_dtype type = b->of == LVN_PARAMETER_GRADIENTS ? n->gradients : n->weights;
    struct lvn_model_files *f = b->f;
    *f = (struct lvn_model_files){0};
    lvn_arena_init(&f->arena);
    enum lvn_status status = lvn_model_check_variant(b->variant, &n->config);
    if (status == LVN_OK) status = lvn_config_write(&f->config, b->variant, &n->config, type);
    if (status == LVN_OK) status = make_source(b, type, parameters_only);
    if (status != LVN_OK) lvn_model_files_release(f);
    return status;
}

enum lvn_status lvn_model_files_make(struct lvn_model_files *f, const struct lvn_model *variant,
                                     const struct lvn_model_state *n, enum lvn_parameters_of of, bool parameters_only)
{
    struct builder b = {.f = f, .variant = variant, .model_state = n, .of = of};
    return make(&b, parameters_only);
}

enum lvn_status lvn_model_files_stream(struct lvn_model_files *f, const struct lvn_model *variant,
                                       const struct lvn_model_state *n, const struct lvn_model_values *values,
                                       bool parameters_only)
{
    struct builder b = {.f = f, .variant = variant, .model_state = n, .of = LVN_PARAMETER_VALUES, .values = values};
    return make(&b, parameters_only);
}

void lvn_model_files_release(struct lvn_model_files *f)
{
    lvn_text_release(&f->config);
    lvn_arena_release(&f->arena);
    *f = (struct lvn_model_files){0};
}

/* graph.c - builds graphs: parameters, views and nodes; see graph.h.
 *
 * Every constructor of an operation (src/core/ops) ends in lvn_node_append(), which checks the inputs, runs the
 * operation's shape rule and records the first failure. */
#include "graph/graph.h"

#include "base/list.h"
#include "base/random.h"
#include "base/text.h"

struct levin_graph *lvn_graph_new(struct lvn_params *params, enum lvn_dtype real)
{
    struct levin_graph *g = lvn_calloc(1, sizeof *g);
    if (!g) return NULL;
    lvn_arena_init(&g->arena);
    g->params = params;
    g->real = real;
    g->block = LVN_BLOCK_OUTSIDE;
    return g;
}

void lvn_graph_free(struct levin_graph *g)
{
    if (!g) return;
    free(g->tensors);
    free(g->nodes);
    free(g->inputs);
    free(g->caches);
    lvn_index_release(&g->scoped);
    lvn_arena_release(&g->arena);
    free(g);
}

struct levin_tensor *lvn_graph_fail(struct levin_graph *g, enum lvn_status status)
{
    if (g->status != LVN_OK) return NULL;
    g->status = status;
    const char *text = levin_error_text();
    char *copy = lvn_arena_strdup(&g->arena, text);
    g->error = copy ? copy : "not enough memory";
    return NULL;
}

enum lvn_status lvn_graph_status(const struct levin_graph *g)
{
    if (g->status == LVN_OK) return LVN_OK;
    return lvn_fail(g->status, "%s", g->error);
}

void levin_scope(struct levin_graph *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(g->scope, sizeof g->scope, format, args);
    va_end(args);
    if (n >= (int)sizeof g->scope) /* if truncated, two scopes could become equal and share parameters */
        lvn_graph_fail(g, lvn_fail(LVN_ARG, "the scope '%.60s...' has %d bytes; at most %d are allowed", g->scope, n,
                                   (int)sizeof g->scope - 1));
}

void levin_block(struct levin_graph *g)
{
    g->block = g->n_blocks++;
}

void levin_block_end(struct levin_graph *g)
{
    g->block = LVN_BLOCK_HEAD;
}

static char *scoped(struct levin_graph *g, const char *name)
{
    return lvn_arena_printf(&g->arena, "%s%s%s", g->scope, g->scope[0] ? "." : "", name);
}

static struct levin_tensor *add_tensor(struct levin_graph *g, enum lvn_tensor_kind kind, const char *name,
                                       const struct lvn_desc *desc)
{
    if (!lvn_list_reserve(&g->tensors, &g->tensors_capacity, g->n_tensors + 1, sizeof *g->tensors))
        return lvn_graph_fail(g, LVN_MEMORY);
    struct levin_tensor *t = lvn_arena_alloc(&g->arena, sizeof *t);
    if (!t || !name) return lvn_graph_fail(g, LVN_MEMORY);
    *t = (struct levin_tensor){.id = g->n_tensors, .kind = kind, .desc = *desc, .name = name};
    return g->tensors[g->n_tensors++] = t;
}

/* SHAPE: a dimension below 1, or more bytes than memory can address. */
static enum lvn_status check_size(const char *name, const struct lvn_desc *d)
{
    char text[LVN_SHAPE_TEXT];
    for (int i = 0; i < d->rank; i++)
        LVN_CHECK(d->dim[i] > 0, SHAPE, "'%s' has shape %s: every dimension must be at least 1", name,
                  lvn_shape_text(d, text));
    int64_t count = lvn_desc_count(d);
    LVN_CHECK(count >= 0 && count < INT64_MAX / 64, SHAPE, "'%s' has shape %s, which is more than memory can address",
              name, lvn_shape_text(d, text));
    return LVN_OK;
}

struct levin_tensor *lvn_input(struct levin_graph *g, const char *name, struct lvn_desc desc)
{
    enum lvn_status status = check_size(name, &desc);
    if (status != LVN_OK) return lvn_graph_fail(g, status);
    if (!lvn_list_reserve(&g->inputs, &g->inputs_capacity, g->n_inputs + 1, sizeof *g->inputs))
        return lvn_graph_fail(g, LVN_MEMORY);
    struct levin_tensor *t = add_tensor(g, LVN_TENSOR_INPUT, scoped(g, name), &desc);
    if (!t) return NULL;
    t->input = g->n_inputs;
    return g->inputs[g->n_inputs++] = t;
}

static enum lvn_status declare(struct lvn_params *p, const char *name, enum lvn_param_kind kind, struct lvn_init init,
                               const struct lvn_desc *desc, int block, struct lvn_param **out)
{
    LVN_TRY(check_size(name, desc));
    LVN_CHECK(strlen(name) < LVN_NAME_TEXT, ARG, "the parameter name '%.60s...' has %zu bytes; at most %d are allowed",
              name, strlen(name), LVN_NAME_TEXT - 1);
    LVN_CHECK(lvn_utf8_check(name, (int64_t)strlen(name)) < 0 && strcmp(name, "__metadata__") != 0, ARG,
              "'%s' cannot be the name of a parameter: it must be UTF-8, and not __metadata__", name);
    LVN_CHECK(isfinite(init.value), ARG, "parameter '%s' is initialized with %g; give a finite number", name,
              (double)init.value);
    struct lvn_param *q = lvn_params_find(p, name);
    if (q) {
        char have[LVN_SHAPE_TEXT], want[LVN_SHAPE_TEXT];
        LVN_CHECK(lvn_desc_same_shape(&q->desc, desc), SHAPE,
                  "parameter '%s' has shape %s, and is declared again with shape %s", name,
                  lvn_shape_text(&q->desc, have), lvn_shape_text(desc, want));
        *out = q;
        return LVN_OK;
    }
    if (!lvn_list_reserve(&p->list, &p->capacity, p->n + 1, sizeof *p->list)) return LVN_MEMORY;
    q = lvn_arena_alloc(&p->arena, sizeof *q);
    char *copy = lvn_arena_strdup(&p->arena, name);
    if (!q || !copy || !lvn_index_add(&p->names, copy, p->n)) return LVN_MEMORY;
    *q = (struct lvn_param){.name = copy,
                            .number = p->n,
                            .hash = lvn_name_hash(copy),
                            .desc = *desc,
                            .kind = kind,
                            .init = init,
                            .trainable = true,
                            .block = block,
                            .rule = {.lr_scale = 1.0, .weight_decay = -1.0, .betas = {-1.0, -1.0}},
                            .count = lvn_desc_count(desc)};
    *out = p->list[p->n++] = q;
    return LVN_OK;
}

struct levin_tensor *lvn_param(struct levin_graph *g, const char *name, enum lvn_param_kind kind, struct lvn_init init,
                               struct lvn_desc desc)
{
    struct lvn_param *p = NULL;
    if (!name || !*name) return lvn_graph_fail(g, lvn_fail(LVN_ARG, "a parameter has no name: name each parameter"));
    char *full = scoped(g, name);
    if (!full) return lvn_graph_fail(g, LVN_MEMORY);
    desc.dtype = g->real;
    enum lvn_status status = declare(g->params, full, kind, init, &desc, g->block, &p);
    if (status != LVN_OK) return lvn_graph_fail(g, status);
    struct levin_tensor *t = add_tensor(g, LVN_TENSOR_PARAM, p->name, &desc);
    if (t) t->param = p;
    return t;
}

struct levin_tensor *levin_weight(struct levin_graph *g, const char *name, int64_t in, int64_t out, double std)
{
    return lvn_param(g, name, LVN_WEIGHT, LVN_NORMAL(std), LVN_DESC(LVN_F32, in, out));
}

struct levin_tensor *levin_table(struct levin_graph *g, const char *name, int64_t rows, int64_t C, double std)
{
    struct levin_tensor *t = lvn_param(g, name, LVN_EMBEDDING, LVN_NORMAL(std), LVN_DESC(LVN_F32, rows, C));
    return t && g->table_adapter ? g->table_adapter(g, t) : t;
}

struct levin_tensor *levin_vector(struct levin_graph *g, const char *name, int64_t n, double value)
{
    return lvn_param(g, name, LVN_VECTOR, LVN_CONSTANT(value), LVN_DESC(LVN_F32, n));
}

/* Add a view. The base is never a view: a view of a view refers to the original tensor. */
static struct levin_tensor *add_view(struct levin_graph *g, struct levin_tensor *x, struct lvn_desc desc)
{
    struct levin_tensor *t = add_tensor(g, LVN_TENSOR_VIEW, x->name, &desc);
    if (t) t->base = x->kind == LVN_TENSOR_VIEW ? x->base : x;
    return t;
}

struct levin_tensor *levin_heads(struct levin_graph *g, struct levin_tensor *x, int64_t first_channel, int64_t n_head,
                                 int64_t head_size)
{
    if (!x) return NULL;
    const struct lvn_desc *d = &x->desc;
    if (d->rank != 3 || n_head < 1 || head_size < 1 || first_channel < 0 || first_channel > d->dim[2] ||
        n_head > (d->dim[2] - first_channel) / head_size) {
        char text[LVN_SHAPE_TEXT];
        return lvn_graph_fail(
            g,
            lvn_fail(LVN_SHAPE, "heads of '%s': %lld heads of %lld channels from channel %lld exceed shape %s", x->name,
                     (long long)n_head, (long long)head_size, (long long)first_channel, lvn_shape_text(d, text)));
    }
    struct lvn_desc view = {.dtype = d->dtype,
                            .rank = 4,
                            .dim = {d->dim[0], d->dim[1], n_head, head_size},
                            .stride = {d->stride[0], d->stride[1], head_size * d->stride[2], d->stride[2]},
                            .offset = d->offset + first_channel * d->stride[2]};
    return add_view(g, x, view);
}

struct levin_tensor *levin_slice(struct levin_graph *g, struct levin_tensor *x, int dim, int64_t first, int64_t count)
{
    if (!x) return NULL;
    struct lvn_desc view = x->desc;
    if (dim < 0 || dim >= view.rank || first < 0 || count < 1 || first > view.dim[dim] - count) {
        char text[LVN_SHAPE_TEXT];
        return lvn_graph_fail(
            g, lvn_fail(LVN_SHAPE, "slice of '%s': %lld elements from %lld along dimension %d exceed shape %s", x->name,
                        (long long)count, (long long)first, dim, lvn_shape_text(&x->desc, text)));
    }
    view.offset += first * view.stride[dim];
    view.dim[dim] = count;
    return add_view(g, x, view);
}

struct levin_tensor *levin_reshape(struct levin_graph *g, struct levin_tensor *x, int rank, const int64_t *dim)
{
    if (!x) return NULL;
    if (!dim) return lvn_graph_fail(g, lvn_fail(LVN_ARG, "reshape of '%s': dim is NULL: give the shape", x->name));
    if (rank < 1 || rank > LVN_MAX_RANK)
        return lvn_graph_fail(g, lvn_fail(LVN_SHAPE, "reshape of '%s' to %d dimensions; a tensor has 1 to %d", x->name,
                                          rank, LVN_MAX_RANK));
    struct lvn_desc view = {.rank = rank};
    int64_t left = lvn_desc_count(&x->desc), *open = NULL; /* left: elements per index of the dimensions so far */
    for (int i = 0; i < rank; i++) {
        view.dim[i] = dim[i];
        if (dim[i] == -1 && !open)
            open = &view.dim[i];
        else
            left = dim[i] > 0 && left % dim[i] == 0 ? left / dim[i] : 0;
    }
    if (!lvn_desc_contiguous(&x->desc) || (open ? left < 1 : left != 1)) {
        char have[LVN_SHAPE_TEXT], want[LVN_SHAPE_TEXT];
        return lvn_graph_fail(g, lvn_fail(LVN_SHAPE, "reshape of '%s': shape %s cannot be viewed as %s", x->name,
                                          lvn_shape_text(&x->desc, have), lvn_shape_text(&view, want)));
    }
    if (open) *open = left;
    view = lvn_desc_make(x->desc.dtype, rank, view.dim);
    view.offset = x->desc.offset;
    return add_view(g, x, view);
}

struct levin_tensor *levin_transpose(struct levin_graph *g, struct levin_tensor *x, int dim, int other)
{
    if (!x) return NULL;
    struct lvn_desc view = x->desc;
    if (dim < 0 || dim >= view.rank || other < 0 || other >= view.rank) {
        char text[LVN_SHAPE_TEXT];
        return lvn_graph_fail(g, lvn_fail(LVN_SHAPE, "transpose of '%s': shape %s has no dimensions %d and %d", x->name,
                                          lvn_shape_text(&x->desc, text), dim, other));
    }
    view.dim[dim] = x->desc.dim[other], view.dim[other] = x->desc.dim[dim];
    view.stride[dim] = x->desc.stride[other], view.stride[other] = x->desc.stride[dim];
    return add_view(g, x, view);
}

/* Run the shape rule, which sets the descriptors of a node's outputs in s->out. */
static enum lvn_status infer_shapes(struct levin_graph *g, const struct lvn_op *op, const struct lvn_node *node,
                                    struct lvn_shapes *s)
{
    *s = (struct lvn_shapes){.op = op->name, .attr = &node->attr, .real = g->real};
    for (int i = 0; i < op->n_in; i++) {
        s->has[i] = node->in[i] != NULL;
        if (!s->has[i]) continue;
        s->in[i] = node->in[i]->desc;
        s->name[i] = node->in[i]->name;
    }
    LVN_TRY(op->shape(s));
    for (int i = 0; i < op->n_out + op->n_saved; i++) LVN_TRY(check_size(node->name, &s->out[i]));
    return LVN_OK;
}

/* "h.0.dropout:1" is the second dropout of its scope. The index counts per scope and operation, so random numbers,
 * which depend on the name, stay the same when another part of the model changes. */
static const char *node_name(struct levin_graph *g, const struct lvn_op *op)
{
    char *prefix = scoped(g, op->name);
    int *n = prefix ? lvn_index_add(&g->scoped, prefix, 0) : NULL;
    return n ? lvn_arena_printf(&g->arena, "%s:%d", prefix, (*n)++) : NULL;
}

/* Is the tensor, or the base of the view, a parameter outside of the blocks? */
static bool is_outside(const struct levin_tensor *t)
{
    if (t && t->kind == LVN_TENSOR_VIEW) t = t->base;
    return t && t->kind == LVN_TENSOR_PARAM && t->param->block == LVN_BLOCK_OUTSIDE;
}

struct levin_tensor *lvn_node_append(struct levin_graph *g, enum lvn_op_id id, const union lvn_attr *attr,
                                     struct levin_tensor *const *in, int n_in)
{
    const struct lvn_op *op = lvn_op(id, g->real);
    for (int i = 0; i < op->n_in_min; i++)
        if (!in[i]) {
            if (g->status == LVN_OK)
                lvn_graph_fail(g, lvn_fail(LVN_ARG, "%s: input %d of '%s' is missing", op->name, i, g->scope));
            return NULL; /* the input is NULL because an earlier call failed; keep that error */
        }
    struct lvn_node *node = lvn_arena_alloc(&g->arena, sizeof *node);
    if (!node || !lvn_list_reserve(&g->nodes, &g->nodes_capacity, g->n_nodes + 1, sizeof *g->nodes))
        return lvn_graph_fail(g, LVN_MEMORY);
    *node = (struct lvn_node){.op = id, .attr = *attr, .block = g->block, .cache = -1};
    for (int i = 0; i < n_in; i++) {
        node->in[i] = in[i];
        if (g->block == LVN_BLOCK_HEAD && is_outside(in[i])) g->params->tied = true;
    }
    node->name = node_name(g, op);
    if (!node->name) return lvn_graph_fail(g, LVN_MEMORY);
    uint64_t hash = lvn_name_hash(node->name);
    node->hash = (uint32_t)(hash ^ hash >> 32);
    struct lvn_shapes s;
    enum lvn_status status = infer_shapes(g, op, node, &s);
    if (status != LVN_OK) return lvn_graph_fail(g, lvn_while_at(status, "adding '%s'", node->name));
    for (int i = 0; i < op->n_out + op->n_saved; i++) {
        struct levin_tensor *t = add_tensor(g, LVN_TENSOR_OUTPUT, node->name, &s.out[i]);
        if (!t) return NULL;
        t->node = node;
        t->output = i;
        node->out[i] = t;
    }
    g->nodes[g->n_nodes++] = node;
    return node->out[0];
}

struct levin_tensor *lvn_node_append_pair(struct levin_graph *g, enum lvn_op_id op, enum lvn_op_id op_rows,
                                          struct levin_tensor *a, struct levin_tensor *b)
{
    const bool longer = a && b && b->desc.rank > a->desc.rank;
    struct levin_tensor *in[] = {longer ? b : a, longer ? a : b};
    const bool rows = a && b && lvn_desc_is_row(&in[0]->desc, &in[1]->desc);
    return lvn_node_append(g, rows ? op_rows : op, &(union lvn_attr){0}, in, 2);
}

/* optimizer_shards.c - see optimizer_shards.h. */
#include "engine/optimizer_shards.h"

#include "base/arena.h"
#include "base/log.h"
#include "engine/parameters.h"
#include "engine/shard_files.h"

/* The moments' names in files. */
static const char *const moments[] = {"exp_avg.", "exp_avg_sq."};
enum { N_MOMENTS = sizeof moments / sizeof moments[0] };

void lvn_optimizer_shards_init(struct lvn_optimizer_shards *shards, const struct lvn_model_state *n,
                               struct lvn_ranks *ranks)
{
    *shards = (struct lvn_optimizer_shards){.model_state = n, .ranks = ranks};
}

static enum lvn_parameters_of of_moment(int k)
{
    return (enum lvn_parameters_of)(LVN_PARAMETER_MOMENTS + k);
}

static struct lvn_parameter_window window_of(const struct lvn_optimizer_shards *shards, const struct lvn_param *p,
                                             int k)
{
    return lvn_parameters_at(shards->model_state, of_moment(k), p);
}

/* --- saving --- */

/* The parameter of the tensor after that of parameter *j and moment *k in optimizer.safetensors: first all exp_avg,
 * then all exp_avg_sq. Begin with *j = -1, *k = 0. NULL: it was the last. */
static const struct lvn_param *next_item(const struct lvn_model_state *n, int *j, int *k)
{
    for (; *k < n->moments; ++*k, *j = -1)
        while (++*j < n->params->n)
            if (lvn_parameters_has(n, of_moment(*k), n->params->list[*j])) return n->params->list[*j];
    return NULL;
}

static enum lvn_status fetch(void *context, int i, const void **data)
{
    struct lvn_optimizer_shards *shards = context;
    const struct lvn_model_state *n = shards->model_state;
    const struct lvn_shard_origin *origin = shards->items[i].origin;
    const struct lvn_parameter_window w = lvn_parameters_at(n, origin->of, origin->param[0]);
    if (!shards->buffer)
        shards->buffer = lvn_malloc((size_t)(lvn_params_largest(n->params, true) * lvn_dtype_bytes(n->real)));
    if (!shards->buffer) return LVN_MEMORY;
    *data = shards->buffer;
    return lvn_parameter_read(&w, shards->buffer);
}

enum lvn_status lvn_optimizer_shards_source(struct lvn_optimizer_shards *shards, struct lvn_arena *a,
                                            struct lvn_safetensors_source *source)
{
    const struct lvn_model_state *n = shards->model_state;
    struct lvn_safetensors_item *items = lvn_arena_alloc(a, sizeof *items * (size_t)(n->params->n * N_MOMENTS + 1));
    if (!items) return LVN_MEMORY;
    shards->items = items;
    *source = (struct lvn_safetensors_source){.item = items};
    const struct lvn_param *p;
    for (int j = -1, k = 0; (p = next_item(n, &j, &k));) {
        const char *name = lvn_arena_printf(a, "%s%s", moments[k], p->name);
        if (!name) return LVN_MEMORY;
        struct lvn_safetensors_item *item = &items[source->n++];
        const struct lvn_parameter_window w = window_of(shards, p, k);
        *item = (struct lvn_safetensors_item){.name = name, .desc = w.desc, .data = w.host};
        struct lvn_shard_origin *o = lvn_arena_alloc(a, sizeof *o);
        if (!o) return LVN_MEMORY;
        *o = (struct lvn_shard_origin){of_moment(k), {p}, 1, true};
        item->origin = o;
    }
    source->fetch = fetch;
    source->context = shards;
    return LVN_OK;
}

void lvn_optimizer_shards_release(struct lvn_optimizer_shards *shards)
{
    free(shards->buffer);
    shards->buffer = NULL;
}

/* --- loading --- */

/* Find the tensor named `prefix` + the parameter's name; it must have this shape. */
static enum lvn_status find_stored(const struct lvn_safetensors *file, const char *path, const char *prefix,
                                   const struct lvn_param *p, const struct lvn_desc *shape,
                                   const struct lvn_safetensor **out)
{
    char name[LVN_NAME_TEXT + 64];
    snprintf(name, sizeof name, "%s%s", prefix, p->name);
    const struct lvn_safetensor *t = *out = lvn_safetensors_find(file, name);
    LVN_CHECK(t, FORMAT,
              "'%s' has no tensor '%s': it belongs to another optimizer or model; restore optimizer.groups (whose "
              "groups may have another kind) and model.init",
              path, name);
    LVN_CHECK(lvn_desc_same_shape(&t->desc, shape), FORMAT,
              "'%s': '%s' differs in shape from the parameter; it belongs to another model", path, name);
    return LVN_OK;
}

/* The values of moment k, which must have the type of this run. */
static enum lvn_status stored_values(const struct lvn_optimizer_shards *shards, const struct lvn_safetensors *file,
                                     const char *path, const struct lvn_param *p, int k, const void **values)
{
    const struct lvn_safetensor *t;
    const struct lvn_desc desc = lvn_parameters_held(shards->model_state, of_moment(k), p).desc;
    LVN_TRY(find_stored(file, path, moments[k], p, &desc, &t));
    LVN_CHECK(t->desc.dtype == desc.dtype, FORMAT,
              "'%s': '%s' is %s, but this run stores moments in %s; set optimizer.state back to its earlier value",
              path, t->name, lvn_dtype_name(t->desc.dtype), lvn_dtype_name(desc.dtype));
    *values = t->data;
    return LVN_OK;
}

/* FORMAT unless the file has all tensors that stored_values() requires, and no others. */
static enum lvn_status open_file(const struct lvn_optimizer_shards *shards, const char *path,
                                 struct lvn_safetensors *file)
{
    const struct lvn_param *p;
    const void *values;
    LVN_TRY(lvn_safetensors_open(file, path));
    enum lvn_status status = LVN_OK;
    int n = 0;
    for (int j = -1, k = 0; status == LVN_OK && (p = next_item(shards->model_state, &j, &k)); n++)
        status = stored_values(shards, file, path, p, k, &values);
    if (status == LVN_OK && n != file->n)
        status = lvn_fail(LVN_FORMAT,
                          "'%s' has %d tensors, but this run needs %d: it belongs to another optimizer or model; "
                          "restore optimizer.groups (whose groups may have another kind) and model.init",
                          path, file->n, n);
    if (status != LVN_OK) lvn_safetensors_close(file);
    return status;
}

/* Write the moments of the file to this rank's windows: its shards, or, on rank 0 while collecting, whole tensors. */
static enum lvn_status write_all(struct lvn_optimizer_shards *shards, const char *path,
                                 const struct lvn_safetensors *file)
{
    const struct lvn_param *p;
    const void *values;
    for (int j = -1, k = 0; (p = next_item(shards->model_state, &j, &k));) {
        const struct lvn_parameter_window w = window_of(shards, p, k);
        LVN_TRY(stored_values(shards, file, path, p, k, &values));
        if (w.count) LVN_TRY(lvn_parameter_write(&w, (const char *)values + w.first * lvn_dtype_bytes(w.desc.dtype)));
    }
    return LVN_OK;
}

/* Rank 0 reads all moments and sends each rank those that it owns. */
static enum lvn_status send_all(struct lvn_optimizer_shards *shards, const char *path,
                                const struct lvn_safetensors *file)
{
    lvn_parameters_begin_collecting(shards->model_state);
    enum lvn_status status = shards->ranks->rank ? LVN_OK : write_all(shards, path, file);
    enum lvn_status ended = lvn_parameters_end_collecting(shards->model_state);
    return status == LVN_OK ? ended : status;
}

/* If moments are not sharded, rank 0 broadcasts them. */
static enum lvn_status broadcast_all(struct lvn_optimizer_shards *shards)
{
    const struct lvn_param *p;
    if (lvn_parameters_sharded(shards->model_state, LVN_PARAMETER_MOMENTS)) return LVN_OK;
    for (int j = -1, k = 0; (p = next_item(shards->model_state, &j, &k));) {
        const struct lvn_parameter_window w = window_of(shards, p, k);
        LVN_TRY(lvn_ranks_broadcast_memory(shards->ranks, w.memory, w.at, w.bytes));
    }
    return LVN_OK;
}

enum lvn_status lvn_optimizer_shards_load(struct lvn_optimizer_shards *shards, const char *path, bool shared)
{
    struct lvn_safetensors file;
    const bool by_shard = shared && lvn_parameters_sharded(shards->model_state, LVN_PARAMETER_MOMENTS);
    const bool reads = by_shard || shards->ranks->rank == 0;
    const enum lvn_status opened = reads ? open_file(shards, path, &file) : LVN_OK;
    enum lvn_status status = lvn_ranks_agree(shards->ranks, opened);
    if (status == LVN_OK)
        status =
            by_shard ? lvn_ranks_agree(shards->ranks, write_all(shards, path, &file)) : send_all(shards, path, &file);
    if (status == LVN_OK) status = broadcast_all(shards);
    if (reads && opened == LVN_OK) lvn_safetensors_close(&file);
    return status;
}

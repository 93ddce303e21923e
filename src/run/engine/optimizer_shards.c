/* optimizer_shards.c - see optimizer_shards.h. */
#include "engine/optimizer_shards.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "engine/parameters.h"
#include "engine/shard_files.h"

/* The moments' names in files. */
static const char *const moments[] = {"exp_avg.", "exp_avg_sq."};
enum { N_MOMENTS = sizeof moments / sizeof moments[0] };

void lvn_optimizer_shards_init(struct lvn_optimizer_shards *m, const struct lvn_model_state *n, struct lvn_ranks *ranks)
{
    *m = (struct lvn_optimizer_shards){.model_state = n, .ranks = ranks};
}

static enum lvn_parameters_of of_moment(int k)
{
    return (enum lvn_parameters_of)(LVN_PARAMETER_MOMENTS + k);
}

static struct lvn_parameter_window window_on(const struct lvn_optimizer_shards *m, const struct lvn_param *p, int k)
{
    return lvn_parameters_at(m->model_state, of_moment(k), p);
}

/* --- saving --- */

/* The i-th parameter that has a moment, counted over both moments; *k: the moment. NULL: there are fewer. */
static const struct lvn_param *item_of(const struct lvn_model_state *n, int64_t i, int *k)
{
    for (*k = 0; *k < n->moments; ++*k)
        for (int j = 0; j < n->params->n; j++)
            if (lvn_parameters_has(n, of_moment(*k), n->params->list[j]) && i-- == 0) return n->params->list[j];
    return NULL;
}

static enum lvn_status fetch(void *context, int i, const void **data)
{
    struct lvn_optimizer_shards *m = context;
    const struct lvn_model_state *n = m->model_state;
    int k;
    const struct lvn_param *p = item_of(n, i, &k);
    const struct lvn_parameter_window w = window_on(m, p, k);
    if (!m->buffer) m->buffer = lvn_malloc((size_t)(lvn_params_largest(n->params, true) * lvn_dtype_bytes(n->state)));
    if (!m->buffer) return LVN_MEMORY;
    *data = m->buffer;
    return lvn_parameter_read(&w, m->buffer);
}

enum lvn_status lvn_optimizer_shards_source(struct lvn_optimizer_shards *m, struct lvn_arena *a,
                                            struct lvn_safetensors_source *source)
{
    const struct lvn_model_state *n = m->model_state;
    struct lvn_safetensors_item *items = lvn_arena_alloc(a, sizeof *items * (size_t)(n->params->n * N_MOMENTS + 1));
    const struct lvn_param *p;
    int k;
    if (!items) return LVN_MEMORY;
    *source = (struct lvn_safetensors_source){.item = items};
    while ((p = item_of(n, source->n, &k))) {
        const char *name = lvn_arena_printf(a, "%s%s", moments[k], p->name);
        if (!name) return LVN_MEMORY;
        struct lvn_safetensors_item *item = &items[source->n++];
        *item = (struct lvn_safetensors_item){.name = name, .desc = p->desc};
        item->desc.dtype = n->state;
        item->data = window_on(m, p, k).host;
        struct lvn_shard_origin *o = lvn_arena_alloc(a, sizeof *o);
        if (!o) return LVN_MEMORY;
        *o = (struct lvn_shard_origin){of_moment(k), {p}, 1, true};
        item->origin = o;
    }
    source->fetch = fetch;
    source->context = m;
    return LVN_OK;
}

void lvn_optimizer_shards_release(struct lvn_optimizer_shards *m)
{
    free(m->buffer);
    m->buffer = NULL;
}

/* --- loading --- */

enum lvn_status lvn_stored_find(const struct lvn_safetensors *file, const char *path, const char *prefix,
                                const struct lvn_param *p, const struct lvn_safetensor **out)
{
    char name[LVN_NAME_TEXT + 64];
    snprintf(name, sizeof name, "%s%s", prefix, p->name);
    const struct lvn_safetensor *t = *out = lvn_safetensors_find(file, name);
    LVN_CHECK(t, FORMAT, "'%s' lacks '%s'; it is the state of another optimizer or model", path, name);
    LVN_CHECK(lvn_desc_same_shape(&t->desc, &p->desc), FORMAT, "'%s': '%s' has another shape than the parameter", path,
              name);
    return LVN_OK;
}

/* The values of the tensor of lvn_stored_find(), which must have this type. */
static enum lvn_status stored_values(const struct lvn_safetensors *file, const char *path, const char *prefix,
                                     const struct lvn_param *p, enum lvn_dtype dtype, const void **values)
{
    const struct lvn_safetensor *t;
    LVN_TRY(lvn_stored_find(file, path, prefix, p, &t));
    LVN_CHECK(t->desc.dtype == dtype, FORMAT,
              "'%s': '%s' is %s, but this run stores it in %s; set optimizer.state as it was", path, t->name,
              lvn_dtype_name(t->desc.dtype), lvn_dtype_name(dtype));
    *values = t->data;
    return LVN_OK;
}

/* FORMAT unless the file has all tensors. */
static enum lvn_status open_file(const struct lvn_optimizer_shards *m, const char *path, struct lvn_safetensors *file)
{
    const struct lvn_param *p;
    const void *values;
    int k;
    LVN_TRY(lvn_safetensors_open(file, path));
    enum lvn_status status = LVN_OK;
    for (int64_t i = 0; status == LVN_OK && (p = item_of(m->model_state, i, &k)); i++)
        status = stored_values(file, path, moments[k], p, m->model_state->state, &values);
    if (status != LVN_OK) lvn_safetensors_close(file);
    return status;
}

/* Write the moments of the file to this rank's windows: its shards, or, on rank 0 while collecting, whole tensors. */
static enum lvn_status write_all(struct lvn_optimizer_shards *m, const char *path, const struct lvn_safetensors *file)
{
    const struct lvn_param *p;
    const void *values;
    int k;
    for (int64_t i = 0; (p = item_of(m->model_state, i, &k)); i++) {
        const struct lvn_parameter_window w = window_on(m, p, k);
        LVN_TRY(stored_values(file, path, moments[k], p, m->model_state->state, &values));
        values = (const char *)values + w.first * lvn_dtype_bytes(w.desc.dtype);
        if (w.count) LVN_TRY(lvn_parameter_write(&w, values));
    }
    return LVN_OK;
}

/* Rank 0 writes all of them to the memory of the ranks that own them. */
static enum lvn_status send_all(struct lvn_optimizer_shards *m, const char *path, const struct lvn_safetensors *file)
{
    lvn_parameters_begin_collecting(m->model_state);
    enum lvn_status status = m->ranks->rank ? LVN_OK : write_all(m, path, file);
    enum lvn_status ended = lvn_parameters_end_collecting(m->model_state);
    return status == LVN_OK ? ended : status;
}

/* Without shards every rank gets all of them. */
static enum lvn_status share_all(struct lvn_optimizer_shards *m)
{
    const struct lvn_param *p;
    int k;
    if (lvn_parameters_sharded(m->model_state, LVN_PARAMETER_MOMENTS)) return LVN_OK;
    for (int64_t i = 0; (p = item_of(m->model_state, i, &k)); i++) {
        const struct lvn_parameter_window w = window_on(m, p, k);
        LVN_TRY(lvn_ranks_broadcast_memory(m->ranks, w.memory, w.at, w.bytes));
    }
    return LVN_OK;
}

enum lvn_status lvn_optimizer_shards_load(struct lvn_optimizer_shards *m, const char *path, bool shared)
{
    struct lvn_safetensors file;
    const bool by_shard = shared && lvn_parameters_sharded(m->model_state, LVN_PARAMETER_MOMENTS);
    const bool reads = by_shard || m->ranks->rank == 0;
    const enum lvn_status opened = reads ? open_file(m, path, &file) : LVN_OK;
    enum lvn_status status = lvn_ranks_agree(m->ranks, opened);
    if (status == LVN_OK)
        status = by_shard ? lvn_ranks_agree(m->ranks, write_all(m, path, &file)) : send_all(m, path, &file);
    if (status == LVN_OK) status = share_all(m);
    if (reads && opened == LVN_OK) lvn_safetensors_close(&file);
    return status;
}

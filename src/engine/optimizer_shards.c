/* optimizer_shards.c - see optimizer_shards.h. */
#include "engine/optimizer_shards.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "passes/shard.h"

/* Buffers of the moments, and their names in files. */
static const struct {
    enum lvn_buffer buffer;
    const char *prefix;
} moments[] = {{LVN_BUFFER_STATE0, "exp_avg."}, {LVN_BUFFER_STATE1, "exp_avg_sq."}};
enum { N_MOMENTS = sizeof moments / sizeof moments[0], TAG = 1 };

/* A part of a parameter's state, on one rank. */
struct part {
    int64_t first_element, count; /* in elements of the flat parameters */
};

void lvn_optimizer_shards_init(struct lvn_optimizer_shards *m, const struct lvn_model_state *n,
                               const struct lvn_sharding *s, struct lvn_ranks *ranks)
{
    *m = (struct lvn_optimizer_shards){.model_state = n, .sharding = s, .ranks = ranks};
}

static bool in_shards(const struct lvn_optimizer_shards *m)
{
    return m->sharding->zero1 && m->sharding->size > 1;
}

static struct part part_of(const struct lvn_optimizer_shards *m, const struct lvn_param *p, int rank)
{
    const struct lvn_params *params = m->model_state->params;
    int64_t first = lvn_shard_first(params, m->sharding->size, rank), first_element = p->offset,
            to = p->offset + p->count;
    int64_t end = lvn_shard_first(params, m->sharding->size, rank + 1);
    if (first_element < first) first_element = first;
    if (to > end) to = end;
    return (struct part){first_element, to > first_element ? to - first_element : 0};
}

static int64_t bytes_of(const struct lvn_optimizer_shards *m, int64_t count)
{
    return count * lvn_dtype_bytes(m->model_state->state);
}

static const void *element(const struct lvn_optimizer_shards *m, const void *p, int64_t i)
{
    return (const char *)p + bytes_of(m, i);
}

static struct lvn_memory *memory_of(const struct lvn_optimizer_shards *m, int k)
{
    return m->model_state->memory[moments[k].buffer];
}

/* Offset of this rank's own part in its memory. */
static int64_t place_of(const struct lvn_optimizer_shards *m, const struct part *part)
{
    int64_t first = lvn_shard_first(m->model_state->params, m->sharding->size, m->sharding->rank);
    return bytes_of(m, part->first_element - (in_shards(m) ? first : 0));
}

static enum lvn_status move(struct lvn_optimizer_shards *m, void *x, int64_t count, int with, bool send)
{
    struct lvn_request r = {0};
    int64_t bytes = bytes_of(m, count);
    if (count == 0) return LVN_OK;
    if (send)
        lvn_comm_send(m->ranks->comm, &r, x, bytes, with, TAG);
    else
        lvn_comm_receive(m->ranks->comm, &r, x, bytes, with, TAG);
    return lvn_comm_wait(m->ranks->comm, &r);
}

/* --- saving --- */

/* The i-th trainable parameter, counted over both moments; *k: the moment. NULL: there are fewer. */
static const struct lvn_param *item_of(const struct lvn_model_state *n, int64_t i, int *k)
{
    for (*k = 0; *k < n->moments; ++*k)
        for (int j = 0; j < n->params->n; j++)
            if (n->params->list[j]->trainable && i-- == 0) return n->params->list[j];
    return NULL;
}

/* Rank 0: collect tensor i from its owners. */
static enum lvn_status fetch(void *context, int i, const void **data)
{
    struct lvn_optimizer_shards *m = context;
    int64_t wanted = i;
    int k;
    const struct lvn_param *p = item_of(m->model_state, i, &k);
    *data = m->buffer;
    LVN_TRY(m->status);
    if (!in_shards(m))
        return m->status = lvn_memory_read(memory_of(m, k), bytes_of(m, p->offset), m->buffer, bytes_of(m, p->count));
    m->status = lvn_ranks_broadcast(m->ranks, &wanted, (int64_t)sizeof wanted);
    for (int r = 0; r < m->sharding->size && m->status == LVN_OK; r++) {
        struct part part = part_of(m, p, r);
        void *to = (char *)m->buffer + bytes_of(m, part.first_element - p->offset);
        if (r && part.count) m->status = move(m, to, part.count, r, false);
        if (!r && part.count)
            m->status = lvn_memory_read(memory_of(m, k), place_of(m, &part), to, bytes_of(m, part.count));
    }
    return m->status;
}

/* Send rank r's part of moment k to rank 0, or from it. */
static enum lvn_status exchange(struct lvn_optimizer_shards *m, int k, const struct part *part, bool send)
{
    struct lvn_window w;
    enum lvn_status status = lvn_window_open(&w, memory_of(m, k), place_of(m, part), bytes_of(m, part->count), send);
    if (status == LVN_OK) status = move(m, w.p, part->count, 0, send);
    enum lvn_status closed = lvn_window_close(&w, status == LVN_OK && !send);
    return status == LVN_OK ? closed : status;
}

static enum lvn_status serve(struct lvn_optimizer_shards *m)
{
    for (;;) {
        int64_t wanted;
        int k;
        LVN_TRY(lvn_ranks_broadcast(m->ranks, &wanted, (int64_t)sizeof wanted));
        if (wanted < 0) return LVN_OK;
        const struct lvn_param *p = item_of(m->model_state, wanted, &k);
        struct part part = part_of(m, p, m->sharding->rank);
        if (part.count) LVN_TRY(exchange(m, k, &part, true));
    }
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
        const char *name = lvn_arena_printf(a, "%s%s", moments[k].prefix, p->name);
        if (!name) return LVN_MEMORY;
        struct lvn_safetensors_item *item = &items[source->n++];
        *item = (struct lvn_safetensors_item){.name = name, .desc = p->desc};
        item->desc.dtype = n->state;
        const void *host = memory_of(m, k)->host;
        if (host && !in_shards(m)) item->data = element(m, host, p->offset);
    }
    source->fetch = fetch;
    source->context = m;
    m->buffer = lvn_calloc((size_t)lvn_params_largest(n->params, true) + 1, (size_t)lvn_dtype_bytes(n->state));
    return m->buffer ? LVN_OK : LVN_MEMORY;
}

int64_t lvn_optimizer_shards_bytes(const struct lvn_model_state *n, const struct lvn_sharding *s)
{
    return s->zero1 && s->size > 1 && s->rank == 0 ? lvn_params_largest(n->params, true) * lvn_dtype_bytes(n->state)
                                                   : 0;
}

enum lvn_status lvn_optimizer_shards_finish(struct lvn_optimizer_shards *m)
{
    int64_t end = -1;
    free(m->buffer);
    m->buffer = NULL;
    if (!in_shards(m)) return LVN_OK;
    if (m->sharding->rank) return serve(m);
    LVN_TRY(m->status);
    return lvn_ranks_broadcast(m->ranks, &end, (int64_t)sizeof end);
}

/* --- loading --- */

enum lvn_status lvn_stored_find(const struct lvn_safetensors *file, const char *path, const char *prefix,
                                const struct lvn_param *p, const struct lvn_safetensor **out)
{
    char name[LVN_NAME_TEXT + 64];
    snprintf(name, sizeof name, "%s%s", prefix, p->name);
    const struct lvn_safetensor *t = *out = lvn_safetensors_find(file, name);
    LVN_CHECK(t, FORMAT, "'%s' lacks '%s': it is the state of another optimizer or model", path, name);
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
              "'%s': '%s' is %s, and this run keeps it in %s; set optimizer.state as it was", path, t->name,
              lvn_dtype_name(t->desc.dtype), lvn_dtype_name(dtype));
    *values = t->data;
    return LVN_OK;
}

/* Rank 0: FORMAT unless the file has all tensors. */
static enum lvn_status open_file(const struct lvn_optimizer_shards *m, const char *path, struct lvn_safetensors *file)
{
    const struct lvn_param *p;
    const void *values;
    int k;
    if (m->ranks->rank) return LVN_OK;
    LVN_TRY(lvn_safetensors_open(file, path));
    enum lvn_status status = LVN_OK;
    for (int64_t i = 0; status == LVN_OK && (p = item_of(m->model_state, i, &k)); i++)
        status = stored_values(file, path, moments[k].prefix, p, m->model_state->state, &values);
    if (status != LVN_OK) lvn_safetensors_close(file);
    return status;
}

/* Send tensor i of rank 0's file to the ranks that own its parts. */
static enum lvn_status place(struct lvn_optimizer_shards *m, const char *path, const struct lvn_safetensors *file,
                             int64_t i)
{
    const void *values = NULL;
    int k, rank = m->sharding->rank, last = in_shards(m) ? m->sharding->size : 1;
    const struct lvn_param *p = item_of(m->model_state, i, &k);
    if (rank == 0) LVN_TRY(stored_values(file, path, moments[k].prefix, p, m->model_state->state, &values));
    if (!in_shards(m)) {
        int64_t at = bytes_of(m, p->offset), bytes = bytes_of(m, p->count);
        if (rank == 0) LVN_TRY(lvn_memory_write(memory_of(m, k), at, values, bytes));
        return lvn_ranks_broadcast_memory(m->ranks, memory_of(m, k), at, bytes);
    }
    for (int r = 0; r < last; r++) {
        struct part part = part_of(m, p, r);
        if (part.count == 0) continue;
        if (rank == 0 && r == 0)
            LVN_TRY(lvn_memory_write(memory_of(m, k), place_of(m, &part),
                                     element(m, values, part.first_element - p->offset), bytes_of(m, part.count)));
        else if (rank == 0)
            LVN_TRY(
                move(m, (void *)(uintptr_t)element(m, values, part.first_element - p->offset), part.count, r, true));
        else if (rank == r)
            LVN_TRY(exchange(m, k, &part, false));
    }
    return LVN_OK;
}

enum lvn_status lvn_optimizer_shards_load(struct lvn_optimizer_shards *m, const char *path)
{
    struct lvn_safetensors file;
    enum lvn_status status = LVN_OK;
    int k;
    LVN_TRY(lvn_ranks_agree(m->ranks, open_file(m, path, &file)));
    for (int64_t i = 0; status == LVN_OK && item_of(m->model_state, i, &k); i++) status = place(m, path, &file, i);
    if (m->ranks->rank == 0) lvn_safetensors_close(&file);
    return status;
}

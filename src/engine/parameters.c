/* parameters.c - see parameters.h. */
#include "engine/parameters.h"

#include <stdlib.h>

#include "engine/ranks.h"
#include "formats/safetensors.h"
#include "passes/shard.h"

/* --- where they are --- */

static enum lvn_buffer buffer_of(enum lvn_parameters_of of)
{
    return of == LVN_PARAMETER_VALUES      ? LVN_BUFFER_PARAM
           : of == LVN_PARAMETER_GRADIENTS ? LVN_BUFFER_GRAD
                                           : (enum lvn_buffer)(LVN_BUFFER_STATE0 + (of - LVN_PARAMETER_MOMENTS));
}

static enum lvn_dtype dtype_of(const struct lvn_model_state *n, enum lvn_parameters_of of)
{
    return of == LVN_PARAMETER_VALUES ? n->weights : of == LVN_PARAMETER_GRADIENTS ? n->gradients : n->state;
}

static bool has(enum lvn_parameters_of of, const struct lvn_param *p)
{
    return of == LVN_PARAMETER_VALUES || p->trainable;
}

bool lvn_parameters_sharded(const struct lvn_model_state *n, enum lvn_parameters_of of)
{
    const struct lvn_sharding *s = &n->sharding;
    const unsigned what = of == LVN_PARAMETER_VALUES      ? LVN_SHARDS_PARAMETERS
                          : of == LVN_PARAMETER_GRADIENTS ? LVN_SHARDS_GRADIENTS
                                                          : LVN_SHARDS_STATE;
    return s->size > 1 && (s->sharded & what);
}

int64_t lvn_parameters_part(const struct lvn_model_state *n, enum lvn_parameters_of of, const struct lvn_param *p,
                            int rank, int64_t *first)
{
    const struct lvn_sharding *s = &n->sharding;
    struct lvn_shard shard;
    *first = 0;
    if (!has(of, p)) return 0;
    if (!lvn_parameters_sharded(n, of)) return p->count;
    shard = lvn_shard_at(n->params, p->block, s->size, rank);
    int64_t begin = shard.first - p->offset, end = begin + shard.count;
    if (begin < 0) begin = 0;
    if (end > p->count) end = p->count;
    if (begin >= end) return 0;
    *first = begin;
    return end - begin;
}

struct lvn_parameter_window lvn_parameters_at(const struct lvn_model_state *n, enum lvn_parameters_of of,
                                              const struct lvn_param *p)
{
    const bool sharded = lvn_parameters_sharded(n, of);
    const int size = n->sharding.size > 0 ? n->sharding.size : 1, rank = n->sharding.rank;
    struct lvn_parameter_window w = {.param = p, .desc = p->desc, .end_owner = size, .of_snapshot = n->of_snapshot};
    w.desc.dtype = dtype_of(n, of);
    w.memory = n->memory[buffer_of(of)];
    const int64_t each = lvn_dtype_bytes(w.desc.dtype);
    int64_t other;
    w.count = lvn_parameters_part(n, of, p, rank, &w.first);
    w.bytes = w.count * each;
    if (sharded) {
        while (w.first_owner < size && !lvn_parameters_part(n, of, p, w.first_owner, &other)) w.first_owner++;
        for (int r = w.first_owner; r < size; r++)
            if (lvn_parameters_part(n, of, p, r, &other)) w.end_owner = r + 1;
    }
    w.at =
        each * (sharded ? lvn_shard_place(n->params, size, rank, p->block, p->offset + w.first) : p->offset + w.first);
    if (w.memory && w.memory->host && w.count) w.host = (char *)w.memory->host + w.at;
    return w;
}

bool lvn_parameters_next(struct lvn_parameters *i, struct lvn_parameter_window *w)
{
    const struct lvn_params *params = i->model_state->params;
    while (i->next < params->n && !has(i->of, params->list[i->next])) i->next++;
    if (i->next >= params->n) return false;
    *w = lvn_parameters_at(i->model_state, i->of, params->list[i->next++]);
    return true;
}

int64_t lvn_parameters_bytes(const struct lvn_model_state *n, enum lvn_parameters_of of)
{
    if (of < LVN_PARAMETER_MOMENTS) return n->bytes[buffer_of(of)];
    return n->bytes[LVN_BUFFER_STATE0] + n->bytes[LVN_BUFFER_STATE1];
}

bool lvn_parameters_allocated(const struct lvn_model_state *n)
{
    return n->memory[LVN_BUFFER_PARAM] != NULL;
}

/* --- the elements of a window --- */

enum lvn_status lvn_parameter_read(const struct lvn_parameter_window *w, void *to)
{
    return w->of_snapshot ? lvn_memory_read_snapshot(w->memory, w->at, to, w->bytes)
                          : lvn_memory_read(w->memory, w->at, to, w->bytes);
}

enum lvn_status lvn_parameter_write(const struct lvn_parameter_window *w, const void *from)
{
    return lvn_memory_write(w->memory, w->at, from, w->bytes);
}

const void *lvn_parameter_view(const struct lvn_parameter_window *w, void *buffer)
{
    if (w->memory->host) return (const char *)w->memory->host + w->at;
    return lvn_parameter_read(w, buffer) == LVN_OK ? buffer : NULL;
}

enum lvn_status lvn_parameter_open(const struct lvn_parameter_window *w, struct lvn_window *out, bool fill)
{
    return lvn_window_open(out, w->memory, w->at, w->bytes, fill);
}

/* --- values --- */

/* Windows that lie side by side travel in one message. */
enum lvn_status lvn_parameters_broadcast(const struct lvn_model_state *n, struct lvn_ranks *ranks)
{
    enum { GAP = 1 << 16 }; /* bytes between two windows that are sent with them: the layout's gaps are smaller */
    struct lvn_memory *memory = NULL;
    int64_t at = 0, end = 0;
    for (int i = 0; i <= n->params->n; i++) {
        struct lvn_parameter_window w = {0};
        if (i < n->params->n) w = lvn_parameters_at(n, LVN_PARAMETER_VALUES, n->params->flat[i]);
        if (memory && (w.memory != memory || w.at < end || w.at > end + GAP)) {
            LVN_TRY(lvn_ranks_broadcast_memory(ranks, memory, at, end - at));
            memory = NULL;
        }
        if (!memory) at = w.at;
        memory = w.memory;
        end = w.at + w.bytes;
    }
    return LVN_OK;
}

enum lvn_status lvn_parameters_init_values(const struct lvn_model_state *n, uint64_t seed, bool adapters_only)
{
    const bool direct = n->weights == LVN_F32;
    struct lvn_parameters i = {n, LVN_PARAMETER_VALUES, 0};
    struct lvn_parameter_window w;
    float *wide = lvn_malloc(sizeof *wide * (size_t)(direct ? 1 : lvn_params_largest(n->params, false) + 1));
    enum lvn_status status = wide ? LVN_OK : LVN_MEMORY;
    while (status == LVN_OK && lvn_parameters_next(&i, &w)) {
        struct lvn_window to;
        if (adapters_only && !w.param->adapter) continue;
        status = lvn_parameter_open(&w, &to, false);
        if (status == LVN_OK) lvn_param_init(w.param, seed, direct ? to.p : wide);
        if (status == LVN_OK && !direct) lvn_tensor_from_f32(n->weights, wide, to.p, w.count);
        enum lvn_status closed = lvn_window_close(&to, status == LVN_OK);
        if (status == LVN_OK) status = closed;
    }
    free(wide);
    return status;
}

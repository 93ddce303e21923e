/* parameters.c - see parameters.h. */
#include "engine/parameters.h"

#include "base/threads.h"
#include "base/work.h"
#include "engine/ranks.h"
#include "formats/safetensors.h"
#include "passes/shard.h"

/* --- windows --- */

/* Are these the moments of a matrix's lines? They are in a whole buffer; those of a matrix are valid on its owner. */
static bool is_lines(const struct lvn_model_state *n, enum lvn_parameters_of of, const struct lvn_param *p)
{
    return n->lines && (int)of == LVN_PARAMETER_MOMENTS + n->matrix_moments && lvn_param_is_block_matrix(p);
}

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

bool lvn_parameters_has(const struct lvn_model_state *n, enum lvn_parameters_of of, const struct lvn_param *p)
{
    const int moments = lvn_param_is_block_matrix(p) ? n->matrix_moments + n->lines : n->moments;
    return of == LVN_PARAMETER_VALUES || (p->trainable && (int)of < LVN_PARAMETER_MOMENTS + moments);
}

bool lvn_parameters_sharded(const struct lvn_model_state *n, enum lvn_parameters_of of)
{
    const struct lvn_sharding *s = &n->sharding;
    const unsigned what = of == LVN_PARAMETER_VALUES      ? LVN_SHARDS_PARAMETERS
                          : of == LVN_PARAMETER_GRADIENTS ? LVN_SHARDS_GRADIENTS
                                                          : LVN_SHARDS_STATE;
    return s->size > 1 && (s->sharded & what);
}

static bool is_packed(enum lvn_parameters_of of, const struct lvn_param *p)
{
    return of == LVN_PARAMETER_VALUES && lvn_param_is_packed(p);
}

int64_t lvn_parameters_held_by(const struct lvn_model_state *n, enum lvn_parameters_of of, const struct lvn_param *p,
                               int rank, int64_t *first)
{
    const struct lvn_sharding *s = &n->sharding;
    *first = 0;
    if (!lvn_parameters_has(n, of, p)) return 0;
    const bool whole = !lvn_parameters_sharded(n, of);
    if (is_lines(n, of, p)) return whole || lvn_sharding_owner(s, rank) == p->owner ? lvn_param_lines(p) : 0;
    if (whole || is_packed(of, p)) return p->count;
    const struct lvn_shard part = lvn_shard_within(lvn_params_block_of(n->params, p), lvn_sharding_owners(s),
                                                   lvn_sharding_owner(s, rank), p->offset, p->count);
    if (part.count) *first = part.first - p->offset;
    return part.count;
}

struct lvn_parameter_window lvn_parameters_held(const struct lvn_model_state *n, enum lvn_parameters_of of,
                                                const struct lvn_param *p)
{
    const bool packed = is_packed(of, p), sharded = lvn_parameters_sharded(n, of) && !packed;
    const int size = n->sharding.size > 0 ? n->sharding.size : 1, rank = n->sharding.rank;
    const int owners = sharded ? lvn_sharding_owners(&n->sharding) : size;
    struct lvn_parameter_window w = {.param = p, .desc = p->desc, .end_owner = size, .of_snapshot = n->of_snapshot};
    const bool lines = is_lines(n, of, p);
    if (lines) w.desc = LVN_DESC(n->real, lvn_param_lines(p));
    if (!lines) w.desc.dtype = packed ? p->packed : dtype_of(n, of);
    w.memory = n->memory[packed ? LVN_BUFFER_PACKED : lines ? LVN_BUFFER_LINES : buffer_of(of)];
    const int64_t each = lvn_dtype_bytes(w.desc.dtype);
    int64_t other;
    w.count = lvn_parameters_held_by(n, of, p, rank, &w.first);
    w.bytes = packed ? p->packed_bytes : w.count * each;
    if (sharded) {
        while (w.first_owner < owners && !lvn_parameters_held_by(n, of, p, w.first_owner, &other)) w.first_owner++;
        for (int r = w.first_owner; r < owners; r++)
            if (lvn_parameters_held_by(n, of, p, r, &other)) w.end_owner = r + 1;
    }
    const struct lvn_param_block *block = lvn_params_block_of(n->params, p);
    w.at = packed  ? p->packed_offset
           : lines ? each * p->lines_at
                   : each * (sharded ? lvn_shard_offset(block, owners, lvn_sharding_owner(&n->sharding, rank),
                                                        p->offset + w.first)
                                     : p->offset + w.first);
    if (w.memory && w.memory->host && w.count) w.host = (char *)w.memory->host + w.at;
    return w;
}

struct lvn_parameter_window lvn_parameters_at(const struct lvn_model_state *n, enum lvn_parameters_of of,
                                              const struct lvn_param *p)
{
    struct lvn_parameter_window w = lvn_parameters_held(n, of, p);
    if (!lvn_parameters_sharded(n, of) || is_packed(of, p) || !lvn_parameters_has(n, of, p)) return w;
    if (!n->exchange->gathering && !(n->exchange->collecting && n->sharding.rank == 0)) return w;
    w.first = 0;
    w.count = lvn_desc_count(&w.desc);
    w.bytes = w.count * lvn_dtype_bytes(w.desc.dtype);
    w.host = NULL;
    w.collected = n;
    w.of = of;
    return w;
}

bool lvn_parameters_next(struct lvn_parameters *i, struct lvn_parameter_window *w)
{
    const struct lvn_params *params = i->model_state->params;
    while (i->next < params->n && !lvn_parameters_has(i->model_state, i->of, params->list[i->next])) i->next++;
    if (i->next >= params->n) return false;
    *w = lvn_parameters_at(i->model_state, i->of, params->list[i->next++]);
    return true;
}

int64_t lvn_parameters_bytes(const struct lvn_model_state *n, enum lvn_parameters_of of)
{
    if (of == LVN_PARAMETER_VALUES) return n->bytes[LVN_BUFFER_PARAM] + n->bytes[LVN_BUFFER_PACKED];
    if (of < LVN_PARAMETER_MOMENTS) return n->bytes[buffer_of(of)];
    return n->bytes[LVN_BUFFER_STATE0] + n->bytes[LVN_BUFFER_STATE1] + n->bytes[LVN_BUFFER_LINES];
}

bool lvn_parameters_allocated(const struct lvn_model_state *n)
{
    return n->memory[LVN_BUFFER_PARAM] != NULL || n->memory[LVN_BUFFER_PACKED] != NULL;
}

bool lvn_parameters_any_sharded(const struct lvn_model_state *n)
{
    return lvn_parameters_sharded(n, LVN_PARAMETER_VALUES) || lvn_parameters_sharded(n, LVN_PARAMETER_MOMENTS);
}

/* --- whole tensors, if they are sharded --- */

enum { TAG = 1 };
enum action { COLLECT, SEND, END };

/* A request of rank 0 to all ranks. */
struct request {
    int64_t action;
    int64_t of;
    int64_t number; /* of the parameter */
};

/* Send or receive elements of a tensor, and wait. */
static enum lvn_status move(const struct lvn_model_state *n, void *x, int64_t bytes, int with, bool send)
{
    struct lvn_request r = {0};
    struct lvn_comm *c = n->ranks->comm;
    if (send)
        lvn_comm_send(c, &r, x, bytes, with, TAG);
    else
        lvn_comm_receive(c, &r, x, bytes, with, TAG);
    return lvn_comm_wait(c, &r);
}

/* Rank 0: exchange the whole tensor with its owners; collecting writes `x` [bytes], from the first group. */
static enum lvn_status exchange(const struct lvn_parameter_window *w, enum action action, void *x)
{
    const struct lvn_model_state *n = w->collected;
    struct request r = {action, w->of, w->param->number};
    enum lvn_status *status = &n->exchange->status;
    if (*status != LVN_OK) return *status;
    *status = lvn_ranks_broadcast(n->ranks, &r, (int64_t)sizeof r);
    const int owners = lvn_sharding_owners(&n->sharding), end = action == SEND ? n->sharding.size : owners;
    for (int rank = 0; rank < end && *status == LVN_OK; rank++) {
        int64_t first, each = lvn_dtype_bytes(w->desc.dtype);
        const int64_t count = lvn_parameters_held_by(n, w->of, w->param, rank, &first);
        if (!count) continue;
        char *part = (char *)x + first * each;
        if (rank) {
            *status = move(n, part, count * each, rank, action == SEND);
            continue;
        }
        const struct lvn_parameter_window mine = lvn_parameters_held(n, w->of, w->param);
        if (!mine.count) continue;
        *status = action == SEND ? lvn_memory_write(mine.memory, mine.at, part, mine.bytes)
                                 : lvn_memory_read(mine.memory, mine.at, part, mine.bytes);
    }
    return *status;
}

/* Answer rank 0's request: send or receive this rank's part. */
static enum lvn_status answer(const struct lvn_model_state *n, const struct request *r)
{
    struct lvn_window w;
    const struct lvn_parameter_window part =
        lvn_parameters_held(n, (enum lvn_parameters_of)r->of, n->params->list[r->number]);
    const bool asked = r->action == SEND || n->sharding.rank < lvn_sharding_owners(&n->sharding);
    if (!part.count || !asked) return LVN_OK;
    enum lvn_status status = lvn_window_open(&w, part.memory, part.at, part.bytes, r->action == COLLECT);
    if (status == LVN_OK) status = move(n, w.p, part.bytes, 0, r->action == COLLECT);
    enum lvn_status closed = lvn_window_close(&w, status == LVN_OK && r->action == SEND);
    return status == LVN_OK ? closed : status;
}

void lvn_parameters_begin_collecting(const struct lvn_model_state *n)
{
    if (n->ranks && lvn_parameters_any_sharded(n)) *n->exchange = (struct lvn_parameter_exchange){.collecting = true};
}

enum lvn_status lvn_parameters_end_collecting(const struct lvn_model_state *n)
{
    struct lvn_parameter_exchange *e = n->exchange;
    struct request r = {.action = END};
    if (!e->collecting) return LVN_OK;
    e->collecting = false;
    if (n->ranks->rank == 0)
        return e->status == LVN_OK ? lvn_ranks_broadcast(n->ranks, &r, (int64_t)sizeof r) : e->status;
    for (;;) {
        LVN_TRY(lvn_ranks_broadcast(n->ranks, &r, (int64_t)sizeof r));
        if (r.action == END) return LVN_OK;
        LVN_TRY(answer(n, &r));
    }
}

void lvn_parameters_begin_gathering(const struct lvn_model_state *n)
{
    *n->exchange = (struct lvn_parameter_exchange){.gathering = true};
}

void lvn_parameters_set_gathered(const struct lvn_model_state *n, const struct lvn_parameter_gathered *list, int count)
{
    n->exchange->gathered = list;
    n->exchange->n_gathered = count;
}

void lvn_parameters_end_gathering(const struct lvn_model_state *n)
{
    *n->exchange = (struct lvn_parameter_exchange){0};
}

/* The whole tensor, in the caller's memory; NULL: not gathered. */
static const void *gathered(const struct lvn_parameter_window *w)
{
    const struct lvn_parameter_exchange *e = w->collected->exchange;
    for (int i = 0; i < e->n_gathered; i++)
        if (e->gathered[i].of == w->of && e->gathered[i].param == w->param) return e->gathered[i].values;
    (void)lvn_fail(LVN_INTERNAL, "'%s' was not gathered", w->param->name);
    return NULL;
}

/* --- the elements of a window --- */

enum lvn_status lvn_parameter_read(const struct lvn_parameter_window *w, void *to)
{
    if (w->collected && w->collected->exchange->gathering) {
        const void *values = gathered(w);
        if (!values) return LVN_INTERNAL;
        memcpy(to, values, (size_t)w->bytes);
        return LVN_OK;
    }
    if (w->collected) return exchange(w, COLLECT, to);
    return w->of_snapshot ? lvn_memory_read_snapshot(w->memory, w->at, to, w->bytes)
                          : lvn_memory_read(w->memory, w->at, to, w->bytes);
}

enum lvn_status lvn_parameter_write(const struct lvn_parameter_window *w, const void *from)
{
    if (w->collected) return exchange(w, SEND, (void *)(uintptr_t)from);
    return lvn_memory_write(w->memory, w->at, from, w->bytes);
}

const void *lvn_parameter_view(const struct lvn_parameter_window *w, void *buffer)
{
    if (!w->collected && w->memory->host) return (const char *)w->memory->host + w->at;
    if (w->collected && w->collected->exchange->gathering) return gathered(w);
    return lvn_parameter_read(w, buffer) == LVN_OK ? buffer : NULL;
}

enum lvn_status lvn_parameter_open(const struct lvn_parameter_window *w, struct lvn_window *out, bool fill)
{
    if (!w->collected) return lvn_window_open(out, w->memory, w->at, w->bytes, fill);
    *out = (struct lvn_window){.bytes = w->bytes, .p = lvn_malloc((size_t)w->bytes + 1)};
    if (!out->p) return LVN_MEMORY;
    return fill ? lvn_parameter_read(w, out->p) : LVN_OK;
}

enum lvn_status lvn_parameter_close(const struct lvn_parameter_window *w, struct lvn_window *opened, bool write_back)
{
    if (!w->collected) return lvn_window_close(opened, write_back);
    enum lvn_status status = write_back && opened->p ? lvn_parameter_write(w, opened->p) : LVN_OK;
    free(opened->p);
    opened->p = NULL;
    return status;
}

/* --- values --- */

/* (columns,rows) to (rows,columns), some rows and columns at a time. */
static void transpose(const float *from, int64_t rows, int64_t columns, float *to)
{
    enum { SIDE = 32 };
    for (int64_t i = 0; i < rows; i += SIDE)
        for (int64_t j = 0; j < columns; j += SIDE)
            for (int64_t r = i; r < rows && r < i + SIDE; r++)
                for (int64_t c = j; c < columns && c < j + SIDE; c++) to[r * columns + c] = from[c * rows + r];
}

enum lvn_status lvn_parameter_store(const struct lvn_model_state *n, const struct lvn_parameter_window *w,
                                    float *values, void *to)
{
    if (!lvn_dtype_is_packed(w->desc.dtype)) {
        lvn_tensor_from_f32(w->desc.dtype, values, to, w->count);
        return LVN_OK;
    }
    const struct lvn_blocks b = lvn_param_blocks(w->param);
    float *rows = lvn_malloc(sizeof *rows * (size_t)w->count);
    if (!rows) return LVN_MEMORY;
    transpose(values, b.rows, b.columns, rows);
    enum lvn_status status = lvn_blocks_write(&b, rows, to, n->device->threads);
    free(rows);
    return status;
}

/* Adjacent windows are sent in one message. */
enum lvn_status lvn_parameters_broadcast(const struct lvn_model_state *n, struct lvn_ranks *ranks)
{
    enum { GAP = 1 << 16 }; /* bytes between two windows that are sent along; the layout's gaps are smaller */
    struct lvn_memory *memory = NULL;
    int64_t at = 0, end = 0;
    if (lvn_parameters_sharded(n, LVN_PARAMETER_VALUES)) return LVN_OK;
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

/* A window's initial values, in fp32. */
struct initial_values {
    const struct lvn_parameter_window *w;
    uint64_t seed;
    float *to;
};

/* A value depends only on the seed, the parameter's name and its index, and not on threads. */
static void init_part(void *argument, int thread, int n_threads)
{
    enum { EACH = 1 << 14 }; /* values: a multiple of the four values of one Philox call */
    const struct initial_values *v = argument;
    int64_t begin, end;
    lvn_thread_range(v->w->count, EACH, thread, n_threads, &begin, &end);
    for (int64_t n; begin < end; begin += n) {
        n = end - begin < EACH ? end - begin : EACH;
        lvn_param_init(v->w->param, v->seed, v->w->first + begin, n, v->to + begin);
        lvn_work_done(n);
    }
}

enum lvn_status lvn_parameters_init_values(const struct lvn_model_state *n, uint64_t seed, bool adapters_only)
{
    const bool all_direct = n->weights == LVN_F32 && !n->params->packed_bytes;
    struct lvn_parameters i = {n, LVN_PARAMETER_VALUES, 0};
    struct lvn_parameter_window w;
    float *wide = lvn_malloc(sizeof *wide * (size_t)(all_direct ? 1 : lvn_params_largest(n->params, false) + 1));
    enum lvn_status status = wide ? LVN_OK : LVN_MEMORY;
    while (status == LVN_OK && lvn_parameters_next(&i, &w)) {
        struct lvn_window to;
        const bool direct = w.desc.dtype == LVN_F32;
        if ((adapters_only && !w.param->adapter) || !w.count) continue;
        status = lvn_parameter_open(&w, &to, false);
        if (status == LVN_OK)
            lvn_team_run(n->device->threads, init_part, &(struct initial_values){&w, seed, direct ? to.p : wide});
        if (status == LVN_OK && !direct) status = lvn_parameter_store(n, &w, wide, to.p);
        enum lvn_status closed = lvn_parameter_close(&w, &to, status == LVN_OK);
        if (status == LVN_OK) status = closed;
    }
    free(wide);
    return status;
}

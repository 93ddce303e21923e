/* shard_files.c - see shard_files.h.
 *
 * A rank that cannot write still takes part in all messages, so that no other rank waits for it; the ranks agree on the
 * failure at the end. */
#include "engine/shard_files.h"

#include "checkpoints/common_file.h"
#include "engine/ranks.h"

enum { TAG_SUM = 2, TAG_TENSOR = 3, STAGING_BYTES = 8 << 20 };

/* One tensor. */
struct task {
    const char *path; /* of its file */
    const struct lvn_safetensors_source *source;
    const struct lvn_shard_origin *origin; /* NULL: nothing of it is sharded */
    int item;                              /* its index in the source */
    int writer;                            /* rank; -1: all ranks of the group that hold a part */
    int group;                             /* first rank of the group (or of all ranks) that holds the data */
    int64_t at, bytes;
};

struct lvn_shard_writing {
    const struct lvn_model_state *n;
    struct lvn_common_file file; /* the open file */
    bool gathering;              /* files are closed for now; they are synced when the rest is written */
    bool async;                  /* gathering delays a step, so its writes stay in the page cache */
    char *block;                 /* of writes; NULL: everything is cached */
    struct task *tasks;
    int n_tasks;
    int64_t *sums;                 /* [n_tasks] this rank's, else 0 */
    bool *busy;                    /* [size] ranks that write a tensor in the current round */
    struct lvn_request *requests;  /* [2 * LVN_SHARD_PARAMS * size] */
    struct lvn_window *windows;    /* of requests that send */
    char *gathered;                /* buffer for the largest tensor and everything that it is computed from */
    char *staging;                 /* STAGING_BYTES for memory that is not the host's */
    enum lvn_status status;        /* the first failure to write */
    char failure[1024];            /* its sentence, which may be another thread's */
    enum lvn_status communication; /* the first failure of messages, after which nothing is sent */
};

enum lvn_status lvn_shard_files_add(struct lvn_shard_files *s, const char *path,
                                    const struct lvn_safetensors_source *source,
                                    const struct lvn_safetensors_layout **layout)
{
    struct lvn_shard_file *f = lvn_arena_alloc(s->arena, sizeof *f);
    if (!f) return LVN_MEMORY;
    *f = (struct lvn_shard_file){.path = lvn_arena_strdup(s->arena, path), .source = *source};
    if (!f->path) return LVN_MEMORY;
    LVN_TRY(lvn_safetensors_lay_out(&f->layout, path, &f->source, s->arena));
    if (s->last)
        s->last->next = f;
    else
        s->first = f;
    s->last = f;
    *layout = &f->layout;
    return LVN_OK;
}

/* --- assigning tensors to ranks --- */

static const struct lvn_shard_origin *sharded_origin(const struct lvn_model_state *n,
                                                     const struct lvn_safetensors_item *item)
{
    const struct lvn_shard_origin *o = item->origin;
    return o && lvn_parameters_sharded(n, o->of) ? o : NULL;
}

static void add_tasks(struct lvn_shard_writing *w, const struct lvn_shard_file *f)
{
    for (int i = 0; i < f->layout.sums.n; i++) {
        struct task t = {
            f->path, &f->source, NULL, f->layout.item[i], -1, 0, f->layout.at[i], f->layout.sums.tensor_bytes[i]};
        t.origin = sharded_origin(w->n, &f->source.item[t.item]);
        w->tasks[w->n_tasks++] = t;
    }
}

/* Assign each tensor to the rank, or to the group of ranks that write parts of it, with the fewest bytes so far. */
static void assign(struct lvn_shard_writing *w, int64_t *bytes)
{
    const int owners = lvn_sharding_owners(&w->n->sharding), size = w->n->ranks->size;
    for (int i = 0; i < w->n_tasks; i++) {
        struct task *t = &w->tasks[i];
        const bool parts = t->origin && t->origin->plain;
        int to = 0;
        for (int rank = 0; rank < size; rank += parts ? owners : 1)
            if (bytes[rank] < bytes[to]) to = rank;
        for (int rank = to; rank < to + (parts ? owners : 1); rank++) bytes[rank] += t->bytes / (parts ? owners : 1);
        t->group = to / owners * owners;
        if (!parts) t->writer = to;
    }
}

/* Is this rank one of the group? */
static bool is_of(const struct lvn_shard_writing *w, const struct task *t)
{
    const int rank = w->n->ranks->rank;
    return rank >= t->group && rank < t->group + lvn_sharding_owners(&w->n->sharding);
}

static int64_t bytes_of(const struct lvn_shard_writing *w, const struct task *t, int k)
{
    const struct lvn_desc d = lvn_parameters_held(w->n, t->origin->of, t->origin->param[k]).desc;
    return lvn_dtype_bytes(d.dtype) * lvn_desc_count(&d);
}

/* Bytes of all parameters from which a tensor is computed; 0: it is not gathered. */
static int64_t gathered_bytes(const struct lvn_shard_writing *w, const struct task *t)
{
    int64_t sum = 0;
    for (int k = 0; t->writer >= 0 && t->origin && k < t->origin->n; k++) sum += bytes_of(w, t, k);
    return sum;
}

int64_t lvn_shard_files_bytes(const struct lvn_model_state *n)
{
    if (!lvn_parameters_any_sharded(n)) return 0;
    return LVN_DIRECT_BYTES + (n->device->backend->snapshot ? STAGING_BYTES : 0);
}

static enum lvn_status prepare(struct lvn_shard_writing *w, const struct lvn_shard_files *s)
{
    const size_t size = (size_t)w->n->ranks->size;
    int tasks = 0, rank = w->n->ranks->rank;
    for (const struct lvn_shard_file *f = s->first; f; f = f->next) tasks += f->layout.sums.n;
    w->tasks = lvn_calloc((size_t)tasks + 1, sizeof *w->tasks);
    w->sums = lvn_calloc((size_t)tasks + 1, sizeof *w->sums);
    w->busy = lvn_calloc(size, sizeof *w->busy);
    w->requests = lvn_calloc(2 * LVN_SHARD_PARAMS * size, sizeof *w->requests);
    w->windows = lvn_calloc(2 * LVN_SHARD_PARAMS * size, sizeof *w->windows);
    w->staging = lvn_malloc(STAGING_BYTES); /* never touched if all memory is host memory */
    w->block = lvn_malloc_aligned(LVN_DIRECT_UNIT, LVN_DIRECT_BYTES);
    if (!w->block) lvn_error_clear();
    int64_t *bytes = lvn_calloc(size, sizeof *bytes), max = 1;
    if (!w->tasks || !w->sums || !w->busy || !w->requests || !w->windows || !w->staging || !bytes) {
        free(bytes);
        return LVN_MEMORY;
    }
    for (const struct lvn_shard_file *f = s->first; f; f = f->next) add_tasks(w, f);
    assign(w, bytes);
    free(bytes);
    for (int i = 0; i < w->n_tasks; i++)
        if (w->tasks[i].writer == rank && gathered_bytes(w, &w->tasks[i]) > max) max = gathered_bytes(w, &w->tasks[i]);
    w->gathered = lvn_malloc((size_t)max);
    return w->gathered ? LVN_OK : LVN_MEMORY;
}

static void release(struct lvn_shard_writing *w)
{
    lvn_common_file_close_unsynced(&w->file);
    free(w->block);
    free(w->tasks);
    free(w->sums);
    free(w->busy);
    free(w->requests);
    free(w->windows);
    free(w->staging);
    free(w->gathered);
}

/* --- writing --- */

static void failed(struct lvn_shard_writing *w, enum lvn_status status)
{
    if (status == LVN_OK || w->status != LVN_OK) return;
    w->status = status;
    snprintf(w->failure, sizeof w->failure, "%s", levin_error_text());
}

static void close_file(struct lvn_shard_writing *w)
{
    if (w->gathering)
        lvn_common_file_close_unsynced(&w->file);
    else
        failed(w, lvn_common_file_close(&w->file, w->status));
}

/* Tensors are in the order of their files, of which there may be more than a process can open. */
static void open_file(struct lvn_shard_writing *w, const struct task *t)
{
    char *block = w->gathering && w->async ? NULL : w->block;
    if (w->file.fd >= 0 && w->file.path != t->path) close_file(w);
    if (w->status == LVN_OK && w->file.fd < 0) failed(w, lvn_common_file_open(&w->file, t->path, block));
}

static void write_bytes(struct lvn_shard_writing *w, const struct task *t, const void *data, int64_t offset,
                        int64_t bytes)
{
    open_file(w, t);
    if (w->status == LVN_OK) failed(w, lvn_common_file_write(&w->file, data, t->at + offset, bytes));
}

static void write_whole(struct lvn_shard_writing *w, int i)
{
    const struct task *t = &w->tasks[i];
    const void *data = t->source->item[t->item].data;
    if (!data && t->bytes) failed(w, t->source->fetch(t->source->context, t->item, &data));
    if (w->status != LVN_OK) return;
    write_bytes(w, t, data, 0, t->bytes);
    w->sums[i] = (int64_t)lvn_checksum(data, t->bytes);
}

/* Write the part that this rank holds in pieces, or add it to a checksum. */
static void each_piece(struct lvn_shard_writing *w, const struct task *t, struct lvn_checksum *sum)
{
    const struct lvn_parameter_window p = lvn_parameters_held(w->n, t->origin->of, t->origin->param[0]);
    const int64_t begin = p.first * lvn_dtype_bytes(p.desc.dtype), step = p.host ? p.bytes : STAGING_BYTES;
    for (int64_t at = 0; at < p.bytes && w->status == LVN_OK; at += step) {
        const int64_t bytes = p.bytes - at < step ? p.bytes - at : step;
        if (!p.host) failed(w, lvn_memory_read(p.memory, p.at + at, w->staging, bytes));
        const void *data = p.host ? p.host : w->staging;
        if (!sum) write_bytes(w, t, data, begin + at, bytes);
        if (sum && w->status == LVN_OK) lvn_checksum_add(sum, data, bytes);
    }
}

/* --- checksums of parts --- */

static void wait_for(struct lvn_shard_writing *w, struct lvn_request *r)
{
    const enum lvn_status status = lvn_comm_wait(w->n->ranks->comm, r);
    if (w->communication == LVN_OK) w->communication = status;
}

/* The next rank in this direction that holds a part; -1: none. */
static int next_owner(const struct lvn_shard_writing *w, const struct task *t, int direction)
{
    const struct lvn_parameter_window p = lvn_parameters_held(w->n, t->origin->of, t->origin->param[0]);
    const int begin = t->group + p.first_owner, end = t->group + p.end_owner;
    int64_t first;
    int rank = w->n->ranks->rank;
    do rank += direction;
    while (rank >= begin && rank < end && !lvn_parameters_held_by(w->n, t->origin->of, p.param, rank, &first));
    return rank >= begin && rank < end ? rank : -1;
}

static void add_part(struct lvn_shard_writing *w, int i)
{
    const struct task *t = &w->tasks[i];
    struct lvn_comm *c = w->n->ranks->comm;
    struct lvn_request r = {0};
    struct lvn_checksum sum;
    if (!lvn_parameters_held(w->n, t->origin->of, t->origin->param[0]).count) return;
    const int before = next_owner(w, t, -1), after = next_owner(w, t, 1);
    lvn_checksum_init(&sum);
    if (before >= 0) {
        lvn_comm_receive(c, &r, &sum, (int64_t)sizeof sum, before, TAG_SUM);
        wait_for(w, &r);
    }
    each_piece(w, t, &sum);
    if (after < 0) w->sums[i] = (int64_t)lvn_checksum_value(&sum);
    if (after < 0 || w->communication != LVN_OK) return;
    lvn_comm_send(c, &r, &sum, (int64_t)sizeof sum, after, TAG_SUM);
    wait_for(w, &r);
}

static void add_parts(struct lvn_shard_writing *w)
{
    for (int i = 0; i < w->n_tasks && w->communication == LVN_OK; i++)
        if (w->tasks[i].writer < 0 && is_of(w, &w->tasks[i])) add_part(w, i);
}

/* --- gathered tensors --- */

/* Start to receive the parameters of a tensor into w->gathered; returns the number of requests. */
static int receive_all(struct lvn_shard_writing *w, const struct task *t, struct lvn_request *r,
                       struct lvn_parameter_gathered *list)
{
    char *to = w->gathered;
    int n = 0;
    for (int k = 0; k < t->origin->n; to += bytes_of(w, t, k++)) {
        const struct lvn_parameter_window mine = lvn_parameters_held(w->n, t->origin->of, t->origin->param[k]);
        const int64_t each = lvn_dtype_bytes(mine.desc.dtype);
        list[k] = (struct lvn_parameter_gathered){t->origin->of, mine.param, to};
        for (int rank = t->group + mine.first_owner; rank < t->group + mine.end_owner; rank++) {
            int64_t first;
            const int64_t count = lvn_parameters_held_by(w->n, t->origin->of, mine.param, rank, &first);
            if (!count || rank == t->writer) continue;
            lvn_comm_receive(w->n->ranks->comm, &r[n++], to + first * each, count * each, rank, TAG_TENSOR);
        }
        if (mine.count) failed(w, lvn_memory_read(mine.memory, mine.at, to + mine.first * each, mine.bytes));
    }
    return n;
}

/* Start to send the parts that this rank holds. */
static int send_all(struct lvn_shard_writing *w, const struct task *t, struct lvn_request *r,
                    struct lvn_window *windows)
{
    int n = 0;
    for (int k = 0; k < t->origin->n; k++) {
        const struct lvn_parameter_window mine = lvn_parameters_held(w->n, t->origin->of, t->origin->param[k]);
        if (!mine.count) continue;
        const enum lvn_status status = lvn_window_open(&windows[n], mine.memory, mine.at, mine.bytes, true);
        if (status != LVN_OK && w->communication == LVN_OK) w->communication = status; /* nothing to send */
        if (status != LVN_OK) break;
        lvn_comm_send(w->n->ranks->comm, &r[n], windows[n].p, mine.bytes, t->writer, TAG_TENSOR);
        n++;
    }
    return n;
}

/* Tensors [begin, end), of which each rank writes at most one: all ranks exchange their parts, then all write. */
static void gather_round(struct lvn_shard_writing *w, int begin, int end)
{
    struct lvn_parameter_gathered list[LVN_SHARD_PARAMS];
    int n = 0, sent, own = -1;
    for (int i = begin; i < end; i++) {
        const struct task *t = &w->tasks[i];
        if (!gathered_bytes(w, t) || !is_of(w, t) || t->writer == w->n->ranks->rank) continue;
        n += send_all(w, t, w->requests + n, w->windows + n);
    }
    sent = n;
    for (int i = begin; i < end; i++) {
        if (!gathered_bytes(w, &w->tasks[i]) || w->tasks[i].writer != w->n->ranks->rank) continue;
        own = i;
        n += receive_all(w, &w->tasks[i], w->requests + n, list);
    }
    for (int i = sent; i < n; i++) wait_for(w, &w->requests[i]);
    if (own >= 0 && w->communication == LVN_OK) {
        lvn_parameters_set_gathered(w->n, list, w->tasks[own].origin->n);
        write_whole(w, own);
        lvn_parameters_set_gathered(w->n, NULL, 0);
    }
    for (int i = 0; i < sent; i++) {
        wait_for(w, &w->requests[i]);
        failed(w, lvn_window_close(&w->windows[i], false));
    }
}

/* The end of the round that begins at task i, before a rank would write a second tensor. */
static int end_of_round(struct lvn_shard_writing *w, int i)
{
    memset(w->busy, 0, sizeof *w->busy * (size_t)w->n->ranks->size);
    for (; i < w->n_tasks; i++) {
        if (!gathered_bytes(w, &w->tasks[i])) continue;
        if (w->busy[w->tasks[i].writer]) break;
        w->busy[w->tasks[i].writer] = true;
    }
    return i;
}

static void gather_all(struct lvn_shard_writing *w)
{
    for (int i = 0, end; i < w->n_tasks && w->communication == LVN_OK; i = end) {
        end = end_of_round(w, i);
        gather_round(w, i, end);
    }
}

/* --- the whole sequence --- */

/* Each sum is 0 on all ranks but one. */
static enum lvn_status share_sums(const struct lvn_shard_writing *w, const struct lvn_shard_files *s)
{
    const int64_t *sum = w->sums;
    LVN_TRY(lvn_comm_all_reduce_now(w->n->ranks->comm, w->sums, w->n_tasks, LVN_I64, LVN_SUM));
    for (struct lvn_shard_file *f = s->first; f; f = f->next)
        for (int i = 0; i < f->layout.sums.n; i++) f->layout.sums.tensor[i] = (uint64_t)*sum++;
    return LVN_OK;
}

enum lvn_status lvn_shard_files_begin(struct lvn_shard_files *s, bool async, enum lvn_status so_far)
{
    struct lvn_shard_writing *w = s->writing = lvn_calloc(1, sizeof *w);
    if (w) *w = (struct lvn_shard_writing){.n = s->model_state, .file = {.fd = -1, .direct = -1}};
    if (so_far == LVN_OK) so_far = w ? prepare(w, s) : LVN_MEMORY;
    so_far = lvn_ranks_agree(s->model_state->ranks, so_far);
    if (so_far != LVN_OK) {
        lvn_shard_files_release(s);
        return so_far;
    }
    w->async = async;
    w->gathering = true;
    add_parts(w);
    gather_all(w);
    close_file(w);
    w->gathering = false;
    return LVN_OK;
}

void lvn_shard_files_write(struct lvn_shard_files *s)
{
    struct lvn_shard_writing *w = s->writing;
    for (int i = 0; i < w->n_tasks; i++) {
        const struct task *t = &w->tasks[i];
        const bool mine = t->writer == w->n->ranks->rank;
        if (t->writer < 0 && is_of(w, t)) each_piece(w, t, NULL);
        if (mine && gathered_bytes(w, t)) open_file(w, t); /* it is already written; closing syncs it */
        if (mine && !gathered_bytes(w, t)) write_whole(w, i);
    }
}

void lvn_shard_files_sync(struct lvn_shard_files *s)
{
    close_file(s->writing);
}

enum lvn_status lvn_shard_files_end(struct lvn_shard_files *s)
{
    const struct lvn_shard_writing *w = s->writing;
    LVN_TRY(w->communication);
    LVN_TRY(lvn_ranks_agree(w->n->ranks, w->status == LVN_OK ? LVN_OK : lvn_fail(w->status, "%s", w->failure)));
    return share_sums(w, s);
}

void lvn_shard_files_release(struct lvn_shard_files *s)
{
    if (s->writing) release(s->writing);
    free(s->writing);
    s->writing = NULL;
}

/* comm.c - the functions of comm.h for any kind of communicator: they fill a request, submit it, and wait for it. */
#include "comm/comm.h"

#include "base/clock.h"
#include "comm/comm_kind.h"
#include "comm/engine.h"

void lvn_comm_init(struct lvn_comm *comm, const struct lvn_comm_ops *ops, int rank, int size)
{
    *comm = (struct lvn_comm){.ops = ops, .rank = rank, .size = size, .hosts = 1};
    comm->whole = comm;
    memcpy(comm->describe, "one rank", sizeof "one rank");
}

/* The kind of a communicator in host memory, if the caller has not chosen one. */
static const struct lvn_comm_kind *kind_for(const struct lvn_comm_options *o)
{
    return lvn_comm_kind_by_connection(o->size == 1 ? LVN_NOT_CONNECTED
                                       : o->sockets ? LVN_CONNECTED_BY_SOCKETS
                                                    : LVN_CONNECTED_BY_LAUNCHER);
}

/* Rank 0 creates the id of the communicator and broadcasts it. It broadcasts its status too, so that no rank waits for
 * an id that could not be created. */
static enum lvn_status share_id(const struct lvn_comm_kind *kind, struct lvn_comm_options *o)
{
    struct message {
        int32_t status;
        char id[LVN_COMM_ID];
    } first = {0};
    if (o->rank == 0) first.status = (int32_t)kind->make_id(first.id);
    LVN_TRY(lvn_comm_broadcast_now(o->host_comm, &first, sizeof first, 0));
    memcpy(o->id, first.id, sizeof o->id);
    if (first.status == LVN_OK || o->rank == 0) return (enum lvn_status)first.status;
    return lvn_comm_follows(lvn_fail(LVN_COMM, "the first rank of this communicator could not create an id for it"));
}

enum lvn_status lvn_comm_open(struct lvn_comm **out, const struct lvn_comm_options *o)
{
    *out = NULL;
    LVN_CHECK(o->size >= 1 && o->rank >= 0 && o->rank < o->size, ARG, "rank %d of %d ranks: no such rank exists",
              o->rank, o->size);
    const struct lvn_comm_kind *kind = o->kind ? o->kind : kind_for(o);
    struct lvn_comm_options options = *o;
    if (kind->make_id) LVN_TRY(share_id(kind, &options));
    return kind->transport ? lvn_engine_open(out, &options, kind->transport, NULL) : kind->open(out, &options);
}

void lvn_comm_close(struct lvn_comm *comm)
{
    if (comm) comm->ops->close(comm);
}

enum lvn_status lvn_comm_split(struct lvn_comm *comm, struct lvn_comm **out, int color, int key)
{
    *out = NULL;
    LVN_CHECK(comm->ops->split, UNSUPPORTED, "%s does not support groups of ranks", comm->describe);
    return comm->ops->split(comm, out, color, key);
}

static _Thread_local char consequence[256]; /* the text of the last one */

enum lvn_status lvn_comm_follows(enum lvn_status status)
{
    snprintf(consequence, sizeof consequence, "%s", levin_error_text());
    return status;
}

bool lvn_comm_is_consequence(void)
{
    return *consequence && !strncmp(levin_error_text(), consequence, strlen(consequence));
}

void lvn_comm_cancel(struct lvn_comm *comm)
{
    if (comm->ops->cancel) comm->ops->cancel(comm);
}

const struct lvn_device *lvn_comm_device(const struct lvn_comm *comm)
{
    return comm->device;
}

int lvn_comm_rank(const struct lvn_comm *comm)
{
    return comm->rank;
}

int lvn_comm_size(const struct lvn_comm *comm)
{
    return comm->size;
}

enum lvn_status lvn_comm_set_hosts(struct lvn_comm *comm, int hosts)
{
    comm->hosts = hosts;
    return comm->ops->set_hosts ? comm->ops->set_hosts(comm) : LVN_OK;
}

const char *lvn_comm_describe(const struct lvn_comm *comm)
{
    return comm->describe;
}

/* --- requests --- */

static void collective(struct lvn_comm *comm, struct lvn_request *request, struct lvn_request value)
{
    *request = value;
    request->number = comm->number++;
    comm->ops->submit(comm, request);
}

void lvn_comm_all_reduce(struct lvn_comm *comm, struct lvn_request *request, void *x, int64_t count,
                         enum lvn_dtype type, enum lvn_reduce op)
{
    collective(
        comm, request,
        (struct lvn_request){
            .kind = LVN_REQUEST_ALL_REDUCE, .x = x, .count = count, .type = (int)type, .op = (int)op, .gather = true});
}

void lvn_comm_reduce_scatter(struct lvn_comm *comm, struct lvn_request *request, void *x, const int64_t *first,
                             enum lvn_dtype type)
{
    collective(
        comm, request,
        (struct lvn_request){
            .kind = LVN_REQUEST_REDUCE_SCATTER, .x = x, .first = first, .count = first[comm->size], .type = (int)type});
}

void lvn_comm_all_gather(struct lvn_comm *comm, struct lvn_request *request, void *x, const int64_t *first,
                         enum lvn_dtype type)
{
    collective(comm, request,
               (struct lvn_request){.kind = LVN_REQUEST_ALL_GATHER,
                                    .x = x,
                                    .gather = true,
                                    .first = first,
                                    .count = first[comm->size],
                                    .type = (int)type});
}

void lvn_comm_tree_reduce(struct lvn_comm *comm, struct lvn_request *request, struct lvn_tree *tree,
                          void *const *partial, void *out, const int64_t *first, enum lvn_dtype type, bool gather)
{
    collective(comm, request,
               (struct lvn_request){.kind = LVN_REQUEST_TREE_REDUCE,
                                    .x = out,
                                    .partial = partial,
                                    .first = first,
                                    .count = first[comm->size],
                                    .type = (int)type,
                                    .tree = tree,
                                    .gather = gather});
}

void lvn_comm_broadcast(struct lvn_comm *comm, struct lvn_request *request, void *x, int64_t bytes, int root)
{
    collective(
        comm, request,
        (struct lvn_request){.kind = LVN_REQUEST_BROADCAST, .x = x, .count = bytes, .type = LVN_U8, .peer = root});
}

void lvn_comm_send(struct lvn_comm *comm, struct lvn_request *request, const void *x, int64_t bytes, int to, int tag)
{
    union {
        const void *in;
        void *x;
    } buffer = {.in = x}; /* only read */
    *request = (struct lvn_request){
        .kind = LVN_REQUEST_SEND, .number = -1, .x = buffer.x, .count = bytes, .type = LVN_U8, .peer = to, .tag = tag};
    comm->ops->submit(comm, request);
}

void lvn_comm_receive(struct lvn_comm *comm, struct lvn_request *request, void *x, int64_t bytes, int from, int tag)
{
    *request = (struct lvn_request){
        .kind = LVN_REQUEST_RECEIVE, .number = -1, .x = x, .count = bytes, .type = LVN_U8, .peer = from, .tag = tag};
    comm->ops->submit(comm, request);
}

void lvn_engine_call(struct lvn_comm *comm, struct lvn_request *request, void (*call)(void *state, void *argument),
                     void *argument)
{
    *request = (struct lvn_request){.kind = LVN_REQUEST_CALL, .number = -1, .x = argument, .call = call};
    comm->ops->submit(comm, request);
}

/* --- waiting --- */

bool lvn_request_done(const struct lvn_request *request)
{
    return __atomic_load_n(&request->done, __ATOMIC_ACQUIRE) != 0;
}

bool lvn_comm_wait_for(struct lvn_comm *comm, struct lvn_request *request, double seconds)
{
    struct timespec until = lvn_deadline(seconds + 1);
    if (!lvn_request_done(request)) comm->ops->wait(comm, request, &until);
    return lvn_request_done(request);
}

enum lvn_status lvn_comm_wait(struct lvn_comm *comm, struct lvn_request *request)
{
    if (!lvn_request_done(request)) comm->ops->wait(comm, request, NULL);
    if (request->status == LVN_OK) return LVN_OK;
    return lvn_fail(request->status, "%s", comm->whole->text);
}

void lvn_comm_abort(struct lvn_comm *comm, int code, double seconds)
{
    if (comm->ops->abort) comm->ops->abort(comm, code, seconds);
}

enum lvn_status lvn_comm_all_reduce_now(struct lvn_comm *comm, void *x, int64_t count, enum lvn_dtype type,
                                        enum lvn_reduce op)
{
    struct lvn_request request;
    lvn_comm_all_reduce(comm, &request, x, count, type, op);
    return lvn_comm_wait(comm, &request);
}

enum lvn_status lvn_comm_broadcast_now(struct lvn_comm *comm, void *x, int64_t bytes, int root)
{
    struct lvn_request request;
    lvn_comm_broadcast(comm, &request, x, bytes, root);
    return lvn_comm_wait(comm, &request);
}

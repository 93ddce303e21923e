/* tcp.c - the transport over TCP connections, used if there is no MPI.
 *
 * Messages are those of tcp_connections.h. Reductions and broadcasts use a binomial tree: up to rank 0 in a fixed
 * order, and down again, which gives the same bits on all ranks. The engine uses them for short vectors only; long
 * ones are exchanged with messages (exchange.c). The engine's thread makes all calls; test() and make_progress() move
 * bytes.
 */

#include "base/arena.h"
#include "comm/comm_kind.h"
#include "comm/engine.h"
#include "comm/tcp_connections.h"

enum {
    TREE_TAGS = 2 * LVN_TAGS, /* first tag of reductions, above those of exchanges */
    ALL_TAGS = 4 * LVN_TAGS,  /* number of tags of one group */
    CHILDREN = 31,            /* maximum number of children of a rank in the tree */
};

/* A reduction or broadcast in progress: receive and add the children's values, send the sum to the parent, receive
 * the result, send it to the children. */
enum stage { REDUCE, SEND_UP, RECEIVE_DOWN, SEND_DOWN, SENDING_DOWN };
struct tree_collective {
    enum stage stage;
    enum lvn_dtype type;
    enum lvn_reduce op;
    char *x;
    char *child_values; /* received from a child */
    int64_t bytes;
    int tag;
    int root;
    int child;                               /* the child to receive from next, as a distance */
    struct lvn_tcp_message *pending;         /* the message of this stage */
    struct lvn_tcp_message *sends[CHILDREN]; /* [n_sends] to the children */
    int n_sends;
};

/* The object of a handle. All operations are in one list, so that they are freed after an error too. */
struct operation {
    struct operation *next;
    struct operation **link; /* the pointer to this one in the list */
    struct lvn_tcp_message *message;
    struct tree_collective *tree_collective;
};

/* The state of all ranks, or of a group, which uses the same connections with its own range of tags. */
struct tcp {
    struct lvn_tcp_connections *connections;
    int rank, size;
    int *member;    /* [size] its ranks among all; NULL: all ranks */
    int tags;       /* added to the tags of its messages */
    int64_t number; /* number of reductions and broadcasts started */
    struct operation *operations;
};

static int send_to(struct tcp *tcp, const void *x, int64_t bytes, int to, int tag, struct lvn_tcp_message **out)
{
    return lvn_tcp_send(tcp->connections, x, bytes, tcp->member ? tcp->member[to] : to, tag + tcp->tags, out);
}

static int receive_from(struct tcp *tcp, void *x, int64_t bytes, int from, int tag, struct lvn_tcp_message **out)
{
    return lvn_tcp_receive(tcp->connections, x, bytes, tcp->member ? tcp->member[from] : from, tag + tcp->tags, out);
}

static int out_of_memory(struct tcp *tcp, int peer)
{
    return lvn_tcp_connections_fail(tcp->connections, tcp->member ? tcp->member[peer] : peer,
                                    "failed: not enough memory");
}

/* --- along the tree --- */

#define COMBINE(real)                                                                                                  \
    do {                                                                                                               \
        real *a = (real *)(void *)collective->x;                                                                       \
        const real *b = (const real *)(const void *)collective->child_values;                                          \
        for (int64_t i = 0; i < collective->bytes / (int64_t)sizeof *a; i++)                                           \
            a[i] = collective->op == LVN_SUM                      ? a[i] + b[i]                                        \
                   : (collective->op == LVN_MIN) == (b[i] < a[i]) ? b[i]                                               \
                                                                  : a[i];                                              \
    } while (0)
static void combine(const struct tree_collective *collective)
{
    if (collective->type == LVN_F32) COMBINE(float);
    if (collective->type == LVN_F64) COMBINE(double);
    if (collective->type == LVN_I32) COMBINE(int32_t);
    if (collective->type == LVN_I64) COMBINE(int64_t);
}
#undef COMBINE

/* Ranks are counted from the root: rank r has the children r + 2^k for each 2^k below its lowest set bit. */
static bool has_child(const struct tcp *tcp, int relative, int distance)
{
    return distance < tcp->size && !(relative & distance) && relative + distance < tcp->size;
}

static int send_down(struct tcp *tcp, struct tree_collective *collective, int relative)
{
    int distance = 1;
    while (has_child(tcp, relative, distance)) distance *= 2;
    for (distance /= 2; distance >= 1; distance /= 2) { /* the child with the largest subtree first */
        int to = (relative + distance + collective->root) % tcp->size;
        if (send_to(tcp, collective->x, collective->bytes, to, collective->tag + 1,
                    &collective->sends[collective->n_sends++]))
            return 1;
    }
    return 0;
}

static int step_collective(struct tcp *tcp, struct tree_collective *collective, bool *done)
{
    const int relative = (tcp->rank - collective->root + tcp->size) % tcp->size,
              parent = ((relative & (relative - 1)) + collective->root) % tcp->size;
    for (;;) {
        const bool received = collective->pending != NULL;
        int code = 0;
        if (!lvn_tcp_finished(&collective->pending)) return 0;
        switch (collective->stage) {
        case REDUCE:
            if (received) combine(collective), collective->child *= 2;
            if (has_child(tcp, relative, collective->child)) {
                code = receive_from(tcp, collective->child_values, collective->bytes, relative + collective->child,
                                    collective->tag, &collective->pending);
                break;
            }
            collective->stage = relative ? SEND_UP : SEND_DOWN;
            if (relative)
                code = send_to(tcp, collective->x, collective->bytes, parent, collective->tag, &collective->pending);
            break;
        case SEND_UP:
            collective->stage = RECEIVE_DOWN;
            code =
                receive_from(tcp, collective->x, collective->bytes, parent, collective->tag + 1, &collective->pending);
            break;
        case RECEIVE_DOWN:
            collective->stage = SEND_DOWN;
            break;
        case SEND_DOWN:
            collective->stage = SENDING_DOWN;
            code = send_down(tcp, collective, relative);
            break;
        case SENDING_DOWN:
            while (collective->n_sends && lvn_tcp_finished(&collective->sends[collective->n_sends - 1]))
                collective->n_sends--;
            *done = !collective->n_sends;
            return 0;
        }
        if (code) return code;
    }
}

static void operation_free(struct operation *operation)
{
    if (!operation) return;
    struct tree_collective *collective = operation->tree_collective;
    *operation->link = operation->next;
    if (operation->next) operation->next->link = operation->link;
    for (int k = 0; collective && k < collective->n_sends; k++) free(collective->sends[k]);
    if (collective) free(collective->pending), free(collective->child_values);
    free(operation->message);
    free(collective);
    free(operation);
}

static struct operation *operation_new(struct tcp *tcp, void *handle)
{
    struct operation *operation = lvn_calloc(1, sizeof *operation);
    if (!operation) return NULL;
    operation->next = tcp->operations;
    operation->link = &tcp->operations;
    if (operation->next) operation->next->link = &operation->next;
    tcp->operations = operation;
    memcpy(handle, &operation, sizeof operation);
    return operation;
}

static int start_collective(struct tcp *tcp, struct tree_collective value, void *handle)
{
    struct operation *operation = operation_new(tcp, handle);
    struct tree_collective *collective =
        operation ? operation->tree_collective = lvn_calloc(1, sizeof *collective) : NULL;
    if (collective) *collective = value, collective->child_values = lvn_malloc((size_t)value.bytes + 1);
    if (!collective || !collective->child_values) return out_of_memory(tcp, tcp->rank);
    collective->tag = TREE_TAGS + 2 * (int)(tcp->number++ % LVN_TAGS);
    collective->child = 1;
    return 0;
}

/* --- what the engine calls --- */

static void clear(void *state, void *handle)
{
    (void)state;
    memset(handle, 0, sizeof(struct operation *));
}

static int send_message(void *state, const void *x, int64_t bytes, int to, int tag, void *handle)
{
    struct operation *operation = operation_new(state, handle);
    return operation ? send_to(state, x, bytes, to, tag, &operation->message) : out_of_memory(state, to);
}

static int receive_message(void *state, void *x, int64_t bytes, int from, int tag, void *handle)
{
    struct operation *operation = operation_new(state, handle);
    return operation ? receive_from(state, x, bytes, from, tag, &operation->message) : out_of_memory(state, from);
}

static int all_reduce(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op, void *handle)
{
    int64_t bytes = count * lvn_dtype_bytes(type);
    return start_collective(
        state, (struct tree_collective){.stage = REDUCE, .type = type, .op = op, .x = x, .bytes = bytes}, handle);
}

static int broadcast(void *state, void *x, int64_t bytes, int root, void *handle)
{
    struct tcp *tcp = state;
    return start_collective(tcp,
                            (struct tree_collective){
                                .stage = tcp->rank == root ? SEND_DOWN : SEND_UP, .x = x, .bytes = bytes, .root = root},
                            handle);
}

/* Poll one handle; frees its object when it is done. */
static int test_one(struct tcp *tcp, struct operation *operation, bool *done)
{
    int code = 0;
    *done = false;
    if (operation->message)
        *done = lvn_tcp_finished(&operation->message);
    else
        code = step_collective(tcp, operation->tree_collective, done);
    if (*done) operation_free(operation);
    return code;
}

static int test(void *state, void *handles, int n, int *n_done, int *done)
{
    *n_done = 0;
    int code = lvn_tcp_connections_progress(((struct tcp *)state)->connections);
    for (int i = 0; i < n && !code; i++) {
        struct operation *operation;
        bool is_done = false;
        memcpy(&operation, (char *)handles + (size_t)i * sizeof operation, sizeof operation);
        if (operation) code = test_one(state, operation, &is_done);
        if (!is_done) continue;
        clear(state, (char *)handles + (size_t)i * sizeof operation);
        done[(*n_done)++] = i;
    }
    return code;
}

static int all_reduce_blocking(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op)
{
    void *handle;
    int code = all_reduce(state, x, count, type, op, &handle), n = 0, index;
    while (!code && !n) code = test(state, &handle, 1, &n, &index);
    return code;
}

static void make_progress(void *state)
{
    (void)lvn_tcp_connections_progress(((struct tcp *)state)->connections); /* the next request reports an error */
}

static void error(void *state, int code, char *text, int bytes)
{
    (void)code;
    snprintf(text, (size_t)bytes, "%s", ((struct tcp *)state)->connections->error);
}

/* --- start and end --- */

/* The state of all ranks owns the connections. */
struct whole {
    struct tcp tcp;
    struct lvn_tcp_connections connections;
};

static void release(void *state)
{
    struct whole *w = state;
    lvn_tcp_connections_close(&w->connections);
    while (w->tcp.operations) operation_free(w->tcp.operations);
    free(w);
}

static enum lvn_status join(void **state, int *handle_bytes, const struct lvn_comm_options *o, char *description,
                            int description_bytes)
{
    struct whole *w = lvn_calloc(1, sizeof *w);
    if (!w) return LVN_MEMORY;
    w->tcp = (struct tcp){.connections = &w->connections, .rank = o->rank, .size = o->size};
    enum lvn_status status = lvn_tcp_connections_open(&w->connections, o->rank, o->size, o->sockets);
    if (status != LVN_OK) {
        release(w);
        return status;
    }
    *state = w;
    *handle_bytes = (int)sizeof(struct operation *);
    snprintf(description, (size_t)description_bytes, "levin's TCP connections");
    return LVN_OK;
}

static void release_group(void *state, bool failed)
{
    struct tcp *tcp = state;
    (void)failed; /* its unfinished messages remain in lists of the connections, which are not used again */
    while (tcp->operations) operation_free(tcp->operations);
    free(tcp->member);
    free(tcp);
}

/* Tags separate the messages of groups, so nothing is sent. */
static enum lvn_status split(void *state, const struct lvn_group_split *group_split, void **group)
{
    _Static_assert((int64_t)(LVN_GROUPS + 1) * ALL_TAGS <= (int64_t)1 << 31, "tags of all groups are ints");
    const struct tcp *all = state;
    if (!group_split->n) return LVN_OK;
    struct tcp *tcp = *group = lvn_calloc(1, sizeof *tcp);
    if (!tcp) return LVN_MEMORY;
    *tcp = (struct tcp){.connections = all->connections, .rank = group_split->rank, .size = group_split->n};
    tcp->tags = (group_split->number + 1) * ALL_TAGS;
    tcp->member = lvn_calloc((size_t)group_split->n, sizeof *tcp->member);
    if (!tcp->member) return LVN_MEMORY;
    for (int i = 0; i < group_split->n; i++)
        tcp->member[i] = all->member ? all->member[group_split->member[i]] : group_split->member[i];
    return LVN_OK;
}

/* Keep the connections of a rank that finishes early open for the others. */
static void barrier(void *state)
{
    int32_t one = 1;
    (void)all_reduce_blocking(state, &one, 1, LVN_I32, LVN_SUM);
}

static const struct lvn_transport transport = {.join = join,
                                               .barrier = barrier,
                                               .release = release,
                                               .clear = clear,
                                               .send = send_message,
                                               .receive = receive_message,
                                               .all_reduce = all_reduce,
                                               .all_reduce_blocking = all_reduce_blocking,
                                               .broadcast = broadcast,
                                               .test = test,
                                               .make_progress = make_progress,
                                               .error = error,
                                               .split = split,
                                               .release_group = release_group};

const struct lvn_comm_kind lvn_comm_kind_tcp = {
    .name = "tcp",
    .description = "levin's TCP connections, which need a rendezvous: levin launch, or MASTER_ADDR and "
                   "MASTER_PORT",
    .connection = LVN_CONNECTED_BY_SOCKETS,
    .transport = &transport};

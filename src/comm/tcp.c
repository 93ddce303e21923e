/* tcp.c - the transport over TCP connections, used where there is no MPI.
 *
 * Messages are those of tcp_connections.h. Reductions and broadcasts use a binomial tree: up to rank 0 in a fixed
 * order, and down again, which gives the same bits on all ranks. The engine uses them for short vectors only; long
 * ones are built of messages (exchange.c). All calls are made by the engine's thread; progress is made in test() and
 * poke(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "comm/comm_kind.h"
#include "comm/engine.h"
#include "comm/tcp_connections.h"

enum {
    TREE_TAGS = 2 * LVN_TAGS, /* above those of exchanges */
    ALL_TAGS = 4 * LVN_TAGS,  /* of one group, those of reductions included */
    CHILDREN = 31,            /* maximum of a rank in the tree */
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

/* The object of a handle. All are in one list, so that they are freed after an error, too. */
struct operation {
    struct operation *next;
    struct operation **link; /* the pointer to this one in the list */
    struct lvn_tcp_message *message;
    struct tree_collective *tree_collective;
};

/* Of all ranks, or of a group, which uses the connections of all with tags of its own. */
struct tcp {
    struct lvn_tcp_connections *connections;
    int rank, size;
    int *member;    /* [size] its ranks among all; NULL: they are all */
    int tags;       /* added to the tags of its messages */
    int64_t number; /* number of reductions and broadcasts started */
    struct operation *operations;
};

static int send_to(struct tcp *t, const void *x, int64_t bytes, int to, int tag, struct lvn_tcp_message **out)
{
    return lvn_tcp_send(t->connections, x, bytes, t->member ? t->member[to] : to, tag + t->tags, out);
}

static int receive_from(struct tcp *t, void *x, int64_t bytes, int from, int tag, struct lvn_tcp_message **out)
{
    return lvn_tcp_receive(t->connections, x, bytes, t->member ? t->member[from] : from, tag + t->tags, out);
}

static int out_of_memory(struct tcp *t, int peer)
{
    return lvn_tcp_connections_fail(t->connections, t->member ? t->member[peer] : peer, "failed: not enough memory");
}

/* --- along the tree --- */

#define COMBINE(real)                                                                                                  \
    do {                                                                                                               \
        real *a = (real *)(void *)c->x;                                                                                \
        const real *b = (const real *)(const void *)c->child_values;                                                   \
        for (int64_t i = 0; i < c->bytes / (int64_t)sizeof *a; i++)                                                    \
            a[i] = c->op == LVN_SUM ? a[i] + b[i] : (c->op == LVN_MIN) == (b[i] < a[i]) ? b[i] : a[i];                 \
    } while (0)
static void combine(const struct tree_collective *c)
{
    if (c->type == LVN_F32) COMBINE(float);
    if (c->type == LVN_F64) COMBINE(double);
    if (c->type == LVN_I32) COMBINE(int32_t);
    if (c->type == LVN_I64) COMBINE(int64_t);
}
#undef COMBINE

/* Ranks are counted from the root: rank r has the children r + 1, r + 2, r + 4 ... below its lowest set bit. */
static bool has_child(const struct tcp *t, int relative, int distance)
{
    return distance < t->size && !(relative & distance) && relative + distance < t->size;
}

static int send_down(struct tcp *t, struct tree_collective *c, int relative)
{
    int distance = 1;
    while (has_child(t, relative, distance)) distance *= 2;
    for (distance /= 2; distance >= 1; distance /= 2) { /* the child with the largest subtree first */
        int to = (relative + distance + c->root) % t->size;
        if (send_to(t, c->x, c->bytes, to, c->tag + 1, &c->sends[c->n_sends++])) return 1;
    }
    return 0;
}

static int step_collective(struct tcp *t, struct tree_collective *c, bool *done)
{
    const int relative = (t->rank - c->root + t->size) % t->size,
              parent = ((relative & (relative - 1)) + c->root) % t->size;
    for (;;) {
        const bool received = c->pending != NULL;
        int code = 0;
        if (!lvn_tcp_finished(&c->pending)) return 0;
        switch (c->stage) {
        case REDUCE:
            if (received) combine(c), c->child *= 2;
            if (has_child(t, relative, c->child)) {
                code = receive_from(t, c->child_values, c->bytes, relative + c->child, c->tag, &c->pending);
                break;
            }
            c->stage = relative ? SEND_UP : SEND_DOWN;
            if (relative) code = send_to(t, c->x, c->bytes, parent, c->tag, &c->pending);
            break;
        case SEND_UP:
            c->stage = RECEIVE_DOWN;
            code = receive_from(t, c->x, c->bytes, parent, c->tag + 1, &c->pending);
            break;
        case RECEIVE_DOWN:
            c->stage = SEND_DOWN;
            break;
        case SEND_DOWN:
            c->stage = SENDING_DOWN;
            code = send_down(t, c, relative);
            break;
        case SENDING_DOWN:
            while (c->n_sends && lvn_tcp_finished(&c->sends[c->n_sends - 1])) c->n_sends--;
            *done = !c->n_sends;
            return 0;
        }
        if (code) return code;
    }
}

static void operation_free(struct operation *w)
{
    if (!w) return;
    struct tree_collective *c = w->tree_collective;
    *w->link = w->next;
    if (w->next) w->next->link = w->link;
    for (int k = 0; c && k < c->n_sends; k++) free(c->sends[k]);
    if (c) free(c->pending), free(c->child_values);
    free(w->message);
    free(c);
    free(w);
}

static struct operation *operation_new(struct tcp *t, void *handle)
{
    struct operation *w = lvn_calloc(1, sizeof *w);
    if (!w) return NULL;
    w->next = t->operations;
    w->link = &t->operations;
    if (w->next) w->next->link = &w->next;
    t->operations = w;
    memcpy(handle, &w, sizeof w);
    return w;
}

static int start_collective(struct tcp *t, struct tree_collective collective, void *handle)
{
    struct operation *w = operation_new(t, handle);
    struct tree_collective *c = w ? w->tree_collective = lvn_calloc(1, sizeof *c) : NULL;
    if (c) *c = collective, c->child_values = lvn_malloc((size_t)collective.bytes + 1);
    if (!c || !c->child_values) return out_of_memory(t, t->rank);
    c->tag = TREE_TAGS + 2 * (int)(t->number++ % LVN_TAGS);
    c->child = 1;
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
    struct operation *w = operation_new(state, handle);
    return w ? send_to(state, x, bytes, to, tag, &w->message) : out_of_memory(state, to);
}

static int receive_message(void *state, void *x, int64_t bytes, int from, int tag, void *handle)
{
    struct operation *w = operation_new(state, handle);
    return w ? receive_from(state, x, bytes, from, tag, &w->message) : out_of_memory(state, from);
}

static int all_reduce(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op, void *handle)
{
    int64_t bytes = count * lvn_dtype_bytes(type);
    return start_collective(
        state, (struct tree_collective){.stage = REDUCE, .type = type, .op = op, .x = x, .bytes = bytes}, handle);
}

static int broadcast(void *state, void *x, int64_t bytes, int root, void *handle)
{
    struct tcp *t = state;
    return start_collective(
        t,
        (struct tree_collective){.stage = t->rank == root ? SEND_DOWN : SEND_UP, .x = x, .bytes = bytes, .root = root},
        handle);
}

/* Poll one handle; frees its object when it is done. */
static int test_one(struct tcp *t, struct operation *w, bool *done)
{
    int code = 0;
    *done = false;
    if (w->message)
        *done = lvn_tcp_finished(&w->message);
    else
        code = step_collective(t, w->tree_collective, done);
    if (*done) operation_free(w);
    return code;
}

static int test(void *state, void *handles, int n, int *n_done, int *done)
{
    *n_done = 0;
    int code = lvn_tcp_connections_progress(((struct tcp *)state)->connections);
    for (int i = 0; i < n && !code; i++) {
        struct operation *w;
        bool is_done = false;
        memcpy(&w, (char *)handles + (size_t)i * sizeof w, sizeof w);
        if (w) code = test_one(state, w, &is_done);
        if (!is_done) continue;
        clear(state, (char *)handles + (size_t)i * sizeof w);
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

static void poke(void *state)
{
    (void)lvn_tcp_connections_progress(((struct tcp *)state)->connections); /* an error shows at the next request */
}

static void error(void *state, int code, char *text, int bytes)
{
    (void)code;
    snprintf(text, (size_t)bytes, "%s", ((struct tcp *)state)->connections->error);
}

/* --- start and end --- */

/* A transport of all ranks owns its connections. */
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

static enum lvn_status join(void **state, int *handle_bytes, const struct lvn_comm_options *o, char *describe,
                            int describe_bytes)
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
    snprintf(describe, (size_t)describe_bytes, "TCP connections of levin's own");
    return LVN_OK;
}

static void release_group(void *state)
{
    struct tcp *t = state;
    while (t->operations) operation_free(t->operations);
    free(t->member);
    free(t);
}

/* Tags tell the messages of groups apart, so nothing is sent. */
static enum lvn_status split(void *state, const struct lvn_group_split *s, void **group)
{
    _Static_assert((int64_t)(LVN_GROUPS + 1) * ALL_TAGS <= (int64_t)1 << 31, "tags of all groups are ints");
    const struct tcp *all = state;
    if (!s->n) return LVN_OK;
    struct tcp *t = *group = lvn_calloc(1, sizeof *t);
    if (!t) return LVN_MEMORY;
    *t = (struct tcp){.connections = all->connections, .rank = s->rank, .size = s->n};
    t->tags = (s->number + 1) * ALL_TAGS;
    t->member = lvn_calloc((size_t)s->n, sizeof *t->member);
    if (!t->member) return LVN_MEMORY;
    for (int i = 0; i < s->n; i++) t->member[i] = all->member ? all->member[s->member[i]] : s->member[i];
    return LVN_OK;
}

/* Collective, so that a rank that finishes early keeps its connections open for the others. */
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
                                               .poke = poke,
                                               .error = error,
                                               .split = split,
                                               .release_group = release_group};

const struct lvn_comm_kind lvn_comm_kind_tcp = {
    .name = "tcp",
    .description = "levin's own connections, which need a rendezvous: levin launch, or MASTER_ADDR and "
                   "MASTER_PORT",
    .meeting = LVN_MEETS_SOCKETS,
    .transport = &transport};

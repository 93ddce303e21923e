/* tcp.c - a transport over TCP connections: for where there is no MPI. Small and plain.
 *
 * Messages are those of tcp_connections.h. Reductions and broadcasts go along a binomial tree, up to rank 0 in a fixed
 * order and down again: the same bits on all ranks. The engine asks for them for short vectors alone; long ones it
 * builds of messages (exchange.c). All calls come from the engine's thread; progress is made in test() and poke(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "comm/engine.h"
#include "comm/tcp_connections.h"

enum {
    TREE_TAGS = 2 * LVN_TAGS, /* above those of exchanges */
    CHILDREN = 31,            /* of a rank in the tree, at most */
};

/* A reduction or broadcast under way: hear of the children, say it to the parent, learn the result, pass it on. */
enum stage { HEAR, SAY, LEARN, PASS, PASSED };
struct together {
    enum stage stage;
    enum lvn_dtype type;
    enum lvn_reduce op;
    char *x, *capacity; /* room: what a child said */
    int64_t bytes;
    int tag, root, child; /* child: whom to hear, as a distance */
    struct lvn_link_message *part, *down[CHILDREN];
    int n_down;
};

/* What a handle points at. All are in one list, so that an end in trouble frees them, too. */
struct work {
    struct work *next, **from;
    struct lvn_link_message *message;
    struct together *together;
};

struct tcp {
    struct lvn_tcp_connections links;
    int64_t number; /* of reductions and broadcasts */
    struct work *works;
};

/* --- along the tree --- */

#define COMBINE(real)                                                                                                  \
    do {                                                                                                               \
        real *a = (real *)(void *)c->x;                                                                                \
        const real *b = (const real *)(const void *)c->capacity;                                                       \
        for (int64_t i = 0; i < c->bytes / (int64_t)sizeof *a; i++)                                                    \
            a[i] = c->op == LVN_SUM ? a[i] + b[i] : (c->op == LVN_MIN) == (b[i] < a[i]) ? b[i] : a[i];                 \
    } while (0)
static void combine(const struct together *c)
{
    if (c->type == LVN_F32) COMBINE(float);
    if (c->type == LVN_F64) COMBINE(double);
    if (c->type == LVN_I32) COMBINE(int32_t);
    if (c->type == LVN_I64) COMBINE(int64_t);
}
#undef COMBINE

/* Ranks are counted from the root: rank r has the children r + 1, r + 2, r + 4 ... below its own lowest bit. */
static bool has_child(const struct tcp *t, int own, int distance)
{
    return distance < t->links.size && !(own & distance) && own + distance < t->links.size;
}

static int pass_on(struct tcp *t, struct together *c, int own)
{
    int distance = 1;
    while (has_child(t, own, distance)) distance *= 2;
    for (distance /= 2; distance >= 1; distance /= 2) { /* whose own part of the tree is largest comes first */
        int to = (own + distance + c->root) % t->links.size;
        if (lvn_link_send(&t->links, c->x, c->bytes, to, c->tag + 1, &c->down[c->n_down++])) return 1;
    }
    return 0;
}

static int step_together(struct tcp *t, struct together *c, bool *done)
{
    const int own = (t->links.rank - c->root + t->links.size) % t->links.size,
              parent = ((own & (own - 1)) + c->root) % t->links.size;
    for (;;) {
        const bool heard = c->part != NULL;
        int code = 0;
        if (!lvn_link_finished(&c->part)) return 0;
        switch (c->stage) {
        case HEAR:
            if (heard) combine(c), c->child *= 2;
            if (has_child(t, own, c->child)) {
                code = lvn_link_receive(&t->links, c->capacity, c->bytes, own + c->child, c->tag, &c->part);
                break;
            }
            c->stage = own ? SAY : PASS;
            if (own) code = lvn_link_send(&t->links, c->x, c->bytes, parent, c->tag, &c->part);
            break;
        case SAY:
            c->stage = LEARN;
            code = lvn_link_receive(&t->links, c->x, c->bytes, parent, c->tag + 1, &c->part);
            break;
        case LEARN:
            c->stage = PASS;
            break;
        case PASS:
            c->stage = PASSED;
            code = pass_on(t, c, own);
            break;
        case PASSED:
            while (c->n_down && lvn_link_finished(&c->down[c->n_down - 1])) c->n_down--;
            *done = !c->n_down;
            return 0;
        }
        if (code) return code;
    }
}

static void work_free(struct work *w)
{
    if (!w) return;
    struct together *c = w->together;
    *w->from = w->next;
    if (w->next) w->next->from = w->from;
    for (int k = 0; c && k < c->n_down; k++) free(c->down[k]);
    if (c) free(c->part), free(c->capacity);
    free(w->message);
    free(c);
    free(w);
}

static struct work *work_new(struct tcp *t, void *handle)
{
    struct work *w = lvn_calloc(1, sizeof *w);
    if (!w) return NULL;
    w->next = t->works;
    w->from = &t->works;
    if (w->next) w->next->from = &w->next;
    t->works = w;
    memcpy(handle, &w, sizeof w);
    return w;
}

static int start_together(struct tcp *t, struct together what, void *handle)
{
    struct work *w = work_new(t, handle);
    struct together *c = w ? w->together = lvn_calloc(1, sizeof *c) : NULL;
    if (c) *c = what, c->capacity = lvn_malloc((size_t)what.bytes + 1);
    if (!c || !c->capacity) return lvn_tcp_connections_fail(&t->links, t->links.rank, "has no memory left");
    c->tag = TREE_TAGS + 2 * (int)(t->number++ % LVN_TAGS);
    c->child = 1;
    return 0;
}

/* --- what the engine calls --- */

static void clear(void *state, void *handle)
{
    (void)state;
    memset(handle, 0, sizeof(struct work *));
}

static int send_message(void *state, const void *x, int64_t bytes, int to, int tag, void *handle)
{
    struct work *w = work_new(state, handle);
    return w ? lvn_link_send(&((struct tcp *)state)->links, x, bytes, to, tag, &w->message)
             : lvn_tcp_connections_fail(&((struct tcp *)state)->links, to, "has no memory left");
}

static int receive_message(void *state, void *x, int64_t bytes, int from, int tag, void *handle)
{
    struct work *w = work_new(state, handle);
    return w ? lvn_link_receive(&((struct tcp *)state)->links, x, bytes, from, tag, &w->message)
             : lvn_tcp_connections_fail(&((struct tcp *)state)->links, from, "has no memory left");
}

static int all_reduce(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op, void *handle)
{
    int64_t bytes = count * lvn_dtype_bytes(type);
    return start_together(state, (struct together){.stage = HEAR, .type = type, .op = op, .x = x, .bytes = bytes},
                          handle);
}

static int broadcast(void *state, void *x, int64_t bytes, int root, void *handle)
{
    struct tcp *t = state;
    return start_together(
        t, (struct together){.stage = t->links.rank == root ? PASS : SAY, .x = x, .bytes = bytes, .root = root},
        handle);
}

/* One handle: is it done? Then it is freed. */
static int test_one(struct tcp *t, struct work *w, bool *done)
{
    int code = 0;
    *done = false;
    if (w->message)
        *done = lvn_link_finished(&w->message);
    else
        code = step_together(t, w->together, done);
    if (*done) work_free(w);
    return code;
}

static int test(void *state, void *handles, int n, int *n_done, int *done)
{
    *n_done = 0;
    int code = lvn_tcp_connections_progress(&((struct tcp *)state)->links);
    for (int i = 0; i < n && !code; i++) {
        struct work *w;
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
    (void)lvn_tcp_connections_progress(&((struct tcp *)state)->links); /* what is wrong shows with the next request */
}

static void error(void *state, int code, char *text, int bytes)
{
    (void)code;
    snprintf(text, (size_t)bytes, "%s", ((struct tcp *)state)->links.trouble);
}

/* --- start and end --- */

static void release(void *state)
{
    struct tcp *t = state;
    lvn_tcp_connections_close(&t->links);
    while (t->works) work_free(t->works);
    free(t);
}

static enum lvn_status join(void **state, int *handle_bytes, const struct lvn_comm_options *o, char *describe,
                            int describe_bytes)
{
    struct tcp *t = lvn_calloc(1, sizeof *t);
    if (!t) return LVN_MEMORY;
    enum lvn_status status = lvn_tcp_connections_open(&t->links, o->rank, o->size, o->sockets);
    if (status != LVN_OK) return release(t), status;
    *state = t;
    *handle_bytes = (int)sizeof(struct work *);
    snprintf(describe, (size_t)describe_bytes, "TCP connections of levin's own");
    return LVN_OK;
}

/* Who is done early leaves its connections to the others until they are done, too. */
static void leave(void *state)
{
    int32_t one = 1;
    (void)all_reduce_blocking(state, &one, 1, LVN_I32, LVN_SUM);
}

const struct lvn_transport lvn_transport_tcp = {.join = join,
                                                .leave = leave,
                                                .release = release,
                                                .clear = clear,
                                                .send = send_message,
                                                .receive = receive_message,
                                                .all_reduce = all_reduce,
                                                .all_reduce_blocking = all_reduce_blocking,
                                                .broadcast = broadcast,
                                                .test = test,
                                                .poke = poke,
                                                .error = error};

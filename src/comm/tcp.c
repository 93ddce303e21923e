/* tcp.c - a transport over TCP connections, one to each other rank: for where there is no MPI. Small and plain.
 *
 * Messages. A header (tag, bytes), then the bytes. What comes before it is asked for is kept aside; where much of one
 * rank is kept already and nothing of it is waited for, its connection is left unread, so that memory is bounded and
 * the sender waits. Messages of one rank with one tag arrive in the order in which they were sent.
 *
 * Reductions and broadcasts go along a binomial tree, up to rank 0 in a fixed order and down again: the same bits on
 * all ranks. The engine asks for them for short vectors alone; long ones it builds of messages (exchange.c).
 *
 * All calls come from the engine's thread. Progress is made in test() and poke(). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arena.h"
#include "comm/engine.h"

enum {
    ASIDE = 4 << 20,          /* bytes of a rank's messages that may be kept while nothing of it is waited for */
    AT_ONCE = 1 << 20,        /* bytes to read of one rank before the next one's turn */
    TREE_TAGS = 2 * LVN_TAGS, /* above those of exchanges */
    CHILDREN = 31,            /* of a rank in the tree, at most */
    EVENTS = 64,              /* of epoll at once */
};

struct header {
    uint64_t tag, bytes;
};

/* A message that is sent or asked for; or a message that came unasked, whose bytes it owns. */
struct message {
    struct message *next;
    struct header header;
    int64_t header_sent, at; /* bytes done */
    char *x;
    bool done;
};

/* A reduction or broadcast under way: hear of the children, say it to the parent, learn the result, pass it on. */
enum stage { HEAR, SAY, LEARN, PASS, PASSED };
struct together {
    enum stage stage;
    enum lvn_dtype type;
    enum lvn_reduce op;
    char *x, *room; /* room: what a child said */
    int64_t bytes;
    int tag, root, child; /* child: whom to hear, as a distance */
    struct message *part, *down[CHILDREN];
    int n_down;
};

/* What a handle points at. All are in one list, so that an end in trouble frees them, too. */
struct work {
    struct work *next, **from;
    struct message *message;
    struct together *together;
};

struct list {
    struct message *first, *last;
};

struct peer {
    int fd;            /* -1: this rank itself, or closed */
    struct list out;   /* to be sent */
    struct list asked; /* receives without their message */
    struct list aside; /* messages without their receive; the last one may still be arriving */
    int64_t aside_bytes;
    struct header header; /* of what arrives */
    int64_t header_read;
    struct message *in; /* what its bytes go to; NULL: the header is not complete */
    bool unread;
};

struct tcp {
    int rank, size, epoll;
    struct peer *peer;
    int64_t number; /* of reductions and broadcasts */
    struct work *works;
    char trouble[300];
};

static int fail(struct tcp *t, int peer, const char *what)
{
    snprintf(t->trouble, sizeof t->trouble, "the connection to rank %d %s", peer, what);
    return 1;
}

/* --- lists --- */

static void append(struct list *l, struct message *m)
{
    m->next = NULL;
    if (l->last)
        l->last->next = m;
    else
        l->first = m;
    l->last = m;
}

/* The first one with this tag, taken out; NULL: none. */
static struct message *take(struct list *l, uint64_t tag)
{
    for (struct message *before = NULL, *m = l->first; m; before = m, m = m->next) {
        if (m->header.tag != tag) continue;
        if (before)
            before->next = m->next;
        else
            l->first = m->next;
        if (l->last == m) l->last = before;
        return m;
    }
    return NULL;
}

static struct message *message_new(uint64_t tag, char *x, int64_t bytes)
{
    struct message *m = lvn_calloc(1, sizeof *m);
    if (m) *m = (struct message){.header = {tag, (uint64_t)bytes}, .x = x};
    return m;
}

static void free_list(struct list *l)
{
    for (struct message *m = l->first, *next; m; m = next) {
        next = m->next;
        free(m->x);
        free(m);
    }
    *l = (struct list){0};
}

/* --- a connection --- */

/* Read nothing of it, or again; so epoll does not tell of it in vain. */
static void set_unread(struct tcp *t, int i, bool unread)
{
    struct peer *p = &t->peer[i];
    struct epoll_event e = {.events = unread ? 0 : EPOLLIN, .data.u32 = (uint32_t)i};
    if (p->unread != unread && p->fd >= 0) (void)epoll_ctl(t->epoll, EPOLL_CTL_MOD, p->fd, &e);
    p->unread = unread;
}

static int flush(struct tcp *t, int i)
{
    struct peer *p = &t->peer[i];
    while (p->out.first) {
        struct message *m = p->out.first;
        struct iovec v[2] = {{(char *)&m->header + m->header_sent, sizeof m->header - (size_t)m->header_sent},
                             {m->x + m->at, (size_t)((int64_t)m->header.bytes - m->at)}};
        struct msghdr h = {.msg_iov = v, .msg_iovlen = 2};
        ssize_t n = p->fd < 0 ? (errno = EPIPE, -1) : sendmsg(p->fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
        if (n < 0) return fail(t, i, strerror(errno));
        int64_t head = (int64_t)v[0].iov_len < n ? (int64_t)v[0].iov_len : n;
        m->header_sent += head;
        m->at += n - head;
        if (m->at < (int64_t)m->header.bytes || m->header_sent < (int64_t)sizeof m->header) return 0;
        take(&p->out, m->header.tag); /* the first of all is the first of its tag */
        m->done = true;
    }
    return 0;
}

/* The header is there: whose bytes are these? */
static int begin_message(struct tcp *t, int i)
{
    struct peer *p = &t->peer[i];
    p->in = take(&p->asked, p->header.tag);
    if (p->in && p->in->header.bytes != p->header.bytes) return fail(t, i, "brings a message of another length");
    if (p->in) return 0;
    if (p->header.bytes > (uint64_t)1 << 40) return fail(t, i, "brings what is no message");
    char *x = lvn_malloc((size_t)p->header.bytes + 1);
    p->in = x ? message_new(p->header.tag, x, (int64_t)p->header.bytes) : NULL;
    if (!p->in) {
        free(x);
        return fail(t, i, "brings more than memory holds");
    }
    append(&p->aside, p->in);
    p->aside_bytes += (int64_t)p->header.bytes;
    return 0;
}

/* Read what is there, up to some bytes. */
static int drain(struct tcp *t, int i)
{
    struct peer *p = &t->peer[i];
    for (int64_t most = AT_ONCE; most > 0;) {
        if (!p->in && p->aside_bytes > ASIDE && !p->asked.first) return set_unread(t, i, true), 0;
        char *to = p->in ? p->in->x + p->in->at : (char *)&p->header + p->header_read;
        int64_t left = p->in ? (int64_t)p->in->header.bytes - p->in->at : (int64_t)sizeof p->header - p->header_read;
        ssize_t n = left ? recv(p->fd, to, (size_t)left, MSG_DONTWAIT) : 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
        if (n < 0) return fail(t, i, strerror(errno));
        if (n == 0 && left) {
            close(p->fd);
            p->fd = -1;
            return p->asked.first || p->out.first || p->in ? fail(t, i, "was closed from there") : 0;
        }
        most -= n + 1;
        if (!p->in) {
            p->header_read += n;
            if (p->header_read == (int64_t)sizeof p->header && begin_message(t, i)) return 1;
        } else {
            p->in->at += n;
        }
        if (!p->in || p->in->at < (int64_t)p->in->header.bytes) continue;
        p->in->done = true;
        p->in = NULL;
        p->header_read = 0;
    }
    return 0;
}

static int progress(struct tcp *t)
{
    struct epoll_event e[EVENTS];
    for (int i = 0; i < t->size; i++)
        if (t->peer[i].out.first && flush(t, i)) return 1;
    int n = epoll_wait(t->epoll, e, EVENTS, 0);
    for (int k = 0; k < n; k++) {
        const int i = (int)e[k].data.u32;
        if (t->peer[i].fd >= 0 && drain(t, i)) return 1;
    }
    return 0;
}

/* --- messages --- */

static int post_send(struct tcp *t, const void *x, int64_t bytes, int to, int tag, struct message **out)
{
    union {
        const void *in;
        char *x;
    } buffer = {.in = x}; /* only read */
    *out = message_new((uint64_t)tag, buffer.x, bytes);
    if (!*out) return fail(t, to, "has no memory left");
    append(&t->peer[to].out, *out);
    return flush(t, to);
}

static int post_receive(struct tcp *t, void *x, int64_t bytes, int from, int tag, struct message **out)
{
    struct peer *p = &t->peer[from];
    struct message *m = *out = message_new((uint64_t)tag, x, bytes), *came = take(&p->aside, (uint64_t)tag);
    if (!m) return fail(t, from, "has no memory left");
    set_unread(t, from, false);
    if (!came) {
        append(&p->asked, m);
        return p->fd < 0 ? fail(t, from, "was closed from there") : 0;
    }
    int bad = came->header.bytes != m->header.bytes;
    p->aside_bytes -= (int64_t)came->header.bytes;
    if (!bad) memcpy(x, came->x, (size_t)came->at);
    m->at = came->at;
    m->done = came->done;
    if (p->in == came) p->in = m;
    free(came->x);
    free(came);
    return bad ? fail(t, from, "brings a message of another length") : 0;
}

/* Done? Then it is forgotten. */
static bool finished(struct message **m)
{
    if (!*m || !(*m)->done) return !*m;
    free(*m);
    *m = NULL;
    return true;
}

/* --- along the tree --- */

#define COMBINE(real)                                                                                                  \
    do {                                                                                                               \
        real *a = (real *)(void *)c->x;                                                                                \
        const real *b = (const real *)(const void *)c->room;                                                           \
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
    return distance < t->size && !(own & distance) && own + distance < t->size;
}

static int pass_on(struct tcp *t, struct together *c, int own)
{
    int distance = 1;
    while (has_child(t, own, distance)) distance *= 2;
    for (distance /= 2; distance >= 1; distance /= 2) { /* whose own part of the tree is largest comes first */
        int to = (own + distance + c->root) % t->size;
        if (post_send(t, c->x, c->bytes, to, c->tag + 1, &c->down[c->n_down++])) return 1;
    }
    return 0;
}

static int step_together(struct tcp *t, struct together *c, bool *done)
{
    const int own = (t->rank - c->root + t->size) % t->size, parent = ((own & (own - 1)) + c->root) % t->size;
    for (;;) {
        const bool heard = c->part != NULL;
        int code = 0;
        if (!finished(&c->part)) return 0;
        switch (c->stage) {
        case HEAR:
            if (heard) combine(c), c->child *= 2;
            if (has_child(t, own, c->child)) {
                code = post_receive(t, c->room, c->bytes, own + c->child, c->tag, &c->part);
                break;
            }
            c->stage = own ? SAY : PASS;
            if (own) code = post_send(t, c->x, c->bytes, parent, c->tag, &c->part);
            break;
        case SAY:
            c->stage = LEARN;
            code = post_receive(t, c->x, c->bytes, parent, c->tag + 1, &c->part);
            break;
        case LEARN:
            c->stage = PASS;
            break;
        case PASS:
            c->stage = PASSED;
            code = pass_on(t, c, own);
            break;
        case PASSED:
            while (c->n_down && finished(&c->down[c->n_down - 1])) c->n_down--;
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
    if (c) free(c->part), free(c->room);
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
    if (c) *c = what, c->room = lvn_malloc((size_t)what.bytes + 1);
    if (!c || !c->room) return fail(t, t->rank, "has no memory left");
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
    return w ? post_send(state, x, bytes, to, tag, &w->message) : fail(state, to, "has no memory left");
}

static int receive_message(void *state, void *x, int64_t bytes, int from, int tag, void *handle)
{
    struct work *w = work_new(state, handle);
    return w ? post_receive(state, x, bytes, from, tag, &w->message) : fail(state, from, "has no memory left");
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
        t, (struct together){.stage = t->rank == root ? PASS : SAY, .x = x, .bytes = bytes, .root = root}, handle);
}

/* One handle: is it done? Then it is freed. */
static int test_one(struct tcp *t, struct work *w, bool *done)
{
    int code = 0;
    *done = false;
    if (w->message)
        *done = finished(&w->message);
    else
        code = step_together(t, w->together, done);
    if (*done) work_free(w);
    return code;
}

static int test(void *state, void *handles, int n, int *n_done, int *done)
{
    *n_done = 0;
    int code = progress(state);
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
    (void)progress(state); /* what is wrong shows with the next request */
}

static void error(void *state, int code, char *text, int bytes)
{
    (void)code;
    snprintf(text, (size_t)bytes, "%s", ((struct tcp *)state)->trouble);
}

/* --- start and end --- */

static void release(void *state)
{
    struct tcp *t = state;
    for (int i = 0; i < t->size && t->peer; i++) {
        if (t->peer[i].fd >= 0) close(t->peer[i].fd);
        free_list(&t->peer[i].aside);
    }
    while (t->works) work_free(t->works);
    if (t->epoll >= 0) close(t->epoll);
    free(t->peer);
    free(t);
}

static enum lvn_status join(void **state, int *handle_bytes, const struct lvn_comm_options *o, char *describe,
                            int describe_bytes)
{
    struct tcp *t = lvn_calloc(1, sizeof *t);
    if (!t) return LVN_MEMORY;
    *t = (struct tcp){.rank = o->rank, .size = o->size, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    t->peer = lvn_calloc((size_t)o->size, sizeof *t->peer);
    for (int i = 0; i < o->size && t->peer; i++) t->peer[i].fd = i == o->rank ? -1 : o->sockets[i];
    bool good = t->peer && t->epoll >= 0;
    for (int i = 0; i < o->size && good; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        if (i != o->rank) good = !epoll_ctl(t->epoll, EPOLL_CTL_ADD, t->peer[i].fd, &e);
    }
    if (!good) {
        release(t);
        LVN_FAIL(IO, "rank %d of %d cannot watch its connections: %s", o->rank, o->size, strerror(errno));
    }
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

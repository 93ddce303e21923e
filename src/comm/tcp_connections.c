/* tcp_connections.c - see tcp_connections.h. */
#include "comm/tcp_connections.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arena.h"

enum {
    UNEXPECTED_BYTES = 4 << 20, /* bytes of a rank's unexpected messages above which its socket is not read */
    READ_BYTES = 1 << 20,       /* bytes to read from one rank before the next one's turn */
    EVENTS = 64,                /* epoll events per call */
};

struct list {
    struct lvn_tcp_message *first, *last;
};

struct lvn_tcp_connection {
    int fd;                 /* -1: this rank itself, or closed */
    struct list out;        /* sends */
    struct list posted;     /* receives whose message has not begun to arrive */
    struct list unexpected; /* messages without a receive; the last one may still be arriving */
    int64_t unexpected_bytes;
    struct lvn_tcp_header header; /* of the message that arrives */
    int64_t header_read;
    struct lvn_tcp_message *in; /* the message that arrives; NULL: its header is not complete */
    bool paused;                /* the socket is not read */
};

int lvn_tcp_connections_fail(struct lvn_tcp_connections *t, int peer, const char *problem)
{
    snprintf(t->error, sizeof t->error, "the connection to rank %d %s", peer, problem);
    return 1;
}

static int broken(struct lvn_tcp_connections *t, int peer)
{
    char problem[200];
    snprintf(problem, sizeof problem, "is broken (%s)", strerror(errno));
    return lvn_tcp_connections_fail(t, peer, problem);
}

/* --- lists --- */

static void append(struct list *l, struct lvn_tcp_message *m)
{
    m->next = NULL;
    if (l->last)
        l->last->next = m;
    else
        l->first = m;
    l->last = m;
}

/* Remove and return the first message with this tag; NULL: none. */
static struct lvn_tcp_message *take(struct list *l, uint64_t tag)
{
    for (struct lvn_tcp_message *before = NULL, *m = l->first; m; before = m, m = m->next) {
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

static struct lvn_tcp_message *message_new(uint64_t tag, char *x, int64_t bytes)
{
    struct lvn_tcp_message *m = lvn_calloc(1, sizeof *m);
    if (m) *m = (struct lvn_tcp_message){.header = {tag, (uint64_t)bytes}, .x = x};
    return m;
}

static void free_list(struct list *l)
{
    for (struct lvn_tcp_message *m = l->first, *next; m; m = next) {
        next = m->next;
        free(m->x);
        free(m);
    }
    *l = (struct list){0};
}

/* --- a connection --- */

/* Stop or resume reading the socket; epoll then reports no input for it. */
static void set_paused(struct lvn_tcp_connections *t, int i, bool paused)
{
    struct lvn_tcp_connection *p = &t->connection[i];
    struct epoll_event e = {.events = paused ? 0 : EPOLLIN, .data.u32 = (uint32_t)i};
    if (p->paused != paused && p->fd >= 0) (void)epoll_ctl(t->epoll, EPOLL_CTL_MOD, p->fd, &e);
    p->paused = paused;
}

static int flush(struct lvn_tcp_connections *t, int i)
{
    struct lvn_tcp_connection *p = &t->connection[i];
    while (p->out.first) {
        struct lvn_tcp_message *m = p->out.first;
        struct iovec v[2] = {{(char *)&m->header + m->header_sent, sizeof m->header - (size_t)m->header_sent},
                             {m->x + m->done_bytes, (size_t)((int64_t)m->header.bytes - m->done_bytes)}};
        struct msghdr h = {.msg_iov = v, .msg_iovlen = 2};
        ssize_t n = p->fd < 0 ? (errno = EPIPE, -1) : sendmsg(p->fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
        if (n < 0) return broken(t, i);
        int64_t head = (int64_t)v[0].iov_len < n ? (int64_t)v[0].iov_len : n;
        m->header_sent += head;
        m->done_bytes += n - head;
        if (m->done_bytes < (int64_t)m->header.bytes || m->header_sent < (int64_t)sizeof m->header) return 0;
        take(&p->out, m->header.tag); /* the first message of the list is the first of its tag */
        m->done = true;
    }
    return 0;
}

/* The header has arrived: find the posted receive, or queue an unexpected message. */
static int begin_message(struct lvn_tcp_connections *t, int i)
{
    struct lvn_tcp_connection *p = &t->connection[i];
    p->in = take(&p->posted, p->header.tag);
    if (p->in && p->in->header.bytes != p->header.bytes)
        return lvn_tcp_connections_fail(t, i, "carried a message of an unexpected length");
    if (p->in) return 0;
    if (p->header.bytes > (uint64_t)1 << 40) return lvn_tcp_connections_fail(t, i, "carried an invalid message");
    char *x = lvn_malloc((size_t)p->header.bytes + 1);
    p->in = x ? message_new(p->header.tag, x, (int64_t)p->header.bytes) : NULL;
    if (!p->in) {
        free(x);
        return lvn_tcp_connections_fail(t, i, "carried more than fits into memory");
    }
    append(&p->unexpected, p->in);
    p->unexpected_bytes += (int64_t)p->header.bytes;
    return 0;
}

/* Read available bytes, up to READ_BYTES. */
static int drain(struct lvn_tcp_connections *t, int i)
{
    struct lvn_tcp_connection *p = &t->connection[i];
    for (int64_t max = READ_BYTES; max > 0;) {
        if (!p->in && p->unexpected_bytes > UNEXPECTED_BYTES && !p->posted.first) {
            set_paused(t, i, true);
            return 0;
        }
        char *to = p->in ? p->in->x + p->in->done_bytes : (char *)&p->header + p->header_read;
        int64_t left =
            p->in ? (int64_t)p->in->header.bytes - p->in->done_bytes : (int64_t)sizeof p->header - p->header_read;
        ssize_t n = left ? recv(p->fd, to, (size_t)left, MSG_DONTWAIT) : 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
        if (n < 0) return broken(t, i);
        if (n == 0 && left) {
            close(p->fd);
            p->fd = -1;
            return p->posted.first || p->out.first || p->in ? lvn_tcp_connections_fail(t, i, "was closed by that rank")
                                                            : 0;
        }
        max -= n + 1;
        if (!p->in) {
            p->header_read += n;
            if (p->header_read == (int64_t)sizeof p->header && begin_message(t, i)) return 1;
        } else {
            p->in->done_bytes += n;
        }
        if (!p->in || p->in->done_bytes < (int64_t)p->in->header.bytes) continue;
        p->in->done = true;
        p->in = NULL;
        p->header_read = 0;
    }
    return 0;
}

int lvn_tcp_connections_progress(struct lvn_tcp_connections *t)
{
    struct epoll_event e[EVENTS];
    for (int i = 0; i < t->size; i++)
        if (t->connection[i].out.first && flush(t, i)) return 1;
    int n = epoll_wait(t->epoll, e, EVENTS, 0);
    for (int k = 0; k < n; k++) {
        const int i = (int)e[k].data.u32;
        if (t->connection[i].fd >= 0 && drain(t, i)) return 1;
    }
    return 0;
}

/* --- messages --- */

int lvn_tcp_send(struct lvn_tcp_connections *t, const void *x, int64_t bytes, int to, int tag,
                 struct lvn_tcp_message **out)
{
    union {
        const void *in;
        char *x;
    } buffer = {.in = x}; /* only read */
    *out = message_new((uint64_t)tag, buffer.x, bytes);
    if (!*out) return lvn_tcp_connections_fail(t, to, "failed: not enough memory");
    append(&t->connection[to].out, *out);
    return flush(t, to);
}

int lvn_tcp_receive(struct lvn_tcp_connections *t, void *x, int64_t bytes, int from, int tag,
                    struct lvn_tcp_message **out)
{
    struct lvn_tcp_connection *p = &t->connection[from];
    struct lvn_tcp_message *m = *out = message_new((uint64_t)tag, x, bytes),
                           *early = take(&p->unexpected, (uint64_t)tag);
    if (!m) return lvn_tcp_connections_fail(t, from, "failed: not enough memory");
    set_paused(t, from, false);
    if (!early) {
        append(&p->posted, m);
        return p->fd < 0 ? lvn_tcp_connections_fail(t, from, "was closed by that rank") : 0;
    }
    if (early->header.bytes != m->header.bytes) { /* it continues to arrive into its own buffer */
        append(&p->unexpected, early);
        return lvn_tcp_connections_fail(t, from, "carried a message of an unexpected length");
    }
    p->unexpected_bytes -= (int64_t)early->header.bytes;
    if (early->done_bytes) memcpy(x, early->x, (size_t)early->done_bytes);
    m->done_bytes = early->done_bytes;
    m->done = early->done;
    if (p->in == early) p->in = m;
    free(early->x);
    free(early);
    return 0;
}

bool lvn_tcp_finished(struct lvn_tcp_message **m)
{
    if (!*m || !(*m)->done) return !*m;
    free(*m);
    *m = NULL;
    return true;
}

/* --- start and end --- */

void lvn_tcp_connections_close(struct lvn_tcp_connections *t)
{
    for (int i = 0; i < t->size && t->connection; i++) {
        if (t->connection[i].fd >= 0) close(t->connection[i].fd);
        free_list(&t->connection[i].unexpected);
    }
    if (t->epoll >= 0) close(t->epoll);
    free(t->connection);
}

enum lvn_status lvn_tcp_connections_open(struct lvn_tcp_connections *t, int rank, int size, const int *sockets)
{
    *t = (struct lvn_tcp_connections){.rank = rank, .size = size, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    t->connection = lvn_calloc((size_t)size, sizeof *t->connection);
    for (int i = 0; i < size && t->connection; i++) t->connection[i].fd = i == rank ? -1 : sockets[i];
    bool good = t->connection && t->epoll >= 0;
    for (int i = 0; i < size && good; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        if (i != rank) good = !epoll_ctl(t->epoll, EPOLL_CTL_ADD, t->connection[i].fd, &e);
    }
    LVN_CHECK(good, IO, "rank %d of %d cannot watch its connections: %s", rank, size, strerror(errno));
    return LVN_OK;
}

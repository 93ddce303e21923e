/* tcp_connections.c - see tcp_connections.h. */
#include "comm/tcp_connections.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arena.h"

enum {
    UNEXPECTED_BYTES = 4 << 20, /* maximum bytes of a rank's unexpected messages; above, its socket is not read */
    READ_BYTES = 1 << 20,       /* bytes to read from one rank before reading from the next one */
    EVENTS = 64,                /* epoll events per call */
};

struct list {
    struct lvn_tcp_message *first, *last;
};

struct lvn_tcp_connection {
    int fd;                 /* -1: this rank itself, or closed */
    struct list out;        /* sends */
    struct list posted;     /* receives whose message has not started to arrive */
    struct list unexpected; /* messages without a receive; the last one may still be arriving */
    int64_t unexpected_bytes;
    struct lvn_tcp_header header; /* of the arriving message */
    int64_t header_read;
    struct lvn_tcp_message *in; /* the arriving message; NULL: its header is not complete */
    bool paused;                /* the socket is not read */
};

int lvn_tcp_connections_fail(struct lvn_tcp_connections *connections, int peer, const char *problem)
{
    snprintf(connections->error, sizeof connections->error, "the connection to rank %d %s", peer, problem);
    return 1;
}

static int broken(struct lvn_tcp_connections *connections, int peer)
{
    char problem[200];
    snprintf(problem, sizeof problem, "is broken (%s)", strerror(errno));
    return lvn_tcp_connections_fail(connections, peer, problem);
}

/* --- lists --- */

static void append(struct list *l, struct lvn_tcp_message *message)
{
    message->next = NULL;
    if (l->last)
        l->last->next = message;
    else
        l->first = message;
    l->last = message;
}

/* Remove and return the first message with this tag; NULL: none. */
static struct lvn_tcp_message *take(struct list *l, uint64_t tag)
{
    for (struct lvn_tcp_message *before = NULL, *message = l->first; message;
         before = message, message = message->next) {
        if (message->header.tag != tag) continue;
        if (before)
            before->next = message->next;
        else
            l->first = message->next;
        if (l->last == message) l->last = before;
        return message;
    }
    return NULL;
}

static struct lvn_tcp_message *message_new(uint64_t tag, char *x, int64_t bytes)
{
    struct lvn_tcp_message *message = lvn_calloc(1, sizeof *message);
    if (message) *message = (struct lvn_tcp_message){.header = {tag, (uint64_t)bytes}, .x = x};
    return message;
}

static void free_list(struct list *l)
{
    for (struct lvn_tcp_message *message = l->first, *next; message; message = next) {
        next = message->next;
        free(message->x);
        free(message);
    }
    *l = (struct list){0};
}

/* --- a connection --- */

/* Stop or resume reading the socket, by disabling or enabling its epoll event. */
static void set_paused(struct lvn_tcp_connections *connections, int i, bool paused)
{
    struct lvn_tcp_connection *connection = &connections->connection[i];
    struct epoll_event e = {.events = paused ? 0 : EPOLLIN, .data.u32 = (uint32_t)i};
    if (connection->paused != paused && connection->fd >= 0)
        (void)epoll_ctl(connections->epoll, EPOLL_CTL_MOD, connection->fd, &e);
    connection->paused = paused;
}

static int flush(struct lvn_tcp_connections *connections, int i)
{
    struct lvn_tcp_connection *connection = &connections->connection[i];
    while (connection->out.first) {
        struct lvn_tcp_message *message = connection->out.first;
        struct iovec v[2] = {
            {(char *)&message->header + message->header_sent, sizeof message->header - (size_t)message->header_sent},
            {message->x + message->done_bytes, (size_t)((int64_t)message->header.bytes - message->done_bytes)}};
        struct msghdr h = {.msg_iov = v, .msg_iovlen = 2};
        ssize_t n = connection->fd < 0 ? (errno = EPIPE, -1) : sendmsg(connection->fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
        if (n < 0) return broken(connections, i);
        int64_t head = (int64_t)v[0].iov_len < n ? (int64_t)v[0].iov_len : n;
        message->header_sent += head;
        message->done_bytes += n - head;
        if (message->done_bytes < (int64_t)message->header.bytes ||
            message->header_sent < (int64_t)sizeof message->header)
            return 0;
        take(&connection->out, message->header.tag); /* the first message of the list is the first of its tag */
        message->done = true;
    }
    return 0;
}

/* The header has arrived: find the posted receive, or queue an unexpected message. */
static int begin_message(struct lvn_tcp_connections *connections, int i)
{
    struct lvn_tcp_connection *connection = &connections->connection[i];
    connection->in = take(&connection->posted, connection->header.tag);
    if (connection->in && connection->in->header.bytes != connection->header.bytes)
        return lvn_tcp_connections_fail(connections, i, "carried a message of an unexpected length");
    if (connection->in) return 0;
    if (connection->header.bytes > (uint64_t)1 << 40)
        return lvn_tcp_connections_fail(connections, i, "carried an invalid message");
    char *x = lvn_malloc((size_t)connection->header.bytes + 1);
    connection->in = x ? message_new(connection->header.tag, x, (int64_t)connection->header.bytes) : NULL;
    if (!connection->in) {
        free(x);
        return lvn_tcp_connections_fail(connections, i, "carried a message that does not fit into memory");
    }
    append(&connection->unexpected, connection->in);
    connection->unexpected_bytes += (int64_t)connection->header.bytes;
    return 0;
}

/* Read available bytes, up to READ_BYTES. */
static int drain(struct lvn_tcp_connections *connections, int i)
{
    struct lvn_tcp_connection *connection = &connections->connection[i];
    for (int64_t max = READ_BYTES; max > 0;) {
        if (!connection->in && connection->unexpected_bytes > UNEXPECTED_BYTES && !connection->posted.first) {
            set_paused(connections, i, true);
            return 0;
        }
        char *to = connection->in ? connection->in->x + connection->in->done_bytes
                                  : (char *)&connection->header + connection->header_read;
        int64_t left = connection->in ? (int64_t)connection->in->header.bytes - connection->in->done_bytes
                                      : (int64_t)sizeof connection->header - connection->header_read;
        ssize_t n = left ? recv(connection->fd, to, (size_t)left, MSG_DONTWAIT) : 0;
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
        if (n < 0) return broken(connections, i);
        if (n == 0 && left) {
            close(connection->fd);
            connection->fd = -1;
            return connection->posted.first || connection->out.first || connection->in
                       ? lvn_tcp_connections_fail(connections, i, "was closed by that rank")
                       : 0;
        }
        max -= n + 1;
        if (!connection->in) {
            connection->header_read += n;
            if (connection->header_read == (int64_t)sizeof connection->header && begin_message(connections, i))
                return 1;
        } else {
            connection->in->done_bytes += n;
        }
        if (!connection->in || connection->in->done_bytes < (int64_t)connection->in->header.bytes) continue;
        connection->in->done = true;
        connection->in = NULL;
        connection->header_read = 0;
    }
    return 0;
}

int lvn_tcp_connections_progress(struct lvn_tcp_connections *connections)
{
    struct epoll_event e[EVENTS];
    if (*connections->error) return 1;
    for (int i = 0; i < connections->size; i++)
        if (connections->connection[i].out.first && flush(connections, i)) return 1;
    int n = epoll_wait(connections->epoll, e, EVENTS, 0);
    for (int k = 0; k < n; k++) {
        const int i = (int)e[k].data.u32;
        if (connections->connection[i].fd >= 0 && drain(connections, i)) return 1;
    }
    return 0;
}

/* --- messages --- */

int lvn_tcp_send(struct lvn_tcp_connections *connections, const void *x, int64_t bytes, int to, int tag,
                 struct lvn_tcp_message **out)
{
    union {
        const void *in;
        char *x;
    } buffer = {.in = x}; /* only read */
    *out = message_new((uint64_t)tag, buffer.x, bytes);
    if (!*out) return lvn_tcp_connections_fail(connections, to, "failed: not enough memory");
    append(&connections->connection[to].out, *out);
    return flush(connections, to);
}

int lvn_tcp_receive(struct lvn_tcp_connections *connections, void *x, int64_t bytes, int from, int tag,
                    struct lvn_tcp_message **out)
{
    struct lvn_tcp_connection *connection = &connections->connection[from];
    struct lvn_tcp_message *message = *out = message_new((uint64_t)tag, x, bytes);
    if (!message) return lvn_tcp_connections_fail(connections, from, "failed: not enough memory");
    struct lvn_tcp_message *early = take(&connection->unexpected, (uint64_t)tag);
    set_paused(connections, from, false);
    if (!early) {
        append(&connection->posted, message);
        return connection->fd < 0 ? lvn_tcp_connections_fail(connections, from, "was closed by that rank") : 0;
    }
    if (early->header.bytes != message->header.bytes) { /* it continues to arrive into its own buffer */
        append(&connection->unexpected, early);
        return lvn_tcp_connections_fail(connections, from, "carried a message of an unexpected length");
    }
    connection->unexpected_bytes -= (int64_t)early->header.bytes;
    if (early->done_bytes) memcpy(x, early->x, (size_t)early->done_bytes);
    message->done_bytes = early->done_bytes;
    message->done = early->done;
    if (connection->in == early) connection->in = message;
    free(early->x);
    free(early);
    return 0;
}

bool lvn_tcp_finished(struct lvn_tcp_message **message)
{
    if (!*message || !(*message)->done) return !*message;
    free(*message);
    *message = NULL;
    return true;
}

/* --- start and end --- */

void lvn_tcp_connections_close(struct lvn_tcp_connections *connections)
{
    for (int i = 0; i < connections->size && connections->connection; i++) {
        if (connections->connection[i].fd >= 0) close(connections->connection[i].fd);
        free_list(&connections->connection[i].unexpected);
    }
    if (connections->epoll >= 0) close(connections->epoll);
    free(connections->connection);
}

enum lvn_status lvn_tcp_connections_open(struct lvn_tcp_connections *connections, int rank, int size,
                                         const int *sockets)
{
    *connections = (struct lvn_tcp_connections){.rank = rank, .size = size, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    connections->connection = lvn_calloc((size_t)size, sizeof *connections->connection);
    for (int i = 0; i < size && connections->connection; i++)
        connections->connection[i].fd = i == rank ? -1 : sockets[i];
    bool good = connections->connection && connections->epoll >= 0;
    for (int i = 0; i < size && good; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        if (i != rank) good = !epoll_ctl(connections->epoll, EPOLL_CTL_ADD, connections->connection[i].fd, &e);
    }
    LVN_CHECK(good, IO, "rank %d of %d: cannot add its connections to epoll: %s", rank, size, strerror(errno));
    return LVN_OK;
}

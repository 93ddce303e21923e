/* cluster_clients.h - many simulated ranks that speak the protocol of the rendezvous, in one thread: they join, send
 * heartbeats, and count the messages that they receive. */
#ifndef LVN_CLUSTER_CLIENTS_H
#define LVN_CLUSTER_CLIENTS_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/rendezvous/wire.h"

struct client {
    struct lvn_wire wire;
    int rank;
    bool connected, welcomed, started, lost, ended;
    int64_t bytes, rows, peers, groups; /* received; bytes of whole lines */
    int highest;                        /* rank of a row that it received */
    double retry;                       /* closed before it was welcomed: time of its next attempt */
};
struct clients {
    struct client *client;
    struct pollfd *polled;
    int n, port, each; /* each: ranks a host */
    const char *token;
};

static inline void clients_init(struct clients *c, int n, int each, int port, const char *token)
{
    *c = (struct clients){.n = n, .port = port, .each = each, .token = token};
    c->client = calloc((size_t)n, sizeof *c->client);
    c->polled = calloc((size_t)n, sizeof *c->polled);
    for (int i = 0; c->client && i < n; i++) c->client[i] = (struct client){.wire = {.fd = -1}, .rank = i};
}

static inline void clients_free(struct clients *c)
{
    for (int i = 0; i < c->n; i++) lvn_wire_close(&c->client[i].wire);
    free(c->client);
    free(c->polled);
}

/* A connection to the server on this machine, in progress. */
static inline int knock(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) && errno != EINPROGRESS) close(fd), fd = -1;
    return fd;
}

static inline void client_hello(const struct clients *clients, struct client *c)
{
    char host[40];
    struct lvn_text *t = &c->wire.out;
    snprintf(host, sizeof host, "node%04d.cluster.example.org", c->rank / clients->each);
    lvn_wire_close(&c->wire);
    c->wire = (struct lvn_wire){.fd = knock(clients->port)};
    lvn_message_add(t, LVN_MESSAGE_HELLO, clients->token, (int64_t)c->rank, (int64_t)clients->n,
                    (int64_t)(1000 + c->rank), host);
    lvn_message_add(t, LVN_MESSAGE_FACT, "build", "0.1.0 gcc 12.2 release");
    lvn_message_add(t, LVN_MESSAGE_FACT, "recipe", "d41d8cd98f00b204e9800998ecf8427e");
    lvn_message_add(t, LVN_MESSAGE_READY);
}

static inline void client_heartbeat(struct client *c, int64_t step)
{
    lvn_message_add(&c->wire.out, LVN_MESSAGE_HEARTBEAT, step, (int64_t)3, (int64_t)12, 1234.5, 0.25 + 1e-4 * c->rank,
                    (int64_t)1 << 30, step * 12, step * 100, (int64_t)0, "sum of a bucket", "");
    lvn_wire_flush(&c->wire);
}

static inline void client_receive(struct client *c)
{
    char *line;
    struct lvn_message m;
    bool open = lvn_wire_read(&c->wire);
    while ((line = lvn_wire_line(&c->wire))) {
        c->bytes += (int64_t)strlen(line) + 1;
        if (!lvn_message_parse(line, &m)) abort();
        c->welcomed |= m.kind == LVN_MESSAGE_WELCOME;
        c->started |= m.kind == LVN_MESSAGE_START;
        c->lost |= m.kind == LVN_MESSAGE_LOST;
        c->ended |= m.kind == LVN_MESSAGE_END;
        c->rows += m.kind == LVN_MESSAGE_ROW;
        if (m.kind == LVN_MESSAGE_ROW && m.i[0] > c->highest) c->highest = (int)m.i[0];
        c->peers += m.kind == LVN_MESSAGE_PEER;
        c->groups += m.kind == LVN_MESSAGE_GROUP;
    }
    if (open) return;
    lvn_wire_close(&c->wire);
    c->wire = (struct lvn_wire){.fd = -1};
    c->retry = lvn_seconds() + 0.1; /* as a rank does */
}

/* Read and write as much as possible. */
static inline void clients_move(struct clients *c, int milliseconds)
{
    for (int i = 0; i < c->n; i++) {
        struct client *x = &c->client[i];
        if (x->wire.fd < 0 && !x->welcomed && lvn_seconds() >= x->retry) client_hello(c, x);
        c->polled[i] = (struct pollfd){.fd = x->wire.fd, .events = (short)(POLLIN | (x->wire.out.n ? POLLOUT : 0))};
    }
    poll(c->polled, (nfds_t)c->n, milliseconds);
    for (int i = 0; i < c->n; i++) {
        if (c->polled[i].revents & POLLOUT) lvn_wire_flush(&c->client[i].wire);
        if (c->polled[i].revents & (POLLIN | POLLHUP | POLLERR)) client_receive(&c->client[i]);
    }
}

static inline int clients_started(const struct clients *c)
{
    int n = 0;
    for (int i = 0; i < c->n; i++) n += c->client[i].started;
    return n;
}

/* Wait until all have received START; false: not within the seconds. */
static inline bool clients_meet(struct clients *c, double seconds)
{
    for (double end = lvn_seconds() + seconds; lvn_seconds() < end;) {
        if (clients_started(c) == c->n) return true;
        clients_move(c, 20);
    }
    return false;
}

#endif

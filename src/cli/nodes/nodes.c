/* nodes.c - see nodes.h: connections, the thread that serves them, and what launch_nodes.c asks of it. What the other
 * nodes say is nodes_join.c's. */
#include "cli/nodes/nodes.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/threads.h"
#include "cli/nodes/nodes_private.h"
#include "cluster/rendezvous/endpoints.h"

static const double GREET_SECONDS = 10; /* for a connection to join */
static const double TICK_SECONDS = 0.2;

/* --- the thread --- */

static void drop(struct lvn_nodes *s, int k)
{
    lvn_wire_close(&s->client[k]->wire);
    free(s->client[k]);
    s->client[k] = s->client[--s->n_clients];
}

/* False: close the connection. */
static bool serve_client(struct lvn_nodes *s, struct lvn_node_client *c)
{
    char *line;
    if (c->closing) c->wire.used = c->wire.taken = 0; /* nobody reads it any more */
    bool open = lvn_wire_read(&c->wire);
    while (open && !c->closing && (line = lvn_wire_line(&c->wire))) {
        struct lvn_message m;
        if (lvn_message_parse(line, &m) && lvn_nodes_receive(s, c, &m)) continue;
        if (c->node < 0) lvn_nodes_warn_stranger(s, c, "sent no message of levin launch");
        return false;
    }
    return open && !c->wire.broken;
}

static void accept_clients(struct lvn_nodes *s)
{
    const int capacity = s->o.nodes + LVN_NODE_STRANGERS;
    for (;;) {
        struct sockaddr_storage from;
        socklen_t size = sizeof from;
        int fd = accept4(s->listening, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        struct lvn_node_client *c = s->n_clients < capacity ? calloc(1, sizeof *c) : NULL;
        if (!c) {
            close(fd);
            return;
        }
        lvn_node_keep_alive(fd, s->o.timeout);
        c->wire.fd = fd;
        c->node = -1;
        c->since = lvn_seconds();
        if (getnameinfo((struct sockaddr *)&from, size, c->from, sizeof c->from, NULL, 0, NI_NUMERICHOST))
            snprintf(c->from, sizeof c->from, "?");
        s->client[s->n_clients++] = c;
    }
}

/* A node that comes when the launch is stopping or has failed waits for the next node 0: it is perhaps the replacement
 * of one that was told the end. */
static void send_finish(struct lvn_nodes *s, struct lvn_node_client *c)
{
    c->closing = true;
    c->since = lvn_seconds();
    if (c->late && s->code) return;
    lvn_message_add(&c->wire.out, LVN_MESSAGE_FINISH, (int64_t)s->code);
    s->notified[c->node] = true;
}

static void serve_all(struct lvn_nodes *s, int n, double now)
{
    for (int k = n - 1; k >= 0; k--) { /* drop() moves the last one here, which was served already */
        struct lvn_node_client *c = s->client[k];
        const bool greets = (!c->joined && !c->waits) || c->closing;
        bool good = true;
        if (s->polled[k].revents & (POLLIN | POLLHUP | POLLERR)) good = serve_client(s, c);
        if (greets && now - c->since > GREET_SECONDS) good = false;
        if (!good) drop(s, k);
    }
    accept_clients(s);
    lvn_nodes_check_seconds(s, now);
    for (int k = s->n_clients - 1; k >= 0; k--) {
        struct lvn_node_client *c = s->client[k];
        if (s->finishing && c->joined && !c->closing) send_finish(s, c);
        lvn_wire_flush(&c->wire);
        if (c->wire.broken)
            drop(s, k);
        else if (c->closing && !c->wire.out.n)
            shutdown(c->wire.fd, SHUT_WR); /* closed when the other side has read it */
    }
}

static void *serve(void *argument)
{
    struct lvn_nodes *s = argument;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        const int n = s->n_clients;
        for (int k = 0; k < n; k++) {
            const short out = s->client[k]->wire.out.n ? POLLOUT : 0;
            s->polled[k] = (struct pollfd){.fd = s->client[k]->wire.fd, .events = (short)(POLLIN | out)};
        }
        s->polled[n] = (struct pollfd){.fd = s->listening, .events = POLLIN};
        s->polled[n + 1] = (struct pollfd){.fd = s->wake, .events = POLLIN};
        const bool stop = s->stop;
        pthread_mutex_unlock(&s->lock);
        if (stop) return NULL;
        if (poll(s->polled, (nfds_t)n + 2, (int)(1000 * TICK_SECONDS)) < 0 && errno != EINTR) return NULL;
        pthread_mutex_lock(&s->lock);
        uint64_t woken;
        if ((s->polled[n + 1].revents & POLLIN) && read(s->wake, &woken, sizeof woken) < 0) woken = 0;
        serve_all(s, n < s->n_clients ? n : s->n_clients, lvn_seconds()); /* lvn_nodes_take() may have dropped some */
        pthread_mutex_unlock(&s->lock);
    }
}

static void wake(struct lvn_nodes *s)
{
    uint64_t one = 1;
    if (write(s->wake, &one, sizeof one) < 0) return; /* the thread wakes up soon anyway */
}

/* --- what launch_nodes.c asks --- */

static enum lvn_status begin(struct lvn_nodes *s)
{
    LVN_CHECK(s->client && s->polled && s->taken && s->took_part && s->notified && s->clock_off, MEMORY,
              "no memory for %d nodes", s->o.nodes);
    LVN_TRY(lvn_allow_files(s->o.nodes, 2 * s->o.nodes + LVN_NODE_STRANGERS));
    LVN_TRY_WHILE(lvn_listen(s->o.listen, s->o.port, &s->listening), "making a place for the launchers of %d nodes",
                  s->o.nodes);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    LVN_CHECK(s->wake >= 0, IO, "cannot make an eventfd: %s", strerror(errno));
    int bad = lvn_thread_start(&s->thread, serve, s);
    LVN_CHECK(!bad, MEMORY, "cannot start a thread: %s", strerror(bad));
    s->running = true;
    return LVN_OK;
}

enum lvn_status lvn_nodes_start(struct lvn_nodes **out, const struct lvn_nodes_options *o)
{
    const size_t n = (size_t)o->nodes, clients = n + LVN_NODE_STRANGERS;
    struct lvn_nodes *s = calloc(1, sizeof *s);
    LVN_CHECK(s, MEMORY, "no memory for %d nodes", o->nodes);
    s->o = *o;
    s->listening = s->wake = -1;
    pthread_mutex_init(&s->lock, NULL);
    s->client = calloc(clients, sizeof *s->client);
    s->polled = calloc(clients + 2, sizeof *s->polled);
    s->taken = calloc(n, sizeof *s->taken);
    s->took_part = calloc(n, sizeof *s->took_part);
    s->notified = calloc(n, sizeof *s->notified);
    s->clock_off = calloc(n, sizeof *s->clock_off);
    enum lvn_status status = begin(s);
    if (status)
        lvn_nodes_stop(s);
    else
        *out = s;
    return status;
}

void lvn_nodes_stop(struct lvn_nodes *s)
{
    if (!s) return;
    if (s->running) {
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        pthread_mutex_unlock(&s->lock);
        wake(s);
        pthread_join(s->thread, NULL);
    }
    while (s->n_clients) drop(s, s->n_clients - 1);
    if (s->listening >= 0) close(s->listening);
    if (s->wake >= 0) close(s->wake);
    pthread_mutex_destroy(&s->lock);
    free(s->client);
    free(s->polled);
    free(s->taken);
    free(s->took_part);
    free(s->notified);
    free(s->clock_off);
    free(s);
}

static int count_missing(const struct lvn_nodes *s, bool *missing)
{
    int n = 0;
    for (int i = 1; i < s->o.nodes; i++) {
        const struct lvn_node_client *c = lvn_nodes_joined(s, i);
        const bool gone = !c || c->pinged_at > 0;
        if (missing) missing[i] = gone;
        n += gone;
    }
    if (missing) missing[0] = false;
    return n;
}

int lvn_nodes_missing(struct lvn_nodes *s, bool *missing)
{
    pthread_mutex_lock(&s->lock);
    const int n = count_missing(s, missing);
    pthread_mutex_unlock(&s->lock);
    return n;
}

void lvn_nodes_refusal(struct lvn_nodes *s, char text[600])
{
    pthread_mutex_lock(&s->lock);
    memcpy(text, s->refusal, sizeof s->refusal);
    pthread_mutex_unlock(&s->lock);
}

bool lvn_nodes_take(struct lvn_nodes *s, bool all, int *connection)
{
    pthread_mutex_lock(&s->lock);
    const bool take = !all || !count_missing(s, NULL);
    for (int i = 0; i < s->o.nodes; i++) {
        connection[i] = 0;
        if (take) s->took_part[i] = false;
    }
    for (int k = s->n_clients - 1; k >= 0 && take; k--) {
        struct lvn_node_client *c = s->client[k];
        if (!c->joined || c->closing || c->pinged_at > 0) continue;
        lvn_message_add(&c->wire.out, LVN_MESSAGE_START);
        lvn_wire_flush(&c->wire);
        if (!c->wire.broken && !c->wire.out.n) {
            connection[c->node] = c->wire.fd;
            s->taken[c->node] = s->took_part[c->node] = true;
            c->wire.fd = -1;
        }
        drop(s, k);
    }
    pthread_mutex_unlock(&s->lock);
    return take;
}

void lvn_nodes_release(struct lvn_nodes *s)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->o.nodes; i++) s->taken[i] = false;
    pthread_mutex_unlock(&s->lock);
    wake(s);
}

void lvn_nodes_finish(struct lvn_nodes *s, int code, double seconds)
{
    const struct timespec tick = {.tv_nsec = 10000000};
    const double end = lvn_seconds() + seconds;
    bool left = true;
    pthread_mutex_lock(&s->lock);
    s->finishing = true;
    s->code = code;
    while (left) {
        left = false;
        for (int i = 1; i < s->o.nodes; i++) left |= s->took_part[i] && !s->notified[i];
        for (int k = 0; k < s->n_clients; k++)
            left |= s->client[k]->joined && !s->client[k]->late; /* until it has read that */
        left = left && lvn_seconds() < end;
        pthread_mutex_unlock(&s->lock);
        wake(s);
        if (left) nanosleep(&tick, NULL);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

/* nodes.c - see nodes.h: connections, the thread that serves them, and the functions that launch_nodes.c calls.
 * nodes_join.c handles the messages of other nodes. */
#include "launch/nodes.h"

#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/threads.h"
#include "cluster/rendezvous/endpoints.h"
#include "launch/nodes_private.h"

static const double JOIN_SECONDS = 10; /* for a connection to join */
static const double TICK_SECONDS = 0.2;

/* --- the thread --- */

static void drop(struct lvn_nodes *nodes, int k)
{
    lvn_wire_close(&nodes->client[k]->wire);
    free(nodes->client[k]);
    nodes->client[k] = nodes->client[--nodes->n_clients];
}

/* False: close the connection. */
static bool serve_client(struct lvn_nodes *nodes, struct lvn_node_client *client)
{
    char *line;
    if (client->closing) client->wire.used = client->wire.taken = 0; /* its messages are no longer read */
    bool open = lvn_wire_read(&client->wire);
    while (open && !client->closing && (line = lvn_wire_line(&client->wire))) {
        struct lvn_message message;
        if (lvn_message_parse(line, &message) && lvn_nodes_receive(nodes, client, &message)) continue;
        if (client->node < 0) lvn_nodes_warn_stranger(nodes, client, "sent a message that is not from levin launch");
        return false;
    }
    return open && !client->wire.broken;
}

static void accept_clients(struct lvn_nodes *nodes)
{
    const int capacity = nodes->o.nodes + LVN_NODE_STRANGERS;
    for (;;) {
        struct sockaddr_storage from;
        socklen_t size = sizeof from;
        int fd = accept4(nodes->listening, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        struct lvn_node_client *client = nodes->n_clients < capacity ? calloc(1, sizeof *client) : NULL;
        if (!client) {
            close(fd);
            return;
        }
        lvn_node_keep_alive(fd, nodes->o.timeout);
        client->wire.fd = fd;
        client->node = -1;
        client->since = lvn_seconds();
        if (getnameinfo((struct sockaddr *)&from, size, client->from, sizeof client->from, NULL, 0, NI_NUMERICHOST))
            snprintf(client->from, sizeof client->from, "?");
        nodes->client[nodes->n_clients++] = client;
    }
}

/* A node that joins while the launch is stopping or has failed waits for the next node 0: it may be the replacement of
 * a node that was notified of the end. */
static void send_finish(struct lvn_nodes *nodes, struct lvn_node_client *client)
{
    client->closing = true;
    client->since = lvn_seconds();
    if (client->late && nodes->code) return;
    lvn_message_add(&client->wire.out, LVN_MESSAGE_FINISH, (int64_t)nodes->code);
    nodes->notified[client->node] = true;
}

static void serve_all(struct lvn_nodes *nodes, int n, double now)
{
    for (int k = n - 1; k >= 0; k--) { /* drop() moves the last one to k; it was served already */
        struct lvn_node_client *client = nodes->client[k];
        const bool is_limited = (!client->joined && !client->waits) || client->closing;
        bool good = true;
        if (nodes->polled[k].revents & (POLLIN | POLLHUP | POLLERR)) good = serve_client(nodes, client);
        if (is_limited && now - client->since > JOIN_SECONDS) good = false;
        if (!good) drop(nodes, k);
    }
    accept_clients(nodes);
    lvn_nodes_check_seconds(nodes, now);
    for (int k = nodes->n_clients - 1; k >= 0; k--) {
        struct lvn_node_client *client = nodes->client[k];
        if (nodes->finishing && client->joined && !client->closing) send_finish(nodes, client);
        lvn_wire_flush(&client->wire);
        if (client->wire.broken)
            drop(nodes, k);
        else if (client->closing && !client->wire.out.n)
            shutdown(client->wire.fd, SHUT_WR); /* closed when the other side has read it */
    }
}

static void *serve(void *argument)
{
    struct lvn_nodes *nodes = argument;
    for (;;) {
        pthread_mutex_lock(&nodes->lock);
        const int n = nodes->n_clients;
        for (int k = 0; k < n; k++) {
            const short out = nodes->client[k]->wire.out.n ? POLLOUT : 0;
            nodes->polled[k] = (struct pollfd){.fd = nodes->client[k]->wire.fd, .events = (short)(POLLIN | out)};
        }
        nodes->polled[n] = (struct pollfd){.fd = nodes->listening, .events = POLLIN};
        nodes->polled[n + 1] = (struct pollfd){.fd = nodes->wake, .events = POLLIN};
        const bool stop = nodes->stop;
        pthread_mutex_unlock(&nodes->lock);
        if (stop) return NULL;
        if (poll(nodes->polled, (nfds_t)n + 2, (int)(1000 * TICK_SECONDS)) < 0 && errno != EINTR) return NULL;
        pthread_mutex_lock(&nodes->lock);
        uint64_t woken;
        if ((nodes->polled[n + 1].revents & POLLIN) && read(nodes->wake, &woken, sizeof woken) < 0) woken = 0;
        serve_all(nodes, n < nodes->n_clients ? n : nodes->n_clients,
                  lvn_seconds()); /* lvn_nodes_acquire() may have dropped some */
        pthread_mutex_unlock(&nodes->lock);
    }
}

static void wake(struct lvn_nodes *nodes)
{
    uint64_t one = 1;
    if (write(nodes->wake, &one, sizeof one) < 0) return; /* the thread wakes up soon in any case */
}

/* --- called by launch_nodes.c --- */

static enum lvn_status begin(struct lvn_nodes *nodes)
{
    LVN_CHECK(nodes->client && nodes->polled && nodes->taken && nodes->took_part && nodes->notified && nodes->clock_off,
              MEMORY, "not enough memory for %d nodes", nodes->o.nodes);
    LVN_TRY(lvn_allow_files(nodes->o.nodes, 2 * nodes->o.nodes + LVN_NODE_STRANGERS));
    LVN_TRY_WHILE(lvn_listen(nodes->o.listen, nodes->o.port, &nodes->listening),
                  "listening for the launchers of %d nodes", nodes->o.nodes);
    nodes->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    LVN_CHECK(nodes->wake >= 0, IO, "cannot create an eventfd: %s", strerror(errno));
    int bad = lvn_thread_start(&nodes->thread, serve, nodes);
    LVN_CHECK(!bad, MEMORY, "cannot start a thread: %s", strerror(bad));
    nodes->running = true;
    return LVN_OK;
}

enum lvn_status lvn_nodes_start(struct lvn_nodes **out, const struct lvn_nodes_options *o)
{
    const size_t n = (size_t)o->nodes, clients = n + LVN_NODE_STRANGERS;
    struct lvn_nodes *nodes = calloc(1, sizeof *nodes);
    LVN_CHECK(nodes, MEMORY, "not enough memory for %d nodes", o->nodes);
    nodes->o = *o;
    nodes->listening = nodes->wake = -1;
    pthread_mutex_init(&nodes->lock, NULL);
    nodes->client = calloc(clients, sizeof *nodes->client);
    nodes->polled = calloc(clients + 2, sizeof *nodes->polled);
    nodes->taken = calloc(n, sizeof *nodes->taken);
    nodes->took_part = calloc(n, sizeof *nodes->took_part);
    nodes->notified = calloc(n, sizeof *nodes->notified);
    nodes->clock_off = calloc(n, sizeof *nodes->clock_off);
    enum lvn_status status = begin(nodes);
    if (status)
        lvn_nodes_stop(nodes);
    else
        *out = nodes;
    return status;
}

void lvn_nodes_stop(struct lvn_nodes *nodes)
{
    if (!nodes) return;
    if (nodes->running) {
        pthread_mutex_lock(&nodes->lock);
        nodes->stop = true;
        pthread_mutex_unlock(&nodes->lock);
        wake(nodes);
        pthread_join(nodes->thread, NULL);
    }
    while (nodes->n_clients) drop(nodes, nodes->n_clients - 1);
    if (nodes->listening >= 0) close(nodes->listening);
    if (nodes->wake >= 0) close(nodes->wake);
    pthread_mutex_destroy(&nodes->lock);
    free(nodes->client);
    free(nodes->polled);
    free(nodes->taken);
    free(nodes->took_part);
    free(nodes->notified);
    free(nodes->clock_off);
    free(nodes);
}

static int count_missing(const struct lvn_nodes *nodes, bool *missing)
{
    int n = 0;
    for (int i = 1; i < nodes->o.nodes; i++) {
        const struct lvn_node_client *client = lvn_nodes_joined(nodes, i);
        const bool gone = !client || client->pinged_at > 0;
        if (missing) missing[i] = gone;
        n += gone;
    }
    if (missing) missing[0] = false;
    return n;
}

int lvn_nodes_missing(struct lvn_nodes *nodes, bool *missing)
{
    pthread_mutex_lock(&nodes->lock);
    const int n = count_missing(nodes, missing);
    pthread_mutex_unlock(&nodes->lock);
    return n;
}

void lvn_nodes_refusal(struct lvn_nodes *nodes, char text[600])
{
    pthread_mutex_lock(&nodes->lock);
    memcpy(text, nodes->refusal, sizeof nodes->refusal);
    pthread_mutex_unlock(&nodes->lock);
}

bool lvn_nodes_acquire(struct lvn_nodes *nodes, bool all, int *connection)
{
    pthread_mutex_lock(&nodes->lock);
    const bool acquire = !all || !count_missing(nodes, NULL);
    for (int i = 0; i < nodes->o.nodes; i++) {
        connection[i] = 0;
        if (acquire) nodes->took_part[i] = false;
    }
    for (int k = nodes->n_clients - 1; k >= 0 && acquire; k--) {
        struct lvn_node_client *client = nodes->client[k];
        if (!client->joined || client->closing || client->pinged_at > 0) continue;
        lvn_message_add(&client->wire.out, LVN_MESSAGE_START);
        lvn_wire_flush(&client->wire);
        if (!client->wire.broken && !client->wire.out.n) {
            connection[client->node] = client->wire.fd;
            nodes->taken[client->node] = nodes->took_part[client->node] = true;
            client->wire.fd = -1;
        }
        drop(nodes, k);
    }
    pthread_mutex_unlock(&nodes->lock);
    return acquire;
}

void lvn_nodes_release(struct lvn_nodes *nodes)
{
    pthread_mutex_lock(&nodes->lock);
    for (int i = 0; i < nodes->o.nodes; i++) nodes->taken[i] = false;
    pthread_mutex_unlock(&nodes->lock);
    wake(nodes);
}

void lvn_nodes_finish(struct lvn_nodes *nodes, int code, double seconds)
{
    const struct timespec tick = {.tv_nsec = 10000000};
    const double end = lvn_seconds() + seconds;
    bool left = true;
    pthread_mutex_lock(&nodes->lock);
    nodes->finishing = true;
    nodes->code = code;
    while (left) {
        left = false;
        for (int i = 1; i < nodes->o.nodes; i++) left |= nodes->took_part[i] && !nodes->notified[i];
        for (int k = 0; k < nodes->n_clients; k++)
            left |= nodes->client[k]->joined && !nodes->client[k]->late; /* until it has read FINISH */
        left = left && lvn_seconds() < end;
        pthread_mutex_unlock(&nodes->lock);
        wake(nodes);
        if (left) nanosleep(&tick, NULL);
        pthread_mutex_lock(&nodes->lock);
    }
    pthread_mutex_unlock(&nodes->lock);
}

/* nodes.c - see nodes.h: connections, the thread that serves them, messages of other nodes, and the
 * functions that launch_nodes.c calls. */
#include "launch/nodes.h"

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "base/threads.h"
#include "cluster/rendezvous/endpoints.h"
#include "cluster/rendezvous/wire.h"
#include "launch/node_handshake.h"

static const double JOIN_SECONDS = 10; /* for a connection to join */
static const double TICK_SECONDS = 0.2;

enum { STRANGERS = 64 }; /* maximum number of connections that have not joined */

struct client {
    struct lvn_wire wire;
    int node;                      /* its index; -1: JOIN not received yet */
    bool joined;                   /* READY was received, and nothing was wrong */
    bool waits;                    /* it is a second launcher of its node, and the first may be gone */
    bool late;                     /* it joined while the launch was ending, and was not expected */
    bool closing;                  /* closed when everything is sent */
    double since;                  /* lvn_seconds() of the connection, or of the start of the wait if it `waits` */
    double pinged_at;              /* lvn_seconds() of a PING without an answer; 0: none */
    char nonce[LVN_NODE_NONCE];    /* of node 0 */
    char nonce_of[LVN_NODE_NONCE]; /* of the other node */
    char from[64];                 /* its address, for messages */
    char host[256];                /* the host name that it sent */
    char wrong[600];               /* why it must be refused; "": nothing is wrong */
};

struct node {
    bool taken;     /* levin ranks has its connection */
    bool took_part; /* in the last attempt */
    bool notified;  /* FINISH was sent */
    bool clock_off; /* a warning about its clock was logged */
};

struct lvn_nodes {
    struct lvn_nodes_options o;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the fields below */
    bool running, stop;
    int listening, wake;
    struct client **client;
    int n_clients;
    struct pollfd *polled;
    struct node *node; /* [nodes] */
    bool finishing;
    int code;             /* of FINISH */
    bool stranger_logged; /* a warning about a stranger was logged */
    char refusal[600];
};

/* --- messages of other nodes' launchers: the handshake, whether they fit the job, and which of two with the same
 * number remains --- */

static const double CLOCK_SECONDS = 30; /* minimum difference of clocks that is reported */

/* Warn, once, about a connection that is not a launcher of this job. */
static void warn_stranger(struct lvn_nodes *nodes, const struct client *client, const char *did)
{
    if (!nodes->stranger_logged)
        lvn_log(LVN_LOG_WARN, "a process at %s that %s was rejected by the launcher of node 0", client->from, did);
    nodes->stranger_logged = true;
}

/* The launcher of the node that has joined; NULL: none. */
static struct client *find_joined(const struct lvn_nodes *nodes, int node)
{
    for (int k = 0; k < nodes->n_clients; k++)
        if (nodes->client[k]->node == node && nodes->client[k]->joined && !nodes->client[k]->closing)
            return nodes->client[k];
    return NULL;
}

static void refuse(struct lvn_nodes *nodes, struct client *client, const char *reason)
{
    snprintf(nodes->refusal, sizeof nodes->refusal, "%s", reason);
    lvn_log(LVN_LOG_WARN, "a node was rejected: %s", reason);
    lvn_message_add(&client->wire.out, LVN_MESSAGE_REFUSE, reason);
    client->joined = client->waits = false;
    client->closing = true;
    client->since = lvn_seconds();
}

static bool handle_node(struct lvn_nodes *nodes, struct client *client, const struct lvn_message *message)
{
    char proof[LVN_NODE_PROOF];
    if (*client->nonce || strlen(message->t[0]) != LVN_NODE_NONCE - 1) return false;
    if (lvn_node_nonce(client->nonce)) return false;
    snprintf(client->nonce_of, sizeof client->nonce_of, "%s", message->t[0]);
    lvn_node_proof(nodes->o.token, "node 0", client->nonce, client->nonce_of, proof);
    lvn_message_add(&client->wire.out, LVN_MESSAGE_CHALLENGE, client->nonce, proof);
    return true;
}

static void check_clock(struct lvn_nodes *nodes, const struct client *client, double clock)
{
    const double offset = clock - lvn_wall_seconds();
    if (fabs(offset) <= CLOCK_SECONDS || nodes->node[client->node].clock_off) return;
    nodes->node[client->node].clock_off = true;
    lvn_log(LVN_LOG_WARN,
            "the clock of %s (%s) is %.0f s %s that of this node: times in logs and of files will not agree; start its "
            "NTP service",
            nodes->o.name[client->node], client->host, fabs(offset), offset > 0 ? "ahead of" : "behind");
}

static bool handle_join(struct lvn_nodes *nodes, struct client *client, const struct lvn_message *message)
{
    const int64_t node = message->i[0], n_nodes = message->i[1], ranks = message->i[2];
    char proof[LVN_NODE_PROOF];
    if (!*client->nonce || client->node >= 0) return false;
    lvn_node_proof(nodes->o.token, "node", client->nonce, client->nonce_of, proof);
    if (!lvn_node_proof_equal(proof, message->t[0])) {
        warn_stranger(nodes, client, "sent the token of another job");
        lvn_message_add(&client->wire.out, LVN_MESSAGE_REFUSE,
                        "its token is not this job's: give all nodes the same LEVIN_TOKEN and LEVIN_JOB_ID");
        return client->closing = true;
    }
    if (node < 0 || n_nodes < 1 || ranks < 1) return false;
    snprintf(client->host, sizeof client->host, "%s", message->t[1]);
    if (n_nodes != nodes->o.nodes || ranks != nodes->o.ranks)
        snprintf(
            client->wrong, sizeof client->wrong,
            "node %lld on %.100s was started as one of %lld nodes with %lld ranks each, and node 0 as one of %d with "
            "%d: give all the same --nodes and --nproc-per-node (NNODES, GPUS_PER_NODE)",
            (long long)node, client->host, (long long)n_nodes, (long long)ranks, nodes->o.nodes, nodes->o.ranks);
    else if (node >= n_nodes)
        return false;
    else if (node == 0)
        snprintf(client->wrong, sizeof client->wrong,
                 "two launchers claim to be node 0, one of them on %.100s: give each node its own --node-rank "
                 "(NODE_RANK)",
                 client->host);
    client->node = node < nodes->o.nodes ? (int)node : 0;
    if (!*client->wrong) check_clock(nodes, client, message->d[0]);
    return true;
}

/* A value that differs is the reason of a refusal; the first is reported. */
static bool handle_fact(struct lvn_nodes *nodes, struct client *client, const struct lvn_message *message)
{
    const struct lvn_words *keys = nodes->o.keys;
    int i = 0;
    if (client->node < 0 || client->joined) return false;
    if (*client->wrong) return true;
    while (i < keys->n && strcmp(keys->word[i], message->t[0]) != 0) i += 2;
    const char *mine = i < keys->n ? keys->word[i + 1] : "";
    if (!strncmp(mine, message->t[1], LVN_WIRE_TEXT - 1)) return true;
    const bool version = !strcmp(message->t[0], "version");
    snprintf(client->wrong, sizeof client->wrong, "%s on %.60s has %.60s %.100s%s, but node 0 has %.100s%s: %s",
             nodes->o.name[client->node], client->host, version ? "levin" : message->t[0],
             *message->t[1] ? message->t[1] : "\"\"", strlen(message->t[1]) > 100 ? "..." : "", *mine ? mine : "\"\"",
             strlen(mine) > 100 ? "..." : "",
             version ? "install the same on all nodes (one image)"
                     : "give all nodes the same recipe, keys and variables");
    return true;
}

static bool handle_ready(struct lvn_nodes *nodes, struct client *client)
{
    if (client->node < 0 || client->joined) return false;
    if (*client->wrong) {
        refuse(nodes, client, client->wrong);
        return true;
    }
    struct client *first = find_joined(nodes, client->node);
    client->waits = first || nodes->node[client->node].taken;
    client->joined = !client->waits;
    client->late = nodes->finishing && !(nodes->node[client->node].took_part && !nodes->node[client->node].notified);
    client->since = lvn_seconds();
    if (first && !first->pinged_at) {
        lvn_message_add(&first->wire.out, LVN_MESSAGE_PING);
        first->pinged_at = client->since;
    }
    return true;
}

/* The launcher that had joined is alive, so others with its number are refused. */
static bool handle_pong(struct lvn_nodes *nodes, struct client *client)
{
    char text[600];
    if (!client->joined || !client->pinged_at) return false;
    client->pinged_at = 0;
    for (int k = 0; k < nodes->n_clients; k++) {
        struct client *other = nodes->client[k];
        if (!other->waits || other->node != client->node) continue;
        snprintf(text, sizeof text,
                 "two launchers claim to be node %d, on %.100s and on %.100s: give each node its own --node-rank "
                 "(NODE_RANK)",
                 client->node, client->host, other->host);
        refuse(nodes, other, text);
    }
    return true;
}

/* Decide between two launchers of one node, of which one waits. */
static void check_seconds(struct lvn_nodes *nodes, double now)
{
    char text[600];
    for (int k = 0; k < nodes->n_clients; k++) {
        struct client *client = nodes->client[k], *first = client->waits ? find_joined(nodes, client->node) : NULL;
        if (!client->waits || client->closing) continue;
        if (first && first->pinged_at && now - first->pinged_at > nodes->o.timeout)
            first->closing = true; /* it is gone */
        if (first && !first->closing) continue;
        if (!nodes->node[client->node].taken) {
            client->waits = false;
            client->joined = true;
        } else if (now - client->since > 2 * nodes->o.timeout) { /* the attempt continues, so the first one is alive */
            snprintf(
                text, sizeof text,
                "two launchers claim to be node %d, one of them on %.100s, and the other's ranks are running: give "
                "each node its own --node-rank (NODE_RANK)",
                client->node, client->host);
            refuse(nodes, client, text);
        }
    }
}

/* With the lock held. Returns false if the connection must be closed. */
static bool handle(struct lvn_nodes *nodes, struct client *client, const struct lvn_message *message)
{
    switch (message->kind) {
    case LVN_MESSAGE_NODE:
        return handle_node(nodes, client, message);
    case LVN_MESSAGE_JOIN:
        return handle_join(nodes, client, message);
    case LVN_MESSAGE_FACT:
        return handle_fact(nodes, client, message);
    case LVN_MESSAGE_READY:
        return handle_ready(nodes, client);
    case LVN_MESSAGE_PONG:
        return handle_pong(nodes, client);
    default:
        return false;
    }
}

/* --- the thread --- */

static void drop(struct lvn_nodes *nodes, int k)
{
    lvn_wire_close(&nodes->client[k]->wire);
    free(nodes->client[k]);
    nodes->client[k] = nodes->client[--nodes->n_clients];
}

/* False: close the connection. */
static bool serve_client(struct lvn_nodes *nodes, struct client *client)
{
    char *line;
    if (client->closing) client->wire.used = client->wire.taken = 0; /* its messages are no longer read */
    bool open = lvn_wire_read(&client->wire);
    while (open && !client->closing && (line = lvn_wire_line(&client->wire))) {
        struct lvn_message message;
        if (lvn_message_parse(line, &message) && handle(nodes, client, &message)) continue;
        if (client->node < 0) warn_stranger(nodes, client, "sent a message that is not from levin launch");
        return false;
    }
    return open && !client->wire.broken;
}

static void accept_clients(struct lvn_nodes *nodes)
{
    const int capacity = nodes->o.nodes + STRANGERS;
    for (;;) {
        struct sockaddr_storage from;
        socklen_t size = sizeof from;
        int fd = accept4(nodes->listening, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        struct client *client = nodes->n_clients < capacity ? calloc(1, sizeof *client) : NULL;
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
static void send_finish(struct lvn_nodes *nodes, struct client *client)
{
    client->closing = true;
    client->since = lvn_seconds();
    if (client->late && nodes->code) return;
    lvn_message_add(&client->wire.out, LVN_MESSAGE_FINISH, (int64_t)nodes->code);
    nodes->node[client->node].notified = true;
}

static void serve_all(struct lvn_nodes *nodes, int n, double now)
{
    for (int k = n - 1; k >= 0; k--) { /* drop() moves the last one to k; it was served already */
        struct client *client = nodes->client[k];
        const bool is_limited = (!client->joined && !client->waits) || client->closing;
        bool good = true;
        if (nodes->polled[k].revents & (POLLIN | POLLHUP | POLLERR)) good = serve_client(nodes, client);
        if (is_limited && now - client->since > JOIN_SECONDS) good = false;
        if (!good) drop(nodes, k);
    }
    accept_clients(nodes);
    check_seconds(nodes, now);
    for (int k = nodes->n_clients - 1; k >= 0; k--) {
        struct client *client = nodes->client[k];
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
    LVN_CHECK(nodes->client && nodes->polled && nodes->node, MEMORY, "not enough memory for %d nodes", nodes->o.nodes);
    LVN_TRY(lvn_allow_files(nodes->o.nodes, 2 * nodes->o.nodes + STRANGERS));
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
    const size_t n = (size_t)o->nodes, clients = n + STRANGERS;
    struct lvn_nodes *nodes = calloc(1, sizeof *nodes);
    LVN_CHECK(nodes, MEMORY, "not enough memory for %d nodes", o->nodes);
    nodes->o = *o;
    nodes->listening = nodes->wake = -1;
    pthread_mutex_init(&nodes->lock, NULL);
    nodes->client = calloc(clients, sizeof *nodes->client);
    nodes->polled = calloc(clients + 2, sizeof *nodes->polled);
    nodes->node = calloc(n, sizeof *nodes->node);
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
    free(nodes->node);
    free(nodes);
}

static int count_missing(const struct lvn_nodes *nodes, bool *missing)
{
    int n = 0;
    for (int i = 1; i < nodes->o.nodes; i++) {
        const struct client *client = find_joined(nodes, i);
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
        if (acquire) nodes->node[i].took_part = false;
    }
    for (int k = nodes->n_clients - 1; k >= 0 && acquire; k--) {
        struct client *client = nodes->client[k];
        if (!client->joined || client->closing || client->pinged_at > 0) continue;
        lvn_message_add(&client->wire.out, LVN_MESSAGE_START);
        lvn_wire_flush(&client->wire);
        if (!client->wire.broken && !client->wire.out.n) {
            connection[client->node] = client->wire.fd;
            nodes->node[client->node].taken = nodes->node[client->node].took_part = true;
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
    for (int i = 0; i < nodes->o.nodes; i++) nodes->node[i].taken = false;
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
        for (int i = 1; i < nodes->o.nodes; i++) left |= nodes->node[i].took_part && !nodes->node[i].notified;
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

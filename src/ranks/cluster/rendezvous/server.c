/* server.c - the rendezvous server's thread: accepts connections, receives heartbeats, detects lost ranks, and
 * starts and stops.
 *
 * One thread, one poll(). Messages are lines (wire.h); an invalid line closes the connection. Ranks that are lost
 * within 0.3 s are reported together, and a rank's own error has priority over errors that follow from it. Connections
 * that have not presented a token and a rank are limited in number and time: if there are too many, the oldest silent
 * ones are closed. */
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"
#include "base/threads.h"
#include "cluster/rendezvous/endpoints.h"
#include "cluster/rendezvous/server_private.h"

static const double HELLO_SECONDS = 5, CLOSE_SECONDS = 5, ACCEPT_PAUSE_SECONDS = 0.25;
/* A rank sends HELLO immediately, so a connection that is silent for SILENT_SECONDS may be closed for another. */
static const double SILENT_SECONDS = 0.25, FULL_PAUSE_SECONDS = 0.02;

/* --- connections --- */

static void drop(struct lvn_server *server, int k)
{
    struct lvn_server_client *client = server->client[k];
    server->n_unidentified -= client->rank < 0;
    lvn_wire_close(&client->wire);
    free(client);
    server->client[k] = server->client[--server->n_clients];
}

/* Read a connection and handle its messages; false: close it. */
static bool serve_client(struct lvn_server *server, struct lvn_server_client *client)
{
    char *line;
    bool open = lvn_wire_read(&client->wire);
    while (open && !client->wire.broken && !client->closing && (line = lvn_wire_line(&client->wire))) {
        struct lvn_message message;
        bool parsed = lvn_message_parse(line, &message);
        if (parsed && lvn_server_receive(server, client, &message)) continue;
        if (client->rank == LVN_RANK_UNKNOWN)
            lvn_server_record_refusal(server, client,
                                      parsed ? "sent a message that no rank sends" : "does not speak levin's protocol");
        return false;
    }
    if (client->wire.broken && client->rank == LVN_RANK_UNKNOWN)
        lvn_server_record_refusal(server, client, "does not speak levin's protocol");
    if (!open) { /* messages before the end still count */
        struct lvn_message message;
        while (!client->closing && (line = lvn_wire_line(&client->wire)) && lvn_message_parse(line, &message)) {
            if (!lvn_server_receive(server, client, &message)) break;
        }
    }
    return open && !client->wire.broken;
}

/* True if one more unidentified connection is allowed. First reads from the pending ones. False: those may still
 * identify themselves. */
static bool has_capacity(struct lvn_server *server, double now)
{
    int oldest = -1;
    if (server->n_unidentified < LVN_UNIDENTIFIED) return true;
    for (int k = server->n_clients - 1; k >= 0; k--)
        if (server->client[k]->rank < 0 && !serve_client(server, server->client[k])) drop(server, k);
    if (server->n_unidentified < LVN_UNIDENTIFIED) return true;
    for (int k = 0; k < server->n_clients; k++)
        if (server->client[k]->rank < 0 &&
            (oldest < 0 || server->client[k]->connected_at < server->client[oldest]->connected_at))
            oldest = k;
    if (now - server->client[oldest]->connected_at < SILENT_SECONDS) return false;
    drop(server, oldest);
    return true;
}

static void accept_clients(struct lvn_server *server)
{
    for (;;) {
        double now = lvn_seconds();
        if (!has_capacity(server, now)) { /* new connections wait in the backlog */
            server->accept_paused_until = now + FULL_PAUSE_SECONDS;
            return;
        }
        struct sockaddr_storage from;
        socklen_t size = sizeof from;
        int fd = accept4(server->listening, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;
        if (fd < 0) { /* without the pause, a connection that cannot be accepted would wake poll() repeatedly */
            bool scarce = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
            if (scarce) server->accept_paused_until = lvn_seconds() + ACCEPT_PAUSE_SECONDS;
            return;
        }
        struct lvn_server_client *client =
            server->n_clients < server->o.size + LVN_UNIDENTIFIED ? calloc(1, sizeof *client) : NULL;
        if (!client) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        client->wire.fd = fd;
        client->rank = LVN_RANK_UNKNOWN;
        client->connected_at = now;
        if (getnameinfo((struct sockaddr *)&from, size, client->from, sizeof client->from, NULL, 0, NI_NUMERICHOST))
            client->from[0] = '\0';
        server->client[server->n_clients++] = client;
        server->n_unidentified++;
        if (!serve_client(server, client)) drop(server, server->n_clients - 1); /* HELLO arrives with the connection */
    }
}

static void serve_clients(struct lvn_server *server, const struct pollfd *p, int n)
{
    for (int k = n - 1; k >= 0; k--) { /* drop() moves the last one to k; it was served already */
        struct lvn_server_client *client = server->client[k];
        bool good = true;
        if (p[k].revents & (POLLIN | POLLHUP | POLLERR)) good = serve_client(server, client);
        lvn_wire_flush(&client->wire);
        if (client->wire.broken || (client->closing && !client->wire.out.n)) good = false;
        if (client->rank < 0 && lvn_seconds() - client->connected_at > HELLO_SECONDS) good = false;
        if (good) continue;
        if (client->rank >= 0) lvn_server_rank_lost(server, client->rank);
        drop(server, k);
    }
}

/* --- timeouts --- */

static const char no_answer[] = "its process does not respond";

/* This thread was stopped during that time, not the ranks: shift what was measured before. */
static void shift_times(struct lvn_server *server, double now, double seconds)
{
    for (int i = 0; i < server->o.size; i++)
        server->peer[i].last_heard += seconds, server->peer[i].last_progress += seconds;
    server->first_came += seconds;
    server->started += seconds;
    if (seconds >= server->o.timeout) server->reported_lost_until = now + server->o.timeout;
}

static void mark_silent(struct lvn_server *server, struct lvn_peer *peer, double now)
{
    peer->state = LVN_PEER_LOST;
    peer->reason = no_answer;
    peer->poll_index = server->polls;
    if (!server->declare_at) server->declare_at = now + LVN_GROUP_SECONDS;
}

/* Mark the ranks that became silent at the same time as this one, too. */
static void mark_silent_group(struct lvn_server *server, struct lvn_peer *peer, double now)
{
    mark_silent(server, peer, now);
    for (struct lvn_peer *q = server->peer; q < server->peer + server->o.size; q++)
        if (q->state == LVN_PEER_HERE && q->last_heard - peer->last_heard <= server->o.timeout / 4 &&
            now - q->last_heard >= server->o.timeout / 2)
            mark_silent(server, q, now);
}

static void check_times(struct lvn_server *server, double now, double last)
{
    const double pause = server->o.timeout / 4 > 1 ? server->o.timeout / 4 : 1, max = LVN_SILENCE * server->o.timeout;
    if (now - last > pause) shift_times(server, now, now - last);
    const double connected_at = server->n_came ? server->first_came : server->started;
    if (server->phase == LVN_SERVER_GATHERING && server->o.join_timeout > 0 && (server->n_came || server->o.outside) &&
        !server->declare_at && now - connected_at > server->o.join_timeout) {
        lvn_server_missing(server);
    }
    if (server->phase == LVN_SERVER_GATHERING && server->n_came && !server->declare_at)
        lvn_server_log_missing(server, now);
    for (int i = 0; i < server->o.size; i++) {
        struct lvn_peer *peer = &server->peer[i];
        if (peer->state != LVN_PEER_HERE || now - peer->last_heard < max) continue;
        if (server->phase == LVN_SERVER_GATHERING && !server->facts[i].ready) /* a rank sends all facts immediately */
            mark_silent(server, peer, now);
        else if (server->phase == LVN_SERVER_RUNNING)
            mark_silent_group(server, peer, now);
    }
    if (server->phase == LVN_SERVER_RUNNING && !server->declare_at && server->o.stall_timeout > 0)
        lvn_server_check_hang(server);
    if (server->phase == LVN_SERVER_RUNNING && now >= server->next_table) {
        double gap = server->o.timeout / 8;
        server->next_table = now + (gap > 1 ? 1 : gap < 0.05 ? 0.05 : gap) * (1 + server->o.size / 1024);
        lvn_server_send_table(server, now);
    }
    if (server->phase == LVN_SERVER_RUNNING && !server->declare_at) lvn_server_send_refusal(server);
    if (server->declare_at > 0 && now >= server->declare_at && server->phase < LVN_SERVER_ENDED)
        lvn_server_declare(server);
}

/* Each poll inspects every connection. With many of them some are always ready, so wait a little for more input. */
static void batch_input(int callers, bool running)
{
    enum { MANY_CLIENTS = 64, RUNNING_US = 100, MEETING_US = 5, MAX_US = 100000 };
    int us = callers < MANY_CLIENTS ? 0 : callers * (running ? RUNNING_US : MEETING_US);
    if (us) usleep((useconds_t)(us < MAX_US ? us : MAX_US));
}

static void *serve(void *argument)
{
    struct lvn_server *server = argument;
    double last = lvn_seconds();
    double tick = server->o.timeout / 20 > 0.25 ? 0.25 : server->o.timeout / 20 < 0.02 ? 0.02 : server->o.timeout / 20;
    for (;;) {
        pthread_mutex_lock(&server->lock);
        int n = server->n_clients;
        for (int k = 0; k < n; k++) {
            short out = server->client[k]->wire.out.n ? POLLOUT : 0;
            server->polled[k] = (struct pollfd){.fd = server->client[k]->wire.fd, .events = (short)(POLLIN | out)};
        }
        bool stop = server->stop && (!n || lvn_seconds() >= server->stop_at);
        bool accept_paused = lvn_seconds() < server->accept_paused_until;
        server->polled[n] = (struct pollfd){.fd = server->listening, .events = accept_paused ? 0 : POLLIN};
        server->polled[n + 1] = (struct pollfd){.fd = server->wake, .events = POLLIN};
        pthread_mutex_unlock(&server->lock);
        if (stop) return NULL;
        batch_input(n, server->phase == LVN_SERVER_RUNNING);
        poll(server->polled, (nfds_t)n + 2, (int)(tick * 1000));
        pthread_mutex_lock(&server->lock);
        uint64_t woken;
        if ((server->polled[n + 1].revents & POLLIN) && read(server->wake, &woken, sizeof woken) < 0) woken = 0;
        double now = lvn_seconds();
        server->polls++;
        serve_clients(server, server->polled, n);
        accept_clients(server);
        check_times(server, now, last);
        for (int k = 0; k < server->n_clients; k++) lvn_wire_flush(&server->client[k]->wire);
        last = now;
        pthread_mutex_unlock(&server->lock);
    }
}

/* --- start and stop --- */

static enum lvn_status make_token(struct lvn_server *server)
{
    unsigned char bytes[16];
    if (server->o.token) {
        LVN_CHECK(strlen(server->o.token) < sizeof server->token, ARG, "a run's token is longer than %d characters",
                  (int)sizeof server->token - 1);
        snprintf(server->token, sizeof server->token, "%s", server->o.token);
        return LVN_OK;
    }
    LVN_TRY(lvn_random_secret(bytes, sizeof bytes, "a token"));
    lvn_hex_text(bytes, sizeof bytes, server->token);
    return LVN_OK;
}

static enum lvn_status begin(struct lvn_server *server)
{
    LVN_CHECK(server->client && server->polled && server->peer && server->sent && server->facts, MEMORY,
              "not enough memory for a rendezvous server of %d ranks", server->o.size);
    for (int i = 0; i < server->o.size; i++) server->peer[i].rank = i;
    LVN_TRY(make_token(server));
    LVN_TRY(lvn_allow_files(server->o.size, server->o.size + LVN_UNIDENTIFIED));
    LVN_TRY(lvn_listen(server->o.listen, server->o.port, &server->listening));
    lvn_endpoint_name(server->listening, server->address, sizeof server->address);
    server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    LVN_CHECK(server->wake >= 0, IO, "cannot create an eventfd: %s", strerror(errno));
    int bad = lvn_thread_start(&server->thread, serve, server);
    LVN_CHECK(!bad, MEMORY, "cannot start a thread: %s", strerror(bad));
    server->running = true;
    return LVN_OK;
}

enum lvn_status lvn_server_start(struct lvn_server **out, const struct lvn_server_options *o)
{
    LVN_CHECK(o->size > 0, ARG, "a rendezvous of %d ranks; expected at least 1", o->size);
    struct lvn_server *server = calloc(1, sizeof *server);
    if (!server) LVN_FAIL(MEMORY, "not enough memory for a rendezvous server");
    size_t n = (size_t)o->size;
    server->o = *o;
    server->listening = server->wake = -1;
    server->fault_rank = server->fault_link[0] = server->fault_link[1] = -1;
    server->started = lvn_seconds();
    pthread_mutex_init(&server->lock, NULL);
    server->client = calloc(n + LVN_UNIDENTIFIED, sizeof *server->client);
    server->polled = calloc(n + LVN_UNIDENTIFIED + 2, sizeof *server->polled);
    server->peer = calloc(n, sizeof *server->peer);
    server->sent = calloc(n, sizeof *server->sent);
    server->facts = calloc(n, sizeof *server->facts);
    enum lvn_status status = begin(server);
    if (status) {
        lvn_server_stop(server, 0);
        return status;
    }
    *out = server;
    return LVN_OK;
}

void lvn_server_stop(struct lvn_server *server, double wait)
{
    if (!server) return;
    if (server->running) {
        uint64_t one = 1;
        pthread_mutex_lock(&server->lock);
        server->stop = true;
        if (server->phase == LVN_SERVER_FAULT && wait > CLOSE_SECONDS) wait = CLOSE_SECONDS;
        server->stop_at = lvn_seconds() + wait;
        pthread_mutex_unlock(&server->lock);
        if (write(server->wake, &one, sizeof one) < 0) server->stop_at = 0;
        pthread_join(server->thread, NULL);
    }
    while (server->n_clients) drop(server, server->n_clients - 1);
    if (server->listening >= 0) close(server->listening);
    if (server->wake >= 0) close(server->wake);
    for (int i = 0; server->facts && i < server->o.size; i++) {
        for (int k = 0; k < LVN_FACTS; k++) free(server->facts[i].value[k]);
    }
    for (int k = 0; k < LVN_FACTS; k++) free(server->key[k]);
    free(server->facts);
    free(server->peer);
    free(server->sent);
    free(server->polled);
    free(server->client);
    pthread_mutex_destroy(&server->lock);
    free(server);
}

const char *lvn_server_address(const struct lvn_server *server)
{
    return server->address;
}

const char *lvn_server_token(const struct lvn_server *server)
{
    return server->token;
}

enum lvn_server_phase lvn_server_phase(struct lvn_server *server)
{
    pthread_mutex_lock(&server->lock);
    enum lvn_server_phase phase = server->phase;
    pthread_mutex_unlock(&server->lock);
    return phase;
}

const char *lvn_server_fault(struct lvn_server *server, int *rank)
{
    pthread_mutex_lock(&server->lock);
    const char *text = server->phase == LVN_SERVER_FAULT ? server->fault : "";
    if (rank) *rank = server->fault_rank;
    pthread_mutex_unlock(&server->lock);
    return text;
}

bool lvn_server_fault_link(struct lvn_server *server, int link[2])
{
    pthread_mutex_lock(&server->lock);
    memcpy(link, server->fault_link, sizeof server->fault_link);
    pthread_mutex_unlock(&server->lock);
    return link[0] >= 0;
}

bool lvn_server_fault_is_permanent(struct lvn_server *server)
{
    pthread_mutex_lock(&server->lock);
    bool permanent = server->permanent;
    pthread_mutex_unlock(&server->lock);
    return permanent;
}

bool lvn_server_published(struct lvn_server *server)
{
    pthread_mutex_lock(&server->lock);
    bool published = server->status_path[0] != '\0';
    pthread_mutex_unlock(&server->lock);
    return published;
}

void lvn_server_table(struct lvn_server *server, struct lvn_peer *peers)
{
    pthread_mutex_lock(&server->lock);
    memcpy(peers, server->peer, sizeof *peers * (size_t)server->o.size);
    pthread_mutex_unlock(&server->lock);
}

/* server.c - the rendezvous server's thread: accepts connections, receives heartbeats, detects lost ranks, and
 * starts and stops.
 *
 * One thread, one poll(). Messages are lines (wire.h); an invalid line closes the connection. Ranks that are lost
 * within 0.3 s are reported together, and the error of a rank that fails by itself comes before the failures that
 * follow from it. Connections that have not presented a token and a rank are limited in number and time: if there
 * are too many, the oldest silent ones are closed for new ones. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"
#include "base/threads.h"
#include "cluster/rendezvous/endpoints.h"
#include "cluster/rendezvous/server_private.h"

static const double GREET_SECONDS = 5, GROUP_SECONDS = 0.3, CLOSE_SECONDS = 5, ACCEPT_PAUSE_SECONDS = 0.25;
/* A rank sends HELLO at once; so a connection that has been silent for SILENT_SECONDS may be closed for another. */
static const double SILENT_SECONDS = 0.25, FULL_PAUSE_SECONDS = 0.02;

/* --- connections --- */

static void drop(struct lvn_server *s, int k)
{
    struct lvn_server_client *c = s->client[k];
    s->n_unidentified -= c->rank < 0;
    lvn_wire_close(&c->wire);
    free(c);
    s->client[k] = s->client[--s->n_clients];
}

/* Read a connection and handle its messages; false: close it. */
static bool serve_client(struct lvn_server *s, struct lvn_server_client *c)
{
    char *line;
    bool open = lvn_wire_read(&c->wire);
    while (open && !c->wire.broken && !c->closing && (line = lvn_wire_line(&c->wire))) {
        struct lvn_message m;
        bool parsed = lvn_message_parse(line, &m);
        if (parsed && lvn_server_receive(s, c, &m)) continue;
        if (c->rank == -1)
            lvn_server_record_refusal(s, c,
                                      parsed ? "sent a message that no rank sends" : "does not speak levin's protocol");
        return false;
    }
    if (c->wire.broken && c->rank == -1) lvn_server_record_refusal(s, c, "does not speak levin's protocol");
    if (!open) { /* messages before the end still count */
        struct lvn_message m;
        while (!c->closing && (line = lvn_wire_line(&c->wire)) && lvn_message_parse(line, &m)) {
            if (!lvn_server_receive(s, c, &m)) break;
        }
    }
    return open && !c->wire.broken;
}

/* Is there capacity for one more unidentified connection? Pending ones are read first. False: those may still
 * identify themselves. */
static bool has_capacity(struct lvn_server *s, double now)
{
    int oldest = -1;
    if (s->n_unidentified < LVN_UNIDENTIFIED) return true;
    for (int k = s->n_clients - 1; k >= 0; k--)
        if (s->client[k]->rank < 0 && !serve_client(s, s->client[k])) drop(s, k);
    if (s->n_unidentified < LVN_UNIDENTIFIED) return true;
    for (int k = 0; k < s->n_clients; k++)
        if (s->client[k]->rank < 0 && (oldest < 0 || s->client[k]->connected_at < s->client[oldest]->connected_at))
            oldest = k;
    if (now - s->client[oldest]->connected_at < SILENT_SECONDS) return false;
    drop(s, oldest);
    return true;
}

static void accept_clients(struct lvn_server *s)
{
    for (;;) {
        double now = lvn_seconds();
        if (!has_capacity(s, now)) { /* new connections wait in the backlog */
            s->accept_paused_until = now + FULL_PAUSE_SECONDS;
            return;
        }
        struct sockaddr_storage from;
        socklen_t size = sizeof from;
        int fd = accept4(s->listening, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC), on = 1;
        if (fd < 0) { /* a connection that cannot be accepted would wake poll() again and again */
            bool scarce = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
            if (scarce) s->accept_paused_until = lvn_seconds() + ACCEPT_PAUSE_SECONDS;
            return;
        }
        struct lvn_server_client *c = s->n_clients < s->o.size + LVN_UNIDENTIFIED ? calloc(1, sizeof *c) : NULL;
        if (!c) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        c->wire.fd = fd;
        c->rank = -1;
        c->connected_at = now;
        if (getnameinfo((struct sockaddr *)&from, size, c->from, sizeof c->from, NULL, 0, NI_NUMERICHOST))
            c->from[0] = '\0';
        s->client[s->n_clients++] = c;
        s->n_unidentified++;
        if (!serve_client(s, c)) drop(s, s->n_clients - 1); /* HELLO arrives with the connection */
    }
}

static void serve_clients(struct lvn_server *s, const struct pollfd *p, int n)
{
    for (int k = n - 1; k >= 0; k--) { /* drop() moves the last one here, which was served already */
        struct lvn_server_client *c = s->client[k];
        bool good = true;
        if (p[k].revents & (POLLIN | POLLHUP | POLLERR)) good = serve_client(s, c);
        lvn_wire_flush(&c->wire);
        if (c->wire.broken || (c->closing && !c->wire.out.n)) good = false;
        if (c->rank < 0 && lvn_seconds() - c->connected_at > GREET_SECONDS) good = false;
        if (good) continue;
        if (c->rank >= 0) lvn_server_gone(s, c->rank);
        drop(s, k);
    }
}

/* --- timeouts --- */

static const char no_answer[] = "its process does not answer";

static void check_times(struct lvn_server *s, double now, double last)
{
    double pause = s->o.timeout / 4 > 1 ? s->o.timeout / 4 : 1, max = LVN_SILENCE * s->o.timeout;
    if (now - last > pause) { /* this thread was stopped, not the ranks */
        for (int i = 0; i < s->o.size; i++) s->peer[i].last_heard += now - last, s->peer[i].last_progress += now - last;
        s->first_came += now - last;
        s->started += now - last;
        if (now - last >= s->o.timeout) s->outvoted_until = now + s->o.timeout;
    }
    const double connected_at = s->n_came ? s->first_came : s->started;
    if (s->phase == LVN_SERVER_GATHERING && s->o.join_timeout > 0 && (s->n_came || s->o.outside) && !s->declare_at &&
        now - connected_at > s->o.join_timeout) {
        lvn_server_missing(s);
    }
    if (s->phase == LVN_SERVER_GATHERING && s->n_came && !s->declare_at) lvn_server_log_missing(s, now);
    for (int i = 0; i < s->o.size && s->phase == LVN_SERVER_GATHERING; i++) { /* a rank sends all its facts at once */
        struct lvn_peer *p = &s->peer[i];
        if (p->state != LVN_PEER_HERE || s->facts[i].ready || now - p->last_heard < max) continue;
        p->state = LVN_PEER_LOST;
        p->reason = no_answer;
        p->poll_index = s->polls;
        if (!s->declare_at) s->declare_at = now + GROUP_SECONDS;
    }
    for (int i = 0; i < s->o.size && s->phase == LVN_SERVER_RUNNING; i++) {
        struct lvn_peer *p = &s->peer[i];
        if (p->state != LVN_PEER_HERE || now - p->last_heard < max) continue;
        p->state = LVN_PEER_LOST;
        p->reason = no_answer;
        p->poll_index = s->polls;
        if (!s->declare_at) s->declare_at = now + GROUP_SECONDS;
        for (int k = 0; k < s->o.size; k++) { /* those that became silent at the same time */
            struct lvn_peer *q = &s->peer[k];
            if (q->state != LVN_PEER_HERE || q->last_heard - p->last_heard > s->o.timeout / 4 ||
                now - q->last_heard < s->o.timeout / 2) {
                continue;
            }
            q->state = LVN_PEER_LOST;
            q->reason = p->reason;
            q->poll_index = s->polls;
        }
    }
    if (s->phase == LVN_SERVER_RUNNING && !s->declare_at && s->o.stall_timeout > 0) lvn_server_check_hang(s);
    if (s->phase == LVN_SERVER_RUNNING && now >= s->next_table) {
        double gap = s->o.timeout / 8;
        s->next_table = now + (gap > 1 ? 1 : gap < 0.05 ? 0.05 : gap) * (1 + s->o.size / 1024);
        lvn_server_send_table(s, now);
    }
    if (s->phase == LVN_SERVER_RUNNING && !s->declare_at) lvn_server_send_refusal(s);
    if (s->declare_at > 0 && now >= s->declare_at && s->phase < LVN_SERVER_ENDED) lvn_server_declare(s);
}

/* Each poll inspects every connection; with many of them some are always ready, so wait a little for more input. */
static void batch_input(int callers, bool running)
{
    enum { MANY_CLIENTS = 64, RUNNING_US = 100, MEETING_US = 5, MAX_US = 100000 };
    int us = callers < MANY_CLIENTS ? 0 : callers * (running ? RUNNING_US : MEETING_US);
    if (us) usleep((useconds_t)(us < MAX_US ? us : MAX_US));
}

static void *serve(void *argument)
{
    struct lvn_server *s = argument;
    double last = lvn_seconds();
    double tick = s->o.timeout / 20 > 0.25 ? 0.25 : s->o.timeout / 20 < 0.02 ? 0.02 : s->o.timeout / 20;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        int n = s->n_clients;
        for (int k = 0; k < n; k++) {
            short out = s->client[k]->wire.out.n ? POLLOUT : 0;
            s->polled[k] = (struct pollfd){.fd = s->client[k]->wire.fd, .events = (short)(POLLIN | out)};
        }
        bool stop = s->stop && (!n || lvn_seconds() >= s->stop_at);
        bool accept_paused = lvn_seconds() < s->accept_paused_until;
        s->polled[n] = (struct pollfd){.fd = s->listening, .events = accept_paused ? 0 : POLLIN};
        s->polled[n + 1] = (struct pollfd){.fd = s->wake, .events = POLLIN};
        pthread_mutex_unlock(&s->lock);
        if (stop) return NULL;
        batch_input(n, s->phase == LVN_SERVER_RUNNING);
        poll(s->polled, (nfds_t)n + 2, (int)(tick * 1000));
        pthread_mutex_lock(&s->lock);
        uint64_t woken;
        if ((s->polled[n + 1].revents & POLLIN) && read(s->wake, &woken, sizeof woken) < 0) woken = 0;
        double now = lvn_seconds();
        s->polls++;
        serve_clients(s, s->polled, n);
        accept_clients(s);
        check_times(s, now, last);
        for (int k = 0; k < s->n_clients; k++) lvn_wire_flush(&s->client[k]->wire);
        if (s->phase >= LVN_SERVER_ENDED && !s->ended_at) {
            uint64_t one = 1;
            s->ended_at = now;
            if (write(s->ended_fd, &one, sizeof one) < 0) s->ended_at = now;
        }
        last = now;
        pthread_mutex_unlock(&s->lock);
    }
}

/* --- start and stop --- */

static enum lvn_status make_token(struct lvn_server *s)
{
    unsigned char bytes[16];
    if (s->o.token) {
        LVN_CHECK(strlen(s->o.token) < sizeof s->token, ARG, "a run's token is longer than %d characters",
                  (int)sizeof s->token - 1);
        snprintf(s->token, sizeof s->token, "%s", s->o.token);
        return LVN_OK;
    }
    LVN_TRY(lvn_random_secret(bytes, sizeof bytes, "a token"));
    lvn_hex_text(bytes, sizeof bytes, s->token);
    return LVN_OK;
}

static enum lvn_status begin(struct lvn_server *s)
{
    LVN_CHECK(s->client && s->polled && s->peer && s->sent && s->facts, MEMORY, "no memory for a server of %d ranks",
              s->o.size);
    for (int i = 0; i < s->o.size; i++) s->peer[i].rank = i;
    LVN_TRY(make_token(s));
    LVN_TRY(lvn_allow_files(s->o.size, s->o.size + LVN_UNIDENTIFIED));
    LVN_TRY(lvn_listen(s->o.listen, s->o.port, &s->listening));
    lvn_endpoint_name(s->listening, s->address, sizeof s->address);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->ended_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    LVN_CHECK(s->wake >= 0 && s->ended_fd >= 0, IO, "cannot make an eventfd: %s", strerror(errno));
    int bad = lvn_thread_start(&s->thread, serve, s);
    LVN_CHECK(!bad, MEMORY, "cannot start a thread: %s", strerror(bad));
    s->running = true;
    return LVN_OK;
}

enum lvn_status lvn_server_start(struct lvn_server **out, const struct lvn_server_options *o)
{
    LVN_CHECK(o->size > 0, ARG, "a rendezvous of %d ranks: at least 1 is needed", o->size);
    struct lvn_server *s = calloc(1, sizeof *s);
    if (!s) LVN_FAIL(MEMORY, "no memory for a server");
    size_t n = (size_t)o->size;
    s->o = *o;
    s->listening = s->wake = s->ended_fd = -1;
    s->fault_rank = s->fault_link[0] = s->fault_link[1] = -1;
    s->started = lvn_seconds();
    pthread_mutex_init(&s->lock, NULL);
    s->client = calloc(n + LVN_UNIDENTIFIED, sizeof *s->client);
    s->polled = calloc(n + LVN_UNIDENTIFIED + 2, sizeof *s->polled);
    s->peer = calloc(n, sizeof *s->peer);
    s->sent = calloc(n, sizeof *s->sent);
    s->facts = calloc(n, sizeof *s->facts);
    enum lvn_status status = begin(s);
    if (status) {
        lvn_server_stop(s, 0);
        return status;
    }
    *out = s;
    return LVN_OK;
}

void lvn_server_stop(struct lvn_server *s, double wait)
{
    if (!s) return;
    if (s->running) {
        uint64_t one = 1;
        pthread_mutex_lock(&s->lock);
        s->stop = true;
        if (s->phase == LVN_SERVER_FAULT && wait > CLOSE_SECONDS) wait = CLOSE_SECONDS;
        s->stop_at = lvn_seconds() + wait;
        pthread_mutex_unlock(&s->lock);
        if (write(s->wake, &one, sizeof one) < 0) s->stop_at = 0;
        pthread_join(s->thread, NULL);
    }
    while (s->n_clients) drop(s, s->n_clients - 1);
    if (s->listening >= 0) close(s->listening);
    if (s->wake >= 0) close(s->wake);
    if (s->ended_fd >= 0) close(s->ended_fd);
    for (int i = 0; s->facts && i < s->o.size; i++) {
        for (int k = 0; k < LVN_FACTS; k++) free(s->facts[i].value[k]);
    }
    for (int k = 0; k < LVN_FACTS; k++) free(s->key[k]);
    free(s->facts);
    free(s->peer);
    free(s->sent);
    free(s->polled);
    free(s->client);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

const char *lvn_server_address(const struct lvn_server *s)
{
    return s->address;
}

const char *lvn_server_token(const struct lvn_server *s)
{
    return s->token;
}

int lvn_server_fd(const struct lvn_server *s)
{
    return s->ended_fd;
}

enum lvn_server_phase lvn_server_phase(struct lvn_server *s)
{
    pthread_mutex_lock(&s->lock);
    enum lvn_server_phase phase = s->phase;
    pthread_mutex_unlock(&s->lock);
    return phase;
}

const char *lvn_server_fault(struct lvn_server *s, int *rank)
{
    pthread_mutex_lock(&s->lock);
    const char *text = s->phase == LVN_SERVER_FAULT ? s->fault : "";
    if (rank) *rank = s->fault_rank;
    pthread_mutex_unlock(&s->lock);
    return text;
}

bool lvn_server_fault_link(struct lvn_server *s, int link[2])
{
    pthread_mutex_lock(&s->lock);
    memcpy(link, s->fault_link, sizeof s->fault_link);
    pthread_mutex_unlock(&s->lock);
    return link[0] >= 0;
}

bool lvn_server_fault_is_permanent(struct lvn_server *s)
{
    pthread_mutex_lock(&s->lock);
    bool permanent = s->permanent;
    pthread_mutex_unlock(&s->lock);
    return permanent;
}

bool lvn_server_published(struct lvn_server *s)
{
    pthread_mutex_lock(&s->lock);
    bool published = s->status_path[0] != '\0';
    pthread_mutex_unlock(&s->lock);
    return published;
}

void lvn_server_table(struct lvn_server *s, struct lvn_peer *peers)
{
    pthread_mutex_lock(&s->lock);
    memcpy(peers, s->peer, sizeof *peers * (size_t)s->o.size);
    pthread_mutex_unlock(&s->lock);
}

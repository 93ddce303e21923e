/* mesh.c - see mesh.h. */
#include "cluster/rendezvous/mesh.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/text.h"
#include "base/work.h"
#include "cluster/rendezvous/server_private.h"

/* The handshake, padded with zeros: "levin KEY rank 12 to 3 try 1". The connecting rank sends it, the other one
 * answers with its own, and the connecting rank confirms by sending it again. Only then do both know which of the
 * connections that were tried is the one. It is so short that a fresh connection accepts it in one send(). */
enum { HANDSHAKE = 96, UNIDENTIFIED = 64, CONNECT_MAX = 64, EVENTS = 64 };
static const double ANSWER_SECONDS = 5, PATIENCE = 1;

/* Receiving a handshake. */
struct reader {
    int fd; /* -1: none */
    int at; /* bytes received */
    char handshake[HANDSHAKE];
};

/* State of the connection to one rank. */
struct peer {
    enum { ABSENT, CONNECTING, HANDSHAKE_SENT, CONNECTED } stage;
    struct reader reader;
    int try;                               /* number of the connection among those that were tried */
    struct lvn_connection_attempt attempt; /* to a lower rank */
    double until;                          /* when its answer is overdue */
};

/* An accepted connection whose handshake has not arrived. */
struct unidentified {
    struct reader reader;
    double since;
};

struct setup {
    struct lvn_mesh *m;
    const struct lvn_member *member;
    int epoll, missing;
    int next;          /* the next rank to connect to, downwards */
    int n_connecting;  /* attempts in progress */
    int address_index; /* index of the address by which a host was reached; 0: any */
    double end;
    struct peer *peer; /* [size] */
    struct unidentified unidentified[UNIDENTIFIED];
    int n_unidentified;
    bool accept_paused; /* connections are not accepted for now */
};

/* Watch a socket: once for a rank; permanently for unidentified connections and the listening socket, whose rank is
 * the size. */
static void watch(const struct setup *t, int fd, uint32_t events, int rank)
{
    struct epoll_event e = {.events = events | (rank < t->m->size ? EPOLLONESHOT : 0), .data.u32 = (uint32_t)rank};
    if (epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &e)) (void)epoll_ctl(t->epoll, EPOLL_CTL_MOD, fd, &e);
}

static void close_one(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* --- handshakes --- */

static void write_handshake(char handshake[HANDSHAKE], const char *key, int from, int to, int try)
{
    memset(handshake, 0, HANDSHAKE);
    snprintf(handshake, HANDSHAKE, "levin %s rank %d to %d try %d", key, from, to, try);
}

static bool send_handshake(const struct setup *t, int fd, int to, int try)
{
    char handshake[HANDSHAKE];
    write_handshake(handshake, t->m->key, t->m->rank, to, try);
    return send(fd, handshake, HANDSHAKE, MSG_NOSIGNAL | MSG_DONTWAIT) == HANDSHAKE;
}

/* The sender, if the handshake is for this rank; -1: invalid. Takes equally long for every wrong key. */
static int parse_handshake(const struct setup *t, const char handshake[HANDSHAKE], int *try)
{
    char want[HANDSHAKE];
    int from = -1, wrong = 0;
    *try = 0;
    if (!memchr(handshake, '\0', HANDSHAKE) || sscanf(handshake, "levin %*32s rank %d to %*d try %9d", &from, try) != 2)
        return -1;
    write_handshake(want, t->m->key, from, t->m->rank, *try);
    for (int i = 0; i < HANDSHAKE; i++) wrong |= want[i] ^ handshake[i];
    return wrong || from < 0 || from >= t->m->size ? -1 : from;
}

/* Continue to receive: 1: the handshake is complete; 0: not yet; -1: the connection is closed. */
static int receive(struct reader *h)
{
    ssize_t n = recv(h->fd, h->handshake + h->at, (size_t)(HANDSHAKE - h->at), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (n <= 0) return -1;
    h->at += (int)n;
    return h->at == HANDSHAKE;
}

/* --- listening --- */

enum lvn_status lvn_mesh_listen(struct lvn_mesh *m, int rank, int size, bool one_host)
{
    unsigned char bytes[(LVN_MESH_KEY - 1) / 2];
    const char *outside = getenv("LEVIN_RENDEZVOUS");
    const bool serves = !rank && !(outside && *outside); /* then this rank also runs the rendezvous server */
    *m = (struct lvn_mesh){.rank = rank, .size = size, .listening = -1, .patience = ANSWER_SECONDS};
    m->sockets = lvn_malloc(sizeof *m->sockets * (size_t)size);
    if (!m->sockets) return LVN_MEMORY;
    for (int i = 0; i < size; i++) m->sockets[i] = -1;
    LVN_TRY(lvn_allow_files(size, size + UNIDENTIFIED + (serves ? size + LVN_UNIDENTIFIED : 0)));
    LVN_TRY(lvn_listen(one_host ? LVN_LOOPBACK : NULL, 0, &m->listening));
    lvn_endpoint_name(m->listening, m->endpoint, sizeof m->endpoint);
    m->fact[m->n_facts++] = (struct lvn_fact){"tcp", m->endpoint};
    if (rank) return LVN_OK;
    LVN_TRY(lvn_random_secret(bytes, sizeof bytes, "a key"));
    lvn_hex_text(bytes, sizeof bytes, m->key);
    m->fact[m->n_facts++] = (struct lvn_fact){"tcp_key", m->key};
    return LVN_OK;
}

/* --- connecting to lower ranks --- */

static enum lvn_status connect_failed(struct peer *s, int rank)
{
    char name[32];
    lvn_work_set_blocking_rank(rank);
    if (s->stage == HANDSHAKE_SENT) lvn_connect_refuse(&s->attempt, "no answer");
    snprintf(name, sizeof name, "rank %d", rank);
    return lvn_connect_fail(&s->attempt, name);
}

static void set_connected(struct setup *t, int rank, int fd)
{
    struct peer *s = &t->peer[rank];
    s->stage = CONNECTED;
    t->m->sockets[rank] = fd;
    t->missing--;
}

/* Continue an attempt, whose connection may have changed. */
static enum lvn_status continue_connecting(struct setup *t, int rank, bool ready, double now)
{
    struct peer *s = &t->peer[rank];
    struct lvn_connection_attempt *w = &s->attempt;
    const int before = w->tries;
    const enum lvn_connect_state state = lvn_connect_step(w, ready, now);
    t->m->n_attempts += w->tries - before;
    if (state == LVN_CONNECT_FAILED) return connect_failed(s, rank);
    if (state == LVN_CONNECT_PENDING && w->tries != before && w->fd >= 0) watch(t, w->fd, EPOLLOUT, rank);
    if (state == LVN_CONNECT_PENDING) return LVN_OK;
    if (!send_handshake(t, w->fd, rank, w->tries)) {
        lvn_connect_refuse(w, "it does not accept the handshake");
        return LVN_OK;
    }
    if (w->at) t->address_index = w->at;
    s->stage = HANDSHAKE_SENT;
    s->reader = (struct reader){.fd = w->fd};
    s->until = now + t->m->patience * w->tries; /* slow peers are tried less often */
    watch(t, w->fd, EPOLLIN, rank);
    return LVN_OK;
}

/* Receive the answer: is it the right rank? If not, another address may lead to it. */
static void receive_answer(struct setup *t, int rank, double now)
{
    struct peer *s = &t->peer[rank];
    struct lvn_connection_attempt *w = &s->attempt;
    int try, code = receive(&s->reader);
    if (!code && now < s->until) return watch(t, w->fd, EPOLLIN, rank);
    if (code > 0 && parse_handshake(t, s->reader.handshake, &try) == rank && try == w->tries &&
        send_handshake(t, w->fd, rank, try)) {
        set_connected(t, rank, w->fd);
        t->n_connecting--;
        w->fd = -1;
        return;
    }
    lvn_connect_refuse(w, code > 0 ? "another program, or a rank of another run, answers there"
                          : code   ? "closed"
                                   : "no answer");
    s->stage = CONNECTING;
}

static enum lvn_status start_connecting(struct setup *t, double now)
{
    for (; t->next >= 0 && t->n_connecting < CONNECT_MAX; t->next--, t->n_connecting++) {
        struct peer *s = &t->peer[t->next];
        const char *to = lvn_member_fact(t->member, t->next, "tcp");
        LVN_CHECK(*to, COMM, "rank %d sent no address to connect to; do all ranks have the same trainer.transport?",
                  t->next);
        lvn_connect_begin(&s->attempt, to, t->end - now, 0);
        if (t->address_index) { /* unreachable addresses take seconds to fail, and hosts are alike */
            s->attempt.at = t->address_index - 1;
            s->attempt.retry = true;
        }
        s->stage = CONNECTING;
        LVN_TRY(continue_connecting(t, t->next, false, now));
    }
    return LVN_OK;
}

/* Handle attempts whose time has passed. */
static enum lvn_status check_timeouts(struct setup *t, double now)
{
    for (int i = t->next + 1; i < t->m->rank; i++) {
        struct peer *s = &t->peer[i];
        if (s->stage == HANDSHAKE_SENT) receive_answer(t, i, now);
        if (s->stage == CONNECTING && (now >= s->attempt.until || s->attempt.fd < 0))
            LVN_TRY(continue_connecting(t, i, false, now));
    }
    return LVN_OK;
}

/* --- accepting higher ranks --- */

/* The others stay in the order of arrival. */
static void remove_unidentified(struct setup *t, int i)
{
    struct unidentified *s = t->unidentified;
    memmove(&s[i], &s[i + 1], sizeof *s * (size_t)(--t->n_unidentified - i));
}

/* True: it is no longer unidentified. Of the connections that a rank has tried the last one counts; they may arrive
 * in any order. */
static bool receive_unidentified(struct setup *t, int i)
{
    int fd = t->unidentified[i].reader.fd, try, code = receive(&t->unidentified[i].reader);
    if (!code) return false;
    const int from = code > 0 ? parse_handshake(t, t->unidentified[i].reader.handshake, &try) : -1;
    struct peer *s = from > t->m->rank ? &t->peer[from] : NULL;
    remove_unidentified(t, i);
    if (!s || s->stage == CONNECTED || try <= s->try || !send_handshake(t, fd, from, try)) {
        close_one(&fd);
        return true;
    }
    close_one(&s->reader.fd);
    s->stage = HANDSHAKE_SENT;
    s->try = try;
    s->reader = (struct reader){.fd = fd};
    watch(t, fd, EPOLLIN, from);
    return true;
}

/* The connecting rank confirms this connection, or closes it. */
static void receive_confirmation(struct setup *t, int rank)
{
    struct peer *s = &t->peer[rank];
    int try, code = s->stage == HANDSHAKE_SENT ? receive(&s->reader) : 0;
    if (!code && s->stage == HANDSHAKE_SENT) watch(t, s->reader.fd, EPOLLIN, rank);
    if (!code) return;
    if (code > 0 && parse_handshake(t, s->reader.handshake, &try) == rank && try == s->try) {
        set_connected(t, rank, s->reader.fd);
    } else {
        close_one(&s->reader.fd);
        s->stage = ABSENT;
    }
    s->reader.fd = -1;
}

/* If there are too many unidentified connections, the oldest is closed; but a handshake takes a moment to arrive, so
 * until then no more are accepted. */
static void update_accepting(struct setup *t, double now)
{
    if (t->n_unidentified == UNIDENTIFIED && now - t->unidentified[0].since > PATIENCE) {
        close_one(&t->unidentified[0].reader.fd);
        remove_unidentified(t, 0);
    }
    const bool accept_paused = t->n_unidentified == UNIDENTIFIED;
    if (accept_paused != t->accept_paused) watch(t, t->m->listening, accept_paused ? 0 : EPOLLIN, t->m->size);
    t->accept_paused = accept_paused;
}

static void accept_all(struct setup *t, double now)
{
    while (t->n_unidentified < UNIDENTIFIED) {
        struct unidentified *s = &t->unidentified[t->n_unidentified];
        *s = (struct unidentified){{.fd = accept4(t->m->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)}, now};
        if (s->reader.fd < 0) return;
        if (!receive_unidentified(t, t->n_unidentified++)) watch(t, s->reader.fd, EPOLLIN, t->m->size);
    }
}

/* --- all connections --- */

static enum lvn_status handle_events(struct setup *t, const struct epoll_event *e, int n, double now)
{
    for (int i = 0; i < n; i++) {
        const int k = (int)e[i].data.u32;
        if (k >= t->m->size) continue;
        if (k > t->m->rank)
            receive_confirmation(t, k);
        else if (t->peer[k].stage == HANDSHAKE_SENT)
            receive_answer(t, k, now);
        else if (t->peer[k].stage == CONNECTING)
            LVN_TRY(continue_connecting(t, k, true, now));
    }
    for (int i = t->n_unidentified - 1; n && i >= 0; i--) (void)receive_unidentified(t, i);
    accept_all(t, now);
    update_accepting(t, now);
    return LVN_OK;
}

/* Report the rank that this one waits for: if two wait for each other, the network link between them is at fault. */
static void report_missing(const struct setup *t)
{
    int i = 0;
    while (i < t->m->size && (i == t->m->rank || t->peer[i].stage == CONNECTED)) i++;
    lvn_work_set_blocking_rank(i < t->m->size ? i : -1);
}

/* A rank that cannot connect knows more than one that waits to be connected to, and fails first. */
static enum lvn_status connect_all(struct setup *t)
{
    const double grace = 2;
    double last_check = 0;
    struct epoll_event e[EVENTS];
    for (double now; t->missing && (now = lvn_seconds()) < t->end + grace;) {
        LVN_TRY(start_connecting(t, now));
        int n = epoll_wait(t->epoll, e, EVENTS, 50);
        now = lvn_seconds();
        LVN_TRY(handle_events(t, e, n > 0 ? n : 0, now));
        if (now - last_check < 0.02) continue;
        last_check = now;
        LVN_TRY(check_timeouts(t, now));
        report_missing(t);
        for (int i = t->next + 1; i < t->m->rank && now >= t->end; i++)
            if (t->peer[i].stage != CONNECTED) return connect_failed(&t->peer[i], i);
    }
    int first = t->m->rank + 1;
    while (first < t->m->size && t->peer[first].stage == CONNECTED) first++;
    LVN_CHECK(!t->missing, COMM,
              "rank %d has not connected to rank %d in time%s; check that no firewall is between the hosts", first,
              t->m->rank, t->missing > 1 ? ", nor have others" : "");
    return LVN_OK;
}

enum lvn_status lvn_mesh_connect(struct lvn_mesh *m, struct lvn_member *h, double seconds)
{
    const char *key = lvn_member_fact(h, 0, "tcp_key");
    struct setup t = {.m = m,
                      .member = h,
                      .missing = m->size - 1,
                      .next = m->rank - 1,
                      .end = lvn_seconds() + seconds,
                      .epoll = epoll_create1(EPOLL_CLOEXEC)};
    int on = 1;
    LVN_CHECK(strlen(key) == LVN_MESH_KEY - 1, COMM,
              "rank 0 sent no key for connections; do all ranks have the same trainer.transport?");
    memcpy(m->key, key, LVN_MESH_KEY);
    t.peer = lvn_calloc((size_t)m->size, sizeof *t.peer);
    if (!t.peer) {
        close_one(&t.epoll);
        return LVN_MEMORY;
    }
    for (int i = 0; i < m->size; i++) t.peer[i].reader.fd = t.peer[i].attempt.fd = -1;
    watch(&t, m->listening, EPOLLIN, m->size);
    lvn_member_set_operation(h, "the connection setup");
    enum lvn_status status = connect_all(&t);
    if (!status)
        lvn_work_set_blocking_rank(
            -1); /* the operation stays set until the first agreement: others may not be so far */
    for (int i = 0; i < m->size; i++) {
        if (i > m->rank) close_one(&t.peer[i].reader.fd);
        if (i < m->rank) lvn_connect_end(&t.peer[i].attempt);
        if (m->sockets[i] >= 0) setsockopt(m->sockets[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    while (t.n_unidentified) close_one(&t.unidentified[--t.n_unidentified].reader.fd);
    free(t.peer);
    close_one(&t.epoll);
    if (!status) close_one(&m->listening);
    return status;
}

void lvn_mesh_detach_sockets(struct lvn_mesh *m)
{
    for (int i = 0; i < m->size && m->sockets; i++) m->sockets[i] = -1;
}

void lvn_mesh_release(struct lvn_mesh *m)
{
    for (int i = 0; i < m->size && m->sockets; i++) close_one(&m->sockets[i]);
    free(m->sockets);
    close_one(&m->listening);
    *m = (struct lvn_mesh){.listening = -1};
}

static enum lvn_status open_over(struct lvn_mesh *m, struct lvn_comm **comm, struct lvn_member **member,
                                 struct lvn_comm_options o, struct lvn_member_options h, double seconds)
{
    LVN_TRY(lvn_mesh_listen(m, o.rank, o.size, h.id->one_host));
    h.facts = m->fact;
    h.n_facts = m->n_facts;
    LVN_TRY(lvn_member_open(member, &h));
    LVN_TRY(lvn_mesh_connect(m, *member, seconds));
    o.sockets = m->sockets;
    LVN_TRY(lvn_comm_open(comm, &o));
    lvn_mesh_detach_sockets(m);
    return LVN_OK;
}

enum lvn_status lvn_mesh_open(struct lvn_comm **comm, struct lvn_member **member, struct lvn_comm_options o,
                              struct lvn_member_options h, double seconds)
{
    struct lvn_mesh m = {.listening = -1};
    enum lvn_status status = open_over(&m, comm, member, o, h, seconds);
    if (status)
        lvn_member_fail(*member,
                        status == LVN_COMM); /* before the connections are closed, which other ranks would report */
    lvn_mesh_release(&m);
    return status;
}

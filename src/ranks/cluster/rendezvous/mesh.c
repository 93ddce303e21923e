/* mesh.c - see mesh.h. */
#include "cluster/rendezvous/mesh.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
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
 * responds with its own, and the connecting rank confirms by sending it again. Only then do both know which of several
 * attempted connections they use. It is short enough that a new connection accepts it in one send(). */
enum { HANDSHAKE = 96, UNIDENTIFIED = 64, CONNECT_MAX = 64, EVENTS = 64 };
static const double ANSWER_SECONDS = 5, UNIDENTIFIED_SECONDS = 1;

/* Receiving a handshake. */
struct reader {
    int fd; /* -1: none */
    int at; /* bytes received */
    char handshake[HANDSHAKE];
};

/* The connection to one rank. */
struct peer {
    enum { ABSENT, CONNECTING, HANDSHAKE_SENT, CONNECTED } stage;
    struct reader reader;
    int try;                               /* number of the attempt */
    struct lvn_connection_attempt attempt; /* to a lower rank */
    double until;                          /* deadline of its answer */
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
    int next;          /* the next rank to connect to, in descending order */
    int n_connecting;  /* attempts in progress */
    int address_index; /* index of the address at which a host was reached; 0: any */
    double end;
    struct peer *peer; /* [size] */
    struct unidentified unidentified[UNIDENTIFIED];
    int n_unidentified;
    bool accept_paused; /* connections are temporarily not accepted */
};

/* Watch a socket: once for a rank; permanently for unidentified connections and the listening socket, which use the
 * size as rank. */
static void watch(const struct setup *setup, int fd, uint32_t events, int rank)
{
    struct epoll_event e = {.events = events | (rank < setup->m->size ? EPOLLONESHOT : 0), .data.u32 = (uint32_t)rank};
    if (epoll_ctl(setup->epoll, EPOLL_CTL_ADD, fd, &e)) (void)epoll_ctl(setup->epoll, EPOLL_CTL_MOD, fd, &e);
}

/* Turn keepalive on: firewalls and NAT drop connections that are idle for minutes, for example between saves. */
static void set_options(int fd)
{
    const int on = 1, idle = 60, pause = 30; /* seconds */
    const int probes = 127;                  /* the maximum: the hang detector decides when a silent peer is lost */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof pause);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
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

static bool send_handshake(const struct setup *setup, int fd, int to, int try)
{
    char handshake[HANDSHAKE];
    write_handshake(handshake, setup->m->key, setup->m->rank, to, try);
    return send(fd, handshake, HANDSHAKE, MSG_NOSIGNAL | MSG_DONTWAIT) == HANDSHAKE;
}

/* The sender, if the handshake is for this rank; -1: invalid. Runs in constant time for wrong keys. */
static int parse_handshake(const struct setup *setup, const char handshake[HANDSHAKE], int *try)
{
    char expected[HANDSHAKE];
    int from = -1, wrong = 0;
    *try = 0;
    if (!memchr(handshake, '\0', HANDSHAKE) || sscanf(handshake, "levin %*32s rank %d to %*d try %9d", &from, try) != 2)
        return -1;
    write_handshake(expected, setup->m->key, from, setup->m->rank, *try);
    for (int i = 0; i < HANDSHAKE; i++) wrong |= expected[i] ^ handshake[i];
    return wrong || from < 0 || from >= setup->m->size ? -1 : from;
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

enum lvn_status lvn_mesh_listen(struct lvn_mesh *mesh, int rank, int size, bool one_host)
{
    unsigned char bytes[(LVN_MESH_KEY - 1) / 2];
    const char *outside = getenv("LEVIN_RENDEZVOUS");
    const bool serves = !rank && !(outside && *outside); /* then this rank also runs the rendezvous server */
    *mesh = (struct lvn_mesh){.rank = rank, .size = size, .listening = -1, .patience = ANSWER_SECONDS};
    mesh->sockets = lvn_malloc(sizeof *mesh->sockets * (size_t)size);
    if (!mesh->sockets) return LVN_MEMORY;
    for (int i = 0; i < size; i++) mesh->sockets[i] = -1;
    LVN_TRY(lvn_allow_files(size, size + UNIDENTIFIED + (serves ? size + LVN_UNIDENTIFIED : 0)));
    LVN_TRY(lvn_listen(one_host ? LVN_LOOPBACK : NULL, 0, &mesh->listening));
    lvn_endpoint_name(mesh->listening, mesh->endpoint, sizeof mesh->endpoint);
    mesh->fact[mesh->n_facts++] = (struct lvn_fact){"tcp", mesh->endpoint};
    if (rank) return LVN_OK;
    LVN_TRY(lvn_random_secret(bytes, sizeof bytes, "a key"));
    lvn_hex_text(bytes, sizeof bytes, mesh->key);
    mesh->fact[mesh->n_facts++] = (struct lvn_fact){"tcp_key", mesh->key};
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

static void set_connected(struct setup *setup, int rank, int fd)
{
    struct peer *s = &setup->peer[rank];
    s->stage = CONNECTED;
    setup->m->sockets[rank] = fd;
    setup->missing--;
}

/* Continue an attempt, whose connection may change. */
static enum lvn_status continue_connecting(struct setup *setup, int rank, bool ready, double now)
{
    struct peer *s = &setup->peer[rank];
    struct lvn_connection_attempt *attempt = &s->attempt;
    const int before = attempt->tries;
    const enum lvn_connect_state state = lvn_connect_step(attempt, ready, now);
    setup->m->n_attempts += attempt->tries - before;
    if (state == LVN_CONNECT_FAILED) return connect_failed(s, rank);
    if (state == LVN_CONNECT_PENDING && attempt->tries != before && attempt->fd >= 0)
        watch(setup, attempt->fd, EPOLLOUT, rank);
    if (state == LVN_CONNECT_PENDING) return LVN_OK;
    if (!send_handshake(setup, attempt->fd, rank, attempt->tries)) {
        lvn_connect_refuse(attempt, "it did not accept the handshake");
        return LVN_OK;
    }
    if (attempt->at) setup->address_index = attempt->at;
    s->stage = HANDSHAKE_SENT;
    s->reader = (struct reader){.fd = attempt->fd};
    s->until = now + setup->m->patience * attempt->tries; /* slow peers are tried less often */
    watch(setup, attempt->fd, EPOLLIN, rank);
    return LVN_OK;
}

/* Receive the answer. If it is not from the right rank, try another address. */
static void receive_answer(struct setup *setup, int rank, double now)
{
    struct peer *s = &setup->peer[rank];
    struct lvn_connection_attempt *attempt = &s->attempt;
    int try, code = receive(&s->reader);
    if (!code && now < s->until) return watch(setup, attempt->fd, EPOLLIN, rank);
    if (code > 0 && parse_handshake(setup, s->reader.handshake, &try) == rank && try == attempt->tries &&
        send_handshake(setup, attempt->fd, rank, try)) {
        set_connected(setup, rank, attempt->fd);
        setup->n_connecting--;
        attempt->fd = -1;
        return;
    }
    lvn_connect_refuse(attempt, code > 0 ? "another program, or a rank of another run, answers there"
                                : code   ? "closed"
                                         : "no answer");
    s->stage = CONNECTING;
}

static enum lvn_status start_connecting(struct setup *setup, double now)
{
    for (; setup->next >= 0 && setup->n_connecting < CONNECT_MAX; setup->next--, setup->n_connecting++) {
        struct peer *s = &setup->peer[setup->next];
        const char *to = lvn_member_fact(setup->member, setup->next, "tcp");
        LVN_CHECK(*to, COMM, "rank %d sent no address to connect to; do all ranks have the same trainer.transport?",
                  setup->next);
        lvn_connect_begin(&s->attempt, to, setup->end - now, 0);
        if (setup->address_index) { /* unreachable addresses need seconds to fail, and hosts are similar */
            s->attempt.at = setup->address_index - 1;
            s->attempt.retry = true;
        }
        s->stage = CONNECTING;
        LVN_TRY(continue_connecting(setup, setup->next, false, now));
    }
    return LVN_OK;
}

/* Handle attempts whose deadline has passed. */
static enum lvn_status check_timeouts(struct setup *setup, double now)
{
    for (int i = setup->next + 1; i < setup->m->rank; i++) {
        struct peer *s = &setup->peer[i];
        if (s->stage == HANDSHAKE_SENT) receive_answer(setup, i, now);
        if (s->stage == CONNECTING && (now >= s->attempt.until || s->attempt.fd < 0))
            LVN_TRY(continue_connecting(setup, i, false, now));
    }
    return LVN_OK;
}

/* --- accepting higher ranks --- */

/* The others keep the order of arrival. */
static void remove_unidentified(struct setup *setup, int i)
{
    struct unidentified *s = setup->unidentified;
    memmove(&s[i], &s[i + 1], sizeof *s * (size_t)(--setup->n_unidentified - i));
}

/* Return true if it is no longer unidentified. The last of the attempts of a rank is used; they may arrive in any
 * order. */
static bool receive_unidentified(struct setup *setup, int i)
{
    int fd = setup->unidentified[i].reader.fd, try, code = receive(&setup->unidentified[i].reader);
    if (!code) return false;
    const int from = code > 0 ? parse_handshake(setup, setup->unidentified[i].reader.handshake, &try) : -1;
    struct peer *s = from > setup->m->rank ? &setup->peer[from] : NULL;
    remove_unidentified(setup, i);
    if (!s || s->stage == CONNECTED || try <= s->try || !send_handshake(setup, fd, from, try)) {
        close_one(&fd);
        return true;
    }
    close_one(&s->reader.fd);
    s->stage = HANDSHAKE_SENT;
    s->try = try;
    s->reader = (struct reader){.fd = fd};
    watch(setup, fd, EPOLLIN, from);
    return true;
}

/* The connecting rank confirms this connection, or closes it. */
static void receive_confirmation(struct setup *setup, int rank)
{
    struct peer *s = &setup->peer[rank];
    int try, code = s->stage == HANDSHAKE_SENT ? receive(&s->reader) : 0;
    if (!code && s->stage == HANDSHAKE_SENT) watch(setup, s->reader.fd, EPOLLIN, rank);
    if (!code) return;
    if (code > 0 && parse_handshake(setup, s->reader.handshake, &try) == rank && try == s->try) {
        set_connected(setup, rank, s->reader.fd);
    } else {
        close_one(&s->reader.fd);
        s->stage = ABSENT;
    }
    s->reader.fd = -1;
}

/* If there are too many unidentified connections, the oldest is closed. But a handshake needs a moment to arrive, so no
 * more are accepted until then. */
static void update_accepting(struct setup *setup, double now)
{
    if (setup->n_unidentified == UNIDENTIFIED && now - setup->unidentified[0].since > UNIDENTIFIED_SECONDS) {
        close_one(&setup->unidentified[0].reader.fd);
        remove_unidentified(setup, 0);
    }
    const bool accept_paused = setup->n_unidentified == UNIDENTIFIED;
    if (accept_paused != setup->accept_paused)
        watch(setup, setup->m->listening, accept_paused ? 0 : EPOLLIN, setup->m->size);
    setup->accept_paused = accept_paused;
}

static void accept_all(struct setup *setup, double now)
{
    while (setup->n_unidentified < UNIDENTIFIED) {
        struct unidentified *s = &setup->unidentified[setup->n_unidentified];
        *s = (struct unidentified){{.fd = accept4(setup->m->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)}, now};
        if (s->reader.fd < 0) return;
        if (!receive_unidentified(setup, setup->n_unidentified++)) watch(setup, s->reader.fd, EPOLLIN, setup->m->size);
    }
}

/* --- all connections --- */

static enum lvn_status handle_events(struct setup *setup, const struct epoll_event *e, int n, double now)
{
    for (int i = 0; i < n; i++) {
        const int k = (int)e[i].data.u32;
        if (k >= setup->m->size) continue;
        if (k > setup->m->rank)
            receive_confirmation(setup, k);
        else if (setup->peer[k].stage == HANDSHAKE_SENT)
            receive_answer(setup, k, now);
        else if (setup->peer[k].stage == CONNECTING)
            LVN_TRY(continue_connecting(setup, k, true, now));
    }
    for (int i = setup->n_unidentified - 1; n && i >= 0; i--) (void)receive_unidentified(setup, i);
    accept_all(setup, now);
    update_accepting(setup, now);
    return LVN_OK;
}

/* Report the rank that this one waits for. If two wait for each other, the network link between them is at fault. */
static void report_missing(const struct setup *setup)
{
    int i = 0;
    while (i < setup->m->size && (i == setup->m->rank || setup->peer[i].stage == CONNECTED)) i++;
    lvn_work_set_blocking_rank(i < setup->m->size ? i : -1);
}

/* A rank that cannot connect knows the reason better than one that waits to be connected to, so it fails first. */
static enum lvn_status connect_all(struct setup *setup)
{
    const double grace = 2;
    double last_check = 0;
    struct epoll_event e[EVENTS];
    for (double now; setup->missing && (now = lvn_seconds()) < setup->end + grace;) {
        LVN_TRY(start_connecting(setup, now));
        int n = epoll_wait(setup->epoll, e, EVENTS, 50);
        now = lvn_seconds();
        LVN_TRY(handle_events(setup, e, n > 0 ? n : 0, now));
        if (now - last_check < 0.02) continue;
        last_check = now;
        LVN_TRY(check_timeouts(setup, now));
        report_missing(setup);
        for (int i = setup->next + 1; i < setup->m->rank && now >= setup->end; i++)
            if (setup->peer[i].stage != CONNECTED) return connect_failed(&setup->peer[i], i);
    }
    int first = setup->m->rank + 1;
    while (first < setup->m->size && setup->peer[first].stage == CONNECTED) first++;
    LVN_CHECK(!setup->missing, COMM,
              "rank %d has not connected to rank %d in time%s; check that no firewall separates the hosts", first,
              setup->m->rank, setup->missing > 1 ? ", nor have others" : "");
    return LVN_OK;
}

enum lvn_status lvn_mesh_connect(struct lvn_mesh *mesh, struct lvn_member *member, double seconds)
{
    const char *key = lvn_member_fact(member, 0, "tcp_key");
    struct setup setup = {.m = mesh,
                          .member = member,
                          .missing = mesh->size - 1,
                          .next = mesh->rank - 1,
                          .end = lvn_seconds() + seconds,
                          .epoll = epoll_create1(EPOLL_CLOEXEC)};
    LVN_CHECK(strlen(key) == LVN_MESH_KEY - 1, COMM,
              "rank 0 sent no key for connections; do all ranks have the same trainer.transport?");
    memcpy(mesh->key, key, LVN_MESH_KEY);
    setup.peer = lvn_calloc((size_t)mesh->size, sizeof *setup.peer);
    if (!setup.peer) {
        close_one(&setup.epoll);
        return LVN_MEMORY;
    }
    for (int i = 0; i < mesh->size; i++) setup.peer[i].reader.fd = setup.peer[i].attempt.fd = -1;
    watch(&setup, mesh->listening, EPOLLIN, mesh->size);
    lvn_member_set_operation(member, "the connection setup");
    enum lvn_status status = connect_all(&setup);
    if (!status)
        lvn_work_set_blocking_rank(-1); /* the operation remains set until the first agreement: others may be slower */
    for (int i = 0; i < mesh->size; i++) {
        if (i > mesh->rank) close_one(&setup.peer[i].reader.fd);
        if (i < mesh->rank) lvn_connect_end(&setup.peer[i].attempt);
        if (mesh->sockets[i] >= 0) set_options(mesh->sockets[i]);
    }
    while (setup.n_unidentified) close_one(&setup.unidentified[--setup.n_unidentified].reader.fd);
    free(setup.peer);
    close_one(&setup.epoll);
    if (!status) close_one(&mesh->listening);
    return status;
}

void lvn_mesh_detach_sockets(struct lvn_mesh *mesh)
{
    for (int i = 0; i < mesh->size && mesh->sockets; i++) mesh->sockets[i] = -1;
}

void lvn_mesh_release(struct lvn_mesh *mesh)
{
    for (int i = 0; i < mesh->size && mesh->sockets; i++) close_one(&mesh->sockets[i]);
    free(mesh->sockets);
    close_one(&mesh->listening);
    *mesh = (struct lvn_mesh){.listening = -1};
}

static enum lvn_status open_over(struct lvn_mesh *mesh, struct lvn_comm **comm, struct lvn_member **member,
                                 struct lvn_comm_options o, struct lvn_member_options h, double seconds)
{
    LVN_TRY(lvn_mesh_listen(mesh, o.rank, o.size, h.id->one_host));
    h.facts = mesh->fact;
    h.n_facts = mesh->n_facts;
    LVN_TRY(lvn_member_open(member, &h));
    LVN_TRY(lvn_mesh_connect(mesh, *member, seconds));
    o.sockets = mesh->sockets;
    LVN_TRY(lvn_comm_open(comm, &o));
    lvn_mesh_detach_sockets(mesh);
    return LVN_OK;
}

enum lvn_status lvn_mesh_open(struct lvn_comm **comm, struct lvn_member **member, struct lvn_comm_options o,
                              struct lvn_member_options h, double seconds)
{
    struct lvn_mesh mesh = {.listening = -1};
    enum lvn_status status = open_over(&mesh, comm, member, o, h, seconds);
    if (status)
        lvn_member_fail(*member, status == LVN_COMM); /* before other ranks report that the connections were closed */
    lvn_mesh_release(&mesh);
    return status;
}

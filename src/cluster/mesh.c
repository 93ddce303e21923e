/* mesh.c - see mesh.h. */
#include "cluster/mesh.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/machine.h"
#include "base/text.h"

/* What both sides say first, filled up with zeros: "levin KEY rank 12 to 3". */
enum { CARD = 96, STRANGERS = 64 };

static void write_card(char card[CARD], const char *key, int from, int to)
{
    memset(card, 0, CARD);
    snprintf(card, CARD, "levin %s rank %d to %d", key, from, to);
}

/* Of whom, if it is for this rank; -1: a stranger's. Takes as long for every wrong key. */
static int read_card(const struct lvn_mesh *m, const char card[CARD])
{
    char want[CARD];
    int from = -1, wrong = 0;
    if (!memchr(card, '\0', CARD) || sscanf(card, "levin %*32s rank %d to", &from) != 1) return -1;
    write_card(want, m->key, from, m->rank);
    for (int i = 0; i < CARD; i++) wrong |= want[i] ^ card[i];
    return wrong || from < 0 || from >= m->size ? -1 : from;
}

static void close_one(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* --- listening --- */

enum lvn_status lvn_mesh_listen(struct lvn_mesh *m, int rank, int size)
{
    unsigned char bytes[(LVN_MESH_KEY - 1) / 2];
    *m = (struct lvn_mesh){.rank = rank, .size = size, .listening = -1};
    m->sockets = lvn_malloc(sizeof *m->sockets * (size_t)size);
    if (!m->sockets) return LVN_MEMORY;
    for (int i = 0; i < size; i++) m->sockets[i] = -1;
    LVN_TRY(lvn_allow_files(size, size));
    LVN_TRY(lvn_listen(NULL, 0, &m->listening));
    lvn_places_name(m->listening, m->place, sizeof m->place);
    m->fact[m->n_facts++] = (struct lvn_fact){"tcp", m->place};
    if (rank) return LVN_OK;
    LVN_CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes, IO, "no random bytes for a key: %s", strerror(errno));
    lvn_hex_text(bytes, sizeof bytes, m->key);
    m->fact[m->n_facts++] = (struct lvn_fact){"tcp_key", m->key};
    return LVN_OK;
}

/* --- connecting --- */

/* All of a card, either way; false: not within the time. */
static bool exchange(int fd, char card[CARD], bool out, double end)
{
    for (int at = 0; at < CARD;) {
        double left = end - lvn_seconds();
        struct pollfd p = {.fd = fd, .events = out ? POLLOUT : POLLIN};
        if (left <= 0) return false;
        if (poll(&p, 1, (int)(left * 1000) + 1) < 0 && errno != EINTR) return false;
        ssize_t n = out ? send(fd, card + at, (size_t)(CARD - at), MSG_NOSIGNAL | MSG_DONTWAIT)
                        : recv(fd, card + at, (size_t)(CARD - at), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return false;
        if (n > 0) at += (int)n;
    }
    return true;
}

/* Of a host's addresses some may lead nowhere, which takes seconds to find out. Hosts of a run are alike: what has led
 * to one is tried first for the next. */
static enum lvn_status connect_to(struct lvn_mesh *m, const char *to, int rank, double patience)
{
    int place, *fd = &m->sockets[rank];
    char who[32];
    snprintf(who, sizeof who, "rank %d", rank);
    if (m->leads && lvn_places_connect(to, who, 0, m->leads, &place, fd) == LVN_OK) return LVN_OK;
    if (m->leads) lvn_error_clear();
    LVN_TRY(lvn_places_connect(to, who, patience, 0, &place, fd));
    if (place) m->leads = place;
    return LVN_OK;
}

/* To a rank below; it answers when it has time. */
static enum lvn_status call(struct lvn_mesh *m, const struct lvn_heartbeat *h, int rank, double end)
{
    char card[CARD];
    double left = end - lvn_seconds();
    const char *to = lvn_heartbeat_fact(h, rank, "tcp");
    LVN_CHECK(*to, COMM, "rank %d does not say where it listens; have all ranks the same trainer.transport?", rank);
    LVN_TRY(connect_to(m, to, rank, left > 1 ? left : 1));
    write_card(card, m->key, m->rank, rank);
    LVN_CHECK(exchange(m->sockets[rank], card, true, end), COMM, "rank %d took no greeting", rank);
    return LVN_OK;
}

/* A caller of which the card is not complete. */
struct caller {
    int fd, at;
    double since;
    char card[CARD];
};

/* Read on. True: nothing more comes of it here; it is a rank, or it is closed. */
static bool hear(struct lvn_mesh *m, struct caller *c, int *missing)
{
    ssize_t n = recv(c->fd, c->card + c->at, (size_t)(CARD - c->at), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (n > 0) c->at += (int)n;
    if (n > 0 && c->at < CARD) return false;
    int from = n > 0 ? read_card(m, c->card) : -1;
    char answer[CARD];
    write_card(answer, m->key, m->rank, from);
    if (from <= m->rank || m->sockets[from] >= 0 || !exchange(c->fd, answer, true, lvn_seconds() + 1)) {
        close_one(&c->fd);
        return true;
    }
    m->sockets[from] = c->fd;
    --*missing;
    return true;
}

/* The others stay in the order in which they came. */
static void forget(struct caller *caller, int *n, int i)
{
    memmove(&caller[i], &caller[i + 1], sizeof *caller * (size_t)(--*n - i));
}

/* From the ranks above, in any order, among strangers. Of those the one that has been silent for longest gives way; but
 * what a rank says takes a moment to arrive, so until then who knocks waits at the door. */
static enum lvn_status take_calls(struct lvn_mesh *m, double end)
{
    const double MOMENT = 1;
    struct caller caller[STRANGERS];
    struct pollfd p[STRANGERS + 1];
    int n = 0, missing = m->size - 1 - m->rank;
    for (double now; missing && (now = lvn_seconds()) < end;) {
        const bool open = n < STRANGERS || now - caller[0].since > MOMENT;
        for (int i = 0; i < n; i++) p[i] = (struct pollfd){.fd = caller[i].fd, .events = POLLIN};
        p[n] = (struct pollfd){.fd = open ? m->listening : -1, .events = POLLIN};
        if (poll(p, (nfds_t)n + 1, 100) <= 0) continue;
        const bool knocks = p[n].revents;
        for (int i = n - 1; i >= 0; i--)
            if (p[i].revents && hear(m, &caller[i], &missing)) forget(caller, &n, i);
        if (!knocks) continue;
        if (n == STRANGERS) {
            close_one(&caller[0].fd);
            forget(caller, &n, 0);
        }
        caller[n] =
            (struct caller){.fd = accept4(m->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), .since = now};
        if (caller[n].fd >= 0) n++;
    }
    while (n) close_one(&caller[--n].fd);
    int first = m->rank + 1;
    while (first < m->size && m->sockets[first] >= 0) first++;
    LVN_CHECK(!missing, COMM,
              "rank %d has not connected to rank %d in time%s; see that no firewall stands between the hosts", first,
              m->rank, missing > 1 ? ", nor have others" : "");
    return LVN_OK;
}

static enum lvn_status hear_answers(struct lvn_mesh *m, double end)
{
    char card[CARD];
    for (int i = 0; i < m->rank; i++)
        LVN_CHECK(exchange(m->sockets[i], card, false, end) && read_card(m, card) == i, COMM,
                  "what answers where rank %d should be is not rank %d of this run", i, i);
    return LVN_OK;
}

enum lvn_status lvn_mesh_connect(struct lvn_mesh *m, const struct lvn_heartbeat *h, double seconds)
{
    const double end = lvn_seconds() + seconds;
    const char *key = lvn_heartbeat_fact(h, 0, "tcp_key");
    int on = 1;
    LVN_CHECK(strlen(key) == LVN_MESH_KEY - 1, COMM,
              "rank 0 gives no key for connections; have all ranks the same trainer.transport?");
    memcpy(m->key, key, LVN_MESH_KEY);
    for (int i = 0; i < m->rank; i++) LVN_TRY(call(m, h, i, end));
    LVN_TRY(take_calls(m, end));
    LVN_TRY(hear_answers(m, end));
    for (int i = 0; i < m->size; i++)
        if (i != m->rank) setsockopt(m->sockets[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    close_one(&m->listening);
    return LVN_OK;
}

void lvn_mesh_give(struct lvn_mesh *m)
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

static enum lvn_status open_over(struct lvn_mesh *m, struct lvn_comm **comm, struct lvn_heartbeat **heart,
                                 struct lvn_comm_options o, struct lvn_heartbeat_options h, double seconds)
{
    LVN_TRY(lvn_mesh_listen(m, o.rank, o.size));
    h.facts = m->fact;
    h.n_facts = m->n_facts;
    LVN_TRY(lvn_heartbeat_open(heart, &h));
    LVN_TRY(lvn_mesh_connect(m, *heart, seconds));
    o.sockets = m->sockets;
    LVN_TRY(lvn_comm_open(comm, &o));
    lvn_mesh_give(m);
    return LVN_OK;
}

enum lvn_status lvn_mesh_open(struct lvn_comm **comm, struct lvn_heartbeat **heart, struct lvn_comm_options o,
                              struct lvn_heartbeat_options h, double seconds)
{
    struct lvn_mesh m = {.listening = -1};
    enum lvn_status status = open_over(&m, comm, heart, o, h, seconds);
    if (status) lvn_heartbeat_fail(*heart, status == LVN_COMM); /* first, or others hear of connections that break */
    lvn_mesh_release(&m);
    return status;
}

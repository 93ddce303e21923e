/* mesh.c - see mesh.h. */
#include "cluster/rendezvous/mesh.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/work.h"
#include "cluster/rendezvous/server.h"

/* What both sides say, filled up with zeros: "levin KEY rank 12 to 3 try 1". The caller says it, the other one answers
 * in kind, and the caller confirms it by saying it again. Only then both know that this is the connection, of all that
 * were tried. A card is so short that a fresh connection takes it at once. */
enum { CARD = 96, STRANGERS = 64, AT_ONCE = 64, EVENTS = 64 };
static const double ANSWER_SECONDS = 5, MOMENT = 1;

/* Reading a card. */
struct hearing {
    int fd, at; /* fd -1: nobody; at: bytes of the card */
    char card[CARD];
};

/* The way to a connection with one rank. */
struct side {
    enum { ABSENT, CALLED, GREETED, STANDS } stage;
    struct hearing hearing;
    int try;                           /* the connection's number, of those that were tried */
    struct lvn_connection_attempt way; /* to a rank below */
    double until;                      /* for its answer */
};

/* A caller that has not said who it is. */
struct stranger {
    struct hearing hearing;
    double since;
};

struct meeting {
    struct lvn_mesh *m;
    const struct lvn_member *heart;
    int epoll, missing;
    int next, calling; /* the next rank to call, downwards; how many are being called */
    int leads;         /* which of a host's addresses has led to it; 0: any */
    double end;
    struct side *side; /* [size] */
    struct stranger stranger[STRANGERS];
    int n_strangers;
    bool shut; /* nobody is let in */
};

/* Wait for this: once, for a rank; again and again for strangers and at the door, whose rank is the size. */
static void await(const struct meeting *t, int fd, uint32_t what, int rank)
{
    struct epoll_event e = {.events = what | (rank < t->m->size ? EPOLLONESHOT : 0), .data.u32 = (uint32_t)rank};
    if (epoll_ctl(t->epoll, EPOLL_CTL_ADD, fd, &e)) (void)epoll_ctl(t->epoll, EPOLL_CTL_MOD, fd, &e);
}

static void close_one(int *fd)
{
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* --- cards --- */

static void write_card(char card[CARD], const char *key, int from, int to, int try)
{
    memset(card, 0, CARD);
    snprintf(card, CARD, "levin %s rank %d to %d try %d", key, from, to, try);
}

static bool say(const struct meeting *t, int fd, int to, int try)
{
    char card[CARD];
    write_card(card, t->m->key, t->m->rank, to, try);
    return send(fd, card, CARD, MSG_NOSIGNAL | MSG_DONTWAIT) == CARD;
}

/* Of whom, if it is for this rank; -1: a stranger's. Takes as long for every wrong key. */
static int read_card(const struct meeting *t, const char card[CARD], int *try)
{
    char want[CARD];
    int from = -1, wrong = 0;
    *try = 0;
    if (!memchr(card, '\0', CARD) || sscanf(card, "levin %*32s rank %d to %*d try %9d", &from, try) != 2) return -1;
    write_card(want, t->m->key, from, t->m->rank, *try);
    for (int i = 0; i < CARD; i++) wrong |= want[i] ^ card[i];
    return wrong || from < 0 || from >= t->m->size ? -1 : from;
}

/* Read on: 1, the card is whole; 0, more is to come; -1, none will come. */
static int hear(struct hearing *h)
{
    ssize_t n = recv(h->fd, h->card + h->at, (size_t)(CARD - h->at), MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
    if (n <= 0) return -1;
    h->at += (int)n;
    return h->at == CARD;
}

/* --- listening --- */

enum lvn_status lvn_mesh_listen(struct lvn_mesh *m, int rank, int size, bool one_host)
{
    unsigned char bytes[(LVN_MESH_KEY - 1) / 2];
    const char *outside = getenv("LEVIN_RENDEZVOUS");
    const bool serves = !rank && !(outside && *outside); /* then all meet at this rank, too */
    *m = (struct lvn_mesh){.rank = rank, .size = size, .listening = -1, .patience = ANSWER_SECONDS};
    m->sockets = lvn_malloc(sizeof *m->sockets * (size_t)size);
    if (!m->sockets) return LVN_MEMORY;
    for (int i = 0; i < size; i++) m->sockets[i] = -1;
    LVN_TRY(lvn_allow_files(size, size + STRANGERS + (serves ? size + LVN_STRANGERS : 0)));
    LVN_TRY(lvn_listen(one_host ? LVN_LOOPBACK : NULL, 0, &m->listening));
    lvn_endpoint_name(m->listening, m->place, sizeof m->place);
    m->fact[m->n_facts++] = (struct lvn_fact){"tcp", m->place};
    if (rank) return LVN_OK;
    LVN_CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes, IO, "no random bytes for a key: %s", strerror(errno));
    lvn_hex_text(bytes, sizeof bytes, m->key);
    m->fact[m->n_facts++] = (struct lvn_fact){"tcp_key", m->key};
    return LVN_OK;
}

/* --- calling the ranks below --- */

static enum lvn_status lost(struct side *s, int rank)
{
    char who[32];
    lvn_work_await(rank);
    if (s->stage == GREETED) lvn_connect_refuse(&s->way, "no answer");
    snprintf(who, sizeof who, "rank %d", rank);
    return lvn_connect_fail(&s->way, who);
}

static void stands(struct meeting *t, int rank, int fd)
{
    struct side *s = &t->side[rank];
    s->stage = STANDS;
    t->m->sockets[rank] = fd;
    t->missing--;
}

/* Go on with a call, whose connection may have changed. */
static enum lvn_status call(struct meeting *t, int rank, bool ready, double now)
{
    struct side *s = &t->side[rank];
    struct lvn_connection_attempt *w = &s->way;
    const int before = w->tries;
    const enum lvn_connect_state state = lvn_connect_step(w, ready, now);
    t->m->calls += w->tries - before;
    if (state == LVN_CONNECT_FAILED) return lost(s, rank);
    if (state == LVN_CONNECT_PENDING && w->tries != before && w->fd >= 0) await(t, w->fd, EPOLLOUT, rank);
    if (state == LVN_CONNECT_PENDING) return LVN_OK;
    if (!say(t, w->fd, rank, w->tries)) return lvn_connect_refuse(w, "it takes no greeting"), LVN_OK;
    if (w->at) t->leads = w->at;
    s->stage = GREETED;
    s->hearing = (struct hearing){.fd = w->fd};
    s->until = now + t->m->patience * w->tries; /* who is slow is called less often */
    await(t, w->fd, EPOLLIN, rank);
    return LVN_OK;
}

/* The answer: is that the rank that was meant? Another address may lead there. */
static void hear_answer(struct meeting *t, int rank, double now)
{
    struct side *s = &t->side[rank];
    struct lvn_connection_attempt *w = &s->way;
    int try, code = hear(&s->hearing);
    if (!code && now < s->until) return await(t, w->fd, EPOLLIN, rank);
    if (code > 0 && read_card(t, s->hearing.card, &try) == rank && try == w->tries && say(t, w->fd, rank, try)) {
        stands(t, rank, w->fd);
        t->calling--;
        w->fd = -1;
        return;
    }
    lvn_connect_refuse(w, code > 0 ? "what answers there is not this rank of this run" : code ? "closed" : "no answer");
    s->stage = CALLED;
}

static enum lvn_status begin_calls(struct meeting *t, double now)
{
    for (; t->next >= 0 && t->calling < AT_ONCE; t->next--, t->calling++) {
        struct side *s = &t->side[t->next];
        const char *to = lvn_member_fact(t->heart, t->next, "tcp");
        LVN_CHECK(*to, COMM, "rank %d does not say where it listens; have all ranks the same trainer.transport?",
                  t->next);
        lvn_connect_begin(&s->way, to, t->end - now, 0);
        if (t->leads) { /* some addresses lead nowhere, which takes seconds to find out, and hosts are alike */
            s->way.at = t->leads - 1;
            s->way.again = true;
        }
        s->stage = CALLED;
        LVN_TRY(call(t, t->next, false, now));
    }
    return LVN_OK;
}

/* What is over by the clock. */
static enum lvn_status look_at_calls(struct meeting *t, double now)
{
    for (int i = t->next + 1; i < t->m->rank; i++) {
        struct side *s = &t->side[i];
        if (s->stage == GREETED) hear_answer(t, i, now);
        if (s->stage == CALLED && (now >= s->way.until || s->way.fd < 0)) LVN_TRY(call(t, i, false, now));
    }
    return LVN_OK;
}

/* --- called by the ranks above --- */

/* The others stay in the order in which they came. */
static void forget(struct meeting *t, int i)
{
    struct stranger *s = t->stranger;
    memmove(&s[i], &s[i + 1], sizeof *s * (size_t)(--t->n_strangers - i));
}

/* True: it is heard no more as such. Of the connections that a rank has tried the last one counts; in which order they
 * arrive means nothing. */
static bool hear_stranger(struct meeting *t, int i)
{
    int fd = t->stranger[i].hearing.fd, try, code = hear(&t->stranger[i].hearing);
    if (!code) return false;
    const int from = code > 0 ? read_card(t, t->stranger[i].hearing.card, &try) : -1;
    struct side *s = from > t->m->rank ? &t->side[from] : NULL;
    forget(t, i);
    if (!s || s->stage == STANDS || try <= s->try || !say(t, fd, from, try)) return close_one(&fd), true;
    close_one(&s->hearing.fd);
    s->stage = GREETED;
    s->try = try;
    s->hearing = (struct hearing){.fd = fd};
    await(t, fd, EPOLLIN, from);
    return true;
}

/* The caller has taken this connection, or gives it up. */
static void hear_caller(struct meeting *t, int rank)
{
    struct side *s = &t->side[rank];
    int try, code = s->stage == GREETED ? hear(&s->hearing) : 0;
    if (!code && s->stage == GREETED) await(t, s->hearing.fd, EPOLLIN, rank);
    if (!code) return;
    if (code > 0 && read_card(t, s->hearing.card, &try) == rank && try == s->try) {
        stands(t, rank, s->hearing.fd);
    } else {
        close_one(&s->hearing.fd);
        s->stage = ABSENT;
    }
    s->hearing.fd = -1;
}

/* Of strangers the one that has been silent for longest gives way; but what a rank says takes a moment to arrive, so
 * until then who knocks waits at the door. */
static void open_door(struct meeting *t, double now)
{
    if (t->n_strangers == STRANGERS && now - t->stranger[0].since > MOMENT) {
        close_one(&t->stranger[0].hearing.fd);
        forget(t, 0);
    }
    const bool shut = t->n_strangers == STRANGERS;
    if (shut != t->shut) await(t, t->m->listening, shut ? 0 : EPOLLIN, t->m->size);
    t->shut = shut;
}

static void let_in(struct meeting *t, double now)
{
    while (t->n_strangers < STRANGERS) {
        struct stranger *s = &t->stranger[t->n_strangers];
        *s = (struct stranger){{.fd = accept4(t->m->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)}, now};
        if (s->hearing.fd < 0) return;
        if (!hear_stranger(t, t->n_strangers++)) await(t, s->hearing.fd, EPOLLIN, t->m->size);
    }
}

/* --- all of them --- */

static enum lvn_status look(struct meeting *t, const struct epoll_event *e, int n, double now)
{
    for (int i = 0; i < n; i++) {
        const int k = (int)e[i].data.u32;
        if (k >= t->m->size) continue;
        if (k > t->m->rank)
            hear_caller(t, k);
        else if (t->side[k].stage == GREETED)
            hear_answer(t, k, now);
        else if (t->side[k].stage == CALLED)
            LVN_TRY(call(t, k, true, now));
    }
    for (int i = t->n_strangers - 1; n && i >= 0; i--) (void)hear_stranger(t, i);
    let_in(t, now);
    open_door(t, now);
    return LVN_OK;
}

/* The server hears for whom this rank waits: where two wait for each other the link between them is at fault. */
static void tell_missing(const struct meeting *t)
{
    int i = 0;
    while (i < t->m->size && (i == t->m->rank || t->side[i].stage == STANDS)) i++;
    lvn_work_await(i < t->m->size ? i : -1);
}

/* Who calls in vain knows more than who waits for a call, and speaks first. */
static enum lvn_status meet(struct meeting *t)
{
    const double grace = 2;
    double looked = 0;
    struct epoll_event e[EVENTS];
    for (double now; t->missing && (now = lvn_seconds()) < t->end + grace;) {
        LVN_TRY(begin_calls(t, now));
        int n = epoll_wait(t->epoll, e, EVENTS, 50);
        now = lvn_seconds();
        LVN_TRY(look(t, e, n > 0 ? n : 0, now));
        if (now - looked < 0.02) continue;
        looked = now;
        LVN_TRY(look_at_calls(t, now));
        tell_missing(t);
        for (int i = t->next + 1; i < t->m->rank && now >= t->end; i++)
            if (t->side[i].stage != STANDS) return lost(&t->side[i], i);
    }
    int first = t->m->rank + 1;
    while (first < t->m->size && t->side[first].stage == STANDS) first++;
    LVN_CHECK(!t->missing, COMM,
              "rank %d has not connected to rank %d in time%s; see that no firewall stands between the hosts", first,
              t->m->rank, t->missing > 1 ? ", nor have others" : "");
    return LVN_OK;
}

enum lvn_status lvn_mesh_connect(struct lvn_mesh *m, struct lvn_member *h, double seconds)
{
    const char *key = lvn_member_fact(h, 0, "tcp_key");
    struct meeting t = {.m = m,
                        .heart = h,
                        .missing = m->size - 1,
                        .next = m->rank - 1,
                        .end = lvn_seconds() + seconds,
                        .epoll = epoll_create1(EPOLL_CLOEXEC)};
    int on = 1;
    LVN_CHECK(strlen(key) == LVN_MESH_KEY - 1, COMM,
              "rank 0 gives no key for connections; have all ranks the same trainer.transport?");
    memcpy(m->key, key, LVN_MESH_KEY);
    t.side = lvn_calloc((size_t)m->size, sizeof *t.side);
    if (!t.side) return close_one(&t.epoll), LVN_MEMORY;
    for (int i = 0; i < m->size; i++) t.side[i].hearing.fd = t.side[i].way.fd = -1;
    await(&t, m->listening, EPOLLIN, m->size);
    lvn_member_set_operation(h, "the connection setup");
    enum lvn_status status = meet(&t);
    if (!status) lvn_work_await(-1); /* the place stays, until the first agreement: others may not be so far */
    for (int i = 0; i < m->size; i++) {
        if (i > m->rank) close_one(&t.side[i].hearing.fd);
        if (i < m->rank) lvn_connect_end(&t.side[i].way);
        if (m->sockets[i] >= 0) setsockopt(m->sockets[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    while (t.n_strangers) close_one(&t.stranger[--t.n_strangers].hearing.fd);
    free(t.side);
    close_one(&t.epoll);
    if (!status) close_one(&m->listening);
    return status;
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

static enum lvn_status open_over(struct lvn_mesh *m, struct lvn_comm **comm, struct lvn_member **heart,
                                 struct lvn_comm_options o, struct lvn_member_options h, double seconds)
{
    LVN_TRY(lvn_mesh_listen(m, o.rank, o.size, h.id->one_host));
    h.facts = m->fact;
    h.n_facts = m->n_facts;
    LVN_TRY(lvn_member_open(heart, &h));
    LVN_TRY(lvn_mesh_connect(m, *heart, seconds));
    o.sockets = m->sockets;
    LVN_TRY(lvn_comm_open(comm, &o));
    lvn_mesh_give(m);
    return LVN_OK;
}

enum lvn_status lvn_mesh_open(struct lvn_comm **comm, struct lvn_member **heart, struct lvn_comm_options o,
                              struct lvn_member_options h, double seconds)
{
    struct lvn_mesh m = {.listening = -1};
    enum lvn_status status = open_over(&m, comm, heart, o, h, seconds);
    if (status) lvn_member_fail(*heart, status == LVN_COMM); /* first, or others hear of connections that break */
    lvn_mesh_release(&m);
    return status;
}

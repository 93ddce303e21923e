/* server_receive.c - handles the messages of ranks, and composes and declares faults; server.c calls it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/threads.h"
#include "cluster/rendezvous/hang_detector.h"
#include "cluster/rendezvous/server_private.h"

static const double GROUP_SECONDS = 0.3 /* faults within this time are one */, FILE_SECONDS = 1;
static const double STOPPED_SECONDS = 12; /* a rank not reported as stopped for so long was continued meanwhile */

static const char process_gone[] = "its process is gone";

static int bounded(int64_t n)
{
    return n < 0 ? 0 : n > INT32_MAX ? INT32_MAX : (int)n;
}

/* Comparison in constant time. */
static bool same_token(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    unsigned char difference = n != m;
    for (size_t i = 0; i < n && m; i++) difference |= (unsigned char)(a[i] ^ b[i % m]);
    return !difference;
}

static void schedule_declare(struct lvn_server *s, double delay)
{
    double at = lvn_seconds() + delay;
    if (!s->declare_at || at < s->declare_at) s->declare_at = at;
}

/* Joining fails; this connection receives the fault with the others. */
static bool fail_gathering(struct lvn_server *s, struct lvn_server_client *c)
{
    s->has_text = true;
    c->rank = -2;
    schedule_declare(s, GROUP_SECONDS);
    s->permanent = true;
    return true;
}

static bool refuse_client(struct lvn_server_client *c, const char *text)
{
    lvn_message_add(&c->wire.out, LVN_MESSAGE_REFUSE, text);
    c->closing = true;
    return true;
}

void lvn_server_record_refusal(struct lvn_server *s, const struct lvn_server_client *c, const char *did)
{
    if (s->refused[0]) return;
    snprintf(s->refused, sizeof s->refused, "a process at %s that %s was rejected by the rendezvous server",
             *c->from ? c->from : "?", did);
}

void lvn_server_send_refusal(struct lvn_server *s)
{
    struct lvn_text line = {0};
    if (!s->refused[0] || s->refused_sent) return;
    s->refused_sent = true;
    lvn_message_add(&line, LVN_MESSAGE_WARN, (int64_t)lvn_server_lowest(s), s->refused);
    lvn_server_broadcast(s, &line);
    lvn_text_release(&line);
}

static bool handle_hello(struct lvn_server *s, struct lvn_server_client *c, const struct lvn_message *m)
{
    int64_t rank = m->i[0], size = m->i[1], pid = m->i[2];
    const char *host = m->t[1];
    if (c->rank != -1) return false;
    if (!same_token(m->t[0], s->token)) {
        lvn_server_record_refusal(s, c, *m->t[0] ? "sent another token than this run's" : "sent no token");
        return refuse_client(c, !s->o.outside ? "its token is not this run's: give all ranks the same LEVIN_TOKEN"
                                              : "its token is not this run's");
    }
    if (s->phase != LVN_SERVER_GATHERING) return refuse_client(c, "the run has begun without it, or has ended");
    if (size != s->o.size) {
        snprintf(s->fault, sizeof s->fault,
                 "pid %lld on %.200s claims to be rank %lld of %lld, but this run has %d ranks: %s", (long long)pid,
                 host, (long long)rank, (long long)size, s->o.size,
                 size == 1 ? "the MPI library does not belong to the launcher; give the launcher's own by "
                             "trainer.mpi_library, or start levin by the mpirun of the library"
                           : "start all of them by one launcher, and unset variables of other ones");
        return fail_gathering(s, c);
    }
    if (rank < 0 || rank >= size) return false;
    struct lvn_peer *p = &s->peer[rank];
    if (p->state != LVN_PEER_ABSENT) {
        snprintf(s->fault, sizeof s->fault,
                 "two processes claim to be rank %lld: pid %lld on %s and pid %lld on %.200s; start all ranks by one "
                 "launcher, and unset variables of other ones",
                 (long long)rank, (long long)p->pid, p->host, (long long)pid, host);
        s->fault_rank = (int)rank;
        return fail_gathering(s, c);
    }
    p->state = LVN_PEER_HERE;
    p->pid = pid;
    p->last_heard = lvn_seconds();
    snprintf(p->host, sizeof p->host, "%s", host);
    if (!s->n_came++) s->first_came = p->last_heard;
    c->rank = (int)rank;
    s->n_unidentified--;
    lvn_message_add(&c->wire.out, LVN_MESSAGE_WELCOME, (int64_t)s->o.size, s->o.timeout);
    return true;
}

/* --- facts --- */

static bool handle_fact(struct lvn_server *s, int rank, const struct lvn_message *m)
{
    int k = 0;
    while (k < LVN_FACTS && s->key[k] && strcmp(s->key[k], m->t[0]) != 0) k++;
    if (k == LVN_FACTS || s->facts[rank].ready) return false;
    if (!s->key[k]) s->key[k] = strdup(m->t[0]);
    free(s->facts[rank].value[k]);
    s->facts[rank].value[k] = strdup(m->t[1]);
    return s->key[k] && s->facts[rank].value[k];
}

static bool handle_ready(struct lvn_server *s, int rank)
{
    s->n_ready += !s->facts[rank].ready;
    s->facts[rank].ready = true;
    if (s->phase != LVN_SERVER_GATHERING || s->declare_at > 0 || s->n_ready < s->o.size) return true;
    for (int i = 0; i < s->o.size; i++) {
        s->peer[i].last_heard = s->peer[i].last_progress = lvn_seconds();
        s->sent[i].state = LVN_PEER_HERE;
        s->sent[i].last_heard = s->peer[i].last_heard;
    }
    lvn_server_send_start(s);
    s->phase = LVN_SERVER_RUNNING;
    return true;
}

/* --- while it runs --- */

static bool handle_heartbeat(struct lvn_peer *p, const struct lvn_message *m)
{
    const struct lvn_peer before = *p;
    p->step = m->i[0] > 0 ? m->i[0] : 0;
    p->collective = bounded(m->i[1]);
    p->collectives = bounded(m->i[2]);
    p->tokens_per_s = m->d[0];
    p->compute_s = m->d[1];
    p->memory = m->i[3] > 0 ? m->i[3] : 0;
    p->waits_done = m->i[4];
    p->work_count = m->i[5];
    p->waits_for = bounded(m->i[6]);
    snprintf(p->operation, sizeof p->operation, "%s", m->t[0]);
    snprintf(p->activity, sizeof p->activity, "%s", m->t[1]);
    lvn_hang_detector_heard(p, &before, p->last_heard);
    return true;
}

static bool handle_fail(struct lvn_server *s, int rank, const struct lvn_message *m)
{
    s->n_fails++;
    if (!s->failed || (s->failed_after && !m->i[0])) {
        s->failed = rank + 1;
        s->failed_after = m->i[0] != 0;
        snprintf(s->fail_text, sizeof s->fail_text, "%s", m->t[0]);
    }
    /* A failure because of others leaves time for the cause to show. */
    schedule_declare(s, s->failed_after ? 4 * GROUP_SECONDS : GROUP_SECONDS);
    return true;
}

static bool handle_bye(struct lvn_server *s, int rank)
{
    s->n_done += s->peer[rank].state != LVN_PEER_DONE;
    s->peer[rank].state = LVN_PEER_DONE;
    s->peer[rank].last_progress = lvn_seconds();
    if (s->n_done < s->o.size || s->phase >= LVN_SERVER_ENDED) return true;
    s->phase = LVN_SERVER_ENDED;
    lvn_server_send_table(s, lvn_seconds()); /* with the last steps, for status.json */
    struct lvn_text t = {0};
    lvn_message_add(&t, LVN_MESSAGE_END);
    lvn_server_broadcast(s, &t);
    lvn_text_release(&t);
    for (int k = 0; k < s->n_clients; k++) s->client[k]->closing = true;
    return true;
}

/* A rank that has not joined is reported as stopped, repeatedly, by another process of its host. It may be continued
 * within the time in which a joined rank may be silent. */
static bool handle_stopped(struct lvn_server *s, struct lvn_server_client *c, const struct lvn_message *m)
{
    const int64_t rank = m->i[0];
    const double now = lvn_seconds();
    if (!same_token(m->t[0], s->token)) return refuse_client(c, "its token is not this run's");
    if (rank < 0 || rank >= s->o.size) return false;
    struct lvn_peer *p = &s->peer[rank];
    if (s->phase != LVN_SERVER_GATHERING || s->declare_at > 0 || p->state != LVN_PEER_ABSENT) return true;
    if (now - p->last_heard > STOPPED_SECONDS) p->last_progress = now;
    p->last_heard = now;
    p->pid = m->i[1];
    snprintf(p->host, sizeof p->host, "%s", m->t[1]);
    if (now - p->last_progress < LVN_SILENCE * s->o.timeout) return true;
    snprintf(s->fault, sizeof s->fault,
             "rank %lld on %.200s (pid %lld) is stopped, and the others wait for it at the start", (long long)rank,
             p->host, (long long)p->pid);
    s->fault_rank = (int)rank;
    s->has_text = true;
    schedule_declare(s, 0);
    return true;
}

bool lvn_server_receive(struct lvn_server *s, struct lvn_server_client *c, const struct lvn_message *m)
{
    if (m->kind == LVN_MESSAGE_HELLO) return handle_hello(s, c, m);
    if (m->kind == LVN_MESSAGE_STOPPED) return handle_stopped(s, c, m);
    if (c->rank == -2) return true;
    if (c->rank < 0) return false;
    struct lvn_peer *p = &s->peer[c->rank];
    p->last_heard = lvn_seconds();
    switch (m->kind) {
    case LVN_MESSAGE_FACT:
        return handle_fact(s, c->rank, m);
    case LVN_MESSAGE_READY:
        return handle_ready(s, c->rank);
    case LVN_MESSAGE_HEARTBEAT:
        return handle_heartbeat(p, m);
    case LVN_MESSAGE_FAIL:
        return handle_fail(s, c->rank, m);
    case LVN_MESSAGE_BYE:
        return handle_bye(s, c->rank);
    case LVN_MESSAGE_PUBLISH:
        s->attempts = (struct lvn_attempts){m->i[0], m->i[1], m->i[2], m->d[0]};
        snprintf(s->status_path, sizeof s->status_path, "%s", m->t[0]);
        return true;
    default:
        return false;
    }
}

void lvn_server_gone(struct lvn_server *s, int rank)
{
    struct lvn_peer *p = &s->peer[rank];
    if (p->state != LVN_PEER_HERE || s->phase >= LVN_SERVER_ENDED) return;
    p->state = LVN_PEER_LOST;
    p->reason = process_gone;
    p->poll_index = s->polls;
    schedule_declare(s, GROUP_SECONDS);
}

void lvn_server_missing(struct lvn_server *s)
{
    struct lvn_text t = {0};
    int missing = 0;
    bool *flag = calloc((size_t)s->o.size, sizeof *flag);
    for (int i = 0; flag && i < s->o.size; i++) {
        flag[i] = s->peer[i].state == LVN_PEER_ABSENT;
        missing += flag[i];
    }
    if (flag) lvn_ranks_text(flag, s->o.size, 0, &t);
    free(flag);
    if (missing == s->o.size) {
        snprintf(
            s->fault, sizeof s->fault,
            "none of the %d ranks has joined within %.0f s: check that the launcher could start levin on all hosts",
            s->o.size, s->o.join_timeout);
    } else if (missing) {
        snprintf(s->fault, sizeof s->fault,
                 "rank%s %.200s of %d %s not joined within %.0f s: check that all hosts could start levin",
                 missing == 1 ? "" : "s", t.p ? t.p : "", s->o.size, missing == 1 ? "has" : "have", s->o.join_timeout);
    }
    lvn_text_release(&t);
    if (!missing) return;
    if (s->refused[0]) lvn_print_append(s->fault, sizeof s->fault, "; %s", s->refused);
    s->refused_sent = true;
    s->has_text = true;
    schedule_declare(s, 0);
}

/* Compose the message, by priority: a rank's own error, then lost ranks, then errors that follow from those. */
static void compose_fault(struct lvn_server *s)
{
    int lost = -1;
    for (int i = s->o.size - 1; i >= 0; i--) {
        if (s->peer[i].state == LVN_PEER_LOST && i != s->failed - 1) lost = i;
    }
    if (s->failed && (!s->failed_after || lost < 0)) {
        const struct lvn_peer *p = &s->peer[s->failed - 1];
        s->fault_rank = p->rank;
        s->permanent = !s->failed_after;
        if (s->failed_after && p->waits_for > 0 && p->waits_for <= s->o.size && p->waits_for - 1 != p->rank) {
            s->fault_link[0] = p->rank;
            s->fault_link[1] = p->waits_for - 1;
        }
        if (s->n_fails >= s->o.size) { /* all ranks failed in the same way */
            snprintf(s->fault, sizeof s->fault, "%s", s->fail_text);
        } else if (p->step > 0) {
            snprintf(s->fault, sizeof s->fault, "rank %d on %.100s, after step %lld: %s", p->rank, p->host,
                     (long long)p->step, s->fail_text);
        } else {
            snprintf(s->fault, sizeof s->fault, "rank %d on %.100s: %s", p->rank, p->host, s->fail_text);
        }
        return;
    }
    struct lvn_text t = {0};
    lvn_lost_text(s->peer, s->o.size, &t);
    s->fault_rank = lost;
    snprintf(s->fault, sizeof s->fault, "%s", t.p ? t.p : "a rank is lost");
    lvn_text_release(&t);
}

/* The rank that prints the fault; -1: none. */
static int reporter_of(const struct lvn_server *s)
{
    return s->o.outside || lvn_seconds() < s->outvoted_until ? -1 : lvn_server_lowest(s);
}

void lvn_server_check_hang(struct lvn_server *s)
{
    enum lvn_hang_state state = lvn_hang_detector_judge(s->peer, s->o.size, s->o.stall_timeout);
    struct lvn_text t = {0};
    if (state == LVN_HANG_NONE) s->warned = false;
    if (state == LVN_HANG_NONE || (state == LVN_HANG_SUSPECTED && s->warned)) return;
    lvn_hang_detector_text(s->peer, s->o.size, s->o.stall_timeout, &t);
    if (state == LVN_HANG_DETECTED) {
        s->fault_rank = lvn_hang_detector_behind(s->peer, s->o.size);
        (void)lvn_hang_detector_link(s->peer, s->o.size, s->fault_link);
        snprintf(s->fault, sizeof s->fault, "%s", t.p ? t.p : "no rank makes progress");
        s->has_text = true;
        schedule_declare(s, 0);
    } else {
        struct lvn_text line = {0};
        lvn_message_add(&line, LVN_MESSAGE_WARN, (int64_t)lvn_server_lowest(s), t.p ? t.p : "no rank makes progress");
        lvn_server_broadcast(s, &line);
        lvn_text_release(&line);
    }
    s->warned = true;
    lvn_text_release(&t);
}

struct status {
    char path[1024], fault[1200];
    struct lvn_attempts attempts;
    int n;
    struct lvn_peer peer[];
};

static void write_status_file(void *argument) /* frees its argument: the starting thread may have gone on */
{
    struct status *x = argument;
    lvn_status_write(x->path, x->peer, x->n, &x->attempts, "fault", x->fault);
    free(x);
}

/* In a thread, because the file system may be blocked. */
static void write_status(const struct lvn_server *s)
{
    size_t bytes = sizeof *s->peer * (size_t)s->o.size;
    struct status *x = malloc(sizeof *x + bytes);
    if (!x) return;
    x->n = s->o.size;
    x->attempts = s->attempts;
    memcpy(x->path, s->status_path, sizeof x->path);
    memcpy(x->fault, s->fault, sizeof x->fault);
    memcpy(x->peer, s->peer, bytes);
    (void)lvn_thread_with_timeout(FILE_SECONDS, write_status_file, x);
}

void lvn_server_declare(struct lvn_server *s)
{
    if (!s->has_text) compose_fault(s);
    s->phase = LVN_SERVER_FAULT;
    int reporter = reporter_of(s);
    int64_t quiet = 0;
    struct lvn_text t = {0}, silent = {0};
    for (int i = 0; i < s->o.size; i++) quiet |= s->peer[i].state == LVN_PEER_LOST && s->peer[i].reason != process_gone;
    lvn_server_send_table(s, lvn_seconds());
    for (int k = 0; k < s->n_clients; k++) lvn_wire_flush(&s->client[k]->wire);
    lvn_message_add(&t, LVN_MESSAGE_LOST, (int64_t)s->fault_rank, (int64_t)reporter, quiet, (int64_t)s->permanent,
                    s->fault);
    lvn_server_broadcast(s, &t);
    lvn_message_add(&silent, LVN_MESSAGE_LOST, (int64_t)s->fault_rank, (int64_t)-1, quiet, (int64_t)s->permanent,
                    s->fault);
    for (int k = 0; k < s->n_clients; k++) {
        struct lvn_server_client *c = s->client[k];
        if (c->rank == -2) lvn_text_add_bytes(&c->wire.out, silent.p ? silent.p : "", silent.n);
        c->closing = true;
        if (c->rank)
            lvn_wire_flush(&c->wire); /* rank 0 last: it may end when it receives this, and this thread with it */
    }
    lvn_text_release(&t);
    lvn_text_release(&silent);
    if (s->o.outside && s->status_path[0]) write_status(s);
}

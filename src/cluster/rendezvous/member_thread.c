/* member_thread.c - the heartbeat thread of a rank: sends where the rank is, receives the state of the others and
 * faults, writes status.json, and calls the program's callback for a fault.
 *
 * This file owns the way from a lost connection to exit code 76. Two threads of a surviving rank go it at the same
 * time; the one that is done first ends the process (docs/cluster-internals.md).
 *
 *     heartbeat thread: a rank is lost
 *     0.0 s  serve_clients(), server.c: its connection has closed; or check_times(): silent for 0.8 rank_timeout
 *            lvn_server_gone(), server_receive.c: marks it LOST, and waits for other faults
 *     0.3 s  lvn_server_declare(), server_receive.c: sends LOST to all ranks, names the reporter
 *            lvn_member_receive(), here: stores the fault; lvn_member_deliver_fault(): writes status.json,
 *            and calls the callback, 1.5 s later on ranks that do not report
 *            end_at_fault(), cli/args.c: prints, aborts NCCL; _exit(76), or 1 where the fault is permanent
 *     main thread: the communicator failed
 *     0.0 s  drain(), flush(), comm/tcp_connections.c; record_error(), fail_all(), comm/engine.c: every request
 *            ends with COMM, and so do the run, before the update, and one_step(), train/trainer.c
 *            finish(), cli/main.c: lvn_member_fail(), member.c, sends FAIL and waits for the reporter; 76
 *
 * The server's silence is a fault, too. Whether its process or the network is dead shows in the data sent to it: the
 * kernel of a host whose process is stopped still acknowledges it, a cut connection does not. If the server was a
 * rank, each rank knows its position in the order of reporters from the last table; later ones wait for earlier
 * ones. The reporter is the rank that first gets the lock of the run's folder and finds no fault of another rank in
 * status.json; before there is a folder, the lowest rank that lives on a host. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/threads.h"
#include "base/work.h"
#include "cluster/rendezvous/local_ranks.h"
#include "cluster/rendezvous/member_private.h"
#include "host/machine.h"

static const double STATUS_SECONDS = 1, QUIET_SECONDS = 1.5, POSITION_SECONDS = 2, NOTICE_SECONDS = 0.7,
                    FILE_SECONDS = 1;

double lvn_member_heartbeat_interval(double timeout, int size)
{
    const double max = 0.5 * (1 + size / 512.0), min = 0.02, wanted = timeout / 10;
    return wanted > max ? max : wanted < min ? min : wanted;
}

void lvn_member_update_own_row(struct lvn_member *h, double now)
{
    struct lvn_peer *p = &h->peer[h->rank];
    uint64_t collective = atomic_load_explicit(&h->collective, memory_order_relaxed);
    const char *operation = atomic_load_explicit(&h->operation, memory_order_acquire), *work = lvn_work_name();
    p->step = atomic_load_explicit(&h->step, memory_order_relaxed);
    p->collective = (int)(collective >> 32);
    p->collectives = (int)(collective & 0xffffffff);
    p->tokens_per_s = atomic_load_explicit(&h->tokens_per_s, memory_order_relaxed);
    p->compute_s = atomic_load_explicit(&h->compute_s, memory_order_relaxed);
    p->memory = lvn_memory_resident();
    p->waits_done = atomic_load_explicit(&h->waits_done, memory_order_relaxed);
    p->work_count = lvn_work_count();
    p->waits_for = lvn_work_blocking_rank() + 1;
    p->last_heard = now;
    snprintf(p->operation, sizeof p->operation, "%s", operation ? operation : "");
    snprintf(p->activity, sizeof p->activity, "%s", work ? work : "");
}

void lvn_member_send_heartbeat(struct lvn_member *h, double now)
{
    const struct lvn_peer *p = &h->peer[h->rank];
    lvn_member_update_own_row(h, now);
    h->last_sent = now;
    if (h->online && !h->sent_bye && h->wire.fd >= 0) {
        lvn_message_add(&h->wire.out, LVN_MESSAGE_HEARTBEAT, p->step, (int64_t)p->collective, (int64_t)p->collectives,
                        p->tokens_per_s, p->compute_s, p->memory, p->waits_done, p->work_count, (int64_t)p->waits_for,
                        p->operation, p->activity);
    }
}

/* --- messages of the server --- */

static bool handle_peer(struct lvn_member *h, const struct lvn_message *m)
{
    if (m->i[0] < 0 || m->i[0] >= h->size) return false;
    struct lvn_peer *p = &h->peer[m->i[0]];
    p->pid = m->i[1];
    p->state = LVN_PEER_HERE;
    p->last_heard = lvn_seconds();
    snprintf(p->host, sizeof p->host, "%s", m->t[0]);
    return true;
}

static bool handle_row(struct lvn_member *h, const struct lvn_message *m, double now)
{
    if (m->i[0] < 0 || m->i[0] >= h->size || m->i[1] < 0 || m->i[1] > LVN_PEER_LOST) return false;
    struct lvn_peer *p = &h->peer[m->i[0]];
    if (m->i[0] == h->rank) return true; /* the own state is newer here */
    p->state = (enum lvn_peer_state)m->i[1];
    p->step = m->i[2];
    p->collective = (int)m->i[3];
    p->collectives = (int)m->i[4];
    p->tokens_per_s = m->d[0];
    p->compute_s = m->d[1];
    p->memory = m->i[5];
    p->last_heard = now - m->d[2];
    snprintf(p->operation, sizeof p->operation, "%s", m->t[0]);
    return true;
}

static bool handle_group(struct lvn_member *h, const struct lvn_message *m)
{
    if (h->started) return false;
    struct lvn_fact_group *all = realloc(h->group, sizeof *all * (size_t)(h->n_groups + 1));
    if (!all) return false;
    h->group = all;
    struct lvn_fact_group *g = &all[h->n_groups];
    *g = (struct lvn_fact_group){strdup(m->t[0]), strdup(m->t[1]), strdup(m->t[2])};
    h->n_groups++;
    return g->key && g->value && g->ranks;
}

void lvn_member_set_fault(struct lvn_member *h, int rank, bool is_reporter, bool quiet, const char *text)
{
    if (h->faulty) return;
    h->faulty = true;
    h->fault_rank = rank;
    h->is_reporter = is_reporter;
    h->quiet = quiet;
    lvn_set_reporter(is_reporter);
    snprintf(h->fault, sizeof h->fault, "%s", text);
    snprintf(h->state, sizeof h->state, "fault");
    pthread_cond_broadcast(&h->change);
}

bool lvn_member_receive(struct lvn_member *h, const struct lvn_message *m)
{
    double now = lvn_seconds();
    h->last_received = now;
    switch (m->kind) {
    case LVN_MESSAGE_WELCOME:
        if (m->i[0] != h->size) return false;
        if (m->d[0] > 0) h->timeout = m->d[0];
        h->welcomed = true;
        return true;
    case LVN_MESSAGE_PEER:
        return handle_peer(h, m);
    case LVN_MESSAGE_GROUP:
        return handle_group(h, m);
    case LVN_MESSAGE_ROW:
        return handle_row(h, m, now);
    case LVN_MESSAGE_START: /* not every rank was announced by PEER */
        for (int i = 0; i < h->size; i++) {
            h->peer[i].state = LVN_PEER_HERE;
            h->peer[i].last_heard = now;
        }
        h->started = true;
        break;
    case LVN_MESSAGE_WARN:
        if (m->i[0] == h->rank) snprintf(h->warning, sizeof h->warning, "%s", m->t[0]);
        return true;
    case LVN_MESSAGE_LOST:
        h->permanent = m->i[3] != 0;
        lvn_member_set_fault(h, (int)m->i[0], m->i[1] == h->rank, m->i[2] != 0, m->t[0]);
        return true;
    case LVN_MESSAGE_REFUSE:
        snprintf(h->refusal, sizeof h->refusal, "%s", m->t[0]);
        return !h->welcomed;
    case LVN_MESSAGE_END:
        h->ended = true;
        break;
    default:
        return false;
    }
    pthread_cond_broadcast(&h->change);
    return true;
}

/* --- the server is gone --- */

static bool has_unacknowledged(int fd)
{
    int bytes = 0;
    return fd >= 0 && !ioctl(fd, SIOCOUTQ, &bytes) && bytes > 0;
}

/* What status.json and the lock of its folder say; outlives a thread that is blocked in a file system. */
struct status_probe {
    char path[1024];
    bool has_fault;  /* status.json has a fault */
    bool lock_taken; /* another process has the lock of the folder */
    int lock;        /* descriptor of the folder, locked by this process if it was asked for; else -1 */
};

static void status_probe(void *argument)
{
    struct status_probe *l = argument;
    char *text = NULL;
    int64_t bytes;
    if (lvn_file_read(l->path, 1 << 26, &text, &bytes)) return lvn_error_clear();
    l->has_fault = strstr(text, "\"state\": \"fault\"") != NULL;
    free(text);
}

/* Has another rank written a fault already? (A shared file system may not answer.) */
static bool fault_is_written(const char *path)
{
    struct status_probe *l = *path ? calloc(1, sizeof *l) : NULL;
    if (!l) return false;
    snprintf(l->path, sizeof l->path, "%s", path);
    if (!lvn_thread_with_timeout(FILE_SECONDS, status_probe, l)) return false;
    bool has_fault = l->has_fault;
    free(l);
    return has_fault;
}

/* On a file system without locks only the file shows which rank was first. */
static void probe_and_lock(void *argument)
{
    struct status_probe *l = argument;
    char folder[sizeof l->path];
    snprintf(folder, sizeof folder, "%s", l->path);
    char *name = strrchr(folder, '/');
    if (name) *name = '\0';
    l->lock = open(name ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    l->lock_taken = l->lock >= 0 && flock(l->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    status_probe(l);
}

/* Is this rank the reporter? It then holds the lock until the process ends. The first in the order ignores
 * status.json, which may still be that of an earlier run. */
static bool becomes_reporter(const char *path, bool is_first)
{
    struct status_probe *l = calloc(1, sizeof *l);
    if (!l) return true;
    snprintf(l->path, sizeof l->path, "%s", path);
    if (!lvn_thread_with_timeout(FILE_SECONDS, probe_and_lock, l)) return true;
    bool is_reporter = !l->lock_taken && (is_first || !l->has_fault);
    if (l->lock >= 0 && !is_reporter) close(l->lock);
    free(l);
    return is_reporter;
}

static bool lower_rank_alive_here(const struct lvn_member *h)
{
    for (int i = 0; i < h->rank; i++) {
        const struct lvn_peer *p = &h->peer[i];
        if (p->state == LVN_PEER_HERE && !strcmp(p->host, h->host) && lvn_process_runs((int)p->pid)) return true;
    }
    return false;
}

/* The server is gone. `silent`: its connection is open; ranks notice at times that differ by a heartbeat, so the
 * first reporter still exists when the others look. Waiting by position spares a file system the requests of a
 * thousand ranks. */
static void server_gone(struct lvn_member *h, const char *reason, bool silent)
{
    struct lvn_text t = {0};
    int position = 0;
    char path[sizeof h->path];
    if (h->server_rank >= 0) {
        h->peer[h->server_rank].state = LVN_PEER_LOST;
        h->peer[h->server_rank].reason = reason;
        lvn_member_update_own_row(h, lvn_seconds());
        lvn_lost_text(h->peer, h->size, &t);
    } else {
        lvn_text_printf(&t, "levin launch, which monitors the ranks, sent no heartbeat (%s)", reason);
    }
    for (int i = 0; i < h->rank; i++) position += h->peer[i].state == LVN_PEER_HERE;
    bool below = lower_rank_alive_here(h);
    snprintf(path, sizeof path, "%s", h->path);
    pthread_mutex_unlock(&h->lock);
    usleep((useconds_t)(1e6 * (POSITION_SECONDS * (position < 5 ? position : 5) + (silent ? NOTICE_SECONDS : 0))));
    bool is_reporter = *path ? becomes_reporter(path, !position) : !position || !below;
    pthread_mutex_lock(&h->lock);
    lvn_member_set_fault(h, h->server_rank, is_reporter, silent, t.p ? t.p : reason);
    lvn_text_release(&t);
}

/* --- status.json --- */

static void status_now(void *heartbeat)
{
    (void)lvn_member_write_status(heartbeat);
}

void lvn_member_write_final_status(struct lvn_member *h)
{
    if (!lvn_thread_with_timeout(FILE_SECONDS, status_now, h)) h->leaked = true;
}

/* This process was stopped: if the others have reported it as lost meanwhile, status.json stays as it is. */
static void check_declared_lost(struct lvn_member *h)
{
    char path[sizeof h->path];
    pthread_mutex_lock(&h->lock);
    snprintf(path, sizeof path, "%s", h->path);
    pthread_mutex_unlock(&h->lock);
    bool has_fault = fault_is_written(path);
    pthread_mutex_lock(&h->lock);
    h->declared_lost = h->declared_lost || has_fault;
    pthread_mutex_unlock(&h->lock);
}

/* In a thread of its own, so that a blocked file system does not stop heartbeats. */
void *lvn_member_status_thread(void *heartbeat)
{
    struct lvn_member *h = heartbeat;
    double last = lvn_seconds();
    for (bool more = true; more;) {
        double now = lvn_seconds();
        if (now - last > 3 * STATUS_SECONDS) check_declared_lost(h);
        (void)lvn_member_write_status(h); /* errors are ignored: the next write comes soon */
        last = now;
        struct timespec at = lvn_deadline(STATUS_SECONDS);
        bool in_time = true;
        pthread_mutex_lock(&h->lock);
        while (!h->stopping && !h->faulty && in_time) in_time = lvn_condition_wait(&h->change, &h->lock, &at);
        more = !h->stopping && !h->faulty;
        pthread_mutex_unlock(&h->lock);
    }
    return NULL;
}

/* --- the thread --- */

/* Handle available messages. Returns a reason if the server is gone, else NULL. */
static const char *receive_available(struct lvn_member *h, double now)
{
    struct lvn_message m;
    char *line;
    bool open = lvn_wire_read(&h->wire);
    for (;;) {
        while (!h->faulty && (line = lvn_wire_line(&h->wire))) {
            if (!lvn_message_parse(line, &m) || !lvn_member_receive(h, &m)) return "it sent an invalid message";
        }
        if (!open || h->faulty || !h->wire.taken) break;
        int before = h->wire.used - h->wire.taken;
        open = lvn_wire_read(&h->wire);
        if (h->wire.used <= before) break;
    }
    if (h->faulty || h->ended) return NULL;
    if (!open || h->wire.broken) return "its process is gone";
    if (now - h->last_received > h->timeout) {
        return has_unacknowledged(h->wire.fd) ? "the connection to it is cut" : "its process does not answer";
    }
    return NULL;
}

static void warn(void *text)
{
    lvn_log(LVN_LOG_WARN, "%s", (const char *)text);
    free(text);
}

/* Log a warning of the server. A blocked terminal does not stop heartbeats. */
void lvn_member_warn(struct lvn_member *h)
{
    char *text = h->warning[0] ? strdup(h->warning) : NULL;
    h->warning[0] = '\0';
    if (!text) return;
    pthread_mutex_unlock(&h->lock);
    (void)lvn_thread_with_timeout(FILE_SECONDS, warn, text);
    pthread_mutex_lock(&h->lock);
}

/* Deliver the fault: write status.json, call the callback, at once if this rank is the reporter, else later. The
 * main thread may notice the fault by itself meanwhile; the first of the two ends the process, the main thread not
 * before the file is written (wait_for_delivery()). */
void lvn_member_deliver_fault(struct lvn_member *h)
{
    bool lowest = h->is_reporter || lvn_lowest_here(h->peer, h->size) == h->rank, is_reporter = h->is_reporter;
    struct lvn_fault fault = {.rank = h->fault_rank,
                              .is_reporter = is_reporter,
                              .quiet = h->quiet,
                              .permanent = h->permanent,
                              .text = h->fault};
    h->delivering = true;
    pthread_mutex_unlock(&h->lock);
    if (lowest) lvn_member_write_final_status(h);
    pthread_mutex_lock(&h->lock);
    const bool call = h->callback && !h->failed_here;
    pthread_mutex_unlock(&h->lock);
    if (call && !is_reporter) usleep((useconds_t)(1e6 * QUIET_SECONDS));
    pthread_mutex_lock(&h->lock);
    const bool stopping = h->stopping;
    pthread_mutex_unlock(&h->lock);
    if (call && !stopping) h->callback(h->context, &fault);
    pthread_mutex_lock(&h->lock);
    h->delivering = false;
    pthread_cond_broadcast(&h->change);
}

void *lvn_member_thread(void *heartbeat)
{
    struct lvn_member *h = heartbeat;
    double last = lvn_seconds();
    pthread_mutex_lock(&h->lock);
    while (!h->faulty && !h->ended && !h->stopping) {
        const double gap = lvn_member_heartbeat_interval(h->timeout, h->size);
        struct pollfd p[2] = {{.fd = h->wire.fd, .events = (short)(POLLIN | (h->wire.out.n ? POLLOUT : 0))},
                              {.fd = h->wake, .events = POLLIN}};
        uint64_t woken;
        pthread_mutex_unlock(&h->lock);
        poll(p, 2, (int)(gap * 1000));
        if ((p[1].revents & POLLIN) && read(h->wake, &woken, sizeof woken) < 0) woken = 0;
        pthread_mutex_lock(&h->lock);
        double now = lvn_seconds();
        if (now - last > 1 + h->timeout / 4) { /* this process itself was stopped */
            h->last_received += now - last;
            pthread_mutex_unlock(&h->lock);
            check_declared_lost(h);
            pthread_mutex_lock(&h->lock);
        }
        last = now;
        const char *gone = receive_available(h, now);
        lvn_member_warn(h);
        if (gone) server_gone(h, gone, now - h->last_received > h->timeout);
        if (!h->faulty && now - h->last_sent >= gap) lvn_member_send_heartbeat(h, now);
        lvn_wire_flush(&h->wire);
    }
    if (h->faulty) lvn_member_deliver_fault(h);
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* member_thread.c - the heartbeat thread of a rank: it sends the rank's state, receives the state of the others and
 * faults, writes status.json, and calls the program's callback for a fault.
 *
 * docs/cluster-internals.md has the timeline from a lost connection to exit code 76, on this thread and the main
 * thread.
 *
 * A silent server is also a fault. Unacknowledged data shows which part has failed: the kernel of a host with a stopped
 * process still acknowledges data, a broken connection does not. If a rank runs the server, each rank knows its
 * position in the order of reporters from the last table; later ones wait for earlier ones. The reporter is the rank
 * that first locks the run's folder and finds no fault of another rank in status.json; before the folder exists, the
 * lowest living rank of a host. */
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
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

static const double STATUS_SECONDS = 1, NON_REPORTER_DELAY = 1.5, DELAY_PER_POSITION = 2, SILENCE_DELAY = 0.7,
                    FILE_SECONDS = 1;

double lvn_member_heartbeat_interval(double timeout, int size)
{
    const double max = 0.5 * (1 + size / 512.0), min = 0.02, interval = timeout / 10;
    return interval > max ? max : interval < min ? min : interval;
}

void lvn_member_update_own_row(struct lvn_member *member, double now)
{
    struct lvn_peer *peer = &member->peer[member->rank];
    uint64_t collective = atomic_load_explicit(&member->collective, memory_order_relaxed);
    const char *operation = atomic_load_explicit(&member->operation, memory_order_acquire), *work = lvn_work_name();
    peer->step = atomic_load_explicit(&member->step, memory_order_relaxed);
    peer->collective = (int)(collective >> 32);
    peer->collectives = (int)(collective & 0xffffffff);
    peer->tokens_per_s = atomic_load_explicit(&member->tokens_per_s, memory_order_relaxed);
    peer->compute_s = atomic_load_explicit(&member->compute_s, memory_order_relaxed);
    peer->memory = peer->state == LVN_PEER_DONE ? lvn_memory_peak() : lvn_memory_resident();
    peer->waits_done = atomic_load_explicit(&member->waits_done, memory_order_relaxed);
    peer->work_count = lvn_work_count();
    peer->waits_for = lvn_work_blocking_rank() + 1;
    peer->last_heard = now;
    snprintf(peer->operation, sizeof peer->operation, "%s", operation ? operation : "");
    int64_t done, all;
    lvn_work_parts(&done, &all);
    if (work && all)
        snprintf(peer->activity, sizeof peer->activity, "%s, %lld/%lld", work, (long long)done, (long long)all);
    else
        snprintf(peer->activity, sizeof peer->activity, "%s", work ? work : "");
}

void lvn_member_send_heartbeat(struct lvn_member *member, double now)
{
    const struct lvn_peer *peer = &member->peer[member->rank];
    lvn_member_update_own_row(member, now);
    member->last_sent = now;
    if (member->online && !member->sent_bye && member->wire.fd >= 0) {
        lvn_message_add(&member->wire.out, LVN_MESSAGE_HEARTBEAT, peer->step, (int64_t)peer->collective,
                        (int64_t)peer->collectives, peer->tokens_per_s, peer->compute_s, peer->memory, peer->waits_done,
                        peer->work_count, (int64_t)peer->waits_for, peer->operation, peer->activity);
    }
}

/* --- messages from the server --- */

static bool handle_peer(struct lvn_member *member, const struct lvn_message *message)
{
    if (message->i[0] < 0 || message->i[0] >= member->size) return false;
    struct lvn_peer *peer = &member->peer[message->i[0]];
    peer->pid = message->i[1];
    peer->state = LVN_PEER_HERE;
    peer->last_heard = lvn_seconds();
    snprintf(peer->host, sizeof peer->host, "%s", message->t[0]);
    return true;
}

static bool handle_row(struct lvn_member *member, const struct lvn_message *message, double now)
{
    if (message->i[0] < 0 || message->i[0] >= member->size || message->i[1] < 0 || message->i[1] > LVN_PEER_LOST)
        return false;
    struct lvn_peer *peer = &member->peer[message->i[0]];
    if (message->i[0] == member->rank) return true; /* this rank's own state is newer */
    peer->state = (enum lvn_peer_state)message->i[1];
    peer->step = message->i[2];
    peer->collective = (int)message->i[3];
    peer->collectives = (int)message->i[4];
    peer->tokens_per_s = message->d[0];
    peer->compute_s = message->d[1];
    peer->memory = message->i[5];
    peer->last_heard = now - message->d[2];
    snprintf(peer->operation, sizeof peer->operation, "%s", message->t[0]);
    return true;
}

static bool handle_group(struct lvn_member *member, const struct lvn_message *message)
{
    if (member->started) return false;
    struct lvn_fact_group *all = realloc(member->group, sizeof *all * (size_t)(member->n_groups + 1));
    if (!all) return false;
    member->group = all;
    struct lvn_fact_group *group = &all[member->n_groups];
    *group = (struct lvn_fact_group){strdup(message->t[0]), strdup(message->t[1]), strdup(message->t[2])};
    member->n_groups++;
    return group->key && group->value && group->ranks;
}

void lvn_member_set_fault(struct lvn_member *member, int rank, bool is_reporter, bool quiet, const char *text)
{
    if (member->faulty) return;
    member->faulty = true;
    member->fault_rank = rank;
    member->is_reporter = is_reporter;
    member->quiet = quiet;
    lvn_set_reporter(is_reporter);
    snprintf(member->fault, sizeof member->fault, "%s", text);
    snprintf(member->state, sizeof member->state, "fault");
    pthread_cond_broadcast(&member->change);
}

bool lvn_member_receive(struct lvn_member *member, const struct lvn_message *message)
{
    double now = lvn_seconds();
    member->last_received = now;
    switch (message->kind) {
    case LVN_MESSAGE_WELCOME:
        if (message->i[0] != member->size) return false;
        if (message->d[0] > 0) member->timeout = message->d[0];
        member->welcomed = true;
        return true;
    case LVN_MESSAGE_PEER:
        return handle_peer(member, message);
    case LVN_MESSAGE_GROUP:
        return handle_group(member, message);
    case LVN_MESSAGE_ROW:
        return handle_row(member, message, now);
    case LVN_MESSAGE_START: /* PEER was not sent for every rank */
        for (int i = 0; i < member->size; i++) {
            member->peer[i].state = LVN_PEER_HERE;
            member->peer[i].last_heard = now;
        }
        member->started = true;
        break;
    case LVN_MESSAGE_WARN:
        if (message->i[0] == member->rank) snprintf(member->warning, sizeof member->warning, "%s", message->t[0]);
        return true;
    case LVN_MESSAGE_LOST:
        member->permanent = message->i[3] != 0;
        lvn_member_set_fault(member, (int)message->i[0], message->i[1] == member->rank, message->i[2] != 0,
                             message->t[0]);
        return true;
    case LVN_MESSAGE_REFUSE:
        snprintf(member->refusal, sizeof member->refusal, "%s", message->t[0]);
        return !member->welcomed;
    case LVN_MESSAGE_END:
        member->ended = true;
        break;
    default:
        return false;
    }
    pthread_cond_broadcast(&member->change);
    return true;
}

/* --- the server is gone --- */

static bool has_unacknowledged(int fd)
{
    int bytes = 0;
    return fd >= 0 && !ioctl(fd, SIOCOUTQ, &bytes) && bytes > 0;
}

/* Contents of status.json, and the lock of its folder; outlives a thread that is blocked in a file system. */
struct status_probe {
    char path[1024];
    bool has_fault;  /* status.json has a fault */
    bool lock_taken; /* another process holds the lock of the folder */
    int lock;        /* descriptor of the folder, locked by this process if requested; else -1 */
};

static void status_probe(void *argument)
{
    struct status_probe *probe = argument;
    char *text = NULL;
    int64_t bytes;
    if (lvn_file_read(probe->path, 1 << 26, &text, &bytes)) return lvn_error_clear();
    probe->has_fault = strstr(text, "\"state\": \"fault\"") != NULL;
    free(text);
}

/* True if another rank has already written a fault. (A shared file system may not respond.) */
static bool fault_is_written(const char *path)
{
    struct status_probe *probe = *path ? calloc(1, sizeof *probe) : NULL;
    if (!probe) return false;
    snprintf(probe->path, sizeof probe->path, "%s", path);
    if (!lvn_thread_with_timeout(FILE_SECONDS, status_probe, probe)) return false;
    bool has_fault = probe->has_fault;
    free(probe);
    return has_fault;
}

/* On a file system without locks, only the file shows which rank was first. */
static void probe_and_lock(void *argument)
{
    struct status_probe *probe = argument;
    char folder[sizeof probe->path];
    snprintf(folder, sizeof folder, "%s", probe->path);
    char *name = strrchr(folder, '/');
    if (name) *name = '\0';
    probe->lock = open(name ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    probe->lock_taken = probe->lock >= 0 && flock(probe->lock, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    status_probe(probe);
}

/* True if this rank is the reporter; it then holds the lock until the process terminates. The first in the order
 * ignores status.json, which may still be that of an earlier run. */
static bool becomes_reporter(const char *path, bool is_first)
{
    struct status_probe *probe = calloc(1, sizeof *probe);
    if (!probe) return true;
    snprintf(probe->path, sizeof probe->path, "%s", path);
    if (!lvn_thread_with_timeout(FILE_SECONDS, probe_and_lock, probe)) return true;
    bool is_reporter = !probe->lock_taken && (is_first || !probe->has_fault);
    if (probe->lock >= 0 && !is_reporter) close(probe->lock);
    free(probe);
    return is_reporter;
}

static bool lower_rank_alive_here(const struct lvn_member *member)
{
    for (int i = 0; i < member->rank; i++) {
        const struct lvn_peer *peer = &member->peer[i];
        if (peer->state == LVN_PEER_HERE && !strcmp(peer->host, member->host) && lvn_process_runs((int)peer->pid))
            return true;
    }
    return false;
}

/* The server is gone. `silent`: its connection is open. Ranks detect silence at times that differ by up to a heartbeat,
 * so a silent rank waits SILENCE_DELAY more. Each rank waits in proportion to its position (at most 5 times
 * DELAY_PER_POSITION), so that a thousand ranks do not access one file system at the same time. */
static void server_gone(struct lvn_member *member, const char *reason, bool silent)
{
    struct lvn_text t = {0};
    int position = 0;
    char path[sizeof member->path];
    if (member->server_rank >= 0) {
        member->peer[member->server_rank].state = LVN_PEER_LOST;
        member->peer[member->server_rank].reason = reason;
        lvn_member_update_own_row(member, lvn_seconds());
        lvn_lost_text(member->peer, member->size, &t);
    } else {
        lvn_text_printf(&t, "levin launch, which monitors the ranks, sent no heartbeat (%s)", reason);
    }
    for (int i = 0; i < member->rank; i++) position += member->peer[i].state == LVN_PEER_HERE;
    bool below = lower_rank_alive_here(member);
    snprintf(path, sizeof path, "%s", member->path);
    pthread_mutex_unlock(&member->lock);
    usleep((useconds_t)(1e6 * (DELAY_PER_POSITION * (position < 5 ? position : 5) + (silent ? SILENCE_DELAY : 0))));
    bool is_reporter = *path ? becomes_reporter(path, !position) : !position || !below;
    pthread_mutex_lock(&member->lock);
    lvn_member_set_fault(member, member->server_rank, is_reporter, silent, t.p ? t.p : reason);
    lvn_text_release(&t);
}

/* --- status.json --- */

static void status_now(void *member)
{
    (void)lvn_member_write_status(member);
}

void lvn_member_write_final_status(struct lvn_member *member)
{
    if (!lvn_thread_with_timeout(FILE_SECONDS, status_now, member)) member->leaked = true;
}

/* This process was stopped. If others have reported it as lost meanwhile, status.json must not change. */
static void check_declared_lost(struct lvn_member *member)
{
    char path[sizeof member->path];
    pthread_mutex_lock(&member->lock);
    snprintf(path, sizeof path, "%s", member->path);
    pthread_mutex_unlock(&member->lock);
    bool has_fault = fault_is_written(path);
    pthread_mutex_lock(&member->lock);
    member->declared_lost = member->declared_lost || has_fault;
    pthread_mutex_unlock(&member->lock);
}

/* Write status.json in a separate thread, so that a blocked file system does not stop heartbeats. */
void *lvn_member_status_thread(void *argument)
{
    struct lvn_member *member = argument;
    double last = lvn_seconds();
    for (bool more = true; more;) {
        double now = lvn_seconds();
        if (now - last > 3 * STATUS_SECONDS) check_declared_lost(member);
        (void)lvn_member_write_status(member); /* errors are ignored: the next write follows soon */
        last = now;
        struct timespec at = lvn_deadline(STATUS_SECONDS);
        bool in_time = true;
        pthread_mutex_lock(&member->lock);
        while (!member->stopping && !member->faulty && in_time)
            in_time = lvn_condition_wait(&member->change, &member->lock, &at);
        more = !member->stopping && !member->faulty;
        pthread_mutex_unlock(&member->lock);
    }
    return NULL;
}

/* --- the thread --- */

/* Handle available messages. Returns the reason if the server is gone, else NULL. */
static const char *receive_available(struct lvn_member *member, double now)
{
    struct lvn_message message;
    char *line;
    bool open = lvn_wire_read(&member->wire);
    for (;;) {
        while (!member->faulty && (line = lvn_wire_line(&member->wire))) {
            if (!lvn_message_parse(line, &message) || !lvn_member_receive(member, &message))
                return "it sent an invalid message";
        }
        if (!open || member->faulty || !member->wire.taken) break;
        int before = member->wire.used - member->wire.taken;
        open = lvn_wire_read(&member->wire);
        if (member->wire.used <= before) break;
    }
    if (member->faulty || member->ended) return NULL;
    if (!open || member->wire.broken) return "its process is gone";
    if (now - member->last_received > member->timeout) {
        return has_unacknowledged(member->wire.fd) ? "the connection to it is broken" : "its process does not respond";
    }
    return NULL;
}

static void warn(void *text)
{
    lvn_log(LVN_LOG_WARN, "%s", (const char *)text);
    free(text);
}

/* Log a warning of the server, in a thread, so that a blocked terminal does not stop heartbeats. */
void lvn_member_warn(struct lvn_member *member)
{
    char *text = member->warning[0] ? strdup(member->warning) : NULL;
    member->warning[0] = '\0';
    if (!text) return;
    pthread_mutex_unlock(&member->lock);
    (void)lvn_thread_with_timeout(FILE_SECONDS, warn, text);
    pthread_mutex_lock(&member->lock);
}

static bool locked_flag(struct lvn_member *member, const bool *flag)
{
    pthread_mutex_lock(&member->lock);
    const bool value = *flag;
    pthread_mutex_unlock(&member->lock);
    return value;
}

/* Deliver the fault: write status.json, then call the callback, immediately on the reporter and later on other ranks.
 * The main thread may notice the fault too; whichever finishes first terminates the process, but the main thread waits
 * until the file is written (wait_for_delivery()). */
void lvn_member_deliver_fault(struct lvn_member *member)
{
    bool lowest = member->is_reporter || lvn_lowest_here(member->peer, member->size) == member->rank,
         is_reporter = member->is_reporter;
    struct lvn_fault fault = {.rank = member->fault_rank,
                              .is_reporter = is_reporter,
                              .quiet = member->quiet,
                              .permanent = member->permanent,
                              .text = member->fault};
    member->delivering = true;
    pthread_mutex_unlock(&member->lock);
    if (lowest) lvn_member_write_final_status(member);
    const bool call = member->callback && !locked_flag(member, &member->failed_here);
    if (call && !is_reporter) usleep((useconds_t)(1e6 * NON_REPORTER_DELAY));
    if (call && !locked_flag(member, &member->stopping)) member->callback(member->context, &fault);
    pthread_mutex_lock(&member->lock);
    member->delivering = false;
    pthread_cond_broadcast(&member->change);
}

void *lvn_member_thread(void *argument)
{
    struct lvn_member *member = argument;
    double last = lvn_seconds();
    pthread_mutex_lock(&member->lock);
    while (!member->faulty && !member->ended && !member->stopping) {
        const double gap = lvn_member_heartbeat_interval(member->timeout, member->size);
        struct pollfd p[2] = {{.fd = member->wire.fd, .events = (short)(POLLIN | (member->wire.out.n ? POLLOUT : 0))},
                              {.fd = member->wake, .events = POLLIN}};
        uint64_t woken;
        pthread_mutex_unlock(&member->lock);
        poll(p, 2, (int)(gap * 1000));
        if ((p[1].revents & POLLIN) && read(member->wake, &woken, sizeof woken) < 0) woken = 0;
        pthread_mutex_lock(&member->lock);
        double now = lvn_seconds();
        if (now - last > 1 + member->timeout / 4) { /* this process was stopped */
            member->last_received += now - last;
            pthread_mutex_unlock(&member->lock);
            check_declared_lost(member);
            pthread_mutex_lock(&member->lock);
        }
        last = now;
        const char *gone = receive_available(member, now);
        lvn_member_warn(member);
        if (gone) server_gone(member, gone, now - member->last_received > member->timeout);
        if (!member->faulty && now - member->last_sent >= gap) lvn_member_send_heartbeat(member, now);
        lvn_wire_flush(&member->wire);
    }
    if (member->faulty) lvn_member_deliver_fault(member);
    pthread_mutex_unlock(&member->lock);
    return NULL;
}

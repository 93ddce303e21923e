/* server_receive.c - handles the messages of ranks, and composes and declares faults; server.c calls it. */

#include "base/clock.h"
#include "base/threads.h"
#include "cluster/rendezvous/hang_detector.h"
#include "cluster/rendezvous/server_private.h"

static const double FILE_SECONDS = 1;
/* After this time without a report that a rank is stopped, it has probably been continued (SIGCONT). */
static const double STOPPED_SECONDS = 12;

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

static void schedule_declare(struct lvn_server *server, double delay)
{
    double at = lvn_seconds() + delay;
    if (!server->declare_at || at < server->declare_at) server->declare_at = at;
}

/* The run cannot begin, for the reason in server->fault; this connection receives it with the others. */
static void declare_join_fault(struct lvn_server *server, struct lvn_server_client *client)
{
    server->has_text = true;
    client->rank = LVN_RANK_REFUSED;
    schedule_declare(server, LVN_GROUP_SECONDS);
    server->permanent = true;
}

static void refuse_client(struct lvn_server_client *client, const char *text)
{
    lvn_message_add(&client->wire.out, LVN_MESSAGE_REFUSE, text);
    client->closing = true;
}

void lvn_server_record_refusal(struct lvn_server *server, const struct lvn_server_client *client, const char *did)
{
    if (server->refused[0]) return;
    snprintf(server->refused, sizeof server->refused, "a process at %s that %s was rejected by the rendezvous server",
             *client->from ? client->from : "?", did);
}

void lvn_server_send_refusal(struct lvn_server *server)
{
    struct lvn_text line = {0};
    if (!server->refused[0] || server->refused_sent) return;
    server->refused_sent = true;
    lvn_message_add(&line, LVN_MESSAGE_WARN, (int64_t)lvn_server_lowest(server), server->refused);
    lvn_server_broadcast(server, &line);
    lvn_text_release(&line);
}

static bool handle_hello(struct lvn_server *server, struct lvn_server_client *client, const struct lvn_message *message)
{
    int64_t rank = message->i[0], size = message->i[1], pid = message->i[2];
    const char *host = message->t[1];
    if (client->rank != LVN_RANK_UNKNOWN) return false;
    if (!same_token(message->t[0], server->token)) {
        lvn_server_record_refusal(server, client, *message->t[0] ? "sent the token of another run" : "sent no token");
        refuse_client(client, !server->o.outside ? "its token is not this run's: give all ranks the same LEVIN_TOKEN"
                                                 : "its token is not this run's");
        return true;
    }
    if (server->phase != LVN_SERVER_GATHERING) {
        refuse_client(client, "the run has begun without it, or has ended");
        return true;
    }
    if (size != server->o.size) {
        snprintf(server->fault, sizeof server->fault,
                 "pid %lld on %.200s claims to be rank %lld of %lld, but this run has %d ranks: %s", (long long)pid,
                 host, (long long)rank, (long long)size, server->o.size,
                 size == 1 ? "the MPI library does not belong to the launcher; set trainer.mpi_library to the "
                             "launcher's own, or start levin with the mpirun of the library"
                           : "start all of them with one launcher, and unset variables of others");
        declare_join_fault(server, client);
        return true;
    }
    if (rank < 0 || rank >= size) return false;
    struct lvn_peer *peer = &server->peer[rank];
    if (peer->state != LVN_PEER_ABSENT) {
        snprintf(server->fault, sizeof server->fault,
                 "two processes claim to be rank %lld: pid %lld on %s and pid %lld on %.200s; start all ranks with one "
                 "launcher, and unset variables of others",
                 (long long)rank, (long long)peer->pid, peer->host, (long long)pid, host);
        server->fault_rank = (int)rank;
        declare_join_fault(server, client);
        return true;
    }
    peer->state = LVN_PEER_HERE;
    peer->pid = pid;
    peer->last_heard = lvn_seconds();
    snprintf(peer->host, sizeof peer->host, "%s", host);
    if (!server->n_came++) server->first_came = peer->last_heard;
    client->rank = (int)rank;
    server->n_unidentified--;
    lvn_message_add(&client->wire.out, LVN_MESSAGE_WELCOME, (int64_t)server->o.size, server->o.timeout);
    return true;
}

/* --- facts --- */

static bool handle_fact(struct lvn_server *server, int rank, const struct lvn_message *message)
{
    int k = 0;
    while (k < LVN_FACTS && server->key[k] && strcmp(server->key[k], message->t[0]) != 0) k++;
    if (k == LVN_FACTS || server->facts[rank].ready) return false;
    if (!server->key[k]) server->key[k] = strdup(message->t[0]);
    free(server->facts[rank].value[k]);
    server->facts[rank].value[k] = strdup(message->t[1]);
    return server->key[k] && server->facts[rank].value[k];
}

static bool handle_ready(struct lvn_server *server, int rank)
{
    server->n_ready += !server->facts[rank].ready;
    server->facts[rank].ready = true;
    if (server->phase != LVN_SERVER_GATHERING || server->declare_at > 0 || server->n_ready < server->o.size)
        return true;
    for (int i = 0; i < server->o.size; i++) {
        server->peer[i].last_heard = server->peer[i].last_progress = lvn_seconds();
        server->sent[i].state = LVN_PEER_HERE;
        server->sent[i].last_heard = server->peer[i].last_heard;
    }
    lvn_server_send_start(server);
    server->phase = LVN_SERVER_RUNNING;
    return true;
}

/* --- while it runs --- */

static bool handle_heartbeat(struct lvn_peer *peer, const struct lvn_message *message)
{
    const struct lvn_peer before = *peer;
    peer->step = message->i[0] > 0 ? message->i[0] : 0;
    peer->collective = bounded(message->i[1]);
    peer->collectives = bounded(message->i[2]);
    peer->tokens_per_s = message->d[0];
    peer->compute_s = message->d[1];
    peer->memory = message->i[3] > 0 ? message->i[3] : 0;
    peer->waits_done = message->i[4];
    peer->work_count = message->i[5];
    peer->waits_for = bounded(message->i[6]);
    snprintf(peer->operation, sizeof peer->operation, "%s", message->t[0]);
    snprintf(peer->activity, sizeof peer->activity, "%s", message->t[1]);
    lvn_hang_detector_heard(peer, &before, peer->last_heard);
    return true;
}

static bool handle_fail(struct lvn_server *server, int rank, const struct lvn_message *message)
{
    server->n_fails++;
    if (!server->failed || (server->failed_after && !message->i[0])) {
        server->failed = rank + 1;
        server->failed_after = message->i[0] != 0;
        snprintf(server->fail_text, sizeof server->fail_text, "%s", message->t[0]);
    }
    /* If it failed because of others, wait longer for the cause. */
    schedule_declare(server, server->failed_after ? 4 * LVN_GROUP_SECONDS : LVN_GROUP_SECONDS);
    return true;
}

static bool handle_bye(struct lvn_server *server, int rank)
{
    server->n_done += server->peer[rank].state != LVN_PEER_DONE;
    server->peer[rank].state = LVN_PEER_DONE;
    server->peer[rank].last_progress = lvn_seconds();
    if (server->n_done < server->o.size || server->phase >= LVN_SERVER_ENDED) return true;
    server->phase = LVN_SERVER_ENDED;
    lvn_server_send_table(server, lvn_seconds()); /* with the last steps, for status.json */
    struct lvn_text t = {0};
    lvn_message_add(&t, LVN_MESSAGE_END);
    lvn_server_broadcast(server, &t);
    lvn_text_release(&t);
    for (int k = 0; k < server->n_clients; k++) server->client[k]->closing = true;
    return true;
}

/* Another process of its host reports repeatedly that a rank that has not joined is stopped. It may be continued within
 * the time for which a joined rank may be silent. */
static bool handle_stopped(struct lvn_server *server, struct lvn_server_client *client,
                           const struct lvn_message *message)
{
    const int64_t rank = message->i[0];
    const double now = lvn_seconds();
    if (!same_token(message->t[0], server->token)) {
        refuse_client(client, "its token is not this run's");
        return true;
    }
    if (rank < 0 || rank >= server->o.size) return false;
    struct lvn_peer *peer = &server->peer[rank];
    if (server->phase != LVN_SERVER_GATHERING || server->declare_at > 0 || peer->state != LVN_PEER_ABSENT) return true;
    if (now - peer->last_heard > STOPPED_SECONDS) peer->last_progress = now;
    peer->last_heard = now;
    peer->pid = message->i[1];
    snprintf(peer->host, sizeof peer->host, "%s", message->t[1]);
    if (now - peer->last_progress < LVN_SILENCE * server->o.timeout) return true;
    snprintf(server->fault, sizeof server->fault,
             "rank %lld on %.200s (pid %lld) is stopped, and the other ranks wait for it to join", (long long)rank,
             peer->host, (long long)peer->pid);
    server->fault_rank = (int)rank;
    server->has_text = true;
    schedule_declare(server, 0);
    return true;
}

bool lvn_server_receive(struct lvn_server *server, struct lvn_server_client *client, const struct lvn_message *message)
{
    if (message->kind == LVN_MESSAGE_HELLO) return handle_hello(server, client, message);
    if (message->kind == LVN_MESSAGE_STOPPED) return handle_stopped(server, client, message);
    if (client->rank == LVN_RANK_REFUSED) return true;
    if (client->rank < 0) return false;
    struct lvn_peer *peer = &server->peer[client->rank];
    peer->last_heard = lvn_seconds();
    switch (message->kind) {
    case LVN_MESSAGE_FACT:
        return handle_fact(server, client->rank, message);
    case LVN_MESSAGE_READY:
        return handle_ready(server, client->rank);
    case LVN_MESSAGE_HEARTBEAT:
        return handle_heartbeat(peer, message);
    case LVN_MESSAGE_FAIL:
        return handle_fail(server, client->rank, message);
    case LVN_MESSAGE_BYE:
        return handle_bye(server, client->rank);
    case LVN_MESSAGE_PUBLISH:
        server->attempts = (struct lvn_attempts){message->i[0], message->i[1], message->i[2], message->d[0]};
        snprintf(server->status_path, sizeof server->status_path, "%s", message->t[0]);
        return true;
    default:
        return false;
    }
}

void lvn_server_rank_lost(struct lvn_server *server, int rank)
{
    struct lvn_peer *peer = &server->peer[rank];
    if (peer->state != LVN_PEER_HERE || server->phase >= LVN_SERVER_ENDED) return;
    peer->state = LVN_PEER_LOST;
    peer->reason = process_gone;
    peer->poll_index = server->polls;
    schedule_declare(server, LVN_GROUP_SECONDS);
}

void lvn_server_missing(struct lvn_server *server)
{
    struct lvn_text t = {0};
    int missing = 0;
    bool *flag = calloc((size_t)server->o.size, sizeof *flag);
    for (int i = 0; flag && i < server->o.size; i++) {
        flag[i] = server->peer[i].state == LVN_PEER_ABSENT;
        missing += flag[i];
    }
    if (flag) lvn_ranks_text(flag, server->o.size, 0, &t);
    free(flag);
    if (missing == server->o.size) {
        snprintf(
            server->fault, sizeof server->fault,
            "none of the %d ranks has joined within %.0f s; check that the launcher could start levin on all hosts",
            server->o.size, server->o.join_timeout);
    } else if (missing) {
        snprintf(server->fault, sizeof server->fault,
                 "rank%s %.200s of %d %s not joined within %.0f s; check that all hosts could start levin",
                 missing == 1 ? "" : "s", t.p ? t.p : "", server->o.size, missing == 1 ? "has" : "have",
                 server->o.join_timeout);
    }
    lvn_text_release(&t);
    if (!missing) return;
    if (server->refused[0]) lvn_print_append(server->fault, sizeof server->fault, "; %s", server->refused);
    server->refused_sent = true;
    server->has_text = true;
    schedule_declare(server, 0);
}

/* Compose the message. Priority: a rank's own error, then lost ranks, then errors that follow from those. */
static void compose_fault(struct lvn_server *server)
{
    int lost = -1;
    for (int i = server->o.size - 1; i >= 0; i--) {
        if (server->peer[i].state == LVN_PEER_LOST && i != server->failed - 1) lost = i;
    }
    if (server->failed && (!server->failed_after || lost < 0)) {
        const struct lvn_peer *peer = &server->peer[server->failed - 1];
        server->fault_rank = peer->rank;
        server->permanent = !server->failed_after;
        if (server->failed_after && peer->waits_for > 0 && peer->waits_for <= server->o.size &&
            peer->waits_for - 1 != peer->rank) {
            server->fault_link[0] = peer->rank;
            server->fault_link[1] = peer->waits_for - 1;
        }
        if (server->n_fails >= server->o.size) { /* all ranks failed in the same way */
            snprintf(server->fault, sizeof server->fault, "%s", server->fail_text);
        } else if (peer->step > 0) {
            snprintf(server->fault, sizeof server->fault, "rank %d on %.100s, after step %lld: %s", peer->rank,
                     peer->host, (long long)peer->step, server->fail_text);
        } else {
            snprintf(server->fault, sizeof server->fault, "rank %d on %.100s: %s", peer->rank, peer->host,
                     server->fail_text);
        }
        return;
    }
    struct lvn_text t = {0};
    lvn_lost_text(server->peer, server->o.size, &t);
    server->fault_rank = lost;
    snprintf(server->fault, sizeof server->fault, "%s", t.p ? t.p : "a rank is lost");
    lvn_text_release(&t);
}

/* The rank that prints the fault; -1: none. */
static int reporter_of(const struct lvn_server *server)
{
    return server->o.outside || lvn_seconds() < server->reported_lost_until ? -1 : lvn_server_lowest(server);
}

void lvn_server_check_hang(struct lvn_server *server)
{
    enum lvn_hang_state state = lvn_hang_detector_state(server->peer, server->o.size, server->o.stall_timeout);
    struct lvn_text t = {0};
    if (state == LVN_HANG_NONE) server->warned = false;
    if (state == LVN_HANG_NONE || (state == LVN_HANG_SUSPECTED && server->warned)) return;
    lvn_hang_detector_text(server->peer, server->o.size, server->o.stall_timeout, &t);
    if (state == LVN_HANG_DETECTED) {
        server->fault_rank = lvn_hang_detector_behind(server->peer, server->o.size);
        (void)lvn_hang_detector_link(server->peer, server->o.size, server->fault_link);
        snprintf(server->fault, sizeof server->fault, "%s", t.p ? t.p : "no rank makes progress");
        server->has_text = true;
        schedule_declare(server, 0);
    } else {
        struct lvn_text line = {0};
        lvn_message_add(&line, LVN_MESSAGE_WARN, (int64_t)lvn_server_lowest(server),
                        t.p ? t.p : "no rank makes progress");
        lvn_server_broadcast(server, &line);
        lvn_text_release(&line);
    }
    server->warned = true;
    lvn_text_release(&t);
}

struct status_file {
    char path[1024], fault[1200];
    struct lvn_attempts attempts;
    int n;
    struct lvn_peer peer[];
};

static void write_status_file(void *argument) /* frees its argument, because the starting thread may not wait for it */
{
    struct status_file *status = argument;
    lvn_status_write(status->path, status->peer, status->n, &status->attempts, "fault", status->fault);
    free(status);
}

/* In a thread, because the file system may be blocked. */
static void write_status(const struct lvn_server *server)
{
    size_t bytes = sizeof *server->peer * (size_t)server->o.size;
    struct status_file *status = malloc(sizeof *status + bytes);
    if (!status) return;
    status->n = server->o.size;
    status->attempts = server->attempts;
    memcpy(status->path, server->status_path, sizeof status->path);
    memcpy(status->fault, server->fault, sizeof status->fault);
    memcpy(status->peer, server->peer, bytes);
    (void)lvn_thread_with_timeout(FILE_SECONDS, write_status_file, status);
}

void lvn_server_declare(struct lvn_server *server)
{
    if (!server->has_text) compose_fault(server);
    server->phase = LVN_SERVER_FAULT;
    int reporter = reporter_of(server);
    int64_t some_silent = 0; /* a lost rank was silent, its process may be there */
    struct lvn_text t = {0}, silent = {0};
    for (int i = 0; i < server->o.size; i++)
        some_silent |= server->peer[i].state == LVN_PEER_LOST && strcmp(server->peer[i].reason, process_gone) != 0;
    lvn_server_send_table(server, lvn_seconds());
    for (int k = 0; k < server->n_clients; k++) lvn_wire_flush(&server->client[k]->wire);
    lvn_message_add(&t, LVN_MESSAGE_LOST, (int64_t)server->fault_rank, (int64_t)reporter, some_silent,
                    (int64_t)server->permanent, server->fault);
    lvn_server_broadcast(server, &t);
    lvn_message_add(&silent, LVN_MESSAGE_LOST, (int64_t)server->fault_rank, (int64_t)-1, some_silent,
                    (int64_t)server->permanent, server->fault);
    for (int k = 0; k < server->n_clients; k++) {
        struct lvn_server_client *client = server->client[k];
        if (client->rank == LVN_RANK_REFUSED) lvn_text_add_bytes(&client->wire.out, silent.p ? silent.p : "", silent.n);
        client->closing = true;
        /* Rank 0 last: it may terminate when it receives this, and this thread with it. */
        if (client->rank) lvn_wire_flush(&client->wire);
    }
    lvn_text_release(&t);
    lvn_text_release(&silent);
    if (server->o.outside && server->status_path[0]) write_status(server);
}

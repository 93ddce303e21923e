/* member.c - see member.h: joining the ranks, the state that heartbeats send, ending. Its thread: member_thread.c. */
#include "cluster/rendezvous/member.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/getenv.h"
#include "base/log.h"
#include "base/text.h"
#include "base/threads.h"
#include "cluster/rendezvous/endpoints.h"
#include "cluster/rendezvous/local_ranks.h"
#include "cluster/rendezvous/member_private.h"
#include "host/machine.h"

static const double GREET_SECONDS = 10;
enum { RETRY_US = 100000 };
static const char closed[] = "it closed the connection", silent[] = "it does not answer";
static _Atomic bool reports = true;

bool lvn_is_reporter(void)
{
    return atomic_load(&reports);
}

void lvn_set_reporter(bool yes)
{
    atomic_store(&reports, yes);
}

/* --- finding the server --- */

/* What rank 0 broadcasts: endpoint and token of its server, or "!" and why there is none. */
struct invitation {
    char text[LVN_ENDPOINT_TEXT], token[128];
};

static enum lvn_status serve(struct lvn_member *h, const struct lvn_member_options *o, double join, int port,
                             const char *token)
{
    struct lvn_server_options so = {.size = h->size,
                                    .listen = o->id->one_host ? LVN_LOOPBACK : NULL,
                                    .port = port,
                                    .token = token,
                                    .timeout = o->timeout,
                                    .join_timeout = join,
                                    .stall_timeout = o->stall_timeout};
    return lvn_server_start(&h->server, &so);
}

static const char secret[] = "LEVIN_TOKEN";

/* The token that ranks present to the server, from levin launch or LEVIN_TOKEN. It is never printed. */
static enum lvn_status read_token(struct invitation *to, const char *variable)
{
    enum { SHORTEST = 16 };
    const char *token = lvn_getenv(variable);
    if (!token) return LVN_OK;
    LVN_CHECK(variable != secret || strlen(token) >= SHORTEST, ARG,
              "%s has %zu characters, which can be guessed; wanted at least %d, as `openssl rand -hex 16` prints them",
              variable, strlen(token), (int)SHORTEST);
    return lvn_copy_bytes(to->token, sizeof to->token, variable, token, strlen(token));
}

static enum lvn_status find_endpoint(struct lvn_member *h, const struct lvn_member_options *o, double join,
                                     struct invitation *to)
{
    const char *given = lvn_getenv("LEVIN_RENDEZVOUS");
    const char *master = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    const char *colon = strrchr(o->id->endpoint, ':');
    char host[sizeof o->id->endpoint];
    int number;
    *to = (struct invitation){0};
    if (given || !o->broadcast) LVN_TRY(read_token(to, given ? "LEVIN_RENDEZVOUS_TOKEN" : secret));
    if (given) {
        h->server_rank = -1;
        return lvn_copy_bytes(to->text, sizeof to->text, "LEVIN_RENDEZVOUS", given, strlen(given));
    }
    if (o->broadcast) {
        if (h->rank == 0) {
            if (serve(h, o, join, 0, NULL)) {
                snprintf(to->text, sizeof to->text, "!%s", lvn_error_text());
            } else {
                snprintf(to->text, sizeof to->text, "%s", lvn_server_address(h->server));
                snprintf(to->token, sizeof to->token, "%s", lvn_server_token(h->server));
            }
        }
        LVN_TRY_WHILE(o->broadcast(o->broadcast_context, to, sizeof *to),
                      "sending the rendezvous address to all ranks");
        to->text[sizeof to->text - 1] = to->token[sizeof to->token - 1] = '\0';
        if (to->text[0] == '!' && h->rank) lvn_set_reporter(false);
        LVN_CHECK(to->text[0] != '!', IO, "rank 0 cannot open the rendezvous: %.1000s", to->text + 1);
        return LVN_OK;
    }
    if (colon) {
        snprintf(host, sizeof host, "%.*s", (int)(colon - o->id->endpoint), o->id->endpoint);
        master = host;
        port = colon + 1;
    }
    LVN_CHECK(master && *master && port && *port, ARG,
              "%d ranks need a rendezvous, and %s is not set: set MASTER_ADDR to the host of rank 0 and MASTER_PORT to "
              "a free port there, or start levin by levin launch, mpirun or srun",
              h->size, master && *master ? "MASTER_PORT" : "MASTER_ADDR");
    char *end;
    long n = strtol(port, &end, 10);
    LVN_CHECK(end != port && !*end && n > 0 && n < 65536, ARG, "MASTER_PORT is '%.40s'; wanted a port, 1 to 65535",
              port);
    number = (int)n;
    if (h->rank == 0)
        LVN_TRY_WHILE(serve(h, o, join, number, to->token), "opening the rendezvous at %s:%d", master, number);
    const bool here = !h->rank || o->id->one_host;
    LVN_CHECK(lvn_fit(to->text, sizeof to->text, "%s:%d", here ? LVN_LOOPBACK : master, number), ARG,
              "MASTER_ADDR has %zu bytes; no host has such a name", strlen(master));
    return LVN_OK;
}

/* --- joining --- */

/* Receive until *until is set, the server refuses or closes, or `end`. NULL: it is set, or a fault; else the reason. */
static const char *receive_until(struct lvn_member *h, const bool *until, double end)
{
    struct lvn_message m;
    bool open = true;
    for (;;) {
        char *line;
        while (!h->faulty && !*until && (line = lvn_wire_line(&h->wire))) {
            if (!lvn_message_parse(line, &m) || !lvn_member_receive(h, &m)) return "something else answers there";
            if (m.kind == LVN_MESSAGE_REFUSE) return h->refusal;
        }
        if (h->faulty || *until) return NULL;
        if (!open || h->wire.broken) return closed;
        double left = end - lvn_seconds();
        if (left <= 0) return silent;
        struct pollfd p = {.fd = h->wire.fd, .events = (short)(POLLIN | (h->wire.out.n ? POLLOUT : 0))};
        if (poll(&p, 1, (int)(1000 * left) + 1) < 0 && errno != EINTR) return strerror(errno);
        lvn_wire_flush(&h->wire);
        open = lvn_wire_read(&h->wire);
    }
}

/* Send HELLO to each address until one answers as a server of this run. If one that may be the server closed or did
 * not answer, it may be overloaded: then all are tried again. */
static enum lvn_status handshake(struct lvn_member *h, const struct invitation *to, double patience)
{
    char reason[600] = "";
    double end = lvn_seconds() + patience;
    bool is_overloaded = false;
    for (int index = -1;;) {
        double left = index < 0 ? end - lvn_seconds() : 0;
        enum lvn_status status = lvn_endpoint_connect(to->text, LVN_MEETING, left, index + 1, &index, &h->wire.fd);
        if (status && is_overloaded && lvn_seconds() < end) {
            is_overloaded = false;
            index = -1;
            usleep(RETRY_US);
            continue;
        }
        if (status && reason[0]) {
            static const char text[] = "the rendezvous server (%.300s) rejected this rank: %s";
            if (h->refusal[0]) LVN_FAIL(COMM, text, to->text, h->refusal); /* it may be the server of an earlier run */
            LVN_FAIL(IO, text, to->text, reason);
        }
        LVN_TRY(status);
        lvn_message_add(&h->wire.out, LVN_MESSAGE_HELLO, to->token, (int64_t)h->rank, (int64_t)h->size,
                        (int64_t)getpid(), h->host);
        double seconds = h->timeout < GREET_SECONDS ? h->timeout : GREET_SECONDS;
        const char *bad = receive_until(h, &h->welcomed, lvn_seconds() + seconds);
        if (!bad) return LVN_OK;
        is_overloaded = is_overloaded || bad == closed || bad == silent;
        snprintf(reason, sizeof reason, "%s", bad);
        lvn_wire_close(&h->wire);
        h->wire = (struct lvn_wire){.fd = -1};
    }
}

/* Wait for START. Meanwhile report stopped processes of this host, which may be the ranks that are missing. */
static const char *await_start(struct lvn_member *h, const struct lvn_member_options *o, const char *token, double end)
{
    const double pause = 4; /* each of many ranks inspects all processes */
    const char *bad = silent;
    while (!h->faulty && bad == silent && lvn_seconds() < end) {
        struct lvn_stopped stopped;
        bad = receive_until(h, &h->started, lvn_seconds() + pause < end ? lvn_seconds() + pause : end);
        if (bad != silent) break;
        lvn_local_ranks_stopped(o->id, &stopped);
        if (stopped.n)
            lvn_message_add(&h->wire.out, LVN_MESSAGE_STOPPED, token, (int64_t)stopped.rank, (int64_t)stopped.pid,
                            h->host);
    }
    return h->faulty ? NULL : bad;
}

static enum lvn_status join_run(struct lvn_member *h, const struct lvn_member_options *o)
{
    struct invitation to;
    double join = o->join_timeout > 0 ? o->join_timeout : 2 * o->timeout > 60 ? 2 * o->timeout : 60;
    LVN_TRY(find_endpoint(h, o, join, &to));
    LVN_TRY(handshake(h, &to, h->rank ? join : 5));
    for (int i = 0; i < o->n_facts; i++)
        lvn_message_add(&h->wire.out, LVN_MESSAGE_FACT, o->facts[i].key, o->facts[i].value);
    lvn_message_add(&h->wire.out, LVN_MESSAGE_READY);
    const char *bad = await_start(h, o, to.token, lvn_seconds() + 1.5 * join + 10);
    LVN_CHECK(!bad, COMM, "meeting the other ranks (at %.200s) failed: %s", to.text, bad);
    LVN_CHECK(!h->faulty || !h->permanent, IO, "%s", h->fault);
    LVN_CHECK(!h->faulty, COMM, "%s", h->fault);
    return LVN_OK;
}

static enum lvn_status start_thread(pthread_t *thread, bool *has, void *(*run)(void *), struct lvn_member *h)
{
    int bad = lvn_thread_start(thread, run, h);
    LVN_CHECK(!bad, MEMORY, "cannot start a thread: %s", strerror(bad));
    *has = true;
    return LVN_OK;
}

static enum lvn_status start(struct lvn_member *h, const struct lvn_member_options *o)
{
    h->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    LVN_CHECK(h->wake >= 0, IO, "cannot make an eventfd: %s", strerror(errno));
    h->online = h->size > 1 || lvn_getenv("LEVIN_RENDEZVOUS");
    if (h->online) LVN_TRY(join_run(h, o));
    if (h->size > 1) lvn_delay_abort();
    h->last_received = lvn_seconds();
    struct lvn_peer *self = &h->peer[h->rank];
    self->state = LVN_PEER_HERE;
    self->pid = getpid();
    snprintf(self->host, sizeof self->host, "%s", h->host);
    return h->online ? start_thread(&h->thread, &h->has_thread, lvn_member_thread, h) : LVN_OK;
}

static void release(struct lvn_member *h)
{
    lvn_wire_close(&h->wire);
    lvn_server_stop(h->server, h->faulty ? 3 : h->has_thread ? h->timeout : 0);
    for (int i = 0; i < h->n_groups; i++) {
        free(h->group[i].key);
        free(h->group[i].value);
        free(h->group[i].ranks);
    }
    if (h->wake >= 0) close(h->wake);
    free(h->group);
    free(h->peer);
    pthread_mutex_destroy(&h->writing);
    pthread_mutex_destroy(&h->lock);
    pthread_cond_destroy(&h->change);
    free(h);
}

enum lvn_status lvn_member_open(struct lvn_member **out, const struct lvn_member_options *o)
{
    struct lvn_member *h = calloc(1, sizeof *h);
    struct lvn_peer *peer = calloc((size_t)o->id->size, sizeof *peer);
    if (!h || !peer) {
        free(h);
        free(peer);
        LVN_FAIL(MEMORY, "no memory for a heartbeat");
    }
    h->rank = o->id->rank;
    h->size = o->id->size;
    h->timeout = o->timeout > 0 ? o->timeout : 30;
    h->stall_timeout = o->stall_timeout;
    h->callback = o->fault;
    h->context = o->fault_context;
    h->wake = h->wire.fd = -1;
    h->fault_rank = -1;
    h->peer = peer;
    snprintf(h->host, sizeof h->host, "%s", o->id->host);
    snprintf(h->state, sizeof h->state, "running");
    for (int i = 0; i < h->size; i++) peer[i].rank = i;
    pthread_mutex_init(&h->lock, NULL);
    pthread_mutex_init(&h->writing, NULL);
    lvn_condition_init(&h->change);
    enum lvn_status status = start(h, o);
    if (status)
        release(h);
    else
        *out = h;
    return status;
}

static void wake(struct lvn_member *h)
{
    uint64_t one = 1;
    if (write(h->wake, &one, sizeof one) < 0) return; /* the thread wakes up soon anyway */
}

/* Wait until the flag is set, a fault is known, or the seconds have passed. Lock held. */
static void wait_for(struct lvn_member *h, const bool *flag, double seconds)
{
    struct timespec at = lvn_deadline(seconds);
    bool in_time = true;
    while (!*flag && !h->faulty && in_time) in_time = lvn_condition_wait(&h->change, &h->lock, &at);
}

void lvn_member_close(struct lvn_member *h)
{
    if (!h) return;
    pthread_mutex_lock(&h->lock);
    if (h->has_thread) {
        if (!h->faulty) {
            lvn_member_send_heartbeat(h, lvn_seconds()); /* with the last step */
            lvn_message_add(&h->wire.out, LVN_MESSAGE_BYE);
            h->sent_bye = true;
            h->peer[h->rank].state = LVN_PEER_DONE;
            wake(h);
            wait_for(h, &h->ended, 1.25 * h->timeout + 1); /* a rank that hangs is detected before, and named */
        }
        for (int i = 0; i < h->size && h->ended; i++) h->peer[i].state = LVN_PEER_DONE;
    } else {
        h->peer[h->rank].state = LVN_PEER_DONE;
    }
    if (!strcmp(h->state, "running")) snprintf(h->state, sizeof h->state, "done");
    h->stopping = !h->faulty || h->failed_here;
    pthread_cond_broadcast(&h->change);
    pthread_mutex_unlock(&h->lock);
    wake(h);
    if (h->has_thread) pthread_join(h->thread, NULL);
    pthread_mutex_lock(&h->lock);
    h->stopping = true;
    pthread_cond_broadcast(&h->change);
    pthread_mutex_unlock(&h->lock);
    if (h->has_watch) pthread_join(h->watch, NULL);
    if (h->leaked) return; /* never freed: the process is about to end */
    if (h->has_publisher) {
        pthread_join(h->publisher, NULL);
        if (!lvn_member_write_status(h) && !lvn_member_write_status(h)) /* once more: no later write follows */
            lvn_log(LVN_LOG_WARN, "%s could not be written: the run is %s, and it does not say so", h->path, h->state);
    }
    release(h);
}

/* --- between steps --- */

int lvn_member_table(struct lvn_member *h, struct lvn_peer *peers, int max)
{
    if (!h) return 0;
    pthread_mutex_lock(&h->lock);
    int n = h->size < max ? h->size : max;
    memcpy(peers, h->peer, sizeof *peers * (size_t)n);
    pthread_mutex_unlock(&h->lock);
    return n;
}

bool lvn_member_straggler(struct lvn_member *h, char text[400])
{
    const double pause = 0.5; /* the server sends tables no faster */
    if (!h || h->size == 1) return false;
    double now = lvn_seconds();
    pthread_mutex_lock(&h->lock);
    bool due = now - h->straggler_checked >= pause;
    if (due) {
        h->straggler_checked = now;
        due = lvn_straggler_find(&h->straggler, h->peer, h->size, now, text);
    }
    pthread_mutex_unlock(&h->lock);
    return due;
}

/* --- state for heartbeats --- */

void lvn_member_set_step(struct lvn_member *h, int64_t step, double tokens_per_s, double compute_s)
{
    if (!h) return;
    atomic_store_explicit(&h->tokens_per_s, tokens_per_s, memory_order_relaxed);
    double mean = atomic_load_explicit(&h->compute_s, memory_order_relaxed);
    atomic_store_explicit(&h->compute_s, mean > 0 ? mean + 0.2 * (compute_s - mean) : compute_s, memory_order_relaxed);
    atomic_store_explicit(&h->step, step, memory_order_relaxed);
}

/* Count a completed wait. */
static void count_wait(struct lvn_member *h)
{
    atomic_fetch_add_explicit(&h->waits_done, 1, memory_order_relaxed);
}

void lvn_member_set_operation(struct lvn_member *h, const char *operation)
{
    if (h && atomic_exchange_explicit(&h->operation, operation, memory_order_acq_rel)) count_wait(h);
}

void lvn_member_set_collective(struct lvn_member *h, int k, int n)
{
    uint64_t at = k ? (uint64_t)k << 32 | (uint32_t)n : 0;
    if (h && atomic_exchange_explicit(&h->collective, at, memory_order_relaxed)) count_wait(h);
}

/* --- after an error --- */

/* Wait until the thread has delivered the fault, or has ended the process. Lock held. */
static void wait_for_delivery(struct lvn_member *h)
{
    struct timespec at = lvn_deadline(6);
    for (bool in_time = true; h->delivering && in_time;) in_time = lvn_condition_wait(&h->change, &h->lock, &at);
}

void lvn_member_fail(struct lvn_member *h, bool after)
{
    const bool never = false;
    const double patience = 3;
    if (!h) return;
    pthread_mutex_lock(&h->lock);
    wait_for_delivery(h);
    if (!h->failed_here) {
        h->failed_here = true;
        if (!h->faulty && h->has_thread) {
            lvn_member_send_heartbeat(h, lvn_seconds()); /* with the rank that it waits for */
            lvn_message_add(&h->wire.out, LVN_MESSAGE_FAIL, (int64_t)after, lvn_error_text());
            wake(h);
            wait_for(h, &never, patience);
        }
        if (!h->faulty) lvn_member_set_fault(h, h->rank, true, false, lvn_error_text());
    }
    wait_for_delivery(h);
    bool other = h->faulty && h->fault_rank != h->rank && h->is_reporter;
    char text[sizeof h->fault];
    snprintf(text, sizeof text, "%s", h->fault);
    pthread_mutex_unlock(&h->lock);
    if (other) lvn_fail(LVN_COMM, "%s", text); /* it explains more */
    if (h->rank == 0 && h->path[0]) lvn_member_write_final_status(h);
}

/* member.c - see member.h: joining the ranks, the state in heartbeats, closing. Its thread is in member_thread.c. */
#include "cluster/rendezvous/member.h"

#include <poll.h>
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

static const double HELLO_SECONDS = 10;
enum { RETRY_US = 100000 };
static const char closed[] = "it closed the connection", silent[] = "it does not respond";
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

/* Rank 0 broadcasts it: endpoint and token of its server, or "!" and why it has no server. */
struct invitation {
    char text[LVN_ENDPOINT_TEXT], token[128];
};

static enum lvn_status serve(struct lvn_member *member, const struct lvn_member_options *o, double join, int port,
                             const char *token)
{
    struct lvn_server_options so = {.size = member->size,
                                    .listen = o->id->one_host ? LVN_LOOPBACK : NULL,
                                    .port = port,
                                    .token = token,
                                    .timeout = o->timeout,
                                    .join_timeout = join,
                                    .stall_timeout = o->stall_timeout};
    return lvn_server_start(&member->server, &so);
}

static const char secret[] = "LEVIN_TOKEN";

/* The token that ranks present to the server, from levin launch or LEVIN_TOKEN. It must never be printed. */
static enum lvn_status read_token(struct invitation *to, const char *variable)
{
    enum { SHORTEST = 16 };
    const char *token = lvn_getenv(variable);
    if (!token) return LVN_OK;
    LVN_CHECK(variable != secret || strlen(token) >= SHORTEST, ARG,
              "%s has %zu characters, which can be guessed; expected at least %d, as `openssl rand -hex 16` prints",
              variable, strlen(token), (int)SHORTEST);
    return lvn_copy_bytes(to->token, sizeof to->token, variable, token, strlen(token));
}

static enum lvn_status find_endpoint(struct lvn_member *member, const struct lvn_member_options *o, double join,
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
        member->server_rank = -1;
        return lvn_copy_bytes(to->text, sizeof to->text, "LEVIN_RENDEZVOUS", given, strlen(given));
    }
    if (o->broadcast) {
        if (member->rank == 0) {
            if (serve(member, o, join, 0, NULL)) {
                snprintf(to->text, sizeof to->text, "!%s", levin_error_text());
            } else {
                snprintf(to->text, sizeof to->text, "%s", lvn_server_address(member->server));
                snprintf(to->token, sizeof to->token, "%s", lvn_server_token(member->server));
            }
        }
        LVN_TRY_WHILE(o->broadcast(o->broadcast_context, to, sizeof *to),
                      "sending the rendezvous address to all ranks");
        to->text[sizeof to->text - 1] = to->token[sizeof to->token - 1] = '\0';
        if (to->text[0] == '!' && member->rank) lvn_set_reporter(false);
        LVN_CHECK(to->text[0] != '!', IO, "rank 0 cannot open the rendezvous: %.1000s", to->text + 1);
        return LVN_OK;
    }
    if (colon) {
        snprintf(host, sizeof host, "%.*s", (int)(colon - o->id->endpoint), o->id->endpoint);
        master = host;
        port = colon + 1;
    }
    LVN_CHECK(master && *master && port && *port, ARG,
              "%d ranks require a rendezvous, but %s is not set%s%s; set MASTER_ADDR to the host of rank 0 and "
              "MASTER_PORT to a free port there, or start levin with levin launch, mpirun or srun",
              member->size, master && *master ? "MASTER_PORT" : "MASTER_ADDR", o->id->no_endpoint ? ", and " : "",
              o->id->no_endpoint ? o->id->no_endpoint : "");
    char *end;
    long n = strtol(port, &end, 10);
    LVN_CHECK(end != port && !*end && n > 0 && n < 65536, ARG, "MASTER_PORT is '%.40s'; expected a port, 1 to 65535",
              port);
    number = (int)n;
    if (member->rank == 0)
        LVN_TRY_WHILE(serve(member, o, join, number, to->token), "opening the rendezvous at %s:%d", master, number);
    const bool here = !member->rank || o->id->one_host;
    LVN_CHECK(lvn_fit(to->text, sizeof to->text, "%s:%d", here ? LVN_LOOPBACK : master, number), ARG,
              "MASTER_ADDR has %zu bytes; no host name is that long", strlen(master));
    return LVN_OK;
}

/* --- joining --- */

/* Receive until *until is set, the server refuses or closes, or `end`. NULL: it is set, or a fault; else the reason. */
static const char *receive_until(struct lvn_member *member, const bool *until, double end)
{
    struct lvn_message message;
    bool open = true;
    for (;;) {
        char *line;
        while (!member->faulty && !*until && (line = lvn_wire_line(&member->wire))) {
            if (!lvn_message_parse(line, &message) || !lvn_member_receive(member, &message))
                return "another program answers there";
            if (message.kind == LVN_MESSAGE_REFUSE) return member->refusal;
        }
        if (member->faulty || *until) return NULL;
        if (!open || member->wire.broken) return closed;
        double left = end - lvn_seconds();
        if (left <= 0) return silent;
        struct pollfd p = {.fd = member->wire.fd, .events = (short)(POLLIN | (member->wire.out.n ? POLLOUT : 0))};
        if (poll(&p, 1, (int)(1000 * left) + 1) < 0 && errno != EINTR) return strerror(errno);
        lvn_wire_flush(&member->wire);
        open = lvn_wire_read(&member->wire);
    }
}

/* Send HELLO to each address until a server of this run answers. If a possible server closed the connection or did not
 * respond, it may be overloaded; then all addresses are tried again. */
static enum lvn_status handshake(struct lvn_member *member, const struct invitation *to, double timeout)
{
    char reason[600] = "";
    double end = lvn_seconds() + timeout;
    bool is_overloaded = false;
    for (int index = -1;;) {
        double left = index < 0 ? end - lvn_seconds() : 0;
        enum lvn_status status = lvn_endpoint_connect(to->text, LVN_MEETING, left, index + 1, &index, &member->wire.fd);
        if (status && is_overloaded && lvn_seconds() < end) {
            is_overloaded = false;
            index = -1;
            usleep(RETRY_US);
            continue;
        }
        if (status && reason[0]) {
            static const char text[] = "the rendezvous server (%.300s) rejected this rank: %s";
            if (member->refusal[0])
                LVN_FAIL(COMM, text, to->text, member->refusal); /* it may be the server of an earlier run */
            LVN_FAIL(IO, text, to->text, reason);
        }
        LVN_TRY(status);
        lvn_message_add(&member->wire.out, LVN_MESSAGE_HELLO, to->token, (int64_t)member->rank, (int64_t)member->size,
                        (int64_t)getpid(), member->host);
        double seconds = member->timeout < HELLO_SECONDS ? member->timeout : HELLO_SECONDS;
        const char *bad = receive_until(member, &member->welcomed, lvn_seconds() + seconds);
        if (!bad) return LVN_OK;
        is_overloaded = is_overloaded || bad == closed || bad == silent;
        snprintf(reason, sizeof reason, "%s", bad);
        lvn_wire_close(&member->wire);
        member->wire = (struct lvn_wire){.fd = -1};
    }
}

/* Wait for START. Meanwhile report stopped processes of this host, which may be the missing ranks. */
static const char *await_start(struct lvn_member *member, const struct lvn_member_options *o, const char *token,
                               double end)
{
    const double pause = 4; /* each of possibly many ranks inspects all processes */
    const char *bad = silent;
    while (!member->faulty && bad == silent && lvn_seconds() < end) {
        struct lvn_stopped stopped;
        bad = receive_until(member, &member->started, lvn_seconds() + pause < end ? lvn_seconds() + pause : end);
        if (bad != silent) break;
        lvn_local_ranks_stopped(o->id, &stopped);
        if (stopped.n)
            lvn_message_add(&member->wire.out, LVN_MESSAGE_STOPPED, token, (int64_t)stopped.rank, (int64_t)stopped.pid,
                            member->host);
    }
    return member->faulty ? NULL : bad;
}

static enum lvn_status join_run(struct lvn_member *member, const struct lvn_member_options *o)
{
    struct invitation to;
    double join = o->join_timeout > 0 ? o->join_timeout : 2 * o->timeout > 60 ? 2 * o->timeout : 60;
    LVN_TRY(find_endpoint(member, o, join, &to));
    LVN_TRY(handshake(member, &to, member->rank ? join : 5));
    for (int i = 0; i < o->n_facts; i++)
        lvn_message_add(&member->wire.out, LVN_MESSAGE_FACT, o->facts[i].key, o->facts[i].value);
    lvn_message_add(&member->wire.out, LVN_MESSAGE_READY);
    const char *bad = await_start(member, o, to.token, lvn_seconds() + 1.5 * join + 10);
    LVN_CHECK(!bad, COMM, "joining the other ranks (at %.200s) failed: %s", to.text, bad);
    LVN_CHECK(!member->faulty || !member->permanent, IO, "%s", member->fault);
    LVN_CHECK(!member->faulty, COMM, "%s", member->fault);
    return LVN_OK;
}

static enum lvn_status start_thread(pthread_t *thread, bool *has, void *(*run)(void *), struct lvn_member *member)
{
    int bad = lvn_thread_start(thread, run, member);
    LVN_CHECK(!bad, MEMORY, "cannot start a thread: %s", strerror(bad));
    *has = true;
    return LVN_OK;
}

static enum lvn_status start(struct lvn_member *member, const struct lvn_member_options *o)
{
    member->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    LVN_CHECK(member->wake >= 0, IO, "cannot create an eventfd: %s", strerror(errno));
    member->online = member->size > 1 || lvn_getenv("LEVIN_RENDEZVOUS");
    if (member->online) LVN_TRY(join_run(member, o));
    member->last_received = lvn_seconds();
    struct lvn_peer *self = &member->peer[member->rank];
    self->state = LVN_PEER_HERE;
    self->pid = getpid();
    snprintf(self->host, sizeof self->host, "%s", member->host);
    return member->online ? start_thread(&member->thread, &member->has_thread, lvn_member_thread, member) : LVN_OK;
}

static void release(struct lvn_member *member)
{
    lvn_wire_close(&member->wire);
    lvn_server_stop(member->server, member->faulty ? 3 : member->has_thread ? member->timeout : 0);
    for (int i = 0; i < member->n_groups; i++) {
        free(member->group[i].key);
        free(member->group[i].value);
        free(member->group[i].ranks);
    }
    if (member->wake >= 0) close(member->wake);
    free(member->group);
    free(member->peer);
    pthread_mutex_destroy(&member->writing);
    pthread_mutex_destroy(&member->lock);
    pthread_cond_destroy(&member->change);
    free(member);
}

enum lvn_status lvn_member_open(struct lvn_member **out, const struct lvn_member_options *o)
{
    struct lvn_member *member = calloc(1, sizeof *member);
    struct lvn_peer *peer = calloc((size_t)o->id->size, sizeof *peer);
    if (!member || !peer) {
        free(member);
        free(peer);
        LVN_FAIL(MEMORY, "not enough memory for the rendezvous");
    }
    member->rank = o->id->rank;
    member->size = o->id->size;
    member->timeout = o->timeout > 0 ? o->timeout : 30;
    member->stall_timeout = o->stall_timeout;
    member->callback = o->fault;
    member->context = o->fault_context;
    member->wake = member->wire.fd = -1;
    member->fault_rank = -1;
    member->peer = peer;
    snprintf(member->host, sizeof member->host, "%s", o->id->host);
    snprintf(member->state, sizeof member->state, "running");
    for (int i = 0; i < member->size; i++) peer[i].rank = i;
    pthread_mutex_init(&member->lock, NULL);
    pthread_mutex_init(&member->writing, NULL);
    lvn_condition_init(&member->change);
    enum lvn_status status = start(member, o);
    if (status)
        release(member);
    else
        *out = member;
    return status;
}

static void wake(struct lvn_member *member)
{
    uint64_t one = 1;
    if (write(member->wake, &one, sizeof one) < 0) return; /* the thread wakes up soon in any case */
}

/* Wait until the flag is set, a fault is known, or the seconds have passed. The caller holds the lock. */
static void wait_for(struct lvn_member *member, const bool *flag, double seconds)
{
    struct timespec at = lvn_deadline(seconds);
    bool in_time = true;
    while (!*flag && !member->faulty && in_time) in_time = lvn_condition_wait(&member->change, &member->lock, &at);
}

void lvn_member_close(struct lvn_member *member)
{
    if (!member) return;
    pthread_mutex_lock(&member->lock);
    if (member->has_thread) {
        if (!member->faulty) {
            lvn_member_send_heartbeat(member, lvn_seconds()); /* with the last step */
            lvn_message_add(&member->wire.out, LVN_MESSAGE_BYE);
            member->sent_bye = true;
            member->peer[member->rank].state = LVN_PEER_DONE;
            wake(member);
            wait_for(member, &member->ended,
                     1.25 * member->timeout + 1); /* a rank that hangs is detected earlier, and named */
        }
        for (int i = 0; i < member->size && member->ended; i++) member->peer[i].state = LVN_PEER_DONE;
    } else {
        member->peer[member->rank].state = LVN_PEER_DONE;
    }
    if (!strcmp(member->state, "running")) snprintf(member->state, sizeof member->state, "done");
    member->stopping = !member->faulty || member->failed_here;
    pthread_cond_broadcast(&member->change);
    pthread_mutex_unlock(&member->lock);
    wake(member);
    if (member->has_thread) pthread_join(member->thread, NULL);
    pthread_mutex_lock(&member->lock);
    member->stopping = true;
    pthread_cond_broadcast(&member->change);
    pthread_mutex_unlock(&member->lock);
    if (member->has_watch) pthread_join(member->watch, NULL);
    if (member->leaked) return; /* never freed: the process is about to terminate */
    if (member->has_publisher) {
        pthread_join(member->publisher, NULL);
        if (!lvn_member_write_status(member) &&
            !lvn_member_write_status(member)) /* second attempt: no later write follows */
            lvn_log(LVN_LOG_WARN, "%s could not be written; it does not show that the run is %s", member->path,
                    member->state);
    }
    release(member);
}

/* --- between steps --- */

int lvn_member_table(struct lvn_member *member, struct lvn_peer *peers, int max)
{
    if (!member) return 0;
    pthread_mutex_lock(&member->lock);
    int n = member->size < max ? member->size : max;
    memcpy(peers, member->peer, sizeof *peers * (size_t)n);
    pthread_mutex_unlock(&member->lock);
    return n;
}

bool lvn_member_straggler(struct lvn_member *member, char text[400])
{
    const double pause = 0.5; /* the server sends tables no faster */
    if (!member || member->size == 1) return false;
    double now = lvn_seconds();
    pthread_mutex_lock(&member->lock);
    bool due = now - member->straggler_checked >= pause;
    if (due) {
        member->straggler_checked = now;
        due = lvn_straggler_find(&member->straggler, member->peer, member->size, now, text);
    }
    pthread_mutex_unlock(&member->lock);
    return due;
}

/* --- state for heartbeats --- */

void lvn_member_set_step(struct lvn_member *member, int64_t step, double tokens_per_s, double compute_s)
{
    if (!member) return;
    atomic_store_explicit(&member->tokens_per_s, tokens_per_s, memory_order_relaxed);
    double mean = atomic_load_explicit(&member->compute_s, memory_order_relaxed);
    atomic_store_explicit(&member->compute_s, mean > 0 ? mean + 0.2 * (compute_s - mean) : compute_s,
                          memory_order_relaxed);
    atomic_store_explicit(&member->step, step, memory_order_relaxed);
}

/* Count a completed wait. */
static void count_wait(struct lvn_member *member)
{
    atomic_fetch_add_explicit(&member->waits_done, 1, memory_order_relaxed);
}

void lvn_member_set_operation(struct lvn_member *member, const char *operation)
{
    if (member && atomic_exchange_explicit(&member->operation, operation, memory_order_acq_rel)) count_wait(member);
}

void lvn_member_set_collective(struct lvn_member *member, int k, int n)
{
    uint64_t at = k ? (uint64_t)k << 32 | (uint32_t)n : 0;
    if (member && atomic_exchange_explicit(&member->collective, at, memory_order_relaxed)) count_wait(member);
}

/* --- after an error --- */

/* Wait until the thread has delivered the fault, or has terminated the process. The caller holds the lock. */
static void wait_for_delivery(struct lvn_member *member)
{
    struct timespec at = lvn_deadline(6);
    for (bool in_time = true; member->delivering && in_time;)
        in_time = lvn_condition_wait(&member->change, &member->lock, &at);
}

void lvn_member_fail(struct lvn_member *member, bool is_consequence)
{
    const bool never = false;
    const double timeout = 3;
    if (!member) return;
    pthread_mutex_lock(&member->lock);
    wait_for_delivery(member);
    if (!member->failed_here) {
        member->failed_here = true;
        if (!member->faulty && member->has_thread) {
            lvn_member_send_heartbeat(member, lvn_seconds()); /* with the rank that it waits for */
            lvn_message_add(&member->wire.out, LVN_MESSAGE_FAIL, (int64_t)is_consequence, levin_error_text());
            wake(member);
            wait_for(member, &never, timeout);
        }
        if (!member->faulty) lvn_member_set_fault(member, member->rank, true, false, levin_error_text());
    }
    wait_for_delivery(member);
    bool other = member->faulty && member->fault_rank != member->rank && member->is_reporter;
    char text[sizeof member->fault];
    snprintf(text, sizeof text, "%s", member->fault);
    pthread_mutex_unlock(&member->lock);
    if (other) lvn_fail(LVN_COMM, "%s", text); /* the other error is the cause */
    if (member->rank == 0 && member->path[0]) lvn_member_write_final_status(member);
}

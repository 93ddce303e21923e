/* engine.c - the thread of an engine, which makes all calls of the transport: it receives requests, issues them and
 * polls them.
 *
 * It has three queues. Collectives are issued to the transport one after the other, a long one in parts, so that
 * every rank issues the same ones in the same order. Messages are issued immediately, because they may depend on each
 * other across ranks. Exchanges (exchange.c) start in order, each as soon as all chunks of the previous one are in
 * progress. Groups of ranks (lvn_comm_split()) share the queues; the order applies within each group.
 *
 * How it waits. While a caller waits for a request, the thread spins: it polls without sleeping. After SPIN_POLLS
 * polls without progress (about 15 us) it yields the CPU after each poll, because ranks may share CPUs; after
 * YIELD_POLLS (about a millisecond) it sleeps 20 us between polls. While no caller waits, computation has priority: the
 * thread sleeps between polls, up to 1 ms. Without requests it first yields for SPIN_POLLS polls, because in a virtual
 * machine a timed sleep needs 8 us to begin and 8 us to end, and a short sum takes no longer. Then it sleeps until a
 * request arrives, but calls the transport at intervals: some transports transfer sent data only during later calls. */
#include <sched.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/threads.h"
#include "base/work.h"
#include "comm/engine.h"
#include "comm/exchange.h"
#include "comm/sum_algorithm.h"

void lvn_queue_push(struct lvn_queue *queue, struct lvn_request *request)
{
    request->next = NULL;
    if (queue->last)
        queue->last->next = request;
    else
        queue->first = request;
    queue->last = request;
}

/* Remove the request from the queue; `before` precedes it. */
static void unlink_after(struct lvn_queue *queue, struct lvn_request *before, struct lvn_request *request)
{
    if (before)
        before->next = request->next;
    else
        queue->first = request->next;
    if (queue->last == request) queue->last = before;
}

static bool is_awaited(const struct lvn_engine *engine)
{
    return __atomic_load_n(&engine->waiting, __ATOMIC_SEQ_CST) > 0;
}

/* The caller owns the request again when this returns. */
static void finish(struct lvn_engine *engine, struct lvn_request *request, enum lvn_status status)
{
    request->status = status;
    __atomic_store_n(&request->done, 1, __ATOMIC_SEQ_CST);
    if (is_awaited(engine)) {
        pthread_mutex_lock(&engine->lock); /* a caller that saw the request incomplete is inside its wait by now */
        pthread_mutex_unlock(&engine->lock);
        pthread_cond_broadcast(&engine->request_done);
    }
}

static const char *const kinds[] = {"reduction", "reduction",  "reduction",    "reduction",
                                    "broadcast", "message to", "message from", "call"};

/* Convert a rank of the request's communicator to a rank among all. */
static int rank_among_all(const struct lvn_request *request, int rank)
{
    return request->group->member && rank >= 0 ? request->group->member[rank] : rank;
}

static void record_error(struct lvn_engine *engine, const struct lvn_request *request, int code)
{
    char reason[256] = "";
    engine->transport->error(request->group->state, code, reason, sizeof reason);
    pthread_mutex_lock(&engine->lock);
    if (engine->error == LVN_OK) {
        engine->error = LVN_COMM;
        if (request->number >= 0)
            snprintf(engine->whole.comm.text, sizeof engine->whole.comm.text, "%s %lld of rank %d failed: %s",
                     kinds[request->kind], (long long)request->number, engine->whole.comm.rank, reason);
        else
            snprintf(engine->whole.comm.text, sizeof engine->whole.comm.text, "a %s rank %d failed on rank %d: %s",
                     kinds[request->kind], rank_among_all(request, request->peer), engine->whole.comm.rank, reason);
    }
    pthread_mutex_unlock(&engine->lock);
}

/* --- issuing and polling --- */

/* Issue as much of a collective as possible; request->at counts the issued elements. Two parts may be in progress. */
static int issue(struct lvn_engine *engine, struct lvn_request *request, bool *moved)
{
    const struct lvn_transport *transport = engine->transport;
    for (int h = 0; h < 2 && request->at < request->count; h++) {
        if (request->busy & 1 << h) continue;
        int64_t bytes = lvn_dtype_bytes((enum lvn_dtype)request->type), max = engine->options.max_message_bytes / bytes;
        int64_t n = request->count - request->at < max ? request->count - request->at : max;
        char *x = (char *)request->x + request->at * bytes;
        int code = request->kind == LVN_REQUEST_BROADCAST
                       ? transport->broadcast(request->group->state, x, n, request->peer, &request->handle[h])
                       : transport->all_reduce(request->group->state, x, n, (enum lvn_dtype)request->type,
                                               (enum lvn_reduce)request->op, &request->handle[h]);
        if (code) return code;
        request->busy |= 1 << h;
        request->at += n;
        *moved = true;
    }
    return 0;
}

static int issue_message(struct lvn_engine *engine, struct lvn_request *request)
{
    const struct lvn_transport *transport = engine->transport;
    const int64_t max = engine->options.max_message_bytes;
    int64_t whole = request->count / max * max, rest = request->count - whole;
    for (int h = 0; h < 2; h++) { /* a multiple of `max` as one message of large elements, then the rest */
        int64_t n = h ? rest : whole;
        if (!n && (h == 0 || whole)) continue; /* an empty message is sent too */
        char *x = (char *)request->x + (h ? whole : 0);
        int code =
            request->kind == LVN_REQUEST_SEND
                ? transport->send(request->group->state, x, n, request->peer, request->tag, &request->handle[h])
                : transport->receive(request->group->state, x, n, request->peer, request->tag, &request->handle[h]);
        if (code) return code;
        request->busy |= 1 << h;
    }
    return 0;
}

static int poll_handles(struct lvn_engine *engine, struct lvn_request *request, bool *moved)
{
    for (int h = 0; h < 2; h++) {
        int n = 0, index;
        if (!(request->busy & 1 << h)) continue;
        int code = engine->transport->test(request->group->state, &request->handle[h], 1, &n, &index);
        if (code) return code;
        if (n) request->busy &= ~(1 << h);
        *moved |= n > 0;
    }
    return 0;
}

/* For the rest of this pass, do not issue later requests of the same communicator, so that all its ranks issue them in
 * the same order. Requests of other groups continue. */
static void hold(const struct lvn_engine *engine, struct lvn_request *request)
{
    request->group->held = engine->pass;
}

static bool is_held(const struct lvn_engine *engine, const struct lvn_request *request)
{
    return request->group->held == engine->pass;
}

static int poll_collectives(struct lvn_engine *engine, bool *moved)
{
    struct lvn_request *before = NULL, *request = engine->collectives.first, *next;
    engine->pass++;
    for (; request; request = next) {
        next = request->next;
        if (is_held(engine, request)) {
            before = request;
            continue;
        }
        int code = poll_handles(engine, request, moved);
        if (!code) code = issue(engine, request, moved);
        if (code) {
            record_error(engine, request, code);
            return code;
        }
        bool issued = request->at == request->count;
        if (issued && !request->busy) {
            unlink_after(&engine->collectives, before, request);
            finish(engine, request, LVN_OK);
            *moved = true;
        } else {
            before = request;
        }
        if (!issued) hold(engine, request); /* later ones are issued after all parts of this one */
    }
    return 0;
}

static int poll_messages(struct lvn_engine *engine, bool *moved)
{
    struct lvn_request *before = NULL, *request = engine->messages.first, *next;
    for (; request; request = next) {
        next = request->next;
        int code = poll_handles(engine, request, moved);
        if (code) {
            record_error(engine, request, code);
            return code;
        }
        if (!request->busy) {
            unlink_after(&engine->messages, before, request);
            finish(engine, request, LVN_OK);
        } else {
            before = request;
        }
    }
    return 0;
}

/* Like poll_collectives(): the next exchange starts when all of this one is in progress. */
static int poll_exchanges(struct lvn_engine *engine, bool *moved)
{
    struct lvn_request *before = NULL, *request = engine->exchanges.first, *next;
    engine->pass++;
    for (; request; request = next) {
        bool issued, finished;
        next = request->next;
        if (is_held(engine, request)) {
            before = request;
            continue;
        }
        int code = lvn_exchange_step(engine, request, moved, &issued, &finished);
        if (code) {
            record_error(engine, request, code);
            return code;
        }
        if (finished) {
            unlink_after(&engine->exchanges, before, request);
            finish(engine, request, LVN_OK);
            *moved = true;
        } else {
            before = request;
        }
        if (!issued) hold(engine, request);
    }
    return 0;
}

/* Turn a gather into a sum in which all addends but one are 0, which is exact. */
static void gather_by_sum(struct lvn_request *request)
{
    const int64_t bytes = lvn_dtype_bytes((enum lvn_dtype)request->type),
                  from = request->first[request->group->comm.rank] * bytes,
                  to = request->first[request->group->comm.rank + 1] * bytes, all = request->count * bytes;
    memset(request->x, 0, (size_t)from);
    memset((char *)request->x + to, 0, (size_t)(all - to));
    request->type = LVN_I32;
    request->count = all / (int64_t)sizeof(int32_t);
}

/* True if the transport's own collective performs the operation, which is faster for short vectors. A sum is also used
 * if only part of its result is needed. */
static bool is_library(struct lvn_request *request)
{
    const enum lvn_dtype type = (enum lvn_dtype)request->type;
    const int64_t bytes = request->count * lvn_dtype_bytes(type);
    const bool real = type == LVN_F32 || type == LVN_F64;
    if (request->kind == LVN_REQUEST_BROADCAST || request->op != LVN_SUM) return true;
    if (request->kind == LVN_REQUEST_TREE_REDUCE || type == LVN_BF16) return false;
    if (request->kind == LVN_REQUEST_ALL_REDUCE && !real) return true;
    if (lvn_sum_algorithm(request->group->comm.size, request->group->comm.hosts, bytes) != LVN_ALGORITHM_LIBRARY)
        return false;
    if (request->kind != LVN_REQUEST_ALL_GATHER) return true;
    if (bytes % (int64_t)sizeof(int32_t)) return false;
    gather_by_sum(request);
    return true;
}

static int accept_request(struct lvn_engine *engine, struct lvn_request *request)
{
    switch (request->kind) {
    case LVN_REQUEST_SEND:
    case LVN_REQUEST_RECEIVE:
        lvn_queue_push(&engine->messages, request);
        return issue_message(engine, request);
    case LVN_REQUEST_CALL:
        request->call(request->group->state, request->x);
        finish(engine, request, LVN_OK);
        return 0;
    default:
        lvn_queue_push(is_library(request) ? &engine->collectives : &engine->exchanges, request);
        return 0;
    }
}

static bool pending(const struct lvn_engine *engine)
{
    return engine->collectives.first || engine->messages.first || engine->exchanges.first;
}

/* After an error all current and later requests fail. Their callers then free or reuse the memory, which the transport
 * still knows as the destination of unfinished messages. So from then on the engine makes no call that can transfer
 * data: only release_group(), abort() and release(). */
static void fail_all(struct lvn_engine *engine)
{
    struct lvn_queue *all[] = {&engine->collectives, &engine->messages, &engine->exchanges};
    for (int i = 0; i < 3; i++)
        while (all[i]->first) {
            struct lvn_request *request = all[i]->first;
            unlink_after(all[i], NULL, request);
            finish(engine, request, LVN_COMM);
        }
}

/* --- the thread --- */

/* Sleep at most this long, unless there is work. awaited: is_awaited() when the caller decided to sleep. */
static void sleep_at_most(struct lvn_engine *engine, int microseconds, bool awaited)
{
    struct timespec until = lvn_deadline(1e-6 * microseconds);
    pthread_mutex_lock(&engine->lock);
    if (!engine->submitted.first && !engine->stop && awaited == is_awaited(engine)) {
        engine->asleep = true;
        (void)lvn_condition_wait(&engine->work_available, &engine->lock, &until);
        engine->asleep = false;
    }
    pthread_mutex_unlock(&engine->lock);
}

/* Return a time that doubles with every poll without progress. */
static int sleep_time(int64_t idle, int first, int max)
{
    return idle < 16 && first << idle < max ? first << idle : max;
}

/* Called after `idle` consecutive polls without progress. Times are in microseconds. */
static void back_off(struct lvn_engine *engine, int64_t idle)
{
    enum {
        SPIN_POLLS = 100,   /* a caller waits: poll without yielding */
        YIELD_POLLS = 4000, /* a caller waits: yield the CPU up to this number of polls, then sleep */
        AWAITED_SLEEP = 20,
        BUSY_SLEEP_FIRST = 30, /* no caller waits, and requests are in progress */
        BUSY_SLEEP_MAX = 1000,
        IDLE_SLEEP_FIRST = 50, /* no requests */
        IDLE_SLEEP_MAX = 10000
    };
    const bool awaited = is_awaited(engine);
    if (!pending(engine) && idle <= SPIN_POLLS) {
        sched_yield();
    } else if (!pending(engine)) {
        sleep_at_most(engine, sleep_time(idle - SPIN_POLLS, IDLE_SLEEP_FIRST, IDLE_SLEEP_MAX), awaited);
        if (engine->error == LVN_OK) engine->transport->make_progress(engine->whole.state);
    } else if (!awaited) {
        sleep_at_most(engine, sleep_time(idle, BUSY_SLEEP_FIRST, BUSY_SLEEP_MAX), awaited);
    } else if (idle > YIELD_POLLS) {
        sleep_at_most(engine, AWAITED_SLEEP, awaited);
    } else if (idle > SPIN_POLLS) {
        sched_yield();
    }
}

/* Report progress to the heartbeat (base/work.h) or, after 0.1 s without progress, the rank that this one waits for.
 * The delay is not counted in polls, because a busy machine runs other programs between polls. */
static void report_progress(struct lvn_engine *engine, bool moved, int64_t idle)
{
    const double seconds = 0.1;
    const struct lvn_request *request = engine->exchanges.first;
    if (moved) lvn_work_done(1);
    if (moved && engine->wait_reported) lvn_work_set_blocking_rank(-1);
    if (moved) engine->wait_reported = false;
    if (idle == 1) engine->idle_since = lvn_seconds();
    if (!request || !idle || engine->wait_reported || lvn_seconds() - engine->idle_since < seconds) return;
    lvn_work_set_blocking_rank(rank_among_all(request, lvn_exchange_waits_for(engine, request)));
    engine->wait_reported = true;
}

/* Return the list of submitted requests; does not lock if it is empty. */
static struct lvn_request *take_requests(struct lvn_engine *engine, bool *stop)
{
    struct lvn_request *request = NULL;
    if (__atomic_load_n(&engine->has_work, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&engine->lock);
        request = engine->submitted.first;
        engine->submitted = (struct lvn_queue){0};
        *stop = engine->stop;
        __atomic_store_n(&engine->has_work, false, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&engine->lock);
    }
    return request;
}

static void work(struct lvn_engine *engine)
{
    int64_t idle = 0;
    for (bool stop = false; !stop || pending(engine);) {
        struct lvn_request *request = take_requests(engine, &stop), *next;
        bool moved = request != NULL, broken = engine->error != LVN_OK;
        for (; request; request = next) {
            next = request->next;
            bool refused = broken && request->kind != LVN_REQUEST_CALL;
            int code = refused ? 0 : accept_request(engine, request);
            if (refused) finish(engine, request, LVN_COMM);
            if (code) record_error(engine, request, code), broken = true;
        }
        if (!broken)
            broken =
                poll_messages(engine, &moved) || poll_collectives(engine, &moved) || poll_exchanges(engine, &moved);
        if (broken) fail_all(engine);
        idle = moved ? 0 : idle + 1;
        report_progress(engine, moved, idle);
        if (!moved && !(stop && !pending(engine))) back_off(engine, idle);
    }
}

static void configure_thread(const struct lvn_engine *engine)
{
    prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    pthread_setname_np(pthread_self(), "levin-comm");
    if (engine->options.cpu > 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(engine->options.cpu - 1, &set);
        (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    }
}

void *lvn_engine_run(void *argument)
{
    struct lvn_engine *engine = argument;
    configure_thread(engine);
    enum lvn_status status =
        engine->transport->join(&engine->whole.state, &engine->handle_bytes, &engine->options,
                                engine->whole.comm.describe, (int)sizeof engine->whole.comm.describe);
    if (status == LVN_OK && engine->handle_bytes > LVN_HANDLE_BYTES)
        status = lvn_fail(LVN_INTERNAL, "the handles of a transport have %d bytes, at most %d are supported",
                          engine->handle_bytes, LVN_HANDLE_BYTES);
    pthread_mutex_lock(&engine->lock);
    engine->opened = status == LVN_OK ? 1 : -1;
    if (status != LVN_OK) {
        engine->error = status;
        snprintf(engine->whole.comm.text, sizeof engine->whole.comm.text, "%s", levin_error_text());
    }
    pthread_cond_broadcast(&engine->request_done);
    pthread_mutex_unlock(&engine->lock);
    if (status == LVN_OK) {
        work(engine);
        if (engine->error == LVN_OK) engine->transport->barrier(engine->whole.state);
        engine->transport->release(engine->whole.state);
    }
    pthread_mutex_lock(&engine->lock);
    engine->ended = true;
    pthread_cond_broadcast(&engine->request_done);
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

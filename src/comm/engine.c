/* engine.c - the thread of an engine, which makes every call of the transport: takes requests, issues them, polls
 * them.
 *
 * It has three queues. Collectives are issued to the transport one after the other, a long one in parts, so that
 * every rank issues the same ones in the same order. Messages are issued as they come: they may wait for each other
 * across ranks. Exchanges (exchange.c) begin in order, the next one when all chunks of the last one are in progress.
 * Groups of ranks (lvn_comm_split()) share the queues; the order holds among the requests of each.
 *
 * How it waits. While a caller waits for a request, the thread polls without sleeping. After a hundred fruitless
 * polls, some 15 us, it yields the processor after every poll (ranks may share processors); after about a
 * millisecond it sleeps 20 us between polls. While nobody waits, computing comes first: it sleeps between fruitless
 * polls, up to 1 ms. Without requests it yields for a hundred polls, because a timed sleep takes 8 us to begin and
 * as long to be woken from where timers are a virtual machine's, and a short sum takes no longer. Then it sleeps
 * until a request comes, but calls the transport now and then: some transports transfer sent data only in later
 * calls. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/threads.h"
#include "base/work.h"
#include "comm/engine.h"
#include "comm/exchange.h"
#include "comm/sum_algorithm.h"

void lvn_queue_push(struct lvn_queue *q, struct lvn_request *r)
{
    r->next = NULL;
    if (q->last)
        q->last->next = r;
    else
        q->first = r;
    q->last = r;
}

/* Remove r from the queue; `before` is its predecessor. */
static void unlink_after(struct lvn_queue *q, struct lvn_request *before, struct lvn_request *r)
{
    if (before)
        before->next = r->next;
    else
        q->first = r->next;
    if (q->last == r) q->last = before;
}

static bool is_awaited(const struct lvn_engine *c)
{
    return __atomic_load_n(&c->waiting, __ATOMIC_SEQ_CST) > 0;
}

/* After this the caller owns the request again. */
static void finish(struct lvn_engine *c, struct lvn_request *r, enum lvn_status status)
{
    r->status = status;
    __atomic_store_n(&r->done, 1, __ATOMIC_SEQ_CST);
    if (is_awaited(c)) {
        pthread_mutex_lock(&c->lock); /* a caller that has seen the request not done is waiting by now */
        pthread_mutex_unlock(&c->lock);
        pthread_cond_broadcast(&c->request_done);
    }
}

static const char *const kinds[] = {"reduction", "reduction",  "reduction",    "reduction",
                                    "broadcast", "message to", "message from", "call"};

/* A rank of the request's communicator, among all ranks. */
static int rank_among_all(const struct lvn_request *r, int rank)
{
    return r->group->member && rank >= 0 ? r->group->member[rank] : rank;
}

static void record_error(struct lvn_engine *c, const struct lvn_request *r, int code)
{
    char reason[256] = "";
    c->transport->error(r->group->state, code, reason, sizeof reason);
    pthread_mutex_lock(&c->lock);
    if (c->error == LVN_OK) {
        c->error = LVN_COMM;
        if (r->number >= 0)
            snprintf(c->whole.comm.text, sizeof c->whole.comm.text, "%s %lld of rank %d failed: %s", kinds[r->kind],
                     (long long)r->number, c->whole.comm.rank, reason);
        else
            snprintf(c->whole.comm.text, sizeof c->whole.comm.text, "a %s rank %d failed on rank %d: %s",
                     kinds[r->kind], rank_among_all(r, r->peer), c->whole.comm.rank, reason);
    }
    pthread_mutex_unlock(&c->lock);
}

/* --- issuing and polling --- */

/* Issue as much of a collective as possible; r->at counts the issued elements. Two parts may be in progress. */
static int issue(struct lvn_engine *c, struct lvn_request *r, bool *moved)
{
    const struct lvn_transport *t = c->transport;
    for (int h = 0; h < 2 && r->at < r->count; h++) {
        if (r->busy & 1 << h) continue;
        int64_t bytes = lvn_dtype_bytes((enum lvn_dtype)r->type), max = c->options.cut / bytes;
        int64_t n = r->count - r->at < max ? r->count - r->at : max;
        char *x = (char *)r->x + r->at * bytes;
        int code = r->kind == LVN_REQUEST_BROADCAST ? t->broadcast(r->group->state, x, n, r->peer, &r->handle[h])
                                                    : t->all_reduce(r->group->state, x, n, (enum lvn_dtype)r->type,
                                                                    (enum lvn_reduce)r->op, &r->handle[h]);
        if (code) return code;
        r->busy |= 1 << h;
        r->at += n;
        *moved = true;
    }
    return 0;
}

static int issue_message(struct lvn_engine *c, struct lvn_request *r)
{
    const struct lvn_transport *t = c->transport;
    int64_t cut = c->options.cut, whole = r->count / cut * cut, rest = r->count - whole;
    for (int h = 0; h < 2; h++) { /* a multiple of the cut as one message of long elements, then the rest */
        int64_t n = h ? rest : whole;
        if (!n && (h == 0 || whole)) continue; /* an empty message is sent, too */
        char *x = (char *)r->x + (h ? whole : 0);
        int code = r->kind == LVN_REQUEST_SEND ? t->send(r->group->state, x, n, r->peer, r->tag, &r->handle[h])
                                               : t->receive(r->group->state, x, n, r->peer, r->tag, &r->handle[h]);
        if (code) return code;
        r->busy |= 1 << h;
    }
    return 0;
}

static int poll_handles(struct lvn_engine *c, struct lvn_request *r, bool *moved)
{
    for (int h = 0; h < 2; h++) {
        int n = 0, index;
        if (!(r->busy & 1 << h)) continue;
        int code = c->transport->test(r->group->state, &r->handle[h], 1, &n, &index);
        if (code) return code;
        if (n) r->busy &= ~(1 << h);
        *moved |= n > 0;
    }
    return 0;
}

/* Later requests of the same communicator wait in this pass, so that all its ranks issue them in the same order; those
 * of others go on. */
static void hold(const struct lvn_engine *c, struct lvn_request *r)
{
    r->group->held = c->pass;
}

static bool is_held(const struct lvn_engine *c, const struct lvn_request *r)
{
    return r->group->held == c->pass;
}

static int poll_collectives(struct lvn_engine *c, bool *moved)
{
    struct lvn_request *before = NULL, *r = c->collectives.first, *next;
    c->pass++;
    for (; r; r = next) {
        next = r->next;
        if (is_held(c, r)) {
            before = r;
            continue;
        }
        int code = poll_handles(c, r, moved);
        if (!code) code = issue(c, r, moved);
        if (code) {
            record_error(c, r, code);
            return code;
        }
        bool issued = r->at == r->count;
        if (issued && !r->busy) {
            unlink_after(&c->collectives, before, r);
            finish(c, r, LVN_OK);
            *moved = true;
        } else {
            before = r;
        }
        if (!issued) hold(c, r); /* later ones are issued after all parts of this one */
    }
    return 0;
}

static int poll_messages(struct lvn_engine *c, bool *moved)
{
    struct lvn_request *before = NULL, *r = c->messages.first, *next;
    for (; r; r = next) {
        next = r->next;
        int code = poll_handles(c, r, moved);
        if (code) {
            record_error(c, r, code);
            return code;
        }
        if (!r->busy) {
            unlink_after(&c->messages, before, r);
            finish(c, r, LVN_OK);
        } else {
            before = r;
        }
    }
    return 0;
}

/* As with collectives: the next exchange begins when all of this one is in progress. */
static int poll_exchanges(struct lvn_engine *c, bool *moved)
{
    struct lvn_request *before = NULL, *r = c->exchanges.first, *next;
    c->pass++;
    for (; r; r = next) {
        bool issued, finished;
        next = r->next;
        if (is_held(c, r)) {
            before = r;
            continue;
        }
        int code = lvn_exchange_step(c, r, moved, &issued, &finished);
        if (code) {
            record_error(c, r, code);
            return code;
        }
        if (finished) {
            unlink_after(&c->exchanges, before, r);
            finish(c, r, LVN_OK);
            *moved = true;
        } else {
            before = r;
        }
        if (!issued) hold(c, r);
    }
    return 0;
}

/* Turn a gather into a sum of numbers of which all but one are 0, which is exact. */
static void gather_by_sum(struct lvn_request *r)
{
    const int64_t bytes = lvn_dtype_bytes((enum lvn_dtype)r->type), from = r->first[r->group->comm.rank] * bytes,
                  to = r->first[r->group->comm.rank + 1] * bytes, all = r->count * bytes;
    memset(r->x, 0, (size_t)from);
    memset((char *)r->x + to, 0, (size_t)(all - to));
    r->type = LVN_I32;
    r->count = all / (int64_t)sizeof(int32_t);
}

/* Does the transport's own collective perform it? That is faster for short data; a sum also serves where only a part
 * of it is needed. */
static bool is_library(struct lvn_request *r)
{
    const enum lvn_dtype type = (enum lvn_dtype)r->type;
    const int64_t bytes = r->count * lvn_dtype_bytes(type);
    const bool real = type == LVN_F32 || type == LVN_F64;
    if (r->kind == LVN_REQUEST_BROADCAST || r->op != LVN_SUM) return true;
    if (r->kind == LVN_REQUEST_TREE_REDUCE || type == LVN_BF16) return false;
    if (r->kind == LVN_REQUEST_ALL_REDUCE && !real) return true;
    if (lvn_sum_algorithm(r->group->comm.size, r->group->comm.hosts, bytes) != LVN_ALGORITHM_LIBRARY) return false;
    if (r->kind != LVN_REQUEST_ALL_GATHER) return true;
    if (bytes % (int64_t)sizeof(int32_t)) return false;
    gather_by_sum(r);
    return true;
}

static int take(struct lvn_engine *c, struct lvn_request *r)
{
    switch (r->kind) {
    case LVN_REQUEST_SEND:
    case LVN_REQUEST_RECEIVE:
        lvn_queue_push(&c->messages, r);
        return issue_message(c, r);
    case LVN_REQUEST_CALL:
        r->call(r->group->state, r->x);
        finish(c, r, LVN_OK);
        return 0;
    default:
        lvn_queue_push(is_library(r) ? &c->collectives : &c->exchanges, r);
        return 0;
    }
}

static bool pending(const struct lvn_engine *c)
{
    return c->collectives.first || c->messages.first || c->exchanges.first;
}

/* After an error all requests, current and later, fail. */
static void fail_all(struct lvn_engine *c)
{
    struct lvn_queue *all[] = {&c->collectives, &c->messages, &c->exchanges};
    for (int i = 0; i < 3; i++)
        while (all[i]->first) {
            struct lvn_request *r = all[i]->first;
            unlink_after(all[i], NULL, r);
            finish(c, r, LVN_COMM);
        }
}

/* --- the thread --- */

/* Sleep, unless there is work. awaited: is_awaited() when the caller decided to sleep. */
static void sleep_at_max(struct lvn_engine *c, int microseconds, bool awaited)
{
    struct timespec until = lvn_deadline(1e-6 * microseconds);
    pthread_mutex_lock(&c->lock);
    if (!c->submitted.first && !c->stop && awaited == is_awaited(c)) {
        c->asleep = true;
        (void)lvn_condition_wait(&c->work_available, &c->lock, &until);
        c->asleep = false;
    }
    pthread_mutex_unlock(&c->lock);
}

/* Grows with every fruitless poll. */
static int sleep_time(int64_t idle, int first, int max)
{
    return idle < 16 && first << idle < max ? first << idle : max;
}

/* Called after `idle` consecutive fruitless polls. */
static void back_off(struct lvn_engine *c, int64_t idle)
{
    enum {
        BRISK = 100,
        PATIENCE = 4000,
        SOON = 20,
        BUSY_FIRST = 30,
        BUSY_MAX = 1000,
        REST_FIRST = 50,
        REST_MAX = 10000
    };
    const bool awaited = is_awaited(c);
    if (!pending(c) && idle <= BRISK) {
        sched_yield();
    } else if (!pending(c)) {
        sleep_at_max(c, sleep_time(idle - BRISK, REST_FIRST, REST_MAX), awaited);
        c->transport->poke(c->whole.state);
    } else if (!awaited) {
        sleep_at_max(c, sleep_time(idle, BUSY_FIRST, BUSY_MAX), awaited);
    } else if (idle > PATIENCE) {
        sleep_at_max(c, SOON, awaited);
    } else if (idle > BRISK) {
        sched_yield();
    }
}

/* Report progress to the heartbeat (base/work.h), or, after some time without any, the rank that this one waits for.
 * The time is not counted in polls: between two of them a busy machine runs other programs. */
static void report_progress(struct lvn_engine *c, bool moved, int64_t idle)
{
    const double seconds = 0.1;
    const struct lvn_request *r = c->exchanges.first;
    if (moved) lvn_work_done(1);
    if (moved && c->wait_reported) lvn_work_set_blocking_rank(-1);
    if (moved) c->wait_reported = false;
    if (idle == 1) c->idle_since = lvn_seconds();
    if (!r || !idle || c->wait_reported || lvn_seconds() - c->idle_since < seconds) return;
    lvn_work_set_blocking_rank(rank_among_all(r, lvn_exchange_waits_for(c, r)));
    c->wait_reported = true;
}

/* Take the submitted requests; does not lock if there are none. */
static struct lvn_request *take_requests(struct lvn_engine *c, bool *stop)
{
    struct lvn_request *r = NULL;
    if (__atomic_load_n(&c->has_work, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&c->lock);
        r = c->submitted.first;
        c->submitted = (struct lvn_queue){0};
        *stop = c->stop;
        __atomic_store_n(&c->has_work, false, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&c->lock);
    }
    return r;
}

static void work(struct lvn_engine *c)
{
    int64_t idle = 0;
    for (bool stop = false; !stop || pending(c);) {
        struct lvn_request *r = take_requests(c, &stop), *next;
        bool moved = r != NULL, broken = c->error != LVN_OK;
        for (; r; r = next) {
            next = r->next;
            bool refused = broken && r->kind != LVN_REQUEST_CALL;
            int code = refused ? 0 : take(c, r);
            if (refused) finish(c, r, LVN_COMM);
            if (code) record_error(c, r, code), broken = true;
        }
        if (!broken) broken = poll_messages(c, &moved) || poll_collectives(c, &moved) || poll_exchanges(c, &moved);
        if (broken) fail_all(c);
        idle = moved ? 0 : idle + 1;
        report_progress(c, moved, idle);
        if (!moved && !(stop && !pending(c))) back_off(c, idle);
    }
}

static void configure_thread(const struct lvn_engine *c)
{
    prctl(PR_SET_TIMERSLACK, 1000UL, 0, 0, 0);
    pthread_setname_np(pthread_self(), "levin-comm");
    if (c->options.cpu > 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(c->options.cpu - 1, &set);
        (void)pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    }
}

void *lvn_engine_run(void *argument)
{
    struct lvn_engine *c = argument;
    configure_thread(c);
    enum lvn_status status = c->transport->join(&c->whole.state, &c->handle_bytes, &c->options, c->whole.comm.describe,
                                                (int)sizeof c->whole.comm.describe);
    pthread_mutex_lock(&c->lock);
    c->opened = status == LVN_OK ? 1 : -1;
    if (status != LVN_OK) {
        c->error = status;
        snprintf(c->whole.comm.text, sizeof c->whole.comm.text, "%s", lvn_error_text());
    }
    pthread_cond_broadcast(&c->request_done);
    pthread_mutex_unlock(&c->lock);
    if (status == LVN_OK) {
        work(c);
        if (c->error == LVN_OK) c->transport->barrier(c->whole.state);
        c->transport->release(c->whole.state);
    }
    pthread_mutex_lock(&c->lock);
    c->ended = true;
    pthread_cond_broadcast(&c->request_done);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

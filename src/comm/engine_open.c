/* engine_open.c - the callers' side of an engine: start its thread, hand it requests, wait for them, end it. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/threads.h"
#include "comm/engine.h"

/* Wait for the answer; false: none came in time. */
static bool joined(struct lvn_engine *c)
{
    struct timespec until = lvn_deadline(c->options.timeout + 1);
    bool in_time = true;
    pthread_mutex_lock(&c->lock);
    while (!c->opened && in_time)
        if (c->options.timeout > 0)
            in_time = lvn_condition_wait(&c->news, &c->lock, &until);
        else
            pthread_cond_wait(&c->news, &c->lock);
    in_time = c->opened;
    pthread_mutex_unlock(&c->lock);
    return in_time;
}

static enum lvn_status start(struct lvn_engine *c)
{
    if (c->options.cut <= 0) c->options.cut = (int64_t)1 << 30;
    c->options.cut = (c->options.cut + 63) / 64 * 64;
    pthread_mutex_init(&c->lock, NULL);
    lvn_condition_init(&c->bell);
    lvn_condition_init(&c->news);
    if (c->options.per_host > 0) c->comm.hosts = c->comm.size / c->options.per_host;
    LVN_TRY(lvn_tree_make(&c->flat, c->comm.size, c->comm.rank, c->comm.hosts, NULL));
    int code = lvn_thread_start(&c->thread, lvn_engine_run, c);
    if (code) c->opened = -1;
    LVN_CHECK(!code, MEMORY, "no thread for communication: %s", strerror(code));
    c->running = true;
    if (!joined(c)) {
        c->left = true;
        LVN_FAIL(COMM,
                 "rank %d of %d: the other ranks did not join within %g s; look whether all were started, and "
                 "whether these hosts reach each other",
                 c->comm.rank, c->comm.size, c->options.timeout);
    }
    if (c->opened < 0) return lvn_fail(c->trouble, "%s", c->comm.text);
    return LVN_OK;
}

/* Hand over a request, or the end, or only that somebody waits now. Who is woken wants the lock at once: it is free. */
static void ring(struct lvn_engine *c, struct lvn_request *r, bool stop)
{
    pthread_mutex_lock(&c->lock);
    bool asleep = c->asleep;
    c->asleep = false;
    c->stop |= stop;
    if (r) lvn_queue_push(&c->fresh, r);
    if (r || stop) __atomic_store_n(&c->rung, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&c->lock);
    if (asleep) pthread_cond_signal(&c->bell);
}

static void stop(struct lvn_engine *c)
{
    if (c->left) {
        pthread_detach(c->thread);
        return;
    }
    if (c->running) {
        /* An MPI that does not come back from its end is left alone: all has been done. */
        struct timespec until = lvn_deadline(20 + (c->options.timeout > 0 ? c->options.timeout : 60));
        bool in_time = true;
        ring(c, NULL, true);
        pthread_mutex_lock(&c->lock);
        while (!c->over && in_time) in_time = lvn_condition_wait(&c->news, &c->lock, &until);
        c->left = !c->over;
        pthread_mutex_unlock(&c->lock);
        if (c->left) {
            pthread_detach(c->thread);
            return;
        }
        pthread_join(c->thread, NULL);
    }
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->bell);
    pthread_cond_destroy(&c->news);
}

/* --- the callers' side --- */

static void submit(struct lvn_comm *comm, struct lvn_request *r)
{
    struct lvn_engine *c = (struct lvn_engine *)comm;
    if (!r->tree) r->tree = c->flat;
    ring(c, r, false);
}

/* Look for a moment, leaving the processor to the engine each time: short waits then cost no sleep and no wakening. */
static bool done_soon(const struct lvn_request *r)
{
    for (int i = 0; i < 100; i++) {
        if (lvn_request_done(r)) return true;
        sched_yield();
    }
    return lvn_request_done(r);
}

/* With the engine polling at its fastest. */
static void await(struct lvn_comm *comm, const struct lvn_request *r, const struct timespec *until)
{
    struct lvn_engine *c = (struct lvn_engine *)comm;
    bool in_time = true;
    __atomic_add_fetch(&c->waiting, 1, __ATOMIC_SEQ_CST);
    ring(c, NULL, false);
    if (!done_soon(r)) {
        pthread_mutex_lock(&c->lock);
        while (!lvn_request_done(r) && in_time) {
            if (until)
                in_time = lvn_condition_wait(&c->news, &c->lock, until);
            else
                pthread_cond_wait(&c->news, &c->lock);
        }
        pthread_mutex_unlock(&c->lock);
    }
    __atomic_sub_fetch(&c->waiting, 1, __ATOMIC_SEQ_CST);
}

static void abort_all(struct lvn_comm *comm, int code, double seconds)
{
    const struct lvn_transport *t = ((struct lvn_engine *)comm)->transport;
    struct last { /* of this process: nobody gives it back */
        struct lvn_request request;
        int code;
    } *last = t->abort ? lvn_malloc(sizeof *last) : NULL;
    if (!last) return;
    last->code = code;
    lvn_engine_call(comm, &last->request, t->abort, &last->code);
    (void)lvn_comm_wait_for(comm, &last->request, seconds);
}

static enum lvn_status set_hosts(struct lvn_comm *comm)
{
    struct lvn_engine *c = (struct lvn_engine *)comm;
    struct lvn_tree *flat;
    LVN_TRY(lvn_tree_make(&flat, comm->size, comm->rank, comm->hosts, NULL));
    lvn_tree_free(c->flat);
    c->flat = flat;
    return LVN_OK;
}

static void close_engine(struct lvn_comm *comm)
{
    struct lvn_engine *c = (struct lvn_engine *)comm;
    stop(c);
    if (c->left) return; /* the thread may still be inside a call, and uses it */
    lvn_tree_free(c->flat);
    free(c);
}

enum lvn_status lvn_engine_open(struct lvn_comm **out, const struct lvn_comm_options *o,
                                const struct lvn_transport *transport, void *argument)
{
    static const struct lvn_comm_ops ops = {
        .submit = submit, .wait = await, .set_hosts = set_hosts, .abort = abort_all, .close = close_engine};
    struct lvn_engine *c = lvn_calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return LVN_MEMORY;
    lvn_comm_init(&c->comm, &ops, o->rank, o->size);
    c->options = *o;
    c->transport = transport;
    c->state = argument;
    enum lvn_status status = start(c);
    if (status == LVN_OK)
        *out = &c->comm;
    else
        close_engine(&c->comm);
    return status;
}

/* engine_open.c - the callers' side of an engine: start its thread, submit requests, wait for them, end the thread. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/threads.h"
#include "comm/engine.h"
#include "comm/tree.h"

/* Wait until join() has returned; false: not within the timeout. */
static bool wait_until_opened(struct lvn_engine *c)
{
    struct timespec until = lvn_deadline(c->options.timeout + 1);
    bool in_time = true;
    pthread_mutex_lock(&c->lock);
    while (!c->opened && in_time)
        if (c->options.timeout > 0)
            in_time = lvn_condition_wait(&c->request_done, &c->lock, &until);
        else
            pthread_cond_wait(&c->request_done, &c->lock);
    in_time = c->opened;
    pthread_mutex_unlock(&c->lock);
    return in_time;
}

static enum lvn_status start(struct lvn_engine *c)
{
    if (c->options.cut <= 0) c->options.cut = (int64_t)1 << 30;
    c->options.cut = (c->options.cut + 63) / 64 * 64;
    pthread_mutex_init(&c->lock, NULL);
    lvn_condition_init(&c->work_available);
    lvn_condition_init(&c->request_done);
    if (c->options.per_host > 0) c->whole.comm.hosts = c->whole.comm.size / c->options.per_host;
    LVN_TRY(lvn_tree_make(&c->whole.flat, c->whole.comm.size, c->whole.comm.rank, c->whole.comm.hosts, NULL));
    int code = lvn_thread_start(&c->thread, lvn_engine_run, c);
    if (code) c->opened = -1;
    LVN_CHECK(!code, MEMORY, "no thread for communication: %s", strerror(code));
    c->running = true;
    if (!wait_until_opened(c)) {
        c->abandoned = true;
        LVN_FAIL(COMM,
                 "rank %d of %d: the other ranks did not join within %g s; check that all were started, and that these "
                 "hosts reach each other",
                 c->whole.comm.rank, c->whole.comm.size, c->options.timeout);
    }
    if (c->opened < 0) return lvn_fail(c->error, "%s", c->whole.comm.text);
    return LVN_OK;
}

/* Submit a request, or the end, or only notify the thread that a caller waits. Signals after unlocking, because the
 * thread needs the lock at once. */
static void notify(struct lvn_engine *c, struct lvn_request *r, bool stop)
{
    pthread_mutex_lock(&c->lock);
    bool asleep = c->asleep;
    c->asleep = false;
    c->stop |= stop;
    if (r) lvn_queue_push(&c->submitted, r);
    if (r || stop) __atomic_store_n(&c->has_work, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&c->lock);
    if (asleep) pthread_cond_signal(&c->work_available);
}

static void stop(struct lvn_engine *c)
{
    if (c->abandoned) {
        pthread_detach(c->thread);
        return;
    }
    if (c->running) {
        /* An MPI that does not return from MPI_Finalize is abandoned: all requests are done. */
        struct timespec until = lvn_deadline(20 + (c->options.timeout > 0 ? c->options.timeout : 60));
        bool in_time = true;
        notify(c, NULL, true);
        pthread_mutex_lock(&c->lock);
        while (!c->ended && in_time) in_time = lvn_condition_wait(&c->request_done, &c->lock, &until);
        c->abandoned = !c->ended;
        pthread_mutex_unlock(&c->lock);
        if (c->abandoned) {
            pthread_detach(c->thread);
            return;
        }
        pthread_join(c->thread, NULL);
    }
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->work_available);
    pthread_cond_destroy(&c->request_done);
}

/* --- the callers' side --- */

static struct lvn_engine_group *group_of(struct lvn_comm *comm)
{
    return (struct lvn_engine_group *)comm;
}

static void submit(struct lvn_comm *comm, struct lvn_request *r)
{
    r->group = group_of(comm);
    if (!r->tree) r->tree = r->group->flat;
    notify(r->group->engine, r, false);
}

/* Poll for a moment, yielding to the engine's thread each time: short waits then need no sleep and no wake-up. */
static bool done_soon(const struct lvn_request *r)
{
    for (int i = 0; i < 100; i++) {
        if (lvn_request_done(r)) return true;
        sched_yield();
    }
    return lvn_request_done(r);
}

/* Wait, while the engine's thread polls without sleeping. */
static void await(struct lvn_comm *comm, struct lvn_request *r, const struct timespec *until)
{
    struct lvn_engine *c = group_of(comm)->engine;
    bool in_time = true;
    __atomic_add_fetch(&c->waiting, 1, __ATOMIC_SEQ_CST);
    notify(c, NULL, false);
    if (!done_soon(r)) {
        pthread_mutex_lock(&c->lock);
        while (!lvn_request_done(r) && in_time) {
            if (until)
                in_time = lvn_condition_wait(&c->request_done, &c->lock, until);
            else
                pthread_cond_wait(&c->request_done, &c->lock);
        }
        pthread_mutex_unlock(&c->lock);
    }
    __atomic_sub_fetch(&c->waiting, 1, __ATOMIC_SEQ_CST);
}

static void abort_all(struct lvn_comm *comm, int code, double seconds)
{
    struct lvn_comm *whole = &group_of(comm)->engine->whole.comm;
    const struct lvn_transport *t = group_of(comm)->engine->transport;
    struct last { /* never freed: the process is about to end */
        struct lvn_request request;
        int code;
    } *last = t->abort ? lvn_malloc(sizeof *last) : NULL;
    if (!last) return;
    last->code = code;
    lvn_engine_call(whole, &last->request, t->abort, &last->code);
    (void)lvn_comm_wait_for(whole, &last->request, seconds);
}

static enum lvn_status set_hosts(struct lvn_comm *comm)
{
    struct lvn_engine_group *g = group_of(comm);
    struct lvn_tree *flat;
    LVN_TRY(lvn_tree_make(&flat, comm->size, comm->rank, comm->hosts, NULL));
    lvn_tree_free(g->flat);
    g->flat = flat;
    return LVN_OK;
}

static void close_engine(struct lvn_comm *comm)
{
    struct lvn_engine *c = group_of(comm)->engine;
    if (group_of(comm) != &c->whole) {
        lvn_engine_group_close(group_of(comm));
        return;
    }
    stop(c);
    if (c->abandoned) return; /* the thread may still be inside a call, and use it */
    lvn_tree_free(c->whole.flat);
    free(c);
}

enum lvn_status lvn_engine_open(struct lvn_comm **out, const struct lvn_comm_options *o,
                                const struct lvn_transport *transport, void *argument)
{
    static const struct lvn_comm_ops ops = {.submit = submit,
                                            .wait = await,
                                            .set_hosts = set_hosts,
                                            .abort = abort_all,
                                            .split = lvn_engine_split,
                                            .close = close_engine};
    struct lvn_engine *c = lvn_calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return LVN_MEMORY;
    lvn_comm_init(&c->whole.comm, &ops, o->rank, o->size);
    c->whole.engine = c;
    c->options = *o;
    c->transport = transport;
    c->whole.state = argument;
    enum lvn_status status = start(c);
    if (status == LVN_OK)
        *out = &c->whole.comm;
    else
        close_engine(&c->whole.comm);
    return status;
}

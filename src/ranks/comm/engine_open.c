/* engine_open.c - the callers' side of an engine: start its thread, submit requests, wait for them, stop the thread. */
#include <sched.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/threads.h"
#include "comm/engine.h"
#include "comm/tree.h"

/* Wait until join() has returned; false after the timeout. */
static bool wait_until_opened(struct lvn_engine *engine)
{
    struct timespec until = lvn_deadline(engine->options.timeout + 1);
    bool in_time = true;
    pthread_mutex_lock(&engine->lock);
    while (!engine->opened && in_time)
        if (engine->options.timeout > 0)
            in_time = lvn_condition_wait(&engine->request_done, &engine->lock, &until);
        else
            pthread_cond_wait(&engine->request_done, &engine->lock);
    in_time = engine->opened;
    pthread_mutex_unlock(&engine->lock);
    return in_time;
}

static enum lvn_status start(struct lvn_engine *engine)
{
    int64_t *max = &engine->options.max_message_bytes;
    if (*max <= 0) *max = (int64_t)1 << 30;
    *max = (*max + 63) / 64 * 64;
    pthread_mutex_init(&engine->lock, NULL);
    lvn_condition_init(&engine->work_available);
    lvn_condition_init(&engine->request_done);
    if (engine->options.per_host > 0) engine->whole.comm.hosts = engine->whole.comm.size / engine->options.per_host;
    LVN_TRY(lvn_tree_new_for(&engine->whole.flat, engine->whole.comm.size, engine->whole.comm.rank,
                             engine->whole.comm.hosts, NULL));
    int code = lvn_thread_start(&engine->thread, lvn_engine_run, engine);
    if (code) engine->opened = -1;
    LVN_CHECK(!code, MEMORY, "cannot start the communication thread: %s", strerror(code));
    engine->running = true;
    if (!wait_until_opened(engine)) {
        engine->abandoned = true;
        LVN_FAIL(COMM,
                 "rank %d of %d: the other ranks did not join within %g s; check that all were started, and that the "
                 "hosts can reach each other",
                 engine->whole.comm.rank, engine->whole.comm.size, engine->options.timeout);
    }
    if (engine->opened < 0) return lvn_fail(engine->error, "%s", engine->whole.comm.text);
    return LVN_OK;
}

/* Submit a request, or request the end, or only wake the thread because a caller waits. Signals after unlocking,
 * because the thread immediately acquires the lock. */
static void notify(struct lvn_engine *engine, struct lvn_request *request, bool stop)
{
    pthread_mutex_lock(&engine->lock);
    bool asleep = engine->asleep;
    engine->asleep = false;
    engine->stop |= stop;
    if (request) lvn_queue_push(&engine->submitted, request);
    if (request || stop) __atomic_store_n(&engine->has_work, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&engine->lock);
    if (asleep) pthread_cond_signal(&engine->work_available);
}

static void stop(struct lvn_engine *engine)
{
    if (engine->abandoned) {
        pthread_detach(engine->thread);
        return;
    }
    if (engine->running) {
        /* All requests are complete, so if MPI_Finalize does not return the thread is abandoned. */
        struct timespec until = lvn_deadline(20 + (engine->options.timeout > 0 ? engine->options.timeout : 60));
        bool in_time = true;
        notify(engine, NULL, true);
        pthread_mutex_lock(&engine->lock);
        while (!engine->ended && in_time) in_time = lvn_condition_wait(&engine->request_done, &engine->lock, &until);
        engine->abandoned = !engine->ended;
        pthread_mutex_unlock(&engine->lock);
        if (engine->abandoned) {
            pthread_detach(engine->thread);
            return;
        }
        pthread_join(engine->thread, NULL);
    }
    pthread_mutex_destroy(&engine->lock);
    pthread_cond_destroy(&engine->work_available);
    pthread_cond_destroy(&engine->request_done);
}

/* --- the callers' side --- */

static struct lvn_engine_group *group_of(struct lvn_comm *comm)
{
    return (struct lvn_engine_group *)comm;
}

static void submit(struct lvn_comm *comm, struct lvn_request *request)
{
    request->group = group_of(comm);
    if (!request->tree) request->tree = request->group->flat;
    notify(request->group->engine, request, false);
}

/* Poll briefly, yielding to the engine's thread each time: short waits then need no sleep and no wake-up. */
static bool done_soon(const struct lvn_request *request)
{
    for (int i = 0; i < 100; i++) {
        if (lvn_request_done(request)) return true;
        sched_yield();
    }
    return lvn_request_done(request);
}

/* Wait, while the engine's thread polls without sleeping. */
static void await(struct lvn_comm *comm, struct lvn_request *request, const struct timespec *until)
{
    struct lvn_engine *engine = group_of(comm)->engine;
    bool in_time = true;
    __atomic_add_fetch(&engine->waiting, 1, __ATOMIC_SEQ_CST);
    notify(engine, NULL, false);
    if (!done_soon(request)) {
        pthread_mutex_lock(&engine->lock);
        while (!lvn_request_done(request) && in_time) {
            if (until)
                in_time = lvn_condition_wait(&engine->request_done, &engine->lock, until);
            else
                pthread_cond_wait(&engine->request_done, &engine->lock);
        }
        pthread_mutex_unlock(&engine->lock);
    }
    __atomic_sub_fetch(&engine->waiting, 1, __ATOMIC_SEQ_CST);
}

static void abort_all(struct lvn_comm *comm, int code, double seconds)
{
    struct lvn_comm *whole = &group_of(comm)->engine->whole.comm;
    const struct lvn_transport *transport = group_of(comm)->engine->transport;
    struct last { /* never freed: the process is about to terminate */
        struct lvn_request request;
        int code;
    } *last = transport->abort ? lvn_malloc(sizeof *last) : NULL;
    if (!last) return;
    last->code = code;
    lvn_engine_call(whole, &last->request, transport->abort, &last->code);
    (void)lvn_comm_wait_for(whole, &last->request, seconds);
}

static enum lvn_status set_hosts(struct lvn_comm *comm)
{
    struct lvn_engine_group *group = group_of(comm);
    struct lvn_tree *flat;
    LVN_TRY(lvn_tree_new_for(&flat, comm->size, comm->rank, comm->hosts, NULL));
    lvn_tree_free(group->flat);
    group->flat = flat;
    return LVN_OK;
}

static void close_engine(struct lvn_comm *comm)
{
    struct lvn_engine *engine = group_of(comm)->engine;
    if (group_of(comm) != &engine->whole) {
        lvn_engine_group_close(group_of(comm));
        return;
    }
    stop(engine);
    if (engine->abandoned) return; /* the thread may still use it inside a call */
    lvn_tree_free(engine->whole.flat);
    free(engine);
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
    struct lvn_engine *engine = lvn_calloc(1, sizeof *engine);
    *out = NULL;
    if (!engine) return LVN_MEMORY;
    lvn_comm_init(&engine->whole.comm, &ops, o->rank, o->size);
    engine->whole.engine = engine;
    engine->options = *o;
    engine->transport = transport;
    engine->whole.state = argument;
    enum lvn_status status = start(engine);
    if (status == LVN_OK)
        *out = &engine->whole.comm;
    else
        close_engine(&engine->whole.comm);
    return status;
}

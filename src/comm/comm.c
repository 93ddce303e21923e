/* comm.c - the caller's side: fill a request, hand it to the engine's thread, wait for it.
 *
 * With one rank there is no thread: what is asked for is done, or needs no doing, before the call returns. */
#include "comm/comm.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/deadline.h"
#include "comm/engine.h"

/* Vectors from this many bytes on are cut into pieces that every rank adds a share of; shorter ones go to the MPI's own
 * reduction, which knows better how to send few bytes to many. */
enum { LONG_VECTOR = 64 << 10 };

int64_t lvn_request_first(const struct lvn_request *r, int size, int i)
{
    if (r->first) return r->first[i];
    int64_t line = 64, lines = (r->count + line - 1) / line, at = lines * i / size * line;
    return at < r->count ? at : r->count;
}

enum lvn_status lvn_comm_open_over(struct lvn_comm **out, const struct lvn_comm_options *o,
                                   const struct lvn_transport *transport, void *argument)
{
    *out = NULL;
    LVN_CHECK(o->size >= 1 && o->rank >= 0 && o->rank < o->size, ARG, "rank %d of %d ranks: there is no such rank",
              o->rank, o->size);
    struct lvn_comm *c = lvn_calloc(1, sizeof *c);
    if (!c) return LVN_MEMORY;
    c->rank = o->rank;
    c->size = o->size;
    c->options = *o;
    c->transport = o->size > 1 ? transport : NULL;
    c->state = argument;
    memcpy(c->describe, "one rank", sizeof "one rank");
    enum lvn_status status = c->transport ? lvn_engine_start(c) : LVN_OK;
    if (status == LVN_OK)
        *out = c;
    else
        lvn_comm_close(c);
    return status;
}

enum lvn_status lvn_comm_open(struct lvn_comm **out, const struct lvn_comm_options *o)
{
    return lvn_comm_open_over(out, o, &lvn_transport_mpi, NULL);
}

void lvn_comm_close(struct lvn_comm *c)
{
    if (!c) return;
    if (c->transport) lvn_engine_stop(c);
    if (c->left) return; /* the engine's thread may still be inside a call, and uses it */
    lvn_tree_free(c->flat);
    free(c);
}

int lvn_comm_rank(const struct lvn_comm *c)
{
    return c->rank;
}

int lvn_comm_size(const struct lvn_comm *c)
{
    return c->size;
}

const char *lvn_comm_describe(const struct lvn_comm *c)
{
    return c->describe;
}

/* --- requests --- */

static void submit(struct lvn_comm *c, struct lvn_request *r, bool collective)
{
    r->number = collective ? c->number++ : -1;
    if (!c->transport) {
        __atomic_store_n(&r->done, 1, __ATOMIC_RELEASE);
        return;
    }
    pthread_mutex_lock(&c->lock);
    if (c->fresh.last)
        c->fresh.last->next = r;
    else
        c->fresh.first = r;
    c->fresh.last = r;
    if (c->asleep) pthread_cond_signal(&c->bell);
    pthread_mutex_unlock(&c->lock);
}

void lvn_comm_all_reduce(struct lvn_comm *c, struct lvn_request *r, void *x, int64_t count, enum lvn_dtype type,
                         enum lvn_reduce op)
{
    bool exchange =
        op == LVN_SUM &&
        (type == LVN_BF16 || ((type == LVN_F32 || type == LVN_F64) && count * lvn_dtype_bytes(type) >= LONG_VECTOR));
    *r = (struct lvn_request){.kind = exchange ? LVN_R_EXCHANGE : LVN_R_REDUCE,
                              .x = x,
                              .count = count,
                              .type = (int)type,
                              .op = (int)op,
                              .tree = c->flat,
                              .partial = NULL,
                              .sum = true,
                              .gather = true};
    submit(c, r, true);
}

void lvn_comm_reduce_scatter(struct lvn_comm *c, struct lvn_request *r, void *x, const int64_t *first,
                             enum lvn_dtype type)
{
    *r = (struct lvn_request){.kind = LVN_R_EXCHANGE,
                              .x = x,
                              .first = first,
                              .count = first[c->size],
                              .type = (int)type,
                              .tree = c->flat,
                              .sum = true};
    submit(c, r, true);
}

void lvn_comm_all_gather(struct lvn_comm *c, struct lvn_request *r, void *x, const int64_t *first, enum lvn_dtype type)
{
    *r = (struct lvn_request){.kind = LVN_R_EXCHANGE,
                              .x = x,
                              .first = first,
                              .count = first[c->size],
                              .type = (int)type,
                              .tree = c->flat,
                              .gather = true};
    submit(c, r, true);
}

void lvn_comm_tree_reduce(struct lvn_comm *c, struct lvn_request *r, struct lvn_tree *t, void *const *partial,
                          void *out, const int64_t *first, enum lvn_dtype type, bool gather)
{
    *r = (struct lvn_request){.kind = LVN_R_EXCHANGE,
                              .x = out,
                              .partial = partial,
                              .first = first,
                              .count = first[c->size],
                              .type = (int)type,
                              .tree = t,
                              .sum = true,
                              .gather = gather};
    if (c->size == 1 && partial[0] != out) memcpy(out, partial[0], (size_t)(r->count * lvn_dtype_bytes(type)));
    submit(c, r, true);
}

void lvn_comm_broadcast(struct lvn_comm *c, struct lvn_request *r, void *x, int64_t bytes, int root)
{
    *r = (struct lvn_request){.kind = LVN_R_BROADCAST, .x = x, .count = bytes, .type = LVN_U8, .peer = root};
    submit(c, r, true);
}

void lvn_comm_send(struct lvn_comm *c, struct lvn_request *r, const void *x, int64_t bytes, int to, int tag)
{
    union {
        const void *in;
        void *x;
    } buffer = {.in = x}; /* only read */
    *r =
        (struct lvn_request){.kind = LVN_R_SEND, .x = buffer.x, .count = bytes, .type = LVN_U8, .peer = to, .tag = tag};
    submit(c, r, false);
}

void lvn_comm_receive(struct lvn_comm *c, struct lvn_request *r, void *x, int64_t bytes, int from, int tag)
{
    *r = (struct lvn_request){.kind = LVN_R_RECEIVE, .x = x, .count = bytes, .type = LVN_U8, .peer = from, .tag = tag};
    submit(c, r, false);
}

void lvn_engine_call(struct lvn_comm *c, struct lvn_request *r, void (*call)(void *state, void *argument),
                     void *argument)
{
    *r = (struct lvn_request){.kind = LVN_R_CALL, .x = argument, .call = call};
    if (!c->transport) call(c->state, argument);
    submit(c, r, false);
}

/* --- waiting --- */

bool lvn_request_done(const struct lvn_request *r)
{
    return __atomic_load_n(&r->done, __ATOMIC_ACQUIRE) != 0;
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

/* Until `until` (NULL: for ever), with the engine polling at its fastest. */
static void await(struct lvn_comm *c, const struct lvn_request *r, const struct timespec *until)
{
    bool in_time = true;
    __atomic_add_fetch(&c->waiting, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_lock(&c->lock);
    if (c->asleep) pthread_cond_signal(&c->bell);
    pthread_mutex_unlock(&c->lock);
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

bool lvn_comm_wait_for(struct lvn_comm *c, struct lvn_request *r, double seconds)
{
    struct timespec until = lvn_deadline(seconds + 1);
    if (!lvn_request_done(r)) await(c, r, &until);
    return lvn_request_done(r);
}

enum lvn_status lvn_comm_wait(struct lvn_comm *c, struct lvn_request *r)
{
    if (!lvn_request_done(r)) await(c, r, NULL);
    if (r->status == LVN_OK) return LVN_OK;
    LVN_FAIL(COMM, "%s", c->text);
}

void lvn_comm_abort(struct lvn_comm *c, int code, double seconds)
{
    struct last { /* of this process: nobody gives it back */
        struct lvn_request request;
        int code;
    } *last = c->transport && c->transport->abort ? lvn_malloc(sizeof *last) : NULL;
    if (!last) return;
    last->code = code;
    lvn_engine_call(c, &last->request, c->transport->abort, &last->code);
    (void)lvn_comm_wait_for(c, &last->request, seconds);
}

enum lvn_status lvn_comm_all_reduce_now(struct lvn_comm *c, void *x, int64_t count, enum lvn_dtype type,
                                        enum lvn_reduce op)
{
    struct lvn_request r;
    lvn_comm_all_reduce(c, &r, x, count, type, op);
    return lvn_comm_wait(c, &r);
}

enum lvn_status lvn_comm_broadcast_now(struct lvn_comm *c, void *x, int64_t bytes, int root)
{
    struct lvn_request r;
    lvn_comm_broadcast(c, &r, x, bytes, root);
    return lvn_comm_wait(c, &r);
}

/* --- trees --- */

enum lvn_status lvn_tree_new(struct lvn_tree **out, const struct lvn_comm *c, const int64_t *leaf)
{
    return lvn_tree_make(out, c->size, c->rank, leaf);
}

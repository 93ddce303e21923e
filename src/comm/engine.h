/* engine.h - a communicator over a transport: a thread with queues of requests. comm.c opens it; bench_comm and
 * tests measure it.
 *
 * Callers submit requests to a queue; one thread (engine.c) issues and polls them. A transport moves bytes between
 * ranks; all its calls are nonblocking, and made by that thread: mpi.c, tcp.c, or threads of one process in tests.
 * exchange.c builds sums and gathers of long vectors of messages. */
#ifndef LVN_ENGINE_H
#define LVN_ENGINE_H

#include <pthread.h>

#include "comm/comm_private.h"

/* A transport. Handles of operations in progress are as long as join() says, at most 8 bytes; the transport has a
 * value for a null handle. Calls return 0, or an error code for `error`. */
struct lvn_transport {
    /* Join the other ranks. *state: in, the argument of lvn_engine_open(); out, the state that is passed to the
     * other calls. describe: a text for people. */
    enum lvn_status (*join)(void **state, int *handle_bytes, const struct lvn_comm_options *o, char *describe,
                            int describe_bytes);
    /* Collective: all ranks have finished. */
    void (*barrier)(void *state);
    /* Free the state, also where the other ranks have not finished. */
    void (*release)(void *state);
    void (*clear)(void *state, void *handle); /* set it to the null handle */
    int (*send)(void *state, const void *x, int64_t bytes, int to, int tag, void *handle);
    int (*receive)(void *state, void *x, int64_t bytes, int from, int tag, void *handle);
    int (*all_reduce)(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op, void *handle);
    /* Blocking: for measurements only. */
    int (*all_reduce_blocking)(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op);
    int (*broadcast)(void *state, void *x, int64_t bytes, int root, void *handle);
    /* Which of n handles are done (they become null handles): *n_done indices in `done`. */
    int (*test)(void *state, void *handles, int n, int *n_done, int *done);
    void (*poke)(void *state); /* make progress for other ranks while nothing is in progress here */
    void (*error)(void *state, int code, char *text, int bytes);
    void (*abort)(void *state, void *code); /* end all ranks with *(int *)code; NULL: not possible */
};

struct lvn_queue {
    struct lvn_request *first, *last;
};

struct lvn_engine {
    struct lvn_comm comm;
    struct lvn_comm_options options;
    const struct lvn_transport *transport;
    void *state;
    int handle_bytes;
    struct lvn_tree *flat; /* for plain sums: one leaf per rank */

    pthread_t thread;
    pthread_mutex_t lock;          /* guards all fields up to the blank line */
    pthread_cond_t work_available; /* signals the engine's thread */
    pthread_cond_t request_done;   /* signals waiting callers */
    struct lvn_queue submitted;    /* requests that the thread has not taken yet */
    int opened;                    /* join(): 1: succeeded, -1: failed, 0: in progress */
    bool stop;                     /* the thread shall end when all requests are done */
    bool asleep;                   /* the thread waits for work_available */
    bool abandoned;                /* the thread is stuck inside a call of the transport */
    bool running;                  /* the thread was started */
    bool ended;                    /* the thread has ended */
    enum lvn_status error;         /* of the first failure; its message is comm.text */

    int waiting;   /* number of callers that wait; atomic */
    bool has_work; /* `submitted` is not empty, or `stop` is set; atomic */
    /* used by the thread alone */
    struct lvn_queue collectives, messages, exchanges;
    bool wait_reported; /* lvn_work_set_blocking_rank() names the rank that it waits for */
};

/* Open an engine over `transport`; o->size is above 1. argument: for its join(). */
enum lvn_status lvn_engine_open(struct lvn_comm **out, const struct lvn_comm_options *o,
                                const struct lvn_transport *transport, void *argument) LVN_CHECKED;
/* The thread of a struct lvn_engine. */
void *lvn_engine_run(void *engine);
void lvn_queue_push(struct lvn_queue *q, struct lvn_request *r);
/* exchange.c uses tags above those of callers. */
enum { LVN_TAGS = 16384 };

#endif

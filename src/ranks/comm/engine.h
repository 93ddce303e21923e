/* engine.h - a communicator on top of a transport: a thread with queues of requests. comm.c opens it; bench_comm and
 * tests measure it.
 *
 * Callers submit requests to a queue; one thread (engine.c) issues and polls them. A transport (mpi.c, tcp.c, or
 * threads of one process in tests) moves bytes between ranks. That thread makes all its calls; join(), barrier(),
 * split() and all_reduce_blocking() may block, no others.
 * exchange.c implements reductions and gathers of long vectors with messages. */
#ifndef LVN_ENGINE_H
#define LVN_ENGINE_H

#include <pthread.h>

#include "comm/comm_private.h"

/* This rank's group in a call of lvn_comm_split(). */
struct lvn_group_split {
    int *member; /* [n] ranks of the divided communicator, in the order of the group; NULL: this rank joins no group */
    int n;
    int rank;   /* of this rank in the group */
    int number; /* of the call, 0 <= number < LVN_GROUPS; groups with a common rank have different numbers */
};

/* A transport. A handle of an operation has handle_bytes bytes, at most LVN_HANDLE_BYTES; clear() sets it to the
 * transport's null handle. Calls return 0, or an error code for `error`. After an error, memory of unfinished
 * operations may be freed: only abort, release_group and release are still called, and they must not transfer data. */
enum { LVN_HANDLE_BYTES = 8 };
struct lvn_transport {
    /* Join the other ranks. *state: in, the argument of lvn_engine_open(); out, the state that is passed to the
     * other calls. description: for display. */
    enum lvn_status (*join)(void **state, int *handle_bytes, const struct lvn_comm_options *o, char *description,
                            int description_bytes);
    /* Collective: all ranks have finished. */
    void (*barrier)(void *state);
    /* Free the state; the other ranks may not have finished. */
    void (*release)(void *state);
    void (*clear)(void *state, void *handle); /* set it to the null handle */
    int (*send)(void *state, const void *x, int64_t bytes, int to, int tag, void *handle);
    int (*receive)(void *state, void *x, int64_t bytes, int from, int tag, void *handle);
    int (*all_reduce)(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op, void *handle);
    /* Blocking: for measurements only. */
    int (*all_reduce_blocking)(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op);
    int (*broadcast)(void *state, void *x, int64_t bytes, int root, void *handle);
    /* Which of n handles are complete (they become null handles): *n_done indices in `done`. */
    int (*test)(void *state, void *handles, int n, int *n_done, int *done);
    void (*make_progress)(void *state); /* for other ranks, while this rank has no request in progress */
    void (*error)(void *state, int code, char *text, int bytes);
    void (*abort)(void *state, void *code); /* terminate all ranks with *(int *)code; NULL: not supported */
    /* Create the state of a group for the calls from clear() to error(), which then use ranks
     * of the group; *group remains NULL if this rank joins none. Messages and reductions of a
     * group never match those of `state` or of other groups. Collective over `state`; it may
     * block. NULL: groups are not supported. */
    enum lvn_status (*split)(void *state, const struct lvn_group_split *s, void **group);
    void (*release_group)(void *group, bool failed); /* failed: after an error */
};

struct lvn_queue {
    struct lvn_request *first, *last;
};

/* A communicator of an engine: all its ranks, or a group (lvn_comm_split()). They share thread, queues and error. */
struct lvn_engine_group {
    struct lvn_comm comm;
    struct lvn_engine *engine;
    void *state;           /* the transport's */
    int *member;           /* [size] its ranks among all; NULL: all ranks */
    struct lvn_tree *flat; /* for plain sums: one leaf per rank */
    int64_t held;          /* the pass in which later requests of this group must not be issued; see hold() */
};

struct lvn_engine {
    struct lvn_engine_group whole;
    struct lvn_comm_options options;
    const struct lvn_transport *transport;
    int handle_bytes;
    int next_group; /* number of the next group; accessed by callers only */

    pthread_t thread;
    pthread_mutex_t lock;          /* guards the fields up to the blank line */
    pthread_cond_t work_available; /* wakes the engine's thread */
    pthread_cond_t request_done;   /* wakes waiting callers */
    struct lvn_queue submitted;    /* requests that the thread has not accepted yet */
    int opened;                    /* join(): 1: succeeded, -1: failed, 0: in progress */
    bool stop;                     /* the thread shall terminate when all requests are complete */
    bool asleep;                   /* the thread waits for work_available */
    bool abandoned;                /* the thread does not return from a call of the transport */
    bool running;                  /* the thread was started */
    bool ended;                    /* the thread has terminated */
    enum lvn_status error;         /* the first error; its message is comm.text */

    int waiting;   /* number of waiting callers; atomic */
    bool has_work; /* `submitted` is not empty, or `stop` is set; atomic */
    /* accessed by the thread only */
    struct lvn_queue collectives, messages, exchanges;
    int64_t pass;       /* number of passes over the queues; see struct lvn_engine_group */
    bool wait_reported; /* lvn_work_set_blocking_rank() was called since the last progress */
    double idle_since;  /* lvn_seconds() of the first poll without progress */
};

/* Open an engine on `transport`; o->size is at least 2. argument: for its join(). */
enum lvn_status lvn_engine_open(struct lvn_comm **out, const struct lvn_comm_options *o,
                                const struct lvn_transport *transport, void *argument) LVN_CHECKED;
/* engine_split.c: for lvn_comm_split(). */
enum lvn_status lvn_engine_split(struct lvn_comm *comm, struct lvn_comm **out, int color, int key) LVN_CHECKED;
void lvn_engine_group_close(struct lvn_engine_group *group); /* not for `whole` */
/* The thread of a struct lvn_engine. */
void *lvn_engine_run(void *engine);
void lvn_queue_push(struct lvn_queue *queue, struct lvn_request *request);
/* Callers use tags below LVN_TAGS; exchange.c uses higher ones. Numbers of groups are below LVN_GROUPS. */
enum { LVN_TAGS = 16384, LVN_GROUPS = 16384 - 1 };

#endif

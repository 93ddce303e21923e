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

/* The group of this rank in a call of lvn_comm_split(). */
struct lvn_group_split {
    int *member; /* [n] ranks of the communicator that is divided, in the order of the group's; NULL: this rank is in
                    none */
    int n;
    int rank;   /* of this rank in the group */
    int number; /* of the call, from 0, below LVN_GROUPS: no two groups with a common rank have the same one */
};

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
    /* Make the state of a group, for the calls between clear() and error(), whose ranks are those of the group; *group
     * stays NULL where this rank is in none. The messages and reductions of a group never meet those of `state` or of
     * other groups. All ranks of `state` have arrived, and call it; it may wait for them. NULL: there are no groups. */
    enum lvn_status (*split)(void *state, const struct lvn_group_split *s, void **group);
    void (*release_group)(void *group);
};

struct lvn_queue {
    struct lvn_request *first, *last;
};

/* A communicator over an engine: of all its ranks, or of some (lvn_comm_split()). They share thread, queues and error.
 */
struct lvn_engine_group {
    struct lvn_comm comm;
    struct lvn_engine *engine;
    void *state;           /* the transport's */
    int *member;           /* [size] its ranks among all; NULL: they are all */
    struct lvn_tree *flat; /* for plain sums: one leaf per rank */
    int64_t held;          /* of the last pass over a queue in which one of its requests could not be issued whole */
};

struct lvn_engine {
    struct lvn_engine_group whole;
    struct lvn_comm_options options;
    const struct lvn_transport *transport;
    int handle_bytes;
    int next_group; /* number of the next group; used by callers alone */

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
    int64_t pass;       /* number of passes over queues; see struct lvn_engine_group */
    bool wait_reported; /* lvn_work_set_blocking_rank() names the rank that it waits for */
    double idle_since;  /* lvn_seconds() of the first fruitless poll after one that was not */
};

/* Open an engine over `transport`; o->size is above 1. argument: for its join(). */
enum lvn_status lvn_engine_open(struct lvn_comm **out, const struct lvn_comm_options *o,
                                const struct lvn_transport *transport, void *argument) LVN_CHECKED;
/* engine_split.c: for lvn_comm_split(). */
enum lvn_status lvn_engine_split(struct lvn_comm *c, struct lvn_comm **out, int colour, int key) LVN_CHECKED;
void lvn_engine_group_close(struct lvn_engine_group *g); /* not of the whole */
/* The thread of a struct lvn_engine. */
void *lvn_engine_run(void *engine);
void lvn_queue_push(struct lvn_queue *q, struct lvn_request *r);
/* exchange.c uses tags above those of callers. */
enum { LVN_TAGS = 16384, LVN_GROUPS = 16384 - 1 /* numbers of groups are below */ };

#endif

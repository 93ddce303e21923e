/* engine.h - a communicator over messages: a thread with queues, a transport below it, the exchange of pieces beside
 * it.
 *
 * Callers put requests into a queue; one thread (engine.c) issues and polls them; a transport is what moves bytes
 * between ranks, every call of it nonblocking and made by that one thread: mpi.c, or threads of one process in tests.
 * exchange.c builds sums and gathers of long vectors from messages alone. */
#ifndef LVN_ENGINE_H
#define LVN_ENGINE_H

#include <pthread.h>

#include "comm/ops.h"

/* Handles of work under way are as long as join() says, at most 8 bytes; the transport knows which ones stand for
 * nothing. Calls return 0 or an error code for `error`. */
struct lvn_transport {
    /* Join the others: *state is what the other calls are given (and what lvn_engine_open() was given, before), a
     * text for people. */
    enum lvn_status (*join)(void **state, int *handle_bytes, const struct lvn_comm_options *o, char *describe,
                            int describe_bytes);
    /* All have come to the end. */
    void (*leave)(void *state);
    /* Free the state, whether the others have come to the end or not. */
    void (*release)(void *state);
    void (*clear)(void *state, void *handle); /* make it stand for nothing */
    int (*send)(void *state, const void *x, int64_t bytes, int to, int tag, void *handle);
    int (*receive)(void *state, void *x, int64_t bytes, int from, int tag, void *handle);
    int (*all_reduce)(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op, void *handle);
    /* Blocks: to be measured, never to be used. */
    int (*all_reduce_blocking)(void *state, void *x, int64_t count, enum lvn_dtype type, enum lvn_reduce op);
    int (*broadcast)(void *state, void *x, int64_t bytes, int root, void *handle);
    /* Which of n handles are done (and now stand for nothing): their indices. */
    int (*test)(void *state, void *handles, int n, int *n_done, int *done);
    void (*poke)(void *state); /* move what others wait for while nothing is under way here */
    void (*error)(void *state, int code, char *text, int bytes);
    void (*abort)(void *state, void *code); /* end all ranks with *(int *)code; NULL: it cannot */
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
    struct lvn_tree *flat; /* one leaf a rank: plain sums */

    pthread_t thread;
    pthread_mutex_t lock; /* of what follows, up to the blank line */
    pthread_cond_t bell;  /* for the engine: there is something to do */
    pthread_cond_t news;  /* for those who wait: something is done */
    struct lvn_queue fresh;
    int opened;                             /* 1: yes, -1: no, 0: not yet */
    bool stop, asleep, left, running, over; /* over: the thread has nothing left to do */
    enum lvn_status trouble;                /* of the first failure, which comm.text tells */

    int waiting; /* how many wait now; atomic */
    bool rung;   /* there is something in fresh, or the end; atomic */
    /* the engine's own */
    struct lvn_queue collectives, messages, exchanges;
    bool held_up; /* held_up: it has said by whom */
};

/* Ranks o->size above 1, over `transport`; argument: for its join(). */
enum lvn_status lvn_engine_open(struct lvn_comm **out, const struct lvn_comm_options *o,
                                const struct lvn_transport *transport, void *argument) LVN_CHECKED;
extern const struct lvn_transport lvn_transport_mpi, lvn_transport_tcp;
/* The thread of a struct lvn_engine. */
void *lvn_engine_run(void *engine);
void lvn_queue_push(struct lvn_queue *q, struct lvn_request *r);
/* A call that the engine's thread makes between its own, to measure what lies below it. One rank: at once. */
void lvn_engine_call(struct lvn_comm *c, struct lvn_request *r, void (*call)(void *state, void *argument),
                     void *argument);

/* exchange.c. A tag above those of callers is used, so that both may be under way. */
enum { LVN_TAGS = 16384 };
/* leaf NULL: one leaf a rank, for plain sums. */
enum lvn_status lvn_tree_make(struct lvn_tree **out, int size, int rank, int hosts, const int64_t *leaf) LVN_CHECKED;
/* Groups of ranks that sum among themselves first: the hosts; many ranks of one host are cut into some, too. */
int lvn_sum_groups(int ranks, int hosts);
/* Bytes of a shard that go in one message, for so many partial sums of all ranks together. */
int64_t lvn_piece_bytes(int n_sources);
/* Push it on. Returns 0 or the transport's error; *moved: something happened; *issued: all of it is under way or done;
 * *finished: all done. */
int lvn_exchange_step(struct lvn_engine *c, struct lvn_request *r, bool *moved, bool *issued, bool *finished);
/* The rank whose message it waits for: for its parts before its totals; -1: for none. */
int lvn_exchange_awaits(const struct lvn_engine *c, const struct lvn_request *r);

/* tree.c: the largest power of two below n. */
int64_t lvn_tree_half(int64_t n);

#endif

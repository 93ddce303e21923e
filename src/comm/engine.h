/* engine.h - the parts of an engine: a thread with queues, a transport below it, the exchange of pieces beside it.
 *
 * comm.c (the caller's side) puts requests into a queue; engine.c (one thread) issues and polls them; a transport is
 * what moves bytes between ranks, every call of it nonblocking and made by that one thread: mpi.c, or threads of one
 * process in tests. exchange.c builds sums and gathers of long vectors from messages alone. */
#ifndef LVN_ENGINE_H
#define LVN_ENGINE_H

#include <pthread.h>

#include "comm/comm.h"

/* Handles of work under way are as long as join() says, at most 8 bytes; the transport knows which ones stand for
 * nothing. Calls return 0 or an error code for `error`. */
struct lvn_transport {
    /* Join the others: *state is what the other calls are given (and what lvn_comm_open_over() was given, before), a
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

enum lvn_request_kind { LVN_R_REDUCE, LVN_R_BROADCAST, LVN_R_SEND, LVN_R_RECEIVE, LVN_R_EXCHANGE, LVN_R_CALL };

struct lvn_queue {
    struct lvn_request *first, *last;
};

struct lvn_comm {
    int rank, size;
    char describe[1024];
    struct lvn_comm_options options;
    const struct lvn_transport *transport; /* NULL: self */
    void *state;
    int handle_bytes;
    struct lvn_tree *flat; /* one leaf a rank: plain sums */
    int64_t number;        /* of the next collective */

    pthread_t thread;
    pthread_mutex_t lock; /* of what follows, up to the blank line */
    pthread_cond_t bell;  /* for the engine: there is something to do */
    pthread_cond_t news;  /* for those who wait: something is done */
    struct lvn_queue fresh;
    int opened;                             /* 1: yes, -1: no, 0: not yet */
    bool stop, asleep, left, running, over; /* over: the thread has nothing left to do */
    enum lvn_status trouble;                /* of the first failure */
    char text[600];

    int waiting; /* how many wait now; atomic */
    /* the engine's own */
    struct lvn_queue collectives, messages, exchanges;
    bool exchange_started, held_up; /* held_up: it has said by whom */
};

/* An engine over another transport than MPI, for tests. */
enum lvn_status lvn_comm_open_over(struct lvn_comm **out, const struct lvn_comm_options *o,
                                   const struct lvn_transport *transport, void *argument) LVN_CHECKED;
extern const struct lvn_transport lvn_transport_mpi;

/* engine.c. A call that the engine's thread makes between its own, to measure what lies below it. */
void lvn_engine_call(struct lvn_comm *c, struct lvn_request *r, void (*call)(void *state, void *argument),
                     void *argument);
enum lvn_status lvn_engine_start(struct lvn_comm *c) LVN_CHECKED;
void lvn_engine_stop(struct lvn_comm *c);

/* exchange.c. A tag above those of callers is used, so that both may be under way. */
enum { LVN_TAGS = 16384 };
enum lvn_status lvn_tree_make(struct lvn_tree **out, int size, int rank, const int64_t *leaf) LVN_CHECKED;
enum lvn_status lvn_tree_flat(struct lvn_tree **out, const struct lvn_comm *c) LVN_CHECKED;
void lvn_exchange_start(struct lvn_comm *c, struct lvn_request *r);
/* Push it on. Returns 0 or the transport's error; *moved: something happened; *finished: all done. */
int lvn_exchange_step(struct lvn_comm *c, struct lvn_request *r, bool *moved, bool *finished);
/* The rank whose message it waits for: for its parts before its sums; -1: for none. */
int lvn_exchange_awaits(const struct lvn_comm *c, const struct lvn_request *r);
/* Where rank i's part begins: r->first[i], or an even split. */
int64_t lvn_request_first(const struct lvn_request *r, int size, int i);

/* sum.c: out = a + b. */
void lvn_add_f32(float *out, const float *a, const float *b, int64_t n);
void lvn_add_f64(double *out, const double *a, const double *b, int64_t n);

/* tree.c: the largest power of two below n. */
int64_t lvn_tree_half(int64_t n);

#endif

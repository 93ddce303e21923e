/* comm_private.h - the interface of a communicator, implemented by `self` (one rank) and by the engine over messages
 * (engine.h). comm.c fills a request, and submits it. Both work on host memory; collectives between devices are the
 * backend's (backend/backend.h, struct lvn_group_ops). */
#ifndef LVN_COMM_PRIVATE_H
#define LVN_COMM_PRIVATE_H

#include <time.h>

#include "comm/comm.h"

enum lvn_request_kind {
    LVN_REQUEST_ALL_REDUCE,
    LVN_REQUEST_REDUCE_SCATTER,
    LVN_REQUEST_ALL_GATHER,
    LVN_REQUEST_TREE_REDUCE,
    LVN_REQUEST_BROADCAST,
    LVN_REQUEST_SEND,
    LVN_REQUEST_RECEIVE,
    LVN_REQUEST_CALL, /* engine only: see lvn_engine_call() */
};

struct lvn_comm_ops {
    /* Start the operation, and return at once; sets r->done when it is done. */
    void (*submit)(struct lvn_comm *c, struct lvn_request *r);
    /* Wait until it is done, or until `until` (NULL: no limit). */
    void (*wait)(struct lvn_comm *c, const struct lvn_request *r, const struct timespec *until);
    enum lvn_status (*set_hosts)(struct lvn_comm *c); /* see lvn_comm_set_hosts(); NULL: hosts make no difference */
    void (*abort)(struct lvn_comm *c, int code, double seconds); /* see lvn_comm_abort(); NULL: not possible */
    /* Collective; frees c. */
    void (*close)(struct lvn_comm *c);
};

struct lvn_comm {
    const struct lvn_comm_ops *ops;
    int rank, size, hosts;
    int64_t number;      /* number of the next collective */
    char describe[1024]; /* for people */
    char text[600];      /* the error message, once it has failed */
};

/* Initialise the common fields. */
void lvn_comm_init(struct lvn_comm *c, const struct lvn_comm_ops *ops, int rank, int size);
/* Have the engine's thread call a function between other calls, for measurements of the transport. With one rank:
 * called at once. */
void lvn_engine_call(struct lvn_comm *c, struct lvn_request *r, void (*call)(void *state, void *argument),
                     void *argument);

/* comm_self.c: the communicator of one rank. MEMORY. */
enum lvn_status lvn_self_open(struct lvn_comm **out) LVN_CHECKED;

#endif

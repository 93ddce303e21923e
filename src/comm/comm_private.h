/* comm_private.h - the interface of a communicator, implemented by `self` (one rank), by the engine over messages
 * (engine.h), and by libraries that work on the memory of devices (nccl.c). comm.c fills a request, and submits it. */
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
    /* Start the operation, and return at once; sets r->done when it is done. In a device's memory wait() sets it. */
    void (*submit)(struct lvn_comm *c, struct lvn_request *r);
    /* Wait until it is done, or until `until` (NULL: no limit). */
    void (*wait)(struct lvn_comm *c, struct lvn_request *r, const struct timespec *until);
    enum lvn_status (*set_hosts)(struct lvn_comm *c); /* see lvn_comm_set_hosts(); NULL: hosts make no difference */
    void (*abort)(struct lvn_comm *c, int code, double seconds); /* see lvn_comm_abort(); NULL: not possible */
    /* See lvn_comm_split(); NULL: not possible. */
    enum lvn_status (*split)(struct lvn_comm *c, struct lvn_comm **out, int colour, int key);
    void (*cancel)(struct lvn_comm *c); /* see lvn_comm_cancel(); NULL: not needed */
    /* Collective; frees c. */
    void (*close)(struct lvn_comm *c);
};

struct lvn_comm {
    const struct lvn_comm_ops *ops;
    const struct lvn_device *device; /* whose memory requests name; NULL: the host's */
    int rank, size, hosts;
    const struct lvn_comm
        *whole;          /* the communicator of all ranks, whose error message is that of its groups; or this one */
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

#endif

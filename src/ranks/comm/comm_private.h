/* comm_private.h - the interface of a communicator, implemented by `self` (one rank), by the engine on top of a
 * transport (engine.h), and by libraries for device memory (nccl.c). comm.c fills a request and submits it. */
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
    /* Start the operation and return immediately; sets r->done on completion. For device memory wait() sets it. */
    void (*submit)(struct lvn_comm *comm, struct lvn_request *request);
    /* Wait until the operation is complete, at most until `until` (NULL: no limit). */
    void (*wait)(struct lvn_comm *comm, struct lvn_request *request, const struct timespec *until);
    enum lvn_status (*set_hosts)(struct lvn_comm *comm); /* see lvn_comm_set_hosts(); NULL: hosts are ignored */
    void (*abort)(struct lvn_comm *comm, int code, double seconds); /* see lvn_comm_abort(); NULL: not supported */
    /* See lvn_comm_split(); NULL: not supported. */
    enum lvn_status (*split)(struct lvn_comm *comm, struct lvn_comm **out, int color, int key);
    void (*cancel)(struct lvn_comm *comm); /* see lvn_comm_cancel(); NULL: not needed */
    /* Collective; frees comm. */
    void (*close)(struct lvn_comm *comm);
};

struct lvn_comm {
    const struct lvn_comm_ops *ops;
    const struct lvn_device *device; /* that buffers belong to; NULL: host memory */
    int rank, size, hosts;
    const struct lvn_comm *whole; /* of a group: the communicator of all ranks, which records errors; else this one */
    int64_t number;               /* number of the next collective */
    char describe[1024];          /* for display */
    char text[600];               /* the error message, after it has failed */
};

/* Initialize the common fields. */
void lvn_comm_init(struct lvn_comm *comm, const struct lvn_comm_ops *ops, int rank, int size);
/* Call a function in the engine's thread, between its other calls, to measure the transport. With one rank it is called
 * immediately. */
void lvn_engine_call(struct lvn_comm *comm, struct lvn_request *request, void (*call)(void *state, void *argument),
                     void *argument);

#endif

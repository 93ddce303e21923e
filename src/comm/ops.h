/* ops.h - what a kind of communicator must supply: `self` (one rank) and the engine over messages (engine.h). Both work
 * on the processor's memory; what devices exchange by themselves is theirs (backend/backend.h, struct lvn_group_ops).
 *
 * A request says what is asked for and on which buffers; comm.c fills it, and hands it to the communicator. */
#ifndef LVN_COMM_OPS_H
#define LVN_COMM_OPS_H

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
    LVN_REQUEST_CALL, /* of the engine: see lvn_engine_call() */
};

struct lvn_comm_ops {
    /* Start it, and return at once; done is set when it is. */
    void (*submit)(struct lvn_comm *c, struct lvn_request *r);
    /* Until it is done or `until` (NULL: for ever). */
    void (*wait)(struct lvn_comm *c, const struct lvn_request *r, const struct timespec *until);
    enum lvn_status (*set_hosts)(struct lvn_comm *c); /* see lvn_comm_set_hosts(); NULL: they are nothing to it */
    void (*abort)(struct lvn_comm *c, int code, double seconds); /* see lvn_comm_abort(); NULL: it cannot */
    /* All ranks have come to the end; frees c. */
    void (*close)(struct lvn_comm *c);
};

struct lvn_comm {
    const struct lvn_comm_ops *ops;
    int rank, size, hosts;
    int64_t number;      /* of the next collective */
    char describe[1024]; /* for people */
    char text[600];      /* what failed */
};

/* Set for all. */
void lvn_comm_init(struct lvn_comm *c, const struct lvn_comm_ops *ops, int rank, int size);
enum lvn_status lvn_self_open(struct lvn_comm **out) LVN_CHECKED;

#endif

/* comm_kind.h - a kind of communicator: a row of comm_kinds.def. comm.c opens communicators through it. The engine and
 * the commands choose a kind by its properties, and none of them knows a kind by name. Communicators themselves are
 * described in comm.h and comm_private.h.
 *
 * A kind is either a transport, which moves messages between CPUs and on which an engine (engine.h) builds everything
 * else, or it implements communicators itself, as libraries for device memory do. */
#ifndef LVN_COMM_KIND_H
#define LVN_COMM_KIND_H

#include "comm/comm.h"

struct lvn_library;
struct lvn_transport;

/* How the ranks of a communicator find each other. */
enum lvn_connection {
    LVN_NOT_CONNECTED,         /* there is only one rank */
    LVN_CONNECTED_BY_LAUNCHER, /* the launcher connects the ranks, if it can (struct lvn_launcher_env, without_mpi) */
    LVN_CONNECTED_BY_SOCKETS,  /* connected sockets, which the rendezvous provides (cluster/rendezvous/mesh.h) */
    LVN_CONNECTED_BY_COMM,     /* a communicator in host memory, over which rank 0 broadcasts an id */
};

struct lvn_comm_kind {
    const char *name;        /* value of trainer.transport, if it connects CPUs */
    const char *description; /* a noun phrase, for the help of trainer.transport and for messages */
    enum lvn_connection connection;
    const char *memory;          /* the backend whose device memory it transfers; NULL: host memory */
    struct lvn_library *library; /* for `levin doctor`; NULL: none, or a different one for each launcher */

    const struct lvn_transport *transport; /* moves messages for an engine; NULL: open() creates the communicator */
    enum lvn_status (*open)(struct lvn_comm **out, const struct lvn_comm_options *o);
    /* For kinds with LVN_CONNECTED_BY_COMM: load the library from a path, or, if "" or NULL, where the loader finds it.
     * describe: name and version, for display. */
    enum lvn_status (*load)(const char *library, char describe[400]);
    /* Create an id for one communicator; its rank 0 calls it. */
    enum lvn_status (*make_id)(char id[LVN_COMM_ID]);
};

/* Row i of the table; NULL after the last row. */
const struct lvn_comm_kind *lvn_comm_kind_at(int i);
/* The row of this name; NULL: none. */
const struct lvn_comm_kind *lvn_comm_kind_find(const char *name);
/* The first row whose ranks connect in this way. */
const struct lvn_comm_kind *lvn_comm_kind_by_connection(enum lvn_connection connection);
/* True if it is a valid value of trainer.transport. */
bool lvn_comm_kind_connects(const struct lvn_comm_kind *kind);

#endif

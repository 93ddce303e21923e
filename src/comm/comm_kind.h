/* comm_kind.h - a kind of communicator: a row of comm_kinds.def. comm.c opens communicators by it, the engine and the
 * commands choose one by what it needs and carries, and none of them knows a kind by its name. Left out: what a
 * communicator does (comm.h, comm_private.h).
 *
 * A kind is one of two: it carries messages between processors for an engine (engine.h), which makes everything else of
 * them; or it opens communicators of its own, as libraries do that carry the memory of devices. */
#ifndef LVN_COMM_KIND_H
#define LVN_COMM_KIND_H

#include "comm/comm.h"

struct lvn_library;
struct lvn_transport;

/* How the ranks of a communicator find each other. */
enum lvn_meeting {
    LVN_MEETS_NOBODY,   /* there is one rank */
    LVN_MEETS_LAUNCHER, /* the launcher of the ranks connects them, if it can (struct lvn_launcher_env, without_mpi) */
    LVN_MEETS_SOCKETS,  /* connected sockets, which the rendezvous makes (cluster/rendezvous/mesh.h) */
    LVN_MEETS_COMM,     /* a communicator between their processors, over which rank 0 sends an id */
};

struct lvn_comm_kind {
    const char *name;        /* value of trainer.transport, if it connects processors */
    const char *description; /* a noun phrase, for the help of trainer.transport and for people */
    enum lvn_meeting meeting;
    const char *memory;          /* the backend whose devices' memory it carries; NULL: host memory */
    struct lvn_library *library; /* which `levin doctor` lists; NULL: none, or another one for each launcher */

    const struct lvn_transport *transport; /* carries messages for an engine; NULL: open() makes the communicator */
    enum lvn_status (*open)(struct lvn_comm **out, const struct lvn_comm_options *o);
    /* Of kinds with the meeting COMM. Load the library: a path, or "" or NULL for the loader's search. describe: name
     * and version, for people. */
    enum lvn_status (*load)(const char *library, char describe[400]);
    /* An id for one group of ranks, made by its rank 0. */
    enum lvn_status (*make_id)(char id[LVN_COMM_ID]);
};

/* Row i of the table; NULL: there are no more. */
const struct lvn_comm_kind *lvn_comm_kind_at(int i);
/* The row of this name; NULL: none. */
const struct lvn_comm_kind *lvn_comm_kind_find(const char *name);
/* The first row with this meeting. */
const struct lvn_comm_kind *lvn_comm_kind_meeting(enum lvn_meeting meeting);
/* May trainer.transport name it? */
bool lvn_comm_kind_connects(const struct lvn_comm_kind *k);

#endif

/* mesh.h - TCP connections between every two ranks of a run, for levin's own transport (comm/tcp.c).
 *
 * A rank listens and tells the others where, by the facts of the heartbeat; rank 0 adds a key. When all have met, each
 * connects to the ranks below it, and those above connect to it, all at the same time. Both sides show the key and say
 * who they are, so no stranger gets in, and no rank talks to another one than it believes. Who does not answer is
 * called again, at its other addresses, too. What is sent is not encrypted.
 *
 * All connections are made before the first step, and not when they are first used: then what stands between two hosts
 * is told before anything is trained. */
#ifndef LVN_MESH_H
#define LVN_MESH_H

#include "cluster/rendezvous/endpoints.h"
#include "cluster/rendezvous/member.h"
#include "comm/comm.h"

enum { LVN_MESH_KEY = 33, LVN_MESH_FACTS = 2 };

struct lvn_mesh {
    int rank, size, listening;
    char endpoint[LVN_ENDPOINT_TEXT], key[LVN_MESH_KEY];
    struct lvn_fact fact[LVN_MESH_FACTS]; /* for the heartbeat's options */
    int n_facts;
    double patience; /* seconds for an answer to the first call; for the second one twice as many, ... */
    int *sockets;    /* [size]; -1: this rank itself */
    int n_attempts;       /* connections that it began */
};

/* Listen, with `one_host` on the loopback alone. IO where that fails, or where this process may not have a connection
 * to each of `size` ranks. Release it always. */
enum lvn_status lvn_mesh_listen(struct lvn_mesh *m, int rank, int size, bool one_host) LVN_CHECKED;
/* All have met, with these facts: connect. COMM with the rank that is missing after `seconds`. */
enum lvn_status lvn_mesh_connect(struct lvn_mesh *m, struct lvn_member *h, double seconds) LVN_CHECKED;
/* The sockets are the caller's from now on. */
void lvn_mesh_detach_sockets(struct lvn_mesh *m);
void lvn_mesh_release(struct lvn_mesh *m);
/* All of it: meet, as h says without facts of its own, connect within the seconds, and open a communicator over the
 * connections, as o says. *heart may be there after a failure. */
enum lvn_status lvn_mesh_open(struct lvn_comm **comm, struct lvn_member **member, struct lvn_comm_options o,
                              struct lvn_member_options h, double seconds) LVN_CHECKED;

#endif

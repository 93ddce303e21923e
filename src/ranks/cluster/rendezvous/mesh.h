/* mesh.h - TCP connections between every two ranks of a run, for levin's own transport (comm/tcp.c). engine/ranks.c
 * calls lvn_mesh_open().
 *
 * A rank listens, and publishes its endpoint as a fact of the rendezvous; rank 0 adds a key. When all ranks have
 * joined, each connects to the lower ranks and accepts the higher ones concurrently. Both sides send the key and their
 * ranks in a handshake, so no other program can connect, and each connection leads to the right rank. A peer that does
 * not respond is tried again, also at its other addresses. Data is not encrypted.
 *
 * All connections are made before the first step, and not when they are first used, so that a firewall between two
 * hosts is reported before anything is trained. */
#ifndef LVN_MESH_H
#define LVN_MESH_H

#include "cluster/rendezvous/endpoints.h"
#include "cluster/rendezvous/member.h"
#include "comm/comm.h"

enum { LVN_MESH_KEY = 33, LVN_MESH_FACTS = 2 };

struct lvn_mesh {
    int rank, size;
    int listening; /* the listening socket; -1: closed */
    char endpoint[LVN_ENDPOINT_TEXT], key[LVN_MESH_KEY];
    struct lvn_fact fact[LVN_MESH_FACTS]; /* for struct lvn_member_options */
    int n_facts;
    double patience; /* seconds for an answer to the first attempt; for the k-th attempt k times that */
    int *sockets;    /* [size] connected sockets by rank; -1: this rank itself */
    int n_attempts;  /* connections that this rank tried */
};

/* Listen; `one_host`: on the loopback interface only. IO if that fails, or if this process may not open a connection to
 * each of `size` ranks. Always call lvn_mesh_release(). */
enum lvn_status lvn_mesh_listen(struct lvn_mesh *mesh, int rank, int size, bool one_host) LVN_CHECKED;
/* After lvn_member_open() with these facts: connect to all ranks. COMM, with the missing rank in the message, after
 * `seconds`. */
enum lvn_status lvn_mesh_connect(struct lvn_mesh *mesh, struct lvn_member *member, double seconds) LVN_CHECKED;
/* The caller now owns the sockets. */
void lvn_mesh_detach_sockets(struct lvn_mesh *mesh);
void lvn_mesh_release(struct lvn_mesh *mesh);
/* All steps: join the ranks (h without facts), connect within `seconds`, and open a communicator over the
 * connections (o). *member may be set after a failure. */
enum lvn_status lvn_mesh_open(struct lvn_comm **comm, struct lvn_member **member, struct lvn_comm_options o,
                              struct lvn_member_options h, double seconds) LVN_CHECKED;

#endif

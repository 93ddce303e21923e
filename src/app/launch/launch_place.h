/* launch_place.h - which node this machine is, if every node of a job starts its own levin launch: in pods of
 * Kubernetes, or in two shells on two hosts. launch.c calls it first; launch.h contains the result.
 *
 * It is read from --node-rank, --nodes and --nproc-per-node, else from variables of levin, torchrun, PyTorchJob and
 * Indexed Jobs. Node 0 listens at MASTER_ADDR:MASTER_PORT for the others (nodes.h). */
#ifndef LVN_LAUNCH_PLACE_H
#define LVN_LAUNCH_PLACE_H

#include "base/arena.h"
#include "base/status.h"

struct lvn_cli;

enum { LVN_NODE_PORT = 6002 };

struct lvn_launch_place {
    bool on;             /* nodes have their own launchers; else all fields are 0 */
    int node;            /* index of this node */
    int nodes;           /* number of nodes */
    int ranks;           /* on each node */
    const char *master;  /* name or address of node 0's machine; "": not known, which is allowed only on node 0 */
    int port;            /* at which node 0 listens */
    bool loopback;       /* master is a loopback address: all nodes are on this machine */
    const char *pattern; /* names of nodes are this and their index ("job-"); NULL: not known */
};

/* ARG, with the variable or option, for a value that is not a number, an index beyond the number of nodes, a missing
 * address of node 0, or options that exclude each other. Texts are in the arena. */
enum lvn_status lvn_launch_place_find(struct lvn_launch_place *out, const struct lvn_cli *c,
                                      struct lvn_arena *a) LVN_CHECKED;

#endif

/* launch_place.h - which node this machine is, where every node of a job starts a levin launch of its own: in pods of
 * Kubernetes, or in two shells on two hosts. launch.c asks first; launch.h holds the answer.
 *
 * From --node-rank, --nodes and --nproc-per-node, else from variables of levin, torchrun, PyTorchJob and Indexed Jobs.
 * Node 0 listens at MASTER_ADDR:MASTER_PORT for the others (nodes.h). */
#ifndef LVN_LAUNCH_PLACE_H
#define LVN_LAUNCH_PLACE_H

#include "base/arena.h"
#include "base/status.h"

struct lvn_cli;

enum { LVN_NODE_PORT = 6002 };

struct lvn_launch_place {
    bool on;             /* nodes have launchers of their own; else all below is 0 */
    int node;            /* number of this node */
    int nodes;           /* number of nodes */
    int ranks;           /* on each node */
    const char *master;  /* name or address of node 0's machine; "": not known, which node 0 alone can do without */
    int port;            /* where node 0 listens */
    bool loopback;       /* master is this machine's loopback: all nodes are on it */
    const char *pattern; /* names of nodes are this and their number ("job-"); NULL: not known */
};

/* Find out. ARG, with the variable or option: a number that is none, a node beyond the number of nodes, no address of
 * node 0, options that do not fit. Texts are in the arena. */
enum lvn_status lvn_launch_place_find(struct lvn_launch_place *out, const struct lvn_cli *c,
                                      struct lvn_arena *a) LVN_CHECKED;
/* The name of node i, "job-2" or "node 2", in the arena; NULL: no memory. */
const char *lvn_launch_place_name(const struct lvn_launch_place *p, struct lvn_arena *a, int i);

#endif

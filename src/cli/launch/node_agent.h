/* node_agent.h - private to node_agent.c (meets node 0) and node_agent_attempt.c (the ranks of this node, for one
 * attempt).
 */
#ifndef LVN_NODE_AGENT_H
#define LVN_NODE_AGENT_H

#include "cli/launch/launch.h"
#include "cluster/rendezvous/wire.h"

struct lvn_node_agent {
    struct lvn_launch *l;
    const char *token;    /* LEVIN_TOKEN; "": none */
    const char *name_0;   /* of node 0, for messages */
    const char *address;  /* of node 0, "HOST:PORT" */
    struct lvn_wire wire; /* the connection */
    char wrong_peer[300]; /* why one that answered is not node 0 of this job; "": none was wrong */
    bool stopping;        /* node 0 was told that this node is asked to stop */
    double finish_until;  /* lvn_seconds() up to which this node then waits for FINISH */
};

/* Start ranks as node 0 says, until it has sent the launch's exit code: *code. */
enum lvn_status lvn_node_agent_run(struct lvn_launch *l, int *code) LVN_CHECKED;

/* Private to these files: START has come: start the ranks of this node, and carry orders, signals and output until they
 * and the connection have ended. */
enum lvn_status lvn_node_agent_attempt(struct lvn_node_agent *a) LVN_CHECKED;

#endif

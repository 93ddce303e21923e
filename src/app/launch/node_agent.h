/* node_agent.h - private to node_agent.c (joins node 0) and node_agent_attempt.c (the ranks of this node, for one
 * attempt). */
#ifndef LVN_NODE_AGENT_H
#define LVN_NODE_AGENT_H

#include "cluster/rendezvous/wire.h"
#include "launch/launch.h"

struct lvn_node_agent {
    struct lvn_launch *l;
    const char *token;    /* LEVIN_TOKEN; "": none */
    const char *name_0;   /* of node 0, for messages */
    const char *address;  /* of node 0, "HOST:PORT" */
    struct lvn_wire wire; /* the connection */
    char wrong_peer[300]; /* why a process that answered is not node 0 of this job; "": none was wrong */
    bool stopping;        /* node 0 was notified that this node is requested to stop */
    double finish_until;  /* lvn_seconds() until which this node then waits for FINISH */
};

/* Start ranks as node 0 requests, until it has sent the launch's exit code: *code. */
enum lvn_status lvn_node_agent_run(struct lvn_launch *l, int *code) LVN_CHECKED;

/* START was received: start the ranks of this node, and forward orders, signals and output until they and the
 * connection have ended. */
enum lvn_status lvn_node_agent_attempt(struct lvn_node_agent *agent) LVN_CHECKED;

#endif

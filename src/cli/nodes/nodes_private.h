/* nodes_private.h - private to nodes.c (connections, the thread) and nodes_join.c (messages of other nodes). */
#ifndef LVN_NODES_PRIVATE_H
#define LVN_NODES_PRIVATE_H

#include <poll.h>
#include <pthread.h>

#include "cli/nodes/node_handshake.h"
#include "cli/nodes/nodes.h"
#include "cluster/rendezvous/wire.h"

enum { LVN_NODE_STRANGERS = 64 }; /* connections that have not joined */

struct lvn_node_client {
    struct lvn_wire wire;
    int node;                      /* its number; -1: no JOIN yet */
    bool joined;                   /* READY, and nothing was wrong */
    bool waits;                    /* it is a second launcher of its node, and the first may be gone */
    bool late;                     /* it joined when the launch was ending, and nobody awaited it */
    bool closing;                  /* closed when everything is sent */
    double since;                  /* lvn_seconds() of the connection; once it `waits`, of that */
    double pinged_at;              /* lvn_seconds() of a PING that has no answer yet; 0: there is none */
    char nonce[LVN_NODE_NONCE];    /* of node 0 */
    char nonce_of[LVN_NODE_NONCE]; /* of the other node */
    char from[64];                 /* its address, for messages */
    char host[256];                /* as it names itself */
    char wrong[600];               /* why it is to be refused; "": nothing is wrong */
};

struct lvn_nodes {
    struct lvn_nodes_options o;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    bool running, stop;
    int listening, wake;
    struct lvn_node_client **client;
    int n_clients;
    struct pollfd *polled;
    bool *taken;     /* [nodes] its connection is with levin ranks */
    bool *took_part; /* [nodes] in the last attempt */
    bool *notified;  /* [nodes] FINISH was sent */
    bool *clock_off; /* [nodes] a warning about its clock was logged */
    bool finishing;
    int code;             /* of FINISH */
    bool stranger_logged; /* a warning about a stranger was logged */
    char refusal[600];
};

/* nodes_join.c, with the lock held. False: the connection is to be closed. */
bool lvn_nodes_receive(struct lvn_nodes *s, struct lvn_node_client *c, const struct lvn_message *m);
/* Decide between two launchers of one node, where one waits. */
void lvn_nodes_check_seconds(struct lvn_nodes *s, double now);
/* The launcher of the node that has joined; NULL: none. */
struct lvn_node_client *lvn_nodes_joined(const struct lvn_nodes *s, int node);
/* Warn, once, of a connection that is no launcher of this job. */
void lvn_nodes_warn_stranger(struct lvn_nodes *s, const struct lvn_node_client *c, const char *did);

#endif

/* nodes_private.h - private to nodes.c (connections, the thread) and nodes_join.c (messages of other nodes). */
#ifndef LVN_NODES_PRIVATE_H
#define LVN_NODES_PRIVATE_H

#include <poll.h>
#include <pthread.h>

#include "cluster/rendezvous/wire.h"
#include "launch/node_handshake.h"
#include "launch/nodes.h"

enum { LVN_NODE_STRANGERS = 64 }; /* maximum number of connections that have not joined */

struct lvn_node_client {
    struct lvn_wire wire;
    int node;                      /* its index; -1: JOIN not received yet */
    bool joined;                   /* READY was received, and nothing was wrong */
    bool waits;                    /* it is a second launcher of its node, and the first may be gone */
    bool late;                     /* it joined while the launch was ending, and was not expected */
    bool closing;                  /* closed when everything is sent */
    double since;                  /* lvn_seconds() of the connection, or of the start of the wait if it `waits` */
    double pinged_at;              /* lvn_seconds() of a PING without an answer; 0: none */
    char nonce[LVN_NODE_NONCE];    /* of node 0 */
    char nonce_of[LVN_NODE_NONCE]; /* of the other node */
    char from[64];                 /* its address, for messages */
    char host[256];                /* the host name that it sent */
    char wrong[600];               /* why it must be refused; "": nothing is wrong */
};

struct lvn_nodes {
    struct lvn_nodes_options o;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the fields below */
    bool running, stop;
    int listening, wake;
    struct lvn_node_client **client;
    int n_clients;
    struct pollfd *polled;
    bool *taken;     /* [nodes] levin ranks has its connection */
    bool *took_part; /* [nodes] in the last attempt */
    bool *notified;  /* [nodes] FINISH was sent */
    bool *clock_off; /* [nodes] a warning about its clock was logged */
    bool finishing;
    int code;             /* of FINISH */
    bool stranger_logged; /* a warning about a stranger was logged */
    char refusal[600];
};

/* nodes_join.c, with the lock held. Returns false if the connection must be closed. */
bool lvn_nodes_receive(struct lvn_nodes *nodes, struct lvn_node_client *client, const struct lvn_message *message);
/* Decide between two launchers of one node, of which one waits. */
void lvn_nodes_check_seconds(struct lvn_nodes *nodes, double now);
/* The launcher of the node that has joined; NULL: none. */
struct lvn_node_client *lvn_nodes_joined(const struct lvn_nodes *nodes, int node);
/* Warn, once, about a connection that is not a launcher of this job. */
void lvn_nodes_warn_stranger(struct lvn_nodes *nodes, const struct lvn_node_client *client, const char *did);

#endif

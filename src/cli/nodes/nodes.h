/* nodes.h - on node 0: the launchers of the other nodes, which connect here and wait for work. A thread accepts them at
 * any time; launch_nodes.c takes their connections for an attempt, and tells them the end.
 *
 * A connection serves one attempt: after it the node's launcher connects again. Who has joined is known between
 * attempts; during one a newcomer waits, for the node that it replaces is given up as soon as the attempt ends. Of two
 * launchers with one number the one that answers a PING stays, and the other is refused. Messages: messages.def; their
 * order:
 *
 *     node -> node 0   NODE nonce
 *     node 0 -> node   CHALLENGE nonce proof                  the node goes away if the proof is wrong
 *     node -> node 0   JOIN proof node nodes ranks clock host, FACT key value ..., READY
 *     node 0 -> node   START, then ranks_relay.h; or FINISH code; or REFUSE reason; PING, answered by PONG, meanwhile
 */
#ifndef LVN_NODES_H
#define LVN_NODES_H

#include <stdbool.h>

#include "cli/process.h"

struct lvn_nodes;

struct lvn_nodes_options {
    int nodes;          /* with node 0 */
    int ranks;          /* of each */
    const char *listen; /* address; NULL: all addresses */
    int port;
    const char *token;            /* LEVIN_TOKEN; "": none */
    double timeout;               /* trainer.rank_timeout, seconds */
    const struct lvn_words *keys; /* key, value, ...: what each node must have alike */
    const char *const *name;      /* [nodes], for messages */
};

/* Listen and start the thread. All that `o` points to must outlive it. IO: the port is in use. */
enum lvn_status lvn_nodes_start(struct lvn_nodes **out, const struct lvn_nodes_options *o) LVN_CHECKED;
/* missing[i]: node i has not joined, or may be gone. Returns how many. */
int lvn_nodes_missing(struct lvn_nodes *s, bool *missing);
/* Copy why a launcher was refused last; "": none was. */
void lvn_nodes_refusal(struct lvn_nodes *s, char text[600]);
/* Send START to all that have joined. connection[i]: the connection to node i, of the caller from now on; 0: none. With
 * `all` only if all have joined; else false, and nothing is sent. */
bool lvn_nodes_take(struct lvn_nodes *s, bool all, int *connection);
/* The attempt has ended: nodes that were taken are awaited again. */
void lvn_nodes_release(struct lvn_nodes *s);
/* Send FINISH to all that have joined, and to those that were taken last, for which it waits `seconds` at most. Others
 * that join meanwhile are told code 0 alone. */
void lvn_nodes_finish(struct lvn_nodes *s, int code, double seconds);
void lvn_nodes_stop(struct lvn_nodes *s);

#endif

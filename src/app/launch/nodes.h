/* nodes.h - on node 0: the launchers of the other nodes, which connect here and wait for work. A thread accepts them at
 * any time; launch_nodes.c acquires their connections for an attempt, and notifies them of the end.
 *
 * A connection is used for one attempt; then the node's launcher connects again. The nodes that have joined are known
 * between attempts. During an attempt a new launcher waits, because the node that it replaces is dropped when the
 * attempt ends. If two launchers have the same number, the one that answers a PING remains, and the other is refused.
 * messages.def has the messages; their order:
 *
 *     node -> node 0   NODE nonce
 *     node 0 -> node   CHALLENGE nonce proof                  the node goes away if the proof is wrong
 *     node -> node 0   JOIN proof node nodes ranks clock host, FACT key value ..., READY
 *     node 0 -> node   START, then ranks_relay.h; or FINISH code; or REFUSE reason; PING, answered by PONG, meanwhile
 */
#ifndef LVN_NODES_H
#define LVN_NODES_H

#include "cli/process.h"

struct lvn_nodes;

struct lvn_nodes_options {
    int nodes;          /* with node 0 */
    int ranks;          /* of each */
    const char *listen; /* address; NULL: all addresses */
    int port;
    const char *token;            /* LEVIN_TOKEN; "": none */
    double timeout;               /* trainer.rank_timeout, seconds */
    const struct lvn_words *keys; /* key, value, ...: must be the same on all nodes */
    const char *const *name;      /* [nodes], for messages */
};

/* Listen and start the thread. All pointers in `o` must remain valid. IO if the port is in use. */
enum lvn_status lvn_nodes_start(struct lvn_nodes **out, const struct lvn_nodes_options *o) LVN_CHECKED;
/* missing[i]: node i has not joined, or may be gone. Returns their number. */
int lvn_nodes_missing(struct lvn_nodes *nodes, bool *missing);
/* Copy why the last launcher was refused; "": none was. */
void lvn_nodes_refusal(struct lvn_nodes *nodes, char text[600]);
/* Send START to all that have joined. connection[i]: the connection to node i, which the caller now owns; 0: none. With
 * `all`, returns false and sends nothing if not all have joined. */
bool lvn_nodes_acquire(struct lvn_nodes *nodes, bool all, int *connection);
/* The attempt has ended: wait for the acquired nodes to join again. */
void lvn_nodes_release(struct lvn_nodes *nodes);
/* Send FINISH to all that have joined, and to those of the last attempt, for which it waits at most `seconds`. Other
 * nodes that join meanwhile receive only code 0. */
void lvn_nodes_finish(struct lvn_nodes *nodes, int code, double seconds);
void lvn_nodes_stop(struct lvn_nodes *nodes);

#endif

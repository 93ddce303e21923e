/* node_handshake.h - with it the launchers of two nodes prove to each other that they belong to one job; nodes.c (node
 * 0) and node_agent.c (the others) call it.
 *
 * Both know LEVIN_TOKEN and LEVIN_JOB_ID, which are not sent. Each side sends random bytes (a nonce), and the other
 * answers with their HMAC-SHA-256 (RFC 2104, 4231) under the token. So neither accepts a process without the token, and
 * the token cannot be read on the network. Without LEVIN_TOKEN the name of the job is sufficient. Later messages of the
 * connection are neither encrypted nor signed, so modified packets are not detected. */
#ifndef LVN_NODE_HANDSHAKE_H
#define LVN_NODE_HANDSHAKE_H

#include "base/status.h"

enum { LVN_NODE_NONCE = 33, LVN_NODE_PROOF = 65 }; /* bytes of the texts */

/* LEVIN_TOKEN, "" if it is not set. ARG if it is too short. */
enum lvn_status lvn_node_token(const char **token) LVN_CHECKED;
/* Random hexadecimal digits. */
enum lvn_status lvn_node_nonce(char nonce[LVN_NODE_NONCE]) LVN_CHECKED;
/* The proof of the launcher in `role`, "node 0" or "node", for the nonces of node 0 and of the other node. */
void lvn_node_proof(const char *token, const char *role, const char *nonce_0, const char *nonce,
                    char proof[LVN_NODE_PROOF]);
/* Comparison in constant time. */
bool lvn_node_proof_equal(const char *a, const char *b);
/* Have the system detect within about `timeout` seconds that the other side of a connection is gone. */
void lvn_node_keep_alive(int connection, double timeout);

#endif

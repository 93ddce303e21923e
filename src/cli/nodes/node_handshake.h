/* node_handshake.h - how the launchers of two nodes prove to each other that they belong to one job; nodes.c (node 0)
 * and node_agent.c (the others) call it.
 *
 * Both know LEVIN_TOKEN and LEVIN_JOB_ID, of which neither travels: each side sends random bytes (a nonce), and the
 * other answers with their HMAC-SHA-256 (RFC 2104, 4231) under the token. So neither obeys a stranger who has no token,
 * and who listens learns none. Without LEVIN_TOKEN anybody who knows the job's name can prove it. What follows on the
 * connection is neither encrypted nor signed: who can change the packets between two nodes is not kept out. */
#ifndef LVN_NODE_HANDSHAKE_H
#define LVN_NODE_HANDSHAKE_H

#include <stdbool.h>

#include "base/status.h"

enum { LVN_NODE_NONCE = 33, LVN_NODE_PROOF = 65 }; /* bytes of the texts */

/* LEVIN_TOKEN, "" if it is not set. ARG: it is too short. */
enum lvn_status lvn_node_token(const char **token) LVN_CHECKED;
/* Random hexadecimal digits. */
enum lvn_status lvn_node_nonce(char nonce[LVN_NODE_NONCE]) LVN_CHECKED;
/* The proof of the launcher in `role`, "node 0" or "node", for the nonces of both: of node 0, and of the other node. */
void lvn_node_proof(const char *token, const char *role, const char *nonce_0, const char *nonce,
                    char proof[LVN_NODE_PROOF]);
/* Comparison in constant time. */
bool lvn_node_proof_equal(const char *a, const char *b);
/* Have the system notice within about `timeout` seconds that the other side of a connection has vanished. */
void lvn_node_keep_alive(int connection, double timeout);

#endif

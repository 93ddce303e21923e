/* node_handshake.c - see node_handshake.h. */
#include "launch/node_handshake.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/getenv.h"
#include "base/random.h"
#include "base/text.h"
#include "formats/sha256.h"

enum lvn_status lvn_node_token(const char **token)
{
    enum { SHORTEST = 16 };
    *token = lvn_getenv("LEVIN_TOKEN");
    if (!*token) *token = "";
    LVN_CHECK(!**token || strlen(*token) >= SHORTEST, ARG,
              "LEVIN_TOKEN has %zu characters, which can be guessed; expected at least %d, as `openssl rand -hex 16` "
              "prints",
              strlen(*token), (int)SHORTEST);
    return LVN_OK;
}

enum lvn_status lvn_node_nonce(char nonce[LVN_NODE_NONCE])
{
    unsigned char bytes[(LVN_NODE_NONCE - 1) / 2];
    LVN_TRY(lvn_random_secret(bytes, sizeof bytes, "a handshake"));
    lvn_hex_text(bytes, sizeof bytes, nonce);
    return LVN_OK;
}

void lvn_node_proof(const char *token, const char *role, const char *nonce_0, const char *nonce,
                    char proof[LVN_NODE_PROOF])
{
    char text[512];
    unsigned char digest[LVN_SHA256_BYTES];
    const char *job = lvn_getenv("LEVIN_JOB_ID");
    snprintf(text, sizeof text, "levin launch\n%s\n%s\n%s\n%s", role, nonce_0, nonce, job ? job : "");
    lvn_sha256_hmac(token, strlen(token), text, strlen(text), digest);
    lvn_hex_text(digest, sizeof digest, proof);
}

bool lvn_node_proof_equal(const char *a, const char *b)
{
    unsigned char difference = 0;
    if (strlen(a) != LVN_NODE_PROOF - 1 || strlen(b) != LVN_NODE_PROOF - 1) return false;
    for (int i = 0; i < LVN_NODE_PROOF - 1; i++) difference |= (unsigned char)(a[i] ^ b[i]);
    return !difference;
}

void lvn_node_keep_alive(int connection, double timeout)
{
    enum { PROBES = 3 };
    const int on = 1, probes = PROBES, pause = timeout / PROBES > 1 ? (int)(timeout / PROBES) : 1;
    const unsigned ms = timeout > 1 ? (unsigned)(1000 * timeout) : 1000;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(connection, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(connection, IPPROTO_TCP, TCP_KEEPIDLE, &pause, sizeof pause);
    setsockopt(connection, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof pause);
    setsockopt(connection, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(connection, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

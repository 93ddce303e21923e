/* nodes_join.c - messages of other nodes' launchers to node 0: the handshake, whether they fit the job, and which of
 * two with the same number remains. nodes.c calls it, with the lock held. */

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "launch/nodes_private.h"

static const double CLOCK_SECONDS = 30; /* minimum difference of clocks that is reported */

void lvn_nodes_warn_stranger(struct lvn_nodes *nodes, const struct lvn_node_client *client, const char *did)
{
    if (!nodes->stranger_logged)
        lvn_log(LVN_LOG_WARN, "a process at %s that %s was rejected by the launcher of node 0", client->from, did);
    nodes->stranger_logged = true;
}

struct lvn_node_client *lvn_nodes_joined(const struct lvn_nodes *nodes, int node)
{
    for (int k = 0; k < nodes->n_clients; k++)
        if (nodes->client[k]->node == node && nodes->client[k]->joined && !nodes->client[k]->closing)
            return nodes->client[k];
    return NULL;
}

static void refuse(struct lvn_nodes *nodes, struct lvn_node_client *client, const char *reason)
{
    snprintf(nodes->refusal, sizeof nodes->refusal, "%s", reason);
    lvn_log(LVN_LOG_WARN, "a node was rejected: %s", reason);
    lvn_message_add(&client->wire.out, LVN_MESSAGE_REFUSE, reason);
    client->joined = client->waits = false;
    client->closing = true;
    client->since = lvn_seconds();
}

static bool handle_node(struct lvn_nodes *nodes, struct lvn_node_client *client, const struct lvn_message *message)
{
    char proof[LVN_NODE_PROOF];
    if (*client->nonce || strlen(message->t[0]) != LVN_NODE_NONCE - 1) return false;
    if (lvn_node_nonce(client->nonce)) return false;
    snprintf(client->nonce_of, sizeof client->nonce_of, "%s", message->t[0]);
    lvn_node_proof(nodes->o.token, "node 0", client->nonce, client->nonce_of, proof);
    lvn_message_add(&client->wire.out, LVN_MESSAGE_CHALLENGE, client->nonce, proof);
    return true;
}

static void check_clock(struct lvn_nodes *nodes, const struct lvn_node_client *client, double clock)
{
    const double offset = clock - lvn_wall_seconds();
    if (fabs(offset) <= CLOCK_SECONDS || nodes->clock_off[client->node]) return;
    nodes->clock_off[client->node] = true;
    lvn_log(LVN_LOG_WARN,
            "the clock of %s (%s) is %.0f s %s that of this node: times in logs and of files will not agree; start its "
            "NTP service",
            nodes->o.name[client->node], client->host, fabs(offset), offset > 0 ? "ahead of" : "behind");
}

static bool handle_join(struct lvn_nodes *nodes, struct lvn_node_client *client, const struct lvn_message *message)
{
    const int64_t node = message->i[0], n_nodes = message->i[1], ranks = message->i[2];
    char proof[LVN_NODE_PROOF];
    if (!*client->nonce || client->node >= 0) return false;
    lvn_node_proof(nodes->o.token, "node", client->nonce, client->nonce_of, proof);
    if (!lvn_node_proof_equal(proof, message->t[0])) {
        lvn_nodes_warn_stranger(nodes, client, "sent the token of another job");
        lvn_message_add(&client->wire.out, LVN_MESSAGE_REFUSE,
                        "its token is not this job's: give all nodes the same LEVIN_TOKEN and LEVIN_JOB_ID");
        return client->closing = true;
    }
    if (node < 0 || n_nodes < 1 || ranks < 1) return false;
    snprintf(client->host, sizeof client->host, "%s", message->t[1]);
    if (n_nodes != nodes->o.nodes || ranks != nodes->o.ranks)
        snprintf(
            client->wrong, sizeof client->wrong,
            "node %lld on %.100s was started as one of %lld nodes with %lld ranks each, and node 0 as one of %d with "
            "%d: give all the same --nodes and --nproc-per-node (NNODES, GPUS_PER_NODE)",
            (long long)node, client->host, (long long)n_nodes, (long long)ranks, nodes->o.nodes, nodes->o.ranks);
    else if (node >= n_nodes)
        return false;
    else if (node == 0)
        snprintf(client->wrong, sizeof client->wrong,
                 "two launchers claim to be node 0, one of them on %.100s: give each node its own --node-rank "
                 "(NODE_RANK)",
                 client->host);
    client->node = node < nodes->o.nodes ? (int)node : 0;
    if (!*client->wrong) check_clock(nodes, client, message->d[0]);
    return true;
}

/* A value that differs is the reason of a refusal; the first is reported. */
static bool handle_fact(struct lvn_nodes *nodes, struct lvn_node_client *client, const struct lvn_message *message)
{
    const struct lvn_words *keys = nodes->o.keys;
    int i = 0;
    if (client->node < 0 || client->joined) return false;
    if (*client->wrong) return true;
    while (i < keys->n && strcmp(keys->word[i], message->t[0]) != 0) i += 2;
    const char *mine = i < keys->n ? keys->word[i + 1] : "";
    if (!strncmp(mine, message->t[1], LVN_WIRE_TEXT - 1)) return true;
    const bool version = !strcmp(message->t[0], "version");
    snprintf(client->wrong, sizeof client->wrong, "%s on %.60s has %.60s %.100s%s, but node 0 has %.100s%s: %s",
             nodes->o.name[client->node], client->host, version ? "levin" : message->t[0],
             *message->t[1] ? message->t[1] : "\"\"", strlen(message->t[1]) > 100 ? "..." : "", *mine ? mine : "\"\"",
             strlen(mine) > 100 ? "..." : "",
             version ? "install the same on all nodes (one image)"
                     : "give all nodes the same recipe, keys and variables");
    return true;
}

static bool handle_ready(struct lvn_nodes *nodes, struct lvn_node_client *client)
{
    if (client->node < 0 || client->joined) return false;
    if (*client->wrong) {
        refuse(nodes, client, client->wrong);
        return true;
    }
    struct lvn_node_client *first = lvn_nodes_joined(nodes, client->node);
    client->waits = first || nodes->taken[client->node];
    client->joined = !client->waits;
    client->late = nodes->finishing && !(nodes->took_part[client->node] && !nodes->notified[client->node]);
    client->since = lvn_seconds();
    if (first && !first->pinged_at) {
        lvn_message_add(&first->wire.out, LVN_MESSAGE_PING);
        first->pinged_at = client->since;
    }
    return true;
}

/* The launcher that had joined is alive, so others with its number are refused. */
static bool handle_pong(struct lvn_nodes *nodes, struct lvn_node_client *client)
{
    char text[600];
    if (!client->joined || !client->pinged_at) return false;
    client->pinged_at = 0;
    for (int k = 0; k < nodes->n_clients; k++) {
        struct lvn_node_client *other = nodes->client[k];
        if (!other->waits || other->node != client->node) continue;
        snprintf(text, sizeof text,
                 "two launchers claim to be node %d, on %.100s and on %.100s: give each node its own --node-rank "
                 "(NODE_RANK)",
                 client->node, client->host, other->host);
        refuse(nodes, other, text);
    }
    return true;
}

void lvn_nodes_check_seconds(struct lvn_nodes *nodes, double now)
{
    char text[600];
    for (int k = 0; k < nodes->n_clients; k++) {
        struct lvn_node_client *client = nodes->client[k],
                               *first = client->waits ? lvn_nodes_joined(nodes, client->node) : NULL;
        if (!client->waits || client->closing) continue;
        if (first && first->pinged_at && now - first->pinged_at > nodes->o.timeout)
            first->closing = true; /* it is gone */
        if (first && !first->closing) continue;
        if (!nodes->taken[client->node]) {
            client->waits = false;
            client->joined = true;
        } else if (now - client->since > 2 * nodes->o.timeout) { /* the attempt continues, so the first one is alive */
            snprintf(
                text, sizeof text,
                "two launchers claim to be node %d, one of them on %.100s, and the other's ranks are running: give "
                "each node its own --node-rank (NODE_RANK)",
                client->node, client->host);
            refuse(nodes, client, text);
        }
    }
}

bool lvn_nodes_receive(struct lvn_nodes *nodes, struct lvn_node_client *client, const struct lvn_message *message)
{
    switch (message->kind) {
    case LVN_MESSAGE_NODE:
        return handle_node(nodes, client, message);
    case LVN_MESSAGE_JOIN:
        return handle_join(nodes, client, message);
    case LVN_MESSAGE_FACT:
        return handle_fact(nodes, client, message);
    case LVN_MESSAGE_READY:
        return handle_ready(nodes, client);
    case LVN_MESSAGE_PONG:
        return handle_pong(nodes, client);
    default:
        return false;
    }
}

/* nodes_join.c - what other nodes' launchers say to node 0: the handshake, whether they fit the job, and which of two
 * with one number stays. nodes.c calls it, with the lock held. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/nodes/nodes_private.h"

static const double CLOCK_SECONDS = 30; /* two clocks that differ by more are worth a warning */

void lvn_nodes_warn_stranger(struct lvn_nodes *s, const struct lvn_node_client *c, const char *did)
{
    if (!s->stranger_logged)
        lvn_log(LVN_LOG_WARN, "a process at %s that %s was rejected by the launcher of node 0", c->from, did);
    s->stranger_logged = true;
}

struct lvn_node_client *lvn_nodes_joined(const struct lvn_nodes *s, int node)
{
    for (int k = 0; k < s->n_clients; k++)
        if (s->client[k]->node == node && s->client[k]->joined && !s->client[k]->closing) return s->client[k];
    return NULL;
}

static void refuse(struct lvn_nodes *s, struct lvn_node_client *c, const char *reason)
{
    snprintf(s->refusal, sizeof s->refusal, "%s", reason);
    lvn_log(LVN_LOG_WARN, "a node was rejected: %s", reason);
    lvn_message_add(&c->wire.out, LVN_MESSAGE_REFUSE, reason);
    c->joined = c->waits = false;
    c->closing = true;
    c->since = lvn_seconds();
}

static bool handle_node(struct lvn_nodes *s, struct lvn_node_client *c, const struct lvn_message *m)
{
    char proof[LVN_NODE_PROOF];
    if (*c->nonce || strlen(m->t[0]) != LVN_NODE_NONCE - 1) return false;
    if (lvn_node_nonce(c->nonce)) return false;
    snprintf(c->nonce_of, sizeof c->nonce_of, "%s", m->t[0]);
    lvn_node_proof(s->o.token, "node 0", c->nonce, c->nonce_of, proof);
    lvn_message_add(&c->wire.out, LVN_MESSAGE_CHALLENGE, c->nonce, proof);
    return true;
}

static void check_clock(struct lvn_nodes *s, const struct lvn_node_client *c, double clock)
{
    const double offset = clock - lvn_wall_seconds();
    if (fabs(offset) <= CLOCK_SECONDS || s->clock_off[c->node]) return;
    s->clock_off[c->node] = true;
    lvn_log(LVN_LOG_WARN,
            "the clock of %s (%s) is %.0f s %s that of this node: times in logs and file dates will not fit; start its "
            "NTP service",
            s->o.name[c->node], c->host, fabs(offset), offset > 0 ? "ahead of" : "behind");
}

static bool handle_join(struct lvn_nodes *s, struct lvn_node_client *c, const struct lvn_message *m)
{
    const int64_t node = m->i[0], nodes = m->i[1], ranks = m->i[2];
    char proof[LVN_NODE_PROOF];
    if (!*c->nonce || c->node >= 0) return false;
    lvn_node_proof(s->o.token, "node", c->nonce, c->nonce_of, proof);
    if (!lvn_node_proof_equal(proof, m->t[0])) {
        lvn_nodes_warn_stranger(s, c, "sent another token than this job's");
        lvn_message_add(&c->wire.out, LVN_MESSAGE_REFUSE,
                        "its token is not this job's: give all nodes the same LEVIN_TOKEN and LEVIN_JOB_ID");
        return c->closing = true;
    }
    if (node < 0 || nodes < 1 || ranks < 1) return false;
    snprintf(c->host, sizeof c->host, "%s", m->t[1]);
    if (nodes != s->o.nodes || ranks != s->o.ranks)
        snprintf(
            c->wrong, sizeof c->wrong,
            "node %lld on %.100s was started as one of %lld nodes with %lld ranks each, and node 0 as one of %d with "
            "%d: give all the same --nodes and --nproc-per-node (NNODES, GPUS_PER_NODE)",
            (long long)node, c->host, (long long)nodes, (long long)ranks, s->o.nodes, s->o.ranks);
    else if (node >= nodes)
        return false;
    else if (node == 0)
        snprintf(c->wrong, sizeof c->wrong,
                 "two launchers claim to be node 0, one of them on %.100s: give each node a --node-rank (NODE_RANK) of "
                 "its own",
                 c->host);
    c->node = node < s->o.nodes ? (int)node : 0;
    if (!*c->wrong) check_clock(s, c, m->d[0]);
    return true;
}

/* A fact that differs is the reason of a refusal; the first counts. */
static bool handle_fact(struct lvn_nodes *s, struct lvn_node_client *c, const struct lvn_message *m)
{
    const struct lvn_words *keys = s->o.keys;
    int i = 0;
    if (c->node < 0 || c->joined) return false;
    if (*c->wrong) return true;
    while (i < keys->n && strcmp(keys->word[i], m->t[0]) != 0) i += 2;
    const char *mine = i < keys->n ? keys->word[i + 1] : "";
    if (!strncmp(mine, m->t[1], LVN_WIRE_TEXT - 1)) return true;
    const bool version = !strcmp(m->t[0], "version");
    snprintf(c->wrong, sizeof c->wrong, "%s on %.60s has %.60s %.100s%s, and node 0 has %.100s%s: %s",
             s->o.name[c->node], c->host, version ? "levin" : m->t[0], *m->t[1] ? m->t[1] : "\"\"",
             strlen(m->t[1]) > 100 ? "..." : "", *mine ? mine : "\"\"", strlen(mine) > 100 ? "..." : "",
             version ? "install the same on all nodes (one image)"
                     : "give all nodes the same recipe, keys and variables");
    return true;
}

static bool handle_ready(struct lvn_nodes *s, struct lvn_node_client *c)
{
    if (c->node < 0 || c->joined) return false;
    if (*c->wrong) {
        refuse(s, c, c->wrong);
        return true;
    }
    struct lvn_node_client *first = lvn_nodes_joined(s, c->node);
    c->waits = first || s->taken[c->node];
    c->joined = !c->waits;
    c->late = s->finishing && !(s->took_part[c->node] && !s->notified[c->node]);
    c->since = lvn_seconds();
    if (first && !first->pinged_at) {
        lvn_message_add(&first->wire.out, LVN_MESSAGE_PING);
        first->pinged_at = c->since;
    }
    return true;
}

/* The launcher that had joined lives: who else has its number is refused. */
static bool handle_pong(struct lvn_nodes *s, struct lvn_node_client *c)
{
    char text[600];
    if (!c->joined || !c->pinged_at) return false;
    c->pinged_at = 0;
    for (int k = 0; k < s->n_clients; k++) {
        struct lvn_node_client *other = s->client[k];
        if (!other->waits || other->node != c->node) continue;
        snprintf(text, sizeof text,
                 "two launchers claim to be node %d, on %.100s and on %.100s: give each node a --node-rank (NODE_RANK) "
                 "of its own",
                 c->node, c->host, other->host);
        refuse(s, other, text);
    }
    return true;
}

void lvn_nodes_check_seconds(struct lvn_nodes *s, double now)
{
    char text[600];
    for (int k = 0; k < s->n_clients; k++) {
        struct lvn_node_client *c = s->client[k], *first = c->waits ? lvn_nodes_joined(s, c->node) : NULL;
        if (!c->waits || c->closing) continue;
        if (first && first->pinged_at && now - first->pinged_at > s->o.timeout) first->closing = true; /* it is gone */
        if (first && !first->closing) continue;
        if (!s->taken[c->node]) {
            c->waits = false;
            c->joined = true;
        } else if (now - c->since > 2 * s->o.timeout) { /* the attempt goes on, so the first one lives */
            snprintf(
                text, sizeof text,
                "two launchers claim to be node %d, one of them on %.100s, and the other's ranks are running: give "
                "each node a --node-rank (NODE_RANK) of its own",
                c->node, c->host);
            refuse(s, c, text);
        }
    }
}

bool lvn_nodes_receive(struct lvn_nodes *s, struct lvn_node_client *c, const struct lvn_message *m)
{
    switch (m->kind) {
    case LVN_MESSAGE_NODE:
        return handle_node(s, c, m);
    case LVN_MESSAGE_JOIN:
        return handle_join(s, c, m);
    case LVN_MESSAGE_FACT:
        return handle_fact(s, c, m);
    case LVN_MESSAGE_READY:
        return handle_ready(s, c);
    case LVN_MESSAGE_PONG:
        return handle_pong(s, c);
    default:
        return false;
    }
}

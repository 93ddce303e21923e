/* node_agent.c - levin launch on a node other than node 0: it joins node 0's launcher (nodes.h), starts ranks when node
 * 0 requests it (node_agent_attempt.c), joins again after each attempt, and exits with node 0's exit code. launch.c
 * calls it.
 *
 * It waits for node 0 for trainer.start_timeout, at the start and whenever node 0 is gone without having sent the end.
 * Names are resolved again each time, because node 0 may restart with another address. Node 0 does not restart after it
 * has ended the run, which the run's folder records. A node that is requested to stop joins again, to receive the
 * exit code. It runs its own command, never one that it receives. */
#include <netinet/in.h>
#include <resolv.h>
#include <unistd.h>

#include "base/clock.h"
#include "cluster/rendezvous/endpoints.h"
#include "launch/node_agent.h"
#include "launch/node_handshake.h"

static const double FIRST_REPORT_SECONDS = 5, REPORT_SECONDS = 60; /* between lines about waiting for node 0 */
static const double TRY_SECONDS = 5, PAUSE_SECONDS = 0.2, ANSWER_SECONDS = 10;
static const double FINISH_SECONDS = 5; /* for node 0 to send FINISH to a node that has stopped */

enum outcome {
    AGAIN,    /* no connection, or it was lost: try again */
    STARTED,  /* START was received */
    FINISHED, /* FINISH was received, or node 0 has refused this node */
};

static void close_connection(struct lvn_node_agent *agent)
{
    lvn_wire_close(&agent->wire);
    agent->wire = (struct lvn_wire){.fd = -1};
}

/* True if a signal requested the end and this node no longer waits for node 0's answer. */
static bool must_end(const struct lvn_node_agent *agent)
{
    return lvn_launch_stop_requested() &&
           (lvn_seconds() >= agent->finish_until || lvn_launch_signals_seen.interrupts > 1);
}

/* One attempt to connect to node 0; false: `reason` has the cause. */
static bool connect_once(struct lvn_node_agent *agent, char reason[300])
{
    struct lvn_connection_attempt attempt;
    enum lvn_connect_state state;
    bool ready = false;
    lvn_connect_begin(&attempt, agent->address, 0, 0);
    attempt.end = lvn_seconds() + TRY_SECONDS; /* of one attempt; this function is called again */
    while ((state = lvn_connect_step(&attempt, ready, lvn_seconds())) == LVN_CONNECT_PENDING && attempt.fd >= 0) {
        struct pollfd p = {.fd = attempt.fd, .events = POLLOUT};
        ready = lvn_launch_poll(&p, 1, attempt.until - lvn_seconds()) > 0;
        if (must_end(agent)) break;
    }
    if (state == LVN_CONNECT_DONE) {
        agent->wire.fd = attempt.fd;
        attempt.fd = -1;
        lvn_node_keep_alive(agent->wire.fd, agent->l->request.rank_timeout);
    } else {
        snprintf(reason, 300, "%s", attempt.reason);
    }
    lvn_connect_end(&attempt);
    return agent->wire.fd >= 0;
}

/* Receive the next message within `seconds`; false: none, and *ended if the connection has ended. */
static bool receive(struct lvn_node_agent *agent, double seconds, struct lvn_message *message, bool *ended)
{
    const double end = lvn_seconds() + seconds;
    *ended = false;
    for (bool open = true;;) {
        char *line = lvn_wire_line(&agent->wire);
        if (line && lvn_message_parse(line, message)) return true;
        if (line || !open || agent->wire.broken) {
            *ended = true;
            return false;
        }
        if (must_end(agent) || lvn_seconds() >= end) return false;
        struct pollfd p = {.fd = agent->wire.fd, .events = (short)(POLLIN | (agent->wire.out.n ? POLLOUT : 0))};
        if (lvn_launch_poll(&p, 1, end - lvn_seconds()) <= 0) continue;
        lvn_wire_flush(&agent->wire);
        if (p.revents & (POLLIN | POLLHUP | POLLERR)) open = lvn_wire_read(&agent->wire);
    }
}

/* Prove that this is a launcher of the job, verify that the other side is too, and send the index of this node. */
static bool join(struct lvn_node_agent *agent, char reason[300])
{
    const struct lvn_launch_place *place = &agent->l->place;
    const struct lvn_words *keys = &agent->l->request.keys;
    char nonce[LVN_NODE_NONCE], proof[LVN_NODE_PROOF], host[256] = "";
    struct lvn_message message;
    bool ended;
    snprintf(reason, 300, "%s", "no random bytes are available");
    if (lvn_node_nonce(nonce)) return false;
    lvn_message_add(&agent->wire.out, LVN_MESSAGE_NODE, nonce);
    lvn_wire_flush(&agent->wire);
    snprintf(reason, 300, "%s", "another program answers there");
    if (!receive(agent, ANSWER_SECONDS, &message, &ended) || message.kind != LVN_MESSAGE_CHALLENGE) return false;
    snprintf(reason, 300, "%s", "a levin launch with another LEVIN_TOKEN or LEVIN_JOB_ID answers there");
    lvn_node_proof(agent->token, "node 0", message.t[0], nonce, proof);
    if (!lvn_node_proof_equal(proof, message.t[1])) return false;
    gethostname(host, sizeof host - 1);
    lvn_node_proof(agent->token, "node", message.t[0], nonce, proof);
    lvn_message_add(&agent->wire.out, LVN_MESSAGE_JOIN, proof, (int64_t)place->node, (int64_t)place->nodes,
                    (int64_t)place->ranks, lvn_wall_seconds(), host);
    for (int i = 0; i + 1 < keys->n; i += 2)
        lvn_message_add(&agent->wire.out, LVN_MESSAGE_FACT, keys->word[i], keys->word[i + 1]);
    lvn_message_add(&agent->wire.out, LVN_MESSAGE_READY);
    lvn_wire_flush(&agent->wire);
    return true;
}

/* Joined: wait for messages of node 0. This needs no time limit, because node 0 has one. */
static enum outcome await_start(struct lvn_node_agent *agent, int *code, char reason[300])
{
    struct lvn_message message;
    bool ended = false;
    snprintf(reason, 300, "%s", "it closed the connection");
    while (!ended && !must_end(agent)) {
        if (!receive(agent, agent->stopping ? PAUSE_SECONDS : REPORT_SECONDS, &message, &ended)) continue;
        switch (message.kind) {
        case LVN_MESSAGE_PING:
            lvn_message_add(&agent->wire.out, LVN_MESSAGE_PONG);
            lvn_wire_flush(&agent->wire);
            break;
        case LVN_MESSAGE_START:
            return STARTED;
        case LVN_MESSAGE_FINISH:
            *code = (int)message.i[0];
            if (*code != LVN_EXIT_DONE && *code != LVN_EXIT_STOPPED)
                fprintf(stderr, "%s has ended the job with exit code %d: see its output for the reason\n",
                        agent->name_0, *code);
            return FINISHED;
        case LVN_MESSAGE_REFUSE:
            fprintf(stderr, "error: %s rejects this node: %s\n", agent->name_0, message.t[0]);
            *code = LVN_EXIT_USAGE;
            return FINISHED;
        default:
            return AGAIN;
        }
    }
    return AGAIN;
}

/* One connection to node 0, up to START or the end. *since: when node 0 was last heard from, or the start of the wait.
 */
static enum outcome meet(struct lvn_node_agent *agent, double *since, double *next_report, int *code)
{
    char reason[300] = "";
    enum outcome outcome = AGAIN;
    const bool connected = connect_once(agent, reason), joined = connected && join(agent, reason);
    if (connected) snprintf(agent->wrong_peer, sizeof agent->wrong_peer, "%s", joined ? "" : reason);
    if (joined) {
        outcome = await_start(agent, code, reason);
        *since = lvn_seconds();
        *next_report = *since + FIRST_REPORT_SECONDS;
    }
    if (outcome != AGAIN || must_end(agent)) return outcome;
    close_connection(agent);
    const double now = lvn_seconds();
    if (now - *since > agent->l->request.start_timeout) {
        fprintf(stderr,
                "error: %s could not be reached at %s for %.6g s (%s); check that it runs and that MASTER_ADDR and "
                "MASTER_PORT are its address, or raise trainer.start_timeout\n",
                agent->name_0, agent->address, agent->l->request.start_timeout,
                *agent->wrong_peer ? agent->wrong_peer : reason);
        *code = LVN_EXIT_FAULT;
        return FINISHED;
    }
    if (now >= *next_report) {
        if (lvn_launch_run_ended(agent->l)) {
            fprintf(stderr, "this job has already ended its run: nothing to do\n");
            *code = LVN_EXIT_DONE;
            return FINISHED;
        }
        fprintf(stderr, "waiting for %s at %s (%s)\n", agent->name_0, agent->address, reason);
        *next_report = now + REPORT_SECONDS;
    }
    (void)lvn_launch_poll(NULL, 0, PAUSE_SECONDS);
    return AGAIN;
}

/* Limit the time of lost DNS requests to one second instead of five, and that of an unavailable DNS server to a few
 * seconds per search domain, because signals are not handled meanwhile. */
static void shorten_dns_timeouts(void)
{
#ifdef __GLIBC__
    if (res_init()) return;
    _res.retrans = 1;
    _res.retry = 2;
#endif
}

static enum lvn_status run(struct lvn_node_agent *agent, int *code)
{
    double since = lvn_seconds(), next_report = since + FIRST_REPORT_SECONDS;
    for (;;) {
        const enum outcome outcome = meet(agent, &since, &next_report, code);
        if (outcome == FINISHED) return LVN_OK;
        if (outcome == STARTED) {
            enum lvn_status status = lvn_node_agent_attempt(agent);
            close_connection(agent);
            LVN_TRY(status);
            since = lvn_seconds();
            next_report = since + FIRST_REPORT_SECONDS;
            agent->finish_until = agent->stopping ? since + FINISH_SECONDS : 0;
        } else if (must_end(agent)) {
            fprintf(stderr, "stopped on request while this node waited for %s\n", agent->name_0);
            *code = LVN_EXIT_STOPPED;
            return LVN_OK;
        }
    }
}

enum lvn_status lvn_node_agent_run(struct lvn_launch *l, int *code)
{
    const struct lvn_launch_place *place = &l->place;
    struct lvn_node_agent agent = {.l = l, .wire = {.fd = -1}};
    const bool six = strchr(place->master, ':') != NULL;
    agent.name_0 = l->resources.hosts[0].name;
    agent.address = lvn_arena_printf(l->arena, six ? "[%s]:%d" : "%s:%d", place->master, place->port);
    if (!agent.address) return LVN_MEMORY;
    LVN_TRY(lvn_node_token(&agent.token));
    shorten_dns_timeouts();
    lvn_launch_signals(true);
    enum lvn_status status = run(&agent, code);
    close_connection(&agent);
    lvn_launch_signals(false);
    return status;
}

/* node_agent.c - levin launch on a node other than node 0: it joins node 0's launcher (nodes.h), starts ranks when that
 * says so (node_agent_attempt.c), joins again after each attempt, and ends with the code that node 0 ends with.
 * launch.c calls it.
 *
 * It waits for node 0 for trainer.start_timeout, at the start and whenever node 0 is gone without having told the end:
 * names are resolved anew each time, for node 0 may come back with another address. Node 0 does not come back where it
 * has ended the run, which the run's folder says. A node that is asked to stop joins once more, to be told the code. It
 * runs its own command, never one that it is told. */
#include <netinet/in.h>
#include <resolv.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/launch/node_agent.h"
#include "cli/nodes/node_handshake.h"
#include "cluster/rendezvous/endpoints.h"

static const double FIRST_NEWS_SECONDS = 5, NEWS_SECONDS = 60; /* between lines about who is waited for */
static const double TRY_SECONDS = 5, PAUSE_SECONDS = 0.2, ANSWER_SECONDS = 10;
static const double FINISH_SECONDS = 5; /* for node 0 to send a node that has stopped FINISH */

enum outcome {
    AGAIN,    /* no connection, or it was lost: try again */
    STARTED,  /* START has come */
    FINISHED, /* FINISH has come, or node 0 has refused this node */
};

static void close_connection(struct lvn_node_agent *a)
{
    lvn_wire_close(&a->wire);
    a->wire = (struct lvn_wire){.fd = -1};
}

/* Is it asked to stop, and is no answer of node 0 to be awaited? */
static bool must_end(const struct lvn_node_agent *a)
{
    return lvn_launch_stop_requested() && (lvn_seconds() >= a->finish_until || lvn_launch_signals_seen.interrupts > 1);
}

/* One connection to node 0; false: `reason` says why there is none. */
static bool connect_once(struct lvn_node_agent *a, char reason[300])
{
    struct lvn_connection_attempt w;
    enum lvn_connect_state state;
    bool ready = false;
    lvn_connect_begin(&w, a->address, 0, 0);
    w.end = lvn_seconds() + TRY_SECONDS; /* of one try; this function is called again */
    while ((state = lvn_connect_step(&w, ready, lvn_seconds())) == LVN_CONNECT_PENDING && w.fd >= 0) {
        struct pollfd p = {.fd = w.fd, .events = POLLOUT};
        ready = lvn_launch_poll(&p, 1, w.until - lvn_seconds()) > 0;
        if (must_end(a)) break;
    }
    if (state == LVN_CONNECT_DONE) {
        a->wire.fd = w.fd;
        w.fd = -1;
        lvn_node_keep_alive(a->wire.fd, a->l->request.rank_timeout);
    } else {
        snprintf(reason, 300, "%s", w.reason);
    }
    lvn_connect_end(&w);
    return a->wire.fd >= 0;
}

/* The next message within `seconds`; false: there is none, and the connection has ended if *ended. */
static bool receive(struct lvn_node_agent *a, double seconds, struct lvn_message *m, bool *ended)
{
    const double end = lvn_seconds() + seconds;
    *ended = false;
    for (bool open = true;;) {
        char *line = lvn_wire_line(&a->wire);
        if (line && lvn_message_parse(line, m)) return true;
        if (line || !open || a->wire.broken) {
            *ended = true;
            return false;
        }
        if (must_end(a) || lvn_seconds() >= end) return false;
        struct pollfd p = {.fd = a->wire.fd, .events = (short)(POLLIN | (a->wire.out.n ? POLLOUT : 0))};
        if (lvn_launch_poll(&p, 1, end - lvn_seconds()) <= 0) continue;
        lvn_wire_flush(&a->wire);
        if (p.revents & (POLLIN | POLLHUP | POLLERR)) open = lvn_wire_read(&a->wire);
    }
}

/* Prove that this is a launcher of the job, see that the other side is, and say which node this is. */
static bool join(struct lvn_node_agent *a, char reason[300])
{
    const struct lvn_launch_place *place = &a->l->place;
    const struct lvn_words *keys = &a->l->request.keys;
    char nonce[LVN_NODE_NONCE], proof[LVN_NODE_PROOF], host[256] = "";
    struct lvn_message m;
    bool ended;
    snprintf(reason, 300, "%s", "no random bytes");
    if (lvn_node_nonce(nonce)) return false;
    lvn_message_add(&a->wire.out, LVN_MESSAGE_NODE, nonce);
    lvn_wire_flush(&a->wire);
    snprintf(reason, 300, "%s", "something answers there that is no levin launch");
    if (!receive(a, ANSWER_SECONDS, &m, &ended) || m.kind != LVN_MESSAGE_CHALLENGE) return false;
    snprintf(reason, 300, "%s", "a levin launch with another LEVIN_TOKEN or LEVIN_JOB_ID answers there");
    lvn_node_proof(a->token, "node 0", m.t[0], nonce, proof);
    if (!lvn_node_proof_equal(proof, m.t[1])) return false;
    gethostname(host, sizeof host - 1);
    lvn_node_proof(a->token, "node", m.t[0], nonce, proof);
    lvn_message_add(&a->wire.out, LVN_MESSAGE_JOIN, proof, (int64_t)place->node, (int64_t)place->nodes,
                    (int64_t)place->ranks, lvn_wall_seconds(), host);
    for (int i = 0; i + 1 < keys->n; i += 2)
        lvn_message_add(&a->wire.out, LVN_MESSAGE_FACT, keys->word[i], keys->word[i + 1]);
    lvn_message_add(&a->wire.out, LVN_MESSAGE_READY);
    lvn_wire_flush(&a->wire);
    return true;
}

/* Joined: wait for what node 0 says. There is no time limit, for node 0 has one. */
static enum outcome await_start(struct lvn_node_agent *a, int *code, char reason[300])
{
    struct lvn_message m;
    bool ended = false;
    snprintf(reason, 300, "%s", "it closed the connection");
    while (!ended && !must_end(a)) {
        if (!receive(a, a->stopping ? PAUSE_SECONDS : NEWS_SECONDS, &m, &ended)) continue;
        switch (m.kind) {
        case LVN_MESSAGE_PING:
            lvn_message_add(&a->wire.out, LVN_MESSAGE_PONG);
            lvn_wire_flush(&a->wire);
            break;
        case LVN_MESSAGE_START:
            return STARTED;
        case LVN_MESSAGE_FINISH:
            *code = (int)m.i[0];
            if (*code != LVN_EXIT_DONE && *code != LVN_EXIT_STOPPED)
                fprintf(stderr, "%s has ended the job with exit code %d: its output says why\n", a->name_0, *code);
            return FINISHED;
        case LVN_MESSAGE_REFUSE:
            fprintf(stderr, "error: %s rejects this node: %s\n", a->name_0, m.t[0]);
            *code = LVN_EXIT_USAGE;
            return FINISHED;
        default:
            return AGAIN;
        }
    }
    return AGAIN;
}

/* One meeting with node 0, up to START or the end. *since: when node 0 was last seen, or the start of the wait. */
static enum outcome meet(struct lvn_node_agent *a, double *since, double *news, int *code)
{
    char reason[300] = "";
    enum outcome outcome = AGAIN;
    const bool connected = connect_once(a, reason), joined = connected && join(a, reason);
    if (connected) snprintf(a->wrong_peer, sizeof a->wrong_peer, "%s", joined ? "" : reason);
    if (joined) {
        outcome = await_start(a, code, reason);
        *since = lvn_seconds();
        *news = *since + FIRST_NEWS_SECONDS;
    }
    if (outcome != AGAIN || must_end(a)) return outcome;
    close_connection(a);
    const double now = lvn_seconds();
    if (now - *since > a->l->request.start_timeout) {
        fprintf(stderr,
                "error: %s could not be reached at %s for %.6g s (%s): check that it runs and that MASTER_ADDR and "
                "MASTER_PORT name it, or set trainer.start_timeout higher\n",
                a->name_0, a->address, a->l->request.start_timeout, *a->wrong_peer ? a->wrong_peer : reason);
        *code = LVN_EXIT_FAULT;
        return FINISHED;
    }
    if (now >= *news) {
        if (lvn_launch_run_ended(a->l)) {
            fprintf(stderr, "this job has ended its run already: nothing to do\n");
            *code = LVN_EXIT_DONE;
            return FINISHED;
        }
        fprintf(stderr, "waiting for %s at %s (%s)\n", a->name_0, a->address, reason);
        *news = now + NEWS_SECONDS;
    }
    (void)lvn_launch_poll(NULL, 0, PAUSE_SECONDS);
    return AGAIN;
}

/* A question to DNS that is lost costs this thread a second, not five, and a server that is down a few seconds for each
 * domain that is searched: no signal is seen meanwhile. */
static void be_quick_about_names(void)
{
#ifdef __GLIBC__
    if (res_init()) return;
    _res.retrans = 1;
    _res.retry = 2;
#endif
}

static enum lvn_status run(struct lvn_node_agent *a, int *code)
{
    double since = lvn_seconds(), news = since + FIRST_NEWS_SECONDS;
    for (;;) {
        const enum outcome outcome = meet(a, &since, &news, code);
        if (outcome == FINISHED) return LVN_OK;
        if (outcome == STARTED) {
            enum lvn_status status = lvn_node_agent_attempt(a);
            close_connection(a);
            LVN_TRY(status);
            since = lvn_seconds();
            news = since + FIRST_NEWS_SECONDS;
            a->finish_until = a->stopping ? since + FINISH_SECONDS : 0;
        } else if (must_end(a)) {
            fprintf(stderr, "stopped on request while this node waited for %s\n", a->name_0);
            *code = LVN_EXIT_STOPPED;
            return LVN_OK;
        }
    }
}

enum lvn_status lvn_node_agent_run(struct lvn_launch *l, int *code)
{
    const struct lvn_launch_place *p = &l->place;
    struct lvn_node_agent a = {.l = l, .wire = {.fd = -1}};
    const bool six = strchr(p->master, ':') != NULL;
    a.name_0 = l->resources.hosts[0].name;
    a.address = lvn_arena_printf(l->arena, six ? "[%s]:%d" : "%s:%d", p->master, p->port);
    if (!a.address) return LVN_MEMORY;
    LVN_TRY(lvn_node_token(&a.token));
    be_quick_about_names();
    lvn_launch_signals(true);
    enum lvn_status status = run(&a, code);
    close_connection(&a);
    lvn_launch_signals(false);
    return status;
}

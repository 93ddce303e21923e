/* launch_nodes.c - on node 0 of a launch by nodes: waits for the launchers of the other nodes before each attempt, and
 * notifies them of the end. launch_restart.c calls it; nodes.c has the connections, ranks_relay.c an attempt's traffic.
 */
#include <unistd.h>

#include "base/clock.h"
#include "cluster/rendezvous/endpoints.h"
#include "launch/launch.h"
#include "launch/node_handshake.h"
#include "launch/nodes.h"

static const double FIRST_REPORT_SECONDS = 5, REPORT_SECONDS = 60; /* between lines about missing nodes */
static const double TICK_SECONDS = 0.02;
static const double FINISH_SECONDS = 10; /* minimum for nodes to connect again and receive the end */

enum lvn_status lvn_launch_nodes_start(struct lvn_launch *l)
{
    const struct lvn_launch_place *place = &l->place;
    const char **name = lvn_arena_alloc(l->arena, sizeof *name * (size_t)place->nodes);
    struct lvn_nodes_options o = {.nodes = place->nodes,
                                  .ranks = place->ranks,
                                  .listen = place->loopback ? place->master : NULL,
                                  .port = place->port,
                                  .timeout = l->request.rank_timeout,
                                  .keys = &l->request.keys,
                                  .name = name};
    if (!name) return LVN_MEMORY;
    for (int i = 0; i < place->nodes; i++) name[i] = l->resources.hosts[i].name;
    LVN_TRY(lvn_node_token(&o.token));
    return lvn_nodes_start(&l->nodes, &o);
}

/* "2 of 4 nodes: job-2, job-3" */
static void add_missing(const struct lvn_launch *l, const bool *missing, int n, struct lvn_text *t)
{
    enum { MAX_NAMES = 16 };
    int listed = 0;
    lvn_text_printf(t, "%d of %d nodes", n, l->place.nodes);
    for (int i = 0; i < l->place.nodes; i++) {
        if (!missing[i] || listed == MAX_NAMES) continue;
        lvn_text_printf(t, "%s%s", listed++ ? ", " : ": ", l->resources.hosts[i].name);
    }
    if (n > listed) lvn_text_printf(t, " and %d more", n - listed);
}

static void print_missing(const struct lvn_launch *l, const bool *missing, int n)
{
    LVN_LOCAL_TEXT(t);
    add_missing(l, missing, n, &t);
    fprintf(stderr, "waiting for %s\n", t.p ? t.p : "nodes");
}

/* True if MASTER_ADDR, the address of node 0, is not an address of this machine, perhaps because this is not node 0. */
static bool leads_elsewhere(const struct lvn_launch_place *place)
{
    int fd;
    if (!*place->master) return false;
    if (lvn_listen(place->master, 0, &fd) == LVN_OK) {
        close(fd);
        return false;
    }
    lvn_error_clear();
    return true;
}

/* An error: these nodes did not join in time. */
static void report_missing(const struct lvn_launch *l, const bool *missing, int n)
{
    char refusal[600];
    const bool elsewhere = leads_elsewhere(&l->place), loopback = l->place.loopback;
    LVN_LOCAL_TEXT(t);
    add_missing(l, missing, n, &t);
    lvn_nodes_refusal(l->nodes, refusal);
    fprintf(stderr,
            "error: %s %s not joined within %.6g s; check that they could start and can reach port %d of this one, or "
            "raise trainer.start_timeout%s%s%s%s%s%s%s%s\n",
            t.p ? t.p : "nodes", n == 1 ? "has" : "have", l->request.start_timeout, l->place.port,
            elsewhere ? "; MASTER_ADDR, " : "", elsewhere ? l->place.master : "",
            elsewhere ? ", is not an address of this machine: if another one is node 0, give this one its own "
                        "--node-rank (NODE_RANK)"
                      : "",
            loopback ? "; only nodes on this machine can reach it, because MASTER_ADDR is " : "",
            loopback ? l->place.master : "", loopback ? ": set it to this machine's name or address" : "",
            *refusal ? "; the last rejected launcher: " : "", refusal);
}

enum lvn_status lvn_launch_nodes_gather(struct lvn_launch *l)
{
    const double begin = lvn_seconds(), end = begin + l->request.start_timeout;
    double next_report = begin + FIRST_REPORT_SECONDS;
    bool *missing = lvn_calloc((size_t)l->place.nodes, sizeof *missing);
    int *connection = lvn_calloc((size_t)l->place.nodes, sizeof *connection);
    const enum lvn_status status = missing && connection ? LVN_OK : LVN_MEMORY;
    bool acquired = false;
    lvn_nodes_release(l->nodes);
    while (!status && !acquired && !lvn_launch_stop_requested()) {
        const int n = lvn_nodes_missing(l->nodes, missing);
        const double now = lvn_seconds();
        if (n && now >= end) report_missing(l, missing, n);
        acquired = lvn_nodes_acquire(l->nodes, now < end, connection);
        if (acquired) break;
        if (now >= next_report) {
            print_missing(l, missing, n);
            next_report = now + REPORT_SECONDS;
        }
        (void)lvn_launch_pause(TICK_SECONDS);
    }
    for (int i = 0; i < l->place.nodes; i++) {
        l->resources.hosts[i].connection = acquired ? connection[i] : 0;
        l->resources.hosts[i].down = i && !l->resources.hosts[i].connection;
    }
    free(missing);
    free(connection);
    return status;
}

void lvn_launch_close_connections(struct lvn_launch *l)
{
    for (int i = 0; i < l->resources.n_hosts; i++) {
        if (l->resources.hosts[i].connection) close(l->resources.hosts[i].connection);
        l->resources.hosts[i].connection = 0;
    }
}

void lvn_launch_nodes_end(struct lvn_launch *l, int code)
{
    if (!l->nodes) return;
    const double timeout = l->request.rank_timeout > FINISH_SECONDS ? l->request.rank_timeout : FINISH_SECONDS;
    lvn_launch_close_connections(l);
    lvn_nodes_release(l->nodes);
    lvn_nodes_finish(l->nodes, code, timeout);
    lvn_nodes_stop(l->nodes);
    l->nodes = NULL;
}

/* launch_nodes.c - on node 0 of a launch by nodes: gathers the launchers of the other nodes before each attempt, and
 * tells them the end. launch_restart.c calls it; connections are nodes.c's, an attempt's traffic is ranks_relay.c's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/launch/launch.h"
#include "cli/nodes/node_handshake.h"
#include "cli/nodes/nodes.h"
#include "cluster/rendezvous/endpoints.h"

static const double FIRST_NEWS_SECONDS = 5, NEWS_SECONDS = 60; /* between lines about who is waited for */
static const double TICK_SECONDS = 0.02;
static const double FINISH_SECONDS = 10; /* at least, for nodes to come back and hear the end */

enum lvn_status lvn_launch_nodes_start(struct lvn_launch *l)
{
    const struct lvn_launch_place *p = &l->place;
    const char **name = lvn_arena_alloc(l->arena, sizeof *name * (size_t)p->nodes);
    struct lvn_nodes_options o = {.nodes = p->nodes,
                                  .ranks = p->ranks,
                                  .listen = p->loopback ? p->master : NULL,
                                  .port = p->port,
                                  .timeout = l->request.rank_timeout,
                                  .keys = &l->request.keys,
                                  .name = name};
    if (!name) return LVN_MEMORY;
    for (int i = 0; i < p->nodes; i++) name[i] = l->resources.hosts[i].name;
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

static void say_missing(const struct lvn_launch *l, const bool *missing, int n)
{
    LVN_LOCAL_TEXT(t);
    add_missing(l, missing, n, &t);
    fprintf(stderr, "waiting for %s\n", t.p ? t.p : "nodes");
}

/* Does the address of node 0 that all are given lead elsewhere, perhaps because this is not node 0? */
static bool leads_elsewhere(const struct lvn_launch_place *p)
{
    int fd;
    if (!*p->master) return false;
    if (lvn_listen(p->master, 0, &fd) == LVN_OK) {
        close(fd);
        return false;
    }
    lvn_error_clear();
    return true;
}

/* In time they were not. */
static void report_missing(const struct lvn_launch *l, const bool *missing, int n)
{
    char refusal[600];
    const bool elsewhere = leads_elsewhere(&l->place);
    LVN_LOCAL_TEXT(t);
    add_missing(l, missing, n, &t);
    lvn_nodes_refusal(l->nodes, refusal);
    fprintf(stderr,
            "error: %s %s not joined within %.6g s: check that they could start and reach port %d of this one, or set "
            "trainer.start_timeout higher%s%s%s%s%s\n",
            t.p ? t.p : "nodes", n == 1 ? "has" : "have", l->request.start_timeout, l->place.port,
            elsewhere ? "; MASTER_ADDR, " : "", elsewhere ? l->place.master : "",
            elsewhere ? ", does not lead to this machine: if another one is node 0, give this one its own --node-rank "
                        "(NODE_RANK)"
                      : "",
            *refusal ? "; the last one rejected: " : "", refusal);
}

void lvn_launch_nodes_gather(struct lvn_launch *l)
{
    const double begin = lvn_seconds(), end = begin + l->request.start_timeout;
    double news = begin + FIRST_NEWS_SECONDS;
    bool *missing = calloc((size_t)l->place.nodes, sizeof *missing);
    int *connection = calloc((size_t)l->place.nodes, sizeof *connection);
    bool taken = false;
    lvn_nodes_release(l->nodes);
    while (missing && connection && !taken && !lvn_launch_stop_requested()) {
        const int n = lvn_nodes_missing(l->nodes, missing);
        const double now = lvn_seconds();
        if (n && now >= end) report_missing(l, missing, n);
        taken = lvn_nodes_take(l->nodes, now < end, connection);
        if (taken) break;
        if (now >= news) {
            say_missing(l, missing, n);
            news = now + NEWS_SECONDS;
        }
        (void)lvn_launch_pause(TICK_SECONDS);
    }
    for (int i = 0; i < l->place.nodes; i++) {
        l->resources.hosts[i].connection = taken ? connection[i] : 0;
        l->resources.hosts[i].down = i && !l->resources.hosts[i].connection;
    }
    free(missing);
    free(connection);
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

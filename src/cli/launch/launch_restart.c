/* launch_restart.c - runs attempts until one ends for good; called by launch.c. One attempt is launch_attempt.c's.
 *
 * A fault that resuming from the last checkpoint can cure (LVN_EXIT_FAULT) restarts the training, but at most
 * --max-restarts times in a row without a later checkpoint. Hosts that do not answer or were at fault twice are left
 * out, and ranks are mapped anew in the order of the hosts, so that spare hosts come in. If slots are too few, the
 * launch ends or continues with fewer ranks (--min-ranks). A job of Slurm that cannot continue on its nodes is requeued
 * and excludes the bad ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/launch/launch.h"
#include "cli/requeue.h"

enum { MAX_LINKS = 64 }; /* pairs of hosts whose faults are counted */

struct restarts {
    struct lvn_launch *l;
    int ranks;                  /* of the first attempt */
    int used;                   /* restarts since `saved` */
    struct lvn_run_saved saved; /* the newest checkpoint after the last attempt */
    bool progress;              /* a later checkpoint than at the start of the launch */
    struct faulty_link {
        int host[2]; /* indices, the lower one first */
        int faults;
    } link[MAX_LINKS];
    int n_links;
};

/* Count a fault of the link between two hosts. Which of the two causes it is not known: the second time one of them is
 * left out, never this machine, and otherwise the one with the higher index. */
static void count_link_fault(struct restarts *r, const int link[2])
{
    struct lvn_launch *l = r->l;
    const int low = link[0] < link[1] ? link[0] : link[1], high = link[0] < link[1] ? link[1] : link[0];
    int k = 0;
    if (low < 0 || low == high) return;
    while (k < r->n_links && (r->link[k].host[0] != low || r->link[k].host[1] != high)) k++;
    if (k == MAX_LINKS) return;
    if (k == r->n_links) r->link[r->n_links++] = (struct faulty_link){{low, high}, 0};
    if (++r->link[k].faults < LVN_HOST_FAULTS) return;
    const int out = l->resources.hosts[high].here ? low : high;
    l->resources.hosts[out].faults = LVN_HOST_FAULTS;
    l->resources.hosts[out].cut_off = l->resources.hosts[out == low ? high : low].name;
}

static void add_reason(const struct lvn_host *h, struct lvn_text *t)
{
    if (h->down)
        lvn_text_add(t, h->no_route_back ? "cannot connect back to this machine" : "does not answer");
    else if (h->cut_off)
        lvn_text_printf(t, "twice cut off from %s", h->cut_off);
    else
        lvn_text_add(t, "at fault twice");
}

/* "; left out: h2 (does not answer), h3 (at fault twice)" */
static void add_left_out(const struct lvn_launch *l, struct lvn_text *t)
{
    const char *before = "; left out: ";
    for (int i = 0; i < l->resources.n_hosts; i++) {
        const struct lvn_host *h = &l->resources.hosts[i];
        if (!h->down && h->faults < LVN_HOST_FAULTS) continue;
        lvn_text_printf(t, "%s%s (", before, h->name);
        add_reason(h, t);
        lvn_text_add(t, ")");
        before = ", ";
    }
}

/* Map the next attempt's ranks to the hosts; false, with a message: too few slots. A host at fault is used again rather
 * than ending the launch, except in a job that can be requeued on other nodes. */
static bool map_ranks(struct restarts *r)
{
    struct lvn_launch *l = r->l;
    LVN_LOCAL_TEXT(out);
    int ranks = r->ranks, min = l->request.min_ranks ? l->request.min_ranks : r->ranks;
    if (l->resources.n_hosts) {
        lvn_launch_probe(l);
        ranks = lvn_launch_map_ranks(l, r->ranks);
        for (int i = 0; i < l->resources.n_hosts && ranks < min && !lvn_requeue_possible(); i++) {
            l->resources.hosts[i].faults = 0;
            l->resources.hosts[i].cut_off = NULL;
            ranks = lvn_launch_map_ranks(l, r->ranks);
        }
        add_left_out(l, &out);
    }
    if (ranks >= min) {
        l->attempt.ranks = ranks;
    } else {
        fprintf(stderr, "no restart: there is room for %d of %d ranks%s%s\n", ranks, r->ranks, out.p ? out.p : "",
                l->request.min_ranks ? "" : "; --min-ranks would continue with fewer");
    }
    return ranks >= min;
}

/* Where the next attempt begins. It does not resume from a checkpoint of a run that it replaces. */
static void add_start(const struct restarts *r, struct lvn_text *t)
{
    const struct lvn_launch *l = r->l;
    const bool resumes = lvn_launch_resumes(l),
               writes_here = !l->resources.in_slurm && (!l->resources.n_hosts || l->resources.hosts[0].here);
    if (resumes && r->saved.step >= 0)
        lvn_text_printf(t, "continuing from step %lld", (long long)r->saved.step);
    else if (*l->request.run && (!r->saved.seen || (!writes_here && !lvn_launch_run_begun(l, false))))
        lvn_text_add(t, "continuing from the last checkpoint of rank 0, whose folder is not on this machine,");
    else
        lvn_text_add(t, "from the beginning, because nothing is saved yet,");
}

/* "restart 1 of 3: going on from step 8 with 2 ranks on h1, h3; left out: h2 (does not answer)" */
static void print_restart(const struct restarts *r)
{
    enum { MAX_NAMES = 8 };
    const struct lvn_launch *l = r->l;
    LVN_LOCAL_TEXT(t);
    int hosts = 0;
    lvn_text_printf(&t, "restart %d of %d: ", r->used, l->request.max_restarts);
    add_start(r, &t);
    lvn_text_printf(&t, " with %d rank%s", l->attempt.ranks, l->attempt.ranks == 1 ? "" : "s");
    for (int i = 0; i < l->resources.n_hosts; i++) hosts += l->resources.hosts[i].ranks > 0;
    if (hosts > MAX_NAMES) lvn_text_printf(&t, " on %d hosts", hosts);
    for (int i = 0, n = 0; i < l->resources.n_hosts && hosts <= MAX_NAMES; i++)
        if (l->resources.hosts[i].ranks) lvn_text_printf(&t, "%s%s", n++ ? ", " : " on ", l->resources.hosts[i].name);
    add_left_out(l, &t);
    fprintf(stderr, "%s\n", t.p ? t.p : "restart");
}

/* Prepare another attempt; false: none is to follow, and why is printed, unless restarts were not asked for. */
static bool prepare_restart(struct restarts *r, const struct lvn_launch_result *last)
{
    struct lvn_launch *l = r->l;
    if (last->code != LVN_EXIT_FAULT || last->stopped || !l->request.max_restarts) return false;
    const struct lvn_run_saved saved = lvn_launch_run_saved(l);
    if (!l->history.run_begun) l->history.run_begun = lvn_launch_run_begun(l, true);
    if (saved.step >= 0 && saved.step != r->saved.step) {
        r->used = 0;
        r->progress = true;
    }
    r->saved = saved;
    if (last->host >= 0 && !l->place.on) l->resources.hosts[last->host].faults++; /* no node has a spare one */
    if (!l->place.on) count_link_fault(r, last->link);
    if (r->used == l->request.max_restarts) {
        fprintf(stderr, "no restart: %d in a row saved nothing new\n", r->used);
        return false;
    }
    if (!lvn_launch_pause(last->restart_not_before - lvn_seconds()) || !map_ranks(r)) return false;
    r->used++;
    l->history.restarts++;
    print_restart(r);
    return lvn_launch_pause(0);
}

/* Requeue the Slurm job: when time is up, or after a fault that other nodes may not have. */
static void requeue(const struct restarts *r, const struct lvn_launch_result *last)
{
    const struct lvn_launch *l = r->l;
    LVN_LOCAL_TEXT(out);
    bool fault = last->code == LVN_EXIT_FAULT && l->request.max_restarts && (!last->stopped || last->time_up);
    if (!lvn_requeue_possible() || !(fault || (last->code == LVN_EXIT_STOPPED && last->time_up))) return;
    for (int i = 0; i < l->resources.n_hosts && fault; i++) {
        const struct lvn_host *h = &l->resources.hosts[i];
        if (h->down || h->faults) lvn_text_printf(&out, "%s%s", out.n ? "," : "", h->name);
    }
    if (fault && !r->progress && lvn_requeue_count() >= l->request.max_restarts)
        fprintf(stderr, "not put back into the queue: nothing new was saved since the job was last requeued\n");
    else
        lvn_requeue(l->c, out.p ? out.p : "");
}

/* Before the first attempt: all nodes must be here. Else *code is set, and false returned. */
static bool gather_nodes(struct lvn_launch *l, int *code)
{
    if (!l->nodes) return true;
    lvn_launch_nodes_gather(l);
    *code = LVN_EXIT_FAULT;
    if (lvn_launch_stop_requested()) {
        fprintf(stderr, "stopped on request while this node waited for others\n");
        *code = LVN_EXIT_STOPPED;
        return false;
    }
    for (int i = 0; i < l->resources.n_hosts; i++)
        if (l->resources.hosts[i].down) return false;
    return true;
}

/* A job's run may have been begun by an earlier launch of it, whose node 0 is gone. */
static void find_begun_run(struct lvn_launch *l, const struct lvn_run_saved *saved)
{
    if (!l->history.job) return;
    l->history.run_begun = lvn_launch_run_begun(l, true);
    if (l->history.run_begun)
        fprintf(stderr, "this job has begun its run already: continuing from %s\n",
                saved->step >= 0 ? "its last checkpoint" : "its beginning");
}

static enum lvn_status run_attempts(struct restarts *r, struct lvn_launch_result *last)
{
    struct lvn_launch *l = r->l;
    LVN_TRY(lvn_launch_logs_new(&l->history.logs, l));
    if (lvn_launch_run_ended(l)) {
        fprintf(stderr, "this job has ended its run already: nothing to do\n");
        return LVN_OK;
    }
    find_begun_run(l, &r->saved);
    if (l->place.on && l->place.nodes > 1) LVN_TRY(lvn_launch_nodes_start(l));
    if (!gather_nodes(l, &last->code)) return LVN_OK;
    if (l->place.on || l->history.run_begun) LVN_TRY(lvn_launch_build_command(l)); /* with the nodes' connections */
    LVN_TRY(lvn_launch_attempt(l, last));
    while (prepare_restart(r, last)) {
        LVN_TRY(lvn_launch_build_command(l));
        LVN_TRY(lvn_launch_attempt(l, last));
    }
    if (l->nodes && last->code == LVN_EXIT_FAULT && !last->stopped && lvn_launch_stop_requested())
        last->code = LVN_EXIT_STOPPED;
    if (l->nodes && last->code == LVN_EXIT_DONE) lvn_launch_run_write_end(l);
    return LVN_OK;
}

enum lvn_status lvn_launch_with_restarts(struct lvn_launch *l, int *code)
{
    struct restarts r = {.l = l, .ranks = l->attempt.ranks, .saved = lvn_launch_run_saved(l)};
    struct lvn_launch_result last = {0};
    lvn_launch_signals(true);
    enum lvn_status status = run_attempts(&r, &last);
    if (!status) {
        *code = last.code;
        lvn_cli_add(l->c, "restarts", json_integer(l->history.restarts));
        requeue(&r, &last);
    }
    lvn_launch_nodes_end(l, status ? LVN_EXIT_FAILED : last.code);
    lvn_launch_signals(false);
    lvn_launch_logs_free(l->history.logs);
    return status;
}

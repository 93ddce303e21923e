/* launch_restart.c - runs attempts until one is final; called by launch.c. launch_attempt.c runs one attempt.
 *
 * A fault from which the last checkpoint can recover (LVN_EXIT_FAULT) restarts the training, but at most --max-restarts
 * times in a row without a later checkpoint. Hosts that do not respond or were at fault twice are excluded, and ranks
 * are mapped again in the order of the hosts, so that spare hosts are used. With too few slots the launch ends or
 * continues with fewer ranks (--min-ranks). A job of Slurm that cannot continue on its nodes is requeued and excludes
 * the bad ones. */

#include "base/clock.h"
#include "cli/requeue.h"
#include "launch/launch.h"

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

/* Count a fault of the link between two hosts. Which of the two causes it is not known, so at the second fault one of
 * them is excluded: never this machine, otherwise the one with the higher index. */
static void count_link_fault(struct restarts *restarts, const int link[2])
{
    struct lvn_launch *l = restarts->l;
    const int low = link[0] < link[1] ? link[0] : link[1], high = link[0] < link[1] ? link[1] : link[0];
    int k = 0;
    if (low < 0 || low == high) return;
    while (k < restarts->n_links && (restarts->link[k].host[0] != low || restarts->link[k].host[1] != high)) k++;
    if (k == MAX_LINKS) return;
    if (k == restarts->n_links) restarts->link[restarts->n_links++] = (struct faulty_link){{low, high}, 0};
    if (++restarts->link[k].faults < LVN_HOST_FAULTS) return;
    const int out = l->resources.hosts[high].here ? low : high;
    l->resources.hosts[out].faults = LVN_HOST_FAULTS;
    l->resources.hosts[out].cut_off = l->resources.hosts[out == low ? high : low].name;
}

static void add_reason(const struct lvn_host *host, struct lvn_text *t)
{
    if (host->down)
        lvn_text_add(t, host->no_route_back ? "cannot connect back to this machine" : "does not respond");
    else if (host->cut_off)
        lvn_text_printf(t, "link to %s failed twice", host->cut_off);
    else
        lvn_text_add(t, "at fault twice");
}

/* "; excluded: h2 (does not respond), h3 (at fault twice)" */
static void add_excluded(const struct lvn_launch *l, struct lvn_text *t)
{
    const char *before = "; excluded: ";
    for (int i = 0; i < l->resources.n_hosts; i++) {
        const struct lvn_host *host = &l->resources.hosts[i];
        if (!host->down && host->faults < LVN_HOST_FAULTS) continue;
        lvn_text_printf(t, "%s%s (", before, host->name);
        add_reason(host, t);
        lvn_text_add(t, ")");
        before = ", ";
    }
}

/* Map the next attempt's ranks to the hosts; false, with a message, if slots are too few. A host at fault is used again
 * before the launch ends, except in a job that can be requeued on other nodes. */
static bool map_ranks(struct restarts *restarts)
{
    struct lvn_launch *l = restarts->l;
    LVN_LOCAL_TEXT(out);
    int ranks = restarts->ranks, min = l->request.min_ranks ? l->request.min_ranks : restarts->ranks;
    if (l->resources.n_hosts) {
        lvn_launch_probe(l);
        ranks = lvn_launch_map_ranks(l, restarts->ranks);
        for (int i = 0; i < l->resources.n_hosts && ranks < min && !lvn_requeue_possible(); i++) {
            l->resources.hosts[i].faults = 0;
            l->resources.hosts[i].cut_off = NULL;
            ranks = lvn_launch_map_ranks(l, restarts->ranks);
        }
        add_excluded(l, &out);
    }
    if (ranks >= min) {
        l->attempt.ranks = ranks;
    } else {
        fprintf(stderr, "no restart: there are slots for %d of %d ranks%s%s\n", ranks, restarts->ranks,
                out.p ? out.p : "", l->request.min_ranks ? "" : "; --min-ranks would continue with fewer");
    }
    return ranks >= min;
}

/* Append where the next attempt begins. It does not resume from a checkpoint of a run that it replaces. */
static void add_start(const struct restarts *restarts, struct lvn_text *t)
{
    const struct lvn_launch *l = restarts->l;
    const bool resumes = lvn_launch_resumes(l),
               writes_here = !l->resources.in_slurm && (!l->resources.n_hosts || l->resources.hosts[0].here);
    if (resumes && restarts->saved.step >= 0)
        lvn_text_printf(t, "continuing from step %lld", (long long)restarts->saved.step);
    else if (*l->request.run && (!restarts->saved.seen || (!writes_here && !lvn_launch_run_begun(l, false))))
        lvn_text_add(t, "continuing from the last checkpoint of rank 0 (not on this machine)");
    else
        lvn_text_add(t, "from the beginning, because nothing is saved yet,");
}

/* "restart 1 of 3: continuing from step 8 with 2 ranks on h1, h3; excluded: h2 (does not respond)" */
static void print_restart(const struct restarts *restarts)
{
    enum { MAX_NAMES = 8 };
    const struct lvn_launch *l = restarts->l;
    LVN_LOCAL_TEXT(t);
    int hosts = 0;
    lvn_text_printf(&t, "restart %d of %d: ", restarts->used, l->request.max_restarts);
    add_start(restarts, &t);
    lvn_text_printf(&t, " with %d rank%s", l->attempt.ranks, l->attempt.ranks == 1 ? "" : "s");
    for (int i = 0; i < l->resources.n_hosts; i++) hosts += l->resources.hosts[i].ranks > 0;
    if (hosts > MAX_NAMES) lvn_text_printf(&t, " on %d hosts", hosts);
    for (int i = 0, n = 0; i < l->resources.n_hosts && hosts <= MAX_NAMES; i++)
        if (l->resources.hosts[i].ranks) lvn_text_printf(&t, "%s%s", n++ ? ", " : " on ", l->resources.hosts[i].name);
    add_excluded(l, &t);
    fprintf(stderr, "%s\n", t.p ? t.p : "restart");
}

/* Prepare another attempt; false: none follows. The reason is printed, unless restarts were not requested. */
static bool prepare_restart(struct restarts *restarts, const struct lvn_launch_result *last)
{
    struct lvn_launch *l = restarts->l;
    if (last->code != LVN_EXIT_FAULT || last->stopped || !l->request.max_restarts) return false;
    const struct lvn_run_saved saved = lvn_launch_run_saved(l);
    if (!l->history.run_begun) l->history.run_begun = lvn_launch_run_begun(l, true);
    if (saved.step >= 0 && saved.step != restarts->saved.step) {
        restarts->used = 0;
        restarts->progress = true;
    }
    restarts->saved = saved;
    if (last->host >= 0 && !l->place.on) l->resources.hosts[last->host].faults++; /* nodes have no spare */
    if (!l->place.on) count_link_fault(restarts, last->link);
    if (restarts->used == l->request.max_restarts) {
        fprintf(stderr, "no restart: %d in a row saved no new checkpoint\n", restarts->used);
        return false;
    }
    if (!lvn_launch_pause(last->restart_not_before - lvn_seconds()) || !map_ranks(restarts)) return false;
    restarts->used++;
    l->history.restarts++;
    print_restart(restarts);
    return lvn_launch_pause(0);
}

/* Requeue the Slurm job: at its time limit, or after a fault that other nodes may not have. */
static void requeue(const struct restarts *restarts, const struct lvn_launch_result *last)
{
    const struct lvn_launch *l = restarts->l;
    LVN_LOCAL_TEXT(out);
    bool fault = last->code == LVN_EXIT_FAULT && l->request.max_restarts && (!last->stopped || last->time_up);
    if (!lvn_requeue_possible() || !(fault || (last->code == LVN_EXIT_STOPPED && last->time_up))) return;
    for (int i = 0; i < l->resources.n_hosts && fault && !l->place.on; i++) { /* nodes may have other names in Slurm */
        const struct lvn_host *host = &l->resources.hosts[i];
        if (host->down || host->faults) lvn_text_printf(&out, "%s%s", out.n ? "," : "", host->name);
    }
    if (fault && !restarts->progress && lvn_requeue_count() >= l->request.max_restarts)
        fprintf(stderr, "not requeued: no new checkpoint was saved since the job was last requeued\n");
    else
        lvn_requeue(l->c, out.p ? out.p : "");
}

/* Before the first attempt all nodes must have joined. Else *code is not LVN_EXIT_DONE. */
static enum lvn_status gather_nodes(struct lvn_launch *l, int *code)
{
    *code = LVN_EXIT_DONE;
    if (!l->nodes) return LVN_OK;
    LVN_TRY(lvn_launch_nodes_gather(l));
    for (int i = 0; i < l->resources.n_hosts; i++)
        if (l->resources.hosts[i].down) *code = LVN_EXIT_FAULT;
    if (lvn_launch_stop_requested()) {
        fprintf(stderr, "stopped on request while this node waited for others\n");
        *code = LVN_EXIT_STOPPED;
    }
    return LVN_OK;
}

/* An earlier launch of the job, whose node 0 is gone or which Slurm has requeued, may have begun the run. */
static void find_begun_run(struct lvn_launch *l, const struct lvn_run_saved *saved)
{
    if (l->history.job) l->history.run_begun = lvn_launch_run_begun(l, true);
    if (l->request.requeued && l->request.training && !l->history.run_begun &&
        !l->request.resume) /* or ranks print it */
        fprintf(stderr, "this job was requeued: continuing\n");
    if (l->history.run_begun)
        fprintf(stderr, "this job has already begun its run: continuing from %s\n",
                saved->step >= 0 ? "its last checkpoint" : "its beginning");
}

static enum lvn_status run_attempts(struct restarts *restarts, struct lvn_launch_result *last)
{
    struct lvn_launch *l = restarts->l;
    LVN_TRY(lvn_launch_logs_new(&l->history.logs, l));
    if (lvn_launch_run_ended(l)) {
        fprintf(stderr, "this job has already ended its run: nothing to do\n");
        return LVN_OK;
    }
    find_begun_run(l, &restarts->saved);
    if (l->place.on && l->place.nodes > 1) LVN_TRY(lvn_launch_nodes_start(l));
    LVN_TRY(gather_nodes(l, &last->code));
    if (last->code) return LVN_OK;
    if (l->place.on || l->history.run_begun) LVN_TRY(lvn_launch_build_command(l)); /* with the nodes' connections */
    LVN_TRY(lvn_launch_attempt(l, last));
    while (prepare_restart(restarts, last)) {
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
    struct restarts restarts = {.l = l, .ranks = l->attempt.ranks, .saved = lvn_launch_run_saved(l)};
    struct lvn_launch_result last = {0};
    lvn_launch_signals(true);
    enum lvn_status status = run_attempts(&restarts, &last);
    if (!status) {
        *code = last.code;
        lvn_cli_add(l->c, "restarts", json_integer(l->history.restarts));
        requeue(&restarts, &last);
    }
    lvn_launch_nodes_end(l, status ? LVN_EXIT_FAILED : last.code);
    lvn_launch_signals(false);
    lvn_launch_logs_free(l->history.logs);
    return status;
}

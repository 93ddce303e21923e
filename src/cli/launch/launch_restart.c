/* launch_restart.c - a launch to its end: attempts, of which each goes on where the last one was lost.
 *
 * A fault that going on from the last checkpoint can cure (LVN_EXIT_FAULT) starts the training again, --max-restarts
 * times without a later checkpoint in between: then the cure does not help. Hosts that do not answer are left out, and
 * those that were at fault twice; ranks get their places anew in the order of the hosts, so spare ones come in. Where
 * places are too few the launch ends, or goes on with fewer ranks (--min-ranks). A job of Slurm that cannot go on with
 * what it has goes back into the queue, and asks for other nodes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/launch/launch.h"
#include "cli/requeue.h"

enum { CUTS = 64 }; /* pairs of hosts that are remembered */

struct restarts {
    struct lvn_launch *l;
    int ranks;              /* as many as at first */
    int used;               /* restarts since `saved` */
    struct lvn_saved saved; /* the newest checkpoint when it was last looked for */
    bool further;           /* than at the beginning */
    struct cut {
        int host[2]; /* of l->hosts, the lower one first */
        int faults;
    } cut[CUTS];
    int n_cuts;
};

/* The link between two hosts was at fault. Which of them is to blame is not known: the second time one goes, and it is
 * neither this machine nor, if that can be, the one with the lower ranks. */
static void note_link(struct restarts *r, const int link[2])
{
    struct lvn_launch *l = r->l;
    const int low = link[0] < link[1] ? link[0] : link[1], high = link[0] < link[1] ? link[1] : link[0];
    int k = 0;
    if (low < 0 || low == high) return;
    while (k < r->n_cuts && (r->cut[k].host[0] != low || r->cut[k].host[1] != high)) k++;
    if (k == CUTS) return;
    if (k == r->n_cuts) r->cut[r->n_cuts++] = (struct cut){{low, high}, 0};
    if (++r->cut[k].faults < LVN_HOST_FAULTS) return;
    const int goes = l->hosts[high].here ? low : high;
    l->hosts[goes].faults = LVN_HOST_FAULTS;
    l->hosts[goes].cut_off = l->hosts[goes == low ? high : low].name;
}

static void add_reason(const struct lvn_host *h, struct lvn_text *t)
{
    if (h->down)
        lvn_text_add(t, h->quiet ? "cannot connect back to this machine" : "does not answer");
    else if (h->cut_off)
        lvn_text_printf(t, "twice cut off from %s", h->cut_off);
    else
        lvn_text_add(t, "at fault twice");
}

/* "; left out: h2 (does not answer), h3 (at fault twice)" */
static void add_left_out(const struct lvn_launch *l, struct lvn_text *t)
{
    const char *before = "; left out: ";
    for (int i = 0; i < l->n_hosts; i++) {
        const struct lvn_host *h = &l->hosts[i];
        if (!h->down && h->faults < LVN_HOST_FAULTS) continue;
        lvn_text_printf(t, "%s%s (", before, h->name);
        add_reason(h, t);
        lvn_text_add(t, ")");
        before = ", ";
    }
}

/* A place for each rank; false: there are too few, which is said. Better a host at fault than an end, but for a job
 * that can get another one. */
static bool find_places(struct restarts *r)
{
    struct lvn_launch *l = r->l;
    LVN_LOCAL_TEXT(out);
    int ranks = r->ranks, min = l->min_ranks ? l->min_ranks : r->ranks;
    if (l->n_hosts) {
        lvn_launch_probe(l);
        ranks = lvn_launch_map_ranks(l, r->ranks);
        for (int i = 0; i < l->n_hosts && ranks < min && !lvn_requeue_possible(); i++) {
            l->hosts[i].faults = 0;
            l->hosts[i].cut_off = NULL;
            ranks = lvn_launch_map_ranks(l, r->ranks);
        }
        add_left_out(l, &out);
    }
    if (ranks >= min) {
        l->ranks = ranks;
    } else {
        fprintf(stderr, "no restart: there is room for %d of %d ranks%s%s\n", ranks, r->ranks, out.p ? out.p : "",
                l->min_ranks ? "" : "; --min-ranks would go on with fewer");
    }
    return ranks >= min;
}

/* Where the next attempt begins. A checkpoint of a run that it replaces is none that it goes on from. */
static void add_from(const struct restarts *r, struct lvn_text *t)
{
    const struct lvn_launch *l = r->l;
    const bool resumes = lvn_launch_resumes(l), writes_here = !l->allocation && (!l->n_hosts || l->hosts[0].here);
    if (resumes && r->saved.step >= 0)
        lvn_text_printf(t, "going on from step %lld", (long long)r->saved.step);
    else if (*l->run && (!r->saved.seen || (!writes_here && !lvn_launch_begun(l, false))))
        lvn_text_add(t, "going on from what rank 0 finds saved, which is not seen from this machine,");
    else
        lvn_text_add(t, "from the beginning, for nothing is saved yet,");
}

/* "restart 1 of 3: going on from step 8 with 2 ranks on h1, h3; left out: h2 (does not answer)" */
static void tell(const struct restarts *r)
{
    enum { MAX_NAMES = 8 };
    const struct lvn_launch *l = r->l;
    LVN_LOCAL_TEXT(t);
    int hosts = 0;
    lvn_text_printf(&t, "restart %d of %d: ", r->used, l->max_restarts);
    add_from(r, &t);
    lvn_text_printf(&t, " with %d rank%s", l->ranks, l->ranks == 1 ? "" : "s");
    for (int i = 0; i < l->n_hosts; i++) hosts += l->hosts[i].ranks > 0;
    if (hosts > MAX_NAMES) lvn_text_printf(&t, " on %d hosts", hosts);
    for (int i = 0, n = 0; i < l->n_hosts && hosts <= MAX_NAMES; i++)
        if (l->hosts[i].ranks) lvn_text_printf(&t, "%s%s", n++ ? ", " : " on ", l->hosts[i].name);
    add_left_out(l, &t);
    fprintf(stderr, "%s\n", t.p ? t.p : "restart");
}

/* Shall it start again? What speaks against it is said, unless nobody asked for restarts. */
static bool again(struct restarts *r, const struct lvn_launch_end *end)
{
    struct lvn_launch *l = r->l;
    if (end->code != LVN_EXIT_FAULT || end->stopped || !l->max_restarts) return false;
    const struct lvn_saved saved = lvn_launch_saved(l);
    if (!l->goes_on) l->goes_on = lvn_launch_begun(l, true);
    if (saved.step >= 0 && saved.step != r->saved.step) {
        r->used = 0;
        r->further = true;
    }
    r->saved = saved;
    if (end->host >= 0) l->hosts[end->host].faults++;
    note_link(r, end->link);
    if (r->used == l->max_restarts) {
        fprintf(stderr, "no restart: %d of them have saved nothing new\n", r->used);
        return false;
    }
    if (!lvn_launch_pause(end->quiet_at - lvn_seconds()) || !find_places(r)) return false;
    r->used++;
    l->restart++;
    tell(r);
    return lvn_launch_pause(0);
}

/* Back into the queue: when time is up, or where there is hope that other nodes do better. */
static void requeue(const struct restarts *r, const struct lvn_launch_end *end)
{
    const struct lvn_launch *l = r->l;
    LVN_LOCAL_TEXT(out);
    bool fault = end->code == LVN_EXIT_FAULT && l->max_restarts && (!end->stopped || end->time_up);
    if (!lvn_requeue_possible() || !(fault || (end->code == LVN_EXIT_STOPPED && end->time_up))) return;
    for (int i = 0; i < l->n_hosts && fault; i++) {
        const struct lvn_host *h = &l->hosts[i];
        if (h->down || h->faults) lvn_text_printf(&out, "%s%s", out.n ? "," : "", h->name);
    }
    if (fault && !r->further && lvn_requeue_count() >= l->max_restarts)
        fprintf(stderr, "not put back into the queue: nothing new was saved since the job came from there\n");
    else
        lvn_requeue(l->c, out.p ? out.p : "");
}

enum lvn_status lvn_launch_run(struct lvn_launch *l, int *code)
{
    struct restarts r = {.l = l, .ranks = l->ranks, .saved = lvn_launch_saved(l)};
    struct lvn_launch_end end = {0};
    enum lvn_status status = lvn_launch_logs_new(&l->logs, l);
    lvn_launch_signals(true);
    if (!status) status = lvn_launch_attempt(l, &end);
    while (!status && again(&r, &end)) {
        status = lvn_launch_line(l);
        if (!status) status = lvn_launch_attempt(l, &end);
    }
    if (!status) {
        *code = end.code;
        lvn_cli_add(l->c, "restarts", json_integer(l->restart));
        requeue(&r, &end);
    }
    lvn_launch_signals(false);
    lvn_launch_logs_free(l->logs);
    return status;
}

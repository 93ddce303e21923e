/* hang_detector.c - see hang_detector.h. */
#include "cluster/rendezvous/hang_detector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 20, GROUPS = 4 }; /* GROUPS: of ranks at different places that a sentence names */

static bool here(const struct lvn_peer *p)
{
    return p->state == LVN_PEER_HERE;
}

/* --- the clock --- */

void lvn_hang_detector_heard(struct lvn_peer *p, const struct lvn_peer *before, double now)
{
    bool same = p->step == before->step && p->collective == before->collective && p->passed == before->passed &&
                p->worked == before->worked && !strcmp(p->place, before->place) && !strcmp(p->work, before->work);
    if (!same || p->moved <= 0) p->moved = now;
    if (p->step == before->step) return;
    if (p->first_at <= 0) {
        p->first_step = p->step;
        p->first_at = now;
    }
    p->step_at = now;
}

double lvn_hang_detector_limit(const struct lvn_peer *p, int n, double min)
{
    const double shortest = 2; /* beats come twice a second */
    double longest = 0;
    if (min > 0 && min < shortest) min = shortest;
    for (int i = 0; i < n && min > 0; i++) {
        if (!here(&p[i]) || p[i].step <= p[i].first_step) continue;
        double mean = (p[i].step_at - p[i].first_at) / (double)(p[i].step - p[i].first_step);
        if (mean > longest) longest = mean;
    }
    return STEPS * longest > min ? STEPS * longest : min;
}

/* Seconds since any rank moved, as far as all have been heard of since. */
static double stands_for(const struct lvn_peer *p, int n)
{
    double moved = 0, heard = INFINITY;
    for (int i = 0; i < n; i++) {
        if (here(&p[i]) || p[i].state == LVN_PEER_DONE) moved = fmax(moved, p[i].moved); /* a goodbye is a move */
        if (here(&p[i])) heard = fmin(heard, p[i].seen);
    }
    return moved > 0 && isfinite(heard) && heard > moved ? heard - moved : 0;
}

enum lvn_hang_detector lvn_hang_detector_judge(const struct lvn_peer *p, int n, double min)
{
    double limit = lvn_hang_detector_limit(p, n, min), still = stands_for(p, n);
    if (limit <= 0 || still < limit / 2) return LVN_HANG_NOT;
    return still < limit ? LVN_HANG_HALF : LVN_HANG_OVER;
}

/* --- who waits for whom --- */

static bool waits(const struct lvn_peer *p)
{
    return p->collectives || p->place[0];
}

/* How far a rank has come: all go through the same waits. One that is before a wait is behind those in it. */
static int64_t progress(const struct lvn_peer *p)
{
    return 2 * p->passed + waits(p);
}

static bool alike(const struct lvn_peer *a, const struct lvn_peer *b)
{
    return progress(a) == progress(b) && a->step == b->step && a->collective == b->collective &&
           a->collectives == b->collectives && !strcmp(a->place, b->place) && !strcmp(a->work, b->work);
}

static const struct lvn_peer *last_of(const struct lvn_peer *p, int n, bool first)
{
    const struct lvn_peer *found = NULL;
    for (int i = 0; i < n; i++) {
        if (!here(&p[i])) continue;
        if (!found || (first ? progress(&p[i]) > progress(found) : progress(&p[i]) < progress(found))) found = &p[i];
    }
    return found;
}

int lvn_hang_detector_behind(const struct lvn_peer *p, int n)
{
    const struct lvn_peer *last = last_of(p, n, false), *first = last_of(p, n, true);
    return last && progress(last) < progress(first) ? last->rank : -1;
}

/* "ranks 0,1", "rank 2 on h3", "ranks 2,3 on h3". */
static void add_who(const struct lvn_peer *p, int n, const struct lvn_peer *of, bool *flag, bool host,
                    struct lvn_text *t)
{
    int many = 0, near = 0;
    for (int i = 0; i < n; i++) {
        flag[i] = here(&p[i]) && alike(&p[i], of);
        many += flag[i];
        near += flag[i] && !strcmp(p[i].host, of->host);
    }
    lvn_text_add(t, many == 1 ? "rank " : "ranks ");
    lvn_ranks_text(flag, n, 0, t);
    if (many == 1 || (host && near == many)) lvn_text_printf(t, " on %s", of->host);
    lvn_text_printf(t, " %s", waits(of) && !host ? (many == 1 ? "waits" : "wait") : (many == 1 ? "stands" : "stand"));
}

static void add_where(const struct lvn_peer *p, bool step, bool many, struct lvn_text *t)
{
    if (p->collectives) {
        lvn_text_printf(t, " in reduction %d of %d", p->collective, p->collectives);
    } else if (p->place[0] && p->work[0]) {
        lvn_text_printf(t, " in %s (%s)", p->place, p->work);
    } else if (p->place[0] || p->work[0]) {
        lvn_text_printf(t, " in %s", p->place[0] ? p->place : p->work);
    } else {
        lvn_text_add(t, many ? " in their own parts" : " in its own part");
    }
    if (step) lvn_text_printf(t, " of step %lld", (long long)p->step + 1);
}

/* A group of ranks after the other: those that have come farthest, ..., and last those that are behind. */
static void add_groups(const struct lvn_peer *p, int n, bool *flag, bool *told, struct lvn_text *t)
{
    const struct lvn_peer *last = last_of(p, n, false);
    int behind = lvn_hang_detector_behind(p, n);
    bool steps = false;
    for (int i = 0; i < n; i++) steps |= here(&p[i]) && p[i].step != last->step;
    for (int k = 0; k < GROUPS; k++) {
        const struct lvn_peer *of = NULL;
        for (int i = 0; i < n; i++)
            if (here(&p[i]) && !told[i] && (!of || progress(&p[i]) > progress(of))) of = &p[i];
        if (!of) return;
        if (k) lvn_text_add(t, "; ");
        if (k == GROUPS - 1 && !alike(of, last)) {
            lvn_text_add(t, "... ; "); /* what lies between */
            of = last;
        }
        add_who(p, n, of, flag, behind >= 0 && progress(of) == progress(last), t);
        int many = 0;
        for (int i = 0; i < n; i++) many += flag[i];
        add_where(of, steps, many > 1, t);
        for (int i = 0; i < n; i++) told[i] |= flag[i];
    }
}

static const struct lvn_peer *awaited(const struct lvn_peer *p, int n, const struct lvn_peer *by)
{
    const struct lvn_peer *of = by->awaits > 0 && by->awaits <= n ? &p[by->awaits - 1] : NULL;
    return of && here(of) && of != by ? of : NULL;
}

/* Who waits, and for whom. Two that wait for each other's messages have no way between them; who waits for one that has
 * come farther misses what that one has sent; else a rank that is behind waits for one that is no farther. */
enum wait { NOBODY, FOR_ONE, FOR_SENT, EACH_OTHER };

static enum wait kind_of_wait(const struct lvn_peer *p, int n, const struct lvn_peer *by)
{
    const struct lvn_peer *of = here(by) ? awaited(p, n, by) : NULL;
    if (!of) return NOBODY;
    if (awaited(p, n, of) == by) return EACH_OTHER;
    if (progress(of) > progress(by)) return FOR_SENT;
    return progress(by) < progress(last_of(p, n, true)) ? FOR_ONE : NOBODY;
}

/* What holds those up that are behind, or all of them. */
static void add_cause(const struct lvn_peer *p, int n, struct lvn_text *t)
{
    enum wait worst = NOBODY;
    const struct lvn_peer *by = NULL, *of;
    for (int i = 0; i < n; i++) {
        enum wait w = kind_of_wait(p, n, &p[i]);
        if (w > worst) worst = w, by = &p[i];
    }
    of = by ? awaited(p, n, by) : NULL;
    if (worst == EACH_OTHER)
        lvn_text_printf(t, "; rank %d on %s and rank %d on %s wait for each other: see the link between them", by->rank,
                        by->host, of->rank, of->host);
    else if (worst == FOR_SENT)
        lvn_text_printf(t, "; what rank %d on %s has sent does not reach rank %d on %s: see the link between them",
                        of->rank, of->host, by->rank, by->host);
    else if (worst == FOR_ONE)
        lvn_text_printf(t, "; rank %d on %s waits for rank %d on %s", by->rank, by->host, of->rank, of->host);
    else if (lvn_hang_detector_behind(p, n) < 0 && n > 1 && waits(last_of(p, n, false)))
        lvn_text_add(t, ", and none is behind: see whether all of them reach each other");
}

bool lvn_hang_detector_link(const struct lvn_peer *p, int n, int link[2])
{
    for (int i = 0; i < n; i++) {
        enum wait w = kind_of_wait(p, n, &p[i]);
        if (w != FOR_SENT && w != EACH_OTHER) continue;
        link[0] = i;
        link[1] = awaited(p, n, &p[i])->rank;
        return true;
    }
    return false;
}

static void add_seconds(double seconds, struct lvn_text *t)
{
    if (seconds < 120)
        lvn_text_printf(t, "%.3g s", seconds);
    else
        lvn_text_printf(t, "%.0f min", seconds / 60);
}

void lvn_hang_detector_text(const struct lvn_peer *p, int n, double min, struct lvn_text *t)
{
    const struct lvn_peer *last = last_of(p, n, false);
    bool *flag = calloc(2 * (size_t)n, sizeof *flag);
    double still = stands_for(p, n), limit = lvn_hang_detector_limit(p, n, min);
    if (last && flag) {
        lvn_text_add(t, "no rank has gone on for ");
        add_seconds(still, t);
        if (last->step) lvn_text_printf(t, ", since step %lld", (long long)last->step);
        lvn_text_add(t, ": ");
        add_groups(p, n, flag, flag + n, t);
        add_cause(p, n, t);
        if (still < limit) {
            lvn_text_add(t, "; the run ends in ");
            add_seconds(limit - still, t);
            lvn_text_add(t, " unless one goes on (trainer.stall_timeout)");
        }
    }
    free(flag);
}

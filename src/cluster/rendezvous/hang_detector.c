/* hang_detector.c - see hang_detector.h. */
#include "cluster/rendezvous/hang_detector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 20, GROUPS = 4 }; /* STEPS: mean steps of the limit; GROUPS: groups of ranks that a message names */

static bool is_running(const struct lvn_peer *p)
{
    return p->state == LVN_PEER_HERE;
}

/* --- time without progress --- */

void lvn_hang_detector_heard(struct lvn_peer *p, const struct lvn_peer *before, double now)
{
    bool same = p->step == before->step && p->collective == before->collective && p->waits_done == before->waits_done &&
                p->work_count == before->work_count && !strcmp(p->operation, before->operation) &&
                !strcmp(p->activity, before->activity);
    if (!same || p->last_progress <= 0) p->last_progress = now;
    if (p->step == before->step) return;
    if (p->first_step_at <= 0) {
        p->first_step = p->step;
        p->first_step_at = now;
    }
    p->last_step_at = now;
}

double lvn_hang_detector_limit(const struct lvn_peer *p, int n, double min)
{
    const double shortest = 2; /* heartbeats are sent twice a second */
    double longest = 0;
    if (min > 0 && min < shortest) min = shortest;
    for (int i = 0; i < n && min > 0; i++) {
        if (!is_running(&p[i]) || p[i].step <= p[i].first_step) continue;
        double mean = (p[i].last_step_at - p[i].first_step_at) / (double)(p[i].step - p[i].first_step);
        if (mean > longest) longest = mean;
    }
    return STEPS * longest > min ? STEPS * longest : min;
}

/* Seconds since the last progress of any rank, up to the oldest last heartbeat. */
static double stalled_seconds(const struct lvn_peer *p, int n)
{
    double last_progress = 0, heard = INFINITY;
    for (int i = 0; i < n; i++) {
        if (is_running(&p[i]) || p[i].state == LVN_PEER_DONE)
            last_progress = fmax(last_progress, p[i].last_progress); /* a goodbye is progress */
        if (is_running(&p[i])) heard = fmin(heard, p[i].last_heard);
    }
    return last_progress > 0 && isfinite(heard) && heard > last_progress ? heard - last_progress : 0;
}

enum lvn_hang_state lvn_hang_detector_judge(const struct lvn_peer *p, int n, double min)
{
    double limit = lvn_hang_detector_limit(p, n, min), still = stalled_seconds(p, n);
    if (limit <= 0 || still < limit / 2) return LVN_HANG_NONE;
    return still < limit ? LVN_HANG_SUSPECTED : LVN_HANG_DETECTED;
}

/* --- which rank waits for which --- */

static bool waits(const struct lvn_peer *p)
{
    return p->collectives || p->operation[0];
}

/* Progress of a rank as a number: all ranks go through the same waits. A rank before a wait is behind those in it. */
static int64_t progress(const struct lvn_peer *p)
{
    return 2 * p->waits_done + waits(p);
}

static bool alike(const struct lvn_peer *a, const struct lvn_peer *b)
{
    return progress(a) == progress(b) && a->step == b->step && a->collective == b->collective &&
           a->collectives == b->collectives && !strcmp(a->operation, b->operation) && !strcmp(a->activity, b->activity);
}

static const struct lvn_peer *extreme(const struct lvn_peer *p, int n, bool first)
{
    const struct lvn_peer *found = NULL;
    for (int i = 0; i < n; i++) {
        if (!is_running(&p[i])) continue;
        if (!found || (first ? progress(&p[i]) > progress(found) : progress(&p[i]) < progress(found))) found = &p[i];
    }
    return found;
}

int lvn_hang_detector_behind(const struct lvn_peer *p, int n)
{
    const struct lvn_peer *last = extreme(p, n, false), *first = extreme(p, n, true);
    return last && progress(last) < progress(first) ? last->rank : -1;
}

/* "ranks 0,1", "rank 2 on h3", "ranks 2,3 on h3". */
static void add_ranks(const struct lvn_peer *p, int n, const struct lvn_peer *other, bool *flag, bool host,
                      struct lvn_text *t)
{
    int many = 0, near = 0;
    for (int i = 0; i < n; i++) {
        flag[i] = is_running(&p[i]) && alike(&p[i], other);
        many += flag[i];
        near += flag[i] && !strcmp(p[i].host, other->host);
    }
    lvn_text_add(t, many == 1 ? "rank " : "ranks ");
    lvn_ranks_text(flag, n, 0, t);
    if (many == 1 || (host && near == many)) lvn_text_printf(t, " on %s", other->host);
    lvn_text_printf(t, " %s", waits(other) && !host ? (many == 1 ? "waits" : "wait") : (many == 1 ? "is" : "are"));
}

static void add_where(const struct lvn_peer *p, bool step, bool many, struct lvn_text *t)
{
    if (p->collectives) {
        lvn_text_printf(t, " in reduction %d of %d", p->collective, p->collectives);
    } else if (p->operation[0] && p->activity[0]) {
        lvn_text_printf(t, " in %s (%s)", p->operation, p->activity);
    } else if (p->operation[0] || p->activity[0]) {
        lvn_text_printf(t, " in %s", p->operation[0] ? p->operation : p->activity);
    } else {
        lvn_text_add(t, many ? " in their own computation" : " in its own computation");
    }
    if (step) lvn_text_printf(t, " of step %lld", (long long)p->step + 1);
}

/* Add one group of ranks after the other: first those with most progress, last those that are behind. */
static void add_groups(const struct lvn_peer *p, int n, bool *flag, bool *named, struct lvn_text *t)
{
    const struct lvn_peer *last = extreme(p, n, false);
    int behind = lvn_hang_detector_behind(p, n);
    bool steps = false;
    for (int i = 0; i < n; i++) steps |= is_running(&p[i]) && p[i].step != last->step;
    for (int k = 0; k < GROUPS; k++) {
        const struct lvn_peer *other = NULL;
        for (int i = 0; i < n; i++)
            if (is_running(&p[i]) && !named[i] && (!other || progress(&p[i]) > progress(other))) other = &p[i];
        if (!other) return;
        if (k) lvn_text_add(t, "; ");
        if (k == GROUPS - 1 && !alike(other, last)) {
            lvn_text_add(t, "... ; "); /* groups between are left out */
            other = last;
        }
        add_ranks(p, n, other, flag, behind >= 0 && progress(other) == progress(last), t);
        int many = 0;
        for (int i = 0; i < n; i++) many += flag[i];
        add_where(other, steps, many > 1, t);
        for (int i = 0; i < n; i++) named[i] |= flag[i];
    }
}

static const struct lvn_peer *awaited_peer(const struct lvn_peer *p, int n, const struct lvn_peer *waiter)
{
    const struct lvn_peer *other = waiter->waits_for > 0 && waiter->waits_for <= n ? &p[waiter->waits_for - 1] : NULL;
    return other && is_running(other) && other != waiter ? other : NULL;
}

/* The reason why a rank waits, if it is known. Two ranks that wait for each other's messages have no connection; a rank
 * that waits for one with more progress does not receive what that one has sent; otherwise a rank that is behind
 * waits for one with no more progress. */
enum wait { NOBODY, FOR_ONE, FOR_SENT, EACH_OTHER };

static enum wait kind_of_wait(const struct lvn_peer *p, int n, const struct lvn_peer *waiter)
{
    const struct lvn_peer *other = is_running(waiter) ? awaited_peer(p, n, waiter) : NULL;
    if (!other) return NOBODY;
    if (awaited_peer(p, n, other) == waiter) return EACH_OTHER;
    if (progress(other) > progress(waiter)) return FOR_SENT;
    return progress(waiter) < progress(extreme(p, n, true)) ? FOR_ONE : NOBODY;
}

/* The ranks that are behind wait in what all others have left: each of these had contributed before anyone could leave,
 * so the results are lost on their way. An MPI's own sums do not say which link is at fault. */
static void add_unreached(const struct lvn_peer *p, int n, bool *flag, struct lvn_text *t)
{
    const struct lvn_peer *last = extreme(p, n, false);
    int many = 0;
    for (int i = 0; i < n; i++) {
        flag[i] = is_running(&p[i]) && progress(&p[i]) == progress(last);
        many += flag[i];
    }
    lvn_text_add(t, many == 1 ? "; messages do not reach rank " : "; messages do not reach all of ranks ");
    lvn_ranks_text(flag, n, 0, t);
    if (many == 1)
        lvn_text_printf(t, " on %s: check its links", last->host);
    else
        lvn_text_add(t, ": check their links");
}

/* Add the cause why the ranks that are behind, or all, do not continue. flag (n): for this function's use. */
static void add_cause(const struct lvn_peer *p, int n, bool *flag, struct lvn_text *t)
{
    enum wait worst = NOBODY;
    const struct lvn_peer *waiter = NULL, *other;
    for (int i = 0; i < n; i++) {
        enum wait w = kind_of_wait(p, n, &p[i]);
        if (w > worst) worst = w, waiter = &p[i];
    }
    other = waiter ? awaited_peer(p, n, waiter) : NULL;
    if (worst == EACH_OTHER)
        lvn_text_printf(t, "; rank %d on %s and rank %d on %s wait for each other: check the link between them",
                        waiter->rank, waiter->host, other->rank, other->host);
    else if (worst == FOR_SENT)
        lvn_text_printf(t, "; messages of rank %d on %s do not reach rank %d on %s: check the link between them",
                        other->rank, other->host, waiter->rank, waiter->host);
    else if (worst == FOR_ONE)
        lvn_text_printf(t, "; rank %d on %s waits for rank %d on %s", waiter->rank, waiter->host, other->rank,
                        other->host);
    else if (!waits(extreme(p, n, false)))
        return; /* it computes, reads or writes: add_groups() has said so */
    else if (lvn_hang_detector_behind(p, n) >= 0)
        add_unreached(p, n, flag, t);
    else if (n > 1)
        lvn_text_add(t, ", and none is behind: check that all of them reach each other");
}

bool lvn_hang_detector_link(const struct lvn_peer *p, int n, int link[2])
{
    for (int i = 0; i < n; i++) {
        enum wait w = kind_of_wait(p, n, &p[i]);
        if (w != FOR_SENT && w != EACH_OTHER) continue;
        link[0] = i;
        link[1] = awaited_peer(p, n, &p[i])->rank;
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
    const struct lvn_peer *last = extreme(p, n, false);
    bool *flag = calloc(2 * (size_t)n, sizeof *flag);
    double still = stalled_seconds(p, n), limit = lvn_hang_detector_limit(p, n, min);
    if (last && flag) {
        lvn_text_add(t, "no rank has made progress for ");
        add_seconds(still, t);
        if (last->step) lvn_text_printf(t, ", since step %lld", (long long)last->step);
        lvn_text_add(t, ": ");
        add_groups(p, n, flag, flag + n, t);
        add_cause(p, n, flag, t);
        if (still < limit) {
            lvn_text_add(t, "; the run ends in ");
            add_seconds(limit - still, t);
            lvn_text_add(t, " unless one makes progress (trainer.stall_timeout)");
        }
    }
    free(flag);
}

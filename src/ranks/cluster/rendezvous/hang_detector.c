/* hang_detector.c - see hang_detector.h. */
#include "cluster/rendezvous/hang_detector.h"

enum { STEPS = 20, GROUPS = 4 }; /* STEPS: the limit in mean step times; GROUPS: maximum groups of ranks in a message */

static bool is_running(const struct lvn_peer *peer)
{
    return peer->state == LVN_PEER_HERE;
}

/* --- time without progress --- */

void lvn_hang_detector_heard(struct lvn_peer *peer, const struct lvn_peer *before, double now)
{
    bool same = peer->step == before->step && peer->collective == before->collective &&
                peer->waits_done == before->waits_done && peer->work_count == before->work_count &&
                !strcmp(peer->operation, before->operation) && !strcmp(peer->activity, before->activity);
    if (!same || peer->last_progress <= 0) peer->last_progress = now;
    if (peer->step == before->step) return;
    if (peer->first_step_at <= 0) {
        peer->first_step = peer->step;
        peer->first_step_at = now;
    }
    peer->last_step_at = now;
}

double lvn_hang_detector_limit(const struct lvn_peer *peer, int n, double min)
{
    const double shortest = 2; /* heartbeats are sent twice a second */
    double longest = 0;
    if (min > 0 && min < shortest) min = shortest;
    for (int i = 0; i < n && min > 0; i++) {
        if (!is_running(&peer[i]) || peer[i].step <= peer[i].first_step) continue;
        double mean = (peer[i].last_step_at - peer[i].first_step_at) / (double)(peer[i].step - peer[i].first_step);
        if (mean > longest) longest = mean;
    }
    return STEPS * longest > min ? STEPS * longest : min;
}

/* Seconds since the last progress of any rank, up to the oldest last heartbeat. */
static double stalled_seconds(const struct lvn_peer *peer, int n)
{
    double last_progress = 0, heard = INFINITY;
    for (int i = 0; i < n; i++) {
        if (is_running(&peer[i]) || peer[i].state == LVN_PEER_DONE)
            last_progress = fmax(last_progress, peer[i].last_progress); /* a goodbye is progress */
        if (is_running(&peer[i])) heard = fmin(heard, peer[i].last_heard);
    }
    return last_progress > 0 && isfinite(heard) && heard > last_progress ? heard - last_progress : 0;
}

enum lvn_hang_state lvn_hang_detector_state(const struct lvn_peer *peer, int n, double min)
{
    double limit = lvn_hang_detector_limit(peer, n, min), still = stalled_seconds(peer, n);
    if (limit <= 0 || still < limit / 2) return LVN_HANG_NONE;
    return still < limit ? LVN_HANG_SUSPECTED : LVN_HANG_DETECTED;
}

/* --- which rank waits for which --- */

static bool waits(const struct lvn_peer *peer)
{
    return peer->collectives || peer->operation[0];
}

/* Progress of a rank as a number: all ranks pass the same waits. A rank before a wait has less progress than one in it.
 */
static int64_t progress(const struct lvn_peer *peer)
{
    return 2 * peer->waits_done + waits(peer);
}

static bool same_state(const struct lvn_peer *a, const struct lvn_peer *b)
{
    return progress(a) == progress(b) && a->step == b->step && a->collective == b->collective &&
           a->collectives == b->collectives && !strcmp(a->operation, b->operation) && !strcmp(a->activity, b->activity);
}

static const struct lvn_peer *extreme(const struct lvn_peer *peer, int n, bool first)
{
    const struct lvn_peer *found = NULL;
    for (int i = 0; i < n; i++) {
        if (!is_running(&peer[i])) continue;
        if (!found || (first ? progress(&peer[i]) > progress(found) : progress(&peer[i]) < progress(found)))
            found = &peer[i];
    }
    return found;
}

int lvn_hang_detector_behind(const struct lvn_peer *peer, int n)
{
    const struct lvn_peer *last = extreme(peer, n, false), *first = extreme(peer, n, true);
    return last && progress(last) < progress(first) ? last->rank : -1;
}

/* "ranks 0,1", "rank 2 on h3", "ranks 2,3 on h3". */
static void add_ranks(const struct lvn_peer *peer, int n, const struct lvn_peer *other, bool *flag, bool host,
                      struct lvn_text *t)
{
    int many = 0, near = 0;
    for (int i = 0; i < n; i++) {
        flag[i] = is_running(&peer[i]) && same_state(&peer[i], other);
        many += flag[i];
        near += flag[i] && !strcmp(peer[i].host, other->host);
    }
    lvn_text_add(t, many == 1 ? "rank " : "ranks ");
    lvn_ranks_text(flag, n, 0, t);
    if (many == 1 || (host && near == many)) lvn_text_printf(t, " on %s", other->host);
    lvn_text_printf(t, " %s", waits(other) && !host ? (many == 1 ? "waits" : "wait") : (many == 1 ? "is" : "are"));
}

static void add_where(const struct lvn_peer *peer, bool step, struct lvn_text *t)
{
    if (peer->collectives) {
        lvn_text_printf(t, " in reduction %d of %d", peer->collective, peer->collectives);
    } else if (peer->operation[0] && peer->activity[0]) {
        lvn_text_printf(t, " in %s (%s)", peer->operation, peer->activity);
    } else if (peer->operation[0]) {
        lvn_text_printf(t, " in %s", peer->operation);
    } else if (peer->activity[0]) {
        lvn_text_printf(t, " busy: %s", peer->activity);
    } else {
        lvn_text_add(t, " computing");
    }
    if (step) lvn_text_printf(t, " of step %lld", (long long)peer->step + 1);
}

/* Append the groups of ranks: first those with most progress, last those with least. */
static void add_groups(const struct lvn_peer *peer, int n, bool *flag, bool *named, struct lvn_text *t)
{
    const struct lvn_peer *last = extreme(peer, n, false);
    int behind = lvn_hang_detector_behind(peer, n);
    bool steps = false;
    for (int i = 0; i < n; i++) steps |= is_running(&peer[i]) && peer[i].step != last->step;
    for (int k = 0; k < GROUPS; k++) {
        const struct lvn_peer *other = NULL;
        for (int i = 0; i < n; i++)
            if (is_running(&peer[i]) && !named[i] && (!other || progress(&peer[i]) > progress(other))) other = &peer[i];
        if (!other) return;
        if (k) lvn_text_add(t, "; ");
        if (k == GROUPS - 1 && !same_state(other, last)) {
            lvn_text_add(t, "... ; "); /* groups in between are omitted */
            other = last;
        }
        add_ranks(peer, n, other, flag, behind >= 0 && progress(other) == progress(last), t);
        add_where(other, steps, t);
        for (int i = 0; i < n; i++) named[i] |= flag[i];
    }
}

static const struct lvn_peer *awaited_peer(const struct lvn_peer *peer, int n, const struct lvn_peer *waiter)
{
    const struct lvn_peer *other =
        waiter->waits_for > 0 && waiter->waits_for <= n ? &peer[waiter->waits_for - 1] : NULL;
    return other && is_running(other) && other != waiter ? other : NULL;
}

/* The reason why a rank waits, if it is known. If two ranks wait for messages of each other, their connection is
 * broken. If a rank waits for one with more progress, it does not receive what that one has sent. Otherwise a rank with
 * less progress than others waits for one that has no more progress than itself. */
enum wait { NOBODY, FOR_ONE, FOR_SENT, EACH_OTHER };

static enum wait kind_of_wait(const struct lvn_peer *peer, int n, const struct lvn_peer *waiter)
{
    const struct lvn_peer *other = is_running(waiter) ? awaited_peer(peer, n, waiter) : NULL;
    if (!other) return NOBODY;
    if (awaited_peer(peer, n, other) == waiter) return EACH_OTHER;
    if (progress(other) > progress(waiter)) return FOR_SENT;
    return progress(waiter) < progress(extreme(peer, n, true)) ? FOR_ONE : NOBODY;
}

/* The ranks with least progress wait in an operation that all others have left. These ranks had contributed before
 * any could leave, so the results are lost in the network. The reductions of an MPI do not show which link is at fault.
 */
static void add_unreached(const struct lvn_peer *peer, int n, bool *flag, struct lvn_text *t)
{
    const struct lvn_peer *last = extreme(peer, n, false);
    int many = 0;
    for (int i = 0; i < n; i++) {
        flag[i] = is_running(&peer[i]) && progress(&peer[i]) == progress(last);
        many += flag[i];
    }
    lvn_text_add(t, many == 1 ? "; messages do not reach rank " : "; messages do not reach all of ranks ");
    lvn_ranks_text(flag, n, 0, t);
    if (many == 1)
        lvn_text_printf(t, " on %s: check its links", last->host);
    else
        lvn_text_add(t, ": check their links");
}

/* Append the cause why the ranks with least progress, or all, do not continue. flag (n): scratch. */
static void add_cause(const struct lvn_peer *peer, int n, bool *flag, struct lvn_text *t)
{
    enum wait worst = NOBODY;
    const struct lvn_peer *waiter = NULL, *other;
    for (int i = 0; i < n; i++) {
        enum wait w = kind_of_wait(peer, n, &peer[i]);
        if (w > worst) worst = w, waiter = &peer[i];
    }
    other = waiter ? awaited_peer(peer, n, waiter) : NULL;
    if (worst == EACH_OTHER)
        lvn_text_printf(t, "; rank %d on %s and rank %d on %s wait for each other: check the link between them",
                        waiter->rank, waiter->host, other->rank, other->host);
    else if (worst == FOR_SENT)
        lvn_text_printf(t, "; messages of rank %d on %s do not reach rank %d on %s: check the link between them",
                        other->rank, other->host, waiter->rank, waiter->host);
    else if (worst == FOR_ONE)
        lvn_text_printf(t, "; rank %d on %s waits for rank %d on %s", waiter->rank, waiter->host, other->rank,
                        other->host);
    else if (!waits(extreme(peer, n, false)))
        return; /* it computes, reads or writes: add_groups() has reported it */
    else if (lvn_hang_detector_behind(peer, n) >= 0)
        add_unreached(peer, n, flag, t);
    else if (n > 1)
        lvn_text_add(t, "; all have the same progress: check that all of them reach each other");
}

bool lvn_hang_detector_link(const struct lvn_peer *peer, int n, int link[2])
{
    for (int i = 0; i < n; i++) {
        enum wait w = kind_of_wait(peer, n, &peer[i]);
        if (w != FOR_SENT && w != EACH_OTHER) continue;
        link[0] = i;
        link[1] = awaited_peer(peer, n, &peer[i])->rank;
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

void lvn_hang_detector_text(const struct lvn_peer *peer, int n, double min, struct lvn_text *t)
{
    const struct lvn_peer *last = extreme(peer, n, false);
    bool *flag = calloc(2 * (size_t)n, sizeof *flag);
    double still = stalled_seconds(peer, n), limit = lvn_hang_detector_limit(peer, n, min);
    if (last && flag) {
        lvn_text_add(t, "no rank has made progress for ");
        add_seconds(still, t);
        if (last->step) lvn_text_printf(t, ", since step %lld", (long long)last->step);
        lvn_text_add(t, ": ");
        add_groups(peer, n, flag, flag + n, t);
        add_cause(peer, n, flag, t);
        if (still < limit) {
            lvn_text_add(t, "; the run ends in ");
            add_seconds(limit - still, t);
            lvn_text_add(t, " unless one makes progress (trainer.stall_timeout)");
        }
    }
    free(flag);
}

/* member_single_rank.c - hang detection for a run of one rank, in a separate thread; started by
 * lvn_member_watch_single_rank().
 *
 * With several ranks, or under levin launch, the server detects hangs of all ranks (server_receive.c). A single rank
 * has no server, and a read from an unresponsive file system would block it forever without a message. The rule is the
 * same (hang_detector.h): steps and counted work are progress. Time in which this process was stopped does not
 * count. */

#include "base/clock.h"
#include "base/text.h"
#include "base/threads.h"
#include "cluster/rendezvous/hang_detector.h"
#include "cluster/rendezvous/member_private.h"
#include "host/machine.h"

static const double CHECK_SECONDS = 0.5, STOPPED_SECONDS = 2;

/* Update the rank's state and the time of its last progress. */
static void update_self(struct lvn_member *member, struct lvn_peer *self, double since_last)
{
    const struct lvn_peer before = *self;
    const double now = lvn_seconds();
    lvn_member_update_own_row(member, now);
    *self = member->peer[member->rank];
    self->last_progress = before.last_progress;
    self->first_step = before.first_step;
    self->first_step_at = before.first_step_at;
    self->last_step_at = before.last_step_at;
    if (since_last > STOPPED_SECONDS) self->last_progress += since_last; /* SIGSTOP, a terminal's ^Z */
    lvn_hang_detector_heard(self, &before, now);
}

static void check_progress(struct lvn_member *member, const struct lvn_peer *self, bool *warned)
{
    const enum lvn_hang_state state = lvn_hang_detector_state(self, 1, member->stall_timeout);
    LVN_LOCAL_TEXT(t);
    if (state == LVN_HANG_NONE) *warned = false;
    if (state == LVN_HANG_NONE || (state == LVN_HANG_SUSPECTED && *warned)) return;
    lvn_hang_detector_text(self, 1, member->stall_timeout, &t);
    *warned = true;
    if (state == LVN_HANG_SUSPECTED) {
        snprintf(member->warning, sizeof member->warning, "%s", t.p ? t.p : "the run makes no progress");
        lvn_member_warn(member);
        return;
    }
    lvn_text_add(&t, "; check that its data and file systems respond (trainer.stall_timeout)");
    lvn_member_set_fault(member, -1, true, false, t.p ? t.p : "the run makes no progress");
}

static void *watch(void *argument)
{
    struct lvn_member *member = argument;
    bool warned = false;
    pthread_mutex_lock(&member->lock);
    struct lvn_peer self = member->peer[member->rank];
    double last = lvn_seconds();
    while (!member->stopping && !member->faulty) {
        struct timespec at = lvn_deadline(CHECK_SECONDS);
        bool in_time = true;
        while (!member->stopping && !member->faulty && in_time)
            in_time = lvn_condition_wait(&member->change, &member->lock, &at);
        if (member->stopping || member->faulty) break;
        const double now = lvn_seconds();
        update_self(member, &self, now - last);
        last = now;
        check_progress(member, &self, &warned);
    }
    if (member->faulty && !member->failed_here) lvn_member_deliver_fault(member);
    pthread_mutex_unlock(&member->lock);
    return NULL;
}

enum lvn_status lvn_member_watch_single_rank(struct lvn_member *member)
{
    if (!member || member->online || member->stall_timeout <= 0 || member->has_watch) return LVN_OK;
    int bad = lvn_thread_start(&member->watch, watch, member);
    LVN_CHECK(!bad, MEMORY, "cannot start a thread: %s", strerror(bad));
    member->has_watch = true;
    return LVN_OK;
}

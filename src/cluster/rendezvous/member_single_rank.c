/* member_single_rank.c - hang detection for a run of one rank, in a thread of its own; lvn_member_watch_alone()
 * starts it.
 *
 * With several ranks, or under levin launch, the server detects hangs of all ranks (server_receive.c). A single rank
 * has no server, and a read from a file system that does not answer would block it for ever without a message. The
 * rule is the same (hang_detector.h): steps and counted work are progress. Time in which this process itself was
 * stopped does not count. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/threads.h"
#include "cluster/rendezvous/hang_detector.h"
#include "cluster/rendezvous/member_private.h"
#include "host/machine.h"

static const double CHECK_SECONDS = 0.5, STOPPED_SECONDS = 2;

/* Update the rank's state and the time of its last progress. */
static void update_self(struct lvn_member *h, struct lvn_peer *self, double since_last)
{
    const struct lvn_peer before = *self;
    const double now = lvn_seconds();
    lvn_member_send_heartbeat(h, now);
    *self = h->peer[h->rank];
    self->last_progress = before.last_progress;
    self->first_step = before.first_step;
    self->first_step_at = before.first_step_at;
    self->last_step_at = before.last_step_at;
    if (since_last > STOPPED_SECONDS) self->last_progress += since_last; /* SIGSTOP, a terminal's ^Z */
    lvn_hang_detector_heard(self, &before, now);
}

static void judge(struct lvn_member *h, const struct lvn_peer *self, bool *warned)
{
    const enum lvn_hang_state is = lvn_hang_detector_judge(self, 1, h->stall_timeout);
    LVN_LOCAL_TEXT(t);
    if (is == LVN_HANG_NONE) *warned = false;
    if (is == LVN_HANG_NONE || (is == LVN_HANG_SUSPECTED && *warned)) return;
    lvn_hang_detector_text(self, 1, h->stall_timeout, &t);
    *warned = true;
    if (is == LVN_HANG_SUSPECTED) {
        snprintf(h->warning, sizeof h->warning, "%s", t.p ? t.p : "the run makes no progress");
        lvn_member_warn(h);
        return;
    }
    lvn_text_add(&t, "; check that its data and file systems answer (trainer.stall_timeout)");
    lvn_member_set_fault(h, -1, true, false, t.p ? t.p : "the run makes no progress");
}

static void *watch(void *heartbeat)
{
    struct lvn_member *h = heartbeat;
    bool warned = false;
    pthread_mutex_lock(&h->lock);
    struct lvn_peer self = h->peer[h->rank];
    double last = lvn_seconds();
    while (!h->stopping && !h->faulty) {
        struct timespec at = lvn_deadline(CHECK_SECONDS);
        bool in_time = true;
        while (!h->stopping && !h->faulty && in_time) in_time = lvn_condition_wait(&h->change, &h->lock, &at);
        if (h->stopping || h->faulty) break;
        const double now = lvn_seconds();
        update_self(h, &self, now - last);
        last = now;
        judge(h, &self, &warned);
    }
    if (h->faulty && !h->failed_here) lvn_member_deliver_fault(h);
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

enum lvn_status lvn_member_watch_alone(struct lvn_member *h)
{
    if (!h || h->online || h->stall_timeout <= 0 || h->has_watch) return LVN_OK;
    int bad = lvn_thread_start(&h->watch, watch, h);
    LVN_CHECK(!bad, MEMORY, "cannot start a thread: %s", strerror(bad));
    h->has_watch = true;
    return LVN_OK;
}

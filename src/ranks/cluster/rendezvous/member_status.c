/* member_status.c - status.json of a run: its path, the state, the attempts, and writing it.
 *
 * The trainer calls the setters (member.h). The thread that writes the file every second, and the last write before a
 * process terminates, are in member_thread.c. */

#include "base/clock.h"
#include "base/log.h"
#include "base/threads.h"
#include "cluster/rendezvous/member_private.h"

/* Send the server immediately the contents of status.json for a fault, because this rank may be killed in its first
 * steps. The caller holds the lock. */
static void send_publish(struct lvn_member *member)
{
    const struct lvn_attempts *attempts = &member->attempts;
    if (!member->has_thread || member->rank) return;
    lvn_message_add(&member->wire.out, LVN_MESSAGE_PUBLISH, attempts->restarts, attempts->first_step,
                    attempts->computed, attempts->restart_seconds, member->path);
    lvn_wire_flush(&member->wire);
}

void lvn_member_publish(struct lvn_member *member, const char *path)
{
    if (!member) return;
    pthread_mutex_lock(&member->lock);
    bool first = !member->path[0];
    snprintf(member->path, sizeof member->path, "%s", path);
    send_publish(member);
    pthread_mutex_unlock(&member->lock);
    if (!first || member->rank) return;
    int error = lvn_thread_start(&member->publisher, lvn_member_status_thread, member);
    member->has_publisher = !error;
    if (error)
        lvn_log(LVN_LOG_WARN, "status.json could not be written: cannot start a thread for it: %s; the run continues",
                strerror(error));
}

void lvn_member_set_attempts(struct lvn_member *member, const struct lvn_attempts *attempts)
{
    if (!member) return;
    pthread_mutex_lock(&member->lock);
    member->attempts = *attempts;
    if (member->path[0]) send_publish(member);
    pthread_mutex_unlock(&member->lock);
}

void lvn_member_state(struct lvn_member *member, const char *state)
{
    if (!member) return;
    pthread_mutex_lock(&member->lock);
    if (!member->faulty) snprintf(member->state, sizeof member->state, "%s", state);
    const bool writes = member->has_publisher && !member->faulty;
    pthread_mutex_unlock(&member->lock);
    if (writes) lvn_member_write_final_status(member); /* the next step may upload the run to a store */
}

bool lvn_member_write_status(struct lvn_member *member)
{
    struct lvn_peer *copy = malloc(sizeof *copy * (size_t)member->size);
    char path[sizeof member->path], state[sizeof member->state], fault[sizeof member->fault];
    bool written = true;
    if (!copy) return false;
    pthread_mutex_lock(&member->writing); /* newer states must be written later */
    pthread_mutex_lock(&member->lock);
    lvn_member_update_own_row(member, lvn_seconds());
    memcpy(copy, member->peer, sizeof *copy * (size_t)member->size);
    memcpy(path, member->path, sizeof path);
    memcpy(state, member->state, sizeof state);
    snprintf(fault, sizeof fault, "%s", member->faulty ? member->fault : "");
    bool declared_lost = member->declared_lost;
    const struct lvn_attempts attempts = member->attempts;
    pthread_mutex_unlock(&member->lock);
    if (*path && !declared_lost) written = lvn_status_write(path, copy, member->size, &attempts, state, fault);
    pthread_mutex_unlock(&member->writing);
    free(copy);
    return written;
}

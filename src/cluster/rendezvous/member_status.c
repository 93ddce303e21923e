/* member_status.c - what a member says of its run in status.json: the path, the state, the attempts, and the file.
 *
 * member.h declares the setters, which the trainer calls. The thread that writes the file every second, and the last
 * write before a process ends, are in member_thread.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/threads.h"
#include "cluster/rendezvous/member_private.h"

/* Tell the server what status.json is to say after a fault, at once: this rank may be killed in its first steps. Lock
 * held. */
static void send_publish(struct lvn_member *h)
{
    const struct lvn_attempts *a = &h->attempts;
    if (!h->has_thread || h->rank) return;
    lvn_message_add(&h->wire.out, LVN_MESSAGE_PUBLISH, a->restarts, a->first_step, a->computed, a->restart_seconds,
                    h->path);
    lvn_wire_flush(&h->wire);
}

void lvn_member_publish(struct lvn_member *h, const char *path)
{
    if (!h) return;
    pthread_mutex_lock(&h->lock);
    bool first = !h->path[0];
    snprintf(h->path, sizeof h->path, "%s", path);
    send_publish(h);
    pthread_mutex_unlock(&h->lock);
    if (!first || h->rank) return;
    int error = lvn_thread_start(&h->publisher, lvn_member_status_thread, h);
    h->has_publisher = !error;
    if (error)
        lvn_log(LVN_LOG_WARN,
                "status.json could not be written: no thread can be started for it: %s; the run continues",
                strerror(error));
}

void lvn_member_set_attempts(struct lvn_member *h, const struct lvn_attempts *attempts)
{
    if (!h) return;
    pthread_mutex_lock(&h->lock);
    h->attempts = *attempts;
    if (h->path[0]) send_publish(h);
    pthread_mutex_unlock(&h->lock);
}

void lvn_member_state(struct lvn_member *h, const char *state)
{
    if (!h) return;
    pthread_mutex_lock(&h->lock);
    if (!h->faulty) snprintf(h->state, sizeof h->state, "%s", state);
    const bool writes = h->has_publisher && !h->faulty;
    pthread_mutex_unlock(&h->lock);
    if (writes) lvn_member_write_final_status(h); /* the run may be sent to a store next */
}

bool lvn_member_write_status(struct lvn_member *h)
{
    struct lvn_peer *copy = malloc(sizeof *copy * (size_t)h->size);
    char path[sizeof h->path], state[sizeof h->state], fault[sizeof h->fault];
    bool written = true;
    if (!copy) return false;
    pthread_mutex_lock(&h->writing); /* so that newer states are written later */
    pthread_mutex_lock(&h->lock);
    lvn_member_update_own_row(h, lvn_seconds());
    memcpy(copy, h->peer, sizeof *copy * (size_t)h->size);
    memcpy(path, h->path, sizeof path);
    memcpy(state, h->state, sizeof state);
    snprintf(fault, sizeof fault, "%s", h->faulty ? h->fault : "");
    bool declared_lost = h->declared_lost;
    const struct lvn_attempts attempts = h->attempts;
    pthread_mutex_unlock(&h->lock);
    if (*path && !declared_lost) written = lvn_status_write(path, copy, h->size, &attempts, state, fault);
    pthread_mutex_unlock(&h->writing);
    free(copy);
    return written;
}

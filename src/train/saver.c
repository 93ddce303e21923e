/* saver.c - see saver.h. */
#include "train/saver.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void all_read(void *context)
{
    struct lvn_saver *s = context;
    pthread_mutex_lock(&s->lock);
    s->reading = false;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void *write_it(void *context)
{
    struct lvn_saver *s = context;
    enum lvn_status status = lvn_snapshot_save(&s->to, &s->snapshot, s->network, s->sharding, s->ranks);
    if (status != LVN_OK) snprintf(s->text, sizeof s->text, "%s", lvn_error_text());
    pthread_mutex_lock(&s->lock);
    s->status = status;
    s->reading = false;
    s->done = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void lvn_saver_init(struct lvn_saver *s)
{
    *s = (struct lvn_saver){0};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
}

void lvn_saver_release(struct lvn_saver *s)
{
    (void)lvn_saver_finished(s, true);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
}

enum lvn_status lvn_saver_start(struct lvn_saver *s, const struct lvn_snapshot_place *to, const struct lvn_snapshot *at,
                                const struct lvn_network *n, const struct lvn_sharding *sharding,
                                struct lvn_ranks *ranks)
{
    sigset_t all, before;
    s->snapshot = *at;
    s->to = *to;
    s->codec = *to->codec;
    s->to.codec = &s->codec;
    s->to.all_read = all_read;
    s->to.context = s;
    s->network = n;
    s->sharding = sharding;
    s->ranks = ranks;
    s->reading = true;
    s->done = false;
    s->status = LVN_OK;
    s->text[0] = '\0';
    sigfillset(&all); /* signals are for the thread that trains */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&s->thread, NULL, write_it, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    LVN_CHECK(!error, MEMORY, "cannot start a thread to write the checkpoint: %s", strerror(error));
    s->running = true;
    return LVN_OK;
}

void lvn_saver_wait_read(struct lvn_saver *s)
{
    if (!s->running) return;
    pthread_mutex_lock(&s->lock);
    while (s->reading) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

bool lvn_saver_finished(struct lvn_saver *s, bool wait)
{
    if (!s->running) return false;
    pthread_mutex_lock(&s->lock);
    bool done = s->done;
    pthread_mutex_unlock(&s->lock);
    if (!done && !wait) return false;
    pthread_join(s->thread, NULL);
    s->running = false;
    return true;
}

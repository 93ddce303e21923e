/* upload_staging_sender.c - lvn_sender of upload_staging.h: a thread that uploads a folder while it is still being
 * written. */
#include <stdio.h>

#include "base/threads.h"
#include "stores/upload_staging.h"

static void *run(void *argument)
{
    struct lvn_sender *s = argument;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (!s->pending && !s->stopping) pthread_cond_wait(&s->changed, &s->lock);
        if (s->stopping) break;
        s->pending = false;
        pthread_mutex_unlock(&s->lock);
        enum lvn_status status = lvn_upload_staging_send_run(s->folder, s->path, &s->owner);
        pthread_mutex_lock(&s->lock);
        s->sent |= status == LVN_OK;
        snprintf(s->failure, sizeof s->failure, "%s", status == LVN_OK ? "" : lvn_error_text());
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

enum lvn_status lvn_sender_start(struct lvn_sender *s, const char *folder, const char *path,
                                 const struct lvn_upload_owner *owner)
{
    *s = (struct lvn_sender){.folder = folder, .path = path, .owner = *owner};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->running = lvn_thread_start(&s->thread, run, s) == 0;
    LVN_CHECK(s->running, IO, "no thread could be started to send '%s' to '%s'", folder, path);
    return LVN_OK;
}

void lvn_sender_push(struct lvn_sender *s, char text[1024])
{
    text[0] = '\0';
    if (!s->running) return;
    pthread_mutex_lock(&s->lock);
    snprintf(text, 1024, "%s", s->failure);
    s->failure[0] = '\0';
    s->pending = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

bool lvn_sender_has_sent(struct lvn_sender *s)
{
    pthread_mutex_lock(&s->lock);
    bool sent = s->sent;
    pthread_mutex_unlock(&s->lock);
    return sent;
}

enum lvn_status lvn_sender_end(struct lvn_sender *s)
{
    if (!s->running) return LVN_OK;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    s->running = false;
    return lvn_upload_staging_send_run(s->folder, s->path, &s->owner);
}

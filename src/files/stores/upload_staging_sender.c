/* upload_staging_sender.c - lvn_sender of upload_staging.h: a thread that uploads a folder while it is still being
 * written. */

#include "base/threads.h"
#include "stores/upload_staging.h"

static void *run(void *argument)
{
    struct lvn_sender *sender = argument;
    pthread_mutex_lock(&sender->lock);
    for (;;) {
        while (!sender->pending && !sender->stopping) pthread_cond_wait(&sender->changed, &sender->lock);
        if (sender->stopping) break;
        sender->pending = false;
        pthread_mutex_unlock(&sender->lock);
        enum lvn_status status = lvn_upload_staging_send_run(sender->folder, sender->path, &sender->owner);
        pthread_mutex_lock(&sender->lock);
        sender->sent |= status == LVN_OK;
        snprintf(sender->failure, sizeof sender->failure, "%s", status == LVN_OK ? "" : levin_error_text());
    }
    pthread_mutex_unlock(&sender->lock);
    return NULL;
}

enum lvn_status lvn_sender_start(struct lvn_sender *sender, const char *folder, const char *path,
                                 const struct lvn_upload_owner *owner)
{
    *sender = (struct lvn_sender){.folder = folder, .path = path, .owner = *owner};
    pthread_mutex_init(&sender->lock, NULL);
    pthread_cond_init(&sender->changed, NULL);
    sender->running = lvn_thread_start(&sender->thread, run, sender) == 0;
    LVN_CHECK(sender->running, IO, "cannot start a thread to send '%s' to '%s'", folder, path);
    return LVN_OK;
}

void lvn_sender_push(struct lvn_sender *sender, char text[1024])
{
    text[0] = '\0';
    if (!sender->running) return;
    pthread_mutex_lock(&sender->lock);
    snprintf(text, 1024, "%s", sender->failure);
    sender->failure[0] = '\0';
    sender->pending = true;
    pthread_cond_signal(&sender->changed);
    pthread_mutex_unlock(&sender->lock);
}

bool lvn_sender_has_sent(struct lvn_sender *sender)
{
    pthread_mutex_lock(&sender->lock);
    bool sent = sender->sent;
    pthread_mutex_unlock(&sender->lock);
    return sent;
}

enum lvn_status lvn_sender_end(struct lvn_sender *sender)
{
    if (!sender->running) return LVN_OK;
    pthread_mutex_lock(&sender->lock);
    sender->stopping = true;
    pthread_cond_signal(&sender->changed);
    pthread_mutex_unlock(&sender->lock);
    pthread_join(sender->thread, NULL);
    pthread_cond_destroy(&sender->changed);
    pthread_mutex_destroy(&sender->lock);
    sender->running = false;
    return lvn_upload_staging_send_run(sender->folder, sender->path, &sender->owner);
}

/* upload_staging.h - folders that are made here and belong into a store: prepared data, exported models, runs.
 *
 * A path of a store stands for a folder in the local cache (stage/NAME-HASH) while it is being made, the same one each
 * time, so that interrupted work goes on. Sending brings the store to the state of that folder: what is new or changed
 * is uploaded, state/manifest.json of a checkpoint after the rest of it, `best` and `last` (links here, small files
 * there) behind everything; then what was sent before and is gone here is removed there. What was sent is noted in the
 * folder's hidden `.sent`. An ordinary path stands for itself, and sending it does nothing. */
#ifndef LVN_UPLOAD_STAGING_H
#define LVN_UPLOAD_STAGING_H

#include <pthread.h>

#include "stores/store.h"

/* The folder for a path, made where it is one of a store; in the arena. */
LVN_CHECKED enum lvn_status lvn_upload_staging_open(struct lvn_arena *a, const char *path, const char **folder);
LVN_CHECKED enum lvn_status lvn_upload_staging_send(const char *folder, const char *path);
/* Was something of the folder sent already? */
bool lvn_upload_staging_was_sent(const char *folder);
/* Removes, in the store, what has one of these names below the path, or lies below one. */
LVN_CHECKED enum lvn_status lvn_upload_staging_clear(const char *path, const char *const *names, int n);

/* A thread that sends now and then. */
struct lvn_sender {
    const char *folder, *path; /* the caller's */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running, pending, stopping;
    char failure[1024]; /* of the last sending; "": it went well */
};
LVN_CHECKED enum lvn_status lvn_sender_start(struct lvn_sender *s, const char *folder, const char *path);
/* There is something new. The failure of an earlier sending goes to `text`, once; "": there was none. */
void lvn_sender_push(struct lvn_sender *s, char text[1024]);
/* Sends what is left, waits for it, and says how that went. Does nothing when it was not started. */
LVN_CHECKED enum lvn_status lvn_sender_end(struct lvn_sender *s);

#endif

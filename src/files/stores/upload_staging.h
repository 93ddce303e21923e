/* upload_staging.h - folders written locally and uploaded to a store: prepared data, exported models, runs.
 *
 * Writing to a store's path creates a folder in the local cache (stage/NAME-HASH), always the same one, so that
 * interrupted work resumes. Sending synchronizes the store with that folder: new and changed files are uploaded,
 * settings.yaml first; state/manifest.json after the other files of its checkpoint; `best` and `last` (local links,
 * small files in the store) after everything else. Then files that were sent earlier and no longer exist locally are
 * removed from the store. The hidden file `.sent` in the folder lists the files sent; until an upload succeeds it keeps
 * the lines of earlier uploads, and the last line of a file counts. A local path is used directly, and sending it does
 * nothing. */
#ifndef LVN_UPLOAD_STAGING_H
#define LVN_UPLOAD_STAGING_H

#include <pthread.h>

#include "stores/store.h"

/* Return the local folder for a path, in the arena; created if the path is in a store. */
enum lvn_status lvn_upload_staging_open(struct lvn_arena *a, const char *path, const char **folder) LVN_CHECKED;
enum lvn_status lvn_upload_staging_send(const char *folder, const char *path) LVN_CHECKED;
/* Functions that check whether this process still owns the store's folder (a run's lease). Any thread may call. */
struct lvn_upload_owner {
    enum lvn_status (*confirm)(void *context); /* LVN_OK: something may be sent or removed now; may wait */
    bool (*is_valid)(void *context);           /* the same without waiting, before and during each request */
    void *context;
};
/* The same for a run: sends and removes nothing while this process does not own it. */
enum lvn_status lvn_upload_staging_send_run(const char *folder, const char *path,
                                            const struct lvn_upload_owner *owner) LVN_CHECKED;
/* True if a part of the folder was sent before. */
bool lvn_upload_staging_was_sent(const char *folder);
/* Record that the file `name` of the folder came from the store: it is not sent again, and is removed there once it no
 * longer exists here. */
enum lvn_status lvn_upload_staging_fetched(struct lvn_arena *a, const char *folder, const char *name) LVN_CHECKED;
/* Remove the files and folders with these names below the path from the store. */
enum lvn_status lvn_upload_staging_clear(const char *path, const char *const *names, int n) LVN_CHECKED;

/* A background thread that sends the folder when it has changed. */
struct lvn_sender {
    const char *folder;            /* owned by the caller */
    const char *path;              /* owned by the caller */
    struct lvn_upload_owner owner; /* of the run */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running;       /* the thread was started */
    bool pending;       /* there are changes to send */
    bool stopping;      /* the thread must end */
    bool sent;          /* everything was sent once */
    char failure[1024]; /* of the last upload; "": success */
};
enum lvn_status lvn_sender_start(struct lvn_sender *sender, const char *folder, const char *path,
                                 const struct lvn_upload_owner *owner) LVN_CHECKED;
/* Report a change. Copies the error of an earlier upload to `text`, once; "": none. */
void lvn_sender_push(struct lvn_sender *sender, char text[1024]);
/* True if everything was sent at least once. Any thread may call. */
bool lvn_sender_has_sent(struct lvn_sender *sender);
/* Send the remaining changes, wait, and return the result. Does nothing if the thread was not started. */
enum lvn_status lvn_sender_end(struct lvn_sender *sender) LVN_CHECKED;

#endif

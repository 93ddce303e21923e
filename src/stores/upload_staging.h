/* upload_staging.h - folders that are written here and uploaded to a store: prepared data, exported models, runs.
 *
 * While it is being written, a path of a store stands for a folder in the local cache (stage/NAME-HASH), always the
 * same one, so that interrupted work resumes. Sending synchronizes the store with that folder: new and changed files
 * are uploaded, settings.yaml first; of a checkpoint, state/manifest.json after its other files; `best` and `last`
 * (links here, small files there) after everything else. Then files that were sent earlier and are gone here are
 * removed there. The hidden file `.sent` in the folder records the files sent. A local path stands for itself, and
 * sending it does nothing. */
#ifndef LVN_UPLOAD_STAGING_H
#define LVN_UPLOAD_STAGING_H

#include <pthread.h>

#include "stores/store.h"

/* The folder for a path, created if the path is a store's; in the arena. */
LVN_CHECKED enum lvn_status lvn_upload_staging_open(struct lvn_arena *a, const char *path, const char **folder);
LVN_CHECKED enum lvn_status lvn_upload_staging_send(const char *folder, const char *path);
/* Whether the store's folder is still this process's: a run's lease. Any thread may call. */
struct lvn_upload_owner {
    enum lvn_status (*confirm)(void *context); /* LVN_OK: something may be sent or removed now; may wait */
    bool (*holds)(void *context);              /* the same without waiting, before and during each request */
    void *context;
};
/* The same for a run: nothing is sent or removed while it is not its owner's. */
LVN_CHECKED enum lvn_status lvn_upload_staging_send_run(const char *folder, const char *path,
                                                        const struct lvn_upload_owner *owner);
/* Was something of the folder sent before? */
bool lvn_upload_staging_was_sent(const char *folder);
/* Removes from the store, below the path, everything with one of these names or below one. */
LVN_CHECKED enum lvn_status lvn_upload_staging_clear(const char *path, const char *const *names, int n);

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
LVN_CHECKED enum lvn_status lvn_sender_start(struct lvn_sender *s, const char *folder, const char *path,
                                             const struct lvn_upload_owner *owner);
/* Reports a change. Copies the error of an earlier upload to `text`, once; "": none. */
void lvn_sender_push(struct lvn_sender *s, char text[1024]);
/* Was everything sent at least once? Any thread may call. */
bool lvn_sender_has_sent(struct lvn_sender *s);
/* Sends the remaining changes, waits, and returns the result. Does nothing if the thread was not started. */
LVN_CHECKED enum lvn_status lvn_sender_end(struct lvn_sender *s);

#endif

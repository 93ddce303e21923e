/* run_dir_status.c - sends status.json of a run in a store every ten seconds, between the uploads at checkpoints.
 * run_dir.c calls it.
 *
 * A machine that resumes the run learns from it how far the previous attempt came and when it was last alive
 * (callbacks/goodput.c), and levin watch shows it. A failed upload is not reported, because the next one follows
 * within seconds. Nothing is sent without a valid lease, nor before the run's settings are in the store,
 * which prove that the file belongs to levin. */

#include "base/clock.h"
#include "base/files.h"
#include "base/threads.h"
#include "train/run_dir.h"

enum { FIRST_SECONDS = 2, SECONDS = 10, MAX_BYTES = 64 << 20 };

/* Any thread: may a request start or continue? */
static bool allowed(void *context)
{
    struct lvn_run_dir *d = context;
    return !__atomic_load_n(&d->status.stop, __ATOMIC_RELAXED) && lvn_lease_is_valid(d->lease);
}

/* The file may be replaced during the upload, so a hidden copy is sent, with a name that lvn_run_dir_begin() removes.
 */
static enum lvn_status send(struct lvn_run_dir *d)
{
    LVN_LOCAL_ARENA(a);
    char *text;
    int64_t bytes;
    const char *file = lvn_path_join(&a, d->path, LVN_RUN_DIR_STATUS),
               *url = lvn_store_join(&a, d->url, LVN_RUN_DIR_STATUS);
    const char *copy = lvn_path_join(&a, d->path, "." LVN_RUN_DIR_STATUS ".tmp-send");
    if (!file || !url || !copy) return LVN_MEMORY;
    if (!lvn_path_is_file(file)) return LVN_OK;
    LVN_TRY(lvn_file_read(file, MAX_BYTES, &text, &bytes));
    enum lvn_status status = lvn_file_write(copy, text, bytes);
    free(text);
    return status == LVN_OK ? lvn_store_put_while(copy, url, allowed, d) : status;
}

static void *run(void *argument)
{
    struct lvn_run_dir *d = argument;
    struct lvn_run_dir_status *s = &d->status;
    struct timespec until = lvn_deadline(FIRST_SECONDS);
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        if (lvn_condition_wait(&s->changed, &s->lock, &until)) continue;
        pthread_mutex_unlock(&s->lock);
        if ((d->continued || lvn_sender_has_sent(&d->sender)) && allowed(d) && send(d) != LVN_OK) lvn_error_clear();
        pthread_mutex_lock(&s->lock);
        until = lvn_deadline(SECONDS);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void lvn_run_dir_status_start(struct lvn_run_dir *d)
{
    struct lvn_run_dir_status *s = &d->status;
    pthread_mutex_init(&s->lock, NULL);
    lvn_condition_init(&s->changed);
    s->running = lvn_thread_start(&s->thread, run, d) == 0;
}

void lvn_run_dir_status_stop(struct lvn_run_dir *d)
{
    struct lvn_run_dir_status *s = &d->status;
    if (!s->running) return;
    pthread_mutex_lock(&s->lock);
    __atomic_store_n(&s->stop, true, __ATOMIC_RELAXED);
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    s->running = false;
}

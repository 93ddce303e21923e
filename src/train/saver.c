/* saver.c - see saver.h. */
#include "train/saver.h"

#include <stdio.h>

#include "base/threads.h"
#include "base/work.h"
#include "engine/consistency.h"

static const char at_save[] = "a save";

static void all_read(void *context)
{
    struct lvn_saver *s = context;
    pthread_mutex_lock(&s->lock);
    s->reading = false;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void ended(struct lvn_saver *s, enum lvn_status status)
{
    if (status != LVN_OK) snprintf(s->error, sizeof s->error, "%s", lvn_error_text());
    lvn_error_clear();
    pthread_mutex_lock(&s->lock);
    s->status = status;
    s->reading = false;
    s->done = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void write_it(struct lvn_saver *s)
{
    ended(s, lvn_snapshot_save(&s->target.snapshot, &s->snapshot, s->target.model_state, s->target.sharding,
                               s->target.ranks));
}

static void *write_beside(void *saver)
{
    lvn_read_from_snapshot(true);
    write_it(saver);
    return NULL;
}

void lvn_saver_init(struct lvn_saver *s)
{
    *s = (struct lvn_saver){.step = -1};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
}

void lvn_saver_target(struct lvn_saver *s, const struct lvn_saver_target *aim)
{
    s->target = *aim;
    s->codec = *aim->snapshot.codec;
    s->target.snapshot.codec = &s->codec;
    s->target.snapshot.all_read = all_read;
    s->target.snapshot.context = s;
}

static void join(struct lvn_saver *s)
{
    const char *before = lvn_work_begin(at_save);
    if (s->running) pthread_join(s->thread, NULL);
    s->running = false;
    lvn_work_end(before);
}

void lvn_saver_release(struct lvn_saver *s)
{
    join(s);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
}

/* False where the system gives no thread. */
static bool start_thread(struct lvn_saver *s)
{
    return s->running = lvn_thread_start(&s->thread, write_beside, s) == 0;
}

/* --- all ranks --- */

enum lvn_status lvn_saver_begin(struct lvn_saver *s, const struct lvn_snapshot *at)
{
    const struct lvn_saver_target *aim = &s->target;
    bool together = aim->sharding->zero1 && aim->sharding->size > 1;
    LVN_TRY(lvn_saver_finish(s));
    if (s->step == at->step) return LVN_OK;
    LVN_TRY(lvn_consistency_replicas(aim->ranks, aim->model_state, at->step)); /* nothing doubtful is saved */
    s->saving = true;
    s->step = at->step;
    if (!together && aim->ranks->rank) return LVN_OK;
    s->snapshot = *at;
    s->reading = true;
    s->done = false;
    s->error[0] = '\0';
    enum lvn_status status = together ? LVN_OK : lvn_device_snapshot(aim->model_state->device);
    if (status != LVN_OK) {
        ended(s, status);
        return LVN_OK;
    }
    if (!together && start_thread(s)) return LVN_OK;
    const char *before = lvn_work_begin(at_save);
    write_it(s);
    lvn_work_end(before);
    return LVN_OK;
}

void lvn_saver_wait_read(struct lvn_saver *s)
{
    if (!s->running) return;
    const char *before = lvn_work_begin(at_save);
    pthread_mutex_lock(&s->lock);
    while (s->reading) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    lvn_work_end(before);
}

enum lvn_saved lvn_saver_poll(struct lvn_saver *s)
{
    if (!s->saving) return LVN_SAVED_UNKNOWN;
    pthread_mutex_lock(&s->lock);
    bool done = s->done;
    pthread_mutex_unlock(&s->lock);
    if (!done) return LVN_SAVED_UNKNOWN;
    join(s);
    return s->status == LVN_OK ? LVN_SAVED : LVN_SAVED_NOT;
}

/* A run that lies in a store goes there in the background. */
static void send(const struct lvn_saver_target *aim)
{
    char failure[1024], text[1200];
    if (!aim->context->dir) return;
    lvn_run_dir_push(aim->dir, failure);
    if (!*failure) return;
    snprintf(text, sizeof text, "the run could not be sent to its store; levin tries again later: %s", failure);
    lvn_callback_notify(aim->context, LVN_EVENT_NOTE, text);
}

static enum lvn_status tell_saved(const struct lvn_saver_target *aim, int64_t step)
{
    char path[1200];
    int64_t now = aim->context->event.step;
    snprintf(path, sizeof path, "%s/checkpoints/step-%lld", aim->context->settings->run_dir, (long long)step);
    aim->context->event.step = step;
    LVN_TRY(lvn_callbacks_call(aim->callbacks, aim->context, LVN_EVENT_CHECKPOINT, path));
    aim->context->event.step = now;
    send(aim);
    return LVN_OK;
}

enum lvn_status lvn_saver_announce(struct lvn_saver *s, enum lvn_saved how)
{
    char text[LVN_SAVER_TEXT + 100];
    int64_t step = s->step;
    if (how == LVN_SAVED_UNKNOWN) return LVN_OK;
    s->saving = false;
    if (how == LVN_SAVED) return tell_saved(&s->target, step);
    s->step = -1;
    snprintf(text, sizeof text, "the checkpoint of step %lld could not be saved: %s; the run goes on", (long long)step,
             s->error);
    lvn_callback_notify(s->target.context, LVN_EVENT_NOTE, text);
    return LVN_OK;
}

enum lvn_status lvn_saver_finish(struct lvn_saver *s)
{
    enum lvn_saved how = LVN_SAVED_UNKNOWN;
    if (!s->saving) return LVN_OK;
    join(s);
    if (!s->target.ranks->rank) how = lvn_saver_poll(s);
    LVN_TRY(lvn_ranks_broadcast(s->target.ranks, &how, (int64_t)sizeof how));
    return lvn_saver_announce(s, how);
}

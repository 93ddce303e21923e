/* saver.c - see saver.h. */
#include "train/saver.h"

#include "base/files.h"
#include "base/text.h"
#include "base/threads.h"
#include "base/work.h"
#include "engine/consistency.h"
#include "engine/parameters.h"
#include "train/run_dir.h"

static const char operation[] = "a save";

/* The model state has been read completely. */
static void all_read(void *context)
{
    struct lvn_saver *s = context;
    pthread_mutex_lock(&s->lock);
    s->reading = false;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

static void set_done(struct lvn_saver *s, enum lvn_status status)
{
    if (status != LVN_OK) snprintf(s->error, sizeof s->error, "%s", levin_error_text());
    lvn_error_clear();
    pthread_mutex_lock(&s->lock);
    s->status = status;
    s->reading = false;
    s->done = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Write everything, or, after the part that needs messages, the rest. */
static void write_snapshot(struct lvn_saver *s, const struct lvn_model_state *n)
{
    const struct lvn_saver_target *a = &s->target;
    enum lvn_status status = LVN_OK;
    if (s->writing)
        lvn_snapshot_write(s->writing);
    else
        status = lvn_snapshot_save(&a->snapshot, &s->snapshot, n, a->ranks);
    set_done(s, status);
}

static void *run_thread(void *saver)
{
    struct lvn_saver *s = saver;
    const struct lvn_model_state n = lvn_model_state_of_snapshot(s->target.model_state);
    write_snapshot(s, &n);
    return NULL;
}

void lvn_saver_init(struct lvn_saver *s)
{
    *s = (struct lvn_saver){.step = -1};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
}

void lvn_saver_set_target(struct lvn_saver *s, const struct lvn_saver_target *target)
{
    s->target = *target;
    s->codec = *target->snapshot.codec;
    s->target.snapshot.codec = &s->codec;
    s->target.snapshot.all_read = all_read;
    s->target.snapshot.context = s;
}

static void join(struct lvn_saver *s)
{
    const char *before = lvn_work_begin(operation);
    if (s->running) pthread_join(s->thread, NULL);
    s->running = false;
    lvn_work_end(before);
}

void lvn_saver_release(struct lvn_saver *s)
{
    join(s);
    lvn_snapshot_cancel(s->writing);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
}

/* --- all ranks --- */

/* If something is sharded: commit after all ranks have written their shards. */
static void end_shards(struct lvn_saver *s)
{
    if (!s->writing) return;
    const enum lvn_status status = lvn_snapshot_end(s->writing);
    s->writing = NULL;
    s->target.ranks->agreed = false; /* as in lvn_saver_begin() */
    set_done(s, status);
}

static void begin(struct lvn_saver *s)
{
    const struct lvn_saver_target *a = &s->target;
    const bool shards = lvn_parameters_any_sharded(a->model_state);
    const enum lvn_status status =
        shards ? lvn_snapshot_begin(&s->writing, &a->snapshot, &s->snapshot, a->model_state, a->ranks)
               : lvn_device_snapshot(a->model_state->device);
    if (status != LVN_OK) {
        set_done(s, status);
        return;
    }
    const bool async = !shards || lvn_snapshot_is_async(s->writing);
    s->running = async && lvn_thread_start(&s->thread, run_thread, s) == 0;
    if (!s->running) write_snapshot(s, a->model_state);
    if (!async) end_shards(s);
}

/* Is the value of a validation, if there was one, missing in the saved checkpoint? */
static bool is_new(double value, double saved)
{
    return isfinite(value) && value != saved;
}

/* Record the values of a validation in the saved checkpoint, without its other files. */
static enum lvn_status rescore(const struct lvn_saver *s)
{
    const struct lvn_snapshot *n = &s->snapshot;
    if (s->target.ranks->rank) return LVN_OK; /* only rank 0 writes */
    return lvn_checkpoint_rescore(s->target.snapshot.dir, n->step, n->val_loss, &n->score);
}

enum lvn_status lvn_saver_begin(struct lvn_saver *s, const struct lvn_snapshot *snapshot)
{
    const struct lvn_saver_target *a = &s->target;
    LVN_TRY(lvn_saver_finish(s));
    const bool again = s->step == snapshot->step;
    if (again && snapshot->due == s->snapshot.due && !is_new(snapshot->val_loss, s->snapshot.val_loss) &&
        !is_new(snapshot->score.value, s->snapshot.score.value))
        return LVN_OK;
    /* Differing replicas must not be saved. */
    LVN_TRY(lvn_consistency_replicas(a->ranks, a->model_state, snapshot->step));
    s->saving = true;
    s->step = snapshot->step;
    s->snapshot = *snapshot;
    s->error[0] = '\0';
    s->reading = true;
    s->done = false;
    const char *before = lvn_work_begin(operation);
    if (again && lvn_store_is_remote(a->context->settings->values.run_dir))
        set_done(s, rescore(s)); /* a kill while a store gets a second step-N would leave no valid one */
    else if (a->ranks->rank && !lvn_parameters_any_sharded(a->model_state))
        set_done(s, LVN_OK); /* only rank 0 writes */
    else
        begin(s);
    a->ranks->agreed = false; /* the ranks may have agreed that the save failed, but the run continues */
    lvn_work_end(before);
    return LVN_OK;
}

void lvn_saver_wait_read(struct lvn_saver *s)
{
    if (!s->running) return;
    const char *before = lvn_work_begin(operation);
    pthread_mutex_lock(&s->lock);
    while (s->reading) pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    lvn_work_end(before);
}

bool lvn_saver_is_written(struct lvn_saver *s)
{
    pthread_mutex_lock(&s->lock);
    const bool written = s->saving && s->done;
    pthread_mutex_unlock(&s->lock);
    return written;
}

/* Send the event CHECKPOINT; then, if the run is in a store, start its upload in the background. */
static enum lvn_status announce_saved(const struct lvn_saver_target *a, int64_t step)
{
    char path[1200], failure[1024], text[1200];
    struct lvn_callback_context *context = a->context;
    const int64_t now = context->event.step;
    snprintf(path, sizeof path, "%s/checkpoints/step-%lld", context->settings->values.run_dir, (long long)step);
    context->event.step = step;
    const enum lvn_status status = lvn_callbacks_call(a->callbacks, context, LVN_EVENT_CHECKPOINT, path);
    context->event.step = now;
    LVN_TRY(status);
    if (!context->dir) return LVN_OK;
    lvn_run_dir_push(a->dir, failure);
    if (!*failure) return LVN_OK;
    snprintf(text, sizeof text, "the run could not be sent to its store; levin tries again later: %s", failure);
    lvn_callback_notify(context, LVN_EVENT_NOTE, text);
    return LVN_OK;
}

/* Does the run have a checkpoint to resume from? Of rank 0. */
static bool has_checkpoint(const struct lvn_saver_target *a)
{
    char last[1200];
    if (!a->context->dir) return false;
    return lvn_fit(last, sizeof last, "%s/last", a->dir->checkpoints) && lvn_path_exists(last);
}

/* A failed save does not end a run that has an earlier checkpoint to resume from (`kept`). A run without an earlier
 * checkpoint ends, because all of its steps would be lost. */
static enum lvn_status announce(struct lvn_saver *s, bool saved, bool kept)
{
    char text[LVN_SAVER_TEXT + 100];
    int64_t step = s->step;
    if (saved) return announce_saved(&s->target, step);
    s->step = -1;
    LVN_CHECK(kept, IO,
              "the checkpoint of step %lld could not be saved: %s; the run ends, because it has no earlier checkpoint "
              "to resume from; free some space if the disk is full, and start it again",
              (long long)step, s->error);
    snprintf(text, sizeof text, "the checkpoint of step %lld could not be saved: %s; the run continues",
             (long long)step, s->error);
    lvn_callback_notify(s->target.context, LVN_EVENT_NOTE, text);
    return LVN_OK;
}

enum lvn_status lvn_saver_finish(struct lvn_saver *s)
{
    if (!s->saving) return LVN_OK;
    join(s);
    const char *before = lvn_work_begin(operation);
    end_shards(s);
    lvn_work_end(before);
    /* rank 0's status decides, and its error is that of all ranks: if the run ends, rank 0 reports it for all */
    struct {
        bool saved, kept;
        char error[LVN_SAVER_TEXT];
    } outcome = {.saved = s->status == LVN_OK, .kept = has_checkpoint(&s->target)};
    memcpy(outcome.error, s->error, sizeof outcome.error);
    LVN_TRY(lvn_ranks_broadcast(s->target.ranks, &outcome, (int64_t)sizeof outcome));
    memcpy(s->error, outcome.error, sizeof s->error);
    s->saving = false;
    s->target.ranks->agreed |= !outcome.saved && !outcome.kept;
    return announce(s, outcome.saved, outcome.kept);
}

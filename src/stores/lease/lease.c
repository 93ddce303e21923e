/* lease.c - see lease.h: whose the lease is, how it is taken, and the thread that renews it. */
#include "stores/lease/lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/threads.h"
#include "stores/lease/lease_owner.h"
#include "stores/lease/lease_place.h"

enum {
    RENEWALS = 3,   /* within the time of a lease */
    LOOKS = 12,     /* of a job that watches another's lease, in its time */
    RACE_PART = 20, /* of the time of a lease, see lease_object.c */
    CLAIMS = 50,    /* attempts to take a lease that others want as well */
};
static const double max_seconds = 3600; /* of another's lease: a longer time in the file is not believed */

struct lvn_lease {
    struct lvn_lease_place place; /* the thread's own while it runs */
    struct lvn_lease_owner owner;
    struct lvn_text text;
    const char *path; /* owned by the place */
    pthread_t thread;
    bool running; /* the thread was started */
    int stop;     /* atomic: the thread ends, and so does its request */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool due;           /* renew at once */
    bool busy;          /* a renewal is under way */
    bool lost;          /* the lease belongs to another job */
    bool warned;        /* that it could not be renewed in time */
    long attempts;      /* that have ended */
    double renewed;     /* now() when the last successful renewal began */
    char message[1200]; /* why the lease is lost, or why the last renewal failed */
};

/* Seconds that also pass while the machine is suspended, unlike lvn_seconds(). */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void sleep_for(double seconds)
{
    const struct timespec t = {.tv_sec = (time_t)seconds, .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&t, NULL);
}

/* --- taking --- */

static enum lvn_status refuse(const struct lvn_lease *l, const struct lvn_lease_owner *other)
{
    char name[LVN_LEASE_TEXT];
    LVN_FAIL(IO,
             "another job is training in '%s', which belongs to %s: wait for it or stop it, or choose another run_dir",
             l->path, lvn_lease_owner_name(other, name));
}

/* Write the lease in place of what was read. */
static enum lvn_status claim(struct lvn_lease *l, enum lvn_store_written *written)
{
    double begin = now();
    LVN_TRY(lvn_lease_owner_write(&l->owner, &l->text));
    LVN_TRY(l->place.ops->write(&l->place, l->text.p, false, written));
    l->renewed = begin;
    return LVN_OK;
}

/* Another attempt of this job, or a process that held the lock which is this process's now: it writes no more. */
static bool is_over(const struct lvn_lease *l, const struct lvn_lease_owner *other)
{
    if (*other->job && strcmp(other->job, l->owner.job) == 0) return true;
    return *other->lock && strcmp(other->lock, l->owner.lock) == 0;
}

/* Watch another job's lease until it changes (*gone false) or has not changed for its time (*gone true). */
static enum lvn_status watch(struct lvn_lease *l, const struct lvn_lease_owner *other, bool *gone)
{
    char name[LVN_LEASE_TEXT];
    double seconds = other->seconds > 0 && other->seconds <= max_seconds ? other->seconds : l->owner.seconds;
    double begin = now();
    char *before = lvn_strdup(l->place.last);
    if (!before) return LVN_MEMORY;
    lvn_log(LVN_LOG_WARN, "'%s' belongs to %s; waiting %g s to see whether it is alive", l->path,
            lvn_lease_owner_name(other, name), seconds);
    enum lvn_status status = LVN_OK;
    for (*gone = false; status == LVN_OK && !*gone;) {
        sleep_for(seconds / LOOKS);
        status = l->place.ops->read(&l->place);
        if (status == LVN_OK && (!l->place.last || strcmp(l->place.last, before) != 0)) break;
        *gone = now() - begin >= seconds;
    }
    free(before);
    if (status == LVN_OK && *gone)
        lvn_log(LVN_LOG_WARN,
                "the job is not alive: for %g s it has not renewed its lease of '%s', which is taken over", seconds,
                l->path);
    return status;
}

/* Deal with the lease of another process that was read. *ours: it is taken over. */
static enum lvn_status deal_with(struct lvn_lease *l, bool *ours, bool *waited)
{
    struct lvn_lease_owner other, later;
    enum lvn_store_written written = LVN_STORE_WRITTEN;
    bool gone = false;
    (void)lvn_lease_owner_read(&other, l->place.last);
    if (!is_over(l, &other)) {
        *waited = true;
        LVN_TRY(watch(l, &other, &gone));
        if (!l->place.last) return LVN_OK; /* released */
        (void)lvn_lease_owner_read(&later, l->place.last);
        if (!gone) return is_over(l, &later) ? LVN_OK : refuse(l, &later);
    }
    LVN_TRY(claim(l, &written));
    *ours = written == LVN_STORE_WRITTEN;
    return LVN_OK;
}

static enum lvn_status take(struct lvn_lease *l, bool *waited)
{
    bool ours = false;
    *waited = false;
    for (int i = 0; i < CLAIMS && !ours; i++) {
        enum lvn_store_written written = LVN_STORE_CHANGED;
        LVN_TRY(l->place.ops->read(&l->place));
        if (l->place.last) {
            LVN_TRY(deal_with(l, &ours, waited));
            continue;
        }
        LVN_TRY(claim(l, &written));
        ours = written == LVN_STORE_WRITTEN;
        if (ours) break;
        /* Another job has written at this moment, so it is alive; or this very process, and the response was lost. */
        struct lvn_lease_owner other;
        LVN_TRY(l->place.ops->read(&l->place));
        if (!l->place.last) continue;
        (void)lvn_lease_owner_read(&other, l->place.last);
        ours = strcmp(l->place.last, l->text.p) == 0;
        if (!ours && !is_over(l, &other)) return refuse(l, &other);
    }
    LVN_CHECK(ours, IO, "other jobs take '%s' all the time: choose another run_dir", l->path);
    return LVN_OK;
}

/* --- renewing --- */

static void set_lost(struct lvn_lease *l)
{
    char name[LVN_LEASE_TEXT];
    struct lvn_lease_owner other;
    (void)lvn_lease_owner_read(&other, l->place.last);
    pthread_mutex_lock(&l->lock);
    if (l->place.last)
        snprintf(l->message, sizeof l->message,
                 "'%s' belongs to another job now, %s: this run ends and writes nothing more there", l->path,
                 lvn_lease_owner_name(&other, name));
    else
        snprintf(l->message, sizeof l->message,
                 "the lease of '%s' was removed while it could not be renewed, so another job may have trained there: "
                 "this run ends and writes nothing more there",
                 l->path);
    l->lost = true;
    pthread_mutex_unlock(&l->lock);
}

/* The file is not what was written last: whose is it? *again: it is still to be renewed. */
static enum lvn_status find_out(struct lvn_lease *l, bool *again)
{
    struct lvn_lease_owner other;
    *again = false;
    LVN_TRY(l->place.ops->read(&l->place));
    if (l->place.last && strcmp(l->place.last, l->text.p) == 0) return LVN_OK; /* the response was lost */
    (void)lvn_lease_owner_read(&other, l->place.last);
    /* Nobody can have owned it since: the file was removed by hand. */
    bool removed = !l->place.last && now() - l->renewed < l->owner.seconds;
    *again = removed || strcmp(other.instance, l->owner.instance) == 0;
    if (!*again) set_lost(l);
    return LVN_OK;
}

static enum lvn_status renew_once(struct lvn_lease *l)
{
    enum lvn_store_written written;
    bool again = true;
    l->owner.renewals++;
    LVN_TRY(lvn_lease_owner_write(&l->owner, &l->text));
    for (int i = 0; i < RENEWALS && again; i++) {
        LVN_TRY(l->place.ops->write(&l->place, l->text.p, true, &written));
        if (written == LVN_STORE_WRITTEN) return LVN_OK;
        LVN_TRY(find_out(l, &again));
    }
    LVN_CHECK(!again, IO, "the lease of '%s' changes all the time", l->path);
    return LVN_OK;
}

static void renew(struct lvn_lease *l)
{
    double begin = now();
    enum lvn_status status = renew_once(l);
    pthread_mutex_lock(&l->lock);
    if (status == LVN_OK && !l->lost) {
        l->renewed = begin;
        l->warned = false;
    } else if (status != LVN_OK) {
        snprintf(l->message, sizeof l->message, "%s", lvn_error_text());
    }
    l->attempts++;
    bool warn = !l->lost && !l->warned && now() - l->renewed >= l->owner.seconds;
    l->warned |= warn;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (warn)
        lvn_log(LVN_LOG_WARN,
                "the lease of '%s' could not be renewed for %g s: the run goes on, and nothing is written there until "
                "it can be renewed: %s",
                l->path, l->owner.seconds, l->message);
    lvn_error_clear();
}

static void *run(void *argument)
{
    struct lvn_lease *l = argument;
    pthread_mutex_lock(&l->lock);
    while (!l->stop && !l->lost) {
        const struct timespec until = lvn_deadline(l->owner.seconds / RENEWALS);
        while (!l->due && !l->stop && lvn_condition_wait(&l->changed, &l->lock, &until)) continue;
        l->due = false;
        if (l->stop) break;
        l->busy = true;
        pthread_mutex_unlock(&l->lock);
        renew(l);
        pthread_mutex_lock(&l->lock);
        if (!l->stop) l->busy = false;
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* --- what others call --- */

static void free_lease(struct lvn_lease *l)
{
    l->place.ops->close(&l->place);
    lvn_arena_release(&l->place.arena);
    free(l->place.last);
    lvn_text_release(&l->text);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static enum lvn_status open_and_take(struct lvn_lease *l, const struct lvn_lease_options *options, bool *waited)
{
    l->path = l->place.path = lvn_arena_strdup(&l->place.arena, options->path);
    if (!l->path) return LVN_MEMORY;
    LVN_TRY(lvn_lease_owner_init(&l->owner, options));
    LVN_TRY(l->place.ops->open(&l->place));
    LVN_TRY(take(l, waited));
    if (l->place.http) lvn_http_stop_on(l->place.http, &l->stop);
    l->running = lvn_thread_start(&l->thread, run, l) == 0;
    LVN_CHECK(l->running, IO, "no thread could be started that renews the lease of '%s'", l->path);
    return LVN_OK;
}

enum lvn_status lvn_lease_take(struct lvn_lease **out, const struct lvn_lease_options *options, bool *waited)
{
    struct lvn_lease *l = lvn_calloc(1, sizeof *l);
    *out = NULL;
    if (!l) return LVN_MEMORY;
    l->place.ops = lvn_store_is_remote(options->path) ? &lvn_lease_object : &lvn_lease_file;
    l->place.race_seconds = options->seconds / RACE_PART;
    lvn_arena_init(&l->place.arena);
    pthread_mutex_init(&l->lock, NULL);
    lvn_condition_init(&l->changed);
    enum lvn_status status = open_and_take(l, options, waited);
    if (status == LVN_OK)
        *out = l;
    else
        free_lease(l);
    return status;
}

static enum lvn_status fail_lost(struct lvn_lease *l)
{
    LVN_FAIL(IO, "%s", l->message);
}

enum lvn_status lvn_lease_check(struct lvn_lease *l)
{
    if (!l) return LVN_OK;
    pthread_mutex_lock(&l->lock);
    enum lvn_status status = l->lost ? fail_lost(l) : LVN_OK;
    pthread_mutex_unlock(&l->lock);
    return status;
}

static bool holds(const struct lvn_lease *l)
{
    return !l->lost && now() - l->renewed < l->owner.seconds;
}

bool lvn_lease_holds(struct lvn_lease *l)
{
    if (!l) return true;
    pthread_mutex_lock(&l->lock);
    bool yes = holds(l);
    pthread_mutex_unlock(&l->lock);
    return yes;
}

enum lvn_status lvn_lease_confirm(struct lvn_lease *l)
{
    enum lvn_status status = LVN_OK;
    if (!l) return LVN_OK;
    pthread_mutex_lock(&l->lock);
    const long before = l->attempts;
    if (!holds(l) && !l->lost) {
        l->due = true;
        pthread_cond_broadcast(&l->changed);
        while (!l->lost && l->attempts == before) pthread_cond_wait(&l->changed, &l->lock);
    }
    if (l->lost)
        status = fail_lost(l);
    else if (!holds(l))
        status = lvn_fail(LVN_IO, "the lease of '%s' could not be renewed for %.0f s, so nothing is written there: %s",
                          l->path, now() - l->renewed, l->message);
    pthread_mutex_unlock(&l->lock);
    return status;
}

/* Remove the file, whose version is not known if a renewal was interrupted. */
static enum lvn_status remove_own(struct lvn_lease *l, bool interrupted)
{
    struct lvn_lease_owner other;
    if (interrupted) LVN_TRY(l->place.ops->read(&l->place));
    bool own = lvn_lease_owner_read(&other, l->place.last) && strcmp(other.instance, l->owner.instance) == 0;
    return own ? l->place.ops->remove(&l->place) : LVN_OK;
}

void lvn_lease_release(struct lvn_lease *l)
{
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    __atomic_store_n(&l->stop, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    __atomic_store_n(&l->stop, 0, __ATOMIC_RELAXED);
    if (holds(l) && remove_own(l, l->busy) != LVN_OK) {
        lvn_log(LVN_LOG_DEBUG, "the lease of '%s' is not removed; it expires: %s", l->path, lvn_error_text());
        lvn_error_clear();
    }
    free_lease(l);
}

/* lease.c - see lease.h: acquiring a lease, and the thread that renews it. */
#include "stores/lease/lease.h"

#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/threads.h"
#include "stores/lease/lease_owner.h"
#include "stores/lease/lease_place.h"

enum {
    RENEWALS = 3,   /* per expiration time */
    LOOKS = 12,     /* reads per expiration time while watching another job's lease */
    RACE_PART = 20, /* divides the expiration time, see lease_object.c */
    CLAIMS = 50,    /* attempts to acquire a lease that others also try to acquire */
};
static const double max_seconds = 3600; /* of another's lease: longer values in the file are ignored */

struct lvn_lease {
    struct lvn_lease_place place; /* used only by the thread while it runs */
    struct lvn_lease_owner owner;
    struct lvn_text text;
    const char *path; /* owned by the place */
    bool *has_owner;  /* `busy` of the options */
    pthread_t thread;
    bool running; /* the thread was started */
    int stop;     /* atomic: the thread ends, and so does its request */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool due;           /* renew immediately */
    bool busy;          /* a renewal is in progress */
    bool lost;          /* the lease belongs to another job */
    bool warned;        /* a failure to renew in time was logged */
    long attempts;      /* completed renewal attempts */
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

/* --- acquire --- */

static enum lvn_status refuse(const struct lvn_lease *lease, const struct lvn_lease_owner *other)
{
    char name[LVN_LEASE_TEXT];
    if (lease->has_owner) {
        *lease->has_owner = true;
        return LVN_STOPPED;
    }
    LVN_FAIL(IO,
             "another job is training in '%s', which belongs to %s: wait for it or stop it, or choose another run_dir",
             lease->path, lvn_lease_owner_name(other, name));
}

/* Replace the version that was read. */
static enum lvn_status claim(struct lvn_lease *lease, enum lvn_store_written *written)
{
    double begin = now();
    LVN_TRY(lvn_lease_owner_write(&lease->owner, &lease->text));
    LVN_TRY(lease->place.ops->write(&lease->place, lease->text.p, false, written));
    lease->renewed = begin;
    return LVN_OK;
}

/* Another attempt of this job, or a process whose lock this process holds now: it no longer writes. */
static bool is_over(const struct lvn_lease *lease, const struct lvn_lease_owner *other)
{
    if (*other->job && strcmp(other->job, lease->owner.job) == 0) return true;
    return *other->lock && strcmp(other->lock, lease->owner.lock) == 0;
}

/* Watch another job's lease until it changes (*gone false) or its expiration time has passed (*gone true). */
static enum lvn_status watch(struct lvn_lease *lease, const struct lvn_lease_owner *other, bool *gone)
{
    char name[LVN_LEASE_TEXT];
    double seconds = other->seconds > 0 && other->seconds <= max_seconds ? other->seconds : lease->owner.seconds;
    double begin = now();
    char *before = lvn_strdup(lease->place.last);
    if (!before) return LVN_MEMORY;
    if (lease->has_owner)
        lvn_log_once(LVN_LOG_INFO, "waiting for %s, whose work in '%s' this process uses",
                     lvn_lease_owner_name(other, name), lease->path);
    else
        lvn_log(LVN_LOG_WARN, "'%s' belongs to %s; waiting %g s to see whether it is alive", lease->path,
                lvn_lease_owner_name(other, name), seconds);
    enum lvn_status status = LVN_OK;
    for (*gone = false; status == LVN_OK && !*gone;) {
        sleep_for(seconds / LOOKS);
        status = lease->place.ops->read(&lease->place);
        if (status == LVN_OK && (!lease->place.last || strcmp(lease->place.last, before) != 0)) break;
        *gone = now() - begin >= seconds;
    }
    free(before);
    if (status == LVN_OK && *gone)
        lvn_log(LVN_LOG_WARN, "the job did not renew its lease of '%s' for %g s: this job takes over the lease",
                lease->path, seconds);
    return status;
}

/* Handle the lease of another process that was read. *ours: it was taken over. */
static enum lvn_status handle_other(struct lvn_lease *lease, bool *ours, bool *waited)
{
    struct lvn_lease_owner other, later;
    enum lvn_store_written written = LVN_STORE_WRITTEN;
    bool gone = false;
    (void)lvn_lease_owner_read(&other, lease->place.last);
    if (!is_over(lease, &other)) {
        *waited = true;
        LVN_TRY(watch(lease, &other, &gone));
        if (!lease->place.last) return LVN_OK; /* released */
        (void)lvn_lease_owner_read(&later, lease->place.last);
        if (!gone) return is_over(lease, &later) ? LVN_OK : refuse(lease, &later);
    }
    LVN_TRY(claim(lease, &written));
    *ours = written == LVN_STORE_WRITTEN;
    return LVN_OK;
}

static enum lvn_status acquire(struct lvn_lease *lease, bool *waited)
{
    bool ours = false;
    *waited = false;
    for (int i = 0; i < CLAIMS && !ours; i++) {
        enum lvn_store_written written = LVN_STORE_CHANGED;
        LVN_TRY(lease->place.ops->read(&lease->place));
        if (lease->place.last) {
            LVN_TRY(handle_other(lease, &ours, waited));
            continue;
        }
        LVN_TRY(claim(lease, &written));
        ours = written == LVN_STORE_WRITTEN;
        if (ours) break;
        /* Another job wrote just now, so it is alive; or this process did, but the response was lost. */
        struct lvn_lease_owner other;
        LVN_TRY(lease->place.ops->read(&lease->place));
        if (!lease->place.last) continue;
        (void)lvn_lease_owner_read(&other, lease->place.last);
        ours = strcmp(lease->place.last, lease->text.p) == 0;
        if (!ours && !is_over(lease, &other)) return refuse(lease, &other);
    }
    if (!ours && lease->has_owner) *lease->has_owner = true;
    if (!ours && lease->has_owner) return LVN_STOPPED;
    LVN_CHECK(ours, IO, "several jobs compete for '%s': choose another run_dir", lease->path);
    return LVN_OK;
}

/* --- renew --- */

static void set_lost(struct lvn_lease *lease)
{
    char name[LVN_LEASE_TEXT];
    struct lvn_lease_owner other;
    (void)lvn_lease_owner_read(&other, lease->place.last);
    pthread_mutex_lock(&lease->lock);
    if (lease->place.last)
        snprintf(lease->message, sizeof lease->message,
                 "'%s' belongs to another job now, %s: this run stops and writes nothing more there", lease->path,
                 lvn_lease_owner_name(&other, name));
    else
        snprintf(lease->message, sizeof lease->message,
                 "the lease of '%s' was removed while it could not be renewed, so another job may have trained there: "
                 "this run stops and writes nothing more there",
                 lease->path);
    lease->lost = true;
    pthread_mutex_unlock(&lease->lock);
}

/* The file is not the last version written: finds the owner. *again: the lease must still be renewed. */
static enum lvn_status find_owner(struct lvn_lease *lease, bool *again)
{
    struct lvn_lease_owner other;
    *again = false;
    LVN_TRY(lease->place.ops->read(&lease->place));
    if (lease->place.last && strcmp(lease->place.last, lease->text.p) == 0) return LVN_OK; /* the response was lost */
    (void)lvn_lease_owner_read(&other, lease->place.last);
    /* It has not expired, so no other process can have owned it: the file was removed by hand. */
    bool removed = !lease->place.last && now() - lease->renewed < lease->owner.seconds;
    *again = removed || strcmp(other.instance, lease->owner.instance) == 0;
    if (!*again) set_lost(lease);
    return LVN_OK;
}

static enum lvn_status renew_once(struct lvn_lease *lease)
{
    enum lvn_store_written written;
    bool again = true;
    lease->owner.renewals++;
    LVN_TRY(lvn_lease_owner_write(&lease->owner, &lease->text));
    for (int i = 0; i < RENEWALS && again; i++) {
        LVN_TRY(lease->place.ops->write(&lease->place, lease->text.p, true, &written));
        if (written == LVN_STORE_WRITTEN) return LVN_OK;
        LVN_TRY(find_owner(lease, &again));
    }
    LVN_CHECK(!again, IO, "the lease of '%s' was changed by other jobs during each attempt to renew it", lease->path);
    return LVN_OK;
}

static void renew(struct lvn_lease *lease)
{
    double begin = now();
    enum lvn_status status = renew_once(lease);
    pthread_mutex_lock(&lease->lock);
    if (status == LVN_OK && !lease->lost) {
        lease->renewed = begin;
        lease->warned = false;
    } else if (status != LVN_OK) {
        snprintf(lease->message, sizeof lease->message, "%s", levin_error_text());
    }
    lease->attempts++;
    bool warn = !lease->lost && !lease->warned && now() - lease->renewed >= lease->owner.seconds;
    lease->warned |= warn;
    pthread_cond_broadcast(&lease->changed);
    pthread_mutex_unlock(&lease->lock);
    if (warn)
        lvn_log(LVN_LOG_WARN,
                "the lease of '%s' could not be renewed for %g s: the run continues, but writes nothing there until it "
                "can be renewed: %s",
                lease->path, lease->owner.seconds, lease->message);
    lvn_error_clear();
}

static void *run(void *argument)
{
    struct lvn_lease *lease = argument;
    pthread_mutex_lock(&lease->lock);
    while (!lease->stop && !lease->lost) {
        const struct timespec until = lvn_deadline(lease->owner.seconds / RENEWALS);
        while (!lease->due && !lease->stop && lvn_condition_wait(&lease->changed, &lease->lock, &until)) continue;
        lease->due = false;
        if (lease->stop) break;
        lease->busy = true;
        pthread_mutex_unlock(&lease->lock);
        renew(lease);
        pthread_mutex_lock(&lease->lock);
        if (!lease->stop) lease->busy = false;
    }
    pthread_mutex_unlock(&lease->lock);
    return NULL;
}

/* --- interface --- */

static void free_lease(struct lvn_lease *lease)
{
    lease->place.ops->close(&lease->place);
    lvn_arena_release(&lease->place.arena);
    free(lease->place.last);
    lvn_text_release(&lease->text);
    pthread_cond_destroy(&lease->changed);
    pthread_mutex_destroy(&lease->lock);
    free(lease);
}

static enum lvn_status open_and_acquire(struct lvn_lease *lease, const struct lvn_lease_options *options, bool *waited)
{
    lease->path = lease->place.path = lvn_arena_strdup(&lease->place.arena, options->path);
    if (!lease->path) return LVN_MEMORY;
    LVN_TRY(lvn_lease_owner_init(&lease->owner, options));
    LVN_TRY(lease->place.ops->open(&lease->place));
    LVN_TRY(acquire(lease, waited));
    if (lease->place.http) lvn_http_stop_on(lease->place.http, &lease->stop);
    lease->running = lvn_thread_start(&lease->thread, run, lease) == 0;
    LVN_CHECK(lease->running, IO, "cannot start the thread that renews the lease of '%s'", lease->path);
    return LVN_OK;
}

enum lvn_status lvn_lease_acquire(struct lvn_lease **out, const struct lvn_lease_options *options, bool *waited)
{
    struct lvn_lease *lease = lvn_calloc(1, sizeof *lease);
    *out = NULL;
    if (!lease) return LVN_MEMORY;
    lease->place.ops = lvn_store_is_remote(options->path) ? &lvn_lease_object : &lvn_lease_file;
    lease->place.race_seconds = options->seconds / RACE_PART;
    lease->has_owner = options->busy;
    lvn_arena_init(&lease->place.arena);
    pthread_mutex_init(&lease->lock, NULL);
    lvn_condition_init(&lease->changed);
    enum lvn_status status = open_and_acquire(lease, options, waited);
    if (status == LVN_OK)
        *out = lease;
    else
        free_lease(lease);
    return status == LVN_STOPPED && options->busy && *options->busy ? LVN_OK : status;
}

static enum lvn_status fail_lost(struct lvn_lease *lease)
{
    LVN_FAIL(IO, "%s", lease->message);
}

enum lvn_status lvn_lease_check(struct lvn_lease *lease)
{
    if (!lease) return LVN_OK;
    pthread_mutex_lock(&lease->lock);
    enum lvn_status status = lease->lost ? fail_lost(lease) : LVN_OK;
    pthread_mutex_unlock(&lease->lock);
    return status;
}

static bool is_valid(const struct lvn_lease *lease)
{
    return !lease->lost && now() - lease->renewed < lease->owner.seconds;
}

bool lvn_lease_is_valid(struct lvn_lease *lease)
{
    if (!lease) return true;
    pthread_mutex_lock(&lease->lock);
    bool valid = is_valid(lease);
    pthread_mutex_unlock(&lease->lock);
    return valid;
}

enum lvn_status lvn_lease_confirm(struct lvn_lease *lease)
{
    enum lvn_status status = LVN_OK;
    if (!lease) return LVN_OK;
    pthread_mutex_lock(&lease->lock);
    const long before = lease->attempts;
    if (!is_valid(lease) && !lease->lost) {
        lease->due = true;
        pthread_cond_broadcast(&lease->changed);
        while (!lease->lost && lease->attempts == before) pthread_cond_wait(&lease->changed, &lease->lock);
    }
    if (lease->lost)
        status = fail_lost(lease);
    else if (!is_valid(lease))
        status = lvn_fail(LVN_IO, "the lease of '%s' could not be renewed for %.0f s, so nothing was written there: %s",
                          lease->path, now() - lease->renewed, lease->message);
    pthread_mutex_unlock(&lease->lock);
    return status;
}

/* Remove the file; its version is unknown if a renewal was interrupted. */
static enum lvn_status remove_own(struct lvn_lease *lease, bool interrupted)
{
    struct lvn_lease_owner other;
    if (interrupted) LVN_TRY(lease->place.ops->read(&lease->place));
    bool own = lvn_lease_owner_read(&other, lease->place.last) && strcmp(other.instance, lease->owner.instance) == 0;
    return own ? lease->place.ops->remove(&lease->place) : LVN_OK;
}

void lvn_lease_release(struct lvn_lease *lease)
{
    if (!lease) return;
    pthread_mutex_lock(&lease->lock);
    __atomic_store_n(&lease->stop, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&lease->changed);
    pthread_mutex_unlock(&lease->lock);
    pthread_join(lease->thread, NULL);
    __atomic_store_n(&lease->stop, 0, __ATOMIC_RELAXED);
    if (is_valid(lease) && remove_own(lease, lease->busy) != LVN_OK) {
        lvn_log(LVN_LOG_DEBUG, "the lease of '%s' was not removed and will expire: %s", lease->path,
                levin_error_text());
        lvn_error_clear();
    }
    free_lease(lease);
}

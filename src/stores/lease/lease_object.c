/* lease_object.c - a lease in a store: the file RUN/.lease, written on condition of its version.
 *
 * Some servers of S3's or Google's protocol do not know conditions, or ignore them without a word. So after the lease
 * is taken, a write follows that must be refused; if it is not, conditions are not used: the lease is read before each
 * renewal, and a moment after it was taken, so that of two jobs the one that wrote first finds the other's name. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "stores/lease/lease_place.h"
#include "stores/store_private.h"
#include "stores/store_request.h"

static enum lvn_status open_object(struct lvn_lease_place *p)
{
    const char *path = lvn_store_join(&p->arena, p->path, LVN_LEASE_NAME);
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_location_open(&p->location, path));
    return lvn_http_open(&p->http);
}

static void close_object(struct lvn_lease_place *p)
{
    lvn_http_close(p->http);
    p->http = NULL;
    lvn_location_close(&p->location);
}

static enum lvn_status read_object(struct lvn_lease_place *p)
{
    char *text;
    p->version[0] = '\0';
    LVN_TRY(lvn_store_request_fetch(&p->location, p->http, LVN_LEASE_MAX_BYTES, &text, p->version));
    free(p->last);
    p->last = text;
    if (text && !p->version[0]) p->conditions = LVN_CONDITIONS_IGNORED; /* on which there can be none */
    return LVN_OK;
}

static bool is_last(const struct lvn_lease_place *p, const char *text)
{
    return p->last && strcmp(p->last, text) == 0;
}

/* The lease has just been written, so a second creation must be refused. */
static enum lvn_status probe(struct lvn_lease_place *p, const char *text)
{
    char version[LVN_STORE_VERSION] = "";
    enum lvn_store_written written;
    LVN_TRY(lvn_store_put_if(&p->location, p->http, text, (int64_t)strlen(text), version, &written));
    p->conditions = written == LVN_STORE_CHANGED ? LVN_CONDITIONS_HOLD : LVN_CONDITIONS_IGNORED;
    return LVN_OK;
}

static enum lvn_status write_on_condition(struct lvn_lease_place *p, const char *text, enum lvn_store_written *written)
{
    LVN_TRY(lvn_store_put_if(&p->location, p->http, text, (int64_t)strlen(text), p->version, written));
    if (*written == LVN_STORE_UNCONDITIONAL) p->conditions = LVN_CONDITIONS_IGNORED;
    if (*written == LVN_STORE_CHANGED) p->conditions = LVN_CONDITIONS_HOLD;
    if (*written != LVN_STORE_WRITTEN) return LVN_OK;
    if (p->conditions == LVN_CONDITIONS_UNKNOWN) LVN_TRY(probe(p, text));
    if (p->conditions == LVN_CONDITIONS_HOLD && !p->version[0]) { /* the response did not say the new version */
        LVN_TRY(read_object(p));
        if (!is_last(p, text)) *written = LVN_STORE_CHANGED;
        return LVN_OK;
    }
    return lvn_lease_place_set(p, text);
}

static void pause_for(double seconds)
{
    const struct timespec time = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

/* Without conditions: `done` says that the file is written already. */
static enum lvn_status write_anyway(struct lvn_lease_place *p, const char *text, bool own, bool done,
                                    enum lvn_store_written *written)
{
    *written = LVN_STORE_CHANGED;
    if (own && !done) {
        char *now, version[LVN_STORE_VERSION];
        LVN_TRY(lvn_store_request_fetch(&p->location, p->http, LVN_LEASE_MAX_BYTES, &now, version));
        bool same = now ? is_last(p, now) : !p->last;
        free(now);
        if (!same) return LVN_OK;
    }
    if (!done) LVN_TRY(p->location.store->upload->put_object(&p->location, p->http, text, (int64_t)strlen(text)));
    if (!own) {
        lvn_log(LVN_LOG_WARN,
                "the store of '%s' ignores the conditions of writes: if two jobs begin to train in it within the same "
                "%g s, both may do so until one of them finds the other's name at its next renewal, and ends",
                p->path, p->race_seconds);
        pause_for(p->race_seconds);
        LVN_TRY(read_object(p));
        if (!is_last(p, text)) return LVN_OK;
    }
    *written = LVN_STORE_WRITTEN;
    return lvn_lease_place_set(p, text);
}

static enum lvn_status write_object(struct lvn_lease_place *p, const char *text, bool own,
                                    enum lvn_store_written *written)
{
    bool done = false;
    if (p->conditions != LVN_CONDITIONS_IGNORED) {
        LVN_TRY(write_on_condition(p, text, written));
        if (p->conditions != LVN_CONDITIONS_IGNORED) return LVN_OK;
        done = *written == LVN_STORE_WRITTEN;
    }
    return write_anyway(p, text, own, done, written);
}

static enum lvn_status remove_object(struct lvn_lease_place *p)
{
    enum lvn_store_written written = LVN_STORE_UNCONDITIONAL;
    if (p->conditions != LVN_CONDITIONS_IGNORED)
        LVN_TRY(lvn_store_remove_if(&p->location, p->http, p->version, &written));
    return written == LVN_STORE_UNCONDITIONAL ? p->location.store->remove(&p->location, p->http) : LVN_OK;
}

const struct lvn_lease_place_ops lvn_lease_object = {
    .open = open_object, .close = close_object, .read = read_object, .write = write_object, .remove = remove_object};

/* lease_object.c - a lease in a store: the file RUN/.lease, written conditionally on its version.
 *
 * Some S3- or Google-compatible servers do not support conditions, or silently ignore them. So after the lease is
 * acquired, a write follows that must be refused; if it is not, conditions are not used: the lease is read before each
 * renewal, and shortly after it was acquired, so that of two jobs the one that wrote first finds the other's name. */
#include <time.h>

#include "base/log.h"
#include "stores/lease/lease_place.h"
#include "stores/store_private.h"
#include "stores/store_request.h"

static enum lvn_status open_object(struct lvn_lease_place *place)
{
    const char *path = lvn_store_join(&place->arena, place->path, LVN_LEASE_NAME);
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_location_open(&place->location, path));
    return lvn_http_open(&place->http);
}

static void close_object(struct lvn_lease_place *place)
{
    lvn_http_close(place->http);
    place->http = NULL;
    lvn_location_close(&place->location);
}

static enum lvn_status read_object(struct lvn_lease_place *place)
{
    char *text;
    place->version[0] = '\0';
    LVN_TRY(lvn_store_request_fetch(&place->location, place->http, LVN_LEASE_MAX_BYTES, &text, place->version));
    free(place->last);
    place->last = text;
    if (text && !place->version[0]) place->conditions = LVN_CONDITIONS_IGNORED; /* no version, so no conditions */
    return LVN_OK;
}

static bool is_last(const struct lvn_lease_place *place, const char *text)
{
    return place->last && strcmp(place->last, text) == 0;
}

/* The lease has just been written, so a second creation must be refused. */
static enum lvn_status probe(struct lvn_lease_place *place, const char *text)
{
    char version[LVN_STORE_VERSION] = "";
    enum lvn_store_written written;
    LVN_TRY(lvn_store_put_if(&place->location, place->http, text, (int64_t)strlen(text), version, &written));
    place->conditions = written == LVN_STORE_CHANGED ? LVN_CONDITIONS_HOLD : LVN_CONDITIONS_IGNORED;
    return LVN_OK;
}

static enum lvn_status write_on_condition(struct lvn_lease_place *place, const char *text,
                                          enum lvn_store_written *written)
{
    LVN_TRY(lvn_store_put_if(&place->location, place->http, text, (int64_t)strlen(text), place->version, written));
    if (*written == LVN_STORE_UNCONDITIONAL) place->conditions = LVN_CONDITIONS_IGNORED;
    if (*written == LVN_STORE_CHANGED) place->conditions = LVN_CONDITIONS_HOLD;
    if (*written != LVN_STORE_WRITTEN) return LVN_OK;
    if (place->conditions == LVN_CONDITIONS_UNKNOWN) LVN_TRY(probe(place, text));
    if (place->conditions == LVN_CONDITIONS_HOLD &&
        !place->version[0]) { /* the response did not contain the new version */
        LVN_TRY(read_object(place));
        if (!is_last(place, text)) *written = LVN_STORE_CHANGED;
        return LVN_OK;
    }
    return lvn_lease_place_set(place, text);
}

static void pause_for(double seconds)
{
    const struct timespec time = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    nanosleep(&time, NULL);
}

/* Without conditions. `done`: the file is already written. */
static enum lvn_status write_anyway(struct lvn_lease_place *place, const char *text, bool own, bool done,
                                    enum lvn_store_written *written)
{
    *written = LVN_STORE_CHANGED;
    if (own && !done) {
        char *now, version[LVN_STORE_VERSION];
        LVN_TRY(lvn_store_request_fetch(&place->location, place->http, LVN_LEASE_MAX_BYTES, &now, version));
        bool same = now ? is_last(place, now) : !place->last;
        free(now);
        if (!same) return LVN_OK;
    }
    if (!done)
        LVN_TRY(place->location.store->upload->put_object(&place->location, place->http, text, (int64_t)strlen(text)));
    if (!own) {
        lvn_log(LVN_LOG_WARN,
                "the store of '%s' ignores the conditions of writes: if two jobs start to train in it within the same "
                "%g s, both may do so until one of them finds the other's name at its next renewal and stops",
                place->path, place->race_seconds);
        pause_for(place->race_seconds);
        LVN_TRY(read_object(place));
        if (!is_last(place, text)) return LVN_OK;
    }
    *written = LVN_STORE_WRITTEN;
    return lvn_lease_place_set(place, text);
}

static enum lvn_status write_object(struct lvn_lease_place *place, const char *text, bool own,
                                    enum lvn_store_written *written)
{
    bool done = false;
    if (place->conditions != LVN_CONDITIONS_IGNORED) {
        LVN_TRY(write_on_condition(place, text, written));
        if (place->conditions != LVN_CONDITIONS_IGNORED) return LVN_OK;
        done = *written == LVN_STORE_WRITTEN;
    }
    return write_anyway(place, text, own, done, written);
}

static enum lvn_status remove_object(struct lvn_lease_place *place)
{
    enum lvn_store_written written = LVN_STORE_UNCONDITIONAL;
    if (place->conditions != LVN_CONDITIONS_IGNORED)
        LVN_TRY(lvn_store_remove_if(&place->location, place->http, place->version, &written));
    return written == LVN_STORE_UNCONDITIONAL ? place->location.store->remove(&place->location, place->http) : LVN_OK;
}

const struct lvn_lease_place_ops lvn_lease_object = {
    .open = open_object, .close = close_object, .read = read_object, .write = write_object, .remove = remove_object};

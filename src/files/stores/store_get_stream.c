/* store_get_stream.c - downloads a file of a store to a pipe, a terminal or another device; called by lvn_store_get().
 *
 * The bytes are written in order, without parallel chunks or resuming. They cannot be taken back: a wrong checksum of
 * the whole file is reported after everything has been written. */
#include <unistd.h>

#include "base/files.h"
#include "stores/digest.h"
#include "stores/store_private.h"
#include "stores/worker_pool.h"

struct streaming {
    struct lvn_location location;
    struct lvn_object object;
    const struct lvn_target *to;
    struct lvn_worker_pool *pool;
    struct lvn_digest digest;
    const char *expected; /* checksum of the whole file, "sha256:..."; NULL: unknown */
    int fd;
    int error; /* errno of a failed write */
};

static bool on_data(void *context, const void *data, int64_t bytes)
{
    struct streaming *streaming = context;
    if (__atomic_load_n(&streaming->pool->stop, __ATOMIC_RELAXED)) return false;
    if (streaming->expected) lvn_digest_add(&streaming->digest, data, bytes);
    __atomic_add_fetch(&streaming->pool->done, bytes, __ATOMIC_RELAXED);
    if (!lvn_fd_write(streaming->fd, data, bytes)) streaming->error = errno;
    return !streaming->error;
}

static enum lvn_status work(struct lvn_worker_pool *pool, struct lvn_http *http)
{
    struct streaming *streaming = pool->context;
    streaming->pool = pool;
    enum lvn_status status = streaming->location.store->read(&streaming->location, http, &streaming->object, 0,
                                                             streaming->object.bytes, on_data, streaming);
    LVN_CHECK(!streaming->error, IO, "cannot write '%s' while fetching '%s': %s", streaming->to->path,
              streaming->location.url, strerror(streaming->error));
    return status;
}

static enum lvn_status find_object(struct streaming *streaming, const char *sha256)
{
    struct lvn_http *http = NULL;
    if (streaming->location.store->network) LVN_TRY(lvn_http_open(&http));
    enum lvn_status status = lvn_location_stat(&streaming->location, http, &streaming->object);
    lvn_http_close(http);
    LVN_TRY(status);
    LVN_CHECK(streaming->object.kind == LVN_STORE_FILE, IO, "the file '%s' does not exist", streaming->location.url);
    if (streaming->object.checksum[0]) streaming->expected = streaming->object.checksum;
    if (sha256) streaming->expected = lvn_arena_printf(&streaming->location.arena, "sha256:%s", sha256);
    return streaming->expected || !sha256 ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status verify(struct streaming *streaming)
{
    char found[LVN_DIGEST_TEXT];
    if (!streaming->expected) return LVN_OK;
    lvn_digest_finish(&streaming->digest, found);
    LVN_CHECK(strcasecmp(found, streaming->expected) == 0, FORMAT,
              "'%s' is not the expected file: its %s is %s, expected %s; the data were written to '%s' nevertheless",
              streaming->location.url, lvn_digest_name(found), strchr(found, ':') + 1,
              strchr(streaming->expected, ':') + 1, streaming->to->path);
    return LVN_OK;
}

static enum lvn_status stream(struct streaming *streaming, const char *sha256, lvn_store_progress *progress,
                              void *context)
{
    LVN_TRY(find_object(streaming, sha256));
    struct lvn_worker_pool pool = {.work = work,
                                   .context = streaming,
                                   .network = streaming->location.store->network,
                                   .progress = progress,
                                   .progress_context = context,
                                   .total = streaming->object.bytes > 0 ? streaming->object.bytes : 0};
    LVN_TRY(lvn_target_open(streaming->to, &streaming->fd));
    if (streaming->expected) lvn_digest_init(&streaming->digest, streaming->expected);
    enum lvn_status status = streaming->object.bytes ? lvn_worker_pool_run(&pool, 1) : LVN_OK;
    if (close(streaming->fd) != 0 && status == LVN_OK)
        status = lvn_fail(LVN_IO, "cannot write '%s': %s", streaming->to->path, strerror(errno));
    return status == LVN_OK ? verify(streaming) : status;
}

enum lvn_status lvn_get_stream(const char *path, const struct lvn_target *to, const char *sha256,
                               lvn_store_progress *progress, void *context)
{
    struct streaming streaming = {.to = to, .fd = -1};
    LVN_TRY(lvn_location_open(&streaming.location, path));
    enum lvn_status status = stream(&streaming, sha256, progress, context);
    lvn_digest_release(&streaming.digest);
    lvn_location_close(&streaming.location);
    return status;
}

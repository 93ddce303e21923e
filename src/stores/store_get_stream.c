/* store_get_stream.c - downloads a file of a store to a pipe, a terminal or another device, in order. lvn_store_get()
 * calls it.
 *
 * Written bytes cannot be taken back: a wrong checksum of the whole file is reported after everything has been written.
 * Left out: parallel chunks, resuming. */
#include <errno.h>
#include <string.h>
#include <strings.h>
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
    struct streaming *s = context;
    if (__atomic_load_n(&s->pool->stop, __ATOMIC_RELAXED)) return false;
    if (s->expected) lvn_digest_add(&s->digest, data, bytes);
    __atomic_add_fetch(&s->pool->done, bytes, __ATOMIC_RELAXED);
    if (!lvn_fd_write(s->fd, data, bytes)) s->error = errno;
    return !s->error;
}

static enum lvn_status work(struct lvn_worker_pool *pool, struct lvn_http *h)
{
    struct streaming *s = pool->context;
    s->pool = pool;
    enum lvn_status status = s->location.store->read(&s->location, h, &s->object, 0, s->object.bytes, on_data, s);
    LVN_CHECK(!s->error, IO, "cannot write '%s' while fetching '%s': %s", s->to->path, s->location.url,
              strerror(s->error));
    return status;
}

static enum lvn_status find_object(struct streaming *s, const char *sha256)
{
    struct lvn_http *h = NULL;
    if (s->location.store->network) LVN_TRY(lvn_http_open(&h));
    enum lvn_status status = lvn_location_stat(&s->location, h, &s->object);
    lvn_http_close(h);
    LVN_TRY(status);
    LVN_CHECK(s->object.kind == LVN_STORE_FILE, IO, "there is no file '%s'", s->location.url);
    if (s->object.checksum[0]) s->expected = s->object.checksum;
    if (sha256) s->expected = lvn_arena_printf(&s->location.arena, "sha256:%s", sha256);
    return s->expected || !sha256 ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status verify(struct streaming *s)
{
    char found[LVN_DIGEST_TEXT];
    if (!s->expected) return LVN_OK;
    lvn_digest_finish(&s->digest, found);
    LVN_CHECK(
        strcasecmp(found, s->expected) == 0, FORMAT,
        "'%s' is not the file that was expected: its %s is %s, it should be %s; '%s' has received it all the same",
        s->location.url, lvn_digest_name(found), strchr(found, ':') + 1, strchr(s->expected, ':') + 1, s->to->path);
    return LVN_OK;
}

static enum lvn_status stream(struct streaming *s, const char *sha256, lvn_store_progress *progress, void *context)
{
    LVN_TRY(find_object(s, sha256));
    struct lvn_worker_pool pool = {.work = work,
                                   .context = s,
                                   .network = s->location.store->network,
                                   .progress = progress,
                                   .progress_context = context,
                                   .total = s->object.bytes > 0 ? s->object.bytes : 0};
    LVN_TRY(lvn_target_open(s->to, &s->fd));
    if (s->expected) lvn_digest_init(&s->digest, s->expected);
    enum lvn_status status = s->object.bytes ? lvn_worker_pool_run(&pool, 1) : LVN_OK;
    if (close(s->fd) != 0 && status == LVN_OK)
        status = lvn_fail(LVN_IO, "cannot write '%s': %s", s->to->path, strerror(errno));
    return status == LVN_OK ? verify(s) : status;
}

enum lvn_status lvn_get_stream(const char *path, const struct lvn_target *to, const char *sha256,
                               lvn_store_progress *progress, void *context)
{
    struct streaming s = {.to = to, .fd = -1};
    LVN_TRY(lvn_location_open(&s.location, path));
    enum lvn_status status = stream(&s, sha256, progress, context);
    lvn_digest_release(&s.digest);
    lvn_location_close(&s.location);
    return status;
}

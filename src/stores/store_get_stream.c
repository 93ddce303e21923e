/* store_get_stream.c - a file of a store into a pipe, a terminal or another device, in one piece and in order.
 *
 * What has been written cannot be taken back: where the checksum of the whole is not the right one, that is said when
 * all has been written. Left out: parallel pieces, going on after an interruption. */
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/files.h"
#include "stores/digest.h"
#include "stores/store_kind.h"
#include "stores/worker_pool.h"

struct streaming {
    struct lvn_location place;
    struct lvn_object object;
    const struct lvn_target *to;
    struct lvn_worker_pool *crew;
    struct lvn_digest digest;
    const char *wanted; /* checksum of the whole, "sha256:..."; NULL: not known */
    int fd;
    int error; /* of writing: an errno */
};

static bool take(void *context, const void *data, int64_t bytes)
{
    struct streaming *s = context;
    if (__atomic_load_n(&s->crew->stop, __ATOMIC_RELAXED)) return false;
    if (s->wanted) lvn_digest_add(&s->digest, data, bytes);
    __atomic_add_fetch(&s->crew->done, bytes, __ATOMIC_RELAXED);
    if (!lvn_fd_write(s->fd, data, bytes)) s->error = errno;
    return !s->error;
}

static enum lvn_status work(struct lvn_worker_pool *c, struct lvn_http *h)
{
    struct streaming *s = c->context;
    s->crew = c;
    enum lvn_status status = s->place.store->read(&s->place, h, &s->object, 0, s->object.bytes, take, s);
    LVN_CHECK(!s->error, IO, "cannot write '%s' while fetching '%s': %s", s->to->path, s->place.url,
              strerror(s->error));
    return status;
}

static enum lvn_status find_object(struct streaming *s, const char *sha256)
{
    struct lvn_http *h = NULL;
    if (s->place.store->network) LVN_TRY(lvn_http_open(&h));
    enum lvn_status status = lvn_location_stat(&s->place, h, &s->object);
    lvn_http_close(h);
    LVN_TRY(status);
    LVN_CHECK(s->object.kind == LVN_STORE_FILE, IO, "there is no file '%s'", s->place.url);
    if (s->object.checksum[0]) s->wanted = s->object.checksum;
    if (sha256) s->wanted = lvn_arena_printf(&s->place.arena, "sha256:%s", sha256);
    return s->wanted || !sha256 ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status verify(struct streaming *s)
{
    char found[LVN_DIGEST_TEXT];
    if (!s->wanted) return LVN_OK;
    lvn_digest_finish(&s->digest, found);
    LVN_CHECK(
        strcasecmp(found, s->wanted) == 0, FORMAT,
        "'%s' is not the file that was expected: its %s is %s, it should be %s; '%s' has received it all the same",
        s->place.url, lvn_digest_name(found), strchr(found, ':') + 1, strchr(s->wanted, ':') + 1, s->to->path);
    return LVN_OK;
}

static enum lvn_status stream(struct streaming *s, const char *sha256, lvn_store_progress *progress, void *context)
{
    LVN_TRY(find_object(s, sha256));
    struct lvn_worker_pool crew = {.work = work,
                                   .context = s,
                                   .network = s->place.store->network,
                                   .progress = progress,
                                   .progress_context = context,
                                   .total = s->object.bytes > 0 ? s->object.bytes : 0};
    LVN_TRY(lvn_target_open(s->to, &s->fd));
    if (s->wanted) lvn_digest_init(&s->digest, s->wanted);
    enum lvn_status status = s->object.bytes ? lvn_worker_pool_run(&crew, 1) : LVN_OK;
    if (close(s->fd) != 0 && status == LVN_OK)
        status = lvn_fail(LVN_IO, "cannot write '%s': %s", s->to->path, strerror(errno));
    return status == LVN_OK ? verify(s) : status;
}

enum lvn_status lvn_get_stream(const char *path, const struct lvn_target *to, const char *sha256,
                               lvn_store_progress *progress, void *context)
{
    struct streaming s = {.to = to, .fd = -1};
    LVN_TRY(lvn_location_open(&s.place, path));
    enum lvn_status status = stream(&s, sha256, progress, context);
    lvn_digest_release(&s.digest);
    lvn_location_close(&s.place);
    return status;
}

/* store_put.c - uploads a local file to a store: in one request if it is small, otherwise in parts over several
 * connections.
 *
 * The store keeps the parts of a multipart upload until it is completed. The upload's ID is saved in the cache folder
 * (uploads/, named by a hash of the URL) with the size and modification time of the local file, so that a resumed
 * transfer can request the list of uploaded parts and send only the others. An upload of another version
 * of the local file is abandoned; one that the store has dropped begins again. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/input.h"
#include "formats/checksum.h"
#include "stores/cache.h"
#include "stores/digest.h"
#include "stores/store_private.h"
#include "stores/worker_pool.h"

enum { DEFAULT_PART = 16 << 20, MAX_STATE = 1 << 16 };

struct put {
    struct lvn_location location;
    const struct lvn_upload_ops *ops;
    struct lvn_upload upload;
    const char *local, *state_file, *state_header;
    int fd;
    struct stat initial_stat;
    lvn_store_progress *progress;
    void *context;
    bool (*may_continue)(void *context); /* false: the transfer stops; NULL: it never does */
    void *may_continue_context;
};

static enum lvn_status read_local(const struct put *put, char *to, int64_t offset, int64_t bytes)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pread(put->fd, to + done, (size_t)(bytes - done), offset + done);
        if (n < 0 && errno == EINTR) continue;
        LVN_CHECK(n >= 0, IO, "cannot read '%s': %s", put->local, strerror(errno));
        LVN_CHECK(n > 0, IO, "'%s' was truncated while it was sent to '%s'; send it again", put->local,
                  put->location.url);
        done += n;
    }
    return LVN_OK;
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static enum lvn_status check_unchanged(const struct put *put)
{
    struct stat now;
    LVN_CHECK(fstat(put->fd, &now) == 0 && is_same_file(&now, &put->initial_stat), IO,
              "'%s' changed while it was sent to '%s'; send it again", put->local, put->location.url);
    return LVN_OK;
}

/* --- threads --- */

static enum lvn_status send_parts(struct lvn_worker_pool *pool, struct lvn_http *http, char *buffer)
{
    struct put *put = pool->context;
    struct lvn_upload *upload = &put->upload;
    while (!__atomic_load_n(&pool->stop, __ATOMIC_RELAXED)) {
        int i = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED);
        if (i >= upload->n_parts) break;
        if (upload->etags[i][0]) continue;
        int64_t offset = i * upload->part_bytes, bytes_left = upload->bytes - offset,
                bytes = bytes_left < upload->part_bytes ? bytes_left : upload->part_bytes;
        LVN_TRY(read_local(put, buffer, offset, bytes));
        if (i == upload->n_parts - 1) LVN_TRY(check_unchanged(put)); /* it may complete the file in the store */
        LVN_TRY(put->ops->part(upload, http, i + 1, buffer, bytes));
        __atomic_add_fetch(&pool->done, bytes, __ATOMIC_RELAXED);
    }
    return LVN_OK;
}

static enum lvn_status work(struct lvn_worker_pool *pool, struct lvn_http *http)
{
    struct put *put = pool->context;
    char *buffer = lvn_malloc((size_t)put->upload.part_bytes);
    if (!buffer) return LVN_MEMORY;
    enum lvn_status status = send_parts(pool, http, buffer);
    free(buffer);
    return status;
}

static enum lvn_status send_small(struct lvn_worker_pool *pool, struct lvn_http *http)
{
    struct put *put = pool->context;
    int64_t bytes = put->upload.bytes;
    char *buffer = lvn_malloc((size_t)(bytes ? bytes : 1));
    enum lvn_status status = buffer ? read_local(put, buffer, 0, bytes) : LVN_MEMORY;
    if (status == LVN_OK) status = check_unchanged(put);
    if (status == LVN_OK) status = put->ops->put_object(&put->location, http, buffer, bytes);
    if (status == LVN_OK) __atomic_store_n(&pool->done, bytes, __ATOMIC_RELAXED);
    free(buffer);
    return status;
}

/* --- state of an unfinished upload --- */

static void save_state(const struct put *put)
{
    LVN_LOCAL_TEXT(t);
    if (!put->state_file) return;
    lvn_text_printf(&t, "%s%s\n", put->state_header, put->upload.id);
    if (lvn_text_status(&t) == LVN_OK && lvn_file_write(put->state_file, t.p, t.n) != LVN_OK) lvn_error_clear();
}

/* Load the ID of an earlier upload to this address. Returns true if the upload is of this file. */
static bool load_state(struct put *put)
{
    char *text = NULL;
    int64_t bytes;
    if (!put->state_file || !lvn_path_is_file(put->state_file)) return false;
    if (lvn_file_read(put->state_file, MAX_STATE, &text, &bytes) != LVN_OK) {
        lvn_error_clear();
        return false;
    }
    const char *end = strchr(text, '\n'), *id = end ? end + 1 : "";
    const size_t n = strcspn(id, "\n");
    if (n < sizeof put->upload.id) snprintf(put->upload.id, sizeof put->upload.id, "%.*s", (int)n, id);
    const bool same = strncmp(text, put->state_header, strlen(put->state_header)) == 0;
    free(text);
    return same;
}

/* Parts that remain in the store are no error here: stores can be configured to remove them after some days. */
static void abandon(struct put *put, struct lvn_http *http)
{
    if (put->ops->abandon(&put->upload, http) != LVN_OK) lvn_error_clear();
}

/* Set the path of the state file and its first line. Without a cache folder no state is saved. */
static enum lvn_status name_state_file(struct put *put)
{
    struct lvn_arena *a = &put->location.arena;
    char hash[LVN_CHECKSUM_TEXT];
    const char *cache;
    lvn_checksum_text(lvn_checksum(put->location.url, (int64_t)strlen(put->location.url)), hash);
    put->state_header =
        lvn_arena_printf(a, "levin upload of %lld bytes from %lld.%09ld in parts of %lld to %s\n",
                         (long long)put->upload.bytes, (long long)put->initial_stat.st_mtim.tv_sec,
                         put->initial_stat.st_mtim.tv_nsec, (long long)put->upload.part_bytes, put->location.url);
    if (!put->state_header) return LVN_MEMORY;
    if (lvn_cache_folder(a, "uploads", &cache) != LVN_OK) {
        lvn_error_clear();
        return LVN_OK;
    }
    put->state_file = lvn_arena_printf(a, "%s/%s", cache, hash);
    return put->state_file ? LVN_OK : LVN_MEMORY;
}

/* --- the whole transfer --- */

static struct lvn_worker_pool pool_of(struct put *put,
                                      enum lvn_status (*function)(struct lvn_worker_pool *, struct lvn_http *))
{
    return (struct lvn_worker_pool){.work = function,
                                    .context = put,
                                    .network = true,
                                    .progress = put->progress,
                                    .progress_context = put->context,
                                    .may_continue = put->may_continue,
                                    .may_continue_context = put->may_continue_context,
                                    .total = put->upload.bytes};
}

/* Compare the file in the store with the local one. */
static enum lvn_status verify(struct put *put)
{
    struct lvn_object object;
    struct lvn_http *http;
    char found[LVN_DIGEST_TEXT];
    LVN_TRY(lvn_http_open(&http));
    enum lvn_status status = lvn_location_stat(&put->location, http, &object);
    lvn_http_close(http);
    LVN_TRY(status);
    LVN_CHECK(object.kind == LVN_STORE_FILE && object.bytes == put->upload.bytes, IO,
              "'%s' has %lld bytes in the store, but %lld were sent; send it again", put->location.url,
              object.kind == LVN_STORE_FILE ? (long long)object.bytes : 0, (long long)put->upload.bytes);
    if (!object.checksum[0]) return LVN_OK;
    LVN_TRY(lvn_digest_file(put->local, object.checksum, found));
    LVN_CHECK(strcmp(found, object.checksum) == 0, IO,
              "'%s' was damaged during the transfer: its %s is %s in the store and %s here; send it again",
              put->location.url, lvn_digest_name(found), strchr(object.checksum, ':') + 1, strchr(found, ':') + 1);
    return LVN_OK;
}

static enum lvn_status begin_or_resume(struct put *put, struct lvn_http *http)
{
    bool alive = false;
    const bool same = load_state(put);
    if (put->upload.id[0] && same) LVN_TRY(put->ops->resume(&put->upload, http, &alive));
    if (put->upload.id[0] && !same) abandon(put, http);
    if (alive) return LVN_OK;
    put->upload.id[0] = '\0';
    memset(put->upload.etags, 0, (size_t)put->upload.n_parts * sizeof *put->upload.etags);
    LVN_TRY(put->ops->begin(&put->upload, http));
    save_state(put);
    return LVN_OK;
}

static enum lvn_status put_in_parts(struct put *put, struct lvn_http *http)
{
    struct lvn_upload *upload = &put->upload;
    int64_t part = DEFAULT_PART > put->ops->min_part ? DEFAULT_PART : put->ops->min_part;
    while (upload->bytes / part >= put->ops->max_parts) part *= 2;
    upload->part_bytes = part;
    upload->n_parts = (int)((upload->bytes + part - 1) / part);
    upload->etags = lvn_arena_alloc(&put->location.arena, (size_t)upload->n_parts * sizeof *upload->etags);
    if (!upload->etags) return LVN_MEMORY;
    LVN_TRY(name_state_file(put));
    LVN_TRY(begin_or_resume(put, http));
    struct lvn_worker_pool pool = pool_of(put, work);
    int parts_left = 0;
    for (int i = 0; i < upload->n_parts; i++) {
        int64_t bytes = upload->bytes - i * part;
        if (upload->etags[i][0])
            pool.done += bytes < part ? bytes : part;
        else
            parts_left++;
    }
    LVN_TRY(lvn_worker_pool_run(&pool, put->ops->sequential ? 1 : lvn_worker_pool_size(parts_left)));
    enum lvn_status status = check_unchanged(put);
    bool changed = status != LVN_OK;
    if (changed)
        abandon(put, http);
    else
        status = put->ops->finish(upload, http);
    if (put->state_file && (changed || status == LVN_OK)) unlink(put->state_file);
    return status;
}

static enum lvn_status put_file(struct put *put)
{
    LVN_CHECK(fstat(put->fd, &put->initial_stat) == 0 && S_ISREG(put->initial_stat.st_mode), IO,
              "cannot send '%s': it is not a file", put->local);
    put->upload.bytes = put->initial_stat.st_size;
    put->upload.location = &put->location;
    if (put->upload.bytes <= DEFAULT_PART) {
        struct lvn_worker_pool pool = pool_of(put, send_small);
        LVN_TRY(lvn_worker_pool_run(&pool, 1));
        return verify(put);
    }
    struct lvn_http *http;
    LVN_TRY(lvn_http_open(&http));
    lvn_http_stop_unless(http, put->may_continue, put->may_continue_context);
    enum lvn_status status = put_in_parts(put, http);
    lvn_http_close(http);
    LVN_TRY(status);
    return verify(put);
}

static enum lvn_status open_and_put(struct put *put)
{
    put->ops = put->location.store->upload;
    LVN_CHECK(put->ops, UNSUPPORTED, "'%s' cannot be written: levin can only read from this store (%s)",
              put->location.url, put->location.store->url_format);
    size_t n = strlen(put->location.key);
    LVN_CHECK(n > 0 && put->location.key[n - 1] != '/', ARG, "'%s' is a folder: add the name of the file",
              put->location.url);
    LVN_TRY(lvn_input_open(put->local, LVN_INPUT_REGULAR, &put->fd));
    enum lvn_status status = put_file(put);
    close(put->fd);
    return status;
}

static enum lvn_status put_anywhere(struct put *put, const char *path)
{
    LVN_TRY(lvn_location_open(&put->location, path));
    if (!put->location.store->network) {
        char *to = lvn_strdup(put->location.key);
        lvn_location_close(&put->location);
        enum lvn_status copied = to ? lvn_store_get(put->local, to, NULL, put->progress, put->context) : LVN_MEMORY;
        free(to);
        return copied;
    }
    enum lvn_status status = open_and_put(put);
    lvn_location_close(&put->location);
    return status;
}

enum lvn_status lvn_store_put(const char *local, const char *path, lvn_store_progress *progress, void *context)
{
    struct put put = {.local = local, .progress = progress, .context = context};
    return put_anywhere(&put, path);
}

enum lvn_status lvn_store_put_while(const char *local, const char *path, bool (*may_continue)(void *context),
                                    void *context)
{
    struct put put = {.local = local, .may_continue = may_continue, .may_continue_context = context};
    return put_anywhere(&put, path);
}

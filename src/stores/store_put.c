/* store_put.c - uploads a local file to a store: in one request if it is small, otherwise in parts over several
 * connections at once.
 *
 * The store keeps the parts until it is asked to join them. The ID of the upload is saved in the cache folder
 * (uploads/, named by a hash of the path) with size and time of the local file: a resumed transfer asks the store which
 * parts it has and sends the others. A saved state that does not match the file, or an upload that the store no longer
 * has, is ignored. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    struct stat before;
    lvn_store_progress *progress;
    void *context;
    bool (*allowed)(void *context); /* NULL: always */
    void *allowed_context;
};

static enum lvn_status read_local(const struct put *p, char *to, int64_t offset, int64_t bytes)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pread(p->fd, to + done, (size_t)(bytes - done), offset + done);
        if (n < 0 && errno == EINTR) continue;
        LVN_CHECK(n >= 0, IO, "cannot read '%s': %s", p->local, strerror(errno));
        LVN_CHECK(n > 0, IO, "'%s' became shorter while it was sent to '%s'", p->local, p->location.url);
        done += n;
    }
    return LVN_OK;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static enum lvn_status check_unchanged(const struct put *p)
{
    struct stat now;
    LVN_CHECK(fstat(p->fd, &now) == 0 && same_file(&now, &p->before), IO,
              "'%s' changed while it was sent to '%s'; send it again", p->local, p->location.url);
    return LVN_OK;
}

/* --- threads --- */

static enum lvn_status send_parts(struct lvn_worker_pool *pool, struct lvn_http *h, char *buffer)
{
    struct put *p = pool->context;
    struct lvn_upload *u = &p->upload;
    while (!__atomic_load_n(&pool->stop, __ATOMIC_RELAXED)) {
        int i = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED);
        if (i >= u->n_parts) break;
        if (u->etags[i][0]) continue;
        int64_t offset = i * u->part_bytes, left = u->bytes - offset,
                bytes = left < u->part_bytes ? left : u->part_bytes;
        LVN_TRY(read_local(p, buffer, offset, bytes));
        LVN_TRY(p->ops->part(u, h, i + 1, buffer, bytes));
        __atomic_add_fetch(&pool->done, bytes, __ATOMIC_RELAXED);
    }
    return LVN_OK;
}

static enum lvn_status work(struct lvn_worker_pool *pool, struct lvn_http *h)
{
    struct put *p = pool->context;
    char *buffer = lvn_malloc((size_t)p->upload.part_bytes);
    if (!buffer) return LVN_MEMORY;
    enum lvn_status status = send_parts(pool, h, buffer);
    free(buffer);
    return status;
}

static enum lvn_status send_small(struct lvn_worker_pool *pool, struct lvn_http *h)
{
    struct put *p = pool->context;
    int64_t bytes = p->upload.bytes;
    char *buffer = lvn_malloc((size_t)(bytes ? bytes : 1));
    enum lvn_status status = buffer ? read_local(p, buffer, 0, bytes) : LVN_MEMORY;
    if (status == LVN_OK) status = p->ops->put_object(&p->location, h, buffer, bytes);
    if (status == LVN_OK) status = check_unchanged(p);
    if (status == LVN_OK) __atomic_store_n(&pool->done, bytes, __ATOMIC_RELAXED);
    free(buffer);
    return status;
}

/* --- state of an unfinished upload --- */

static void save_state(const struct put *p)
{
    LVN_LOCAL_TEXT(t);
    if (!p->state_file) return;
    lvn_text_printf(&t, "%s%s\n", p->state_header, p->upload.id);
    if (lvn_text_status(&t) == LVN_OK && lvn_file_write(p->state_file, t.p, t.n) != LVN_OK) lvn_error_clear();
}

/* Loads the ID of an earlier upload if the state describes this file as it is. */
static void load_state(struct put *p)
{
    char *text = NULL;
    int64_t bytes;
    if (!p->state_file || !lvn_path_is_file(p->state_file)) return;
    if (lvn_file_read(p->state_file, MAX_STATE, &text, &bytes) != LVN_OK)
        lvn_error_clear();
    else if (strncmp(text, p->state_header, strlen(p->state_header)) == 0) {
        const char *id = text + strlen(p->state_header);
        size_t n = strcspn(id, "\n");
        if (n < sizeof p->upload.id) snprintf(p->upload.id, sizeof p->upload.id, "%.*s", (int)n, id);
    }
    free(text);
}

/* The path of the state file and its first line. Without a cache folder no state is saved. */
static enum lvn_status name_state_file(struct put *p)
{
    struct lvn_arena *a = &p->location.arena;
    char hash[LVN_CHECKSUM_TEXT];
    const char *cache;
    lvn_checksum_text(lvn_checksum(p->location.url, (int64_t)strlen(p->location.url)), hash);
    p->state_header = lvn_arena_printf(a, "levin upload of %lld bytes from %lld.%09ld in parts of %lld to %s\n",
                                       (long long)p->upload.bytes, (long long)p->before.st_mtim.tv_sec,
                                       p->before.st_mtim.tv_nsec, (long long)p->upload.part_bytes, p->location.url);
    if (!p->state_header) return LVN_MEMORY;
    if (lvn_cache_folder(a, "uploads", &cache) != LVN_OK) {
        lvn_error_clear();
        return LVN_OK;
    }
    p->state_file = lvn_arena_printf(a, "%s/%s", cache, hash);
    return p->state_file ? LVN_OK : LVN_MEMORY;
}

/* --- the whole transfer --- */

/* Compares the file in the store with the local one. */
static enum lvn_status verify(struct put *p)
{
    struct lvn_object o;
    struct lvn_http *h;
    char found[LVN_DIGEST_TEXT];
    LVN_TRY(lvn_http_open(&h));
    enum lvn_status status = lvn_location_stat(&p->location, h, &o);
    lvn_http_close(h);
    LVN_TRY(status);
    LVN_CHECK(o.kind == LVN_STORE_FILE && o.bytes == p->upload.bytes, IO,
              "'%s' has %lld bytes in the store after %lld were sent; send it again", p->location.url,
              o.kind == LVN_STORE_FILE ? (long long)o.bytes : 0, (long long)p->upload.bytes);
    if (!o.checksum[0]) return LVN_OK;
    LVN_TRY(lvn_digest_file(p->local, o.checksum, found));
    LVN_CHECK(strcmp(found, o.checksum) == 0, IO,
              "'%s' arrived in the store as something else: its %s is %s there and %s here; send it again",
              p->location.url, lvn_digest_name(found), strchr(o.checksum, ':') + 1, strchr(found, ':') + 1);
    return LVN_OK;
}

static enum lvn_status begin_or_resume(struct put *p, struct lvn_http *h)
{
    bool alive = false;
    load_state(p);
    if (p->upload.id[0]) LVN_TRY(p->ops->resume(&p->upload, h, &alive));
    if (alive) return LVN_OK;
    p->upload.id[0] = '\0';
    memset(p->upload.etags, 0, (size_t)p->upload.n_parts * sizeof *p->upload.etags);
    LVN_TRY(p->ops->begin(&p->upload, h));
    save_state(p);
    return LVN_OK;
}

static enum lvn_status put_in_parts(struct put *p, struct lvn_http *h)
{
    struct lvn_upload *u = &p->upload;
    int64_t part = DEFAULT_PART > p->ops->min_part ? DEFAULT_PART : p->ops->min_part;
    while (u->bytes / part >= p->ops->max_parts) part *= 2;
    u->part_bytes = part;
    u->n_parts = (int)((u->bytes + part - 1) / part);
    u->etags = lvn_arena_alloc(&p->location.arena, (size_t)u->n_parts * sizeof *u->etags);
    if (!u->etags) return LVN_MEMORY;
    LVN_TRY(name_state_file(p));
    LVN_TRY(begin_or_resume(p, h));
    struct lvn_worker_pool pool = {.work = work,
                                   .context = p,
                                   .network = true,
                                   .progress = p->progress,
                                   .progress_context = p->context,
                                   .allowed = p->allowed,
                                   .allowed_context = p->allowed_context,
                                   .total = u->bytes};
    int left = 0;
    for (int i = 0; i < u->n_parts; i++) {
        int64_t bytes = u->bytes - i * part;
        if (u->etags[i][0])
            pool.done += bytes < part ? bytes : part;
        else
            left++;
    }
    LVN_TRY(lvn_worker_pool_run(&pool, p->ops->sequential ? 1 : lvn_worker_pool_size(left)));
    enum lvn_status status = check_unchanged(p);
    bool changed = status != LVN_OK;
    if (!changed) status = p->ops->finish(u, h);
    if (p->state_file && (changed || status == LVN_OK)) unlink(p->state_file);
    return status;
}

static enum lvn_status put(struct put *p)
{
    LVN_CHECK(fstat(p->fd, &p->before) == 0 && S_ISREG(p->before.st_mode), IO, "cannot send '%s': it is not a file",
              p->local);
    p->upload.bytes = p->before.st_size;
    p->upload.location = &p->location;
    struct lvn_worker_pool pool = {.work = send_small,
                                   .context = p,
                                   .network = true,
                                   .progress = p->progress,
                                   .progress_context = p->context,
                                   .allowed = p->allowed,
                                   .allowed_context = p->allowed_context,
                                   .total = p->upload.bytes};
    if (p->upload.bytes <= DEFAULT_PART) {
        LVN_TRY(lvn_worker_pool_run(&pool, 1));
        return verify(p);
    }
    struct lvn_http *h;
    LVN_TRY(lvn_http_open(&h));
    lvn_http_stop_unless(h, p->allowed, p->allowed_context);
    enum lvn_status status = put_in_parts(p, h);
    lvn_http_close(h);
    LVN_TRY(status);
    return verify(p);
}

static enum lvn_status open_and_put(struct put *p)
{
    p->ops = p->location.store->upload;
    LVN_CHECK(p->ops, UNSUPPORTED, "'%s' cannot be written: levin only reads there (%s)", p->location.url,
              p->location.store->url_format);
    size_t n = strlen(p->location.key);
    LVN_CHECK(n > 0 && p->location.key[n - 1] != '/', ARG, "'%s' names a folder; a name for the file is missing",
              p->location.url);
    LVN_TRY(lvn_input_open(p->local, LVN_INPUT_REGULAR, &p->fd));
    enum lvn_status status = put(p);
    close(p->fd);
    return status;
}

static enum lvn_status put_anywhere(struct put *p, const char *path)
{
    LVN_TRY(lvn_location_open(&p->location, path));
    if (!p->location.store->network) {
        char *to = lvn_strdup(p->location.key);
        lvn_location_close(&p->location);
        enum lvn_status copied = to ? lvn_store_get(p->local, to, NULL, p->progress, p->context) : LVN_MEMORY;
        free(to);
        return copied;
    }
    enum lvn_status status = open_and_put(p);
    lvn_location_close(&p->location);
    return status;
}

enum lvn_status lvn_store_put(const char *local, const char *path, lvn_store_progress *progress, void *context)
{
    struct put p = {.local = local, .progress = progress, .context = context};
    return put_anywhere(&p, path);
}

enum lvn_status lvn_store_put_while(const char *local, const char *path, bool (*allowed)(void *context), void *context)
{
    struct put p = {.local = local, .allowed = allowed, .allowed_context = context};
    return put_anywhere(&p, path);
}

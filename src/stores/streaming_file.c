/* streaming_file.c - see streaming_file.h. */
#include "stores/streaming_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/input.h"
#include "base/log.h"
#include "base/threads.h"
#include "stores/cache.h"
#include "stores/store_private.h"

enum { PATH_TRIES = 4 };
static const struct timespec PATH_PAUSE = {.tv_sec = 1};

struct lvn_streaming_file {
    struct lvn_location location;
    struct lvn_object object;
    struct lvn_http *http; /* of reads; protected by the lock */
    pthread_mutex_t lock;
    pthread_t thread;
    bool running;
    int stopping; /* atomic: the thread must stop */
    int done;     /* atomic: `map` is the complete file */
    struct lvn_mapping map;
    char *path; /* of a file without a store, of which only this, `fd` and `object.bytes` count; else NULL */
    int fd;
};

static int on_progress(void *context, int64_t done, int64_t total)
{
    (void)done, (void)total;
    return __atomic_load_n(&((struct lvn_streaming_file *)context)->stopping, __ATOMIC_RELAXED);
}

/* Downloads the file into the cache and maps it, if it has the version that reads have seen. */
static enum lvn_status download(struct lvn_streaming_file *s, struct lvn_location *p, struct lvn_http *h)
{
    const char *local;
    struct lvn_object now;
    LVN_TRY(lvn_store_cache_download(p, h, on_progress, s, &local));
    LVN_TRY(p->store->stat(p, h, &now));
    LVN_CHECK(strcmp(now.version, s->object.version) == 0 && now.bytes == s->object.bytes, IO,
              "'%s' changed while it was read", p->url);
    return lvn_file_map(&s->map, local);
}

static void *run(void *argument)
{
    struct lvn_streaming_file *s = argument;
    struct lvn_location p;
    struct lvn_http *h = NULL;
    enum lvn_status status = lvn_location_open(&p, s->location.url);
    bool open = status == LVN_OK;
    if (open) status = lvn_http_open(&h);
    if (status == LVN_OK) status = download(s, &p, h);
    if (status == LVN_OK)
        __atomic_store_n(&s->done, 1, __ATOMIC_RELEASE);
    else if (status != LVN_STOPPED) /* reads continue from the store */
        lvn_log(LVN_LOG_WARN, "'%s' could not be downloaded; it is read from the store as needed: %s", s->location.url,
                lvn_error_text());
    lvn_http_close(h);
    if (open) lvn_location_close(&p);
    return NULL;
}

static enum lvn_status open_remote(struct lvn_streaming_file *s)
{
    LVN_CHECK(s->location.store->network, UNSUPPORTED, "'%s' is here already", s->location.url);
    LVN_TRY(lvn_http_open(&s->http));
    LVN_TRY(s->location.store->stat(&s->location, s->http, &s->object));
    LVN_CHECK(s->object.kind == LVN_STORE_FILE, IO, "there is no file '%s'", s->location.url);
    LVN_CHECK(s->object.ranges && s->object.bytes >= 0 && s->object.version[0], UNSUPPORTED,
              "'%s' cannot be streamed: its server sends no pieces of files, or does not say which version it has",
              s->location.url);
    s->running = lvn_thread_start(&s->thread, run, s) == 0;
    LVN_CHECK(s->running, IO, "no thread could be started to download '%s'", s->location.url);
    return LVN_OK;
}

static void close_path(struct lvn_streaming_file *s)
{
    if (s->fd >= 0) close(s->fd);
    free(s->path);
    free(s);
}

/* A server that was away may have forgotten the open file: open it anew, under the same number, for other threads read
 * from it. */
static enum lvn_status reopen_path(struct lvn_streaming_file *s)
{
    int fd;
    LVN_TRY(lvn_input_open(s->path, LVN_INPUT_REGULAR, &fd));
    const int replaced = dup3(fd, s->fd, O_CLOEXEC), error = errno;
    close(fd);
    LVN_CHECK(replaced >= 0, IO, "cannot open '%s': %s", s->path, strerror(error));
    return LVN_OK;
}

static enum lvn_status read_path(struct lvn_streaming_file *s, int64_t offset, int64_t bytes, void *to)
{
    enum lvn_status status = lvn_fd_read_at(s->fd, s->path, to, offset, bytes);
    for (int tries = 1; status != LVN_OK && tries < PATH_TRIES; tries++) {
        lvn_log(LVN_LOG_WARN, "%s; trying again", lvn_error_text());
        (void)nanosleep(&PATH_PAUSE, NULL);
        status = reopen_path(s);
        if (status == LVN_OK) status = lvn_fd_read_at(s->fd, s->path, to, offset, bytes);
    }
    return status;
}

enum lvn_status lvn_streaming_file_open(struct lvn_streaming_file **out, const char *path)
{
    *out = NULL;
    struct lvn_streaming_file *s = lvn_calloc(1, sizeof *s);
    if (!s) return LVN_MEMORY;
    pthread_mutex_init(&s->lock, NULL);
    enum lvn_status status = lvn_location_open(&s->location, path);
    if (status != LVN_OK) {
        free(s);
        return status;
    }
    status = open_remote(s);
    if (status == LVN_OK)
        *out = s;
    else
        lvn_streaming_file_close(s);
    return status;
}

enum lvn_status lvn_streaming_file_open_path(struct lvn_streaming_file **out, const char *path)
{
    struct stat is;
    *out = NULL;
    struct lvn_streaming_file *s = lvn_calloc(1, sizeof *s);
    if (!s) return LVN_MEMORY;
    s->fd = -1;
    s->path = lvn_strdup(path);
    enum lvn_status status = s->path ? lvn_input_open(path, LVN_INPUT_REGULAR, &s->fd) : LVN_MEMORY;
    if (status == LVN_OK && fstat(s->fd, &is)) status = lvn_fail(LVN_IO, "cannot read '%s': %s", path, strerror(errno));
    if (status == LVN_OK) {
        s->object.bytes = is.st_size;
        *out = s;
        return LVN_OK;
    }
    close_path(s);
    return status;
}

void lvn_streaming_file_close(struct lvn_streaming_file *s)
{
    if (!s) return;
    if (s->path) {
        close_path(s);
        return;
    }
    __atomic_store_n(&s->stopping, 1, __ATOMIC_RELAXED);
    if (s->running) pthread_join(s->thread, NULL);
    lvn_file_unmap(&s->map);
    lvn_http_close(s->http);
    lvn_location_close(&s->location);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

int64_t lvn_streaming_file_bytes(const struct lvn_streaming_file *s)
{
    return s->object.bytes;
}

static bool is_here(const struct lvn_streaming_file *s)
{
    return __atomic_load_n(&s->done, __ATOMIC_ACQUIRE) != 0;
}

static bool on_data(void *context, const void *data, int64_t bytes)
{
    char **to = context;
    memcpy(*to, data, (size_t)bytes);
    *to += bytes;
    return true;
}

enum lvn_status lvn_streaming_file_read(struct lvn_streaming_file *s, int64_t offset, int64_t bytes, void *to)
{
    LVN_CHECK(offset >= 0 && bytes >= 0 && offset <= s->object.bytes - bytes, INTERNAL,
              "bytes %lld to %lld of '%s', which has %lld", (long long)offset, (long long)(offset + bytes),
              s->path ? s->path : s->location.url, (long long)s->object.bytes);
    if (s->path) return read_path(s, offset, bytes, to);
    if (is_here(s)) {
        if (bytes) memcpy(to, s->map.data + offset, (size_t)bytes);
        return LVN_OK;
    }
    char *at = to;
    pthread_mutex_lock(&s->lock);
    enum lvn_status status =
        bytes ? s->location.store->read(&s->location, s->http, &s->object, offset, bytes, on_data, &at) : LVN_OK;
    pthread_mutex_unlock(&s->lock);
    return status;
}

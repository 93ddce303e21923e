/* streaming_file.c - see streaming_file.h. */
#include "stores/streaming_file.h"

#include <fcntl.h>
#include <pthread.h>
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
    int stop; /* atomic: the thread must stop */
    int done; /* atomic: `map` or `fd` is the complete file */
    struct lvn_mapping map;
    char *path; /* of a file without a store (only this, `fd` and `object.bytes` are used); else NULL */
    int fd;     /* of such a file, and of a complete one in a cache on a network file system, which is not mapped; -1 */
};

static int on_progress(void *context, int64_t done, int64_t total)
{
    (void)done, (void)total;
    return __atomic_load_n(&((struct lvn_streaming_file *)context)->stop, __ATOMIC_RELAXED);
}

/* Download the file to the cache and map or open it if it has the version that was opened. */
static enum lvn_status download(struct lvn_streaming_file *file, struct lvn_location *location, struct lvn_http *http)
{
    const char *local;
    struct lvn_object now;
    LVN_TRY(lvn_store_cache_download(location, http, on_progress, file, &local));
    LVN_TRY(location->store->stat(location, http, &now));
    LVN_CHECK(strcmp(now.version, file->object.version) == 0 && now.bytes == file->object.bytes, IO,
              "'%s' changed while it was read", location->url);
    return lvn_path_is_local(local) ? lvn_file_map(&file->map, local)
                                    : lvn_input_open(local, LVN_INPUT_REGULAR, &file->fd);
}

static void *run(void *argument)
{
    struct lvn_streaming_file *file = argument;
    struct lvn_location location;
    struct lvn_http *http = NULL;
    enum lvn_status status = lvn_location_open(&location, file->location.url);
    bool open = status == LVN_OK;
    if (open) status = lvn_http_open(&http);
    if (status == LVN_OK) status = download(file, &location, http);
    if (status == LVN_OK)
        __atomic_store_n(&file->done, 1, __ATOMIC_RELEASE);
    else if (status != LVN_STOPPED) /* reads continue from the store */
        lvn_log(LVN_LOG_WARN, "'%s' could not be downloaded; it is read from the store as needed: %s",
                file->location.url, levin_error_text());
    lvn_http_close(http);
    if (open) lvn_location_close(&location);
    return NULL;
}

static enum lvn_status open_remote(struct lvn_streaming_file *file)
{
    LVN_CHECK(file->location.store->network, UNSUPPORTED, "'%s' is already on this machine", file->location.url);
    LVN_TRY(lvn_http_open(&file->http));
    LVN_TRY(file->location.store->stat(&file->location, file->http, &file->object));
    LVN_CHECK(file->object.kind == LVN_STORE_FILE, IO, "the file '%s' does not exist", file->location.url);
    LVN_CHECK(file->object.ranges && file->object.bytes >= 0 && file->object.version[0], UNSUPPORTED,
              "cannot stream '%s': its server supports no range requests, or sends no version of the file",
              file->location.url);
    file->running = lvn_thread_start(&file->thread, run, file) == 0;
    LVN_CHECK(file->running, IO, "cannot start a thread to download '%s'", file->location.url);
    return LVN_OK;
}

static void close_path(struct lvn_streaming_file *file)
{
    if (file->fd >= 0) close(file->fd);
    free(file->path);
    free(file);
}

/* A network file server that was restarted may have lost the open file: reopens it with the same descriptor, because
 * other threads read from it. */
static enum lvn_status reopen_path(struct lvn_streaming_file *file)
{
    int fd;
    LVN_TRY(lvn_input_open(file->path, LVN_INPUT_REGULAR, &fd));
    const int replaced = dup3(fd, file->fd, O_CLOEXEC), error = errno;
    close(fd);
    LVN_CHECK(replaced >= 0, IO, "cannot open '%s': %s", file->path, strerror(error));
    return LVN_OK;
}

static enum lvn_status read_path(struct lvn_streaming_file *file, int64_t offset, int64_t bytes, void *to)
{
    enum lvn_status status = lvn_fd_read_at(file->fd, file->path, to, offset, bytes);
    for (int tries = 1; status != LVN_OK && tries < PATH_TRIES; tries++) {
        lvn_log(LVN_LOG_WARN, "%s; trying again", levin_error_text());
        (void)nanosleep(&PATH_PAUSE, NULL);
        status = reopen_path(file);
        if (status == LVN_OK) status = lvn_fd_read_at(file->fd, file->path, to, offset, bytes);
    }
    return status;
}

enum lvn_status lvn_streaming_file_open(struct lvn_streaming_file **out, const char *path)
{
    *out = NULL;
    struct lvn_streaming_file *file = lvn_calloc(1, sizeof *file);
    if (!file) return LVN_MEMORY;
    file->fd = -1;
    pthread_mutex_init(&file->lock, NULL);
    enum lvn_status status = lvn_location_open(&file->location, path);
    if (status != LVN_OK) {
        free(file);
        return status;
    }
    status = open_remote(file);
    if (status == LVN_OK)
        *out = file;
    else
        lvn_streaming_file_close(file);
    return status;
}

enum lvn_status lvn_streaming_file_open_path(struct lvn_streaming_file **out, const char *path)
{
    struct stat s;
    *out = NULL;
    struct lvn_streaming_file *file = lvn_calloc(1, sizeof *file);
    if (!file) return LVN_MEMORY;
    file->fd = -1;
    file->path = lvn_strdup(path);
    enum lvn_status status = file->path ? lvn_input_open(path, LVN_INPUT_REGULAR, &file->fd) : LVN_MEMORY;
    if (status == LVN_OK && fstat(file->fd, &s))
        status = lvn_fail(LVN_IO, "cannot read '%s': %s", path, strerror(errno));
    if (status == LVN_OK) {
        file->object.bytes = s.st_size;
        *out = file;
        return LVN_OK;
    }
    close_path(file);
    return status;
}

static void stop_download(struct lvn_streaming_file *file)
{
    __atomic_store_n(&file->stop, 1, __ATOMIC_RELAXED);
    if (file->running) pthread_join(file->thread, NULL);
    file->running = false;
}

void lvn_streaming_file_close(struct lvn_streaming_file *file)
{
    if (!file) return;
    if (file->path) {
        close_path(file);
        return;
    }
    stop_download(file);
    lvn_file_unmap(&file->map);
    if (file->fd >= 0) close(file->fd);
    lvn_http_close(file->http);
    lvn_location_close(&file->location);
    pthread_mutex_destroy(&file->lock);
    free(file);
}

void lvn_streaming_file_release(struct lvn_streaming_file *file)
{
    const char *local, *facts;
    if (file && !file->path) {
        stop_download(file); /* it would mark the file as used */
        if (lvn_store_cache_path(&file->location.arena, &file->location, file->location.key, &local, &facts) == LVN_OK)
            lvn_store_cache_release(facts);
        else
            lvn_error_clear();
    }
    lvn_streaming_file_close(file);
}

int64_t lvn_streaming_file_bytes(const struct lvn_streaming_file *file)
{
    return file->object.bytes;
}

static bool is_downloaded(const struct lvn_streaming_file *file)
{
    return __atomic_load_n(&file->done, __ATOMIC_ACQUIRE) != 0;
}

static bool on_data(void *context, const void *data, int64_t bytes)
{
    char **to = context;
    memcpy(*to, data, (size_t)bytes);
    *to += bytes;
    return true;
}

enum lvn_status lvn_streaming_file_read(struct lvn_streaming_file *file, int64_t offset, int64_t bytes, void *to)
{
    LVN_CHECK(offset >= 0 && bytes >= 0 && offset <= file->object.bytes - bytes, INTERNAL,
              "cannot read bytes %lld to %lld of '%s': it has %lld", (long long)offset, (long long)(offset + bytes),
              file->path ? file->path : file->location.url, (long long)file->object.bytes);
    if (file->path) return read_path(file, offset, bytes, to);
    if (is_downloaded(file)) {
        if (file->fd < 0) {
            if (bytes) memcpy(to, file->map.data + offset, (size_t)bytes);
            return LVN_OK;
        }
        if (lvn_fd_read_at(file->fd, file->location.url, to, offset, bytes) == LVN_OK) return LVN_OK;
        lvn_error_clear(); /* another host may have removed the file from the cache; the store still has it */
    }
    char *at = to;
    pthread_mutex_lock(&file->lock);
    enum lvn_status status =
        bytes ? file->location.store->read(&file->location, file->http, &file->object, offset, bytes, on_data, &at)
              : LVN_OK;
    pthread_mutex_unlock(&file->lock);
    return status;
}

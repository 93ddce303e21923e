/* store_get.c - downloads a file of a store in chunks over several connections: lvn_store_get().
 *
 * The chunks are written at their offsets in LOCAL.part. For each finished chunk a line with its number and CRC-64
 * is appended to LOCAL.part.done, whose first line identifies the file. A resumed transfer reads its partial file,
 * accepts the chunks whose checksums match, and fetches the others. The checksum of the whole file, from the caller or
 * the store, is computed during the transfer: a thread that has finished a chunk adds all chunks up to the first
 * unfinished one; a CRC-64 is combined from those of the chunks, any other checksum reads the chunks again. Chunks
 * are not fsynced: after a crash the lost part can be fetched again. A lock on LOCAL.part excludes a second process. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/redact.h"
#include "base/system.h"
#include "formats/crc.h"
#include "stores/cache.h"
#include "stores/digest.h"
#include "stores/fetch_limit.h"
#include "stores/store_private.h"
#include "stores/worker_pool.h"

/* File systems serialize writes to one file even at different offsets: with small writes the threads would wait for
 * each other. */
enum { PIECE_BYTES = 8 << 20, BUFFER_BYTES = 1 << 20, MAX_DONE = 64 << 20, MAX_PIECES = 1 << 24 };

struct get {
    struct lvn_location location;
    struct lvn_object object;
    const char *local, *dir, *part, *done;
    const char *sha256;      /* given by the caller; NULL: none */
    const char *expected;    /* checksum of the whole file, "sha256:..."; NULL: unknown */
    pthread_mutex_t writing; /* serializes writes to the file, so that waiting threads sleep instead of spinning */
    pthread_mutex_t lock;    /* protects the following fields */
    struct lvn_digest digest;
    int digested;  /* number of leading chunks included in `digest` */
    uint64_t *crc; /* [n_pieces] CRC-64 of the finished chunks */
    int fd;        /* of `part` */
    int done_fd;   /* of `done`; -1: nothing is recorded */
    int n_pieces;
    bool resumed;        /* some chunks come from an earlier transfer */
    bool existed;        /* `local` existed before the transfer */
    bool durable;        /* the file must be on the disk before it has its name */
    struct stat before;  /* state of `local` before the transfer, if it existed */
    unsigned char *have; /* [n_pieces] the chunk is finished */
    int64_t max;         /* maximum number of bytes if the size is unknown */
    lvn_store_progress *progress;
    void *context;
};

static int64_t piece_bytes(const struct get *get, int i)
{
    int64_t left = get->object.bytes - (int64_t)i * PIECE_BYTES;
    return get->n_pieces == 1 ? get->object.bytes : left < PIECE_BYTES ? left : PIECE_BYTES;
}

static enum lvn_status part_failed(const struct get *get, const char *path)
{
    int error = errno;
    LVN_FAIL(IO, "cannot write '%s' while fetching '%s': %s", path, get->location.url, strerror(error));
}

/* --- one chunk, in a thread of the pool --- */

struct writing {
    struct get *get;
    struct lvn_worker_pool *pool;
    uint64_t sum;
    char *buffer;   /* (BUFFER_BYTES) data that is not written yet */
    int64_t bytes;  /* bytes in the buffer */
    int64_t offset; /* offset in the file of the buffer's first byte */
    int error;
    bool too_large; /* the file is larger than `max` */
};

static bool flush(struct writing *w)
{
    for (const char *p = w->buffer; w->bytes > 0;) {
        pthread_mutex_lock(&w->get->writing);
        ssize_t n = lvn_system.pwrite(w->get->fd, p, (size_t)w->bytes, w->offset);
        int error = errno;
        pthread_mutex_unlock(&w->get->writing);
        errno = error;
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            w->error = n < 0 ? errno : ENOSPC;
            return false;
        }
        p += n;
        w->bytes -= n;
        w->offset += n;
    }
    return true;
}

static bool on_data(void *context, const void *data, int64_t bytes)
{
    struct writing *w = context;
    if (__atomic_load_n(&w->pool->stop, __ATOMIC_RELAXED)) return false;
    w->sum = lvn_crc64nvme(w->sum, data, bytes);
    if (w->get->expected && w->get->n_pieces == 1) lvn_digest_add(&w->get->digest, data, bytes);
    const int64_t done = __atomic_add_fetch(&w->pool->done, bytes, __ATOMIC_RELAXED);
    w->too_large = w->get->object.bytes < 0 && done > w->get->max;
    if (w->too_large) return false;
    for (const char *p = data; bytes > 0;) {
        int64_t capacity = BUFFER_BYTES - w->bytes, n = bytes < capacity ? bytes : capacity;
        memcpy(w->buffer + w->bytes, p, (size_t)n);
        w->bytes += n;
        p += n;
        bytes -= n;
        if (w->bytes == BUFFER_BYTES && !flush(w)) return false;
    }
    return true;
}

/* Add finished chunks to the checksum of the whole file; false if one cannot be read. */
static bool digest_pieces(struct get *get, char *buffer)
{
    while (get->digested < get->n_pieces && __atomic_load_n(&get->have[get->digested], __ATOMIC_ACQUIRE)) {
        int64_t begin = (int64_t)get->digested * PIECE_BYTES, end = begin + piece_bytes(get, get->digested);
        bool joined = lvn_digest_combine(&get->digest, get->crc[get->digested], end - begin);
        while (!joined && begin < end) {
            ssize_t n =
                pread(get->fd, buffer, (size_t)(end - begin < BUFFER_BYTES ? end - begin : BUFFER_BYTES), begin);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return false;
            lvn_digest_add(&get->digest, buffer, n);
            begin += n;
        }
        get->digested++;
    }
    return true;
}

/* Digest as many chunks as possible, unless another thread is doing it. */
static void try_digest_pieces(struct get *get, char *buffer)
{
    if (!get->expected || get->n_pieces == 1 || pthread_mutex_trylock(&get->lock) != 0) return;
    (void)digest_pieces(get, buffer); /* a read error is reported by verify() */
    pthread_mutex_unlock(&get->lock);
}

/* A lost line only costs the repeated fetch of a chunk, so errors are ignored. */
static void record_piece(const struct get *get, int i)
{
    char line[48];
    if (get->done_fd < 0) return;
    int n = snprintf(line, sizeof line, "%d %016" PRIx64 "\n", i, get->crc[i]);
    (void)!write(get->done_fd, line, (size_t)n);
}

static enum lvn_status fetch_pieces(struct lvn_worker_pool *pool, struct lvn_http *http, char *buffer)
{
    struct get *get = pool->context;
    while (!__atomic_load_n(&pool->stop, __ATOMIC_RELAXED)) {
        int i = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED);
        if (i >= get->n_pieces) break;
        if (get->have[i]) continue;
        struct writing w = {.get = get, .pool = pool, .buffer = buffer, .offset = (int64_t)i * PIECE_BYTES};
        enum lvn_status status =
            get->location.store->read(&get->location, http, &get->object, w.offset, piece_bytes(get, i), on_data, &w);
        if (w.too_large) return lvn_fetch_limit_reached(get->location.url, get->max);
        if (status == LVN_OK) (void)flush(&w);
        if (w.error) {
            errno = w.error;
            return part_failed(get, get->part);
        }
        LVN_TRY(status);
        get->crc[i] = w.sum;
        record_piece(get, i);
        __atomic_store_n(&get->have[i], 1, __ATOMIC_RELEASE);
        try_digest_pieces(get, buffer);
    }
    return LVN_OK;
}

static enum lvn_status work(struct lvn_worker_pool *pool, struct lvn_http *http)
{
    char *buffer = lvn_malloc(BUFFER_BYTES);
    if (!buffer) return LVN_MEMORY;
    enum lvn_status status = fetch_pieces(pool, http, buffer);
    free(buffer);
    return status;
}

/* --- resuming --- */

/* The first line of LOCAL.part.done. */
static char *header_line(struct get *get)
{
    char *url = lvn_arena_strdup(&get->location.arena, get->location.url);
    if (!url) return NULL;
    (void)lvn_secrets_hide(url);
    return lvn_arena_printf(&get->location.arena, "levin pieces, crc64, %d of %lld bytes of %s %s\n", PIECE_BYTES,
                            (long long)get->object.bytes, url, get->object.version);
}

static bool piece_matches(const struct get *get, int i, const char *sum, char *buffer)
{
    int64_t begin = (int64_t)i * PIECE_BYTES, bytes = piece_bytes(get, i);
    ssize_t n = pread(get->fd, buffer, (size_t)bytes, begin);
    if (n != bytes) return false;
    get->crc[i] = lvn_crc64nvme(0, buffer, bytes);
    return get->crc[i] == strtoull(sum, NULL, 16);
}

/* Find the finished chunks of an interrupted transfer; returns their bytes. */
static int64_t find_done_pieces(struct get *get, const char *text, const char *head)
{
    int64_t bytes = 0;
    char *buffer = NULL;
    if (strncmp(text, head, strlen(head)) != 0 || !(buffer = lvn_malloc(PIECE_BYTES))) {
        lvn_error_clear();
        return 0;
    }
    for (const char *line = text + strlen(head); *line; line = strchrnul(line, '\n') + 1) {
        char *end;
        long i = strtol(line, &end, 10);
        bool whole = end > line && *end == ' ' && strcspn(end + 1, "\n") == 16;
        if (whole && i >= 0 && i < get->n_pieces && !get->have[i] && piece_matches(get, (int)i, end + 1, buffer)) {
            get->have[i] = 1;
            bytes += piece_bytes(get, (int)i);
        }
        if (!*strchrnul(line, '\n')) break;
    }
    free(buffer);
    return bytes;
}

/* Find the finished chunks (*bytes: their size) and open LOCAL.part.done for the others. */
static enum lvn_status prepare(struct get *get, int64_t *bytes)
{
    char *text = NULL, *head = header_line(get);
    int64_t length;
    bool known = get->object.ranges && (get->object.version[0] || get->sha256);
    *bytes = 0;
    get->done_fd = -1;
    if (!head) return LVN_MEMORY;
    memset(get->have, 0, (size_t)get->n_pieces);
    get->digested = 0;
    lvn_digest_release(&get->digest); /* from a first attempt */
    if (get->expected) lvn_digest_init(&get->digest, get->expected);
    if (known && get->n_pieces > 1 && lvn_path_is_file(get->done)) {
        if (lvn_file_read(get->done, MAX_DONE, &text, &length) == LVN_OK) *bytes = find_done_pieces(get, text, head);
        lvn_error_clear();
        free(text);
    }
    get->resumed = *bytes > 0;
    if (ftruncate(get->fd, get->resumed && get->object.bytes >= 0 ? get->object.bytes : 0) != 0)
        return part_failed(get, get->part);
    if (!known || get->n_pieces == 1) return LVN_OK;
    const int flags = O_WRONLY | O_CREAT | O_APPEND | (get->resumed ? 0 : O_TRUNC);
    if (lvn_file_open_nofollow(get->done, flags, &get->done_fd) != LVN_OK)
        lvn_error_clear(); /* without it an interrupted transfer cannot resume */
    if (get->done_fd >= 0 && !get->resumed) (void)!write(get->done_fd, head, strlen(head));
    return LVN_OK;
}

static enum lvn_status fetch(struct get *get)
{
    struct lvn_worker_pool pool = {.work = work,
                                   .context = get,
                                   .network = get->location.store->network,
                                   .progress = get->progress,
                                   .progress_context = get->context,
                                   .total = get->object.bytes > 0 ? get->object.bytes : 0};
    LVN_TRY(prepare(get, &pool.done));
    LVN_TRY(lvn_fetch_limit_find(get->location.url, get->dir, get->object.bytes, pool.done, &get->max));
    int64_t left = get->object.bytes < 0 ? 1 : (get->object.bytes - pool.done + PIECE_BYTES - 1) / PIECE_BYTES;
    enum lvn_status status = lvn_worker_pool_run(&pool, lvn_worker_pool_size(get->n_pieces == 1 ? 1 : left));
    if (get->done_fd >= 0) close(get->done_fd);
    get->done_fd = -1;
    return status;
}

/* --- the whole file --- */

static enum lvn_status verify(struct get *get)
{
    struct stat s;
    char found[LVN_DIGEST_TEXT], *buffer;
    LVN_CHECK(fstat(get->fd, &s) == 0 && (get->object.bytes < 0 || s.st_size == get->object.bytes), FORMAT,
              "'%s' has %lld bytes after the download, expected %lld", get->location.url, (long long)s.st_size,
              (long long)get->object.bytes);
    if (!get->expected) return LVN_OK;
    if (!(buffer = lvn_malloc(BUFFER_BYTES))) return LVN_MEMORY;
    bool read = get->n_pieces == 1 || digest_pieces(get, buffer);
    free(buffer);
    LVN_CHECK(read, IO, "cannot read '%s': %s", get->part, strerror(errno));
    lvn_digest_finish(&get->digest, found);
    LVN_CHECK(strcasecmp(found, get->expected) == 0, FORMAT,
              "'%s' is not %s: its %s is %s, expected %s; the download was discarded", get->location.url,
              get->sha256 ? "the expected file" : "the file that the store describes", lvn_digest_name(found),
              strchr(found, ':') + 1, strchr(get->expected, ':') + 1);
    return LVN_OK;
}

static enum lvn_status fetch_and_verify(struct get *get)
{
    LVN_TRY(fetch(get));
    enum lvn_status status = verify(get);
    if (status == LVN_FORMAT && get->resumed) { /* the resumed part was damaged: fetch everything again */
        lvn_error_clear();
        unlink(get->done);
        LVN_TRY(fetch(get));
        status = verify(get);
    }
    if (status == LVN_FORMAT) {
        unlink(get->done);
        unlink(get->part);
    }
    LVN_TRY(status);
    if (get->durable) LVN_TRY(lvn_file_sync(get->part));
    LVN_TRY(lvn_file_rename(get->part, get->local));
    unlink(get->done);
    return LVN_OK;
}

/* True if another process has downloaded the file since this transfer started. */
static bool was_replaced(const struct get *get)
{
    struct stat now;
    if (stat(get->local, &now) != 0 || !S_ISREG(now.st_mode) || now.st_size != get->object.bytes) return false;
    return !get->existed || now.st_ino != get->before.st_ino || now.st_mtim.tv_sec != get->before.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != get->before.st_mtim.tv_nsec;
}

/* Open and lock LOCAL.part; the process that held the lock may have renamed or removed it in the meantime. */
static enum lvn_status open_part(struct get *get)
{
    struct stat mine, named;
    while (!was_replaced(get)) {
        LVN_TRY_WHILE(lvn_file_open_nofollow(get->part, O_RDWR | O_CREAT, &get->fd), "fetching '%s'",
                      get->location.url);
        LVN_TRY(lvn_store_cache_lock(get->fd, get->progress, get->context));
        bool ours = fstat(get->fd, &mine) != 0 ||
                    (stat(get->part, &named) == 0 && mine.st_ino == named.st_ino && mine.st_dev == named.st_dev);
        if (ours && !was_replaced(get)) return LVN_OK;
        if (ours) unlink(get->part);
        close(get->fd);
        get->fd = -1;
    }
    return LVN_OK;
}

/* Verify a file that another process downloaded against the caller's checksum; that process has verified the
 * store's. */
static enum lvn_status check_replaced(const struct get *get)
{
    char found[LVN_DIGEST_TEXT];
    if (!get->sha256) return LVN_OK;
    LVN_TRY(lvn_digest_file(get->local, get->expected, found));
    LVN_CHECK(strcasecmp(found, get->expected) == 0, FORMAT,
              "'%s' is not the expected file: its SHA-256 is %s, expected %s", get->local, strchr(found, ':') + 1,
              get->sha256);
    return LVN_OK;
}

static enum lvn_status stat_object(struct get *get)
{
    struct lvn_http *http = NULL;
    if (get->location.store->network) LVN_TRY(lvn_http_open(&http));
    enum lvn_status status = get->sha256 ? get->location.store->stat(&get->location, http, &get->object)
                                         : lvn_location_stat(&get->location, http, &get->object);
    lvn_http_close(http);
    LVN_TRY(status);
    LVN_CHECK(get->object.kind != LVN_STORE_FOLDER, IO, "'%s' is a folder, not a file", get->location.url);
    LVN_CHECK(get->object.kind == LVN_STORE_FILE, IO, "the file '%s' does not exist", get->location.url);
    LVN_CHECK(get->object.bytes / PIECE_BYTES < MAX_PIECES, UNSUPPORTED,
              "'%s' is too large: the server announces %lld bytes, and levin downloads files below 128 TiB",
              get->location.url, (long long)get->object.bytes);
    bool pieces = get->object.ranges && get->object.bytes > PIECE_BYTES;
    get->n_pieces = pieces ? (int)((get->object.bytes + PIECE_BYTES - 1) / PIECE_BYTES) : 1;
    get->have = lvn_arena_alloc(&get->location.arena, (size_t)get->n_pieces);
    get->crc = lvn_arena_alloc(&get->location.arena, (size_t)get->n_pieces * sizeof *get->crc);
    get->expected = get->sha256               ? lvn_arena_printf(&get->location.arena, "sha256:%s", get->sha256)
                    : get->object.checksum[0] ? get->object.checksum
                                              : NULL;
    return get->have && get->crc && (get->expected || !get->sha256) ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status get_file(struct get *get)
{
    struct lvn_arena *a = &get->location.arena;
    const char *dir = get->dir = lvn_path_dir(a, get->local);
    get->part = lvn_arena_printf(a, "%s.part", get->local);
    get->done = lvn_arena_printf(a, "%s.part.done", get->local);
    if (!dir || !get->part || !get->done) return LVN_MEMORY;
    get->fd = -1;
    get->existed = stat(get->local, &get->before) == 0;
    LVN_TRY(stat_object(get));
    LVN_TRY(lvn_dir_make(dir));
    enum lvn_status status = open_part(get);
    if (status != LVN_OK && get->fd >= 0) close(get->fd);
    LVN_TRY(status);
    if (get->fd < 0) return check_replaced(get);
    status = fetch_and_verify(get);
    struct stat s;
    const bool empty = fstat(get->fd, &s) == 0 && s.st_size == 0;
    close(get->fd);
    const bool resumable = get->location.store->network && get->object.bytes >= 0;
    if (status != LVN_OK && (empty || !resumable)) unlink(get->part);
    LVN_TRY(status);
    return lvn_dir_sync(dir);
}

/* --- into a pipe, a terminal or another device ---
 *
 * The bytes are written in order, without parallel chunks or resuming. They cannot be taken back: a wrong checksum of
 * the whole file is reported after everything has been written. */

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

static bool stream_data(void *context, const void *data, int64_t bytes)
{
    struct streaming *streaming = context;
    if (__atomic_load_n(&streaming->pool->stop, __ATOMIC_RELAXED)) return false;
    if (streaming->expected) lvn_digest_add(&streaming->digest, data, bytes);
    __atomic_add_fetch(&streaming->pool->done, bytes, __ATOMIC_RELAXED);
    if (!lvn_fd_write(streaming->fd, data, bytes)) streaming->error = errno;
    return !streaming->error;
}

static enum lvn_status stream_work(struct lvn_worker_pool *pool, struct lvn_http *http)
{
    struct streaming *streaming = pool->context;
    streaming->pool = pool;
    enum lvn_status status = streaming->location.store->read(&streaming->location, http, &streaming->object, 0,
                                                             streaming->object.bytes, stream_data, streaming);
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

static enum lvn_status verify_stream(struct streaming *streaming)
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
    struct lvn_worker_pool pool = {.work = stream_work,
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
    return status == LVN_OK ? verify_stream(streaming) : status;
}

static enum lvn_status get_stream(const char *path, const struct lvn_target *to, const char *sha256,
                                  lvn_store_progress *progress, void *context)
{
    struct streaming streaming = {.to = to, .fd = -1};
    LVN_TRY(lvn_location_open(&streaming.location, path));
    enum lvn_status status = stream(&streaming, sha256, progress, context);
    lvn_digest_release(&streaming.digest);
    lvn_location_close(&streaming.location);
    return status;
}

static enum lvn_status get_any(const char *path, const char *local, const char *sha256, bool durable,
                               lvn_store_progress *progress, void *context)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_target target;
    LVN_TRY(lvn_target_find(&a, local, &target));
    if (target.stream) return get_stream(path, &target, sha256, progress, context);
    struct get get = {.writing = PTHREAD_MUTEX_INITIALIZER,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .local = target.path,
                      .sha256 = sha256,
                      .durable = durable,
                      .progress = progress,
                      .context = context};
    LVN_TRY(lvn_location_open(&get.location, path));
    enum lvn_status status = get_file(&get);
    lvn_digest_release(&get.digest);
    lvn_location_close(&get.location);
    return status;
}

enum lvn_status lvn_store_get(const char *path, const char *local, const char *sha256, lvn_store_progress *progress,
                              void *context)
{
    return get_any(path, local, sha256, false, progress, context);
}

enum lvn_status lvn_store_get_durable(const char *path, const char *local, const char *sha256,
                                      lvn_store_progress *progress, void *context)
{
    return get_any(path, local, sha256, true, progress, context);
}

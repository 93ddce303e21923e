/* store_get.c - downloads a file of a store in chunks over several connections at once: lvn_store_get().
 *
 * The chunks are written at their offsets in LOCAL.part. For each finished one a line with its number and CRC-64 is
 * appended to LOCAL.part.done, whose first line identifies the file. A resumed transfer reads its partial file, accepts
 * the chunks whose checksums match, and fetches the others. The checksum of the whole file, the caller's or the
 * store's, is computed during the transfer: the thread that finishes a chunk adds those that are complete from the
 * start; a CRC-64 is combined from those of the chunks, any other checksum reads them again. Nothing is fsynced: after
 * a crash the lost part can be fetched again. A lock on LOCAL.part excludes a second process. Pipes and devices:
 * store_get_stream.c. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/redact.h"
#include "formats/crc.h"
#include "stores/digest.h"
#include "stores/fetch_limit.h"
#include "stores/store_private.h"
#include "stores/worker_pool.h"

/* A file system writes one file for one thread at a time, whatever the offsets: with small writes the threads would
 * wait for each other. */
enum { PIECE_BYTES = 8 << 20, BUFFER_BYTES = 1 << 20, MAX_DONE = 64 << 20 };

struct get {
    struct lvn_location location;
    struct lvn_object object;
    const char *local, *dir, *part, *done;
    const char *sha256;      /* the caller's; NULL: none */
    const char *expected;    /* checksum of the whole file, "sha256:..."; NULL: unknown */
    pthread_mutex_t writing; /* serializes writes to the file, so that waiting threads sleep instead of spinning */
    pthread_mutex_t lock;    /* protects the following fields */
    struct lvn_digest digest;
    int digested;  /* number of leading chunks that `digest` covers */
    uint64_t *sum; /* [n_pieces] CRC-64 of the finished chunks */
    int fd;        /* of `part` */
    int done_fd;   /* of `done`; -1: nothing is recorded */
    int n_pieces;
    bool resumed;        /* some chunks come from an earlier transfer */
    bool existed;        /* `local` existed before the transfer */
    struct stat before;  /* state of `local` before the transfer, if it existed */
    unsigned char *have; /* [n_pieces] the chunk is finished */
    int64_t max;         /* maximum number of bytes if the size is unknown */
    lvn_store_progress *progress;
    void *context;
};

static int64_t piece_bytes(const struct get *g, int i)
{
    int64_t left = g->object.bytes - (int64_t)i * PIECE_BYTES;
    return g->n_pieces == 1 ? g->object.bytes : left < PIECE_BYTES ? left : PIECE_BYTES;
}

static enum lvn_status part_failed(const struct get *g, const char *path)
{
    int error = errno;
    LVN_FAIL(IO, "cannot write '%s' while fetching '%s': %s", path, g->location.url, strerror(error));
}

/* --- one chunk, in a thread of the pool --- */

struct writing {
    struct get *g;
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
        pthread_mutex_lock(&w->g->writing);
        ssize_t n = lvn_files_refuse() ? -1 : pwrite(w->g->fd, p, (size_t)w->bytes, w->offset);
        int error = errno;
        pthread_mutex_unlock(&w->g->writing);
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
    if (w->g->expected && w->g->n_pieces == 1) lvn_digest_add(&w->g->digest, data, bytes);
    const int64_t done = __atomic_add_fetch(&w->pool->done, bytes, __ATOMIC_RELAXED);
    w->too_large = w->g->object.bytes < 0 && done > w->g->max;
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

/* Adds finished chunks to the checksum of the whole file; false if one cannot be read. */
static bool digest_pieces(struct get *g, char *buffer)
{
    while (g->digested < g->n_pieces && __atomic_load_n(&g->have[g->digested], __ATOMIC_ACQUIRE)) {
        int64_t begin = (int64_t)g->digested * PIECE_BYTES, end = begin + piece_bytes(g, g->digested);
        bool joined = lvn_digest_combine(&g->digest, g->sum[g->digested], end - begin);
        while (!joined && begin < end) {
            ssize_t n = pread(g->fd, buffer, (size_t)(end - begin < BUFFER_BYTES ? end - begin : BUFFER_BYTES), begin);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return false;
            lvn_digest_add(&g->digest, buffer, n);
            begin += n;
        }
        g->digested++;
    }
    return true;
}

/* As far as possible, unless another thread is doing it. */
static void try_digest_pieces(struct get *g, char *buffer)
{
    if (!g->expected || g->n_pieces == 1 || pthread_mutex_trylock(&g->lock) != 0) return;
    (void)digest_pieces(g, buffer); /* a read error is reported by verify() */
    pthread_mutex_unlock(&g->lock);
}

/* A lost line only costs the repeated fetch of a chunk, so errors are ignored. */
static void record_piece(const struct get *g, int i)
{
    char line[48];
    if (g->done_fd < 0) return;
    int n = snprintf(line, sizeof line, "%d %016" PRIx64 "\n", i, g->sum[i]);
    (void)!write(g->done_fd, line, (size_t)n);
}

static enum lvn_status fetch_pieces(struct lvn_worker_pool *pool, struct lvn_http *h, char *buffer)
{
    struct get *g = pool->context;
    while (!__atomic_load_n(&pool->stop, __ATOMIC_RELAXED)) {
        int i = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED);
        if (i >= g->n_pieces) break;
        if (g->have[i]) continue;
        struct writing w = {.g = g, .pool = pool, .buffer = buffer, .offset = (int64_t)i * PIECE_BYTES};
        enum lvn_status status =
            g->location.store->read(&g->location, h, &g->object, w.offset, piece_bytes(g, i), on_data, &w);
        if (w.too_large) return lvn_fetch_limit_reached(g->location.url, g->max);
        if (status == LVN_OK) (void)flush(&w);
        if (w.error) {
            errno = w.error;
            return part_failed(g, g->part);
        }
        LVN_TRY(status);
        g->sum[i] = w.sum;
        record_piece(g, i);
        __atomic_store_n(&g->have[i], 1, __ATOMIC_RELEASE);
        try_digest_pieces(g, buffer);
    }
    return LVN_OK;
}

static enum lvn_status work(struct lvn_worker_pool *pool, struct lvn_http *h)
{
    char *buffer = lvn_malloc(BUFFER_BYTES);
    if (!buffer) return LVN_MEMORY;
    enum lvn_status status = fetch_pieces(pool, h, buffer);
    free(buffer);
    return status;
}

/* --- resuming --- */

/* The first line of LOCAL.part.done. */
static char *headline(struct get *g)
{
    char *url = lvn_arena_strdup(&g->location.arena, g->location.url);
    if (!url) return NULL;
    (void)lvn_secrets_hide(url);
    return lvn_arena_printf(&g->location.arena, "levin pieces, crc64, %d of %lld bytes of %s %s\n", PIECE_BYTES,
                            (long long)g->object.bytes, url, g->object.version);
}

static bool piece_agrees(const struct get *g, int i, const char *sum, char *buffer)
{
    int64_t begin = (int64_t)i * PIECE_BYTES, bytes = piece_bytes(g, i);
    ssize_t n = pread(g->fd, buffer, (size_t)bytes, begin);
    if (n != bytes) return false;
    g->sum[i] = lvn_crc64nvme(0, buffer, bytes);
    return g->sum[i] == strtoull(sum, NULL, 16);
}

/* Finds the finished chunks of an interrupted transfer; returns their bytes. */
static int64_t find_done_pieces(struct get *g, const char *text, const char *head)
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
        if (whole && i >= 0 && i < g->n_pieces && !g->have[i] && piece_agrees(g, (int)i, end + 1, buffer)) {
            g->have[i] = 1;
            bytes += piece_bytes(g, (int)i);
        }
        if (!*strchrnul(line, '\n')) break;
    }
    free(buffer);
    return bytes;
}

/* Finds the finished chunks (*bytes: their size) and opens LOCAL.part.done for the others. */
static enum lvn_status prepare(struct get *g, int64_t *bytes)
{
    char *text = NULL, *head = headline(g);
    int64_t length;
    bool known = g->object.ranges && (g->object.version[0] || g->sha256);
    *bytes = 0;
    g->done_fd = -1;
    if (!head) return LVN_MEMORY;
    memset(g->have, 0, (size_t)g->n_pieces);
    g->digested = 0;
    lvn_digest_release(&g->digest); /* of the first attempt */
    if (g->expected) lvn_digest_init(&g->digest, g->expected);
    if (known && g->n_pieces > 1 && lvn_path_is_file(g->done)) {
        if (lvn_file_read(g->done, MAX_DONE, &text, &length) == LVN_OK) *bytes = find_done_pieces(g, text, head);
        lvn_error_clear();
        free(text);
    }
    g->resumed = *bytes > 0;
    if (ftruncate(g->fd, g->resumed && g->object.bytes >= 0 ? g->object.bytes : 0) != 0) return part_failed(g, g->part);
    if (!known || g->n_pieces == 1) return LVN_OK;
    const int flags = O_WRONLY | O_CREAT | O_APPEND | (g->resumed ? 0 : O_TRUNC);
    if (lvn_file_open_nofollow(g->done, flags, &g->done_fd) != LVN_OK)
        lvn_error_clear(); /* without it an interrupted transfer cannot resume */
    if (g->done_fd >= 0 && !g->resumed) (void)!write(g->done_fd, head, strlen(head));
    return LVN_OK;
}

static enum lvn_status fetch(struct get *g)
{
    struct lvn_worker_pool pool = {.work = work,
                                   .context = g,
                                   .network = g->location.store->network,
                                   .progress = g->progress,
                                   .progress_context = g->context,
                                   .total = g->object.bytes > 0 ? g->object.bytes : 0};
    LVN_TRY(prepare(g, &pool.done));
    LVN_TRY(lvn_fetch_limit_find(g->location.url, g->dir, g->object.bytes, pool.done, &g->max));
    int64_t left = g->object.bytes < 0 ? 1 : (g->object.bytes - pool.done + PIECE_BYTES - 1) / PIECE_BYTES;
    enum lvn_status status = lvn_worker_pool_run(&pool, lvn_worker_pool_size(g->n_pieces == 1 ? 1 : left));
    if (g->done_fd >= 0) close(g->done_fd);
    g->done_fd = -1;
    return status;
}

/* --- the whole file --- */

static enum lvn_status verify(struct get *g)
{
    struct stat s;
    char found[LVN_DIGEST_TEXT], *buffer;
    LVN_CHECK(fstat(g->fd, &s) == 0 && (g->object.bytes < 0 || s.st_size == g->object.bytes), FORMAT,
              "'%s' arrived with %lld bytes instead of %lld", g->location.url, (long long)s.st_size,
              (long long)g->object.bytes);
    if (!g->expected) return LVN_OK;
    if (!(buffer = lvn_malloc(BUFFER_BYTES))) return LVN_MEMORY;
    bool read = g->n_pieces == 1 || digest_pieces(g, buffer);
    free(buffer);
    LVN_CHECK(read, IO, "cannot read '%s': %s", g->part, strerror(errno));
    lvn_digest_finish(&g->digest, found);
    LVN_CHECK(strcasecmp(found, g->expected) == 0, FORMAT,
              "'%s' is not the file that %s: its %s is %s, it should be %s; the download was discarded",
              g->location.url, g->sha256 ? "was expected" : "the store describes", lvn_digest_name(found),
              strchr(found, ':') + 1, strchr(g->expected, ':') + 1);
    return LVN_OK;
}

static enum lvn_status fetch_whole(struct get *g)
{
    LVN_TRY(fetch(g));
    enum lvn_status status = verify(g);
    if (status == LVN_FORMAT && g->resumed) { /* the resumed part was damaged: fetch everything again */
        lvn_error_clear();
        unlink(g->done);
        LVN_TRY(fetch(g));
        status = verify(g);
    }
    if (status == LVN_FORMAT) {
        unlink(g->done);
        unlink(g->part);
    }
    LVN_TRY(status);
    LVN_TRY(lvn_file_rename(g->part, g->local));
    unlink(g->done);
    return LVN_OK;
}

/* Has another process downloaded the file since this one began? */
static bool was_replaced(const struct get *g)
{
    struct stat now;
    if (stat(g->local, &now) != 0 || !S_ISREG(now.st_mode) || now.st_size != g->object.bytes) return false;
    return !g->existed || now.st_ino != g->before.st_ino || now.st_mtim.tv_sec != g->before.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != g->before.st_mtim.tv_nsec;
}

/* Opens and locks LOCAL.part; the process that held the lock may have renamed or removed it meanwhile. */
static enum lvn_status open_part(struct get *g)
{
    struct stat mine, named;
    while (!was_replaced(g)) {
        if (lvn_files_refuse()) return part_failed(g, g->part);
        LVN_TRY_WHILE(lvn_file_open_nofollow(g->part, O_RDWR | O_CREAT, &g->fd), "fetching '%s'", g->location.url);
        (void)!flock(g->fd, LOCK_EX); /* without file locks: proceed */
        bool ours = fstat(g->fd, &mine) != 0 ||
                    (stat(g->part, &named) == 0 && mine.st_ino == named.st_ino && mine.st_dev == named.st_dev);
        if (ours && !was_replaced(g)) return LVN_OK;
        if (ours) unlink(g->part);
        close(g->fd);
        g->fd = -1;
    }
    return LVN_OK;
}

/* Verifies a file that another process downloaded against the caller's checksum; that process has verified the
 * store's. */
static enum lvn_status check_replaced(const struct get *g)
{
    char found[LVN_DIGEST_TEXT];
    if (!g->sha256) return LVN_OK;
    LVN_TRY(lvn_digest_file(g->local, g->expected, found));
    LVN_CHECK(strcasecmp(found, g->expected) == 0, FORMAT,
              "'%s' is not the file that was expected: its SHA-256 is %s, it should be %s", g->local,
              strchr(found, ':') + 1, g->sha256);
    return LVN_OK;
}

static enum lvn_status stat_object(struct get *g)
{
    struct lvn_http *h = NULL;
    if (g->location.store->network) LVN_TRY(lvn_http_open(&h));
    enum lvn_status status = g->sha256 ? g->location.store->stat(&g->location, h, &g->object)
                                       : lvn_location_stat(&g->location, h, &g->object);
    lvn_http_close(h);
    LVN_TRY(status);
    LVN_CHECK(g->object.kind != LVN_STORE_FOLDER, IO, "'%s' is a folder; a file was wanted", g->location.url);
    LVN_CHECK(g->object.kind == LVN_STORE_FILE, IO, "there is no file '%s'", g->location.url);
    LVN_CHECK(g->object.bytes / PIECE_BYTES < INT32_MAX, UNSUPPORTED, "'%s' is too large", g->location.url);
    bool pieces = g->object.ranges && g->object.bytes > PIECE_BYTES;
    g->n_pieces = pieces ? (int)((g->object.bytes + PIECE_BYTES - 1) / PIECE_BYTES) : 1;
    g->have = lvn_arena_alloc(&g->location.arena, (size_t)g->n_pieces);
    g->sum = lvn_arena_alloc(&g->location.arena, (size_t)g->n_pieces * sizeof *g->sum);
    g->expected = g->sha256               ? lvn_arena_printf(&g->location.arena, "sha256:%s", g->sha256)
                  : g->object.checksum[0] ? g->object.checksum
                                          : NULL;
    return g->have && g->sum && (g->expected || !g->sha256) ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status get(struct get *g)
{
    struct lvn_arena *a = &g->location.arena;
    const char *dir = g->dir = lvn_path_dir(a, g->local);
    g->part = lvn_arena_printf(a, "%s.part", g->local);
    g->done = lvn_arena_printf(a, "%s.part.done", g->local);
    if (!dir || !g->part || !g->done) return LVN_MEMORY;
    g->fd = -1;
    g->existed = stat(g->local, &g->before) == 0;
    LVN_TRY(stat_object(g));
    LVN_TRY(lvn_dir_make(dir));
    LVN_TRY(open_part(g));
    if (g->fd < 0) return check_replaced(g);
    enum lvn_status status = fetch_whole(g);
    struct stat s;
    const bool empty = fstat(g->fd, &s) == 0 && s.st_size == 0;
    close(g->fd);
    const bool lasts =
        g->location.store->network && g->object.bytes >= 0; /* otherwise the next transfer starts from the beginning */
    if (status != LVN_OK && (empty || !lasts)) unlink(g->part);
    LVN_TRY(status);
    return lvn_dir_sync(dir);
}

enum lvn_status lvn_store_get(const char *path, const char *local, const char *sha256, lvn_store_progress *progress,
                              void *context)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_target target;
    LVN_TRY(lvn_target_find(&a, local, &target));
    if (target.stream) return lvn_get_stream(path, &target, sha256, progress, context);
    struct get g = {.writing = PTHREAD_MUTEX_INITIALIZER,
                    .lock = PTHREAD_MUTEX_INITIALIZER,
                    .local = target.path,
                    .sha256 = sha256,
                    .progress = progress,
                    .context = context};
    LVN_TRY(lvn_location_open(&g.location, path));
    enum lvn_status status = get(&g);
    lvn_digest_release(&g.digest);
    lvn_location_close(&g.location);
    return status;
}

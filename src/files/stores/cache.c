/* cache.c - see cache.h. */
#include "stores/cache.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/getenv.h"
#include "base/log.h"
#include "base/redact.h"
#include "base/text.h"
#include "base/work.h"
#include "formats/checksum.h"
#include "stores/fetch_limit.h"
#include "stores/store_private.h"

enum { MAX_FACTS = 4096, MAX_NAME = 200, LOG_BYTES = 32 << 20 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static time_t first_use; /* of any file, by this process */

static void set_first_use(void)
{
    first_use = time(NULL);
}

/* BUCKET and KEY without secrets, as names of folders and files. */
static enum lvn_status safe_names(struct lvn_arena *a, const struct lvn_location *location, const char **bucket,
                                  const char **key)
{
    char *host = lvn_arena_printf(a, "://%s", location->bucket), *rest = lvn_arena_strdup(a, *key);
    if (!host || !rest) return LVN_MEMORY;
    (void)lvn_secrets_hide(host);
    (void)lvn_secrets_hide(rest);
    *bucket = host + 3;
    *key = rest;
    return LVN_OK;
}

enum lvn_status lvn_store_cache_path(struct lvn_arena *a, const struct lvn_location *location, const char *key,
                                     const char **file, const char **facts)
{
    const char *bucket, *files, *all_facts,
        *address = location->store->endpoint ? location->store->endpoint(location) : "";
    char hash[LVN_CHECKSUM_TEXT];
    LVN_TRY(lvn_cache_folder(a, "files", &files));
    LVN_TRY(lvn_cache_folder(a, "facts", &all_facts));
    LVN_TRY(safe_names(a, location, &bucket, &key));
    lvn_checksum_text(lvn_checksum(address, (int64_t)strlen(address)), hash);
    char name[LVN_CHECKSUM_TEXT];
    if (strlen(lvn_path_name(key)) > MAX_NAME) { /* for example a URL with many parameters */
        const char *dir = lvn_path_dir(a, key);
        lvn_checksum_text(lvn_checksum(key, (int64_t)strlen(key)), name);
        key = dir ? lvn_path_join(a, dir, name) : NULL;
        if (!key) return LVN_MEMORY;
    }
    const char *below = lvn_arena_printf(a, "%.*s/%s%s%.8s/%s", (int)strcspn(location->url, ":"), location->url, bucket,
                                         *address ? "@" : "", *address ? hash : "", key);
    *file = below ? lvn_path_join(a, files, below) : NULL;
    *facts = below ? lvn_path_join(a, all_facts, below) : NULL;
    return *file && *facts ? LVN_OK : LVN_MEMORY;
}

void lvn_store_cache_touch(const char *facts)
{
    pthread_once(&once, set_first_use);
    (void)!utimensat(AT_FDCWD, facts, NULL, 0);
}

void lvn_store_cache_release(const char *facts)
{
    pthread_once(&once, set_first_use);
    const struct timespec before = {.tv_sec = first_use - 1}, times[2] = {before, before};
    (void)!utimensat(AT_FDCWD, facts, times, 0);
}

size_t lvn_store_cache_part(const char *name)
{
    const size_t n = strlen(name);
    return lvn_ends_with(name, ".part") ? n - 5 : lvn_ends_with(name, ".part.done") ? n - 10 : 0;
}

/* True if a process holds the lock of NAME.part, see store_get.c. */
static bool is_in_progress(const char *file)
{
    char part[PATH_MAX];
    const size_t n = lvn_store_cache_part(file);
    if (!n || !lvn_fit(part, sizeof part, "%.*s.part", (int)n, file)) return false;
    const int fd = open(part, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    const bool locked = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0) close(fd);
    return locked;
}

bool lvn_store_cache_drop(const char *file, const char *facts)
{
    if (is_in_progress(file)) return false;
    unlink(facts);
    unlink(file);
    return true;
}

/* --- facts --- */

struct facts {
    long long bytes;   /* of the local file */
    long long seconds; /* its modification time after the download */
    long nanoseconds;
    char sum[LVN_CHECKSUM_TEXT];
    char version[160]; /* of the file in the store */
};

static bool read_facts(const char *path, struct facts *facts)
{
    char *text = NULL;
    int64_t bytes;
    bool good = lvn_path_is_file(path) && lvn_file_read(path, MAX_FACTS, &text, &bytes) == LVN_OK;
    good = good && sscanf(text, "%lld %lld.%ld %16s %159[^\n]", &facts->bytes, &facts->seconds, &facts->nanoseconds,
                          facts->sum, facts->version) == 5;
    free(text);
    lvn_error_clear();
    return good;
}

static enum lvn_status checksum_of(const char *path, char text[LVN_CHECKSUM_TEXT])
{
    struct lvn_mapping mapping;
    LVN_TRY(lvn_file_map(&mapping, path));
    lvn_checksum_text(lvn_checksum(mapping.data, mapping.bytes), text);
    lvn_file_unmap(&mapping);
    return LVN_OK;
}

static enum lvn_status write_facts(struct lvn_arena *a, const char *file, const char *facts,
                                   const struct lvn_object *object)
{
    struct stat s;
    char sum[LVN_CHECKSUM_TEXT], *dir = lvn_path_dir(a, facts);
    if (!dir) return LVN_MEMORY;
    LVN_TRY(checksum_of(file, sum));
    LVN_CHECK(stat(file, &s) == 0, IO, "cannot read '%s': %s", file, strerror(errno));
    char *text = lvn_arena_printf(a, "%lld %lld.%09ld %s %s\n", (long long)s.st_size, (long long)s.st_mtim.tv_sec,
                                  s.st_mtim.tv_nsec, sum, object->version);
    if (!text) return LVN_MEMORY;
    LVN_TRY(lvn_dir_make(dir));
    return lvn_file_write(facts, text, (int64_t)strlen(text));
}

/* True if the local file is the store's current version and unmodified. If only its time has changed, its checksum
 * decides. */
static bool is_good(const char *file, const char *facts_path, const struct lvn_object *object)
{
    struct facts facts;
    struct stat s;
    char sum[LVN_CHECKSUM_TEXT];
    if (!object->version[0] || stat(file, &s) != 0 || !read_facts(facts_path, &facts)) return false;
    if (strcmp(facts.version, object->version) != 0 || s.st_size != facts.bytes ||
        (object->bytes >= 0 && object->bytes != facts.bytes))
        return false;
    if (s.st_mtim.tv_sec == facts.seconds && s.st_mtim.tv_nsec == facts.nanoseconds) return true;
    bool same = checksum_of(file, sum) == LVN_OK && strcmp(sum, facts.sum) == 0;
    lvn_error_clear();
    return same;
}

/* --- the limit --- */

struct cached {
    const char *name;
    int64_t bytes;
    struct timespec used;
};

static int oldest_first(const void *a, const void *b)
{
    const struct cached *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec) return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return x->used.tv_nsec < y->used.tv_nsec ? -1 : x->used.tv_nsec > y->used.tv_nsec;
}

/* All files in the cache with size and time of their last use, least recently used first. */
static enum lvn_status list_by_age(struct lvn_arena *a, const char *files, const char *facts, struct cached **cached,
                                   int *n, int64_t *total)
{
    struct lvn_store_entries all = {0};
    *n = 0;
    *total = 0;
    if (lvn_path_is_dir(files)) LVN_TRY(lvn_store_list(a, files, true, &all));
    *cached = lvn_arena_alloc(a, (size_t)(all.n + 1) * sizeof **cached);
    if (!*cached) return LVN_MEMORY;
    for (int i = 0; i < all.n; i++) {
        struct stat s = {0};
        const char *path = lvn_path_join(a, facts, all.entry[i].name);
        if (!path) return LVN_MEMORY;
        const char *file = lvn_path_join(a, files, all.entry[i].name);
        if (!file) return LVN_MEMORY;
        if (stat(path, &s) != 0) (void)!stat(file, &s); /* it has no facts while another thread downloads it */
        (*cached)[(*n)++] = (struct cached){all.entry[i].name, all.entry[i].bytes, s.st_mtim};
        *total += all.entry[i].bytes;
    }
    qsort(*cached, (size_t)*n, sizeof **cached, oldest_first);
    return LVN_OK;
}

enum lvn_status lvn_store_cache_evict(struct lvn_arena *a, const char *files, const char *facts, int64_t bytes,
                                      int64_t *excess)
{
    int64_t total, max;
    struct cached *cached;
    int n;
    *excess = 0;
    LVN_TRY(lvn_size_variable("LEVIN_CACHE_SIZE", &max));
    if (max == INT64_MAX) return LVN_OK;
    pthread_once(&once, set_first_use);
    LVN_TRY(list_by_age(a, files, facts, &cached, &n, &total));
    for (int i = 0; i < n && total + bytes > max && cached[i].used.tv_sec < first_use; i++) {
        const char *file = lvn_path_join(a, files, cached[i].name), *fact = lvn_path_join(a, facts, cached[i].name);
        if (!file || !fact) return LVN_MEMORY;
        if (lvn_store_cache_drop(file, fact)) total -= cached[i].bytes;
    }
    *excess = total + bytes - max;
    return LVN_OK;
}

static enum lvn_status evict(struct lvn_arena *a, const struct lvn_location *location, int64_t bytes)
{
    const char *files, *facts;
    int64_t excess, max;
    LVN_TRY(lvn_size_variable("LEVIN_CACHE_SIZE", &max));
    LVN_CHECK(bytes <= max, IO, "'%s' has %lld bytes, more than the limit of the cache: increase LEVIN_CACHE_SIZE",
              location->url, (long long)bytes);
    LVN_TRY(lvn_cache_folder(a, "files", &files));
    LVN_TRY(lvn_cache_folder(a, "facts", &facts));
    LVN_TRY(lvn_store_cache_evict(a, files, facts, bytes, &excess));
    LVN_CHECK(
        excess <= 0, IO,
        "no space for '%s' in the cache: this run already uses %lld bytes of the %lld that LEVIN_CACHE_SIZE allows",
        location->url, (long long)(max + excess - bytes), (long long)max);
    return LVN_OK;
}

/* --- download --- */

static enum lvn_status download_if_stale(struct lvn_location *location, struct lvn_http *http,
                                         lvn_store_progress *progress, void *context, const char **local,
                                         const char *facts)
{
    struct lvn_object object;
    struct lvn_arena *a = &location->arena;
    LVN_TRY(location->store->stat(location, http, &object));
    LVN_CHECK(object.kind == LVN_STORE_FILE, IO, "file '%s' not found", location->url);
    if (is_good(*local, facts, &object)) {
        lvn_store_cache_touch(facts);
        return LVN_OK;
    }
    /* The old file remains until the new one replaces it, because another rank may be about to open it if the store has
     * no versions and every rank downloads for itself. Without facts the old file is never used as valid. */
    unlink(facts);
    LVN_TRY(evict(a, location, object.bytes > 0 ? object.bytes : 0));
    if (object.bytes > LOG_BYTES)
        lvn_log(LVN_LOG_INFO, "fetching '%s', %lld MiB", location->url, (long long)(object.bytes >> 20));
    LVN_TRY(lvn_store_get_durable(location->url, *local, NULL, progress, context));
    return write_facts(a, *local, facts, &object);
}

enum lvn_status lvn_store_cache_lock(int fd, lvn_store_progress *progress, void *context)
{
    static const struct timespec pause = {.tv_nsec = 50000000};
    while (flock(fd, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
        LVN_TRY(lvn_interrupt_check());
        LVN_CHECK(!progress || progress(context, 0, 0) == 0, STOPPED,
                  "stopped while another process downloads the same file");
        (void)nanosleep(&pause, NULL);
    }
    return LVN_OK;
}

/* The ranks of a run on one machine need the same files: one rank downloads each file, the others wait for it. */
static enum lvn_status open_lock(struct lvn_arena *a, const char *path, int *fd)
{
    const char *locks;
    char hash[LVN_CHECKSUM_TEXT];
    LVN_TRY(lvn_cache_folder(a, "locks", &locks));
    lvn_checksum_text(lvn_checksum(path, (int64_t)strlen(path)), hash);
    const char *name = lvn_path_join(a, locks, hash);
    if (!name) return LVN_MEMORY;
    *fd = open(name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return LVN_OK;
}

enum lvn_status lvn_store_cache_download(struct lvn_location *location, struct lvn_http *http,
                                         lvn_store_progress *progress, void *context, const char **local)
{
    const char *facts;
    int fd;
    pthread_once(&once, set_first_use);
    LVN_TRY(lvn_store_cache_path(&location->arena, location, location->key, local, &facts));
    LVN_TRY(open_lock(&location->arena, *local, &fd));
    enum lvn_status status = fd >= 0 ? lvn_store_cache_lock(fd, progress, context) : LVN_OK;
    if (status == LVN_OK) status = download_if_stale(location, http, progress, context, local, facts);
    if (fd >= 0) close(fd);
    return status;
}

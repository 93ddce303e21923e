/* encoded_cache.c - see encoded_cache.h. */
#include "data/texts/encoded_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "host/cache_dir.h"
#include "stores/cache.h"
#include "stores/lease/lease.h"

#define CANNOT_WRITE "cannot write '%s': %s; free some space, or set LEVIN_CACHE to another folder"

enum { FLUSH_BYTES = 8 << 20 };
static const double lease_seconds = 30; /* another host takes over after this time without a renewal */

struct header {
    char magic[8];
    uint64_t key, sum;
    int64_t bytes;
};
struct place {
    uint64_t key;
    const char *folder, *path; /* of the file */
    const char *part, *lock;   /* that it is made under, with letters added, and its lock */
    const char *shared;        /* the folder of the file in data.cache; NULL: none */
};
/* Which rank or host encodes the data. */
struct maker {
    enum lvn_status (*make)(void *context, struct lvn_encoded_output *out);
    void *context;
};
static const char magic[8] = {'L', 'V', 'N', 'E', 'N', 'C', '0', '1'};

enum lvn_status lvn_encoded_flush(struct lvn_encoded_output *out)
{
    struct lvn_text *t = out->text;
    LVN_TRY(lvn_text_status(t));
    if (!out->file || t->n < FLUSH_BYTES) return LVN_OK;
    lvn_checksum_add(&out->sum, t->p, t->n);
    LVN_CHECK(fwrite(t->p, 1, (size_t)t->n, out->file) == (size_t)t->n, IO, CANNOT_WRITE, out->path, strerror(errno));
    out->written += t->n;
    lvn_text_clear(t);
    return LVN_OK;
}

/* Map the file if it is complete and has these contents. */
static bool map_file(struct lvn_encoded *e, const struct place *place)
{
    struct header h;
    const enum lvn_status status = lvn_path_is_file(place->path) ? lvn_file_map(&e->map, place->path) : LVN_IO;
    bool good = status == LVN_OK && e->map.bytes >= (int64_t)sizeof h;
    if (good) {
        memcpy(&h, e->map.data, sizeof h);
        good = !memcmp(h.magic, magic, sizeof magic) && h.key == place->key &&
               h.bytes == e->map.bytes - (int64_t)sizeof h && lvn_checksum(e->map.data + sizeof h, h.bytes) == h.sum;
    }
    lvn_error_clear();
    if (!good) {
        lvn_file_unmap(&e->map);
        e->map = (struct lvn_mapping){0};
        return false;
    }
    e->data = (const char *)e->map.data + sizeof h;
    e->bytes = h.bytes;
    lvn_store_cache_touch(place->path);
    return true;
}

/* Remove old files until one of `bytes` fits into the folder. */
static enum lvn_status make_room(struct lvn_arena *a, const char *folder, int64_t bytes)
{
    int64_t excess;
    LVN_TRY(lvn_store_cache_evict(a, folder, folder, bytes, &excess));
    LVN_CHECK(excess <= 0, IO,
              "the encoded data have %lld bytes, %lld more than LEVIN_CACHE_SIZE leaves in '%s' beside those that this "
              "run uses: increase it",
              (long long)bytes, (long long)excess, folder);
    return LVN_OK;
}

/* Remove what killed processes have left, after a day. */
static enum lvn_status clean(struct lvn_arena *a, const char *folder)
{
    enum { DAY = 24 * 60 * 60 };
    const char *const *names;
    int n;
    LVN_TRY(lvn_dir_list(a, folder, &names, &n));
    for (int i = 0; i < n; i++) {
        const char *path = lvn_path_join(a, folder, names[i]);
        struct stat s;
        if (!path) return LVN_MEMORY;
        if (stat(path, &s) == 0 && S_ISREG(s.st_mode) && s.st_mtim.tv_sec < time(NULL) - DAY) (void)unlink(path);
    }
    return LVN_OK;
}

/* Write the rest and the header, and give the file its name. */
static enum lvn_status finish(struct lvn_encoded_output *out, struct lvn_arena *a, const struct place *place)
{
    struct lvn_text *t = out->text;
    if (t->n) lvn_checksum_add(&out->sum, t->p, t->n);
    struct header h = {.key = place->key, .sum = lvn_checksum_value(&out->sum), .bytes = out->written + t->n};
    memcpy(h.magic, magic, sizeof magic);
    const bool good = (!t->n || fwrite(t->p, 1, (size_t)t->n, out->file) == (size_t)t->n) &&
                      fseek(out->file, 0, SEEK_SET) == 0 && fwrite(&h, sizeof h, 1, out->file) == 1 &&
                      fflush(out->file) == 0;
    LVN_CHECK(good, IO, CANNOT_WRITE, out->path, strerror(errno));
    lvn_text_release(t);
    LVN_TRY(make_room(a, place->folder, h.bytes + (int64_t)sizeof h));
    return lvn_file_rename(out->path, place->path);
}

/* Make the data, in the file if there is one. */
static enum lvn_status fill(struct lvn_encoded *e, struct lvn_encoded_output *out, struct maker m)
{
    lvn_checksum_init(&out->sum);
    out->text = &e->text;
    LVN_TRY(m.make(m.context, out));
    LVN_TRY(lvn_text_status(&e->text));
    if (out->file) return LVN_OK;
    e->data = lvn_text_string(&e->text);
    e->bytes = e->text.n;
    return LVN_OK;
}

static enum lvn_status make_file(struct lvn_encoded *e, struct lvn_arena *a, const struct place *place, struct maker m)
{
    const struct header none = {{0}, 0, 0, 0};
    /* processes on several hosts, or in several containers, may share the folder and have the same number */
    char *name = lvn_arena_printf(a, "%s.XXXXXX", place->part);
    if (!name) return LVN_MEMORY;
    struct lvn_encoded_output out = {.path = name};
    const int fd = mkostemp(name, O_CLOEXEC);
    out.file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (out.file && fwrite(&none, sizeof none, 1, out.file) != 1) {
        fclose(out.file);
        out.file = NULL;
    }
    enum lvn_status status = fill(e, &out, m);
    if (!out.file) return status;
    if (status == LVN_OK) status = finish(&out, a, place);
    fclose(out.file);
    if (status != LVN_OK) (void)unlink(out.path);
    LVN_TRY(status);
    LVN_CHECK(map_file(e, place), IO, "'%s' was written, and cannot be read: the disk is damaged or full", place->path);
    return LVN_OK;
}

/* --- data.cache --- */

/* Download the file; *found false: there is none, or it is damaged. */
static enum lvn_status download(struct lvn_encoded *e, struct lvn_arena *a, const struct place *place, const char *file,
                                bool *found)
{
    enum lvn_store_kind kind;
    int64_t bytes;
    LVN_TRY(lvn_store_stat(file, &kind, &bytes));
    *found = kind == LVN_STORE_FILE;
    if (!*found) return LVN_OK;
    LVN_TRY(make_room(a, place->folder, bytes));
    LVN_TRY(lvn_store_get(file, place->path, NULL, NULL, NULL));
    *found = map_file(e, place);
    lvn_log(*found ? LVN_LOG_INFO : LVN_LOG_WARN,
            *found ? "the encoded data are those of '%s'" : "'%s' is damaged: the data are encoded again", file);
    return LVN_OK;
}

/* Make the file, and put it into data.cache for other hosts. */
static enum lvn_status make_shared(struct lvn_encoded *e, struct lvn_arena *a, const struct place *place,
                                   const char *file, struct maker m)
{
    bool found;
    LVN_TRY(download(e, a, place, file, &found)); /* another host may have made it just now */
    if (found) return LVN_OK;
    LVN_TRY(make_file(e, a, place, m));
    LVN_CHECK(e->map.data, IO, "cannot write the encoded data below '%s': set LEVIN_CACHE to another folder",
              place->folder);
    return lvn_store_put(place->path, file, NULL, NULL);
}

static enum lvn_status open_shared(struct lvn_encoded *e, struct lvn_arena *a, const struct place *place,
                                   struct maker m)
{
    const char *file = lvn_store_join(a, place->shared, "encoded");
    bool found = false, busy = false, waited = false;
    const struct lvn_lease_options options = {
        .path = place->shared, .lock = "", .seconds = lease_seconds, .busy = &busy};
    struct lvn_lease *lease = NULL;
    if (!file) return LVN_MEMORY;
    if (!lvn_store_is_remote(place->shared)) LVN_TRY(lvn_dir_make(place->shared));
    do {
        LVN_TRY(download(e, a, place, file, &found));
        if (found) return LVN_OK;
        busy = false;
        LVN_TRY(lvn_lease_acquire(&lease, &options, &waited));
    } while (busy);
    enum lvn_status status = make_shared(e, a, place, file, m);
    lvn_lease_release(lease);
    return status;
}

static enum lvn_status open_or_make(struct lvn_encoded *e, struct lvn_arena *a, const struct place *place,
                                    struct maker m)
{
    if (map_file(e, place)) return LVN_OK;
    if (!place->shared) return make_file(e, a, place, m);
    LVN_TRY_WHILE(open_shared(e, a, place, m), "using data.cache");
    return LVN_OK;
}

enum lvn_status lvn_encoded_open(struct lvn_encoded *e, uint64_t key, const char *shared,
                                 enum lvn_status (*make)(void *context, struct lvn_encoded_output *out), void *context)
{
    LVN_LOCAL_ARENA(a);
    char name[LVN_CHECKSUM_TEXT];
    const char *folder, *parts;
    const struct maker m = {make, context};
    *e = (struct lvn_encoded){0};
    if (shared && *shared && !lvn_store_is_remote(shared))
        LVN_TRY(lvn_store_download(&a, shared, LVN_WANT_ALL, &shared)); /* a path without its scheme */
    enum lvn_status status = lvn_cache_folder(&a, "encoded", &folder);
    if (status == LVN_OK) status = lvn_cache_folder(&a, "encoded-new", &parts);
    if (status != LVN_OK) {
        struct lvn_encoded_output out = {0};
        if (shared && *shared) LVN_TRY_WHILE(status, "using data.cache");
        lvn_log(LVN_LOG_INFO, "the encoded data stay in memory: %s", levin_error_text());
        lvn_error_clear();
        return fill(e, &out, m);
    }
    lvn_checksum_text(key, name);
    const struct place place = {.key = key,
                                .folder = folder,
                                .path = lvn_path_join(&a, folder, name),
                                .part = lvn_path_join(&a, parts, name),
                                .lock = lvn_arena_printf(&a, "%s/%s.lock", parts, name),
                                .shared = shared && *shared ? lvn_store_join(&a, shared, name) : NULL};
    if (!place.path || !place.part || !place.lock || (shared && *shared && !place.shared)) return LVN_MEMORY;
    if (map_file(e, &place)) return LVN_OK;
    LVN_TRY(clean(&a, parts));
    const int fd = open(place.lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    /* without file locks, each process makes the file, with the same contents */
    if (fd >= 0) status = lvn_store_cache_lock(fd, NULL, NULL);
    if (status == LVN_OK) {
        status = open_or_make(e, &a, &place, m);
        if (fd >= 0) (void)unlink(place.lock);
    }
    if (fd >= 0) close(fd);
    return status;
}

void lvn_encoded_release(struct lvn_encoded *e)
{
    lvn_text_release(&e->text);
    lvn_file_unmap(&e->map);
    *e = (struct lvn_encoded){0};
}

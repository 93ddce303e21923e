/* encoded_cache.c - see encoded_cache.h. */
#include "data/texts/encoded_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/log.h"
#include "host/cache_dir.h"

#define CANNOT_WRITE "cannot write '%s': %s; free some space, or set LEVIN_CACHE to another folder"

enum { FLUSH_BYTES = 8 << 20 };

struct header {
    char magic[8];
    uint64_t key, sum;
    int64_t bytes;
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

/* Maps the file if it is complete and has these contents. */
static bool map_file(struct lvn_encoded *e, const char *path, uint64_t key)
{
    struct header h;
    const enum lvn_status status = lvn_path_is_file(path) ? lvn_file_map(&e->map, path) : LVN_IO;
    bool good = status == LVN_OK && e->map.bytes >= (int64_t)sizeof h;
    if (good) {
        memcpy(&h, e->map.data, sizeof h);
        good = !memcmp(h.magic, magic, sizeof magic) && h.key == key && h.bytes == e->map.bytes - (int64_t)sizeof h &&
               lvn_checksum(e->map.data + sizeof h, h.bytes) == h.sum;
    }
    lvn_error_clear();
    if (!good) {
        lvn_file_unmap(&e->map);
        e->map = (struct lvn_mapping){0};
        return false;
    }
    e->data = (const char *)e->map.data + sizeof h;
    e->bytes = h.bytes;
    return true;
}

/* Writes the rest and the header, and gives the file its name. */
static enum lvn_status finish(struct lvn_encoded_output *out, uint64_t key, const char *path)
{
    struct lvn_text *t = out->text;
    if (t->n) lvn_checksum_add(&out->sum, t->p, t->n);
    struct header h = {.key = key, .sum = lvn_checksum_value(&out->sum), .bytes = out->written + t->n};
    memcpy(h.magic, magic, sizeof magic);
    const bool good = (!t->n || fwrite(t->p, 1, (size_t)t->n, out->file) == (size_t)t->n) &&
                      fseek(out->file, 0, SEEK_SET) == 0 && fwrite(&h, sizeof h, 1, out->file) == 1 &&
                      fflush(out->file) == 0;
    LVN_CHECK(good, IO, CANNOT_WRITE, out->path, strerror(errno));
    lvn_text_release(t);
    return lvn_file_rename(out->path, path);
}

/* Makes the data, in the file if there is one. */
static enum lvn_status fill(struct lvn_encoded *e, struct lvn_encoded_output *out,
                            enum lvn_status (*make)(void *context, struct lvn_encoded_output *out), void *context)
{
    lvn_checksum_init(&out->sum);
    out->text = &e->text;
    LVN_TRY(make(context, out));
    LVN_TRY(lvn_text_status(&e->text));
    if (out->file) return LVN_OK;
    e->data = lvn_text_string(&e->text);
    e->bytes = e->text.n;
    return LVN_OK;
}

static enum lvn_status make_file(struct lvn_encoded *e, struct lvn_arena *a, uint64_t key, const char *path,
                                 enum lvn_status (*make)(void *context, struct lvn_encoded_output *out), void *context)
{
    const struct header none = {{0}, 0, 0, 0};
    /* processes on several hosts, or in several containers, may share the folder and have the same number */
    char *name = lvn_arena_printf(a, "%s.XXXXXX", path);
    if (!name) return LVN_MEMORY;
    struct lvn_encoded_output out = {.path = name};
    const int fd = mkostemp(name, O_CLOEXEC);
    out.file = fd < 0 ? NULL : fdopen(fd, "wb");
    if (out.file && fwrite(&none, sizeof none, 1, out.file) != 1) {
        fclose(out.file);
        out.file = NULL;
    }
    enum lvn_status status = fill(e, &out, make, context);
    if (!out.file) return status;
    if (status == LVN_OK) status = finish(&out, key, path);
    fclose(out.file);
    if (status != LVN_OK) (void)unlink(out.path);
    LVN_TRY(status);
    LVN_CHECK(map_file(e, path, key), IO, "'%s' was written, and cannot be read: the disk is damaged or full", path);
    return LVN_OK;
}

enum lvn_status lvn_encoded_open(struct lvn_encoded *e, uint64_t key,
                                 enum lvn_status (*make)(void *context, struct lvn_encoded_output *out), void *context)
{
    LVN_LOCAL_ARENA(a);
    char name[LVN_CHECKSUM_TEXT];
    const char *folder;
    *e = (struct lvn_encoded){0};
    if (lvn_cache_folder(&a, "encoded", &folder) != LVN_OK) {
        struct lvn_encoded_output out = {0};
        lvn_log(LVN_LOG_INFO, "the encoded data stay in memory: %s", levin_error_text());
        lvn_error_clear();
        return fill(e, &out, make, context);
    }
    const char *path = lvn_arena_printf(&a, "%s/%s", folder, lvn_checksum_text(key, name));
    const char *lock = path ? lvn_arena_printf(&a, "%s.lock", path) : NULL;
    if (!lock) return LVN_MEMORY;
    if (map_file(e, path, key)) return LVN_OK;
    const int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)!flock(fd, LOCK_EX); /* without file locks, each process makes the file, with the same contents */
    enum lvn_status status = map_file(e, path, key) ? LVN_OK : make_file(e, &a, key, path, make, context);
    if (fd >= 0) {
        (void)unlink(lock);
        close(fd);
    }
    return status;
}

void lvn_encoded_release(struct lvn_encoded *e)
{
    lvn_text_release(&e->text);
    lvn_file_unmap(&e->map);
    *e = (struct lvn_encoded){0};
}

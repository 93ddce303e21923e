/* checkpoint_write.c - writes a checkpoint (checkpoint.h): all files into a hidden directory, the manifest last, one
 * rename. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "base/files.h"
#include "base/log.h"
#include "base/output.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/checkpoint_private.h"
#include "checkpoints/common_file.h"
#include "checkpoints/manifest.h"

struct lvn_checkpoint_writer {
    struct lvn_arena arena;
    const char *dir, *temporary, *final, *old;
    enum lvn_status status;
    struct lvn_manifest manifest;
    int capacity; /* allocated entries of manifest.file */
    struct written_by_others *others;
};

/* A file whose tensors others write. */
struct written_by_others {
    struct written_by_others *next;
    int file; /* its number in the manifest */
    const struct lvn_safetensors_places *places;
};

static enum lvn_status prepare(struct lvn_checkpoint_writer *w, const char *dir, int64_t step)
{
    LVN_CHECK(step >= 0, ARG, "a checkpoint of step %lld", (long long)step);
    struct lvn_arena *a = &w->arena;
    long long n = step;
    w->manifest = (struct lvn_manifest){.step = step};
    w->dir = lvn_arena_strdup(a, dir);
    w->temporary = lvn_arena_printf(a, "%s/.step-%lld" LVN_TEMPORARY "%ld", dir, n, (long)getpid());
    w->old = lvn_arena_printf(a, "%s/.step-%lld" LVN_REPLACED "%ld", dir, n, (long)getpid());
    w->final = lvn_arena_printf(a, "%s/step-%lld", dir, n);
    char *state = w->temporary ? lvn_path_join(a, w->temporary, "state") : NULL;
    if (!w->dir || !w->temporary || !w->old || !w->final || !state) return LVN_MEMORY;
    LVN_TRY(lvn_dir_make(dir));
    LVN_TRY(lvn_tree_remove(w->temporary));
    return lvn_dir_make(state);
}

enum lvn_status lvn_checkpoint_begin(struct lvn_checkpoint_writer **out, const char *dir, int64_t step)
{
    *out = NULL;
    struct lvn_checkpoint_writer *w = lvn_calloc(1, sizeof *w);
    if (!w) return LVN_MEMORY;
    lvn_arena_init(&w->arena);
    enum lvn_status status = prepare(w, dir, step);
    if (status == LVN_OK)
        *out = w;
    else
        lvn_checkpoint_cancel(w);
    return status;
}

void lvn_checkpoint_cancel(struct lvn_checkpoint_writer *w)
{
    if (!w) return;
    if (w->temporary) lvn_tree_drop(w->temporary);
    lvn_arena_release(&w->arena);
    free(w->manifest.file);
    free(w);
}

static enum lvn_status grow(struct lvn_checkpoint_writer *w)
{
    if (w->manifest.n < w->capacity) return LVN_OK;
    int capacity = w->capacity ? 2 * w->capacity : 16;
    struct lvn_manifest_file *more = lvn_realloc(w->manifest.file, sizeof *more * (size_t)capacity);
    if (!more) return LVN_MEMORY;
    w->manifest.file = more;
    w->capacity = capacity;
    return LVN_OK;
}

/* Adds an entry to the manifest, valid until the next one, and returns the path of its file. */
static enum lvn_status new_file(struct lvn_checkpoint_writer *w, const char *name, struct lvn_manifest_file **file,
                                const char **path)
{
    LVN_TRY(grow(w));
    *file = &w->manifest.file[w->manifest.n];
    **file = (struct lvn_manifest_file){.path = lvn_arena_strdup(&w->arena, name)};
    *path = lvn_path_join(&w->arena, w->temporary, name);
    char *dir = *path ? lvn_path_dir(&w->arena, *path) : NULL;
    if (!(*file)->path || !dir) return LVN_MEMORY;
    LVN_TRY(lvn_dir_make(dir));
    w->manifest.n++;
    return LVN_OK;
}

static enum lvn_status add_text(struct lvn_checkpoint_writer *w, const char *name, const void *data, int64_t bytes)
{
    struct lvn_manifest_file *file = NULL;
    const char *path = NULL;
    LVN_TRY(new_file(w, name, &file, &path));
    file->bytes = file->start = bytes;
    file->sum = lvn_checksum(data, bytes);
    struct lvn_output o;
    LVN_TRY(lvn_output_open(&o, path));
    (void)!lvn_output_write(&o, data, bytes); /* close returns the failure */
    return lvn_output_close(&o);
}

void lvn_checkpoint_add_text(struct lvn_checkpoint_writer *w, const char *name, const void *data, int64_t bytes)
{
    if (w->status == LVN_OK) w->status = add_text(w, name, data, bytes);
}

static enum lvn_status set_sums(struct lvn_checkpoint_writer *w, struct lvn_manifest_file *file,
                                const struct lvn_safetensors_sums *sums)
{
    file->tensors = true;
    file->bytes = sums->bytes;
    file->start = sums->data_start;
    file->sum = sums->header;
    file->n = sums->n;
    file->tensor = lvn_arena_alloc(&w->arena, (size_t)sums->n * sizeof *file->tensor);
    if (!file->tensor) return LVN_MEMORY;
    for (int i = 0; i < sums->n; i++)
        file->tensor[i] = (struct lvn_manifest_tensor){sums->name[i], sums->tensor_bytes[i], sums->tensor[i]};
    return LVN_OK;
}

static enum lvn_status add_tensors(struct lvn_checkpoint_writer *w, const char *name,
                                   const struct lvn_safetensors_source *source)
{
    struct lvn_manifest_file *file = NULL;
    const char *path = NULL;
    struct lvn_safetensors_sums sums;
    LVN_TRY(new_file(w, name, &file, &path));
    struct lvn_safetensors_source unsynced = *source; /* no fsync here: commit does that for all files */
    unsynced.no_sync = true;
    LVN_TRY(lvn_safetensors_write(path, &unsynced, &w->arena, &sums));
    return set_sums(w, file, &sums);
}

void lvn_checkpoint_add_tensors(struct lvn_checkpoint_writer *w, const char *name,
                                const struct lvn_safetensors_source *source)
{
    if (w->status == LVN_OK) w->status = add_tensors(w, name, source);
}

static enum lvn_status add_places(struct lvn_checkpoint_writer *w, const char *name,
                                  const struct lvn_safetensors_places *places)
{
    struct lvn_manifest_file *file = NULL;
    const char *path = NULL;
    struct written_by_others *o = lvn_arena_alloc(&w->arena, sizeof *o);
    if (!o) return LVN_MEMORY;
    LVN_TRY(new_file(w, name, &file, &path));
    *o = (struct written_by_others){w->others, w->manifest.n - 1, places};
    w->others = o;
    return lvn_common_file_create(path, places->header, places->sums.data_start, places->sums.bytes);
}

void lvn_checkpoint_add_places(struct lvn_checkpoint_writer *w, const char *name,
                               const struct lvn_safetensors_places *places)
{
    if (w->status == LVN_OK) w->status = add_places(w, name, places);
}

enum lvn_status lvn_checkpoint_status(const struct lvn_checkpoint_writer *w)
{
    return w->status;
}

const char *lvn_checkpoint_hidden(const struct lvn_checkpoint_writer *w, struct lvn_arena *a)
{
    char *path = realpath(w->temporary, NULL);
    const char *copy = path ? lvn_arena_strdup(a, path) : NULL;
    free(path);
    return copy;
}

/* Exchanges two directories atomically; false if the system cannot. */
static bool exchange(const char *a, const char *b)
{
#if defined(__linux__) && defined(SYS_renameat2)
    return syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, 2u /* RENAME_EXCHANGE */) == 0;
#else
    (void)a, (void)b;
    return false;
#endif
}

/* Removes a former step-N after its replacement. If it has files that levin did not write, it is renamed instead. */
static void remove_replaced(struct lvn_checkpoint_writer *w, const char *path)
{
    const char *more = NULL, *aside = lvn_arena_printf(&w->arena, "%s" LVN_REPLACED "%ld", w->final, (long)getpid());
    enum lvn_status status = lvn_checkpoint_unmanaged(&w->arena, path, &more);
    bool damaged =
        status == LVN_FORMAT || status == LVN_UNSUPPORTED; /* no valid manifest: that is why it is replaced */
    if (status != LVN_OK) lvn_error_clear();
    if (!more && (status == LVN_OK || damaged)) {
        lvn_tree_drop(path);
        return;
    }
    if (aside && rename(path, aside) == 0)
        lvn_log(LVN_LOG_WARN, "'%s' was replaced; since it held %s%s%s, it is now '%s'", w->final, more ? "'" : "",
                more ? more : "files that could not be checked", more ? "', which levin did not write" : "", aside);
}

/* Renames the finished directory to step-N. A former step-N is removed only after the new one is in its place;
 * lvn_checkpoint_clean() repairs a kill between the two renames of the second method. */
static enum lvn_status publish(struct lvn_checkpoint_writer *w)
{
    if (!lvn_path_exists(w->final)) return lvn_file_rename(w->temporary, w->final);
    if (!lvn_files_refuse() && exchange(w->temporary, w->final)) {
        remove_replaced(w, w->temporary);
        return LVN_OK;
    }
    LVN_TRY(lvn_file_rename(w->final, w->old));
    enum lvn_status status = lvn_file_rename(w->temporary, w->final);
    if (status != LVN_OK)
        (void)!rename(w->old, w->final);
    else
        remove_replaced(w, w->old);
    return status;
}

static enum lvn_status commit(struct lvn_checkpoint_writer *w, double val_loss,
                              const struct lvn_checkpoint_score *score)
{
    LVN_TRY(w->status);
    for (const struct written_by_others *o = w->others; o; o = o->next)
        LVN_TRY(set_sums(w, &w->manifest.file[o->file], &o->places->sums));
    w->manifest.val_loss = val_loss;
    w->manifest.score =
        score && *score->name ? *score : (struct lvn_checkpoint_score){.name = "val_loss", .value = val_loss};
    for (int i = 0; i < w->manifest.n; i++) {
        char *path = lvn_path_join(&w->arena, w->temporary, w->manifest.file[i].path);
        char *dir = path ? lvn_path_dir(&w->arena, path) : NULL;
        if (!dir) return LVN_MEMORY;
        if (w->manifest.file[i].tensors) LVN_TRY(lvn_file_sync(path));
        LVN_TRY(lvn_dir_sync(dir));
    }
    LVN_TRY(lvn_manifest_write(w->temporary, &w->manifest));
    LVN_TRY(lvn_dir_sync(w->temporary));
    LVN_TRY(publish(w));
    LVN_TRY(lvn_dir_sync(w->dir));
    return lvn_checkpoint_links_update(w->dir, w->manifest.step, &w->manifest.score);
}

enum lvn_status lvn_checkpoint_commit(struct lvn_checkpoint_writer *w, double val_loss,
                                      const struct lvn_checkpoint_score *score)
{
    enum lvn_status status = commit(w, val_loss, score);
    if (status != LVN_OK) status = lvn_while_at(status, "writing the checkpoint '%s'", w->final);
    lvn_checkpoint_cancel(w);
    return status;
}

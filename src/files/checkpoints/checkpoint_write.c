/* checkpoint_write.c - writes a checkpoint (checkpoint.h): all files into a hidden directory, the manifest last, one
 * rename. */
#include <fcntl.h>
#include <stdatomic.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "base/files.h"
#include "base/list.h"
#include "base/output.h"
#include "base/system.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/checkpoint_private.h"
#include "checkpoints/common_file.h"
#include "checkpoints/manifest.h"

struct lvn_checkpoint_writer {
    struct lvn_arena arena;
    const char *dir, *temporary, *final, *old;
    enum lvn_status status;
    struct lvn_manifest manifest;
    int64_t capacity; /* allocated entries of manifest.file */
    struct written_by_others *others;
};

/* A file whose tensors other processes write. */
struct written_by_others {
    struct written_by_others *next;
    int file; /* its index in the manifest */
    const struct lvn_safetensors_layout *layout;
};

static enum lvn_status prepare(struct lvn_checkpoint_writer *writer, const char *dir, int64_t step)
{
    LVN_CHECK(step >= 0, ARG, "a checkpoint cannot have step %lld", (long long)step);
    struct lvn_arena *a = &writer->arena;
    long long n = step;
    writer->manifest = (struct lvn_manifest){.step = step};
    writer->dir = lvn_arena_strdup(a, dir);
    writer->temporary = lvn_arena_printf(a, "%s/.step-%lld" LVN_TEMPORARY "%ld", dir, n, (long)getpid());
    writer->old = lvn_arena_printf(a, "%s/.step-%lld" LVN_REPLACED "%ld", dir, n, (long)getpid());
    writer->final = lvn_arena_printf(a, "%s/step-%lld", dir, n);
    char *state = writer->temporary ? lvn_path_join(a, writer->temporary, "state") : NULL;
    if (!writer->dir || !writer->temporary || !writer->old || !writer->final || !state) return LVN_MEMORY;
    LVN_TRY(lvn_dir_make(dir));
    LVN_TRY(lvn_tree_remove(writer->temporary));
    if (lvn_path_exists(writer->old)) LVN_TRY(lvn_checkpoint_clear_replaced(a, dir, lvn_path_name(writer->old)));
    return lvn_dir_make(state);
}

enum lvn_status lvn_checkpoint_begin(struct lvn_checkpoint_writer **out, const char *dir, int64_t step)
{
    *out = NULL;
    struct lvn_checkpoint_writer *writer = lvn_calloc(1, sizeof *writer);
    if (!writer) return LVN_MEMORY;
    lvn_arena_init(&writer->arena);
    enum lvn_status status = prepare(writer, dir, step);
    if (status == LVN_OK)
        *out = writer;
    else
        lvn_checkpoint_writer_free(writer);
    return status;
}

void lvn_checkpoint_writer_free(struct lvn_checkpoint_writer *writer)
{
    if (!writer) return;
    if (writer->temporary) lvn_tree_drop(writer->temporary);
    lvn_arena_release(&writer->arena);
    free(writer->manifest.file);
    free(writer);
}

/* Add an entry to the manifest, valid until the next one, and return the path of its file. */
static enum lvn_status new_file(struct lvn_checkpoint_writer *writer, const char *name, struct lvn_manifest_file **file,
                                const char **path)
{
    struct lvn_manifest *manifest = &writer->manifest;
    if (!lvn_list_reserve(&manifest->file, &writer->capacity, manifest->n + 1, sizeof *manifest->file))
        return LVN_MEMORY;
    *file = &writer->manifest.file[writer->manifest.n];
    **file = (struct lvn_manifest_file){.path = lvn_arena_strdup(&writer->arena, name)};
    *path = lvn_path_join(&writer->arena, writer->temporary, name);
    char *dir = *path ? lvn_path_dir(&writer->arena, *path) : NULL;
    if (!(*file)->path || !dir) return LVN_MEMORY;
    LVN_TRY(lvn_dir_make(dir));
    writer->manifest.n++;
    return LVN_OK;
}

static enum lvn_status add_text(struct lvn_checkpoint_writer *writer, const char *name, const void *data, int64_t bytes)
{
    struct lvn_manifest_file *file = NULL;
    const char *path = NULL;
    LVN_TRY(new_file(writer, name, &file, &path));
    file->bytes = file->start = bytes;
    file->sum = lvn_checksum(data, bytes);
    struct lvn_output output;
    LVN_TRY(lvn_output_open(&output, path));
    (void)!lvn_output_write(&output, data, bytes); /* close returns the failure */
    return lvn_output_close(&output);
}

void lvn_checkpoint_add_text(struct lvn_checkpoint_writer *writer, const char *name, const void *data, int64_t bytes)
{
    if (writer->status == LVN_OK) writer->status = add_text(writer, name, data, bytes);
}

static enum lvn_status set_sums(struct lvn_checkpoint_writer *writer, struct lvn_manifest_file *file,
                                const struct lvn_safetensors_sums *sums)
{
    file->tensors = true;
    file->bytes = sums->bytes;
    file->start = sums->data_start;
    file->sum = sums->header;
    file->n = sums->n;
    file->tensor = lvn_arena_alloc(&writer->arena, (size_t)sums->n * sizeof *file->tensor);
    if (!file->tensor) return LVN_MEMORY;
    for (int i = 0; i < sums->n; i++)
        file->tensor[i] = (struct lvn_manifest_tensor){sums->name[i], sums->tensor_bytes[i], sums->tensor[i]};
    return LVN_OK;
}

static enum lvn_status add_tensors(struct lvn_checkpoint_writer *writer, const char *name,
                                   const struct lvn_safetensors_source *source)
{
    struct lvn_manifest_file *file = NULL;
    const char *path = NULL;
    struct lvn_safetensors_sums sums;
    LVN_TRY(new_file(writer, name, &file, &path));
    struct lvn_safetensors_source unsynced = *source; /* no fsync here: commit does that for all files */
    unsynced.no_sync = true;
    LVN_TRY(lvn_safetensors_write(path, &unsynced, &writer->arena, &sums));
    return set_sums(writer, file, &sums);
}

void lvn_checkpoint_add_tensors(struct lvn_checkpoint_writer *writer, const char *name,
                                const struct lvn_safetensors_source *source)
{
    if (writer->status == LVN_OK) writer->status = add_tensors(writer, name, source);
}

static enum lvn_status add_layout(struct lvn_checkpoint_writer *writer, const char *name,
                                  const struct lvn_safetensors_layout *layout)
{
    struct lvn_manifest_file *file = NULL;
    const char *path = NULL;
    struct written_by_others *o = lvn_arena_alloc(&writer->arena, sizeof *o);
    if (!o) return LVN_MEMORY;
    LVN_TRY(new_file(writer, name, &file, &path));
    *o = (struct written_by_others){writer->others, writer->manifest.n - 1, layout};
    writer->others = o;
    return lvn_common_file_create(path, layout->header, layout->sums.data_start, layout->sums.bytes);
}

void lvn_checkpoint_add_layout(struct lvn_checkpoint_writer *writer, const char *name,
                               const struct lvn_safetensors_layout *layout)
{
    if (writer->status == LVN_OK) writer->status = add_layout(writer, name, layout);
}

enum lvn_status lvn_checkpoint_status(const struct lvn_checkpoint_writer *writer)
{
    return writer->status;
}

const char *lvn_checkpoint_hidden(const struct lvn_checkpoint_writer *writer, struct lvn_arena *a)
{
    char *path = realpath(writer->temporary, NULL);
    const char *copy = path ? lvn_arena_strdup(a, path) : NULL;
    free(path);
    return copy;
}

/* The new step-N is in its place: a former one that cannot be removed is not a failure; lvn_checkpoint_clean() tries it
 * again. */
static void clear_former(struct lvn_checkpoint_writer *writer)
{
    writer->temporary = NULL;
    if (lvn_checkpoint_clear_replaced(&writer->arena, writer->dir, lvn_path_name(writer->old)) != LVN_OK)
        lvn_error_clear();
}

/* Rename the finished directory to `old` and exchange it with the former step-N, which then has that name. If *done is
 * false, nothing was exchanged and the finished directory has its temporary name again. If the file system cannot
 * exchange, later calls do not try it. */
static enum lvn_status exchange(struct lvn_checkpoint_writer *writer, bool *done)
{
    static atomic_bool unsupported;
    *done = false;
    if (atomic_load(&unsupported)) return LVN_OK;
    LVN_TRY(lvn_file_rename(writer->temporary, writer->old));
    *done = lvn_system.exchange(writer->old, writer->final) == 0;
    if (*done) return LVN_OK;
    if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) atomic_store(&unsupported, true);
    enum lvn_status status = lvn_file_rename(writer->old, writer->temporary);
    if (status != LVN_OK) lvn_tree_drop(writer->old);
    return status;
}

/* Rename the finished directory to step-N. A former step-N then has the name `old`, in both methods, because it may
 * contain files that levin did not write. lvn_checkpoint_clean() repairs a kill between the two renames of the second
 * method. */
static enum lvn_status publish(struct lvn_checkpoint_writer *writer)
{
    bool done;
    if (!lvn_path_exists(writer->final)) return lvn_file_rename(writer->temporary, writer->final);
    LVN_TRY(exchange(writer, &done));
    if (done) return LVN_OK;
    LVN_TRY(lvn_file_rename(writer->final, writer->old));
    enum lvn_status status = lvn_file_rename(writer->temporary, writer->final);
    if (status != LVN_OK) (void)!rename(writer->old, writer->final);
    return status;
}

static void set_score(struct lvn_manifest *m, double val_loss, const struct lvn_checkpoint_score *score)
{
    m->val_loss = val_loss;
    m->score = score && *score->name ? *score : (struct lvn_checkpoint_score){.name = "val_loss", .value = val_loss};
}

static enum lvn_status commit(struct lvn_checkpoint_writer *writer, double val_loss,
                              const struct lvn_checkpoint_score *score)
{
    LVN_TRY(writer->status);
    for (const struct written_by_others *o = writer->others; o; o = o->next)
        LVN_TRY(set_sums(writer, &writer->manifest.file[o->file], &o->layout->sums));
    set_score(&writer->manifest, val_loss, score);
    for (int i = 0; i < writer->manifest.n; i++) {
        char *path = lvn_path_join(&writer->arena, writer->temporary, writer->manifest.file[i].path);
        char *dir = path ? lvn_path_dir(&writer->arena, path) : NULL;
        if (!dir) return LVN_MEMORY;
        if (writer->manifest.file[i].tensors) LVN_TRY(lvn_file_sync(path));
        LVN_TRY(lvn_dir_sync(dir));
    }
    LVN_TRY(lvn_manifest_write(writer->temporary, &writer->manifest));
    LVN_TRY(lvn_dir_sync(writer->temporary));
    LVN_TRY(publish(writer));
    LVN_TRY(lvn_dir_sync(writer->dir)); /* before the former step-N is removed */
    if (lvn_path_exists(writer->old)) clear_former(writer);
    return lvn_checkpoint_links_update(writer->dir, writer->manifest.step, &writer->manifest.score);
}

enum lvn_status lvn_checkpoint_commit(struct lvn_checkpoint_writer *writer, double val_loss,
                                      const struct lvn_checkpoint_score *score)
{
    enum lvn_status status = commit(writer, val_loss, score);
    if (status != LVN_OK) status = lvn_while_at(status, "writing the checkpoint '%s'", writer->final);
    lvn_checkpoint_writer_free(writer);
    return status;
}

static enum lvn_status rescore(struct lvn_arena *a, const char *dir, int64_t step, double val_loss,
                               const struct lvn_checkpoint_score *score)
{
    struct lvn_manifest manifest;
    const char *path = lvn_arena_printf(a, "%s/step-%" PRId64, dir, step);
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_manifest_read(a, path, &manifest));
    set_score(&manifest, val_loss, score);
    LVN_TRY(lvn_manifest_write(path, &manifest));
    return lvn_checkpoint_links_update(dir, step, &manifest.score);
}

enum lvn_status lvn_checkpoint_rescore(const char *dir, int64_t step, double val_loss,
                                       const struct lvn_checkpoint_score *score)
{
    LVN_LOCAL_ARENA(a);
    return rescore(&a, dir, step, val_loss, score);
}

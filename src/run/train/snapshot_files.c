/* snapshot_files.c - see snapshot_files.h. */
#include "train/snapshot_files.h"

#include "base/files.h"
#include "base/random.h"
#include "checkpoints/common_file.h"

/* --- do all ranks see the folder? --- */

/* Sent by rank 0 to the others: the hidden directory, and a file with a random name in it. */
struct place {
    char dir[PATH_MAX];
    char name[24];
};

static enum lvn_status make_place(const struct lvn_snapshot_files *f, struct place *p)
{
    uint64_t number;
    const char *dir = lvn_checkpoint_hidden(f->writer, f->arena);
    LVN_TRY(lvn_random_secret(&number, sizeof number, "the name of a file"));
    if (!dir || snprintf(p->dir, sizeof p->dir, "%s", dir) >= (int)sizeof p->dir) p->dir[0] = '\0';
    snprintf(p->name, sizeof p->name, ".%016" PRIx64, number);
    char *path = lvn_path_join(f->arena, p->dir, p->name);
    return !*p->dir ? LVN_OK : path ? lvn_common_file_create(path, "", 0, 0) : LVN_MEMORY;
}

/* Does this rank see the file? Another host may have a different folder with the same path. */
static bool sees(const struct lvn_snapshot_files *f, const struct place *p)
{
    const char *path = lvn_path_join(f->arena, p->dir, p->name);
    return *p->dir && path && lvn_path_is_file(path) && lvn_path_has_common_writes(path);
}

static enum lvn_status find_place(struct lvn_snapshot_files *f, struct lvn_ranks *ranks, struct place *p)
{
    LVN_TRY(lvn_ranks_agree(ranks, ranks->rank ? LVN_OK : make_place(f, p)));
    LVN_TRY(lvn_ranks_broadcast(ranks, p, (int64_t)sizeof *p));
    double count[] = {sees(f, p),
                      !f->model_state->device->backend->snapshot}; /* number of ranks; all memory is host memory */
    LVN_TRY(lvn_ranks_sum(ranks, count, 2));
    f->collective = (int)count[0] == ranks->size;
    f->async = f->collective && (int)count[1] == ranks->size;
    f->path = lvn_arena_strdup(f->arena, p->dir);
    const char *path = lvn_path_join(f->arena, p->dir, p->name);
    if (!ranks->rank && path && *p->dir) lvn_tree_drop(path);
    return lvn_ranks_agree(ranks, f->path ? LVN_OK : LVN_MEMORY);
}

enum lvn_status lvn_snapshot_files_begin(struct lvn_snapshot_files *f, struct lvn_arena *a, const char *dir,
                                         int64_t step, const struct lvn_model_state *n, struct lvn_ranks *ranks)
{
    const bool sharded = lvn_parameters_any_sharded(n) && n->ranks;
    struct place place = {0};
    *f = (struct lvn_snapshot_files){.model_state = n, .arena = a, .shards = {.model_state = n, .arena = a}};
    enum lvn_status status = ranks->rank ? LVN_OK : lvn_checkpoint_begin(&f->writer, dir, step);
    if (sharded) status = lvn_ranks_agree(ranks, status);
    if (sharded && status == LVN_OK) status = find_place(f, ranks, &place);
    if (status != LVN_OK) {
        lvn_checkpoint_writer_free(f->writer);
        return status;
    }
    if (f->collective)
        lvn_parameters_begin_gathering(n);
    else
        lvn_parameters_begin_collecting(n);
    return LVN_OK;
}

/* --- files --- */

bool lvn_snapshot_files_mine(const struct lvn_snapshot_files *f)
{
    return f->writer || f->collective;
}

enum lvn_status lvn_snapshot_files_add_tensors(struct lvn_snapshot_files *f, const char *name,
                                               const struct lvn_safetensors_source *source)
{
    const struct lvn_safetensors_layout *layout;
    if (!f->collective) {
        lvn_checkpoint_add_tensors(f->writer, name, source);
        return LVN_OK;
    }
    const char *path = lvn_path_join(f->arena, f->path, name);
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_shard_files_add(&f->shards, path, source, &layout));
    if (f->writer) lvn_checkpoint_add_layout(f->writer, name, layout);
    return LVN_OK;
}

void lvn_snapshot_files_add_text(struct lvn_snapshot_files *f, const char *name, const void *data, int64_t bytes)
{
    if (f->writer) lvn_checkpoint_add_text(f->writer, name, data, bytes);
}

void lvn_snapshot_files_begin_alone(struct lvn_snapshot_files *f)
{
    if (f->collective) lvn_parameters_begin_collecting(f->model_state);
}

enum lvn_status lvn_snapshot_files_end_alone(struct lvn_snapshot_files *f)
{
    if (!f->collective) return LVN_OK;
    const enum lvn_status status = lvn_parameters_end_collecting(f->model_state);
    lvn_parameters_begin_gathering(f->model_state);
    return status;
}

enum lvn_status lvn_snapshot_files_prepare(struct lvn_snapshot_files *f, enum lvn_status so_far)
{
    if (!f->collective) {
        const enum lvn_status ended = lvn_parameters_end_collecting(f->model_state);
        return so_far == LVN_OK ? ended : so_far;
    }
    if (so_far == LVN_OK && f->writer) so_far = lvn_checkpoint_status(f->writer);
    const enum lvn_status status = lvn_shard_files_begin(&f->shards, f->async, so_far);
    lvn_parameters_end_gathering(f->model_state);
    return status;
}

void lvn_snapshot_files_write(struct lvn_snapshot_files *f)
{
    if (f->collective) lvn_shard_files_write(&f->shards);
}

void lvn_snapshot_files_sync(struct lvn_snapshot_files *f)
{
    if (f->collective) lvn_shard_files_sync(&f->shards);
}

enum lvn_status lvn_snapshot_files_end(struct lvn_snapshot_files *f, double val_loss,
                                       const struct lvn_checkpoint_score *score)
{
    enum lvn_status status = f->collective ? lvn_shard_files_end(&f->shards) : LVN_OK;
    if (status == LVN_OK && f->writer) {
        status = lvn_checkpoint_commit(f->writer, val_loss, score);
        f->writer = NULL;
    }
    lvn_snapshot_files_cancel(f);
    return status;
}

void lvn_snapshot_files_cancel(struct lvn_snapshot_files *f)
{
    lvn_shard_files_release(&f->shards);
    lvn_checkpoint_writer_free(f->writer);
}

/* checkpoint.c - finds and verifies checkpoints, and resolves MODEL arguments (checkpoint.h). */
#include "checkpoints/checkpoint.h"

#include "base/files.h"
#include "checkpoints/checkpoint_private.h"
#include "checkpoints/manifest.h"
#include "checkpoints/model_fetch.h"

static enum lvn_status verify_files(const char *path, enum lvn_manifest_depth depth,
                                    const struct lvn_manifest *manifest)
{
    int64_t step;
    if (lvn_checkpoint_parse_step(lvn_path_name(path), &step))
        LVN_CHECK(step == manifest->step, FORMAT, "'%s' contains step %lld: it was renamed", path,
                  (long long)manifest->step);
    return lvn_manifest_verify(path, manifest, depth);
}

static enum lvn_status verify(struct lvn_arena *a, const char *path, enum lvn_manifest_depth depth,
                              struct lvn_manifest *manifest)
{
    LVN_CHECK(lvn_path_is_dir(path), IO, "'%s' is not a directory", path);
    LVN_TRY(lvn_manifest_read(a, path, manifest));
    return verify_files(path, depth, manifest);
}

static enum lvn_status open_one(struct lvn_checkpoint *checkpoint, const char *path, bool *readable)
{
    struct lvn_manifest manifest;
    enum lvn_status status = lvn_manifest_read(&checkpoint->arena, path, &manifest);
    *readable = status != LVN_IO;
    LVN_TRY(status);
    LVN_TRY(verify_files(path, LVN_MANIFEST_ALL, &manifest));
    checkpoint->path = lvn_arena_strdup(&checkpoint->arena, path);
    checkpoint->step = manifest.step;
    checkpoint->val_loss = manifest.val_loss;
    return checkpoint->path ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status open_newest(struct lvn_checkpoint *checkpoint, const char *dir)
{
    int64_t *step;
    int n;
    LVN_TRY(lvn_checkpoint_steps(&checkpoint->arena, dir, &step, &n));
    const char **skipped = lvn_arena_alloc(&checkpoint->arena, (size_t)n * sizeof *skipped);
    if (!skipped) return LVN_MEMORY;
    checkpoint->skipped = skipped;
    for (int i = 0; i < n; i++) {
        char *path = lvn_arena_printf(&checkpoint->arena, "%s/step-%lld", dir, (long long)step[i]);
        bool readable = true;
        enum lvn_status status = path ? open_one(checkpoint, path, &readable) : LVN_MEMORY;
        if (!readable)
            LVN_FAIL(IO, "%s; this may pass, so try again, or remove '%s' to use an older checkpoint",
                     levin_error_text(), path);
        if (status == LVN_OK || status == LVN_MEMORY || status == LVN_UNSUPPORTED) return status;
        char *message =
            lvn_arena_printf(&checkpoint->arena, "the checkpoint '%s' is skipped: %s", path, levin_error_text());
        if (!message) return LVN_MEMORY;
        skipped[checkpoint->n_skipped++] = message;
        lvn_error_clear();
    }
    return LVN_OK;
}

static void init(struct lvn_checkpoint *checkpoint)
{
    *checkpoint = (struct lvn_checkpoint){.val_loss = NAN};
    lvn_arena_init(&checkpoint->arena);
}

enum lvn_status lvn_checkpoint_open_newest(struct lvn_checkpoint *checkpoint, const char *dir)
{
    init(checkpoint);
    if (!lvn_path_exists(dir)) return LVN_OK;
    enum lvn_status status = open_newest(checkpoint, dir);
    if (status != LVN_OK) lvn_checkpoint_close(checkpoint);
    return status;
}

static enum lvn_status newest_step(struct lvn_arena *a, const char *dir, int64_t *step)
{
    int64_t *all;
    int n;
    LVN_TRY(lvn_checkpoint_steps(a, dir, &all, &n));
    for (int i = 0; i < n && *step < 0; i++) {
        struct lvn_manifest manifest;
        char *path = lvn_arena_printf(a, "%s/step-%lld", dir, (long long)all[i]);
        enum lvn_status status = path ? lvn_manifest_read(a, path, &manifest) : LVN_MEMORY;
        if (status != LVN_OK && status != LVN_FORMAT && status != LVN_UNSUPPORTED) return status;
        if (status == LVN_OK) *step = all[i];
        lvn_error_clear();
    }
    return LVN_OK;
}

enum lvn_status lvn_checkpoint_newest_step(const char *dir, int64_t *step)
{
    LVN_LOCAL_ARENA(a);
    *step = -1;
    if (!lvn_path_is_dir(dir)) return LVN_OK;
    return newest_step(&a, dir, step);
}

void lvn_checkpoint_close(struct lvn_checkpoint *checkpoint)
{
    lvn_arena_release(&checkpoint->arena);
    init(checkpoint);
}

/* --- MODEL arguments --- */

/* The preferred (best, last) or the newest valid checkpoint of a directory; *out remains NULL if there is none. */
static enum lvn_status locate_in(struct lvn_arena *a, const char *dir, const char *prefer, const char **out)
{
    LVN_TRY(lvn_checkpoint_link(a, dir, prefer, out));
    if (*out && lvn_path_is_dir(*out)) return LVN_OK;
    *out = NULL;
    struct lvn_checkpoint checkpoint;
    LVN_TRY(lvn_checkpoint_open_newest(&checkpoint, dir));
    if (checkpoint.path) *out = lvn_arena_strdup(a, checkpoint.path);
    enum lvn_status status = checkpoint.path && !*out ? LVN_MEMORY : LVN_OK;
    if (!checkpoint.path && checkpoint.n_skipped)
        status = lvn_fail(LVN_FORMAT, "'%s' has no valid checkpoint: %s", dir, checkpoint.skipped[0]);
    lvn_checkpoint_close(&checkpoint);
    return status;
}

static enum lvn_status locate(struct lvn_arena *a, const char *path, const char *prefer, const char **out)
{
    char *checkpoints = lvn_path_join(a, path, "checkpoints"), *config = lvn_path_join(a, path, "config.json");
    char *dir = lvn_path_dir(a, path);
    if (!checkpoints || !config || !dir) return LVN_MEMORY;
    if (lvn_path_is_file(path)) { /* `last` or `best` as a pointer file */
        LVN_TRY(lvn_checkpoint_link(a, dir, lvn_path_name(path), out));
        LVN_CHECK(*out, IO, "'%s' is a file; a model is a run, a checkpoint or a directory with config.json", path);
        return LVN_OK;
    }
    LVN_CHECK(lvn_path_is_dir(path), ARG, "there is no model '%s': no such run, checkpoint or directory", path);
    *out = lvn_arena_strdup(a, path);
    if (!*out) return LVN_MEMORY;
    if (lvn_path_is_file(config)) return LVN_OK;
    LVN_TRY(locate_in(a, lvn_path_is_dir(checkpoints) ? checkpoints : path, prefer, out));
    LVN_CHECK(*out, IO, "'%s' has neither a checkpoint nor a config.json", path);
    return LVN_OK;
}

/* True if it is a checkpoint, and not another directory with a model. An exported model has only a vocabulary in
 * `state`. */
static enum lvn_status is_checkpoint(struct lvn_arena *a, const char *path, bool *yes)
{
    const char *const *names, *state = lvn_path_join(a, path, "state");
    int n;
    *yes = false;
    if (!state) return LVN_MEMORY;
    if (!lvn_path_is_dir(state)) return LVN_OK;
    LVN_TRY(lvn_dir_list(a, state, &names, &n));
    *yes = n != 1 || strcmp(names[0], "vocabulary.json") != 0;
    return LVN_OK;
}

enum lvn_status lvn_checkpoint_locate(struct lvn_arena *a, const char *path, const char *prefer, const char **out)
{
    *out = NULL;
    const char *found = NULL;
    LVN_TRY(lvn_checkpoint_fetch(a, path, prefer, &path));
    char *plain = lvn_path_plain(a, path);
    if (!plain) return LVN_MEMORY;
    LVN_TRY(locate(a, plain, prefer, &found));
    struct lvn_manifest manifest;
    bool ours;
    LVN_TRY(is_checkpoint(a, found, &ours));
    if (ours)
        LVN_TRY_WHILE(verify(a, found, LVN_MANIFEST_MODEL, &manifest),
                      "verifying a checkpoint; an older one may be valid: give its path, RUN/checkpoints/step-N");
    *out = found;
    return LVN_OK;
}

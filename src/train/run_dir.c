/* run_dir.c - see run_dir.h. */
#include "train/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/files.h"

static const char *const parts[] = {"checkpoints", "status.json", "metrics.jsonl", "metrics.csv",
                                    "loss.svg",    "samples.txt", "settings.yaml"};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

static enum lvn_status join(struct lvn_run_dir *d, const char *name, const char **out)
{
    *out = lvn_path_join(&d->arena, d->path, name);
    return *out ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status take_lock(struct lvn_run_dir *d)
{
    const char *path;
    LVN_TRY(join(d, ".lock", &path));
    d->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    LVN_CHECK(d->lock >= 0, IO, "the run folder '%s' cannot be written: %s; choose another run_dir", d->path,
              strerror(errno));
    /* A file system without locks (some network ones) is no reason to refuse. */
    LVN_CHECK(flock(d->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK, IO,
              "another process is training in '%s'; wait for it, or choose another run_dir", d->path);
    return LVN_OK;
}

static enum lvn_status clear(struct lvn_run_dir *d)
{
    for (int i = 0; i < N_PARTS; i++) {
        const char *path;
        LVN_TRY(join(d, parts[i], &path));
        LVN_TRY(lvn_tree_remove(path));
    }
    return LVN_OK;
}

static enum lvn_status open_folder(struct lvn_run_dir *d, const char *path, enum lvn_run_mode mode)
{
    d->path = lvn_arena_strdup(&d->arena, path);
    if (!d->path) return LVN_MEMORY;
    LVN_CHECK(!lvn_path_exists(path) || lvn_path_is_dir(path), IO,
              "the run folder '%s' is a file; choose another run_dir", path);
    LVN_TRY(join(d, "checkpoints", &d->checkpoints));
    LVN_TRY(join(d, "settings.yaml", &d->settings));
    LVN_TRY(join(d, "metrics.jsonl", &d->metrics_jsonl));
    LVN_TRY(join(d, "metrics.csv", &d->metrics_csv));
    LVN_TRY(join(d, "loss.svg", &d->curve));
    LVN_TRY(join(d, "samples.txt", &d->samples));
    bool holds_run =
        lvn_path_exists(d->settings) || lvn_path_exists(d->metrics_jsonl) || lvn_path_exists(d->checkpoints);
    LVN_CHECK(
        !holds_run || mode != LVN_RUN_NEW, ARG,
        "'%s' holds a run already: continue it with --resume, replace it with --overwrite, or choose another name "
        "or run_dir",
        path);
    d->made = !lvn_path_exists(path);
    d->replaces = holds_run && mode == LVN_RUN_OVERWRITE;
    LVN_TRY_WHILE(lvn_dir_make(path), "making the run folder");
    return take_lock(d);
}

/* What is here of a run in a store follows what is there: gone there, gone here. */
static enum lvn_status open_stage(struct lvn_run_dir *d, enum lvn_run_mode mode, const char **folder)
{
    enum lvn_store_kind kind;
    int64_t bytes;
    LVN_TRY(lvn_stage_open(&d->arena, d->url, folder));
    if (strcmp(*folder, d->url) == 0 || strncmp(d->url, "file:", 5) == 0) return LVN_OK;
    LVN_TRY(lvn_store_stat(d->url, &kind, &bytes));
    LVN_CHECK(kind != LVN_STORE_FILE, IO, "the run folder '%s' is a file; choose another run_dir", d->url);
    LVN_CHECK(
        kind == LVN_STORE_NOTHING || mode != LVN_RUN_NEW, ARG,
        "'%s' holds a run already: continue it with --resume, replace it with --overwrite, or choose another name "
        "or run_dir",
        d->url);
    if (kind == LVN_STORE_NOTHING) return lvn_tree_remove(*folder);
    return mode == LVN_RUN_RESUME ? lvn_stage_fetch_run(*folder, d->url) : LVN_OK;
}

enum lvn_status lvn_run_dir_open(struct lvn_run_dir *d, const char *path, enum lvn_run_mode mode)
{
    *d = (struct lvn_run_dir){.lock = -1};
    lvn_arena_init(&d->arena);
    d->url = lvn_arena_strdup(&d->arena, path);
    enum lvn_status status = d->url ? open_stage(d, mode, &path) : LVN_MEMORY;
    d->overwrites = mode == LVN_RUN_OVERWRITE;
    if (status == LVN_OK) status = open_folder(d, path, mode);
    if (status != LVN_OK) lvn_run_dir_close(d);
    return status;
}

/* Half-written files of a process that was killed: `.NAME.tmp-PID`, as lvn_file_write() makes them. */
static enum lvn_status clear_halves(struct lvn_run_dir *d)
{
    const char *const *names, *path;
    int n;
    LVN_TRY(lvn_dir_list(&d->arena, d->path, &names, &n));
    for (int i = 0; i < n; i++) {
        bool ours = false;
        for (int k = 0; k < N_PARTS; k++) {
            size_t length = strlen(parts[k]);
            ours |= names[i][0] == '.' && strncmp(names[i] + 1, parts[k], length) == 0 &&
                    strncmp(names[i] + 1 + length, ".tmp-", 5) == 0;
        }
        if (!ours) continue;
        LVN_TRY(join(d, names[i], &path));
        LVN_TRY(lvn_tree_remove(path));
    }
    return LVN_OK;
}

enum lvn_status lvn_run_dir_begin(struct lvn_run_dir *d)
{
    d->made = false;
    bool stage = lvn_store_is_url(d->url) && strncmp(d->url, "file:", 5) != 0;
    if (d->replaces) LVN_TRY_WHILE(clear(d), "removing the former run in '%s'", d->path);
    LVN_TRY(clear_halves(d));
    if (stage && d->overwrites)
        LVN_TRY_WHILE(lvn_stage_clear(d->url, parts, N_PARTS), "removing the former run in '%s'", d->url);
    return stage ? lvn_sender_start(&d->sender, d->path, d->url) : LVN_OK;
}

void lvn_run_dir_push(struct lvn_run_dir *d, char text[1024])
{
    lvn_sender_push(&d->sender, text);
}

enum lvn_status lvn_run_dir_end(struct lvn_run_dir *d)
{
    return lvn_sender_end(&d->sender);
}

/* A folder that was made for a run that never began goes again. */
static void leave_nothing(const struct lvn_run_dir *d)
{
    char lock[PATH_MAX];
    int n = snprintf(lock, sizeof lock, "%s/.lock", d->path);
    if (n > 0 && n < (int)sizeof lock) unlink(lock);
    rmdir(d->path);
}

void lvn_run_dir_close(struct lvn_run_dir *d)
{
    if (lvn_run_dir_end(d) != LVN_OK) lvn_error_clear(); /* after a failure that is told already */
    if (d->made) leave_nothing(d);
    d->made = false;
    if (d->lock >= 0) close(d->lock);
    d->lock = -1;
    lvn_arena_release(&d->arena);
}

/* model_fetch_run.c - lvn_checkpoints_fetch_run() of model_fetch.h: downloads a run from a store into its local folder,
 * so that it can resume. */
#include <unistd.h>

#include "base/files.h"
#include "checkpoints/checkpoint_private.h"
#include "checkpoints/model_fetch.h"
#include "stores/store.h"
#include "stores/upload_staging.h"

/* The step to which a pointer file (`last`, `best`) of a run in a store refers; -1: none. */
static enum lvn_status remote_step(struct lvn_arena *a, const char *path, const char *name, int64_t *step)
{
    const char *url = lvn_arena_printf(a, "%s/checkpoints/%s", path, name);
    enum lvn_store_kind kind;
    int64_t bytes;
    char *text;
    *step = -1;
    if (!url) return LVN_MEMORY;
    LVN_TRY(lvn_store_stat(url, &kind, &bytes));
    if (kind != LVN_STORE_FILE) return LVN_OK;
    LVN_TRY(lvn_store_read(url, 64, &text, &bytes));
    text[strcspn(text, "\r\n")] = '\0';
    if (!lvn_checkpoint_parse_step(text, step)) *step = -1;
    free(text);
    return LVN_OK;
}

static enum lvn_status local_newest_step(struct lvn_arena *a, const char *checkpoints, int64_t *step)
{
    int64_t *all;
    int n;
    *step = -1;
    if (!lvn_path_is_dir(checkpoints)) return LVN_OK;
    LVN_TRY(lvn_checkpoint_steps(a, checkpoints, &all, &n));
    if (n) *step = all[0];
    return LVN_OK;
}

/* Download the file `name` below `url` into a folder. */
static enum lvn_status fetch_file(struct lvn_arena *a, const char *url, const char *folder, const char *name)
{
    LVN_CHECK(lvn_store_name_is_safe(name), FORMAT, "'%s' contains the name '%.200s', which leads out of its folder",
              url, name);
    const char *from = lvn_store_join(a, url, name), *to = lvn_path_join(a, folder, name);
    return from && to ? lvn_store_get(from, to, NULL, NULL, NULL) : LVN_MEMORY;
}

/* Download a checkpoint, into a hidden folder first: a partial checkpoint never has its final name. */
static enum lvn_status fetch_step(struct lvn_arena *a, const char *folder, const char *path, int64_t step)
{
    long long n = step;
    char *below = lvn_arena_printf(a, "checkpoints/step-%lld", n);
    char *final = below ? lvn_path_join(a, folder, below) : NULL, *url = below ? lvn_store_join(a, path, below) : NULL;
    char *hidden = lvn_arena_printf(a, "%s/checkpoints/.step-%lld" LVN_TEMPORARY "%ld", folder, n, (long)getpid());
    struct lvn_store_entries all;
    if (!final || !hidden || !url) return LVN_MEMORY;
    if (step < 0 || lvn_path_is_dir(final)) return LVN_OK;
    LVN_TRY(lvn_store_list(a, url, true, &all));
    LVN_TRY(lvn_tree_remove(hidden));
    for (int i = 0; i < all.n; i++) LVN_TRY(fetch_file(a, url, hidden, all.entry[i].name));
    LVN_TRY(lvn_file_rename(hidden, final));
    for (int i = 0; i < all.n; i++) {
        const char *name = lvn_path_join(a, below, all.entry[i].name);
        LVN_TRY(name ? lvn_upload_staging_fetched(a, folder, name) : LVN_MEMORY);
    }
    return LVN_OK;
}

/* True if `name` is one of these names, or below one. */
static bool is_among(const char *name, const char *const *files, int n)
{
    for (int i = 0; i < n; i++) {
        size_t length = strlen(files[i]);
        if (!strncmp(name, files[i], length) && (!name[length] || name[length] == '/')) return true;
    }
    return false;
}

enum lvn_status lvn_checkpoints_last_uploaded(const char *path, int64_t *step)
{
    LVN_LOCAL_ARENA(a);
    return remote_step(&a, path, "last", step);
}

static enum lvn_status fetch(struct lvn_arena *a, const char *folder, const char *path, const char *const *files, int n)
{
    struct lvn_store_entries all;
    char *checkpoints = lvn_path_join(a, folder, "checkpoints");
    int64_t last, best, local;
    if (!checkpoints) return LVN_MEMORY;
    LVN_TRY(remote_step(a, path, "last", &last));
    LVN_TRY(local_newest_step(a, checkpoints, &local));
    if (last < 0 || local >= last) return LVN_OK;
    LVN_TRY(remote_step(a, path, "best", &best));
    LVN_TRY(lvn_dir_make(checkpoints));
    LVN_TRY(fetch_step(a, folder, path, best));
    LVN_TRY(fetch_step(a, folder, path, last));
    LVN_TRY(lvn_store_list(a, path, true, &all));
    for (int i = 0; i < all.n; i++) {
        if (is_among(all.entry[i].name, files, n)) LVN_TRY(fetch_file(a, path, folder, all.entry[i].name));
    }
    return LVN_OK;
}

enum lvn_status lvn_checkpoints_fetch_run(const char *folder, const char *path, const char *const *files, int n_files)
{
    LVN_LOCAL_ARENA(a);
    char *plain = lvn_path_plain(&a, path);
    LVN_TRY_WHILE(plain ? fetch(&a, folder, plain, files, n_files) : LVN_MEMORY, "downloading the run '%s'", path);
    return LVN_OK;
}

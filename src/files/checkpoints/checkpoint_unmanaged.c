/* checkpoint_unmanaged.c - finds files in a folder of checkpoints, local or in a store, that levin did not write. Code
 * that removes checkpoints calls it first.
 *
 * levin's own files are those with names that it assigns (step-N, last, best and leftovers of a kill) and, within a
 * step-N or a replaced step-N that a kill left, the files of the manifest. */

#include "checkpoints/checkpoint.h"
#include "checkpoints/checkpoint_private.h"
#include "checkpoints/manifest.h"
#include "stores/store.h"

static bool is_named(const struct lvn_manifest *manifest, const char *name)
{
    for (int i = 0; i < manifest->n; i++)
        if (strcmp(manifest->file[i].path, name) == 0) return true;
    return strcmp(name, LVN_MANIFEST_PATH) == 0;
}

enum lvn_status lvn_checkpoint_unmanaged(struct lvn_arena *a, const char *path, const char **name)
{
    struct lvn_manifest manifest;
    struct lvn_store_entries all;
    *name = NULL;
    LVN_TRY(lvn_manifest_read(a, path, &manifest));
    LVN_TRY(lvn_store_list(a, path, true, &all));
    for (int i = 0; i < all.n && !*name; i++)
        if (!is_named(&manifest, all.entry[i].name)) *name = all.entry[i].name;
    return LVN_OK;
}

enum lvn_status lvn_checkpoint_is_link(struct lvn_arena *a, const char *dir, const char *name, bool *is)
{
    const char *target = NULL;
    bool named = strcmp(name, "last") == 0 || strcmp(name, "best") == 0;
    if (named && !lvn_store_is_url(dir)) LVN_TRY(lvn_checkpoint_link(a, dir, name, &target));
    *is = named && (lvn_store_is_url(dir) || target);
    return LVN_OK;
}

static enum lvn_status scan_entry(struct lvn_arena *a, const char *dir, const struct lvn_store_entry *e,
                                  struct lvn_checkpoints_contents *contents)
{
    int64_t step;
    const char *unmanaged, *path = lvn_store_join(a, dir, e->name);
    if (!path) return LVN_MEMORY;
    const bool is_step = lvn_checkpoint_parse_step(e->name, &step) || lvn_checkpoint_is_replaced(e->name);
    if (e->kind != LVN_STORE_FOLDER || !is_step) {
        bool link;
        LVN_TRY(lvn_checkpoint_is_link(a, dir, e->name, &link));
        if (!link && !lvn_checkpoint_is_leftover(e->name)) contents->unmanaged = path;
        return LVN_OK;
    }
    enum lvn_status status = lvn_checkpoint_unmanaged(a, path, &unmanaged);
    if (status == LVN_FORMAT || status == LVN_UNSUPPORTED) {
        lvn_error_clear();
        contents->without_manifest = path;
        return LVN_OK;
    }
    LVN_TRY(status);
    contents->has_manifest = true;
    if (!unmanaged) return LVN_OK;
    contents->unmanaged = lvn_store_join(a, path, unmanaged);
    return contents->unmanaged ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_checkpoints_scan(struct lvn_arena *a, const char *dir, struct lvn_checkpoints_contents *contents)
{
    struct lvn_store_entries all;
    enum lvn_store_kind kind;
    int64_t bytes;
    *contents = (struct lvn_checkpoints_contents){0};
    LVN_TRY(lvn_store_stat(dir, &kind, &bytes));
    if (kind == LVN_STORE_NOTHING) return LVN_OK;
    if (kind == LVN_STORE_FILE) {
        contents->n = 1;
        contents->unmanaged = dir;
        return LVN_OK;
    }
    LVN_TRY(lvn_store_list(a, dir, false, &all));
    contents->n = all.n;
    for (int i = 0; i < all.n; i++) LVN_TRY(scan_entry(a, dir, &all.entry[i], contents));
    return LVN_OK;
}

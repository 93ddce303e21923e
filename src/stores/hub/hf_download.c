/* hf_download.c - downloads files of the Hugging Face hub into its own cache (stores/hub/hub_cache.h), which levin and
 * Python's tools then share. hf.c has it as its `download`.
 *
 *     models--ORG--NAME/blobs/HASH                   the content of a file
 *     models--ORG--NAME/snapshots/COMMIT/PATH        a link to it
 *     models--ORG--NAME/refs/main                    the commit of `main` at the time of the download
 *
 * With HF_HUB_OFFLINE, or if the hub cannot be reached, the cached files are used. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "stores/hub/hf.h"
#include "stores/hub/hub_cache.h"
#include "stores/store_private.h"

struct hub_download {
    struct lvn_location *p;
    const struct lvn_hf *f;
    struct lvn_arena *a; /* of the location */
    const char *folder;  /* models--ORG--NAME */
    const char *snapshot;
    struct lvn_hf_files all;
};

/* "../../blobs/HASH" relative to snapshots/COMMIT/a/b. */
static char *link_target(struct lvn_arena *a, const char *name, const char *blob)
{
    char *up = lvn_arena_strdup(a, "");
    for (const char *p = name; up && (p = strchr(p, '/')); p++) up = lvn_arena_printf(a, "%s../", up);
    return up ? lvn_arena_printf(a, "%s../../blobs/%s", up, blob) : NULL;
}

static enum lvn_status link_blob(const char *target, const char *path, const char *blob)
{
    if (lvn_path_exists(path)) return LVN_OK;
    unlink(path); /* a dangling link */
    if (symlink(target, path) == 0 || errno == EEXIST) return LVN_OK;
    return lvn_file_rename(blob, path); /* without links the file itself is stored there, as in Python */
}

static enum lvn_status download_one(struct hub_download *b, const struct lvn_hf_file *file)
{
    const char *path = lvn_path_join(b->a, b->snapshot, file->name);
    char *dir = path ? lvn_path_dir(b->a, path) : NULL;
    char *url = lvn_arena_printf(b->a, "hf://%s/%s@%s/%s", b->f->kind, b->f->repo, b->all.commit, file->name);
    if (!dir || !url) return LVN_MEMORY;
    if (lvn_path_is_file(path)) return LVN_OK;
    LVN_TRY(lvn_dir_make(dir));
    if (!file->blob) return lvn_store_get(url, path, NULL, NULL, NULL);
    char *blob = lvn_arena_printf(b->a, "%s/blobs/%s", b->folder, file->blob);
    char *target = link_target(b->a, file->name, file->blob);
    if (!blob || !target) return LVN_MEMORY;
    if (!lvn_path_is_file(blob)) LVN_TRY(lvn_store_get(url, blob, file->sha256, NULL, NULL));
    return link_blob(target, path, blob);
}

/* Downloads the wanted files below the key, or the file that the key names; *n: their number. */
static enum lvn_status download_wanted(struct hub_download *b, enum lvn_store_want want, int *n)
{
    const char *key = b->p->key;
    size_t skip = strlen(key);
    struct lvn_store_entries chosen = {0};
    int capacity = 0;
    while (skip && key[skip - 1] == '/') skip--;
    *n = 0;
    for (int i = 0; i < b->all.n; i++) {
        const struct lvn_hf_file *file = &b->all.file[i];
        if (skip && strcmp(file->name, key) == 0) {
            *n = 1;
            return download_one(b, file);
        }
        if (skip && (strncmp(file->name, key, skip) != 0 || file->name[skip] != '/')) continue;
        const char *name = file->name + (skip ? skip + 1 : 0);
        LVN_TRY(lvn_entries_add(b->a, &chosen, &capacity, name, (int64_t)strlen(name), LVN_STORE_FILE, file->bytes));
    }
    lvn_store_choose(&chosen, want);
    for (int i = 0, k = 0; i < b->all.n && k < chosen.n; i++) { /* both lists are in the same order */
        const char *name = b->all.file[i].name + (skip ? skip + 1 : 0);
        if (strlen(b->all.file[i].name) <= skip || strcmp(name, chosen.entry[k].name) != 0) continue;
        LVN_TRY(download_one(b, &b->all.file[i]));
        k++;
    }
    *n = chosen.n;
    return LVN_OK;
}

static enum lvn_status write_ref(struct hub_download *b)
{
    if (strcmp(b->f->revision, b->all.commit) == 0) return LVN_OK;
    char *path = lvn_arena_printf(b->a, "%s/refs/%s", b->folder, b->f->revision),
         *dir = path ? lvn_path_dir(b->a, path) : NULL;
    if (!dir) return LVN_MEMORY;
    LVN_TRY(lvn_dir_make(dir));
    return lvn_file_write(path, b->all.commit, (int64_t)strlen(b->all.commit));
}

/* The path in the snapshot; LVN_IO if it is missing. */
static enum lvn_status find_in_cache(struct hub_download *b, struct lvn_arena *a, const char **local)
{
    const char *snapshot, *hub = lvn_hub_cache(b->a);
    LVN_TRY(lvn_hub_cache_snapshot(b->a, b->folder, b->f->revision, &snapshot));
    const char *path = snapshot ? lvn_path_join(b->a, snapshot, b->p->key) : "";
    if (!path || !hub) return LVN_MEMORY;
    LVN_CHECK(snapshot && lvn_path_exists(path), IO,
              "'%s' is not in Hugging Face's cache on this machine ('%s'), and %s", b->p->url, hub,
              lvn_hf_offline() ? "HF_HUB_OFFLINE forbids to fetch it" : "the hub cannot be reached");
    *local = lvn_arena_strdup(a, path);
    return *local ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status download_from_hub(struct hub_download *b, enum lvn_store_want want, struct lvn_arena *a,
                                         const char **local)
{
    int n;
    b->snapshot = lvn_arena_printf(b->a, "%s/snapshots/%s", b->folder, b->all.commit);
    if (!b->snapshot) return LVN_MEMORY;
    LVN_TRY(download_wanted(b, want, &n));
    LVN_CHECK(n > 0, IO, "'%s' holds no file that levin needs", b->p->url);
    LVN_TRY(write_ref(b));
    size_t length = strlen(b->p->key);
    while (length && b->p->key[length - 1] == '/') length--;
    *local = lvn_arena_printf(a, "%s%s%.*s", b->snapshot, length ? "/" : "", (int)length, b->p->key);
    return *local ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_hf_download(struct lvn_location *p, struct lvn_http *h, enum lvn_store_want want,
                                struct lvn_arena *a, const char **local)
{
    struct hub_download b = {.p = p, .f = p->private_data, .a = &p->arena};
    bool reached = false;
    b.folder = lvn_hub_cache_folder(b.a, b.f->kind, b.f->repo);
    if (!b.folder) return LVN_MEMORY;
    if (lvn_hf_offline()) return find_in_cache(&b, a, local);
    enum lvn_status status = lvn_hf_stat(p, h, &b.all, &reached);
    if (status == LVN_OK) return download_from_hub(&b, want, a, local);
    if (status != LVN_IO || reached) return status;
    char *reason = lvn_arena_strdup(b.a, lvn_error_text());
    LVN_TRY_WHILE(find_in_cache(&b, a, local), "asking the hub: %s", reason ? reason : "");
    lvn_log(LVN_LOG_WARN, "the hub cannot be reached; '%s' is taken from the cache: %s", p->url, *local);
    return LVN_OK;
}

/* hf_download.c - downloads files of the Hugging Face hub into its own cache (stores/hub/hub_cache.h), which levin and
 * Python's tools then share. It is the `download` function of hf.c.
 *
 *     models--ORG--NAME/blobs/HASH                   the content of a file
 *     models--ORG--NAME/snapshots/COMMIT/PATH        a link to it
 *     models--ORG--NAME/refs/main                    the commit of `main` at the time of the download
 *
 * With HF_HUB_OFFLINE, or if the hub cannot be reached or is overloaded, the cached files are used. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "stores/hub/hf.h"
#include "stores/hub/hub_cache.h"
#include "stores/store_private.h"

struct hub_download {
    struct lvn_location *location;
    const struct lvn_hf *hf;
    struct lvn_arena *a; /* that of the location */
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

static enum lvn_status download_one(struct hub_download *download, const struct lvn_hf_file *file)
{
    const char *path = lvn_path_join(download->a, download->snapshot, file->name);
    char *dir = path ? lvn_path_dir(download->a, path) : NULL;
    char *url = lvn_arena_printf(download->a, "hf://%s/%s@%s/%s", download->hf->kind, download->hf->repo,
                                 download->all.commit, file->name);
    if (!dir || !url) return LVN_MEMORY;
    if (lvn_path_is_file(path)) return LVN_OK;
    LVN_TRY_WHILE(lvn_dir_make(dir), "creating a folder of Hugging Face's cache; HF_HOME selects another one");
    if (!file->blob) return lvn_store_get_durable(url, path, NULL, NULL, NULL);
    char *blob = lvn_arena_printf(download->a, "%s/blobs/%s", download->folder, file->blob);
    char *target = link_target(download->a, file->name, file->blob);
    if (!blob || !target) return LVN_MEMORY;
    if (!lvn_path_is_file(blob)) LVN_TRY(lvn_store_get_durable(url, blob, file->sha256, NULL, NULL));
    return link_blob(target, path, blob);
}

/* Download the needed files below the key, or the single file `key`; *n: their number. */
static enum lvn_status download_wanted(struct hub_download *download, enum lvn_store_want want, int *n)
{
    const char *key = download->location->key;
    size_t skip = strlen(key);
    struct lvn_store_entries chosen = {0};
    while (skip && key[skip - 1] == '/') skip--;
    *n = 0;
    for (int i = 0; i < download->all.n; i++) {
        const struct lvn_hf_file *file = &download->all.file[i];
        if (skip && strcmp(file->name, key) == 0) {
            *n = 1;
            return download_one(download, file);
        }
        if (skip && (strncmp(file->name, key, skip) != 0 || file->name[skip] != '/')) continue;
        const char *name = file->name + (skip ? skip + 1 : 0);
        LVN_TRY(lvn_entries_add(download->a, &chosen, name, (int64_t)strlen(name), LVN_STORE_FILE, file->bytes));
    }
    lvn_store_choose(&chosen, want);
    for (int i = 0, k = 0; i < download->all.n && k < chosen.n; i++) { /* both lists are in the same order */
        const char *name = download->all.file[i].name + (skip ? skip + 1 : 0);
        if (strlen(download->all.file[i].name) <= skip || strcmp(name, chosen.entry[k].name) != 0) continue;
        LVN_TRY(download_one(download, &download->all.file[i]));
        k++;
    }
    *n = chosen.n;
    return LVN_OK;
}

/* Record the commit of the branch. The cache of another user may be read-only; then the next use asks the hub again. */
static enum lvn_status write_ref(struct hub_download *download)
{
    const char *snapshot;
    if (strcmp(download->hf->revision, download->all.commit) == 0) return LVN_OK;
    LVN_TRY(lvn_hub_cache_snapshot(download->a, download->folder, download->hf->revision, &snapshot));
    if (snapshot && strcmp(snapshot, download->snapshot) == 0) return LVN_OK;
    char *path = lvn_arena_printf(download->a, "%s/refs/%s", download->folder, download->hf->revision),
         *dir = path ? lvn_path_dir(download->a, path) : NULL;
    if (!dir) return LVN_MEMORY;
    enum lvn_status status = lvn_dir_make(dir);
    if (status == LVN_OK) status = lvn_file_write(path, download->all.commit, (int64_t)strlen(download->all.commit));
    if (status != LVN_IO) return status;
    lvn_log(LVN_LOG_DEBUG, "the branch is not recorded: %s", levin_error_text());
    lvn_error_clear();
    return LVN_OK;
}

/* Warn of a folder of data, of which the cache may have a part alone. Models name their parts in files, and other tools
 * leave out those that nobody needs. */
static enum lvn_status warn_of_part(const struct hub_download *download, enum lvn_store_want want, const char *path)
{
    struct lvn_store_entries cached;
    if ((want != LVN_WANT_ALL && want != LVN_WANT_TOKENS) || !lvn_path_is_dir(path)) return LVN_OK;
    LVN_TRY(lvn_store_list(download->a, path, true, &cached));
    lvn_store_choose(&cached, want);
    lvn_log_once(LVN_LOG_WARN,
                 "'%s': the %d file%s in Hugging Face's cache on this machine %s used; the hub's list of files was not "
                 "read, so others may be missing; they are downloaded when the hub can be queried",
                 download->location->url, cached.n, lvn_plural(cached.n), cached.n == 1 ? "is" : "are");
    return LVN_OK;
}

/* The path in the snapshot; LVN_IO if it is missing. */
static enum lvn_status find_in_cache(struct hub_download *download, enum lvn_store_want want, struct lvn_arena *a,
                                     const char **local)
{
    const char *snapshot, *hub = lvn_hub_cache(download->a);
    LVN_TRY(lvn_hub_cache_snapshot(download->a, download->folder, download->hf->revision, &snapshot));
    const char *path = snapshot ? lvn_path_join(download->a, snapshot, download->location->key) : "";
    if (!path || !hub) return LVN_MEMORY;
    LVN_CHECK(snapshot && lvn_path_exists(path), IO,
              "'%s' is not in Hugging Face's cache on this machine ('%s'), and %s", download->location->url, hub,
              lvn_hf_offline() ? "HF_HUB_OFFLINE disables fetching" : "the hub cannot be reached");
    *local = lvn_arena_strdup(a, path);
    return *local ? warn_of_part(download, want, path) : LVN_MEMORY;
}

/* find_in_cache() after the hub did not respond, which the error record describes. */
static enum lvn_status find_without_hub(struct hub_download *download, enum lvn_store_want want, struct lvn_arena *a,
                                        const char **local)
{
    char *reason = lvn_arena_strdup(download->a, levin_error_text());
    LVN_TRY_WHILE(find_in_cache(download, want, a, local), "querying the hub: %s", reason ? reason : "");
    lvn_log_once(LVN_LOG_WARN, "the hub cannot be reached; using '%s' from the cache: %s", download->location->url,
                 *local);
    return LVN_OK;
}

enum lvn_status lvn_hf_stat_cached(struct lvn_location *location, struct lvn_object *object)
{
    const struct lvn_hf *hf = location->private_data;
    struct lvn_arena *a = &location->arena;
    const char *folder = lvn_hub_cache_folder(a, hf->kind, hf->repo), *snapshot;
    struct stat s;
    *object = (struct lvn_object){.bytes = -1};
    if (!folder) return LVN_MEMORY;
    LVN_TRY(lvn_hub_cache_snapshot(a, folder, hf->revision, &snapshot));
    const char *path = snapshot ? lvn_path_join(a, snapshot, location->key) : "";
    if (!path) return LVN_MEMORY;
    if (!snapshot || stat(path, &s) != 0) return LVN_OK;
    object->kind = S_ISDIR(s.st_mode) ? LVN_STORE_FOLDER : LVN_STORE_FILE;
    if (object->kind == LVN_STORE_FILE) object->bytes = s.st_size;
    return LVN_OK;
}

enum lvn_status lvn_hf_list_cached(struct lvn_location *location, bool deep, struct lvn_arena *a,
                                   struct lvn_store_entries *out)
{
    struct hub_download download = {.location = location, .hf = location->private_data, .a = &location->arena};
    const char *local;
    download.folder = lvn_hub_cache_folder(download.a, download.hf->kind, download.hf->repo);
    if (!download.folder) return LVN_MEMORY;
    LVN_TRY(lvn_hf_offline() ? find_in_cache(&download, LVN_WANT_MODEL, a, &local)
                             : find_without_hub(&download, LVN_WANT_MODEL, a, &local));
    return lvn_path_is_dir(local) ? lvn_store_list(a, local, deep, out) : LVN_OK;
}

static enum lvn_status download_from_hub(struct hub_download *download, enum lvn_store_want want, struct lvn_arena *a,
                                         const char **local)
{
    int n;
    download->snapshot = lvn_arena_printf(download->a, "%s/snapshots/%s", download->folder, download->all.commit);
    if (!download->snapshot) return LVN_MEMORY;
    LVN_TRY(download_wanted(download, want, &n));
    LVN_CHECK(n > 0, IO, "'%s' contains no file that levin needs", download->location->url);
    LVN_TRY(write_ref(download));
    size_t length = strlen(download->location->key);
    while (length && download->location->key[length - 1] == '/') length--;
    *local =
        lvn_arena_printf(a, "%s%s%.*s", download->snapshot, length ? "/" : "", (int)length, download->location->key);
    return *local ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_hf_download(struct lvn_location *location, struct lvn_http *http, enum lvn_store_want want,
                                struct lvn_arena *a, const char **local)
{
    struct hub_download download = {.location = location, .hf = location->private_data, .a = &location->arena};
    bool reached = false;
    download.folder = lvn_hub_cache_folder(download.a, download.hf->kind, download.hf->repo);
    if (!download.folder) return LVN_MEMORY;
    if (lvn_hf_offline()) return find_in_cache(&download, want, a, local);
    enum lvn_status status = lvn_hf_stat(location, http, &download.all, &reached);
    if (status == LVN_OK) return download_from_hub(&download, want, a, local);
    return status == LVN_IO && !reached ? find_without_hub(&download, want, a, local) : status;
}

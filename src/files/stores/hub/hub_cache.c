/* hub_cache.c - see hub_cache.h. */
#include "stores/hub/hub_cache.h"

#include "base/files.h"
#include "base/getenv.h"
#include "base/host/cache_dir.h"

const char *lvn_hub_home(struct lvn_arena *a)
{
    const char *home = lvn_getenv("HF_HOME"), *cache = lvn_getenv("XDG_CACHE_HOME"), *user = lvn_getenv("HOME");
    if (home) return home;
    if (cache) return lvn_path_join(a, cache, "huggingface");
    if (user) return lvn_path_join(a, user, ".cache/huggingface");
    return lvn_cache_folder(a, "huggingface", &home) == LVN_OK ? home : NULL;
}

const char *lvn_hub_cache(struct lvn_arena *a)
{
    const char *hub = lvn_getenv("HF_HUB_CACHE");
    if (!hub) hub = lvn_getenv("HUGGINGFACE_HUB_CACHE");
    if (hub) return hub;
    const char *home = lvn_hub_home(a);
    return home ? lvn_path_join(a, home, "hub") : NULL;
}

const char *lvn_hub_cache_folder(struct lvn_arena *a, const char *kind, const char *repository)
{
    const char *slash = strchr(repository, '/'), *cache = lvn_hub_cache(a);
    if (!cache) return NULL;
    return slash ? lvn_arena_printf(a, "%s/%s--%.*s--%s", cache, kind, (int)(slash - repository), repository, slash + 1)
                 : lvn_arena_printf(a, "%s/%s--%s", cache, kind, repository);
}

/* The commit of a branch; the name itself if no such branch exists (it may be a commit). */
static enum lvn_status commit_of(struct lvn_arena *a, const char *folder, const char *revision, const char **out)
{
    char *path = lvn_arena_printf(a, "%s/refs/%s", folder, revision), *text;
    int64_t bytes;
    if (!path) return LVN_MEMORY;
    *out = revision;
    if (!lvn_path_is_file(path)) return LVN_OK;
    LVN_TRY(lvn_file_read(path, 1000, &text, &bytes));
    *out = lvn_arena_printf(a, "%.*s", (int)strcspn(text, " \r\n"), text);
    free(text);
    return *out ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_hub_cache_snapshot(struct lvn_arena *a, const char *folder, const char *revision, const char **out)
{
    const char *commit;
    *out = NULL;
    if (!lvn_path_is_dir(folder)) return LVN_OK;
    LVN_TRY(commit_of(a, folder, revision, &commit));
    char *snapshot = lvn_arena_printf(a, "%s/snapshots/%s", folder, commit);
    if (!snapshot) return LVN_MEMORY;
    if (!strchr(commit, '/') && lvn_path_is_dir(snapshot)) *out = snapshot;
    return LVN_OK;
}

enum lvn_status lvn_hub_cache_find(struct lvn_arena *a, const char *model, const char *revision, const char **out)
{
    const char *folder = lvn_hub_cache_folder(a, "models", model);
    *out = NULL;
    return folder ? lvn_hub_cache_snapshot(a, folder, revision ? revision : "main", out) : LVN_MEMORY;
}

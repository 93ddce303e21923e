/* data_fetch.c - see data_fetch.h. MIN_STREAM: files below are downloaded before training begins. */
#include "data/data_fetch.h"

#include "base/files.h"
#include "base/text.h"
#include "data/dataset.h"
#include "data/sources/shard_list.h"
#include "stores/streaming_file.h"

enum { MIN_STREAM = 16 << 20 };

/* The sidecar, nanoGPT's meta.pkl and the tokenizer's files of a .bin file. */
static enum lvn_status download_sidecars(struct lvn_arena *a, const char *url)
{
    const char *dir = lvn_path_dir(a, url), *json = lvn_arena_printf(a, "%s.json", url),
               *meta = dir ? lvn_store_join(a, dir, "meta.pkl") : NULL;
    if (!json || !meta) return LVN_MEMORY;
    LVN_TRY(lvn_store_download_optional(json));
    LVN_TRY(lvn_store_download_optional(meta));
    return lvn_store_download_companions(a, url);
}

enum lvn_status lvn_data_fetch(struct lvn_arena *a, const char *path, const char **local)
{
    *local = path;
    if (!path || !lvn_store_is_url(path)) return LVN_OK;
    LVN_TRY(lvn_store_download(a, path, LVN_WANT_TOKENS, local));
    bool tokens = lvn_ends_with(path, ".bin") && lvn_path_is_file(*local);
    return tokens && lvn_store_is_remote(path) ? download_sidecars(a, path) : LVN_OK;
}

/* Download what a folder with training shards has besides these, and the sidecar of the first one. *first NULL: it has
 * no training shards. */
static enum lvn_status download_others(struct lvn_arena *a, const char *path, const char **first)
{
    struct lvn_store_entries files;
    const char *local, *sidecar = "";
    int64_t prefix;
    *first = NULL;
    LVN_TRY(lvn_store_list_wanted(a, path, LVN_WANT_TOKENS, &files));
    for (int i = 0; i < files.n && !*first; i++)
        if (lvn_shard_file_split(files.entry[i].name, &prefix) == LVN_SPLIT_TRAIN) *first = files.entry[i].name;
    if (!*first) return LVN_OK;
    sidecar = lvn_arena_printf(a, "%s.json", *first);
    if (!sidecar) return LVN_MEMORY;
    for (int i = 0; i < files.n; i++) {
        const char *name = files.entry[i].name, *url = lvn_store_join(a, path, name);
        const bool json = lvn_ends_with(name, ".json"), of_shard = json && lvn_ends_with(name, ".bin.json");
        const char *bin = lvn_arena_printf(a, "%.*s", (int)(strlen(name) - (json ? 5 : 0)), name);
        if (!url || !bin) return LVN_MEMORY;
        const bool training = lvn_shard_file_split(of_shard ? bin : name, &prefix) == LVN_SPLIT_TRAIN;
        if (!training || !strcmp(name, sidecar)) LVN_TRY(lvn_store_download(a, url, LVN_WANT_ALL, &local));
    }
    return LVN_OK;
}

static enum lvn_status stream_shards(struct lvn_arena *a, const char *path, const char **local, const char **shards)
{
    const char *first, *file;
    LVN_TRY(download_others(a, path, &first));
    if (!first) return lvn_data_fetch(a, path, local);
    const char *url = lvn_store_join(a, path, first);
    if (!url) return LVN_MEMORY;
    LVN_TRY(lvn_store_cached_path(a, url, &file));
    *shards = path;
    *local = lvn_path_dir(a, file);
    return *local ? lvn_dir_make(*local) : LVN_MEMORY;
}

enum lvn_status lvn_data_stream(struct lvn_arena *a, const char *path, const char **local,
                                struct lvn_streaming_file **stream, const char **shards)
{
    enum lvn_store_kind kind;
    int64_t bytes;
    const char *folder;
    *stream = NULL;
    *shards = NULL;
    if (!lvn_store_is_remote(path)) return lvn_data_fetch(a, path, local);
    LVN_TRY(lvn_store_stat(path, &kind, &bytes));
    bool is_folder = kind == LVN_STORE_FOLDER, is_bin = lvn_ends_with(path, ".bin");
    const char *url = is_folder ? lvn_store_join(a, path, "train.bin") : path;
    if (!url) return LVN_MEMORY;
    if (is_folder) LVN_TRY(lvn_store_stat(url, &kind, &bytes));
    if (is_folder && kind == LVN_STORE_NOTHING) return stream_shards(a, path, local, shards);
    if (kind != LVN_STORE_FILE || (!is_folder && !is_bin) || bytes < MIN_STREAM) return lvn_data_fetch(a, path, local);
    const char *val = lvn_store_join(a, path, "val.bin");
    const char *val_json = val ? lvn_arena_printf(a, "%s.json", val) : NULL;
    if (!val_json) return LVN_MEMORY;
    LVN_TRY(download_sidecars(a, url));
    if (is_folder) LVN_TRY(lvn_store_download_optional(val));
    if (is_folder) LVN_TRY(lvn_store_download_optional(val_json));
    LVN_TRY(lvn_store_cached_path(a, url, &folder)); /* path of the file once downloaded */
    *local = is_folder ? lvn_path_dir(a, folder) : folder;
    return *local ? lvn_streaming_file_open(stream, url) : LVN_MEMORY;
}

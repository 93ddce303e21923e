/* store_download.c - lvn_store_download(): makes files and folders of stores available on this machine, through the
 * cache. */

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "base/work.h"
#include "stores/cache.h"
#include "stores/store_private.h"

bool lvn_store_name_is_safe(const char *name)
{
    for (const char *part = name; *part;) {
        size_t n = strcspn(part, "/");
        if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.')) return false;
        part += n;
        if (*part == '/' && !*++part) return false;
    }
    return *name != '\0';
}

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(name, *names) == 0) return true;
    return false;
}

const char *const lvn_store_tokenizer_files[] = {"tokenizer.json", "vocab.json", "merges.txt", "encoder.json",
                                                 "vocab.bpe",      "vocab.txt",  NULL};
const char *const lvn_store_tokenizer_companions[] = {"tokenizer_config.json",
                                                      "special_tokens_map.json",
                                                      "added_tokens.json",
                                                      "chat_template.jinja",
                                                      "chat_template.json",
                                                      "tokenizer.model", /* SentencePiece's, or tiktoken's */
                                                      "spiece.model",
                                                      "sentencepiece.bpe.model",
                                                      "tekken.json",
                                                      "qwen.tiktoken",
                                                      "tiktoken.model",
                                                      LVN_TOOL_TEMPLATE,
                                                      NULL};
const char *const lvn_store_model_companions[] = {"generation_config.json",
                                                  "preprocessor_config.json",
                                                  "processor_config.json",
                                                  "LICENSE",
                                                  "LICENSE.txt",
                                                  "LICENSE.md",
                                                  "NOTICE",
                                                  "NOTICE.txt",
                                                  "USE_POLICY.md",
                                                  NULL};
static const char *const model_files[] = {"config.json",
                                          "ckpt.pt",
                                          "state/manifest.json",
                                          "state/settings.yaml",
                                          "state/vocabulary.json",
                                          "adapter_config.json", /* of PEFT, and in levin's checkpoints: */
                                          "adapter/adapter_config.json",
                                          "adapter/adapter_model.safetensors",
                                          "adapter/base.json",
                                          "base.json",
                                          NULL};

bool lvn_store_is_chat_template(const char *name)
{
    static const char folder[] = LVN_CHAT_TEMPLATES "/";
    const size_t n = sizeof folder - 1;
    return strncmp(name, folder, n) == 0 && name[n] != '.' && !strchr(name + n, '/') && lvn_ends_with(name, ".jinja");
}

/* A file of a run itself, or of a run in a folder of runs, and not of its checkpoints. */
static bool is_run_file(const char *name)
{
    static const char *const files[] = {"settings.yaml", "status.json", "metrics.jsonl", "metrics.csv", "events.jsonl",
                                        "loss.svg",      NULL};
    const char *run = strchr(name, '/');
    return is_one_of(run ? run + 1 : name, files);
}

/* Is `name` the file `weights` or, if that is an index, one of its shards? False for variants such as
 * model.fp16.safetensors. */
static bool is_of_weights(const char *name, const char *weights)
{
    const size_t stem = strcspn(weights, "."), dot = strcspn(name, ".");
    if (strcmp(name, weights) == 0) return true;
    return lvn_ends_with(weights, ".index.json") && strncmp(name, weights, stem) == 0 && name[dot] &&
           strcmp(name + dot, weights[stem + 1] == 'b' ? ".bin" : ".safetensors") == 0;
}

/* weights: the file of weights, or the index, that will be read from the folder; NULL: it has none. */
static bool is_wanted(enum lvn_store_want want, const char *name, const char *weights)
{
    if (want == LVN_WANT_ALL) return true;
    if (want == LVN_WANT_RUNS) return is_run_file(name);
    if (is_one_of(name, lvn_store_tokenizer_files) || is_one_of(name, lvn_store_tokenizer_companions) ||
        lvn_store_is_chat_template(name))
        return true;
    if (want == LVN_WANT_TOKENIZER) return strcmp(name, "config.json") == 0; /* its model_type is read, too */
    if (want == LVN_WANT_TOKENS)
        return !strchr(name, '/') && (lvn_ends_with(name, ".bin") || lvn_ends_with(name, ".json") ||
                                      lvn_ends_with(name, ".txt") || strcmp(name, "meta.pkl") == 0);
    if (is_one_of(name, model_files) || is_one_of(name, lvn_store_model_companions)) return true;
    return weights && is_of_weights(name, weights);
}

void lvn_store_choose(struct lvn_store_entries *all, enum lvn_store_want want)
{
    /* In the order of lvn_weights_open(), then adapters. Mistral's folders also contain all weights by other names. */
    static const char *const weights[] = {"model.safetensors",
                                          "model.safetensors.index.json",
                                          "pytorch_model.bin",
                                          "pytorch_model.bin.index.json",
                                          "adapter_model.safetensors",
                                          "adapter_model.bin",
                                          NULL};
    int n = 0, w = 0;
    while (weights[w] && !lvn_entries_have(all, weights[w])) w++;
    for (int i = 0; i < all->n; i++)
        if (all->entry[i].kind == LVN_STORE_FILE && is_wanted(want, all->entry[i].name, weights[w]))
            all->entry[n++] = all->entry[i];
    all->n = n;
}

/* Remove cached files that the folder no longer has; otherwise they would appear to be part of it. Files that are not
 * wanted may be of other uses of the folder, such as a model in a folder below, and stay. So do unfinished downloads of
 * its files, which this process resumes if no other one continues them. */
static enum lvn_status drop_others(struct lvn_arena *a, const char *files, const char *facts, enum lvn_store_want want,
                                   const struct lvn_store_entries *wanted)
{
    struct lvn_store_entries cached;
    if (!lvn_path_is_dir(files)) return LVN_OK;
    LVN_TRY(lvn_store_list(a, files, want != LVN_WANT_TOKENS, &cached));
    if (want != LVN_WANT_ALL) lvn_store_choose(&cached, want);
    for (int i = 0; i < cached.n; i++) {
        const size_t n = lvn_store_cache_part(cached.entry[i].name);
        const char *whole = lvn_arena_printf(a, "%.*s", (int)n, cached.entry[i].name);
        if (!whole) return LVN_MEMORY;
        if (lvn_entries_have(wanted, cached.entry[i].name) || (n && lvn_entries_have(wanted, whole))) continue;
        const char *file = lvn_path_join(a, files, cached.entry[i].name),
                   *fact = lvn_path_join(a, facts, cached.entry[i].name);
        if (!file || !fact) return LVN_MEMORY;
        (void)lvn_store_cache_drop(file, fact);
    }
    return LVN_OK;
}

/* Remove names that no file of this machine can have ("a//b", "../a"). */
static void drop_unsafe(const char *url, struct lvn_store_entries *all)
{
    int n = 0;
    for (int i = 0; i < all->n; i++)
        if (lvn_store_name_is_safe(all->entry[i].name))
            all->entry[n++] = all->entry[i];
        else
            lvn_log(LVN_LOG_WARN, "the file '%.200s' of '%s' is skipped: its name has an empty part, '.' or '..'",
                    all->entry[i].name, url);
    all->n = n;
}

enum lvn_status lvn_store_list_wanted(struct lvn_arena *a, const char *path, enum lvn_store_want want,
                                      struct lvn_store_entries *out)
{
    struct lvn_location location;
    const char *files, *facts;
    LVN_TRY(lvn_store_list(a, path, want != LVN_WANT_TOKENS, out)); /* tokens have no folders below theirs */
    lvn_store_choose(out, want);
    drop_unsafe(path, out);
    LVN_TRY(lvn_location_open(&location, path));
    enum lvn_status status = LVN_OK;
    if (location.store->network && !location.store->download) {
        status = lvn_store_cache_path(a, &location, location.key, &files, &facts);
        if (status == LVN_OK) status = drop_others(a, files, facts, want, out);
    }
    lvn_location_close(&location);
    return status;
}

/* Download one file. */
static enum lvn_status download_file(const char *url, struct lvn_http *http, struct lvn_arena *a, const char **local)
{
    struct lvn_location location;
    LVN_TRY(lvn_location_open(&location, url));
    enum lvn_status status = lvn_store_cache_download(&location, http, NULL, NULL, local);
    if (status == LVN_OK && a && !(*local = lvn_arena_strdup(a, *local))) status = LVN_MEMORY;
    lvn_location_close(&location);
    return status;
}

static enum lvn_status download_folder(struct lvn_location *location, struct lvn_http *http, enum lvn_store_want want,
                                       struct lvn_arena *a, const char **local)
{
    struct lvn_store_entries all;
    const char *facts, *file;
    LVN_TRY(lvn_store_list_wanted(&location->arena, location->url, want, &all));
    LVN_CHECK(all.n > 0, IO, "'%s' contains no file that levin needs", location->url);
    LVN_TRY(lvn_store_cache_path(a, location, location->key, local, &facts));
    for (int i = 0; i < all.n; i++) {
        const char *url = lvn_store_join(&location->arena, location->url, all.entry[i].name);
        if (!url) return LVN_MEMORY;
        LVN_TRY(download_file(url, http, NULL, &file));
    }
    return LVN_OK;
}

static enum lvn_status download(struct lvn_location *location, struct lvn_http *http, enum lvn_store_want want,
                                struct lvn_arena *a, const char **local)
{
    if (location->store->download) return location->store->download(location, http, want, a, local);
    enum lvn_store_kind kind;
    int64_t bytes;
    LVN_TRY(lvn_store_stat(location->url, &kind, &bytes));
    LVN_CHECK(kind != LVN_STORE_NOTHING, IO, "'%s' does not exist: check the address", location->url);
    lvn_log(LVN_LOG_DEBUG, "downloading '%s' into the cache", location->url);
    return kind == LVN_STORE_FILE ? download_file(location->url, http, a, local)
                                  : download_folder(location, http, want, a, local);
}

enum lvn_status lvn_store_download(struct lvn_arena *a, const char *path, enum lvn_store_want want, const char **local)
{
    struct lvn_location location;
    struct lvn_http *http = NULL;
    *local = path;
    if (!lvn_store_is_url(path)) return LVN_OK;
    LVN_TRY(lvn_location_open(&location, path));
    enum lvn_status status = LVN_OK;
    if (!location.store->network) {
        *local = lvn_arena_strdup(a, location.key);
        if (!*local) status = LVN_MEMORY;
    } else {
        const char *before = lvn_work_begin("a download");
        status = lvn_http_open(&http);
        if (status == LVN_OK) status = download(&location, http, want, a, local);
        lvn_work_end(before);
        if (status != LVN_OK) status = lvn_while_at(status, "downloading '%s'", path);
    }
    lvn_http_close(http);
    lvn_location_close(&location);
    return status;
}

/* Download the file if it exists; otherwise remove its cached copy. (Not from the hub's cache, which has files by
 * commit, so none of them is out of date.) */
static enum lvn_status download_optional(struct lvn_location *location, struct lvn_http *http)
{
    struct lvn_object object;
    const char *local, *facts;
    enum lvn_status status = location->store->stat(location, http, &object);
    if (status != LVN_OK && (object.forbidden || (object.unreached && location->store->download))) {
        /* without the permission to list, S3 answers 403 for a missing key; but a sidecar says how ids are stored */
        const bool sidecar = object.forbidden && lvn_ends_with(location->url, ".bin.json");
        lvn_log(sidecar ? LVN_LOG_WARN : LVN_LOG_DEBUG, "an optional file counts as missing: %s", levin_error_text());
        lvn_error_clear();
        return LVN_OK; /* nothing says that a cached copy is out of date */
    }
    LVN_TRY(status);
    const bool is_page = object.is_page && !location->store->list;
    if (object.kind == LVN_STORE_FILE && !is_page)
        return lvn_store_download(&location->arena, location->url, LVN_WANT_ALL, &local);
    if (location->store->download) return LVN_OK;
    LVN_TRY(lvn_store_cache_path(&location->arena, location, location->key, &local, &facts));
    (void)lvn_store_cache_drop(local, facts);
    return LVN_OK;
}

enum lvn_status lvn_store_download_optional(const char *path)
{
    struct lvn_location location;
    struct lvn_http *http;
    LVN_TRY(lvn_location_open(&location, path));
    enum lvn_status status = lvn_http_open(&http);
    if (status == LVN_OK) status = download_optional(&location, http);
    lvn_http_close(http);
    lvn_location_close(&location);
    return status;
}

enum lvn_status lvn_store_download_companions(struct lvn_arena *a, const char *path)
{
    static const char *const others[] = {"config.json", NULL}; /* its model_type is read, too */
    const char *const *const lists[] = {lvn_store_tokenizer_files, lvn_store_tokenizer_companions, others},
                             *dir = lvn_path_dir(a, path);
    const char *query = strncmp(path, "http", 4) == 0 ? strchr(path, '?') : NULL;
    if (query && strcmp(query, "?download=true") != 0) { /* the query may be for this file alone, and secret */
        lvn_log_once(
            LVN_LOG_WARN,
            "'%.*s': the address has a query, so tokenizer_config.json and other files beside it are not read; "
            "give the address without a query, or that of the folder",
            (int)(query - path), path);
        return LVN_OK;
    }
    for (int i = 0; i < 3; i++)
        for (const char *const *name = lists[i]; *name; name++) {
            const char *url = dir ? lvn_store_join(a, dir, *name) : NULL;
            if (!url) return LVN_MEMORY;
            LVN_TRY(lvn_store_download_optional(url));
        }
    return LVN_OK;
}

enum lvn_status lvn_store_cached_path(struct lvn_arena *a, const char *path, const char **local)
{
    struct lvn_location location;
    const char *facts;
    LVN_TRY(lvn_location_open(&location, path));
    enum lvn_status status = LVN_UNSUPPORTED;
    if (!location.store->network || location.store->download)
        lvn_fail(status, "'%s' is not stored in levin's cache", path);
    else
        status = lvn_store_cache_path(a, &location, location.key, local, &facts);
    lvn_location_close(&location);
    return status;
}

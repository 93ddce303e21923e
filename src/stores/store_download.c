/* store_download.c - lvn_store_download(): makes files and folders of stores available on this machine, through the
 * cache. */
#include <string.h>

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

const char *const lvn_store_tokenizer_files[] = {"tokenizer.json",
                                                 "tokenizer_config.json",
                                                 "vocab.json",
                                                 "merges.txt",
                                                 "encoder.json",
                                                 "vocab.bpe",
                                                 "vocab.txt",
                                                 "special_tokens_map.json",
                                                 "added_tokens.json",
                                                 "chat_template.jinja",
                                                 NULL};
static const char *const model_files[] = {"config.json",
                                          "generation_config.json",
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

/* Weights in torch.save() format are needed only if there are no safetensors. */
static bool is_wanted(enum lvn_store_want want, const char *name, bool safetensors)
{
    if (want == LVN_WANT_ALL) return true;
    if (is_one_of(name, lvn_store_tokenizer_files)) return true;
    if (want == LVN_WANT_TOKENIZER) return false;
    if (want == LVN_WANT_TOKENS)
        return !strchr(name, '/') &&
               (lvn_ends_with(name, ".bin") || lvn_ends_with(name, ".json") || lvn_ends_with(name, ".txt"));
    if (is_one_of(name, model_files)) return true;
    if (strchr(name, '/')) return false;
    if (lvn_ends_with(name, ".safetensors") || lvn_ends_with(name, ".safetensors.index.json")) return true;
    return !safetensors && strncmp(name, "pytorch_model", 13) == 0 &&
           (lvn_ends_with(name, ".bin") || lvn_ends_with(name, ".bin.index.json"));
}

static bool has_safetensors(const struct lvn_store_entries *all)
{
    for (int i = 0; i < all->n; i++)
        if (!strchr(all->entry[i].name, '/') && lvn_ends_with(all->entry[i].name, ".safetensors")) return true;
    return false;
}

void lvn_store_choose(struct lvn_store_entries *all, enum lvn_store_want want)
{
    int n = 0;
    bool safetensors = has_safetensors(all);
    for (int i = 0; i < all->n; i++)
        if (all->entry[i].kind == LVN_STORE_FILE && is_wanted(want, all->entry[i].name, safetensors))
            all->entry[n++] = all->entry[i];
    all->n = n;
}

/* Removes cached files that the folder no longer has: they would be taken for part of it. */
static enum lvn_status drop_others(struct lvn_arena *a, const char *files, const char *facts,
                                   const struct lvn_store_entries *wanted)
{
    struct lvn_store_entries there;
    if (!lvn_path_is_dir(files)) return LVN_OK;
    LVN_TRY(lvn_store_list(a, files, true, &there));
    for (int i = 0, k = 0; i < there.n; i++) { /* both lists are sorted */
        while (k < wanted->n && strcmp(wanted->entry[k].name, there.entry[i].name) < 0) k++;
        if (k < wanted->n && strcmp(wanted->entry[k].name, there.entry[i].name) == 0) continue;
        const char *file = lvn_path_join(a, files, there.entry[i].name),
                   *fact = lvn_path_join(a, facts, there.entry[i].name);
        if (!file || !fact) return LVN_MEMORY;
        lvn_store_cache_drop(file, fact);
    }
    return LVN_OK;
}

/* Downloads one file; url is the folder's with another key. */
static enum lvn_status download_file(const char *url, struct lvn_http *h, struct lvn_arena *a, const char **local)
{
    struct lvn_location p;
    LVN_TRY(lvn_location_open(&p, url));
    enum lvn_status status = lvn_store_cache_download(&p, h, NULL, NULL, local);
    if (status == LVN_OK && a && !(*local = lvn_arena_strdup(a, *local))) status = LVN_MEMORY;
    lvn_location_close(&p);
    return status;
}

static enum lvn_status download_folder(struct lvn_location *p, struct lvn_http *h, enum lvn_store_want want,
                                       struct lvn_arena *a, const char **local)
{
    struct lvn_store_entries all;
    const char *facts, *file;
    LVN_TRY(lvn_store_list(&p->arena, p->url, true, &all));
    lvn_store_choose(&all, want);
    LVN_CHECK(all.n > 0, IO, "'%s' holds no file that levin needs", p->url);
    LVN_TRY(lvn_store_cache_path(a, p, p->key, local, &facts));
    /* Only a complete listing may remove files: other uses of the folder may have downloaded more. */
    if (want == LVN_WANT_ALL || want == LVN_WANT_MODEL) LVN_TRY(drop_others(&p->arena, *local, facts, &all));
    for (int i = 0; i < all.n; i++) {
        const char *name = all.entry[i].name;
        LVN_CHECK(lvn_store_name_is_safe(name), FORMAT, "'%s' holds the name '%.200s', which leads out of its folder",
                  p->url, name);
        const char *url = lvn_store_join(&p->arena, p->url, name);
        if (!url) return LVN_MEMORY;
        LVN_TRY(download_file(url, h, NULL, &file));
    }
    return LVN_OK;
}

static enum lvn_status download(struct lvn_location *p, struct lvn_http *h, enum lvn_store_want want,
                                struct lvn_arena *a, const char **local)
{
    if (p->store->download) return p->store->download(p, h, want, a, local);
    enum lvn_store_kind kind;
    int64_t bytes;
    LVN_TRY(lvn_store_stat(p->url, &kind, &bytes));
    LVN_CHECK(kind != LVN_STORE_NOTHING, IO, "there is nothing at '%s': check the address", p->url);
    lvn_log(LVN_LOG_DEBUG, "downloading '%s' into the cache", p->url);
    return kind == LVN_STORE_FILE ? download_file(p->url, h, a, local) : download_folder(p, h, want, a, local);
}

enum lvn_status lvn_store_download(struct lvn_arena *a, const char *path, enum lvn_store_want want, const char **local)
{
    struct lvn_location p;
    struct lvn_http *h = NULL;
    *local = path;
    if (!lvn_store_is_url(path)) return LVN_OK;
    LVN_TRY(lvn_location_open(&p, path));
    enum lvn_status status = LVN_OK;
    if (!p.store->network) {
        *local = lvn_arena_strdup(a, p.key);
        if (!*local) status = LVN_MEMORY;
    } else {
        const char *before = lvn_work_begin("a download");
        status = lvn_http_open(&h);
        if (status == LVN_OK) status = download(&p, h, want, a, local);
        lvn_work_end(before);
        if (status != LVN_OK) status = lvn_while_at(status, "downloading '%s'", path);
    }
    lvn_http_close(h);
    lvn_location_close(&p);
    return status;
}

enum lvn_status lvn_store_cached_path(struct lvn_arena *a, const char *path, const char **local)
{
    struct lvn_location p;
    const char *facts;
    LVN_TRY(lvn_location_open(&p, path));
    enum lvn_status status = LVN_UNSUPPORTED;
    if (!p.store->network || p.store->download)
        lvn_fail(status, "'%s' has a cache of its own", path);
    else
        status = lvn_store_cache_path(a, &p, p.key, local, &facts);
    lvn_location_close(&p);
    return status;
}

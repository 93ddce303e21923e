/* model_find.c - see model_find.h. */
#include "train/model_find.h"

#include <string.h>

#include "base/files.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/fetch.h"
#include "formats/torch.h"
#include "stores/hub_cache.h"
#include "stores/store.h"

/* The file in a folder in which another program keeps its model; NULL: there is none. */
static const char *find_checkpoint(struct lvn_arena *a, const char *path)
{
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        const char *file = (*m)->checkpoint ? lvn_path_join(a, path, (*m)->checkpoint) : NULL;
        if (file && lvn_path_is_file(file)) return file;
    }
    return NULL;
}

/* Does this lie here as a model? A folder that is called as a published model and holds a tokenizer alone does not
 * stand for the name. */
static bool is_here(struct lvn_arena *a, const char *path)
{
    static const char *const marks[] = {"config.json", "checkpoints", "manifest.json", "state"};
    if (!lvn_path_is_dir(path)) return lvn_path_exists(path);
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        const char *mark = lvn_path_join(a, path, marks[i]);
        if (mark && lvn_path_exists(mark)) return true;
    }
    return find_checkpoint(a, path) != NULL;
}

/* A model by name: as it is cached under the publisher's name, or under its old one. */
static enum lvn_status find_published(struct lvn_arena *a, const char *name, const char *repository, const char **out)
{
    LVN_TRY(lvn_hub_cache_find(a, repository, NULL, out));
    if (!*out) LVN_TRY(lvn_hub_cache_find(a, name, NULL, out));
    if (*out) return LVN_OK;
    const char *url = lvn_arena_printf(a, "hf://%s", repository), *cache = lvn_hub_cache(a);
    if (!url || !cache) return LVN_MEMORY;
    LVN_TRY_WHILE(
        lvn_store_download(a, url, LVN_WANT_MODEL, out),
        "fetching the model '%s', which is not in Hugging Face's cache on this machine ('%s'); a directory that "
        "holds it will do as well",
        name, cache);
    return LVN_OK;
}

const struct lvn_size *lvn_model_find_size(struct lvn_arena *a, const char *name, const struct lvn_model **model)
{
    const struct lvn_size *size = is_here(a, name) ? NULL : lvn_published_find(name, model);
    const char *here = NULL;
    if (size && (lvn_hub_cache_find(a, size->repository, NULL, &here) != LVN_OK ||
                 (!here && lvn_hub_cache_find(a, size->name, NULL, &here) != LVN_OK)))
        lvn_error_clear();
    return here ? NULL : size;
}

static bool ends_with(const char *text, const char *tail)
{
    size_t n = strlen(text), k = strlen(tail);
    return n > k && strcmp(text + n - k, tail) == 0;
}

/* A file: a checkpoint of torch.save(), or weights whose config.json lies beside them. False: neither. */
static enum lvn_status find_file(struct lvn_arena *a, const char *path, const char **out)
{
    if (!lvn_path_is_file(path)) return LVN_OK;
    char *dir = lvn_path_dir(a, path), *config = dir ? lvn_path_join(a, dir, "config.json") : NULL;
    if (!config) return LVN_MEMORY;
    bool torch = lvn_torch_is_file(path), weights = torch || ends_with(path, ".safetensors");
    if (torch && ends_with(path, ".pt"))
        *out = lvn_arena_strdup(a, path);
    else if (weights && lvn_path_is_file(config))
        *out = dir;
    else if (torch)
        *out = lvn_arena_strdup(a, path);
    LVN_CHECK(*out || !weights, IO, "'%s' holds weights, but no config.json beside it says of which model", path);
    return LVN_OK;
}

enum lvn_status lvn_model_find_files(struct lvn_arena *a, const char *model, const char *prefer, const char **out)
{
    *out = NULL;
    LVN_TRY(lvn_checkpoint_fetch(a, model, prefer, &model));
    LVN_TRY(find_file(a, model, out));
    const char *config = lvn_path_join(a, model, "config.json");
    if (!config) return LVN_MEMORY;
    if (!*out && !lvn_path_is_file(config)) *out = find_checkpoint(a, model);
    if (*out) return LVN_OK;
    const struct lvn_model *m;
    const struct lvn_size *size = is_here(a, model) ? NULL : lvn_published_find(model, &m);
    return size ? find_published(a, size->name, size->repository, out) : lvn_checkpoint_locate(a, model, prefer, out);
}

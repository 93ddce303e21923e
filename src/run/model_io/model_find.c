/* model_find.c - see model_find.h. */
#include "model_io/model_find.h"

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/model_fetch.h"
#include "formats/gguf.h"
#include "formats/torch.h"
#include "models/adapter_files.h"
#include "models/model_folder.h"
#include "stores/hub/hub_cache.h"
#include "stores/store.h"
#include "tokenizers/tokenizer.h"

/* The meaning of a name, by the files of this machine; nothing is downloaded. */
struct place {
    const char *path;            /* the path here; if nothing is found, the name itself */
    const char *run;             /* runs/NAME, whether it exists or not */
    const char *repository;      /* repository on the hub; NULL: the name is none, or a path was found */
    const struct lvn_size *size; /* a published model of levin's table */
    const struct lvn_model *model;
};

/* Is it ORG/NAME, and ORG no folder here? A mistyped path must not download a stranger's model. runs/NAME is a path,
 * even if there are no runs here. */
static bool is_repository(struct lvn_arena *a, const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    size_t org = strspn(name, letters), n = name[org] == '/' ? strspn(name + org + 1, letters) : 0;
    const char *folder = lvn_arena_printf(a, "%.*s", (int)org, name);
    return org && n && !name[org + 1 + n] && name[0] != '.' && folder && !lvn_path_exists(folder) &&
           strcmp(folder, "runs") != 0;
}

static enum lvn_status find_place(struct lvn_arena *a, const char *name,
                                  bool (*here)(struct lvn_arena *a, const char *path), struct place *out)
{
    *out = (struct place){.path = lvn_path_home(a, name), .run = lvn_arena_printf(a, "runs/%s", name)};
    if (!out->path || !out->run) return LVN_MEMORY;
    if (lvn_store_is_url(name) || here(a, out->path)) return LVN_OK;
    if (here(a, out->run)) {
        out->path = out->run;
        return LVN_OK;
    }
    out->size = lvn_published_find(name, &out->model);
    out->repository = out->size ? out->size->repository : is_repository(a, name) ? name : NULL;
    return LVN_OK;
}

static const char *after_runs(const char *name)
{
    return strncmp(name, "runs/", 5) != 0 ? name : name + 5;
}

/* "; did you mean 'NAME'?": a run in runs/ and, if `published`, a published model with a similar name. "": none. */
static const char *suggestion(struct lvn_arena *a, const char *name, bool published)
{
    const char *const *runs = NULL;
    int n = 0;
    if (lvn_path_is_dir("runs") && lvn_dir_list(a, "runs", &runs, &n) != LVN_OK) lvn_error_clear();
    const char *near = lvn_nearest(after_runs(name), runs, n);
    if (!near && published) near = lvn_published_nearest(name);
    const char *text = near ? lvn_arena_printf(a, "; did you mean '%s'?", near) : "";
    return text ? text : "";
}

const char *lvn_run_missing(struct lvn_arena *a, const char *name)
{
    const bool whole = after_runs(name) != name || *name == '/' || *name == '.' || *name == '~';
    const char *text = lvn_arena_printf(a, "there is no run '%.300s'%s%.300s%s%s", name, whole ? "" : ", nor 'runs/",
                                        whole ? "" : name, whole ? "" : "'", suggestion(a, name, false));
    return text ? text : "there is no such run";
}

/* The failure if nothing was found. */
static enum lvn_status refuse_place(struct lvn_arena *a, const struct place *p, const char *kind_of_file,
                                    const char *name)
{
    const bool path = *name == '/' || *name == '.' || *name == '~', run = after_runs(name) != name;
    const char *near = suggestion(a, name, true);
    LVN_CHECK(!path, ARG, "there is no %s '%s': no such file or folder", kind_of_file, name);
    LVN_CHECK(!run, ARG, "there is no %s '%s': no such run%s", kind_of_file, name, near);
    LVN_FAIL(ARG,
             "there is no %s '%s': no such path, no run '%s', and no published model of this name (`levin help model` "
             "lists them; others are ORG/NAME of the Hugging Face hub)%s",
             kind_of_file, name, p->run, near);
}

/* The folder in Hugging Face's cache, under the repository's name or its old one; NULL: none. */
static enum lvn_status find_cached(struct lvn_arena *a, const char *name, const struct place *p, const char **out)
{
    LVN_TRY(lvn_hub_cache_find(a, p->repository, NULL, out));
    return *out ? LVN_OK : lvn_hub_cache_find(a, p->size ? p->size->name : name, NULL, out);
}

static enum lvn_status fetch_place(struct lvn_arena *a, const char *kind_of_file, const char *name,
                                   const struct place *p, enum lvn_store_want want, const char **out)
{
    const char *url = lvn_arena_printf(a, "hf://%s", p->repository), *cache = lvn_hub_cache(a);
    if (!url || !cache) return LVN_MEMORY;
    lvn_log(LVN_LOG_INFO, "fetching the %s '%s' from the Hugging Face hub", kind_of_file, name);
    LVN_TRY_WHILE(want == LVN_WANT_MODEL ? lvn_checkpoint_fetch(a, url, "best", out)
                                         : lvn_store_download(a, url, want, out),
                  "fetching the %s '%s' from the Hugging Face hub: there is no such path here, no run '%s', and it is "
                  "not in the hub's cache on this machine ('%s'); a directory that holds it will do as well",
                  kind_of_file, name, p->run, cache);
    return LVN_OK;
}

const struct lvn_size *lvn_model_find_size(struct lvn_arena *a, const char *name, const struct lvn_model **model)
{
    struct place p;
    const char *here = NULL;
    if (find_place(a, name, lvn_model_is_here, &p) != LVN_OK || (p.size && find_cached(a, name, &p, &here) != LVN_OK))
        lvn_error_clear();
    *model = p.model;
    return here ? NULL : p.size;
}

/* A file of a tokenizer, a folder with one, or a model that has one. */
static bool has_tokenizer(struct lvn_arena *a, const char *path)
{
    return lvn_path_is_dir(path) ? lvn_tokenizer_exists(path) || lvn_model_is_here(a, path) : lvn_path_exists(path);
}

enum lvn_status lvn_tokenizer_find_files(struct lvn_arena *a, const char *name, const char **out)
{
    struct place p;
    LVN_TRY(find_place(a, name, has_tokenizer, &p));
    *out = NULL;
    if (p.repository) {
        LVN_TRY(find_cached(a, name, &p, out));
        return *out && lvn_tokenizer_exists(*out) ? LVN_OK
                                                  : fetch_place(a, "tokenizer", name, &p, LVN_WANT_TOKENIZER, out);
    }
    *out = p.path;
    if (lvn_store_is_url(p.path)) return LVN_OK;
    if (!lvn_path_exists(p.path)) return refuse_place(a, &p, "tokenizer", name);
    bool model = lvn_path_is_dir(p.path) && !lvn_tokenizer_exists(p.path) && lvn_model_is_here(a, p.path);
    return model ? lvn_model_find_files(a, p.path, "best", out) : LVN_OK;
}

/* Is it a file: a checkpoint of torch.save(), a GGUF file, or weights with config.json in the same folder? */
static enum lvn_status find_file(struct lvn_arena *a, const char *path, const char **out)
{
    if (!lvn_path_is_file(path)) return LVN_OK;
    char *dir = lvn_path_dir(a, path), *config = dir ? lvn_path_join(a, dir, "config.json") : NULL;
    if (!config) return LVN_MEMORY;
    bool torch = lvn_torch_is_file(path), weights = torch || lvn_ends_with(path, ".safetensors");
    int parts;
    const char *first = lvn_gguf_part(a, path, 1, &parts);
    if (first && lvn_path_is_file(first))
        *out = first;
    else if (lvn_gguf_is_file(path) || (torch && lvn_ends_with(path, ".pt")))
        *out = lvn_arena_strdup(a, path);
    else if (weights && lvn_path_is_file(config))
        *out = dir;
    else if (torch)
        *out = lvn_arena_strdup(a, path);
    LVN_CHECK(*out || !weights, IO, "'%s' holds weights, but its folder has no config.json, which says of which model",
              path);
    return LVN_OK;
}

enum lvn_status lvn_model_find_files(struct lvn_arena *a, const char *model, const char *prefer, const char **out)
{
    struct place p;
    *out = NULL;
    LVN_TRY(find_place(a, model, lvn_model_is_here, &p));
    if (p.repository) {
        LVN_TRY(find_cached(a, model, &p, out));
        return *out ? lvn_checkpoint_fetch(a, *out, prefer, out)
                    : fetch_place(a, "model", model, &p, LVN_WANT_MODEL, out);
    }
    LVN_TRY(lvn_checkpoint_fetch(a, p.path, prefer, &p.path));
    if (!lvn_path_exists(p.path)) return refuse_place(a, &p, "model", model);
    LVN_TRY(find_file(a, p.path, out));
    const char *config = lvn_path_join(a, p.path, "config.json"),
               *adapters = lvn_path_join(a, p.path, LVN_ADAPTERS_CONFIG);
    if (!config || !adapters) return LVN_MEMORY;
    if (!*out && !lvn_path_is_file(config))
        *out = lvn_path_is_file(adapters) ? p.path : lvn_model_folder_checkpoint(a, p.path);
    return *out ? LVN_OK : lvn_checkpoint_locate(a, p.path, prefer, out);
}

enum lvn_status lvn_model_check_name(struct lvn_arena *a, const char *model)
{
    struct place p;
    LVN_TRY(find_place(a, model, lvn_model_is_here, &p));
    const bool found = p.repository || lvn_store_is_url(p.path) || lvn_path_exists(p.path);
    return found || strchr(model, '/') ? LVN_OK : refuse_place(a, &p, "model", model);
}

bool lvn_model_has_characters(struct lvn_arena *a, const char *model)
{
    struct place p;
    const char *dir = NULL, *file = NULL;
    enum lvn_status status = find_place(a, model, lvn_model_is_here, &p);
    if (status == LVN_OK && !lvn_store_is_url(p.path) && lvn_path_is_dir(p.path))
        status = lvn_checkpoint_locate(a, p.path, "best", &dir);
    if (status == LVN_OK && dir) file = lvn_path_join(a, dir, "state/vocabulary.json");
    if (status != LVN_OK) lvn_error_clear();
    return file && lvn_path_is_file(file);
}

enum lvn_status lvn_model_find_name(struct lvn_arena *a, const char *model, const char *found, const char **out)
{
    struct place p;
    char real[PATH_MAX];
    LVN_TRY(find_place(a, model, lvn_model_is_here, &p));
    *out = p.repository ? p.repository : p.path;
    if (p.repository || lvn_store_is_url(p.path)) return LVN_OK;
    *out = lvn_arena_strdup(a, realpath(found, real) ? real : found);
    return *out ? LVN_OK : LVN_MEMORY;
}

/* model_fetch.c - see model_fetch.h. */
#include "checkpoints/model_fetch.h"

#include "base/files.h"
#include "base/text.h"
#include "checkpoints/checkpoint_private.h"
#include "formats/gguf.h"
#include "stores/store.h"

/* The folder name to which `best` or `last` refers: the step in a pointer file, the name itself if it is a folder; ""
 * if it is missing or invalid. */
static enum lvn_status read_pointer(struct lvn_arena *a, const char *dir, const char *name, const char **step)
{
    const char *path = lvn_store_join(a, dir, name);
    enum lvn_store_kind kind;
    int64_t bytes, number;
    char *text;
    *step = "";
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_store_stat(path, &kind, &bytes));
    if (kind == LVN_STORE_FOLDER) *step = name;
    if (kind != LVN_STORE_FILE || bytes > 32) return LVN_OK;
    LVN_TRY(lvn_store_read(path, 32, &text, &bytes));
    text[strcspn(text, "\r\n")] = '\0';
    if (lvn_checkpoint_parse_step(text, &number)) *step = lvn_arena_strdup(a, text);
    free(text);
    return *step ? LVN_OK : LVN_MEMORY;
}

/* The newest completely uploaded step-N: its manifest is uploaded last. */
static enum lvn_status newest(struct lvn_arena *a, const char *dir, const char **step)
{
    struct lvn_store_entries all;
    int64_t max = -1, number;
    enum lvn_store_kind kind;
    LVN_TRY(lvn_store_list(a, dir, false, &all));
    for (int i = 0; i < all.n; i++) {
        const char *name = all.entry[i].name;
        if (!lvn_checkpoint_parse_step(name, &number) || number <= max) continue;
        const char *manifest = lvn_arena_printf(a, "%s/%s/state/manifest.json", dir, name);
        if (!manifest) return LVN_MEMORY;
        LVN_TRY(lvn_store_stat(manifest, &kind, &(int64_t){0}));
        if (kind != LVN_STORE_FILE) continue;
        max = number;
        *step = name;
    }
    return LVN_OK;
}

/* The folder of one model below the given URL. */
static enum lvn_status find(struct lvn_arena *a, const char *url, const char *prefer, const char **out)
{
    const char *step = "", *config = lvn_store_join(a, url, "config.json");
    const char *folders[] = {lvn_store_join(a, url, "checkpoints"), url};
    enum lvn_store_kind kind;
    int64_t bytes;
    if (!config || !folders[0]) return LVN_MEMORY;
    *out = url;
    LVN_TRY(lvn_store_stat(config, &kind, &bytes));
    if (kind == LVN_STORE_FILE) return LVN_OK;
    for (int i = 0; i < 2; i++) {
        LVN_TRY(lvn_store_stat(folders[i], &kind, &bytes));
        if (kind != LVN_STORE_FOLDER) continue;
        LVN_TRY(read_pointer(a, folders[i], prefer, &step));
        if (!*step) LVN_TRY(newest(a, folders[i], &step));
        if (!*step) continue;
        *out = lvn_store_join(a, folders[i], step);
        return *out ? LVN_OK : LVN_MEMORY;
    }
    return LVN_OK; /* the caller that opens it reports what is missing */
}

/* Resolve RUN/checkpoints/best or last. */
static enum lvn_status follow(struct lvn_arena *a, const char *url, const char **out)
{
    const char *name = lvn_path_name(url), *dir = lvn_path_dir(a, url), *step;
    *out = url;
    if (strcmp(name, "best") != 0 && strcmp(name, "last") != 0) return LVN_OK;
    if (!dir) return LVN_MEMORY;
    LVN_TRY(read_pointer(a, dir, name, &step));
    if (*step) *out = lvn_store_join(a, dir, step);
    return *out ? LVN_OK : LVN_MEMORY;
}

/* Has a file or folder of this name weights that are not GGUF? */
static bool is_other_model(const char *name)
{
    static const char *const marks[] = {"checkpoints", "state", "manifest.json", "adapter_config.json", NULL},
                             *const ends[] = {".safetensors", ".bin", ".pt", ".pth", ".index.json", NULL};
    for (int i = 0; marks[i]; i++)
        if (strcmp(name, marks[i]) == 0) return true;
    for (int i = 0; ends[i]; i++)
        if (lvn_ends_with(name, ends[i])) return true;
    return false;
}

/* The GGUF file of a folder whose only weights are in one; else the folder itself. ARG: it has several. */
static enum lvn_status choose_gguf(struct lvn_arena *a, const char *folder, const char **out)
{
    struct lvn_store_entries all;
    const char *names = "", *file = NULL;
    int n = 0, parts;
    *out = folder;
    if (lvn_ends_with(folder, ".gguf") || lvn_store_list(a, folder, false, &all) != LVN_OK) {
        lvn_error_clear(); /* the caller that opens it reports what is missing, or finds it in a cache */
        return LVN_OK;
    }
    for (int i = 0; i < all.n; i++) {
        const char *name = all.entry[i].name, *first = lvn_gguf_part(a, name, 1, &parts);
        if (is_other_model(name)) return LVN_OK;
        if (!lvn_ends_with(name, ".gguf") || strncmp(name, "mmproj", 6) == 0) continue; /* of images */
        if (first && strcmp(first, name) != 0) continue;
        names = lvn_arena_printf(a, "%s%s%s", names, n++ ? ", " : "", name);
        file = lvn_store_join(a, folder, name);
        if (!names || !file) return LVN_MEMORY;
    }
    LVN_CHECK(n < 2, ARG, "'%s' has %d models as GGUF files (%.2000s): name one of them, such as %s", folder, n, names,
              file);
    if (n == 1 && strcmp(lvn_path_name(file), lvn_path_name(folder)) != 0) *out = file;
    return LVN_OK;
}

/* A file, a folder, or all parts of a GGUF file that has several. */
static enum lvn_status download(struct lvn_arena *a, const char *url, const char **local)
{
    int parts;
    LVN_TRY(choose_gguf(a, url, &url));
    const char *part = lvn_gguf_part(a, url, 1, &parts), *other;
    LVN_TRY(lvn_store_download(a, part ? part : url, LVN_WANT_MODEL, local));
    if (lvn_path_is_dir(*local)) LVN_TRY(choose_gguf(a, *local, local));
    for (int i = 2; i <= parts; i++) {
        part = lvn_gguf_part(a, url, i, &parts);
        if (!part) return LVN_MEMORY;
        LVN_TRY(lvn_store_download(a, part, LVN_WANT_MODEL, &other));
    }
    return LVN_OK;
}

enum lvn_status lvn_checkpoint_fetch(struct lvn_arena *a, const char *model, const char *prefer, const char **local)
{
    const char *url = model;
    enum lvn_store_kind kind;
    int64_t bytes;
    *local = model;
    if (!lvn_store_is_url(model)) return lvn_path_is_dir(model) ? choose_gguf(a, model, local) : LVN_OK;
    if (strncmp(model, "file:", 5) == 0 || strncmp(model, "hf:", 3) == 0) return download(a, model, local);
    LVN_TRY(lvn_store_stat(model, &kind, &bytes));
    LVN_CHECK(kind != LVN_STORE_NOTHING, ARG, "there is no model '%s'", model);
    if (kind == LVN_STORE_FOLDER) {
        url = lvn_path_plain(a, model);
        if (!url) return LVN_MEMORY;
        LVN_TRY(find(a, url, prefer, &url));
    } else {
        LVN_TRY(follow(a, url, &url));
    }
    return download(a, url, local);
}

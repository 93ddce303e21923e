/* model_folder.c - see model_folder.h. */
#include "models/model_folder.h"

#include "base/files.h"
#include "models/adapter_files.h"

const char *lvn_model_metadata_file(struct lvn_arena *a, const struct lvn_model *m, const char *path)
{
    const char *name = lvn_path_name(path), *dir = lvn_path_dir(a, path);
    if (!dir || !m->metadata) return NULL;
    const char *star = strchr(m->checkpoint, '*'), *other = strchr(m->metadata, '*');
    const size_t before = (size_t)(star - m->checkpoint);
    if (strncmp(name, m->checkpoint, before) != 0) return NULL;
    const size_t digits = strspn(name + before, "0123456789");
    if (!digits || strcmp(name + before + digits, star + 1) != 0) return NULL;
    const char *file = lvn_arena_printf(a, "%.*s%.*s%s", (int)(other - m->metadata), m->metadata, (int)digits,
                                        name + before, other + 1);
    return file ? lvn_path_join(a, dir, file) : NULL;
}

/* The last checkpoint of the folder that has its metadata; all names have the same number of digits. NULL: none. */
static const char *find_last(struct lvn_arena *a, const struct lvn_model *m, const char *path)
{
    const char *const *names = NULL, *last = NULL;
    int n = 0;
    if (lvn_dir_list(a, path, &names, &n) != LVN_OK) lvn_error_clear();
    for (int i = 0; i < n; i++) {
        const char *file = lvn_path_join(a, path, names[i]);
        const char *metadata = file ? lvn_model_metadata_file(a, m, file) : NULL;
        if (metadata && lvn_path_is_file(metadata)) last = file;
    }
    return last;
}

const char *lvn_model_folder_checkpoint(struct lvn_arena *a, const char *path)
{
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        const char *file = NULL;
        if ((*m)->metadata)
            file = find_last(a, *m, path);
        else if ((*m)->checkpoint)
            file = lvn_path_join(a, path, (*m)->checkpoint);
        if (file && lvn_path_is_file(file)) return file;
    }
    return NULL;
}

bool lvn_model_is_here(struct lvn_arena *a, const char *path)
{
    static const char *const marks[] = {"config.json",   "checkpoints", "settings.yaml",    "last",
                                        "manifest.json", "state",       LVN_ADAPTERS_CONFIG};
    if (!lvn_path_is_dir(path)) return lvn_path_exists(path);
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        const char *mark = lvn_path_join(a, path, marks[i]);
        if (mark && lvn_path_exists(mark)) return true;
    }
    return lvn_model_folder_checkpoint(a, path) != NULL;
}

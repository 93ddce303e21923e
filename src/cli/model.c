/* model.c - see model.h. */
#include "cli/model.h"

#include "base/files.h"
#include "train/model_find.h"

enum lvn_status lvn_cli_model_settings(struct lvn_cli *c, const char *model, unsigned parts)
{
    struct lvn_arena a;
    const char *dir, *recipe = NULL;
    lvn_arena_init(&a);
    enum lvn_status status = lvn_model_find_files(&a, model, "best", &dir);
    if (status == LVN_OK) {
        recipe = lvn_path_join(&a, dir, "state/settings.yaml");
        if (!recipe) status = LVN_MEMORY;
    }
    if (status == LVN_OK) {
        c->keys[c->n_keys].key = "model.init";
        c->keys[c->n_keys++].value = lvn_arena_strdup(&c->settings.arena, dir);
        status = lvn_cli_settings(c, lvn_path_is_file(recipe) ? recipe : NULL, parts);
    }
    lvn_arena_release(&a);
    return status;
}

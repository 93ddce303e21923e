/* carried_files.c - see carried_files.h. */
#include "model_io/carried_files.h"

#include "base/files.h"
#include "base/log.h"
#include "model_io/model_config.h"
#include "stores/store.h"

enum { MAX_BYTES = 64 << 20, MAX_ALL = 256 << 20 };

static bool has(const struct lvn_carried_files *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (strcmp(f->file[i].name, name) == 0) return true;
    return false;
}

static enum lvn_status read_one(struct lvn_carried_files *f, const char *dir, const char *name)
{
    const char *path = lvn_path_join(&f->arena, dir, name), *reason = NULL;
    int64_t all = 0;
    if (!path) return LVN_MEMORY;
    if (has(f, name) || !lvn_path_is_file(path)) return LVN_OK;
    for (int i = 0; i < f->n; i++) all += f->file[i].bytes;
    struct lvn_carried_file *file = &f->file[f->n];
    if (f->n == LVN_CARRIED_FILES) reason = "the folder has too many such files";
    if (!lvn_path_is_inside(dir, path)) reason = "it is a link to a place outside the folder";
    if (!reason && lvn_file_read(path, MAX_BYTES, &file->text, &file->bytes) != LVN_OK) {
        reason = lvn_arena_strdup(&f->arena, levin_error_text());
        if (!reason) return LVN_MEMORY;
        lvn_error_clear();
    } else if (!reason && all + file->bytes > MAX_ALL) {
        free(file->text);
        reason = "such files have more than 256 MiB together";
    }
    if (reason) {
        lvn_log(LVN_LOG_WARN, "'%s' is not copied into checkpoints and exports: %s", path, reason);
        return LVN_OK;
    }
    f->n++;
    file->name = lvn_arena_strdup(&f->arena, name);
    return file->name ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status read_templates(struct lvn_carried_files *f, const char *dir)
{
    const char *folder = lvn_path_join(&f->arena, dir, LVN_CHAT_TEMPLATES);
    const char *const *names;
    int n;
    if (!folder) return LVN_MEMORY;
    if (!lvn_path_is_dir(folder)) return LVN_OK;
    LVN_TRY(lvn_dir_list(&f->arena, folder, &names, &n));
    for (int i = 0; i < n; i++) {
        const char *name = lvn_arena_printf(&f->arena, LVN_CHAT_TEMPLATES "/%s", names[i]);
        if (!name) return LVN_MEMORY;
        if (lvn_store_is_chat_template(name)) LVN_TRY(read_one(f, dir, name));
    }
    return LVN_OK;
}

static enum lvn_status read_all(struct lvn_carried_files *f, const struct lvn_pretrained *p, bool with_base)
{
    const char *const *const lists[] = {lvn_store_model_companions, lvn_store_tokenizer_companions};
    if (lvn_path_is_dir(p->path)) {
        for (int i = 0; i < 2; i++)
            for (const char *const *name = lists[i]; *name; name++) LVN_TRY(read_one(f, p->path, *name));
        LVN_TRY(read_templates(f, p->path));
    }
    return p->base && with_base ? read_all(f, p->base, true) : LVN_OK;
}

enum lvn_status lvn_carried_files_read(struct lvn_carried_files *f, const struct lvn_pretrained *p, bool with_base)
{
    *f = (struct lvn_carried_files){0};
    enum lvn_status status = read_all(f, p, with_base);
    if (status != LVN_OK) lvn_carried_files_release(f);
    return status;
}

enum lvn_status lvn_carried_files_add_end(struct lvn_carried_files *f, int64_t id)
{
    static const char name[] = "generation_config.json";
    for (int i = 0; i < f->n; i++) {
        struct lvn_text text = {0};
        if (strcmp(f->file[i].name, name) != 0) continue;
        enum lvn_status status = lvn_config_add_end(&text, name, f->file[i].text, -1, id);
        if (status == LVN_FORMAT) {
            lvn_log(LVN_LOG_WARN, "the end of answers is not added to %s, which is copied as it is: %s", name,
                    levin_error_text());
            lvn_error_clear();
            status = LVN_OK;
        }
        if (status != LVN_OK || !text.n) {
            lvn_text_release(&text);
            return status;
        }
        free(f->file[i].text);
        f->file[i].text = text.p;
        f->file[i].bytes = text.n;
    }
    return LVN_OK;
}

void lvn_carried_files_release(struct lvn_carried_files *f)
{
    for (int i = 0; i < f->n; i++) free(f->file[i].text);
    lvn_arena_release(&f->arena);
    *f = (struct lvn_carried_files){0};
}

bool lvn_carried_is_written(const struct lvn_codec *codec, const struct lvn_carried_file *file)
{
    const struct lvn_tokenizer *t = codec->tokenizer;
    for (int i = 0; t && i < t->n_files; i++)
        if (strcmp(t->file[i].name, file->name) == 0) return true;
    return codec->vocabulary && strcmp(file->name, "tokenizer_config.json") == 0;
}

/* cp.c - levin cp FROM TO: copies files and folders from any store to any other. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "cli/cli.h"
#include "cli/transfer.h"
#include "formats/json.h"
#include "models/adapter_files.h"
#include "stores/cache.h"
#include "stores/store.h"

struct sums {
    int files;
    int64_t bytes;
};

static enum lvn_status copy_one(struct lvn_cli *c, const char *from, const char *to, struct sums *sums)
{
    const char *sha256 = c->flag[LVN_FLAG_cp_sha256].t;
    struct lvn_transfer line;
    enum lvn_store_kind kind;
    int64_t bytes;
    LVN_CHECK(!*sha256 || !lvn_store_is_url(to), ARG, "--sha256 is for copies to this machine");
    lvn_transfer_begin(&line, c, lvn_path_name(from));
    enum lvn_status status = *sha256 ? lvn_store_get(from, to, sha256, lvn_transfer_progress, &line)
                                     : lvn_store_copy(from, to, lvn_transfer_progress, &line);
    lvn_transfer_end(&line);
    LVN_TRY(status);
    const bool has_size = lvn_store_is_url(to) || lvn_path_is_file(to); /* not a pipe */
    LVN_TRY(lvn_store_stat(has_size ? to : from, &kind, &bytes));
    sums->files++;
    sums->bytes += bytes > 0 ? bytes : 0;
    return LVN_OK;
}

/* An alias is a symbolic link to a sibling folder, such as checkpoints/best to checkpoints/step-8. Return the length of
 * the part of the path `name` below `from` up to the first alias, and its target; 0: the path has no alias. */
static size_t find_alias(struct lvn_arena *a, const char *from, const char *name, char target[NAME_MAX + 1])
{
    for (const char *p = strchr(name, '/'); p && !lvn_store_is_url(from); p = strchr(p + 1, '/')) {
        const char *path = lvn_arena_printf(a, "%s/%.*s", from, (int)(p - name), name);
        const char *dir = path ? lvn_path_dir(a, path) : NULL;
        ssize_t n = dir ? readlink(path, target, NAME_MAX) : -1;
        if (n <= 0) continue;
        target[n] = '\0';
        const char *folder = strchr(target, '/') ? NULL : lvn_path_join(a, dir, target);
        if (folder && lvn_path_is_dir(folder)) return (size_t)(p - name);
    }
    return 0;
}

/* Write the alias as a link, or, in a store and where links are not possible, as a file that holds the target's name.
 * levin reads both. */
static enum lvn_status copy_alias(struct lvn_cli *c, const char *to, const char *target)
{
    struct lvn_arena *a = &c->settings.arena;
    const char *text = lvn_arena_printf(a, "%s\n", target), *dir, *temporary;
    struct stat s;
    if (!text) return LVN_MEMORY;
    if (lvn_store_is_url(to)) {
        LVN_TRY(lvn_cache_folder(a, "copies", &dir));
        temporary = lvn_arena_printf(a, "%s/alias-%ld", dir, (long)getpid());
        if (!temporary) return LVN_MEMORY;
        LVN_TRY(lvn_file_write(temporary, text, (int64_t)strlen(text)));
        enum lvn_status status = lvn_store_put(temporary, to, NULL, NULL);
        unlink(temporary);
        return status;
    }
    dir = lvn_path_dir(a, to);
    if (!dir) return LVN_MEMORY;
    LVN_TRY(lvn_dir_make(dir));
    bool there = lstat(to, &s) == 0;
    LVN_CHECK(!there || S_ISREG(s.st_mode) || S_ISLNK(s.st_mode), IO,
              "'%s' is %s, and would become another name of '%s': remove it", to,
              S_ISDIR(s.st_mode) ? "a folder" : "not a regular file", target);
    if (there) unlink(to);
    return symlink(target, to) == 0 ? LVN_OK : lvn_file_write(to, text, (int64_t)strlen(text));
}

/* The base model that an adapter_config.json names, in the arena; NULL: none, or the file cannot be read. */
static const char *read_base(struct lvn_cli *c, const char *path)
{
    json_t *root;
    char *text;
    int64_t bytes;
    const char *base = NULL;
    if (!path || lvn_store_read(path, 1 << 20, &text, &bytes) != LVN_OK) {
        lvn_error_clear();
        return NULL;
    }
    if (lvn_json_parse(path, text, bytes, &root) == LVN_OK) {
        const char *name = json_string_value(json_object_get(root, "base_model_name_or_path"));
        base = name ? lvn_arena_strdup(&c->settings.arena, name) : NULL;
        json_decref(root);
    }
    lvn_error_clear();
    free(text);
    return base;
}

/* Print which base models the copied adapters need: they are not copied. */
static void print_bases(struct lvn_cli *c, const char *from, const struct lvn_store_entries *all)
{
    const char *before = "";
    json_t *bases = json_array();
    for (int i = 0; i < all->n; i++) {
        const char *name = all->entry[i].name;
        if (strcmp(lvn_path_name(name), LVN_ADAPTERS_CONFIG) != 0) continue;
        const char *base = read_base(c, lvn_store_join(&c->settings.arena, from, name));
        if (!base || strcmp(base, before) == 0) continue;
        before = base;
        json_array_append_new(bases, lvn_json_text(base, INT64_MAX));
        lvn_cli_print(c,
                      "the base model of the adapters in it, '%s', is not part of the copy: it must be at that path, "
                      "or named by --lora.base=PATH\n",
                      base);
    }
    if (json_array_size(bases))
        lvn_cli_add(c, "base_models", bases);
    else
        json_decref(bases);
}

static enum lvn_status copy_folder(struct lvn_cli *c, const char *from, const char *to, struct sums *sums)
{
    struct lvn_arena *a = &c->settings.arena;
    struct lvn_store_entries all;
    LVN_CHECK(lvn_cli_on(c, LVN_FLAG_cp_recursive), ARG, "'%s' is a folder: copy it with --recursive", from);
    LVN_CHECK(!*c->flag[LVN_FLAG_cp_sha256].t, ARG, "--sha256 is for one file, and '%s' is a folder", from);
    LVN_TRY(lvn_store_list(a, from, true, &all));
    for (int i = 0; i < all.n; i++) {
        const char *name = all.entry[i].name;
        LVN_CHECK(lvn_store_name_is_safe(name), FORMAT,
                  "'%s' holds the name '%.200s', which has an empty part, '.' or '..', so no file of a folder can have "
                  "it: nothing was copied to '%s'",
                  from, name, to);
    }
    const char *alias = ""; /* the last alias that was copied: files below it need no copy */
    for (int i = 0; i < all.n; i++) {
        char folder[NAME_MAX + 1];
        size_t n = find_alias(a, from, all.entry[i].name, folder);
        if (n && strlen(alias) == n && !strncmp(alias, all.entry[i].name, n)) continue;
        if (n) {
            alias = lvn_arena_printf(a, "%.*s", (int)n, all.entry[i].name);
            const char *second = alias ? lvn_store_join(a, to, alias) : NULL;
            if (!second) return LVN_MEMORY;
            LVN_TRY(copy_alias(c, second, folder));
            sums->files++;
            continue;
        }
        const char *source = lvn_store_join(a, from, all.entry[i].name);
        const char *target = lvn_store_join(a, to, all.entry[i].name);
        if (!source || !target) return LVN_MEMORY;
        LVN_TRY(copy_one(c, source, target, sums));
    }
    print_bases(c, from, &all);
    return LVN_OK;
}

/* The path of the copy. TO is a folder if it ends in a slash or is one on this machine: the file keeps its name then.
 */
static const char *target_path(struct lvn_cli *c, const char *from, const char *to)
{
    size_t n = strlen(to);
    bool folder = (n && to[n - 1] == '/') || (!lvn_store_is_url(to) && lvn_path_is_dir(to));
    return folder ? lvn_store_join(&c->settings.arena, to, lvn_path_name(from)) : to;
}

enum lvn_status lvn_command_cp(struct lvn_cli *c)
{
    const char *from = c->operand[0], *to = c->operand[1];
    enum lvn_store_kind kind;
    int64_t bytes;
    struct sums sums = {0};
    double began = lvn_seconds();
    LVN_TRY(lvn_store_stat(from, &kind, &bytes));
    LVN_CHECK(kind != LVN_STORE_NOTHING, IO, "there is nothing at '%s': check the address", from);
    const char *target = kind == LVN_STORE_FILE ? target_path(c, from, to) : to;
    if (!target) return LVN_MEMORY;
    if (kind == LVN_STORE_FILE) LVN_TRY(lvn_cli_check_output(c, target));
    LVN_TRY(kind == LVN_STORE_FILE ? copy_one(c, from, target, &sums) : copy_folder(c, from, target, &sums));
    double seconds = lvn_seconds() - began;
    char size[LVN_NUMBER_TEXT], rate[LVN_NUMBER_TEXT];
    lvn_cli_print(c, "%s: %d file%s, %s, %s/s\n", target, sums.files, lvn_plural(sums.files),
                  lvn_bytes_text(sums.bytes, size), lvn_bytes_text((int64_t)((double)sums.bytes / seconds), rate));
    lvn_cli_add(c, "path", lvn_json_text(target, INT64_MAX));
    lvn_cli_add(c, "files", json_integer(sums.files));
    lvn_cli_add(c, "bytes", json_integer(sums.bytes));
    lvn_cli_add(c, "seconds", lvn_json_number(seconds));
    return LVN_OK;
}

/* source_files.c - see source_files.h. */
#include "data/texts/source_files.h"

#include "base/files.h"
#include "data/texts/text_files.h"
#include "encoders_sum.h" /* of the build */
#include "stores/store.h"

enum lvn_status lvn_source_files_find(struct lvn_source_files *out, struct lvn_arena *a, const char *path)
{
    *out = (struct lvn_source_files){0};
    LVN_TRY(lvn_store_download(a, path, LVN_WANT_ALL, &out->path));
    LVN_TRY(lvn_text_files(a, out->path, &out->file, &out->n));
    out->is_folder = lvn_path_is_dir(out->path);
    out->shown = out->file;
    if (!strcmp(path, out->path)) return LVN_OK;
    const size_t folder = strlen(out->path);
    const char **shown = lvn_arena_alloc(a, sizeof *shown * (size_t)(out->n + 1));
    if (!shown) return LVN_MEMORY;
    for (int64_t i = 0; i < out->n; i++) {
        const char *inside = out->file[i] + folder + strspn(out->file[i] + folder, "/");
        shown[i] = *inside ? lvn_store_join(a, path, inside) : path;
        if (!shown[i]) return LVN_MEMORY;
    }
    out->shown = shown;
    return LVN_OK;
}

enum lvn_status lvn_source_files_sum(const struct lvn_source_files *s, const struct lvn_tokenizer *t,
                                     struct lvn_checksum *sum)
{
    const int64_t numbers[] = {s->n, s->is_folder};
    lvn_checksum_add(sum, numbers, sizeof numbers);
    lvn_checksum_add_text(sum, LVN_ENCODERS_SUM);
    for (int i = 0; i < t->n_files; i++) {
        lvn_checksum_add_text(sum, t->file[i].name);
        lvn_checksum_add(sum, t->file[i].text, t->file[i].bytes);
    }
    for (int64_t i = 0; i < s->n; i++) {
        struct lvn_mapping map;
        lvn_checksum_add_text(sum, s->shown[i]);
        LVN_TRY(lvn_file_map(&map, s->file[i]));
        lvn_checksum_add(sum, map.data, map.bytes);
        lvn_file_unmap(&map);
    }
    return LVN_OK;
}

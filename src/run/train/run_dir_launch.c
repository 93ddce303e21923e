/* run_dir_launch.c - the levin launch to which a run belongs: its settings.yaml ends with a comment that names the
 * launch that has begun it, and a second one once that launch has ended it. See run_dir.h. Rank 0 writes the first
 * comment, levin launch the second one. */

#include "base/files.h"
#include "settings/settings.h"
#include "train/run_dir.h"

enum { MAX_SETTINGS = 1 << 20 };
static const char begun_comment[] = "begun by levin launch ", ended_comment[] = "ended by levin launch ";

enum lvn_status lvn_run_dir_write_settings(const struct lvn_run_dir *d, const struct levin_settings *s)
{
    char comment[100];
    LVN_CHECK(!d->launch || lvn_fit(comment, sizeof comment, "%s%s", begun_comment, d->launch), ARG,
              "LEVIN_LAUNCH_ID has %zu bytes, more than levin launch sets; unset it", strlen(d->launch));
    return lvn_settings_write(s, d->settings, d->launch ? comment : NULL);
}

/* The settings in this folder, on this machine or in a store; *text NULL: none. */
static enum lvn_status read_settings(struct lvn_arena *a, const char *folder, const char **path, char **text)
{
    enum lvn_store_kind kind;
    int64_t bytes;
    *text = NULL;
    *path = lvn_store_join(a, folder, "settings.yaml");
    if (!*path) return LVN_MEMORY;
    LVN_TRY(lvn_store_stat(*path, &kind, &bytes));
    return kind == LVN_STORE_FILE ? lvn_store_read(*path, MAX_SETTINGS, text, &bytes) : LVN_OK;
}

/* *has: the settings in this folder have the comment "# WHAT LAUNCH". */
static enum lvn_status has_comment(struct lvn_arena *a, const char *folder, const char *what, const char *launch,
                                   bool *has)
{
    char *text;
    const char *path, *comment = lvn_arena_printf(a, "\n# %s%s\n", what, launch);
    if (!comment) return LVN_MEMORY;
    LVN_TRY(read_settings(a, folder, &path, &text));
    *has = text && strstr(text, comment) != NULL;
    free(text);
    return LVN_OK;
}

enum lvn_status lvn_run_dir_begun(const char *path, const char *launch, bool store, bool *begun)
{
    LVN_LOCAL_ARENA(a);
    const char *folder;
    *begun = false;
    LVN_TRY(lvn_upload_staging_open(&a, path, &folder));
    LVN_TRY(has_comment(&a, folder, begun_comment, launch, begun));
    return *begun || !store || !lvn_store_is_remote(path) ? LVN_OK
                                                          : has_comment(&a, path, begun_comment, launch, begun);
}

/* The id of the launch and of its task. */
static const char *name_end(struct lvn_arena *a, const char *launch, const char *keys)
{
    return lvn_arena_printf(a, "%s, keys %s", launch, keys);
}

enum lvn_status lvn_run_dir_ended(const char *path, const char *launch, const char *keys, bool *ended)
{
    LVN_LOCAL_ARENA(a);
    const char *name = name_end(&a, launch, keys);
    *ended = false;
    return name ? has_comment(&a, path, ended_comment, name, ended) : LVN_MEMORY;
}

enum lvn_status lvn_run_dir_write_end(const char *path, const char *launch, const char *keys)
{
    LVN_LOCAL_ARENA(a);
    LVN_LOCAL_TEXT(t);
    const char *folder, *local, *remote, *name = name_end(&a, launch, keys);
    char *text;
    bool ours = false, here;
    if (!name) return LVN_MEMORY;
    LVN_TRY(has_comment(&a, path, begun_comment, launch, &ours)); /* and not a later job's */
    if (!ours) return LVN_OK;
    LVN_TRY(lvn_upload_staging_open(&a, path, &folder));
    LVN_TRY(read_settings(&a, path, &remote, &text));
    lvn_text_printf(&t, "%s# %s%s\n", text ? text : "", ended_comment, name);
    here = text != NULL;
    free(text);
    if (!here) return LVN_OK; /* the run was removed meanwhile */
    LVN_TRY(lvn_text_status(&t));
    local = lvn_path_join(&a, folder, "settings.yaml");
    if (!local) return LVN_MEMORY;
    LVN_TRY(lvn_dir_make(folder));
    LVN_TRY(lvn_file_write(local, t.p, t.n));
    return lvn_store_is_remote(path) ? lvn_store_put(local, remote, NULL, NULL) : LVN_OK;
}

/* run_dir.c - see run_dir.h. */
#include "train/run_dir.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/getenv.h"
#include "base/threads.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/model_fetch.h"
#include "settings/settings.h"
#include "train/callback.h"

static const char *const own_entries[] = {"checkpoints", LVN_RUN_DIR_STATUS, "logs", "settings.yaml"};
static const char *const logs_pattern = "rank-*.log"; /* levin launch writes them */
enum { N_ENTRIES = sizeof own_entries / sizeof own_entries[0], CHECKPOINTS = 0, LOGS = 2, SETTINGS = 3 };
enum { TO_FETCH = SETTINGS, MAX_SETTINGS = 1 << 20 }; /* from TO_FETCH on: files that a resumed run needs */

/* List the names of all files and folders of a run. */
static enum lvn_status list_entries(struct lvn_run_dir *d)
{
    const char **parts = lvn_arena_alloc(&d->arena, sizeof *parts * (N_ENTRIES + LVN_CALLBACKS));
    if (!parts) return LVN_MEMORY;
    for (int i = 0; i < N_ENTRIES; i++) parts[d->n_entries++] = own_entries[i];
    for (int i = 0; i < LVN_CALLBACKS; i++) {
        if (lvn_callbacks_output(i)) parts[d->n_entries++] = lvn_callbacks_output(i);
    }
    d->entries = parts;
    return LVN_OK;
}

const char *lvn_run_dir_find(struct lvn_arena *a, const char *name)
{
    char *path = lvn_path_plain(a, name);
    if (path && !lvn_path_is_dir(path)) path = lvn_arena_printf(a, "runs/%s", path);
    return path && lvn_path_is_dir(path) ? path : NULL;
}

static enum lvn_status join(struct lvn_run_dir *d, const char *name, const char **out)
{
    *out = lvn_path_join(&d->arena, d->path, name);
    return *out ? LVN_OK : LVN_MEMORY;
}

/* --- what is in a folder --- */

/* Result of searching a folder, on this machine or in a store, for the entries of a run. */
struct found {
    const char *part;      /* the first entry that exists; NULL: none */
    bool ours;             /* settings or a manifest prove that levin wrote it */
    const char *unmanaged; /* path of a file that levin did not write; NULL: none */
};

/* Are these the settings of a run? Another program's file is no recipe, and few recipes have all these keys. */
static enum lvn_status is_settings(const char *path, bool *yes)
{
    char *text;
    int64_t bytes;
    struct levin_settings s;
    *yes = false;
    enum lvn_status status = lvn_store_read(path, MAX_SETTINGS, &text, &bytes);
    if (status == LVN_FORMAT) { /* too large to be settings */
        lvn_error_clear();
        return LVN_OK;
    }
    LVN_TRY(status);
    status = lvn_settings_init(&s);
    if (status == LVN_OK) {
        *yes = lvn_settings_read(&s, text, (size_t)bytes, path) == LVN_OK && lvn_settings_given(&s, LVN_OPT_run_dir) &&
               lvn_settings_given(&s, LVN_OPT_trainer_seed);
        lvn_error_clear();
        lvn_settings_release(&s);
    }
    free(text);
    return status;
}

/* A folder is levin's if a callback writes a folder of that name, and all files in it match its pattern. */
static enum lvn_status find_unmanaged(struct lvn_run_dir *d, const char *folder, const char *pattern,
                                      const char **unmanaged)
{
    struct lvn_store_entries all;
    if (!pattern) *unmanaged = folder;
    if (!pattern) return LVN_OK;
    LVN_TRY(lvn_store_list(&d->arena, folder, true, &all));
    for (int i = 0; i < all.n; i++) {
        if (!strchr(all.entry[i].name, '/') && !fnmatch(pattern, all.entry[i].name, 0)) continue;
        *unmanaged = lvn_store_join(&d->arena, folder, all.entry[i].name);
        return *unmanaged ? LVN_OK : LVN_MEMORY;
    }
    return LVN_OK;
}

static enum lvn_status inspect(struct lvn_run_dir *d, const char *folder, struct found *f)
{
    struct lvn_checkpoints_contents seen = {0};
    *f = (struct found){0};
    for (int i = 0; i < d->n_entries; i++) {
        enum lvn_store_kind kind;
        int64_t bytes;
        const char *path = lvn_store_join(&d->arena, folder, d->entries[i]);
        if (!path) return LVN_MEMORY;
        if (i == CHECKPOINTS) {
            LVN_TRY(lvn_checkpoints_scan(&d->arena, path, &seen));
            if (!seen.n) continue;
        } else {
            LVN_TRY(lvn_store_stat(path, &kind, &bytes));
            if (kind == LVN_STORE_NOTHING) continue;
            const char *pattern = i == LOGS ? logs_pattern : lvn_callbacks_output_pattern(d->entries[i]);
            if (kind == LVN_STORE_FOLDER) LVN_TRY(find_unmanaged(d, path, pattern, &f->unmanaged));
            if (kind == LVN_STORE_FILE && i == SETTINGS) LVN_TRY(is_settings(path, &f->ours));
        }
        if (!f->part && i != LOGS)
            f->part = d->entries[i]; /* logs alone are not a run; rank 0's folder is on another host */
    }
    if (seen.unmanaged) f->unmanaged = seen.unmanaged;
    if (seen.without_manifest && !f->ours) f->unmanaged = seen.without_manifest;
    f->ours |= seen.has_manifest;
    return LVN_OK;
}

/* May a run be in the folder in this mode? A resumed run removes nothing, so unmanaged files may stay. */
static enum lvn_status judge(struct lvn_run_dir *d, const char *folder, enum lvn_run_mode mode, bool *holds_run)
{
    struct found f;
    LVN_TRY(inspect(d, folder, &f));
    *holds_run = f.part != NULL;
    LVN_CHECK(!f.part || f.ours, ARG,
              "'%s' contains '%s' but is not a run of levin, so it is left unchanged; choose another name or run_dir",
              folder, f.part);
    LVN_CHECK(!f.part || mode != LVN_RUN_NEW, ARG,
              "'%s' already contains a run; continue it with --resume, replace it with --overwrite, or choose another "
              "name or run_dir",
              folder);
    LVN_CHECK(!f.unmanaged || mode != LVN_RUN_OVERWRITE, ARG,
              "'%s' was not written by levin, and --overwrite removes only levin's files; move it away, or choose "
              "another name or run_dir",
              f.unmanaged);
    return LVN_OK;
}

/* --- opening --- */

static enum lvn_status set_path(struct lvn_run_dir *d, const char *path)
{
    LVN_CHECK(strlen(path) < LVN_RUN_DIR_TEXT, IO,
              "the path of the run folder '%.60s...' has %zu bytes; at most %d are allowed", path, strlen(path),
              LVN_RUN_DIR_TEXT - 1);
    d->path = lvn_arena_strdup(&d->arena, path);
    if (!d->path) return LVN_MEMORY;
    LVN_CHECK(!lvn_path_exists(path) || lvn_path_is_dir(path), IO,
              "the run folder '%s' is a file; choose another run_dir", path);
    LVN_TRY(join(d, "checkpoints", &d->checkpoints));
    return join(d, "settings.yaml", &d->settings);
}

/* A program may change the current folder while the run is open. */
static enum lvn_status set_absolute(struct lvn_run_dir *d)
{
    char folder[PATH_MAX];
    if (*d->path == '/' || !getcwd(folder, sizeof folder)) return LVN_OK;
    const char *path = lvn_arena_printf(&d->arena, "%s/%s", folder, d->path);
    return path ? set_path(d, path) : LVN_MEMORY;
}

static enum lvn_status open_folder(struct lvn_run_dir *d, const struct lvn_run_dir_options *options)
{
    const enum lvn_run_mode mode = options->mode;
    bool holds_run;
    LVN_TRY(judge(d, d->path, mode, &holds_run));
    if (options->absolute) LVN_TRY(set_absolute(d));
    d->created = !lvn_path_exists(d->path);
    LVN_TRY(lvn_run_dir_claim(d, d->path));
    if (d->lease) LVN_TRY(judge(d, d->path, mode, &holds_run)); /* waiting for the lease may have lasted */
    d->replaces = holds_run && mode == LVN_RUN_OVERWRITE;
    return LVN_OK;
}

/* Remove everything from the local copy of a run but its lock, which is held. */
static enum lvn_status empty(struct lvn_run_dir *d)
{
    const char *const *names, *path;
    int n;
    LVN_TRY(lvn_dir_list(&d->arena, d->path, &names, &n));
    for (int i = 0; i < n; i++) {
        if (!strcmp(names[i], LVN_RUN_DIR_LOCK)) continue;
        LVN_TRY(join(d, names[i], &path));
        LVN_TRY(lvn_tree_remove(path));
    }
    return LVN_OK;
}

/* The local copy of a run in a store follows the store: files that were removed there are removed here. */
static enum lvn_status follow_store(struct lvn_run_dir *d, enum lvn_run_mode mode)
{
    enum lvn_store_kind kind;
    int64_t bytes;
    bool holds_run;
    LVN_TRY(lvn_store_stat(d->url, &kind, &bytes));
    LVN_CHECK(kind != LVN_STORE_FILE, IO, "the run folder '%s' is a file; choose another run_dir", d->url);
    /* Files that could not be sent yet exist only here. */
    if (kind == LVN_STORE_NOTHING) return lvn_upload_staging_was_sent(d->path) ? empty(d) : LVN_OK;
    LVN_TRY(judge(d, d->url, mode, &holds_run));
    d->continued = holds_run && mode == LVN_RUN_RESUME;
    return mode == LVN_RUN_RESUME
               ? lvn_checkpoints_fetch_run(d->path, d->url, d->entries + TO_FETCH, d->n_entries - TO_FETCH)
               : LVN_OK;
}

/* Acquire the lease first, so that the store does not change while it is read. */
static enum lvn_status open_stage(struct lvn_run_dir *d, enum lvn_run_mode mode)
{
    bool holds_run;
    LVN_TRY(lvn_run_dir_claim(d, d->url));
    LVN_TRY(follow_store(d, mode));
    LVN_TRY(judge(d, d->path, mode, &holds_run));
    d->replaces = holds_run && mode == LVN_RUN_OVERWRITE;
    return LVN_OK;
}

static enum lvn_status open_run(struct lvn_run_dir *d, const struct lvn_run_dir_options *options)
{
    const char *path;
    LVN_TRY(list_entries(d));
    LVN_TRY(lvn_upload_staging_open(&d->arena, d->url, &path));
    LVN_TRY(set_path(d, path));
    return lvn_store_is_remote(d->url) ? open_stage(d, options->mode) : open_folder(d, options);
}

enum { LEASE_TIMEOUTS = 2, LEASE_MIN_SECONDS = 3, LEASE_MAX_SECONDS = 60 };

/* The name of the job: its id on a cluster, otherwise the launch. */
static const char *find_job(const char *launch)
{
    const char *job = lvn_getenv("LEVIN_JOB_ID");
    return job ? job : launch;
}

enum lvn_status lvn_run_dir_open(struct lvn_run_dir *d, const char *path, const struct lvn_run_dir_options *options)
{
    double seconds = LEASE_TIMEOUTS * options->rank_timeout;
    if (!(seconds > LEASE_MIN_SECONDS)) seconds = LEASE_MIN_SECONDS;
    *d = (struct lvn_run_dir){.lock = -1,
                              .overwrites = options->mode == LVN_RUN_OVERWRITE,
                              .launch = options->launch,
                              .job = find_job(options->launch),
                              .lease_seconds = seconds < LEASE_MAX_SECONDS ? seconds : LEASE_MAX_SECONDS};
    lvn_arena_init(&d->arena);
    d->url = lvn_arena_strdup(&d->arena, path);
    enum lvn_status status = d->url ? open_run(d, options) : LVN_MEMORY;
    if (status != LVN_OK) lvn_run_dir_close(d);
    return status;
}

/* Remove half-written files of a killed process: `.NAME.tmp-PID`, as created by lvn_file_write(). */
static enum lvn_status clear_halves(struct lvn_run_dir *d)
{
    const char *const *names, *path;
    int n;
    LVN_TRY(lvn_dir_list(&d->arena, d->path, &names, &n));
    for (int i = 0; i < n; i++) {
        bool ours = false;
        for (int k = 0; k < d->n_entries; k++) {
            size_t length = strlen(d->entries[k]);
            ours |= names[i][0] == '.' && strncmp(names[i] + 1, d->entries[k], length) == 0 &&
                    strncmp(names[i] + 1 + length, ".tmp-", 5) == 0;
        }
        ours |= strstr(names[i], LVN_LEASE_NAME "-") && strstr(names[i], ".new-"); /* of lease_file.c */
        if (!ours) continue;
        LVN_TRY(join(d, names[i], &path));
        LVN_TRY(lvn_tree_remove(path));
    }
    return LVN_OK;
}

static enum lvn_status remove_part(struct lvn_run_dir *d, int i)
{
    const char *path;
    LVN_TRY(join(d, d->entries[i], &path));
    return lvn_tree_remove(path);
}

/* Remove the settings last, since until then they prove that the other files belong to levin. */
static enum lvn_status clear(struct lvn_run_dir *d)
{
    LVN_TRY(lvn_checkpoints_remove(d->checkpoints));
    for (int i = CHECKPOINTS + 1; i < d->n_entries; i++)
        if (i != SETTINGS) LVN_TRY(remove_part(d, i));
    return remove_part(d, SETTINGS);
}

/* Is `url` that of the run, or in one of its entries? */
static bool removes_url(const struct lvn_run_dir *d, const char *url)
{
    size_t n = strlen(d->url);
    while (n > 0 && d->url[n - 1] == '/') n--;
    if (strncmp(url, d->url, n) != 0 || (url[n] && url[n] != '/')) return false;
    const char *below = url + n + strspn(url + n, "/");
    if (!*below) return true;
    for (int i = 0; i < d->n_entries; i++) {
        const size_t length = strlen(d->entries[i]);
        if (!strncmp(below, d->entries[i], length) && (!below[length] || below[length] == '/')) return true;
    }
    return false;
}

bool lvn_run_dir_removes(const struct lvn_run_dir *d, const char *path)
{
    char entry[PATH_MAX];
    if (!*path) return false;
    if (lvn_store_is_remote(path)) return removes_url(d, path);
    if (lvn_path_is_below(path, d->path) && lvn_path_is_below(d->path, path)) return true; /* the same folder */
    for (int i = 0; i < d->n_entries; i++)
        if (lvn_fit(entry, sizeof entry, "%s/%s", d->path, d->entries[i]) && lvn_path_is_below(path, entry))
            return true;
    return false;
}

static enum lvn_status confirm(void *lease)
{
    return lvn_lease_confirm(lease);
}

static bool is_valid(void *lease)
{
    return lvn_lease_is_valid(lease);
}

/* --- status.json of a run in a store, sent every ten seconds between the uploads at checkpoints ---
 *
 * A machine that resumes the run learns from it how far the previous attempt came and when it was last alive
 * (callbacks/goodput.c), and levin watch shows it. A failed upload is not reported, because the next one follows
 * within seconds. Nothing is sent without a valid lease, nor before the run's settings are in the store,
 * which prove that the file belongs to levin. */

enum { FIRST_STATUS_SECONDS = 2, STATUS_SECONDS = 10, MAX_STATUS = 64 << 20 };

/* Any thread: may a request start or continue? */
static bool may_send(void *context)
{
    struct lvn_run_dir *d = context;
    return !__atomic_load_n(&d->status.stop, __ATOMIC_RELAXED) && lvn_lease_is_valid(d->lease);
}

/* The file may be replaced during the upload, so a hidden copy is sent, with a name that lvn_run_dir_begin() removes.
 */
static enum lvn_status send_status(struct lvn_run_dir *d)
{
    LVN_LOCAL_ARENA(a);
    char *text;
    int64_t bytes;
    const char *file = lvn_path_join(&a, d->path, LVN_RUN_DIR_STATUS),
               *url = lvn_store_join(&a, d->url, LVN_RUN_DIR_STATUS);
    const char *copy = lvn_path_join(&a, d->path, "." LVN_RUN_DIR_STATUS ".tmp-send_status");
    if (!file || !url || !copy) return LVN_MEMORY;
    if (!lvn_path_is_file(file)) return LVN_OK;
    LVN_TRY(lvn_file_read(file, MAX_STATUS, &text, &bytes));
    enum lvn_status status = lvn_file_write(copy, text, bytes);
    free(text);
    return status == LVN_OK ? lvn_store_put_while(copy, url, may_send, d) : status;
}

static void *send_repeatedly(void *argument)
{
    struct lvn_run_dir *d = argument;
    struct lvn_run_dir_status *s = &d->status;
    struct timespec until = lvn_deadline(FIRST_STATUS_SECONDS);
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        if (lvn_condition_wait(&s->changed, &s->lock, &until)) continue;
        pthread_mutex_unlock(&s->lock);
        if ((d->continued || lvn_sender_has_sent(&d->sender)) && may_send(d) && send_status(d) != LVN_OK)
            lvn_error_clear();
        pthread_mutex_lock(&s->lock);
        until = lvn_deadline(STATUS_SECONDS);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* If the thread cannot be started, status.json is sent at checkpoints. */
static void start_status(struct lvn_run_dir *d)
{
    struct lvn_run_dir_status *s = &d->status;
    pthread_mutex_init(&s->lock, NULL);
    lvn_condition_init(&s->changed);
    s->running = lvn_thread_start(&s->thread, send_repeatedly, d) == 0;
}

static void stop_status(struct lvn_run_dir *d)
{
    struct lvn_run_dir_status *s = &d->status;
    if (!s->running) return;
    pthread_mutex_lock(&s->lock);
    __atomic_store_n(&s->stop, true, __ATOMIC_RELAXED);
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    s->running = false;
}

enum lvn_status lvn_run_dir_begin(struct lvn_run_dir *d)
{
    d->created = false;
    bool stage = lvn_store_is_remote(d->url);
    const struct lvn_upload_owner owner = {.confirm = confirm, .is_valid = is_valid, .context = d->lease};
    LVN_TRY(lvn_lease_confirm(d->lease));
    d->owner_written = lvn_run_dir_write_owner(d);
    if (d->replaces) LVN_TRY_WHILE(clear(d), "removing the former run in '%s'", d->path);
    LVN_TRY(clear_halves(d));
    if (stage && d->overwrites)
        LVN_TRY_WHILE(lvn_upload_staging_clear(d->url, d->entries, d->n_entries), "removing the former run in '%s'",
                      d->url);
    if (!stage) return LVN_OK;
    LVN_TRY(lvn_sender_start(&d->sender, d->path, d->url, &owner));
    start_status(d);
    return LVN_OK;
}

void lvn_run_dir_push(struct lvn_run_dir *d, char text[1024])
{
    lvn_sender_push(&d->sender, text);
}

enum lvn_status lvn_run_dir_end(struct lvn_run_dir *d)
{
    stop_status(d);
    return lvn_sender_end(&d->sender);
}

/* Remove the folder that was created for a run that never began. */
static void remove_empty(const struct lvn_run_dir *d)
{
    char lock[PATH_MAX];
    if (lvn_fit(lock, sizeof lock, "%s/%s", d->path, LVN_RUN_DIR_LOCK)) unlink(lock);
    rmdir(d->path);
}

void lvn_run_dir_close(struct lvn_run_dir *d)
{
    lvn_error_save(); /* of a failure that was reported already */
    if (lvn_run_dir_end(d) != LVN_OK) lvn_error_clear();
    lvn_lease_release(d->lease);
    lvn_error_restore();
    d->lease = NULL;
    if (d->created) remove_empty(d);
    d->created = false;
    if (d->owner_written) lvn_run_dir_clear_owner(d);
    d->owner_written = false;
    if (d->lock >= 0) close(d->lock);
    d->lock = -1;
    lvn_arena_release(&d->arena);
}

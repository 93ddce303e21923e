/* checkpoint_directory.c - manages a directory of checkpoints (checkpoint.h, checkpoint_private.h): its names, the
 * links `last` and `best`, retention, clean-up. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/log.h"
#include "base/system.h"
#include "checkpoints/checkpoint.h"
#include "checkpoints/checkpoint_private.h"
#include "checkpoints/manifest.h"

/* A checkpoint with a readable manifest. */
struct entry {
    int64_t step;
    double loss; /* its score, lower is better; NAN: none, or a different score than that of the newest one */
};

bool lvn_checkpoint_parse_step(const char *name, int64_t *step)
{
    if (strncmp(name, "step-", 5) != 0) return false;
    const char *digits = name + 5;
    size_t n = strlen(digits);
    if (n == 0 || n > 18 || strspn(digits, "0123456789") != n || (digits[0] == '0' && n > 1)) return false;
    *step = strtoll(digits, NULL, 10);
    return true;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

enum lvn_status lvn_checkpoint_steps(struct lvn_arena *a, const char *dir, int64_t **step, int *n)
{
    const char *const *names;
    int n_names;
    *n = 0;
    LVN_TRY(lvn_dir_list(a, dir, &names, &n_names));
    *step = lvn_arena_alloc(a, (size_t)n_names * sizeof **step);
    if (!*step) return LVN_MEMORY;
    for (int i = 0; i < n_names; i++)
        if (lvn_checkpoint_parse_step(names[i], *step + *n)) ++*n;
    if (*n) qsort(*step, (size_t)*n, sizeof **step, newest_first);
    return LVN_OK;
}

/* --- links --- */

static bool is_damage(enum lvn_status status)
{
    return status == LVN_FORMAT || status == LVN_UNSUPPORTED;
}

static enum lvn_status read_pointer(const char *path, char name[32])
{
    char *text;
    int64_t bytes;
    if (!lvn_path_is_file(path)) return LVN_OK;
    enum lvn_status status = lvn_file_read(path, 31, &text, &bytes);
    if (is_damage(status)) {
        lvn_error_clear();
        return LVN_OK;
    }
    LVN_TRY(status);
    snprintf(name, 32, "%.*s", (int)strcspn(text, "\r\n"), text);
    free(text);
    return LVN_OK;
}

/* The name of the checkpoint to which `last` or `best` refers; "" if it is missing or invalid. An error if it cannot be
 * read. */
static enum lvn_status link_name(const char *path, char name[32])
{
    ssize_t n = readlink(path, name, 31);
    name[n > 0 ? n : 0] = '\0';
    LVN_CHECK(n >= 0 || errno == EINVAL || errno == ENOENT || errno == ENOTDIR, IO, "cannot read the link '%s': %s",
              path, strerror(errno));
    if (n < 0 && errno == EINVAL) LVN_TRY(read_pointer(path, name)); /* not a symbolic link */
    int64_t step;
    if (!lvn_checkpoint_parse_step(name, &step)) name[0] = '\0';
    return LVN_OK;
}

enum lvn_status lvn_checkpoint_link(struct lvn_arena *a, const char *dir, const char *name, const char **out)
{
    char target[32], *path = lvn_path_join(a, dir, name);
    *out = NULL;
    if (!path) return LVN_MEMORY;
    LVN_TRY(link_name(path, target));
    if (target[0]) *out = lvn_path_join(a, dir, target);
    return target[0] && !*out ? LVN_MEMORY : LVN_OK;
}

/* *step is -1 if there is no link to a step. */
static enum lvn_status link_step(struct lvn_arena *a, const char *dir, const char *name, int64_t *step)
{
    const char *target;
    *step = -1;
    LVN_TRY(lvn_checkpoint_link(a, dir, name, &target));
    if (target && !lvn_checkpoint_parse_step(lvn_path_name(target), step)) *step = -1;
    return LVN_OK;
}

/* Make a name available for a link. Programs that copy a run's links as folders create a folder there: it is removed if
 * it is empty, and an error otherwise. */
static enum lvn_status free_name(const char *path)
{
    struct stat s;
    const bool folder = path && lstat(path, &s) == 0 && S_ISDIR(s.st_mode);
    LVN_CHECK(
        !folder || rmdir(path) == 0, IO,
        "'%s' is a folder (%s), but levin needs its name for a link to a checkpoint: remove it if it is a copy of a "
        "folder step-N next to it, else rename it",
        path, strerror(errno));
    return path ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status set_link(struct lvn_arena *a, const char *dir, const char *name, int64_t step)
{
    char *path = lvn_path_join(a, dir, name);
    char *temporary = lvn_arena_printf(a, "%s/.%s" LVN_TEMPORARY "%ld", dir, name, (long)getpid());
    char *target = lvn_arena_printf(a, "step-%lld", (long long)step);
    char *content = lvn_arena_printf(a, "step-%lld\n", (long long)step);
    if (!path || !temporary || !target || !content) return LVN_MEMORY;
    LVN_TRY(free_name(path));
    unlink(temporary);
    /* File systems without links refuse them with many codes; whatever else fails, also fails below. */
    if (lvn_system.symlink(target, temporary) != 0) return lvn_file_write(path, content, (int64_t)strlen(content));
    enum lvn_status status = lvn_file_rename(temporary, path);
    if (status != LVN_OK) unlink(temporary);
    return status;
}

/* The score as a loss, comparable with scores of `kind`; NAN if it is a different one. */
static double loss_of(const struct lvn_checkpoint_score *score, const struct lvn_checkpoint_score *kind)
{
    if (score->higher != kind->higher || strcmp(score->name, kind->name) != 0) return NAN;
    return score->higher ? -score->value : score->value;
}

/* A smaller loss is better; any loss is better than none. */
static bool better(double a, double b)
{
    return isfinite(a) && (!isfinite(b) || a < b);
}

/* The score of the checkpoint `step`, to which `best` refers. NAN: none, or it is damaged, so that any other one is
 * better. *readable: false after an error that may be temporary, as on a network file system. */
static enum lvn_status score_of_best(struct lvn_arena *a, const char *dir, int64_t step, struct lvn_manifest *best,
                                     bool *readable)
{
    const char *path = lvn_arena_printf(a, "%s/step-%lld", dir, (long long)step);
    enum lvn_status status = path ? lvn_manifest_read(a, path, best) : LVN_MEMORY;
    *readable = status == LVN_OK || is_damage(status);
    if (status == LVN_OK || status == LVN_MEMORY) return status;
    if (!*readable) lvn_log(LVN_LOG_WARN, "'%s/best' remains as it is: %s", dir, levin_error_text());
    lvn_error_clear();
    best->score.value = NAN;
    return LVN_OK;
}

static enum lvn_status update_links(struct lvn_arena *a, const char *dir, int64_t step,
                                    const struct lvn_checkpoint_score *score)
{
    LVN_TRY(set_link(a, dir, "last", step));
    struct lvn_manifest best = {.score.value = NAN};
    int64_t best_step;
    bool readable = true;
    LVN_TRY(link_step(a, dir, "best", &best_step));
    if (best_step >= 0 && best_step != step) LVN_TRY(score_of_best(a, dir, best_step, &best, &readable));
    if (readable && better(loss_of(score, score), loss_of(&best.score, score))) LVN_TRY(set_link(a, dir, "best", step));
    return lvn_dir_sync(dir);
}

enum lvn_status lvn_checkpoint_links_update(const char *dir, int64_t step, const struct lvn_checkpoint_score *score)
{
    LVN_LOCAL_ARENA(a);
    return update_links(&a, dir, step, score);
}

/* --- retention --- */

/* All checkpoints with a valid manifest and matching sizes, newest first. *unreadable: others could not be read, which
 * may be temporary. UNSUPPORTED if another version of levin wrote a newer one than the first of them. */
static enum lvn_status list_good(struct lvn_arena *a, const char *dir, struct entry **entry, int *n, bool *unreadable)
{
    struct lvn_checkpoint_score kind;
    int64_t *step;
    int n_steps;
    *n = 0;
    *unreadable = false;
    LVN_TRY(lvn_checkpoint_steps(a, dir, &step, &n_steps));
    *entry = lvn_arena_alloc(a, (size_t)n_steps * sizeof **entry);
    if (!*entry) return LVN_MEMORY;
    for (int i = 0; i < n_steps; i++) {
        LVN_LOCAL_ARENA(scratch); /* manifests are large compared to an entry */
        struct lvn_manifest manifest;
        char *path = lvn_arena_printf(&scratch, "%s/step-%lld", dir, (long long)step[i]);
        enum lvn_status status = path ? lvn_manifest_read(&scratch, path, &manifest) : LVN_MEMORY;
        if (status == LVN_OK) status = lvn_manifest_verify(path, &manifest, LVN_MANIFEST_SIZES);
        bool good = status == LVN_OK && manifest.step == step[i];
        if (good && *n == 0) kind = manifest.score;
        if (good) (*entry)[(*n)++] = (struct entry){step[i], loss_of(&manifest.score, &kind)};
        if (status == LVN_MEMORY || (status == LVN_UNSUPPORTED && *n == 0)) return status;
        *unreadable |= status != LVN_OK && !is_damage(status);
        lvn_error_clear();
    }
    return LVN_OK;
}

static enum lvn_status remove_step(struct lvn_arena *a, const char *dir, int64_t step)
{
    char *path = lvn_arena_printf(a, "%s/step-%lld", dir, (long long)step);
    char *hidden = lvn_arena_printf(a, "%s/.step-%lld" LVN_DELETED "%ld", dir, (long long)step, (long)getpid());
    if (!path || !hidden) return LVN_MEMORY;
    LVN_TRY(lvn_tree_remove(hidden));
    LVN_TRY(lvn_file_rename(path, hidden));
    return lvn_tree_remove(hidden);
}

/* *yes: the checkpoint may be removed, because it has no files that levin did not write. */
static enum lvn_status is_removable(struct lvn_arena *a, const char *dir, int64_t step, bool *yes)
{
    const char *unmanaged = NULL, *path = lvn_arena_printf(a, "%s/step-%lld", dir, (long long)step);
    enum lvn_status status = path ? lvn_checkpoint_unmanaged(a, path, &unmanaged) : LVN_MEMORY;
    if (is_damage(status))
        lvn_error_clear(); /* without a valid manifest it is not known who wrote it */
    else if (status != LVN_OK)
        return status;
    if (unmanaged)
        lvn_log(LVN_LOG_WARN, "'%s' is not removed: it contains '%s', which levin did not write", path, unmanaged);
    *yes = status == LVN_OK && !unmanaged;
    return LVN_OK;
}

static int best_first(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (better(x->loss, y->loss)) return -1;
    if (better(y->loss, x->loss)) return 1;
    bool older = isfinite(x->loss); /* of equal losses the earliest is the best */
    return (x->step < y->step) == older ? -1 : 1;
}

static enum lvn_status prune(struct lvn_arena *a, const char *dir, int64_t top_k)
{
    struct entry *entry;
    int n;
    bool unreadable;
    LVN_TRY(list_good(a, dir, &entry, &n, &unreadable));
    if (n == 0) return LVN_OK;
    int64_t last = entry[0].step, best = -1, linked = -1;
    LVN_TRY(link_step(a, dir, "last", &linked));
    LVN_TRY(link_step(a, dir, "best", &best));
    qsort(entry, (size_t)n, sizeof *entry, best_first);
    for (int i = n - 1; i >= top_k && i >= 0; i--) {
        int64_t step = entry[i].step;
        if (step == last || step == linked || step == best || (i == 0 && isfinite(entry[0].loss))) continue;
        bool removable;
        LVN_TRY(is_removable(a, dir, step, &removable));
        if (removable) LVN_TRY(remove_step(a, dir, step));
    }
    return LVN_OK;
}

enum lvn_status lvn_checkpoint_prune(const char *dir, int64_t top_k)
{
    if (top_k < 0) return LVN_OK;
    LVN_LOCAL_ARENA(a);
    return prune(&a, dir, top_k);
}

enum lvn_status lvn_checkpoint_is_among(const char *dir, int64_t top_k, const struct lvn_checkpoint_score *score,
                                        bool *yes)
{
    LVN_LOCAL_ARENA(a);
    struct entry *entry;
    int n;
    bool unreadable;
    const double loss = loss_of(score, score);
    *yes = false;
    if (!isfinite(loss) || !lvn_path_exists(dir)) return LVN_OK;
    LVN_TRY(list_good(&a, dir, &entry, &n, &unreadable));
    for (int i = 0; i < n; i++) top_k -= entry[i].loss <= loss;
    *yes = top_k > 0;
    return LVN_OK;
}

/* --- after a kill --- */

bool lvn_checkpoint_is_replaced(const char *name)
{
    return strncmp(name, ".step-", 6) == 0 && strstr(name, LVN_REPLACED);
}

bool lvn_checkpoint_is_leftover(const char *name)
{
    bool ours = strstr(name, LVN_REPLACED) || strstr(name, LVN_TEMPORARY) || strstr(name, LVN_DELETED);
    return ours &&
           (strncmp(name, ".step-", 6) == 0 || strncmp(name, ".last.", 6) == 0 || strncmp(name, ".best.", 6) == 0);
}

/* Rename a replaced checkpoint that is not removed to "step-N.old-PID-K", a name that no run removes. */
static void keep_replaced(struct lvn_arena *a, const char *path, const char *published, const char *unmanaged)
{
    enum { TRIES = 100 };
    const char *aside = NULL;
    bool moved = false;
    for (int k = 0; k < TRIES && !moved; k++) { /* the name may be taken: in a container each process is number 1 */
        aside = lvn_arena_printf(a, "%s" LVN_REPLACED "%ld-%d", published, (long)getpid(), k);
        moved = aside && lvn_system.rename(path, aside) == 0;
    }
    lvn_log(LVN_LOG_WARN, "'%s' was replaced; it contained %s%s%s, so the former one is now '%s'", published,
            unmanaged ? "'" : "", unmanaged ? unmanaged : "files that could not be checked",
            unmanaged ? "', which levin did not write" : "", moved ? aside : path);
}

enum lvn_status lvn_checkpoint_clear_replaced(struct lvn_arena *a, const char *dir, const char *name)
{
    const char *suffix = strstr(name, LVN_REPLACED), *unmanaged = NULL;
    const char *path = lvn_path_join(a, dir, name);
    const int n = (int)(suffix - name);
    const char *published = lvn_arena_printf(a, "%s/%.*s", dir, n - 1, name + 1);
    const char *deleted = lvn_arena_printf(a, "%s/%.*s" LVN_DELETED "%ld", dir, n, name, (long)getpid());
    if (!path || !published || !deleted) return LVN_MEMORY;
    if (!lvn_path_exists(published)) return lvn_file_rename(path, published);
    const enum lvn_status status = lvn_checkpoint_unmanaged(a, path, &unmanaged);
    if (status == LVN_MEMORY) return status;
    if (status != LVN_OK) lvn_error_clear(); /* without a valid manifest it is not known who wrote it */
    if (status != LVN_OK || unmanaged) {
        keep_replaced(a, path, published, unmanaged);
        return LVN_OK;
    }
    LVN_TRY(lvn_tree_remove(deleted));
    LVN_TRY(lvn_file_rename(path, deleted)); /* a kill within the removal must not leave a folder without a manifest */
    return lvn_tree_remove(deleted);
}

/* Handle one hidden name. Unfinished checkpoints and those whose removal has begun are levin's own; a replaced one may
 * have files of the user. */
static enum lvn_status clear_hidden(struct lvn_arena *a, const char *dir, const char *name)
{
    if (!lvn_checkpoint_is_leftover(name)) return LVN_OK;
    if (lvn_checkpoint_is_replaced(name)) return lvn_checkpoint_clear_replaced(a, dir, name);
    char *path = lvn_path_join(a, dir, name);
    return path ? lvn_tree_remove(path) : LVN_MEMORY;
}

static enum lvn_status clean(struct lvn_arena *a, const char *dir)
{
    const char *const *names;
    int n;
    struct entry *entry;
    bool unreadable;
    LVN_TRY(list_good(a, dir, &entry, &n, &unreadable)); /* refuses another version before anything changes */
    LVN_TRY(free_name(lvn_path_join(a, dir, "last")));
    LVN_TRY(free_name(lvn_path_join(a, dir, "best")));
    LVN_TRY(lvn_dir_list(a, dir, &names, &n));
    for (int i = 0; i < n; i++)
        if (names[i][0] == '.') LVN_TRY(clear_hidden(a, dir, names[i]));
    LVN_TRY(list_good(a, dir, &entry, &n, &unreadable));
    if (n == 0 || unreadable) return LVN_OK; /* the links may refer to a checkpoint that is valid */
    int64_t step, last = entry[0].step;
    LVN_TRY(link_step(a, dir, "last", &step));
    if (step != last) LVN_TRY(set_link(a, dir, "last", last));
    qsort(entry, (size_t)n, sizeof *entry, best_first);
    LVN_TRY(link_step(a, dir, "best", &step));
    if (isfinite(entry[0].loss) && step != entry[0].step) LVN_TRY(set_link(a, dir, "best", entry[0].step));
    return lvn_dir_sync(dir);
}

enum lvn_status lvn_checkpoint_clean(const char *dir)
{
    if (!lvn_path_is_dir(dir)) return LVN_OK;
    LVN_LOCAL_ARENA(a);
    return clean(&a, dir);
}

/* --- removing everything --- */

static enum lvn_status remove_all(struct lvn_arena *a, const char *dir)
{
    const char *const *names;
    int n;
    int64_t step;
    LVN_TRY(lvn_dir_list(a, dir, &names, &n));
    for (int i = 0; i < n; i++) {
        char *path = lvn_path_join(a, dir, names[i]);
        bool link;
        if (!path) return LVN_MEMORY;
        LVN_TRY(lvn_checkpoint_is_link(a, dir, names[i], &link));
        if (lvn_checkpoint_parse_step(names[i], &step))
            LVN_TRY(remove_step(a, dir, step));
        else if (link || lvn_checkpoint_is_leftover(names[i]))
            LVN_TRY(lvn_tree_remove(path));
    }
    return lvn_dir_sync(dir);
}

enum lvn_status lvn_checkpoints_remove(const char *dir)
{
    if (!lvn_path_is_dir(dir)) return LVN_OK;
    LVN_LOCAL_ARENA(a);
    return remove_all(&a, dir);
}

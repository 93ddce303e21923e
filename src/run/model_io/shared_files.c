/* shared_files.c - see shared_files.h. */
#include "model_io/shared_files.h"

#include <sys/stat.h>

#include "base/files.h"
#include "formats/checksum.h"

enum { DEPTH = 2 };

/* Add what the system says about all files below `dir`. False: it cannot be read. */
static bool add_folder(struct lvn_checksum *sum, struct lvn_arena *a, const char *dir, int depth)
{
    const char *const *names;
    struct stat is;
    int n;
    if (lvn_dir_list(a, dir, &names, &n) != LVN_OK) return false;
    for (int i = 0; i < n; i++) {
        const char *path = lvn_path_join(a, dir, names[i]);
        if (!path || stat(path, &is) != 0) return false;
        if (S_ISDIR(is.st_mode) && depth > 1 && !add_folder(sum, a, path, depth - 1)) return false;
        if (!S_ISREG(is.st_mode)) continue;
        const int64_t known[] = {(int64_t)is.st_ino, is.st_size, is.st_mtim.tv_sec, is.st_mtim.tv_nsec};
        lvn_checksum_add(sum, names[i], (int64_t)strlen(names[i]) + 1);
        lvn_checksum_add(sum, known, (int64_t)sizeof known);
    }
    return true;
}

static bool scan(struct lvn_arena *a, const char *dir, uint64_t *found)
{
    struct lvn_checksum sum;
    lvn_checksum_init(&sum);
    const bool seen = add_folder(&sum, a, dir, DEPTH);
    if (!seen) lvn_error_clear();
    *found = lvn_checksum_value(&sum);
    return seen;
}

enum lvn_status lvn_ranks_share_files(struct lvn_ranks *r, struct lvn_arena *a, const char *dir, const char **path)
{
    struct {
        char path[PATH_MAX];
        uint64_t found;
    } first = {.path = ""};
    uint64_t found;
    *path = NULL;
    if (r->rank == 0 && (!realpath(dir, first.path) || !scan(a, first.path, &first.found))) first.path[0] = '\0';
    LVN_TRY(lvn_ranks_broadcast(r, &first, (int64_t)sizeof first));
    double same = *first.path && scan(a, r->rank && dir ? dir : first.path, &found) && found == first.found;
    LVN_TRY(lvn_ranks_sum(r, &same, 1));
    const char *copy = lvn_arena_strdup(a, first.path);
    LVN_TRY(lvn_ranks_agree(r, copy ? LVN_OK : LVN_MEMORY));
    if ((int)same == r->size) *path = copy;
    return LVN_OK;
}

/* run_dir_lock.c - ownership of a run's folder: its lock file, and its lease if other machines can reach it. run_dir.c
 * calls it. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/target.h"
#include "stores/lease/lease_file.h"
#include "stores/lease/lease_owner.h"
#include "train/run_dir.h"

/* The owner named in the lock file: " (...)", or "". */
static void read_owner(const struct lvn_run_dir *d, char text[LVN_LEASE_TEXT])
{
    char content[LVN_LEASE_TEXT], name[LVN_LEASE_TEXT];
    ssize_t n = pread(d->lock, content, sizeof content - 1, 0);
    content[n > 0 ? n : 0] = '\0';
    text[0] = '\0';
    if (lvn_lease_owner_describe(content, name)) snprintf(text, LVN_LEASE_TEXT, " (%.1000s)", name);
}

bool lvn_run_dir_write_owner(const struct lvn_run_dir *d)
{
    const struct lvn_lease_options options = {.job = d->job, .lock = "", .seconds = d->lease_seconds};
    char content[LVN_LEASE_TEXT], owner[LVN_LEASE_TEXT];
    ssize_t n = pread(d->lock, content, sizeof content - 1, 0);
    content[n > 0 ? n : 0] = '\0';
    if (n < 0 || (n > 0 && !lvn_lease_owner_describe(content, owner))) return false; /* of another program */
    lvn_lease_owner_text(&options, owner);
    if (ftruncate(d->lock, 0) == 0) (void)!pwrite(d->lock, owner, strlen(owner), 0);
    return true;
}

/* This allocates nothing, so the name of an ended process is removed even when out of memory. */
void lvn_run_dir_clear_owner(const struct lvn_run_dir *d)
{
    (void)!ftruncate(d->lock, 0);
}

/* Is the open file still the one of that name? A process that removes an empty folder also removes its lock file. */
static bool is_same_file(int fd, const char *path)
{
    struct stat a, b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Did stat() fail because there is no such file? Otherwise it cannot be reached for the moment. */
static bool is_missing(void)
{
    return errno == ENOENT || errno == ENOTDIR;
}

/* *held: the file system supports locks, and this process holds the folder's. */
static enum lvn_status take_lock(struct lvn_run_dir *d, bool *held)
{
    const char *path;
    char owner[LVN_LEASE_TEXT];
    path = lvn_path_join(&d->arena, d->path, LVN_RUN_DIR_LOCK);
    if (!path) return LVN_MEMORY;
    for (;;) {
        LVN_TRY_WHILE(lvn_dir_make(d->path), "making the run folder");
        LVN_TRY_WHILE(lvn_file_open_nofollow(path, O_RDWR | O_CREAT, &d->lock),
                      "writing the run folder '%s'; another one can be chosen with run_dir", d->path);
        /* A file system without locks (some network ones) does not prevent the run. */
        *held = flock(d->lock, LOCK_EX | LOCK_NB) == 0;
        if (!*held && errno == EWOULDBLOCK) break;
        if (!*held || is_same_file(d->lock, path)) return LVN_OK;
        close(d->lock);
        d->lock = -1;
    }
    read_owner(d, owner);
    close(d->lock);
    d->lock = -1;
    d->created = false; /* it belongs to the other process */
    LVN_FAIL(IO, "another process is training in '%s'%s; wait for it, or choose another run_dir", d->url, owner);
}

static bool read_folder(const struct lvn_run_dir *d, uint64_t folder[2])
{
    struct stat s;
    if (stat(d->path, &s) != 0) return false;
    folder[0] = (uint64_t)s.st_dev;
    folder[1] = (uint64_t)s.st_ino;
    return true;
}

/* IO if the folder was moved, removed or replaced: its lock file belongs to another run, or it is missing, or it has no
 * lock file and is not the folder that was locked. The run continues if only the lock file was removed, or if the
 * folder cannot be reached at the moment. */
static enum lvn_status check_folder(const struct lvn_run_dir *d)
{
    char lock[PATH_MAX];
    uint64_t now[2];
    struct stat own, s;
    if (lvn_store_is_remote(d->url) || !lvn_fit(lock, sizeof lock, "%s/%s", d->path, LVN_RUN_DIR_LOCK) ||
        fstat(d->lock, &own) != 0)
        return LVN_OK;
    bool replaced = false;
    if (stat(lock, &s) == 0)
        replaced = s.st_dev != own.st_dev || s.st_ino != own.st_ino;
    else if (is_missing())
        replaced = read_folder(d, now) ? now[0] != d->folder[0] || now[1] != d->folder[1] : is_missing();
    LVN_CHECK(!replaced, IO, "the run's folder '%s' was moved, removed or replaced while the run continued", d->path);
    return LVN_OK;
}

enum lvn_status lvn_run_dir_claim(struct lvn_run_dir *d, const char *path)
{
    char lock[LVN_LEASE_LOCK_TEXT] = "";
    bool held, waited;
    LVN_TRY(take_lock(d, &held));
    (void)read_folder(d, d->folder);
    if (!lvn_store_is_remote(path) && !lvn_lease_is_needed(path)) return LVN_OK;
    if (held) lvn_lease_lock(d->lock, lock);
    const struct lvn_lease_options options = {.path = path, .job = d->job, .lock = lock, .seconds = d->lease_seconds};
    return lvn_lease_acquire(&d->lease, &options, &waited);
}

enum lvn_status lvn_run_dir_check(struct lvn_run_dir *d)
{
    LVN_TRY(check_folder(d));
    LVN_TRY_WHILE(lvn_lease_check(d->lease), "training; this run's own files are in '%s'", d->path);
    if (lvn_store_is_remote(d->url) || lvn_lease_is_valid(d->lease)) return LVN_OK;
    return lvn_lease_confirm(d->lease);
}

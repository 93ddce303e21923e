/* files.c - see files.h: files and directories with POSIX calls. */
#include "base/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/getenv.h"
#include "base/input.h"
#include "base/list.h"
#include "base/output.h"
#include "base/system.h"
#include "base/text.h"
#include "base/work.h"

enum { READ_BYTES = 256 * 1024 };

bool lvn_fd_write(int fd, const void *data, int64_t bytes)
{
    for (const char *p = data; bytes > 0;) {
        ssize_t done = lvn_system.write(fd, p, (size_t)bytes);
        if (done < 0 && errno == EINTR) continue;
        if (done == 0) errno = ENOSPC;
        if (done <= 0) return false;
        p += done;
        bytes -= done;
    }
    return true;
}

/* --- reading --- */

static enum lvn_status read_all(int fd, const char *path, int64_t limit, char **text, int64_t *bytes)
{
    struct stat s;
    int64_t capacity = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) ? s.st_size + 1 : READ_BYTES, n = 0;
    if (limit && capacity > limit + 2) capacity = limit + 2; /* one byte more than allowed detects a longer file */
    char *p = lvn_malloc((size_t)capacity);
    if (!p) return LVN_MEMORY;
    for (;;) {
        ssize_t got = read(fd, p + n, (size_t)(capacity - n - 1));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            int error = errno;
            free(p);
            LVN_FAIL(IO, "cannot read '%s': %s", path, strerror(error));
        }
        n += got;
        if (limit && n > limit) {
            free(p);
            LVN_FAIL(FORMAT, "'%s' has more than %lld bytes, the limit for files of this kind", path, (long long)limit);
        }
        if (n + 1 < capacity && got > 0) continue;
        if (n + 1 < capacity) break; /* end of file */
        char *more = lvn_realloc(p, (size_t)(2 * capacity + 1));
        if (!more) {
            free(p);
            return LVN_MEMORY;
        }
        p = more;
        capacity = 2 * capacity + 1;
    }
    p[n] = '\0';
    *text = p;
    *bytes = n;
    return LVN_OK;
}

static enum lvn_status read_input(const char *path, enum lvn_input accepts, int64_t limit, char **text, int64_t *bytes)
{
    int fd;
    LVN_TRY(lvn_input_open(path, accepts, &fd));
    enum lvn_status status = read_all(fd, path, limit, text, bytes);
    close(fd);
    return status;
}

enum lvn_status lvn_file_read(const char *path, int64_t limit, char **text, int64_t *bytes)
{
    return read_input(path, LVN_INPUT_OPENED, limit, text, bytes);
}

enum lvn_status lvn_input_read(const char *path, int64_t limit, char **text, int64_t *bytes)
{
    return read_input(path, LVN_INPUT_STREAM, limit, text, bytes);
}

/* File systems of one machine: ext2 to ext4, XFS, Btrfs, F2FS, ZFS, bcachefs, tmpfs, ramfs, overlayfs (statfs(2)). */
static const unsigned long local_file_systems[] = {0xef53,     0x58465342, 0x9123683e, 0xf2f52010, 0x2fc12fc1,
                                                   0xca451a4e, 0x01021994, 0x858458f6, 0x794c7630};

bool lvn_path_is_local(const char *path)
{
    struct statfs s;
    if (statfs(path, &s) != 0) return false;
    for (size_t i = 0; i < sizeof local_file_systems / sizeof *local_file_systems; i++)
        if ((unsigned long)s.f_type == local_file_systems[i]) return true;
    return false;
}

enum lvn_status lvn_fd_read_at(int fd, const char *path, void *to, int64_t offset, int64_t bytes)
{
    for (int64_t n = 0; n < bytes;) {
        const ssize_t got = pread(fd, (char *)to + n, (size_t)(bytes - n), (off_t)(offset + n));
        if (got < 0 && errno == EINTR) continue;
        LVN_CHECK(got >= 0, IO, "cannot read '%s' at byte %lld: %s", path, (long long)(offset + n), strerror(errno));
        LVN_CHECK(got > 0, IO, "'%s' ends after %lld bytes: it was truncated while it was read", path,
                  (long long)(offset + n));
        n += got;
    }
    return LVN_OK;
}

/* Read the file into anonymous memory, which is unmapped like a map of the file. */
static enum lvn_status map_copy(struct lvn_mapping *mapping, int fd, const char *path, int64_t bytes)
{
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return LVN_MEMORY;
    *mapping = (struct lvn_mapping){.data = p, .bytes = bytes, .copied = true};
    enum lvn_status status = lvn_fd_read_at(fd, path, p, 0, bytes);
    if (status != LVN_OK) lvn_file_unmap(mapping);
    return status;
}

enum lvn_status lvn_file_map(struct lvn_mapping *mapping, const char *path)
{
    *mapping = (struct lvn_mapping){0};
    struct stat s;
    int fd;
    LVN_TRY(lvn_input_open(path, LVN_INPUT_REGULAR, &fd));
    int error = fstat(fd, &s) != 0 ? errno : S_ISDIR(s.st_mode) ? EISDIR : !S_ISREG(s.st_mode) ? EINVAL : 0;
    void *p = NULL;
    if (!error && s.st_size > 0 && s.st_size <= LVN_FILE_COPY_BYTES && !lvn_path_is_local(path)) {
        enum lvn_status status = map_copy(mapping, fd, path, s.st_size);
        close(fd);
        return status;
    }
    if (!error && s.st_size > 0) {
        p = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) error = errno;
    }
    close(fd);
    LVN_CHECK(!error, IO, "cannot map '%s' into memory: %s", path,
              error == EINVAL ? "it is not a regular file" : strerror(error));
    *mapping = (struct lvn_mapping){.data = p, .bytes = s.st_size};
    return LVN_OK;
}

void lvn_file_unmap(struct lvn_mapping *mapping)
{
    if (mapping->data) munmap((void *)mapping->data, (size_t)mapping->bytes);
    *mapping = (struct lvn_mapping){0};
}

void lvn_file_map_drop(const struct lvn_mapping *mapping)
{
    if (mapping->data && !mapping->copied)
        madvise((void *)(uintptr_t)mapping->data, (size_t)mapping->bytes, MADV_DONTNEED);
}

/* --- writing --- */

/* Write a file to the disk in chunks, so that the progress of a long sync is visible. Returns 0 or an errno, which a
 * later fsync() may not repeat. */
static int sync_pieces(int fd)
{
#ifdef SYNC_FILE_RANGE_WRITE
    const unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    struct stat is;
    if (fstat(fd, &is)) return errno;
    for (off_t at = 0; at + LVN_WORK_CHUNK < is.st_size; at += LVN_WORK_CHUNK) {
        bool cannot = sync_file_range(fd, at, LVN_WORK_CHUNK, all) != 0;
        if (cannot && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP || errno == ESPIPE)) return 0;
        if (cannot) return errno;
        lvn_work_done(LVN_WORK_CHUNK);
    }
#else
    (void)fd;
#endif
    return 0;
}

enum lvn_status lvn_file_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    LVN_CHECK(fd >= 0, IO, "cannot open '%s': %s", path, strerror(errno));
    int error = sync_pieces(fd);
    if (!error && lvn_system.fsync(fd) != 0) error = errno;
    close(fd);
    LVN_CHECK(!error, IO, "cannot write '%s': %s", path, strerror(error));
    return LVN_OK;
}

enum lvn_status lvn_file_rename(const char *from, const char *to)
{
    if (lvn_system.rename(from, to) != 0) LVN_FAIL(IO, "cannot rename '%s' to '%s': %s", from, to, strerror(errno));
    return LVN_OK;
}

static enum lvn_status write_and_rename(const char *temporary, const char *path, const void *data, int64_t bytes)
{
    struct lvn_output output;
    LVN_TRY(lvn_output_open(&output, temporary));
    (void)!lvn_output_write(&output, data, bytes);
    LVN_TRY(lvn_output_close(&output));
    return lvn_file_rename(temporary, path);
}

enum lvn_status lvn_file_write(const char *path, const void *data, int64_t bytes)
{
    LVN_LOCAL_ARENA(a);
    enum lvn_status status = LVN_MEMORY;
    struct stat is;
    bool replaceable = lstat(path, &is) != 0 || S_ISREG(is.st_mode) || S_ISLNK(is.st_mode) || S_ISDIR(is.st_mode);
    LVN_CHECK(replaceable, IO, "cannot write '%s': it is a device, a pipe or a socket; remove it", path);
    char *dir = lvn_path_dir(&a, path);
    char *name = dir ? lvn_arena_printf(&a, ".%s.tmp-%ld", lvn_path_name(path), (long)getpid()) : NULL;
    char *temporary = name ? lvn_path_join(&a, dir, name) : NULL;
    if (temporary) {
        status = write_and_rename(temporary, path, data, bytes);
        if (status != LVN_OK)
            unlink(temporary);
        else
            status = lvn_dir_sync(dir);
    }
    return status;
}

/* --- directories --- */

enum lvn_status lvn_dir_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    LVN_CHECK(fd >= 0, IO, "cannot open the directory '%s': %s", path, strerror(errno));
    int error = lvn_system.fsync(fd) != 0 ? errno : 0;
    close(fd);
    if (error == EINVAL || error == ENOTSUP || error == EBADF) error = 0; /* not supported by this file system */
    LVN_CHECK(!error, IO, "cannot write the directory '%s' to the disk: %s", path, strerror(error));
    return LVN_OK;
}

static enum lvn_status make_one(const char *path)
{
    if (lvn_path_is_dir(path)) return LVN_OK;
    if (lvn_system.mkdir(path, 0777) != 0 && errno != EEXIST)
        LVN_FAIL(IO, "cannot create the directory '%s': %s", path, strerror(errno));
    LVN_CHECK(lvn_path_is_dir(path), IO, "'%s' exists already, but it is not a directory", path);
    return LVN_OK;
}

enum lvn_status lvn_dir_make(const char *path)
{
    char *part = lvn_strdup(path);
    if (!part) return LVN_MEMORY;
    enum lvn_status status = LVN_OK;
    for (char *p = part; *p && status == LVN_OK; p++) {
        if (*p != '/' || p == part || p[-1] == '/') continue;
        *p = '\0';
        status = make_one(part);
        *p = '/';
    }
    free(part);
    return status == LVN_OK && *path ? make_one(path) : status;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s, (void)kind, (void)at;
    return lvn_system.remove(path) == 0 || errno == ENOENT ? 0 : errno;
}

enum lvn_status lvn_tree_remove(const char *path)
{
    int error = nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS);
    if (error < 0) error = errno;
    LVN_CHECK(!error || error == ENOENT, IO, "cannot remove '%s': %s", path, strerror(error));
    return LVN_OK;
}

void lvn_tree_drop(const char *path)
{
    (void)!nftw(path, remove_one, 32, FTW_DEPTH | FTW_PHYS);
}

static enum lvn_status list(struct lvn_arena *a, DIR *dir, const char *path, const char *const **names, int *n)
{
    int64_t capacity = 0;
    const char **found = NULL;
    for (;;) {
        errno = 0;
        struct dirent *e = readdir(dir);
        LVN_CHECK(e || !errno, IO, "cannot read the directory '%s': %s", path, strerror(errno));
        if (!e) break;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (!lvn_arena_list_reserve(a, &found, *n, &capacity, *n + 1, sizeof *found)) return LVN_MEMORY;
        found[*n] = lvn_arena_strdup(a, e->d_name);
        if (!found[(*n)++]) return LVN_MEMORY;
    }
    if (*n) qsort(found, (size_t)*n, sizeof *found, lvn_by_text);
    *names = found;
    return LVN_OK;
}

enum lvn_status lvn_dir_list(struct lvn_arena *a, const char *path, const char *const **names, int *n)
{
    *n = 0;
    *names = NULL;
    DIR *dir = opendir(path);
    LVN_CHECK(dir, IO, "cannot read the directory '%s': %s", path, strerror(errno));
    enum lvn_status status = list(a, dir, path, names, n);
    closedir(dir);
    return status;
}

/* --- paths --- */

bool lvn_path_is_file(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

bool lvn_path_is_dir(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

bool lvn_path_exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

bool lvn_path_same(const char *one, const char *two)
{
    struct stat s, t;
    return stat(one, &s) == 0 && stat(two, &t) == 0 && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

enum lvn_status lvn_path_find(const char *path, bool *found)
{
    struct stat s;
    *found = stat(path, &s) == 0;
    LVN_CHECK(*found || errno == ENOENT || errno == ENOTDIR || errno == ELOOP, IO, "cannot read '%s': %s", path,
              strerror(errno));
    return LVN_OK;
}

const char *lvn_path_home(struct lvn_arena *a, const char *path)
{
    const char *home = lvn_getenv("HOME");
    if (path[0] != '~' || (path[1] && path[1] != '/') || !home) return path;
    return path[1] ? lvn_path_join(a, home, path + 2) : home;
}

char *lvn_path_join(struct lvn_arena *a, const char *dir, const char *name)
{
    size_t n = strlen(dir);
    if (n == 0 || name[0] == '/') return lvn_arena_strdup(a, name);
    return lvn_arena_printf(a, "%s%s%s", dir, dir[n - 1] == '/' ? "" : "/", name);
}

const char *lvn_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool lvn_path_is_below(const char *path, const char *dir)
{
    char name[PATH_MAX], real[PATH_MAX], top[PATH_MAX];
    struct stat link;
    if (!realpath(dir, top) || !lvn_fit(name, sizeof name, "%s%s", *path == '/' ? "" : "./", path)) return false;
    while (!realpath(name, real)) {
        char *slash = strrchr(name, '/');
        if (slash[1] == '.' || lstat(name, &link) == 0) return false;
        *(slash > name ? slash : slash + 1) = '\0';
    }
    const size_t n = top[1] ? strlen(top) : 0; /* of "/": 0 */
    return !strncmp(real, top, n) && (!real[n] || real[n] == '/') && !strstr(real + n, "/.");
}

bool lvn_path_is_inside(const char *dir, const char *path)
{
    LVN_LOCAL_ARENA(a);
    const char *blobs = lvn_path_join(&a, dir, "../../blobs");
    return lvn_path_is_below(path, dir) || (blobs && lvn_path_is_below(path, blobs));
}

char *lvn_path_plain(struct lvn_arena *a, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    return lvn_arena_printf(a, "%.*s", (int)n, path);
}

int64_t lvn_path_stem(const char *path)
{
    const char *name = lvn_path_name(path), *dot = strrchr(name, '.');
    return dot && dot > name ? dot - path : (int64_t)strlen(path);
}

char *lvn_path_dir(struct lvn_arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return lvn_arena_strdup(a, ".");
    return lvn_arena_printf(a, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

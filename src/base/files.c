/* files.c - files and directories of files.h on POSIX calls. */
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/machine.h"

enum { READ_BYTES = 256 * 1024, LARGEST_WRITE = 64 << 20 };
/* Past the cache: what addresses and sizes are multiples of (4096 satisfies every disk), and when a disk is too slow
 * for that, since a cache would take the file at once. */
enum { DIRECT_UNIT = 4096, DIRECT_TRIAL = 32 << 20 };
static const double DIRECT_LEAST = 400e6; /* bytes a second */

static struct {
    long countdown, calls;
    bool sticky;
} fail; /* tests only: set before threads start */

long lvn_files_fail_at(long k, bool sticky)
{
    long calls = fail.calls;
    fail.countdown = k;
    fail.sticky = sticky;
    fail.calls = 0;
    return calls;
}

bool lvn_files_refuse(void)
{
    fail.calls++;
    if (fail.countdown == 0) return false;
    if (fail.countdown < 0 && ++fail.countdown == 0) raise(SIGKILL);
    if (fail.countdown <= 0) return false;
    bool refused = fail.countdown == 1;
    if (!refused)
        fail.countdown--;
    else if (!fail.sticky)
        fail.countdown = 0;
    if (refused) errno = ENOSPC;
    return refused;
}

/* --- reading --- */

static enum lvn_status read_all(int fd, const char *path, int64_t limit, char **text, int64_t *bytes)
{
    struct stat s;
    int64_t room = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) ? s.st_size + 1 : READ_BYTES, n = 0;
    if (limit && room > limit + 2) room = limit + 2; /* one byte more than allowed shows that it is too long */
    char *p = lvn_malloc((size_t)room);
    if (!p) return LVN_MEMORY;
    for (;;) {
        ssize_t got = read(fd, p + n, (size_t)(room - n - 1));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            int error = errno;
            free(p);
            LVN_FAIL(IO, "cannot read '%s': %s", path, strerror(error));
        }
        n += got;
        if (limit && n > limit) {
            free(p);
            LVN_FAIL(FORMAT, "'%s' has more than %lld bytes, the most for a file of this kind", path, (long long)limit);
        }
        if (n + 1 < room && got > 0) continue;
        if (n + 1 < room) break; /* the end */
        char *more = lvn_realloc(p, (size_t)(2 * room + 1));
        if (!more) {
            free(p);
            return LVN_MEMORY;
        }
        p = more;
        room = 2 * room + 1;
    }
    p[n] = '\0';
    *text = p;
    *bytes = n;
    return LVN_OK;
}

enum lvn_status lvn_file_read(const char *path, int64_t limit, char **text, int64_t *bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    LVN_CHECK(fd >= 0, IO, "cannot open '%s': %s", path, strerror(errno));
    enum lvn_status status = read_all(fd, path, limit, text, bytes);
    close(fd);
    return status;
}

enum lvn_status lvn_file_map(struct lvn_mapping *m, const char *path)
{
    *m = (struct lvn_mapping){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    LVN_CHECK(fd >= 0, IO, "cannot open '%s': %s", path, strerror(errno));
    struct stat s;
    int error = fstat(fd, &s) != 0 ? errno : S_ISDIR(s.st_mode) ? EISDIR : !S_ISREG(s.st_mode) ? EINVAL : 0;
    void *p = NULL;
    if (!error && s.st_size > 0) {
        p = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) error = errno;
    }
    close(fd);
    LVN_CHECK(!error, IO, "cannot map '%s' into memory: %s", path,
              error == EINVAL ? "it is not a regular file" : strerror(error));
    *m = (struct lvn_mapping){.data = p, .bytes = s.st_size};
    return LVN_OK;
}

void lvn_file_unmap(struct lvn_mapping *m)
{
    if (m->data) munmap((void *)m->data, (size_t)m->bytes);
    *m = (struct lvn_mapping){0};
}

/* --- writing --- */

static enum lvn_status output_failed(struct lvn_output *o, const char *what)
{
    (void)lvn_fail_at(__FILE__, __LINE__, LVN_IO, "cannot %s '%s': %s", what, o->path, strerror(errno));
    return o->status = LVN_IO;
}

enum lvn_status lvn_output_open(struct lvn_output *o, const char *path)
{
    *o = (struct lvn_output){.fd = -1};
    o->path = lvn_strdup(path);
    o->buffer = aligned_alloc(DIRECT_UNIT, LVN_OUTPUT_BUFFER);
    if (!o->buffer) (void)lvn_fail_at(__FILE__, __LINE__, LVN_MEMORY, "not enough memory to write '%s'", path);
    if (o->path && o->buffer) {
        o->fd = lvn_files_refuse() ? -1 : open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (o->fd >= 0) return LVN_OK;
        (void)output_failed(o, "write");
    } else {
        o->status = LVN_MEMORY;
    }
    free(o->path);
    free(o->buffer);
    return o->status;
}

static bool set_direct(struct lvn_output *o, bool on)
{
#ifdef O_DIRECT
    int flags = fcntl(o->fd, F_GETFL);
    return flags >= 0 && fcntl(o->fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
#else
    return !on;
#endif
}

void lvn_output_past_cache(struct lvn_output *o)
{
    if (o->status == LVN_OK) o->direct = set_direct(o, true);
}

/* Through the cache from now on. */
static void leave_direct(struct lvn_output *o)
{
    if (o->direct) (void)set_direct(o, false);
    o->direct = false;
}

static ssize_t write_some(struct lvn_output *o, const char *p, int64_t n)
{
    size_t part = n < LARGEST_WRITE ? (size_t)n : LARGEST_WRITE;
    if (lvn_files_refuse()) return -1;
    if (n % DIRECT_UNIT) leave_direct(o); /* the end of the file */
    if (!o->direct) return write(o->fd, p, part);
    double start = lvn_seconds();
    ssize_t done = write(o->fd, p, part);
    o->direct_s += lvn_seconds() - start;
    o->direct_bytes += done > 0 ? done : 0;
    bool slow = o->direct_bytes >= DIRECT_TRIAL && (double)o->direct_bytes < DIRECT_LEAST * o->direct_s;
    if ((done < 0 && errno == EINVAL) || slow || done % DIRECT_UNIT > 0) leave_direct(o);
    return done < 0 && errno == EINVAL ? write(o->fd, p, part) : done;
}

static enum lvn_status put(struct lvn_output *o, const char *p, int64_t n)
{
    while (n > 0) {
        ssize_t done = write_some(o, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done == 0) errno = ENOSPC;
        if (done <= 0) return output_failed(o, "write");
        p += done;
        n -= done;
    }
    return LVN_OK;
}

enum lvn_status lvn_output_write(struct lvn_output *o, const void *data, int64_t bytes)
{
    if (o->status != LVN_OK) return o->status;
    o->bytes += bytes;
    const char *p = data;
    while (bytes > 0) {
        if (!o->used && !o->direct && bytes >= LVN_OUTPUT_BUFFER) return put(o, p, bytes);
        int64_t part = bytes < LVN_OUTPUT_BUFFER - o->used ? bytes : LVN_OUTPUT_BUFFER - o->used;
        memcpy(o->buffer + o->used, p, (size_t)part);
        p += part;
        bytes -= part;
        o->used += part;
        if (o->used < LVN_OUTPUT_BUFFER) return LVN_OK;
        o->used = 0; /* whole buffers only: positions in the file stay multiples */
        LVN_TRY(put(o, o->buffer, LVN_OUTPUT_BUFFER));
    }
    return LVN_OK;
}

enum lvn_status lvn_output_close(struct lvn_output *o)
{
    if (o->status == LVN_OK) (void)!put(o, o->buffer, o->used);
    if (o->status == LVN_OK && !o->later && (lvn_files_refuse() || fsync(o->fd) != 0)) (void)output_failed(o, "write");
    /* Network file systems report a full disk here. */
    if (close(o->fd) != 0 && o->status == LVN_OK) (void)output_failed(o, "write");
    free(o->path);
    free(o->buffer);
    enum lvn_status status = o->status;
    *o = (struct lvn_output){.fd = -1, .status = status, .bytes = o->bytes};
    return status;
}

enum lvn_status lvn_file_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    LVN_CHECK(fd >= 0, IO, "cannot open '%s': %s", path, strerror(errno));
    int error = lvn_files_refuse() || fsync(fd) != 0 ? errno : 0;
    close(fd);
    LVN_CHECK(!error, IO, "cannot write '%s': %s", path, strerror(error));
    return LVN_OK;
}

enum lvn_status lvn_file_rename(const char *from, const char *to)
{
    if (lvn_files_refuse() || rename(from, to) != 0)
        LVN_FAIL(IO, "cannot rename '%s' to '%s': %s", from, to, strerror(errno));
    return LVN_OK;
}

static enum lvn_status write_there(const char *temporary, const char *path, const void *data, int64_t bytes)
{
    struct lvn_output o;
    LVN_TRY(lvn_output_open(&o, temporary));
    (void)!lvn_output_write(&o, data, bytes);
    LVN_TRY(lvn_output_close(&o));
    return lvn_file_rename(temporary, path);
}

enum lvn_status lvn_file_write(const char *path, const void *data, int64_t bytes)
{
    struct lvn_arena a;
    lvn_arena_init(&a);
    enum lvn_status status = LVN_MEMORY;
    char *dir = lvn_path_dir(&a, path);
    char *name = dir ? lvn_arena_printf(&a, ".%s.tmp-%ld", lvn_path_name(path), (long)getpid()) : NULL;
    char *temporary = name ? lvn_path_join(&a, dir, name) : NULL;
    if (temporary) {
        status = write_there(temporary, path, data, bytes);
        if (status != LVN_OK)
            unlink(temporary);
        else
            status = lvn_dir_sync(dir);
    }
    lvn_arena_release(&a);
    return status;
}

/* --- directories --- */

enum lvn_status lvn_dir_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    LVN_CHECK(fd >= 0, IO, "cannot open the directory '%s': %s", path, strerror(errno));
    int error = lvn_files_refuse() || fsync(fd) != 0 ? errno : 0;
    close(fd);
    if (error == EINVAL || error == ENOTSUP || error == EBADF) error = 0; /* this file system cannot */
    LVN_CHECK(!error, IO, "cannot write the directory '%s' to the disk: %s", path, strerror(error));
    return LVN_OK;
}

static enum lvn_status make_one(const char *path)
{
    if (lvn_path_is_dir(path)) return LVN_OK;
    if (lvn_files_refuse() || (mkdir(path, 0777) != 0 && errno != EEXIST))
        LVN_FAIL(IO, "cannot make the directory '%s': %s", path, strerror(errno));
    LVN_CHECK(lvn_path_is_dir(path), IO, "'%s' is there already, but it is not a directory", path);
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
    if (fail.countdown < 0) (void)lvn_files_refuse(); /* a full disk does not keep us from removing, a kill does */
    return remove(path) == 0 || errno == ENOENT ? 0 : errno;
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

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum lvn_status list(struct lvn_arena *a, DIR *dir, const char *path, const char *const **names, int *n)
{
    int room = 0;
    const char **found = NULL;
    for (;;) {
        errno = 0;
        struct dirent *e = readdir(dir);
        LVN_CHECK(e || !errno, IO, "cannot read the directory '%s': %s", path, strerror(errno));
        if (!e) break;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (*n == room) {
            room = 2 * room + 16;
            const char **more = lvn_arena_alloc(a, (size_t)room * sizeof *more);
            if (!more) return LVN_MEMORY;
            if (*n) memcpy(more, found, (size_t)*n * sizeof *more);
            found = more;
        }
        found[*n] = lvn_arena_strdup(a, e->d_name);
        if (!found[(*n)++]) return LVN_MEMORY;
    }
    if (*n) qsort(found, (size_t)*n, sizeof *found, by_bytes);
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

char *lvn_path_dir(struct lvn_arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return lvn_arena_strdup(a, ".");
    return lvn_arena_printf(a, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

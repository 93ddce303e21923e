/* target.c - see target.h. */
#include "base/target.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/system.h"

enum { MAX_LINKS = 40 }; /* as in Linux */

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* /dev/stdout is a link into /proc/self/fd. Such a link refers to an open file, with its offset and mode, and not to a
 * path. */
static bool is_descriptor_link(const struct stat *link)
{
    struct stat proc;
    return stat("/proc/self", &proc) == 0 && link->st_dev == proc.st_dev;
}

/* The descriptor of a path in /proc/self/fd, if this process has it open for that file; otherwise -1. */
static int open_descriptor(const char *path, const struct stat *file)
{
    struct stat open_file;
    const char *name = lvn_path_name(path);
    char *end;
    long n = strtol(name, &end, 10);
    bool number = *name >= '0' && *name <= '9' && !*end && n <= INT_MAX;
    return number && fstat((int)n, &open_file) == 0 && same_file(file, &open_file) ? (int)n : -1;
}

/* Follow one link. NULL: out of memory. */
static const char *follow(struct lvn_arena *a, const char *path)
{
    char text[PATH_MAX];
    ssize_t n = readlink(path, text, sizeof text - 1);
    if (n < 0) return path; /* the link was removed meanwhile */
    text[n] = '\0';
    char *dir = lvn_path_dir(a, path);
    return dir ? lvn_path_join(a, dir, text) : NULL;
}

static enum lvn_status refuse_kind(const char *path, const struct stat *file)
{
    LVN_CHECK(!S_ISDIR(file->st_mode), IO, "cannot write '%s': it is a folder; name a file in it", path);
    LVN_CHECK(!S_ISBLK(file->st_mode), IO, "cannot write '%s': it is a disk; name a file", path);
    LVN_CHECK(!S_ISSOCK(file->st_mode), IO, "cannot write '%s': it is a socket; name a file or a pipe", path);
    return LVN_OK;
}

static enum lvn_status find_stream(const char *given, const char *path, const struct stat *file,
                                   struct lvn_target *target)
{
    struct stat out;
    *target = (struct lvn_target){.path = given, .stream = true, .descriptor = open_descriptor(path, file)};
    if (target->descriptor < 0) LVN_TRY(refuse_kind(given, file));
    target->is_stdout = fstat(STDOUT_FILENO, &out) == 0 && same_file(file, &out);
    return LVN_OK;
}

enum lvn_status lvn_target_find(struct lvn_arena *a, const char *path, struct lvn_target *target)
{
    struct stat file, link;
    const char *given = path;
    bool exists = stat(path, &file) == 0;
    LVN_CHECK(exists || errno == ENOENT, IO, "cannot write '%s': %s", path, strerror(errno));
    for (int i = 0; lstat(path, &link) == 0 && S_ISLNK(link.st_mode); i++) {
        LVN_CHECK(i < MAX_LINKS, IO, "cannot write '%s': %s", given, strerror(ELOOP));
        if (exists && is_descriptor_link(&link)) return find_stream(given, path, &file, target);
        path = follow(a, path);
        if (!path) return LVN_MEMORY;
    }
    if (exists && !S_ISREG(file.st_mode)) return find_stream(given, path, &file, target);
    *target = (struct lvn_target){.path = path, .descriptor = -1};
    return LVN_OK;
}

enum lvn_status lvn_target_file(struct lvn_arena *a, const char *path, const char **file)
{
    struct lvn_target target;
    LVN_TRY(lvn_target_find(a, path, &target));
    LVN_CHECK(!target.stream, IO, "cannot write '%s': it is a device or a pipe; expected a regular file", path);
    *file = target.path;
    return LVN_OK;
}

enum lvn_status lvn_target_open(const struct lvn_target *target, int *fd)
{
    do {
        *fd = target->descriptor >= 0 ? fcntl(target->descriptor, F_DUPFD_CLOEXEC, 0)
                                      : open(target->path, O_WRONLY | O_CLOEXEC);
    } while (*fd < 0 && errno == EINTR);
    LVN_CHECK(*fd >= 0, IO, "cannot write '%s': %s", target->path, strerror(errno));
    return LVN_OK;
}

static enum lvn_status write_stream(const struct lvn_target *target, const void *data, int64_t bytes)
{
    int fd;
    LVN_TRY(lvn_target_open(target, &fd));
    int error = lvn_fd_write(fd, data, bytes) ? 0 : errno;
    if (close(fd) != 0 && !error) error = errno;
    LVN_CHECK(!error, IO, "cannot write '%s': %s", target->path, strerror(error));
    return LVN_OK;
}

enum lvn_status lvn_target_write(const char *path, const void *data, int64_t bytes)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_target target;
    LVN_TRY(lvn_target_find(&a, path, &target));
    return target.stream ? write_stream(&target, data, bytes) : lvn_file_write(target.path, data, bytes);
}

enum lvn_status lvn_file_open_nofollow(const char *path, int flags, int *fd)
{
    struct stat is;
    /* opening a pipe without a reader must not block */
    *fd = lvn_system.open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (*fd < 0) {
        int error = errno;
        bool link = lstat(path, &is) == 0 && S_ISLNK(is.st_mode), pipe = error == ENXIO;
        LVN_CHECK(!link, IO,
                  "cannot write '%s': it is a symbolic link, which levin does not follow in its own folders; remove it",
                  path);
        LVN_CHECK(!pipe, IO, "cannot write '%s': it is not a regular file; remove it", path);
        LVN_FAIL(IO, "cannot write '%s': %s", path, strerror(error));
    }
    if (fstat(*fd, &is) == 0 && S_ISREG(is.st_mode)) {
        (void)fcntl(*fd, F_SETFL, fcntl(*fd, F_GETFL) & ~O_NONBLOCK);
        return LVN_OK;
    }
    close(*fd);
    *fd = -1;
    LVN_FAIL(IO, "cannot write '%s': it is not a regular file; remove it", path);
}

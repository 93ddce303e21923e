/* input.c - see input.h. */
#include "base/input.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/target.h"

static const char *kind_of(mode_t mode)
{
    return S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

/* True for a pipe, a socket, a terminal and /dev/null; false for disks and endless devices. */
static bool is_stream(const char *path, const struct stat *file)
{
    struct stat null;
    if (!S_ISCHR(file->st_mode)) return !S_ISBLK(file->st_mode);
    if (stat("/dev/null", &null) == 0 && S_ISCHR(null.st_mode) && null.st_rdev == file->st_rdev) return true;
    int fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    bool terminal = fd >= 0 && isatty(fd);
    if (fd >= 0) close(fd);
    return terminal;
}

static enum lvn_status refuse(const char *path, enum lvn_input accepts, const struct stat *file)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_target target = {.descriptor = -1};
    LVN_CHECK(!S_ISDIR(file->st_mode), IO, "cannot read '%s': %s", path, strerror(EISDIR));
    if (accepts != LVN_INPUT_REGULAR && is_stream(path, file)) {
        if (S_ISCHR(file->st_mode) || (accepts == LVN_INPUT_STREAM && S_ISFIFO(file->st_mode))) return LVN_OK;
        if (lvn_target_find(&a, path, &target) != LVN_OK) lvn_error_clear();
        if (target.descriptor >= 0) return LVN_OK;
    }
    LVN_FAIL(IO, "cannot read '%s': it is %s; expected a regular file%s", path, kind_of(file->st_mode),
             accepts == LVN_INPUT_STREAM ? " or a pipe" : "");
}

enum { POINTER_BYTES = 1024 }; /* a pointer has fewer */

enum lvn_status lvn_input_refuse_pointer(const char *name, const char *p, int64_t n)
{
    static const char begin[] = "version https://git-lfs.github.com/spec/", sum[] = "\noid sha256:";
    const int64_t n_begin = sizeof begin - 1;
    LVN_CHECK(n <= n_begin || n >= POINTER_BYTES || memcmp(p, begin, (size_t)n_begin) != 0 ||
                  !memmem(p, (size_t)n, sum, sizeof sum - 1),
              FORMAT,
              "'%s' is a pointer of Git LFS, not the file itself: run `git lfs pull` in its folder, or remove it",
              name);
    return LVN_OK;
}

static enum lvn_status check_small(int fd, const char *path, const struct stat *file)
{
    char text[POINTER_BYTES];
    if (!S_ISREG(file->st_mode) || file->st_size == 0 || file->st_size >= POINTER_BYTES) return LVN_OK;
    return lvn_input_refuse_pointer(path, text, pread(fd, text, sizeof text, 0));
}

enum lvn_status lvn_input_open(const char *path, enum lvn_input accepts, int *fd)
{
    struct stat file;
    *fd = -1;
    if (stat(path, &file) == 0 && !S_ISREG(file.st_mode)) LVN_TRY(refuse(path, accepts, &file));
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    LVN_CHECK(*fd >= 0, IO, "cannot open '%s': %s", path, strerror(errno));
    const enum lvn_status status = fstat(*fd, &file) == 0 ? check_small(*fd, path, &file) : LVN_OK;
    if (status != LVN_OK) close(*fd);
    if (status != LVN_OK) *fd = -1;
    return status;
}

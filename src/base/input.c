/* input.c - see input.h. */
#include "base/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/target.h"

static const char *kind_of(mode_t mode)
{
    return S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : "a device";
}

/* A stream is a pipe, a socket, a terminal or /dev/null; disks and endless devices are not. */
static bool is_stream(const char *path, const struct stat *is)
{
    struct stat null;
    if (!S_ISCHR(is->st_mode)) return !S_ISBLK(is->st_mode);
    if (stat("/dev/null", &null) == 0 && S_ISCHR(null.st_mode) && null.st_rdev == is->st_rdev) return true;
    int fd = open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    bool terminal = fd >= 0 && isatty(fd);
    if (fd >= 0) close(fd);
    return terminal;
}

static enum lvn_status refuse(const char *path, enum lvn_input accepts, const struct stat *is)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_target t = {.descriptor = -1};
    LVN_CHECK(!S_ISDIR(is->st_mode), IO, "cannot read '%s': %s", path, strerror(EISDIR));
    if (accepts != LVN_INPUT_REGULAR && is_stream(path, is)) {
        if (S_ISCHR(is->st_mode) || (accepts == LVN_INPUT_STREAM && S_ISFIFO(is->st_mode))) return LVN_OK;
        if (lvn_target_find(&a, path, &t) != LVN_OK) lvn_error_clear();
        if (t.descriptor >= 0) return LVN_OK;
    }
    LVN_FAIL(IO, "cannot read '%s': it is %s, and a regular file is wanted%s", path, kind_of(is->st_mode),
             accepts == LVN_INPUT_STREAM ? " or a pipe" : "");
}

enum lvn_status lvn_input_open(const char *path, enum lvn_input accepts, int *fd)
{
    struct stat is;
    *fd = -1;
    if (stat(path, &is) == 0 && !S_ISREG(is.st_mode)) LVN_TRY(refuse(path, accepts, &is));
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    LVN_CHECK(*fd >= 0, IO, "cannot open '%s': %s", path, strerror(errno));
    return LVN_OK;
}

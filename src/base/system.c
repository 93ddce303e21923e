/* system.c - see system.h. */
#include "base/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_file(const char *path, int flags, mode_t mode)
{
    return open(path, flags, mode);
}

static int exchange(const char *a, const char *b)
{
#if defined(__linux__) && defined(SYS_renameat2)
    return (int)syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, 2u /* RENAME_EXCHANGE */);
#else
    (void)a, (void)b;
    errno = ENOSYS;
    return -1;
#endif
}

struct lvn_system lvn_system = {
    .malloc = malloc,
    .calloc = calloc,
    .realloc = realloc,
    .aligned_alloc = aligned_alloc,
    .open = open_file,
    .write = write,
    .pwrite = pwrite,
    .ftruncate = ftruncate,
    .fsync = fsync,
    .mkdir = mkdir,
    .rename = rename,
    .exchange = exchange,
    .symlink = symlink,
    .remove = remove,
};

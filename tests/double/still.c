/* still.c - open() of one file never returns, as in a file system that does not answer; for LD_PRELOAD.
 *
 * STILL_FILE is the end of the file's path. The call blocks while FILE.still exists and is not empty. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int stands_still(const char *path)
{
    const char *end = getenv("STILL_FILE");
    char flag[4096];
    struct stat s;
    if (!end || strlen(path) < strlen(end) || strcmp(path + strlen(path) - strlen(end), end)) return 0;
    snprintf(flag, sizeof flag, "%s.still", path);
    return stat(flag, &s) == 0 && s.st_size > 0;
}

__attribute__((visibility("default"))) int open(const char *path, int flags, ...)
{
    static int (*real)(const char *, int, ...);
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    while (stands_still(path)) pause();
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "open");
    return real(path, flags, mode);
}

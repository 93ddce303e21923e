/* writes.c - for LD_PRELOAD: pwrite() of a slow disk, which logs whether the main thread called it.
 *
 * A call of a thread other than the main one is 20 ms slower. WRITES_TO.PID gets a line for each call: "main" or
 * "thread", and the number of bytes. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void note(const char *who, size_t bytes)
{
    const char *path = getenv("WRITES_TO");
    char name[4096];
    snprintf(name, sizeof name, "%s.%ld", path ? path : "writes", (long)getpid());
    FILE *f = fopen(name, "a");
    if (!f) return;
    fprintf(f, "%s %zu\n", who, bytes);
    fclose(f);
}

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *data, size_t bytes, off_t at)
{
    static ssize_t (*real)(int, const void *, size_t, off_t);
    const int is_main = syscall(SYS_gettid) == getpid();
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "pwrite");
    note(is_main ? "main" : "thread", bytes);
    if (!is_main) usleep(20000);
    return real(fd, data, bytes, at);
}

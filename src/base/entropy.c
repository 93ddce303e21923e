/* entropy.c - see entropy.h. The system call is made directly: glibc has getrandom() since 2.25, and the program also
 * runs with older ones. Kernels before 3.17 lack the call and have /dev/urandom. */
#include "base/entropy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static ssize_t from_kernel(void *bytes, size_t n)
{
    ssize_t got;
    do {
        got = syscall(SYS_getrandom, bytes, n, 0);
    } while (got < 0 && errno == EINTR);
    return got;
}

static ssize_t from_device(void *bytes, size_t n)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t got = read(fd, bytes, n);
    int cause = errno;
    close(fd);
    errno = cause;
    return got;
}

enum lvn_status lvn_entropy_read(void *bytes, size_t n, const char *purpose)
{
    ssize_t got = from_kernel(bytes, n);
    if (got < 0 && errno == ENOSYS) got = from_device(bytes, n);
    LVN_CHECK(got == (ssize_t)n, IO, "no random bytes for %s: %s", purpose, got < 0 ? strerror(errno) : "too few");
    return LVN_OK;
}

/* faults.h - makes allocations and operations on files fail: replaces the functions of base/system.h. */
#ifndef LVN_FAULTS_H
#define LVN_FAULTS_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/system.h"

/* Several threads write files and allocate. */
static struct {
    pthread_mutex_t lock;
    struct lvn_system real;
    bool replaced;
    long calls, countdown, allocations; /* allocations: until one fails; 0: none does */
    bool sticky;
} fault = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Does this operation on a file fail? errno is then that of a full disk. */
static inline bool fault_fails(void)
{
    pthread_mutex_lock(&fault.lock);
    bool fails = fault.countdown == 1;
    fault.calls++;
    if (fault.countdown < 0 && ++fault.countdown == 0) raise(SIGKILL);
    if (fault.countdown > 1) fault.countdown--;
    if (fails && !fault.sticky) fault.countdown = 0;
    pthread_mutex_unlock(&fault.lock);
    if (fails) errno = ENOSPC;
    return fails;
}

static inline bool fault_no_memory(void)
{
    pthread_mutex_lock(&fault.lock);
    bool fails = fault.allocations == 1;
    if (fault.allocations > 0) fault.allocations--;
    pthread_mutex_unlock(&fault.lock);
    return fails;
}

static inline void *fault_malloc(size_t bytes)
{
    return fault_no_memory() ? NULL : fault.real.malloc(bytes);
}

static inline void *fault_calloc(size_t count, size_t bytes)
{
    return fault_no_memory() ? NULL : fault.real.calloc(count, bytes);
}

static inline void *fault_realloc(void *p, size_t bytes)
{
    return fault_no_memory() ? NULL : fault.real.realloc(p, bytes);
}

static inline void *fault_aligned_alloc(size_t unit, size_t bytes)
{
    return fault_no_memory() ? NULL : fault.real.aligned_alloc(unit, bytes);
}

static inline int fault_open(const char *path, int flags, mode_t mode)
{
    return fault_fails() ? -1 : fault.real.open(path, flags, mode);
}

static inline ssize_t fault_write(int fd, const void *data, size_t bytes)
{
    return fault_fails() ? -1 : fault.real.write(fd, data, bytes);
}

static inline ssize_t fault_pwrite(int fd, const void *data, size_t bytes, off_t offset)
{
    return fault_fails() ? -1 : fault.real.pwrite(fd, data, bytes, offset);
}

static inline int fault_ftruncate(int fd, off_t bytes)
{
    return fault_fails() ? -1 : fault.real.ftruncate(fd, bytes);
}

static inline int fault_fsync(int fd)
{
    return fault_fails() ? -1 : fault.real.fsync(fd);
}

static inline int fault_mkdir(const char *path, mode_t mode)
{
    return fault_fails() ? -1 : fault.real.mkdir(path, mode);
}

static inline int fault_rename(const char *from, const char *to)
{
    return fault_fails() ? -1 : fault.real.rename(from, to);
}

static inline int fault_exchange(const char *a, const char *b)
{
    return fault_fails() ? -1 : fault.real.exchange(a, b);
}

static inline int fault_symlink(const char *target, const char *path)
{
    return fault_fails() ? -1 : fault.real.symlink(target, path);
}

static inline int fault_remove(const char *path)
{
    if (fault.countdown < 0) (void)fault_fails(); /* a full disk does not prevent removals; a kill does */
    return fault.real.remove(path);
}

/* The k-th operation on a file from now (1, 2, ...) fails as on a full disk, and with `sticky` all later ones too. k <
 * 0: the process kills itself at the (-k)-th of these operations or of removals. 0: none fails. Returns the number of
 * operations since the last call. */
static inline long fault_files_at(long k, bool sticky)
{
    pthread_mutex_lock(&fault.lock);
    const long calls = fault.calls;
    if (!fault.replaced) fault.real = lvn_system;
    fault.replaced = true;
    fault.calls = 0;
    fault.countdown = k;
    fault.sticky = sticky;
    pthread_mutex_unlock(&fault.lock);
    lvn_system.open = fault_open;
    lvn_system.write = fault_write;
    lvn_system.pwrite = fault_pwrite;
    lvn_system.ftruncate = fault_ftruncate;
    lvn_system.fsync = fault_fsync;
    lvn_system.mkdir = fault_mkdir;
    lvn_system.rename = fault_rename;
    lvn_system.exchange = fault_exchange;
    lvn_system.symlink = fault_symlink;
    lvn_system.remove = fault_remove;
    return calls;
}

/* The k-th allocation from now (1, 2, ...) fails. 0: none fails. */
static inline void fault_memory_at(long k)
{
    pthread_mutex_lock(&fault.lock);
    if (!fault.replaced) fault.real = lvn_system;
    fault.replaced = true;
    fault.allocations = k;
    pthread_mutex_unlock(&fault.lock);
    lvn_system.malloc = fault_malloc;
    lvn_system.calloc = fault_calloc;
    lvn_system.realloc = fault_realloc;
    lvn_system.aligned_alloc = fault_aligned_alloc;
}

#endif

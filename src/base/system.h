/* system.h - calls of the operating system that fail if memory or a disk is full, as a table of functions.
 *
 * All files are written through it, and almost all memory is allocated through it (base/arena.h); the rendezvous and
 * launchers allocate some small objects directly. Tests replace functions of the table by functions that fail
 * (tests/unit/faults.h); nothing else changes it. Reads, and calls whose failure is ignored, do not use it. */
#ifndef LVN_SYSTEM_H
#define LVN_SYSTEM_H

#include <stddef.h>
#include <sys/types.h>

struct lvn_system {
    void *(*malloc)(size_t bytes);
    void *(*calloc)(size_t count, size_t bytes);
    void *(*realloc)(void *p, size_t bytes);
    void *(*aligned_alloc)(size_t unit, size_t bytes);
    int (*open)(const char *path, int flags, mode_t mode); /* creates files */
    ssize_t (*write)(int fd, const void *data, size_t bytes);
    ssize_t (*pwrite)(int fd, const void *data, size_t bytes, off_t offset);
    int (*ftruncate)(int fd, off_t bytes);
    int (*fsync)(int fd);
    int (*mkdir)(const char *path, mode_t mode);
    int (*rename)(const char *from, const char *to);
    int (*exchange)(const char *a,
                    const char *b); /* of two directories, atomically; fails on other systems than Linux */
    int (*symlink)(const char *target, const char *path);
    int (*remove)(const char *path); /* of a tree's files and directories */
};
extern struct lvn_system lvn_system;

#endif

/* failing_malloc.c - malloc and its kin, of which one call fails: tests/alloc_sweep loads it with LD_PRELOAD.
 *
 *   FAILING_MALLOC_AT=K       the K-th allocation of the process fails (1, 2, ...); 0: none
 *   FAILING_MALLOC_COUNT=FILE the number of allocations goes into FILE when the process ends
 *   FAILING_MALLOC_TRACE=1    a line on standard error names the caller of the allocation that failed
 *
 * Counted are malloc, calloc, realloc, aligned_alloc, posix_memalign and anonymous mmap, wherever they are called: in
 * levin, jansson, libyaml and the C library. Not counted are the calls of the loader and of the runtimes of
 * sanitizers: these end the process by themselves, so there is nothing to test. In a build with a sanitizer the memory
 * comes from the sanitizer. */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The sanitizer's functions, where its runtime is there, and those of the C library. */
extern void *__interceptor_malloc(size_t) __attribute__((weak));
extern void *__interceptor_calloc(size_t, size_t) __attribute__((weak));
extern void *__interceptor_realloc(void *, size_t) __attribute__((weak));
extern void *__interceptor_aligned_alloc(size_t, size_t) __attribute__((weak));
extern int __interceptor_posix_memalign(void **, size_t, size_t) __attribute__((weak));
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static _Atomic long counted;
static long fails_at;
static bool counts;
static const char *count_file;

/* --- whose calls are not counted --- */

static const char *const sparing[] = {"ld-linux", "libasan", "libtsan", "libubsan"};
enum { N_SPARING = sizeof sparing / sizeof *sparing };
static struct {
    uintptr_t begin, end;
} spared[N_SPARING];
static int n_spared;

static int note_library(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    int k = 0;
    while (k < N_SPARING && !strstr(info->dlpi_name, sparing[k])) k++;
    if (k == N_SPARING || n_spared == N_SPARING) return 0;
    uintptr_t begin = UINTPTR_MAX, end = 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD) continue;
        if (info->dlpi_addr + p->p_vaddr < begin) begin = info->dlpi_addr + p->p_vaddr;
        if (info->dlpi_addr + p->p_vaddr + p->p_memsz > end) end = info->dlpi_addr + p->p_vaddr + p->p_memsz;
    }
    spared[n_spared].begin = begin;
    spared[n_spared++].end = end;
    return 0;
}

static bool fails(const void *caller)
{
    if (!counts) return false;
    for (int i = 0; i < n_spared; i++)
        if ((uintptr_t)caller >= spared[i].begin && (uintptr_t)caller < spared[i].end) return false;
    if (atomic_fetch_add(&counted, 1) + 1 != fails_at) return false;
    if (getenv("FAILING_MALLOC_TRACE")) {
        void *frame[32];
        int n = backtrace(frame, 32);
        backtrace_symbols_fd(frame, n, 2);
    }
    errno = ENOMEM;
    return true;
}

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("FAILING_MALLOC_AT");
    if (!at) return;
    void *frame[1];
    backtrace(frame, 1); /* it allocates the first time */
    count_file = getenv("FAILING_MALLOC_COUNT");
    fails_at = atol(at);
    dl_iterate_phdr(note_library, NULL);
    counts = true;
}

__attribute__((destructor)) static void end(void)
{
    char text[32];
    int fd = count_file ? open(count_file, O_WRONLY | O_CREAT | O_TRUNC, 0644) : -1;
    if (fd < 0) return;
    int n = snprintf(text, sizeof text, "%ld\n", atomic_load(&counted));
    if (write(fd, text, (size_t)n) != n) abort();
    close(fd);
}

/* --- the functions --- */

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *malloc(size_t bytes)
{
    if (fails(__builtin_return_address(0))) return NULL;
    return __interceptor_malloc ? __interceptor_malloc(bytes) : __libc_malloc(bytes);
}

EXPORTED void *calloc(size_t count, size_t bytes)
{
    if (fails(__builtin_return_address(0))) return NULL;
    return __interceptor_calloc ? __interceptor_calloc(count, bytes) : __libc_calloc(count, bytes);
}

EXPORTED void *realloc(void *p, size_t bytes)
{
    if (fails(__builtin_return_address(0))) return NULL;
    return __interceptor_realloc ? __interceptor_realloc(p, bytes) : __libc_realloc(p, bytes);
}

EXPORTED void *aligned_alloc(size_t unit, size_t bytes)
{
    if (fails(__builtin_return_address(0))) return NULL;
    return __interceptor_aligned_alloc ? __interceptor_aligned_alloc(unit, bytes) : __libc_memalign(unit, bytes);
}

EXPORTED int posix_memalign(void **p, size_t unit, size_t bytes)
{
    if (fails(__builtin_return_address(0))) return ENOMEM;
    if (__interceptor_posix_memalign) return __interceptor_posix_memalign(p, unit, bytes);
    *p = __libc_memalign(unit, bytes);
    return *p ? 0 : ENOMEM;
}

EXPORTED void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
    if (flags & MAP_ANONYMOUS && fails(__builtin_return_address(0))) return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

/* pages.c - see pages.h: large buffers directly from the system.
 *
 * A step accesses all of its memory. With 4 KiB pages the processor would spend its time on TLB misses, and the first
 * step on page faults. So large buffers are aligned to the huge page size and request huge pages. No memory is
 * reserved, because a plan may map more than it uses. */
#include "host/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/status.h"

enum { HUGE_PAGE = 2 << 20 };

int64_t lvn_pages_bytes(int64_t bytes)
{
    int64_t page = bytes >= HUGE_PAGE ? HUGE_PAGE : sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page + (bytes == 0) * page;
}

static char *map(int64_t bytes)
{
    void *p = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *lvn_pages_alloc(int64_t bytes)
{
    int64_t size = bytes < 0 || bytes > INT64_MAX / 2 ? -1 : lvn_pages_bytes(bytes);
    int64_t slack = size >= HUGE_PAGE ? HUGE_PAGE : 0;
    char *p = size < 0 ? NULL : map(size + slack);
    if (!p) {
        (void)lvn_fail(LVN_MEMORY, "the system cannot provide %lld MiB of memory: %s", (long long)(bytes >> 20),
                       size < 0 ? "the address space is too small" : strerror(errno));
        return NULL;
    }
    if (slack) {
        int64_t head = -(intptr_t)p & (HUGE_PAGE - 1);
        if (head) munmap(p, (size_t)head);
        if (slack - head) munmap(p + head + size, (size_t)(slack - head));
        p += head;
#if defined(MADV_HUGEPAGE)
        madvise(p, (size_t)size, MADV_HUGEPAGE); /* a hint; levin also works without huge pages, but slower */
#endif
    }
    return p;
}

void lvn_pages_free(void *p, int64_t bytes)
{
    if (p) munmap(p, (size_t)lvn_pages_bytes(bytes));
}

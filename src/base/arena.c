/* arena.c - see arena.h: a block allocator. Blocks are added as needed; large requests get a separate block. */
#include "base/arena.h"

#include <pthread.h>
#include <stdalign.h>

#include "base/system.h"

enum { BLOCK_BYTES = 64 * 1024 };

struct lvn_arena_block {
    struct lvn_arena_block *next;
    size_t size, used;
    alignas(max_align_t) char data[];
};

static void *checked(void *p, size_t bytes)
{
    if (!p) (void)lvn_fail(LVN_MEMORY, "not enough memory for %zu bytes", bytes);
    return p;
}

void *lvn_malloc(size_t bytes)
{
    return checked(lvn_system.malloc(bytes ? bytes : 1), bytes);
}

void *lvn_calloc(size_t count, size_t bytes)
{
    return checked(lvn_system.calloc(count ? count : 1, bytes ? bytes : 1), bytes);
}

void *lvn_malloc_aligned(size_t unit, size_t bytes)
{
    return checked(lvn_system.aligned_alloc(unit, bytes), bytes);
}

void *lvn_realloc(void *p, size_t bytes)
{
    return checked(lvn_system.realloc(p, bytes ? bytes : 1), bytes);
}

char *lvn_strdup(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = lvn_malloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

struct interned {
    struct interned *next;
    size_t n;
    alignas(max_align_t) char bytes[];
};

const void *lvn_intern(const void *bytes, size_t n)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct interned *all;
    pthread_mutex_lock(&lock);
    struct interned *i = all;
    while (i && (i->n != n || memcmp(i->bytes, bytes, n) != 0)) i = i->next;
    if (!i && (i = lvn_malloc(sizeof *i + n))) {
        *i = (struct interned){.next = all, .n = n};
        memcpy(i->bytes, bytes, n);
        all = i;
    }
    pthread_mutex_unlock(&lock);
    return i ? i->bytes : NULL;
}

void lvn_arena_init(struct lvn_arena *a)
{
    *a = (struct lvn_arena){0};
}

void lvn_arena_release(struct lvn_arena *a)
{
    for (struct lvn_arena_block *block = a->blocks; block;) {
        struct lvn_arena_block *next = block->next;
        free(block);
        block = next;
    }
    lvn_arena_init(a);
}

void *lvn_arena_alloc(struct lvn_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return checked(NULL, bytes);
    size_t need = (bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    struct lvn_arena_block *block = a->blocks;
    if (!block || block->size - block->used < need) {
        size_t size = need > BLOCK_BYTES ? need : BLOCK_BYTES;
        block = lvn_calloc(1, sizeof *block + size);
        if (!block) return NULL;
        block->size = size;
        block->next = a->blocks;
        a->blocks = block;
    }
    void *p = block->data + block->used;
    block->used += need;
    a->used += need;
    return p;
}

char *lvn_arena_strdup(struct lvn_arena *a, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = lvn_arena_alloc(a, n);
    return copy ? memcpy(copy, text, n) : NULL;
}

char *lvn_arena_printf(struct lvn_arena *a, const char *format, ...)
{
    va_list args, args_copy;
    va_start(args, format);
    va_copy(args_copy, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = n < 0 ? NULL : lvn_arena_alloc(a, (size_t)n + 1);
    if (text) vsnprintf(text, (size_t)n + 1, format, args_copy);
    va_end(args_copy);
    return text;
}

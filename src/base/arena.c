/* arena.c - see arena.h: a block allocator. Blocks are added as needed; large requests get a block of their own. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 * 1024 };

struct lvn_arena_block {
    struct lvn_arena_block *next;
    size_t size, used;
    alignas(max_align_t) char data[];
};

static _Atomic long fail_countdown; /* for tests */

void lvn_alloc_fail_at(long k)
{
    fail_countdown = k;
}

static bool refuse(size_t bytes)
{
    bool refused = atomic_load(&fail_countdown) > 0 && atomic_fetch_sub(&fail_countdown, 1) == 1;
    if (refused) (void)lvn_fail(LVN_MEMORY, "not enough memory for %zu bytes (injected)", bytes);
    return refused;
}

static void *checked(void *p, size_t bytes)
{
    if (!p) (void)lvn_fail(LVN_MEMORY, "not enough memory for %zu bytes", bytes);
    return p;
}

void *lvn_malloc(size_t bytes)
{
    return refuse(bytes) ? NULL : checked(malloc(bytes ? bytes : 1), bytes);
}

void *lvn_calloc(size_t count, size_t bytes)
{
    return refuse(bytes) ? NULL : checked(calloc(count ? count : 1, bytes ? bytes : 1), bytes);
}

void *lvn_malloc_aligned(size_t unit, size_t bytes)
{
    return refuse(bytes) ? NULL : checked(aligned_alloc(unit, bytes), bytes);
}

void *lvn_realloc(void *p, size_t bytes)
{
    return refuse(bytes) ? NULL : checked(realloc(p, bytes ? bytes : 1), bytes);
}

char *lvn_strdup(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = lvn_malloc(n);
    return copy ? memcpy(copy, text, n) : NULL;
}

void lvn_arena_init(struct lvn_arena *a)
{
    *a = (struct lvn_arena){0};
}

void lvn_arena_release(struct lvn_arena *a)
{
    for (struct lvn_arena_block *b = a->blocks; b;) {
        struct lvn_arena_block *next = b->next;
        free(b);
        b = next;
    }
    lvn_arena_init(a);
}

void *lvn_arena_alloc(struct lvn_arena *a, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return checked(NULL, bytes);
    size_t need = (bytes + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    struct lvn_arena_block *b = a->blocks;
    if (!b || b->size - b->used < need) {
        size_t size = need > BLOCK_BYTES ? need : BLOCK_BYTES;
        b = lvn_calloc(1, sizeof *b + size);
        if (!b) return NULL;
        b->size = size;
        b->next = a->blocks;
        a->blocks = b;
    }
    void *p = b->data + b->used;
    b->used += need;
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

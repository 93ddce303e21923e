/* arena.h - memory that is freed all at once, and the checked heap below it. All folders of src allocate through it.
 *
 * Settings, names, graph nodes and plans are allocated in arenas: many small allocations, one owner, one free. Memory
 * is zeroed and aligned for any type. Functions return NULL and record the error when memory is exhausted. An arena is
 * not thread-safe. */
#ifndef LVN_ARENA_H
#define LVN_ARENA_H

#include "base/status.h"

struct lvn_arena_block;
struct lvn_arena {
    struct lvn_arena_block *blocks;
    size_t used; /* bytes allocated, for tests and reports */
};

/* An arena on the stack, released at the end of its scope. */
#define LVN_LOCAL_ARENA(name) struct lvn_arena name __attribute__((cleanup(lvn_arena_release))) = {0}
void lvn_arena_init(struct lvn_arena *a);
void lvn_arena_release(struct lvn_arena *a);
/* `bytes` zeroed bytes; NULL, with an error recorded, if memory runs out. */
void *lvn_arena_alloc(struct lvn_arena *a, size_t bytes);
char *lvn_arena_strdup(struct lvn_arena *a, const char *text);
char *lvn_arena_printf(struct lvn_arena *a, const char *format, ...) LVN_PRINTF(2, 3);

/* malloc() and similar functions that record an error. */
void *lvn_malloc(size_t bytes);
void *lvn_calloc(size_t count, size_t bytes);
void *lvn_malloc_aligned(size_t unit, size_t bytes); /* bytes: a multiple of unit; unit: a power of two */
void *lvn_realloc(void *p, size_t bytes);            /* after a failure p remains valid */
char *lvn_strdup(const char *text);
/* A copy of the n bytes that is valid until the process ends; equal bytes share one copy. For small immutable parts of
 * values that are copied, such as a model's configuration. Thread-safe. NULL: out of memory. */
const void *lvn_intern(const void *bytes, size_t n);

#endif

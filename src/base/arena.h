/* arena.h - memory that is freed all at once, and the checked heap under it. Every room allocates through it.
 *
 * Settings, names, graph nodes and plans live in arenas: many small allocations, one owner, one free. Memory comes
 * zeroed and aligned for any type. Functions return NULL when memory runs out and record the error. An arena is not
 * thread-safe. */
#ifndef LVN_ARENA_H
#define LVN_ARENA_H

#include <stdarg.h>
#include <stddef.h>

#include "base/status.h"

struct lvn_arena_block;
struct lvn_arena {
    struct lvn_arena_block *blocks;
    size_t used; /* bytes allocated, for tests and reports */
};

/* An arena on the stack, released at the end of its scope, however control leaves that. */
#define LVN_LOCAL_ARENA(name) struct lvn_arena name __attribute__((cleanup(lvn_arena_release))) = {0}
void lvn_arena_init(struct lvn_arena *a);
void lvn_arena_release(struct lvn_arena *a);
/* `bytes` zeroed bytes; NULL, with an error recorded, if memory runs out. */
void *lvn_arena_alloc(struct lvn_arena *a, size_t bytes);
char *lvn_arena_strdup(struct lvn_arena *a, const char *text);
char *lvn_arena_printf(struct lvn_arena *a, const char *format, ...) LVN_PRINTF(2, 3);

/* malloc() and its like with an error record. Tests make the k-th call fail: see lvn_alloc_fail_at(). */
void *lvn_malloc(size_t bytes);
void *lvn_calloc(size_t count, size_t bytes);
void *lvn_malloc_aligned(size_t unit, size_t bytes); /* bytes: a multiple of unit; unit: a power of two */
void *lvn_realloc(void *p, size_t bytes);            /* after a failure p is still valid */
char *lvn_strdup(const char *text);
/* For tests: the k-th allocation from now (1, 2, ...) fails; 0 turns this off. */
void lvn_alloc_fail_at(long k);

#endif

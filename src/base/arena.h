/* arena.h - memory that is freed all at once.
 *
 * Settings, names, graph nodes and plans live in arenas: many small allocations, one owner, one free. Memory comes
 * zeroed and aligned for any type. NULL when memory ran out (the error record then says so). Not for threads. */
#ifndef LVN_ARENA_H
#define LVN_ARENA_H

#include <stdarg.h>
#include <stddef.h>

#include "base/status.h"

struct lvn_arena_block;
struct lvn_arena {
    struct lvn_arena_block *blocks;
    size_t used; /* bytes handed out, for tests and reports */
};

/* One on the stack, released where its scope ends, however that is left. */
#define LVN_LOCAL_ARENA(name) struct lvn_arena name __attribute__((cleanup(lvn_arena_release))) = {0}
void lvn_arena_init(struct lvn_arena *a);
void lvn_arena_release(struct lvn_arena *a);
/* `bytes` zeroed bytes; NULL (with an error recorded) when there is no memory. */
void *lvn_arena_alloc(struct lvn_arena *a, size_t bytes);
char *lvn_arena_strdup(struct lvn_arena *a, const char *text);
char *lvn_arena_printf(struct lvn_arena *a, const char *format, ...) LVN_PRINTF(2, 3);

/* The heap with an error record. Tests make the k-th call fail: see lvn_alloc_fail_at(). */
void *lvn_malloc(size_t bytes);
void *lvn_calloc(size_t count, size_t bytes);
void *lvn_malloc_aligned(size_t unit, size_t bytes); /* bytes: a multiple of unit, a power of two */
void *lvn_realloc(void *p, size_t bytes);            /* on failure p stays valid */
char *lvn_strdup(const char *text);
/* Make the k-th allocation from now (1, 2, ...) fail, for tests; 0 turns it off. */
void lvn_alloc_fail_at(long k);

#endif

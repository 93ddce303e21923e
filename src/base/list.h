/* list.h - arrays as lists: growing them by doubling the capacity, and comparison functions for qsort() and bsearch().
 */
#ifndef LVN_LIST_H
#define LVN_LIST_H

#include "base/arena.h"

/* Ensure that a list from lvn_realloc() has capacity for `count` elements of `size` bytes. list: address of the pointer
 * to the list, which may be NULL. False: out of memory, and the list is unchanged. */
bool lvn_list_reserve(void *list, int64_t *capacity, int64_t count, size_t size) LVN_CHECKED;
/* The same for a list of n elements in an arena. */
bool lvn_arena_list_reserve(struct lvn_arena *a, void *list, int64_t n, int64_t *capacity, int64_t count,
                            size_t size) LVN_CHECKED;

/* By bytes. Elements are texts (const char *), or structs that begin with one. */
int lvn_by_text(const void *a, const void *b);
/* Ascending. Elements are doubles, none of them NaN. */
int lvn_by_number(const void *a, const void *b);
/* Ascending. Elements are int32_t. */
int lvn_by_id(const void *a, const void *b);

#endif

/* list.c - see list.h. */
#include "base/list.h"

enum { MIN_CAPACITY = 64 };

static int64_t larger(int64_t capacity, int64_t count)
{
    if (capacity < MIN_CAPACITY / 2) capacity = MIN_CAPACITY / 2;
    return 2 * capacity > count ? 2 * capacity : count;
}

bool lvn_list_reserve(void *list, int64_t *capacity, int64_t count, size_t size)
{
    if (count <= *capacity) return true;
    const int64_t new_capacity = larger(*capacity, count);
    void *p;
    memcpy(&p, list, sizeof p);
    p = lvn_realloc(p, (size_t)new_capacity * size);
    if (!p) return false;
    memcpy(list, &p, sizeof p);
    *capacity = new_capacity;
    return true;
}

bool lvn_arena_list_reserve(struct lvn_arena *a, void *list, int64_t n, int64_t *capacity, int64_t count, size_t size)
{
    if (count <= *capacity) return true;
    const int64_t new_capacity = larger(*capacity, count);
    void *old, *p = lvn_arena_alloc(a, (size_t)new_capacity * size);
    if (!p) return false;
    memcpy(&old, list, sizeof old);
    if (n) memcpy(p, old, (size_t)n * size);
    memcpy(list, &p, sizeof p);
    *capacity = new_capacity;
    return true;
}

int lvn_by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int lvn_by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int lvn_by_id(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

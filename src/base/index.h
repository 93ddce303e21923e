/* index.h - a hash table from names to numbers. It does not own the names. */
#ifndef LVN_INDEX_H
#define LVN_INDEX_H

#include <stdint.h>

/* A zeroed struct is an empty table. */
struct lvn_index {
    struct lvn_index_slot {
        uint64_t hash;
        const char *name; /* NULL: free */
        int number;
    } * slot;
    int n;        /* names */
    int capacity; /* slots: a power of two, at most half of them used */
};
void lvn_index_release(struct lvn_index *index);
/* The number of a name; NULL: not found. Valid until the next name is added. */
int *lvn_index_find(const struct lvn_index *index, const char *name);
/* The number of a name; if it is not found, it is added with `number`. The table stores the pointer, so the name must
 * remain valid. NULL: out of memory. */
int *lvn_index_add(struct lvn_index *index, const char *name, int number);

#endif

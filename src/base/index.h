/* index.h - from names to numbers: a hash table of names that others keep. */
#ifndef LVN_INDEX_H
#define LVN_INDEX_H

#include <stdint.h>

/* All zero is an empty one. */
struct lvn_index {
    struct lvn_index_slot {
        uint64_t hash;
        const char *name; /* NULL: free */
        int number;
    } * slot;
    int n, capacity; /* room: a power of two, at most half of it used */
};
void lvn_index_release(struct lvn_index *x);
/* The number of a name; NULL: it is not there. Valid until the next one is added. */
int *lvn_index_find(const struct lvn_index *x, const char *name);
/* The same, and where it is not there, with this number from now on; the name must stay. NULL: no memory. */
int *lvn_index_add(struct lvn_index *x, const char *name, int number);

#endif

/* hash_set.h - a set of 128-bit hashes with open addressing; data preparation uses it to find duplicate documents. A
 * zeroed struct is an empty set. */
#ifndef LVN_HASH_SET_H
#define LVN_HASH_SET_H

#include "base/status.h"

struct lvn_hash_set {
    uint64_t *slot;
    int64_t n, capacity;
};

/* Add the hash; *is_new is false if the set already contains it. LVN_MEMORY if memory is exhausted. */
enum lvn_status lvn_hash_set_add(struct lvn_hash_set *set, const uint64_t hash[2], bool *is_new) LVN_CHECKED;
void lvn_hash_set_release(struct lvn_hash_set *set);

#endif

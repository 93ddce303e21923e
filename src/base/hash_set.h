/* hash_set.h - hashes of the documents seen: open addressing, two words each, no zero pair. Zeroed, it is empty. */
#ifndef LVN_HASH_SET_H
#define LVN_HASH_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct lvn_hash_set {
    uint64_t *slot;
    int64_t n, capacity;
};

/* Adds the pair; *is_new false when it is there already. */
enum lvn_status lvn_hash_set_add(struct lvn_hash_set *s, const uint64_t hash[2], bool *is_new) LVN_CHECKED;
void lvn_hash_set_release(struct lvn_hash_set *s);

#endif

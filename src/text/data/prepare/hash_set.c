/* hash_set.c - see hash_set.h. */
#include "data/prepare/hash_set.h"

#include "base/arena.h"

enum lvn_status lvn_hash_set_add(struct lvn_hash_set *set, const uint64_t hash[2], bool *is_new)
{
    if (5 * (set->n + 1) > 3 * set->capacity) {
        struct lvn_hash_set larger = {.capacity = set->capacity ? 2 * set->capacity : 1 << 16};
        larger.slot = lvn_calloc((size_t)larger.capacity, 2 * sizeof *larger.slot);
        if (!larger.slot) return LVN_MEMORY;
        for (int64_t i = 0; i < set->capacity; i++)
            if (set->slot[2 * i] | set->slot[2 * i + 1]) LVN_TRY(lvn_hash_set_add(&larger, &set->slot[2 * i], is_new));
        free(set->slot);
        *set = larger;
    }
    uint64_t key[2] = {hash[0], hash[1] | (hash[0] == 0)}; /* a pair of zeros marks a free slot */
    uint64_t mask = (uint64_t)set->capacity - 1, i = key[0] & mask;
    for (; set->slot[2 * i] | set->slot[2 * i + 1]; i = (i + 1) & mask) {
        *is_new = set->slot[2 * i] != key[0] || set->slot[2 * i + 1] != key[1];
        if (!*is_new) return LVN_OK;
    }
    memcpy(&set->slot[2 * i], key, sizeof key);
    set->n++;
    *is_new = true;
    return LVN_OK;
}

void lvn_hash_set_release(struct lvn_hash_set *set)
{
    free(set->slot);
    *set = (struct lvn_hash_set){0};
}

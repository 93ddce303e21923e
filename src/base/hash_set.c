/* hash_set.c - see hash_set.h. */
#include "base/hash_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum lvn_status lvn_hash_set_add(struct lvn_hash_set *s, const uint64_t hash[2], bool *is_new)
{
    if (5 * (s->n + 1) > 3 * s->capacity) {
        struct lvn_hash_set larger = {.capacity = s->capacity ? 2 * s->capacity : 1 << 16};
        larger.slot = lvn_calloc((size_t)larger.capacity, 2 * sizeof *larger.slot);
        if (!larger.slot) return LVN_MEMORY;
        for (int64_t i = 0; i < s->capacity; i++)
            if (s->slot[2 * i] | s->slot[2 * i + 1]) LVN_TRY(lvn_hash_set_add(&larger, &s->slot[2 * i], is_new));
        free(s->slot);
        *s = larger;
    }
    uint64_t key[2] = {hash[0], hash[1] | (hash[0] == 0)}; /* a pair of zeros marks a free slot */
    uint64_t mask = (uint64_t)s->capacity - 1, i = key[0] & mask;
    for (; s->slot[2 * i] | s->slot[2 * i + 1]; i = (i + 1) & mask) {
        *is_new = s->slot[2 * i] != key[0] || s->slot[2 * i + 1] != key[1];
        if (!*is_new) return LVN_OK;
    }
    memcpy(&s->slot[2 * i], key, sizeof key);
    s->n++;
    *is_new = true;
    return LVN_OK;
}

void lvn_hash_set_release(struct lvn_hash_set *s)
{
    free(s->slot);
    *s = (struct lvn_hash_set){0};
}

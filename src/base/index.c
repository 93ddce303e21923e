/* index.c - see index.h. Open addressing: a name is in the slot of its hash, or in the next free one. */
#include "base/index.h"

#include "base/arena.h"
#include "base/random.h"

void lvn_index_release(struct lvn_index *index)
{
    free(index->slot);
    *index = (struct lvn_index){0};
}

/* The slot of the name, or a free slot for it. */
static struct lvn_index_slot *slot_of(const struct lvn_index *index, uint64_t hash, const char *name)
{
    for (uint64_t i = hash;; i++) {
        struct lvn_index_slot *slot = &index->slot[i & (uint64_t)(index->capacity - 1)];
        if (!slot->name || (slot->hash == hash && strcmp(slot->name, name) == 0)) return slot;
    }
}

static int grow(struct lvn_index *index)
{
    struct lvn_index larger = {.n = index->n, .capacity = index->capacity ? 2 * index->capacity : 64};
    larger.slot = lvn_calloc((size_t)larger.capacity, sizeof *larger.slot);
    if (!larger.slot) return 0;
    for (int i = 0; i < index->capacity; i++)
        if (index->slot[i].name) *slot_of(&larger, index->slot[i].hash, index->slot[i].name) = index->slot[i];
    free(index->slot);
    *index = larger;
    return 1;
}

int *lvn_index_find(const struct lvn_index *index, const char *name)
{
    struct lvn_index_slot *slot = index->n ? slot_of(index, lvn_name_hash(name), name) : NULL;
    return slot && slot->name ? &slot->number : NULL;
}

int *lvn_index_add(struct lvn_index *index, const char *name, int number)
{
    int *existing = lvn_index_find(index, name);
    if (existing) return existing;
    if (2 * (index->n + 1) > index->capacity && !grow(index)) return NULL;
    uint64_t hash = lvn_name_hash(name);
    struct lvn_index_slot *slot = slot_of(index, hash, name);
    *slot = (struct lvn_index_slot){hash, name, number};
    index->n++;
    return &slot->number;
}

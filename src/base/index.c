/* index.c - see index.h. Open addressing: a name is in the slot of its hash, or in the next one that was free. */
#include "base/index.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/random.h"

void lvn_index_release(struct lvn_index *x)
{
    free(x->slot);
    *x = (struct lvn_index){0};
}

/* The slot of the name, or the free slot for it. */
static struct lvn_index_slot *slot_of(const struct lvn_index *x, uint64_t hash, const char *name)
{
    for (uint64_t i = hash;; i++) {
        struct lvn_index_slot *s = &x->slot[i & (uint64_t)(x->capacity - 1)];
        if (!s->name || (s->hash == hash && strcmp(s->name, name) == 0)) return s;
    }
}

static int grow(struct lvn_index *x)
{
    struct lvn_index larger = {.n = x->n, .capacity = x->capacity ? 2 * x->capacity : 64};
    larger.slot = lvn_calloc((size_t)larger.capacity, sizeof *larger.slot);
    if (!larger.slot) return 0;
    for (int i = 0; i < x->capacity; i++)
        if (x->slot[i].name) *slot_of(&larger, x->slot[i].hash, x->slot[i].name) = x->slot[i];
    free(x->slot);
    *x = larger;
    return 1;
}

int *lvn_index_find(const struct lvn_index *x, const char *name)
{
    struct lvn_index_slot *s = x->n ? slot_of(x, lvn_name_hash(name), name) : NULL;
    return s && s->name ? &s->number : NULL;
}

int *lvn_index_add(struct lvn_index *x, const char *name, int number)
{
    int *there = lvn_index_find(x, name);
    if (there) return there;
    if (2 * (x->n + 1) > x->capacity && !grow(x)) return NULL;
    uint64_t hash = lvn_name_hash(name);
    struct lvn_index_slot *s = slot_of(x, hash, name);
    *s = (struct lvn_index_slot){hash, name, number};
    x->n++;
    return &s->number;
}

/* params.c - the parameters of a model: declared while its first graph is built, laid out once, then shared.
 *
 * All parameters lie in one flat buffer, and their gradients and optimizer state in buffers of the same layout. So the
 * optimizer is a handful of long loops, a reduction over ranks is a few buckets, and a shard is an offset. */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "graph/graph.h"

struct lvn_params *lvn_params_new(void)
{
    struct lvn_params *p = lvn_calloc(1, sizeof *p);
    if (p) lvn_arena_init(&p->arena);
    return p;
}

void lvn_params_free(struct lvn_params *p)
{
    if (!p) return;
    free(p->list);
    lvn_arena_release(&p->arena);
    free(p);
}

struct lvn_param *lvn_params_find(const struct lvn_params *p, const char *name)
{
    uint64_t hash = lvn_name_hash(name);
    for (int i = 0; i < p->n; i++)
        if (p->list[i]->hash == hash && strcmp(p->list[i]->name, name) == 0) return p->list[i];
    return NULL;
}

int64_t lvn_params_total(const struct lvn_params *p)
{
    int64_t total = 0;
    for (int i = 0; i < p->n; i++) total += p->list[i]->count;
    return total;
}

static bool decays(const struct lvn_param *p, enum lvn_decay rule)
{
    switch (rule) {
    case LVN_DECAY_LINEAR:
        return p->kind == LVN_WEIGHT;
    case LVN_DECAY_MATRICES:
        return p->desc.rank >= 2;
    case LVN_DECAY_ALL:
        return true;
    }
    return true;
}

static bool same_group(const struct lvn_param *p, bool decay, double lr_scale)
{
    return p->trainable && p->decay == decay && p->lr_scale == lr_scale;
}

/* Give every parameter for which `wanted` holds the next offsets. */
static int64_t lay_out_group(struct lvn_params *p, int64_t offset, bool decay, double lr_scale)
{
    for (int i = 0; i < p->n; i++) {
        struct lvn_param *q = p->list[i];
        if (!same_group(q, decay, lr_scale)) continue;
        q->offset = offset;
        offset += (q->count + LVN_PARAM_ALIGN - 1) / LVN_PARAM_ALIGN * LVN_PARAM_ALIGN;
    }
    return offset;
}

static bool group_exists(const struct lvn_params *p, bool decay, double lr_scale)
{
    for (int i = 0; i < p->n_groups; i++)
        if (p->groups[i].decay == decay && p->groups[i].lr_scale == lr_scale) return true;
    return false;
}

enum lvn_status lvn_params_layout(struct lvn_params *p, enum lvn_decay rule)
{
    p->groups = lvn_arena_alloc(&p->arena, sizeof *p->groups * (size_t)(p->n ? p->n : 1));
    if (!p->groups) return LVN_MEMORY;
    p->n_groups = 0;
    int64_t offset = 0;
    for (int i = 0; i < p->n; i++) p->list[i]->decay = decays(p->list[i], rule);
    for (int i = 0; i < p->n; i++) {
        const struct lvn_param *q = p->list[i];
        if (!q->trainable || group_exists(p, q->decay, q->lr_scale)) continue;
        struct lvn_param_group *g = &p->groups[p->n_groups++];
        *g = (struct lvn_param_group){.offset = offset, .decay = q->decay, .lr_scale = q->lr_scale};
        offset = lay_out_group(p, offset, q->decay, q->lr_scale);
        g->count = offset - g->offset;
    }
    p->trainable_count = offset;
    for (int i = 0; i < p->n; i++) {
        struct lvn_param *q = p->list[i];
        if (q->trainable) continue;
        q->offset = offset;
        offset += (q->count + LVN_PARAM_ALIGN - 1) / LVN_PARAM_ALIGN * LVN_PARAM_ALIGN;
    }
    p->flat_count = offset;
    return LVN_OK;
}

void lvn_param_init(const struct lvn_param *q, uint64_t seed, float *values)
{
    if (q->init.kind == LVN_INIT_NORMAL)
        lvn_random_normal(seed, q->hash, (float)q->init.value, q->count, values);
    else if (q->init.kind == LVN_INIT_UNIFORM)
        lvn_random_uniform(seed, q->hash, (float)q->init.value, q->count, values);
    else
        for (int64_t j = 0; j < q->count; j++) values[j] = (float)q->init.value;
}

void lvn_params_init_values(const struct lvn_params *p, uint64_t seed, float *flat)
{
    memset(flat, 0, sizeof *flat * (size_t)p->flat_count);
    for (int i = 0; i < p->n; i++) lvn_param_init(p->list[i], seed, flat + p->list[i]->offset);
}

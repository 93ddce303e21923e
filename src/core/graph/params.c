/* params.c - the parameters of a model: their layout in the flat buffers, and their initial values; see params.h.
 *
 * Parameters are declared while the first graph is built (graph.c), laid out once, and shared by all graphs. Values,
 * gradients and optimizer state are flat buffers with the same layout. So the optimizer runs a few long loops, a
 * reduction over ranks needs few buckets, and a shard is an offset. */
#include "graph/params.h"

#include "base/random.h"

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
    lvn_index_release(&p->names);
    lvn_arena_release(&p->arena);
    free(p);
}

struct lvn_param *lvn_params_find(const struct lvn_params *p, const char *name)
{
    const int *i = lvn_index_find(&p->names, name);
    return i ? p->list[*i] : NULL;
}

int64_t lvn_params_total(const struct lvn_params *p)
{
    int64_t total = 0;
    for (int i = 0; i < p->n; i++) total += p->list[i]->count;
    return total;
}

int64_t lvn_params_largest(const struct lvn_params *p, bool trainable_only)
{
    int64_t max = 0;
    for (int i = 0; i < p->n; i++)
        if ((!trainable_only || p->list[i]->trainable) && p->list[i]->count > max) max = p->list[i]->count;
    return max;
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

static int compare_rules(const struct lvn_update_rule *x, const struct lvn_update_rule *y)
{
    if (x->lr_scale != y->lr_scale) return x->lr_scale < y->lr_scale ? -1 : 1;
    if (x->weight_decay != y->weight_decay) return x->weight_decay < y->weight_decay ? -1 : 1;
    for (int k = 0; k < 2; k++)
        if (x->betas[k] != y->betas[k]) return x->betas[k] < y->betas[k] ? -1 : 1;
    return x->elementwise - y->elementwise;
}

static int by_block(const struct lvn_param *x, int x_block, const struct lvn_param *y, int y_block)
{
    if (lvn_param_is_packed(x) != lvn_param_is_packed(y)) return lvn_param_is_packed(y) ? -1 : 1;
    if (x->trainable != y->trainable) return x->trainable ? -1 : 1;
    if (x_block != y_block) return x_block < y_block ? -1 : 1;
    if (x->decay != y->decay) return x->decay ? -1 : 1;
    const int order = compare_rules(&x->rule, &y->rule);
    return order ? order : x->number - y->number;
}

static int by_layout(const void *a, const void *b)
{
    const struct lvn_param *x = *(struct lvn_param *const *)a, *y = *(struct lvn_param *const *)b;
    return by_block(x, x->block, y, y->block);
}

static int block_of_numbers(const struct lvn_param *q)
{
    return q->block < 0 ? LVN_BLOCK_OUTSIDE : q->block;
}

static int by_numbers(const void *a, const void *b)
{
    const struct lvn_param *x = *(struct lvn_param *const *)a, *y = *(struct lvn_param *const *)b;
    return by_block(x, block_of_numbers(x), y, block_of_numbers(y));
}

static struct lvn_param_block *block_of(const struct lvn_params *p, const struct lvn_param *q)
{
    return &(q->trainable ? p->blocks : p->frozen)[lvn_block_index(q->block)];
}

const char *lvn_block_text(int block, char text[LVN_BLOCK_TEXT])
{
    if (block >= 0)
        snprintf(text, LVN_BLOCK_TEXT, "block %d", block);
    else
        snprintf(text, LVN_BLOCK_TEXT, "%s", block == LVN_BLOCK_HEAD ? "the head" : "the part outside of blocks");
    return text;
}

const struct lvn_param_block *lvn_params_block_of(const struct lvn_params *p, const struct lvn_param *q)
{
    return block_of(p, q);
}

/* Add a parameter of `count` elements, including padding, to its block. */
static void add_to_block(struct lvn_params *p, const struct lvn_param *q, int64_t count)
{
    struct lvn_param_block *b = block_of(p, q);
    if (!b->count) b->offset = q->offset;
    b->count += count;
}

static bool belongs(const struct lvn_param_group *g, const struct lvn_param *q)
{
    return g->block == q->block && g->decay == q->decay && compare_rules(&g->rule, &q->rule) == 0;
}

/* Append parameter q to the last group, or start a new group with it. number: as in lvn_param_group. */
static void add_to_group(struct lvn_params *p, const struct lvn_param *q, int64_t count, int64_t number)
{
    struct lvn_param_group *g = p->n_groups ? &p->groups[p->n_groups - 1] : NULL;
    if (!g || !belongs(g, q)) {
        g = &p->groups[p->n_groups++];
        *g = (struct lvn_param_group){
            .offset = q->offset, .number = number, .block = q->block, .decay = q->decay, .rule = q->rule};
    }
    g->count += count;
}

static int64_t aligned(int64_t count)
{
    return (count + LVN_PARAM_ALIGN - 1) / LVN_PARAM_ALIGN * LVN_PARAM_ALIGN;
}

/* number[lvn_param.number]: lvn_param_group.number of the parameter's first element. */
static void count_numbers(const struct lvn_params *p, int64_t *number)
{
    int64_t n = 0;
    qsort(p->flat, (size_t)p->n, sizeof(struct lvn_param *), by_numbers);
    for (int i = 0; i < p->n; n += aligned(p->flat[i]->count), i++) number[p->flat[i]->number] = n;
}

static bool begins_block(const struct lvn_param *q, const struct lvn_param *before)
{
    return !before || q->block != before->block || q->trainable != before->trainable;
}

enum lvn_status lvn_params_layout(struct lvn_params *p, enum lvn_decay rule)
{
    size_t n = (size_t)(p->n ? p->n : 1);
    p->groups = lvn_arena_alloc(&p->arena, sizeof *p->groups * n);
    p->flat = lvn_arena_alloc(&p->arena, sizeof(struct lvn_param *) * n);
    if (!p->flat) return LVN_MEMORY;
    p->n_blocks = 1;
    for (int i = 0; i < p->n; i++) {
        struct lvn_param *q = p->flat[i] = p->list[i];
        q->decay = q->rule.weight_decay < 0 ? decays(q, rule) : q->rule.weight_decay > 0;
        if (p->tied && q->block == LVN_BLOCK_HEAD) q->block = LVN_BLOCK_OUTSIDE;
        if (lvn_block_index(q->block) >= p->n_blocks) p->n_blocks = lvn_block_index(q->block) + 1;
    }
    p->blocks = lvn_arena_alloc(&p->arena, sizeof *p->blocks * (size_t)p->n_blocks);
    p->frozen = lvn_arena_alloc(&p->arena, sizeof *p->frozen * (size_t)p->n_blocks);
    int64_t *start = lvn_arena_alloc(&p->arena, sizeof *start * (n + 1));
    int64_t *number = lvn_arena_alloc(&p->arena, sizeof *number * n);
    if (!p->groups || !p->blocks || !p->frozen || !start || !number) return LVN_MEMORY;
    p->n_groups = 0;
    p->trainable = (struct lvn_extents){0, start};
    p->flat_count = p->trainable_count = p->packed_bytes = p->lines_count = 0;
    count_numbers(p, number);
    qsort(p->flat, (size_t)p->n, sizeof(struct lvn_param *), by_layout);
    for (int i = 0; i < p->n; i++) {
        struct lvn_param *q = p->flat[i];
        const int64_t count = aligned(q->count);
        if (lvn_param_is_packed(q)) {
            const struct lvn_blocks blocks = lvn_param_blocks(q);
            q->packed_offset = p->packed_bytes;
            q->packed_bytes = lvn_blocks_bytes(&blocks);
            p->packed_bytes += q->packed_bytes;
            continue;
        }
        if (begins_block(q, i ? p->flat[i - 1] : NULL)) p->flat_count = lvn_norm_blocks(p->flat_count) * LVN_NORM_BLOCK;
        q->offset = p->flat_count;
        p->flat_count += count;
        add_to_block(p, q, count);
        if (!q->trainable) continue;
        p->trainable_count = p->flat_count;
        q->lines_at = p->lines_count;
        if (lvn_param_is_block_matrix(q)) p->lines_count += aligned(lvn_param_lines(q));
        start[p->trainable.n++] = q->offset;
        add_to_group(p, q, count, number[q->number]);
    }
    start[p->trainable.n] = p->trainable_count;
    return LVN_OK;
}

void lvn_param_init(const struct lvn_param *q, uint64_t seed, int64_t first, int64_t count, float *values)
{
    const struct lvn_init *init = &q->init;
    if (init->kind == LVN_INIT_NORMAL) {
        lvn_random_normal(seed, q->hash, (float)init->value, first, count, values);
    } else if (init->kind == LVN_INIT_UNIFORM) {
        lvn_random_uniform(seed, q->hash, (float)init->value, first, count, values);
        for (int64_t j = 0; init->center != 0 && j < count; j++) values[j] += (float)init->center;
    } else {
        for (int64_t j = 0; j < count; j++) values[j] = (float)(init->value + init->slope * (double)(first + j));
    }
}

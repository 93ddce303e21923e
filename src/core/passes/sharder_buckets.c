/* sharder_buckets.c - sums of whole gradients over ranks, for ddp and zero1: in buckets that overlap with backward, or
 * in tree order; see sharder.c. */
#include "passes/sharder.h"

#include "passes/device_query.h"

enum {
    MIN_BYTES = 1 << 18,            /* of a bucket: latency dominates smaller messages */
    MAX_BYTES = 16 << 20,           /* of a bucket: larger ones only delay the start */
    MAX_BYTES_OF_QUEUES = 64 << 20, /* from device to device: NCCL is faster with larger messages */
    PER_PROGRAM = 16,               /* number of buckets, between those limits */
};

/* A range of the flat gradients that one collective reduces. */
struct bucket {
    int64_t offset; /* elements */
    int64_t count;  /* elements */
    int block;      /* lvn_param.block of its first gradient; with sharding, of all of them */
    int ready;      /* index of the instruction after which the reduction starts; -1: at the start of the program */
    struct lvn_operand gradient;
    struct collective collective; /* on the gradient or its bf16 copy */
};

/* --- buckets --- */

/* Divide the gradients into buckets of about `bytes`, at parameter boundaries, from the end of the flat buffer, because
 * backward completes the last block first. by_block: also divide at block boundaries. Returns their number. */
static int cut_buckets(const struct lvn_program *p, const int *last_writer, int64_t bytes, bool by_block,
                       struct bucket *out)
{
    const struct lvn_params *params = p->graph->params;
    struct bucket b = {.offset = params->trainable_count, .ready = -1};
    int n = 0;
    for (int i = params->n - 1; i >= 0; i--) {
        const struct lvn_param *q = params->flat[i];
        if (!q->trainable) continue;
        const struct lvn_param_block *block = lvn_params_block_of(params, q);
        int writer = last_writer[q->number];
        const int64_t end = block->offset + block->count;
        if (by_block && b.offset > end) b.offset = end; /* without the gap after it */
        b.count += b.offset - q->offset;
        b.offset = q->offset;
        b.block = q->block;
        if (writer > b.ready) b.ready = writer;
        const bool last = q->offset == 0 || (by_block && q->offset == block->offset);
        if (b.count * lvn_dtype_bytes(p->gradients) < bytes && !last) continue;
        out[n++] = b;
        b = (struct bucket){.offset = q->offset, .ready = -1};
    }
    return n;
}

static int64_t bucket_bytes(const struct sharder *sharder)
{
    const struct lvn_program *p = sharder->p;
    const int64_t max = lvn_device_has_queues(sharder->device) ? MAX_BYTES_OF_QUEUES : MAX_BYTES;
    int64_t bytes = p->graph->params->trainable_count * lvn_dtype_bytes(p->gradients) / PER_PROGRAM;
    return bytes < MIN_BYTES ? MIN_BYTES : bytes > max ? max : bytes;
}

/* Sort by `ready`; stable. */
static void sort_buckets(struct bucket *list, int n)
{
    for (int i = 1; i < n; i++) {
        struct bucket b = list[i];
        int k = i;
        for (; k > 0 && list[k - 1].ready > b.ready; k--) list[k] = list[k - 1];
        list[k] = b;
    }
}

enum lvn_status lvn_sharder_find_buckets(struct sharder *sharder)
{
    sharder->bucket =
        lvn_arena_alloc(&sharder->p->arena, sizeof *sharder->bucket * (size_t)(sharder->p->graph->params->n + 1));
    LVN_LOCAL_ARENA(a);
    const int *last_writer = lvn_sharder_last_writers(&a, sharder->p);
    if (!sharder->bucket || !last_writer) return LVN_MEMORY;
    sharder->n_buckets = cut_buckets(sharder->p, last_writer, bucket_bytes(sharder),
                                     lvn_sharder_has(sharder, LVN_SHARDS_STATE), sharder->bucket);
    sort_buckets(sharder->bucket, sharder->n_buckets);
    return LVN_OK;
}

static void append_start(struct sharder *sharder, struct bucket *b)
{
    static const char name[] = "sum of a bucket";
    b->gradient = lvn_sharder_range(sharder, "gradients", LVN_BUFFER_GRAD, sharder->p->gradients, b->offset, b->count);
    const struct lvn_operand wire = lvn_sharder_to_wire(sharder, b->gradient, LVN_LAST_MICRO_BATCH, name);
    b->collective = lvn_sharder_start(
        sharder, lvn_sharder_has(sharder, LVN_SHARDS_STATE) ? LVN_OP_reduce_scatter : LVN_OP_all_reduce,
        LVN_LAST_MICRO_BATCH, wire, wire, name);
    if (!lvn_sharder_has(sharder, LVN_SHARDS_STATE)) return;
    lvn_sharder_latest(sharder)->attr.reduce_scatter.block = b->block;
    lvn_sharder_latest(sharder)->attr.reduce_scatter.first = b->offset;
}

static void append_end(struct sharder *sharder, const struct bucket *b)
{
    static const char name[] = "sum of a bucket";
    lvn_sharder_wait(sharder, &b->collective, LVN_AFTER_BACKWARD, name);
    lvn_sharder_from_wire(sharder, b->collective.result, b->gradient, LVN_AFTER_BACKWARD, name);
}

/* --- sums in the order of the tree --- */

static const char tree_name[] = "sum of the gradients";

/* Does every rank receive only the sums of its shards? The tree spans all ranks, each of which must then own a part. */
static bool scatters(const struct sharder *sharder)
{
    return lvn_sharder_has(sharder, LVN_SHARDS_STATE) && !lvn_sharder_has_groups(sharder);
}

/* Start the sum of elements [offset, offset + count) of the gradients. */
static struct collective start_tree(struct sharder *sharder, int block, int64_t offset, int64_t count)
{
    struct lvn_program *p = sharder->p;
    const int64_t all = p->graph->params->trainable_count, dim[] = {p->n_grad_buffers, count};
    struct lvn_operand sum = lvn_sharder_range(sharder, "gradients", LVN_BUFFER_GRAD, p->gradients, offset, count);
    struct lvn_operand slots = lvn_sharder_range(sharder, "gradients", LVN_BUFFER_GRAD, p->gradients, offset,
                                                 (p->n_grad_buffers - 1) * all + count);
    slots.desc = lvn_desc_make(p->gradients, 2, dim);
    slots.desc.stride[0] = all;
    struct collective s = lvn_sharder_start(sharder, LVN_OP_tree_reduce, LVN_AFTER_BACKWARD, slots, sum, tree_name);
    lvn_sharder_latest(sharder)->scope = LVN_SCOPE_ALL;
    lvn_sharder_latest(sharder)->attr.tree_reduce.scatter = scatters(sharder);
    lvn_sharder_latest(sharder)->attr.tree_reduce.block = block;
    return s;
}

static void append_tree(struct sharder *sharder)
{
    struct collective *s = lvn_sharder_collectives(sharder);
    int n = 0;
    if (!s) return;
    const bool by_block = scatters(sharder);
    if (!by_block) s[n++] = start_tree(sharder, -1, 0, sharder->p->graph->params->trainable_count);
    for (int k = LVN_SHARDER_NO_BLOCK; by_block && lvn_sharder_next_block(sharder, &k); n++)
        s[n] = start_tree(sharder, k, lvn_sharder_block(sharder, k)->offset, lvn_sharder_block(sharder, k)->count);
    for (int k = 0; k < n; k++) lvn_sharder_wait(sharder, &s[k], LVN_AFTER_BACKWARD, tree_name);
}

/* Rebuild the list with sums in buckets, or in tree order, after backward. */
void lvn_sharder_append_sums(struct sharder *sharder, const struct lvn_instr *old, int n)
{
    for (int i = 0, next = 0, summed = 0; i <= n && !sharder->failed; i++) {
        bool after_backward = i == n || old[i].when == LVN_AFTER_BACKWARD;
        for (; next < sharder->n_buckets && (sharder->bucket[next].ready < i || after_backward); next++)
            append_start(sharder, &sharder->bucket[next]);
        if (after_backward && !summed++) {
            for (int b = 0; b < sharder->n_buckets; b++) append_end(sharder, &sharder->bucket[b]);
            if (sharder->s->tree) append_tree(sharder);
        }
        if (i < n) lvn_sharder_append_one(sharder, &old[i]);
    }
}

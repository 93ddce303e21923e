/* data_parallel_buckets.c - sums of whole gradients over ranks, for ddp and zero1: in buckets that overlap with
 * backward, or in tree order; see data_parallel.c. */
#include "passes/data_parallel.h"

#include "passes/device_query.h"

enum {
    MIN_BYTES = 1 << 18,            /* of a bucket: latency dominates smaller messages */
    MAX_BYTES = 16 << 20,           /* of a bucket: larger ones only delay the start */
    MAX_BYTES_OF_QUEUES = 64 << 20, /* from device to device: NCCL is faster with larger messages */
    PER_PROGRAM = 16,               /* buckets of a program, within those limits */
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

static int64_t bucket_bytes(const struct dp_pass *pass)
{
    const struct lvn_program *p = pass->p;
    const int64_t max = lvn_device_has_queues(pass->device) ? MAX_BYTES_OF_QUEUES : MAX_BYTES;
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

enum lvn_status lvn_dp_find_buckets(struct dp_pass *pass)
{
    pass->bucket = lvn_arena_alloc(&pass->p->arena, sizeof *pass->bucket * (size_t)(pass->p->graph->params->n + 1));
    LVN_LOCAL_ARENA(a);
    const int *last_writer = lvn_dp_last_writers(&a, pass->p);
    if (!pass->bucket || !last_writer) return LVN_MEMORY;
    pass->n_buckets =
        cut_buckets(pass->p, last_writer, bucket_bytes(pass), lvn_dp_has(pass, LVN_SHARDS_STATE), pass->bucket);
    sort_buckets(pass->bucket, pass->n_buckets);
    return LVN_OK;
}

static void append_start(struct dp_pass *pass, struct bucket *b)
{
    static const char name[] = "sum of a bucket";
    b->gradient = lvn_dp_range(pass, "gradients", LVN_BUFFER_GRAD, pass->p->gradients, b->offset, b->count);
    const struct lvn_operand wire = lvn_dp_to_wire(pass, b->gradient, LVN_LAST_MICRO_BATCH, name);
    b->collective = lvn_dp_start(pass, lvn_dp_has(pass, LVN_SHARDS_STATE) ? LVN_OP_reduce_scatter : LVN_OP_all_reduce,
                                 LVN_LAST_MICRO_BATCH, wire, wire, name);
    if (!lvn_dp_has(pass, LVN_SHARDS_STATE)) return;
    lvn_dp_latest(pass)->attr.reduce_scatter.block = b->block;
    lvn_dp_latest(pass)->attr.reduce_scatter.first = b->offset;
}

static void append_end(struct dp_pass *pass, const struct bucket *b)
{
    static const char name[] = "sum of a bucket";
    lvn_dp_wait(pass, &b->collective, LVN_AFTER_BACKWARD, name);
    lvn_dp_from_wire(pass, b->collective.result, b->gradient, LVN_AFTER_BACKWARD, name);
}

/* --- sums in the order of the tree --- */

static const char tree_name[] = "sum of the gradients";

/* Does every rank receive only the sums of its shards? The tree spans all ranks, each of which must then own a part. */
static bool scatters(const struct dp_pass *pass)
{
    return lvn_dp_has(pass, LVN_SHARDS_STATE) && !lvn_dp_has_groups(pass);
}

/* Start the sum of elements [offset, offset + count) of the gradients. */
static struct collective start_tree(struct dp_pass *pass, int block, int64_t offset, int64_t count)
{
    struct lvn_program *p = pass->p;
    const int64_t all = p->graph->params->trainable_count, dim[] = {p->n_grad_buffers, count};
    struct lvn_operand sum = lvn_dp_range(pass, "gradients", LVN_BUFFER_GRAD, p->gradients, offset, count);
    struct lvn_operand slots =
        lvn_dp_range(pass, "gradients", LVN_BUFFER_GRAD, p->gradients, offset, (p->n_grad_buffers - 1) * all + count);
    slots.desc = lvn_desc_make(p->gradients, 2, dim);
    slots.desc.stride[0] = all;
    struct collective s = lvn_dp_start(pass, LVN_OP_tree_reduce, LVN_AFTER_BACKWARD, slots, sum, tree_name);
    lvn_dp_latest(pass)->scope = LVN_SCOPE_ALL;
    lvn_dp_latest(pass)->attr.tree_reduce.scatter = scatters(pass);
    lvn_dp_latest(pass)->attr.tree_reduce.block = block;
    return s;
}

static void append_tree(struct dp_pass *pass)
{
    struct collective *s = lvn_dp_collectives(pass);
    int n = 0;
    if (!s) return;
    const bool by_block = scatters(pass);
    if (!by_block) s[n++] = start_tree(pass, -1, 0, pass->p->graph->params->trainable_count);
    for (int k = LVN_DP_NO_BLOCK; by_block && lvn_dp_next_block(pass, &k); n++)
        s[n] = start_tree(pass, k, lvn_dp_block(pass, k)->offset, lvn_dp_block(pass, k)->count);
    for (int k = 0; k < n; k++) lvn_dp_wait(pass, &s[k], LVN_AFTER_BACKWARD, tree_name);
}

/* Buckets are waited for, and sums in tree order computed, before the first instruction after backward. */
void lvn_dp_append_sums(struct dp_pass *pass, const struct lvn_instr *old, int n)
{
    for (int i = 0, next = 0, summed = 0; i <= n && !pass->failed; i++) {
        bool after_backward = i == n || old[i].when == LVN_AFTER_BACKWARD;
        for (; next < pass->n_buckets && (pass->bucket[next].ready < i || after_backward); next++)
            append_start(pass, &pass->bucket[next]);
        if (after_backward && !summed++) {
            for (int b = 0; b < pass->n_buckets; b++) append_end(pass, &pass->bucket[b]);
            if (pass->s->tree) append_tree(pass);
        }
        if (i < n) lvn_dp_append_one(pass, &old[i]);
    }
}

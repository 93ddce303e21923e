/* shard.c - the pass that inserts the collectives of data parallelism into a training program.
 *
 * Every rank runs the same program on its part of the batch. Gradients are cut into buckets: ranges of the flat buffer,
 * in the order in which backward completes them. In the last micro-batch the reduction of a bucket starts behind the
 * instruction that writes its last gradient, and overlaps with the rest of backward; a wait for each bucket stands
 * before the norm. With trainer.reduce_dtype bf16 a rounded copy of the bucket is reduced, and then cast back into the
 * gradient. With trainer.deterministic there are no buckets: after the last micro-batch the pending nodes of all ranks
 * are summed in the order of the tree over all micro-batches.
 *
 * zero1 (Rajbhandari et al.: "ZeRO: memory optimizations toward training trillion parameter models", 2020, stage 1):
 * every block of the model is divided among the ranks (shard.h), so no collective reaches over two blocks. A rank
 * receives the sums of its shards' gradients only, has the optimizer state of its shards only, updates those, and
 * receives the other parameters from their owners. For the norm, the sums of squares of all shards are added to zeros,
 * so every rank adds the same numbers in the order of the plain norm.
 *
 * Collectives are instructions with operands like any others: the buffer of a running collective is a value that lives
 * until its wait, so memory_planning lays it out. The pass writes the list anew.
 *
 * Left out: gradients and parameters in shards (ZeRO's stages 2 and 3). */
#include "passes/shard.h"

#include <string.h>

#include "passes/pass.h"

enum {
    MIN_BYTES = 1 << 18,  /* of a bucket: smaller messages cost their latency */
    MAX_BYTES = 16 << 20, /* of a bucket: larger ones only start later */
    PER_PROGRAM = 16,     /* number of buckets, between those limits */
};

/* A collective that was started. */
struct collective {
    int handle;
    struct lvn_operand token;  /* makes the wait depend on the start; without contents */
    struct lvn_operand result; /* the buffer of the collective, in use until the wait */
};

/* A range of the flat gradients that one collective reduces. */
struct bucket {
    int64_t offset; /* elements */
    int64_t count;  /* elements */
    int block;      /* lvn_param.block of its first gradient; of all, where something is sharded */
    int ready;      /* the instruction behind which the reduction starts; -1: at the start of the program */
    struct lvn_operand gradient;
    struct collective collective; /* on the gradient, or on a copy in bf16 */
};

struct sharder {
    struct lvn_program *p;
    const struct lvn_sharding *s;
    struct bucket *bucket;
    int n_buckets;
    int n_updates; /* instructions of the optimizer so far: one for each parameter group */
    bool failed;   /* out of memory */
};

/* How many of pieces 0 to n - 1 belong to ranks below `rank`, if piece i belongs to rank i modulo size. */
static int64_t dealt_below(int64_t n, int size, int rank)
{
    const int64_t rest = n % size;
    return n / size * rank + (rest < rank ? rest : rank);
}

static int64_t dealt_to(int64_t n, int size, int rank)
{
    return dealt_below(n, size, rank + 1) - dealt_below(n, size, rank);
}

struct lvn_shard lvn_shard_at(const struct lvn_params *params, int block, int size, int rank)
{
    const struct lvn_param_block *b = &params->blocks[block + 1];
    const int64_t before = b->offset / LVN_NORM_BLOCK, behind = before + lvn_norm_blocks(b->count);
    const int64_t end = b->offset + b->count;
    int64_t first = before + dealt_below(behind, size, rank) - dealt_below(before, size, rank);
    int64_t count = dealt_to(behind, size, rank) - dealt_to(before, size, rank);
    first *= LVN_NORM_BLOCK;
    count *= LVN_NORM_BLOCK;
    if (count > 0 && first + count > end) count = end - first; /* the last piece of a block may be shorter */
    return (struct lvn_shard){first, count};
}

int64_t lvn_shard_place(const struct lvn_params *params, int size, int rank, int block, int64_t element)
{
    const int64_t before = params->blocks[block + 1].offset / LVN_NORM_BLOCK;
    return dealt_to(before, size, rank) * LVN_NORM_BLOCK + element - lvn_shard_at(params, block, size, rank).first;
}

int64_t lvn_shard_total(const struct lvn_params *params, int size, int rank)
{
    int last = params->n_blocks - 2; /* lvn_param.block of the last block with trainable parameters */
    while (last > -1 && !params->blocks[last + 1].count) last--;
    const struct lvn_shard s = lvn_shard_at(params, last, size, rank);
    return lvn_shard_place(params, size, rank, last, s.first + s.count);
}

static bool is_sharded(const struct sharder *x)
{
    return x->s->sharded & LVN_SHARDS_STATE;
}

/* --- the list --- */

/* Written instead of a new instruction when memory is out, so that callers need no check: x->failed tells. */
static _Thread_local struct lvn_instr spare;

/* Append an instruction; the pointer is valid until the next one. */
static struct lvn_instr *append(struct sharder *x, enum lvn_op_id id, enum lvn_when when, const char *name)
{
    struct lvn_instr *i = lvn_program_add_instr(x->p, id, LVN_FORWARD);
    if (!i) {
        x->failed = true;
        i = &spare;
    }
    i->when = when;
    i->name = name;
    return i;
}

static struct lvn_operand range(struct sharder *x, const char *name, enum lvn_buffer buffer, enum lvn_dtype dtype,
                                int64_t offset, int64_t count)
{
    struct lvn_operand o = lvn_program_add_range(x->p, name, buffer, dtype, offset, count);
    if (o.value < 0) x->failed = true;
    return o;
}

static struct collective append_collective(struct sharder *x, enum lvn_op_id id, enum lvn_when when,
                                           struct lvn_operand in, struct lvn_operand result, const char *name)
{
    struct collective s = {.handle = x->p->n_handles++, .result = result};
    s.token = range(x, "token", LVN_BUFFER_ARENA, LVN_I32, 0, 1);
    struct lvn_instr *i = append(x, id, when, name);
    i->handle = s.handle;
    i->in[0] = in;
    i->out[0] = result;
    i->out[1] = s.token;
    return s;
}

static void append_wait(struct sharder *x, const struct collective *s, const char *name)
{
    struct lvn_instr *i = append(x, LVN_OP_wait, LVN_AFTER_BACKWARD, name);
    i->handle = s->handle;
    i->in[0] = s->token;
    i->out[0] = s->result;
}

/* The instruction that was appended last. */
static struct lvn_instr *latest(const struct sharder *x)
{
    return x->failed ? &spare : &x->p->instrs[x->p->n_instrs - 1];
}

/* Number of the next block after `block` that has trainable parameters, as in lvn_param.block; begin with -2. False:
 * there is none. */
static bool next_block(const struct sharder *x, int *block)
{
    const struct lvn_params *params = x->p->graph->params;
    for (++*block; *block + 1 < params->n_blocks; ++*block)
        if (params->blocks[*block + 1].count) return true;
    return false;
}

static const struct lvn_param_block *block_at(const struct sharder *x, int block)
{
    return &x->p->graph->params->blocks[block + 1];
}

static struct lvn_shard shard_of(const struct sharder *x, int block)
{
    return lvn_shard_at(x->p->graph->params, block, x->s->size, x->s->rank);
}

/* --- buckets --- */

/* Parameter's number -> the last instruction that writes its gradient; -1: none. NULL: memory. */
static int *find_last_writers(struct lvn_arena *a, const struct lvn_program *p)
{
    int *last = lvn_arena_alloc(a, sizeof *last * (size_t)(p->graph->params->n + 1));
    for (int i = 0; last && i < p->graph->params->n; i++) last[i] = -1;
    for (int n = 0; last && n < p->n_instrs; n++)
        for (int k = 0; k < LVN_MAX_IN; k++) {
            int v = p->instrs[n].din[k].value;
            if (v >= 0 && p->values[v].buffer == LVN_BUFFER_GRAD && p->values[v].param)
                last[p->values[v].param->number] = n;
        }
    return last;
}

/* Cut the gradients into buckets of about `bytes`, between parameters, from the end of the flat buffer on: backward
 * completes the last block first. by_block: also between blocks. Returns their number. */
static int cut_buckets(const struct lvn_program *p, const int *last_writer, int64_t bytes, bool by_block,
                       struct bucket *out)
{
    const struct lvn_params *params = p->graph->params;
    struct bucket b = {.offset = params->trainable_count, .ready = -1};
    int n = 0;
    for (int i = params->n - 1; i >= 0; i--) {
        const struct lvn_param *q = params->flat[i];
        if (!q->trainable) continue;
        const struct lvn_param_block *block = &params->blocks[q->block + 1];
        int writer = last_writer[q->number];
        const int64_t end = block->offset + block->count;
        if (by_block && b.offset > end) b.offset = end; /* without the gap behind it */
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

static int64_t bucket_bytes(const struct lvn_program *p)
{
    int64_t bytes = p->graph->params->trainable_count * lvn_dtype_bytes(p->gradients) / PER_PROGRAM;
    return bytes < MIN_BYTES ? MIN_BYTES : bytes > MAX_BYTES ? MAX_BYTES : bytes;
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

static enum lvn_status find_buckets(struct sharder *x)
{
    x->bucket = lvn_arena_alloc(&x->p->arena, sizeof *x->bucket * (size_t)(x->p->graph->params->n + 1));
    LVN_LOCAL_ARENA(a);
    const int *last_writer = find_last_writers(&a, x->p);
    if (!x->bucket || !last_writer) return LVN_MEMORY;
    x->n_buckets = cut_buckets(x->p, last_writer, bucket_bytes(x->p), is_sharded(x), x->bucket);
    sort_buckets(x->bucket, x->n_buckets);
    return LVN_OK;
}

static void append_start(struct sharder *x, struct bucket *b)
{
    static const char name[] = "sum of a bucket";
    struct lvn_operand wire = b->gradient =
        range(x, "gradients", LVN_BUFFER_GRAD, x->p->gradients, b->offset, b->count);
    if (x->s->bf16 && x->p->gradients == LVN_F32) {
        wire = range(x, "gradients on their way", LVN_BUFFER_ARENA, LVN_BF16, 0, b->count);
        struct lvn_instr *cast = append(x, LVN_OP_narrow, LVN_LAST_MICRO_BATCH, name);
        cast->in[0] = b->gradient;
        cast->out[0] = wire;
    }
    b->collective = append_collective(x, is_sharded(x) ? LVN_OP_reduce_scatter : LVN_OP_all_reduce,
                                      LVN_LAST_MICRO_BATCH, wire, wire, name);
    if (!is_sharded(x)) return;
    latest(x)->attr.reduce_scatter.block = b->block;
    latest(x)->attr.reduce_scatter.first = b->offset;
}

static void append_end(struct sharder *x, const struct bucket *b)
{
    append_wait(x, &b->collective, "sum of a bucket");
    if (b->collective.result.value == b->gradient.value) return;
    struct lvn_instr *cast = append(x, LVN_OP_widen, LVN_AFTER_BACKWARD, "sum of a bucket");
    cast->in[0] = b->collective.result;
    cast->out[0] = b->gradient;
}

/* --- sums in the order of the tree --- */

static const char tree_name[] = "sum of the gradients";

/* Start the sum of elements [offset, offset + count) of the gradients. */
static struct collective start_tree(struct sharder *x, int block, int64_t offset, int64_t count)
{
    struct lvn_program *p = x->p;
    const int64_t all = p->graph->params->trainable_count, dim[] = {p->n_grad_buffers, count};
    struct lvn_operand sum = range(x, "gradients", LVN_BUFFER_GRAD, p->gradients, offset, count);
    struct lvn_operand slots =
        range(x, "gradients", LVN_BUFFER_GRAD, p->gradients, offset, (p->n_grad_buffers - 1) * all + count);
    slots.desc = lvn_desc_make(p->gradients, 2, dim);
    slots.desc.stride[0] = all;
    struct collective s = append_collective(x, LVN_OP_tree_reduce, LVN_AFTER_BACKWARD, slots, sum, tree_name);
    latest(x)->attr.tree_reduce.scatter = is_sharded(x);
    latest(x)->attr.tree_reduce.block = block;
    return s;
}

/* Memory for a collective of each block. */
static struct collective *new_collectives(struct sharder *x)
{
    struct collective *s = lvn_arena_alloc(&x->p->arena, sizeof *s * (size_t)(x->p->graph->params->n_blocks + 1));
    if (!s) x->failed = true;
    return s;
}

static void append_tree(struct sharder *x)
{
    struct collective *s = new_collectives(x);
    int n = 0;
    if (!s) return;
    if (!is_sharded(x)) s[n++] = start_tree(x, -1, 0, x->p->graph->params->trainable_count);
    for (int k = -2; is_sharded(x) && next_block(x, &k); n++)
        s[n] = start_tree(x, k, block_at(x, k)->offset, block_at(x, k)->count);
    for (int k = 0; k < n; k++) append_wait(x, &s[k], tree_name);
}

/* --- the update --- */

/* Restrict an operand to elements [offset, offset + count) of its buffer. */
static void cut(struct lvn_program *p, struct lvn_operand *o, int64_t offset, int64_t count)
{
    if (o->value < 0) return;
    struct lvn_value *v = &p->values[o->value];
    v->offset = offset * lvn_dtype_bytes(v->dtype);
    v->bytes = count * lvn_dtype_bytes(v->dtype);
    o->desc = lvn_desc_make(v->dtype, 1, &count);
}

/* Append the part of an update instruction that lies in this rank's shard of its block, if any. The optimizer state's
 * buffers hold the rank's shards only. */
static void append_update(struct sharder *x, struct lvn_instr i)
{
    struct lvn_program *p = x->p;
    const struct lvn_param_group *g = &p->graph->params->groups[x->n_updates++];
    const struct lvn_shard mine = shard_of(x, g->block);
    int64_t begin = g->offset, end = g->offset + g->count;
    if (begin < mine.first) begin = mine.first;
    if (end > mine.first + mine.count) end = mine.first + mine.count;
    if (end <= begin) return;
    const int64_t place = lvn_shard_place(p->graph->params, x->s->size, x->s->rank, g->block, begin);
    cut(p, &i.in[0], begin, end - begin);
    cut(p, &i.out[0], begin, end - begin);
    for (int k = 1; k < LVN_MAX_OUT; k++) cut(p, &i.out[k], place, end - begin);
    i.attr.update.first = begin;
    i.attr.update.number += begin - g->offset;
    *append(x, i.id, i.when, i.name) = i;
}

/* The sums of squares of a block: those of this rank's shard, and zeros. */
static void append_squares(struct sharder *x, int block, struct lvn_operand all)
{
    const struct lvn_param_block *b = block_at(x, block);
    const struct lvn_shard mine = shard_of(x, block);
    const int64_t from = b->offset / LVN_NORM_BLOCK;
    int64_t sums = all.desc.dim[0] - from; /* up to the next block, or to the end: gaps have sums too */
    for (int next = block; next_block(x, &next);) {
        sums = block_at(x, next)->offset / LVN_NORM_BLOCK - from;
        break;
    }
    struct lvn_instr *i = append(x, LVN_OP_grad_squares, LVN_AFTER_BACKWARD, "squares of the shards");
    i->attr.grad_squares.first = (mine.first - b->offset) / LVN_NORM_BLOCK;
    i->attr.grad_squares.sums = sums;
    i->out[0] = all;
    i->out[0].desc = lvn_desc_make(LVN_F64, 1, &sums);
    i->out[0].desc.offset = from;
    if (mine.count > 0) i->in[0] = range(x, "gradients", LVN_BUFFER_GRAD, x->p->gradients, mine.first, mine.count);
}

/* Append the norm of all gradients: sums of squares of this rank's shards, those of all ranks, and the total. */
static void append_norm(struct sharder *x, const struct lvn_instr *norm)
{
    static const char name[] = "squares of all shards";
    const int64_t blocks = lvn_norm_blocks(x->p->graph->params->trainable_count);
    const struct lvn_operand all = range(x, "sums of squares", LVN_BUFFER_ARENA, LVN_F64, 0, blocks);
    for (int block = -2; next_block(x, &block);) append_squares(x, block, all);
    const struct collective s = append_collective(x, LVN_OP_all_reduce, LVN_AFTER_BACKWARD, all, all, name);
    append_wait(x, &s, name);
    struct lvn_instr *clip = append(x, LVN_OP_grad_clip, LVN_AFTER_BACKWARD, norm->name);
    clip->attr.grad_clip.clip_norm = norm->attr.grad_norm.clip_norm;
    clip->in[0] = all;
}

/* Append the gathers of the updated parameters. */
static void append_params(struct sharder *x)
{
    static const char name[] = "parameters of all shards";
    struct lvn_program *p = x->p;
    struct collective *s = new_collectives(x);
    int n = 0;
    for (int block = -2; s && next_block(x, &block); n++) {
        const struct lvn_param_block *b = block_at(x, block);
        const struct lvn_shard shard = shard_of(x, block);
        struct lvn_operand mine = LVN_NO_OPERAND;
        if (shard.count > 0) mine = range(x, "parameters", LVN_BUFFER_PARAM, p->weights, shard.first, shard.count);
        const struct lvn_operand all = range(x, "parameters", LVN_BUFFER_PARAM, p->weights, b->offset, b->count);
        s[n] = append_collective(x, LVN_OP_all_gather, LVN_AFTER_BACKWARD, mine, all, name);
        latest(x)->attr.all_gather.block = block;
    }
    for (int k = 0; k < n; k++) append_wait(x, &s[k], name);
}

static void append_one(struct sharder *x, const struct lvn_instr *i)
{
    bool update = i->when == LVN_AFTER_BACKWARD;
    if (update && is_sharded(x) && i->id == LVN_OP_grad_norm)
        append_norm(x, i);
    else if (update && is_sharded(x))
        append_update(x, *i);
    else
        *append(x, i->id, i->when, i->name) = *i;
}

enum lvn_status lvn_pass_shard(struct lvn_program *p, const struct lvn_sharding *s)
{
    const int n = p->n_instrs;
    if (s->size == 1) return LVN_OK;
    struct sharder x = {.p = p, .s = s};
    if (!s->tree) LVN_TRY(find_buckets(&x));
    struct lvn_instr *old = lvn_arena_alloc(&p->arena, sizeof *old * (size_t)(n + 1));
    if (!old) return LVN_MEMORY;
    memcpy(old, p->instrs, sizeof *old * (size_t)n);
    p->n_instrs = 0;
    for (int i = 0, next = 0, summed = 0; i <= n && !x.failed; i++) {
        bool behind = i == n || old[i].when == LVN_AFTER_BACKWARD;
        for (; next < x.n_buckets && (x.bucket[next].ready < i || behind); next++) append_start(&x, &x.bucket[next]);
        if (behind && !summed++) {
            for (int b = 0; b < x.n_buckets; b++) append_end(&x, &x.bucket[b]);
            if (s->tree) append_tree(&x);
        }
        if (i < n) append_one(&x, &old[i]);
    }
    if (is_sharded(&x)) append_params(&x);
    return x.failed ? LVN_MEMORY : LVN_OK;
}

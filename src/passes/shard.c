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
 * the flat buffer is cut into one shard for each rank. A rank receives the sum of its shard's gradients only, has the
 * optimizer state of its shard only, updates that, and receives the other parameters from their owners. For the norm,
 * ranks exchange the sums of squares of their blocks, and each adds them in the order of the plain norm.
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
    int ready;      /* the instruction behind which the reduction starts; -1: at the start of the program */
    struct lvn_operand gradient;
    struct collective collective; /* on the gradient, or on a copy in bf16 */
};

struct sharder {
    struct lvn_program *p;
    const struct lvn_sharding *s;
    int64_t first; /* this rank's shard, in elements of the flat buffers */
    int64_t end;
    struct bucket *bucket;
    int n_buckets;
    bool failed; /* out of memory */
};

int64_t lvn_shard_first(const struct lvn_params *params, int size, int rank)
{
    int64_t count = params->trainable_count;
    int64_t first = lvn_norm_blocks(count) * rank / size * LVN_NORM_BLOCK;
    return first < count ? first : count;
}

struct lvn_shard lvn_shard_at(const struct lvn_params *params, int block, int size, int rank)
{
    const struct lvn_param_block *b = &params->blocks[block + 1];
    int64_t first = lvn_shard_first(params, size, rank), end = lvn_shard_first(params, size, rank + 1);
    if (first < b->offset) first = b->offset;
    if (end > b->offset + b->count) end = b->offset + b->count;
    return (struct lvn_shard){first, end > first ? end - first : 0};
}

int64_t lvn_shard_total(const struct lvn_params *params, int size, int rank)
{
    return lvn_shard_first(params, size, rank + 1) - lvn_shard_first(params, size, rank);
}

int64_t lvn_shard_place(const struct lvn_params *params, int size, int rank, int block, int64_t element)
{
    (void)block; /* its shards follow those of the block before without a gap */
    return element - lvn_shard_first(params, size, rank);
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

/* All ranks receive all of `all`, of which this rank has `mine` (NO_OPERAND: nothing). */
static void append_gather(struct sharder *x, struct lvn_operand mine, struct lvn_operand all, int64_t unit,
                          const char *name)
{
    struct collective s = append_collective(x, LVN_OP_all_gather, LVN_AFTER_BACKWARD, mine, all, name);
    latest(x)->attr.all_gather.unit = unit;
    append_wait(x, &s, name);
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
 * completes the last block first. Returns their number. */
static int cut_buckets(const struct lvn_program *p, const int *last_writer, int64_t bytes, struct bucket *out)
{
    const struct lvn_params *params = p->graph->params;
    struct bucket b = {.offset = params->trainable_count, .ready = -1};
    int n = 0;
    for (int i = params->n - 1; i >= 0; i--) {
        const struct lvn_param *q = params->flat[i];
        if (!q->trainable) continue;
        int writer = last_writer[q->number];
        b.count += b.offset - q->offset;
        b.offset = q->offset;
        if (writer > b.ready) b.ready = writer;
        if (b.count * lvn_dtype_bytes(p->gradients) < bytes && q->offset > 0) continue;
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
    x->n_buckets = cut_buckets(x->p, last_writer, bucket_bytes(x->p), x->bucket);
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
    latest(x)->attr.reduce_scatter.first = b->offset;
    latest(x)->attr.reduce_scatter.unit = 1;
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

static void append_tree(struct sharder *x)
{
    struct lvn_program *p = x->p;
    static const char name[] = "sum of the gradients";
    int64_t count = p->graph->params->trainable_count;
    struct lvn_operand slots = range(x, "gradients", LVN_BUFFER_GRAD, p->gradients, 0, p->n_grad_buffers * count);
    struct lvn_operand sum = range(x, "gradients", LVN_BUFFER_GRAD, p->gradients, 0, count);
    struct collective s = append_collective(x, LVN_OP_tree_reduce, LVN_AFTER_BACKWARD, slots, sum, name);
    latest(x)->attr.tree_reduce.scatter = is_sharded(x);
    append_wait(x, &s, name);
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

/* Append the part of an update instruction that lies in this rank's shard, if any. The optimizer state's buffers hold
 * the shard only: their offsets count from its start. */
static void append_update(struct sharder *x, struct lvn_instr i)
{
    struct lvn_program *p = x->p;
    int64_t begin = p->values[i.in[0].value].offset / lvn_dtype_bytes(p->gradients);
    int64_t end = begin + lvn_desc_count(&i.in[0].desc);
    if (begin < x->first) begin = x->first;
    if (end > x->end) end = x->end;
    if (end <= begin) return;
    cut(p, &i.in[0], begin, end - begin);
    cut(p, &i.out[0], begin, end - begin);
    for (int k = 1; k < LVN_MAX_OUT; k++) cut(p, &i.out[k], begin - x->first, end - begin);
    i.attr.update.first = begin;
    *append(x, i.id, i.when, i.name) = i;
}

/* Append the norm of all gradients: sums of squares of the shard's blocks, a gather of all ranks' sums, and the total.
 */
static void append_norm(struct sharder *x, const struct lvn_instr *norm)
{
    int64_t blocks = lvn_norm_blocks(x->p->graph->params->trainable_count), mine = lvn_norm_blocks(x->end - x->first);
    struct lvn_operand all = range(x, "sums of squares", LVN_BUFFER_ARENA, LVN_F64, 0, blocks), part = LVN_NO_OPERAND;
    if (mine > 0) {
        part = all;
        part.desc = lvn_desc_make(LVN_F64, 1, &mine);
        part.desc.offset = x->first / LVN_NORM_BLOCK;
        struct lvn_instr *squares = append(x, LVN_OP_grad_squares, LVN_AFTER_BACKWARD, "squares of the shard");
        squares->in[0] = norm->in[0];
        cut(x->p, &squares->in[0], x->first, x->end - x->first);
        squares->out[0] = part;
    }
    append_gather(x, part, all, LVN_NORM_BLOCK, "squares of all shards");
    struct lvn_instr *clip = append(x, LVN_OP_grad_clip, LVN_AFTER_BACKWARD, norm->name);
    clip->attr.grad_clip.clip_norm = norm->attr.grad_norm.clip_norm;
    clip->in[0] = all;
}

/* Append the gather of the updated parameters. */
static void append_params(struct sharder *x)
{
    struct lvn_program *p = x->p;
    struct lvn_operand mine = LVN_NO_OPERAND;
    int64_t count = p->graph->params->trainable_count;
    if (x->end > x->first) mine = range(x, "parameters", LVN_BUFFER_PARAM, p->weights, x->first, x->end - x->first);
    append_gather(x, mine, range(x, "parameters", LVN_BUFFER_PARAM, p->weights, 0, count), 1,
                  "parameters of all shards");
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
    struct sharder x = {.p = p,
                        .s = s,
                        .first = lvn_shard_first(p->graph->params, s->size, s->rank),
                        .end = lvn_shard_first(p->graph->params, s->size, s->rank + 1)};
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

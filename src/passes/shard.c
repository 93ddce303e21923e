/* shard.c - divides a training program over ranks: what they do together, and where.
 *
 * Every rank runs the same program on its part of the batch. Gradients are cut into buckets: ranges of the flat buffer,
 * numbered in the order in which backward finishes them. The reduction of a bucket starts behind the instruction that
 * writes its last gradient, in the last micro-batch, and the rest of backward runs beside it; before the norm stands a
 * wait for each. With trainer.reduce_dtype bf16 a rounded copy travels, and is widened into the gradient again. With
 * trainer.deterministic there are no buckets: the sums of whole subtrees that each rank holds after its last
 * micro-batch are added in the order of the tree over all micro-batches.
 *
 * zero1 (Rajbhandari et al.: "ZeRO: memory optimizations toward training trillion parameter models", 2020, stage 1):
 * the flat buffer is cut into one shard a rank. Each rank gets the sum of its shard's gradients only, keeps the
 * optimizer's state for its shard only, updates that, and gets the other parameters from their owners. The norm needs
 * all: ranks exchange the sums of squares of their blocks, which are then added as the plain norm adds them.
 *
 * All of it is instructions with operands like any others: what is in flight is a value, which lives until its wait, so
 * the place pass gives it its room. The list is written anew: what was there, with these between.
 *
 * Left out: gradients and parameters in shards. */
#include <string.h>

#include "passes/program.h"

enum {
    MIN_BYTES = 1 << 18,  /* of a bucket: below it a message costs its latency */
    MAX_BYTES = 16 << 20, /* more would only put off its start */
    PER_PROGRAM = 16,     /* buckets that a smaller model is cut into */
};

/* A collective that is started on `what`; a wait reads its token. */
struct started {
    int number;
    struct lvn_operand token, what;
};

/* A range of the flat gradients that is reduced in one piece. */
struct bucket {
    int64_t offset, count; /* elements */
    int ready;             /* the instruction behind which it starts; -1: at once */
    struct lvn_operand gradient;
    struct started started; /* on the gradient, or on a copy in bf16 */
};

struct sharder {
    struct lvn_program *p;
    const struct lvn_sharding *s;
    int64_t first, end; /* this rank's shard */
    struct bucket *bucket;
    int n_buckets;
    bool failed; /* memory */
};

int64_t lvn_shard_first(const struct lvn_params *params, int size, int rank)
{
    int64_t count = params->trainable_count;
    int64_t first = lvn_norm_blocks(count) * rank / size * LVN_NORM_BLOCK;
    return first < count ? first : count;
}

/* --- the list --- */

static _Thread_local struct lvn_instr spare; /* for where memory failed, so that nobody need ask */

/* A new instruction at the end of the list; the pointer is good until the next one. */
static struct lvn_instr *append(struct sharder *x, enum lvn_op_id id, enum lvn_when when, const char *name)
{
    struct lvn_instr *i = lvn_program_add_instr(x->p, id, LVN_FORWARD);
    if (!i) x->failed = true, i = &spare;
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

static struct started append_collective(struct sharder *x, enum lvn_op_id id, enum lvn_when when, struct lvn_operand in,
                                        struct lvn_operand what, const char *name)
{
    struct started s = {.number = x->p->n_tokens++, .what = what};
    s.token = range(x, "token", LVN_BUFFER_ARENA, LVN_I32, 0, 1);
    struct lvn_instr *i = append(x, id, when, name);
    i->token = s.number;
    i->in[0] = in;
    i->out[0] = what;
    i->out[1] = s.token;
    return s;
}

static void append_wait(struct sharder *x, const struct started *s, const char *name)
{
    struct lvn_instr *i = append(x, LVN_OP_wait, LVN_AFTER_BACKWARD, name);
    i->token = s->number;
    i->in[0] = s->token;
    i->out[0] = s->what;
}

static struct lvn_instr *latest(const struct sharder *x)
{
    return x->failed ? &spare : &x->p->instrs[x->p->n_instrs - 1];
}

/* Every rank gets all of `all`, of which it holds `mine` (NO_OPERAND: nothing). */
static void append_gather(struct sharder *x, struct lvn_operand mine, struct lvn_operand all, int64_t unit,
                          const char *name)
{
    struct started s = append_collective(x, LVN_OP_all_gather, LVN_AFTER_BACKWARD, mine, all, name);
    latest(x)->attr.all_gather.unit = unit;
    append_wait(x, &s, name);
}

/* --- buckets --- */

/* By parameter's number: the instruction that writes its gradient last; -1: none does. NULL: memory. */
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

/* Cut the gradients from their end, which is the last block's, into ranges of about `bytes`, between parameters. */
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

/* In the order in which they are ready; equal ones stay in theirs. */
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
        struct lvn_instr *narrow = append(x, LVN_OP_narrow, LVN_LAST_MICRO_BATCH, name);
        narrow->in[0] = b->gradient;
        narrow->out[0] = wire;
    }
    b->started = append_collective(x, x->s->zero1 ? LVN_OP_reduce_scatter : LVN_OP_all_reduce, LVN_LAST_MICRO_BATCH,
                                   wire, wire, name);
    if (!x->s->zero1) return;
    latest(x)->attr.reduce_scatter.first = b->offset;
    latest(x)->attr.reduce_scatter.unit = 1;
}

static void append_end(struct sharder *x, const struct bucket *b)
{
    append_wait(x, &b->started, "sum of a bucket");
    if (b->started.what.value == b->gradient.value) return;
    struct lvn_instr *widen = append(x, LVN_OP_widen, LVN_AFTER_BACKWARD, "sum of a bucket");
    widen->in[0] = b->started.what;
    widen->out[0] = b->gradient;
}

/* --- in order --- */

static void append_tree(struct sharder *x)
{
    struct lvn_program *p = x->p;
    static const char name[] = "sum of the gradients";
    int64_t count = p->graph->params->trainable_count;
    struct lvn_operand slots = range(x, "gradients", LVN_BUFFER_GRAD, p->gradients, 0, p->n_grad_buffers * count);
    struct lvn_operand sum = range(x, "gradients", LVN_BUFFER_GRAD, p->gradients, 0, count);
    struct started s = append_collective(x, LVN_OP_tree_reduce, LVN_AFTER_BACKWARD, slots, sum, name);
    latest(x)->attr.tree_reduce.scatter = x->s->zero1;
    append_wait(x, &s, name);
}

/* --- the update --- */

/* The part of an update's operand that lies in the shard; state is counted from the shard's start. */
static void cut(struct lvn_program *p, struct lvn_operand *o, int64_t offset, int64_t count)
{
    if (o->value < 0) return;
    struct lvn_value *v = &p->values[o->value];
    v->offset = offset * lvn_dtype_bytes(v->dtype);
    v->bytes = count * lvn_dtype_bytes(v->dtype);
    o->desc = lvn_desc_make(v->dtype, 1, &count);
}

/* The update instruction for this rank's shard, if anything of it is there. */
static void append_update(struct sharder *x, struct lvn_instr i)
{
    struct lvn_program *p = x->p;
    int64_t from = p->values[i.in[0].value].offset / lvn_dtype_bytes(p->gradients);
    int64_t to = from + lvn_desc_count(&i.in[0].desc);
    if (from < x->first) from = x->first;
    if (to > x->end) to = x->end;
    if (to <= from) return;
    cut(p, &i.in[0], from, to - from);
    cut(p, &i.out[0], from, to - from);
    for (int k = 1; k < LVN_MAX_OUT; k++) cut(p, &i.out[k], from - x->first, to - from);
    if (i.id == LVN_OP_adamw) i.attr.adamw.first = from;
    if (i.id == LVN_OP_sgd) i.attr.sgd.first = from;
    *append(x, i.id, i.when, i.name) = i;
}

/* The norm of all gradients from the shard's: its blocks' sums of squares, everybody's, and their sum. */
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
    if (update && x->s->zero1 && i->id == LVN_OP_grad_norm)
        append_norm(x, i);
    else if (update && x->s->zero1)
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
    if (s->zero1) append_params(&x);
    return x.failed ? LVN_MEMORY : LVN_OK;
}

/* shard.c - divides a training program over ranks: what they do together, and where.
 *
 * Every rank runs the same program on its part of the batch. Gradients are cut into buckets: ranges of the flat buffer,
 * numbered in the order in which backward finishes them. The reduction of a bucket starts behind the instruction that
 * writes its last gradient, in the last micro-batch, and the rest of backward runs beside it; before the norm one
 * instruction waits for all. With trainer.deterministic there are no buckets: the sums of whole subtrees that each rank
 * holds after its last micro-batch are added in the order of the tree over all micro-batches.
 *
 * zero1 (Rajbhandari et al.: "ZeRO: memory optimizations toward training trillion parameter models", 2020, stage 1):
 * the flat buffer is cut into one shard a rank. Each rank gets the sum of its shard's gradients only, keeps the
 * optimizer's state for its shard only, updates that, and gets the other parameters from their owners. The norm needs
 * all: ranks exchange the sums of squares of their blocks, which are then added as the plain norm adds them.
 *
 * Left out: gradients and parameters in shards. */
#include <string.h>

#include "passes/program.h"

enum {
    LEAST_BYTES = 1 << 18, /* of a bucket: below it a message costs its latency */
    MOST_BYTES = 16 << 20, /* more would only put off its start */
    PER_PROGRAM = 16,      /* buckets that a smaller model is cut into */
};

int64_t lvn_shard_first(const struct lvn_params *params, int size, int rank)
{
    int64_t count = params->trainable_count;
    int64_t first = lvn_norm_blocks(count) * rank / size * LVN_NORM_BLOCK;
    return first < count ? first : count;
}

static struct lvn_instr *add_collective(struct lvn_program *p, enum lvn_collective what, enum lvn_when when,
                                        const char *name)
{
    static const struct lvn_op no_op = {.name = "together"};
    struct lvn_instr *i = lvn_program_add_instr(p, LVN_OP_add, LVN_FORWARD);
    if (!i) return NULL;
    i->op = &no_op;
    i->collective = what;
    i->when = when;
    i->name = name;
    return i;
}

/* --- buckets --- */

/* Parameter -> the instruction that writes its gradient last; -1: none does. */
static int last_writer(const struct lvn_program *p, const struct lvn_param *q)
{
    for (int n = p->n_instrs - 1; n >= 0; n--)
        for (int k = 0; k < LVN_MAX_IN; k++) {
            int v = p->instrs[n].din[k].value;
            if (v >= 0 && p->values[v].buffer == LVN_BUFFER_GRAD && p->values[v].param == q) return n;
        }
    return -1;
}

struct cut {
    struct lvn_bucket bucket;
    int ready; /* the instruction behind which it starts; -1: at once */
};

/* Cut the gradients from their end, which is the last block's, into ranges of about `bytes`, between parameters. */
static int cut_buckets(const struct lvn_program *p, int64_t bytes, struct cut *cuts)
{
    const struct lvn_params *params = p->graph->params;
    struct cut c = {.bucket = {params->trainable_count, 0}, .ready = -1};
    int n = 0;
    for (int i = params->n - 1; i >= 0; i--) {
        const struct lvn_param *q = params->flat[i];
        if (!q->trainable) continue;
        int writer = last_writer(p, q);
        c.bucket = (struct lvn_bucket){q->offset, c.bucket.offset + c.bucket.count - q->offset};
        if (writer > c.ready) c.ready = writer;
        if (c.bucket.count * lvn_dtype_bytes(p->gradients) < bytes && q->offset > 0) continue;
        cuts[n++] = c;
        c = (struct cut){.bucket = {q->offset, 0}, .ready = -1};
    }
    return n;
}

static int64_t bucket_bytes(const struct lvn_program *p)
{
    int64_t bytes = p->graph->params->trainable_count * lvn_dtype_bytes(p->gradients) / PER_PROGRAM;
    return bytes < LEAST_BYTES ? LEAST_BYTES : bytes > MOST_BYTES ? MOST_BYTES : bytes;
}

/* In the order in which they are ready; equal ones stay in theirs. */
static void sort_cuts(struct cut *cuts, int n)
{
    for (int i = 1; i < n; i++) {
        struct cut c = cuts[i];
        int k = i;
        for (; k > 0 && cuts[k - 1].ready > c.ready; k--) cuts[k] = cuts[k - 1];
        cuts[k] = c;
    }
}

/* Append the starts, then put each behind the instruction that it waits for. */
static enum lvn_status insert_starts(struct lvn_program *p, const struct cut *cuts, int n)
{
    int n_before = p->n_instrs, to = 0;
    for (int i = 0; i < n; i++) {
        struct lvn_instr *start = add_collective(p, LVN_REDUCE_START, LVN_LAST_MICRO_BATCH, "sum of a bucket");
        if (!start) return LVN_MEMORY;
        start->bucket = i;
    }
    struct lvn_instr *list = lvn_arena_alloc(&p->arena, sizeof *list * (size_t)p->n_instrs);
    if (!list) return LVN_MEMORY;
    for (int i = 0, next = 0; i <= n_before; i++) {
        for (; next < n && (cuts[next].ready < i || i == n_before); next++) list[to++] = p->instrs[n_before + next];
        if (i < n_before) list[to++] = p->instrs[i];
    }
    memcpy(p->instrs, list, sizeof *list * (size_t)to);
    return LVN_OK;
}

static enum lvn_status add_buckets(struct lvn_program *p)
{
    int most = p->graph->params->n;
    struct cut *cuts = lvn_arena_alloc(&p->arena, sizeof *cuts * (size_t)(most + 1));
    p->buckets = lvn_arena_alloc(&p->arena, sizeof *p->buckets * (size_t)(most + 1));
    if (!cuts || !p->buckets) return LVN_MEMORY;
    p->n_buckets = cut_buckets(p, bucket_bytes(p), cuts);
    sort_cuts(cuts, p->n_buckets);
    for (int i = 0; i < p->n_buckets; i++) p->buckets[i] = cuts[i].bucket;
    return insert_starts(p, cuts, p->n_buckets);
}

/* --- the update --- */

/* The part of an update's operand that lies in the shard; state is counted from the shard's start. */
static void narrow(struct lvn_program *p, struct lvn_operand *o, int64_t offset, int64_t count)
{
    if (o->value < 0) return;
    struct lvn_value *v = &p->values[o->value];
    v->offset = offset * lvn_dtype_bytes(v->dtype);
    v->bytes = count * lvn_dtype_bytes(v->dtype);
    o->desc = lvn_desc_make(v->dtype, 1, &count);
}

/* Bring an update instruction into the shard [first, end); false: nothing of it is there. */
static bool narrow_update(struct lvn_program *p, struct lvn_instr *i, int64_t first, int64_t end)
{
    int64_t from = p->values[i->in[0].value].offset / lvn_dtype_bytes(p->gradients);
    int64_t to = from + lvn_desc_count(&i->in[0].desc);
    if (from < first) from = first;
    if (to > end) to = end;
    if (to <= from) return false;
    narrow(p, &i->in[0], from, to - from);
    narrow(p, &i->out[0], from, to - from);
    for (int k = 1; k < LVN_MAX_OUT; k++) narrow(p, &i->out[k], from - first, to - from);
    if (i->id == LVN_OP_adamw) i->attr.adamw.first = from;
    if (i->id == LVN_OP_sgd) i->attr.sgd.first = from;
    return true;
}

/* The norm of all gradients from the shard's: its blocks' sums of squares, everybody's, and their sum. */
static enum lvn_status add_norm(struct lvn_program *p, const struct lvn_instr *norm, const struct lvn_sharding *s)
{
    const struct lvn_params *params = p->graph->params;
    int64_t first = lvn_shard_first(params, s->size, s->rank), end = lvn_shard_first(params, s->size, s->rank + 1);
    int64_t blocks = lvn_norm_blocks(params->trainable_count), mine = lvn_norm_blocks(end - first);
    int sums = lvn_program_add_value(p, "sums of squares", LVN_BUFFER_ARENA, LVN_F64, blocks);
    if (sums < 0) return LVN_MEMORY;
    struct lvn_instr i = *norm;
    if (mine > 0) {
        struct lvn_instr *squares = lvn_program_add_instr(p, LVN_OP_grad_squares, LVN_FORWARD);
        if (!squares) return LVN_MEMORY;
        squares->when = LVN_AFTER_BACKWARD;
        squares->name = "squares of the shard";
        squares->in[0] = i.in[0];
        narrow(p, &squares->in[0], first, end - first);
        squares->out[0] = (struct lvn_operand){.value = sums, .desc = lvn_desc_make(LVN_F64, 1, &mine)};
        squares->out[0].desc.offset = first / LVN_NORM_BLOCK;
    }
    struct lvn_operand all = {.value = sums, .desc = lvn_desc_make(LVN_F64, 1, &blocks)};
    struct lvn_instr *share = add_collective(p, LVN_SHARE_SQUARES, LVN_AFTER_BACKWARD, "squares of all shards");
    if (!share) return LVN_MEMORY;
    share->in[0] = all;
    struct lvn_instr *clip = lvn_program_add_instr(p, LVN_OP_grad_clip, LVN_FORWARD);
    if (!clip) return LVN_MEMORY;
    clip->when = LVN_AFTER_BACKWARD;
    clip->name = i.name;
    clip->attr.grad_clip.clip_norm = i.attr.grad_norm.clip_norm;
    clip->in[0] = all;
    return LVN_OK;
}

/* Write the update instructions [from, to) anew behind them, each in its shard, and drop the old ones. */
static enum lvn_status shard_update(struct lvn_program *p, int from, int to, const struct lvn_sharding *s)
{
    const struct lvn_params *params = p->graph->params;
    int64_t first = lvn_shard_first(params, s->size, s->rank), end = lvn_shard_first(params, s->size, s->rank + 1);
    for (int n = from; n < to; n++) {
        struct lvn_instr i = p->instrs[n]; /* a copy: appending moves the list */
        if (i.id == LVN_OP_grad_norm) {
            LVN_TRY(add_norm(p, &i, s));
        } else if (narrow_update(p, &i, first, end)) {
            struct lvn_instr *update = lvn_program_add_instr(p, i.id, i.phase);
            if (!update) return LVN_MEMORY;
            *update = i;
        }
    }
    if (!add_collective(p, LVN_GATHER_PARAMS, LVN_AFTER_BACKWARD, "parameters of all shards")) return LVN_MEMORY;
    memmove(&p->instrs[from], &p->instrs[to], sizeof *p->instrs * (size_t)(p->n_instrs - to));
    p->n_instrs -= to - from;
    return LVN_OK;
}

enum lvn_status lvn_pass_shard(struct lvn_program *p, const struct lvn_sharding *s)
{
    int update = 0;
    if (s->size == 1) return LVN_OK;
    if (!s->tree) LVN_TRY(add_buckets(p));
    while (update < p->n_instrs && p->instrs[update].when != LVN_AFTER_BACKWARD) update++;
    if (!add_collective(p, s->tree ? LVN_REDUCE_TREE : LVN_REDUCE_WAIT, LVN_AFTER_BACKWARD, "sum of the gradients"))
        return LVN_MEMORY;
    struct lvn_instr wait = p->instrs[p->n_instrs - 1];
    memmove(&p->instrs[update + 1], &p->instrs[update], sizeof wait * (size_t)(p->n_instrs - 1 - update));
    p->instrs[update] = wait;
    return s->zero1 ? shard_update(p, update + 1, p->n_instrs, s) : LVN_OK;
}

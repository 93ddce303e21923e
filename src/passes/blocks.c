/* blocks.c - keeps what goes into the blocks of a model, and runs each block's forward again for its backward.
 *
 * Of what a block computes only that stays until backward which another block reads. The rest dies in the forward part;
 * before backward first reads such a value, the instructions that made it are put into the list once more, back to
 * values that were kept. So backward holds the inputs of all blocks and the inside of one. Where an operation restores
 * a value that crosses to the next block from others that are smaller or kept anyway (a layer norm from its input, mean
 * and rstd), those are kept instead. The last block is left as it is: its backward comes first.
 *
 * The instructions are the same, on the same numbers: dropout's masks hang on the operation's name, the step and the
 * sample, and training does not change by a bit. A third more arithmetic buys the memory.
 * (Chen, Xu, Zhang, Guestrin: "Training deep nets with sublinear memory cost", 2016.) */
#include <string.h>

#include "passes/program.h"

struct blocks {
    struct lvn_program *p;
    struct lvn_instr *old;      /* the list as it was; n_forward of it are forward */
    int n_old, n_forward, last; /* last: number of the last block */
    int *maker;                 /* value -> forward instruction that writes it; -1 */
    bool *kept;                 /* value -> backward finds it */
    int *second;                /* value -> where it is made again; -1: not yet */
};

static bool in_arena(const struct blocks *b, int v)
{
    return v >= 0 && b->p->values[v].buffer == LVN_BUFFER_ARENA;
}

static void find_makers(struct blocks *b)
{
    b->last = -1;
    for (int v = 0; v < b->p->n_values; v++) b->maker[v] = b->second[v] = -1;
    for (int n = 0; n < b->n_forward; n++) {
        if (b->old[n].block > b->last) b->last = b->old[n].block;
        for (int k = 0; k < LVN_MAX_OUT; k++)
            if (in_arena(b, b->old[n].out[k].value)) b->maker[b->old[n].out[k].value] = n;
    }
    for (int v = 0; v < b->p->n_values; v++) {
        int block = b->maker[v] < 0 ? -1 : b->old[b->maker[v]].block;
        b->kept[v] = block < 0 || block == b->last || b->p->values[v].keep;
    }
}

static bool can_restore(const struct lvn_op *op, int k)
{
    return k < op->n_out && op->restores && !(op->restores & LVN_READS_OUT(k));
}

/* Calls visit() for each value of the arena that restoring an output of instruction i reads. */
static void restored_from(struct blocks *b, const struct lvn_instr *i,
                          void (*visit)(struct blocks *b, int v, void *sum), void *sum)
{
    for (int k = 0; k < LVN_MAX_IN; k++)
        if (i->op->restores & LVN_READS_IN(k) && in_arena(b, i->in[k].value)) visit(b, i->in[k].value, sum);
    for (int k = 0; k < LVN_MAX_OUT; k++)
        if (i->op->restores & LVN_READS_OUT(k) && in_arena(b, i->out[k].value)) visit(b, i->out[k].value, sum);
}

static void add_missing(struct blocks *b, int v, void *sum)
{
    if (!b->kept[v] && b->second[v] < 0) *(int64_t *)sum += b->p->values[v].bytes;
}

static void keep(struct blocks *b, int v, void *sum)
{
    (void)sum;
    b->kept[v] = true;
}

/* Bytes that would have to be kept so that an output of i can be restored. */
static int64_t missing(struct blocks *b, const struct lvn_instr *i)
{
    int64_t bytes = 0;
    restored_from(b, i, add_missing, &bytes);
    return bytes;
}

/* What crosses from a block to another is kept, or what it can be restored from. */
static void keep_crossing(struct blocks *b)
{
    for (int n = 0; n < b->n_forward; n++)
        for (int k = 0; k < LVN_MAX_IN; k++) {
            int v = b->old[n].in[k].value;
            if (in_arena(b, v) && b->maker[v] >= 0 && b->old[b->maker[v]].block != b->old[n].block) b->kept[v] = true;
        }
    for (int n = 0; n < b->n_forward; n++) {
        const struct lvn_instr *i = &b->old[n];
        for (int k = 0; k < LVN_MAX_OUT; k++) {
            int v = i->out[k].value;
            if (!in_arena(b, v) || !b->kept[v] || b->p->values[v].keep || !can_restore(i->op, k)) continue;
            if (i->block < 0 || i->block == b->last || missing(b, i) >= b->p->values[v].bytes) continue;
            restored_from(b, i, keep, NULL);
            b->kept[v] = false;
        }
    }
}

static int now(const struct blocks *b, int v)
{
    return v >= 0 && !b->kept[v] ? b->second[v] : v;
}

static int another(struct blocks *b, int v)
{
    const struct lvn_value of = b->p->values[v];
    return lvn_program_add_value(b->p, of.name, LVN_BUFFER_ARENA, of.dtype, of.bytes / lvn_dtype_bytes(of.dtype));
}

/* Drops the operands that restoring output k does not touch. */
static void to_restore(struct lvn_instr *i, int k)
{
    i->phase = LVN_RESTORE;
    for (int j = 0; j < LVN_MAX_IN; j++)
        if (!(i->op->restores & LVN_READS_IN(j))) i->in[j] = LVN_NO_OPERAND;
    for (int j = 0; j < LVN_MAX_OUT; j++)
        if (j != k && !(i->op->restores & LVN_READS_OUT(j))) i->out[j] = LVN_NO_OPERAND;
}

/* Appends what makes value v once more, unless it is there. */
static enum lvn_status make_again(struct blocks *b, int v)
{
    if (v < 0 || b->kept[v] || b->second[v] >= 0) return LVN_OK;
    struct lvn_instr i = b->old[b->maker[v]];
    int which = 0;
    i.recomputed = true;
    while (i.out[which].value != v) which++;
    bool restores = can_restore(i.op, which) && missing(b, &i) == 0;
    if (restores) to_restore(&i, which);
    for (int k = 0; k < LVN_MAX_IN; k++) {
        LVN_TRY(make_again(b, i.in[k].value));
        i.in[k].value = now(b, i.in[k].value);
    }
    for (int k = 0; k < LVN_MAX_OUT; k++) {
        int out = i.out[k].value;
        if (out < 0) continue;
        i.out[k].value = restores && k != which ? now(b, out) : another(b, out);
        if (i.out[k].value < 0) return LVN_MEMORY;
        if (!restores || k == which) b->second[out] = i.out[k].value;
    }
    struct lvn_instr *last = lvn_program_add_instr(b->p, i.id, i.phase);
    if (!last) return LVN_MEMORY;
    *last = i;
    return LVN_OK;
}

static enum lvn_status rewrite(struct blocks *b)
{
    b->p->n_instrs = b->n_forward;
    for (int n = b->n_forward; n < b->n_old; n++) {
        struct lvn_instr i = b->old[n];
        for (int k = 0; k < LVN_MAX_IN; k++) {
            LVN_TRY(make_again(b, i.in[k].value));
            i.in[k].value = now(b, i.in[k].value);
        }
        for (int k = 0; k < LVN_MAX_OUT && i.phase == LVN_BACKWARD && !i.op->gradient_in_forward; k++) {
            LVN_TRY(make_again(b, i.out[k].value));
            i.out[k].value = now(b, i.out[k].value);
        }
        struct lvn_instr *last = lvn_program_add_instr(b->p, i.id, i.phase);
        if (!last) return LVN_MEMORY;
        *last = i;
    }
    return LVN_OK;
}

enum lvn_status lvn_pass_blocks(struct lvn_program *p)
{
    size_t n = (size_t)p->n_values + 1;
    struct blocks b = {.p = p,
                       .old = lvn_arena_alloc(&p->arena, sizeof *b.old * (size_t)(p->n_instrs + 1)),
                       .n_old = p->n_instrs,
                       .n_forward = lvn_program_first_backward(p),
                       .maker = lvn_arena_alloc(&p->arena, sizeof *b.maker * n),
                       .kept = lvn_arena_alloc(&p->arena, sizeof *b.kept * n),
                       .second = lvn_arena_alloc(&p->arena, sizeof *b.second * n)};
    if (!b.old || !b.maker || !b.kept || !b.second) return LVN_MEMORY;
    p->recompute = LVN_RECOMPUTE_BLOCKS;
    memcpy(b.old, p->instrs, sizeof *b.old * (size_t)p->n_instrs);
    find_makers(&b);
    keep_crossing(&b);
    return rewrite(&b);
}

/* blocks.c - the pass for activation checkpointing: it retains the inputs of a model's blocks and recomputes each
 * block's forward pass before its backward pass (trainer.recompute: blocks).
 *
 * Values that another block reads are retained until backward. The other values of a block are freed in the forward
 * part. Before backward first reads one of them, the instructions that compute it from retained values are appended
 * again. So backward needs the inputs of all blocks and the activations of one block. If an operation can restore a
 * value that another block reads from values that are smaller or retained anyway (a layer norm from its input, mean and
 * rstd), those are retained instead. The last block is not recomputed, because its backward runs first.
 *
 * Recomputation is bitwise identical: dropout masks depend on the operation's name, the step and the sample. It costs a
 * third more arithmetic.
 * (Chen, Xu, Zhang, Guestrin: "Training deep nets with sublinear memory cost", 2016.) */

#include "passes/pass.h"

struct blocks {
    struct lvn_program *p;
    struct lvn_instr *old; /* the instruction list before the pass */
    int n_old;
    int n_forward;  /* number of its forward instructions, which come first */
    int last;       /* number of the last block */
    int *maker;     /* value -> forward instruction that writes it; -1: none */
    bool *retained; /* value -> kept until backward */
    int *copy;      /* value -> the value into which it is recomputed; -1: not yet */
};

static bool in_arena(const struct blocks *b, int v)
{
    return v >= 0 && b->p->values[v].buffer == LVN_BUFFER_ARENA;
}

static void find_makers(struct blocks *b)
{
    b->last = -1;
    for (int v = 0; v < b->p->n_values; v++) b->maker[v] = b->copy[v] = -1;
    for (int n = 0; n < b->n_forward; n++) {
        if (b->old[n].block > b->last) b->last = b->old[n].block;
        for (int k = 0; k < LVN_MAX_OUT; k++)
            if (in_arena(b, b->old[n].out[k].value)) b->maker[b->old[n].out[k].value] = n;
    }
    for (int v = 0; v < b->p->n_values; v++) {
        int block = b->maker[v] < 0 ? -1 : b->old[b->maker[v]].block;
        b->retained[v] = block < 0 || block == b->last || b->p->values[v].keep;
    }
}

static bool can_restore(const struct lvn_op *op, int k)
{
    return k < op->n_out && op->restores && !(op->restores & LVN_READS_OUT(k));
}

/* Call visit() for each arena value that is read to restore an output of instruction i. */
static void restored_from(struct blocks *b, const struct lvn_instr *i,
                          void (*visit)(struct blocks *b, int v, void *sum), void *sum)
{
    for (int k = 0; k < LVN_MAX_IN; k++)
        if (i->op->restores & LVN_READS_IN(k) && in_arena(b, i->in[k].value)) visit(b, i->in[k].value, sum);
    for (int k = 0; k < LVN_MAX_OUT; k++)
        if (i->op->restores & LVN_READS_OUT(k) && in_arena(b, i->out[k].value)) visit(b, i->out[k].value, sum);
}

static void add_missing_bytes(struct blocks *b, int v, void *sum)
{
    if (!b->retained[v] && b->copy[v] < 0) *(int64_t *)sum += b->p->values[v].bytes;
}

static void retain(struct blocks *b, int v, void *sum)
{
    (void)sum;
    b->retained[v] = true;
}

/* Bytes of the values that must also be retained so that an output of i can be restored. */
static int64_t missing_bytes(struct blocks *b, const struct lvn_instr *i)
{
    int64_t bytes = 0;
    restored_from(b, i, add_missing_bytes, &bytes);
    return bytes;
}

/* Retain the values that another block reads, or the values from which they can be restored. */
static void retain_crossing(struct blocks *b)
{
    for (int n = 0; n < b->n_forward; n++)
        for (int k = 0; k < LVN_MAX_IN; k++) {
            int v = b->old[n].in[k].value;
            if (in_arena(b, v) && b->maker[v] >= 0 && b->old[b->maker[v]].block != b->old[n].block)
                b->retained[v] = true;
        }
    for (int n = 0; n < b->n_forward; n++) {
        const struct lvn_instr *i = &b->old[n];
        for (int k = 0; k < LVN_MAX_OUT; k++) {
            int v = i->out[k].value;
            if (!in_arena(b, v) || !b->retained[v] || b->p->values[v].keep || !can_restore(i->op, k)) continue;
            if (i->block < 0 || i->block == b->last || missing_bytes(b, i) >= b->p->values[v].bytes) continue;
            restored_from(b, i, retain, NULL);
            b->retained[v] = false;
        }
    }
}

/* The value to read instead of v: its copy if v is not retained; -1: not recomputed yet. */
static int current(const struct blocks *b, int v)
{
    return v >= 0 && !b->retained[v] ? b->copy[v] : v;
}

/* Add a value with the type and size of v; -1: out of memory. */
static int add_copy(struct blocks *b, int v)
{
    const struct lvn_value value = b->p->values[v];
    return lvn_program_add_value(b->p, value.name, LVN_BUFFER_ARENA, value.dtype,
                                 value.bytes / lvn_dtype_bytes(value.dtype));
}

/* Turn instruction i into one that restores its output k; drop the operands that the restore kernel does not use. */
static void to_restore(struct lvn_instr *i, int k)
{
    i->phase = LVN_RESTORE;
    for (int j = 0; j < LVN_MAX_IN; j++)
        if (!(i->op->restores & LVN_READS_IN(j))) i->in[j] = LVN_NO_OPERAND;
    for (int j = 0; j < LVN_MAX_OUT; j++)
        if (j != k && !(i->op->restores & LVN_READS_OUT(j))) i->out[j] = LVN_NO_OPERAND;
}

/* Append the instructions that compute v from retained values, unless v is retained or recomputed already. */
static enum lvn_status recompute(struct blocks *b, int v)
{
    if (v < 0 || b->retained[v] || b->copy[v] >= 0) return LVN_OK;
    struct lvn_instr i = b->old[b->maker[v]];
    int output = 0;
    i.recomputed = true;
    while (i.out[output].value != v) output++;
    bool restores = can_restore(i.op, output) && missing_bytes(b, &i) == 0;
    if (restores) to_restore(&i, output);
    for (int k = 0; k < LVN_MAX_IN; k++) {
        LVN_TRY(recompute(b, i.in[k].value));
        i.in[k].value = current(b, i.in[k].value);
    }
    for (int k = 0; k < LVN_MAX_OUT; k++) {
        int out = i.out[k].value;
        if (out < 0) continue;
        i.out[k].value = restores && k != output ? current(b, out) : add_copy(b, out);
        if (i.out[k].value < 0) return LVN_MEMORY;
        if (!restores || k == output) b->copy[out] = i.out[k].value;
    }
    struct lvn_instr *last = lvn_program_add_instr(b->p, i.id, i.phase);
    if (!last) return LVN_MEMORY;
    *last = i;
    b->p->recompute = LVN_RECOMPUTE_BLOCKS;
    return LVN_OK;
}

/* Rebuild the list after its forward part: each backward instruction follows the recomputation that it needs. */
static enum lvn_status rewrite(struct blocks *b)
{
    b->p->n_instrs = b->n_forward;
    for (int n = b->n_forward; n < b->n_old; n++) {
        struct lvn_instr i = b->old[n];
        for (int k = 0; k < LVN_MAX_IN; k++) {
            LVN_TRY(recompute(b, i.in[k].value));
            i.in[k].value = current(b, i.in[k].value);
        }
        for (int k = 0; k < LVN_MAX_OUT && i.phase == LVN_BACKWARD && !i.op->forward_in_backward; k++) {
            LVN_TRY(recompute(b, i.out[k].value));
            i.out[k].value = current(b, i.out[k].value);
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
                       .retained = lvn_arena_alloc(&p->arena, sizeof *b.retained * n),
                       .copy = lvn_arena_alloc(&p->arena, sizeof *b.copy * n)};
    if (!b.old || !b.maker || !b.retained || !b.copy) return LVN_MEMORY;
    p->recompute = LVN_RECOMPUTE_NONE; /* unless there is a block to recompute */
    memcpy(b.old, p->instrs, sizeof *b.old * (size_t)p->n_instrs);
    find_makers(&b);
    retain_crossing(&b);
    return rewrite(&b);
}

/* recompute.c - forgets outputs that can be had again cheaply, and restores them before backward reads them.
 *
 * An operation may have a restore kernel that makes its outputs from saved values at less cost than forward did (GELU
 * from the value before it, a layer norm from mean and rstd). Such an output is forgotten after its last use in the
 * forward part; a restore instruction writes it again, as a new value, before its first use in the backward part.
 * The restored bits equal the first ones, so training does not change. */
#include "passes/program.h"

static bool reads(const struct lvn_instr *i, int v)
{
    for (int k = 0; k < LVN_MAX_IN; k++)
        if (i->in[k].value == v) return true;
    for (int k = 0; i->phase == LVN_BACKWARD && k < LVN_MAX_OUT; k++)
        if (i->out[k].value == v) return true;
    return false;
}

static void replace(struct lvn_instr *i, int v, int with)
{
    for (int k = 0; k < LVN_MAX_IN; k++)
        if (i->in[k].value == v) i->in[k].value = with;
    for (int k = 0; k < LVN_MAX_OUT; k++)
        if (i->out[k].value == v) i->out[k].value = with;
}

/* Append a restore of forward instruction `n` at position `at`. Output `k` is written to value `with`. */
static enum lvn_status insert_restore(struct lvn_program *p, int n, int at, int k, int with)
{
    struct lvn_instr f = p->instrs[n];
    struct lvn_instr *last = lvn_program_add_instr(p, f.id, LVN_RESTORE);
    if (!last) return LVN_MEMORY;
    struct lvn_instr restore = *last;
    restore.attr = f.attr;
    restore.name = f.name;
    restore.hash = f.hash;
    restore.half = f.half;
    restore.block = f.block;
    restore.again = true;
    for (int j = 0; j < LVN_MAX_IN; j++)
        if (f.op->restores & LVN_READS_IN(j)) restore.in[j] = f.in[j];
    for (int j = 0; j < LVN_MAX_OUT; j++)
        if (f.op->restores & LVN_READS_OUT(j)) restore.out[j] = f.out[j];
    restore.out[k] = f.out[k];
    restore.out[k].value = with;
    for (int m = p->n_instrs - 1; m > at; m--) p->instrs[m] = p->instrs[m - 1];
    p->instrs[at] = restore;
    return LVN_OK;
}

static enum lvn_status forget(struct lvn_program *p, int n, int k)
{
    int v = p->instrs[n].out[k].value, start = lvn_program_first_backward(p), at = start;
    if (v < 0 || p->values[v].keep || p->values[v].buffer != LVN_BUFFER_ARENA) return LVN_OK;
    while (at < p->n_instrs && !reads(&p->instrs[at], v)) at++;
    if (at == p->n_instrs) return LVN_OK;
    struct lvn_value old = p->values[v];
    int with = lvn_program_add_value(p, old.name, LVN_BUFFER_ARENA, old.dtype, old.bytes / lvn_dtype_bytes(old.dtype));
    if (with < 0) return LVN_MEMORY;
    for (int m = at; m < p->n_instrs; m++)
        if (reads(&p->instrs[m], v)) replace(&p->instrs[m], v, with);
    return insert_restore(p, n, at, k, with);
}

/* Above this much activation memory, restoring costs less than the memory is worth; below, everything is in cache. */
static const int64_t auto_bytes = (int64_t)512 << 20;

enum lvn_status lvn_pass_recompute(struct lvn_program *p, enum lvn_recompute how)
{
    int64_t bytes = 0;
    p->recompute = LVN_RECOMPUTE_NONE;
    for (int v = 0; v < p->n_values; v++)
        if (p->values[v].buffer == LVN_BUFFER_ARENA) bytes += p->values[v].bytes;
    if (how == LVN_RECOMPUTE_NONE || (how == LVN_RECOMPUTE_AUTO && bytes < auto_bytes)) return LVN_OK;
    p->recompute = LVN_RECOMPUTE_CHEAP;
    int n_forward = lvn_program_first_backward(p);
    for (int n = 0; n < n_forward; n++) {
        const struct lvn_op *op = p->instrs[n].op;
        for (int k = 0; k < op->n_out && op->restores; k++)
            if (!(op->restores & LVN_READS_OUT(k))) LVN_TRY(forget(p, n, k));
    }
    return LVN_OK;
}

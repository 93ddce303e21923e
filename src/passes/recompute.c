/* recompute.c - forgets outputs that can be had again cheaply, and restores them before backward reads them.
 *
 * An operation may have a restore kernel that makes its outputs from saved values at less cost than forward did (GELU
 * from the value before it, a layer norm from mean and rstd). Such an output is forgotten after its last use in the
 * forward part; a restore instruction writes it again, as a new value, before its first use in the backward part.
 * The restored bits equal the first ones, so training does not change. */
#include <string.h>

#include "passes/program.h"

/* The restores of a program, and where they go. Lists are by value, by instruction, or by restore. */
struct restores {
    struct lvn_program *p;
    int n_values, n_instrs; /* before anything is added */
    int n_forward;
    int *reader;       /* value -> the first instruction of the backward part that reads it; -1: none */
    int *with;         /* value -> the new value that is read in its place; -1: the same */
    int *first, *last; /* instruction -> the restores that go in front of it; -1: none */
    int *next;         /* restore -> the following one in front of the same instruction; -1: none */
    struct lvn_instr *restore;
    int n;
};

static void note_reader(struct restores *r, int v, int n)
{
    if (v >= 0 && r->reader[v] < 0) r->reader[v] = n;
}

static void find_readers(struct restores *r)
{
    for (int v = 0; v < r->n_values; v++) r->reader[v] = r->with[v] = -1;
    for (int n = 0; n < r->n_instrs; n++) r->first[n] = r->last[n] = -1;
    for (int n = r->n_forward; n < r->n_instrs; n++) {
        const struct lvn_instr *i = &r->p->instrs[n];
        for (int k = 0; k < LVN_MAX_IN; k++) note_reader(r, i->in[k].value, n);
        for (int k = 0; i->phase == LVN_BACKWARD && k < LVN_MAX_OUT; k++) note_reader(r, i->out[k].value, n);
    }
}

/* The restore of forward instruction f that writes its output `k` to value `with`. */
static struct lvn_instr make_restore(const struct lvn_instr *f, int k, int with)
{
    struct lvn_instr restore = {.phase = LVN_RESTORE,
                                .id = f->id,
                                .op = f->op,
                                .attr = f->attr,
                                .name = f->name,
                                .hash = f->hash,
                                .product_dtype = f->product_dtype,
                                .block = f->block,
                                .recomputed = true,
                                .scratch = LVN_NO_OPERAND};
    for (int j = 0; j < LVN_MAX_IN; j++) {
        restore.in[j] = f->op->restores & LVN_READS_IN(j) ? f->in[j] : LVN_NO_OPERAND;
        restore.din[j] = LVN_NO_OPERAND;
    }
    for (int j = 0; j < LVN_MAX_OUT; j++) {
        restore.out[j] = f->op->restores & LVN_READS_OUT(j) ? f->out[j] : LVN_NO_OPERAND;
        restore.dout[j] = LVN_NO_OPERAND;
    }
    restore.out[k] = f->out[k];
    restore.out[k].value = with;
    return restore;
}

static enum lvn_status forget(struct restores *r, int n, int k)
{
    struct lvn_program *p = r->p;
    int v = p->instrs[n].out[k].value, at = v < 0 ? -1 : r->reader[v];
    if (v < 0 || p->values[v].keep || p->values[v].buffer != LVN_BUFFER_ARENA || at < 0) return LVN_OK;
    struct lvn_value old = p->values[v];
    int with = lvn_program_add_value(p, old.name, LVN_BUFFER_ARENA, old.dtype, old.bytes / lvn_dtype_bytes(old.dtype));
    if (with < 0) return LVN_MEMORY;
    r->with[v] = with;
    r->restore[r->n] = make_restore(&p->instrs[n], k, with);
    r->next[r->n] = -1;
    *(r->last[at] < 0 ? &r->first[at] : &r->next[r->last[at]]) = r->n;
    r->last[at] = r->n++;
    return LVN_OK;
}

static void replace(const struct restores *r, struct lvn_operand *o)
{
    if (o->value >= 0 && o->value < r->n_values && r->with[o->value] >= 0) o->value = r->with[o->value];
}

/* Moves the backward part up, from its end, and puts the restores between. */
static enum lvn_status insert(struct restores *r)
{
    struct lvn_program *p = r->p;
    for (int i = 0; i < r->n; i++)
        if (!lvn_program_add_instr(p, r->restore[i].id, LVN_RESTORE)) return LVN_MEMORY;
    for (int n = r->n_instrs - 1, to = p->n_instrs; n >= r->n_forward; n--) {
        struct lvn_instr *i = &p->instrs[--to];
        if (i != &p->instrs[n]) *i = p->instrs[n];
        for (int k = 0; k < LVN_MAX_IN; k++) replace(r, &i->in[k]);
        for (int k = 0; i->phase == LVN_BACKWARD && k < LVN_MAX_OUT; k++) replace(r, &i->out[k]);
        int count = 0;
        for (int one = r->first[n]; one >= 0; one = r->next[one]) count++;
        to -= count;
        for (int one = r->first[n], at = to; one >= 0; one = r->next[one]) p->instrs[at++] = r->restore[one];
    }
    return LVN_OK;
}

/* How many outputs may be restored. */
static int count_candidates(const struct lvn_program *p, int n_forward)
{
    int n = 0;
    for (int i = 0; i < n_forward; i++)
        if (p->instrs[i].op->restores) n += p->instrs[i].op->n_out;
    return n;
}

static enum lvn_status restore_all(struct lvn_program *p)
{
    LVN_LOCAL_ARENA(a);
    struct restores r = {
        .p = p, .n_values = p->n_values, .n_instrs = p->n_instrs, .n_forward = lvn_program_first_backward(p)};
    size_t n = (size_t)count_candidates(p, r.n_forward) + 1;
    r.reader = lvn_arena_alloc(&a, sizeof *r.reader * (size_t)(r.n_values + 1));
    r.with = lvn_arena_alloc(&a, sizeof *r.with * (size_t)(r.n_values + 1));
    r.first = lvn_arena_alloc(&a, sizeof *r.first * (size_t)(r.n_instrs + 1));
    r.last = lvn_arena_alloc(&a, sizeof *r.last * (size_t)(r.n_instrs + 1));
    r.next = lvn_arena_alloc(&a, sizeof *r.next * n);
    r.restore = lvn_arena_alloc(&a, sizeof *r.restore * n);
    if (!r.reader || !r.with || !r.first || !r.last || !r.next || !r.restore) return LVN_MEMORY;
    find_readers(&r);
    for (int i = 0; i < r.n_forward; i++) {
        const struct lvn_op *op = p->instrs[i].op;
        for (int k = 0; k < op->n_out && op->restores; k++)
            if (!(op->restores & LVN_READS_OUT(k))) LVN_TRY(forget(&r, i, k));
    }
    return insert(&r);
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
    return restore_all(p);
}

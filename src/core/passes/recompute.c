/* recompute.c - the pass that frees activations that are cheap to restore, and restores them for backward
 * (trainer.recompute: cheap).
 *
 * An operation may have a restore kernel that computes its outputs from saved values at less cost than forward (GELU
 * from its input, a layer norm from mean and rstd). Such an output is freed after its last use in the forward part; a
 * restore instruction writes it again, as a new value, before its first use in the backward part. The restored bits
 * are identical, so training does not change.
 *
 * Not here: recomputing whole blocks (blocks.c). */

#include "passes/device_query.h"
#include "passes/pass.h"

/* The restores of a program and their places. Lists are indexed by value, by instruction, or by restore. */
struct restores {
    struct lvn_program *p;
    int n_values;      /* before the pass */
    int n_instrs;      /* before the pass */
    int n_forward;     /* number of forward instructions, which come first */
    int *first_reader; /* value -> the first instruction of the backward part that reads it; -1: none */
    int *replacement;  /* value -> the new value that is read instead; -1: none */
    int *first;        /* instruction -> the first restore in front of it; -1: none */
    int *last;         /* instruction -> the last restore in front of it; -1: none */
    int *next;         /* restore -> the next one in front of the same instruction; -1: none */
    struct lvn_instr *restore;
    int n;
};

static void record_reader(struct restores *r, int v, int n)
{
    if (v >= 0 && r->first_reader[v] < 0) r->first_reader[v] = n;
}

static void find_readers(struct restores *r)
{
    for (int v = 0; v < r->n_values; v++) r->first_reader[v] = r->replacement[v] = -1;
    for (int n = 0; n < r->n_instrs; n++) r->first[n] = r->last[n] = -1;
    for (int n = r->n_forward; n < r->n_instrs; n++) {
        const struct lvn_instr *i = &r->p->instrs[n];
        for (int k = 0; k < LVN_MAX_IN; k++) record_reader(r, i->in[k].value, n);
        for (int k = 0; i->phase == LVN_BACKWARD && k < LVN_MAX_OUT; k++) record_reader(r, i->out[k].value, n);
    }
}

/* The instruction that restores output k of forward instruction f into value `replacement`. */
static struct lvn_instr make_restore(const struct lvn_instr *f, int k, int replacement)
{
    struct lvn_instr restore = {.phase = LVN_RESTORE,
                                .id = f->id,
                                .op = f->op,
                                .attr = f->attr,
                                .name = f->name,
                                .hash = f->hash,
                                .matmul_dtype = f->matmul_dtype,
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
    restore.out[k].value = replacement;
    return restore;
}

/* Add a restore of output k of forward instruction n, if backward reads the output and it can be freed before that. */
static enum lvn_status add_restore(struct restores *r, int n, int k)
{
    struct lvn_program *p = r->p;
    int v = p->instrs[n].out[k].value, at = v < 0 ? -1 : r->first_reader[v];
    if (v < 0 || p->values[v].keep || p->values[v].buffer != LVN_BUFFER_ARENA || at < 0) return LVN_OK;
    struct lvn_value old = p->values[v];
    int replacement =
        lvn_program_add_value(p, old.name, LVN_BUFFER_ARENA, old.dtype, old.bytes / lvn_dtype_bytes(old.dtype));
    if (replacement < 0) return LVN_MEMORY;
    r->replacement[v] = replacement;
    r->restore[r->n] = make_restore(&p->instrs[n], k, replacement);
    r->next[r->n] = -1;
    *(r->last[at] < 0 ? &r->first[at] : &r->next[r->last[at]]) = r->n;
    r->last[at] = r->n++;
    return LVN_OK;
}

static void replace(const struct restores *r, struct lvn_operand *o)
{
    if (o->value >= 0 && o->value < r->n_values && r->replacement[o->value] >= 0) o->value = r->replacement[o->value];
}

/* Insert the restores: move the backward part toward the end of the list, starting with its last instruction. */
static enum lvn_status insert(struct restores *r)
{
    struct lvn_program *p = r->p;
    for (int i = 0; i < r->n; i++)
        if (!lvn_program_add_instr(p, r->restore[i].id, LVN_RESTORE)) return LVN_MEMORY;
    for (int n = r->n_instrs - 1, position = p->n_instrs; n >= r->n_forward; n--) {
        struct lvn_instr *i = &p->instrs[--position];
        if (i != &p->instrs[n]) *i = p->instrs[n];
        for (int k = 0; k < LVN_MAX_IN; k++) replace(r, &i->in[k]);
        for (int k = 0; i->phase == LVN_BACKWARD && k < LVN_MAX_OUT; k++) replace(r, &i->out[k]);
        int count = 0;
        for (int one = r->first[n]; one >= 0; one = r->next[one]) count++;
        position -= count;
        for (int one = r->first[n], at = position; one >= 0; one = r->next[one]) p->instrs[at++] = r->restore[one];
    }
    return LVN_OK;
}

/* Upper bound for the number of restores. */
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
    r.first_reader = lvn_arena_alloc(&a, sizeof *r.first_reader * (size_t)(r.n_values + 1));
    r.replacement = lvn_arena_alloc(&a, sizeof *r.replacement * (size_t)(r.n_values + 1));
    r.first = lvn_arena_alloc(&a, sizeof *r.first * (size_t)(r.n_instrs + 1));
    r.last = lvn_arena_alloc(&a, sizeof *r.last * (size_t)(r.n_instrs + 1));
    r.next = lvn_arena_alloc(&a, sizeof *r.next * n);
    r.restore = lvn_arena_alloc(&a, sizeof *r.restore * n);
    if (!r.first_reader || !r.replacement || !r.first || !r.last || !r.next || !r.restore) return LVN_MEMORY;
    find_readers(&r);
    for (int i = 0; i < r.n_forward; i++) {
        const struct lvn_op *op = p->instrs[i].op;
        for (int k = 0; k < op->n_out && op->restores; k++)
            if (!(op->restores & LVN_READS_OUT(k))) LVN_TRY(add_restore(&r, i, k));
    }
    return insert(&r);
}

/* AUTO on hosts: if all values in the arena together are smaller than this, nothing is restored, because that would
 * save little memory; otherwise the memory is worth more than the time for restores. */
static const int64_t auto_bytes = (int64_t)512 << 20;

/* Does AUTO restore nothing? A device with separate memory reserves it for this run, so restores would only cost time;
 * a run that does not fit requests CHEAP (train_programs.c). */
static bool keeps_all(const struct lvn_program *p, const struct lvn_device *device)
{
    int64_t bytes = 0;
    if (lvn_device_has_memory(device)) return true;
    for (int v = 0; v < p->n_values; v++)
        if (p->values[v].buffer == LVN_BUFFER_ARENA) bytes += p->values[v].bytes;
    return bytes < auto_bytes;
}

enum lvn_status lvn_pass_recompute(struct lvn_program *p, enum lvn_recompute mode, const struct lvn_device *device)
{
    p->recompute = LVN_RECOMPUTE_NONE;
    if (mode == LVN_RECOMPUTE_NONE || (mode == LVN_RECOMPUTE_AUTO && keeps_all(p, device))) return LVN_OK;
    p->recompute = LVN_RECOMPUTE_CHEAP;
    return restore_all(p);
}

/* place.c - lifetimes in, offsets out: where every value of the arena lies.
 *
 * A value lives from the first to the last instruction that names it (a kept one to the end). Scratch lives for one
 * instruction. An operation that allows it may write its result where its dying input lay. Then the largest values are
 * placed first, each at the lowest offset where nothing that lives at the same time lies. The peak is exact before
 * anything is allocated. (Greedy by size: Pisarchyk, Lee: "Efficient memory management for deep neural net inference",
 * 2020.)
 *
 * Also asks the backend for each instruction's kernel: what a device cannot compute is said here, not at step 1. */
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "passes/program.h"

enum { ALIGN = 64 }; /* bytes: a cache line, and a vector of 16 floats */

struct lifetimes {
    struct lvn_program *p;
    int now;
    int *root; /* value -> the value whose place it takes; itself when it has its own */
};

static void touch(struct lvn_operand *o, bool written, void *argument)
{
    (void)written;
    struct lifetimes *l = argument;
    struct lvn_value *v = &l->p->values[o->value];
    if (v->first < 0) v->first = l->now;
    v->last = l->now;
}

/* The instruction's kernel, and a place for its scratch. */
static enum lvn_status choose(struct lvn_program *p, struct lvn_instr *i)
{
    int64_t scratch = 0;
    LVN_TRY(p->device->backend->choose(p->device, i, &scratch));
    if (scratch <= 0) return LVN_OK;
    i->scratch = (struct lvn_operand){.value = lvn_program_add_value(p, "scratch", LVN_BUFFER_ARENA, LVN_U8, scratch)};
    return i->scratch.value < 0 ? LVN_MEMORY : LVN_OK;
}

static int find_root(const struct lifetimes *l, int v)
{
    while (l->root[v] != v) v = l->root[v];
    return v;
}

/* How many operands of the instruction name value v. */
static int mentions(const struct lvn_instr *i, int v)
{
    int n = 0;
    for (int k = 0; k < LVN_MAX_IN; k++) n += (i->in[k].value == v) + (i->din[k].value == v);
    for (int k = 0; k < LVN_MAX_OUT; k++) n += (i->out[k].value == v) + (i->dout[k].value == v);
    return n;
}

/* Let `to`, born at instruction n, take the place of `from`, which dies there. */
static void try_in_place(struct lifetimes *l, int n, const struct lvn_instr *i, int from, int to)
{
    if (from < 0 || to < 0 || from == to) return;
    struct lvn_value *values = l->p->values, *f = &values[from], *t = &values[to];
    if (f->buffer != LVN_BUFFER_ARENA || t->buffer != LVN_BUFFER_ARENA || f->bytes != t->bytes) return;
    if (f->last != n || t->first != n || f->keep || mentions(i, from) != 1) return;
    int root = find_root(l, from);
    if (values[root].last != n) return;
    l->root[to] = root;
    t->in_place = true;
    values[root].last = t->last;
}

static void reuse_places(struct lifetimes *l)
{
    struct lvn_program *p = l->p;
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        for (int k = 0; k < i->op->n_in; k++) {
            if (!(i->op->in_place & 1u << k)) continue;
            if (i->phase == LVN_FORWARD) try_in_place(l, n, i, i->in[k].value, i->out[0].value);
            if (i->phase == LVN_BACKWARD && !i->add[k]) try_in_place(l, n, i, i->dout[0].value, i->din[k].value);
        }
    }
}

/* A value to be placed. */
struct piece {
    int64_t bytes;
    int value;
};

/* The largest first. */
static int by_size(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->value - y->value;
}

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* What has its place; in the order of offsets, so that one look along them finds a gap. */
struct placed {
    int64_t from, to;
    int first, last;
};

/* Give v the lowest offset where nothing that lives at the same time lies, and a line among the n that are placed. */
static void place_value(struct lvn_value *v, struct placed *placed, int n)
{
    const int64_t bytes = aligned(v->bytes);
    int at = 0;
    v->offset = 0;
    for (int i = 0; i < n && placed[i].from < v->offset + bytes; i++) {
        const struct placed *w = &placed[i];
        bool together = w->first <= v->last && v->first <= w->last;
        if (together && w->to > v->offset) v->offset = w->to;
    }
    for (int end = n; at < end;) { /* the first one that lies behind it */
        int middle = (at + end) / 2;
        if (placed[middle].from > v->offset)
            end = middle;
        else
            at = middle + 1;
    }
    memmove(&placed[at + 1], &placed[at], sizeof *placed * (size_t)(n - at));
    placed[at] = (struct placed){v->offset, v->offset + bytes, v->first, v->last};
}

static enum lvn_status assign_offsets(struct lifetimes *l)
{
    struct lvn_program *p = l->p;
    int n = 0;
    struct piece *order = lvn_arena_alloc(&p->arena, sizeof *order * (size_t)(p->n_values + 1));
    struct placed *placed = lvn_arena_alloc(&p->arena, sizeof *placed * (size_t)(p->n_values + 1));
    if (!order || !placed) return LVN_MEMORY;
    for (int v = 0; v < p->n_values; v++) {
        if (p->values[v].buffer != LVN_BUFFER_ARENA || p->values[v].first < 0) continue;
        p->unplaced_bytes += aligned(p->values[v].bytes);
        if (l->root[v] == v) order[n++] = (struct piece){p->values[v].bytes, v};
    }
    qsort(order, (size_t)n, sizeof *order, by_size);
    for (int i = 0; i < n; i++) {
        struct lvn_value *v = &p->values[order[i].value];
        place_value(v, placed, i);
        if (v->offset + aligned(v->bytes) > p->arena_bytes) p->arena_bytes = v->offset + aligned(v->bytes);
    }
    for (int v = 0; v < p->n_values; v++)
        if (l->root[v] != v) p->values[v].offset = p->values[find_root(l, v)].offset;
    return LVN_OK;
}

/* Where the instructions of a micro-batch end, and the sums behind them. */
static void find_stages(struct lvn_program *p)
{
    p->first_sum = p->n_instrs;
    while (p->first_sum > 0 && p->instrs[p->first_sum - 1].when >= LVN_AFTER_MICRO_BATCH) p->first_sum--;
    p->first_update = p->n_instrs;
    while (p->first_update > 0 && p->instrs[p->first_update - 1].when == LVN_AFTER_BACKWARD) p->first_update--;
}

/* Each micro-batch has its own, one behind the other in RESULT. */
static void place_sums(struct lvn_program *p, int n_sums)
{
    for (int k = 0; k < n_sums; k++) {
        const struct lvn_tensor *sum = p->outputs[k];
        struct lvn_value *v = &p->values[p->value_of_tensor[(sum->kind == LVN_TENSOR_VIEW ? sum->base : sum)->id]];
        v->buffer = LVN_BUFFER_RESULT;
        v->offset = (int64_t)sizeof(struct lvn_result) + p->sum_bytes;
        p->sum_bytes += v->bytes;
    }
}

enum lvn_status lvn_pass_place(struct lvn_program *p, int n_sums, struct lvn_device *device)
{
    p->device = device;
    find_stages(p);
    place_sums(p, n_sums);
    for (int n = 0; n < p->n_instrs; n++)
        if (!p->instrs[n].op->collective) LVN_TRY(choose(p, &p->instrs[n]));
    struct lifetimes l = {.p = p, .root = lvn_arena_alloc(&p->arena, sizeof *l.root * (size_t)(p->n_values + 1))};
    if (!l.root) return LVN_MEMORY;
    for (l.now = 0; l.now < p->n_instrs; l.now++) lvn_instr_operands(&p->instrs[l.now], touch, &l);
    for (int v = 0; v < p->n_values; v++) {
        l.root[v] = v;
        if (p->values[v].keep) p->values[v].last = p->n_instrs;
    }
    reuse_places(&l);
    return assign_offsets(&l);
}

/* memory_planning.c - the last pass: it sets the offset of every value in the arena and the kernel of every
 * instruction.
 *
 * A value lives from the first to the last instruction that uses it, an output of the program to the end, scratch for
 * one instruction. The values of instructions that run concurrently live as long as the whole group. If an operation
 * allows it, its result overwrites an input whose lifetime ends there (lvn_op.in_place). Then values are placed by
 * decreasing size, each at the lowest offset that no value with an overlapping lifetime occupies. So the peak is known
 * exactly before anything is allocated. (Greedy by size: Pisarchyk, Lee: "Efficient memory management for deep neural
 * net inference", 2020.)
 *
 * The device chooses kernels here, so a missing kernel is reported during planning instead of in step 1.
 *
 * Not here: buffers other than the arena, whose layout earlier passes set. */

#include "passes/device_query.h"
#include "passes/pass.h"

enum { ALIGN = 64 }; /* bytes: a cache line, and a vector of 16 floats */

struct lifetimes {
    struct lvn_program *p;
    int first, last; /* indices of the visited instruction; or, if some run side by side, of the first and last one */
    int *root;       /* value -> the value whose memory it overwrites; itself: it does not overwrite */
};

/* Extend the lifetime of an operand's value to the visited instructions. */
static void touch(struct lvn_operand *o, bool written, void *argument)
{
    (void)written;
    struct lifetimes *l = argument;
    struct lvn_value *v = &l->p->values[o->value];
    if (v->first < 0) v->first = l->first;
    v->last = l->last;
}

/* Choose the instruction's kernel, and append a value for its scratch. */
static enum lvn_status choose(struct lvn_program *p, struct lvn_instr *i)
{
    int64_t scratch = 0;
    LVN_TRY(lvn_device_choose(p->device, i, &scratch));
    if (scratch <= 0) return LVN_OK;
    i->scratch = (struct lvn_operand){.value = lvn_program_add_value(p, "scratch", LVN_BUFFER_ARENA, LVN_U8, scratch)};
    return i->scratch.value < 0 ? LVN_MEMORY : LVN_OK;
}

/* Let instructions run concurrently, the same number on each thread, if their scratch is small: large instructions gain
 * little from it and need much memory. */
static void choose_side_by_side(struct lvn_program *p)
{
    enum { MAX_SCRATCH = 64 << 20 };
    const int threads = lvn_device_threads(p->device);
    for (int n = 0, count; threads > 1 && n < p->n_instrs; n += count ? count : 1) {
        const struct lvn_op *op = p->instrs[n].op;
        int64_t bytes = 0;
        for (count = 0; op->side_by_side && n + count < p->n_instrs && p->instrs[n + count].op == op; count++) {
            const int scratch = p->instrs[n + count].scratch.value;
            bytes += scratch < 0 ? 0 : p->values[scratch].bytes;
            if (bytes > MAX_SCRATCH) break;
        }
        count -= count % threads;
        p->instrs[n].n_side_by_side = count;
    }
}

static void find_lifetimes(struct lifetimes *l)
{
    struct lvn_program *p = l->p;
    for (int n = 0, count; n < p->n_instrs; n += count) {
        count = p->instrs[n].n_side_by_side ? p->instrs[n].n_side_by_side : 1;
        l->first = n;
        l->last = n + count - 1;
        for (int i = l->first; i <= l->last; i++) lvn_instr_operands(&p->instrs[i], touch, l);
    }
}

static int find_root(const struct lifetimes *l, int v)
{
    while (l->root[v] != v) v = l->root[v];
    return v;
}

/* Number of operands of the instruction that refer to value v. */
static int mentions(const struct lvn_instr *i, int v)
{
    int n = 0;
    for (int k = 0; k < LVN_MAX_IN; k++) n += (i->in[k].value == v) + (i->din[k].value == v);
    for (int k = 0; k < LVN_MAX_OUT; k++) n += (i->out[k].value == v) + (i->dout[k].value == v);
    return n;
}

/* Let value `to`, whose lifetime begins at instruction n, overwrite value `from`, whose lifetime ends there. */
static void try_in_place(struct lifetimes *l, int n, const struct lvn_instr *i, int from, int to)
{
    if (from < 0 || to < 0 || from == to) return;
    struct lvn_value *values = l->p->values, *f = &values[from], *t = &values[to];
    if (f->buffer != LVN_BUFFER_ARENA || t->buffer != LVN_BUFFER_ARENA || f->bytes != t->bytes) return;
    if (f->dtype != t->dtype) return; /* an element would overwrite others, which another thread may still read */
    if (f->last != n || t->first != n || f->keep || mentions(i, from) != 1) return;
    if (t->in_place) return; /* it overwrites another operand, and would keep this one's memory too */
    int root = find_root(l, from);
    if (values[root].last != n) return;
    l->root[to] = root;
    t->in_place = true;
    values[root].last = t->last;
}

static void assign_in_place(struct lifetimes *l)
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

/* A value to place. */
struct item {
    int64_t bytes;
    int first; /* instruction */
    int value;
};

/* By decreasing size. Ties are ordered by first use, which packs equal sizes without fragmentation. */
static int by_size(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->first != y->first ? x->first - y->first : x->value - y->value;
}

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* --- the placed values, sorted by offset ---
 *
 * They are in shelves of up to SHELF values. Shelves and groups of GROUP shelves have summaries, which let the search
 * skip most of them. */

/* A placed value, or the summary of a contiguous range of them. */
struct placed {
    int64_t begin;  /* bytes in the arena */
    int64_t end;    /* bytes in the arena */
    int64_t gap;    /* largest gap within the range, in bytes */
    int earliest;   /* first instruction of any lifetime */
    int latest;     /* last instruction of any lifetime */
    int all_after;  /* a lifetime that ends at all_after or later, ... */
    int all_before; /* ... and begins at all_before or earlier overlaps those of all of them */
};

enum {
    SHELF = 128, /* maximum values in a shelf */
    GROUP = 64   /* shelves in a group */
};

struct shelf {
    struct placed summary;
    struct placed *item; /* [SHELF] in the order of offsets */
    int n;
};

/* All shelves, in the order of offsets. */
struct shelves {
    struct lvn_arena *arena;
    struct shelf *list;
    struct placed *group; /* [(n + GROUP - 1) / GROUP] their summaries */
    int n;
};

/* Add b, which follows a, to the summary a. */
static void append_summary(struct placed *a, const struct placed *b)
{
    if (b->gap > a->gap) a->gap = b->gap;
    if (b->begin - a->end > a->gap) a->gap = b->begin - a->end;
    if (b->end > a->end) a->end = b->end;
    if (b->earliest < a->earliest) a->earliest = b->earliest;
    if (b->latest > a->latest) a->latest = b->latest;
    if (b->all_after > a->all_after) a->all_after = b->all_after;
    if (b->all_before < a->all_before) a->all_before = b->all_before;
}

static void summarize_shelf(struct shelf *s)
{
    s->summary = s->item[0];
    for (int i = 1; i < s->n; i++) append_summary(&s->summary, &s->item[i]);
}

static void summarize_group(struct shelves *all, int g)
{
    all->group[g] = all->list[g * GROUP].summary;
    for (int k = g * GROUP + 1; k < all->n && k < (g + 1) * GROUP; k++)
        append_summary(&all->group[g], &all->list[k].summary);
}

/* Return true if the summary decides for all values of the range: either no lifetime overlaps v's, or all do and no
 * gap is large enough, and *offset is raised to the end of the range. A range of one value is always decided. */
static bool skip_over(const struct placed *range, const struct lvn_value *v, int64_t bytes, int64_t *offset)
{
    if (range->earliest > v->last || range->latest < v->first) return true;
    if (range->all_after > v->last || range->all_before < v->first || range->gap >= bytes) return false;
    if (range->end > *offset) *offset = range->end;
    return true;
}

/* The lowest offset for v that no value with an overlapping lifetime occupies. */
static int64_t find_offset(const struct shelves *all, const struct lvn_value *v, int64_t bytes)
{
    int64_t offset = 0;
    for (int g = 0; g * GROUP < all->n && all->group[g].begin < offset + bytes; g++) {
        if (skip_over(&all->group[g], v, bytes, &offset)) continue;
        for (int k = g * GROUP; k < all->n && k < (g + 1) * GROUP && all->list[k].summary.begin < offset + bytes; k++) {
            const struct shelf *s = &all->list[k];
            if (skip_over(&s->summary, v, bytes, &offset)) continue;
            for (int i = 0; i < s->n && s->item[i].begin < offset + bytes; i++)
                skip_over(&s->item[i], v, bytes, &offset);
        }
    }
    return offset;
}

/* Insert an empty shelf at index k of the list, whose capacity suffices. */
static enum lvn_status add_shelf(struct shelves *all, int k)
{
    struct placed *item = lvn_arena_alloc(all->arena, sizeof *item * SHELF);
    if (!item) return LVN_MEMORY;
    memmove(&all->list[k + 1], &all->list[k], sizeof *all->list * (size_t)(all->n - k));
    all->list[k] = (struct shelf){.item = item};
    all->n++;
    return LVN_OK;
}

/* Move the second half of shelf k to a new shelf after it. */
static enum lvn_status split_shelf(struct shelves *all, int k)
{
    LVN_TRY(add_shelf(all, k + 1));
    struct shelf *s = &all->list[k], *next = &all->list[k + 1];
    next->n = SHELF / 2;
    s->n -= next->n;
    memcpy(next->item, s->item + s->n, sizeof *next->item * (size_t)next->n);
    summarize_shelf(s);
    summarize_shelf(next);
    for (int g = k / GROUP; g * GROUP < all->n; g++) summarize_group(all, g);
    return LVN_OK;
}

/* Insert a value after all values whose offset is not larger. */
static enum lvn_status insert(struct shelves *all, const struct placed *one)
{
    int k = 0, at = 0;
    for (int end = all->n; k < end;) { /* the first shelf that begins after it; it belongs to the one before */
        int middle = (k + end) / 2;
        if (all->list[middle].summary.begin > one->begin)
            end = middle;
        else
            k = middle + 1;
    }
    if (k > 0) k--;
    if (!all->n) LVN_TRY(add_shelf(all, 0));
    if (all->list[k].n == SHELF) {
        LVN_TRY(split_shelf(all, k));
        if (all->list[k + 1].summary.begin <= one->begin) k++;
    }
    struct shelf *s = &all->list[k];
    while (at < s->n && s->item[at].begin <= one->begin) at++;
    memmove(&s->item[at + 1], &s->item[at], sizeof *s->item * (size_t)(s->n - at));
    s->item[at] = *one;
    s->n++;
    summarize_shelf(s);
    summarize_group(all, k / GROUP);
    return LVN_OK;
}

/* Allocate for n values. */
static enum lvn_status make_shelves(struct shelves *all, struct lvn_arena *a, int n)
{
    size_t max = (size_t)(2 * (int64_t)n / SHELF + 2);
    *all = (struct shelves){.arena = a,
                            .list = lvn_arena_alloc(a, sizeof *all->list * max),
                            .group = lvn_arena_alloc(a, sizeof *all->group * (max / GROUP + 1))};
    return all->list && all->group ? LVN_OK : LVN_MEMORY;
}

/* Set the offsets of all values, and the size of the arena. */
static enum lvn_status assign_offsets(struct lifetimes *l)
{
    struct lvn_program *p = l->p;
    int n = 0;
    LVN_LOCAL_ARENA(a);
    struct item *order = lvn_arena_alloc(&a, sizeof *order * (size_t)(p->n_values + 1));
    struct shelves all;
    if (!order) return LVN_MEMORY;
    LVN_TRY(make_shelves(&all, &a, p->n_values));
    for (int v = 0; v < p->n_values; v++) {
        if (p->values[v].buffer != LVN_BUFFER_ARENA || p->values[v].first < 0) continue;
        p->unplaced_bytes += aligned(p->values[v].bytes);
        if (l->root[v] == v) order[n++] = (struct item){p->values[v].bytes, p->values[v].first, v};
    }
    qsort(order, (size_t)n, sizeof *order, by_size);
    for (int i = 0; i < n; i++) {
        struct lvn_value *v = &p->values[order[i].value];
        const int64_t bytes = aligned(v->bytes);
        v->offset = find_offset(&all, v, bytes);
        LVN_TRY(insert(&all, &(struct placed){.begin = v->offset,
                                              .end = v->offset + bytes,
                                              .earliest = v->first,
                                              .latest = v->last,
                                              .all_after = v->first,
                                              .all_before = v->last}));
        if (v->offset + bytes > p->arena_bytes) p->arena_bytes = v->offset + bytes;
    }
    for (int v = 0; v < p->n_values; v++)
        if (l->root[v] != v) p->values[v].offset = p->values[find_root(l, v)].offset;
    return LVN_OK;
}

/* Set first_sum and first_update. */
static void find_phases(struct lvn_program *p)
{
    p->first_sum = p->n_instrs;
    while (p->first_sum > 0 && p->instrs[p->first_sum - 1].when >= LVN_AFTER_MICRO_BATCH) p->first_sum--;
    p->first_update = p->n_instrs;
    while (p->first_update > 0 && p->instrs[p->first_update - 1].when == LVN_AFTER_BACKWARD) p->first_update--;
}

/* Move the first n_sums outputs to RESULT, which holds them for every micro-batch. */
static void place_sums(struct lvn_program *p, int n_sums)
{
    for (int k = 0; k < n_sums; k++) {
        const struct levin_tensor *sum = p->outputs[k];
        struct lvn_value *v = &p->values[p->value_of_tensor[(sum->kind == LVN_TENSOR_VIEW ? sum->base : sum)->id]];
        v->buffer = LVN_BUFFER_RESULT;
        v->offset = (int64_t)sizeof(struct lvn_result) + p->sum_bytes;
        p->sum_bytes += v->bytes;
    }
}

enum lvn_status lvn_pass_memory_planning(struct lvn_program *p, int n_sums, struct lvn_device *device)
{
    p->device = device;
    find_phases(p);
    place_sums(p, n_sums);
    for (int n = 0; n < p->n_instrs; n++)
        if (!p->instrs[n].op->collective) LVN_TRY(choose(p, &p->instrs[n]));
    choose_side_by_side(p);
    LVN_LOCAL_ARENA(a);
    struct lifetimes l = {.p = p, .root = lvn_arena_alloc(&a, sizeof *l.root * (size_t)(p->n_values + 1))};
    if (!l.root) return LVN_MEMORY;
    find_lifetimes(&l);
    for (int v = 0; v < p->n_values; v++) {
        l.root[v] = v;
        if (p->values[v].keep) p->values[v].last = p->n_instrs;
    }
    assign_in_place(&l);
    return assign_offsets(&l);
}

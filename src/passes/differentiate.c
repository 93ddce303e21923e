/* differentiate.c - appends the backward instructions (reverse-mode differentiation of the forward list).
 *
 * The forward instructions are walked from the last to the first; each whose output has a gradient gets a backward
 * instruction that writes the gradients of its inputs. The first contribution to a gradient overwrites and later ones
 * add, so nothing is filled with zeros as long as that can be told.
 *
 * A gradient is tracked per value; views of a value (the query, key and value heads of one projection) write disjoint
 * regions of its gradient. Where views overlap, or leave something uncovered, the gradient is filled with zeros before
 * the first of them, and all add. An addition passes its gradient on: both inputs then share one value, until a later
 * contribution to one of them must not be seen by the other.
 *
 * Left out: gradients of gradients, and parameters that are seen in parts. */
#include <stdlib.h>
#include <string.h>

#include "passes/program.h"

enum { MAX_REGIONS = 8 };

struct gradient {
    int value; /* -1: none yet */
    int n_regions;
    struct lvn_desc *region; /* (MAX_REGIONS) what has been written so far; NULL: not looked at yet */
};

struct tape {
    struct lvn_program *p;
    struct gradient *of; /* forward value -> its gradient */
    bool *wanted;        /* forward value -> does a trainable parameter hang on it? */
    bool *done;          /* forward value -> its maker's backward was emitted */
    int *owners;         /* gradient -> how many forward values still wait for their maker's backward with it */
    int owners_capacity;
    int n_forward;
    int at; /* the backward instruction that is being made */
};

static void mark_wanted(struct tape *t)
{
    struct lvn_program *p = t->p;
    for (int v = 0; v < p->n_values; v++) t->wanted[v] = p->values[v].param && p->values[v].param->trainable;
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        bool any = false;
        for (int k = 0; k < LVN_MAX_IN; k++) any |= i->in[k].value >= 0 && t->wanted[i->in[k].value];
        for (int k = 0; any && k < i->op->n_out; k++)
            if (i->out[k].value >= 0) t->wanted[i->out[k].value] = true;
    }
}

/* The gradient of forward value v is `gradient` from now on. */
static void set_gradient(struct tape *t, int v, int gradient)
{
    if (t->of[v].value >= 0 && !t->done[v]) t->owners[t->of[v].value]--;
    if (gradient >= 0 && !t->done[v]) t->owners[gradient]++;
    t->of[v].value = gradient;
}

static void set_done(struct tape *t, int v)
{
    if (t->of[v].value >= 0 && !t->done[v]) t->owners[t->of[v].value]--;
    t->done[v] = true;
}

/* Counts of a list that doubles, zero where they are new. */
static bool grow_owners(struct tape *t, int n)
{
    int capacity = t->owners_capacity ? t->owners_capacity : 256;
    if (n < t->owners_capacity) return true;
    while (capacity <= n) capacity *= 2;
    int *p = lvn_realloc(t->owners, sizeof *p * (size_t)capacity);
    if (!p) return false;
    memset(p + t->owners_capacity, 0, sizeof *p * (size_t)(capacity - t->owners_capacity));
    t->owners = p;
    t->owners_capacity = capacity;
    return true;
}

static int64_t elements(const struct lvn_program *p, int v)
{
    return p->values[v].bytes / lvn_dtype_bytes(p->values[v].dtype);
}

static int new_gradient(struct tape *t, int v)
{
    struct lvn_program *p = t->p;
    const struct lvn_value of = p->values[v];
    enum lvn_buffer where = of.param ? LVN_BUFFER_GRAD : LVN_BUFFER_ARENA;
    char *name = lvn_arena_printf(&p->arena, "gradient of %s", of.name);
    enum lvn_dtype dtype = of.param ? p->gradients : of.dtype;
    int g = name ? lvn_program_add_value(p, name, where, dtype, elements(p, v)) : -1;
    if (g < 0 || !grow_owners(t, g)) return -1;
    p->values[g].param = of.param;
    p->values[g].offset = of.param ? of.offset / lvn_dtype_bytes(of.dtype) * lvn_dtype_bytes(dtype) : 0;
    p->values[g].gradient_of = v;
    return g;
}

/* Channels [*from, *to) of a row that a view covers, and the row's length; false when the view is no such slice. */
static bool slice_of_rows(const struct lvn_desc *d, int64_t *row, int64_t *from, int64_t *to)
{
    *row = d->stride[1];
    *from = d->offset;
    *to = d->offset + 1;
    for (int k = 2; k < d->rank; k++) *to += (d->dim[k] - 1) * d->stride[k];
    return d->rank == 4 && d->stride[0] == d->dim[1] * *row && *to <= *row && *to - *from == d->dim[2] * d->dim[3];
}

/* Boxes cut out of one array: do they lie apart along some dimension? */
static bool boxes_apart(const struct lvn_desc *a, const struct lvn_desc *b)
{
    int64_t rest_a = a->offset, rest_b = b->offset;
    bool apart = false;
    if (a->rank != b->rank || memcmp(a->stride, b->stride, sizeof a->stride[0] * (size_t)a->rank) != 0) return false;
    for (int k = 0; k < a->rank; k++) {
        int64_t stride = a->stride[k], at_a = rest_a / stride, at_b = rest_b / stride;
        int64_t capacity = k ? a->stride[k - 1] / stride : INT64_MAX;
        if (at_a + a->dim[k] > capacity || at_b + b->dim[k] > capacity) return false; /* no box of these strides */
        apart |= at_a + a->dim[k] <= at_b || at_b + b->dim[k] <= at_a;
        rest_a %= stride;
        rest_b %= stride;
    }
    return apart;
}

static bool disjoint(const struct lvn_desc *a, const struct lvn_desc *b)
{
    if (boxes_apart(a, b)) return true;
    int64_t row_a, from_a, to_a, row_b, from_b, to_b;
    if (!slice_of_rows(a, &row_a, &from_a, &to_a) || !slice_of_rows(b, &row_b, &from_b, &to_b)) return false;
    return row_a == row_b && (to_a <= from_b || to_b <= from_a);
}

static bool same_region(const struct lvn_program *p, int v, const struct lvn_desc *a, const struct lvn_desc *b)
{
    int64_t all = elements(p, v);
    if (lvn_desc_count(a) == all && lvn_desc_count(b) == all) return true;
    return a->offset == b->offset && lvn_desc_same_shape(a, b) &&
           memcmp(a->stride, b->stride, sizeof a->stride[0] * (size_t)a->rank) == 0;
}

static struct lvn_operand whole(const struct lvn_program *p, int v)
{
    int64_t n = elements(p, v);
    return (struct lvn_operand){.value = v, .desc = lvn_desc_make(p->values[v].dtype, 1, &n)};
}

static bool writes(const struct lvn_instr *i, int value)
{
    bool found = false;
    for (int k = 0; k < LVN_MAX_IN; k++) found |= i->din[k].value == value;
    return found;
}

static bool has_regions(struct tape *t, struct gradient *g)
{
    if (!g->region) g->region = lvn_arena_alloc(&t->p->arena, sizeof *g->region * MAX_REGIONS);
    return g->region != NULL;
}

/* The gradient of v is zero before its first contribution, and from there on all of them add. */
static enum lvn_status fill(struct tape *t, int v)
{
    struct lvn_program *p = t->p;
    int value = t->of[v].value, at = t->n_forward;
    LVN_CHECK(!p->values[v].param, UNSUPPORTED, "'%s': a parameter cannot be seen in parts", p->values[v].name);
    while (at < p->n_instrs && !writes(&p->instrs[at], value)) at++;
    struct lvn_instr *last = lvn_program_add_instr(p, LVN_OP_zeros, LVN_FORWARD);
    if (!last || !has_regions(t, &t->of[v])) return LVN_MEMORY;
    struct lvn_instr zeros = *last;
    zeros.name = p->values[value].name;
    zeros.out[0] = whole(p, value);
    memmove(&p->instrs[at + 1], &p->instrs[at], sizeof zeros * (size_t)(p->n_instrs - 1 - at));
    p->instrs[at] = zeros;
    t->at += t->at >= at;
    for (int n = at + 1; n < p->n_instrs; n++)
        for (int k = 0; k < LVN_MAX_IN; k++) p->instrs[n].add[k] |= p->instrs[n].din[k].value == value;
    t->of[v].n_regions = 1;
    t->of[v].region[0] = zeros.out[0].desc;
    return LVN_OK;
}

/* Does region `d` of this gradient hold a contribution already, or zeros? */
static enum lvn_status enter_region(struct tape *t, int v, const struct lvn_desc *d, bool *add)
{
    struct gradient *g = &t->of[v];
    bool apart = g->n_regions < MAX_REGIONS;
    if (!has_regions(t, g)) return LVN_MEMORY;
    *add = true;
    for (int r = 0; r < g->n_regions; r++) {
        if (same_region(t->p, v, &g->region[r], d) || lvn_desc_count(&g->region[r]) == elements(t->p, v)) return LVN_OK;
        apart = apart && disjoint(&g->region[r], d);
    }
    if (!apart) return fill(t, v);
    *add = false;
    g->region[g->n_regions++] = *d;
    return LVN_OK;
}

/* A value's gradient is about to be read: it must be written everywhere. */
static enum lvn_status complete(struct tape *t, int v)
{
    const struct gradient *g = &t->of[v];
    int64_t written = 0;
    for (int r = 0; r < g->n_regions; r++) written += lvn_desc_count(&g->region[r]);
    return written == elements(t->p, v) ? LVN_OK : fill(t, v);
}

/* sum = a + b, as one more instruction; `sum` may be a or b. */
static enum lvn_status emit_sum(struct tape *t, int a, int b, int sum)
{
    struct lvn_instr *i = lvn_program_add_instr(t->p, LVN_OP_add, LVN_FORWARD);
    if (!i) return LVN_MEMORY;
    i->name = t->p->values[sum].name;
    i->in[0] = whole(t->p, a);
    i->in[1] = whole(t->p, b);
    i->out[0] = whole(t->p, sum);
    return LVN_OK;
}

/* Input `x` gets the gradient that lies in value `g` already (additions pass theirs on). */
static enum lvn_status pass_on(struct tape *t, const struct lvn_operand *x, int g)
{
    struct lvn_program *p = t->p;
    int v = x->value;
    if (v < 0 || !t->wanted[v]) return LVN_OK;
    LVN_CHECK(!p->values[v].param, UNSUPPORTED, "'%s': a parameter cannot be an input of add", p->values[v].name);
    LVN_CHECK(lvn_desc_count(&x->desc) == elements(p, v), UNSUPPORTED, "'%s': a view cannot be an input of add",
              p->values[v].name);
    struct gradient *have = &t->of[v];
    if (have->value < 0) {
        bool add;
        set_gradient(t, v, g);
        return enter_region(t, v, &x->desc, &add);
    }
    LVN_TRY(complete(t, v));
    int sum = t->owners[have->value] > 1 ? new_gradient(t, v) : have->value;
    if (sum < 0) return LVN_MEMORY;
    LVN_TRY(emit_sum(t, have->value, g, sum));
    set_gradient(t, v, sum);
    return LVN_OK;
}

/* Where the backward instruction that is being made writes the gradient of input k; `separate`: the caller must add
 * that value to `shared` afterwards, because others still read the gradient so far. */
static enum lvn_status target(struct tape *t, int k, const struct lvn_operand *x, int *separate, int *shared)
{
    struct lvn_program *p = t->p;
    int v = x->value;
    *separate = *shared = -1;
    struct gradient *g = &t->of[v];
    int value = g->value;
    bool add = false;
    if (value >= 0 && t->owners[value] > 1) {
        LVN_TRY(complete(t, v));
        *shared = value;
        *separate = value = new_gradient(t, v);
    } else {
        if (value < 0) set_gradient(t, v, value = new_gradient(t, v));
        if (value < 0) return LVN_MEMORY;
        LVN_TRY(enter_region(t, v, &x->desc, &add));
    }
    if (value < 0) return LVN_MEMORY;
    struct lvn_instr *b = &p->instrs[t->at];
    b->din[k] = (struct lvn_operand){.value = value, .desc = x->desc};
    b->din[k].desc.dtype = p->values[value].dtype;
    b->add[k] = add;
    b->param_gradient[k] = p->values[v].param != NULL;
    return LVN_OK;
}

/* Inputs 0 and 1 have one gradient: write it once where neither has one yet. True when that was done. */
static enum lvn_status share_target(struct tape *t, const struct lvn_instr *f, bool *shared)
{
    int a = f->in[0].value, b = f->in[1].value, none;
    *shared = false;
    if (!f->op->same_gradient || !f->op->same_gradient(&f->attr)) return LVN_OK;
    if (a == b || !t->wanted[a] || !t->wanted[b] || t->of[a].value >= 0 || t->of[b].value >= 0) return LVN_OK;
    if (t->p->values[a].param || t->p->values[b].param) return LVN_OK;
    if (t->p->values[a].dtype != t->p->values[b].dtype) return LVN_OK;
    LVN_TRY(target(t, 0, &f->in[0], &none, &none));
    *shared = true;
    return pass_on(t, &f->in[1], t->of[a].value);
}

/* The backward instruction of forward instruction f. */
static enum lvn_status emit_backward(struct tape *t, const struct lvn_instr *f)
{
    struct lvn_program *p = t->p;
    LVN_CHECK(f->op->spec.backward, UNSUPPORTED, "%s: '%s' has no gradient", f->name, f->op->name);
    struct lvn_instr *b = lvn_program_add_instr(p, f->id, LVN_BACKWARD);
    if (!b) return LVN_MEMORY;
    t->at = p->n_instrs - 1;
    b->attr = f->attr;
    b->name = f->name;
    b->hash = f->hash;
    b->product_dtype = f->product_dtype;
    b->block = f->block;
    for (int k = 0; k < f->op->n_in; k++)
        if (f->op->reads & LVN_READS_IN(k)) b->in[k] = f->in[k];
    for (int k = 0; k < f->op->n_out + f->op->n_saved; k++)
        if (f->op->gradient_in_forward || f->op->reads & LVN_READS_OUT(k)) b->out[k] = f->out[k];
    for (int k = 0; k < f->op->n_out; k++) {
        int v = f->out[k].value;
        if (v < 0 || t->of[v].value < 0) continue;
        LVN_TRY(complete(t, v));
        p->instrs[t->at].dout[k] = (struct lvn_operand){.value = t->of[v].value, .desc = f->out[k].desc};
        set_done(t, v);
    }
    bool shared_pair;
    LVN_TRY(share_target(t, f, &shared_pair));
    for (int k = shared_pair ? 2 : 0; k < f->op->n_in; k++) {
        int separate, shared;
        if (f->in[k].value < 0 || !t->wanted[f->in[k].value]) continue;
        LVN_TRY(target(t, k, &f->in[k], &separate, &shared));
        if (separate < 0) continue;
        LVN_TRY(emit_sum(t, shared, separate, separate));
        set_gradient(t, f->in[k].value, separate);
    }
    return LVN_OK;
}

static enum lvn_status walk(struct tape *t, int n_forward)
{
    struct lvn_program *p = t->p;
    for (int n = n_forward - 1; n >= 0; n--) {
        struct lvn_instr f = p->instrs[n]; /* a copy: appending moves the list */
        bool loss = p->n_outputs > 0 && f.out[0].value == p->value_of_tensor[p->outputs[0]->id];
        bool reached = loss;
        for (int k = 0; k < f.op->n_out; k++) reached |= f.out[k].value >= 0 && t->of[f.out[k].value].value >= 0;
        if (!reached || !t->wanted[f.out[0].value]) continue;
        if (f.op->passes_gradient) {
            int g = t->of[f.out[0].value].value;
            LVN_TRY(complete(t, f.out[0].value));
            set_done(t, f.out[0].value);
            LVN_TRY(pass_on(t, &f.in[0], g));
            LVN_TRY(pass_on(t, &f.in[1], g));
        } else {
            LVN_TRY(emit_backward(t, &f));
        }
    }
    return LVN_OK;
}

/* Forward instructions whose backward gives the outputs as well are not run twice. */
static void drop_doubled(struct lvn_program *p, int n_forward)
{
    int kept = 0;
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        bool doubled = false;
        if (n < n_forward && i->op->gradient_in_forward)
            for (int m = n_forward; m < p->n_instrs && !doubled; m++)
                doubled = p->instrs[m].phase == LVN_BACKWARD && p->instrs[m].name == i->name;
        if (!doubled) p->instrs[kept++] = p->instrs[n];
    }
    p->n_instrs = kept;
}

enum lvn_status lvn_pass_differentiate(struct lvn_program *p)
{
    int n_forward = p->n_instrs, n = p->n_values;
    struct tape t = {.p = p,
                     .of = lvn_arena_alloc(&p->arena, sizeof *t.of * (size_t)(n + 1)),
                     .wanted = lvn_arena_alloc(&p->arena, sizeof *t.wanted * (size_t)(n + 1)),
                     .done = lvn_arena_alloc(&p->arena, sizeof *t.done * (size_t)(n + 1)),
                     .n_forward = n_forward};
    if (!t.of || !t.wanted || !t.done) return LVN_MEMORY;
    for (int v = 0; v < n; v++) t.of[v].value = -1;
    mark_wanted(&t);
    enum lvn_status status = walk(&t, n_forward);
    free(t.owners);
    LVN_TRY(status);
    drop_doubled(p, n_forward);
    p->training = true;
    return LVN_OK;
}

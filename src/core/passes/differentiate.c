/* differentiate.c - the pass that appends the backward instructions (reverse-mode differentiation of the forward list).
 *
 * It visits the forward instructions from the last to the first. Each one whose output has a gradient gets a backward
 * instruction, which writes the gradients of its inputs. The first contribution to a gradient overwrites and later ones
 * add, so a gradient is filled with zeros only where that does not suffice.
 *
 * Each value has one gradient; views of a value (the query, key and value heads of one projection) write disjoint
 * regions of it. If views overlap, or do not cover the value, the gradient is filled with zeros before the first of
 * them, and all add. An addition passes its gradient on: both inputs then share one gradient, until one of them gets a
 * contribution that does not belong to the other. Two cases need a separate gradient, which is then added: an operation
 * whose output is added to its input, x + f(x), and an operation with the same tensor as several inputs.
 *
 * The backward instructions write gradients of parameters to GRAD, and add to those of earlier micro-batches. If a
 * gradient needs zeros, a sum, or the gradient of another value, it is computed in the arena, and then copied.
 *
 * Not supported: gradients of gradients. */

#include "base/list.h"
#include "passes/pass.h"

enum { MAX_REGIONS = 8 }; /* per gradient; a gradient with more is filled with zeros first */

struct gradient {
    int value; /* the value that holds it; -1: none yet */
    int n_regions;
    struct lvn_desc *region; /* [MAX_REGIONS] the regions written so far; NULL: none yet */
};

struct tape {
    struct lvn_program *p;
    struct gradient *grad; /* forward value -> its gradient */
    bool *requires_grad;   /* forward value -> it depends on a trainable parameter */
    bool *in_arena;        /* parameter -> its gradient is computed in the arena */
    bool *done;            /* forward value -> the backward of the instruction that computes it was appended */
    int *owners;           /* gradient -> number of forward values that use it and are not done */
    int64_t owners_capacity;
    int n_forward; /* forward instructions */
    int current;   /* index of the backward instruction under construction */
    int n_summands;
    int summands[LVN_MAX_IN]; /* gradients that are read by the sums after that instruction */
};

static void find_requires_grad(struct tape *t)
{
    struct lvn_program *p = t->p;
    for (int v = 0; v < p->n_values; v++) t->requires_grad[v] = p->values[v].param && p->values[v].param->trainable;
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        bool any = false;
        for (int k = 0; k < LVN_MAX_IN; k++) any |= i->in[k].value >= 0 && t->requires_grad[i->in[k].value];
        for (int k = 0; any && k < i->op->n_out; k++)
            if (i->out[k].value >= 0) t->requires_grad[i->out[k].value] = true;
    }
}

/* Make value `gradient` the gradient of forward value v. */
static void set_gradient(struct tape *t, int v, int gradient)
{
    if (t->grad[v].value >= 0 && !t->done[v]) t->owners[t->grad[v].value]--;
    if (gradient >= 0 && !t->done[v]) t->owners[gradient]++;
    t->grad[v].value = gradient;
}

/* The backward of the instruction that computes v was appended. */
static void set_done(struct tape *t, int v)
{
    if (t->grad[v].value >= 0 && !t->done[v]) t->owners[t->grad[v].value]--;
    t->done[v] = true;
}

/* Ensure that owners[n] exists; new counts are 0. */
static bool grow_owners(struct tape *t, int n)
{
    const int64_t before = t->owners_capacity;
    if (!lvn_list_reserve(&t->owners, &t->owners_capacity, n + 1, sizeof *t->owners)) return false;
    memset(t->owners + before, 0, sizeof *t->owners * (size_t)(t->owners_capacity - before));
    return true;
}

static int64_t elements(const struct lvn_program *p, int v)
{
    return p->values[v].bytes / lvn_dtype_bytes(p->values[v].dtype);
}

/* Append a value for the gradient of v; -1: out of memory. */
static int new_gradient(struct tape *t, int v)
{
    struct lvn_program *p = t->p;
    const struct lvn_value value = p->values[v];
    const bool grad = value.param && !t->in_arena[v];
    enum lvn_buffer where = grad ? LVN_BUFFER_GRAD : LVN_BUFFER_ARENA;
    char *name = lvn_arena_printf(&p->arena, "gradient of %s", value.name);
    enum lvn_dtype dtype = grad ? p->gradients : value.param ? p->real : value.dtype;
    int g = name ? lvn_program_add_value(p, name, where, dtype, elements(p, v)) : -1;
    if (g < 0 || !grow_owners(t, g)) return -1;
    p->values[g].param = grad ? value.param : NULL;
    p->values[g].offset = grad ? value.offset / lvn_dtype_bytes(value.dtype) * lvn_dtype_bytes(dtype) : 0;
    return g;
}

/* From now on, compute the gradient of v in the arena if it is a parameter. Earlier instructions write it there too. */
static enum lvn_status move_to_arena(struct tape *t, int v)
{
    struct lvn_program *p = t->p;
    const int grad = t->grad[v].value;
    if (!p->values[v].param || t->in_arena[v]) return LVN_OK;
    t->in_arena[v] = true;
    if (grad < 0) return LVN_OK;
    const int moved = new_gradient(t, v);
    if (moved < 0) return LVN_MEMORY;
    set_gradient(t, v, moved);
    for (int n = t->n_forward; n < p->n_instrs; n++)
        for (int k = 0; k < LVN_MAX_IN; k++) {
            struct lvn_operand *o = &p->instrs[n].din[k];
            if (o->value != grad) continue;
            o->value = moved;
            o->desc.dtype = p->real;
            p->instrs[n].param_gradient[k] = false;
        }
    return LVN_OK;
}

/* Are all elements of b among those of a? False if one of them is not contiguous. */
static bool span_contains(const struct lvn_desc *a, const struct lvn_desc *b)
{
    return lvn_desc_contiguous(a) && lvn_desc_contiguous(b) && a->offset <= b->offset &&
           b->offset + lvn_desc_count(b) <= a->offset + lvn_desc_count(a);
}

/* Extend contiguous region a by its neighbor b, so that a tensor of which many parts are used has one region. */
static bool span_join(struct lvn_desc *a, const struct lvn_desc *b)
{
    const int64_t n_a = lvn_desc_count(a), n_b = lvn_desc_count(b), n = n_a + n_b;
    const bool before = b->offset + n_b == a->offset, after = a->offset + n_a == b->offset;
    if (!lvn_desc_contiguous(a) || !lvn_desc_contiguous(b) || (!before && !after)) return false;
    const int64_t offset = before ? b->offset : a->offset;
    *a = lvn_desc_make(a->dtype, 1, &n);
    a->offset = offset;
    return true;
}

static bool same_region(const struct lvn_program *p, int v, const struct lvn_desc *a, const struct lvn_desc *b)
{
    int64_t all = elements(p, v);
    if (lvn_desc_count(a) == all && lvn_desc_count(b) == all) return true;
    return a->offset == b->offset && lvn_desc_same_shape(a, b) &&
           memcmp(a->stride, b->stride, sizeof a->stride[0] * (size_t)a->rank) == 0;
}

static struct lvn_operand whole_value(const struct lvn_program *p, int v)
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

/* Insert an instruction before instruction `at` that fills `value` with zeros, which all instructions from there on
 * then add to. */
static enum lvn_status insert_zeros(struct tape *t, int value, int at)
{
    struct lvn_program *p = t->p;
    struct lvn_instr *last = lvn_program_add_instr(p, LVN_OP_zeros, LVN_FORWARD);
    if (!last) return LVN_MEMORY;
    struct lvn_instr zeros = *last;
    zeros.name = p->values[value].name;
    zeros.out[0] = whole_value(p, value);
    memmove(&p->instrs[at + 1], &p->instrs[at], sizeof zeros * (size_t)(p->n_instrs - 1 - at));
    p->instrs[at] = zeros;
    t->current += t->current >= at;
    for (int n = at + 1; n < p->n_instrs; n++)
        for (int k = 0; k < LVN_MAX_IN; k++) p->instrs[n].add[k] |= p->instrs[n].din[k].value == value;
    return LVN_OK;
}

/* Fill the gradient of v with zeros before its first contribution, and make all contributions add. */
static enum lvn_status fill(struct tape *t, int v)
{
    struct lvn_program *p = t->p;
    LVN_TRY(move_to_arena(t, v));
    int value = t->grad[v].value, first = t->n_forward;
    while (first < p->n_instrs && !writes(&p->instrs[first], value)) first++;
    if (!has_regions(t, &t->grad[v])) return LVN_MEMORY;
    LVN_TRY(insert_zeros(t, value, first));
    t->grad[v].n_regions = 1;
    t->grad[v].region[0] = whole_value(p, value).desc;
    return LVN_OK;
}

/* Record a contribution to region `d` of the gradient of v. *add: the region already holds a contribution or zeros. */
static enum lvn_status enter_region(struct tape *t, int v, const struct lvn_desc *d, bool *add)
{
    struct gradient *g = &t->grad[v];
    bool is_disjoint = g->n_regions < MAX_REGIONS;
    if (!has_regions(t, g)) return LVN_MEMORY;
    *add = true;
    for (int r = 0; r < g->n_regions; r++) {
        if (same_region(t->p, v, &g->region[r], d) || lvn_desc_count(&g->region[r]) == elements(t->p, v)) return LVN_OK;
        if (span_contains(&g->region[r], d)) return LVN_OK;
        is_disjoint = is_disjoint && lvn_desc_disjoint(&g->region[r], d);
    }
    if (!is_disjoint) return fill(t, v);
    *add = false;
    for (int r = 0; r < g->n_regions; r++)
        if (span_join(&g->region[r], d)) return LVN_OK;
    g->region[g->n_regions++] = *d;
    return LVN_OK;
}

/* Before the gradient of v is read: fill it with zeros if its regions do not cover it. */
static enum lvn_status complete(struct tape *t, int v)
{
    const struct gradient *g = &t->grad[v];
    int64_t written = 0;
    for (int r = 0; r < g->n_regions; r++) written += lvn_desc_count(&g->region[r]);
    return written == elements(t->p, v) ? LVN_OK : fill(t, v);
}

/* Append sum = a + b; `sum` may be a or b. */
static enum lvn_status emit_sum(struct tape *t, int a, int b, int sum)
{
    struct lvn_instr *i = lvn_program_add_instr(t->p, LVN_OP_add, LVN_FORWARD);
    if (!i) return LVN_MEMORY;
    i->name = t->p->values[sum].name;
    i->in[0] = whole_value(t->p, a);
    i->in[1] = whole_value(t->p, b);
    i->out[0] = whole_value(t->p, sum);
    return LVN_OK;
}

/* Add gradient `g`, already computed, to the gradient of input x, without a backward instruction (for additions). */
static enum lvn_status pass_on(struct tape *t, const struct lvn_operand *x, int g)
{
    struct lvn_program *p = t->p;
    int v = x->value;
    if (v < 0 || !t->requires_grad[v]) return LVN_OK;
    LVN_CHECK(lvn_desc_count(&x->desc) == elements(p, v), UNSUPPORTED,
              "levin_add() has no gradient for a view of a part of '%s': copy the view with levin_pack() first",
              p->values[v].name);
    LVN_TRY(move_to_arena(t, v));
    struct gradient *have = &t->grad[v];
    if (have->value < 0) {
        bool add;
        set_gradient(t, v, g);
        return enter_region(t, v, &x->desc, &add);
    }
    LVN_TRY(complete(t, v));
    const bool in_place = t->owners[have->value] == 1 && have->value != g; /* g may also be passed to the other input */
    int sum = in_place ? have->value : new_gradient(t, v);
    if (sum < 0) return LVN_MEMORY;
    LVN_TRY(emit_sum(t, have->value, g, sum));
    set_gradient(t, v, sum);
    return LVN_OK;
}

/* Must the gradient of input k have memory other than `gradient`? True if the current backward instruction reads
 * `gradient`, if it writes an overlapping region of it for an input before k, or if a sum after the instruction reads
 * it. Kernels read and write in any order. */
static bool is_used_now(const struct tape *t, int k, int gradient, const struct lvn_desc *d)
{
    const struct lvn_instr *b = &t->p->instrs[t->current];
    for (int j = 0; j < b->op->n_out; j++)
        if (b->dout[j].value == gradient) return true;
    for (int j = 0; j < t->n_summands; j++)
        if (t->summands[j] == gradient) return true;
    for (int j = 0; j < k; j++)
        if (b->din[j].value == gradient && !lvn_desc_disjoint(&b->din[j].desc, d)) return true;
    return false;
}

/* Set the operand to which the current backward instruction writes the gradient of input k. *separate >= 0: it is a new
 * value, because other values share the existing gradient *shared, or the instruction uses it otherwise; the caller
 * must then append their sum. */
static enum lvn_status target(struct tape *t, int k, const struct lvn_operand *x, int *separate, int *shared)
{
    struct lvn_program *p = t->p;
    int v = x->value;
    *separate = *shared = -1;
    struct gradient *g = &t->grad[v];
    int value = g->value;
    bool add = false;
    if (value >= 0 && (t->owners[value] > 1 || is_used_now(t, k, value, &x->desc))) {
        LVN_TRY(move_to_arena(t, v));
        LVN_TRY(complete(t, v));
        *shared = g->value;
        *separate = value = new_gradient(t, v);
        if (value < 0) return LVN_MEMORY;
        t->summands[t->n_summands++] = *shared;
        if (lvn_desc_count(&x->desc) != elements(p, v)) {
            LVN_TRY(insert_zeros(t, value, t->current));
            add = true;
        }
    } else {
        if (value < 0) set_gradient(t, v, value = new_gradient(t, v));
        if (value < 0) return LVN_MEMORY;
        LVN_TRY(enter_region(t, v, &x->desc, &add));
        value = g->value; /* it may have moved to the arena */
    }
    struct lvn_instr *b = &p->instrs[t->current];
    b->din[k] = (struct lvn_operand){.value = value, .desc = x->desc};
    b->din[k].desc.dtype = p->values[value].dtype;
    b->add[k] = add;
    b->param_gradient[k] = p->values[value].param != NULL;
    return LVN_OK;
}

/* If inputs 0 and 1 have the same gradient and neither has one yet, write it once, and set *shared. */
static enum lvn_status share_target(struct tape *t, const struct lvn_instr *f, bool *shared)
{
    int a = f->in[0].value, b = f->in[1].value, none;
    *shared = false;
    if (!f->op->same_gradient || !f->op->same_gradient(&f->attr)) return LVN_OK;
    if (a == b || !t->requires_grad[a] || !t->requires_grad[b] || t->grad[a].value >= 0 || t->grad[b].value >= 0)
        return LVN_OK;
    if (t->p->values[a].param || t->p->values[b].param) return LVN_OK;
    if (t->p->values[a].dtype != t->p->values[b].dtype) return LVN_OK;
    const int64_t n = lvn_desc_count(
        &f->in[0].desc); /* a view's gradient is a region of its value's gradient, so it cannot be shared */
    if (elements(t->p, a) != n || elements(t->p, b) != n) return LVN_OK;
    LVN_TRY(target(t, 0, &f->in[0], &none, &none));
    *shared = true;
    return pass_on(t, &f->in[1], t->grad[a].value);
}

/* Append the backward instruction of forward instruction f. */
static enum lvn_status emit_backward(struct tape *t, const struct lvn_instr *f)
{
    struct lvn_program *p = t->p;
    LVN_CHECK(f->op->spec.backward, UNSUPPORTED, "%s: '%s' has no gradient", f->name, f->op->name);
    struct lvn_instr *b = lvn_program_add_instr(p, f->id, LVN_BACKWARD);
    if (!b) return LVN_MEMORY;
    t->current = p->n_instrs - 1;
    t->n_summands = 0;
    b->attr = f->attr;
    b->name = f->name;
    b->hash = f->hash;
    b->matmul_dtype = f->matmul_dtype;
    b->block = f->block;
    for (int k = 0; k < f->op->n_in; k++)
        if (f->op->reads & LVN_READS_IN(k)) b->in[k] = f->in[k];
    for (int k = 0; k < f->op->n_out + f->op->n_saved; k++)
        if (f->op->forward_in_backward || f->op->reads & LVN_READS_OUT(k)) b->out[k] = f->out[k];
    for (int k = 0; k < f->op->n_out; k++) {
        int v = f->out[k].value;
        if (v < 0 || t->grad[v].value < 0) continue;
        LVN_TRY(complete(t, v));
        p->instrs[t->current].dout[k] = (struct lvn_operand){.value = t->grad[v].value, .desc = f->out[k].desc};
        set_done(t, v);
    }
    bool shared_pair;
    LVN_TRY(share_target(t, f, &shared_pair));
    for (int k = shared_pair ? 2 : 0; k < f->op->n_in; k++) {
        int separate, shared;
        if (f->in[k].value < 0 || !t->requires_grad[f->in[k].value]) continue;
        LVN_TRY(target(t, k, &f->in[k], &separate, &shared));
        if (separate < 0) continue;
        LVN_TRY(emit_sum(t, shared, separate, separate));
        set_gradient(t, f->in[k].value, separate);
    }
    return LVN_OK;
}

static enum lvn_status visit_forward(struct tape *t, int n_forward)
{
    struct lvn_program *p = t->p;
    for (int n = n_forward - 1; n >= 0; n--) {
        struct lvn_instr f = p->instrs[n]; /* a copy: appending may move the list */
        bool loss = p->n_outputs > 0 && f.out[0].value == p->value_of_tensor[p->outputs[0]->id];
        bool reached = loss;
        for (int k = 0; k < f.op->n_out; k++) reached |= f.out[k].value >= 0 && t->grad[f.out[k].value].value >= 0;
        if (!reached || !t->requires_grad[f.out[0].value]) continue;
        if (f.op->passes_gradient) {
            int g = t->grad[f.out[0].value].value;
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

/* Copy gradients of parameters from the arena to GRAD: those that were computed there and, if all of GRAD must be
 * written, those that the instructions write only in part. */
static enum lvn_status copy_from_arena(struct tape *t, int n_values)
{
    struct lvn_program *p = t->p;
    for (int v = 0; v < n_values; v++) {
        if (!p->values[v].param || t->grad[v].value < 0) continue;
        if (t->in_arena[v] || p->writes_gradients) LVN_TRY(complete(t, v));
        if (!t->in_arena[v]) continue;
        t->in_arena[v] = false;
        const int grad = new_gradient(t, v);
        struct lvn_instr *i = lvn_program_add_instr(p, LVN_OP_widen, LVN_BACKWARD);
        if (grad < 0 || !i) return LVN_MEMORY;
        i->name = p->values[v].name;
        i->dout[0] = whole_value(p, t->grad[v].value);
        i->din[0] = whole_value(p, grad);
        i->param_gradient[0] = true;
    }
    return LVN_OK;
}

/* Drop forward instructions whose backward also computes the outputs (forward_in_backward). */
static void drop_repeated(struct lvn_program *p, int n_forward)
{
    int n_left = 0;
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        bool repeated = false;
        if (n < n_forward && i->op->forward_in_backward)
            for (int m = n_forward; m < p->n_instrs && !repeated; m++)
                repeated = p->instrs[m].phase == LVN_BACKWARD && p->instrs[m].name == i->name;
        if (!repeated) p->instrs[n_left++] = p->instrs[n];
    }
    p->n_instrs = n_left;
}

enum lvn_status lvn_pass_differentiate(struct lvn_program *p)
{
    int n_forward = p->n_instrs, n = p->n_values;
    struct tape t = {.p = p,
                     .grad = lvn_arena_alloc(&p->arena, sizeof *t.grad * (size_t)(n + 1)),
                     .requires_grad = lvn_arena_alloc(&p->arena, sizeof *t.requires_grad * (size_t)(n + 1)),
                     .in_arena = lvn_arena_alloc(&p->arena, sizeof *t.in_arena * (size_t)(n + 1)),
                     .done = lvn_arena_alloc(&p->arena, sizeof *t.done * (size_t)(n + 1)),
                     .n_forward = n_forward};
    if (!t.grad || !t.requires_grad || !t.in_arena || !t.done) return LVN_MEMORY;
    for (int v = 0; v < n; v++) t.grad[v].value = -1;
    find_requires_grad(&t);
    enum lvn_status status = visit_forward(&t, n_forward);
    if (status == LVN_OK) status = copy_from_arena(&t, n);
    free(t.owners);
    LVN_TRY(status);
    drop_repeated(p, n_forward);
    p->training = true;
    return LVN_OK;
}

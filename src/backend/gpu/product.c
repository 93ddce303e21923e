/* product.c - matrix products by the library of a device's maker, where the device has one: which products it is asked
 * for, and what is launched around them.
 *
 * A library wants both operands in one type. Where products may be of 16 bits (struct lvn_call), an operand in fp32, as
 * the parameters are in mixed precision, is rounded into scratch first, once for all products of an instruction that
 * read it as it is; so is a bias, which must be of the result's type. GELU goes into the product where it is the one by
 * tanh and the result has 16 bits, which hides that a library's tanh is a short one; else the kernel of gelu.k follows.
 */
#include <string.h>

#include "backend/gpu/kernel_launch.h"
#include "base/arena.h"

enum { ALIGNED = 16 }; /* bytes: what a library's fastest loads want, and all that is asked for */

/* An operand that was rounded for a product. */
struct lvn_gpu_rounded {
    struct lvn_gpu_arg from;
    int64_t n, at, capacity; /* numbers; its place in scratch, and how many fit there */
    bool holds;              /* it is still as `from` is */
    struct lvn_gpu_rounded *next;
};

static bool absent(const struct lvn_gpu *g, const struct lvn_gpu_arg *a)
{
    return a->kind == LVN_GPU_END || a->kind == LVN_GPU_OPERAND_NONE ||
           (a->kind != LVN_GPU_OPERAND_SCRATCH && !lvn_gpu_desc(g->call, a));
}

static enum lvn_dtype type_of(const struct lvn_gpu *g, const struct lvn_gpu_arg *a)
{
    const struct lvn_desc *d = lvn_gpu_desc(g->call, a);
    return d ? d->dtype : a->type;
}

/* What an address is a multiple of, as far as it is known before anything has its place. */
static int alignment(const struct lvn_gpu *g, const struct lvn_gpu_arg *a)
{
    const struct lvn_desc *d = lvn_gpu_desc(g->call, a);
    int64_t at = a->number + (d ? d->offset * lvn_dtype_bytes(d->dtype) : 0), bytes = ALIGNED;
    while (at % bytes) bytes /= 2;
    return (int)bytes;
}

/* How (rows, columns) lies: row by row, or transposed. False: as no library takes it. */
static bool lies(int64_t rows, int64_t columns, int64_t row, int64_t column, int64_t *ld, int *transposed)
{
    *transposed = !(column == 1 && row >= columns);
    *ld = *transposed ? column : row;
    return !*transposed || (row == 1 && column >= rows);
}

/* From the first number of a matrix to its last. */
static int64_t extent(int64_t rows, int64_t columns, int64_t ld, int transposed)
{
    return transposed ? (columns - 1) * ld + rows : (rows - 1) * ld + columns;
}

/* In which type the operands are multiplied. False: they are of two, and none may be rounded. */
static bool choose_type(const struct lvn_gpu *g, const struct lvn_gpu_product *p, struct lvn_gpu_matmul *m)
{
    const enum lvn_dtype a = type_of(g, &p->a), b = type_of(g, &p->b);
    const enum lvn_dtype half = g->call->product_dtype != LVN_F32 ? g->call->product_dtype : a == b ? a : LVN_F32;
    m->in = (int)half;
    m->out = (int)type_of(g, &p->c);
    if (m->out != LVN_F32 && m->out != (int)half) return false;
    return (a == LVN_F32 || a == half) && (b == LVN_F32 || b == half);
}

static bool ask(struct lvn_gpu *g, const struct lvn_gpu_matmul *m, int64_t *scratch)
{
    bool taken = false;
    if (g->status == LVN_OK) g->status = g->library->takes(g->library, m, &taken, scratch);
    return taken && g->status == LVN_OK;
}

/* --- rounding operands --- */

static bool same(const struct lvn_gpu_arg *a, const struct lvn_gpu_arg *b)
{
    return a->kind == b->kind && a->index == b->index && a->number == b->number;
}

static struct lvn_gpu_rounded *place_for(struct lvn_gpu *g, const struct lvn_gpu_arg *a, int type, int64_t n)
{
    for (struct lvn_gpu_rounded *r = g->rounded; r; r = r->next)
        if (same(&r->from, a) && r->capacity >= n) return r;
    struct lvn_gpu_rounded *r = lvn_arena_alloc(g->arena, sizeof *r);
    if (!r) return NULL;
    *r = (struct lvn_gpu_rounded){.from = *a, .capacity = n, .next = g->rounded};
    r->at = lvn_gpu_scratch(g, n * lvn_dtype_bytes((enum lvn_dtype)type));
    g->rounded = r;
    return r;
}

/* n numbers of an operand, in the type of a product's: itself, or where they lie rounded. */
static struct lvn_gpu_arg rounded(struct lvn_gpu *g, const struct lvn_gpu_arg *a, int type, int64_t n)
{
    if ((int)type_of(g, a) == type) return *a;
    struct lvn_gpu_rounded *r = place_for(g, a, type, n);
    if (!r) g->status = LVN_MEMORY;
    if (g->status != LVN_OK) return *a;
    struct lvn_gpu_arg x = *a,
                       y = {
                           .kind = LVN_GPU_OPERAND_SCRATCH, .number = r->at, .type = (enum lvn_dtype)type, .name = "y"};
    if (!r->holds || r->n < n) {
        const struct lvn_gpu_launch l = {.source = "widen", .kernel = "widen", .grid = {lvn_gpu_groups(n), 1, 1}};
        x.name = "x";
        (void)lvn_gpu_append(g, &l, (const struct lvn_gpu_arg[]){x, y, LVN_INT(0), LVN_LONG(n)}, 4);
        r->n = n;
        r->holds = true;
    }
    y.name = a->name;
    return y;
}

void lvn_gpu_products_forget(struct lvn_gpu *g)
{
    for (struct lvn_gpu_rounded *r = g->rounded; r; r = r->next)
        if (r->from.kind == LVN_GPU_OPERAND_SCRATCH) r->holds = false;
}

/* --- the product --- */

static void append(struct lvn_gpu *g, const struct lvn_gpu_product *p, const struct lvn_gpu_matmul *m, int64_t scratch)
{
    struct lvn_gpu_arg args[LVN_GPU_PRODUCT_ARGS] = {
        [LVN_GPU_PRODUCT_A] = rounded(g, &p->a, m->in, extent(m->M, m->K, m->a_ld, m->a_transposed)),
        [LVN_GPU_PRODUCT_B] = rounded(g, &p->b, m->in, extent(m->K, m->N, m->b_ld, m->b_transposed)),
        [LVN_GPU_PRODUCT_BIAS] = m->bias ? rounded(g, &p->bias, m->out, m->N) : p->bias,
        [LVN_GPU_PRODUCT_C] = p->c,
        [LVN_GPU_PRODUCT_Y] = p->y,
        [LVN_GPU_PRODUCT_ADD] = p->add,
        [LVN_GPU_PRODUCT_SCRATCH] = {.kind = LVN_GPU_OPERAND_SCRATCH, .name = "scratch"}};
    struct lvn_gpu_matmul *own = lvn_arena_alloc(g->arena, sizeof *own);
    if (!own) g->status = LVN_MEMORY;
    if (g->status != LVN_OK) return;
    *own = *m;
    const struct lvn_gpu_launch l = {
        .source = "linear", .kernel = "a product", .product = own, .product_scratch = scratch};
    if (p->c.kind == LVN_GPU_OPERAND_SCRATCH) lvn_gpu_products_forget(g);
    (void)lvn_gpu_append(g, &l, args, LVN_GPU_PRODUCT_ARGS);
}

bool lvn_gpu_product(struct lvn_gpu *g, const struct lvn_gpu_product *p)
{
    struct lvn_gpu_matmul m = {.M = p->M, .N = p->N, .K = p->K, .bias = !absent(g, &p->bias)};
    struct lvn_gpu_product plain = *p;
    const bool gelu = !absent(g, &p->y);
    int64_t scratch = 0;
    if (!g->library || g->status != LVN_OK || !choose_type(g, p, &m)) return false;
    if (!lies(m.M, m.K, p->a_row, p->a_col, &m.a_ld, &m.a_transposed)) return false;
    if (!lies(m.K, m.N, p->b_row, p->b_col, &m.b_ld, &m.b_transposed)) return false;
    m.max = g->library->max;
    m.a_at = (int)type_of(g, &p->a) == m.in ? alignment(g, &p->a) : ALIGNED;
    m.b_at = (int)type_of(g, &p->b) == m.in ? alignment(g, &p->b) : ALIGNED;
    m.c_at = alignment(g, &p->c);
    if (gelu && alignment(g, &p->y) < m.c_at) m.c_at = alignment(g, &p->y);
    if (m.bias && alignment(g, &p->bias) < m.c_at) m.c_at = alignment(g, &p->bias);
    m.gelu = gelu && p->tangent && m.out != LVN_F32;
    bool taken = ask(g, &m, &scratch);
    if (!taken && m.gelu) {
        m.gelu = 0;
        taken = ask(g, &m, &scratch);
    }
    if (!taken) return g->status != LVN_OK;
    if (!m.gelu) plain.y = (struct lvn_gpu_arg)LVN_ABSENT(y);
    append(g, &plain, &m, scratch);
    if (!gelu || m.gelu) return true;
    struct lvn_gpu_arg x = p->c;
    const char *own = g->source;
    x.name = "x";
    g->source = "gelu";
    LVN_LAUNCH(g, "gelu_forward", lvn_gpu_groups(m.M * m.N), 1, 1, x, p->y, LVN_LONG(m.M * m.N), LVN_INT(p->tangent));
    g->source = own;
    return true;
}

void lvn_gpu_products_end(struct lvn_gpu *g)
{
    int64_t max = 0, at = g->scratch_bytes;
    for (int l = 0; l < g->n_launches; l++) {
        if (!g->launches[l].product) continue;
        g->launches[l].args[LVN_GPU_PRODUCT_SCRATCH].number = at;
        if (g->launches[l].product_scratch > max) max = g->launches[l].product_scratch;
    }
    (void)lvn_gpu_scratch(g, max);
}

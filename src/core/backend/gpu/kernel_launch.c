/* kernel_launch.c - see kernel_launch.h. */
#include "backend/gpu/kernel_launch.h"

#include "base/arena.h"

enum { SCRATCH_ALIGN = 64 };

/* An fp32 operand of a multiplication by the library, rounded into scratch. */
struct lvn_gpu_rounded {
    struct lvn_gpu_arg source;
    int64_t n;        /* number of rounded elements */
    int64_t offset;   /* bytes within the instruction's scratch */
    int64_t capacity; /* maximum number of elements */
    bool is_valid;    /* `source` has not changed since it was rounded */
    struct lvn_gpu_rounded *next;
};

const struct lvn_desc *lvn_gpu_desc(const struct lvn_call *c, const struct lvn_gpu_arg *a)
{
    switch ((int)a->kind) {
    case LVN_GPU_OPERAND_IN:
        return c->in[a->index].desc;
    case LVN_GPU_OPERAND_OUT:
        return c->out[a->index].desc;
    case LVN_GPU_OPERAND_DIN:
        return c->din[a->index].desc;
    case LVN_GPU_OPERAND_DOUT:
        return c->dout[a->index].desc;
    default:
        return NULL;
    }
}

/* Element type of an operand, including scratch. */
static enum lvn_dtype type_of(const struct lvn_gpu *g, const struct lvn_gpu_arg *a)
{
    const struct lvn_desc *d = lvn_gpu_desc(g->call, a);
    return d ? d->dtype : a->type;
}

/* Alignment in bytes of an operand's address, at most LVN_GPU_ALIGNED, as known during planning. */
static int alignment_of(const struct lvn_gpu *g, const struct lvn_gpu_arg *a)
{
    const struct lvn_desc *d = lvn_gpu_desc(g->call, a);
    int64_t offset = a->number + (d ? d->offset * lvn_dtype_bytes(d->dtype) : 0), bytes = LVN_GPU_ALIGNED;
    while (offset % bytes) bytes /= 2;
    return (int)bytes;
}

/* Names of the types in kernels (kernel_language.h). */
static const char *const type_name[LVN_DTYPE_COUNT] = {[LVN_F32] = "f32", [LVN_BF16] = "bf16", [LVN_F16] = "f16"};

/* TYPE_x for each operand; operands without a definition are fp32. */
static const char *types_of(struct lvn_gpu *g, const struct lvn_gpu_arg *args, int n)
{
    const char *text = g->constants ? g->constants : "";
    for (const struct lvn_gpu_arg *a = args; text && a < args + n; a++) {
        const enum lvn_dtype type = type_of(g, a);
        if (type != LVN_F32 && type_name[type])
            text = lvn_arena_printf(g->arena, "%s#define TYPE_%s %s\n", text, a->name, type_name[type]);
    }
    return text;
}

/* Append a copy of l with n arguments. Out of memory: NULL, and g->status is set. */
static struct lvn_gpu_launch *append(struct lvn_gpu *g, const struct lvn_gpu_launch *l, const struct lvn_gpu_arg *args,
                                     int n)
{
    const bool full = (g->n_launches & (g->n_launches - 1)) == 0; /* the list has room for a power of two */
    struct lvn_gpu_launch *all =
        full ? lvn_arena_alloc(g->arena, sizeof *all * (size_t)(2 * g->n_launches + 1)) : g->launches;
    struct lvn_gpu_arg *copy = lvn_arena_alloc(g->arena, sizeof *copy * (size_t)(n + 1));
    const char *defines = types_of(g, args, n);
    if (!all || !copy || !defines) {
        g->status = LVN_MEMORY;
        return NULL;
    }
    memcpy(copy, args, sizeof *copy * (size_t)n);
    if (full && g->n_launches) memcpy(all, g->launches, sizeof *all * (size_t)g->n_launches);
    g->launches = all;
    all[g->n_launches] = *l;
    all[g->n_launches].defines = defines;
    all[g->n_launches].args = copy;
    all[g->n_launches].n_args = n;
    return &all[g->n_launches++];
}

/* Operands in scratch may have been overwritten, so invalidate their rounded copies. */
static void invalidate_rounded(struct lvn_gpu *g)
{
    for (struct lvn_gpu_rounded *r = g->rounded; r; r = r->next)
        if (r->source.kind == LVN_GPU_OPERAND_SCRATCH) r->is_valid = false;
}

void lvn_gpu_launch(struct lvn_gpu *g, const char *kernel, int64_t x, int64_t y, int64_t z,
                    const struct lvn_gpu_arg *args)
{
    const struct lvn_gpu_launch l = {.source = g->source, .kernel = kernel, .grid = {x, y, z}};
    int n = 0;
    if (g->status != LVN_OK || x <= 0 || y <= 0 || z <= 0) return;
    for (; args[n].kind != LVN_GPU_END; n++)
        if (args[n].kind == LVN_GPU_OPERAND_IN) g->read |= LVN_READS_IN(args[n].index);
    invalidate_rounded(g);
    (void)append(g, &l, args, n);
}

int lvn_gpu_width(const struct lvn_gpu *g, int64_t row, const struct lvn_gpu_arg *args)
{
    enum { WIDTH = 8 };
    if (row % WIDTH) return 1;
    for (const struct lvn_gpu_arg *a = args; a->kind != LVN_GPU_END; a++) {
        const bool operand = lvn_gpu_desc(g->call, a) || a->kind == LVN_GPU_OPERAND_SCRATCH;
        if (operand && alignment_of(g, a) < LVN_GPU_ALIGNED) return 1;
    }
    return WIDTH;
}

void lvn_gpu_launch_wide(struct lvn_gpu *g, const char *kernel, int64_t n, int64_t row, const struct lvn_gpu_arg *args)
{
    const char *constants = g->constants;
    const int width = lvn_gpu_width(g, row, args);
    if (width > 1) lvn_gpu_define(g, "LVN_WIDTH", width);
    lvn_gpu_launch(g, kernel, lvn_gpu_groups(n / width), 1, 1, args);
    g->constants = constants;
}

static void define(struct lvn_gpu *g, const char *name, const char *value)
{
    if (g->status != LVN_OK) return;
    g->constants = lvn_arena_printf(g->arena, "%s#define %s %s\n", g->constants ? g->constants : "", name, value);
    if (!g->constants) g->status = LVN_MEMORY;
}

void lvn_gpu_define(struct lvn_gpu *g, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    define(g, name, text);
}

void lvn_gpu_define_type(struct lvn_gpu *g, const char *name, enum lvn_dtype type)
{
    define(g, name, type_name[type]);
}

int64_t lvn_gpu_scratch(struct lvn_gpu *g, int64_t bytes)
{
    int64_t at = g->scratch_bytes;
    g->scratch_bytes += (bytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
    return at;
}

void lvn_gpu_refuse(struct lvn_gpu *g, const char *format, ...)
{
    char text[200];
    va_list list;
    if (g->status != LVN_OK) return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    g->status = lvn_fail(LVN_UNSUPPORTED, "%s", text);
}

/* --- matrix multiplication by the vendor's library (cuBLASLt), if the device has one ---
 *
 * The host halves of operations (NAME.k) call lvn_gpu_product(), which decides whether the library can compute a
 * multiplication and launches what is needed around it. The backend calls the library (cuda/cublaslt.c).
 *
 * A library requires both operands in one type. If 16-bit multiplication is allowed (struct lvn_call), fp32 operands,
 * such as the parameters in mixed precision, are first rounded into scratch, once per instruction for all of its
 * multiplications that read the same operand. The same holds for a bias, which must have the type of the result. GELU
 * is part of the library call if it is the tanh approximation and the result has 16 bits, which hide that the library's
 * tanh is approximate; otherwise the kernel of linear_gelu.k follows. */

static bool absent(const struct lvn_gpu *g, const struct lvn_gpu_arg *a)
{
    return a->kind == LVN_GPU_END || a->kind == LVN_GPU_OPERAND_NONE ||
           (a->kind != LVN_GPU_OPERAND_SCRATCH && !lvn_gpu_desc(g->call, a));
}

/* Is a matrix (rows, columns) row-major or transposed? Sets the leading dimension. False: neither, which no library
 * supports. */
static bool find_layout(int64_t rows, int64_t columns, int64_t row, int64_t column, int64_t *ld, int *transposed)
{
    *transposed = !(column == 1 && row >= columns);
    *ld = *transposed ? column : row;
    return !*transposed || (row == 1 && column >= rows);
}

/* Number of elements from the first element of a matrix to its last in memory. */
static int64_t extent(int64_t rows, int64_t columns, int64_t ld, int transposed)
{
    return transposed ? (columns - 1) * ld + rows : (rows - 1) * ld + columns;
}

/* The type in which operands of types a and b are multiplied. In decoding, fp32 activations are rounded to the type of
 * 16-bit weights, as in training. */
static enum lvn_dtype operands_type(const struct lvn_gpu *g, enum lvn_dtype a, enum lvn_dtype b)
{
    if (g->call->matmul_dtype != LVN_F32) return g->call->matmul_dtype;
    return a == LVN_F32 ? b : a;
}

/* The type in which the operands are multiplied, and that of the result. False: both have 16 bits and differ. */
static bool choose_type(const struct lvn_gpu *g, const struct lvn_gpu_product *p, struct lvn_gpu_matmul *m)
{
    const enum lvn_dtype a = type_of(g, &p->a), b = type_of(g, &p->b);
    const enum lvn_dtype operand_type = operands_type(g, a, b);
    m->in = (int)operand_type;
    m->out = (int)type_of(g, &p->c);
    if (m->out != LVN_F32 && m->out != (int)operand_type) return false;
    return (a == LVN_F32 || a == operand_type) && (b == LVN_F32 || b == operand_type);
}

static bool query_library(struct lvn_gpu *g, const struct lvn_gpu_matmul *m, int64_t *scratch)
{
    bool supported = false;
    if (g->status == LVN_OK) g->status = g->library->supports(g->library, m, &supported, scratch);
    return supported && g->status == LVN_OK;
}

/* --- rounding operands --- */

static bool same_arg(const struct lvn_gpu_arg *a, const struct lvn_gpu_arg *b)
{
    return a->kind == b->kind && a->index == b->index && a->number == b->number;
}

static struct lvn_gpu_rounded *scratch_for(struct lvn_gpu *g, const struct lvn_gpu_arg *a, int type, int64_t n)
{
    for (struct lvn_gpu_rounded *r = g->rounded; r; r = r->next)
        if (same_arg(&r->source, a) && r->capacity >= n) return r;
    struct lvn_gpu_rounded *r = lvn_arena_alloc(g->arena, sizeof *r);
    if (!r) return NULL;
    *r = (struct lvn_gpu_rounded){.source = *a, .capacity = n, .next = g->rounded};
    r->offset = lvn_gpu_scratch(g, n * lvn_dtype_bytes((enum lvn_dtype)type));
    g->rounded = r;
    return r;
}

/* This does not call lvn_gpu_launch(), because the multiplication reads the operand, and copies of other operands stay
 * valid. */
static void launch_rounding(struct lvn_gpu *g, const struct lvn_gpu_arg *x, const struct lvn_gpu_arg *y, int64_t n)
{
    const struct lvn_gpu_arg args[] = {*x, *y, LVN_INT(0), LVN_LONG(n), {.kind = LVN_GPU_END}};
    const char *constants = g->constants;
    const int width = lvn_gpu_width(g, n, args);
    const struct lvn_gpu_launch l = {.source = "widen", .kernel = "widen", .grid = {lvn_gpu_groups(n / width), 1, 1}};
    if (width > 1) lvn_gpu_define(g, "LVN_WIDTH", width);
    (void)append(g, &l, args, 4);
    g->constants = constants;
}

/* An operand of n elements in the type of the multiplication: itself, or its rounded copy, for which a rounding kernel
 * is launched if needed. */
static struct lvn_gpu_arg rounded(struct lvn_gpu *g, const struct lvn_gpu_arg *a, int type, int64_t n)
{
    if ((int)type_of(g, a) == type) {
        if (type == LVN_F32 && a->kind == LVN_GPU_OPERAND_IN) g->read |= LVN_READS_IN(a->index);
        return *a;
    }
    struct lvn_gpu_rounded *r = scratch_for(g, a, type, n);
    if (!r) g->status = LVN_MEMORY;
    if (g->status != LVN_OK) return *a;
    struct lvn_gpu_arg x = *a, y = {.kind = LVN_GPU_OPERAND_SCRATCH,
                                    .number = r->offset,
                                    .type = (enum lvn_dtype)type,
                                    .name = "y"};
    x.name = "x";
    if (!r->is_valid || r->n < n) {
        launch_rounding(g, &x, &y, n);
        r->n = n;
        r->is_valid = true;
    }
    y.name = a->name;
    return y;
}

/* --- the multiplication --- */

static void append_product(struct lvn_gpu *g, const struct lvn_gpu_product *p, const struct lvn_gpu_matmul *m,
                           int64_t scratch)
{
    struct lvn_gpu_arg args[LVN_GPU_PRODUCT_ARGS] = {
        [LVN_GPU_PRODUCT_A] = rounded(g, &p->a, m->in, extent(m->M, m->K, m->a_ld, m->a_transposed)),
        [LVN_GPU_PRODUCT_B] = rounded(g, &p->b, m->in, extent(m->K, m->N, m->b_ld, m->b_transposed)),
        [LVN_GPU_PRODUCT_BIAS] = m->bias ? rounded(g, &p->bias, m->out, m->N) : p->bias,
        [LVN_GPU_PRODUCT_C] = p->c,
        [LVN_GPU_PRODUCT_Y] = p->y,
        [LVN_GPU_PRODUCT_ADD] = p->add,
        [LVN_GPU_PRODUCT_SCRATCH] = {.kind = LVN_GPU_OPERAND_SCRATCH, .name = "scratch"}};
    struct lvn_gpu_matmul *copy = lvn_arena_alloc(g->arena, sizeof *copy);
    if (!copy) g->status = LVN_MEMORY;
    if (g->status != LVN_OK) return;
    *copy = *m;
    const struct lvn_gpu_launch l = {
        .source = "linear", .kernel = "matrix multiplication", .product = copy, .product_scratch = scratch};
    if (p->c.kind == LVN_GPU_OPERAND_SCRATCH) invalidate_rounded(g);
    for (struct lvn_gpu_rounded *r = g->rounded; r; r = r->next)
        if (same_arg(&r->source, &p->c)) r->is_valid = false; /* its copy is out of date */
    (void)append(g, &l, args, LVN_GPU_PRODUCT_ARGS);
}

bool lvn_gpu_product(struct lvn_gpu *g, const struct lvn_gpu_product *p)
{
    struct lvn_gpu_matmul m = {
        .M = p->M, .N = p->N, .K = p->K, .bias = !absent(g, &p->bias), .c_ld = p->c_row ? p->c_row : p->N};
    struct lvn_gpu_product plain = *p;
    const bool gelu = !absent(g, &p->y);
    int64_t scratch = 0;
    if (!g->library || g->status != LVN_OK || !choose_type(g, p, &m)) return false;
    if (!find_layout(m.M, m.K, p->a_row, p->a_col, &m.a_ld, &m.a_transposed)) return false;
    if (!find_layout(m.K, m.N, p->b_row, p->b_col, &m.b_ld, &m.b_transposed)) return false;
    m.max_scratch_bytes = g->library->max_scratch_bytes;
    m.a_at = (int)type_of(g, &p->a) == m.in ? alignment_of(g, &p->a) : LVN_GPU_ALIGNED;
    m.b_at = (int)type_of(g, &p->b) == m.in ? alignment_of(g, &p->b) : LVN_GPU_ALIGNED;
    m.c_at = alignment_of(g, &p->c);
    if (gelu && alignment_of(g, &p->y) < m.c_at) m.c_at = alignment_of(g, &p->y);
    if (m.bias && alignment_of(g, &p->bias) < m.c_at) m.c_at = alignment_of(g, &p->bias);
    m.gelu = gelu && p->tanh_gelu && m.out != LVN_F32;
    bool supported = query_library(g, &m, &scratch);
    if (!supported && m.gelu) {
        m.gelu = 0;
        supported = query_library(g, &m, &scratch);
    }
    if (!supported) return g->status != LVN_OK;
    if (!m.gelu) plain.y = (struct lvn_gpu_arg)LVN_ABSENT(y);
    append_product(g, &plain, &m, scratch);
    if (!gelu || m.gelu) return true;
    struct lvn_gpu_arg x = p->c;
    const char *source = g->source;
    const int64_t n = m.M * m.N;
    x.name = "x";
    g->source = "linear_gelu";
    LVN_LAUNCH_WIDE(g, "gelu_forward", n, n, x, p->y, LVN_INT(p->tanh_gelu));
    g->source = source;
    return true;
}

void lvn_gpu_products_end(struct lvn_gpu *g)
{
    int64_t max = 0, offset = g->scratch_bytes;
    for (int l = 0; l < g->n_launches; l++) {
        if (!g->launches[l].product) continue;
        g->launches[l].args[LVN_GPU_PRODUCT_SCRATCH].number = offset;
        if (g->launches[l].product_scratch > max) max = g->launches[l].product_scratch;
    }
    (void)lvn_gpu_scratch(g, max);
}

/* kernel_launch.c - see kernel_launch.h. See kernel_launch_product.c for matrix multiplication by a library. */
#include "backend/gpu/kernel_launch.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"

enum { SCRATCH_ALIGN = 64 };

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

enum lvn_dtype lvn_gpu_type(const struct lvn_gpu *g, const struct lvn_gpu_arg *a)
{
    const struct lvn_desc *d = lvn_gpu_desc(g->call, a);
    return d ? d->dtype : a->type;
}

int lvn_gpu_alignment(const struct lvn_gpu *g, const struct lvn_gpu_arg *a)
{
    const struct lvn_desc *d = lvn_gpu_desc(g->call, a);
    int64_t offset = a->number + (d ? d->offset * lvn_dtype_bytes(d->dtype) : 0), bytes = LVN_GPU_ALIGNED;
    while (offset % bytes) bytes /= 2;
    return (int)bytes;
}

/* Names of the types in kernels (words.h). */
static const char *const word_of[LVN_DTYPE_COUNT] = {[LVN_F32] = "f32", [LVN_BF16] = "bf16", [LVN_F16] = "f16"};

/* TYPE_x for each operand; operands without a definition are fp32. */
static const char *types_of(struct lvn_gpu *g, const struct lvn_gpu_arg *args, int n)
{
    const char *text = g->constants ? g->constants : "";
    for (const struct lvn_gpu_arg *a = args; text && a < args + n; a++) {
        const enum lvn_dtype type = lvn_gpu_type(g, a);
        if (type != LVN_F32 && word_of[type])
            text = lvn_arena_printf(g->arena, "%s#define TYPE_%s %s\n", text, a->name, word_of[type]);
    }
    return text;
}

struct lvn_gpu_launch *lvn_gpu_append(struct lvn_gpu *g, const struct lvn_gpu_launch *l, const struct lvn_gpu_arg *args,
                                      int n)
{
    struct lvn_gpu_launch *all =
        lvn_arena_alloc(g->arena, sizeof *all * (size_t)(g->n_launches + 1)); /* an instruction has few launches */
    struct lvn_gpu_arg *copy = lvn_arena_alloc(g->arena, sizeof *copy * (size_t)(n + 1));
    const char *defines = types_of(g, args, n);
    if (!all || !copy || !defines) {
        g->status = LVN_MEMORY;
        return NULL;
    }
    memcpy(copy, args, sizeof *copy * (size_t)n);
    if (g->n_launches) memcpy(all, g->launches, sizeof *all * (size_t)g->n_launches);
    g->launches = all;
    all[g->n_launches] = *l;
    all[g->n_launches].defines = defines;
    all[g->n_launches].args = copy;
    all[g->n_launches].n_args = n;
    return &all[g->n_launches++];
}

void lvn_gpu_launch(struct lvn_gpu *g, const char *kernel, int64_t x, int64_t y, int64_t z,
                    const struct lvn_gpu_arg *args)
{
    const struct lvn_gpu_launch l = {.source = g->source, .kernel = kernel, .grid = {x, y, z}};
    int n = 0;
    if (g->status != LVN_OK || x <= 0 || y <= 0 || z <= 0) return;
    for (; args[n].kind != LVN_GPU_END; n++)
        if (args[n].kind == LVN_GPU_OPERAND_IN) g->read |= LVN_READS_IN(args[n].index);
    lvn_gpu_products_invalidate(g);
    (void)lvn_gpu_append(g, &l, args, n);
}

int lvn_gpu_width(const struct lvn_gpu *g, int64_t row, const struct lvn_gpu_arg *args)
{
    enum { WIDTH = 8 };
    if (row % WIDTH) return 1;
    for (const struct lvn_gpu_arg *a = args; a->kind != LVN_GPU_END; a++) {
        const bool operand = lvn_gpu_desc(g->call, a) || a->kind == LVN_GPU_OPERAND_SCRATCH;
        if (operand && lvn_gpu_alignment(g, a) < LVN_GPU_ALIGNED) return 1;
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

void lvn_gpu_two_variants(struct lvn_gpu *g)
{
    if (g->status != LVN_OK) return;
    struct lvn_gpu_launch *other =
        &g->launches[--g->n_launches]; /* the list is copied at each append, so this entry stays valid */
    g->launches[g->n_launches - 1].other = other;
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
    define(g, name, word_of[type]);
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

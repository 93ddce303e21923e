/* kernel_sources.c - the table of all operations' kernels for devices; see kernel_sources.h.
 *
 * The build writes generated/gpu_kernels.def, one LVN_GPU_KERNEL(name) for each src/core/ops/NAME.k, and a file of
 * their sources, in which includes are expanded (tools/embed_kernels.cmake). */
#include "backend/gpu/kernel_sources.h"

extern const char lvn_gpu_source_language[];
#define LVN_GPU_KERNEL(name)                                                                                           \
    extern const struct lvn_gpu_operation lvn_gpu_##name;                                                              \
    extern const char lvn_gpu_source_##name[];
#include "gpu_kernels.def"
#undef LVN_GPU_KERNEL

static const struct kernels {
    const struct lvn_gpu_operation *operation;
    const char *source;
} kernels[LVN_OP_COUNT] = {
#define LVN_GPU_KERNEL(name) [LVN_OP_##name] = {&lvn_gpu_##name, lvn_gpu_source_##name},
#include "gpu_kernels.def"
#undef LVN_GPU_KERNEL
};

const struct lvn_gpu_operation *lvn_gpu_operation_of(enum lvn_op_id id)
{
    return kernels[id].operation;
}

const char *lvn_gpu_language_source(void)
{
    return lvn_gpu_source_language;
}

const char *lvn_gpu_kernel_source(const char *operation)
{
    for (int id = 0; id < LVN_OP_COUNT; id++)
        if (kernels[id].operation && !strcmp(kernels[id].operation->name, operation)) return kernels[id].source;
    return NULL;
}

/* Operands whose type no launch of the module defines are fp32, or belong to kernels that it does not launch. */
const char *lvn_gpu_definitions(struct lvn_arena *a, const char *operation, const char *defines)
{
    static const char macro[] = "LVN_OPERAND(";
    const char *all = lvn_arena_printf(a, "%s", defines);
    for (const char *at = strstr(lvn_gpu_kernel_source(operation), macro); all && at; at = strstr(at + 1, macro)) {
        const char *name = at + sizeof macro - 1;
        const char *type = lvn_arena_printf(a, "#define TYPE_%.*s ", (int)strcspn(name, ")"), name);
        if (type && !strstr(all, type)) all = lvn_arena_printf(a, "%s%sf32\n", all, type);
        if (!type) all = NULL;
    }
    return all;
}

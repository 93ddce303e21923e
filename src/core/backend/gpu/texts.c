/* texts.c - the table of all operations' kernels for devices; see texts.h.
 *
 * The build writes generated/gpu_kernels.def, one LVN_GPU_KERNEL(name) for each src/core/ops/NAME.k, and a file of the
 * texts, in which includes are expanded (tools/embed_kernels.cmake). */
#include "backend/gpu/texts.h"

#include <string.h>

extern const char lvn_gpu_text_words[];
#define LVN_GPU_KERNEL(name)                                                                                           \
    extern const struct lvn_gpu_operation lvn_gpu_##name;                                                              \
    extern const char lvn_gpu_text_##name[];
#include "gpu_kernels.def"
#undef LVN_GPU_KERNEL

static const struct kernels {
    const struct lvn_gpu_operation *operation;
    const char *text;
} kernels[LVN_OP_COUNT] = {
#define LVN_GPU_KERNEL(name) [LVN_OP_##name] = {&lvn_gpu_##name, lvn_gpu_text_##name},
#include "gpu_kernels.def"
#undef LVN_GPU_KERNEL
};

const struct lvn_gpu_operation *lvn_gpu_operation_of(enum lvn_op_id id)
{
    return kernels[id].operation;
}

const char *lvn_gpu_words(void)
{
    return lvn_gpu_text_words;
}

const char *lvn_gpu_text(const char *source)
{
    for (int id = 0; id < LVN_OP_COUNT; id++)
        if (kernels[id].operation && !strcmp(kernels[id].operation->name, source)) return kernels[id].text;
    return NULL;
}

/* Operands whose type no launch of the module defines are fp32, or belong to kernels that it does not launch. */
const char *lvn_gpu_definitions(struct lvn_arena *a, const char *source, const char *defines)
{
    static const char word[] = "LVN_OPERAND(";
    const char *all = lvn_arena_printf(a, "%s", defines);
    for (const char *at = strstr(lvn_gpu_text(source), word); all && at; at = strstr(at + 1, word)) {
        const char *name = at + sizeof word - 1;
        const char *type = lvn_arena_printf(a, "#define TYPE_%.*s ", (int)strcspn(name, ")"), name);
        if (type && !strstr(all, type)) all = lvn_arena_printf(a, "%s%sf32\n", all, type);
        if (!type) all = NULL;
    }
    return all;
}

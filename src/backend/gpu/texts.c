/* texts.c - the kernels of all operations: their host halves, and the texts for the device's compiler.
 *
 * generated/gpu_kernels.def is written by the build: LVN_GPU_KERNEL(name) for each src/ops/NAME.k that is there; the
 * texts, in a file beside it, have what they include in them (tools/embed_kernels.cmake). */
#include <string.h>

#include "backend/gpu/gpu_program.h"

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

/* An operand that no launch of the module says the type of is fp32, or of no kernel that it launches. */
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

/* gguf_types.c - the types of tensors in GGUF files, one row each. packed/ggml_blocks.h has those of packed blocks. */

#include "formats/gguf.h"

static void write_q8_0(const float *from, unsigned char *b)
{
    enum { VALUES = 32 };
    float most = 0;
    for (int i = 0; i < VALUES; i++) most = fmaxf(most, fabsf(from[i]));
    const float d = most / 127, inverse = d == 0 ? 0 : 1 / d;
    lvn_tensor_from_f32(LVN_F16, &d, b, 1);
    for (int i = 0; i < VALUES; i++) b[2 + i] = (unsigned char)(signed char)roundf(from[i] * inverse);
}

/* --- the table --- */

static const struct lvn_gguf_type types[] = {{"F32", 0, 1, 4, LVN_F32, LVN_F32, NULL, 0},
                                             {"F16", 1, 1, 2, LVN_F16, LVN_F16, NULL, 1},
                                             {"BF16", 30, 1, 2, LVN_BF16, LVN_BF16, NULL, 32},
#define ROW(name, function, id, values, bytes, write, file_type)                                                       \
    {#name, id, values, bytes, LVN_F32, LVN_##name, write, file_type},
                                             LVN_GGML_MAP(ROW)
#undef ROW
};
enum { N_TYPES = sizeof types / sizeof types[0] };

const struct lvn_gguf_type *lvn_gguf_type_of(uint64_t id)
{
    for (int i = 0; i < N_TYPES; i++)
        if ((uint64_t)types[i].id == id) return &types[i];
    return NULL;
}

const struct lvn_gguf_type *lvn_gguf_type_find(const char *name)
{
    for (int i = 0; i < N_TYPES; i++)
        if (strcasecmp(types[i].name, name) == 0) return &types[i];
    return NULL;
}

bool lvn_gguf_type_is_written(const struct lvn_gguf_type *type)
{
    return type->write || !lvn_dtype_is_packed(type->type);
}

void lvn_gguf_type_names(struct lvn_text *out, bool written)
{
    for (int i = 0; i < N_TYPES; i++)
        if (!written || lvn_gguf_type_is_written(&types[i]))
            lvn_text_printf(out, "%s%s", out->n ? ", " : "", types[i].name);
}

const char *lvn_gguf_foreign_name(uint64_t id)
{
    static const char *const names[] = {
        [9] = "Q8_1",     [10] = "Q2_K",  [11] = "Q3_K",   [15] = "Q8_K",  [16] = "IQ2_XXS", [17] = "IQ2_XS",
        [18] = "IQ3_XXS", [19] = "IQ1_S", [20] = "IQ4_NL", [21] = "IQ3_S", [22] = "IQ2_S",   [23] = "IQ4_XS",
        [24] = "I8",      [25] = "I16",   [26] = "I32",    [27] = "I64",   [28] = "F64",     [29] = "IQ1_M",
        [34] = "TQ1_0",   [35] = "TQ2_0", [39] = "MXFP4"};
    const char *name = id < sizeof names / sizeof names[0] ? names[id] : NULL;
    return name ? name : "of an unknown number";
}

/* fuzz_torch.c - files of torch.save(), and bare pickles: a file that the reader accepts must be readable. */
#include <stdint.h>
#include <stdlib.h>

#include "formats/safetensors.h"
#include "formats/torch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum lvn_status call(void *context, struct lvn_arena *a, const char *function,
                            const struct lvn_pickle *arguments, struct lvn_pickle **out)
{
    (void)context, (void)function, (void)arguments;
    *out = lvn_pickle_new(a, LVN_PICKLE_NONE);
    return LVN_OK;
}

static enum lvn_status persistent_load(void *context, struct lvn_arena *a, const struct lvn_pickle *id,
                                       struct lvn_pickle **out)
{
    (void)context, (void)id;
    *out = lvn_pickle_new(a, LVN_PICKLE_DICT);
    return LVN_OK;
}

/* Read the first and the last element of a tensor, so that sanitizers detect a tensor outside of its storage. */
static void read_ends(const struct lvn_torch_tensor *t)
{
    int64_t n = lvn_desc_count(&t->desc), last = t->desc.offset;
    float x;
    if (n < 0) abort();
    if (n == 0) return;
    for (int k = 0; k < t->desc.rank; k++) last += (t->desc.dim[k] - 1) * t->desc.stride[k];
    int64_t bytes = lvn_dtype_bytes(t->desc.dtype);
    lvn_tensor_to_f32(t->desc.dtype, (const char *)t->data + t->desc.offset * bytes, &x, 1);
    lvn_tensor_to_f32(t->desc.dtype, (const char *)t->data + last * bytes, &x, 1);
}

static void visit(const struct lvn_pickle *v, int depth)
{
    struct lvn_torch_tensor t;
    if (v->kind == LVN_PICKLE_MARK) abort();
    (void)lvn_pickle_kind_text(v);
    (void)lvn_pickle_get(v, "model");
    if (lvn_torch_tensor(v, &t)) read_ends(&t);
    bool container = v->kind == LVN_PICKLE_TUPLE || v->kind == LVN_PICKLE_LIST || v->kind == LVN_PICKLE_DICT;
    for (int64_t i = 0; container && depth < 4 && i < v->n && i < 64; i++) visit(v->item[i], depth + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lvn_torch t;
    if (lvn_torch_parse(&t, "the input", data, (int64_t)size) == LVN_OK) {
        visit(t.root, 0);
        lvn_torch_close(&t);
        return 0;
    }
    struct lvn_arena a;
    struct lvn_pickle_functions functions = {.call = call, .persistent_load = persistent_load};
    struct lvn_pickle *v;
    int64_t used;
    lvn_arena_init(&a);
    if (lvn_pickle_read(&a, "the input", data, (int64_t)size, &functions, &v, &used) == LVN_OK) {
        if (used > (int64_t)size) abort();
        visit(v, 0);
    }
    lvn_arena_release(&a);
    return 0;
}

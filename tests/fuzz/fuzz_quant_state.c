/* fuzz_quant_state.c - matrices of bitsandbytes in a safetensors file: one that the reader accepts is readable, every
 * value of it. */
#include <stdint.h>
#include <stdlib.h>

#include "model_io/bitsandbytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct lvn_weight *t)
{
    const int64_t n = lvn_desc_count(&t->desc);
    if ((!t->nf4 && !t->row_factor) != (t->packed == LVN_F32)) abort();
    for (int64_t at = 0; at < n; at += 64) {
        float values[64];
        lvn_weight_read(t, at, n - at < 64 ? n - at : 64, values);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lvn_safetensors s;
    if (lvn_safetensors_parse(&s, "the input", data, (int64_t)size) != LVN_OK) return 0;
    int n = s.n;
    struct lvn_weight *list = calloc((size_t)n + 1, sizeof *list);
    if (!list) abort();
    for (int i = 0; i < n; i++) {
        const struct lvn_safetensor *t = &s.tensor[i];
        list[i] = (struct lvn_weight){.name = t->name, .file = t->file, .desc = t->desc, .data = t->data};
    }
    if (lvn_bitsandbytes_join(&s.arena, list, &n) == LVN_OK)
        for (int i = 0; i < n; i++) use(&list[i]);
    free(list);
    lvn_safetensors_close(&s);
    return 0;
}

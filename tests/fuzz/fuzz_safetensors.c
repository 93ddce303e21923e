/* fuzz_safetensors.c - a file that the reader accepts is readable: every byte of every tensor is touched. */
#include <stdint.h>
#include <stdlib.h>

#include "formats/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lvn_safetensors s;
    if (lvn_safetensors_parse(&s, "the input", data, (int64_t)size) != LVN_OK) return 0;
    int64_t total = 0;
    for (int i = 0; i < s.n; i++) {
        const struct lvn_safetensor *t = &s.tensor[i];
        int64_t n = lvn_desc_count(&t->desc), bytes = lvn_dtype_bytes(t->desc.dtype);
        if (lvn_safetensors_find(&s, t->name) != t || n * bytes != t->bytes) abort();
        for (int64_t at = 0; at < n; at += 64) {
            float values[64];
            lvn_tensor_to_f32(t->desc.dtype, (const char *)t->data + at * bytes, values, n - at < 64 ? n - at : 64);
        }
        total += t->bytes;
    }
    if (total > (int64_t)size) abort(); /* tensors do not overlap */
    lvn_safetensors_close(&s);
    return 0;
}

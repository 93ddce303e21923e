/* fuzz_gguf.c - a GGUF file that the reader accepts is readable: every value of the metadata and every byte of every
 * tensor is touched, and the tokenizer, if it is accepted too, encodes the input. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizers/encoder.h"
#include "tokenizers/gguf_tokenizer.h"
#include "tokenizers/unicode/unicode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use_metadata(const struct lvn_gguf *g)
{
    for (int i = 0; i < g->n_values; i++) {
        const struct lvn_gguf_value *v = &g->value[i];
        const unsigned char *at = v->data;
        const char *text;
        int64_t bytes, letters = 0;
        if (lvn_gguf_find(g, v->key) != v) abort();
        for (int64_t k = 0; k < v->n && v->kind == LVN_GGUF_STRING; k++) {
            lvn_gguf_next(&at, &text, &bytes);
            for (int64_t c = 0; c < bytes; c++) letters += text[c] != 0;
        }
        for (int64_t k = 0; k < v->n; k++) letters += lvn_gguf_number(v, k) != 0;
        if (letters < 0) abort();
    }
}

static void use_tensors(const struct lvn_gguf *g, size_t size)
{
    int64_t total = 0;
    for (int i = 0; i < g->n; i++) {
        const struct lvn_gguf_tensor *t = &g->tensor[i];
        const int64_t n = lvn_desc_count(&t->desc), each = lvn_dtype_bytes(t->type->dtype);
        for (int64_t at = 0; at < n; at += 64) {
            float values[64];
            const int64_t count = n - at < 64 ? n - at : 64;
            if (lvn_dtype_is_packed(t->type->type))
                lvn_ggml_read(lvn_ggml_block(t->type->type), t->data, at, count, values);
            else
                lvn_tensor_to_f32(t->type->dtype, (const char *)t->data + at * each, values, count);
        }
        total += t->bytes;
    }
    if (total > (int64_t)size) abort(); /* tensors do not overlap */
}

static void use_tokenizer(struct lvn_gguf *g, const uint8_t *data, int64_t size)
{
    struct lvn_tokenizer *t = calloc(1, sizeof *t);
    if (!t) abort();
    lvn_arena_init(&t->arena);
    t->path = "the input";
    if (lvn_gguf_tokenizer_parse(t, g) == LVN_OK) {
        struct lvn_encoder *e = lvn_encoder_new(t);
        struct lvn_ids ids = {0};
        if (e && lvn_encode(e, data, size < 4096 ? size : 4096, LVN_ENCODE_SPECIAL, &ids) == LVN_OK)
            for (int64_t i = 0; i < ids.n; i++)
                if (ids.p[i] < 0 || ids.p[i] >= t->n) abort();
        lvn_ids_release(&ids);
        lvn_encoder_free(e);
    }
    lvn_tokenizer_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lvn_gguf g;
    lvn_unicode_init();
    if (lvn_gguf_parse(&g, "the input", data, (int64_t)size) != LVN_OK) return 0;
    use_metadata(&g);
    use_tensors(&g, size);
    use_tokenizer(&g, data, (int64_t)size);
    lvn_gguf_close(&g);
    return 0;
}

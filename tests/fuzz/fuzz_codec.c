/* fuzz_codec.c - conversion between ids and text by the files in a model's folder: vocabulary.json, and arbitrary ids.
 *
 * First byte: 0 a vocabulary.json, whose characters must come back unchanged; others: ids of two bytes each for a
 * tokenizer of bytes. A stream of ids gives UTF-8, or whole bytes unchanged, for arbitrary ids. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "data/codec.h"
#include "tokenizers/decoder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_vocabulary(const char *json, int64_t bytes)
{
    struct lvn_codec c = {0};
    struct lvn_codec_stream s = {.n = 0};
    struct lvn_text text = {0};
    int32_t *ids = NULL;
    int64_t n = 0;
    if (lvn_vocab_from_json(&c.vocabulary, "input", json, bytes) != LVN_OK) return lvn_error_clear();
    const int64_t all = lvn_codec_size(&c);
    for (int32_t id = 0; id < all; id++) lvn_codec_decode(&c, &s, id, &text);
    if (lvn_codec_encode(&c, "input", text.p, text.n, &ids, &n) != LVN_OK || n != all) abort();
    for (int32_t id = 0; id < all; id++)
        if (ids[id] != id) abort();
    lvn_codec_decode(&c, &s, INT32_MAX, &text); /* a padded head has more ids */
    lvn_codec_decode(&c, &s, -1, &text);
    if (lvn_utf8_check(text.p, text.n) >= 0) abort();
    free(ids);
    lvn_text_release(&text);
    lvn_codec_release(&c);
}

static void check_stream(const struct lvn_tokenizer *t, const uint8_t *data, int64_t n)
{
    const struct lvn_codec c = {.tokenizer = (struct lvn_tokenizer *)(uintptr_t)t};
    struct lvn_codec_stream s = {.n = 0};
    struct lvn_text text = {0}, whole = {0};
    bool known = true;
    for (int64_t i = 0; i + 1 < n; i += 2) {
        const int32_t id = data[i] | data[i + 1] << 8;
        lvn_codec_decode(&c, &s, id, &text);
        known = known && lvn_decode(t, &id, 1, &whole) == LVN_OK;
        if (s.n < 0 || s.n > 3) abort();
    }
    lvn_codec_decode_end(&s, &text);
    if (text.n && lvn_utf8_check(text.p, text.n) >= 0) abort();
    if (known && whole.n && lvn_utf8_check(whole.p, whole.n) < 0 &&
        (text.n != whole.n || memcmp(text.p, whole.p, (size_t)whole.n) != 0))
        abort();
    lvn_error_clear();
    lvn_text_release(&text);
    lvn_text_release(&whole);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct lvn_tokenizer *bytes;
    if (!bytes && lvn_tokenizer_open(&bytes, "tests/golden/tokenizers/tiny-gpt2") != LVN_OK) abort();
    if (!size) return 0;
    if (data[0])
        check_stream(bytes, data + 1, (int64_t)size - 1);
    else
        check_vocabulary((const char *)data + 1, (int64_t)size - 1);
    return 0;
}

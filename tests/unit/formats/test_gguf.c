/* test_gguf.c - covers: src/files/formats/gguf.c src/files/formats/gguf_types.c src/base/packed/ggml_blocks.c
 *
 * Values of every type against those of the Python package gguf, lying headers, round trips, memory that runs out. */
#include "faults.h"
#include "io_test.h"

#include <math.h>

#include "formats/weights.h"

#define GOLDEN "tests/golden/gguf/types.gguf"

static void every_type(void **state)
{
    (void)state;
    struct lvn_weights w;
    char full[64];
    int seen = 0;
    ASSERT_OK(lvn_weights_open(&w, GOLDEN));
    assert_non_null(w.gguf);
    for (int i = 0; i < w.n; i++) {
        snprintf(full, sizeof full, "%s.f32", w.tensor[i].name);
        const struct lvn_weight *expected = lvn_weights_find(&w, full);
        if (!expected) continue;
        const int64_t n = lvn_desc_count(&expected->desc);
        float x[512], y[512];
        assert_int_equal(n, 512);
        assert_true(lvn_desc_same_shape(&expected->desc, &w.tensor[i].desc));
        lvn_weight_read(expected, 0, n, y);
        for (int64_t first = 0; first < n; first += 37) { /* also parts of blocks */
            const int64_t count = n - first < 300 ? n - first : 300;
            memset(x, 0xff, sizeof x);
            lvn_weight_read(&w.tensor[i], first, count, x);
            assert_memory_equal(x, y + first, (size_t)count * sizeof *x);
        }
        seen++;
    }
    assert_int_equal(seen, 11);
    lvn_weights_close(&w);
}

static void metadata(void **state)
{
    (void)state;
    struct lvn_gguf g;
    const struct lvn_gguf_value *list;
    const char *text;
    int64_t value = 5;
    bool truth;
    ASSERT_OK(lvn_gguf_open(&g, GOLDEN));
    ASSERT_OK(lvn_gguf_string(&g, "text", true, &text));
    assert_string_equal(text, "a \xe2\x96\x81 b");
    ASSERT_OK(lvn_gguf_list(&g, "numbers", LVN_GGUF_I32, true, &list));
    assert_int_equal(list->n, 3);
    assert_true(lvn_gguf_number(list, 1) == -2);
    ASSERT_OK(lvn_gguf_int(&g, "missing", false, 0, 9, &value));
    assert_int_equal(value, 5);
    ASSERT_FAILS(FORMAT, "has no 'missing' in its metadata", lvn_gguf_int(&g, "missing", true, 0, 9, &value));
    ASSERT_FAILS(FORMAT, "'text' must be a whole number between 0 and 9", lvn_gguf_int(&g, "text", true, 0, 9, &value));
    ASSERT_FAILS(FORMAT, "'numbers' must be a list of strings",
                 lvn_gguf_list(&g, "numbers", LVN_GGUF_STRING, true, &list));
    ASSERT_FAILS(FORMAT, "'numbers' must be a string", lvn_gguf_string(&g, "numbers", true, &text));
    ASSERT_FAILS(FORMAT, "'text' must be true or false", lvn_gguf_bool(&g, "text", &truth));
    lvn_gguf_close(&g);
}

/* --- lying headers --- */

struct bytes {
    unsigned char p[1024];
    int64_t n;
};

static void put(struct bytes *b, uint64_t x, int n)
{
    for (int i = 0; i < n; i++) b->p[b->n++] = (unsigned char)(x >> 8 * i);
}

static void put_text(struct bytes *b, const char *text)
{
    put(b, strlen(text), 8);
    memcpy(b->p + b->n, text, strlen(text));
    b->n += (int64_t)strlen(text);
}

static void begin(struct bytes *b, uint64_t version, uint64_t tensors, uint64_t values)
{
    *b = (struct bytes){.p = "GGUF", .n = 4};
    put(b, version, 4);
    put(b, tensors, 8);
    put(b, values, 8);
}

static void put_tensor(struct bytes *b, const char *name, uint64_t columns, uint64_t rows, uint64_t type, uint64_t at)
{
    put_text(b, name);
    put(b, 2, 4);
    put(b, columns, 8);
    put(b, rows, 8);
    put(b, type, 4);
    put(b, at, 8);
}

/* Align the end of the header, and append that many bytes. */
static void end(struct bytes *b, int64_t bytes)
{
    b->n = (b->n + 31) / 32 * 32 + bytes;
}

static enum lvn_status parse(const struct bytes *b)
{
    struct lvn_gguf g;
    char *copy = test_malloc((size_t)b->n);
    memcpy(copy, b->p, (size_t)b->n);
    enum lvn_status status = lvn_gguf_parse(&g, "m.gguf", copy, b->n);
    if (status == LVN_OK) lvn_gguf_close(&g);
    test_free(copy);
    return status;
}

static enum lvn_status with_tensor(uint64_t columns, uint64_t rows, uint64_t type, uint64_t at, int64_t bytes)
{
    struct bytes b;
    begin(&b, 3, 1, 0);
    put_tensor(&b, "w", columns, rows, type, at);
    end(&b, bytes);
    return parse(&b);
}

static void lying_tensors(void **state)
{
    (void)state;
    struct bytes b;
    enum { F32 = 0, Q2_K = 10, Q4_0 = 2 };
    ASSERT_OK(with_tensor(2, 3, F32, 0, 24));
    ASSERT_OK(with_tensor(32, 2, Q4_0, 0, 36));
    ASSERT_FAILS(FORMAT, "tensor 'w' has 24 bytes from byte 0 of the data, but the file has only 23",
                 with_tensor(2, 3, F32, 0, 23));
    ASSERT_FAILS(FORMAT, "tensor 'w' has 24 bytes from byte 32 of the data", with_tensor(2, 3, F32, 32, 24));
    ASSERT_FAILS(FORMAT, "tensor 'w' begins at byte 4 of the data, which is not a multiple of 32",
                 with_tensor(2, 3, F32, 4, 64));
    ASSERT_FAILS(FORMAT, "from byte 18446744073709551584", with_tensor(2, 3, F32, (uint64_t)-32, 24));
    ASSERT_FAILS(FORMAT, "tensor 'w': its shape has more values than can be counted",
                 with_tensor(1ULL << 40, 1ULL << 40, F32, 0, 24));
    ASSERT_FAILS(FORMAT, "tensor 'w': its shape has more bytes than can be counted",
                 with_tensor(1ULL << 31, 1ULL << 31, F32, 0, 24));
    ASSERT_FAILS(FORMAT, "tensor 'w': a dimension is 0", with_tensor(0, 3, F32, 0, 24));
    ASSERT_FAILS(FORMAT, "tensor 'w': a dimension is 9223372036854775808", with_tensor(1ULL << 63, 3, F32, 0, 24));
    ASSERT_FAILS(FORMAT, "tensor 'w': its rows have 31 values, which is not a multiple of 32, the block size of Q4_0",
                 with_tensor(31, 1, Q4_0, 0, 36));
    ASSERT_FAILS(UNSUPPORTED, "tensor 'w' has the type Q2_K, which levin does not read; it reads F32, F16, BF16, Q8_0",
                 with_tensor(256, 1, Q2_K, 0, 256));
    ASSERT_FAILS(UNSUPPORTED, "tensor 'w' has the type of an unknown number", with_tensor(32, 1, 99, 0, 256));
    begin(&b, 3, 2, 0);
    put_tensor(&b, "a", 8, 1, F32, 0);
    put_tensor(&b, "b", 8, 1, F32, 0);
    end(&b, 64);
    ASSERT_FAILS(FORMAT, "tensors '", parse(&b));
    begin(&b, 3, 2, 0);
    put_tensor(&b, "a", 8, 1, F32, 0);
    put_tensor(&b, "a", 8, 1, F32, 32);
    end(&b, 64);
    ASSERT_FAILS(FORMAT, "has the tensor 'a' twice", parse(&b));
    begin(&b, 3, 1, 0);
    put_text(&b, "a");
    put(&b, 5, 4);
    end(&b, 64);
    ASSERT_FAILS(FORMAT, "tensor 'a' has 5 dimensions, expected 1 to 4", parse(&b));
}

static enum lvn_status with_value(const char *key, uint64_t kind, uint64_t more, int bytes)
{
    struct bytes b;
    begin(&b, 3, 0, 1);
    put_text(&b, key);
    put(&b, kind, 4);
    put(&b, more, bytes);
    return parse(&b);
}

static void lying_metadata(void **state)
{
    (void)state;
    struct bytes b;
    ASSERT_OK(with_value("k", LVN_GGUF_U32, 7, 4));
    ASSERT_FAILS(FORMAT, "the value of 'k' has the unknown type 13", with_value("k", 13, 0, 8));
    ASSERT_FAILS(FORMAT, "ends within a string of its metadata", with_value("k", LVN_GGUF_STRING, (uint64_t)-1, 8));
    ASSERT_FAILS(FORMAT, "ends within a string of its metadata", with_value("k", LVN_GGUF_STRING, 1, 8));
    ASSERT_FAILS(UNSUPPORTED, "'k' is a list of lists", with_value("k", LVN_GGUF_LIST, LVN_GGUF_LIST, 4));
    ASSERT_FAILS(FORMAT, "general.alignment is 24, which is not a power of two",
                 with_value("general.alignment", LVN_GGUF_U32, 24, 4));
    ASSERT_FAILS(FORMAT, "'general.alignment' must be a whole number between 1",
                 with_value("general.alignment", LVN_GGUF_U32, 0, 4));
    ASSERT_FAILS(FORMAT, "has the byte 0x0a", with_value("a\nb", LVN_GGUF_U32, 7, 4));
    begin(&b, 3, 0, 1);
    put_text(&b, "k");
    put(&b, LVN_GGUF_LIST, 4);
    put(&b, LVN_GGUF_U32, 4);
    put(&b, 1ULL << 62, 8);
    ASSERT_FAILS(FORMAT, "'k' has 4611686018427387904 items, more than the file holds", parse(&b));
    begin(&b, 3, 0, 2);
    for (int i = 0; i < 2; i++) {
        put_text(&b, "k");
        put(&b, LVN_GGUF_BOOL, 4);
        put(&b, 1, 1);
    }
    ASSERT_FAILS(FORMAT, "has 'k' twice", parse(&b));
}

static void lying_headers(void **state)
{
    (void)state;
    struct bytes b;
    begin(&b, 3, 0, 0);
    ASSERT_OK(parse(&b));
    for (; b.n > 0; b.n--)
        if (b.n < 24) assert_int_equal(parse(&b), LVN_FORMAT);
    begin(&b, 2, 0, 0);
    ASSERT_OK(parse(&b));
    begin(&b, 1, 0, 0);
    ASSERT_FAILS(UNSUPPORTED, "has GGUF version 1; levin reads versions 2 and 3", parse(&b));
    begin(&b, 3ULL << 24, 0, 0);
    ASSERT_FAILS(UNSUPPORTED, "is a big-endian GGUF file", parse(&b));
    begin(&b, 3, 1ULL << 60, 0);
    ASSERT_FAILS(FORMAT, "its header is damaged", parse(&b));
    begin(&b, 3, 1000, 0);
    ASSERT_FAILS(FORMAT, "announces 1000 tensors, more than it holds", parse(&b));
    begin(&b, 3, 0, 1000);
    ASSERT_FAILS(FORMAT, "announces 1000 metadata entries, more than it holds", parse(&b));
    b.p[0] = 'X';
    ASSERT_FAILS(FORMAT, "is not a GGUF file: it does not begin with GGUF", parse(&b));
}

/* Each cut of a good file is refused. */
static void cut(void **state)
{
    (void)state;
    char *text;
    int64_t bytes;
    ASSERT_OK(lvn_file_read(GOLDEN, 0, &text, &bytes));
    for (int64_t n = 0; n < bytes; n += n < 2200 ? 1 : 997) {
        struct lvn_gguf g;
        char *copy = test_malloc((size_t)n + 1);
        memcpy(copy, text, (size_t)n);
        assert_int_equal(lvn_gguf_parse(&g, "cut.gguf", copy, n), LVN_FORMAT);
        test_free(copy);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type),     cmocka_unit_test(metadata),      cmocka_unit_test(lying_tensors),
        cmocka_unit_test(lying_metadata), cmocka_unit_test(lying_headers), cmocka_unit_test(cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

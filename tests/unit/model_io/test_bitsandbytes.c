/* test_bitsandbytes.c - covers: src/run/model_io/bitsandbytes.c
 *
 * A matrix that bitsandbytes 0.50.2 has quantized (tools/make_bitsandbytes.py): its values bit by bit, and what is
 * refused if parts are missing, contradict each other or are of another kind. */
#include "io_test.h"

#include "model_io/bitsandbytes.h"

#define GOLDEN "tests/golden/bitsandbytes/nf4.safetensors"

static enum lvn_status open_joined(struct lvn_weights *w, const char *path)
{
    LVN_TRY(lvn_weights_open(w, path));
    enum lvn_status status = lvn_bitsandbytes_join(&w->arena, w->tensor, &w->n);
    if (status != LVN_OK) lvn_weights_close(w);
    return status;
}

static void equals_bitsandbytes(void **state)
{
    (void)state;
    struct lvn_weights w;
    ASSERT_OK(open_joined(&w, GOLDEN));
    assert_int_equal(w.n, 3); /* a.bias, a.weight, values */
    const struct lvn_weight *t = lvn_weights_find(&w, "a.weight"), *expected = lvn_weights_find(&w, "values");
    assert_true(t && expected && lvn_desc_same_shape(&t->desc, &expected->desc));
    assert_true(t->packed == LVN_NF4 && t->desc.dtype == LVN_F32);
    const int64_t n = lvn_desc_count(&t->desc);
    float *x = calloc((size_t)n, sizeof *x), *y = calloc((size_t)n, sizeof *y);
    lvn_weight_read(expected, 0, n, y);
    for (int64_t i = 0; i < n; i += 37) lvn_weight_read(t, i, n - i < 37 ? n - i : 37, x + i);
    assert_memory_equal(x, y, (size_t)n * sizeof *x);

    const struct lvn_blocks b = {LVN_NF4, t->desc.dim[0], t->desc.dim[1]}; /* the same in memory */
    void *p = aligned_alloc(64, (size_t)lvn_blocks_bytes(&b));
    lvn_weight_copy_blocks(t, NULL, p);
    for (int64_t r = 0; r < b.rows; r++) lvn_blocks_read(&b, p, r, 0, b.columns, x + r * b.columns);
    assert_memory_equal(x, y, (size_t)n * sizeof *x);
    free(p), free(x), free(y);
    lvn_weights_close(&w);
}

/* The golden file with every `old` replaced by `new`, of the same length. */
static const char *changed(const char *old, const char *new)
{
    char *text = NULL;
    int64_t bytes = 0, found = 0;
    const size_t n = strlen(old);
    assert_int_equal(n, strlen(new));
    ASSERT_OK(lvn_file_read(GOLDEN, 1 << 20, &text, &bytes));
    for (int64_t i = 0; i + (int64_t)n <= bytes; i++)
        if (memcmp(text + i, old, n) == 0) memcpy(text + i, new, n), found++;
    assert_true(found > 0);
    const char *path = test_path("changed.safetensors");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, (size_t)bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
    free(text);
    return path;
}

#define REFUSED(status, words, old, new)                                                                               \
    do {                                                                                                               \
        struct lvn_weights w;                                                                                          \
        ASSERT_FAILS(status, words, open_joined(&w, changed(old, new)));                                               \
        assert_non_null(strstr(levin_error_text(), "changed.safetensors"));                                            \
        assert_non_null(strstr(levin_error_text(), "a.weight"));                                                       \
    } while (0)

static void refused(void **state)
{
    (void)state;
    REFUSED(UNSUPPORTED, "stored as 'fp4', and levin reads nf4", "\"nf4\"", "\"fp4\"");
    REFUSED(UNSUPPORTED, "a block has 32 values, and levin supports blocks of 64", "\"blocksize\": 64",
            "\"blocksize\": 32");
    REFUSED(UNSUPPORTED, "(nested_blocksize), and levin supports 256", "\"nested_blocksize\": 256",
            "\"nested_blocksize\": 128");
    REFUSED(UNSUPPORTED, "not quantized; levin reads double quantization", "\"nested_blocksize\"",
            "\"nested_blockside\"");
    REFUSED(FORMAT, "elements of type uint8, and the 9 x 330 values of the matrix need 1485", "[5, 330]", "[9, 330]");
    REFUSED(FORMAT, "'shape' must be two whole numbers above zero", "[5, 330]", "[5, -33]");
    REFUSED(FORMAT, "its part 'absmax' is missing", "a.weight.absmax", "a.weight.absmix");
    REFUSED(FORMAT, "its part 'quant_map' is missing", "a.weight.quant_map", "a.weight.quant_mop");
    REFUSED(FORMAT, "has a part 'a.weight.absmax', and none that describes it", ".quant_state.", ".quant_stete.");
    REFUSED(FORMAT, "describes a matrix that the file does not have", "\"a.weight\"", "\"b.weight\"");
    REFUSED(FORMAT, "", "{\"quant_type\"", "[\"quant_type\"");
}

/* A shape whose product overflows. */
static void overflow(void **state)
{
    (void)state;
    REFUSED(FORMAT, "has more values than can be counted",
            "\"shape\": [5, 330], \"nested_blocksize\": 256, \"nested_dtype\": \"float32\", \"nested_offset\": 0.3",
            "\"shape\":[3037000500,3037000500],\"nested_blocksize\":256,\"nested_offset\":                 0.3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_bitsandbytes),
        cmocka_unit_test(refused),
        cmocka_unit_test(overflow),
    };
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}

/* test_bitsandbytes.c - covers: src/run/model_io/bitsandbytes.c
 *
 * Matrices that bitsandbytes 0.50.2 has quantized (tools/make_bitsandbytes.py): their values bit by bit, and what is
 * refused if parts are missing, contradict each other or are of another kind. */
#include "io_test.h"

#include "model_io/bitsandbytes.h"

#define GOLDEN "tests/golden/bitsandbytes/nf4.safetensors"
#define KINDS "tests/golden/bitsandbytes/kinds.safetensors"

static enum lvn_status open_joined(struct lvn_weights *w, const char *path)
{
    LVN_TRY(lvn_weights_open(w, path));
    enum lvn_status status = lvn_bitsandbytes_join(&w->arena, w->tensor, &w->n);
    if (status != LVN_OK) lvn_weights_close(w);
    return status;
}

/* Values in the file and in memory. */
static void check_values(const struct lvn_weights *w, const char *name, enum lvn_dtype dtype, const char *values)
{
    const struct lvn_weight *t = lvn_weights_find(w, name), *expected = lvn_weights_find(w, values);
    assert_true(t && expected && lvn_desc_same_shape(&t->desc, &expected->desc));
    assert_true(t->packed == dtype && t->desc.dtype == LVN_F32);
    const int64_t n = lvn_desc_count(&t->desc);
    float *x = calloc((size_t)n, sizeof *x), *y = calloc((size_t)n, sizeof *y);
    lvn_weight_read(expected, 0, n, y);
    for (int64_t i = 0; i < n; i += 37) lvn_weight_read(t, i, n - i < 37 ? n - i : 37, x + i);
    assert_memory_equal(x, y, (size_t)n * sizeof *x);

    static const int32_t row_of[] = {0, 1, 2, 3, 4};
    const struct lvn_blocks b = {dtype, t->desc.dim[0], t->desc.dim[1]};
    void *p = aligned_alloc(64, (size_t)lvn_blocks_bytes(&b));
    lvn_weight_copy_blocks(t, row_of, p);
    for (int64_t r = 0; r < b.rows; r++) lvn_blocks_read(&b, p, r, 0, b.columns, x + r * b.columns);
    assert_memory_equal(x, y, (size_t)n * sizeof *x);
    free(p), free(x), free(y);
}

static void equals_bitsandbytes(void **state)
{
    (void)state;
    struct lvn_weights w;
    ASSERT_OK(open_joined(&w, GOLDEN));
    assert_int_equal(w.n, 3); /* a.bias, a.weight, values */
    check_values(&w, "a.weight", LVN_NF4, "values");
    lvn_weights_close(&w);
    ASSERT_OK(open_joined(&w, KINDS));
    assert_int_equal(w.n, 8);
    check_values(&w, "nf4.weight", LVN_NF4_F32, "nf4.values");
    check_values(&w, "fp4.weight", LVN_FP4_F32, "fp4.values");
    check_values(&w, "double.weight", LVN_FP4, "double.values");
    check_values(&w, "int8.weight", LVN_INT8_ROWS, "int8.values");
    lvn_weights_close(&w);
}

/* Rows of int8 may be moved. */
static void moves_rows(void **state)
{
    (void)state;
    struct lvn_weights w;
    static const int32_t row_of[] = {3, 0, 4, 1, 2};
    ASSERT_OK(open_joined(&w, KINDS));
    const struct lvn_weight *t = lvn_weights_find(&w, "int8.weight"), *values = lvn_weights_find(&w, "int8.values");
    const struct lvn_blocks b = {LVN_INT8_ROWS, t->desc.dim[0], t->desc.dim[1]};
    void *p = aligned_alloc(64, (size_t)lvn_blocks_bytes(&b));
    float *x = calloc((size_t)b.columns, 2 * sizeof *x), *y = x + b.columns;
    lvn_weight_copy_blocks(t, row_of, p);
    for (int64_t r = 0; r < b.rows; r++) {
        lvn_blocks_read(&b, p, r, 0, b.columns, x);
        lvn_weight_read(values, row_of[r] * b.columns, b.columns, y);
        assert_memory_equal(x, y, (size_t)b.columns * sizeof *x);
    }
    free(p), free(x);
    lvn_weights_close(&w);
}

/* A golden file with every `old` replaced by `new`, of the same length. */
static const char *changed(const char *golden, const char *old, const char *new)
{
    char *text = NULL;
    int64_t bytes = 0, found = 0;
    const size_t n = strlen(old);
    assert_int_equal(n, strlen(new));
    ASSERT_OK(lvn_file_read(golden, 1 << 20, &text, &bytes));
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

#define REFUSED(status, words, old, new) REFUSED_IN(GOLDEN, "a.weight", status, words, old, new)
#define REFUSED_IN(golden, tensor, status, words, old, new)                                                            \
    do {                                                                                                               \
        struct lvn_weights w;                                                                                          \
        ASSERT_FAILS(status, words, open_joined(&w, changed(golden, old, new)));                                       \
        assert_non_null(strstr(levin_error_text(), "changed.safetensors"));                                            \
        assert_non_null(strstr(levin_error_text(), tensor));                                                           \
    } while (0)

static void refused(void **state)
{
    (void)state;
    REFUSED(UNSUPPORTED, "stored as 'af4', and levin reads nf4 and fp4", "\"nf4\"", "\"af4\"");
    REFUSED(UNSUPPORTED, "a block has 32 values, and levin supports blocks of 64", "\"blocksize\": 64",
            "\"blocksize\": 32");
    REFUSED(UNSUPPORTED, "(nested_blocksize), and levin supports 256", "\"nested_blocksize\": 256",
            "\"nested_blocksize\": 128");
    REFUSED(FORMAT, "26 elements of type uint8, and the 5 x 330 values of the matrix need 26 of type fp32",
            "\"nested_blocksize\"", "\"nested_blockside\"");
    REFUSED(FORMAT, "elements of type uint8, and the 9 x 330 values of the matrix need 1485", "[5, 330]", "[9, 330]");
    REFUSED(FORMAT, "'shape' must be two whole numbers above zero", "[5, 330]", "[5, -33]");
    REFUSED(FORMAT, "its part 'absmax' is missing", "a.weight.absmax", "a.weight.absmix");
    REFUSED(FORMAT, "its part 'quant_map' is missing", "a.weight.quant_map", "a.weight.quant_mop");
    REFUSED(FORMAT, "has a part 'a.weight.absmax', and none that describes it", ".quant_state.", ".quant_stete.");
    REFUSED(FORMAT, "describes a matrix that the file does not have", "\"a.weight\"", "\"b.weight\"");
    REFUSED(FORMAT, "", "{\"quant_type\"", "[\"quant_type\"");
}

static void refused_int8(void **state)
{
    (void)state;
    static const char shape[] = "\"int8.SCB\":{\"dtype\":\"F32\",\"shape\":[5]";
    REFUSED_IN(KINDS, "int8.SCB", FORMAT, "5 elements of type int32, and the 5 x 330 values of the matrix need 5 of",
               shape, "\"int8.SCB\":{\"dtype\":\"I32\",\"shape\":[5]");
    REFUSED_IN(KINDS, "int8.weight", FORMAT, "and it is not a matrix",
               "\"int8.weight\":{\"dtype\":\"I8\",\"shape\":[5,330]",
               "\"int8.weight\":{\"dtype\":\"I8\",\"shape\":[1650 ]");
    REFUSED_IN(KINDS, "int8.weight", UNSUPPORTED, "are not in the order of rows (0)",
               "\"int8.weight_format\":{\"dtype\":\"U8\"", "\"int8.weight_format\":{\"dtype\":\"I8\"");
    REFUSED_IN(KINDS, "nf4.weight.absmax", FORMAT, "26 elements of type int32, and the 5 x 330 values",
               "\"nf4.weight.absmax\":{\"dtype\":\"F32\"", "\"nf4.weight.absmax\":{\"dtype\":\"I32\"");
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
        cmocka_unit_test(equals_bitsandbytes), cmocka_unit_test(moves_rows), cmocka_unit_test(refused),
        cmocka_unit_test(refused_int8),        cmocka_unit_test(overflow),
    };
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}

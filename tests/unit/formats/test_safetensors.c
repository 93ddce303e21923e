/* test_safetensors.c - covers: src/files/formats/safetensors.c src/files/formats/safetensors_convert.c
 * src/files/formats/safetensors_write.c src/files/formats/safetensors_split.c src/files/formats/weights.c
 * src/files/formats/checksum.c
 *
 * Lying headers, round trips, shards, element types, stable bytes, failing disks. */
#include "faults.h"
#include "io_test.h"

#include <math.h>

#include "formats/weights.h"

/* A file of this header and `bytes` zero bytes of data. */
static int64_t make_file(char *out, const char *header, int64_t bytes)
{
    int64_t n = (int64_t)strlen(header);
    for (int i = 0; i < 8; i++) out[i] = (char)(n >> 8 * i);
    memcpy(out + 8, header, (size_t)n);
    memset(out + 8 + n, 0, (size_t)bytes);
    return 8 + n + bytes;
}

static enum lvn_status parse(const char *header, int64_t bytes)
{
    char file[4096];
    struct lvn_safetensors s;
    enum lvn_status status = lvn_safetensors_parse(&s, "m.safetensors", file, make_file(file, header, bytes));
    if (status == LVN_OK) lvn_safetensors_close(&s);
    return status;
}

#define TENSOR(name, dtype, shape, begin, end)                                                                         \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

static void lying_headers(void **state)
{
    (void)state;
    ASSERT_OK(parse("{" TENSOR("a", "F32", "2,3", 0, 24) "," TENSOR("b", "U8", "", 24, 25) "}", 25));
    ASSERT_OK(parse("{}   ", 0));
    ASSERT_OK(parse("{" TENSOR("a", "F32", "0,5", 0, 0) "," TENSOR("b", "F32", "1", 0, 4) "}", 4));
    ASSERT_FAILS(FORMAT, "tensor 'a' has 20 bytes, but (2, 3) of fp32 requires 24",
                 parse("{" TENSOR("a", "F32", "2,3", 0, 20) "}", 20));
    ASSERT_FAILS(FORMAT, "tensor 'a' ends at byte 24 of the data, but the file has only 23",
                 parse("{" TENSOR("a", "F32", "2,3", 0, 24) "}", 23));
    ASSERT_FAILS(FORMAT, "1 bytes longer", parse("{" TENSOR("a", "F32", "2,3", 0, 24) "}", 25));
    ASSERT_FAILS(FORMAT, "tensors 'a' and 'b' overlap",
                 parse("{" TENSOR("a", "F32", "2", 0, 8) "," TENSOR("b", "F32", "2", 4, 12) "}", 12));
    ASSERT_FAILS(FORMAT, "tensors 'a' and 'b' overlap",
                 parse("{" TENSOR("a", "F32", "2", 0, 8) "," TENSOR("b", "F32", "2", 0, 8) "}", 8));
    ASSERT_FAILS(FORMAT, "4 bytes before tensor 'b' belong to no tensor",
                 parse("{" TENSOR("a", "F32", "2", 0, 8) "," TENSOR("b", "F32", "2", 12, 20) "}", 20));
    ASSERT_FAILS(FORMAT, "4 bytes before tensor 'a' belong to no tensor",
                 parse("{" TENSOR("a", "F32", "2", 4, 12) "}", 12));
    ASSERT_FAILS(FORMAT, "tensor 'a': its data_offsets [8, 0] are invalid",
                 parse("{" TENSOR("a", "F32", "2", 8, 0) "}", 8));
    ASSERT_FAILS(FORMAT, "its data_offsets [-8, 0] are invalid", parse("{" TENSOR("a", "F32", "2", -8, 0) "}", 8));
    ASSERT_FAILS(FORMAT, "tensor 'a' has the unsupported type 'F8_E4M3'",
                 parse("{" TENSOR("a", "F8_E4M3", "2", 0, 2) "}", 2));
    ASSERT_FAILS(FORMAT, "more elements than can be counted",
                 parse("{" TENSOR("a", "F32", "4294967296,4294967296", 0, 0) "}", 0));
    ASSERT_FAILS(FORMAT, "more elements than can be counted",
                 parse("{" TENSOR("a", "F64", "2305843009213693952", 0, 0) "}", 0));
    ASSERT_FAILS(FORMAT, "dimension 1 of its shape", parse("{" TENSOR("a", "F32", "1,-1", 0, 4) "}", 4));
    ASSERT_FAILS(FORMAT, "dimension 0 of its shape", parse("{" TENSOR("a", "F32", "1.5", 0, 4) "}", 4));
    ASSERT_FAILS(FORMAT, "5 dimensions", parse("{" TENSOR("a", "F32", "1,1,1,1,1", 0, 4) "}", 4));
    ASSERT_FAILS(FORMAT, "duplicate object key",
                 parse("{" TENSOR("a", "F32", "1", 0, 4) "," TENSOR("a", "F32", "1", 4, 8) "}", 8));
    ASSERT_FAILS(FORMAT, "'dtype' is missing", parse("{\"a\":{\"shape\":[],\"data_offsets\":[0,4]}}", 4));
    ASSERT_FAILS(FORMAT, "'shape' is not a list", parse("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4));
    ASSERT_FAILS(FORMAT, "'data_offsets' are not",
                 parse("{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0]}}", 4));
    ASSERT_FAILS(FORMAT, "not an object", parse("{\"a\":1}", 0));
    ASSERT_FAILS(FORMAT, "not a JSON object", parse("[]", 0));
    ASSERT_FAILS(FORMAT, "invalid JSON", parse("{\"a", 0));
    ASSERT_FAILS(FORMAT, "invalid JSON", parse("", 0));
    ASSERT_FAILS(FORMAT, "'__metadata__' is not an object", parse("{\"__metadata__\":1}", 0));
    ASSERT_FAILS(FORMAT, "entry 'k' is not a string", parse("{\"__metadata__\":{\"k\":1}}", 0));
    struct lvn_safetensors s;
    ASSERT_FAILS(FORMAT, "too short", lvn_safetensors_parse(&s, "m", "1234567", 7));
    ASSERT_FAILS(FORMAT, "truncated", lvn_safetensors_parse(&s, "m", "\x09\0\0\0\0\0\0\0{}", 10));
    ASSERT_FAILS(FORMAT, "not a safetensors file",
                 lvn_safetensors_parse(&s, "m", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10));
    ASSERT_FAILS(FORMAT, "not a safetensors file", lvn_safetensors_parse(&s, "m", "PK\x03\x04\0\0\0\x08\0\0", 10));
    test_put("empty.safetensors", "", 0);
    ASSERT_FAILS(FORMAT, "too short", lvn_safetensors_open(&s, test_path("empty.safetensors")));
    ASSERT_FAILS(IO, "No such file", lvn_safetensors_open(&s, test_path("none.safetensors")));
}

static float weights[6] = {1, -2, 3.5f, 0, 1e-30f, -0.0f};
static int64_t counts[2] = {7, -1};
static uint8_t flags[3] = {1, 0, 1};

static struct lvn_safetensors_source three_items(struct lvn_safetensors_item item[3])
{
    item[0] = (struct lvn_safetensors_item){.name = "z.flags", .desc = LVN_DESC(LVN_U8, 3), .data = flags};
    item[1] = (struct lvn_safetensors_item){.name = "h.0.weight", .desc = LVN_DESC(LVN_F32, 2, 3), .data = weights};
    item[2] = (struct lvn_safetensors_item){.name = "counts", .desc = LVN_DESC(LVN_I64, 2), .data = counts};
    return (struct lvn_safetensors_source){.item = item, .n = 3};
}

static void round_trip(void **state)
{
    (void)state;
    struct lvn_safetensors_item item[3];
    struct lvn_safetensors_source source = three_items(item);
    struct lvn_arena a;
    lvn_arena_init(&a);
    struct lvn_safetensors_sums sums;
    ASSERT_OK(lvn_safetensors_write(test_path("a.safetensors"), &source, &a, &sums));
    struct lvn_safetensors s;
    ASSERT_OK(lvn_safetensors_open(&s, test_path("a.safetensors")));
    assert_int_equal(s.n, 3);
    assert_string_equal(s.tensor[0].name, "counts");
    const struct lvn_safetensor *t = lvn_safetensors_find(&s, "h.0.weight");
    assert_int_equal(t->desc.rank, 2);
    assert_int_equal(t->desc.dim[1], 3);
    assert_memory_equal(t->data, weights, sizeof weights);
    assert_int_equal((uintptr_t)t->data % 8, 0);
    assert_null(lvn_safetensors_find(&s, "h.1.weight"));
    assert_memory_equal(lvn_safetensors_find(&s, "z.flags")->data, flags, 3);
    /* The sums are those of the bytes in the file. */
    struct lvn_mapping m;
    ASSERT_OK(lvn_file_map(&m, test_path("a.safetensors")));
    assert_int_equal(m.bytes, sums.bytes);
    assert_true(sums.header == lvn_checksum(m.data, sums.data_start));
    assert_int_equal(sums.data_start + 16 + 24 + 3, m.bytes);
    for (int i = 0; i < 3; i++) {
        t = lvn_safetensors_find(&s, sums.name[i]);
        assert_true(sums.tensor[i] == lvn_checksum(t->data, t->bytes));
    }
    lvn_safetensors_close(&s);
    /* Another order of the items gives the same bytes. */
    struct lvn_safetensors_item other[3] = {item[2], item[0], item[1]};
    source.item = other;
    ASSERT_OK(lvn_safetensors_write(test_path("b.safetensors"), &source, NULL, NULL));
    char *text;
    int64_t bytes;
    ASSERT_OK(lvn_file_read(test_path("b.safetensors"), 0, &text, &bytes));
    assert_int_equal(bytes, m.bytes);
    assert_memory_equal(text, m.data, (size_t)bytes);
    free(text);
    lvn_file_unmap(&m);
    lvn_arena_release(&a);
}

static float fetched[1000];

static enum lvn_status fetch(void *context, int i, const void **data)
{
    if (i == *(int *)context) LVN_FAIL(INTERNAL, "tensor %d is not there", i);
    for (int k = 0; k < 1000; k++) fetched[k] = (float)(1000 * i + k);
    *data = fetched;
    return LVN_OK;
}

static void fetched_items(void **state)
{
    (void)state;
    struct lvn_safetensors_item item[12];
    char name[12][8];
    for (int i = 0; i < 12; i++) {
        snprintf(name[i], sizeof name[i], "t%d", i);
        item[i] = (struct lvn_safetensors_item){.name = name[i], .desc = LVN_DESC(LVN_F32, 10, 100), .data = NULL};
    }
    int missing = -1;
    struct lvn_safetensors_source source = {.item = item, .n = 12, .fetch = fetch, .context = &missing};
    const char *path = test_path("fetched.safetensors");
    ASSERT_OK(lvn_safetensors_write(path, &source, NULL, NULL));
    struct lvn_safetensors s;
    ASSERT_OK(lvn_safetensors_open(&s, path));
    for (int i = 0; i < 12; i++) {
        float value;
        memcpy(&value, (const char *)lvn_safetensors_find(&s, name[i])->data + 4 * 999, 4);
        assert_true(value == (float)(1000 * i + 999));
    }
    lvn_safetensors_close(&s);
    missing = 5;
    ASSERT_FAILS(INTERNAL, "tensor 5 is not there", lvn_safetensors_write(path, &source, NULL, NULL));
    assert_false(lvn_path_exists(path));
    item[3].name = "t4";
    ASSERT_FAILS(ARG, "two tensors have the name 't4'", lvn_safetensors_write(path, &source, NULL, NULL));
    item[3].name = "bad\xff";
    ASSERT_FAILS(ARG, "cannot be the name", lvn_safetensors_write(path, &source, NULL, NULL));
}

static void disk_fills(void **state)
{
    (void)state;
    struct lvn_safetensors_item item[3];
    struct lvn_safetensors_source source = three_items(item);
    const char *path = test_path("full.safetensors");
    for (long k = 1;; k++) {
        fault_files_at(k, true);
        enum lvn_status status = lvn_safetensors_write(path, &source, NULL, NULL);
        fault_files_at(0, false);
        assert_int_equal(lvn_path_exists(path), status == LVN_OK);
        assert_true(status != LVN_OK || k > 3);
        if (status == LVN_OK) break;
        assert_int_equal(status, LVN_IO);
        assert_true(k < 20);
    }
}

static void put_index(const char *text)
{
    test_put("model.safetensors.index.json", text, (int64_t)strlen(text));
}

static void shards(void **state)
{
    (void)state;
    struct lvn_weights none;
    ASSERT_FAILS(IO, "neither model.safetensors nor", lvn_weights_open(&none, test_dir));
    struct lvn_safetensors_item item[3];
    struct lvn_safetensors_source source = three_items(item);
    source.n = 1;
    ASSERT_OK(lvn_safetensors_write(test_path("one.safetensors"), &source, NULL, NULL));
    source.item = item + 1;
    source.n = 2;
    ASSERT_OK(lvn_safetensors_write(test_path("two.safetensors"), &source, NULL, NULL));
    put_index("{\"metadata\": {}, \"weight_map\": {\"z.flags\": \"one.safetensors\", \"counts\": "
              "\"two.safetensors\", \"h.0.weight\": \"two.safetensors\"}}");
    struct lvn_weights s;
    ASSERT_OK(lvn_weights_open(&s, test_dir));
    assert_int_equal(s.n, 3);
    assert_int_equal(s.n_files, 2);
    assert_memory_equal(lvn_weights_find(&s, "z.flags")->data, flags, 3);
    assert_memory_equal(lvn_weights_find(&s, "counts")->data, counts, 16);
    assert_non_null(strstr(lvn_weights_find(&s, "counts")->file, "two.safetensors"));
    lvn_weights_close(&s);
    put_index("{\"weight_map\": {\"counts\": \"one.safetensors\"}}");
    ASSERT_FAILS(FORMAT, "lists tensor 'counts' in", lvn_weights_open(&s, test_dir));
    put_index("{\"weight_map\": {\"counts\": \"../one.safetensors\"}}");
    ASSERT_FAILS(FORMAT, "is not in the same folder", lvn_weights_open(&s, test_dir));
    put_index("{\"weight_map\": {\"counts\": \"three.safetensors\"}}");
    ASSERT_FAILS(IO, "three.safetensors", lvn_weights_open(&s, test_dir));
    put_index("{\"weight_map\": {\"counts\": 3}}");
    ASSERT_FAILS(FORMAT, "its file is not a string", lvn_weights_open(&s, test_dir));
    /* The same tensor in two files, whichever of them the index names. */
    source.item = item;
    source.n = 2;
    ASSERT_OK(lvn_safetensors_write(test_path("one.safetensors"), &source, NULL, NULL));
    put_index("{\"weight_map\": {\"z.flags\": \"one.safetensors\", \"counts\": \"two.safetensors\"}}");
    ASSERT_FAILS(FORMAT, "tensor 'h.0.weight' is in two files of '", lvn_weights_open(&s, test_dir));
    assert_non_null(strstr(levin_error_text(), "/one.safetensors' and '"));
    assert_non_null(strstr(levin_error_text(), "/two.safetensors': "));
    put_index("{}");
    ASSERT_FAILS(FORMAT, "no 'weight_map'", lvn_weights_open(&s, test_path("model.safetensors.index.json")));
}

/* Twelve tensors of 4,000 bytes, fetched when they are written, in files of at most 10,000 bytes; and back. */
static void split(void **state)
{
    (void)state;
    struct lvn_safetensors_item item[12];
    char name[12][8], path[64];
    int missing = -1;
    for (int i = 0; i < 12; i++) {
        snprintf(name[i], sizeof name[i], "t%02d", 11 - i);
        item[i] = (struct lvn_safetensors_item){.name = name[i], .desc = LVN_DESC(LVN_F32, 10, 100), .data = NULL};
    }
    struct lvn_safetensors_source source = {.item = item, .n = 12, .fetch = fetch, .context = &missing};
    struct lvn_safetensors_shards s;
    struct lvn_weights w;
    LVN_LOCAL_ARENA(a);
    ASSERT_OK(lvn_safetensors_split(&s, &a, &source, "model", 48000));
    assert_int_equal(s.n, 1);
    assert_string_equal(s.name[0], "model.safetensors");
    assert_null(s.index);
    ASSERT_OK(lvn_safetensors_split(&s, &a, &source, "model", 1)); /* each is too large */
    assert_int_equal(s.n, 12);
    ASSERT_OK(lvn_safetensors_split(&s, &a, &source, "model", 10000));
    assert_int_equal(s.n, 6);
    for (int k = 0; k < s.n; k++) {
        snprintf(path, sizeof path, "model-%05d-of-00006.safetensors", k + 1);
        assert_string_equal(s.name[k], path);
        ASSERT_OK(lvn_safetensors_write(test_path(s.name[k]), &s.part[k], NULL, NULL));
    }
    put_index(s.index);
    ASSERT_OK(lvn_weights_open(&w, test_dir));
    assert_int_equal(w.n, 12);
    for (int i = 0; i < 12; i++) {
        float value;
        const struct lvn_weight *t = lvn_weights_find(&w, name[i]);
        memcpy(&value, (const char *)t->data + 4 * 7, 4);
        assert_true(value == (float)(1000 * i + 7));
        snprintf(path, sizeof path, "model-%05d-of", (11 - i) / 2 + 1);
        assert_non_null(strstr(t->file, path));
    }
    lvn_weights_close(&w);
    for (int k = 0; k < s.n; k++) unlink(test_path(s.name[k]));
}

/* Every fp16 and bf16 converts to float and back; floats next to the midpoint of two neighbors round to the nearer,
 * exact middles to the even one. */
static void small_floats(void **state)
{
    (void)state;
    static const enum lvn_dtype types[] = {LVN_F16, LVN_BF16};
    for (int k = 0; k < 2; k++) {
        for (uint32_t bits = 0; bits < 0x10000; bits++) {
            uint16_t h = (uint16_t)bits, up = (uint16_t)(bits + 1), back;
            float x, next;
            lvn_tensor_to_f32(types[k], &h, &x, 1);
            lvn_tensor_from_f32(types[k], &x, &back, 1);
            if (isnan(x)) {
                lvn_tensor_to_f32(types[k], &back, &next, 1);
                assert_true(isnan(next));
                continue;
            }
            assert_int_equal(back, h);
            lvn_tensor_to_f32(types[k], &up, &next, 1);
            if (isinf(x) || !isfinite(next) || (bits & 0x7fff) == 0x7fff) continue;
            double middle = ((double)x + next) / 2;
            if (fabs(middle) < 0x1p-120) continue; /* bfloat16's denormals: the middle is no float */
            float at = (float)middle, below = nextafterf(at, x), above = nextafterf(at, next);
            lvn_tensor_from_f32(types[k], &at, &back, 1);
            assert_int_equal(back, h & 1 ? up : h);
            lvn_tensor_from_f32(types[k], &below, &back, 1);
            assert_int_equal(back, h);
            lvn_tensor_from_f32(types[k], &above, &back, 1);
            assert_int_equal(back, up);
        }
    }
    float large[] = {65519.99f, 65520.0f, -1e10f, INFINITY, 1e-10f};
    uint16_t h[5];
    lvn_tensor_from_f32(LVN_F16, large, h, 5);
    assert_int_equal(h[0], 0x7bff);
    assert_int_equal(h[1], 0x7c00);
    assert_int_equal(h[2], 0xfc00);
    assert_int_equal(h[3], 0x7c00);
    assert_int_equal(h[4], 0);
    /* Known values: 1, -2, 65504, the least subnormal. */
    const uint16_t known[] = {0x3c00, 0xc000, 0x7bff, 0x0001};
    float x[4];
    lvn_tensor_to_f32(LVN_F16, known, x, 4);
    assert_true(x[0] == 1 && x[1] == -2 && x[2] == 65504 && x[3] == 0x1p-24f);
}

static void other_types(void **state)
{
    (void)state;
    unsigned char at[33] = {0};
    const double d[2] = {0.1, -3};
    const int64_t i64[2] = {5, -6};
    float x[2];
    memcpy(at + 1, d, 16); /* unaligned, as in files of other programs */
    lvn_tensor_to_f32(LVN_F64, at + 1, x, 2);
    assert_true(x[0] == 0.1f && x[1] == -3);
    memcpy(at + 1, i64, 16);
    lvn_tensor_to_f32(LVN_I64, at + 1, x, 2);
    assert_true(x[0] == 5 && x[1] == -6);
    const int16_t i16[2] = {-300, 4};
    lvn_tensor_to_f32(LVN_I16, i16, x, 2);
    assert_true(x[0] == -300 && x[1] == 4);
    const uint8_t b[2] = {200, 0};
    lvn_tensor_to_f32(LVN_U8, b, x, 2);
    assert_true(x[0] == 200 && x[1] == 0);
    lvn_tensor_to_f32(LVN_BOOL, b, x, 2);
    assert_true(x[0] == 1 && x[1] == 0);
    double back[2];
    lvn_tensor_from_f32(LVN_F64, x, back, 2);
    assert_true(back[0] == 1 && back[1] == 0);
}

static void memory_runs_out(void **state)
{
    (void)state;
    struct lvn_safetensors_item item[3];
    struct lvn_safetensors_source source = three_items(item);
    const char *path = test_path("m.safetensors");
    ASSERT_OK(lvn_safetensors_write(path, &source, NULL, NULL));
    for (long k = 1;; k++) {
        struct lvn_safetensors s;
        fault_memory_at(k);
        enum lvn_status status = lvn_safetensors_open(&s, path);
        fault_memory_at(0);
        if (status == LVN_OK) {
            assert_true(k > 20);
            lvn_safetensors_close(&s);
            break;
        }
        assert_int_equal(status, LVN_MEMORY);
    }
    for (long k = 1;; k++) {
        fault_memory_at(k);
        enum lvn_status status = lvn_safetensors_write(path, &source, NULL, NULL);
        fault_memory_at(0);
        assert_true(status != LVN_OK || k > 40);
        if (status == LVN_OK) break;
        assert_int_equal(status, LVN_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lying_headers), cmocka_unit_test(round_trip),  cmocka_unit_test(fetched_items),
        cmocka_unit_test(disk_fills),    cmocka_unit_test(shards),      cmocka_unit_test(small_floats),
        cmocka_unit_test(split),         cmocka_unit_test(other_types), cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}

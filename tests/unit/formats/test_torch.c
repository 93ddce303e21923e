/* test_torch.c - covers: src/files/formats/weights.c src/files/formats/pickle_value.c src/files/formats/torch.c
 * src/files/formats/safetensors_convert.c src/files/formats/pickle.c
 *
 * What torch.save() wrote: files of PyTorch itself, and pickles and archives that lie.
 *
 * tests/golden/torch was written by PyTorch (tools/make_torch.py); everything bad is put together here. */
#include "io_test.h"

#include <math.h>

#include "formats/json.h"
#include "formats/torch.h"
#include "formats/weights.h"

/* --- files of PyTorch --- */

static const struct lvn_weight *find(const struct lvn_weights *w, const char *prefix, const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const struct lvn_weight *t = lvn_weights_find(w, full);
    if (!t) fail_msg("no '%s'", full);
    return t;
}

/* Every tensor of a model directory, in a file with other names and another type, rounded to that. */
static void same_values(const char *model, const char *path, const char *cut, const char *prefix, enum lvn_dtype dtype)
{
    struct lvn_weights a, b;
    ASSERT_OK(lvn_weights_open(&a, model));
    ASSERT_OK(lvn_weights_open(&b, path));
    assert_true(a.n > 10);
    for (int i = 0; i < a.n; i++) {
        const struct lvn_weight *x = &a.tensor[i], *y = find(&b, prefix, x->name + strlen(cut));
        if (!lvn_desc_same_shape(&x->desc, &y->desc)) fail_msg("shape of '%s'", x->name);
        assert_int_equal(y->desc.dtype, dtype);
        int64_t n = lvn_desc_count(&x->desc);
        float *p = malloc(sizeof *p * (size_t)n), *q = malloc(sizeof *q * (size_t)n);
        char rounded[8];
        lvn_weight_read(x, 0, n, p);
        lvn_weight_read(y, 0, n, q);
        for (int64_t k = 0; k < n; k++) {
            float expected;
            lvn_tensor_from_f32(dtype, &p[k], rounded, 1);
            lvn_tensor_to_f32(dtype, rounded, &expected, 1);
            if (expected != q[k])
                fail_msg("'%s' at %d: %g, expected %g", x->name, (int)k, (double)q[k], (double)expected);
        }
        free(p);
        free(q);
    }
    lvn_weights_close(&a);
    lvn_weights_close(&b);
}

static void files_of_pytorch(void **state)
{
    (void)state;
    same_values("tests/golden/nanogpt", "tests/golden/torch/ckpt.pt", "", "_orig_mod.", LVN_F32);
    same_values("tests/golden/nanogpt-bias", "tests/golden/torch/old.pt", "", "", LVN_F16);
    same_values("tests/golden/gpt2", "tests/golden/torch/gpt2", "transformer.", "", LVN_BF16);
    struct lvn_torch t;
    ASSERT_OK(lvn_torch_open(&t, "tests/golden/torch/ckpt.pt"));
    assert_true(lvn_torch_is_file("tests/golden/torch/ckpt.pt"));
    assert_true(lvn_torch_is_file("tests/golden/torch/old.pt"));
    assert_false(lvn_torch_is_file("tests/golden/nanogpt/model.safetensors"));
    assert_false(lvn_torch_is_file("tests/golden/torch"));
    const struct lvn_pickle *config = lvn_pickle_get(t.root, "config"), *args = lvn_pickle_get(t.root, "model_args");
    assert_int_equal(lvn_pickle_get(t.root, "iter_num")->integer, 2000);
    assert_int_equal(lvn_pickle_get(config, "seed")->integer, INT64_C(1) << 40);
    assert_int_equal(lvn_pickle_get(config, "nothing")->kind, LVN_PICKLE_NONE);
    assert_string_equal(lvn_pickle_get(config, "out_dir")->text, "out");
    assert_true(lvn_pickle_get(config, "compile")->truth);
    assert_false(lvn_pickle_get(args, "bias")->truth);
    assert_null(lvn_pickle_get(args, "nobody"));
    const struct lvn_pickle *groups = lvn_pickle_get(lvn_pickle_get(t.root, "optimizer"), "param_groups");
    assert_true(lvn_pickle_get(groups->item[0], "lr")->real == 6e-4);
    lvn_torch_close(&t);
}

static void has(const struct lvn_weights *w, const char *name, int n, const float *expected)
{
    float x[24];
    const struct lvn_weight *t = find(w, "", name);
    assert_int_equal(lvn_desc_count(&t->desc), n);
    lvn_weight_read(t, 0, n, x);
    for (int i = 0; i < n; i++)
        if (x[i] != expected[i]) fail_msg("%s at %d: %g", name, i, (double)x[i]);
    if (n > 1) {
        lvn_weight_read(t, 1, n - 1, x); /* from its middle */
        assert_memory_equal(x, expected + 1, sizeof *x * (size_t)(n - 1));
    }
}

static void views(void **state)
{
    (void)state;
    static const char *const kinds[] = {"float64", "float16", "bfloat16", "int64", "int32",
                                        "int16",   "int8",    "uint8",    "bool"};
    struct lvn_weights w;
    ASSERT_OK(lvn_weights_open(&w, "tests/golden/torch/views.pt"));
    float x[24], transposed[24];
    for (int i = 0; i < 24; i++) x[i] = (float)i, transposed[i] = (float)(i % 4 * 6 + i / 4);
    has(&w, "whole", 24, x);
    has(&w, "transposed", 24, transposed);
    has(&w, "slice", 6, (const float[]){8, 9, 10, 14, 15, 16});
    has(&w, "row", 6, x + 12);
    has(&w, "expanded", 3, (const float[]){0, 0, 0});
    has(&w, "scalar", 1, (const float[]){7});
    has(&w, "parameter", 6, x + 18);
    has(&w, "empty", 0, x);
    for (int i = 0; i < 9; i++) has(&w, kinds[i], 3, (const float[]){0, 1, 1});
    lvn_weights_close(&w);
}

/* --- pickles --- */

static enum lvn_status no_call(void *context, struct lvn_arena *a, const char *function,
                               const struct lvn_pickle *arguments, struct lvn_pickle **out)
{
    (void)context, (void)a, (void)arguments, (void)out;
    LVN_FAIL(FORMAT, "called '%s'", function);
}

static enum lvn_status no_storage(void *context, struct lvn_arena *a, const struct lvn_pickle *id,
                                  struct lvn_pickle **out)
{
    (void)context, (void)a, (void)id, (void)out;
    LVN_FAIL(FORMAT, "outside");
}

static struct lvn_arena arena;

static enum lvn_status pickle(const char *bytes, int64_t n, struct lvn_pickle **out)
{
    struct lvn_pickle_functions functions = {.call = no_call, .persistent_load = no_storage};
    int64_t used;
    lvn_arena_release(&arena);
    lvn_arena_init(&arena);
    enum lvn_status status = lvn_pickle_read(&arena, "p", (const unsigned char *)bytes, n, &functions, out, &used);
    if (status == LVN_OK) assert_int_equal(used, n);
    return status;
}
#define PICKLE(text) pickle(text, sizeof text - 1, &v)

static void plain_values(void **state)
{
    (void)state;
    struct lvn_pickle *v;
    ASSERT_OK(PICKLE("\x80\x02N."));
    assert_int_equal(v->kind, LVN_PICKLE_NONE);
    ASSERT_OK(PICKLE("J\xff\xff\xff\xff."));
    assert_int_equal(v->integer, -1);
    ASSERT_OK(PICKLE("K\xff."));
    assert_int_equal(v->integer, 255);
    ASSERT_OK(PICKLE("M\x01\x02."));
    assert_int_equal(v->integer, 513);
    ASSERT_OK(PICKLE("\x8a\x00."));
    assert_int_equal(v->integer, 0);
    ASSERT_OK(PICKLE("\x8a\x02\x00\x80."));
    assert_int_equal(v->integer, -32768);
    ASSERT_OK(PICKLE("\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f."));
    assert_true(v->integer == INT64_MAX);
    ASSERT_OK(PICKLE("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."));
    assert_true(v->kind == LVN_PICKLE_REAL && v->real == 0x1p64);
    ASSERT_OK(PICKLE("\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\xff."));
    assert_true(v->kind == LVN_PICKLE_REAL && v->real == -0x1p64);
    ASSERT_OK(PICKLE("G\xbf\xf8\0\0\0\0\0\0."));
    assert_true(v->real == -1.5);
    ASSERT_OK(PICKLE("(K\x01K\x02K\x03t."));
    assert_true(v->kind == LVN_PICKLE_TUPLE && v->n == 3 && v->item[2]->integer == 3);
    ASSERT_OK(PICKLE("(]q\x00h\x00t."));
    assert_true(v->item[0] == v->item[1]);
    ASSERT_OK(PICKLE("]q\x00h\x00"
                     "a.")); /* a list that contains itself */
    assert_true(v->n == 1 && v->item[0] == v);
    ASSERT_OK(PICKLE("}(\x8c\x01"
                     "aK\x01\x8c\x01"
                     "aK\x02u."));
    assert_int_equal(lvn_pickle_get(v, "a")->integer, 2);
    ASSERT_OK(PICKLE("K\x01K\x02"
                     "0."));
    assert_int_equal(v->integer, 1);
    ASSERT_OK(PICKLE("}\x8c\x03sixb.")); /* attributes of a dict are ignored */
    assert_int_equal(v->n, 0);
}

static void bad_pickles(void **state)
{
    (void)state;
    struct lvn_pickle *v;
    ASSERT_FAILS(FORMAT, "it ends too early", PICKLE(""));
    ASSERT_FAILS(FORMAT, "it ends too early", PICKLE("J\x01\x02"));
    ASSERT_FAILS(FORMAT, "it ends too early", PICKLE("X\xff\xff\xff\x7f"));
    ASSERT_FAILS(FORMAT, "it ends too early", PICKLE("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"));
    ASSERT_FAILS(FORMAT, "pops from an empty stack", PICKLE("\x86."));
    ASSERT_FAILS(FORMAT, "pops from an empty stack", PICKLE("(0."));
    ASSERT_FAILS(FORMAT, "pops from an empty stack", PICKLE("(q\x00."));
    ASSERT_FAILS(FORMAT, "does not end with exactly one value", PICKLE("."));
    ASSERT_FAILS(FORMAT, "does not end with exactly one value", PICKLE("(."));
    ASSERT_FAILS(FORMAT, "does not end with exactly one value", PICKLE("NN."));
    ASSERT_FAILS(FORMAT, "an instruction needs a MARK that is not on the stack", PICKLE("NNt."));
    ASSERT_FAILS(FORMAT, "a value that is not a container", PICKLE("(NNu."));
    ASSERT_FAILS(FORMAT, "a value that is not a container", PICKLE("](NNu."));
    ASSERT_FAILS(FORMAT, "a key has no value", PICKLE("}(NNNu."));
    ASSERT_FAILS(FORMAT, "was never stored", PICKLE("h\x05."));
    ASSERT_FAILS(FORMAT, "its memo index is larger than the file", PICKLE("Nr\xff\xff\xff\x7f."));
    ASSERT_FAILS(FORMAT, "unknown instruction", PICKLE("N\xff."));
    ASSERT_FAILS(FORMAT, "a text contains a NUL byte",
                 PICKLE("\x8c\x02"
                        "a\0."));
    ASSERT_FAILS(FORMAT, "unterminated line", PICKLE("cposix"));
    ASSERT_FAILS(FORMAT, "called 'posix.system'", PICKLE("cposix\nsystem\n\x8c\x02id\x85R."));
    ASSERT_FAILS(FORMAT, "called 'posix.system'", PICKLE("\x8c\x05posix\x8c\x06system\x93\x8c\x02id\x85R."));
    ASSERT_FAILS(FORMAT, "a call of a value that is not a function", PICKLE("N)R."));
    ASSERT_FAILS(FORMAT, "a call of a value that is not a function", PICKLE("cposix\nsystem\nNR."));
    ASSERT_FAILS(FORMAT, "creates an instance of a class", PICKLE("ca\nb\n)\x81."));
    ASSERT_FAILS(FORMAT, "creates an instance of a class", PICKLE("(ia\nb\n."));
    ASSERT_FAILS(FORMAT, "creates an instance of a class", PICKLE("(ca\nb\no."));
    ASSERT_FAILS(FORMAT, "sets attributes of a function", PICKLE("ca\nb\n}b."));
    ASSERT_FAILS(FORMAT, "outside", PICKLE("NQ."));
}

/* --- archives --- */

struct archive {
    unsigned char bytes[4096], directory[1024];
    int n, d, members;
};

static void put(unsigned char *to, int *n, uint64_t x, int bytes)
{
    for (; bytes--; x >>= 8) to[(*n)++] = (unsigned char)x;
}

/* One stored member; `method` other than 0: claims compression. */
static void add(struct archive *z, const char *name, const void *data, int bytes, int method)
{
    int at = z->n, length = (int)strlen(name);
    memcpy(z->bytes + z->n, "PK\3\4", 4), z->n += 4;
    put(z->bytes, &z->n, 0, 22);
    put(z->bytes, &z->n, (uint64_t)length, 2);
    put(z->bytes, &z->n, 0, 2);
    memcpy(z->bytes + z->n, name, (size_t)length), z->n += length;
    if (bytes) memcpy(z->bytes + z->n, data, (size_t)bytes), z->n += bytes;
    memcpy(z->directory + z->d, "PK\1\2", 4), z->d += 4;
    put(z->directory, &z->d, 0, 6);
    put(z->directory, &z->d, (uint64_t)method, 2);
    put(z->directory, &z->d, 0, 8);
    put(z->directory, &z->d, (uint64_t)bytes, 4);
    put(z->directory, &z->d, (uint64_t)bytes, 4);
    put(z->directory, &z->d, (uint64_t)length, 2);
    put(z->directory, &z->d, 0, 12);
    put(z->directory, &z->d, (uint64_t)at, 4);
    memcpy(z->directory + z->d, name, (size_t)length), z->d += length;
    z->members++;
}

static void finish(struct archive *z)
{
    int at = z->n;
    memcpy(z->bytes + z->n, z->directory, (size_t)z->d), z->n += z->d;
    memcpy(z->bytes + z->n, "PK\5\6", 4), z->n += 4;
    put(z->bytes, &z->n, 0, 4);
    put(z->bytes, &z->n, (uint64_t)z->members, 2);
    put(z->bytes, &z->n, (uint64_t)z->members, 2);
    put(z->bytes, &z->n, (uint64_t)z->d, 4);
    put(z->bytes, &z->n, (uint64_t)at, 4);
    put(z->bytes, &z->n, 0, 2);
}

static enum lvn_status parse(const struct archive *z)
{
    struct lvn_torch t;
    enum lvn_status status = lvn_torch_parse(&t, "m.pt", z->bytes, z->n);
    if (status == LVN_OK) lvn_torch_close(&t);
    return status;
}

/* An archive of this pickle and one storage "0" of 16 bytes. */
static enum lvn_status archive_of(const char *text, int bytes)
{
    struct archive z = {.n = 0};
    add(&z, "a/data.pkl", text, bytes, 0);
    add(&z, "a/data/0", "0123456789abcdef", 16, 0);
    finish(&z);
    return parse(&z);
}
#define ARCHIVE(text) archive_of(text, sizeof text - 1)
/* A tensor on storage KEY of COUNT floats: offset, size, stride. */
#define STORAGE(key, count)                                                                                            \
    "(\x8c\x07storagectorch\nFloatStorage\n\x8c\x01" key "\x8c\x03"                                                    \
    "cpuK" count "tQ"
#define TENSOR(key, count, offset, size, stride)                                                                       \
    "ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE(key, count) "K" offset size stride "\x89NtR."

static void archives(void **state)
{
    (void)state;
    ASSERT_OK(ARCHIVE(TENSOR("0", "\x04", "\x00", "K\x04\x85", "K\x01\x85")));
    ASSERT_OK(ARCHIVE(TENSOR("0", "\x04", "\x01", "K\x03K\x05\x86", "K\x01K\x00\x86")));
    ASSERT_FAILS(FORMAT, "lacks 'a/data/1'", ARCHIVE(TENSOR("1", "\x04", "\x00", "K\x04\x85", "K\x01\x85")));
    ASSERT_FAILS(FORMAT, "has 5 elements of fp32, but the file has only 16 bytes for it",
                 ARCHIVE(TENSOR("0", "\x05", "\x00", "K\x05\x85", "K\x01\x85")));
    ASSERT_FAILS(FORMAT, "exceeds its storage '0' of 4 elements",
                 ARCHIVE(TENSOR("0", "\x04", "\x01", "K\x04\x85", "K\x01\x85")));
    ASSERT_FAILS(FORMAT, "exceeds its storage", ARCHIVE(TENSOR("0", "\x04", "\x00", "K\x02\x85", "K\x04\x85")));
    ASSERT_FAILS(FORMAT, "exceeds its storage",
                 ARCHIVE(TENSOR("0", "\x04", "\x00", "J\xff\xff\xff\xff\x85", "K\x01\x85")));
    ASSERT_FAILS(FORMAT, "exceeds its storage",
                 ARCHIVE(TENSOR("0", "\x04", "\x00", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85",
                                "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85")));
    ASSERT_FAILS(UNSUPPORTED, "5 dimensions",
                 ARCHIVE(TENSOR("0", "\x04", "\x00", "(K\x01K\x01K\x01K\x01K\x01t", "(K\x01K\x01K\x01K\x01K\x01t")));
    ASSERT_FAILS(FORMAT, "a tensor has an unsupported description",
                 ARCHIVE("ctorch._utils\n_rebuild_tensor_v2\n(NNNNtR."));
    ASSERT_FAILS(FORMAT, "a storage has an unsupported description", ARCHIVE("\x8c\x07storage\x85Q."));
    ASSERT_FAILS(UNSUPPORTED, "unsupported type 'torch.QUInt8Storage'",
                 ARCHIVE("(\x8c\x07storagectorch\nQUInt8Storage\n\x8c\x01"
                         "0\x8c\x03"
                         "cpuK\x01tQ."));
    ASSERT_FAILS(FORMAT, "'m.pt' calls the function 'posix.system', but levin does not execute code",
                 ARCHIVE("cposix\nsystem\n\x8c\x02id\x85R."));
    ASSERT_FAILS(FORMAT, "calls the function 'builtins.eval'", ARCHIVE("cbuiltins\neval\n\x8c\x01x\x85R."));
    ASSERT_FAILS(FORMAT, "creates an instance of a class", ARCHIVE("csubprocess\nPopen\n)\x81."));
}

static void bad_archives(void **state)
{
    (void)state;
    struct archive z = {.n = 0};
    add(&z, "a/data.pkl", "N.", 2, 0);
    finish(&z);
    ASSERT_OK(parse(&z));
    for (int n = z.n - 1; n >= 0; n--) { /* truncated at every length */
        struct lvn_torch t;
        if (lvn_torch_parse(&t, "m.pt", z.bytes, n) == LVN_OK) fail_msg("%d of %d bytes are enough", n, z.n);
    }
    struct archive other = {.n = 0};
    add(&other, "a/data.pkl", "N.", 2, 8);
    finish(&other);
    ASSERT_FAILS(UNSUPPORTED, "'a/data.pkl' is compressed", parse(&other));
    other = (struct archive){.n = 0};
    add(&other, "a/data.txt", "N.", 2, 0);
    finish(&other);
    ASSERT_FAILS(FORMAT, "a zip archive without a data.pkl", parse(&other));
    other = (struct archive){.n = 0};
    add(&other, "a/data.pkl", "N.", 2, 0);
    add(&other, "a/byteorder", "big", 3, 0);
    finish(&other);
    ASSERT_FAILS(UNSUPPORTED, "a big-endian machine", parse(&other));
    other = z;
    other.n -= 22, put(other.bytes, &other.n, 0, 22); /* no end record */
    ASSERT_FAILS(FORMAT, "no directory at its end: it is truncated", parse(&other));
    other = z;
    memset(other.bytes + z.n - 6, 0xff, 4); /* a directory beyond the file */
    ASSERT_FAILS(FORMAT, "is not within", parse(&other));
    other = z;
    other.bytes[0] = 'Q';
    ASSERT_FAILS(FORMAT, "was not written by torch.save()", parse(&other));
    for (int i = 4; i < z.n; i++) { /* no flipped bit may crash the reader */
        other = z;
        other.bytes[i] ^= 0xff;
        (void)!parse(&other);
    }
}

/* --- weights --- */

static void bad_weights(void **state)
{
    (void)state;
    struct lvn_weights w;
    char *file;
    int64_t n;
    ASSERT_FAILS(IO, "contains neither model.safetensors nor pytorch_model.bin", lvn_weights_open(&w, test_dir));
    ASSERT_OK(lvn_file_read("tests/golden/torch/old.pt", 0, &file, &n));
    for (int64_t part = 15; part < n; part += n / 7) {
        test_put("cut.pt", file, part);
        if (lvn_weights_open(&w, test_path("cut.pt")) == LVN_OK)
            fail_msg("%d of %d bytes are enough", (int)part, (int)n);
    }
    free(file);
    const char *index = "{\"weight_map\": {\"h.0.ln_1.weight\": \"../x.bin\"}}";
    test_put("pytorch_model.bin.index.json", index, (int64_t)strlen(index));
    ASSERT_FAILS(FORMAT, "refers to the file '../x.bin', which is not in the same folder",
                 lvn_weights_open(&w, test_dir));
    index = "{\"weight_map\": {\"a\": \"views.bin\"}}";
    test_put("pytorch_model.bin.index.json", index, (int64_t)strlen(index));
    ASSERT_OK(lvn_file_read("tests/golden/torch/views.pt", 0, &file, &n));
    test_put("views.bin", file, n);
    free(file);
    ASSERT_FAILS(FORMAT, "lists tensor 'a' in 'views.bin', but that file does not contain it",
                 lvn_weights_open(&w, test_dir));
    struct archive z = {.n = 0};
    add(&z, "a/data.pkl", "}.", 2, 0);
    finish(&z);
    test_put("pytorch_model.bin", z.bytes, z.n);
    ASSERT_FAILS(FORMAT, "contains no tensors", lvn_weights_open(&w, test_dir));
    z = (struct archive){.n = 0};
    add(&z, "a/data.pkl", "K\x01.", 3, 0);
    finish(&z);
    test_put("pytorch_model.bin", z.bytes, z.n);
    ASSERT_FAILS(FORMAT, "contains an integer, expected the state_dict of a model", lvn_weights_open(&w, test_dir));
}

static int drop_arena(void **state)
{
    (void)state;
    lvn_arena_release(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_pytorch),
        cmocka_unit_test(views),
        cmocka_unit_test_teardown(plain_values, drop_arena),
        cmocka_unit_test_teardown(bad_pickles, drop_arena),
        cmocka_unit_test(archives),
        cmocka_unit_test(bad_archives),
        cmocka_unit_test_setup_teardown(bad_weights, test_dir_make, test_dir_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

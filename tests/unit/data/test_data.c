/* test_data.c - covers: src/text/data/dataset.c src/text/data/vocab.c src/text/data/prepare/prepare.c
 * src/text/data/dataset_fingerprint.c src/text/data/loader.c src/text/data/program/program_data.c
 *
 * Data sets: splits, vocabularies, and a message for each bad file. */
#include "data_files.h"

#include <sys/stat.h>

#include "base/arena.h"
#include "data/prepare/prepare.h"
#include "data/program/program_data.h"
#include "faults.h"

/* --- characters ------------------------------------------------------------------------------------------------ */

static void tinyshakespeare(void **state)
{
    (void)state;
    const char *path = "../shared/data/tinyshakespeare.txt";
    if (access(path, R_OK)) {
        print_message("skipped: %s is not there\n", path);
        skip();
    }
    struct lvn_dataset *d = open_data((struct lvn_data_options){.kind = "chars", .path = path, .block_size = 64});
    assert_int_equal(d->vocab_size, 65);
    assert_int_equal(d->split[LVN_SPLIT_TRAIN].n_tokens, 1003854);
    assert_int_equal(d->split[LVN_SPLIT_VAL].n_tokens, 111540);
    assert_int_equal(lvn_dataset_samples(d, LVN_SPLIT_VAL), 111539 / 64);
    /* "First Citizen" with nanoGPT's ids */
    int32_t ids[64], labels[64];
    static const int32_t first[] = {18, 47, 56, 57, 58, 1, 15, 47, 58, 47, 64, 43, 52};
    assert_int_equal(read_sample(d, LVN_SPLIT_TRAIN, 0, 64, ids, labels), LVN_OK);
    assert_memory_equal(ids, first, sizeof first);
    assert_memory_equal(labels, first + 1, sizeof first - sizeof *first);
    lvn_dataset_close(d);
}

static void unicode(void **state)
{
    (void)state;
    /* 10 characters of 1 to 4 bytes: 9 for training, 1 for validation. Sorted by code point, not by byte or appearance.
     */
    const char *path = write_text("unicode.txt", "zé\xf0\x9f\x98\x80漢aézaz\n");
    struct lvn_dataset *d = open_data((struct lvn_data_options){.kind = "chars", .path = path, .block_size = 4});
    assert_int_equal(d->vocab_size, 6);
    assert_int_equal(d->split[LVN_SPLIT_TRAIN].n_tokens, 9);
    assert_int_equal(d->split[LVN_SPLIT_VAL].n_tokens, 1);
    assert_false(lvn_dataset_has(d, LVN_SPLIT_VAL));
    int32_t ids[8], labels[8];
    assert_int_equal(read_sample(d, LVN_SPLIT_TRAIN, 0, 8, ids, labels), LVN_OK);
    assert_memory_equal(ids, ((int32_t[]){2, 3, 5, 4, 1, 3, 2, 1}), sizeof ids);
    assert_memory_equal(labels, ((int32_t[]){3, 5, 4, 1, 3, 2, 1, 2}), sizeof labels);
    char text[5];
    assert_int_equal(lvn_vocab_decode(d->vocabulary, 5, text), 4);
    assert_string_equal(text, "\xf0\x9f\x98\x80");
    lvn_vocab_decode(d->vocabulary, 6, text);
    assert_string_equal(text, "\xef\xbf\xbd"); /* beyond the vocabulary */

    int64_t n;
    assert_int_equal(lvn_vocab_encode(d->vocabulary, "the prompt", "漢z", 4, ids, &n), LVN_OK);
    assert_int_equal(n, 2);
    assert_memory_equal(ids, ((int32_t[]){4, 2}), 8);
    assert_int_equal(lvn_vocab_encode(d->vocabulary, "the prompt", "zü", 3, ids, &n), LVN_ARG);
    assert_string_equal(levin_error_text(), "the prompt has the character 'ü' (U+00FC) at byte 1, which the model's "
                                            "vocabulary of 6 characters lacks");
    assert_int_equal(lvn_vocab_encode(d->vocabulary, "the prompt", "z\t", 2, ids, &n), LVN_ARG);
    assert_non_null(strstr(levin_error_text(), "the character U+0009 at byte 1"));
    assert_int_equal(lvn_vocab_encode(d->vocabulary, "the prompt", "z\xff", 2, ids, &n), LVN_ARG);

    /* stored with the run, and loaded without the text */
    char *json;
    assert_int_equal(lvn_vocab_to_json(d->vocabulary, &json), LVN_OK);
    struct lvn_vocab *v;
    assert_int_equal(lvn_vocab_from_json(&v, "'vocabulary.json'", json, (int64_t)strlen(json)), LVN_OK);
    assert_int_equal(v->n, 6);
    assert_memory_equal(v->points, d->vocabulary->points, 6 * sizeof *v->points);
    free(json);
    lvn_dataset_close(d);

    /* another text with the ids of the first one; a character missing in it */
    d = open_data((struct lvn_data_options){.kind = "chars", .path = write_text("b.txt", "azazaz"), .vocabulary = v});
    assert_int_equal(d->vocab_size, 6);
    assert_int_equal(read_sample(d, LVN_SPLIT_TRAIN, 0, 2, ids, labels), LVN_OK);
    assert_memory_equal(ids, ((int32_t[]){1, 2}), 8);
    lvn_dataset_close(d);
    assert_refused(LVN_ARG, "the character 'b' (U+0062) at byte 2", .kind = "chars", .vocabulary = v,
                   .path = write_text("b.txt", "azbaza"));
    lvn_vocab_free(v);
}

static void vocabulary_files(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "[]",
                                      "{",
                                      "{\"vocabulary\":7}",
                                      "{\"vocabulary\":\"ba\"}",
                                      "{\"vocabulary\":\"aa\"}",
                                      "{\"vocabulary\":\"\"}",
                                      "{\"vocabulary\":\"a\",\"vocabulary\":\"b\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct lvn_vocab *v;
        assert_int_equal(lvn_vocab_from_json(&v, "'v.json'", bad[i], (int64_t)strlen(bad[i])), LVN_FORMAT);
        assert_null(v);
        assert_non_null(strstr(levin_error_text(), "v.json"));
    }
}

static void bad_texts(void **state)
{
    (void)state;
    assert_refused(LVN_ARG, "needs data.path", .kind = "chars");
    assert_refused(LVN_IO, "No such file", .kind = "chars", .path = test_path("missing.txt"));
    assert_refused(LVN_IO, "Is a directory", .kind = "chars", .path = test_dir);
    assert_refused(LVN_FORMAT, "is empty", .kind = "chars", .path = write_text("t.txt", ""));
    assert_refused(LVN_FORMAT, "a single character", .kind = "chars", .path = write_text("t.txt", "é"));
    assert_refused(LVN_FORMAT, "one and the same", .kind = "chars", .path = write_text("t.txt", "aaaaaaaa"));
    assert_refused(LVN_FORMAT, "byte 0xff at offset 3", .kind = "chars", .path = write_text("t.txt", "abc\xff"));
    assert_refused(LVN_FORMAT, "NUL byte at offset 2", .kind = "chars", .path = write_file("t.txt", "ab\0cd", 5));
    assert_refused(LVN_FORMAT, "has 9 tokens to train on, but one window of model.block_size=9 needs 10",
                   .kind = "chars", .path = write_text("t.txt", "abcdefghij"), .block_size = 9);
    assert_refused(LVN_ARG, "10 different tokens, but model.vocab_size is 9", .kind = "chars", .vocab_size = 9,
                   .path = write_text("t.txt", "abcdefghij"));
    assert_refused(LVN_ARG, "levin knows labelled, chat, chars, tokens, mnist", .kind = "words");
}

static void validation_text(void **state)
{
    (void)state;
    const char *val = write_text("val.txt", "cab"), *train = write_text("train.txt", "abababab");
    struct lvn_dataset *d =
        open_data((struct lvn_data_options){.kind = "chars", .path = train, .val_path = val, .block_size = 4});
    assert_int_equal(d->vocab_size, 3);
    assert_int_equal(d->split[LVN_SPLIT_TRAIN].n_tokens, 8);
    assert_int_equal(d->split[LVN_SPLIT_VAL].n_tokens, 3);
    /* shorter than a window: one window, whose missing labels are ignored */
    assert_int_equal(lvn_dataset_samples(d, LVN_SPLIT_VAL), 1);
    int32_t ids[4], labels[4];
    assert_int_equal(read_sample(d, LVN_SPLIT_VAL, 0, 4, ids, labels), LVN_OK);
    assert_memory_equal(ids, ((int32_t[]){2, 0, 0, 0}), sizeof ids);
    assert_memory_equal(labels, ((int32_t[]){0, 1, -1, -1}), sizeof labels);
    assert_int_equal(count_labels(labels, 4), 2);
    for (int sampling = 0; sampling < 3; sampling++) {
        struct lvn_loader l;
        assert_int_equal(lvn_loader_init(&l, d, LVN_SPLIT_VAL, (enum lvn_sampling)sampling, 2, 1), LVN_OK);
        assert_int_equal(read_batch(&l, 3, 1, 1, ids, labels), LVN_OK);
        assert_memory_equal(ids, ((int32_t[]){2, 0, 0, 0}), sizeof ids);
    }
    lvn_dataset_close(d);
}

/* --- token files ----------------------------------------------------------------------------------------------- */

static void token_files(void **state)
{
    (void)state;
    struct lvn_dataset *d =
        open_data((struct lvn_data_options){.kind = "tokens", .path = write_counting("a.bin", 100), .block_size = 8});
    assert_int_equal(d->vocab_size, 50304); /* the default */
    assert_null(d->vocabulary);
    assert_true(lvn_dataset_has(d, LVN_SPLIT_TRAIN) && !lvn_dataset_has(d, LVN_SPLIT_VAL));
    lvn_dataset_close(d);

    uint32_t wide[] = {70000, 1, 2, 3};
    const char *path = write_file("wide.bin", wide, sizeof wide);
    write_text("wide.bin.json", "{\"dtype\":\"uint32\",\"more\":[1]}");
    d = open_data((struct lvn_data_options){.kind = "tokens", .path = path, .val_path = test_path("a.bin")});
    assert_int_equal(d->vocab_size, 70001);
    assert_int_equal(d->split[LVN_SPLIT_TRAIN].n_tokens, 4);
    assert_int_equal(d->split[LVN_SPLIT_VAL].n_tokens, 100);
    int32_t ids[3], labels[3];
    assert_int_equal(read_sample(d, LVN_SPLIT_TRAIN, 0, 3, ids, labels), LVN_OK);
    assert_memory_equal(ids, ((int32_t[]){70000, 1, 2}), sizeof ids);
    assert_memory_equal(labels, ((int32_t[]){1, 2, 3}), sizeof labels);
    lvn_dataset_close(d);

    write_counting("train.bin", 50);
    write_counting("val.bin", 20);
    write_text("meta.json", "not JSON, and none of our business");
    d = open_data((struct lvn_data_options){.kind = "tokens", .path = test_dir, .vocab_size = 50304});
    assert_int_equal(d->split[LVN_SPLIT_TRAIN].n_tokens, 50);
    assert_int_equal(d->split[LVN_SPLIT_VAL].n_tokens, 20);
    lvn_dataset_close(d);
}

static void bad_token_files(void **state)
{
    (void)state;
    const char *path = write_counting("c.bin", 60);
    assert_refused(LVN_FORMAT, "c.bin' holds the token id 59 at position 59, but the model's vocabulary has 32 tokens",
                   .kind = "tokens", .path = path, .vocab_size = 32);
    assert_refused(LVN_FORMAT, "needs 61", .kind = "tokens", .path = path, .block_size = 60);
    assert_refused(LVN_FORMAT, "has 3 bytes, which is not a multiple of the size of a uint16", .kind = "tokens",
                   .path = write_file("odd.bin", "abc", 3));
    assert_refused(LVN_FORMAT, "is empty", .kind = "tokens", .path = write_file("odd.bin", "", 0));
    assert_refused(LVN_IO, "missing.bin", .kind = "tokens", .path = test_path("missing.bin"));
    assert_refused(LVN_IO, "val_missing.bin", .kind = "tokens", .path = path, .val_path = test_path("val_missing.bin"));
    assert_refused(LVN_ARG, "needs data.path", .kind = "tokens");
    static const char *const sidecars[][2] = {{"{\"dtype\":\"int64\"}", "dtype \"int64\""},
                                              {"{\"dtype\":4}", "dtype"},
                                              {"uint32", "is not JSON"},
                                              {"[1]", "JSON object"},
                                              {"", "is not JSON"},
                                              {"{\"vocab_size\":0}", "vocab_size"},
                                              {"{\"vocab_size\":1e3}", "vocab_size"},
                                              {"{\"vocabulary\":\"ba\"}", "sorted"},
                                              {"{\"vocabulary\":\"abc\",\"vocab_size\":2}", "vocabulary has 3"},
                                              {"{\"dtype\":\"uint32\"}", "uint32"}};
    path = write_file("d.bin", "abcdef", 6);
    for (size_t i = 0; i < sizeof sidecars / sizeof *sidecars; i++) {
        write_text("d.bin.json", sidecars[i][0]);
        assert_refused(LVN_FORMAT, sidecars[i][1], .kind = "tokens", .path = path);
    }
    static const uint32_t huge[] = {1, UINT32_MAX};
    path = write_file("huge.bin", huge, sizeof huge);
    write_text("huge.bin.json", "{\"dtype\":\"uint32\"}");
    assert_refused(LVN_FORMAT, "4294967295 at position 1", .kind = "tokens", .path = path);
    assert_refused(LVN_FORMAT, "4294967295 at position 1", .kind = "tokens", .path = path, .vocab_size = 100);
}

/* Ids are also checked when windows are read: huge files are not scanned when they are opened. */
static void late_check(void **state)
{
    (void)state;
    struct lvn_dataset *d =
        open_data((struct lvn_data_options){.kind = "tokens", .path = write_counting("a.bin", 100)});
    d->id_limit = 50;
    int32_t ids[10], labels[10];
    assert_int_equal(read_sample(d, LVN_SPLIT_TRAIN, 39, 10, ids, labels), LVN_OK);
    assert_int_equal(read_sample(d, LVN_SPLIT_TRAIN, 40, 10, ids, labels), LVN_FORMAT);
    assert_non_null(strstr(levin_error_text(), "token id 50 at position 50"));
    lvn_dataset_close(d);
}

/* --- samples of a program -------------------------------------------------------------------------------------- */

static bool write_number(void *context, enum lvn_split_id split, int64_t i, void *const *out, char error[400])
{
    int32_t *ids = out[0], *labels = out[1];
    for (int k = 0; k < 6; k++) {
        ids[k] = (int32_t)i + *(int32_t *)context;
        labels[k] = k < 3 ? -1 : (int32_t)split;
    }
    snprintf(error, 400, "there is no sample %d", (int)i);
    return i < 9;
}

static void of_a_program(void **state)
{
    (void)state;
    int32_t shift = 0, ids[6], labels[6];
    const struct lvn_program_data p = {.fields = lvn_stream_fields(6, 10),
                                       .samples = {20, 5},
                                       .vocab_size = 10,
                                       .sample = write_number,
                                       .context = &shift};
    assert_refused(LVN_ARG, "name files with data.path instead", .kind = "program");
    lvn_program_data_set(&p);
    assert_refused(LVN_ARG, "a sample of 'program' has 6 tokens", .kind = "program", .block_size = 5);
    assert_refused(LVN_ARG, "data.path ('x') names others", .kind = "program", .path = "x");
    struct lvn_dataset *d = open_data((struct lvn_data_options){.kind = "program"});
    assert_int_equal(d->vocab_size, 10);
    assert_int_equal(d->block_size, 6);
    assert_int_equal(lvn_dataset_samples(d, LVN_SPLIT_TRAIN), 20);
    assert_int_equal(lvn_dataset_samples(d, LVN_SPLIT_VAL), 5);
    assert_false(lvn_dataset_has(d, LVN_SPLIT_TEST));
    for (int32_t i = 0; i < 9; i++) {
        ASSERT_OK(read_sample(d, LVN_SPLIT_TRAIN, i, 6, ids, labels));
        assert_true(ids[0] == i && ids[5] == i && labels[2] == -1 && labels[3] == 0);
        assert_int_equal(count_labels(labels, 6), 3);
    }
    ASSERT_OK(read_sample(d, LVN_SPLIT_VAL, 4, 6, ids, labels));
    assert_true(ids[0] == 4 && labels[5] == 1);
    ASSERT_FAILS(ARG, "there is no sample 9", read_sample(d, LVN_SPLIT_TRAIN, 9, 6, ids, labels));
    shift = 8;
    ASSERT_FAILS(ARG, "sample 2 of train: 'ids' holds 10, and it may hold 0 to 9",
                 read_sample(d, LVN_SPLIT_TRAIN, 2, 6, ids, labels));
    lvn_dataset_close(d);
    lvn_program_data_set(NULL);
}

/* --- all kinds ------------------------------------------------------------------------------------------------- */

static void fingerprints(void **state)
{
    (void)state;
    uint64_t f[5];
    static const char *const texts[] = {"abcabcabcabc", "abcabcabcabc", "abcabcabcacb", "abcabcabcabcabc",
                                        "abdabdabdabd"};
    for (int i = 0; i < 5; i++) {
        struct lvn_dataset *d =
            open_data((struct lvn_data_options){.kind = "chars", .path = write_text("f.txt", texts[i])});
        ASSERT_OK(lvn_dataset_fingerprint(d, &f[i]));
        lvn_dataset_close(d);
    }
    assert_true(f[0] == f[1]);
    for (int i = 1; i < 5; i++)
        for (int j = 1; j < i; j++) assert_true(f[i] != f[j]);
    /* the fingerprint does not depend on whether the model's vocabulary was known */
    for (int i = 0; i < 2; i++) {
        struct lvn_dataset *d = open_data((struct lvn_data_options){
            .kind = "tokens", .path = write_counting("f.bin", 64), .vocab_size = i ? 4096 : 0});
        ASSERT_OK(lvn_dataset_fingerprint(d, &f[i]));
        lvn_dataset_close(d);
    }
    assert_true(f[0] == f[1]);
}

static void prepared_text(void **state)
{
    (void)state;
    char out[300];
    snprintf(out, sizeof out, "%s/prepared", test_dir);
    struct lvn_data_options o = {.kind = "chars", .path = write_text("p.txt", "to be or not to bé\n\n")};
    struct lvn_prepared result;
    if (lvn_prepare(&o, NULL, 0, out, &result) != LVN_OK) fail_msg("%s", levin_error_text());
    assert_int_equal(result.n_tokens[0], 18);
    assert_int_equal(result.n_tokens[1], 2);
    struct lvn_dataset *text = open_data(o), *d = open_data((struct lvn_data_options){.kind = "tokens", .path = out});
    assert_int_equal(d->vocab_size, text->vocab_size);
    assert_memory_equal(d->vocabulary->points, text->vocabulary->points, (size_t)d->vocab_size * 4);
    for (int i = 0; i < LVN_SPLITS_TRAINED; i++) {
        assert_int_equal(d->split[i].n_tokens, text->split[i].n_tokens);
        assert_memory_equal(d->split[i].tokens, text->split[i].tokens, (size_t)d->split[i].n_tokens * 2);
    }
    lvn_dataset_close(text);
    lvn_dataset_close(d);
    o.kind = "mnist";
    o.path = NULL;
    assert_int_equal(lvn_prepare(&o, NULL, 0, out, &result), LVN_ARG);
    o = (struct lvn_data_options){.kind = "chars", .path = test_path("p.txt")};
    assert_int_equal(lvn_prepare(&o, NULL, 0, "/proc/nowhere", &result), LVN_IO);
}

/* Opening with the k-th allocation failing, for each k until it succeeds: a message each time, no leak. */
static void no_memory(void **state)
{
    (void)state;
    const char *path = write_text("m.txt", "some text to learn");
    for (long k = 1;; k++) {
        struct lvn_dataset *d;
        fault_memory_at(k);
        enum lvn_status status = lvn_dataset_open(&d, &(struct lvn_data_options){.kind = "chars", .path = path});
        fault_memory_at(0);
        if (status == LVN_OK) {
            lvn_dataset_close(d);
            assert_true(k > 4);
            break;
        }
        assert_int_equal(status, LVN_MEMORY);
        assert_true(*levin_error_text());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tinyshakespeare), cmocka_unit_test(unicode),         cmocka_unit_test(vocabulary_files),
        cmocka_unit_test(bad_texts),       cmocka_unit_test(validation_text), cmocka_unit_test(token_files),
        cmocka_unit_test(bad_token_files), cmocka_unit_test(late_check),      cmocka_unit_test(of_a_program),
        cmocka_unit_test(fingerprints),    cmocka_unit_test(prepared_text),   cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}

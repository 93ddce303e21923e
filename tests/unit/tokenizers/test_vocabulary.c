/* test_vocabulary.c - covers: src/text/tokenizers/training/bpe_trainer.c src/text/tokenizers/encoder.c
 * src/text/tokenizers/tokenizer.c src/text/tokenizers/training/bpe_trainer_save.c
 *
 * Vocabularies trained on text, against those of Hugging Face's trainers (tests/golden/tokenizers/ trained, by
 * tools/make_tokens.py), and for any number of threads. */
#include <string.h>

#include "base/files.h"
#include "base/work.h"
#include "formats/json.h"
#include "tokenizers/encoder.h"
#include "tokenizers/load.h"
#include "tokenizers/training/bpe_trainer.h"
#include "unit/io_test.h"

#define GOLDEN "tests/golden/tokenizers/trained/"

struct golden {
    char *text;
    int64_t bytes;
    json_t *expected;
};

static void read_golden(struct golden *g)
{
    assert_int_equal(lvn_file_read(GOLDEN "text.txt", 0, &g->text, &g->bytes), LVN_OK);
    assert_int_equal(lvn_json_read(GOLDEN "expected.json", &g->expected), LVN_OK);
}

static void drop_golden(struct golden *g)
{
    free(g->text);
    json_decref(g->expected);
}

static int64_t number(const struct golden *g, const char *key)
{
    return json_integer_value(json_object_get(g->expected, key));
}

static void make(struct lvn_vocabulary *v, const struct golden *g, struct lvn_vocabulary_options o)
{
    const int64_t work = lvn_work_count();
    assert_int_equal(lvn_vocabulary_open(v, &o), LVN_OK);
    if (lvn_vocabulary_count(v, g->text, g->bytes) != LVN_OK || lvn_work_count() - work < (int64_t)g->bytes ||
        lvn_vocabulary_make(v) != LVN_OK)
        fail_msg("%s", levin_error_text());
}

/* Encode the text with the files of the vocabulary. */
static void encode(const char *dir, const struct golden *g, struct lvn_ids *ids)
{
    struct lvn_tokenizer *t;
    if (lvn_tokenizer_open(&t, dir) != LVN_OK) fail_msg("%s", levin_error_text());
    struct lvn_encoder *e = lvn_encoder_new(t);
    assert_int_equal(lvn_encode(e, g->text, g->bytes, LVN_ENCODE_ORDINARY, ids), LVN_OK);
    lvn_encoder_free(e);
    lvn_tokenizer_close(t);
}

static void bpe_is_the_references(void **state)
{
    (void)state;
    struct golden g;
    struct lvn_vocabulary v;
    struct lvn_ids ids = {0};
    char path[400];
    json_t *made;
    read_golden(&g);
    make(&v, &g, (struct lvn_vocabulary_options){.size = number(&g, "bpe_size"), .threads = 2});
    assert_int_equal(v.n, number(&g, "bpe_size"));
    assert_int_equal(lvn_vocabulary_save(&v, test_dir), LVN_OK);
    snprintf(path, sizeof path, "%s/tokenizer.json", test_dir);
    assert_int_equal(lvn_json_read(path, &made), LVN_OK);
    const json_t *merges = json_object_get(json_object_get(made, "model"), "merges");
    assert_true(json_array_size(merges) > 600);
    assert_true(json_equal(merges, json_object_get(g.expected, "merges")));
    encode(test_dir, &g, &ids);
    assert_true(ids.n > 0 && ids.n < g.bytes / 2);
    json_decref(made);
    lvn_ids_release(&ids);
    lvn_vocabulary_close(&v);
    drop_golden(&g);
}

static int hex(char c)
{
    return c <= '9' ? c - '0' : c - 'a' + 10;
}

/* nanochat's tokenizer: the ids of rustbpe, and special tokens after them, with any number of threads. */
static void pattern_and_special_tokens_give_rustbpes_ids(void **state)
{
    (void)state;
    static const char *const special[] = {"<|bos|>", "<|user_start|>"};
    struct golden g;
    struct lvn_vocabulary v;
    struct lvn_ids ids = {0};
    json_t *rustbpe;
    read_golden(&g);
    assert_int_equal(lvn_json_read(GOLDEN "rustbpe.json", &rustbpe), LVN_OK);
    const json_t *tokens = json_object_get(rustbpe, "tokens");
    const char *pattern = json_string_value(json_object_get(rustbpe, "pattern"));
    const int64_t n = 256 + (int64_t)json_array_size(tokens);
    assert_int_equal(n, 700);
    for (int threads = 1; threads <= 3; threads += 2) {
        make(&v, &g,
             (struct lvn_vocabulary_options){
                 .size = n + 2, .pattern = pattern, .special = special, .n_special = 2, .threads = threads});
        assert_int_equal(v.n, n + 2);
        assert_int_equal(v.special, n);
        for (int64_t id = 0; id < n; id++) {
            const char *expected = id < 256 ? NULL : json_string_value(json_array_get(tokens, (size_t)(id - 256)));
            assert_int_equal(v.token[id].bytes, expected ? (int64_t)strlen(expected) / 2 : 1);
            for (int64_t i = 0; i < v.token[id].bytes; i++)
                assert_int_equal((unsigned char)v.token[id].text[i],
                                 expected ? 16 * hex(expected[2 * i]) + hex(expected[2 * i + 1]) : id);
        }
        assert_int_equal(lvn_vocabulary_save(&v, test_dir), LVN_OK);
        encode(test_dir, &g, &ids);
        assert_int_equal(ids.n, json_integer_value(json_object_get(rustbpe, "ids")));
        lvn_ids_release(&ids);
        lvn_vocabulary_close(&v);
    }
    json_decref(rustbpe);
    drop_golden(&g);
}

/* Texts that LVN_WORDS_END separates share no word; a word of a pattern continues on the next line. */
static void words_end_with_their_text(void **state)
{
    (void)state;
    static const char *const special[] = {"<s>"};
    static const char text[] = "ab\ncd\xff"
                               "ab\ncd\xff"
                               "cd\xff"
                               "ef";
    const struct golden g = {.text = (char *)text, .bytes = sizeof text - 1};
    struct lvn_vocabulary v;
    make(&v, &g,
         (struct lvn_vocabulary_options){
             .size = 300, .pattern = "[a-z\n]+", .special = special, .n_special = 1, .threads = 2});
    assert_true(lvn_vocabulary_find(&v, "ab\ncd", 5) >= 256);
    assert_true(lvn_vocabulary_find(&v, "ef", 2) >= 256);
    assert_int_equal(lvn_vocabulary_find(&v, "cdef", 4), -1);
    lvn_vocabulary_close(&v);
    make(&v, &g, (struct lvn_vocabulary_options){.size = 300, .threads = 2});
    assert_int_equal(lvn_vocabulary_find(&v, "ab\ncd", 5), -1);
    assert_true(lvn_vocabulary_find(&v, "cd", 2) > 0);
    lvn_vocabulary_close(&v);
}

static void wordpiece_is_as_good_as_the_references(void **state)
{
    (void)state;
    struct golden g;
    struct lvn_vocabulary v;
    struct lvn_ids ids = {0};
    read_golden(&g);
    int64_t size = number(&g, "wordpiece_size"), theirs = number(&g, "wordpiece_ids");
    make(&v, &g, (struct lvn_vocabulary_options){.wordpiece = true, .size = size, .threads = 1});
    assert_int_equal(v.n, size);
    assert_int_equal(lvn_vocabulary_save(&v, test_dir), LVN_OK);
    encode(test_dir, &g, &ids);
    if (llabs(ids.n - theirs) * 1000 > theirs)
        fail_msg("%lld tokens, and %lld by the reference", (long long)ids.n, (long long)theirs);
    lvn_ids_release(&ids);
    lvn_vocabulary_close(&v);
    drop_golden(&g);
}

static void threads_and_slices_change_nothing(void **state)
{
    (void)state;
    struct golden g, many = {.text = NULL};
    struct lvn_vocabulary one, three;
    read_golden(&g);
    many.bytes = g.bytes * 12; /* more than a slice for each thread */
    many.text = malloc((size_t)many.bytes);
    for (int i = 0; i < 12; i++) memcpy(many.text + i * g.bytes, g.text, (size_t)g.bytes);
    for (int k = 0; k < 2; k++) {
        make(&one, &many, (struct lvn_vocabulary_options){.wordpiece = k, .size = 700, .threads = 1});
        make(&three, &many, (struct lvn_vocabulary_options){.wordpiece = k, .size = 700, .threads = 3});
        assert_int_equal(one.n, three.n);
        for (int64_t i = 0; i < one.n; i++) {
            assert_int_equal(one.token[i].bytes, three.token[i].bytes);
            assert_memory_equal(one.token[i].text, three.token[i].text, (size_t)one.token[i].bytes);
        }
        lvn_vocabulary_close(&one);
        lvn_vocabulary_close(&three);
    }
    free(many.text);
    drop_golden(&g);
}

static void options_hold(void **state)
{
    (void)state;
    static const char text[] = "Aa aa aa ab ab \xc3\x89t\xc3\xa9 \xea\xb0\x80\xea\xb0\x81 z\n";
    const struct golden g = {.text = (char *)text, .bytes = sizeof text - 1};
    struct lvn_vocabulary v;
    make(&v, &g, (struct lvn_vocabulary_options){.wordpiece = true, .lowercase = true, .size = 100, .threads = 1});
    assert_int_equal(lvn_vocabulary_find(&v, "A", 1), -1);
    assert_true(lvn_vocabulary_find(&v, "ete", 3) > 0);
    lvn_vocabulary_close(&v);
    make(&v, &g, (struct lvn_vocabulary_options){.wordpiece = true, .size = 100, .min_frequency = 2, .threads = 1});
    assert_true(lvn_vocabulary_find(&v, "ab", 2) > 0);
    assert_int_equal(lvn_vocabulary_find(&v, "Aa", 2), -1);
    lvn_vocabulary_close(&v);
    make(&v, &g, (struct lvn_vocabulary_options){.wordpiece = true, .size = 100, .limit_alphabet = 2, .threads = 1});
    assert_true(lvn_vocabulary_find(&v, "b", 1) < 0 || lvn_vocabulary_find(&v, "z", 1) < 0);
    assert_true(lvn_vocabulary_find(&v, "aa", 2) > 0);
    lvn_vocabulary_close(&v);

    struct lvn_vocabulary_options small = {.size = 200, .threads = 1};
    assert_int_equal(lvn_vocabulary_open(&v, &small), LVN_OK);
    assert_int_equal(lvn_vocabulary_make(&v), LVN_FORMAT); /* no words */
    assert_int_equal(lvn_vocabulary_count(&v, text, sizeof text - 1), LVN_OK);
    assert_int_equal(lvn_vocabulary_make(&v), LVN_ARG); /* the size is below the alphabet of 256 bytes */
    assert_non_null(strstr(levin_error_text(), "--vocab-size"));
    lvn_vocabulary_close(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bpe_is_the_references, test_dir_make, test_dir_drop),
        cmocka_unit_test_setup_teardown(pattern_and_special_tokens_give_rustbpes_ids, test_dir_make, test_dir_drop),
        cmocka_unit_test(words_end_with_their_text),
        cmocka_unit_test_setup_teardown(wordpiece_is_as_good_as_the_references, test_dir_make, test_dir_drop),
        cmocka_unit_test(threads_and_slices_change_nothing),
        cmocka_unit_test(options_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

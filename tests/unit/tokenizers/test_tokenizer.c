/* test_tokenizer.c - covers: src/text/tokenizers/encoder.c src/text/tokenizers/tokenizer.c
 * src/text/tokenizers/decoder.c src/text/tokenizers/encoders.c src/text/tokenizers/bpe.c
 *
 * Ids against those of the reference implementations, round trips, long words, and damaged files.
 *
 * tests/golden/tokenizers holds the expected ids (tools/make_tokens.py). LEVIN_TOKEN_CASES="DIR_OR_FILE CASES" checks
 * one more file of cases. */
#include "faults.h"
#include "tokenizers/decoder.h"
#include "tokenizers/encoder.h"
#include "tokenizers/tokenizer.h"
#include "tokenizers/tokenizer_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/random.h"
#include "formats/json.h"
#include "tokenizers/encoders.h"
#include "unit/io_test.h"
#include "unit/token_cases.h"

#define GOLDEN "tests/golden/tokenizers/"
#define SHARED "../shared/data/"

static void gives_the_reference_ids(void **state)
{
    (void)state;
    assert_true(check_cases(GOLDEN "tiny-gpt2", GOLDEN "tiny-gpt2.json") > 300);
    assert_true(check_cases(GOLDEN "tiny-gpt2/merges.txt", GOLDEN "tiny-gpt2.json") > 300);
    assert_true(check_cases(GOLDEN "tiny-gpt2/vocab.json", GOLDEN "tiny-gpt2.json") > 300);
    assert_true(check_cases(GOLDEN "tiny-neox", GOLDEN "tiny-neox.json") > 300);
    assert_true(check_cases(GOLDEN "tiny-llama3/tokenizer.json", GOLDEN "tiny-llama3.json") > 300);
    assert_true(check_cases(GOLDEN "tiny-bert", GOLDEN "tiny-bert.json") > 300);
    assert_true(check_cases(GOLDEN "tiny-bert-cased/vocab.txt", GOLDEN "tiny-bert-cased.json") > 300);
    assert_true(check_cases(GOLDEN "tiny-llama2", GOLDEN "tiny-llama2.json") > 200);
    assert_true(check_cases(GOLDEN "tiny-unigram", GOLDEN "tiny-unigram.json") > 200);
    assert_true(check_cases(GOLDEN "tiny-words", GOLDEN "tiny-words.json") > 200);
    const char *more = getenv("LEVIN_TOKEN_CASES");
    if (!more) return;
    char tokenizer[512];
    snprintf(tokenizer, sizeof tokenizer, "%.*s", (int)strcspn(more, " "), more);
    check_cases(tokenizer, more + strcspn(more, " ") + 1);
}

static void gives_gpt2s_ids(void **state)
{
    (void)state;
    if (!lvn_path_is_file(SHARED "gpt2-vocab.bpe")) {
        print_message("no " SHARED "gpt2-vocab.bpe: GPT-2's own vocabulary is not looked at\n");
        skip();
    }
    assert_true(check_cases(SHARED "gpt2-vocab.bpe", GOLDEN "gpt2.json") > 300);
    struct lvn_tokenizer *t = open_tokenizer(SHARED "gpt2-encoder.json");
    assert_int_equal(t->n, 50257);
    assert_int_equal(t->end_id, 50256);
    struct lvn_encoder *e = lvn_encoder_new(t);
    struct lvn_ids ids = {0};
    char *text;
    int64_t n;
    assert_int_equal(lvn_file_read(SHARED "tinyshakespeare.txt", 0, &text, &n), LVN_OK);
    int64_t cut = n * 9 / 10; /* it is all ASCII */
    encode(e, text, cut, LVN_ENCODE_ORDINARY, &ids);
    assert_int_equal(ids.n, 301966);
    encode(e, text + cut, n - cut, LVN_ENCODE_ORDINARY, &ids);
    assert_int_equal(ids.n, 36059);
    free(text);
    lvn_ids_release(&ids);
    lvn_encoder_free(e);
    lvn_tokenizer_close(t);
}

/* --- round trips --- */

/* Bytes of all sorts, with runs. */
static void random_bytes(uint64_t seed, char *p, int64_t n)
{
    for (int64_t i = 0; i < n;) {
        int64_t kind = lvn_random_below(seed, 1, (uint64_t)i, 5), length = lvn_random_below(seed, 2, (uint64_t)i, 40);
        for (int64_t k = 0; k <= length && i < n; k++, i++) {
            int64_t x = lvn_random_below(seed, 3, (uint64_t)i, 256);
            p[i] = (char)(kind == 0   ? x
                          : kind == 1 ? " \t\n\r' "[x % 6]
                          : kind == 2 ? 'a' + x % 4
                          : kind == 3 ? 0x80 + x % 128
                                      : "0123'!?sS"[x % 9]);
        }
    }
}

static void returns_any_bytes(void **state)
{
    (void)state;
    static const char *const kinds[] = {"tiny-gpt2", "tiny-llama3"};
    char path[200], text[5000];
    for (int k = 0; k < 2; k++) {
        snprintf(path, sizeof path, GOLDEN "%s", kinds[k]);
        struct lvn_tokenizer *t = open_tokenizer(path);
        struct lvn_encoder *e = lvn_encoder_new(t);
        struct lvn_ids ids = {0};
        for (int i = 0; i < 300; i++) {
            int64_t n = lvn_random_below(7, 1, (uint64_t)i, sizeof text);
            random_bytes((uint64_t)i, text, n);
            encode(e, text, n, LVN_ENCODE_ORDINARY, &ids);
            check_round(t, text, n, &ids);
        }
        for (int64_t id = 0; id < t->n; id++) { /* and the bytes of every single token */
            int64_t n;
            const void *p = lvn_token_bytes(t, id, &n);
            if (!p) continue;
            encode(e, p, n, LVN_ENCODE_ORDINARY, &ids);
            check_round(t, p, n, &ids);
        }
        int64_t n;
        assert_null(lvn_token_bytes(t, t->n, &n));
        assert_null(lvn_token_bytes(t, -1, &n));
        lvn_ids_release(&ids);
        lvn_encoder_free(e);
        lvn_tokenizer_close(t);
    }
}

/* Long words are merged with the heap: a plain loop over all pairs must give the same. */
static void merges_long_words_alike(void **state)
{
    (void)state;
    struct lvn_tokenizer *t = open_tokenizer(GOLDEN "tiny-gpt2");
    struct lvn_bpe_scratch scratch = {0};
    int32_t fast[600], slow[600];
    for (int k = 0; k < 400; k++) {
        int64_t n = 2 + lvn_random_below(3, 1, (uint64_t)k, 598), m = n;
        for (int64_t i = 0; i < n; i++)
            fast[i] = slow[i] =
                t->bpe.byte_id[(uint8_t) "etaoins rtin"[lvn_random_below((uint64_t)k, 2, (uint64_t)i, k % 11 + 1)]];
        int64_t fast_n = n;
        assert_int_equal(lvn_bpe_merge(&t->bpe, &scratch, fast, &fast_n), LVN_OK);
        for (;;) {
            const struct lvn_bpe_slot *best = NULL;
            int64_t at = 0;
            for (int64_t i = 0; i + 1 < m; i++) {
                const struct lvn_bpe_slot *s = lvn_bpe_find(&t->bpe, slow[i], slow[i + 1]);
                if (!s || (best && s->rank >= best->rank)) continue;
                best = s;
                at = i;
            }
            if (!best) break;
            slow[at] = best->id;
            memmove(slow + at + 1, slow + at + 2, (size_t)(--m - at - 1) * sizeof *slow);
        }
        assert_int_equal(fast_n, m);
        assert_memory_equal(fast, slow, (size_t)m * sizeof *slow);
    }
    lvn_bpe_scratch_release(&scratch);
    lvn_tokenizer_close(t);
}

static void takes_a_word_of_a_million_letters(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    struct lvn_tokenizer *t = open_tokenizer(GOLDEN "tiny-gpt2");
    struct lvn_encoder *e = lvn_encoder_new(t);
    struct lvn_ids ids = {0};
    char *text = malloc(N);
    static const char *const alphabets[] = {"a", "th", "return", " ", "\n", "\xff", "-"};
    for (int k = 0; k < 7; k++) {
        int64_t n = (int64_t)strlen(alphabets[k]);
        for (int64_t i = 0; i < N; i++) text[i] = alphabets[k][lvn_random_below(1, 1, (uint64_t)i, n)];
        encode(e, text, N, LVN_ENCODE_ORDINARY, &ids);
        check_round(t, text, N, &ids);
    }
    free(text);
    lvn_ids_release(&ids);
    lvn_encoder_free(e);
    lvn_tokenizer_close(t);
}

/* --- threads --- */

static void threads_change_nothing(void **state)
{
    (void)state;
    enum { N = 5 << 20 };
    static const char *const kinds[] = {"tiny-gpt2", "tiny-llama3", "tiny-neox"};
    char *text = malloc(N), path[200];
    random_bytes(5, text, N);
    for (int k = 0; k < 3; k++) {
        snprintf(path, sizeof path, GOLDEN "%s", kinds[k]);
        struct lvn_tokenizer *t = open_tokenizer(path);
        struct lvn_encoder *one = lvn_encoder_new(t);
        struct lvn_ids ids = {0};
        struct lvn_encoders many;
        int64_t used, total = 0;
        encode(one, text, N, LVN_ENCODE_SPECIAL, &ids);
        assert_int_equal(lvn_encoders_open(&many, t, 3), LVN_OK);
        for (int64_t from = 0; from < N; from += used) { /* as a stream, 2 MiB at a time */
            int64_t n = N - from < 2 << 20 ? N - from : 2 << 20;
            bool cuts = lvn_tokenizer_can_cut(t);
            if (!cuts) n = N;
            assert_int_equal(lvn_encoders_run(&many, text + from, n, from + n < N, LVN_ENCODE_SPECIAL, &used), LVN_OK);
            assert_true(used > 0);
            for (int64_t i = 0; i < many.n_slices; i++) {
                assert_memory_equal(many.slice[i].p, ids.p + total, (size_t)many.slice[i].n * sizeof *ids.p);
                total += many.slice[i].n;
            }
        }
        assert_int_equal(total, ids.n);
        lvn_encoders_close(&many);
        lvn_encoder_free(one);
        lvn_ids_release(&ids);
        lvn_tokenizer_close(t);
    }
    free(text);
}

/* --- special tokens --- */

static void special_tokens_as_the_files_say(void **state)
{
    (void)state;
    static const char text[] = "a<|endoftext|>b";
    struct lvn_ids ids = {0};
    struct lvn_tokenizer *t = open_tokenizer(GOLDEN "tiny-gpt2");
    assert_int_equal(t->end_id, 0);
    struct lvn_encoder *e = lvn_encoder_new(t);
    encode(e, text, sizeof text - 1, LVN_ENCODE_SPECIAL, &ids);
    assert_int_equal(ids.n, 3);
    assert_int_equal(ids.p[1], t->end_id);
    assert_int_equal(lvn_encoder_take_notes(e).special, 0);
    encode(e, text, sizeof text - 1, LVN_ENCODE_ORDINARY, &ids);
    assert_true(ids.n > 3);
    const struct lvn_encoder_notes seen = lvn_encoder_take_notes(e);
    assert_true(seen.special == 1 && seen.special_id == t->end_id);
    assert_true(seen.ids == ids.n && seen.unknown == 0);
    lvn_encoder_free(e);
    assert_int_equal(lvn_tokenizer_allow(t, "he"), LVN_OK);
    assert_int_equal(lvn_tokenizer_allow(t, "<|nonsense|>"), LVN_ARG);
    e = lvn_encoder_new(t);
    encode(e, "she", 3, LVN_ENCODE_SPECIAL, &ids);
    assert_int_equal(ids.n, 2);
    assert_int_equal(ids.p[1], lvn_tokenizer_find(t, "he", 2));
    lvn_encoder_free(e);
    lvn_tokenizer_close(t);

    t = open_tokenizer(GOLDEN "tiny-neox");
    e = lvn_encoder_new(t);
    encode(e, text, sizeof text - 1, LVN_ENCODE_SPECIAL, &ids);
    assert_int_equal(ids.n, 3);
    encode(e, text, sizeof text - 1, LVN_ENCODE_ORDINARY, &ids);
    assert_true(ids.n > 3);
    encode(e, "        ", 8, LVN_ENCODE_ORDINARY, &ids); /* added, but not special */
    assert_int_equal(ids.n, 1);
    lvn_ids_release(&ids);
    lvn_encoder_free(e);
    lvn_tokenizer_close(t);
}

/* Tokens that only tokenizer_config.json declares special are not recognized in ordinary text. */
static void special_tokens_of_config(void **state)
{
    (void)state;
    static const char json[] =
        "{\"added_tokens\":[{\"id\":6,\"content\":\"m>\"}],\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":"
        "[[\"<unk>\",0],[\"a\",-1],[\"<m>\",-1],[\"<\",-9],[\"m\",-9],[\">\",-9]]}}";
    static const char config[] = "{\"mask_token\":\"<m>\",\"eos_token\":\"m>\"}";
    static const int32_t ordinary[] = {1, 3, 4, 5}, special[] = {1, 2};
    struct lvn_ids ids = {0};
    test_put("tokenizer.json", json, sizeof json - 1);
    test_put("tokenizer_config.json", config, sizeof config - 1);
    struct lvn_tokenizer *t = open_tokenizer(test_dir);
    struct lvn_encoder *e = lvn_encoder_new(t);
    encode(e, "a<m>", 4, LVN_ENCODE_ORDINARY, &ids);
    assert_int_equal(ids.n, 4);
    assert_memory_equal(ids.p, ordinary, sizeof ordinary);
    encode(e, "a<m>", 4, LVN_ENCODE_SPECIAL, &ids);
    assert_int_equal(ids.n, 2);
    assert_memory_equal(ids.p, special, sizeof special);
    lvn_ids_release(&ids);
    lvn_encoder_free(e);
    lvn_tokenizer_close(t);
}

/* --- rare members of tokenizer files --- */

/* Small tokenizers; the ids are those of Hugging Face's tokenizers 0.23. */
static void follows_the_reference_in_rare_parts(void **state)
{
    (void)state;
#define SPLIT(pattern) "{\"type\":\"Split\",\"pattern\":{" pattern "},\"behavior\":\"Isolated\",\"invert\":false}"
#define REPLACE(pattern, text) "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"" pattern "\"},\"content\":\"" text "\"}"
#define SPACES "{\"type\":\"WhitespaceSplit\"}"
    static const struct {
        const char *added, *normalizer, *splits, *prefix, *text;
        int n, ids[8];
    } rows[] = {
        /* neighbors of a single word: marks are word characters, superscript numbers are not */
        {"{\"id\":6,\"content\":\"x\",\"single_word\":true}",
         "null",
         SPACES,
         "##",
         "\u00b2x b\u0301x _x x",
         5,
         {0, 6, 0, 0, 6}},
        /* an added token within the white space that another one strips */
        {"{\"id\":6,\"content\":\"<m>\",\"rstrip\":true},{\"id\":7,\"content\":\"\\n\"}",
         "null",
         SPACES,
         "##",
         "<m>\n\na <m> b",
         6,
         {6, 7, 7, 1, 6, 2}},
        {"", "null", SPACES, "", "abc abab", 4, {4, 3, 4, 4}},               /* pieces without a prefix */
        {"", "null", SPLIT("\"Regex\":\"(?=a)\""), "##", "abab", 2, {4, 4}}, /* empty matches */
        {"", "null", SPLIT("\"String\":\"\""), "##", "abc", 3, {1, 2, 3}},
        {"", REPLACE("$", "c"), SPACES, "##", "a", 2, {1, 5}},
        {"", REPLACE("^", "a"), SPACES, "##", "b\nb\n", 2, {4, 4}},     /* not after the last line */
        {"", REPLACE("[^\\\\w]", "a"), SPACES, "##", "\u00b2", 1, {1}}, /* \w within a class */
        {"", REPLACE("\\\\W", "a"), SPACES, "##", "\u00b2", 1, {0}},    /* and alone */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char path[400], json[1000];
        struct lvn_ids ids = {0};
        int n =
            snprintf(json, sizeof json,
                     "{\"added_tokens\":[%s],\"normalizer\":%s,\"pre_tokenizer\":%s,\"model\":{\"type\":\"WordPiece\","
                     "\"vocab\":{\"[UNK]\":0,\"a\":1,\"b\":2,\"c\":3,\"ab\":4,\"##c\":5},"
                     "\"continuing_subword_prefix\":\"%s\"}}",
                     rows[i].added, rows[i].normalizer, rows[i].splits, rows[i].prefix);
        snprintf(path, sizeof path, "%s/rare.json", test_dir);
        assert_int_equal(lvn_file_write(path, json, n), LVN_OK);
        struct lvn_tokenizer *t = open_tokenizer(path);
        struct lvn_encoder *e = lvn_encoder_new(t);
        encode(e, rows[i].text, (int64_t)strlen(rows[i].text), LVN_ENCODE_SPECIAL, &ids);
        bool same = ids.n == rows[i].n;
        for (int k = 0; same && k < rows[i].n; k++) same = ids.p[k] == rows[i].ids[k];
        if (!same) fail_msg("row %d: other ids, %d of them", (int)i, (int)ids.n);
        lvn_ids_release(&ids);
        lvn_encoder_free(e);
        lvn_tokenizer_close(t);
    }
}

/* Decoding, if the first token or an added token has another text than in the vocabulary. */
static void decodes_as_the_reference(void **state)
{
    (void)state;
    static const char llama[] = "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"\u2581\"},"
                                "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\u2581\"}]}";
    static const char bytes_first[] = "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteFallback\"},{\"type\":"
                                      "\"Metaspace\",\"prepend_scheme\":\"first\"}]}";
    static const char metaspace[] = "{\"type\":\"Metaspace\",\"prepend_scheme\":\"always\"}";
    static const struct {
        const char *normalizer, *decoder, *text;
        int n;
        int32_t ids[4];
    } rows[] = {
        {llama, metaspace, "a new a", 3, {1, 4, 1}}, /* the added token is \u2581new */
        {llama, metaspace, "new a", 2, {4, 1}},      {"null", metaspace, "anew a", 3, {1, 4, 1}},
        {"null", bytes_first, " a a", 3, {2, 3, 1}}, /* a space that was no metaspace stays */
        {"null", bytes_first, "a a", 2, {1, 1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char json[1200], path[300];
        struct lvn_text back = {0};
        int n = snprintf(json, sizeof json,
                         "{\"added_tokens\":[{\"id\":4,\"content\":\"new\",\"normalized\":true}],\"normalizer\":%s,"
                         "\"decoder\":%s,\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,\"merges\":[],\"vocab\":{"
                         "\"<unk>\":0,\"\u2581a\":1,\"<0x20>\":2,\"a\":3}}}",
                         rows[i].normalizer, rows[i].decoder);
        snprintf(path, sizeof path, "%s/first.json", test_dir);
        assert_int_equal(lvn_file_write(path, json, n), LVN_OK);
        struct lvn_tokenizer *t = open_tokenizer(path);
        assert_int_equal(lvn_decode(t, rows[i].ids, rows[i].n, &back), LVN_OK);
        assert_string_equal(back.p, rows[i].text);
        lvn_text_release(&back);
        lvn_tokenizer_close(t);
    }
}

/* --- copies and damage --- */

static void a_copy_is_the_same(void **state)
{
    (void)state;
    const char *dir = test_dir;
    static const char *const kinds[] = {"tiny-gpt2", "tiny-neox"};
    for (int k = 0; k < 2; k++) {
        char from[300], to[300];
        snprintf(from, sizeof from, GOLDEN "%s", kinds[k]);
        snprintf(to, sizeof to, "%s/copy-%d", dir, k);
        struct lvn_tokenizer *a = open_tokenizer(from);
        assert_int_equal(lvn_tokenizer_save(a, to), LVN_OK);
        assert_true(lvn_tokenizer_exists(to));
        struct lvn_tokenizer *b = open_tokenizer(to);
        assert_int_equal(a->sum, b->sum);
        assert_int_equal(a->n, b->n);
        lvn_tokenizer_close(a);
        lvn_tokenizer_close(b);
    }
    assert_false(lvn_tokenizer_exists(dir));
}

/* Vocabularies without tokens for some bytes, each with another treatment of these. */
static void bytes_without_tokens(void **state)
{
    (void)state;
    json_error_t error;
    json_t *root = json_load_file(GOLDEN "holes.json", JSON_ALLOW_NUL, &error), *kind;
    if (!root) fail_msg("%s", error.text);
    size_t k;
    int n = 0;
    json_array_foreach(json_object_get(root, "kinds"), k, kind)
    {
        assert_int_equal(json_dump_file(json_object_get(kind, "tokenizer"), test_path("tokenizer.json"), 0), 0);
        assert_int_equal(json_dump_file(kind, test_path("cases.json"), 0), 0);
        n += check_cases(test_dir, test_path("cases.json"));
    }
    assert_int_equal(n, 6 * 40);
    json_decref(root);
}

/* A token of 131,072 letters, made of two of 65,536, and so on: as a tokenizer.json and as a pair of files. */
static void takes_tokens_of_any_length(void **state)
{
    (void)state;
    enum { DOUBLINGS = 17, LETTERS = (1 << DOUBLINGS) + 9 };
    struct lvn_text vocab = {0}, json = {0}, lines = {0}, merges = {0};
    char *as = malloc(LETTERS + 1);
    memset(as, 'a', LETTERS);
    as[LETTERS] = '\0';
    for (int i = 0; i <= DOUBLINGS; i++) {
        lvn_text_printf(&vocab, "%s\"%.*s\": %d", i ? "," : "", 1 << i, as, i);
        if (i == DOUBLINGS) break;
        lvn_text_printf(&merges, "%s[\"%.*s\", \"%.*s\"]", i ? "," : "", 1 << i, as, 1 << i, as);
        lvn_text_printf(&lines, "%.*s %.*s\n", 1 << i, as, 1 << i, as);
    }
    lvn_text_printf(&json,
                    "{\"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"model\": {\"merges\": [%s], \"vocab\": {%s}}}",
                    merges.p, vocab.p);
    test_put("tokenizer.json", json.p, json.n);
    lvn_text_clear(&json);
    lvn_text_printf(&json, "{%s}", vocab.p);
    test_put("vocab.json", json.p, json.n);
    test_put("merges.txt", lines.p, lines.n);
    static const char *const files[] = {"tokenizer.json", "vocab.json"};
    static const int32_t expected[] = {DOUBLINGS, 3, 0};
    for (int i = 0; i < 2; i++) {
        struct lvn_tokenizer *t = open_tokenizer(test_path(files[i]));
        struct lvn_encoder *e = lvn_encoder_new(t);
        struct lvn_ids ids = {0};
        encode(e, as, LETTERS, LVN_ENCODE_SPECIAL, &ids);
        assert_int_equal(ids.n, 3);
        assert_memory_equal(ids.p, expected, sizeof expected);
        check_round(t, as, LETTERS, &ids);
        lvn_ids_release(&ids);
        lvn_encoder_free(e);
        lvn_tokenizer_close(t);
    }
    free(as);
    lvn_text_release(&vocab);
    lvn_text_release(&json);
    lvn_text_release(&lines);
    lvn_text_release(&merges);
}

/* Words and tokens of WordPiece of more than a kilobyte; the longest token is taken. */
static void takes_words_of_any_length(void **state)
{
    (void)state;
    struct lvn_text json = {0};
    char as[5001];
    memset(as, 'a', sizeof as - 1);
    as[5000] = '\0';
    lvn_text_printf(&json,
                    "{\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}, \"model\": {\"type\": \"WordPiece\", "
                    "\"max_input_chars_per_word\": 9999, \"vocab\": {\"[UNK]\": 0, \"%.*s\": 1, \"%.*s\": 2, "
                    "\"##%.*s\": 3, \"##a\": 4}}}",
                    1000, as, 2000, as, 1500, as);
    test_put("tokenizer.json", json.p, json.n);
    static const int32_t expected[] = {2, 3, 3};
    struct lvn_tokenizer *t = open_tokenizer(test_dir);
    struct lvn_encoder *e = lvn_encoder_new(t);
    struct lvn_ids ids = {0};
    encode(e, as, 5000, LVN_ENCODE_SPECIAL, &ids);
    assert_int_equal(ids.n, 3);
    assert_memory_equal(ids.p, expected, sizeof expected);
    encode(e, as, 2501, LVN_ENCODE_SPECIAL, &ids);
    assert_int_equal(ids.n, 1 + 501); /* ##a for the part that no long token matches */
    lvn_ids_release(&ids);
    lvn_encoder_free(e);
    lvn_tokenizer_close(t);
    lvn_text_release(&json);
}

/* Each allocation fails once: the tokenizer is then not opened, or it is complete. */
static void a_failed_allocation_is_reported(void **state)
{
    (void)state;
    static const char *const names[] = {"tiny-gpt2", "tiny-llama3", "tiny-llama2", "tiny-unigram", "tiny-bert"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[100];
        snprintf(path, sizeof path, GOLDEN "%s", names[i]);
        struct lvn_tokenizer *whole = open_tokenizer(path), *t = NULL;
        long failures = 0;
        for (long k = 1; !t; k++) {
            fault_memory_at(k);
            enum lvn_status status = lvn_tokenizer_open(&t, path);
            fault_memory_at(0);
            if (t && levin_error_text()[0]) fail_msg("%s, allocation %ld: opened in spite of it", path, k);
            assert_int_equal(status, t ? LVN_OK : LVN_MEMORY);
            failures += !t;
            lvn_error_clear();
        }
        assert_true(failures > 10);
        assert_true(t->sum == whole->sum && t->n_added == whole->n_added && t->bpe.n == whole->bpe.n);
        lvn_tokenizer_close(t);
        lvn_tokenizer_close(whole);
    }
}

static void refuses(const char *dir, const char *name, const char *text, const char *sentence)
{
    char path[400];
    struct lvn_tokenizer *t;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(lvn_file_write(path, text, (int64_t)strlen(text)), LVN_OK);
    assert_int_not_equal(lvn_tokenizer_open(&t, path), LVN_OK);
    if (!strstr(levin_error_text(), sentence)) fail_msg("no '%s' in: %s", sentence, levin_error_text());
    assert_null(t);
    lvn_error_clear();
}

static void refuses_damaged_files(void **state)
{
    (void)state;
    const char *dir = test_dir;
    char *vocab, *merges, *json;
    int64_t n_vocab, n_merges, n_json;
    struct lvn_tokenizer *t;
    assert_int_equal(lvn_file_read(GOLDEN "tiny-gpt2/vocab.json", 0, &vocab, &n_vocab), LVN_OK);
    assert_int_equal(lvn_file_read(GOLDEN "tiny-gpt2/merges.txt", 0, &merges, &n_merges), LVN_OK);
    assert_int_equal(lvn_file_read(GOLDEN "tiny-neox/tokenizer.json", 0, &json, &n_json), LVN_OK);
    assert_int_equal(lvn_tokenizer_open(&t, dir), LVN_ARG);
    assert_int_equal(lvn_tokenizer_open(&t, "nowhere"), LVN_ARG);
    refuses(dir, "vocab.json", vocab, "is half of a tokenizer");
    refuses(dir, "merges.txt", "#version: 0.2\nno-space\n", "two tokens with one space");
    refuses(dir, "merges.txt", "#version: 0.2\nr q x\n", "two tokens with one space");
    refuses(dir, "merges.txt", "#version: 0.2\nq x\n", "make a token that the vocabulary lacks");
    refuses(dir, "merges.txt", "#version: 0.2\n", "no merges");
    merges[n_merges / 2] = '\0';
    *strrchr(merges, '\n') = '\0';
    refuses(dir, "merges.txt", merges, "others of its vocabulary: the two files");
    vocab[n_vocab / 2] = '\0';
    refuses(dir, "vocab.json", vocab, "invalid JSON");
    refuses(dir, "vocab.json", "{}", "has no tokens");
    refuses(dir, "vocab.json", "{\"a\":0} 1", "unexpected text after its end");
    refuses(dir, "vocab.json", "{\"a\":0,\"a\":1}", "the token 'a' is in the vocabulary twice");
    refuses(dir, "vocab.json", "{\"a\":-1}", "must be a whole number");
    refuses(dir, "vocab.json", "{\"a\":300,\"b\":300}", "same id");
    refuses(dir, "vocab.json", "{\"ab\":300}", "a token for none of the 256 bytes");
    refuses(dir, "vocab.json", "[]", "must be a JSON object");
    refuses(dir, "vocab.txt", "[PAD]\nword\n", "has no token [UNK]");
    refuses(dir, "vocab.txt", "", "has 0 tokens");
    refuses(dir, "vocab.txt", "[UNK]\n\xff\n", "are not text");
    refuses(dir, "vocab.txt", "\xef\xbb\xbf[UNK]\n[CLS]\n", "has no token [SEP]"); /* the byte order mark is skipped */
    refuses(dir, "tokenizer.json", "{}", "no 'model'");
    refuses(dir, "tokenizer.json", "{\"model\":{\"type\":\"WordLevel\",\"vocab\":{}}}", "the kind 'WordLevel'");
    refuses(dir, "tokenizer.json", "{\"model\":{\"type\":\"BPE\"}}", "model.vocab and model.merges are missing");
    refuses(dir, "tokenizer.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}", "has no tokens");
    json[n_json - 30] = '\0';
    refuses(dir, "tokenizer.json", json, "invalid JSON");
    free(vocab);
    free(merges);
    free(json);
}

/* tests/golden/tokenizers/NAME/tokenizer.json with one text in it replaced. */
static void refuses_changed(const char *name, const char *from, const char *to, const char *sentence)
{
    char path[200], *json;
    int64_t bytes;
    struct lvn_text changed = {0};
    snprintf(path, sizeof path, GOLDEN "%s/tokenizer.json", name);
    assert_int_equal(lvn_file_read(path, 0, &json, &bytes), LVN_OK);
    const char *at = strstr(json, from);
    if (!at) fail_msg("no '%s' in %s", from, path);
    lvn_text_add_bytes(&changed, json, at - json);
    lvn_text_add(&changed, to);
    lvn_text_add(&changed, at + strlen(from));
    refuses(test_dir, "tokenizer.json", lvn_text_string(&changed), sentence);
    lvn_text_release(&changed);
    free(json);
}

/* Unsupported members are named, and errors are described. */
static void refuses_parts_by_name(void **state)
{
    (void)state;
    static const char words[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n";
    char text[200];
    refuses(test_dir, "vocab.txt", "[UNK]\n[SEP]\na\n", "has no token [CLS]");
    refuses(test_dir, "vocab.txt", "[UNK]\n[CLS]\na\n", "has no token [SEP]");
    snprintf(text, sizeof text, "%sb\na\n", words);
    refuses(test_dir, "vocab.txt", text, "'a' is in line 5 and again in line 7");
    const char *a = "tiny-llama2", *u = "tiny-unigram", *w = "tiny-words";
    refuses_changed(a, "\"normalizers\":", "\"steps\":", "'normalizers' is missing");
    refuses_changed(a, "\"decoders\":", "\"steps\":", "'decoders' is missing");
    refuses_changed(w, "\"added_tokens\": [", "\"added_tokens\": {}, \"others\": [",
                    "'added_tokens' must be a list, found an object");
    refuses_changed(a, "\"Prepend\"", "\"Append\"", "the normalizer 'Append' is not supported");
    refuses_changed(a, "\"prepend\":", "\"text\":", "prepend");
    refuses_changed(a, "\"ByteFallback\"", "\"CTC\"", "the decoder 'CTC' is not supported");
    refuses_changed(a, "\"TemplateProcessing\"", "\"Template\"", "the post-processor 'Template' is not supported");
    refuses_changed(a, "\"id\": \"A\"", "\"id\": \"B\"", "must have the text A, once");
    refuses_changed(a, "\"ids\": [1]", "\"ids\": [999999]", "has no id below");
    refuses_changed(a, "\"unk_token\": \"<unk>\"", "\"unk_token\": \"<x>\"", "lacks the unk_token '<x>'");
    refuses_changed(a, "\"end_of_word_suffix\": null", "\"end_of_word_suffix\": \"</w>\"", "BPE with affixes");
    refuses_changed(a, "\"dropout\": null", "\"dropout\": 0.1", "dropout");
    refuses_changed(u, "\"unk_id\": 2", "\"unk_id\": null", "without unk_id");
    refuses_changed(u, "\"unk_id\": 2", "\"unk_id\": 5000", "unk_id");
    refuses_changed(u, "[\"<mask>\", 0.0]", "[\"</s>\", 0.0]", "the added token '<mask>'");
    refuses_changed(u, "[\"<mask>\", 0.0]", "[\"<mask>\"]", "must be a list of a token and its score");
    refuses_changed(u, "\"precompiled_charsmap\": \"", "\"precompiled_charsmap\": \"!", "not a map of characters");
    refuses_changed(u, "\" {2,}\"", "\"(?<=a) \"", "has a group, at '?<=a) '");
    refuses_changed(u, "\" {2,}\"", "\"( *)*\"", "an endless repetition");
    refuses_changed(u, "\"Metaspace\"", "\"UnicodeScripts\"", "the pre-tokenizer 'UnicodeScripts' is not supported");
    refuses_changed(u, "\"prepend_scheme\": \"always\"", "\"prepend_scheme\": \"often\"",
                    "there are always, first and never");
    refuses_changed(w, "\"type\": \"BertPreTokenizer\"",
                    "\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true",
                    "ByteLevel is supported for BPE alone");
    refuses_changed(w, "\"[UNK]\": 1", "\"[X]\": 1", "[UNK]");
    refuses_changed(w, "\"[UNK]\": 1", "\"[UNK]\": 2", "same id, 2");
    refuses_changed(w, "\"[UNK]\": 1", "\"[PAD]\": 1", "[PAD]");
    refuses_changed(w, "\"sep\": [\"[SEP]\", 3]", "\"sep\": \"[SEP]\"", "'sep' must be a token and its id");
}

/* The keys that classes of transformers 4 and 5 write: GPT2, Bert, DistilBert, Electra, Llama, Qwen2, GPTNeoX, Mistral,
 * Roberta, T5, XLMRoberta, Gemma, slow and fast. */
static void keys_of_config(void **state)
{
    static const char *const keys[] = {"add_bos_token",
                                       "add_eos_token",
                                       "add_prefix_space",
                                       "added_tokens_decoder",
                                       "additional_special_tokens",
                                       "backend",
                                       "bos_token",
                                       "chat_template",
                                       "clean_up_tokenization_spaces",
                                       "cls_token",
                                       "do_basic_tokenize",
                                       "do_lower_case",
                                       "eos_token",
                                       "errors",
                                       "extra_ids",
                                       "extra_special_tokens",
                                       "image_token",
                                       "is_local",
                                       "legacy",
                                       "local_files_only",
                                       "mask_token",
                                       "max_length",
                                       "model_input_names",
                                       "model_max_length",
                                       "name_or_path",
                                       "never_split",
                                       "pad_to_multiple_of",
                                       "pad_token",
                                       "pad_token_type_id",
                                       "padding_side",
                                       "processor_class",
                                       "sep_token",
                                       "sp_model_kwargs",
                                       "spaces_between_special_tokens",
                                       "special_tokens_map_file",
                                       "split_special_tokens",
                                       "stride",
                                       "strip_accents",
                                       "tokenize_chinese_chars",
                                       "tokenizer_class",
                                       "tokenizer_file",
                                       "trim_offsets",
                                       "truncation_side",
                                       "truncation_strategy",
                                       "unk_token",
                                       "use_default_system_prompt",
                                       "use_fast"};
    (void)state;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (!lvn_tokenizer_config_knows(keys[i])) fail_msg("no row for the key %s", keys[i]);
    assert_false(lvn_tokenizer_config_knows("no_such_key"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_config),
        cmocka_unit_test(gives_the_reference_ids),
        cmocka_unit_test(gives_gpt2s_ids),
        cmocka_unit_test(returns_any_bytes),
        cmocka_unit_test(merges_long_words_alike),
        cmocka_unit_test(takes_a_word_of_a_million_letters),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(special_tokens_as_the_files_say),
        cmocka_unit_test(a_failed_allocation_is_reported),
        cmocka_unit_test_setup_teardown(special_tokens_of_config, test_dir_make, test_dir_drop),
        cmocka_unit_test_setup_teardown(follows_the_reference_in_rare_parts, test_dir_make, test_dir_drop),
        cmocka_unit_test_setup_teardown(decodes_as_the_reference, test_dir_make, test_dir_drop),
        cmocka_unit_test_setup_teardown(a_copy_is_the_same, test_dir_make, test_dir_drop),
        cmocka_unit_test_setup_teardown(bytes_without_tokens, test_dir_make, test_dir_drop),
        cmocka_unit_test_setup_teardown(takes_tokens_of_any_length, test_dir_make, test_dir_drop),
        cmocka_unit_test_setup_teardown(takes_words_of_any_length, test_dir_make, test_dir_drop),
        cmocka_unit_test_setup_teardown(refuses_damaged_files, test_dir_make, test_dir_drop),
        cmocka_unit_test_setup_teardown(refuses_parts_by_name, test_dir_make, test_dir_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

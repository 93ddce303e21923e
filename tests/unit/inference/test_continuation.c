/* test_continuation.c - covers: src/run/inference/continuation.c
 *
 * The text of a sample: stop texts that are spread over tokens, and characters that are. */
#include "io_test.h"
#include "tokenizers/decoder.h"

#include "base/random.h"
#include "inference/continuation.h"
#include "tokenizers/tokenizer.h"

#define GOLDEN "tests/golden/tokenizers/"

/* The id of a token by its text. */
static int32_t id_of(const struct lvn_codec *codec, const char *bytes, int n)
{
    for (int64_t id = 0; id < codec->tokenizer->n; id++) {
        int64_t length;
        const char *p = lvn_token_bytes(codec->tokenizer, id, &length);
        if (p && length == n && !memcmp(p, bytes, (size_t)n)) return (int32_t)id;
    }
    fail_msg("no token '%.*s'", n, bytes);
    return -1;
}

static struct lvn_codec open_codec(void)
{
    struct lvn_codec codec = {0};
    ASSERT_OK(lvn_tokenizer_open(&codec.tokenizer, GOLDEN "tiny-gpt2"));
    return codec;
}

/* Feed text a byte at a time; after each byte, what is ready is a beginning of `expected` and ends with a character. */
static void feed(struct lvn_continuation *c, const char *text, const char *expected)
{
    int64_t ready_before = c->ready;
    for (const char *p = text; *p; p++) {
        bool more = lvn_continuation_add(c, id_of(c->codec, p, 1));
        assert_int_equal(more, !c->stopped);
        assert_true(c->ready >= ready_before && c->ready <= c->text.n);
        ready_before = c->ready;
        assert_int_equal(lvn_utf8_check(c->text.p, ready_before), -1);
        assert_true(ready_before - c->prompt_bytes <= (int64_t)strlen(expected));
        assert_memory_equal(c->text.p + c->prompt_bytes, expected, (size_t)(ready_before - c->prompt_bytes));
        if (!more) break;
    }
    lvn_continuation_end(c);
    assert_string_equal(c->text.p + c->prompt_bytes, expected);
    assert_int_equal(c->ready, c->text.n);
}

static void ends(const char *const *stops, int n_stops, const char *text, const char *expected, bool stopped)
{
    struct lvn_codec codec = open_codec();
    struct lvn_continuation c = {.codec = &codec, .stops = stops, .n_stops = n_stops};
    int32_t prompt = id_of(&codec, "x", 1);
    lvn_continuation_prompt(&c, &prompt, 1);
    feed(&c, text, expected);
    assert_int_equal(c.stopped, stopped);
    lvn_continuation_release(&c);
    lvn_codec_release(&codec);
}
#define ENDS(text, expected, stopped, ...)                                                                             \
    ends((const char *const[]){__VA_ARGS__}, (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)), text, \
         expected, stopped)

static void text_ends_before_a_stop_text(void **state)
{
    (void)state;
    ENDS("one two three", "one ", true, "two");
    ENDS("one two three", "one two three", false, "four");
    ENDS("aab", "a", true, "ab");           /* what began as a stop text was none */
    ENDS("ababac", "ab", true, "abac");     /* and holds the beginning of another */
    ENDS("abcd", "a", true, "abcde", "bc"); /* whichever is complete first */
    ENDS("abcd", "", true, "bc", "abc");    /* of two, the longer one */
    ENDS("abc", "abc", false, "abcd");      /* held back, and shown in the end */
    ENDS("x", "", true, "x");
    ENDS("ab", "ab", false, "xab"); /* the prompt is not part of it */
    ENDS("h\xc3\xa9 \xe2\x82\xac!", "h\xc3\xa9 ", true, "\xe2\x82\xac");
    ENDS("h\xc3\xa9 \xe2\x82\xac!", "h\xc3\xa9 \xe2\x82\xac!", false, "\xe2\x82\xad"); /* shares two bytes with it */
    ENDS("a\xe2z", "a\xef\xbf\xbdz", false, "q");                                      /* half a character */
    ENDS("a\xe2", "a\xef\xbf\xbd", false, "q");
}

/* Tokens of several bytes end a text at the byte that tokens of one do. */
static void tokens_play_no_part(void **state)
{
    (void)state;
    static const char *const stops[] = {"hat", "th", "e c"};
    struct lvn_codec codec = open_codec();
    for (uint32_t k = 0; k < 300; k++) {
        struct lvn_continuation whole = {.codec = &codec, .stops = stops, .n_stops = 3}, bytes = whole;
        int32_t x = id_of(&codec, "x", 1);
        lvn_continuation_prompt(&whole, &x, 1);
        lvn_continuation_prompt(&bytes, &x, 1);
        for (uint32_t i = 0; i < 200; i++) {
            int32_t id = (int32_t)(1 + lvn_philox(k, i, 0, 0, 0).v[0] % (uint32_t)(codec.tokenizer->n - 1));
            int64_t n;
            const char *p = lvn_token_bytes(codec.tokenizer, id, &n);
            bool more = lvn_continuation_add(&whole, id);
            for (int64_t b = 0; b < n; b++)
                if (!lvn_continuation_add(&bytes, id_of(&codec, p + b, 1))) break;
            assert_int_equal(more, !bytes.stopped);
            if (!more) break;
        }
        lvn_continuation_end(&whole);
        lvn_continuation_end(&bytes);
        assert_int_equal(whole.text.n, bytes.text.n);
        assert_memory_equal(whole.text.p, bytes.text.p, (size_t)whole.text.n);
        lvn_continuation_release(&whole);
        lvn_continuation_release(&bytes);
    }
    lvn_codec_release(&codec);
}

/* What the post-processor puts before a prompt is read by the model and is not text; nor is the space that
 * SentencePiece puts before the first word, and only that one. */
static void a_prompt_has_its_frame(void **state)
{
    (void)state;
    static const char prompt[] = "Hello  world \xf0\x9f\x98\x80";
    struct lvn_codec codec = {0};
    struct lvn_continuation c = {.codec = &codec};
    int32_t *ids;
    int64_t n;
    ASSERT_OK(lvn_tokenizer_open(&codec.tokenizer, GOLDEN "tiny-llama2"));
    int32_t begin = lvn_tokenizer_find(codec.tokenizer, "<s>", 3);
    ASSERT_OK(lvn_codec_encode(&codec, "the prompt", prompt, sizeof prompt - 1, &ids, &n));
    assert_int_equal(ids[0], begin);
    assert_int_not_equal(ids[1], begin);
    lvn_continuation_prompt(&c, ids, n);
    assert_int_equal(c.text.n, sizeof prompt - 1);
    assert_memory_equal(c.text.p, prompt, sizeof prompt - 1);
    lvn_continuation_add(&c, id_of(&codec, " the", 4));
    lvn_continuation_add(&c, begin);
    lvn_continuation_end(&c);
    assert_string_equal(c.text.p + c.prompt_bytes, " the<s>");
    lvn_continuation_release(&c);
    free(ids);
    lvn_codec_release(&codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_ends_before_a_stop_text),
        cmocka_unit_test(tokens_play_no_part),
        cmocka_unit_test(a_prompt_has_its_frame),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

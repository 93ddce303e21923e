/* test_split.c - covers: src/text/tokenizers/split.c src/text/tokenizers/unicode/unicode.c
 *
 * The hand-written splitters against PCRE2 with the same expressions, on random Unicode.
 *
 * PCRE2 is loaded at run time if it is installed. Its tables may be of an older version of Unicode: texts consist of
 * code points that are assigned in its tables, too. */
#include "tokenizers/split.h"

#include <dlfcn.h>

#include "base/random.h"
#include "base/text.h"
#include "tokenizers/unicode/unicode.h"
#include "unit/io_test.h"

/* PCRE2's documented interface for 8-bit code units. */
enum { UTF = 0x00080000, UCP = 0x00020000, NO_UTF_CHECK = 0x40000000, JIT_COMPLETE = 1 };
static struct {
    void *(*compile)(const uint8_t *pattern, size_t n, uint32_t options, int *error, size_t *at, void *context);
    int (*jit)(void *code, uint32_t options);
    void *(*data)(const void *code, void *context);
    int (*match)(const void *code, const uint8_t *text, size_t n, size_t from, uint32_t options, void *data,
                 void *context);
    size_t *(*ovector)(void *data);
    void (*data_free)(void *data), (*code_free)(void *code);
} pcre2;

static bool load(void)
{
    void *library = dlopen("libpcre2-8.so.0", RTLD_NOW | RTLD_LOCAL);
    static const char *const names[] = {
        "pcre2_compile_8",  "pcre2_jit_compile_8",         "pcre2_match_data_create_from_pattern_8",
        "pcre2_match_8",    "pcre2_get_ovector_pointer_8", "pcre2_match_data_free_8",
        "pcre2_code_free_8"};
    void *found[7];
    for (int i = 0; i < 7; i++) {
        found[i] = library ? dlsym(library, names[i]) : NULL;
        if (!found[i]) return false;
    }
    memcpy(&pcre2, found, sizeof pcre2);
    return true;
}

static void *compile(const char *pattern)
{
    int error;
    size_t at;
    void *code = pcre2.compile((const uint8_t *)pattern, strlen(pattern), UTF | UCP, &error, &at, NULL);
    assert_non_null(code);
    (void)pcre2.jit(code, JIT_COMPLETE);
    return code;
}

static const char gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
static const char llama3[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
                             "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char qwen2[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
                            "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
static const char gpt4[] = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
                           "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";
static const char nanochat[] = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,2}| "
                               "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+";

/* Code points for which PCRE2's tables agree with levin's. */
static uint8_t *agreed(void)
{
    static const char *const classes[] = {"\\p{L}", "\\p{N}", "\\s"};
    uint8_t *same = calloc(0x110000, 1);
    void *code[3], *data[3];
    for (int k = 0; k < 3; k++) {
        code[k] = compile(classes[k]);
        data[k] = pcre2.data(code[k], NULL);
    }
    int64_t n = 0;
    for (int32_t c = 0; c < 0x110000; c++) {
        char text[4];
        enum lvn_char_class class = LVN_CHAR_OTHER;
        if (c >= 0xd800 && c < 0xe000) continue;
        size_t bytes = (size_t)lvn_utf8_encode(c, text);
        for (int k = 0; k < 3; k++)
            if (pcre2.match(code[k], (const uint8_t *)text, bytes, 0, NO_UTF_CHECK, data[k], NULL) > 0)
                class = k == 0 ? LVN_CHAR_LETTER : k == 1 ? LVN_CHAR_NUMBER : LVN_CHAR_SPACE;
        same[c] = class == (enum lvn_char_class)lvn_char((uint32_t)c)->char_class;
        n += same[c];
    }
    assert_true(n > 1090000); /* all except those of newer versions of Unicode */
    for (int k = 0; k < 3; k++) {
        pcre2.data_free(data[k]);
        pcre2.code_free(code[k]);
    }
    return same;
}

static int32_t random_point(uint64_t seed, uint64_t i, const uint8_t *same)
{
    static const int32_t common[] = {'\'',   '\'',   ' ',   ' ',   '\n',  '\r',    's',    'S',  't',
                                     'l',    'L',    'e',   'r',   'v',   'E',     'd',    'm',  '1',
                                     '2',    '.',    '!',   0x17f, 0xa0,  0x2003,  0x3000, 0x85, 0xe9,
                                     0xac00, 0x4e00, 0x660, 0xb2,  0x300, 0x1f600, 0,      '\t', 'x'};
    enum { N = sizeof common / sizeof common[0] };
    if (lvn_random_below(seed, 1, i, 4)) return common[lvn_random_below(seed, 2, i, N)];
    for (uint64_t k = 3;; k++) {
        int64_t max = lvn_random_below(seed, 99, i, 3) ? 0x3000 : 0x110000;
        int32_t c = (int32_t)lvn_random_below(seed, k, i, max);
        if (same[c]) return c;
    }
}

static void splits_as_the_expression_does(void **state)
{
    (void)state;
    static const struct {
        const char *expression;
        enum lvn_split_kind kind;
    } kinds[] = {{gpt2, LVN_SPLIT_BYTE_LEVEL},
                 {llama3, LVN_SPLIT_LLAMA3},
                 {qwen2, LVN_SPLIT_QWEN2},
                 {gpt4, LVN_SPLIT_LLAMA3},
                 {nanochat, LVN_SPLIT_NANOCHAT}};
    const int n_kinds = sizeof kinds / sizeof *kinds;
    if (!load()) {
        print_message("no libpcre2-8.so.0: the splitters are not compared with it\n");
        skip();
    }
    lvn_unicode_init();
    uint8_t *same = agreed();
    for (int k = 0; k < n_kinds; k++) {
        assert_int_equal(lvn_split_find(kinds[k].expression), kinds[k].kind);
        void *code = compile(kinds[k].expression), *data = pcre2.data(code, NULL);
        for (uint64_t round = 0; round < 6000; round++) {
            uint8_t text[4 * 64];
            int64_t n = 0, points = 1 + lvn_random_below(round, 0, 0, 60);
            for (int64_t i = 0; i < points; i++)
                n += lvn_utf8_encode(random_point(round, (uint64_t)i, same), (char *)text + n);
            for (int64_t at = 0; at < n;) {
                int found = pcre2.match(code, text, (size_t)n, (size_t)at, NO_UTF_CHECK, data, NULL);
                assert_true(found > 0);
                const size_t *span = pcre2.ovector(data);
                int64_t piece = lvn_split_next(kinds[k].kind, text + at, n - at);
                if ((int64_t)span[0] != at || (int64_t)span[1] != at + piece)
                    fail_msg("kind %d, text %d, at %d: %d bytes, PCRE2 finds %d to %d", k, (int)round, (int)at,
                             (int)piece, (int)span[0], (int)span[1]);
                at += piece;
            }
        }
        pcre2.data_free(data);
        pcre2.code_free(code);
    }
    free(same);
}

/* A cut at a safe position changes no piece. */
static void safe_places_are_safe(void **state)
{
    (void)state;
    static const char letters[] = "aZ09 \n\t\r.'\xc3\xa9\xff";
    lvn_unicode_init();
    for (uint64_t round = 0; round < 3000; round++) {
        uint8_t text[40];
        int64_t n = 1 + lvn_random_below(round, 0, 0, 39);
        for (int64_t i = 0; i < n; i++) text[i] = (uint8_t)letters[lvn_random_below(round, 1, (uint64_t)i, 13)];
        int64_t last = 0;
        for (int64_t cut = 0; (cut = lvn_split_safe(text, n, cut + 1)) < n; last = cut)
            for (int kind = LVN_SPLIT_BYTE_LEVEL; kind <= LVN_SPLIT_NANOCHAT; kind++) {
                int64_t whole = 0, part = 0;
                while (whole < cut) whole += lvn_split_next((enum lvn_split_kind)kind, text + whole, n - whole);
                while (part < cut) part += lvn_split_next((enum lvn_split_kind)kind, text + part, cut - part);
                assert_int_equal(whole, cut);
                for (int64_t at = 0; at < cut;) { /* the same pieces before it */
                    int64_t a = lvn_split_next((enum lvn_split_kind)kind, text + at, n - at);
                    assert_int_equal(a, lvn_split_next((enum lvn_split_kind)kind, text + at, cut - at));
                    at += a;
                }
            }
        assert_int_equal(lvn_split_safe_last(text, n), last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_as_the_expression_does),
        cmocka_unit_test(safe_places_are_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

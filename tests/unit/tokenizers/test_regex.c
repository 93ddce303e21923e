/* test_regex.c - covers: src/text/tokenizers/regex/regex.c src/text/tokenizers/regex/regex_find.c
 *
 * Groups and references: the first match and the places of its groups, as Perl and Python find them. What tokenizers'
 * files need is in test_tokenizer.c and test_split.c. */
#include "io_test.h"

#include "base/arena.h"
#include "tokenizers/regex/regex.h"
#include "tokenizers/unicode/unicode.h"

static void groups(void **state)
{
    static const struct {
        const char *expression, *text, *match,
            *group[3]; /* NULL: no match; a group that did not participate in the match */
    } rows[] = {
        {"(a)(b)?", "xab", "ab", {"a", "b"}},
        {"(a)(b)?", "xac", "a", {"a", NULL}},
        {"(\\w)\\1", "abccd", "cc", {"c"}},
        {"(\\w)\\1{2,}", "aabbbb", "bbbb", {"b"}},
        {"(한|글)\\1", "한글글", "글글", {"글"}},
        {"(a+)b\\1", "aaabaa", "aabaa", {"aa"}}, /* the group backtracks */
        {"(a*)b\\1", "aabc", "b", {""}},
        {"(a)|b\\1", "b", NULL, {NULL}},               /* a reference to a group that did not match fails */
        {"((a)|(b))+", "aab", "aab", {"b", "a", "b"}}, /* a group in a loop keeps its last match */
        {"(?:(a)|(b)|c)*d", "abcd", "abcd", {"a", "b"}},
        {"(?:(a)x|ay)", "ay", "ay", {NULL}}, /* an alternative that failed leaves nothing */
        {"(?>(a)b?)c|(a)b", "abd", "ab", {NULL, "a"}},
        {"(?:(?>(a))x|(a)y)", "ay", "ay", {NULL, "a"}}, /* the same in an atomic group */
        {"(?=(a+))a\\1", "aaa", NULL, {NULL}},
        {"(?=(a+))\\1b", "aab", "aab", {"aa"}},
        {"(?!(a)b)a", "abac", "a", {NULL}},
        {"(?i:(a))b", "xAb", "Ab", {"A"}},
        {"(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)\\9", "abcdefghiji", "abcdefghiji", {"a", "b", "c"}},
        {"\\x41\\u0042\\x{43}", "ABC", "ABC", {NULL}},
        {"\n^", "a\nb", "\n", {NULL}},
        {"\n^", "a\n", NULL, {NULL}}, /* as in Oniguruma and Perl; Python finds it */
        {"\n^", "a\n\n", "\n", {NULL}},
        {"^$", "", "", {NULL}},
        {"\n$", "a\n", "\n", {NULL}},
        {"[\\x{1F600}-\\x{1F64F}]+", "a\xf0\x9f\x98\x80\xf0\x9f\x99\x8f", "\xf0\x9f\x98\x80\xf0\x9f\x99\x8f", {NULL}},
    };
    struct lvn_regex_scratch s = {0};
    (void)state;
    lvn_unicode_init();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        LVN_LOCAL_ARENA(a);
        struct lvn_regex *e;
        const char *text = rows[i].text;
        int64_t begin, end;
        bool found;
        ASSERT_OK(lvn_regex_new(&e, &a, "the test", rows[i].expression));
        ASSERT_OK(lvn_regex_find(e, &s, (const uint8_t *)text, (int64_t)strlen(text), -1, &found, &begin, &end));
        if (found != (rows[i].match != NULL)) fail_msg("%s on %s: found %d", rows[i].expression, text, found);
        if (!found) continue;
        if (end - begin != (int64_t)strlen(rows[i].match) ||
            memcmp(text + begin, rows[i].match, (size_t)(end - begin)) != 0)
            fail_msg("%s on %s: %d to %d", rows[i].expression, text, (int)begin, (int)end);
        for (int k = 0; k < 3 && k < lvn_regex_groups(e); k++) {
            const char *expected = rows[i].group[k];
            const int64_t *place = s.place + 2 * (ptrdiff_t)k, n = place[1] - place[0];
            if (!expected ? place[1] >= 0
                          : n != (int64_t)strlen(expected) || memcmp(text + place[0], expected, (size_t)n) != 0)
                fail_msg("%s on %s: group %d is %d to %d", rows[i].expression, text, k + 1, (int)place[0],
                         (int)place[1]);
        }
    }
    lvn_regex_scratch_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups)};
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}

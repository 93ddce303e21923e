/* test_chat_template.c - covers: src/text/templates/chat_template.c src/text/templates/chat_template_lexer.c
 * src/text/templates/chat_template_parser.c src/text/templates/chat_template_eval.c
 * src/text/templates/chat_template_value.c src/text/templates/chat_template_print.c
 * src/text/templates/chat_template_filters.c src/text/templates/chat_template_methods.c
 * src/text/templates/chat_template_tests.c
 *
 * Templates render the text of transformers (tests/golden/templates, written by tools/make_golden_templates.py); the
 * origin of each character survives filters, methods and slices; what is refused, and the limits. */
#include "io_test.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "templates/chat_template.h"

static const struct tm now = {
    .tm_year = 126, .tm_mday = 5, .tm_hour = 3, .tm_min = 4, .tm_sec = 5, .tm_wday = 1, .tm_yday = 4};

/* Parse and render; the variables are members of an object. */
static enum lvn_status render(const char *template, const json_t *variables, const struct lvn_tpl_limits *limits,
                              struct lvn_arena *a, struct lvn_rendered *out)
{
    struct lvn_chat_template *t;
    struct lvn_tpl_variable v[32];
    const char *key;
    json_t *value, *object = (json_t *)variables;
    int n = 0;
    LVN_TRY(lvn_chat_template_parse(&t, "x.jinja", template, (int64_t)strlen(template)));
    json_object_foreach(object, key, value)
    {
        v[n].name = key;
        if (strcmp(key, "messages") == 0)
            ASSERT_OK(lvn_tpl_value_of_messages(a, value, &v[n++].value));
        else
            ASSERT_OK(lvn_tpl_value_of_json(a, value, LVN_MARK_CONTENT, &v[n++].value));
    }
    enum lvn_status status = lvn_chat_template_render(t, a, v, n, &now, limits, out);
    lvn_chat_template_free(t);
    return status;
}

static void check_spans(const json_t *spans, const struct lvn_rendered *r, const char *template)
{
    for (int64_t i = 0; i < r->n; i++) {
        bool in = false;
        for (size_t k = 0; k < json_array_size(spans); k++) {
            const json_t *span = json_array_get(spans, k);
            in = in ||
                 (i >= json_integer_value(json_array_get(span, 0)) && i < json_integer_value(json_array_get(span, 1)));
        }
        if (in != !!(r->marks[i] & LVN_MARK_GENERATION)) fail_msg("%s: generation mark of byte %d", template, (int)i);
    }
}

static void golden(void **state)
{
    struct lvn_mapping map;
    json_t *variables = NULL;
    int n = 0;
    (void)state;
    ASSERT_OK(lvn_file_map(&map, "tests/golden/templates/cases.jsonl"));
    const char *p = (const char *)map.data, *end = p + map.bytes;
    for (const char *line = p; line < end; line = p + 1) {
        p = memchr(line, '\n', (size_t)(end - line));
        json_t *row = json_loadb(line, (size_t)(p - line), 0, NULL);
        assert_non_null(row);
        if (!variables) {
            variables = json_incref(json_object_get(row, "variables"));
            json_decref(row);
            continue;
        }
        const char *template = json_string_value(json_object_get(row, "template"));
        const json_t *text = json_object_get(row, "text");
        bool refused = json_is_null(text) || json_object_get(row, "left_out");
        LVN_LOCAL_ARENA(a);
        struct lvn_rendered r;
        enum lvn_status status = render(template, variables, NULL, &a, &r);
        if ((status != LVN_OK) != refused) fail_msg("%s: %s", template, status == LVN_OK ? r.text : levin_error_text());
        if (status == LVN_OK) {
            assert_string_equal(r.text, json_string_value(text));
            check_spans(json_object_get(row, "generation"), &r, template);
        } else {
            assert_non_null(strstr(levin_error_text(), "'x.jinja'"));
        }
        json_decref(row);
        n++;
    }
    assert_true(n > 300);
    json_decref(variables);
    lvn_file_unmap(&map);
}

/* Capital letters: written by the template; the content has small ones. */
static void origins(void **state)
{
    static const char *const templates[] = {
        "A{{ s }}B",
        "{{ 'A' + s + 'B' }}",
        "{{ 'A' ~ s|trim ~ 'B' }}",
        "{{ ('A' ~ s)[1:4] }}{{ 'BC'[1:] }}",
        "{{ s.replace('e', 'E') }}",
        "{{ s|replace('ee', 'E' ~ s[0]) }}",
        "{{ s.split('e')|join('J') }}",
        "{{ ['A', s]|join('J') }}{{ 'J'.join([s, s]) }}",
        "{{ {'K': s, 'L': 'V'}|tojson }}",
        "{{ [s, 'V'] }}",
        "{{ s[::-1] }}{{ 'AB'[::-1] }}{{ (s ~ 'AB')[::2] }}",
        "{% set x %}A{{ s }}B{% endset %}{{ x|trim }}{{ x[1] }}",
        "{% macro f(a) %}M{{ a }}M{% endmacro %}{{ f(s) }}{{ f('A')|trim }}",
        "{{ '{}A{}'.format(s, 'B') }}",
        "{% for c in s %}{{ c }}-{% endfor %}",
        "{% for w in (s ~ ' AB').split() %}{{ w }}{% endfor %}",
        "{{ s|upper|lower }}{{ 'AB'|lower|upper }}",
        "{{ (s ~ 'B')|indent(2) }}{{ s.splitlines()[0] }}{{ (s ~ 'AB').strip('a') }}",
        "{{ messages[0].content }}{{ s ~ messages|map(attribute='content')|first }}",
    };
    json_t *variables =
        json_pack("{s:s, s:[{s:s, s:s}]}", "s", "aeeb cd", "messages", "role", "USER", "content", "abc");
    (void)state;
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        LVN_LOCAL_ARENA(a);
        struct lvn_rendered r;
        if (render(templates[i], variables, NULL, &a, &r) != LVN_OK)
            fail_msg("%s: %s", templates[i], levin_error_text());
        for (int64_t k = 0; k < r.n; k++) {
            bool small = r.text[k] >= 'a' && r.text[k] <= 'z', capital = r.text[k] >= 'A' && r.text[k] <= 'Z';
            if ((small || capital) && small != (r.marks[k] == LVN_MARK_CONTENT))
                fail_msg("%s: %s: origin of byte %d", templates[i], r.text, (int)k);
        }
    }
    json_decref(variables);
}

/* A role is written by the template if it is a plain word. */
static void roles(void **state)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_rendered r;
    json_t *variables = json_pack("{s:[{s:s}, {s:s}]}", "messages", "role", "user-1", "role", "a|>b");
    (void)state;
    ASSERT_OK(render("{% for m in messages %}{{ m.role }}{% endfor %}", variables, NULL, &a, &r));
    assert_string_equal(r.text, "user-1a|>b");
    for (int i = 0; i < 10; i++) assert_int_equal(r.marks[i], i < 6 ? 0 : LVN_MARK_CONTENT);
    json_decref(variables);
}

static void refusals(void **state)
{
    static const char *const rows[][2] = {
        {"a\n{% include 'x' %}", "'x.jinja', line 2: the statement '{% include %}' is not supported here"},
        {"{{ x|groupby('a') }}", "'x.jinja', line 1: the filter 'groupby' is not supported"},
        {"\n\n{{ x is filter }}", "'x.jinja', line 3: the test 'is filter' is not supported"},
        {"{% if true %}\n", "'x.jinja': a block that begins in line 1 has no '{% endif %}'"},
        {"{{ f(*x) }}", "'x.jinja', line 1: arguments with '*' or '**' are not supported"},
        {"{# a", "'x.jinja', line 1: a comment is not closed; '#}' is missing"},
        {"{{ 'a }}", "'x.jinja', line 1: a string has no end; close its quote"},
        {"{{ a", "'x.jinja', line 1: a tag is not closed; '}}' is missing"},
        {"{{ a b }}", "'x.jinja', line 1: found 'b', expected '}}'"},
        {"{{ a $ }}", "'x.jinja', line 1: unexpected character '$' in a tag"},
        {"{% for m in messages %}\n{{ raise_exception('no ' ~ m.role) }}{% endfor %}",
         "'x.jinja', line 2, message 1: the template refuses the conversation: no user"},
        {"{% for m in messages %}{% if loop.index == 2 %}{{ m.a.b }}{% endif %}{% endfor %}",
         "'x.jinja', line 1, message 2: 'a' is undefined and has no attribute 'b'"},
        {"{% for m in messages %}{% endfor %}{{ nil + 1 }}", "'nil' is undefined, and '+' does not apply to it"},
        {"{{ 'a' + eos_token }}",
         "'+' does not apply to it: the tokenizer names no such token; its tokenizer_config.json"},
        {"{{ 9223372036854775 * 9223372036854775 }}", "an integer exceeds 64 bits"},
        {"{{ messages.append(1) }}", "'append' of a list is not supported"},
        {"{{ range(1000000) }}", "range() has more than 100000 elements"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "calls of macros nest more than 60 levels"},
        {"\xff", "'x.jinja' is not UTF-8 (byte 0)"},
    };
    json_t *variables = json_pack("{s:[{s:s}, {s:s}]}", "messages", "role", "user", "role", "assistant");
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        LVN_LOCAL_ARENA(a);
        struct lvn_rendered r;
        assert_int_not_equal(render(rows[i][0], variables, NULL, &a, &r), LVN_OK);
        if (!strstr(levin_error_text(), rows[i][1])) fail_msg("%s: %s", rows[i][0], levin_error_text());
    }
    json_decref(variables);
}

/* Templates without end, and values without bound. */
static void limits(void **state)
{
    static const struct lvn_tpl_limits small = {.steps = 100000, .output = 1000000, .memory = 20000000};
    static const char *const rows[][2] = {
        {"{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}", "does not end within"},
        {"{% set n = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
         "the text exceeds the limit of 1000000 bytes"},
        {"{% set n = namespace(x=[1]) %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
         "needs more than 20000000 bytes of memory"},
        {"{{ 'a' * 99999999 }}", "does not end within"},
        {"{{ [0] * 99999999999 }}", "a list is repeated too often"},
        {"{% for i in range(9999) %}{{ "
         "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' }}{% endfor %}",
         "the text exceeds the limit of 1000000 bytes"},
    };
    json_t *variables = json_object();
    LVN_LOCAL_TEXT(deep);
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        LVN_LOCAL_ARENA(a);
        struct lvn_rendered r;
        assert_int_not_equal(render(rows[i][0], variables, &small, &a, &r), LVN_OK);
        if (!strstr(levin_error_text(), rows[i][1])) fail_msg("%s: %s", rows[i][0], levin_error_text());
    }
    for (int kind = 0; kind < 5; kind++) { /* deep nesting of each kind */
        static const char *const unit[] = {"(", "[", "{% if x %}", "not ", "-"};
        LVN_LOCAL_ARENA(a);
        struct lvn_rendered r;
        lvn_text_clear(&deep);
        lvn_text_add(&deep, kind == 2 ? "" : "{{ ");
        for (int i = 0; i < 100000; i++) lvn_text_add(&deep, unit[kind]);
        lvn_text_add(&deep, kind == 2 ? "" : "x");
        for (int i = 0; i < 100000 && kind < 2; i++) lvn_text_add(&deep, kind ? "]" : ")");
        lvn_text_add(&deep, kind == 2 ? "" : " }}");
        assert_int_not_equal(render(lvn_text_string(&deep), variables, &small, &a, &r), LVN_OK);
        if (!strstr(levin_error_text(), "nest more than")) fail_msg("%.5s: %s", deep.p, levin_error_text());
    }
    lvn_text_clear(&deep);
    lvn_text_add(&deep, "{{ 1");
    for (int i = 0; i < 10000; i++) lvn_text_add(&deep, " + 1");
    lvn_text_add(&deep, " }}");
    LVN_LOCAL_ARENA(a);
    struct lvn_rendered r;
    assert_int_not_equal(render(lvn_text_string(&deep), variables, &small, &a, &r), LVN_OK);
    assert_non_null(strstr(levin_error_text(), "the template nests more than"));
    json_decref(variables);
}

/* A chain of elif is no nesting; long messages are fine. */
static void large(void **state)
{
    LVN_LOCAL_TEXT(chain);
    LVN_LOCAL_ARENA(a);
    struct lvn_rendered r;
    enum { BYTES = 10 << 20 };
    char *content = malloc(BYTES + 1);
    (void)state;
    lvn_text_add(&chain, "{% if x == -1 %}{% ");
    for (int i = 0; i < 1000; i++) lvn_text_printf(&chain, "elif x == %d %%}%d{%% ", i, i);
    lvn_text_add(&chain, "else %}-{% endif %}{{ s|trim }}{{ s[:3] ~ s.split('c')|length }}");
    memset(content, 'b', BYTES);
    content[BYTES] = 0;
    json_t *variables = json_pack("{s:i, s:s}", "x", 777, "s", content);
    ASSERT_OK(render(lvn_text_string(&chain), variables, NULL, &a, &r));
    assert_int_equal(r.n, 3 + BYTES + 4);
    assert_memory_equal(r.text, "777bbb", 6);
    assert_string_equal(r.text + BYTES, "bbbbbb1");
    json_decref(variables);
    free(content);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden),   cmocka_unit_test(origins), cmocka_unit_test(roles),
        cmocka_unit_test(refusals), cmocka_unit_test(limits),  cmocka_unit_test(large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

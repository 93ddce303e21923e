/* test_template.c - covers: src/formats/template/template.c src/formats/template/template_parse.c
 * src/formats/template/template_functions.c src/formats/variant.c
 *
 * Values as Helm reads them, what templates give, and broken templates, each with a sentence. */
#include "io_test.h"

#include "formats/template/template.h"

static struct lvn_arena arena;

static int begin(void **state)
{
    (void)state;
    lvn_arena_init(&arena);
    return 0;
}

static int end(void **state)
{
    (void)state;
    lvn_arena_release(&arena);
    return 0;
}

static enum lvn_status read_values(const char *text, struct lvn_variant **out)
{
    const struct lvn_yaml *top;
    LVN_TRY(lvn_yaml_parse(&arena, "v.yaml", text, (int64_t)strlen(text), &top));
    return lvn_variant_from_yaml(&arena, top, "v.yaml", out);
}

static enum lvn_status render(const char *values, const char *text, struct lvn_text *out, bool *failed)
{
    struct lvn_templates t = {.arena = &arena};
    struct lvn_variant *dot;
    LVN_TRY(read_values(values, &dot));
    LVN_TRY(lvn_template_parse(&t, "t.yaml", text));
    return lvn_template_render(&t, "t.yaml", dot, out, failed);
}

/* The template gives this text for the values. */
static void gives(const char *values, const char *text, const char *wanted)
{
    LVN_LOCAL_TEXT(out);
    ASSERT_OK(render(values, text, &out, NULL));
    assert_string_equal(lvn_text_string(&out), wanted);
}

static void refuses(const char *text, const char *words)
{
    LVN_LOCAL_TEXT(out);
    ASSERT_FAILS(ARG, words, render("{a: {b: 1, s: x}, l: [1, 2], s: text, n: 3, f: 1.5, t: true}", text, &out, NULL));
}

/* --- values --- */

static enum lvn_variant_kind kind_of(const char *scalar)
{
    struct lvn_variant *v;
    ASSERT_OK(lvn_variant_plain(&arena, scalar, &v));
    return v->kind;
}

static void scalars(void **state)
{
    (void)state;
    static const char *const texts[] = {"a",     "1.2.3", "nulls", "yess",     "-",  "+",  ".",  "1e",
                                        "0.1.2", "12h",   "1-2",   "00:30:00", "e5", "_1", "-a", "16-mixed"};
    static const char *const reals[] = {"1.0", "6e-4", "-.5", "1E+3", "5.", "99999999999999999999"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) assert_int_equal(kind_of(texts[i]), LVN_VARIANT_TEXT);
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) assert_int_equal(kind_of(reals[i]), LVN_VARIANT_REAL);
    assert_int_equal(kind_of("-12"), LVN_VARIANT_INT);
    assert_int_equal(kind_of("0"), LVN_VARIANT_INT);
    assert_int_equal(kind_of("yes"), LVN_VARIANT_BOOL);
    assert_int_equal(kind_of("Off"), LVN_VARIANT_BOOL);
    assert_int_equal(kind_of("~"), LVN_VARIANT_NULL);
    assert_int_equal(kind_of(""), LVN_VARIANT_NULL);
    static const char *const ambiguous[] = {"010", "-07", "0x10", "0o17", "0b1", "1_000"};
    struct lvn_variant *v;
    for (size_t i = 0; i < sizeof ambiguous / sizeof *ambiguous; i++)
        ASSERT_FAILS(ARG, "do not agree on the number", lvn_variant_plain(&arena, ambiguous[i], &v));
}

static void merged(void **state)
{
    (void)state;
    struct lvn_variant *base, *over, *v;
    LVN_LOCAL_TEXT(t);
    ASSERT_OK(read_values("{a: {x: 1, y: 2}, b: [1, 2], c: 3, d: {z: 1}}", &base));
    ASSERT_OK(read_values("{a: {y: 5, z: {q: 1}}, b: [9], c: null, e: {}}", &over));
    ASSERT_OK(lvn_variant_merge(&arena, base, over, &v));
    ASSERT_OK(lvn_variant_yaml(&arena, &t, v));
    assert_string_equal(t.p, "a:\n  x: 1\n  \"y\": 5\n  z:\n    q: 1\nb:\n  - 9\nd:\n  z: 1\ne: {}");
    assert_null(lvn_variant_get(v, "c"));
    assert_int_equal(lvn_variant_get(base, "a")->n, 2); /* as before */
}

/* Every text reads back as itself, also those that look like something else. */
static void yaml_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "a",    "yes",   "null",       "1",     "1.0",   "-",  "- a",    "a: b", "#x",  "{{ x }}",      "[a]",
        "'",    "\"",    "\\",         "a\nb",  "\ttab", " a", "a ",     "é 日", "12h", "gs://b",       "a:",
        "? b",  "&a",    "*a",         "!a",    "|",     ">",  "%a",     "@a",   "`a",  "\x01",         "a\n",
        "0x10", "1_000", "2001-01-01", "false", "on",    "~",  "\u2028", "=",    "<<",  "\xef\xbb\xbf", "..."};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        LVN_LOCAL_TEXT(t);
        struct lvn_variant *list = lvn_variant_new(&arena, LVN_VARIANT_LIST),
                           *map = lvn_variant_new(&arena, LVN_VARIANT_MAP), *back;
        ASSERT_OK(lvn_variant_append(&arena, list, lvn_variant_text(&arena, texts[i])));
        ASSERT_OK(lvn_variant_set(&arena, map, texts[i], list));
        ASSERT_OK(lvn_variant_yaml(&arena, &t, map));
        ASSERT_OK(read_values(t.p, &back));
        const struct lvn_variant *v = lvn_variant_get(back, texts[i]);
        assert_non_null(v);
        assert_int_equal(v->child->kind, LVN_VARIANT_TEXT);
        assert_string_equal(v->child->text, texts[i]);
    }
}

/* --- templates --- */

static void blanks(void **state)
{
    (void)state;
    gives("{}", "a {{ 1 }} b", "a 1 b");
    gives("{}", "a {{- 1 -}} b", "a1b");
    gives("{}", "a\n  {{- /* why */ -}}\n b", "ab");
    gives("{}", "a\n{{/* why {{ }} */}}\nb", "a\n\nb");
    gives("{}", "a\n{{- if true }}\nb\n{{- end }}\nc", "a\nb\nc");
    gives("{}", "{{ \"}}\" }}{{\"{{-\"}}", "}}{{-");
    gives("{}", "}} { { no action } }", "}} { { no action } }");
    gives("{}", "", "");
}

static void fields(void **state)
{
    (void)state;
    gives("{a: {b: {c: 5}}, t: yes}", "{{ .a.b.c }} {{ $.a.b.c }} {{ (.a.b).c }} {{ .a.none }}|{{ .t }}",
          "5 5 5 |true");
    gives("{a: {b: 1}}", "{{ $x := .a }}{{ $x.b }}{{ $x := 2 }}{{ $x }}", "12");
    gives("{a: 1}", "{{ $x := 1 }}{{ if true }}{{ $x := 2 }}{{ $x }}{{ end }}{{ $x }}", "21");
    gives("{n: 1732470000, r: 6e-4}", "{{ .n }} {{ .r }} {{ int .n }}", "1732470000 6e-4 1732470000");
}

static void branches(void **state)
{
    (void)state;
    const char *text = "{{ if .a }}A{{ else if .b }}B{{ else if .c }}C{{ else }}D{{ end }}";
    gives("{a: 1}", text, "A");
    gives("{a: 0, b: x}", text, "B");
    gives("{a: '', b: [], c: {q: 1}}", text, "C");
    gives("{a: {}, b: false, c: 0.0}", text, "D");
    gives("{a: 1}", "{{ and .a 0 .none.x }}{{ or .a .none.x }}{{ not .a }}{{ and 1 2 }}{{ or 0 \"\" }}", "01false2");
    gives("{l: [a, b]}", "{{ range .l }}<{{ . }}>{{ else }}none{{ end }}", "<a><b>");
    gives("{l: []}", "{{ range .l }}<{{ . }}>{{ else }}none{{ end }}{{ range .m }}x{{ end }}", "none");
    gives("{m: {z: 1, a: 2}}", "{{ range $k, $v := .m }}{{ $k }}={{ $v }},{{ end }}", "a=2,z=1,");
    gives("{l: [x, z]}",
          "{{ range $i, $v := .l }}{{ $i }}{{ $v }}{{ end }}{{ range $v := .l }}{{ $v }}{{ $.l | len }}{{ end }}",
          "0x1zx2z2");
}

static void functions(void **state)
{
    (void)state;
    gives("{}", "{{ \"a\\\"b\\n\" | quote }} {{ quote 1 true }}", "\"a\\\"b\\n\" \"1\" \"true\"");
    gives("{m: {b: [1, {c: x}], a: {}}}", "m:{{ toYaml .m | nindent 2 }}", "m:\n  a: {}\n  b:\n    - 1\n    - c: x");
    gives("{}", "{{ default \"x\" .a }}{{ default 1 2 }}{{ \"\" | default \"y\" }}", "x2y");
    gives("{a: b, n: 2}",
          "{{ eq .a \"b\" }} {{ eq .a \"c\" \"b\" }} {{ ne .a \"b\" }} {{ eq .none nil }} {{ eq .a nil }}",
          "true true false true false");
    gives("{}", "{{ mul 6 7 }} {{ mod 125 5 }} {{ gt 2 1 }} {{ int \"12\" }} {{ int nil }} {{ int \"x\" }}",
          "42 0 true 12 0 0");
    gives("{m: {k: null}}", "{{ hasKey .m \"k\" }} {{ hasKey .m \"j\" }} {{ len .m }} {{ len \"abc\" }}",
          "true false 1 3");
    gives("{}", "{{ trimSuffix \"/\" \"a/\" }} {{ trimSuffix \"/\" \"a\" }} {{ hasPrefix \"gs:\" \"gs://\" }}",
          "a a true");
    gives("{s: x, n: 1, b: y}", "{{ kindIs \"string\" .s }} {{ kindIs \"bool\" .b }} {{ kindIs \"invalid\" .q }}",
          "true true true");
    gives("{a: 1}", "{{ define \"d\" }}[{{ .a }}{{ $.a }}]{{ end }}{{ include \"d\" . }}{{ include \"d\" . | len }}",
          "[11]4");
}

static void own_failure(void **state)
{
    (void)state;
    LVN_LOCAL_TEXT(out);
    bool failed = false;
    ASSERT_FAILS(ARG, "no image", render("{}", "{{ if not .image }}{{ fail \"no image\" }}{{ end }}", &out, &failed));
    assert_true(failed);
    assert_string_equal(lvn_error_text(), "no image");
    ASSERT_FAILS(ARG, "t.yaml:2: ", render("{a: 1}", "\n{{ .a.b }}", &out, &failed));
    assert_false(failed);
}

/* --- broken templates --- */

static void broken(void **state)
{
    (void)state;
    static const char *const unread[] = {"{{",
                                         "{{ ",
                                         "{{ .a",
                                         "{{ }}",
                                         "{{- -}}",
                                         "{{ 1.5 }}",
                                         "{{ 'a' }}",
                                         "{{ `a` }}",
                                         "{{ \"a }}",
                                         "{{ \"\\q\" }}",
                                         "{{ . . }}",
                                         "{{ .a .b }}",
                                         "{{ | quote }}",
                                         "{{ quote | }}",
                                         "{{ 1 | 2 }}",
                                         "{{ (1 }}",
                                         "{{ 1) }}",
                                         "{{ () }}",
                                         "{{ .a. }}",
                                         "{{ .1 }}",
                                         "{{ $ := 1 }}",
                                         "{{ $x = 1 }}",
                                         "{{ $x := }}",
                                         "{{ if }}x{{ end }}",
                                         "{{ if 1 }}",
                                         "{{ end }}",
                                         "{{ else }}",
                                         "{{ range }}{{ end }}",
                                         "{{ range $a, := .l }}{{ end }}",
                                         "{{ range $a, $ := .l }}{{ end }}",
                                         "{{ if 1 }}{{ else }}{{ else }}{{ end }}",
                                         "{{ range .l }}{{ else if 1 }}{{ end }}{{ end }}",
                                         "{{ define }}{{ end }}",
                                         "{{ define \"a\" }}",
                                         "{{ define a }}{{ end }}",
                                         "{{ if 1 }}{{ define \"a\" }}{{ end }}{{ end }}",
                                         "{{ with .a }}{{ end }}",
                                         "{{ template \"a\" }}",
                                         "{{ block \"a\" . }}{{ end }}",
                                         "{{ printf \"a\" }}",
                                         "{{ lookup }}",
                                         "{{ /* a }}",
                                         "{{ /* a */ b }}",
                                         "{{ quote quote }}",
                                         "{{ !x }}",
                                         "{{ a-b }}",
                                         "{{ 99999999999999999999 }}",
                                         "{{ 12ab }}",
                                         "{{ if 1 }}{{ end x }}",
                                         "{{ \"a\nb\" }}",
                                         "{{ \"",
                                         "{{/*",
                                         "{{ #"};
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++) refuses(unread[i], "t.yaml:1: ");
}

static void too_deep(void **state)
{
    (void)state;
    LVN_LOCAL_TEXT(deep);
    for (int i = 0; i < 40; i++) lvn_text_add(&deep, "{{ if 1 }}");
    refuses(lvn_text_string(&deep), "more than 32 levels");
    lvn_text_clear(&deep);
    lvn_text_add(&deep, "{{ ");
    for (int i = 0; i < 4000; i++) lvn_text_add(&deep, "(");
    lvn_text_add(&deep, " }}");
    refuses(lvn_text_string(&deep), "more than 32 levels");
    lvn_text_clear(&deep);
    lvn_text_add(&deep, "{{ if 0 }}");
    for (int i = 0; i < 4000; i++) lvn_text_add(&deep, "{{ else if 1 }}");
    refuses(lvn_text_string(&deep), "more than 32 levels");
    lvn_text_clear(&deep);
    lvn_text_add(&deep, "{{ eq");
    for (int i = 0; i < 100; i++) lvn_text_add(&deep, " 1");
    lvn_text_add(&deep, " }}");
    refuses(lvn_text_string(&deep), "more than 23 arguments");
}

static void wrong(void **state)
{
    (void)state;
    refuses("{{ .s.x }}", "wants a map, and this is text");
    refuses("{{ .none.x }}", "wants a map, and this is null");
    refuses("{{ $x }}", "there is no variable $x");
    refuses("{{ .a }}", "put toYaml before it");
    refuses("{{ .l }}", "put toYaml before it");
    refuses("{{ quote .a }}", "quote wants a text");
    refuses("{{ quote }}", "quote takes 1 or more arguments, not 0");
    refuses("{{ eq 1 }}", "eq takes 2 or more arguments, not 1");
    refuses("{{ eq 1 \"1\" }}", "eq compares whole number with text");
    refuses("{{ eq .a .a }}", "eq compares map with map");
    refuses("{{ range 3 }}{{ end }}", "range wants a list or a map");
    refuses("{{ range .s }}{{ end }}", "range wants a list or a map");
    refuses("{{ include \"none\" . }}", "there is no template \"none\"");
    refuses("{{ include 1 . }}", "include wants a text");
    refuses("{{ hasKey .s \"a\" }}", "hasKey wants a map");
    refuses("{{ nindent -1 \"a\" }}", "nindent wants a number of blanks");
    refuses("{{ nindent 1000000000 \"a\" }}", "nindent wants a number of blanks");
    refuses("{{ mod 1 0 }}", "mod wants a divisor above 0");
    refuses("{{ mul 9223372036854775807 2 }}", "too large");
    refuses("{{ gt .f 1 }}", "gt wants two whole numbers");
    refuses("{{ int .l }}", "int wants a number");
    refuses("{{ len 1 }}", "len wants");
    refuses("{{ fail 1 }}", "fail wants a text");
    refuses("{{ trimSuffix 1 2 }}", "trimSuffix wants a text");
    refuses("{{ define \"d\" }}{{ include \"d\" . }}{{ end }}{{ include \"d\" . }}", "templates within each other");
    refuses("{{ define \"d\" }}{{ range .l }}{{ include \"d\" $ }}{{ end }}{{ range .l }}{{ include \"d\" $ }}{{ end }}"
            "{{ end }}{{ include \"d\" . }}",
            "templates within each other");
}

/* Templates that would not come to an end in any useful time or space. */
static void endless(void **state)
{
    (void)state;
    LVN_LOCAL_TEXT(t);
    lvn_text_add(&t, "{{ define \"d0\" }}xxxxxxxx{{ end }}");
    for (int i = 1; i < 30; i++)
        lvn_text_printf(&t, "{{ define \"d%d\" }}{{ include \"d%d\" . }}{{ include \"d%d\" . }}{{ end }}", i, i - 1,
                        i - 1);
    lvn_text_add(&t, "{{ include \"d29\" . }}");
    refuses(lvn_text_string(&t), "does not come to an end");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(scalars, begin, end),
        cmocka_unit_test_setup_teardown(merged, begin, end),
        cmocka_unit_test_setup_teardown(yaml_texts, begin, end),
        cmocka_unit_test_setup_teardown(blanks, begin, end),
        cmocka_unit_test_setup_teardown(fields, begin, end),
        cmocka_unit_test_setup_teardown(branches, begin, end),
        cmocka_unit_test_setup_teardown(functions, begin, end),
        cmocka_unit_test_setup_teardown(own_failure, begin, end),
        cmocka_unit_test_setup_teardown(broken, begin, end),
        cmocka_unit_test_setup_teardown(too_deep, begin, end),
        cmocka_unit_test_setup_teardown(wrong, begin, end),
        cmocka_unit_test_setup_teardown(endless, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

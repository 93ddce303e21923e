/* test_yaml.c - covers: src/files/formats/yaml.c
 *
 * Recipes as trees, what is refused, and scalars that read back as they were. */
#include "faults.h"
#include "io_test.h"

#include "formats/yaml.h"

static struct lvn_arena arena;

static enum lvn_status parse(const char *text, const struct lvn_yaml **out)
{
    return lvn_yaml_parse(&arena, "r.yaml", text, (int64_t)strlen(text), out);
}

static void recipe(void **state)
{
    (void)state;
    const struct lvn_yaml *top, *v;
    ASSERT_OK(parse("# a recipe\nname: tiny\nmodel: {n_layer: 4, bias: false}\noptimizer:\n  lr: 1e-3\n"
                    "  betas: [0.9, 0.99]\n  note: \"12\"\n  empty:\n",
                    &top));
    assert_int_equal(top->kind, LVN_YAML_MAP);
    assert_int_equal(top->n, 3);
    assert_string_equal(lvn_yaml_get(top, "name")->text, "tiny");
    v = lvn_yaml_get(lvn_yaml_get(top, "model"), "bias");
    assert_string_equal(v->text, "false");
    assert_int_equal(v->line, 3);
    v = lvn_yaml_get(top, "optimizer");
    assert_string_equal(lvn_yaml_get(v, "lr")->text, "1e-3");
    assert_int_equal(lvn_yaml_get(v, "betas")->kind, LVN_YAML_LIST);
    assert_int_equal(lvn_yaml_get(v, "betas")->n, 2);
    assert_string_equal(lvn_yaml_get(v, "betas")->child->next->text, "0.99");
    assert_int_equal(lvn_yaml_get(v, "betas")->line, 6);
    assert_true(lvn_yaml_get(v, "note")->quoted);
    assert_string_equal(lvn_yaml_get(v, "empty")->text, "");
    assert_false(lvn_yaml_get(v, "empty")->quoted);
    assert_null(lvn_yaml_get(v, "none"));
    assert_null(lvn_yaml_get(lvn_yaml_get(v, "lr"), "none"));
    static const char *const nothing[] = {"", "# only a comment\n", "---\n", "{}", "\n\n"};
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        ASSERT_OK(parse(nothing[i], &top));
        assert_int_equal(top->kind, LVN_YAML_MAP);
        assert_int_equal(top->n, 0);
    }
}

static void refused(void **state)
{
    (void)state;
    const struct lvn_yaml *top;
    ASSERT_FAILS(ARG, "r.yaml:3: duplicate key 'a', first on line 1", parse("a: 1\nb: 2\na: 3\n", &top));
    ASSERT_FAILS(ARG, "anchors and aliases ('x')", parse("a: &x 1\nb: *x\n", &top));
    ASSERT_FAILS(ARG, "anchors", parse("a: &x [1]\n", &top));
    ASSERT_FAILS(ARG, "anchors", parse("a: &x {b: 1}\n", &top));
    ASSERT_FAILS(ARG, "r.yaml:2: anchors", parse("a: 1\nb: *x\n", &top));
    ASSERT_FAILS(ARG, "tag", parse("a: !!python/object:os.system 1\n", &top));
    ASSERT_FAILS(ARG, "r.yaml:2: a second document", parse("a: 1\n---\nb: 1\n", &top));
    ASSERT_FAILS(ARG, "found a list", parse("[1, 2]", &top));
    ASSERT_FAILS(ARG, "found the text", parse("hello", &top));
    ASSERT_FAILS(ARG, ", expected a key", parse("{[1]: 2}", &top));
    ASSERT_FAILS(ARG, ", expected a key", parse("? {a: 1}\n: 2\n", &top));
    ASSERT_FAILS(ARG, "r.yaml:2: invalid YAML", parse("a: 1\n b: : 2\n", &top));
    ASSERT_FAILS(ARG, "r.yaml:2: byte 5 is not UTF-8", parse("a: 1\n\xff", &top));
    ASSERT_FAILS(ARG, "UTF-8",
                 lvn_yaml_parse(&arena, "r.yaml",
                                "\xff\xfe"
                                "a\0:\0",
                                6, &top));
    ASSERT_FAILS(ARG, "NUL", parse("a: \"x\\0y\"", &top));
    char deep[400] = "a: ";
    memset(deep + 3, '[', 150);
    memset(deep + 153, ']', 150);
    ASSERT_FAILS(ARG, "more than 32 levels", parse(deep, &top));
    struct lvn_text t = {0};
    for (int i = 0; i < 12000; i++) lvn_text_printf(&t, "k%d: 1\n", i);
    ASSERT_FAILS(ARG, "more than 10000 values", parse(lvn_text_string(&t), &top));
    while (t.n <= 1 << 20) lvn_text_add(&t, "# filling\n");
    ASSERT_FAILS(ARG, "more than 1 MiB", parse(lvn_text_string(&t), &top));
    test_put("big.yaml", t.p, t.n);
    ASSERT_FAILS(ARG, "more than 1 MiB", lvn_yaml_read(&arena, test_path("big.yaml"), &top));
    ASSERT_FAILS(IO, "No such file", lvn_yaml_read(&arena, test_path("none.yaml"), &top));
    lvn_text_release(&t);
}

static void scalars_round_trip(void **state)
{
    (void)state;
    static const char *const all[] = {"",
                                      "plain",
                                      "1e-3",
                                      "-1",
                                      "-",
                                      "- x",
                                      "a: b",
                                      "a:",
                                      "#x",
                                      "a #b",
                                      "'q'",
                                      "\"q\"",
                                      "back\\s",
                                      "tab\tnew\nline",
                                      "\x01\x7f",
                                      "~",
                                      "null",
                                      "[1, 2]",
                                      "{a}",
                                      "*x",
                                      "&x",
                                      "!t",
                                      "%d",
                                      "@a",
                                      " pad ",
                                      "http://a.b/c?d=e",
                                      "\xc3\xa9t\xc3\xa9",
                                      "\xef\xbb\xbf",
                                      "\xc2\x85",
                                      "\xe2\x80\xa8",
                                      "---",
                                      "..."};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct lvn_text t = {0};
        const struct lvn_yaml *top;
        lvn_text_add(&t, "a:\n  - ");
        lvn_yaml_add_scalar(&t, all[i]);
        lvn_text_add(&t, "\nb: [");
        lvn_yaml_add_scalar(&t, all[i]);
        lvn_text_add(&t, ", 1]\n");
        ASSERT_OK(parse(lvn_text_string(&t), &top));
        assert_string_equal(lvn_yaml_get(top, "a")->child->text, all[i]);
        assert_string_equal(lvn_yaml_get(top, "b")->child->text, all[i]);
        const bool is_null = !strcmp(all[i], "~") || !strcmp(all[i], "null"); /* without quotes: no value */
        assert_true(!is_null || lvn_yaml_get(top, "a")->child->quoted);
        lvn_text_release(&t);
    }
}

/* With the k-th allocation failing: a status, never a crash. libyaml's own allocations are not counted. */
static void memory_runs_out(void **state)
{
    (void)state;
    for (long k = 1; k < 4; k++) {
        struct lvn_arena small;
        lvn_arena_init(&small);
        const struct lvn_yaml *top;
        fault_memory_at(k);
        enum lvn_status status = lvn_yaml_parse(&small, "r", "a: {b: 1}", 9, &top);
        fault_memory_at(0);
        assert_int_equal(status, k == 1 ? LVN_MEMORY : LVN_OK);
        lvn_arena_release(&small);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(recipe), cmocka_unit_test(refused),
                                       cmocka_unit_test(scalars_round_trip), cmocka_unit_test(memory_runs_out)};
    lvn_arena_init(&arena);
    int failed = cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
    lvn_arena_release(&arena);
    return failed;
}

/* test_synonyms.c - covers: src/run/settings/synonyms.c src/run/options/options.c src/run/options/options_value.c
 *
 * What other programs call an option leads to levin's own, which exists. */
#include "io_test.h"

#include <string.h>

#include "settings/settings.h"
#include "settings/synonyms.h"

/* The key or part of "trainer.precision=16-mixed" without its value. */
static void without_value(const char *target, char key[80])
{
    snprintf(key, 80, "%.*s", (int)strcspn(target, "="), target);
}

static bool is_field(const char *word)
{
    for (int i = 0; i < lvn_option_count(); i++) {
        const char *key = lvn_option_at(i)->key, *dot = strchr(key, '.');
        if (!strcmp(dot ? dot + 1 : key, word)) return true;
    }
    return false;
}

static void targets_exist(void **state)
{
    (void)state;
    for (const struct lvn_synonym *s = lvn_synonyms; s->word; s++) {
        char key[80], text[LVN_SYNONYM_TEXT];
        without_value(s->target, key);
        if (!*key && !*s->note) fail_msg("'%s': neither levin's word nor a reason", s->word);
        if (strlen(lvn_synonym_text(s, true, text)) > LVN_SYNONYM_TEXT - 2) fail_msg("'%s': the text is cut", s->word);
        if (!*key || *key == '-') continue;
        const struct lvn_option *o = lvn_option_find(key);
        if (!o) fail_msg("'%s': there is no key '%s'", s->word, key);
        if (is_field(s->word)) fail_msg("'%s' is a key of levin's own", s->word);
        union lvn_option_value value;
        struct lvn_arena arena;
        lvn_arena_init(&arena);
        if (s->target[strlen(key)])
            assert_int_equal(lvn_option_parse(o, s->target + strlen(key) + 1, &value, &arena), 0);
        lvn_arena_release(&arena);
        for (const struct lvn_synonym *other = lvn_synonyms; other < s; other++)
            if (!strcmp(other->word, s->word) && *other->target != '-') fail_msg("'%s' stands there twice", s->word);
    }
}

static bool never(const void *command, const char *flag)
{
    (void)command;
    (void)flag;
    return false;
}

static bool has_out(const void *command, const char *flag)
{
    (void)command;
    return !strcmp(flag, "--out");
}

static void words_are_found(void **state)
{
    (void)state;
    char text[LVN_SYNONYM_TEXT];
    const char *rows[][2] = {
        {"learning_rate", "levin calls it --optimizer.lr"},
        {"learning-rate", "levin calls it --optimizer.lr"},
        {"trainer.Learning_Rate", "levin calls it --optimizer.lr"},
        {"fp16", "levin calls it --trainer.precision=16-mixed"},
        {"warmup_ratio", "levin calls it --schedule.warmup_steps; a number below 1 is a share of the run's steps"},
        {"machine_rank", "`levin launch` numbers the ranks"},
        {"output_dir", "levin calls it --run_dir"},
        {"micro_batch_size", "in axolotl: set trainer.batch_size_per_device to micro_batch_size times "
                             "gradient_accumulation_steps; in litgpt: set trainer.micro_batch_size"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct lvn_synonym *s = lvn_synonym_find(rows[i][0], never, NULL);
        assert_non_null(s);
        assert_string_equal(lvn_synonym_text(s, true, text), rows[i][1]);
    }
    assert_string_equal(lvn_synonym_find("output_dir", has_out, NULL)->target, "--out");
    assert_string_equal(lvn_synonym_text(lvn_synonym_find("fp16", NULL, NULL), false, text),
                        "levin calls it trainer.precision: 16-mixed");
    assert_null(lvn_synonym_find("resume_from", never, NULL)); /* a flag that the command lacks is no answer */
    assert_string_equal(lvn_synonym_find("resume_from", NULL, NULL)->target, "--resume");
    assert_null(lvn_synonym_find("xyzzy", NULL, NULL));
    assert_null(lvn_synonym_find("", NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(targets_exist), cmocka_unit_test(words_are_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_retired.c - covers: src/run/settings/retired.c src/run/settings/settings.c
 *
 * Keys of older versions. The table is the test's own: retired.c, included here, takes the place of the library's. */
#define LVN_RETIRED_TABLE "unit/settings/retired_rows.def"
#include "settings/retired.c" /* NOLINT(bugprone-suspicious-include) */

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "settings/settings.h"

static enum lvn_status read_into(struct levin_settings *s, const char *recipe)
{
    assert_int_equal(lvn_settings_init(s), LVN_OK);
    return lvn_settings_read(s, recipe, strlen(recipe), "r.yaml");
}

/* At the accepted value, also of a part that is gone, and without a value, a key changes nothing. */
static void accepted(void **state)
{
    static const char *const recipes[] = {"data:\n  shuffle: true\noptimizer:\n  lr: 0.5\n",
                                          "warmer:\n  steps: '[1, 2]'\noptimizer:\n  lr: 0.5\n",
                                          "warmer:\n  steps:\noptimizer:\n  lr: 0.5\n"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct levin_settings s;
        assert_int_equal(read_into(&s, recipes[i]), LVN_OK);
        assert_true(s.values.optimizer.lr > 0.4999);
        char *yaml = lvn_settings_yaml(&s);
        assert_non_null(yaml);
        assert_null(strstr(yaml, "shuffle"));
        assert_null(strstr(yaml, "warmer"));
        free(yaml);
        lvn_settings_release(&s);
    }
}

/* At another one it is refused by name, with the value that is accepted and what to do. */
static void refused(void **state)
{
    struct levin_settings s;
    (void)state;
    assert_int_equal(read_into(&s, "data:\n  shuffle: false\n"), LVN_ARG);
    assert_string_equal(levin_error_text(), "r.yaml:2: data.shuffle (false) is an option of older versions, and only "
                                            "true is accepted; give data.sampling: sequential instead of false");
    lvn_settings_release(&s);
    assert_int_equal(lvn_settings_init(&s), LVN_OK);
    assert_int_equal(lvn_settings_set(&s, "data.shuffle", "false", LVN_SOURCE_COMMAND), LVN_ARG);
    assert_int_equal(lvn_settings_set(&s, "data.shuffle", "true", LVN_SOURCE_COMMAND), LVN_OK);
    assert_int_equal(lvn_settings_set(&s, "data.shuffled", "true", LVN_SOURCE_COMMAND), LVN_ARG);
    assert_non_null(strstr(levin_error_text(), "unknown key"));
    lvn_settings_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(accepted), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_snapshot.c - covers: src/run/train/snapshot.c
 *
 * The list of a device's choices in a checkpoint's state has any length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/text.h"
#include "train/snapshot.h"

static void a_list_of_choices_has_any_length(void **state)
{
    enum { LINES = 1000 };
    static struct lvn_snapshot s;
    char folder[] = "/tmp/levin-snapshot.XXXXXX", path[100], command[100];
    struct lvn_checkpoint c = {.path = folder};
    LVN_LOCAL_TEXT(lines);
    LVN_LOCAL_TEXT(found);
    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/state", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/state/state.json", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "{\"step\": 7, \"data\": \"0\", \"micro_batch\": 1, \"min_micro_batches\": 1, \"algorithms\": \"");
    for (int k = 0; k < LINES; k++) {
        fprintf(f, "%016x %0128x\\n", k, k);
        lvn_text_printf(&lines, "%016x %0128x\n", k, k);
    }
    fprintf(f, "\"}");
    assert_int_equal(fclose(f), 0);
    assert_int_equal(lvn_snapshot_read(&c, &s), LVN_OK);
    assert_int_equal(s.step, 7);
    assert_int_equal(lvn_snapshot_read_choices(&c, &found), LVN_OK);
    assert_string_equal(lvn_text_string(&found), lvn_text_string(&lines));
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_list_of_choices_has_any_length)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

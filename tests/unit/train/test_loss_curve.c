/* test_loss_curve.c - covers: src/run/train/loss_curve.c
 *
 * The loss curve: what is drawn, and metric files that are odd. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files.h"
#include "tmp_folder.h"
#include "train/loss_curve.h"

static const char head[] = "step,loss,grad_norm,lr,tokens_per_s,val_loss\n";
static char csv[256], svg[256];

static int set_up(void **state)
{
    (void)state;
    snprintf(csv, sizeof csv, "%s/levin-curve-%d.csv", tmp_folder(), (int)getpid());
    snprintf(svg, sizeof svg, "%s/levin-curve-%d.svg", tmp_folder(), (int)getpid());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(csv);
    unlink(svg);
    return 0;
}

static enum lvn_status draw(int64_t last_step)
{
    struct lvn_points train = {0}, val = {0};
    enum lvn_status status = lvn_curve_read(csv, "loss", "val_loss", last_step, &train, &val);
    if (status == LVN_OK) status = lvn_curve_write(svg, "a <b> & c", &train, &val);
    lvn_points_release(&train);
    lvn_points_release(&val);
    return status;
}

/* Draw these rows; the picture (to be freed), NULL when none was written. */
static char *drawn(const char *rows)
{
    char *text = NULL;
    int64_t bytes;
    FILE *f = fopen(csv, "w");
    assert_non_null(f);
    fprintf(f, "%s%s", head, rows);
    fclose(f);
    unlink(svg);
    assert_int_equal(draw(INT64_MAX), LVN_OK);
    if (!lvn_path_is_file(svg)) return NULL;
    assert_int_equal(lvn_file_read(svg, 0, &text, &bytes), LVN_OK);
    assert_true(bytes > 100 && !strncmp(text, "<svg", 4) && !strcmp(text + bytes - 7, "</svg>\n"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    return text;
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p += strlen(word)) n++;
    return n;
}

static void both_curves(void **state)
{
    (void)state;
    char *text = drawn("1,4.2,1,1,1,\n2,3.1,1,1,1,\n2,,,,,3.5\n3,2.5,1,1,1,\n4,2.25,1,1,1,\n4,,,,,2.875\n");
    assert_non_null(text);
    assert_int_equal(count(text, "<polyline"), 3); /* raw, smoothed, validation */
    assert_int_equal(count(text, "<circle"), 4);   /* two points, a ring, the legend */
    assert_non_null(strstr(text, "a &lt;b&gt; &amp; c"));
    assert_non_null(strstr(text, "4 steps, best validation loss 2.8750 at step 4"));
    assert_non_null(strstr(text, ">2.875<"));
    free(text);
}

static void odd_rows(void **state)
{
    (void)state;
    assert_null(drawn(""));
    assert_null(drawn("1,nan,1,1,1,\n2,inf,1,1,1,\n"));
    char *text = drawn("1,2.0,1,1,1,\n"); /* one point */
    assert_non_null(text);
    free(text);
    text = drawn("1,2.0,1,1,1,\n2,2.0,1,1,1,\n3,nan,1,1,1,\n4,2.0,1,1"); /* level, a gap, half a row */
    assert_non_null(text);
    assert_non_null(strstr(text, "2 steps, last training loss 2.0000"));
    free(text);
    text = drawn("1,2.0000000000000004,1,1,1,\n2,2.0,1,1,1,\n"); /* neighboring numbers */
    assert_non_null(text);
    free(text);
    text = drawn("5,,,,,1.5\n"); /* validation only */
    assert_non_null(text);
    assert_int_equal(count(text, "<polyline"), 1);
    free(text);
    text = drawn("1,-3,1,1,1,\n2,-4e-9,1,1,1,\n3,1e30,1,1,1,\n");
    assert_non_null(text);
    free(text);
}

static void long_runs_stay_small(void **state)
{
    (void)state;
    enum { STEPS = 100000 };
    char *rows = malloc((size_t)STEPS * 40), *p = rows;
    assert_non_null(rows);
    for (int i = 1; i <= STEPS; i++)
        p += snprintf(p, 40, "%d,%.3f,1,1,1,\n", i, 2 + 1000.0 / (i + 500) + (i % 7) * 0.1);
    char *text = drawn(rows);
    assert_non_null(text);
    assert_true(strlen(text) < 60000);
    assert_non_null(strstr(text, ">100,000</text>"));
    free(text);
    free(rows);
}

/* Columns are found by their names, and rows end where the run continues. */
static void read_back(void **state)
{
    (void)state;
    struct lvn_points train = {0}, val = {0};
    FILE *f = fopen(csv, "w");
    assert_non_null(f);
    fputs("step,val_loss,lr,loss,val_accuracy\n0,9.5,,\n1,,1,4,\n2,,1,3,\n2,3.5,,,0.5\n3,,1,2,\n", f);
    fclose(f);
    assert_int_equal(lvn_curve_read(csv, "loss", "val_loss", 2, &train, &val), LVN_OK);
    assert_int_equal(train.n, 2);
    assert_true(train.p[1].x == 2 && train.p[1].y == 3);
    assert_int_equal(val.n, 2);
    assert_true(val.p[0].x == 0 && val.p[0].y == 9.5 && val.p[1].y == 3.5);
    lvn_points_release(&train);
    lvn_points_release(&val);
    assert_int_equal(lvn_curve_read(csv, "los", "", 2, &train, &val), LVN_OK);
    assert_int_equal(train.n + val.n, 0);
}

static void refused(void **state)
{
    (void)state;
    FILE *f = fopen(csv, "w");
    assert_non_null(f);
    fputs("a,b\n1,2\n", f);
    fclose(f);
    assert_int_equal(draw(9), LVN_FORMAT);
    unlink(csv);
    assert_int_equal(draw(9), LVN_IO);
    struct lvn_points train = {0};
    lvn_points_add(&train, 1, 2);
    assert_int_equal(lvn_curve_write("/nowhere/loss.svg", "x", &train, &train), LVN_IO);
    assert_non_null(strstr(levin_error_trace(), "while drawing the loss curve"));
    lvn_points_release(&train);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_curves), cmocka_unit_test(odd_rows), cmocka_unit_test(long_runs_stay_small),
        cmocka_unit_test(read_back),   cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

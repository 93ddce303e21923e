/* test_report.c - covers: src/run/report/metrics_file.c src/run/report/series.c src/run/report/report_events.c
 * src/run/report/report_run.c src/run/train/run_status.c
 *
 * The reader of reports: thinned series keep every spike, reading continues while files grow, and damaged rows are
 * counted. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files.h"
#include "report/metrics_file.h"
#include "report/report.h"
#include "report/report_events.h"
#include "tmp_folder.h"
#include "train/run_status.h"

static char path[256];

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/levin-report-%d", tmp_folder(), (int)getpid());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static void put_at(const char *file, const char *mode, const char *text)
{
    FILE *f = fopen(file, mode);
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void put(const char *mode, const char *text)
{
    put_at(path, mode, text);
}

/* 100,000 values, one of them a spike: at most LVN_BUCKETS buckets, with the means and the extremes of all values. */
static void test_series(void **state)
{
    (void)state;
    struct lvn_series_list list = {0};
    const int n = 100000;
    for (int i = 1; i <= n; i++) lvn_series_add(&list, "loss", 4, i, i == 31415 ? 99 : i % 2);
    lvn_series_add(&list, "loss", 4, 7, 1); /* a step below the one before */
    lvn_series_add(&list, "loss", 4, n + 1, (double)NAN);
    const struct lvn_series *s = lvn_series_find(&list, "loss");
    assert_non_null(s);
    assert_null(lvn_series_find(&list, "los"));
    assert_int_equal(s->count, n);
    assert_int_equal(list.disorder, 1);
    assert_true(s->n <= LVN_BUCKETS && s->n > LVN_BUCKETS / 2);
    assert_true(s->high == 99 && s->low == 0 && s->last == 0);
    double sum = 0, high = 0;
    for (int i = 0; i < s->n; i++) {
        sum += s->bucket[i].sum;
        high += s->bucket[i].high == 99;
        assert_true(!i || s->bucket[i].x > s->bucket[i - 1].x);
    }
    assert_true(sum == n / 2 + 98 && high == 1);
    assert_true(s->bucket[s->n - 1].x == n);
    lvn_series_release(&list);
}

static void assert_last(const struct lvn_metrics_file *m, const char *name, double value, int64_t count)
{
    const struct lvn_series *s = lvn_series_find(&m->list, name);
    assert_non_null(s);
    assert_true(s->last == value);
    assert_int_equal(s->count, count);
}

/* A file that grows is read further from its last complete row; one that has become shorter is read from the start. */
static void test_rows(void **state)
{
    (void)state;
    struct lvn_metrics_file m = {0};
    put("w", "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2, \"loss\": null, \"name\": \"x\"}\nno\n{\"loss\": "
             "1}\n{\"step\": 3,");
    assert_int_equal(lvn_metrics_file_read(&m, path, false), LVN_OK);
    assert_int_equal(m.rows, 2);
    assert_int_equal(m.broken, 2); /* a line that is not an object, and a row without a step */
    assert_last(&m, "loss", 2.5, 1);
    put("a", " \"loss\": 1.5}\n");
    assert_int_equal(lvn_metrics_file_read(&m, path, false), LVN_OK);
    assert_int_equal(m.rows, 3);
    assert_int_equal(m.last_step, 3);
    assert_last(&m, "loss", 1.5, 2);
    put("w", "{\"step\": 1, \"loss\": 7}\n");
    assert_int_equal(lvn_metrics_file_read(&m, path, false), LVN_OK);
    assert_int_equal(m.rows, 1);
    assert_last(&m, "loss", 7, 1);
    lvn_metrics_file_release(&m);
}

static void test_columns(void **state)
{
    (void)state;
    struct lvn_metrics_file m = {0};
    put("w", "step,loss,\"val loss\"\r\n1,2.5,\r\n2,,0.5\r\nx,1,2\r\n3,1.25,2,4\r\n");
    assert_int_equal(lvn_metrics_file_read(&m, path, true), LVN_OK);
    assert_int_equal(m.rows, 3);
    assert_int_equal(m.broken, 1);
    assert_last(&m, "loss", 1.25, 2);
    assert_last(&m, "val loss", 2, 2);
    lvn_metrics_file_release(&m);
}

/* Lines that are damaged, of another program, or not complete are left out. */
static void test_events(void **state)
{
    (void)state;
    json_t *all;
    int64_t broken;
    put("w", "{\"step\": 0, \"event\": \"start\", \"settings\": [[\"a\", \"1\", \"\", \"recipe\"]]}\n"
             "{\"step\": 4, \"event\": \"resume\", \"settings\": [[\"a\", \"1\", \"\", \"command line\"]]}\n"
             "no\n[1]\n{\"step\": 5, \"event\": \"unknown\"}\n{\"step\": 6, \"event\": \"note\", \"text\": \"cut");
    assert_int_equal(lvn_report_events(path, &all, &broken), LVN_OK);
    assert_int_equal(broken, 2);
    json_t *starts = json_object_get(all, "starts");
    assert_int_equal(json_array_size(starts), 2);
    assert_null(json_object_get(json_array_get(starts, 0), "settings")); /* they stay with the last start */
    const json_t *row = json_array_get(json_object_get(json_array_get(starts, 1), "settings"), 0);
    assert_string_equal(json_string_value(json_array_get(row, 3)), "recipe"); /* where the value came from first */
    assert_null(json_object_get(all, "notes"));
    json_decref(all);
}

/* A status.json that cannot be read for a moment is reported, and its last readable state stays. */
static void test_status(void **state)
{
    (void)state;
    struct lvn_report_run run;
    char file[sizeof path + 16];
    snprintf(file, sizeof file, "%s/status.json", path);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    put_at(file, "w", "{\"state\": \"done\", \"ranks\": []}");
    assert_int_equal(lvn_report_open(&run, path), LVN_OK);
    assert_int_equal(lvn_report_read(&run), LVN_OK);
    assert_string_equal(run.state, "done");
    assert_null(strstr(lvn_text_string(&run.problems), "status.json"));
    put_at(file, "w", "{\"sta");
    assert_int_equal(lvn_report_read(&run), LVN_OK);
    assert_string_equal(run.state, "done");
    assert_non_null(strstr(lvn_text_string(&run.problems), "status.json"));
    lvn_report_release(&run);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(rmdir(path), 0);
}

static enum lvn_staleness staleness(const char *run_state, const char *host, int pid, double silent)
{
    json_t *status = json_pack("{s:s, s:[{s:s, s:i}]}", "state", run_state, "ranks", "host", host, "pid", pid);
    enum lvn_staleness s = lvn_run_staleness(status, silent);
    json_decref(status);
    return s;
}

static void test_staleness(void **state)
{
    (void)state;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    const int self = (int)getpid();
    const pid_t gone = fork();
    if (!gone) _exit(0);
    assert_int_equal(waitpid(gone, NULL, 0), gone);
    assert_int_equal(staleness("running", host, self, 1), LVN_STALE_NOT);
    assert_int_equal(staleness("running", host, self, 60), LVN_STALE_SILENT);
    assert_int_equal(staleness("running", host, (int)gone, 1), LVN_STALE_KILLED);
    assert_int_equal(staleness("running", "elsewhere.invalid", (int)gone, 1), LVN_STALE_NOT); /* not of this host */
    assert_int_equal(staleness("done", host, (int)gone, 60), LVN_STALE_NOT);
    assert_int_equal(lvn_run_staleness(NULL, 60), LVN_STALE_NOT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_series),  cmocka_unit_test(test_rows),
                                       cmocka_unit_test(test_columns), cmocka_unit_test(test_events),
                                       cmocka_unit_test(test_status),  cmocka_unit_test(test_staleness)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* test_process.c - covers: src/app/cli/process.c
 *
 * Running a program with a limit of time.
 * label: user */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

/* The program is no library: the file is compiled in. */
#include "cli/process.c"

static int run(const char *script, double seconds, struct lvn_text *output)
{
    char shell[] = "/bin/sh", option[] = "-c", copy[100];
    strcpy(copy, script);
    return lvn_process_run((char *[]){shell, option, copy, NULL}, seconds, output);
}

static void test_run(void **state)
{
    (void)state;
    struct lvn_text output = {0};
    char none[] = "/nowhere/program";
    assert_int_equal(run("echo to; echo both >&2; exit 3", 60, &output), 3);
    assert_string_equal(lvn_text_string(&output), "to\nboth\n");
    lvn_text_release(&output);
    assert_int_equal(run("kill -TERM $$", 60, NULL), 128 + SIGTERM);
    assert_int_equal(lvn_process_run((char *[]){none, NULL}, 60, NULL), 127);
}

/* It is killed after the limit, whether it has closed its output or not. Otherwise it would end by itself, with 5. */
static void test_limit(void **state)
{
    (void)state;
    assert_int_equal(run("exec >&- 2>&-; exit 4", 60, NULL), 4);
    assert_int_equal(run("sleep 10; exit 5", 0.2, NULL), -2);
    assert_int_equal(run("exec >&- 2>&-; sleep 10; exit 5", 0.2, NULL), -2);
}

/* Where not all pipes can be created, none is left open. */
static void test_pipes(void **state)
{
    (void)state;
    struct rlimit old, small;
    int pipes[3][2], first = open("/dev/null", O_RDONLY), second = open("/dev/null", O_RDONLY);
    close(second);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    small = old;
    small.rlim_cur = (rlim_t)second + 5; /* five more files */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    assert_int_equal(lvn_process_pipes(pipes, 3), LVN_IO);
    assert_non_null(strstr(levin_error_text(), "cannot create a pipe: Too many open files"));
    const int next = open("/dev/null", O_RDONLY);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(next, second);
    assert_int_equal(lvn_process_pipes(pipes, 3), LVN_OK);
    for (int i = 0; i < 3; i++) close(pipes[i][0]), close(pipes[i][1]);
    close(first);
    close(next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_run), cmocka_unit_test(test_limit),
                                       cmocka_unit_test(test_pipes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

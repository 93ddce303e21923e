/* test_progress.c - covers: src/app/cli/progress.c
 *
 * The live line and the plain lines of a run. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The program is no library: its two files are compiled in. */
#include "cli/humanize.c"
#include "cli/progress.c"

static struct lvn_event step_event(void)
{
    return (struct lvn_event){.kind = LVN_EVENT_STEP,
                              .name = "demo",
                              .run_dir = "runs/demo",
                              .unit = "tokens",
                              .max_steps = 2000,
                              .step = 150,
                              .scalar = {{"loss", LVN_EVENT_STEP, LVN_BETTER_LOWER, .value = 2.34567},
                                         {"lr", LVN_EVENT_STEP, LVN_BETTER_UNKNOWN, .value = 1e-3},
                                         {"tokens_per_s", LVN_EVENT_STEP, LVN_BETTER_HIGHER, .value = 45678},
                                         {"val_loss", LVN_EVENT_VALIDATION, LVN_BETTER_LOWER, .value = 2.5}},
                              .n_scalars = 4,
                              .utilization = 0.81,
                              .elapsed_s = 10,
                              .eta_s = 3725,
                              .memory_bytes = 60 << 20,
                              .best_val_loss = 2.5,
                              .start_val_loss = NAN};
}
enum { VAL_LOSS = 3 };

static void fits_every_width(void **state)
{
    (void)state;
    struct lvn_progress p = {.total = 2000, .rate = NAN};
    struct lvn_event e = step_event();
    char text[LVN_PROGRESS_TEXT];
    lvn_progress_line(&p, &e, 0, text);
    assert_string_equal(text,
                        "step  150/2000  loss 2.3457  val 2.5000  lr 1.00e-03  45,678 tokens/s  81% of peak  60 MiB"
                        "  ETA 1:02:05");
    for (int columns = 1; columns < 130; columns++) {
        int n = lvn_progress_line(&p, &e, columns, text);
        assert_true(n <= columns && (int)strlen(text) == n);
    }
    lvn_progress_line(&p, &e, 60, text);
    assert_string_equal(text, "step  150/2000  loss 2.3457  val 2.5000  45,678 tokens/s");
    lvn_progress_line(&p, &e, 20, text);
    assert_string_equal(text, "step  150/2000");
    e.eta_s = e.scalar[VAL_LOSS].value = e.utilization = NAN;
    e.memory_bytes = 0;
    p.total = 0;
    lvn_progress_line(&p, &e, 0, text);
    assert_string_equal(text, "step 150  loss 2.3457  lr 1.00e-03  45,678 tokens/s");
    e.kind = LVN_EVENT_VALIDATING;
    e.val_batch = 40;
    e.val_batches = 145;
    lvn_progress_line(&p, &e, 40, text);
    assert_string_equal(text, "step 150  validating 40/145  loss 2.3457");
}

/* What the listener writes for these events; to be freed. */
static char *written(bool live, const struct lvn_event *events, int n)
{
    char *text = calloc(1, 4096);
    FILE *f = text ? fmemopen(text, 4095, "w") : NULL;
    assert_non_null(f);
    struct lvn_progress p = {.out = f, .live = live, .columns = 50, .every = 10, .drawn = -1, .rate = NAN};
    for (int i = 0; i < n; i++) lvn_progress_handle(&p, &events[i]);
    fclose(f);
    return text;
}

static void plain_lines(void **state)
{
    (void)state;
    struct lvn_event e[5];
    for (int i = 0; i < 5; i++) e[i] = step_event();
    e[0].step = 9;
    e[1].step = 10;
    e[2].step = 11;
    e[3].kind = LVN_EVENT_VALIDATION;
    e[3].best = 1;
    e[4].kind = LVN_EVENT_NOTE;
    e[4].text = "the disk is full";
    char *text = written(false, e, 5);
    assert_non_null(strstr(text, "step 10  loss"));
    assert_null(strstr(text, "step 9 "));
    assert_null(strstr(text, "step 11 "));
    assert_non_null(strstr(text, "step 150: validation loss 2.5000, the best so far\n"));
    assert_non_null(strstr(text, "warning: the disk is full\n"));
    assert_null(strchr(text, '\r'));
    assert_null(strchr(text, '\033'));
    free(text);
    e[0].kind = e[1].kind = LVN_EVENT_VALIDATION;
    e[0].step = 0;
    e[1].start_val_loss = 2.25;
    text = written(false, e, 2);
    assert_non_null(strstr(text, "before the first step: validation loss 2.5000\n"));
    assert_non_null(strstr(text, "step 10: validation loss 2.5000, worse than 2.2500 before the first step\n"));
    free(text);
}

/* The lines of a day whose steps take a second: a line every ten seconds at first, then rarer, at most ten minutes
 * apart; of slower steps each has its line. */
static void plain_lines_by_time(void **state)
{
    (void)state;
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    assert_non_null(f);
    struct lvn_progress p = {.out = f, .every = LVN_LOG_BY_TIME, .drawn = -1, .rate = NAN};
    struct lvn_event e = step_event();
    const int day = 86400;
    int lines = 0, after_minutes = 0;
    double last = 0, longest = 0;
    for (int i = 1; i <= day; i++) {
        double before = p.printed;
        e.step = e.elapsed_s = i;
        lvn_progress_handle(&p, &e);
        if (p.printed == before) continue;
        lines++;
        if (i <= 600) after_minutes++;
        if (i > 1) assert_true(i - last >= 10);
        longest = fmax(longest, i - last);
        last = i;
    }
    assert_int_equal(after_minutes, 60); /* step 1, and 11, 21 ... 591 */
    assert_in_range(lines, 350, 450);
    assert_true(longest == 600);
    for (int i = 1; i <= 3; i++) {
        e.step = day + i;
        e.elapsed_s = day + 700 * i;
        lvn_progress_handle(&p, &e);
        assert_true(p.printed == e.elapsed_s);
    }
    fclose(f);
    assert_non_null(strstr(text, "step 1  loss"));
    assert_null(strstr(text, "step 10  loss"));
    assert_non_null(strstr(text, "step 11  loss"));
    free(text);
    struct lvn_progress none = {.out = stderr, .every = 0, .drawn = -1, .rate = NAN};
    lvn_progress_handle(&none, &e);
    assert_true(none.printed == 0);
}

static void live_line(void **state)
{
    (void)state;
    struct lvn_event e[4];
    for (int i = 0; i < 4; i++) e[i] = step_event();
    e[0].step = 1;
    e[1].step = 2;
    e[1].elapsed_s = 10.05; /* too soon */
    e[2].step = 3;
    e[2].elapsed_s = 10.2;
    e[3].kind = LVN_EVENT_END;
    e[3].text = "all steps are done";
    char *text = written(true, e, 4);
    assert_non_null(strstr(text, "\rstep 1 "));
    assert_null(strstr(text, "step 2 "));
    assert_non_null(strstr(text, "\rstep 3 "));
    assert_non_null(strstr(text, "\033[K"));
    const char *end = strstr(text, "\r\033[Kall steps are done; ended at step"); /* the live line is gone */
    assert_non_null(end);
    assert_int_equal(end[strlen(end) - 1], '\n');
    free(text);
}

/* A terminal that has become narrower has wrapped the live line, whose lines are erased if it is known to wrap again.
 */
static void narrower(void **state)
{
    (void)state;
    struct lvn_event e = step_event();
    for (int rewraps = 0; rewraps < 2; rewraps++) {
        char *text;
        size_t n;
        FILE *f = open_memstream(&text, &n);
        assert_non_null(f);
        struct lvn_progress p = {
            .out = f, .live = true, .rewraps = rewraps, .columns = 60, .every = 10, .drawn = -1, .rate = NAN};
        lvn_progress_handle(&p, &e);
        assert_true(p.length > 40 && p.length < 60);
        p.columns = 20; /* two more lines */
        lvn_progress_clear(&p);
        fclose(f);
        assert_int_equal(strstr(text, "\033[2A\r\033[J") != NULL, rewraps);
        free(text);
    }
}

/* A checkpoint is reported when it is saved, some steps after the one that it holds. */
static void live_line_does_not_go_back(void **state)
{
    (void)state;
    struct lvn_event e[2] = {step_event(), step_event()};
    e[1].kind = LVN_EVENT_CHECKPOINT;
    e[1].step = 140;
    e[1].elapsed_s = 20;
    e[1].text = "runs/demo/checkpoints/step-140";
    char *text = written(true, e, 2);
    assert_non_null(strstr(text, "\rstep 150"));
    assert_null(strstr(text, "140"));
    free(text);
    text = written(false, e, 2);
    assert_non_null(strstr(text, "\nsaved runs/demo/checkpoints/step-140\n"));
    free(text);
}

/* Units are those of the task, and memory is that of a rank. */
static void units(void **state)
{
    (void)state;
    struct lvn_progress p = {.rate = NAN};
    struct lvn_event e[2] = {step_event(), step_event()};
    char text[LVN_PROGRESS_TEXT];
    e[0].unit = "samples";
    e[0].ranks = 4;
    lvn_progress_line(&p, &e[0], 0, text);
    assert_non_null(strstr(text, "45,678 samples/s"));
    assert_non_null(strstr(text, "60 MiB a rank"));
    e[1].kind = LVN_EVENT_START;
    e[1].unit = "samples";
    e[1].batch_size = 64;
    e[1].block_size = 1;
    char *all = written(false, &e[1], 1);
    assert_non_null(strstr(all, "batch: 64 samples, as"));
    free(all);
}

/* Times of 1e15 seconds and more are unknown, not zero. */
static void seconds(void **state)
{
    (void)state;
    char text[LVN_NUMBER_TEXT];
    assert_string_equal(lvn_seconds_text(0, text), "0.0 s");
    assert_string_equal(lvn_seconds_text(0.00612, text), "6.1 ms");
    assert_string_equal(lvn_seconds_text(0.0612, text), "61 ms");
    assert_string_equal(lvn_seconds_text(90061, text), "1 d 1 h");
    assert_string_equal(lvn_seconds_text(1e15, text), "?");
    assert_string_equal(lvn_seconds_text(HUGE_VAL, text), "?");
    assert_string_equal(lvn_seconds_text(NAN, text), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_every_width),
        cmocka_unit_test(plain_lines),
        cmocka_unit_test(plain_lines_by_time),
        cmocka_unit_test(live_line),
        cmocka_unit_test(narrower),
        cmocka_unit_test(live_line_does_not_go_back),
        cmocka_unit_test(units),
        cmocka_unit_test(seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

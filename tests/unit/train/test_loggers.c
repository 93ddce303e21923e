/* test_loggers.c - covers: src/run/train/callbacks/rows.c src/run/train/callbacks/train_metrics.c
 *
 * Files of rows: what is written of which events, what a resumed run keeps, and nothing lost to signals or short
 * writes; when the loss curve is drawn; and sums of losses that continue. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files.h"
#include "train/callbacks/rows.h"

/* The program's own write() stands in for a system that interrupts, and takes seven bytes at a time; or that has no
 * room behind `room` bytes. */
static int calls;
static int64_t capacity = INT64_MAX;
ssize_t write(int fd, const void *p, size_t n)
{
    if (fd <= 2) return syscall(SYS_write, fd, p, n);
    if (++calls % 3 == 1) {
        errno = EINTR;
        return -1;
    }
    if (capacity <= 0) {
        errno = ENOSPC;
        return -1;
    }
    if (n > 7) n = 7;
    if ((int64_t)n > capacity) n = (size_t)capacity;
    capacity -= (int64_t)n;
    return syscall(SYS_write, fd, p, n);
}

extern const struct lvn_callback lvn_callback_csv, lvn_callback_jsonl, lvn_callback_curve, lvn_callback_train_metrics;

static char folder[64];
static struct lvn_run_dir dir = {.path = folder};
static struct lvn_ranks ranks = {.size = 1};
static char notes[400];

static void listen(void *context, const struct lvn_event *e)
{
    (void)context;
    if (e->kind == LVN_EVENT_NOTE) snprintf(notes + strlen(notes), sizeof notes - strlen(notes), "%s\n", e->text);
}
static const struct lvn_listener listener = {.handle = listen};

static struct lvn_callback_context moment(int64_t resumed_at)
{
    struct lvn_callback_context m = {
        .ranks = &ranks, .dir = &dir, .resumed_step = resumed_at, .listeners = &listener, .n_listeners = 1};
    m.event.n_scalars = 3;
    m.event.scalar[0] = (struct lvn_scalar){"loss", LVN_EVENT_STEP, LVN_BETTER_LOWER, .value = NAN};
    m.event.scalar[1] = (struct lvn_scalar){"val_loss", LVN_EVENT_VALIDATION, LVN_BETTER_LOWER, .value = NAN};
    m.event.scalar[2] = (struct lvn_scalar){"val_f1", LVN_EVENT_VALIDATION, LVN_BETTER_HIGHER, .value = 0.25};
    return m;
}

static void call(const struct lvn_callback *is, void *own, struct lvn_callback_context *m, enum lvn_event_kind kind,
                 int64_t step, double value)
{
    m->event.kind = kind;
    m->event.step = step;
    m->event.scalar[kind == LVN_EVENT_VALIDATION].value = value;
    assert_int_equal(is->call(own, m), LVN_OK);
}

/* A run of the given steps, each with a loss, validated at every second one. */
static void run(const struct lvn_callback *is, struct lvn_callback_context *m, int64_t from, int64_t to)
{
    void *own = calloc(1, (size_t)is->bytes);
    assert_non_null(own);
    call(is, own, m, LVN_EVENT_START, from, NAN);
    for (int64_t i = from + 1; i <= to; i++) {
        call(is, own, m, LVN_EVENT_STEP, i, i == 3 ? NAN : (double)i / 8);
        if (i % 2 == 0) call(is, own, m, LVN_EVENT_VALIDATION, i, (double)i + 0.5);
        call(is, own, m, LVN_EVENT_EPOCH, i, NAN);
    }
    is->close(own);
    free(own);
}

static void holds(const char *name, const char *expected)
{
    char path[128], *text;
    int64_t bytes;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(lvn_file_read(path, 0, &text, &bytes), LVN_OK);
    assert_string_equal(text, expected);
    free(text);
}

static void put(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(lvn_file_write(path, text, (int64_t)strlen(text)), LVN_OK);
}

static void rows_of_what_comes(void **state)
{
    (void)state;
    struct lvn_callback_context m = moment(-1);
    put("metrics.csv", "of another run\n");
    run(&lvn_callback_csv, &m, 0, 3);
    holds("metrics.csv", "step,loss,val_loss,val_f1\n1,0.125,,\n2,0.25,,\n2,,2.5,0.25\n3,,,\n");
    run(&lvn_callback_jsonl, &m, 0, 3);
    holds("metrics.jsonl", "{\"step\": 1, \"loss\": 0.125}\n{\"step\": 2, \"loss\": 0.25}\n"
                           "{\"step\": 2, \"val_loss\": 2.5, \"val_f1\": 0.25}\n{\"step\": 3, \"loss\": null}\n");
    assert_string_equal(notes, "");
}

/* Steps that are made again are written again; half a row goes; the columns of an older file stay. */
static void resumes(void **state)
{
    (void)state;
    struct lvn_callback_context m = moment(2);
    put("metrics.csv", "step,loss,gone,val_loss\n0,,,9\n1,4,5,\n2,3,5,\n2,,,7\n3,2,5,\n4,1");
    run(&lvn_callback_csv, &m, 2, 4);
    holds("metrics.csv",
          "step,loss,gone,val_loss,val_f1\n0,,,9,\n1,4,5,,\n2,3,5,,\n2,,,7,\n3,,,,\n4,0.5,,,\n4,,,4.5,0.25\n");
    run(&lvn_callback_csv, &m, 2, 3); /* its own file again: nothing is added */
    holds("metrics.csv", "step,loss,gone,val_loss,val_f1\n0,,,9,\n1,4,5,,\n2,3,5,,\n2,,,7,\n3,,,,\n");
    void *own = calloc(1, (size_t)lvn_callback_csv.bytes);
    assert_non_null(own);
    call(&lvn_callback_csv, own, &m, LVN_EVENT_START, 2, NAN);
    for (int i = 0; i < 2; i++) call(&lvn_callback_csv, own, &m, LVN_EVENT_VALIDATION, 2, 8); /* made again */
    lvn_callback_csv.close(own);
    free(own);
    holds("metrics.csv", "step,loss,gone,val_loss,val_f1\n0,,,9,\n1,4,5,,\n2,3,5,,\n2,,,7,\n2,,,8,0.25\n");
    put("metrics.jsonl", "{\"step\": 2, \"loss\": 1}\n{\"step\": 3, \"lo");
    run(&lvn_callback_jsonl, &m, 2, 3);
    holds("metrics.jsonl", "{\"step\": 2, \"loss\": 1}\n{\"step\": 3, \"loss\": null}\n");
}

static void add(struct lvn_rows *r, struct lvn_callback_context *m, const char *row)
{
    lvn_text_add(lvn_rows_begin(r), row);
    lvn_rows_end(r, m);
}

/* Half a row is removed, which is reported once, and rows continue when there is space again. */
static void full_disk(void **state)
{
    (void)state;
    struct lvn_callback_context m = moment(-1);
    struct lvn_rows r;
    assert_int_equal(lvn_rows_open(&r, &m, "rows", ""), LVN_OK);
    capacity = 10;
    ranks.agreed = true;
    add(&r, &m, "1,first");
    add(&r, &m, "2,second");
    add(&r, &m, "3,third");
    capacity = INT64_MAX;
    add(&r, &m, "4,fourth");
    lvn_rows_close(&r);
    holds("rows", "1,first\n4,fourth\n");
    assert_false(ranks.agreed); /* the next failure may be that of one rank */
    assert_string_equal(notes, "rows could not be written: No space left on device; the run continues\n");
}

static void curve_of(int steps)
{
    char path[128], expected[64], *text;
    int64_t bytes;
    snprintf(path, sizeof path, "%s/loss.svg", folder);
    snprintf(expected, sizeof expected, ">%d steps, last training loss", steps);
    assert_int_equal(lvn_file_read(path, 0, &text, &bytes), LVN_OK);
    if (!strstr(text, expected)) fail_msg("no '%s' in %s", expected, text);
    free(text);
}

/* A checkpoint that follows at once waits for its drawing: until the end, or, where the run fails, until it closes. */
static void curves_in_time(void **state)
{
    (void)state;
    struct levin_settings settings = {.values.name = "a run"};
    for (int fails = 0; fails < 2; fails++) {
        struct lvn_callback_context m = moment(-1);
        void *own = calloc(1, (size_t)lvn_callback_curve.bytes);
        m.settings = &settings;
        call(&lvn_callback_curve, own, &m, LVN_EVENT_START, 0, NAN);
        for (int step = 1; step <= 3; step++) {
            call(&lvn_callback_curve, own, &m, LVN_EVENT_STEP, step, 1.0 / step);
            call(&lvn_callback_curve, own, &m, LVN_EVENT_CHECKPOINT, step, NAN);
            curve_of(1);
        }
        if (!fails) call(&lvn_callback_curve, own, &m, LVN_EVENT_END, 3, NAN);
        if (!fails) curve_of(3);
        lvn_callback_curve.close(own);
        curve_of(3);
        free(own);
    }
}

/* train_loss of a run that continues after steps with these sums of losses, over 8 labels each. */
static double continued_loss(double first, double second)
{
    const struct lvn_callback *is = &lvn_callback_train_metrics;
    const struct lvn_task_graph task = {0};
    struct lvn_callback_context m = {.task = &task, .loss_sum = first, .labels = 8};
    void *before = calloc(1, (size_t)is->bytes), *after = calloc(1, (size_t)is->bytes);
    json_t *json = json_object();
    assert_true(before && after && json);
    m.event.scalar[0].kind = LVN_EVENT_VALIDATION;
    m.event.kind = LVN_EVENT_STEP;
    assert_int_equal(is->open(before, &m) | is->open(after, &m), LVN_OK);
    assert_int_equal(is->call(before, &m), LVN_OK);
    m.loss_sum = second;
    assert_int_equal(is->call(before, &m), LVN_OK);
    is->save(before, json);
    assert_int_equal(is->load(after, &m, json), LVN_OK);
    m.event.kind = LVN_EVENT_VALIDATION;
    assert_int_equal(is->call(after, &m), LVN_OK);
    json_decref(json);
    is->close(before), is->close(after);
    free(before), free(after);
    return m.event.scalar[0].value;
}

static void sums_that_continue(void **state)
{
    (void)state;
    assert_true(continued_loss(24, 8) == 2);
    assert_true(continued_loss(NAN, 24) == 3 && continued_loss(24, INFINITY) == 3); /* skipped by 16-mixed */
    assert_true(isnan(continued_loss(NAN, INFINITY)));
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/levin-loggers-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    return lvn_tree_remove(folder) == LVN_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_what_comes), cmocka_unit_test(resumes),
        cmocka_unit_test(full_disk),          cmocka_unit_test(curves_in_time),
        cmocka_unit_test(sums_that_continue),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* test_tensorboard.c - covers: src/files/formats/tensorboard_events.c src/files/formats/crc.c
 *
 * Files of events: the records' frames and checksums, and what is in them. tests/cli reads them with TensorBoard
 * itself where that is installed. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files.h"
#include "faults.h"
#include "formats/crc.h"
#include "formats/tensorboard_events.h"
#include "tmp_folder.h"

static char dir[256];

static int set_up(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "%s/levin-events-%d", tmp_folder(), (int)getpid());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lvn_tree_drop(dir);
    return 0;
}

/* The only file in the folder. */
static char *contents(int64_t *bytes)
{
    struct lvn_arena a;
    const char *const *names;
    char path[512], *text;
    int n;
    lvn_arena_init(&a);
    assert_int_equal(lvn_dir_list(&a, dir, &names, &n), LVN_OK);
    assert_int_equal(n, 1);
    assert_int_equal(strncmp(names[0], "events.out.tfevents.1700000000.", 31), 0);
    snprintf(path, sizeof path, "%s/%s", dir, names[0]);
    lvn_arena_release(&a);
    assert_int_equal(lvn_file_read(path, 0, &text, bytes), LVN_OK);
    return text;
}

/* Bytes of all files in the folder. */
static int64_t total(void)
{
    LVN_LOCAL_ARENA(a);
    const char *const *names;
    char *text;
    int64_t bytes, sum = 0;
    int n;
    assert_int_equal(lvn_dir_list(&a, dir, &names, &n), LVN_OK);
    for (int i = 0; i < n; i++) {
        assert_int_equal(lvn_file_read(lvn_path_join(&a, dir, names[i]), 0, &text, &bytes), LVN_OK);
        sum += bytes;
        free(text);
    }
    return sum;
}

static uint32_t word(const char *p)
{
    uint32_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

static uint32_t masked(const char *p, int64_t n)
{
    uint32_t sum = lvn_crc32c(0, p, n);
    return ((sum >> 15) | (sum << 17)) + 0xa282ead8u;
}

/* The bytes of the record at *at, whose length and checksums are verified; advances *at past it. */
static const char *record(const char *text, int64_t bytes, int64_t *at, int64_t *n)
{
    const char *p = text + *at;
    assert_true(*at + 16 <= bytes);
    *n = word(p);
    assert_int_equal(word(p + 4), 0);
    assert_int_equal(word(p + 8), masked(p, 8));
    assert_true(*at + 16 + *n <= bytes);
    assert_int_equal(word(p + 12 + *n), masked(p + 12, *n));
    *at += 16 + *n;
    return p + 12;
}

static void test_events(void **state)
{
    (void)state;
    struct lvn_tensorboard t;
    assert_int_equal(lvn_tensorboard_open(&t, dir, 1700000000.0, 0), LVN_OK);
    lvn_tensorboard_scalar(&t, "loss", 2.5);
    lvn_tensorboard_scalar(&t, "lr", 1.0);
    assert_int_equal(lvn_tensorboard_event(&t, 1700000001.5, 300, NULL), LVN_OK);
    assert_int_equal(lvn_tensorboard_event(&t, 1700000001.5, 301, NULL), LVN_OK); /* nothing happened */
    lvn_tensorboard_close(&t);
    int64_t bytes, at = 0, n;
    char *text = contents(&bytes);
    const char *p = record(text, bytes, &at, &n);
    assert_memory_equal(p + n - 15,
                        "\x1a\x0d"
                        "brain.Event:2",
                        15);
    p = record(text, bytes, &at, &n);
    /* wall_time 1700000001.5; step 300; summary of loss 2.5f and lr 1f */
    const char expected[] = "\x09\x00\x00\x60\x40\xfc\x54\xd9\x41"
                            "\x10\xac\x02"
                            "\x2a\x18\x0a\x0b\x0a\x04loss\x15\x00\x00\x20\x40"
                            "\x0a\x09\x0a\x02lr\x15\x00\x00\x80\x3f";
    assert_int_equal(n, sizeof expected - 1);
    assert_memory_equal(p, expected, sizeof expected - 1);
    assert_int_equal(at, bytes);
    free(text);
}

static void test_a_resumed_run_names_its_step(void **state)
{
    (void)state;
    struct lvn_tensorboard t;
    assert_int_equal(lvn_tensorboard_open(&t, dir, 1700000000.0, 7), LVN_OK);
    lvn_tensorboard_close(&t);
    int64_t bytes, at = 0, n;
    char *text = contents(&bytes);
    record(text, bytes, &at, &n);
    const char *p = record(text, bytes, &at, &n);
    assert_memory_equal(p + 9,
                        "\x10\x07"
                        "\x3a\x02\x08\x01",
                        6); /* step 7; session_log {status START} */
    assert_int_equal(at, bytes);
    free(text);
}

static void test_a_full_disk_leaves_no_part_of_an_event(void **state)
{
    (void)state;
    struct lvn_tensorboard t;
    int64_t before, after, at = 0, n;
    assert_int_equal(lvn_tensorboard_open(&t, dir, 1700000000.0, 0), LVN_OK);
    free(contents(&before));
    lvn_tensorboard_scalar(&t, "loss", 1.0);
    fault_files_at(1, false);
    assert_true(lvn_tensorboard_event(&t, 1700000001.0, 1, NULL) == LVN_IO || lvn_tensorboard_flush(&t) == LVN_IO);
    fault_files_at(0, false);
    lvn_error_clear();
    free(contents(&after));
    assert_int_equal(before, after);
    lvn_tensorboard_scalar(&t, "loss", 1.0);
    assert_int_equal(lvn_tensorboard_event(&t, 1700000002.0, 2, NULL), LVN_OK);
    lvn_tensorboard_close(&t);
    char *text = contents(&after);
    record(text, after, &at, &n);
    record(text, after, &at, &n);
    assert_int_equal(at, after);
    free(text);
}

/* The validation of the step at which a run resumes is made again: its event is in one file, unless the value differs.
 */
static void test_an_event_of_an_earlier_file_is_not_written_again(void **state)
{
    (void)state;
    struct lvn_tensorboard t;
    const double value[] = {2, 2, 3};
    int64_t bytes[3];
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lvn_tensorboard_open(&t, dir, 1700000000.0 + i, 0), LVN_OK);
        lvn_tensorboard_scalar(&t, "val_loss", value[i]);
        assert_int_equal(lvn_tensorboard_event(&t, 1700000001.0 + i, 5, i ? dir : NULL), LVN_OK);
        lvn_tensorboard_close(&t);
        bytes[i] = total();
    }
    const int64_t file = bytes[1] - bytes[0]; /* without the event */
    assert_true(file > 0 && file < bytes[0]);
    assert_int_equal(bytes[2] - bytes[1], bytes[0]);
}

/* Three writers, within a second and with a clock that is behind: the names of their files are in the order of writing.
 */
static void test_names_are_in_the_order_of_writing(void **state)
{
    (void)state;
    static const double time[] = {1700000000.2, 1700000000.9, 1699999990.0};
    static const char *const expected[] = {"events.out.tfevents.1700000000.", "events.out.tfevents.1700000001.",
                                           "events.out.tfevents.1700000002."};
    struct lvn_tensorboard t;
    struct lvn_arena a;
    const char *const *names;
    int n;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lvn_tensorboard_open(&t, dir, time[i], i), LVN_OK);
        lvn_tensorboard_close(&t);
    }
    lvn_arena_init(&a);
    assert_int_equal(lvn_dir_list(&a, dir, &names, &n), LVN_OK);
    assert_int_equal(n, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(strncmp(names[i], expected[i], strlen(expected[i])), 0);
    lvn_arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_events, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_resumed_run_names_its_step, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_full_disk_leaves_no_part_of_an_event, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_event_of_an_earlier_file_is_not_written_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names_are_in_the_order_of_writing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

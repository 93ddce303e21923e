/* io_test.h - shared by the tests of files: a fresh directory, and checks of error sentences. */
#ifndef LVN_IO_TEST_H
#define LVN_IO_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/status.h"

#define ASSERT_OK(call)                                                                                                \
    do {                                                                                                               \
        enum lvn_status assert_status_ = (call);                                                                       \
        if (assert_status_ != LVN_OK) fail_msg("%s: %s", #call, levin_error_text());                                   \
    } while (0)
/* The call fails with this status and a sentence that contains `words`. */
#define ASSERT_FAILS(expected, words, call)                                                                            \
    do {                                                                                                               \
        lvn_error_clear();                                                                                             \
        enum lvn_status assert_status_ = (call);                                                                       \
        if (assert_status_ != LVN_##expected || !strstr(levin_error_text(), words))                                    \
            fail_msg("%s: status %s, sentence '%s', expected '%s'", #call, lvn_status_text(assert_status_),            \
                     levin_error_text(), words);                                                                       \
    } while (0)

static char test_dir[256];
static char test_path_text[64][512];

/* "DIR/name"; valid for the next 63 calls. */
static inline const char *test_path(const char *name)
{
    static int turn;
    char *text = test_path_text[turn++ % 64];
    snprintf(text, sizeof test_path_text[0], "%s/%s", test_dir, name);
    return text;
}

static inline void test_put(const char *name, const void *data, int64_t bytes)
{
    FILE *f = fopen(test_path(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, (size_t)bytes, f), bytes);
    fclose(f);
}

static inline int test_dir_make(void **state)
{
    (void)state;
    const char *top = getenv("TMPDIR");
    /* In /dev/shm if it exists: thousands of fsyncs take minutes on a busy disk. */
    if (!top || !*top) top = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(test_dir, sizeof test_dir, "%s/lvn-test-XXXXXX", top);
    return mkdtemp(test_dir) ? 0 : -1;
}

static inline int test_dir_drop(void **state)
{
    (void)state;
    return lvn_tree_remove(test_dir) == LVN_OK ? 0 : -1;
}

#endif

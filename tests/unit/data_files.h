/* data_files.h - what the tests of data sets share: files of text and of tokens, and data sets over them. */
#ifndef LVN_DATA_FILES_H
#define LVN_DATA_FILES_H

#include "io_test.h"

#include "data/loader.h"

static inline const char *write_file(const char *name, const void *data, size_t bytes)
{
    test_put(name, data, (int64_t)bytes);
    return test_path(name);
}

static inline const char *write_text(const char *name, const char *text)
{
    return write_file(name, text, strlen(text));
}

/* Ids 0, 1, 2, ... so that an id says where it stood. */
static inline const char *write_counting(const char *name, int n)
{
    uint16_t ids[4096];
    assert_true(n <= 4096);
    for (int i = 0; i < n; i++) ids[i] = (uint16_t)i;
    return write_file(name, ids, (size_t)n * 2);
}

static inline struct lvn_dataset *open_data(struct lvn_data_options o)
{
    struct lvn_dataset *d = NULL;
    if (lvn_dataset_open(&d, &o) != LVN_OK) fail_msg("%s", lvn_error_text());
    return d;
}

#define assert_refused(wanted, text, ...)                                                                              \
    do {                                                                                                               \
        struct lvn_dataset *d_ = NULL;                                                                                 \
        assert_int_equal(lvn_dataset_open(&d_, &(struct lvn_data_options){__VA_ARGS__}), wanted);                      \
        assert_null(d_);                                                                                               \
        if (!strstr(lvn_error_text(), text)) fail_msg("'%s' is not in: %s", text, lvn_error_text());                   \
    } while (0)

#endif

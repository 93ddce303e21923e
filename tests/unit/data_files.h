/* data_files.h - shared by the tests of data sets: files of text and of tokens, and data sets over them. */
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

/* Ids 0, 1, 2, ...: an id is its position. */
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
    if (lvn_dataset_open(&d, &o) != LVN_OK) fail_msg("%s", levin_error_text());
    return d;
}

/* A stream's samples have T tokens from here on. */
static inline void set_length(struct lvn_dataset *d, int64_t T)
{
    d->fields = lvn_stream_fields(T, d->id_limit);
}

/* The sample at position `at`, of T tokens. */
static inline enum lvn_status read_sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t at, int64_t T,
                                          int32_t *ids, int32_t *labels)
{
    struct lvn_dataset copy = *d;
    set_length(&copy, T);
    return lvn_dataset_sample(&copy, split, at, (struct lvn_draw){.length = T}, (void *[]){ids, labels});
}

/* Rows [first, first + n) of a step. */
static inline enum lvn_status read_batch(const struct lvn_loader *l, int64_t step, int64_t first, int64_t n,
                                         int32_t *ids, int32_t *labels)
{
    struct lvn_samples b = {.fields = l->data->fields, .rows = n, .p = {ids, labels}};
    return lvn_loader_batch(l, step, first, &b);
}

/* Rows of evaluation batch i, and the number of the sample of each row; -1: the row only fills the batch. */
static inline enum lvn_status read_eval_batch(const struct lvn_loader *l, int64_t limit, int64_t i, int64_t first,
                                              int64_t n, int32_t *ids, int32_t *labels, int64_t *number)
{
    struct lvn_samples b = {.fields = l->data->fields, .rows = n, .p = {ids, labels}};
    int64_t at;
    enum lvn_status status = lvn_loader_eval_batch(l, limit, i, first, &b, &at);
    for (int64_t r = 0; r < n && number; r++) number[r] = r < b.n_valid ? at + r : -1;
    return status;
}

static inline int64_t count_labels(const int32_t *labels, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) count += labels[i] >= 0;
    return count;
}

#define assert_refused(expected, text, ...)                                                                            \
    do {                                                                                                               \
        struct lvn_dataset *d_ = NULL;                                                                                 \
        assert_int_equal(lvn_dataset_open(&d_, &(struct lvn_data_options){__VA_ARGS__}), expected);                    \
        assert_null(d_);                                                                                               \
        if (!strstr(levin_error_text(), text)) fail_msg("'%s' is not in: %s", text, levin_error_text());               \
    } while (0)

#endif

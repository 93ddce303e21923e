/* test_lengths.c - covers: src/text/data/loader.c src/text/data/dataset.c
 *
 * Samples of different lengths: planned lengths, and batches of samples of similar length. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "data/loader.h"

enum { LONGEST = 100, SAMPLES = 96, ROWS = 8 };

static int64_t length_of(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i)
{
    (void)d;
    (void)split;
    return 1 + lvn_random_below(7, 1, (uint64_t)i, LONGEST);
}

/* Sample i holds the number i, length times. */
static enum lvn_status sample(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i, struct lvn_draw draw,
                              void *const *out)
{
    int32_t *ids = out[0], *length = out[1];
    *length = (int32_t)length_of(d, split, i);
    if (*length > draw.length) LVN_FAIL(INTERNAL, "sample %lld is cut", (long long)i);
    for (int64_t t = 0; t < draw.length; t++) ids[t] = t < *length ? (int32_t)i + 1 : 0;
    return LVN_OK;
}

static void fields(const struct lvn_data_options *o, struct lvn_fields *out)
{
    (void)o;
    *out = (struct lvn_fields){.field = {{.name = "ids", .dtype = LVN_I32, .rank = 1, .dim = {LONGEST}, .ragged = true},
                                         {.name = "length", .dtype = LVN_I32}},
                               .n = 2};
}

static const struct lvn_dataset_kind ragged = {
    .name = "ragged", .fields = fields, .sample = sample, .length = length_of};

static void open_ragged(struct lvn_dataset *d, int64_t samples)
{
    *d = (struct lvn_dataset){.kind = &ragged};
    fields(NULL, &d->fields);
    d->split[LVN_SPLIT_TRAIN].n_samples = samples;
    assert_int_equal(lvn_dataset_sort(d), LVN_OK);
}

static void planned(void **state)
{
    static const int64_t expected[] = {8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 150};
    struct lvn_fields f = {.field = {{.name = "ids", .dtype = LVN_I32, .rank = 1, .dim = {150}, .ragged = true}},
                           .n = 1};
    int64_t length[LVN_LENGTHS];
    (void)state;
    assert_int_equal(lvn_fields_lengths(&f, length), sizeof expected / sizeof *expected);
    assert_memory_equal(length, expected, sizeof expected);
    assert_int_equal(length[lvn_length_find(length, 13, 1)], 8);
    assert_int_equal(length[lvn_length_find(length, 13, 8)], 8);
    assert_int_equal(length[lvn_length_find(length, 13, 9)], 16);
    assert_int_equal(length[lvn_length_find(length, 13, 129)], 150);
    f.field[0].dim[0] = 5;
    assert_int_equal(lvn_fields_lengths(&f, length), 1);
    assert_int_equal(length[0], 5);
    f.field[0].dim[0] = (int64_t)1 << 20;
    int n = lvn_fields_lengths(&f, length);
    assert_int_equal(length[n - 1], (int64_t)1 << 20);
    f.field[0].ragged = false;
    assert_int_equal(lvn_fields_lengths(&f, length), 0);
}

/* How often each sample comes in an epoch; every batch must be as long as its longest sample wants, and the same for
 * every way to share its rows. */
static int64_t count_epoch(const struct lvn_loader *l, int64_t epoch, int *seen)
{
    struct lvn_samples b, part;
    int64_t tokens = 0;
    assert_int_equal(lvn_samples_init(&b, &l->data->fields, ROWS), LVN_OK);
    assert_int_equal(lvn_samples_init(&part, &l->data->fields, ROWS / 4), LVN_OK);
    memset(seen, 0, sizeof *seen * SAMPLES);
    for (int64_t step = epoch * l->steps_per_epoch; step < (epoch + 1) * l->steps_per_epoch; step++) {
        assert_int_equal(lvn_loader_batch(l, step, 0, &b), LVN_OK);
        int64_t T = lvn_fields_length(&b.fields), max = 0;
        for (int64_t r = 0; r < ROWS; r++) {
            int32_t length = *(int32_t *)lvn_samples_at(&b, 1, r);
            if (length > max) max = length;
            seen[*(int32_t *)lvn_samples_at(&b, 0, r) - 1]++;
        }
        const struct lvn_dataset *d = l->data;
        assert_int_equal(T, d->length[lvn_length_find(d->length, d->n_lengths, max)]);
        tokens += T * ROWS;
        for (int64_t first = 0; first < ROWS; first += part.rows) {
            assert_int_equal(lvn_loader_batch(l, step, first, &part), LVN_OK);
            assert_int_equal(lvn_fields_length(&part.fields), T);
            assert_memory_equal(part.p[0], lvn_samples_at(&b, 0, first), part.rows * T * (int64_t)sizeof(int32_t));
        }
    }
    lvn_samples_release(&b);
    lvn_samples_release(&part);
    return tokens;
}

static void each_once(void **state)
{
    struct lvn_dataset d;
    struct lvn_loader l;
    int seen[SAMPLES], left[SAMPLES] = {0}, never = 0;
    (void)state;
    open_ragged(&d, SAMPLES);
    assert_int_equal(lvn_loader_init(&l, &d, LVN_SPLIT_TRAIN, LVN_SAMPLING_PERMUTATION, ROWS, 5), LVN_OK);
    assert_int_equal(l.steps_per_epoch, SAMPLES / ROWS);
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        assert_true(count_epoch(&l, epoch, seen) < (int64_t)SAMPLES * LONGEST * 3 / 4); /* the optimum is half of it */
        for (int i = 0; i < SAMPLES; i++) assert_int_equal(seen[i], 1);
    }
    free(d.split[LVN_SPLIT_TRAIN].by_length);
    /* Seven samples are dropped in each epoch, different ones each time. */
    open_ragged(&d, SAMPLES - 1);
    assert_int_equal(lvn_loader_init(&l, &d, LVN_SPLIT_TRAIN, LVN_SAMPLING_PERMUTATION, ROWS, 5), LVN_OK);
    for (int64_t epoch = 0; epoch < 20; epoch++) {
        count_epoch(&l, epoch, seen);
        for (int i = 0; i < SAMPLES - 1; i++) {
            assert_true(seen[i] <= 1);
            left[i] += !seen[i];
        }
    }
    for (int i = 0; i < SAMPLES - 1; i++) never += left[i] == 20;
    assert_int_equal(never, 0);
    free(d.split[LVN_SPLIT_TRAIN].by_length);
}

static void evaluation(void **state)
{
    struct lvn_dataset d;
    struct lvn_loader l;
    struct lvn_samples b;
    int seen[SAMPLES] = {0};
    int64_t number, last = 0;
    (void)state;
    open_ragged(&d, SAMPLES - 1);
    assert_int_equal(lvn_loader_init(&l, &d, LVN_SPLIT_TRAIN, LVN_SAMPLING_SEQUENTIAL, ROWS, 5), LVN_OK);
    assert_int_equal(lvn_samples_init(&b, &d.fields, ROWS), LVN_OK);
    for (int64_t i = 0; i < lvn_loader_eval_batches(&l, 0); i++) {
        assert_int_equal(lvn_loader_eval_batch(&l, 0, i, 0, &b, &number), LVN_OK);
        assert_true(lvn_fields_length(&b.fields) >= last); /* by length */
        last = lvn_fields_length(&b.fields);
        for (int64_t r = 0; r < b.n_valid; r++) {
            int32_t id = *(int32_t *)lvn_samples_at(&b, 0, r) - 1;
            assert_int_equal(lvn_loader_eval_sample(&l, number + r), id);
            seen[id]++;
        }
    }
    for (int i = 0; i < SAMPLES - 1; i++) assert_int_equal(seen[i], 1);
    l.pad_to_max_length = true;
    assert_int_equal(lvn_loader_eval_batch(&l, 0, 0, 0, &b, &number), LVN_OK);
    assert_int_equal(lvn_fields_length(&b.fields), LONGEST);
    lvn_samples_release(&b);
    free(d.split[LVN_SPLIT_TRAIN].by_length);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planned),
        cmocka_unit_test(each_once),
        cmocka_unit_test(evaluation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

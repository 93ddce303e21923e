/* test_loader.c - covers: src/text/data/loader.c src/text/data/dataset.c src/text/data/prefetch.c
 *
 * Samples of a step: orders, rows of ranks, evaluation. */
#include "data_files.h"

#include "data/prefetch.h"
#include "data/program/program_data.h"

enum { N = 1003, T = 10, B = 7 };

static struct lvn_loader make_loader(struct lvn_dataset *d, enum lvn_sampling sampling, int64_t batch, uint64_t seed)
{
    struct lvn_loader l;
    set_length(d, T);
    if (lvn_loader_init(&l, d, LVN_SPLIT_TRAIN, sampling, batch, seed) != LVN_OK) fail_msg("%s", levin_error_text());
    return l;
}

/* An epoch has every window once, all with the same offset; offset and order differ between epochs. */
static void permutation(void **state)
{
    (void)state;
    struct lvn_dataset *d = open_data((struct lvn_data_options){.kind = "tokens", .path = write_counting("n.bin", N)});
    struct lvn_loader l = make_loader(d, LVN_SAMPLING_PERMUTATION, B, 1);
    assert_int_equal(l.samples, N / T - 1);
    assert_int_equal(l.steps_per_epoch, (N / T - 1) / B);
    static int32_t ids[B * T], labels[B * T];
    int shifts_seen = 0, last_first = -1, orders = 0;
    for (int64_t epoch = 0; epoch < 5; epoch++) {
        bool seen[N] = {false};
        int shift = -1;
        for (int64_t s = 0; s < l.steps_per_epoch; s++) {
            assert_int_equal(read_batch(&l, epoch * l.steps_per_epoch + s, 0, B, ids, labels), LVN_OK);
            for (int r = 0; r < B; r++) {
                int at = ids[r * T];
                assert_false(seen[at]);
                seen[at] = true;
                if (shift < 0) shift = at % T;
                assert_int_equal(at % T, shift);
                for (int t = 0; t < T; t++) {
                    assert_int_equal(ids[r * T + t], at + t);
                    assert_int_equal(labels[r * T + t], at + t + 1);
                }
            }
            if (s == 0) orders += ids[0] / T != last_first, last_first = ids[0] / T;
        }
        shifts_seen |= 1 << shift;
    }
    assert_true(__builtin_popcount((unsigned)shifts_seen) > 2);
    assert_true(orders > 2);
    lvn_dataset_close(d);
}

/* A batch does not depend on the split of its rows or on earlier requests; it depends on the seed. */
static void splits(void **state)
{
    (void)state;
    struct lvn_dataset *d = open_data((struct lvn_data_options){.kind = "tokens", .path = write_counting("n.bin", N)});
    for (int sampling = 0; sampling < 3; sampling++) {
        struct lvn_loader l = make_loader(d, (enum lvn_sampling)sampling, B, 7), other = l;
        other.seed = 8;
        int32_t whole[B * T], labels[B * T], part[B * T], part_labels[B * T];
        int differ = 0;
        for (int64_t step = 0; step < 40; step += 13) {
            assert_int_equal(read_batch(&l, step, 0, B, whole, labels), LVN_OK);
            for (int row = B - 1; row >= 0; row--)
                assert_int_equal(read_batch(&l, step, row, 1, part + row * T, part_labels + row * T), LVN_OK);
            assert_memory_equal(whole, part, sizeof whole);
            assert_memory_equal(labels, part_labels, sizeof labels);
            assert_int_equal(read_batch(&other, step, 0, B, part, part_labels), LVN_OK);
            differ += memcmp(whole, part, sizeof whole) != 0;
        }
        assert_int_equal(differ > 0, sampling != LVN_SAMPLING_SEQUENTIAL);
    }
    lvn_dataset_close(d);
}

static void sequential(void **state)
{
    (void)state;
    struct lvn_dataset *d = open_data((struct lvn_data_options){.kind = "tokens", .path = write_counting("n.bin", N)});
    struct lvn_loader l = make_loader(d, LVN_SAMPLING_SEQUENTIAL, B, 7);
    assert_int_equal(l.samples, (N - 1) / T);
    int32_t ids[B * T], labels[B * T];
    for (int64_t step = 0; step < 2 * l.steps_per_epoch; step++) {
        assert_int_equal(read_batch(&l, step, 0, B, ids, labels), LVN_OK);
        for (int i = 0; i < B * T; i++) {
            assert_int_equal(ids[i], step % l.steps_per_epoch * B * T + i);
            assert_int_equal(labels[i], ids[i] + 1);
        }
    }
    lvn_dataset_close(d);
}

/* Every position is used, including the last one (whose label is the last token), and none past it. */
static void random_places(void **state)
{
    (void)state;
    struct lvn_dataset *d = open_data((struct lvn_data_options){.kind = "tokens", .path = write_counting("r.bin", 30)});
    struct lvn_loader l = make_loader(d, LVN_SAMPLING_RANDOM, B, 3);
    int count[30] = {0};
    int32_t ids[B * T], labels[B * T];
    for (int64_t step = 0; step < 400; step++) {
        assert_int_equal(read_batch(&l, step, 0, B, ids, labels), LVN_OK);
        for (int r = 0; r < B; r++) count[ids[r * T]]++;
        assert_int_equal(count_labels(labels, B * T), B * T);
    }
    for (int i = 0; i < 30; i++) assert_true(i < 30 - T ? count[i] > 80 && count[i] < 220 : count[i] == 0);
    lvn_dataset_close(d);
}

/* Lengths around the minimum: each gives full windows, and a batch larger than an epoch repeats windows. */
static void small_streams(void **state)
{
    (void)state;
    for (int n = T + 1; n < 4 * T; n++) {
        struct lvn_dataset *d =
            open_data((struct lvn_data_options){.kind = "tokens", .path = write_counting("s.bin", n), .block_size = T});
        for (int sampling = 0; sampling < 3; sampling++) {
            struct lvn_loader l = make_loader(d, (enum lvn_sampling)sampling, B, 5);
            assert_int_equal(l.steps_per_epoch, 1);
            int32_t ids[B * T], labels[B * T];
            for (int64_t step = 0; step < 20; step++) {
                assert_int_equal(read_batch(&l, step, 0, B, ids, labels), LVN_OK);
                assert_int_equal(count_labels(labels, B * T), B * T);
                int uses[4 * T] = {0}, min = B, max = 0;
                for (int r = 0; r < B; r++) uses[ids[r * T] / T]++;
                for (int w = 0; w < l.samples; w++) {
                    min = uses[w] < min ? uses[w] : min;
                    max = uses[w] > max ? uses[w] : max;
                }
                if (sampling == LVN_SAMPLING_SEQUENTIAL) assert_true(max - min <= 1);
            }
        }
        lvn_dataset_close(d);
    }
}

/* Prefetched batches are those of the loader: in order, repeated, backwards, and far ahead; an error is reported for
 * its step. */
static void prefetched(void **state)
{
    (void)state;
    struct lvn_dataset *d = open_data((struct lvn_data_options){.kind = "tokens", .path = write_counting("n.bin", N)});
    struct lvn_loader l = make_loader(d, LVN_SAMPLING_PERMUTATION, B, 3);
    const int64_t steps[] = {0, 1, 2, 2, 3, 1, 2, 30, 31, 29, 39};
    struct lvn_prefetch *p;
    const struct lvn_samples *b;
    int32_t ids[B * T], labels[B * T];
    assert_int_equal(lvn_prefetch_open(&p, &l, 2, 3, 40), LVN_OK);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        assert_int_equal(lvn_prefetch_take(p, steps[i], &b), LVN_OK);
        assert_int_equal(read_batch(&l, steps[i], 2, 3, ids, labels), LVN_OK);
        assert_memory_equal(b->p[0], ids, sizeof *ids * 3 * T);
        assert_memory_equal(b->p[1], labels, sizeof *labels * 3 * T);
    }
    assert_int_equal(lvn_prefetch_take(p, 40, &b), LVN_INTERNAL);
    lvn_prefetch_close(p);
    d->id_limit = 3;
    assert_int_equal(lvn_prefetch_open(&p, &l, 0, B, 40), LVN_OK);
    assert_int_equal(lvn_prefetch_take(p, 0, &b), LVN_FORMAT);
    assert_non_null(strstr(levin_error_text(), "n.bin' holds the token id"));
    lvn_prefetch_close(p);
    lvn_dataset_close(d);
}

static void evaluation(void **state)
{
    (void)state;
    struct lvn_dataset *d = open_data((struct lvn_data_options){.kind = "tokens", .path = write_counting("n.bin", N)});
    struct lvn_loader l = make_loader(d, LVN_SAMPLING_RANDOM, B, 7);
    int32_t ids[B * T], labels[B * T];
    int64_t number[B], batches = lvn_loader_eval_batches(&l, 0), seen = 0;
    assert_int_equal(batches, 15); /* 100 windows: 14 batches of 7 and one of 2 */
    assert_int_equal(lvn_loader_eval_count(&l, 0), 100);
    for (int64_t i = 0; i < batches; i++) {
        assert_int_equal(read_eval_batch(&l, 0, i, 0, B, ids, labels, number), LVN_OK);
        for (int r = 0; r < B; r++) {
            bool there = i * B + r < 100;
            assert_int_equal(number[r], there ? i * B + r : -1);
            assert_int_equal(ids[r * T], there ? number[r] * T : 0);
            assert_int_equal(count_labels(labels + r * T, T), there ? T : 0);
            seen += there;
        }
    }
    assert_int_equal(seen, 100);
    /* five of fifteen, evenly spaced; a limit above fifteen: all */
    assert_int_equal(lvn_loader_eval_batches(&l, 5), 5);
    for (int64_t i = 0; i < 5; i++) {
        assert_int_equal(read_eval_batch(&l, 5, i, 2, 1, ids, labels, number), LVN_OK);
        assert_int_equal(number[0], 3 * i * B + 2);
    }
    assert_int_equal(lvn_loader_eval_count(&l, 5), 35);
    assert_int_equal(lvn_loader_eval_batches(&l, 99), 15);
    lvn_dataset_close(d);
}

static void loader_refuses(void **state)
{
    (void)state;
    struct lvn_dataset *d = open_data((struct lvn_data_options){.kind = "tokens", .path = write_counting("s.bin", 10)});
    struct lvn_loader l;
    set_length(d, 10);
    assert_int_equal(lvn_loader_init(&l, d, LVN_SPLIT_TRAIN, LVN_SAMPLING_RANDOM, 1, 0), LVN_FORMAT);
    assert_non_null(strstr(levin_error_text(), "s.bin' has 10 tokens"));
    set_length(d, 4);
    assert_int_equal(lvn_loader_init(&l, d, LVN_SPLIT_VAL, LVN_SAMPLING_RANDOM, 1, 0), LVN_ARG);
    assert_int_equal(lvn_loader_init(&l, d, LVN_SPLIT_TRAIN, LVN_SAMPLING_RANDOM, 0, 0), LVN_ARG);
    set_length(d, 0);
    assert_int_equal(lvn_loader_init(&l, d, LVN_SPLIT_TRAIN, LVN_SAMPLING_RANDOM, 1, 0), LVN_ARG);
    lvn_dataset_close(d);
}

/* A list of samples: sample i holds its number, those of the training set after those that are held out. */
static bool write_number(void *context, enum lvn_split_id split, int64_t i, void *const *out, char error[400])
{
    int32_t *ids = out[0], *labels = out[1];
    (void)context, (void)error;
    for (int k = 0; k < 6; k++) ids[k] = labels[k] = (int32_t)i + (split == LVN_SPLIT_TRAIN ? 500 : 0);
    return true;
}

static void list(void **state)
{
    (void)state;
    const struct lvn_program_data p = {
        .fields = lvn_stream_fields(6, 10000), .samples = {9500, 500}, .vocab_size = 10000, .sample = write_number};
    lvn_program_data_set(&p);
    struct lvn_dataset *d = open_data((struct lvn_data_options){.kind = "program"});
    struct lvn_loader l;
    assert_int_equal(lvn_loader_init(&l, d, LVN_SPLIT_TRAIN, LVN_SAMPLING_PERMUTATION, 50, 3), LVN_OK);
    assert_int_equal(l.steps_per_epoch, 9500 / 50);
    static bool seen[10000];
    static int32_t ids[50 * 6], labels[50 * 6];
    for (int64_t step = 0; step < l.steps_per_epoch; step++) {
        assert_int_equal(read_batch(&l, step, 0, 50, ids, labels), LVN_OK);
        for (int r = 0; r < 50; r++) {
            assert_false(seen[ids[r * 6]]);
            seen[ids[r * 6]] = true;
        }
    }
    assert_int_equal(lvn_loader_init(&l, d, LVN_SPLIT_VAL, LVN_SAMPLING_PERMUTATION, 64, 3), LVN_OK);
    assert_int_equal(lvn_loader_eval_batches(&l, 0), 8);
    for (int64_t i = 0; i < 8; i++) {
        assert_int_equal(read_eval_batch(&l, 0, i, 0, 50, ids, labels, NULL), LVN_OK);
        for (int r = 0; r < 50 && i * 64 + r < 500; r++) assert_false(seen[ids[r * 6]]); /* held out */
    }
    lvn_dataset_close(d);
    lvn_program_data_set(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permutation),   cmocka_unit_test(splits),         cmocka_unit_test(sequential),
        cmocka_unit_test(random_places), cmocka_unit_test(small_streams),  cmocka_unit_test(evaluation),
        cmocka_unit_test(prefetched),    cmocka_unit_test(loader_refuses), cmocka_unit_test(list),
    };
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}

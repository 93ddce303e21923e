/* test_mix.c - covers: src/text/data/sources/mix.c src/text/data/loader.c
 *
 * data.mix: proportions after any number of rows, each source in its own order, independence of the batch, refusals. */
#include "data_files.h"

#include "data/sources/mix.h"

enum { T = 10, B = 6 };

/* The error is below one row after each row, over three periods, and the order is a function of the row. */
static void proportions(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[{path: a, weight: 1}]",
        "[{path: a, weight: 0.7}, {path: b, weight: 0.3}]",
        "[{path: a, weight: 1}, {path: b, weight: 1}, {path: c, weight: 1}]",
        "[{path: a, weight: 97}, {path: b, weight: 1}, {path: c, weight: 1}, {path: d, weight: 1}]",
        "[{path: a, weight: 0.25}, {path: b, weight: 0.125}, {path: c, weight: 3.5}, {path: d, weight: 0.01}]",
        "[{path: a, weight: 13}, {path: b, weight: 8}, {path: c, weight: 5}, {path: d, weight: 3}]",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct lvn_mix *m;
        int64_t count[LVN_MIX_SOURCES] = {0};
        assert_int_equal(lvn_mix_new(&m, texts[i]), LVN_OK);
        for (int64_t row = 0; row < 3 * m->period; row++) {
            int source;
            int64_t before;
            lvn_mix_row(m, row, &source, &before);
            assert_int_equal(before, count[source]);
            count[source]++;
            for (int k = 0; k < m->n; k++)
                assert_true(llabs(count[k] * m->period - m->weight[k] * (row + 1)) < m->period);
            if (row % 7 == 0)
                for (int k = 0; k < m->n; k++) assert_int_equal(lvn_mix_rows(m, k, row + 1), count[k]);
        }
        lvn_mix_free(m);
    }
}

/* Ids of file k are k * 1000 + position. */
static const char *write_source(const char *name, int k, int n)
{
    uint16_t ids[1000];
    for (int i = 0; i < n; i++) ids[i] = (uint16_t)(k * 1000 + i);
    return write_file(name, ids, (size_t)n * 2);
}

static struct lvn_dataset *open_mix(const char *weights)
{
    char text[2000];
    snprintf(text, sizeof text, weights, write_source("a.bin", 0, 1000), write_source("b.bin", 1, 301));
    return open_data((struct lvn_data_options){.kind = "tokens", .mix = text, .block_size = T, .vocab_size = 3000});
}

/* Each source has every window once in an epoch of its own, whatever the batch is. */
static void epochs(void **state)
{
    (void)state;
    struct lvn_dataset *d = open_mix("[{path: %s, weight: 3}, {path: %s, weight: 1}]");
    struct lvn_loader l, other;
    int64_t tokens, samples;
    lvn_dataset_count(d, LVN_SPLIT_TRAIN, &tokens, &samples);
    assert_int_equal(tokens, 1301);
    assert_int_equal(lvn_loader_init(&l, d, LVN_SPLIT_TRAIN, LVN_SAMPLING_PERMUTATION, B, 5), LVN_OK);
    assert_int_equal(lvn_loader_init(&other, d, LVN_SPLIT_TRAIN, LVN_SAMPLING_PERMUTATION, 1, 5), LVN_OK);
    assert_int_equal(l.samples, 99 + 29);
    int32_t ids[B * T], labels[B * T], one[T], one_label[T];
    bool seen[2][1000] = {{false}};
    int64_t rows[2] = {0}, per_epoch[2] = {99, 29};
    for (int64_t step = 0; step < 100; step++) {
        assert_int_equal(read_batch(&l, step, 0, B, ids, labels), LVN_OK);
        for (int r = 0; r < B; r++) {
            assert_int_equal(read_batch(&other, step * B + r, 0, 1, one, one_label), LVN_OK);
            assert_memory_equal(one, ids + r * T, sizeof one);
            const int k = ids[r * T] / 1000, at = ids[r * T] % 1000;
            assert_int_equal(labels[r * T + T - 1], k * 1000 + at + T);
            if (rows[k] % per_epoch[k] == 0) memset(seen[k], 0, sizeof seen[k]);
            assert_false(seen[k][at]);
            seen[k][at] = true;
            rows[k]++;
        }
    }
    assert_int_equal(rows[0], 450);
    assert_int_equal(rows[1], 150);
    LVN_LOCAL_TEXT(t);
    assert_int_equal(lvn_loader_describe_mix(&l, 100, &t), LVN_OK);
    assert_non_null(strstr(t.p, "a.bin' 450 rows (4.55 epochs), '"));
    assert_non_null(strstr(t.p, "b.bin' 150 rows (5.17 epochs)"));
    lvn_dataset_close(d);
}

/* Sequential rows; with a limit, as trainer.overfit_batches sets it, the same rows again and again. */
static void sequential(void **state)
{
    (void)state;
    struct lvn_dataset *d = open_mix("[{path: %s, weight: 1}, {path: %s, weight: 1}]");
    struct lvn_loader l;
    assert_int_equal(lvn_loader_init(&l, d, LVN_SPLIT_TRAIN, LVN_SAMPLING_SEQUENTIAL, 2, 5), LVN_OK);
    int32_t ids[2 * T], labels[2 * T], first[2 * T];
    for (int64_t step = 0; step < 20; step++) {
        assert_int_equal(read_batch(&l, step, 0, 2, ids, labels), LVN_OK);
        for (int r = 0; r < 2; r++) assert_int_equal(ids[r * T] % 1000, step * T);
        assert_int_not_equal(ids[0] / 1000, ids[T] / 1000);
    }
    lvn_loader_limit_steps(&l, 3);
    assert_int_equal(read_batch(&l, 1, 0, 2, first, labels), LVN_OK);
    assert_int_equal(read_batch(&l, 7, 0, 2, ids, labels), LVN_OK);
    assert_memory_equal(first, ids, sizeof ids);
    lvn_dataset_close(d);
}

/* Evaluation reads all samples of all sources, each once. */
static void evaluation(void **state)
{
    (void)state;
    struct lvn_dataset *d = open_mix("[{path: %s, weight: 1}, {path: %s, weight: 9}]");
    struct lvn_loader l;
    assert_int_equal(lvn_loader_init(&l, d, LVN_SPLIT_TRAIN, LVN_SAMPLING_SEQUENTIAL, B, 5), LVN_OK);
    assert_int_equal(l.eval_samples, 99 + 30);
    int32_t ids[B * T], labels[B * T];
    int64_t number[B], expected = 0;
    for (int64_t i = 0; i < lvn_loader_eval_batches(&l, 0); i++) {
        assert_int_equal(read_eval_batch(&l, 0, i, 0, B, ids, labels, number), LVN_OK);
        for (int r = 0; r < B && number[r] >= 0; r++, expected++) {
            const int k = expected >= 99, at = (int)(expected - 99 * k) * T;
            assert_int_equal(ids[r * T], k * 1000 + at);
        }
    }
    assert_int_equal(expected, 129);
    lvn_dataset_close(d);
}

static void check_refused(const char *text, const char *sentence)
{
    struct lvn_mix *m;
    assert_int_equal(lvn_mix_new(&m, text), LVN_ARG);
    assert_null(m);
    if (!strstr(levin_error_text(), sentence)) fail_msg("'%s' is not in: %s", sentence, levin_error_text());
}

static void refuses(void **state)
{
    (void)state;
    char text[2000];
    check_refused("[{path: a}]", "entry 1: weight is missing");
    check_refused("[{weight: 1}]", "entry 1: path is missing");
    check_refused("[{path: a, weight: 1}, {path: '', weight: 1}]", "entry 2: path is empty");
    check_refused("[{path: a, weight: 1}, {path: b, weight: 0}]", "entry 2: weight must be a positive number");
    check_refused("[{path: a, weight: -1}]", "got '-1'");
    check_refused("[{path: a, weight: nan}]", "got 'nan'");
    check_refused("[{path: a, weight: .inf}]", "got '.inf'");
    check_refused("[{path: a, weight: 1e300}]", "got '1e300'");
    check_refused("[{path: a, weight: heavy}]", "got 'heavy'");
    check_refused("[{path: a, weight: 0.3333333333}]", "at most six digits");
    check_refused("[{path: a, weight: 0.999983}, {path: b, weight: 0.99991}]", "with fewer digits");
    check_refused("[{path: a, wait: 1}]", "unknown key 'wait'");
    check_refused("[]", "must be a list of maps");
    const char *a = write_source("x.bin", 0, 100), *b = write_source("y.bin", 1, 100);
    write_text("y.bin.json", "{\"vocab_size\": 2000}");
    write_text("x.bin.json", "{\"vocab_size\": 1000}");
    snprintf(text, sizeof text, "[{path: %s, weight: 1}, {path: %s, weight: 1}]", a, b);
    assert_refused(LVN_ARG, "have different vocabularies", .kind = "tokens", .mix = text, .block_size = T);
    assert_refused(LVN_ARG, "data.stream is for a single one", .kind = "tokens", .mix = text, .stream = true);
    assert_refused(LVN_ARG, "data.path is for a single one", .kind = "tokens", .mix = text, .path = a);
    assert_refused(LVN_ARG, "the data are of the kind labelled", .kind = "labelled", .mix = text);
    assert_refused(LVN_ARG, "needs one tokenizer for all sources", .kind = "documents", .mix = text);
    snprintf(text, sizeof text, "[{path: %s, weight: 1}, {path: %s.missing, weight: 1}]", a, b);
    assert_refused(LVN_IO, "y.bin.missing", .kind = "tokens", .mix = text, .block_size = T);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proportions), cmocka_unit_test(epochs),  cmocka_unit_test(sequential),
        cmocka_unit_test(evaluation),  cmocka_unit_test(refuses),
    };
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}

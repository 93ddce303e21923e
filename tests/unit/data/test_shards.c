/* test_shards.c - covers: src/text/data/sources/shard_list.c src/text/data/tokens.c
 *
 * Folders of token shards: the same samples as the file that the shards form together, names, gaps, and what is
 * refused. */
#include "data_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include "data/sources/shard_list.h"
#include "formats/json.h"

enum { N = 1003, T = 10, B = 7, WIDE = 65000 };

/* Write ids [first, first + n), of which id i is (i * 7) % 1000, to a file with or without a header of llm.c. */
static void write_ids(const char *name, int first, int n, bool header)
{
    static uint16_t ids[4096 + 512];
    int32_t fields[256] = {20240520, 1, n};
    int at = 0;
    if (header) memcpy(ids, fields, sizeof fields), at = 512;
    for (int i = 0; i < n; i++) ids[at + i] = (uint16_t)((first + i) * 7 % 1000);
    write_file(name, ids, (size_t)(at + n) * 2);
}

static const char *new_folder(const char *name)
{
    const char *path = test_path(name);
    assert_int_equal(mkdir(path, 0777), 0);
    return path;
}

static void compare(const char *path, bool header, const int *sizes, int n_sizes, const char *pattern)
{
    static int number;
    char folder[40], name[80], shards[512]; /* a copy: test_path() reuses its texts */
    int first = 0;
    snprintf(folder, sizeof folder, "set%d", number++);
    snprintf(shards, sizeof shards, "%s", new_folder(folder));
    for (int i = 0; i < n_sizes; first += sizes[i++]) {
        snprintf(name, sizeof name, pattern, folder, i);
        write_ids(name, first, sizes[i], header);
    }
    assert_int_equal(first, N);
    struct lvn_dataset *one = open_data((struct lvn_data_options){.kind = "tokens", .path = path});
    struct lvn_dataset *many = open_data((struct lvn_data_options){.kind = "tokens", .path = shards});
    set_length(one, T);
    set_length(many, T);
    for (int sampling = 0; sampling < 3; sampling++) {
        struct lvn_loader a, b;
        int32_t x[B * T], y[B * T], labels_x[B * T], labels_y[B * T];
        assert_int_equal(lvn_loader_init(&a, one, LVN_SPLIT_TRAIN, (enum lvn_sampling)sampling, B, 3), LVN_OK);
        assert_int_equal(lvn_loader_init(&b, many, LVN_SPLIT_TRAIN, (enum lvn_sampling)sampling, B, 3), LVN_OK);
        for (int64_t step = 0; step < 3 * a.steps_per_epoch; step++) {
            assert_int_equal(read_batch(&a, step, 0, B, x, labels_x), LVN_OK);
            assert_int_equal(read_batch(&b, step, 0, B, y, labels_y), LVN_OK);
            assert_memory_equal(x, y, sizeof x);
            assert_memory_equal(labels_x, labels_y, sizeof labels_x);
        }
    }
    int64_t max[2], at[2];
    assert_int_equal(lvn_split_max(&one->split[0], &max[0], &at[0]), LVN_OK);
    assert_int_equal(lvn_split_max(&many->split[0], &max[1], &at[1]), LVN_OK);
    assert_int_equal(max[0], max[1]);
    assert_int_equal(at[0], at[1]);
    lvn_dataset_close(one);
    lvn_dataset_close(many);
}

/* Windows that cross one or several shards, shards of one token, more shards than may be open. */
static void same_as_one_file(void **state)
{
    (void)state;
    static int tiny[N];
    for (int i = 0; i < N; i++) tiny[i] = 1;
    write_ids("one.bin", 0, N, false);
    char path[512];
    snprintf(path, sizeof path, "%s", test_path("one.bin"));
    compare(path, false, (int[]){500, 503}, 2, "%s/train-%05d.bin");
    compare(path, true, (int[]){1, 2, 3, 497, 500}, 5, "%s/fineweb_train_%06d.bin");
    compare(path, true, (int[]){N}, 1, "%s/tiny_train.bin");
    compare(path, false, tiny, N, "%s/train-%05d.bin");
}

/* Ids of four bytes, described by the sidecar of all shards. */
static void wide(void **state)
{
    (void)state;
    uint32_t ids[200];
    new_folder("wide");
    write_text("wide/train.bin.json",
               "{\"dtype\": \"uint32\", \"vocab_size\": 70000, \"shards\": 2, \"shard_tokens\": 100}");
    for (uint32_t i = 0; i < 200; i++) ids[i] = WIDE + i * 11;
    write_file("wide/train-0.bin", ids, 400);
    write_file("wide/train-1.bin", ids + 100, 400);
    struct lvn_dataset *d = open_data((struct lvn_data_options){.kind = "tokens", .path = test_path("wide")});
    int32_t in[30], labels[30];
    assert_int_equal(d->split[0].n_tokens, 200);
    assert_int_equal(d->vocab_size, 70000);
    assert_int_equal(read_sample(d, LVN_SPLIT_TRAIN, 85, 30, in, labels), LVN_OK);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(in[i], WIDE + (85 + i) * 11);
        assert_int_equal(labels[i], WIDE + (86 + i) * 11);
    }
    lvn_dataset_close(d);
    assert_refused(LVN_FORMAT, "train-1.bin' holds the token id 67189 at position 99", .kind = "tokens",
                   .path = test_path("wide"), .vocab_size = 66673);
}

static void names(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int split, prefix;
    } cases[] = {
        {"train-00000.bin", 0, 6},      {"val-1.bin", 1, 4},         {"test-x.bin", 2, 5},
        {"train.bin", -1, 0},           {"train-0.bin.json", -1, 0}, {"fineweb_train_000001.bin", 0, 14},
        {"a_val_b_train_1.bin", 0, 14}, {"tiny_val.bin", 1, 9},      {"trainer-1.bin", -1, 0},
        {"model.bin", -1, 0},           {"x_training_1.bin", -1, 0}, {".train-0.bin", -1, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t prefix;
        assert_int_equal(lvn_shard_file_split(cases[i].name, &prefix), cases[i].split);
        if (cases[i].split >= 0) assert_int_equal(prefix, cases[i].prefix);
    }
}

/* data.sampling=shards: each window once an epoch, in runs of neighboring shards, in another order in each epoch. */
static void shard_by_shard(void **state)
{
    (void)state;
    enum { SIZE = 200, SHARDS = 5, ROWS = 6 };
    new_folder("order");
    for (int k = 0; k < SHARDS; k++) {
        uint16_t ids[SIZE];
        char name[40];
        for (int i = 0; i < SIZE; i++) ids[i] = (uint16_t)(k * SIZE + i);
        snprintf(name, sizeof name, "order/train-%d.bin", k);
        write_file(name, ids, sizeof ids);
    }
    struct lvn_dataset *d =
        open_data((struct lvn_data_options){.kind = "tokens", .path = test_path("order"), .vocab_size = 2000});
    struct lvn_loader l;
    set_length(d, T);
    assert_int_equal(lvn_loader_init(&l, d, LVN_SPLIT_TRAIN, LVN_SAMPLING_SHARDS, ROWS, 9), LVN_OK);
    assert_int_equal(l.samples, 99);
    assert_int_equal(l.group, SIZE / T);
    int32_t ids[ROWS * T], labels[ROWS * T];
    int first_of_epoch[4];
    for (int64_t epoch = 0; epoch < 4; epoch++) {
        bool seen[SIZE * SHARDS] = {false};
        int low = 0, high = 0;
        for (int64_t s = 0; s < l.steps_per_epoch; s++) {
            assert_int_equal(read_batch(&l, epoch * l.steps_per_epoch + s, 0, ROWS, ids, labels), LVN_OK);
            for (int r = 0; r < ROWS; r++) {
                const int at = ids[r * T], row = (int)s * ROWS + r;
                assert_false(seen[at]);
                seen[at] = true;
                assert_int_equal(labels[r * T + T - 1], at + T);
                if (row % l.group == 0) low = high = at;
                low = at < low ? at : low;
                high = at > high ? at : high;
                assert_true(high - low < SIZE);
                if (row == 0) first_of_epoch[epoch] = at;
            }
        }
    }
    assert_false(first_of_epoch[0] == first_of_epoch[1] && first_of_epoch[1] == first_of_epoch[2]);
    lvn_dataset_close(d);
    d = open_data(
        (struct lvn_data_options){.kind = "tokens", .path = test_path("order/train-0.bin"), .vocab_size = 2000});
    set_length(d, T);
    assert_int_equal(lvn_loader_init(&l, d, LVN_SPLIT_TRAIN, LVN_SAMPLING_SHARDS, ROWS, 9), LVN_ARG);
    lvn_dataset_close(d);
}

/* The fingerprint tells names, sizes and stated checksums apart. */
static void fingerprints(void **state)
{
    (void)state;
    uint64_t sum[4];
    new_folder("prints");
    for (int i = 0; i < 4; i++) {
        write_ids("prints/train-0.bin", 0, 100, false);
        write_ids("prints/train-1.bin", 100, i == 1 ? 101 : 100, false);
        if (i == 2) write_text("prints/train.bin.json", "{\"xxh64\": \"0123456789abcdef\"}");
        struct lvn_dataset *d = open_data((struct lvn_data_options){.kind = "tokens", .path = test_path("prints")});
        assert_int_equal(lvn_dataset_fingerprint(d, &sum[i]), LVN_OK);
        lvn_dataset_close(d);
        if (i == 2) assert_int_equal(unlink(test_path("prints/train.bin.json")), 0);
    }
    assert_true(sum[0] != sum[1]);
    assert_true(sum[0] != sum[2]);
    assert_true(sum[0] == sum[3]);
}

static void put_pair(const char *folder, const char *one, const char *two)
{
    char name[80];
    new_folder(folder);
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s/%s", folder, i ? two : one);
        write_ids(name, 100 * i, 100, false);
    }
}

/* Ranks compare the tokens: the compared blocks reach to the end, and a shard that cannot be read is an error, unless
 * damaged ones are skipped. */
static void hashes(void **state)
{
    enum { ALL = 2559 * 2048, SAME = 2100 * 2048 };
    (void)state;
    uint64_t sum[3];
    uint16_t *ids = calloc(ALL, sizeof *ids);
    struct lvn_data_options o = {.kind = "tokens"};
    assert_non_null(ids);
    new_folder("hashes");
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < ALL; k++) ids[k] = (uint16_t)(k % 1000 + (k < SAME ? 0 : i));
        write_file("hashes/train-0.bin", ids, ALL * sizeof *ids);
        o.path = test_path("hashes");
        struct lvn_dataset *d = open_data(o);
        assert_int_equal(lvn_dataset_shards_hash(d, &sum[i]), LVN_OK);
        lvn_dataset_close(d);
    }
    assert_true(sum[0] != sum[1]);
    free(ids);
    for (int i = 0; i < 2; i++) {
        put_pair(i ? "skips" : "ends", "train-0.bin", "train-1.bin");
        o.path = test_path(i ? "skips" : "ends");
        o.skip_bad_shards = i;
        struct lvn_dataset *d = open_data(o);
        assert_int_equal(truncate(test_path(i ? "skips/train-1.bin" : "ends/train-1.bin"), 100), 0);
        if (i)
            assert_int_equal(lvn_dataset_shards_hash(d, &sum[2]), LVN_OK);
        else
            ASSERT_FAILS(IO, "train-1.bin' ends after 100 bytes", lvn_dataset_shards_hash(d, &sum[2]));
        lvn_dataset_close(d);
    }
}

static void refuses(void **state)
{
    (void)state;
#define PATH(folder) .kind = "tokens", .path = test_path(folder)
    put_pair("both", "train.bin", "train-1.bin");
    assert_refused(LVN_FORMAT, "has both 'train.bin' and 'train-1.bin'", PATH("both"));
    put_pair("sets", "a_train_1.bin", "b_train_1.bin");
    assert_refused(LVN_FORMAT, "has token files of two data sets, 'a_train_1.bin' and 'b_train_1.bin'", PATH("sets"));
    put_pair("headers", "train-0.bin", "train-1.bin");
    write_ids("headers/train-1.bin", 0, 50, true);
    assert_refused(LVN_FORMAT, "one of them has a header of llm.c", PATH("headers"));
    put_pair("empty", "train-0.bin", "train-1.bin");
    write_text("empty/train-1.bin", "");
    assert_refused(LVN_FORMAT, "empty/train-1.bin' is empty", PATH("empty"));
    put_pair("odd", "train-0.bin", "train-1.bin");
    write_text("odd/train-1.bin", "\1\2\3");
    assert_refused(LVN_FORMAT, "odd/train-1.bin' has 3 bytes", PATH("odd"));
    put_pair("words", "train-0.bin", "train-1.bin");
    write_text("words/train-1.bin.json", "{\"vocab_size\": 2000}");
    assert_refused(LVN_FORMAT, "their vocabularies differ", PATH("words"));
    write_text("words/train-1.bin.json", "{\"end_token\": 3}");
    assert_refused(LVN_FORMAT, "two end tokens", PATH("words"));
    write_text("words/train-1.bin.json", "{\"dtype\": \"uint32\"}");
    assert_refused(LVN_FORMAT, "16 and 32 bits", PATH("words"));
    put_pair("count", "train-0.bin", "train-1.bin");
    write_text("count/train.bin.json", "{\"shards\": 3}");
    assert_refused(LVN_FORMAT, "counts 3 shards, and its folder has 2", PATH("count"));
    write_text("count/train.bin.json", "{\"shards\": 2, \"shard_tokens\": 101}");
    assert_refused(LVN_FORMAT, "count/train-0.bin' has 100 tokens", PATH("count"));
    write_text("count/train.bin.json", "{\"shards\": 2, \"shard_tokens\": 2305843009213693951}");
    assert_refused(LVN_FORMAT, "'shard_tokens' is 2305843009213693951, expected a number from 0", PATH("count"));
    /* a shard that changed between listing and reading */
    struct lvn_shard_list *list;
    uint16_t ids[10];
    write_ids("one-1.bin", 0, 40, false);
    const struct lvn_shard_file shard = {.path = test_path("one-1.bin"), .bytes = 200};
    assert_int_equal(lvn_shard_list_open(&list, &shard, 1, 2), LVN_OK);
    assert_int_equal(lvn_shard_list_read(list, 20, 10, ids), LVN_FORMAT);
    assert_non_null(strstr(levin_error_text(), "one-1.bin' has 80 bytes, and had 200 when the run began"));
    lvn_shard_list_close(list);
}

/* A checkpoint names skipped shards in JSON, which has UTF-8 only. */
static void shards_of_a_checkpoint_are_marked(void **state)
{
    (void)state;
    static const char name[] = "g\xc3\xbc-\xff.bin";
    const struct lvn_shard_file shard[3] = {{.path = "set/g\xc3\xbc-\xff.bin", .bytes = 80},
                                            {.path = "set/g\xc3\xbc-.bin", .bytes = 80},
                                            {.path = "set/other.bin", .bytes = 80}};
    struct lvn_shard_list *list;
    struct lvn_bad_shard bad;
    assert_int_equal(lvn_shard_list_open(&list, shard, 3, 2), LVN_OK);
    json_t *saved = lvn_json_text(name, INT64_MAX);
    lvn_shard_list_mark(list, json_string_value(saved), "skipped before");
    assert_true(lvn_shard_list_bad(list, 0, &bad));
    assert_string_equal(bad.path, shard[0].path);
    assert_false(lvn_shard_list_bad(list, 1, &bad));
    lvn_shard_list_mark(list, "other.bin", "skipped before");
    assert_true(lvn_shard_list_bad(list, 1, &bad));
    assert_string_equal(bad.path, shard[2].path);
    json_decref(saved);
    lvn_shard_list_close(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_as_one_file),
        cmocka_unit_test(wide),
        cmocka_unit_test(names),
        cmocka_unit_test(fingerprints),
        cmocka_unit_test(refuses),
        cmocka_unit_test(shard_by_shard),
        cmocka_unit_test(hashes),
        cmocka_unit_test(shards_of_a_checkpoint_are_marked),
    };
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}

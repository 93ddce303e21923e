/* test_packing.c - covers: src/text/data/packing/packing.c src/text/data/tokens.c
 * src/text/data/dataset.c
 *
 * Documents in rows: where they are placed, what a row contains, what is cut and counted, and what is refused. */
#include "data_files.h"

#include <dirent.h>

#include "base/random.h"
#include "data/packing/packing.h"

/* --- test documents: token k of document i is 1000 i + k --- */

enum { MOST = 20000 };

struct documents {
    int64_t n, length[MOST];
    int64_t unlabeled; /* a document whose tokens have no label; -1: none */
};

static int64_t length_of(const void *context, int64_t document)
{
    return ((const struct documents *)context)->length[document];
}

static int64_t labels_of(const void *context, int64_t document, int64_t first, int64_t n)
{
    (void)first;
    return document == ((const struct documents *)context)->unlabeled ? 0 : n;
}

static enum lvn_status read_document(const void *context, int64_t document, int64_t first, int64_t n, int32_t *ids,
                                     int32_t *labels)
{
    (void)context;
    for (int64_t t = 0; t < n; t++) {
        ids[t] = (int32_t)(1000 * document + first + t);
        labels[t] = ids[t] + 1;
    }
    return LVN_OK;
}

static struct lvn_pack *pack(const struct documents *d, int64_t T, enum lvn_overlong overlong, uint64_t seed)
{
    struct lvn_pack *p;
    const struct lvn_pack_source source = {.context = d,
                                           .name = "made",
                                           .n = d->n,
                                           .length = length_of,
                                           .labels = d->unlabeled >= 0 ? labels_of : NULL,
                                           .read = read_document};
    ASSERT_OK(lvn_pack_new(&p, &source, T, overlong, seed));
    return p;
}

/* Check every row: documents are whole and follow each other, labels and segments end with them, and the rest is
 * padding. Set seen[i] to the number of tokens of document i. */
static void check_rows(const struct lvn_pack *p, const struct documents *d, int64_t *seen)
{
    int32_t *ids = malloc(sizeof *ids * (size_t)(3 * p->T)), *labels = ids + p->T, *segments = labels + p->T;
    int64_t tokens = 0;
    memset(seen, 0, sizeof *seen * (size_t)d->n);
    for (int64_t r = 0; r < p->rows; r++) {
        int64_t at = 0, last = -1;
        ASSERT_OK(lvn_pack_row(p, r, ids, labels, segments));
        while (at < p->T && (ids[at] || labels[at] >= 0)) {
            const int64_t i = ids[at] / 1000, first = ids[at] % 1000, rest = d->length[i] - first;
            const int64_t n = rest < p->T ? rest : p->T;
            assert_true(i > last || first > 0);
            assert_int_equal(first % p->T, 0);
            assert_true(at + n <= p->T);
            for (int64_t t = 0; t < n; t++) {
                const bool ends = t == n - 1 && !(p->overlong == LVN_OVERLONG_SPLIT && n < rest);
                assert_int_equal(ids[at + t], ids[at] + t);
                assert_int_equal(labels[at + t], ends ? -1 : ids[at + t] + 1);
                assert_int_equal(segments[at + t], at);
            }
            last = i;
            seen[i] += n;
            at += n;
        }
        assert_true(at > 0);
        tokens += at;
        for (; at < p->T; at++) assert_true(ids[at] == 0 && labels[at] == -1 && segments[at] == at);
    }
    assert_int_equal(tokens, p->tokens);
    free(ids);
}

static int64_t random_length(uint64_t a, int64_t i, int64_t most)
{
    return 2 + lvn_random_below(1, a, (uint64_t)i, most - 1);
}

static void every_document_once(void **state)
{
    (void)state;
    static struct documents d;
    static int64_t seen[MOST];
    for (int64_t n = 1; n <= 20000; n = 3 * n + 1) {
        d = (struct documents){.n = n, .unlabeled = -1};
        for (int64_t i = 0; i < n; i++) d.length[i] = random_length((uint64_t)n, i, 99);
        struct lvn_pack *p = pack(&d, 100, LVN_OVERLONG_REFUSE, 5);
        check_rows(p, &d, seen);
        for (int64_t i = 0; i < n; i++) assert_int_equal(seen[i], d.length[i]);
        assert_true(p->cut == 0 && p->lost == 0 && p->unlabeled == 0);
        lvn_pack_free(p);
    }
}

/* Rows depend on the seed and on nothing else. */
static void function_of_the_seed(void **state)
{
    (void)state;
    static struct documents d = {.n = 9000, .unlabeled = -1};
    for (int64_t i = 0; i < d.n; i++) d.length[i] = random_length(2, i, 300);
    struct lvn_pack *a = pack(&d, 256, LVN_OVERLONG_SPLIT, 1), *b = pack(&d, 256, LVN_OVERLONG_SPLIT, 1),
                    *c = pack(&d, 256, LVN_OVERLONG_SPLIT, 2);
    assert_int_equal(a->rows, b->rows);
    assert_memory_equal(a->piece, b->piece, sizeof *a->piece * (size_t)a->n_pieces);
    assert_memory_equal(a->first, b->first, sizeof *a->first * (size_t)a->rows);
    assert_int_equal(a->n_pieces, c->n_pieces);
    assert_memory_not_equal(a->piece, c->piece, sizeof *a->piece * (size_t)a->n_pieces);
    lvn_pack_free(a);
    lvn_pack_free(b);
    lvn_pack_free(c);
}

/* Append the lengths of the paragraphs of a file, at about four bytes a token. */
static void add_paragraphs(struct documents *d, const char *path)
{
    char line[4096];
    int64_t bytes = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        bytes += (int64_t)strlen(line);
        if (*line != '\n') continue;
        if (bytes >= 8 && d->n < MOST) d->length[d->n++] = bytes / 4;
        bytes = 0;
    }
    fclose(f);
}

/* 10,000 documents whose lengths are those of the paragraphs of this project's pages, and of the whole pages. */
static void little_padding(void **state)
{
    (void)state;
    static struct documents real, d;
    char path[1024];
    DIR *dir = opendir("docs");
    assert_non_null(dir);
    for (struct dirent *e; (e = readdir(dir));)
        if (strstr(e->d_name, ".md")) {
            snprintf(path, sizeof path, "docs/%s", e->d_name);
            add_paragraphs(&real, path);
        }
    closedir(dir);
    assert_true(real.n > 500);
    d = (struct documents){.n = 10000, .unlabeled = -1};
    for (int64_t i = 0; i < d.n; i++) d.length[i] = real.length[lvn_random_below(3, 0, (uint64_t)i, real.n)];
    for (int64_t T = 256; T <= 4096; T *= 4)
        for (unsigned overlong = LVN_OVERLONG_SPLIT; overlong <= LVN_OVERLONG_DROP; overlong++) {
            struct lvn_pack *p = pack(&d, T, (enum lvn_overlong)overlong, 1);
            assert_true((double)p->tokens >= 0.97 * (double)(p->rows * T));
            lvn_pack_free(p);
        }
}

/* Lengths around multiples of a row, with each value of data.overlong. */
static void overlong(void **state)
{
    (void)state;
    static struct documents d = {.unlabeled = -1};
    static int64_t seen[MOST];
    const int64_t T = 10, lengths[] = {1, 2, 9, 10, 11, 12, 20, 21, 22, 30, 31, 32};
    d.n = sizeof lengths / sizeof lengths[0];
    memcpy(d.length, lengths, sizeof lengths);
    struct lvn_pack *p = pack(&d, T, LVN_OVERLONG_SPLIT, 1);
    check_rows(p, &d, seen);
    for (int64_t i = 1; i < d.n; i++) /* a last part of one token is the label of the part before */
        assert_int_equal(seen[i], lengths[i] % T == 1 ? lengths[i] - 1 : lengths[i]);
    assert_true(p->cut == 8 && p->lost == 1 && p->unlabeled == 1 && seen[0] == 0);
    lvn_pack_free(p);
    p = pack(&d, T, LVN_OVERLONG_TRUNCATE, 1);
    check_rows(p, &d, seen);
    for (int64_t i = 1; i < d.n; i++) assert_int_equal(seen[i], lengths[i] < T ? lengths[i] : T);
    assert_true(p->cut == 8 && p->unlabeled == 1 && p->lost == 1 + (1 + 2 + 10 + 11 + 12 + 20 + 21 + 22));
    lvn_pack_free(p);
    p = pack(&d, T, LVN_OVERLONG_DROP, 1);
    check_rows(p, &d, seen);
    for (int64_t i = 1; i < d.n; i++) assert_int_equal(seen[i], lengths[i] <= T ? lengths[i] : 0);
    assert_true(p->cut == 8 && p->lost == 1 + (11 + 12 + 20 + 21 + 22 + 30 + 31 + 32));
    lvn_pack_free(p);
    struct lvn_pack_source source = {.context = &d, .name = "made", .n = d.n, .length = length_of};
    assert_int_equal(lvn_pack_new(&p, &source, T, LVN_OVERLONG_REFUSE, 1), LVN_ARG);
    assert_non_null(strstr(levin_error_text(), "document 5 of 'made' has 11 tokens"));
    source.n = 1; /* a single token */
    assert_int_equal(lvn_pack_new(&p, &source, T, LVN_OVERLONG_SPLIT, 1), LVN_FORMAT);
    assert_non_null(strstr(levin_error_text(), "each is a single token"));
}

/* A source that counts its labels: a document without one is left out. */
static void counted_labels(void **state)
{
    (void)state;
    static struct documents d = {.n = 3, .length = {4, 5, 6}, .unlabeled = 1};
    static int64_t seen[MOST];
    struct lvn_pack *p = pack(&d, 16, LVN_OVERLONG_TRUNCATE, 1);
    check_rows(p, &d, seen);
    assert_true(seen[0] == 4 && seen[1] == 0 && seen[2] == 6);
    assert_true(p->unlabeled == 1 && p->lost == 5 && p->rows == 1);
    lvn_pack_free(p);
}

/* --- token files --- */

enum { END = 9 };

/* Documents of 1 to 12 tokens, then a part without an end token. */
static const char *write_documents(const char *name, int n, bool wide)
{
    static uint16_t ids[16384];
    static uint32_t wide_ids[16384];
    int at = 0;
    for (int i = 0; i < n; i++) {
        for (int k = i % 12; k > 0; k--) ids[at++] = (uint16_t)(10 + (i + k) % 50);
        ids[at++] = END;
    }
    ids[at++] = 11, ids[at++] = 12;
    for (int i = 0; i < at; i++) wide_ids[i] = ids[i];
    return wide ? write_file(name, wide_ids, (size_t)at * 4) : write_file(name, ids, (size_t)at * 2);
}

#define PACKED(file, ...)                                                                                              \
    (struct lvn_data_options)                                                                                          \
    {                                                                                                                  \
        .kind = "tokens", .path = file, .pack = true, .vocab_size = 64, .seed = 1, __VA_ARGS__                         \
    }

static enum lvn_status read_rows(const struct lvn_loader *l, int64_t step, int64_t first, int64_t n, int32_t *rows)
{
    const int64_t T = l->data->fields.field[0].dim[0];
    struct lvn_samples b = {.fields = l->data->fields, .rows = n, .p = {rows, rows + n * T, rows + 2 * n * T}};
    return lvn_loader_batch(l, step, first, &b);
}

static void token_files(void **state)
{
    (void)state;
    enum { T = 24, B = 5 };
    static int32_t whole[3 * B * T], part[3 * T];
    write_text("d.bin.json", "{\"dtype\": \"uint16\", \"end_token\": 9}");
    write_text("w.bin.json", "{\"dtype\": \"uint32\", \"end_token\": 9}");
    struct lvn_dataset *d = open_data(PACKED(write_documents("d.bin", 600, false), .end_token = -1, .block_size = T));
    struct lvn_dataset *w = open_data(PACKED(write_documents("w.bin", 600, true), .end_token = -1, .block_size = T));
    const struct lvn_split *train = &d->split[LVN_SPLIT_TRAIN];
    struct lvn_loader l;
    ASSERT_OK(lvn_loader_init(&l, d, LVN_SPLIT_TRAIN, LVN_SAMPLING_PERMUTATION, B, 7));
    assert_int_equal(l.steps_per_epoch, train->n_samples / B);
    assert_int_equal(lvn_loader_eval_count(&l, 0), train->n_samples);
    assert_int_equal(train->pack->source.n, 601);
    assert_int_equal(train->pack->unlabeled, 50);
    int differ = 0;
    for (int64_t step = 0; step < 3 * l.steps_per_epoch; step++) {
        ASSERT_OK(read_rows(&l, step, 0, B, whole));
        for (int r = 0; r < B; r++) {
            const int32_t *ids = whole + r * T, *labels = ids + B * T, *segments = labels + B * T;
            ASSERT_OK(read_rows(&l, step, r, 1, part));
            assert_memory_equal(ids, part, T * 4);
            assert_memory_equal(labels, part + T, T * 4);
            assert_memory_equal(segments, part + 2 * T, T * 4);
            for (int t = 0; t < T; t++) {
                assert_true(segments[t] == t || (t && segments[t] == segments[t - 1]));
                if (labels[t] < 0) continue;
                assert_int_equal(labels[t], ids[t + 1]);
                assert_int_equal(segments[t], segments[t + 1]);
                assert_true(ids[t] != END);
            }
        }
        if (step < l.steps_per_epoch) continue;
        ASSERT_OK(read_rows(&l, step - l.steps_per_epoch, 0, 1, part));
        differ += memcmp(whole, part, T * 4) != 0;
    }
    assert_true(differ > 0); /* from epoch to epoch */
    for (int64_t r = 0; r < train->n_samples; r++) {
        void *out[2][3] = {{whole, whole + T, whole + 2 * T}, {part, part + T, part + 2 * T}};
        ASSERT_OK(lvn_dataset_sample(d, LVN_SPLIT_TRAIN, r, (struct lvn_draw){0}, out[0]));
        ASSERT_OK(lvn_dataset_sample(w, LVN_SPLIT_TRAIN, r, (struct lvn_draw){0}, out[1]));
        assert_memory_equal(whole, part, sizeof part);
    }
    uint64_t sum, other;
    struct lvn_data_options seed2 = PACKED(test_path("d.bin"), .end_token = 9, .block_size = T);
    seed2.seed = 2;
    struct lvn_dataset *other_seed = open_data(seed2);
    ASSERT_OK(lvn_dataset_fingerprint(d, &sum));
    ASSERT_OK(lvn_dataset_fingerprint(other_seed, &other));
    assert_true(sum != other);
    lvn_dataset_close(other_seed);
    lvn_dataset_close(w);
    lvn_dataset_close(d);
}

static void refused(void **state)
{
    (void)state;
    const char *file = write_documents("r.bin", 30, false), *text = write_text("t.txt", "some text of a few words\n");
    assert_refused(LVN_ARG, "no sidecar of", .kind = "tokens", .path = file, .pack = true, .vocab_size = 64,
                   .block_size = 8, .end_token = -1);
    assert_refused(LVN_FORMAT, "the end token 7 never occurs", .kind = "tokens", .path = file, .pack = true,
                   .vocab_size = 64, .block_size = 8, .end_token = 7);
    assert_refused(LVN_ARG, "data.end_token is 64", .kind = "tokens", .path = file, .pack = true, .vocab_size = 64,
                   .block_size = 8, .end_token = 64);
    assert_refused(LVN_ARG, "has 9 tokens, and a row of model.block_size has 8", .kind = "tokens", .path = file,
                   .pack = true, .vocab_size = 64, .block_size = 8, .end_token = END, .overlong = LVN_OVERLONG_REFUSE);
    assert_refused(LVN_ARG, "data.kind=chars has none", .kind = "chars", .path = text, .pack = true, .block_size = 8);
    assert_refused(LVN_ARG, "task.kind=mlm", .kind = "tokens", .path = file, .pack = true, .masks = true,
                   .block_size = 8);
    assert_refused(LVN_ARG, "data.stream", .kind = "tokens", .path = file, .pack = true, .stream = true,
                   .block_size = 8);
    write_text("bad.bin.json", "{\"end_token\": -3}");
    assert_refused(LVN_FORMAT, "end_token must be a token id", .kind = "tokens",
                   .path = write_documents("bad.bin", 30, false), .block_size = 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_document_once),
        cmocka_unit_test(function_of_the_seed),
        cmocka_unit_test(little_padding),
        cmocka_unit_test(overlong),
        cmocka_unit_test(counted_labels),
        cmocka_unit_test(token_files),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* test_encoded_cache.c - covers: src/text/data/texts/encoded_cache.c src/text/data/texts/documents.c
 * src/text/data/texts/source_files.c
 *
 * Encoded data in the user's cache: of several processes one encodes; after a kill another one does; what is in the
 * cache is used if and only if nothing that determines it has changed; ids are the same with and without a cache. */
#include "data_files.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/text.h"
#include "data/texts/encoded_cache.h"
#include "tokenizers/encoder.h"

#define TOKENIZER "tests/golden/tokenizers/tiny-gpt2"

enum { BYTES = 20 << 20 }; /* more than the buffer of the writer */

struct maker {
    int calls;   /* a pipe to which each call writes a byte */
    int pending; /* -1, or a pipe that is read before the data are made */
};

static enum lvn_status make(void *context, struct lvn_encoded_output *out)
{
    const struct maker *m = context;
    char byte = 'x', block[1 << 16];
    assert_int_equal(write(m->calls, &byte, 1), 1);
    if (m->pending >= 0) assert_int_equal(read(m->pending, &byte, 1), 1);
    for (int i = 0; i < BYTES / (int)sizeof block; i++) {
        memset(block, i, sizeof block);
        lvn_text_add_bytes(out->text, block, sizeof block);
        LVN_TRY(lvn_encoded_flush(out));
    }
    return LVN_OK;
}

/* Open the data in a child, which ends with 0 if they are complete. */
static pid_t open_in_child(uint64_t key, struct maker m)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child) return child;
    struct lvn_encoded e;
    bool good = lvn_encoded_open(&e, key, NULL, make, &m) == LVN_OK && e.bytes == BYTES;
    for (int64_t i = 0; good && i < BYTES; i++) good = (unsigned char)e.data[i] == (unsigned char)(i >> 16);
    lvn_encoded_release(&e);
    _exit(!good);
}

static int status_of(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* Bytes in a pipe that all writers have closed. */
static int count_calls(const int calls[2])
{
    char byte;
    int n = 0;
    close(calls[1]);
    while (read(calls[0], &byte, 1) == 1) n++;
    close(calls[0]);
    return n;
}

static int fresh_cache(void **state)
{
    if (test_dir_make(state)) return -1;
    return setenv("LEVIN_CACHE", test_path("cache"), 1);
}

static void one_of_several_makes(void **state)
{
    (void)state;
    int calls[2];
    pid_t child[5];
    assert_int_equal(pipe(calls), 0);
    for (int i = 0; i < 5; i++) child[i] = open_in_child(7, (struct maker){calls[1], -1});
    for (int i = 0; i < 5; i++) assert_int_equal(status_of(child[i]), 0);
    assert_int_equal(count_calls(calls), 1);
}

static void another_one_takes_over_after_a_kill(void **state)
{
    (void)state;
    int calls[2], pending[2];
    pid_t child[3];
    char byte;
    assert_int_equal(pipe(calls), 0);
    assert_int_equal(pipe(pending), 0);
    const pid_t first = open_in_child(8, (struct maker){calls[1], pending[0]});
    assert_int_equal(read(calls[0], &byte, 1), 1); /* it has the lock */
    for (int i = 0; i < 3; i++) child[i] = open_in_child(8, (struct maker){calls[1], -1});
    assert_int_equal(kill(first, SIGKILL), 0);
    assert_int_equal(WTERMSIG(status_of(first)), SIGKILL);
    for (int i = 0; i < 3; i++) assert_int_equal(status_of(child[i]), 0);
    assert_int_equal(count_calls(calls), 1);
    close(pending[0]);
    close(pending[1]);
}

/* --- documents --- */

/* Number of files in the cache. */
static int cached(void)
{
    LVN_LOCAL_ARENA(a);
    const char *const *names;
    int n = 0;
    const char *folder = test_path("cache/encoded");
    if (lvn_path_is_dir(folder)) ASSERT_OK(lvn_dir_list(&a, folder, &names, &n));
    return n;
}

static struct lvn_data_options documents(const char *path)
{
    return (struct lvn_data_options){
        .kind = "documents", .path = path, .tokenizer = TOKENIZER, .for_evaluation = true, .block_size = 4};
}

static void open_and_close(struct lvn_data_options o)
{
    lvn_dataset_close(open_data(o));
}

static void ids_are_made_again_if_something_has_changed(void **state)
{
    (void)state;
    const char *path = write_text("a.txt", "one two three, and four and five and six\n");
    const char *lines =
        write_text("a.jsonl", "{\"text\": \"one two three four\", \"more\": \"four and five and six and seven\"}\n");
    struct lvn_data_options o = documents(path);
    struct stat before, after;
    open_and_close(o);
    assert_int_equal(cached(), 1);
    LVN_LOCAL_ARENA(a);
    const char *const *names;
    int n;
    ASSERT_OK(lvn_dir_list(&a, test_path("cache/encoded"), &names, &n));
    const char *file = lvn_arena_printf(&a, "%s/%s", test_path("cache/encoded"), names[0]);
    assert_int_equal(stat(file, &before), 0);
    open_and_close(o);
    assert_int_equal(stat(file, &after), 0);
    assert_true(before.st_ino == after.st_ino && cached() == 1);
    o.allow_special = true;
    open_and_close(o);
    assert_int_equal(cached(), 2);
    o.tokenizer = "tests/golden/tokenizers/tiny-neox";
    open_and_close(o);
    assert_int_equal(cached(), 3);
    write_text("a.txt", "one two three, and four and five and sit\n");
    open_and_close(o);
    assert_int_equal(cached(), 4);
    o = documents(lines);
    open_and_close(o);
    assert_int_equal(cached(), 5);
    o.text_column = "more";
    open_and_close(o);
    assert_int_equal(cached(), 6);
    o.val_path = path;
    open_and_close(o);
    assert_int_equal(cached(), 7);
}

/* Expected ids of documents: each one encoded, and an end token after it if there are several. */
static struct lvn_ids encode_all(const struct lvn_tokenizer *t, const char *const *texts, int n)
{
    struct lvn_encoder *e = lvn_encoder_new(t);
    struct lvn_ids ids = {0};
    assert_non_null(e);
    for (int i = 0; i < n; i++) {
        ASSERT_OK(lvn_encode(e, texts[i], (int64_t)strlen(texts[i]), LVN_ENCODE_ORDINARY, &ids));
        ASSERT_OK(lvn_ids_reserve(&ids, 1));
        if (n > 1) ids.p[ids.n++] = t->end_id;
    }
    lvn_encoder_free(e);
    return ids;
}

static void check_ids(const char *path, const char *const *texts, int n)
{
    struct lvn_dataset *d = open_data(documents(path));
    const struct lvn_split *p = &d->split[LVN_SPLIT_ALL];
    struct lvn_ids expected = encode_all(d->tokenizer, texts, n);
    assert_int_equal(p->n_tokens, expected.n);
    assert_int_equal(p->width, 2);
    for (int64_t i = 0; i < expected.n; i++) assert_int_equal(((const uint16_t *)p->tokens)[i], expected.p[i]);
    lvn_ids_release(&expected);
    lvn_dataset_close(d);
}

/* The same ids, made, from the cache, and without a cache. */
static void ids_do_not_depend_on_the_cache(void **state)
{
    (void)state;
    const char *texts[] = {"one two three\n", "four and five\n", "and six\n"};
    LVN_LOCAL_TEXT(large);
    for (int i = 0; i < 200000; i++) lvn_text_printf(&large, "token %d and the next one. ", i * 7919 % 10007);
    assert_int_equal(mkdir(test_path("folder"), 0700), 0);
    const char *folder = test_path("folder"), *one = write_text("one.txt", texts[0]);
    write_text("folder/a.txt", texts[0]);
    write_text("folder/b.txt", texts[1]);
    write_text("folder/c.txt", texts[2]);
    write_text("folder/ignored.png", "x");
    const char *both[] = {texts[0], lvn_text_string(&large)};
    assert_int_equal(mkdir(test_path("two"), 0700), 0);
    write_text("two/a.txt", texts[0]);
    const char *two = write_text("two/b.txt", lvn_text_string(&large));
    for (int i = 0; i < 3; i++) {
        if (i == 2) setenv("LEVIN_CACHE", one, 1); /* no folder */
        check_ids(folder, texts, 3);
        check_ids(one, texts, 1);
        check_ids(test_path("two"), both, 2);
        if (i < 2) assert_int_equal(cached(), 3);
    }
    assert_true(lvn_path_is_file(two));
}

/* A failed encoding leaves no file in the cache. */
static void failures_are_not_kept(void **state)
{
    (void)state;
    struct lvn_dataset *d;
    struct lvn_data_options o = documents(write_text("empty.txt", ""));
    for (int i = 0; i < 2; i++) ASSERT_FAILS(FORMAT, "there is no text in '", lvn_dataset_open(&d, &o));
    o.path = write_text("bytes.txt", "a\xff\n");
    ASSERT_FAILS(FORMAT, "is not UTF-8 text", lvn_dataset_open(&d, &o));
    assert_int_equal(cached(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_of_several_makes, fresh_cache, test_dir_drop),
        cmocka_unit_test_setup_teardown(another_one_takes_over_after_a_kill, fresh_cache, test_dir_drop),
        cmocka_unit_test_setup_teardown(ids_are_made_again_if_something_has_changed, fresh_cache, test_dir_drop),
        cmocka_unit_test_setup_teardown(ids_do_not_depend_on_the_cache, fresh_cache, test_dir_drop),
        cmocka_unit_test_setup_teardown(failures_are_not_kept, fresh_cache, test_dir_drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

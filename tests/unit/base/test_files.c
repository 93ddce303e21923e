/* test_files.c - covers: src/base/files.c src/base/text.c src/base/output.c src/base/target.c src/base/arena.c
 *
 * Text buffers, UTF-8, nearest words, whole files, atomic writes, directories, checksums. */
#include "faults.h"
#include "io_test.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/output.h"
#include "base/target.h"
#include "base/text.h"
#include "formats/checksum.h"
#include "formats/sha256.h"
#include "tmp_folder.h"

static void text_grows(void **state)
{
    (void)state;
    struct lvn_text t = {0};
    assert_string_equal(lvn_text_string(&t), "");
    for (int i = 0; i < 1000; i++) lvn_text_printf(&t, "%d,", i);
    lvn_text_add(&t, "end");
    ASSERT_OK(lvn_text_status(&t));
    assert_int_equal(t.n, 10 * 2 + 90 * 3 + 900 * 4 + 3);
    assert_memory_equal(t.p, "0,1,2,3", 7);
    lvn_text_clear(&t);
    assert_string_equal(lvn_text_string(&t), "");
    lvn_text_release(&t);
    fault_memory_at(1);
    lvn_text_add(&t, "lost");
    lvn_text_add(&t, "lost as well");
    assert_null(lvn_text_string(&t));
    ASSERT_FAILS(MEMORY, "not enough memory", lvn_text_status(&t));
    lvn_text_release(&t);
}

static void utf8_round_trip(void **state)
{
    (void)state;
    char out[4];
    int used;
    for (int32_t c = 0; c < 0x110000; c++) {
        if (c >= 0xd800 && c < 0xe000) continue;
        int n = lvn_utf8_encode(c, out);
        assert_int_equal(lvn_utf8_decode(out, n, &used), c);
        assert_int_equal(used, n);
        if (n > 1) assert_int_equal(lvn_utf8_decode(out, n - 1, &used), -1);
    }
    static const char *const bad[] = {"\x80",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x80\x80",
                                      "\xed\xa0\x80",
                                      "\xf0\x80\x80\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xc3("};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(lvn_utf8_check(bad[i], (int64_t)strlen(bad[i])), 0);
    assert_int_equal(lvn_utf8_check("na\xc3\xafve", 6), -1);
    assert_int_equal(lvn_utf8_check("ok\xff", 3), 2);
}

static void nearest_word(void **state)
{
    (void)state;
    const char *const words[] = {"n_layer", "n_head", "n_embd", "block_size", NULL, "dropout", "lr"};
    assert_string_equal(lvn_nearest("n_layers", words, 7), "n_layer");
    assert_string_equal(lvn_nearest("n_haed", words, 7), "n_head");
    assert_string_equal(lvn_nearest("blocksize", words, 7), "block_size");
    assert_string_equal(lvn_nearest("l", words, 7), "lr");
    assert_null(lvn_nearest("banana", words, 7));
    assert_int_equal(lvn_edit_distance("", "abc"), 3);
    assert_int_equal(lvn_edit_distance("abcd", "abdc"), 1);
    assert_int_equal(lvn_edit_distance("kitten", "sitting"), 3);
}

static void whole_files(void **state)
{
    (void)state;
    char *text;
    int64_t bytes;
    const char *path = test_path("a.txt");
    ASSERT_OK(lvn_file_write(path, "first", 5));
    ASSERT_OK(lvn_file_write(path, "second", 6));
    ASSERT_OK(lvn_file_read(path, 6, &text, &bytes));
    assert_int_equal(bytes, 6);
    assert_string_equal(text, "second");
    free(text);
    ASSERT_FAILS(FORMAT, "more than 5 bytes", lvn_file_read(path, 5, &text, &bytes));
    ASSERT_FAILS(IO, "No such file", lvn_file_read(test_path("none"), 0, &text, &bytes));
    ASSERT_FAILS(IO, "directory", lvn_file_read(test_dir, 0, &text, &bytes));
    ASSERT_OK(lvn_file_read("/proc/self/status", 0, &text, &bytes)); /* its reported size is 0 */
    assert_true(bytes > 100);
    free(text);
    test_put("empty", "", 0);
    ASSERT_OK(lvn_file_read(test_path("empty"), 0, &text, &bytes));
    assert_int_equal(bytes, 0);
    free(text);
    struct lvn_mapping m;
    ASSERT_OK(lvn_file_map(&m, test_path("empty")));
    assert_null(m.data);
    lvn_file_unmap(&m);
    ASSERT_OK(lvn_file_map(&m, path));
    assert_int_equal(m.bytes, 6);
    assert_memory_equal(m.data, "second", 6);
    lvn_file_unmap(&m);
    ASSERT_FAILS(IO, "directory", lvn_file_map(&m, test_dir));
    ASSERT_FAILS(IO, "expected a regular file", lvn_file_map(&m, "/dev/null"));
}

/* Each system call of a write fails in turn: the old content stays, and no other file is left. */
static void writes_fail(void **state)
{
    (void)state;
    const char *path = test_path("kept.txt");
    ASSERT_OK(lvn_file_write(path, "old", 3));
    fault_files_at(0, false);
    ASSERT_OK(lvn_file_write(path, "old", 3));
    long calls = fault_files_at(0, false);
    assert_true(calls >= 5);
    for (long k = 1; k <= calls; k++) {
        ASSERT_OK(lvn_file_write(path, "old", 3));
        fault_files_at(k, false);
        ASSERT_FAILS(IO, "No space left", lvn_file_write(path, "new", 3));
        fault_files_at(0, false);
        char *text;
        int64_t bytes;
        ASSERT_OK(lvn_file_read(path, 0, &text, &bytes));
        /* The last call is the fsync of the directory: the new file exists then, but is not durable. */
        assert_string_equal(text, k == calls ? "new" : "old");
        free(text);
        struct lvn_arena a;
        lvn_arena_init(&a);
        const char *const *names;
        int n;
        ASSERT_OK(lvn_dir_list(&a, test_dir, &names, &n));
        for (int i = 0; i < n; i++) assert_null(strstr(names[i], "tmp"));
        lvn_arena_release(&a);
    }
    ASSERT_FAILS(IO, "cannot write", lvn_file_write(test_path("no/such/dir"), "x", 1));
    if (access("/dev/full", W_OK) == 0) {
        struct lvn_output o;
        ASSERT_FAILS(IO, "not a regular file", lvn_output_open(&o, "/dev/full"));
        ASSERT_FAILS(IO, "No space left", lvn_target_write("/dev/full", "x", 1));
    }
}

static void assert_content(const char *path, const char *expected)
{
    char *text;
    int64_t bytes;
    ASSERT_OK(lvn_file_read(path, 0, &text, &bytes));
    assert_string_equal(text, expected);
    free(text);
}

static bool is_a(const char *path, mode_t kind)
{
    struct stat s;
    return lstat(path, &s) == 0 && (s.st_mode & S_IFMT) == kind;
}

/* Links are followed and stay; other kinds of files are written to or refused, and never replaced. */
static void targets(void **state)
{
    (void)state;
    char link[PATH_MAX], far[PATH_MAX], pipe[PATH_MAX], text[8] = "";
    LVN_LOCAL_ARENA(a);
    struct lvn_target t;
    const char *file;
    int fd;
    snprintf(far, sizeof far, "%s", test_path("far.txt"));
    snprintf(link, sizeof link, "%s", test_path("link"));
    snprintf(pipe, sizeof pipe, "%s", test_path("pipe"));
    assert_int_equal(symlink("far.txt", link), 0);
    ASSERT_OK(lvn_target_write(link, "first", 5)); /* through a dangling link */
    ASSERT_OK(lvn_target_write(link, "second", 6));
    assert_true(is_a(link, S_IFLNK));
    assert_content(far, "second");
    ASSERT_OK(lvn_target_find(&a, link, &t));
    assert_string_equal(t.path, far);
    assert_false(t.stream);
    ASSERT_FAILS(IO, "symbolic link", lvn_file_open_nofollow(link, O_WRONLY | O_CREAT, &fd));
    assert_content(far, "second");
    ASSERT_OK(lvn_file_write(link, "own", 3)); /* lvn_file_write() replaces a link */
    assert_true(is_a(link, S_IFREG));

    assert_int_equal(mkfifo(pipe, 0600), 0);
    ASSERT_FAILS(IO, "not a regular file", lvn_file_open_nofollow(pipe, O_WRONLY | O_CREAT, &fd));
    ASSERT_FAILS(IO, "device or a pipe", lvn_target_file(&a, pipe, &file));
    ASSERT_FAILS(IO, "a pipe", lvn_file_write(pipe, "x", 1));
    int reader = open(pipe, O_RDONLY | O_NONBLOCK);
    ASSERT_OK(lvn_target_write(pipe, "through", 7));
    assert_int_equal(read(reader, text, 7), 7);
    assert_memory_equal(text, "through", 7);
    close(reader);
    assert_true(is_a(pipe, S_IFIFO));

    ASSERT_FAILS(IO, "it is a folder", lvn_target_write(test_dir, "x", 1));
    unlink(link);
    assert_int_equal(symlink("link", link), 0);
    ASSERT_FAILS(IO, "cannot write", lvn_target_write(link, "x", 1)); /* a link to itself */
    unlink(link);
}

/* A path in /proc/self/fd is the open file itself: its offset matters, and the file is not replaced. */
static void target_descriptor(void **state)
{
    (void)state;
    char path[40], far[PATH_MAX];
    snprintf(far, sizeof far, "%s", test_path("descriptor"));
    int fd = open(far, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, "head ", 5), 5);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (access(path, W_OK) != 0) skip();
    ASSERT_OK(lvn_target_write(path, "tail", 4));
    close(fd);
    assert_content(far, "head tail");
}

static void large_output(void **state)
{
    (void)state;
    const char *path = test_path("large");
    struct lvn_output o;
    static char part[300000];
    for (int past = 0; past < 2; past++) { /* with the page cache, and past it */
        ASSERT_OK(lvn_output_open(&o, path));
        if (past) lvn_output_bypass_cache(&o);
        struct lvn_checksum c;
        lvn_checksum_init(&c);
        for (int i = 0; i < 40; i++) {
            int64_t n = (i * 7919) % (int64_t)sizeof part;
            memset(part, i, (size_t)n);
            ASSERT_OK(lvn_output_write(&o, part, n));
            lvn_checksum_add(&c, part, n);
        }
        ASSERT_OK(lvn_output_close(&o));
        struct lvn_mapping m;
        ASSERT_OK(lvn_file_map(&m, path));
        assert_int_equal(m.bytes, o.bytes);
        assert_true(lvn_checksum(m.data, m.bytes) == lvn_checksum_value(&c));
        lvn_file_unmap(&m);
    }
}

static void write_two(const char *path, int64_t first, int64_t second, bool past)
{
    static char part[2 * LVN_OUTPUT_BUFFER];
    struct lvn_output o;
    struct lvn_mapping m;
    ASSERT_OK(lvn_output_open(&o, path));
    if (past) lvn_output_bypass_cache(&o);
    memset(part, 1, (size_t)first);
    ASSERT_OK(lvn_output_write(&o, part, first));
    memset(part, 2, (size_t)second);
    ASSERT_OK(lvn_output_write(&o, part, second));
    ASSERT_OK(lvn_output_close(&o));
    ASSERT_OK(lvn_file_map(&m, path));
    assert_int_equal(m.bytes, first + second);
    const unsigned char *p = m.data;
    assert_true(p[0] == 1 && p[first - 1] == 1 && p[first] == 2 && p[first + second - 1] == 2);
    lvn_file_unmap(&m);
}

/* Whatever the sizes of two writes relative to the buffer's, the file has them in order. */
static void output_in_order(void **state)
{
    (void)state;
    enum { B = LVN_OUTPUT_BUFFER };
    static const int64_t sizes[] = {1,     4096, B / 4 - 1, B / 2,    B / 2 + 1, B / 4 * 3, B - 4096,
                                    B - 1, B,    B + 1,     B + 4096, B / 2 * 3, 2 * B};
    enum { N = sizeof sizes / sizeof *sizes };
    char on_disk[256];
    /* The other files may be in memory. */
    snprintf(on_disk, sizeof on_disk, "%s/levin-test-%d", tmp_folder(), (int)getpid());
    for (int i = 0; i < 2 * N * N; i++)
        write_two(i % 2 ? on_disk : test_path("order"), sizes[i / 2 / N], sizes[i / 2 % N], i % 2);
    assert_int_equal(unlink(on_disk), 0);
}

/* A disk that is full at any of the direct writes: an error, at close at the latest. */
static void full_past_cache(void **state)
{
    (void)state;
    static char part[3 * LVN_OUTPUT_BUFFER + 5];
    for (long k = 1;; k++) {
        struct lvn_output o;
        ASSERT_OK(lvn_output_open(&o, test_path("full")));
        lvn_output_bypass_cache(&o);
        fault_files_at(0, false);
        fault_files_at(k, false);
        enum lvn_status written = lvn_output_write(&o, part, sizeof part), closed = lvn_output_close(&o);
        long calls = fault_files_at(0, false);
        assert_true(written == LVN_OK || closed == written);
        assert_int_equal(closed, k > calls ? LVN_OK : LVN_IO);
        lvn_error_clear();
        if (k <= calls) continue;
        assert_int_equal(calls, 5); /* three buffers, the end, fsync */
        break;
    }
}

static void directories(void **state)
{
    (void)state;
    const char *deep = test_path("tree/a//b/c/");
    ASSERT_OK(lvn_dir_make(deep));
    ASSERT_OK(lvn_dir_make(deep));
    test_put("tree/a/file", "x", 1);
    test_put("outside", "x", 1);
    assert_int_equal(symlink(test_path("outside"), test_path("tree/link")), 0);
    assert_int_equal(symlink("nowhere", test_path("tree/dangling")), 0);
    ASSERT_FAILS(IO, "not a directory", lvn_dir_make(test_path("tree/a/file")));
    ASSERT_FAILS(IO, "not a directory", lvn_dir_make(test_path("tree/a/file/below")));
    struct lvn_arena a;
    lvn_arena_init(&a);
    const char *const *names;
    int n;
    ASSERT_OK(lvn_dir_list(&a, test_path("tree"), &names, &n));
    assert_int_equal(n, 3);
    assert_string_equal(names[0], "a");
    assert_string_equal(names[2], "link");
    ASSERT_FAILS(IO, "No such", lvn_dir_list(&a, test_path("none"), &names, &n));
    ASSERT_OK(lvn_tree_remove(test_path("tree")));
    ASSERT_OK(lvn_tree_remove(test_path("tree")));
    assert_false(lvn_path_exists(test_path("tree")));
    bool found = true;
    char name[400] = ""; /* longer than names may be: whether it exists is not known */
    memset(name, 'x', sizeof name - 1);
    ASSERT_OK(lvn_path_find(test_path("tree"), &found));
    assert_false(found);
    ASSERT_OK(lvn_path_find(".", &found));
    assert_true(found);
    ASSERT_FAILS(IO, "cannot read 'xxx", lvn_path_find(name, &found));
    assert_true(lvn_path_is_file(test_path("outside")));
    assert_string_equal(lvn_path_join(&a, "a", "b"), "a/b");
    assert_string_equal(lvn_path_join(&a, "a/", "b"), "a/b");
    assert_string_equal(lvn_path_join(&a, "", "b"), "b");
    assert_string_equal(lvn_path_join(&a, "a", "/b"), "/b");
    assert_string_equal(lvn_path_dir(&a, "a/b/c"), "a/b");
    assert_string_equal(lvn_path_dir(&a, "/c"), "/");
    assert_string_equal(lvn_path_dir(&a, "c"), ".");
    assert_string_equal(lvn_path_name("a/b/c"), "c");
    lvn_arena_release(&a);
}

/* Values from the two specifications' own tools, and the same in chunks of every size. */
static void checksums(void **state)
{
    (void)state;
    unsigned char data[1000];
    for (int i = 0; i < 1000; i++) data[i] = (unsigned char)(i * 131 + 7);
    assert_true(lvn_checksum("", 0) == 0xef46db3751d8e999u);
    assert_true(lvn_checksum("abc", 3) == 0x44bc2cf5ad770999u);
    assert_true(lvn_checksum("Nobody inspects the spammish repetition", 39) == 0xfbcea83c8a378bf1u);
    char whole[LVN_SHA256_TEXT], pieces[LVN_SHA256_TEXT];
    struct lvn_sha256 s;
    lvn_sha256_init(&s);
    lvn_sha256_add(&s, "abc", 3);
    lvn_sha256_finish(&s, whole);
    assert_string_equal(whole, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    lvn_sha256_init(&s);
    lvn_sha256_add(&s, data, 1000);
    lvn_sha256_finish(&s, whole);
    for (int64_t part = 1; part < 200; part++) {
        struct lvn_checksum c;
        lvn_checksum_init(&c);
        lvn_sha256_init(&s);
        for (int64_t i = 0; i < 1000; i += part) {
            int64_t n = i + part < 1000 ? part : 1000 - i;
            lvn_checksum_add(&c, data + i, n);
            lvn_sha256_add(&s, data + i, (size_t)n);
        }
        assert_true(lvn_checksum_value(&c) == lvn_checksum(data, 1000));
        lvn_sha256_finish(&s, pieces);
        assert_string_equal(whole, pieces);
    }
    char text[LVN_CHECKSUM_TEXT];
    assert_string_equal(lvn_checksum_text(0x1fu, text), "000000000000001f");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_grows),      cmocka_unit_test(utf8_round_trip),   cmocka_unit_test(nearest_word),
        cmocka_unit_test(whole_files),     cmocka_unit_test(writes_fail),       cmocka_unit_test(large_output),
        cmocka_unit_test(targets),         cmocka_unit_test(target_descriptor), cmocka_unit_test(output_in_order),
        cmocka_unit_test(full_past_cache), cmocka_unit_test(directories),       cmocka_unit_test(checksums),
    };
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}

/* test_checkpoint.c - covers: src/files/checkpoints/checkpoint.c src/files/checkpoints/checkpoint_directory.c
 * src/files/checkpoints/checkpoint_write.c src/files/checkpoints/manifest.c
 *
 * Checkpoints are whole or not there: damage, full disks, what is kept. Kills: test_checkpoint_kill.c. */
#include "checkpoint_files.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "checkpoints/manifest.h"
#include "faults.h"
#include "formats/checksum.h"
#include "formats/json.h"

static void assert_steps(const char *dir, const char *expected)
{
    char text[256] = "";
    for (int i = 0; i < 200; i++) {
        char name[400];
        snprintf(name, sizeof name, "%s/step-%d", dir, i);
        if (lvn_path_is_dir(name)) snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", i);
    }
    assert_string_equal(text, expected);
}

static void written_and_read(void **state)
{
    (void)state;
    const char *dir = fresh();
    assert_int_equal(newest(dir, NULL, NULL), -1);
    ASSERT_OK(lvn_checkpoint_clean(dir));
    ASSERT_OK(save(dir, 10, NAN));
    assert_int_equal(linked(dir, "last"), 10);
    assert_int_equal(linked(dir, "best"), -1);
    ASSERT_OK(save(dir, 20, 2.5));
    ASSERT_OK(save(dir, 30, 3.5));
    assert_int_equal(newest(dir, NULL, NULL), 30);
    assert_int_equal(linked(dir, "last"), 30);
    assert_int_equal(linked(dir, "best"), 20);
    assert_int_equal(hidden(dir), 0);
    LVN_LOCAL_ARENA(a);
    struct lvn_manifest m;
    ASSERT_OK(lvn_manifest_read(&a, lvn_path_join(&a, dir, "step-20"), &m));
    assert_int_equal(m.step, 20);
    assert_true(m.val_loss == 2.5);
    /* The same step again, over the old one. */
    ASSERT_OK(save(dir, 30, 1.5));
    assert_int_equal(linked(dir, "best"), 30);
    assert_int_equal(hidden(dir), 0);
    assert_steps(dir, "10 20 30 ");
    struct lvn_checkpoint_writer *w;
    ASSERT_OK(lvn_checkpoint_begin(&w, dir, 40));
    lvn_checkpoint_add_text(w, "config.json", "{}", 2);
    lvn_checkpoint_writer_free(w);
    assert_int_equal(hidden(dir), 0);
    assert_int_equal(newest(dir, NULL, NULL), 30);
    test_put("file", "", 0);
    ASSERT_FAILS(IO, "not a directory", lvn_checkpoint_begin(&w, test_path("file"), 1));
    assert_null(w);
}

static void flip(const char *path, int64_t at)
{
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    char byte;
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 4;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* A tokenizer may have any number of files. */
static void many_files(void **state)
{
    (void)state;
    enum { FILES = 200 };
    const char *dir = fresh();
    struct lvn_checkpoint_writer *w;
    struct lvn_checkpoint c;
    char name[400];
    ASSERT_OK(lvn_checkpoint_begin(&w, dir, 1));
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "part-%d.txt", i);
        lvn_checkpoint_add_text(w, name, name, (int64_t)strlen(name));
    }
    ASSERT_OK(lvn_checkpoint_commit(w, NAN, NULL));
    ASSERT_OK(lvn_checkpoint_open_newest(&c, dir));
    assert_int_equal(c.step, 1);
    lvn_checkpoint_close(&c);
    snprintf(name, sizeof name, "%s/step-1/part-%d.txt", dir, FILES - 1);
    flip(name, 3);
    ASSERT_OK(lvn_checkpoint_open_newest(&c, dir));
    assert_null(c.path); /* the manifest has the last file, too */
    lvn_checkpoint_close(&c);
}

/* Damage step-20 in one way: step-10 must then be opened, and the error must be `sentence`. */
static void damage(const char *name, int64_t flipped, int64_t length, const char *sentence)
{
    const char *dir = fresh();
    ASSERT_OK(save(dir, 10, 2));
    ASSERT_OK(save(dir, 20, 1));
    char path[400], text[1024];
    snprintf(path, sizeof path, "%s/step-20/%s", dir, name);
    if (flipped >= 0)
        flip(path, flipped);
    else if (length >= 0)
        assert_int_equal(truncate(path, length), 0);
    else
        ASSERT_OK(lvn_tree_remove(path));
    int skipped;
    assert_int_equal(newest(dir, &skipped, text), 10);
    assert_int_equal(skipped, 1);
    assert_non_null(strstr(text, "step-20' is skipped: "));
    if (!strstr(text, sentence)) fail_msg("'%s' lacks '%s'", text, sentence);
}

static void damaged_ones_are_skipped(void **state)
{
    (void)state;
    damage("model.safetensors", 20000, 0, "tensor 'a' does not match its checksum");
    damage("model.safetensors", 20, 0, "header does not match");
    damage("model.safetensors", -1, 20000, "it has 20000 bytes");
    damage("state/optimizer.safetensors", 1000, 0, "tensor 'a' does not match");
    damage("config.json", 0, 0, "bytes do not match");
    damage("config.json", -1, -1, "config.json' is missing");
    damage("state/deep/er.txt", -1, -1, "er.txt' is missing");
    damage("state/manifest.json", 100, 0, "manifest.json");
    damage("state/manifest.json", -1, 200, "invalid JSON");
    damage("state/manifest.json", -1, 0, "invalid JSON");
    damage("state/manifest.json", -1, -1, "it is incomplete");
}

/* Write the manifest of a checkpoint as another version of levin would, with its checksum. */
static void set_version(const char *dir, int64_t step, int version)
{
    char path[400], sum[LVN_CHECKSUM_TEXT];
    json_t *top;
    struct lvn_text line = {0};
    snprintf(path, sizeof path, "%s/step-%lld/state/manifest.json", dir, (long long)step);
    ASSERT_OK(lvn_json_read(path, &top));
    json_t *manifest = json_object_get(top, "manifest");
    json_object_set_new(manifest, "version", json_integer(version));
    lvn_json_add(&line, lvn_json_begin(), manifest, 0);
    json_object_set_new(top, "sum", json_string(lvn_checksum_text(lvn_checksum(line.p, line.n), sum)));
    ASSERT_OK(lvn_json_write(path, lvn_json_begin(), top));
    lvn_text_release(&line);
    json_decref(top);
}

/* A checkpoint of another version is not damaged: it is refused, no run begins again over it, and nothing changes. */
static void other_versions_are_refused(void **state)
{
    (void)state;
    const char *dir = fresh(), *sentence = "state/manifest.json: the manifest has version 1, but this levin supports "
                                           "version 2; use the levin that wrote it";
    struct lvn_checkpoint c;
    ASSERT_OK(save(dir, 10, 2));
    ASSERT_OK(save(dir, 20, 1));
    set_version(dir, 10, 1);
    assert_int_equal(newest(dir, NULL, NULL), 20); /* an older one does not matter */
    ASSERT_OK(lvn_checkpoint_clean(dir));
    set_version(dir, 10, 2);
    set_version(dir, 20, 1);
    ASSERT_FAILS(UNSUPPORTED, sentence, lvn_checkpoint_open_newest(&c, dir));
    ASSERT_FAILS(UNSUPPORTED, sentence, lvn_checkpoint_clean(dir));
    assert_int_equal(linked(dir, "last"), 20);
    assert_int_equal(linked(dir, "best"), 20);
}

/* A checkpoint that cannot be read now, as on a network file system, remains the best one. */
static void unreadable_ones_remain_linked(void **state)
{
    (void)state;
    const char *dir = fresh();
    char files[400], aside[400];
    ASSERT_OK(save(dir, 10, 1));
    ASSERT_OK(save(dir, 20, 2));
    for (int step = 10; step <= 20; step += 10) {
        snprintf(files, sizeof files, "%s/step-%d/state", dir, step);
        snprintf(aside, sizeof aside, "%s/step-%d/aside", dir, step);
        assert_int_equal(rename(files, aside), 0);
        assert_int_equal(symlink("state", files), 0); /* a loop: ELOOP, for root too */
        lvn_error_clear();
        if (step == 10) ASSERT_OK(save(dir, 20, 2));
        assert_int_equal(linked(dir, "best"), 10);
        ASSERT_OK(lvn_checkpoint_clean(dir));
        assert_string_equal(levin_error_text(), ""); /* a call that succeeds leaves no message */
        assert_int_equal(linked(dir, "last"), 20);
        assert_int_equal(linked(dir, "best"), 10);
        int64_t found;
        if (step == 20) {
            struct lvn_checkpoint c;
            ASSERT_FAILS(IO, "cannot read", lvn_checkpoint_newest_step(dir, &found));
            ASSERT_FAILS(IO, "step-20' to use an older checkpoint", lvn_checkpoint_open_newest(&c, dir));
        } else {
            assert_int_equal(newest(dir, NULL, NULL), 20); /* an older one does not matter */
        }
        assert_int_equal(unlink(files), 0);
        assert_int_equal(rename(aside, files), 0);
    }
}

static void manifest_finds_every_flip(void **state)
{
    (void)state;
    const char *dir = fresh();
    ASSERT_OK(save(dir, 10, 2));
    char path[400], *text;
    int64_t bytes;
    snprintf(path, sizeof path, "%s/step-10/state/manifest.json", dir);
    ASSERT_OK(lvn_file_read(path, 0, &text, &bytes));
    int unnoticed = 0;
    for (int64_t i = 0; i < bytes; i++) {
        struct lvn_arena a;
        lvn_arena_init(&a);
        struct lvn_manifest m;
        text[i] ^= 1;
        enum lvn_status status = lvn_manifest_parse(&a, "m", text, bytes, &m);
        if (status != LVN_OK) {
            if (status != LVN_FORMAT)
                fail_msg("%lld: %s", (long long)i, levin_error_text()); /* a flip in the version is damage too */
        } else {
            unnoticed++; /* space to '!' is noticed; a letter of "sum"'s value cannot pass */
            assert_int_equal(m.step, 10);
        }
        text[i] ^= 1;
        lvn_arena_release(&a);
    }
    assert_int_equal(unnoticed, 0);
    free(text);
}

static void full_disk(void **state)
{
    (void)state;
    const char *dir = fresh();
    ASSERT_OK(save(dir, 10, 2));
    fault_files_at(0, false);
    ASSERT_OK(save(dir, 10, 2));
    long calls = fault_files_at(0, false) + 4;
    int committed = 0;
    for (long k = 1; k <= calls; k++)
        for (int sticky = 0; sticky < 2; sticky++) {
            ASSERT_OK(save(dir, 10, 2));
            fault_files_at(k, sticky);
            enum lvn_status status = save(dir, 20, 1);
            fault_files_at(0, false);
            if (status != LVN_OK) assert_int_equal(status, LVN_IO);
            int skipped;
            int64_t found = newest(dir, &skipped, NULL);
            assert_int_equal(skipped, 0);
            assert_int_equal(hidden(dir), 0);
            assert_true(found == 20 || (found == 10 && status != LVN_OK));
            committed += found == 20;
            ASSERT_OK(lvn_checkpoint_clean(dir));
            assert_int_equal(linked(dir, "last"), found);
            assert_int_equal(linked(dir, "best"), found);
            char path[400];
            snprintf(path, sizeof path, "%s/step-20", dir);
            ASSERT_OK(lvn_tree_remove(path));
        }
    assert_in_range(committed, 2, 2 * calls - 20);
    /* The same while a checkpoint is replaced. */
    for (long k = 1; k <= calls + 4; k++)
        for (int sticky = 0; sticky < 2; sticky++) {
            fault_files_at(k, sticky);
            enum lvn_status status = save(dir, 10, 2);
            fault_files_at(0, false);
            if (status != LVN_OK) assert_int_equal(status, LVN_IO);
            int skipped;
            assert_int_equal(newest(dir, &skipped, NULL), 10);
            assert_int_equal(skipped, 0);
            ASSERT_OK(lvn_checkpoint_clean(dir));
            assert_int_equal(hidden(dir), 0);
        }
    /* The system's limit on file sizes. */
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 10000;
    setrlimit(RLIMIT_FSIZE, &small);
    enum lvn_status status = save(dir, 20, 1);
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(status, LVN_IO);
    assert_non_null(strstr(levin_error_text(), "File too large"));
    assert_int_equal(newest(dir, NULL, NULL), 10);
    assert_int_equal(hidden(dir), 0);
}

static void memory_runs_out(void **state)
{
    (void)state;
    const char *dir = fresh();
    ASSERT_OK(save(dir, 10, 2));
    for (long k = 1;; k++) {
        fault_memory_at(k);
        enum lvn_status status = save(dir, 20, 1);
        fault_memory_at(0);
        assert_int_equal(hidden(dir), 0);
        assert_true(status != LVN_OK || k > 40);
        if (status == LVN_OK) break;
        assert_int_equal(status, LVN_MEMORY);
    }
    for (long k = 1;; k++) {
        struct lvn_checkpoint c;
        fault_memory_at(k);
        enum lvn_status status = lvn_checkpoint_open_newest(&c, dir);
        fault_memory_at(0);
        if (status == LVN_OK) {
            assert_int_equal(c.step, 20);
            assert_true(k > 100);
            lvn_checkpoint_close(&c);
            break;
        }
        assert_int_equal(status, LVN_MEMORY);
    }
}

/* A checkpoint is replaced, and has a file that levin did not write. */
static void files_of_others_stay(void **state)
{
    (void)state;
    char path[400];
    const char *dir = fresh();
    ASSERT_OK(save(dir, 10, 1));
    note(dir, 10);
    ASSERT_OK(save(dir, 10, 1));
    assert_int_equal(with_notes(dir), 1);
    note(dir, 10);
    ASSERT_OK(save(dir, 10, 1)); /* what it is renamed to exists, by the replacement before */
    assert_int_equal(with_notes(dir), 2);
    assert_int_equal(newest(dir, NULL, NULL), 10);
    dir = fresh();
    ASSERT_OK(save(dir, 10, 1));
    note(dir, 10);
    snprintf(path, sizeof path, "%s/step-10/state/manifest.json", dir);
    assert_int_equal(truncate(path, 200), 0);
    ASSERT_OK(save(dir, 10, 1));
    assert_int_equal(with_notes(dir), 1);
    assert_int_equal(newest(dir, NULL, NULL), 10);
    /* A replaced one that a kill left: --overwrite is told of the file, and a save by a process with the same number,
     * as in containers, keeps it. */
    dir = fresh();
    ASSERT_OK(save(dir, 10, 1));
    note(dir, 10);
    char left[420];
    snprintf(path, sizeof path, "%s/step-10", dir);
    snprintf(left, sizeof left, "%s/.step-10.old-%ld", dir, (long)getpid());
    assert_int_equal(rename(path, left), 0);
    struct lvn_arena a;
    lvn_arena_init(&a);
    struct lvn_checkpoints_contents seen;
    ASSERT_OK(lvn_checkpoints_scan(&a, dir, &seen));
    assert_non_null(seen.unmanaged);
    assert_non_null(strstr(seen.unmanaged, "/notes.txt"));
    lvn_arena_release(&a);
    ASSERT_OK(save(dir, 10, 1)); /* nothing has replaced it: it is step-10 again, and then replaced */
    ASSERT_OK(save(dir, 10, 1));
    assert_int_equal(hidden(dir), 0);
    assert_int_equal(with_notes(dir), 1);
}

static void keeping(void **state)
{
    (void)state;
    const char *dir = fresh();
    const double loss[] = {5, 3, 4, 2, 6, NAN};
    for (int i = 0; i < 6; i++) ASSERT_OK(save(dir, 10 * (i + 1), loss[i]));
    ASSERT_OK(lvn_checkpoint_prune(dir, -1));
    assert_steps(dir, "10 20 30 40 50 60 ");
    ASSERT_OK(lvn_checkpoint_prune(dir, 3));
    assert_steps(dir, "20 30 40 60 ");
    assert_int_equal(hidden(dir), 0);
    ASSERT_OK(lvn_checkpoint_prune(dir, 0));
    assert_steps(dir, "40 60 ");
    assert_int_equal(linked(dir, "best"), 40);
    assert_int_equal(linked(dir, "last"), 60);
    dir = fresh(); /* without validation: the newest ones */
    for (int i = 1; i < 6; i++) ASSERT_OK(save(dir, i, NAN));
    ASSERT_OK(lvn_checkpoint_prune(dir, 2));
    assert_steps(dir, "4 5 ");
    dir = fresh(); /* of equal losses the older stays best */
    for (int i = 1; i < 4; i++) ASSERT_OK(save(dir, i, 1));
    assert_int_equal(linked(dir, "best"), 1);
    ASSERT_OK(lvn_checkpoint_clean(dir));
    assert_int_equal(linked(dir, "best"), 1);
    ASSERT_OK(lvn_checkpoint_prune(dir, 1));
    assert_steps(dir, "1 3 ");
}

static void pointer_files(void **state)
{
    (void)state;
    const char *dir = fresh();
    ASSERT_OK(save(dir, 1, 1));
    ASSERT_OK(save(dir, 2, 2));
    char path[400];
    snprintf(path, sizeof path, "%s/last", dir);
    assert_int_equal(unlink(path), 0);
    ASSERT_OK(lvn_file_write(path, "step-1\n", 7));
    assert_int_equal(linked(dir, "last"), 1);
    struct lvn_arena a;
    lvn_arena_init(&a);
    const char *found;
    ASSERT_OK(lvn_checkpoint_locate(&a, path, "best", &found));
    assert_string_equal(lvn_path_name(found), "step-1");
    ASSERT_OK(lvn_file_write(path, "../../etc\n", 10));
    assert_int_equal(linked(dir, "last"), -1);
    ASSERT_FAILS(IO, "is a file", lvn_checkpoint_locate(&a, path, "best", &found));
    ASSERT_OK(lvn_checkpoint_clean(dir));
    assert_int_equal(linked(dir, "last"), 2);
    lvn_arena_release(&a);
}

static int no_links(const char *target, const char *path)
{
    (void)target, (void)path;
    errno = EROFS; /* as shared folders of virtual machines */
    return -1;
}

static void without_links(void **state)
{
    (void)state;
    const char *dir = fresh();
    ASSERT_OK(save(dir, 1, 1)); /* with links */
    const struct lvn_system real = lvn_system;
    lvn_system.symlink = no_links;
    const enum lvn_status status = save(dir, 2, 0.5);
    lvn_system = real;
    ASSERT_OK(status);
    assert_int_equal(linked(dir, "last"), 2);
    assert_int_equal(linked(dir, "best"), 2);
    assert_int_equal(hidden(dir), 0);
}

static void models_are_found(void **state)
{
    (void)state;
    struct lvn_arena a;
    lvn_arena_init(&a);
    const char *dir = fresh(), *found;
    char run[300], path[400];
    snprintf(run, sizeof run, "%.*s", (int)(strlen(dir) - strlen("/checkpoints")), dir);
    ASSERT_FAILS(ARG, "there is no model", lvn_checkpoint_locate(&a, run, "best", &found));
    ASSERT_OK(save(dir, 1, 1));
    ASSERT_OK(save(dir, 2, 2));
    ASSERT_OK(lvn_checkpoint_locate(&a, run, "best", &found));
    assert_string_equal(lvn_path_name(found), "step-1");
    ASSERT_OK(lvn_checkpoint_locate(&a, run, "last", &found));
    assert_string_equal(lvn_path_name(found), "step-2");
    ASSERT_OK(lvn_checkpoint_locate(&a, dir, "last", &found));
    assert_string_equal(lvn_path_name(found), "step-2");
    snprintf(path, sizeof path, "%s/best/", dir);
    ASSERT_OK(lvn_checkpoint_locate(&a, path, "last", &found));
    assert_string_equal(lvn_path_name(found), "best");
    check_values(found, 1);
    snprintf(path, sizeof path, "%s/step-2", dir);
    ASSERT_OK(lvn_checkpoint_locate(&a, path, "best", &found));
    assert_string_equal(found, path);
    /* Without a link, the newest. */
    snprintf(path, sizeof path, "%s/best", dir);
    assert_int_equal(unlink(path), 0);
    ASSERT_OK(lvn_checkpoint_locate(&a, run, "best", &found));
    assert_string_equal(lvn_path_name(found), "step-2");
    /* Damaged weights are detected; a damaged optimizer state is irrelevant here. */
    snprintf(path, sizeof path, "%s/step-2/state/optimizer.safetensors", dir);
    flip(path, 1000);
    ASSERT_OK(lvn_checkpoint_locate(&a, run, "last", &found));
    snprintf(path, sizeof path, "%s/step-2/model.safetensors", dir);
    flip(path, 1000);
    ASSERT_FAILS(FORMAT, "tensor 'a' does not match", lvn_checkpoint_locate(&a, run, "last", &found));
    ASSERT_OK(lvn_dir_make(test_path("plain")));
    ASSERT_FAILS(IO, "neither a checkpoint nor a config.json",
                 lvn_checkpoint_locate(&a, test_path("plain"), "best", &found));
    test_put("plain/config.json", "{}", 2);
    ASSERT_OK(lvn_checkpoint_locate(&a, test_path("plain"), "best", &found));
    lvn_arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_and_read),
        cmocka_unit_test(many_files),
        cmocka_unit_test(damaged_ones_are_skipped),
        cmocka_unit_test(other_versions_are_refused),
        cmocka_unit_test(unreadable_ones_remain_linked),
        cmocka_unit_test(manifest_finds_every_flip),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(files_of_others_stay),
        cmocka_unit_test(keeping),
        cmocka_unit_test(pointer_files),
        cmocka_unit_test(without_links),
        cmocka_unit_test(models_are_found),
    };
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}

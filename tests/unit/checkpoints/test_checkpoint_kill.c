/* test_checkpoint_kill.c - covers: src/files/checkpoints/checkpoint_write.c
 * src/files/checkpoints/checkpoint_directory.c src/files/checkpoints/checkpoint.c
 *
 * A writer that is killed, before each call that changes the disk and at random moments: every checkpoint that is
 * there is whole, the newest is no older than before, and files that levin did not write are kept. */
#include "checkpoint_files.h"

#include "checkpoints/manifest.h"
#include "faults.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

/* Every step-N is complete, not only the newest. */
static void check_all(const char *dir)
{
    struct lvn_arena a;
    lvn_arena_init(&a);
    const char *const *names;
    int n;
    ASSERT_OK(lvn_dir_list(&a, dir, &names, &n));
    for (int i = 0; i < n; i++) {
        if (strncmp(names[i], "step-", 5) != 0) continue;
        struct lvn_manifest m;
        const char *path = lvn_path_join(&a, dir, names[i]);
        ASSERT_OK(lvn_manifest_read(&a, path, &m));
        ASSERT_OK(lvn_manifest_verify(path, &m, LVN_MANIFEST_ALL));
        check_values(path, m.step);
    }
    lvn_arena_release(&a);
}

/* Verify the directory after a kill, before and after clean-up; returns the newest step. */
static int64_t check_after_kill(const char *dir)
{
    int skipped;
    char text[1024];
    check_all(dir);
    ASSERT_OK(lvn_checkpoint_clean(dir));
    check_all(dir);
    assert_int_equal(hidden(dir), 0);
    int64_t found = newest(dir, &skipped, text);
    if (skipped) fail_msg("%s", text);
    assert_int_equal(linked(dir, "last"), found);
    assert_true(linked(dir, "best") > 0);
    return found;
}

/* Killed before each call that changes the disk: saving a new step, saving an old one over itself, pruning. */
static void killed_at_every_call(void **state)
{
    (void)state;
    for (long k = 1;; k++) {
        const char *dir = fresh();
        ASSERT_OK(save(dir, 1, 2));
        ASSERT_OK(save(dir, 2, 3));
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            fault_files_at(-k, false);
            _exit(save(dir, 2, 3) != LVN_OK || save(dir, 3, 1) != LVN_OK || lvn_checkpoint_prune(dir, 0) != LVN_OK);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        int64_t found = check_after_kill(dir);
        assert_true(found >= 2);
        ASSERT_OK(lvn_tree_remove(dir));
        if (WIFSIGNALED(status)) continue;
        assert_int_equal(status, 0); /* it finished */
        assert_int_equal(found, 3);
        assert_true(k > 80);
        break;
    }
}

static int no_exchange(const char *a, const char *b)
{
    (void)a, (void)b;
    errno = EINVAL;
    return -1;
}

/* Killed before each call that changes the disk while a checkpoint with a file of the user is replaced, on file systems
 * that exchange folders and on others: the file is kept. */
static void files_of_users_survive(void **state)
{
    (void)state;
    bool done = false;
    for (long k = 1; !done; k++)
        for (int exchanges = 0; exchanges < 2; exchanges++) {
            const char *dir = fresh();
            ASSERT_OK(save(dir, 1, 2));
            ASSERT_OK(save(dir, 2, 3));
            note(dir, 2);
            pid_t child = fork();
            assert_true(child >= 0);
            if (child == 0) {
                fault_files_at(-k, false);
                if (!exchanges) lvn_system.exchange = no_exchange;
                _exit(save(dir, 2, 3) != LVN_OK || save(dir, 2, 3) != LVN_OK);
            }
            int status;
            assert_int_equal(waitpid(child, &status, 0), child);
            if (with_notes(dir) != 1) fail_msg("exchanges %d: killed before call %ld, the file is lost", exchanges, k);
            int skipped;
            char text[1024];
            assert_int_equal(newest(dir, &skipped, text), 2);
            assert_int_equal(hidden(dir), 0);
            ASSERT_OK(lvn_tree_remove(dir));
            done = !WIFSIGNALED(status);
            if (done) assert_int_equal(status, 0);
            assert_true(!done || k > 50);
        }
}

/* Calls that change names: e: exchange, E: one that fails, r: rename of a directory step-N; s: fsync after one. */
static char calls[200];
static struct lvn_system system_before;

static void note_call(char call)
{
    const size_t n = strlen(calls);
    if (n + 1 < sizeof calls) calls[n] = call;
}

static int noted_exchange(const char *a, const char *b)
{
    note_call('e');
    return system_before.exchange(a, b);
}

static int noted_no_exchange(const char *a, const char *b)
{
    note_call('E');
    return no_exchange(a, b);
}

static int noted_rename(const char *from, const char *to)
{
    if (strstr(lvn_path_name(from), "step-")) note_call('r');
    return system_before.rename(from, to);
}

static int noted_sync(int fd)
{
    if (strchr(calls, 'r')) note_call('s');
    return system_before.fsync(fd);
}

/* Replace step-1; the calls from the first rename to the one that begins to remove the former step-1. */
static const char *replace(const char *dir)
{
    memset(calls, 0, sizeof calls);
    ASSERT_OK(save(dir, 1, 2));
    *(strrchr(calls, 'r') + 1) = 0;
    return calls;
}

/* The parent is synced before the former step-N is removed; a file system that cannot exchange is asked once. */
static void durable_before_removal(void **state)
{
    (void)state;
    const char *dir = fresh();
    ASSERT_OK(save(dir, 1, 2));
    system_before = lvn_system;
    lvn_system.exchange = noted_exchange;
    lvn_system.rename = noted_rename;
    lvn_system.fsync = noted_sync;
    assert_string_equal(replace(dir), "resr");
    lvn_system.exchange = noted_no_exchange;
    assert_string_equal(replace(dir), "rErrrsr");
    assert_string_equal(replace(dir), "rrsr");
    lvn_system = system_before;
}

/* Save and prune until it is killed. */
static void write_for_ever(const char *dir, int64_t from)
{
    for (int64_t step = from;; step++) {
        /* Each fifth one is written twice, over itself. */
        for (int twice = 0; twice < (step % 5 == 0 ? 2 : 1); twice++)
            if (save(dir, step, (double)(step * 7 % 11)) != LVN_OK || lvn_checkpoint_prune(dir, 2) != LVN_OK) _exit(1);
    }
}

static void killed_at_any_moment(void **state)
{
    (void)state;
    const char *dir = fresh();
    ASSERT_OK(save(dir, 1, 1));
    int64_t step = 1;
    uint32_t random = 12345;
    struct timespec begun, now;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    for (int round = 0; round < 40; round++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) write_for_ever(dir, step + 1);
        random = random * 1664525u + 1013904223u;
        usleep(random >> 8 & 0x7fff); /* up to 33 ms */
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status)); /* it did not fail by itself */
        int64_t found = check_after_kill(dir);
        assert_true(found >= step);
        step = found;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (round >= 15 && now.tv_sec - begun.tv_sec >= 2) break; /* a slow disk: fewer rounds */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_any_moment),
        cmocka_unit_test(killed_at_every_call),
        cmocka_unit_test(files_of_users_survive),
        cmocka_unit_test(durable_before_removal),
    };
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}

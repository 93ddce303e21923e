/* test_kernel_cache.c - covers: src/core/backend/gpu/kernel_cache.c
 *
 * The cache of compiled kernels: an entry is found under its key and no other; a damaged or truncated entry, or one
 * of another key, counts as missing; without a folder nothing is stored and nothing fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/gpu/kernel_cache.h"
#include "base/files.h"

static char folder[64];

/* The one file of the cache. */
static const char *only_file(struct lvn_arena *a)
{
    const char *const *names;
    int n;
    const char *kernels = lvn_arena_printf(a, "%s/kernels", folder);
    assert_int_equal(lvn_dir_list(a, kernels, &names, &n), LVN_OK);
    assert_int_equal(n, 1);
    return lvn_path_join(a, kernels, names[0]);
}

static bool found(const char *key, const char *expected)
{
    void *binary;
    int64_t bytes;
    if (!lvn_kernel_cache_find(key, &binary, &bytes)) return false;
    assert_int_equal(bytes, (int64_t)strlen(expected));
    assert_memory_equal(binary, expected, strlen(expected));
    free(binary);
    return true;
}

static void what_is_kept_is_found(void **state)
{
    (void)state;
    assert_false(found("device a\ntext", ""));
    assert_int_equal(lvn_kernel_cache_store("device a\ntext", "binary a", 8), LVN_OK);
    assert_true(found("device a\ntext", "binary a"));
    assert_false(found("device b\ntext", ""));
    assert_int_equal(lvn_kernel_cache_store("device a\ntext", "newer", 5), LVN_OK);
    assert_true(found("device a\ntext", "newer"));
}

static void what_is_damaged_is_not_found(void **state)
{
    (void)state;
    struct lvn_arena a;
    char *file;
    int64_t n;
    lvn_arena_init(&a);
    assert_int_equal(lvn_kernel_cache_store("device a\ntext", "binary a", 8), LVN_OK);
    const char *path = only_file(&a);
    assert_int_equal(lvn_file_read(path, 0, &file, &n), LVN_OK);
    for (int64_t at = 0; at < n; at++) { /* any byte: magic number, sizes, checksum, key, binary */
        file[at] ^= 1;
        assert_int_equal(lvn_file_write(path, file, n), LVN_OK);
        if (found("device a\ntext", "binary a")) fail_msg("the damage of byte %d was not detected", (int)at);
        file[at] ^= 1;
    }
    for (int64_t cut = 0; cut < n; cut += 7) {
        assert_int_equal(lvn_file_write(path, file, cut), LVN_OK);
        assert_false(found("device a\ntext", "binary a"));
    }
    assert_int_equal(lvn_kernel_cache_store("device a\ntext", "binary a", 8),
                     LVN_OK); /* compiled again, and stored again */
    assert_true(found("device a\ntext", "binary a"));
    free(file);
    lvn_arena_release(&a);
}

static void without_a_folder_nothing_is_kept(void **state)
{
    (void)state;
    setenv("LEVIN_CACHE", "/dev/null/no", 1);
    assert_int_not_equal(lvn_kernel_cache_store("device a\ntext", "binary a", 8), LVN_OK);
    assert_non_null(strstr(levin_error_text(), "/dev/null"));
    lvn_error_clear();
    assert_false(found("device a\ntext", ""));
    assert_string_equal(levin_error_text(), "");
    setenv("LEVIN_CACHE", folder, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_found),
        cmocka_unit_test(what_is_damaged_is_not_found),
        cmocka_unit_test(without_a_folder_nothing_is_kept),
    };
    strcpy(folder, "/tmp/levin-kernels.XXXXXX");
    if (!mkdtemp(folder)) return 1;
    setenv("LEVIN_CACHE", folder, 1);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lvn_tree_drop(folder);
    return failed;
}

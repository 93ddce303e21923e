/* test_kernel_ocloc.c - every kernel for devices compiles for Intel's GPUs, without a warning and without a GPU: the
 * first text of each source, by ocloc, for dg2 (Arc), and for pvc (Max) as with memory in large pieces. Skipped where
 * ocloc is missing.
 *
 * label: long */
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/kernel_texts.h"

static int run(char *const *words, const char *output)
{
    extern char **environ;
    posix_spawn_file_actions_t files;
    pid_t pid;
    int status = -1;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    if (posix_spawnp(&pid, words[0], &files, NULL, words, environ) == 0) waitpid(pid, &status, 0);
    posix_spawn_file_actions_destroy(&files);
    return status;
}

static void ocloc_compiles_all(void **state)
{
    (void)state;
    char folder[] = "/tmp/levin-ocloc.XXXXXX", source[64], log[64], out[64];
    static char *const devices[] = {"dg2", "pvc"};
    assert_non_null(mkdtemp(folder));
    snprintf(source, sizeof source, "%s/kernel.cl", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    snprintf(out, sizeof out, "%s/out", folder);
    bool here = run((char *[]){"ocloc", "--help", NULL}, log) != -1;
    for (int k = 0; k < n_modules && here; k++) {
        if (k > 0 && !strcmp(modules[k].source, modules[k - 1].source)) continue;
        FILE *f = fopen(source, "w");
        assert_non_null(f);
        fprintf(f, "#define LVN_DEVICE\n%s", lvn_cuda_module_text(&arena, &modules[k]));
        fclose(f);
        for (int d = 0; d < 2; d++) {
            int status = run((char *[]){"ocloc", "compile", "-q", "-file", source, "-device", devices[d], "-out_dir",
                                        out, "-output_no_suffix", d ? "-options" : NULL,
                                        "-cl-intel-greater-than-4GB-buffer-required", NULL},
                             log);
            char *said = read_all(log);
            if (status || strstr(said, "warning:") || strstr(said, "error:"))
                fail_msg("%s for %s\n%s", modules[k].source, devices[d], said);
            free(said);
        }
    }
    run((char *[]){"rm", "-rf", folder, NULL}, "/dev/null");
    if (here) return;
    print_message("skipped: ocloc is not here (apt install intel-opencl-icd)\n");
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ocloc_compiles_all),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

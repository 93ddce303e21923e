/* test_kernel_ocloc.c - covers: src/core/ops/ops.def src/core/backend/gpu/kernel_sources.c
 *
 * label: long. ocloc, Intel's compiler, builds the kernels for devices without a GPU: the first text of each source
 * compiles for dg2 (Arc) and pvc (Max) without a warning; texts for matrix units, with the options that the backend
 * gives, spill no more than the table says. Skipped if ocloc is missing.
 *
 * The table tests/golden/kernels_intel.txt has a line for each of those kernels: the bytes of scratch memory of a
 * thread of 16 work-items, which hold values that do not fit into its registers. It holds for the ocloc that its first
 * line names. Texts that have not changed since it was written are not compiled again, except the first for each
 * device. After a change of kernels:
 *
 *     LEVIN_WRITE_TABLE=1 build/tests/test_kernel_ocloc */
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/opencl/opencl_device.h"
#include "backend/opencl/programs.h"
#include "unit/kernel_texts.h"

static const char table_path[] = "tests/golden/kernels_intel.txt";
static char folder[] = "/tmp/levin-ocloc.XXXXXX", source[64], log_path[64], out[64], dump[64];
static bool has_ocloc;

/* In front of texts for matrix units: this compiler has the instructions, but no header that declares them. */
static const char units[] =
    "#define LVN_MATRIX_INTEL 16\n"
    "float8 __attribute__((overloadable)) intel_sub_group_bf16_bf16_matrix_mad_k16(short8 a, int8 b, float8 c);\n"
    "float8 __attribute__((overloadable)) intel_sub_group_f16_f16_matrix_mad_k16(short8 a, int8 b, float8 c);\n";

/* Output and errors go to the file `log_path`. */
static int run(char *const *words)
{
    extern char **environ;
    posix_spawn_file_actions_t files;
    pid_t pid;
    int status = -1;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 1, log_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    if (posix_spawnp(&pid, words[0], &files, NULL, words, environ) == 0) waitpid(pid, &status, 0);
    posix_spawn_file_actions_destroy(&files);
    return status;
}

static int begin(void **state)
{
    set_up(state);
    assert_non_null(mkdtemp(folder));
    snprintf(source, sizeof source, "%s/kernel.cl", folder);
    snprintf(log_path, sizeof log_path, "%s/log", folder);
    snprintf(out, sizeof out, "%s/out", folder);
    snprintf(dump, sizeof dump, "%s/dump", folder);
    has_ocloc = run((char *[]){"ocloc", "--help", NULL}) != -1;
    return 0;
}

static int end(void **state)
{
    run((char *[]){"rm", "-rf", folder, NULL});
    return tear_down(state);
}

/* Compile to OUT/kernel. Returns false, without compiling, if the table already has this text and `first` is false. */
static bool compile(FILE *to, const struct lvn_gpu_module *m, const char *start, const char *device,
                    const char *options, bool first)
{
    const char *text = lvn_arena_printf(&arena, "%s#define LVN_DEVICE\n%s", start, lvn_cuda_module_source(&arena, m));
    if (table_has(to, m, device, options, text, first)) return false;
    FILE *f = fopen(source, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    int status =
        run((char *[]){"ocloc", "compile", "-q", "-file", source, "-device", (char *)(uintptr_t)device, "-out_dir", out,
                       "-output_no_suffix", *options ? "-options" : NULL, (char *)(uintptr_t)options, NULL});
    char *log = read_all(log_path);
    if (status || strstr(log, "warning:") || strstr(log, "error:"))
        fail_msg("%s for %s, %s\n%s", m->source, device, variant(m), log);
    free(log);
    return true;
}

/* "ocloc 22.43.24595, IGC 1.0.12504.6": the version of the driver, from ocloc, and that of its compiler, from the
 * packages of the system, because ocloc does not report it. */
static const char *compiler(void)
{
    char ask[400];
    snprintf(ask, sizeof ask,
             "cd %s && ocloc query OCL_DRIVER_VERSION && tr -d '\\0\\n' < OCL_DRIVER_VERSION > version && "
             "printf ', IGC ' >> version && dpkg-query -W -f '${Version}' libigc1 | sed 's/-.*//' >> version",
             folder);
    run((char *[]){"sh", "-c", ask, NULL});
    char *version = read_all(lvn_arena_printf(&arena, "%s/version", folder));
    version[strcspn(version, "\n")] = '\0';
    const char *name = lvn_arena_printf(&arena, "ocloc %s", version);
    free(version);
    return name;
}

/* The scratch memory of a thread for the kernel with this patch list: the second word of MEDIA_VFE_STATE, token 18.
 * Without that token there is none. */
static unsigned scratch_of(const char *list, const char *list_end)
{
    static const char state[] = "Token 18\n\t4 Size 16\n\tHex ";
    unsigned byte[4];
    const char *at = strstr(list, state);
    if (!at || (list_end && at > list_end)) return 0;
    assert_int_equal(sscanf(at + sizeof state - 1, "%*x %*x %*x %*x %x %x %x %x", byte, byte + 1, byte + 2, byte + 3),
                     4);
    return byte[0] | byte[1] << 8 | byte[2] << 16 | byte[3] << 24;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lines of the table, from ocloc's disassembled output, which has kernels in any order. */
static void write_lines(FILE *to, const struct lvn_gpu_module *m, bool large)
{
    enum { MAX_KERNELS = 16 };
    static const char start[] = "KernelName ";
    const char *lines[MAX_KERNELS], *binary = lvn_arena_printf(&arena, "%s/kernel", out);
    int n = 0;
    assert_int_equal(
        run((char *[]){"ocloc", "disasm", "-file", (char *)(uintptr_t)binary, "-device", "pvc", "-dump", dump, NULL}),
        0);
    char *all = read_all(lvn_arena_printf(&arena, "%s/PTM.txt", dump));
    for (const char *name = strstr(all, start), *next; name; name = next) {
        name += sizeof start - 1;
        next = strstr(name, start);
        assert_true(n < MAX_KERNELS);
        lines[n++] =
            lvn_arena_printf(&arena, "pvc %-18.*s registers %d, scratch %5u, %s: %s\n", (int)strcspn(name, "\n"), name,
                             large ? 256 : 128, scratch_of(name, next), m->source, variant(m));
    }
    free(all);
    assert_true(n > 0);
    qsort(lines, (size_t)n, sizeof *lines, by_text);
    for (int k = 0; k < n; k++) fputs(lines[k], to);
}

/* Heads of 256 channels are skipped because compiling them is slow: they fit into no register file. */
static bool is_in_table(const struct lvn_gpu_module *m)
{
    return strstr(m->definition, "#define ROUNDED ") && !strstr(m->definition, "#define D 256");
}

/* The first text of each source, for both devices. */
static void compile_sources(FILE *to)
{
    for (int k = 0; k < n_modules; k++) {
        if (k > 0 && !strcmp(modules[k].source, modules[k - 1].source)) continue;
        compile(to, &modules[k], "", "dg2", "", k == 0);
        compile(to, &modules[k], "", "pvc", "-cl-intel-greater-than-4GB-buffer-required", k == 0);
    }
}

static void compile_for_units(FILE *to)
{
    const struct lvn_opencl_device device_max = {.divides_exactly = true, .past_limit = true, .large_registers = true};
    bool first = true;
    for (int k = 0; k < n_modules; k++) {
        if (!is_in_table(&modules[k])) continue;
        const char *options = lvn_opencl_options(&device_max, modules[k].definition);
        if (compile(to, &modules[k], units, "pvc", options, first))
            write_lines(to, &modules[k], strstr(options, "-cl-intel-256-GRF-per-thread"));
        first = false;
    }
}

static void ocloc_compiles_all(void **state)
{
    (void)state;
    char *found = NULL;
    size_t bytes;
    if (!has_ocloc) {
        print_message("skipped: ocloc was not found (apt install intel-opencl-icd)\n");
        skip();
    }
    const char *name = compiler();
    table_read(table_path, name);
    FILE *to = open_memstream(&found, &bytes);
    fprintf(to, "%s\n", name);
    compile_sources(to);
    compile_for_units(to);
    fclose(to);
    const bool same = compare_table(table_path, name, found);
    free(found);
    if (same) return;
    print_message("skipped: %s was written with another compiler; installed: %s\n", table_path, name);
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ocloc_compiles_all),
    };
    return cmocka_run_group_tests(tests, begin, end);
}

/* test_kernel_texts.c - every kernel for devices compiles for every kind of NVIDIA GPU, without a warning and without a
 * GPU, and takes as many registers and as much shared memory as it did.
 * label: long
 *
 * The table tests/golden/kernels.txt has a line for each kernel and architecture, and holds for the NVRTC that its
 * first line names. Skipped where NVRTC is missing. After a change of kernels:
 *
 *     LEVIN_WRITE_TABLE=1 build/tests/test_kernel_texts */
#include "backend/cuda/nvrtc.h"
#include "unit/kernel_texts.h"

static const char table_path[] = "tests/golden/kernels.txt";
static const char *const architectures[] = {"sm_80", "sm_90a", "sm_100"};
enum { N_ARCHITECTURES = 3, NARROW = 1 /* where texts with 16 bits are looked at, too: they differ by a few loads */ };

/* "x=bf16 N=64": what a text is compiled with and is not fp32. */
static const char *variant(const struct lvn_gpu_module *m)
{
    const char *text = "";
    char name[64], value[64];
    for (const char *at = m->definition; (at = strstr(at, "#define ")); at++) {
        if (sscanf(at, "#define %63s %63s", name, value) != 2 || !strcmp(value, "f32")) continue;
        const char *short_name = strncmp(name, "TYPE_", 5) ? name : name + 5;
        text = lvn_arena_printf(&arena, "%s%s%s=%s", text, *text ? " " : "", short_name, value);
    }
    return *text ? text : "fp32";
}

/* Lines of the table, from what the assembler said about each kernel. */
static void tell(FILE *to, const struct lvn_gpu_module *m, const char *architecture, const char *log)
{
    char kernel[100] = "?";
    int spilled = 0, loaded = 0;
    for (const char *at = log; *at; at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n')) {
        int registers, stack, shared = 0;
        const char *used = strstr(at, "Used "), *end = strchr(at, '\n'), *smem;
        if (!strncmp(at, "ptxas info", 10)) sscanf(at, "ptxas info : Compiling entry function '%99[^']'", kernel);
        if (!strncmp(at, "ptxas  ", 7))
            sscanf(at, "ptxas . %d bytes stack frame, %d bytes spill stores, %d bytes spill loads", &stack, &spilled,
                   &loaded);
        if (!used || !end || used > end || sscanf(used, "Used %d registers", &registers) != 1) continue;
        for (smem = strstr(used, " bytes smem"); smem && smem > used && smem < end && smem[-1] != ' ';) smem--;
        if (smem && smem < end) shared = atoi(smem);
        fprintf(to, "%-7s %-28s registers %3d, shared %5d, spilled %d, %s: %s\n", architecture, kernel, registers,
                shared, spilled + loaded, m->source, variant(m));
    }
}

static void compile(FILE *to, const struct lvn_gpu_module *m, const char *architecture)
{
    const char *options[16] = {"-Xptxas", "-v"};
    struct lvn_nvrtc_image image;
    char *log;
    for (int k = 0; lvn_cuda_compile_options[k]; k++) options[k + 2] = lvn_cuda_compile_options[k];
    must(lvn_nvrtc_compile(&image, m->source, lvn_cuda_module_text(&arena, m), architecture, options, &log));
    if (strstr(log, "warning")) fail_msg("%s for %s, %s\n%s", m->source, architecture, variant(m), log);
    tell(to, m, architecture, log);
    free(log);
    free(image.bytes);
}

/* The first line that is another one. */
static void compare(const char *now, const char *before)
{
    while (*now || *before) {
        size_t a = strcspn(now, "\n"), b = strcspn(before, "\n");
        if (a != b || strncmp(now, before, a) != 0)
            fail_msg("%s has\n%.*s\nand now it is\n%.*s\nis that better? LEVIN_WRITE_TABLE=1 writes the table anew",
                     table_path, (int)b, before, (int)a, now);
        now += a + (now[a] == '\n');
        before += b + (before[b] == '\n');
    }
}

static void nvrtc_compiles_all(void **state)
{
    (void)state;
    char version[32], *found = NULL;
    int major;
    size_t bytes;
    if (lvn_nvrtc_version(version, sizeof version, &major) != LVN_OK) {
        print_message("skipped: %s\n", lvn_error_text());
        lvn_error_clear();
        skip();
    }
    FILE *to = open_memstream(&found, &bytes);
    fprintf(to, "%s\n", version);
    for (int a = 0; a < N_ARCHITECTURES; a++)
        for (int k = 0; k < n_modules; k++)
            if (a == NARROW || !is_narrow(&modules[k])) compile(to, &modules[k], architectures[a]);
    fclose(to);
    if (getenv("LEVIN_WRITE_TABLE")) {
        FILE *f = fopen(table_path, "w");
        assert_non_null(f);
        fputs(found, f);
        fclose(f);
    }
    char *table = read_all(table_path);
    size_t first = strcspn(table, "\n");
    if (first != strlen(version) || strncmp(table, version, first) != 0)
        print_message("the table is of %.*s, and %s is here: not compared\n", (int)first, table, version);
    else
        compare(found, table);
    free(table);
    free(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nvrtc_compiles_all),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}

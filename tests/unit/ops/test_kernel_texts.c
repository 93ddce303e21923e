/* test_kernel_texts.c - covers: src/core/ops/ops.def src/core/backend/gpu/kernel_sources.c
 *
 * label: long. Every kernel for devices compiles for every kind of NVIDIA GPU, without a warning and without a GPU,
 * uses as many registers and as much shared memory as the table says, and has no arrays in local memory but those
 * listed below.
 *
 * The table tests/golden/kernels.txt has a line for each kernel and architecture, and holds for the NVRTC that its
 * first line names. Texts that have not changed since it was written are not compiled again, except the first for each
 * architecture. Skipped if NVRTC is missing. After a change of kernels:
 *
 *     LEVIN_WRITE_TABLE=1 build/tests/test_kernel_texts */
#include "backend/cuda/nvrtc.h"
#include "unit/kernel_texts.h"

static const char table_path[] = "tests/golden/kernels.txt";
/* The oldest architecture that this NVRTC supports, and those with matrix units (ops/matrix_gpu.h). */
static const char *const architectures[] = {"sm_75", "sm_80", "sm_90a", "sm_100"};
enum { N_ARCHITECTURES = 4, OLDEST = 0, NARROW = 2 /* all texts with 16-bit types are compiled for this one */ };

/* Kernels that keep values in local memory, with the maximum bytes per work-item: ptxas spills them to have two
 * groups on a multiprocessor; and a kernel for small pictures. */
static const struct frame {
    const char *kernel, *variant; /* a part of it */
    int max;
} frames[] = {
    {"conv2d_dw", "", 64},
    {"conv2d_dx", "", 64},
    {"attention_dkv", "D=64 q=f16", 16},
    {"attention_forward", "D=64 ROWS=128", 40},
    {"attention_dq", "D=64 ROWS=128", 40},
    {"attention_dkv", "D=64 ROWS=128", 128},
    {"attention_dkv", "D=128 ROWS=128", 8},
    {"attention_dq", "D=256 ROWS", 16},
    {"attention_dkv", "D=256 ROWS", 104},
};
enum { N_FRAMES = sizeof frames / sizeof *frames };

static bool is_expected(const char *kernel, const char *variant, int bytes)
{
    bool expected = bytes == 0;
    const bool warpgroups = strstr(variant, "LVN_USE_WGMMA") && !strstr(variant, "D=128");
    for (int k = 0; k < N_FRAMES && !warpgroups; k++)
        expected |= !strcmp(frames[k].kernel, kernel) && strstr(variant, frames[k].variant) && bytes <= frames[k].max;
    return expected;
}

/* All of them are reported before the test fails. */
static void check_frames(const char *lines)
{
    char architecture[20], kernel[100], variant[500];
    int bytes, n_unexpected = 0;
    for (const char *at = lines; *at; at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n')) {
        if (sscanf(at, "sm_%19s %99s registers %*d, frame %d, shared %*d, spilled %*d, %499[^\n]", architecture, kernel,
                   &bytes, variant) != 4 ||
            is_expected(kernel, variant, bytes))
            continue;
        print_message(
            "%s for sm_%s, %s: a frame of %d bytes in local memory; LVN_UNROLLED of kernel_language.h avoids it\n",
            kernel, architecture, variant, bytes);
        n_unexpected++;
    }
    assert_int_equal(n_unexpected, 0);
}

/* Lines of the table, from the assembler's report on each kernel. */
static void write_lines(FILE *to, const struct lvn_gpu_module *m, const char *architecture, const char *log)
{
    char kernel[100] = "?";
    int spilled = 0, loaded = 0, stack = 0;
    for (const char *at = log; *at; at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n')) {
        int registers, shared = 0;
        const char *used = strstr(at, "Used "), *end = strchr(at, '\n'), *smem;
        if (!strncmp(at, "ptxas info", 10)) sscanf(at, "ptxas info : Compiling entry function '%99[^']'", kernel);
        if (!strncmp(at, "ptxas  ", 7))
            sscanf(at, "ptxas . %d bytes stack frame, %d bytes spill stores, %d bytes spill loads", &stack, &spilled,
                   &loaded);
        if (!used || !end || used > end || sscanf(used, "Used %d registers", &registers) != 1) continue;
        for (smem = strstr(used, " bytes smem"); smem && smem > used && smem < end && smem[-1] != ' ';) smem--;
        if (smem && smem < end) shared = atoi(smem);
        fprintf(to, "%-7s %-28s registers %3d, frame %d, shared %5d, spilled %d, %s: %s\n", architecture, kernel,
                registers, stack, shared, spilled + loaded, m->source, variant(m));
    }
}

static void compile(FILE *to, const struct lvn_gpu_module *m, const char *architecture, bool first)
{
    const char *options[16] = {"-Xptxas", "-v"}, *line = "", *text = lvn_cuda_module_source(&arena, m);
    struct lvn_nvrtc_image image;
    char *log;
    for (int k = 0; lvn_cuda_compile_options[k]; k++) {
        options[k + 2] = lvn_cuda_compile_options[k];
        line = lvn_arena_printf(&arena, "%s%s ", line, options[k + 2]);
    }
    if (table_has(to, m, architecture, line, text, first)) return;
    must(lvn_nvrtc_compile(&image, m->source, text, architecture, options, &log));
    if (strstr(log, "warning")) fail_msg("%s for %s, %s\n%s", m->source, architecture, variant(m), log);
    write_lines(to, m, architecture, log);
    free(log);
    free(image.bytes);
}

/* Texts with 16-bit types differ by a few loads, so one architecture has all of them; the oldest has fp16, which is
 * meant for it. */
static bool is_compiled(int architecture, const struct lvn_gpu_module *m)
{
    const bool for_units = strstr(m->definition, "#define ROWS ");
    if (strstr(m->definition, "LVN_USE_WGMMA")) return architecture == NARROW;
    if (architecture == OLDEST) return !for_units && !strstr(m->definition, " bf16");
    return architecture == NARROW || !has_16_bits(m);
}

static void nvrtc_compiles_all(void **state)
{
    (void)state;
    char version[32], *found = NULL;
    int major;
    size_t bytes;
    if (lvn_nvrtc_version(version, sizeof version, &major) != LVN_OK) {
        print_message("skipped: %s\n", levin_error_text());
        lvn_error_clear();
        skip();
    }
    table_read(table_path, version);
    FILE *to = open_memstream(&found, &bytes);
    fprintf(to, "%s\n", version);
    for (int a = 0; a < N_ARCHITECTURES; a++)
        for (int k = 0, n = 0; k < n_modules; k++)
            if (is_compiled(a, &modules[k])) compile(to, &modules[k], architectures[a], n++ == 0);
    fclose(to);
    check_frames(found);
    if (!compare_table(table_path, version, found))
        print_message("%s is of another NVRTC, and %s is here: not compared\n", table_path, version);
    free(found);
}

/* Attention by warpgroups (ops/wgmma_gpu.h). */
static void gather_warpgroups(void)
{
    static const struct heads {
        int64_t channels;
        enum lvn_dtype half;
        double dropout, cap;
    } heads[] = {{64, LVN_BF16, 0, 0}, {80, LVN_BF16, 0, 0},   {96, LVN_BF16, 0, 0}, {128, LVN_BF16, 0, 0},
                 {64, LVN_F16, 0, 0},  {64, LVN_BF16, 0.1, 0}, {64, LVN_BF16, 0, 30}};
    for (size_t k = 0; k < sizeof heads / sizeof *heads; k++) {
        const struct op_input x = REAL(1, 128, 1, heads[k].channels);
        const struct op_case c = {
            LVN_OP_attention,
            .attr.attention = {.causal = true, .scale = 0.1, .p = heads[k].dropout, .softcap = heads[k].cap},
            .in = {x, x, x}};
        const int before = n_modules;
        more_definitions = "#define LVN_USE_WGMMA 1\n";
        gather(&c, heads[k].half, true);
        more_definitions = "";
        for (int m = n_modules - 1; m >= before; m--) /* it has no products */
            if (strstr(modules[m].definition, "ATTENTION_DELTA")) modules[m] = modules[--n_modules];
    }
}

static int set_up_all(void **state)
{
    const int failed = set_up(state);
    gather_warpgroups();
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nvrtc_compiles_all),
    };
    return cmocka_run_group_tests(tests, set_up_all, tear_down);
}

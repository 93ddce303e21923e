/* test_cuda.c - covers: src/core/backend/cuda/cuda.c src/core/backend/cuda/cuda_device.c
 * src/core/backend/cuda/captured_run.c src/core/backend/cuda/cublaslt.c src/core/backend/gpu/gpu_program.c
 *
 * The backend cuda over the doubles of its driver, of NVRTC and of cuBLASLt: every call fails once, everything is
 * released, incompatible versions are refused, a captured run is replayed.
 *
 * Skipped where the doubles are not preloaded (tests/run_double), or have no device to compute with. */
#include <dlfcn.h>

#include "backend/cuda/captured_run.h"
#include "backend/gpu/gpu_program.h"
#include "backend/gpu/kernel_sources.h"
#include "base/bf16.h"
#include "base/text.h"
#include "base/work.h"
#include "device_run.h"
#include "device_skip.h"
#include "ops_cases.h"

static struct library {
    void (*begin)(void);
    long (*left)(void);
    long (*calls)(const char *name);
} cuda, nvrtc, blas;

static bool find(struct library *l, const char *file)
{
    void *library = dlopen(file, RTLD_NOW), *p[3];
    static const char *const names[] = {"doubleBegin", "doubleLeft", "doubleCalls"};
    for (int k = 0; k < 3; k++)
        if (!library || !(p[k] = dlsym(library, names[k]))) return false;
    memcpy(l, p, sizeof p);
    return true;
}

static void here_or_skip(void)
{
    struct lvn_device_facts f;
    const char *why = NULL;
    if (!find(&cuda, "libcuda.so.1") || !find(&nvrtc, "libnvrtc.so.13") || !find(&blas, "libcublasLt.so.13"))
        why = "the doubles are not in front";
    else if (!lvn_backend_find("cuda")->describe(0, &f))
        why = "the doubles have nothing to compute with (intel-opencl-rt)";
    if (!why) return;
    if (device_is_required()) fail_msg("%s", why);
    print_message("skipped: %s\n", why);
    skip();
}

/* As after the start of a process, with a cache of kernels that is empty. */
static void begin(const char *fail)
{
    static char folder[64];
    snprintf(folder, sizeof folder, "/tmp/levin-test-cuda.XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("LEVIN_CACHE", folder, 1);
    setenv("LEVIN_DOUBLE_FAIL", fail, 1);
    cuda.begin();
    nvrtc.begin();
    blas.begin();
}

static long left(void)
{
    return cuda.left() + nvrtc.left() + blas.left();
}

static void end(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", getenv("LEVIN_CACHE"));
    assert_int_equal(system(command), 0); /* a folder that begin() made */
}

/* --- a short life of a device: one instruction, run three times --- */

static const struct op_case gelu_case = {LVN_OP_chain, .attr.chain = {.steps = CHAIN(GELU)}, .in = {REAL(3, 43)}};
static const struct op_case product_case = {LVN_OP_linear, .attr.linear = {true},
                                            .in = {REAL(2, 3, 17), REAL(17, 33), REAL(33)}};
static const struct op_case *lived = &gelu_case;
static int64_t micro_batches[] = {2, 2, 2}; /* of each run */
static bool in_tf32;

/* Of the choice of algorithms: */
static struct {
    bool on, measures;
    const char *recorded;
    struct lvn_tuned done;
    char list[1000];
} tuning;

struct life {
    struct lvn_device *device;
    struct lvn_memory *memory[LVN_BUFFER_COUNT];
    struct lvn_bound *bound;
    struct device_run run;
    struct run of;
    char *arena;
};

static enum lvn_status tune(const struct life *l)
{
    const struct lvn_tuning_ops *ops = l->device->backend->tuning;
    LVN_LOCAL_TEXT(list);
    tuning.done = (struct lvn_tuned){0};
    LVN_TRY(ops->use_recorded(l->device, tuning.recorded ? tuning.recorded : ""));
    LVN_TRY(ops->tune(l->bound, tuning.measures, &tuning.done));
    ops->list(l->device, &list);
    snprintf(tuning.list, sizeof tuning.list, "%s", lvn_text_string(&list));
    return LVN_OK;
}

static enum lvn_status live(struct life *l)
{
    const struct lvn_backend *b = lvn_backend_find("cuda");
    struct lvn_binding binding = {.step = &l->of.step, .micro_batch_rows = 1};
    int64_t scratch;
    LVN_TRY(b->open(&l->device,
                    &(struct lvn_device_options){.real = LVN_F32, .threads = 2, .tf32 = in_tf32, .tunes = tuning.on}));
    l->run.program.device = l->device;
    LVN_TRY(b->choose(l->device, &l->run.instr, &scratch));
    device_scratch(&l->run, scratch);
    LVN_TRY(lvn_memory_new(&l->memory[LVN_BUFFER_ARENA], l->device, l->run.arena));
    LVN_TRY(lvn_memory_double_buffer(l->memory[LVN_BUFFER_ARENA]));
    LVN_TRY(lvn_memory_write(l->memory[LVN_BUFFER_ARENA], 0, l->arena, l->run.arena));
    binding.buffer[LVN_BUFFER_ARENA] = l->memory[LVN_BUFFER_ARENA];
    LVN_TRY(b->bind(&l->bound, &l->run.program, &binding));
    if (tuning.on) LVN_TRY(tune(l));
    for (int k = 0; k < 3; k++) {
        LVN_TRY(b->run(l->bound, &(struct lvn_execution){.n_micro_batches = micro_batches[k]}));
        LVN_TRY(b->wait(l->device));
    }
    LVN_TRY(lvn_device_snapshot(l->device));
    LVN_TRY(lvn_memory_read_snapshot(l->memory[LVN_BUFFER_ARENA], 0, l->arena, l->run.arena));
    return lvn_memory_read(l->memory[LVN_BUFFER_ARENA], 0, l->arena, l->run.arena);
}

/* How often a function was called before anything was released. */
static const struct library *watched;
static const char *watched_name;
static long calls_of_life;
static char note_of_life[sizeof((struct lvn_device *)0)->note];

/* The result must be right where it says that all went well. */
static enum lvn_status live_and_die(void)
{
    static struct life l;
    struct run want;
    const struct op_case *c = lived;
    const struct lvn_cpu_op *plain = &lvn_cpu_plain_ops(LVN_F32)[c->op];
    memset(&l, 0, sizeof l);
    run_init(&l.of, c, LVN_F32, plain);
    run_init(&want, c, LVN_F32, plain);
    run_forward(&want, 1);
    device_describe(&l.run, &l.of, LVN_FORWARD, 0, 0);
    l.arena = calloc((size_t)l.run.arena + (1 << 20), 1); /* and scratch */
    for (int v = 0; v < DEVICE_VALUES; v++)
        if (l.run.buffer[v]) memcpy(l.arena + l.run.values[v].offset, l.run.buffer[v]->p, l.run.buffer[v]->bytes);
    enum lvn_status status = live(&l);
    if (watched) calls_of_life = watched->calls(watched_name);
    for (int v = 0; v < DEVICE_VALUES && status == LVN_OK; v++) {
        if (l.run.buffer[v] != &l.of.out[0]) continue;
        memcpy(l.of.out[0].p, l.arena + l.run.values[v].offset, l.of.out[0].bytes);
        for (int64_t i = 0; i < lvn_desc_count(&want.out[0].desc); i++)
            assert_true(fabs(buffer_get(&l.of.out[0], i) - buffer_get(&want.out[0], i)) < (in_tf32 ? 2e-2 : 1e-5));
    }
    if (l.bound) l.device->backend->unbind(l.bound);
    for (int k = 0; k < LVN_BUFFER_COUNT; k++) lvn_memory_free(l.memory[k]);
    snprintf(note_of_life, sizeof note_of_life, "%s", l.device ? l.device->note : "");
    if (l.device) l.device->backend->close(l.device);
    free(l.arena);
    run_release(&l.of);
    run_release(&want);
    return status;
}

/* --- tests --- */

static void a_run_is_captured_once_and_replayed(void **state)
{
    (void)state;
    here_or_skip();
    begin("");
    if (live_and_die() != LVN_OK) fail_msg("%s\n%s", levin_error_text(), levin_error_trace());
    assert_int_equal(cuda.left(), 0);
    assert_int_equal(nvrtc.left(), 0);
    assert_int_equal(cuda.calls("cuStreamBeginCapture_v2"), 1);
    assert_int_equal(cuda.calls("cuGraphLaunch"), 3);
    assert_int_equal(cuda.calls("cuLaunchKernel"), 2); /* one a micro-batch, into the graph */
    assert_int_equal(cuda.calls("kernel"), 6);
    assert_int_equal(nvrtc.calls("nvrtcCompileProgram"), 1);
    assert_int_equal(live_and_die(), LVN_OK);
    assert_int_equal(nvrtc.calls("nvrtcCompileProgram"), 1); /* the cache has it */
    end();
}

/* Any number of micro-batches above two is launched as the same graphs: the first, a further and the last one. */
static void many_micro_batches_are_captured_in_parts(void **state)
{
    (void)state;
    here_or_skip();
    begin("");
    for (int k = 0; k < 3; k++) micro_batches[k] = 3 + 4 * k;
    device_must(live_and_die());
    for (int k = 0; k < 3; k++) micro_batches[k] = 2;
    assert_int_equal(cuda.calls("cuStreamBeginCapture_v2"), 3);
    assert_int_equal(cuda.calls("cuLaunchKernel"), 3);
    assert_int_equal(cuda.calls("cuGraphLaunch"), 3 + 7 + 11);
    assert_int_equal(cuda.calls("kernel"), 3 + 7 + 11);
    assert_int_equal(left(), 0);
    end();
}

/* Graphs that would be too large are not made. */
static void what_is_too_long_is_walked_through(void **state)
{
    (void)state;
    here_or_skip();
    const int64_t max = lvn_cuda_max_captured;
    for (int captured = 0; captured < 2; captured++) {
        lvn_cuda_max_captured = 1 + captured; /* of two launches */
        begin("");
        device_must(live_and_die());
        assert_int_equal(cuda.calls("cuStreamBeginCapture_v2"), captured);
        assert_int_equal(cuda.calls("cuLaunchKernel"), captured ? 2 : 6);
        assert_int_equal(cuda.calls("kernel"), 6);
        assert_int_equal(left(), 0);
        end();
    }
    lvn_cuda_max_captured = max;
}

/* Whatever the driver refuses of a capture, the same kernels run without it, and give the same. Not on a lost device.
 */
static void what_cannot_be_captured_is_launched(void **state)
{
    static const char *const fail[] = {"cuStreamBeginCapture_v2:1:900", "cuStreamEndCapture:1:901",
                                       "cuGraphInstantiateWithFlags:1:2", "cuLaunchKernel:1:900"};
    (void)state;
    here_or_skip();
    for (int n = 2; n <= 5; n += 3) /* micro-batches: as a whole, in parts */
        for (size_t k = 0; k < sizeof fail / sizeof *fail; k++) {
            for (int i = 0; i < 3; i++) micro_batches[i] = n;
            begin(fail[k]);
            device_must(live_and_die());
            assert_int_equal(cuda.calls("cuGraphLaunch"), 0);
            assert_int_equal(cuda.calls("kernel"), 3 * n);
            assert_int_equal(left(), 0);
            end();
        }
    for (int i = 0; i < 3; i++) micro_batches[i] = 2;
    begin("cuStreamBeginCapture_v2:1:719");
    assert_int_equal(live_and_die(), LVN_COMM);
    assert_non_null(strstr(levin_error_text(), "the device was lost"));
    lvn_error_clear();
    end();
    begin(""); /* the device is there again */
    end();
}

/* For those who look for an error of the device. */
static void variables_turn_capturing_off(void **state)
{
    static const char *const set[][2] = {{"LEVIN_CUDA_GRAPHS", "off"}, {"LEVIN_CUDA_WAIT", "1"}};
    (void)state;
    here_or_skip();
    for (int k = 0; k < 2; k++) {
        begin("");
        setenv(set[k][0], set[k][1], 1);
        device_must(live_and_die());
        assert_int_equal(cuda.calls("cuStreamBeginCapture_v2"), 0);
        assert_int_equal(cuda.calls("cuLaunchKernel"), 6);
        assert_int_equal(left(), 0);
        end();
        begin("kernel:4"); /* of six, which an operation launches */
        assert_int_not_equal(live_and_die(), LVN_OK);
        assert_int_equal(strstr(levin_error_text(), "computing chain_forward") != NULL, k);
        assert_int_equal(left(), 0);
        end();
        unsetenv(set[k][0]);
        begin(""); /* the device is there again */
        end();
    }
}

/* Memory that is allocated after a run has begun is in no plan. */
static void memory_for_libraries_is_reserved(void **state)
{
    (void)state;
    here_or_skip();
    static const int64_t memory[][2] = {{64 << 10, 1 << 10}, {8 << 10, 512}}; /* MiB, and of it reserved */
    const struct lvn_backend *b = lvn_backend_find("cuda");
    for (int k = 0; k < 2; k++) {
        struct lvn_device *d;
        char bytes[32];
        snprintf(bytes, sizeof bytes, "%lld", (long long)memory[k][0] << 20);
        begin("");
        setenv("LEVIN_DOUBLE_MEMORY", bytes, 1);
        device_must(b->open(&d, &(struct lvn_device_options){.real = LVN_F32, .threads = 1}));
        unsetenv("LEVIN_DOUBLE_MEMORY");
        assert_int_equal(lvn_backend_reserve(b, memory[k][0] << 20), memory[k][1] << 20);
        assert_int_equal(d->memory_bytes, (memory[k][0] - memory[k][1]) << 20);
        b->close(d);
        end();
    }
}

/* More pieces than there are pinned ones, long and short, written over while the copies before are on their way. */
static void what_is_written_comes_back(void **state)
{
    (void)state;
    here_or_skip();
    enum { BYTES = 11 << 20, SHORT = 1000, N = 9 };
    const struct lvn_backend *b = lvn_backend_find("cuda");
    struct lvn_device *d;
    struct lvn_memory *m;
    unsigned char *want = malloc(BYTES), *found = malloc(BYTES), piece[SHORT];
    assert_true(want && found);
    begin("");
    device_must(b->open(&d, &(struct lvn_device_options){.real = LVN_F32, .threads = 1}));
    device_must(lvn_memory_new(&m, d, BYTES));
    for (int k = 0; k < BYTES; k++) want[k] = (unsigned char)(k * 7 + k / 4096);
    device_must(lvn_memory_write(m, 0, want, BYTES));
    for (int k = 0; k < N; k++) {
        memset(piece, 10 + k, SHORT);
        device_must(lvn_memory_write(m, k * 1000000, piece, SHORT));
        memcpy(want + k * 1000000, piece, SHORT);
        memset(piece, 0, SHORT); /* the caller's own again */
    }
    device_must(lvn_memory_read(m, 0, found, BYTES));
    assert_memory_equal(found, want, BYTES);
    lvn_memory_free(m);
    b->close(d);
    assert_int_equal(cuda.left(), 0);
    free(want);
    free(found);
    end();
}

/* More pieces than there are pinned ones, while other work is asked for that nobody waits for. A copy that fails says
 * what it was for. */
static void a_snapshot_is_read_during_work(void **state)
{
    (void)state;
    here_or_skip();
    enum { BYTES = 19 << 20 };
    struct lvn_device *d;
    struct lvn_memory *m;
    unsigned char *want = malloc(BYTES), *found = malloc(BYTES), piece[1000] = {0};
    const char *order = getenv("LEVIN_DOUBLE_ORDER");
    assert_true(want && found);
    begin("");
    device_must(lvn_backend_find("cuda")->open(&d, &(struct lvn_device_options){.real = LVN_F32, .threads = 1}));
    device_must(lvn_memory_new(&m, d, BYTES));
    for (int k = 0; k < BYTES; k++) want[k] = (unsigned char)(k * 11 + k / 4096);
    device_must(lvn_memory_write(m, 0, want, BYTES));
    device_must(lvn_device_snapshot(d));
    const bool late = !order || strcmp(order, "early") != 0;
    if (late) device_must(lvn_memory_write(m, 0, piece, sizeof piece)); /* what comes later is not waited for */
    device_must(lvn_memory_read_snapshot(m, 0, found, BYTES));
    assert_memory_equal(found, want, BYTES);
    char failing[60];
    snprintf(failing, sizeof failing, "cuMemcpyDtoHAsync_v2:%ld", cuda.calls("cuMemcpyDtoHAsync_v2") + 2);
    setenv("LEVIN_DOUBLE_FAIL", failing, 1);
    assert_int_not_equal(lvn_memory_read_snapshot(m, 0, found, BYTES), LVN_OK);
    if (!strstr(levin_error_text(), "copying from the device for a checkpoint on device 0"))
        fail_msg("%s", levin_error_text());
    lvn_error_clear();
    lvn_memory_free(m);
    d->backend->close(d);
    assert_int_equal(cuda.left(), 0);
    free(want);
    free(found);
    end();
}

/* A call that releases something may fail: the error is ignored, and the earlier error stays. */
static bool releases(const char *name)
{
    return strstr(name, "Free") || strstr(name, "Destroy") || strstr(name, "Release") || strstr(name, "Unload");
}

/* A call of a capture may fail: the run goes on without. */
static bool captures(const char *name)
{
    static const char *const names[] = {"cuStreamBeginCapture_v2",     "cuStreamEndCapture",
                                        "cuGraphInstantiateWithFlags", "cuLaunchKernel",
                                        "cuMemcpyHtoDAsync_v2",        "cublasLtMatmulDescSetAttribute"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (!strcmp(name, names[k])) return cuda.calls("cuGraphLaunch") == 0;
    return false;
}

/* Fail every call of the function `name` in turn; returns their number. */
static long fail_each(const struct library *l, const char *name)
{
    begin("");
    watched = l;
    watched_name = name;
    assert_int_equal(live_and_die(), LVN_OK);
    const long n = l->calls(name), must_be_reported = calls_of_life;
    watched = NULL;
    end();
    for (long k = 1; k <= n; k++) {
        char fail[80];
        snprintf(fail, sizeof fail, "%s:%ld", name, k);
        begin(fail);
        const long before = left(); /* by a call that releases and was made to fail */
        enum lvn_status status = live_and_die();
        bool may_pass = releases(name) || !strncmp(name, "cuGetError", 10) || k > must_be_reported || captures(name);
        if (status == LVN_OK && !may_pass) fail_msg("%s failed without an error", fail);
        if (status != LVN_OK && (!*levin_error_text() || strlen(levin_error_text()) < 20))
            fail_msg("%s: '%s'", fail, levin_error_text());
        lvn_error_clear();
        if (left() != before && !releases(name)) fail_msg("%s: %ld things are left", fail, left() - before);
        end();
        if (releases(name)) break; /* what it left counts from now on */
    }
    return n;
}

static void every_call_may_fail(void **state)
{
    (void)state;
    here_or_skip();
    static const char *const of_cuda[] = {LVN_CUDA_FUNCTIONS(LVN_LIBRARY_SYMBOL) "kernel"};
    int called = 0;
    for (int pass = 0; pass < 2; pass++) /* calls that release come last, because their failure leaks */
        for (size_t k = 0; k < sizeof of_cuda / sizeof *of_cuda; k++)
            if (releases(of_cuda[k]) == (pass == 1)) called += fail_each(&cuda, of_cuda[k]) > 0;
    assert_true(called > 35); /* of 45 */
}

static void every_call_of_the_compiler_may_fail(void **state)
{
    (void)state;
    here_or_skip();
    static const char *const names[] = {"nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs", "nvrtcCreateProgram",
                                        "nvrtcCompileProgram",       "nvrtcGetCUBINSize",      "nvrtcGetCUBIN"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) assert_true(fail_each(&nvrtc, names[k]) > 0);
    begin("nvrtcCompileProgram:1");
    assert_int_equal(live_and_die(), LVN_UNSUPPORTED);
    assert_non_null(strstr(levin_error_text(), "chain: the kernel does not compile for sm_90a"));
    assert_non_null(strstr(levin_error_text(), "double.k(7): error: simulated by the test"));
    assert_null(strchr(levin_error_text(), '\n'));
    lvn_error_clear();
    end();
}

/* --- products --- */

static void every_call_of_the_library_may_fail(void **state)
{
    (void)state;
    here_or_skip();
    static const char *const names[] = {"cublasLtCreate",
                                        "cublasLtMatmulPreferenceCreate",
                                        "cublasLtMatmulPreferenceSetAttribute",
                                        "cublasLtMatmulDescCreate",
                                        "cublasLtMatmulDescSetAttribute",
                                        "cublasLtMatrixLayoutCreate",
                                        "cublasLtMatmulAlgoGetHeuristic",
                                        "cublasLtMatmul",
                                        "cublasLtMatrixLayoutDestroy",
                                        "cublasLtMatmulDescDestroy",
                                        "cublasLtMatmulPreferenceDestroy",
                                        "cublasLtDestroy"};
    lived = &product_case;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) assert_true(fail_each(&blas, names[k]) > 0);
    begin("cublasLtMatmul:1");
    assert_int_equal(live_and_die(), LVN_COMM);
    assert_non_null(strstr(levin_error_text(), "the device was lost: cuBLASLt 13.0.0 returned execution failed (13)"));
    lvn_error_clear();
    end();
    begin("cublasLtMatmulDescCreate:1"); /* 3: no memory */
    assert_int_equal(live_and_die(), LVN_MEMORY);
    lvn_error_clear();
    end();
    lived = &gelu_case;
}

/* The library computes the product if it is there, fits and supports it; otherwise the kernel does, with the right
 * result. */
static void products_fall_back_to_the_kernel(void **state)
{
    (void)state;
    here_or_skip();
    static const struct {
        const char *fail, *variable, *value, *note;
        long products;
    } ways[] = {{"", "LEVIN_NONE", "", "Double 0: matrix multiplication by cuBLASLt 13.0.0", 2},
                {"cublasLtMatmulAlgoGetHeuristic:1:15", "LEVIN_NONE", "",
                 "by cuBLASLt 13.0.0, which has no algorithm for 6 x 33 x 17; levin's kernels", 0},
                {"cublasLtMatmulAlgoGetHeuristic:1:8", "LEVIN_NONE", "", "which has no algorithm for 6 x 33 x 17", 0},
                {"", "LEVIN_CUBLASLT", "off", "by levin's kernels; LEVIN_CUBLASLT is off", 0},
                {"", "LEVIN_DOUBLE_CUBLASLT", "14", "cuBLASLt 14.0.0 is not supported (versions 11 to 13 are)", 0},
                {"", "LEVIN_DOUBLE_CUBLASLT", "12", "by cuBLASLt 12.0.0", 2}};
    lived = &product_case;
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        begin(ways[k].fail);
        setenv(ways[k].variable, ways[k].value, 1);
        device_must(live_and_die());
        if (!strstr(note_of_life, ways[k].note)) fail_msg("'%s', expected '%s'", note_of_life, ways[k].note);
        assert_int_equal(blas.calls("cublasLtMatmul"), ways[k].products);
        assert_int_equal(cuda.calls("kernel"), ways[k].products ? 0 : 6);
        assert_int_equal(nvrtc.calls("nvrtcCompileProgram"), !ways[k].products);
        assert_int_equal(left(), 0);
        end();
        unsetenv(ways[k].variable);
    }
    lived = &gelu_case;
}

/* What a variable turns on is logged, and so is that the device does not have it. */
static void attention_by_wgmma_is_noted(void **state)
{
    (void)state;
    here_or_skip();
    static const char *const ways[][3] = {{"off", "90", "wgmma"},
                                          {"on", "90", "; attention by wgmma (LEVIN_WGMMA)"},
                                          {"on", "80", "; attention without wgmma, which only compute capability 9.0"},
                                          {"on", "90", "; attention without wgmma, for which this NVRTC does not"}};
    for (int k = 0; k < 4; k++) {
        begin("");
        if (k == 3) setenv("LEVIN_DOUBLE_NEWEST", "80", 1); /* an older NVRTC */
        setenv("LEVIN_WGMMA", ways[k][0], 1);
        setenv("LEVIN_DOUBLE_CAPABILITY", ways[k][1], 1);
        device_must(live_and_die());
        assert_int_equal(strstr(note_of_life, ways[k][2]) != NULL, k > 0);
        end();
        unsetenv("LEVIN_DOUBLE_CAPABILITY");
        unsetenv("LEVIN_DOUBLE_NEWEST");
        unsetenv("LEVIN_WGMMA");
    }
}

/* A library for a newer driver than there is. NVRTC is as old as the driver. */
static void a_library_that_is_too_new_is_left_out(void **state)
{
    (void)state;
    here_or_skip();
    struct lvn_device *d;
    begin("");
    setenv("LEVIN_DOUBLE_DRIVER", "12080", 1);
    setenv("LEVIN_DOUBLE_NVRTC", "12", 1);
    device_must(lvn_backend_find("cuda")->open(&d, &(struct lvn_device_options){.real = LVN_F32, .threads = 1}));
    if (!strstr(d->note, "cuBLASLt 13.0.0 requires a driver of CUDA 13, and this one supports 12.8"))
        fail_msg("%s", d->note);
    d->backend->close(d);
    unsetenv("LEVIN_DOUBLE_DRIVER");
    unsetenv("LEVIN_DOUBLE_NVRTC");
    end();
}

/* As the mixed_precision pass has it in bf16-mixed: the operand is bf16 now, what it holds rounded. */
static void make_bf16(struct buffer *b)
{
    struct buffer old = *b;
    struct lvn_desc d = old.desc;
    d.dtype = LVN_BF16;
    buffer_init(b, &d);
    for (int64_t i = 0; i < lvn_desc_count(&d); i++) {
        uint16_t x = lvn_bf16_make((float)buffer_get(&old, i));
        memcpy(buffer_at(b, i), &x, sizeof x);
    }
    free(old.p);
}

static double worst_of(const struct buffer *found, const struct buffer *wanted)
{
    double scale = 1e-30, worst = 0;
    for (int64_t i = 0; i < lvn_desc_count(&wanted->desc); i++) scale = fmax(scale, fabs(buffer_get(wanted, i)));
    for (int64_t i = 0; i < lvn_desc_count(&wanted->desc); i++) {
        uint16_t half = 0;
        if (found->desc.dtype == LVN_BF16) memcpy(&half, buffer_at(found, i), sizeof half);
        double x = found->desc.dtype == LVN_BF16 ? (double)lvn_bf16_get(half) : buffer_get(found, i);
        worst = fmax(worst, isnan(x) ? 1 : fabs(x - buffer_get(wanted, i)) / scale);
    }
    return worst;
}

/* Forward and backward of a case in bf16-mixed, within what bf16 leaves. */
static void compare_bf16(struct lvn_device *d, const struct op_case *c, long forward_kernels, long backward_kernels)
{
    const struct lvn_cpu_op *plain = &lvn_cpu_plain_ops(LVN_F32)[c->op];
    const unsigned all = 7;
    struct run found, wanted;
    run_init(&found, c, LVN_F32, plain);
    run_init(&wanted, c, LVN_F32, plain);
    run_forward(&wanted, 1);
    run_backward(&wanted, all, 0, 1);
    make_bf16(&found.in[0]); /* x; w and b are parameters, in fp32 */
    make_bf16(&found.din[0]);
    for (int k = 0; k < LVN_MAX_OUT; k++) {
        if (found.out[k].p) make_bf16(&found.out[k]);
        if (found.dout[k].p) make_bf16(&found.dout[k]);
    }
    cuda.begin();
    blas.begin();
    device_must(device_phase(d, &found, LVN_FORWARD, 0, 0));
    assert_int_equal(blas.calls("cublasLtMatmul"), 1);
    assert_int_equal(cuda.calls("kernel"), forward_kernels);
    for (int k = 0; k < LVN_MAX_OUT; k++)
        if (found.out[k].p && !(worst_of(&found.out[k], &wanted.out[k]) < 0.02))
            fail_msg("output %d is %g off", k, worst_of(&found.out[k], &wanted.out[k]));
    cuda.begin();
    blas.begin();
    device_must(device_phase(d, &found, LVN_BACKWARD, all, 0));
    assert_int_equal(blas.calls("cublasLtMatmul"), 2);
    assert_int_equal(cuda.calls("kernel"), backward_kernels);
    for (int k = 0; k < 3; k++)
        if (!(worst_of(&found.din[k], &wanted.din[k]) < 0.03))
            fail_msg("gradient %d is %g off", k, worst_of(&found.din[k], &wanted.din[k]));
    run_release(&found);
    run_release(&wanted);
}

static void products_in_bf16(void **state)
{
    (void)state;
    here_or_skip();
    static const struct op_case plain = {LVN_OP_linear, .attr.linear = {false},
                                         .in = {REAL(6, 32), REAL(24, 32), REAL(24)}};
    static const struct op_case tanh_variant = {LVN_OP_linear_gelu, .attr.linear_gelu = {.in_out = true, .tanh = true},
                                                .in = {REAL(6, 32), REAL(32, 24), REAL(24)}};
    static const struct op_case erf = {LVN_OP_linear_gelu, .attr.linear_gelu = {.in_out = true, .tanh = false},
                                       .in = {REAL(6, 32), REAL(32, 24), REAL(24)}};
    static const struct op_case odd = {LVN_OP_linear_gelu, .attr.linear_gelu = {.in_out = false, .tanh = true},
                                       .in = {REAL(6, 32), REAL(27, 32), REAL(27)}};
    struct lvn_device *d;
    begin("");
    device_must(lvn_backend_find("cuda")->open(&d, &(struct lvn_device_options){.real = LVN_F32, .threads = 1}));
    compare_bf16(d, &plain, 2, 3);        /* w and b are rounded; w is, and the sum for b, in two */
    compare_bf16(d, &tanh_variant, 2, 3); /* GELU in the matrix multiplication; its gradient has 16 bits, as both
                                        multiplications require, and begins the sum for b */
    compare_bf16(d, &erf, 3, 3);          /* GELU by a kernel */
    compare_bf16(d, &odd, 3, 3);          /* the library keeps no rows of 27 */
    d->backend->close(d);
    assert_int_equal(left(), 0);
    end();
}

static enum lvn_status take_all(const struct lvn_gpu_matmul_library *l, const struct lvn_gpu_matmul *m, bool *supported,
                                int64_t *scratch)
{
    *scratch = l->max_scratch_bytes;
    *supported = m->in == LVN_BF16 && m->out != LVN_F16;
    return LVN_OK;
}

/* A head whose rows are two pieces, with logits of 16 bits in scratch: w is rounded once for all products that read it,
 * and what the logits become is what products want. */
static void operands_are_rounded_once(void **state)
{
    (void)state;
    enum { R = 200, C = 8, V = 1 << 23, PIECE = 128, MAX = 4096 };
    const struct lvn_gpu_matmul_library library = {.supports = take_all, .max_scratch_bytes = MAX};
    struct lvn_desc x = lvn_desc_make(LVN_BF16, 2, (const int64_t[]){R, C}), labels, loss, total;
    struct lvn_desc w = lvn_desc_make(LVN_F32, 2, (const int64_t[]){V, C});
    labels = lvn_desc_make(LVN_I32, 1, (const int64_t[]){R});
    loss = lvn_desc_make(LVN_F32, 1, (const int64_t[]){R});
    total = lvn_desc_make(LVN_F64, 0, NULL);
    union lvn_attr attr = {.linear_cross_entropy = {.ignore = -1}};
    struct lvn_call call = {.attr = &attr, .phase = LVN_BACKWARD, .matmul_dtype = LVN_BF16};
    call.in[0].desc = call.din[0].desc = &x;
    call.in[1].desc = call.din[1].desc = &w;
    call.in[3].desc = &labels;
    call.out[0].desc = &total;
    call.out[1].desc = &loss;
    struct lvn_arena arena;
    lvn_arena_init(&arena);
    struct lvn_gpu g = {.call = &call, .arena = &arena, .source = "linear_cross_entropy", .library = &library};
    lvn_gpu_operation_of(LVN_OP_linear_cross_entropy)->backward(&g);
    lvn_gpu_products_end(&g);
    device_must(g.status);
    int products = 0, rounded = 0;
    for (int l = 0; l < g.n_launches; l++) {
        products += g.launches[l].product != NULL;
        rounded += !strcmp(g.launches[l].kernel, "widen");
        if (g.launches[l].product)
            assert_int_equal(g.launches[l].args[LVN_GPU_PRODUCT_SCRATCH].number, g.scratch_bytes - MAX);
    }
    assert_int_equal(products, 6);
    assert_int_equal(rounded, 1);
    assert_int_equal(g.scratch_bytes, (int64_t)PIECE * V * 2 + (int64_t)V * C * 2 + MAX);
    lvn_arena_release(&arena);
}

/* high rounds operands to eleven bits; highest does not. */
static void tf32_is_where_it_was_asked_for(void **state)
{
    (void)state;
    here_or_skip();
    for (int high = 0; high < 2; high++) {
        struct lvn_device *d;
        struct run found, wanted;
        const struct lvn_cpu_op *plain = &lvn_cpu_plain_ops(LVN_F32)[LVN_OP_linear];
        begin("");
        run_init(&found, &product_case, LVN_F32, plain);
        run_init(&wanted, &product_case, LVN_F32, plain);
        run_forward(&wanted, 1);
        device_must(lvn_backend_find("cuda")->open(
            &d, &(struct lvn_device_options){.real = LVN_F32, .threads = 1, .tf32 = high}));
        assert_int_equal(d->tf32, high);
        assert_int_equal(strstr(d->note, "TF32") != NULL, high);
        device_must(device_phase(d, &found, LVN_FORWARD, 0, 0));
        double worst = worst_of(&found.out[0], &wanted.out[0]);
        if (high ? worst < 1e-5 || worst > 2e-3 : worst > 1e-6) fail_msg("%d: %g off", high, worst);
        d->backend->close(d);
        run_release(&found);
        run_release(&wanted);
        end();
    }
}

/* --- the choice of an algorithm --- */

enum { LAUNCHES = 2, TIMED = 6 }; /* products that are launched into the graph; runs of an algorithm that is timed */

/* A life in which these algorithms take so many milliseconds; `number` of them is used (-1: it was not chosen). */
static void tuned_life(const char *times, const char *recorded, int measured, int refused, long products, int number)
{
    char algorithm[40];
    blas.begin();
    setenv("LEVIN_DOUBLE_TIMES", times, 1);
    tuning.recorded = recorded;
    device_must(live_and_die());
    snprintf(algorithm, sizeof algorithm, "%02x00000000000000\n", (unsigned)number);
    if (tuning.done.measured != measured || tuning.done.refused != refused ||
        blas.calls("cublasLtMatmul") != products + LAUNCHES || (number >= 0 && !strstr(tuning.list, algorithm)) ||
        (number < 0 && *tuning.list))
        fail_msg("%s: measured %d, refused %d, products %ld, '%s'", times, tuning.done.measured, tuning.done.refused,
                 blas.calls("cublasLtMatmul"), tuning.list);
    assert_int_equal(left(), 0);
}

static void begin_tuning(void)
{
    lived = &product_case;
    tuning.on = tuning.measures = in_tf32 = true;
    begin("");
}

static void end_tuning(void)
{
    end();
    unsetenv("LEVIN_DOUBLE_TIMES");
    lived = &gelu_case;
    tuning.on = in_tf32 = false;
}

static void in_cache(const char *command)
{
    char text[200];
    snprintf(text, sizeof text, "for f in \"$LEVIN_CACHE\"/kernels/*; do %s; done", command);
    assert_int_equal(system(text), 0); /* the folder of begin() */
}

static void the_fastest_algorithm_is_chosen_once(void **state)
{
    (void)state;
    here_or_skip();
    begin_tuning();
    tuned_life("3,1,2", "", 1, 0, 3 * TIMED, 1);
    tuned_life("1,2,3", "", 0, 0, 0, 1); /* the cache decides */
    setenv("LEVIN_DOUBLE_CUBLASLT", "12", 1);
    tuned_life("2,3,1", "", 1, 0, 2 * TIMED + TIMED, 2); /* another library */
    unsetenv("LEVIN_DOUBLE_CUBLASLT");
    tuned_life("2,3,1", "", 0, 0, 0, 1);
    in_cache("echo damaged >\"$f\"");
    tuned_life("2,3,1", "", 1, 0, 3 * TIMED, 2);
    tuned_life("3,1,2", "", 0, 0, 0, 2);       /* it was written again */
    tuned_life("3,1", "", 1, 0, 2 * TIMED, 1); /* the library does not have that one any more */
    in_cache("rm \"$f\"");
    tuned_life("1,5,0.98", "", 1, 0, 2 * TIMED + 2, 0); /* a slow one is timed once; two percent are too little */
    in_cache("rm \"$f\"");
    tuned_life("3,0,2", "", 1, 0, 2 * TIMED + 1, 2); /* one that fails is left out */
    end_tuning();
}

static void a_recorded_algorithm_is_used(void **state)
{
    (void)state;
    here_or_skip();
    char recorded[sizeof tuning.list];
    begin_tuning();
    tuned_life("3,1,2", "", 1, 0, 3 * TIMED, 1);
    memcpy(recorded, tuning.list, sizeof recorded);
    in_cache("rm \"$f\"");
    tuned_life("1,2,3", recorded, 0, 0, 0, 1);
    tuning.measures = false; /* as ranks other than 0 */
    tuned_life("1,2,3", recorded, 0, 0, 0, 1);
    tuned_life("1,2,3", "", 0, 0, 0, -1);
    tuning.measures = true;
    tuned_life("1", recorded, 0, 1, 0, -1); /* the library has it no more */
    setenv("LEVIN_DOUBLE_CUBLASLT", "12", 1);
    tuned_life("2,3,1", recorded, 1, 0, 3 * TIMED, 2); /* of another library */
    unsetenv("LEVIN_DOUBLE_CUBLASLT");
    tuned_life("3,1,2", "0123456789abcdef 00\nnonsense\n", 1, 0, 3 * TIMED, 1);
    end_tuning();
}

/* In fp32, without the caller's consent, by LEVIN_CUBLASLT=first; without a cache, where the next run would choose
 * again. */
static void bits_that_must_stay_depend_on_no_measurement(void **state)
{
    (void)state;
    here_or_skip();
    begin_tuning();
    in_tf32 = false;
    tuned_life("3,1,2", "", 0, 0, 0, -1);
    in_tf32 = true;
    tuning.measures = false;
    tuned_life("3,1,2", "", 0, 0, 0, -1);
    tuning.measures = true;
    setenv("LEVIN_CUBLASLT", "first", 1);
    tuned_life("3,1,2", "", 0, 0, 0, -1);
    unsetenv("LEVIN_CUBLASLT");
    char folder[100];
    snprintf(folder, sizeof folder, "%s", getenv("LEVIN_CACHE"));
    setenv("LEVIN_CACHE", "/dev/null/no", 1);
    tuned_life("3,1,2", "", 0, 0, 3 * TIMED, -1);
    setenv("LEVIN_CACHE", folder, 1);
    end_tuning();
}

static int is_asked_again(void *asked)
{
    return ++*(int *)asked > 1;
}

static void a_measurement_shows_progress_and_can_be_interrupted(void **state)
{
    (void)state;
    here_or_skip();
    int asked = 0;
    begin_tuning();
    setenv("LEVIN_DOUBLE_TIMES", "3,1,2", 1);
    tuning.recorded = "";
    lvn_interrupt_set(is_asked_again, &asked);
    const int64_t before = lvn_work_count();
    assert_int_equal(live_and_die(), LVN_STOPPED);
    lvn_interrupt_set(NULL, NULL);
    lvn_error_clear();
    assert_int_equal(asked, 2);
    assert_int_equal(lvn_work_count() - before, 2); /* of three algorithms */
    assert_int_equal(left(), 0);
    end_tuning();
}

static void every_call_of_a_measurement_may_fail(void **state)
{
    (void)state;
    here_or_skip();
    static const char *const names[] = {"cuEventCreate", "cuEventRecord", "cuEventSynchronize", "cuEventElapsedTime"};
    begin_tuning();
    end();
    setenv("LEVIN_DOUBLE_TIMES", "3,1,2", 1);
    tuning.recorded = "";
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) assert_true(fail_each(&cuda, names[k]) > 0);
    begin("");
    end_tuning();
}

/* Micro-batches of an input follow one another, whatever their length: the second one is not at a multiple of 16. */
static void operands_may_lie_badly(void **state)
{
    (void)state;
    here_or_skip();
    static const struct op_case c = {LVN_OP_linear, .attr.linear = {true}, .in = {REAL(3, 5), REAL(5, 8), REAL(8)}};
    static struct device_run r;
    struct lvn_binding b = {.micro_batch_rows = 1};
    struct lvn_memory *m, *input;
    struct lvn_device *d;
    struct lvn_bound *bound;
    struct run run;
    int64_t scratch = 0;
    begin("");
    run_init(&run, &c, LVN_F32, &lvn_cpu_plain_ops(LVN_F32)[c.op]);
    run_forward(&run, 1);
    device_describe(&r, &run, LVN_FORWARD, 0, 0);
    device_must(lvn_backend_find("cuda")->open(&d, &(struct lvn_device_options){.real = LVN_F32, .threads = 1}));
    r.program.device = d;
    b.step = &run.step;
    device_must(d->backend->choose(d, &r.instr, &scratch));
    device_scratch(&r, scratch);
    device_must(lvn_memory_new(&m, d, r.arena));
    device_must(lvn_memory_new(&input, d, 2 * (int64_t)run.in[0].bytes));
    for (int v = 0; v < DEVICE_VALUES; v++)
        if (r.buffer[v])
            device_must(lvn_memory_write(m, r.values[v].offset, r.buffer[v]->p, (int64_t)r.buffer[v]->bytes));
    device_must(lvn_memory_write(input, (int64_t)run.in[0].bytes, run.in[0].p, (int64_t)run.in[0].bytes));
    r.values[r.instr.in[0].value].buffer = LVN_BUFFER_INPUT;
    b.buffer[LVN_BUFFER_ARENA] = m;
    b.inputs = &input;
    device_must(d->backend->bind(&bound, &r.program, &b));
    device_must(d->backend->run(bound, &(struct lvn_execution){.n_micro_batches = 2}));
    device_must(d->backend->wait(d));
    struct run found;
    run_init(&found, &c, LVN_F32, &lvn_cpu_plain_ops(LVN_F32)[c.op]);
    device_must(lvn_memory_read(m, r.values[r.instr.out[0].value].offset, found.out[0].p, (int64_t)found.out[0].bytes));
    assert_true(worst_of(&found.out[0], &run.out[0]) < 1e-6);
    assert_int_equal(blas.calls("cublasLtMatmul"), 2);
    assert_int_equal(blas.calls("cublasLtMatmulAlgoGetHeuristic"), 2);
    d->backend->unbind(bound);
    lvn_memory_free(m);
    lvn_memory_free(input);
    d->backend->close(d);
    run_release(&found);
    run_release(&run);
    assert_int_equal(left(), 0);
    end();
}

static void a_lost_device_is_as_a_lost_rank(void **state)
{
    (void)state;
    here_or_skip();
    begin("kernel:3");
    assert_int_equal(live_and_die(), LVN_COMM);
    if (!strstr(levin_error_text(), "the device was lost") ||
        !strstr(levin_error_text(), "a training can be resumed from its last checkpoint"))
        fail_msg("%s", levin_error_text());
    lvn_error_clear();
    end();
    begin("cuLaunchKernel:1:214"); /* ECC */
    assert_int_equal(live_and_die(), LVN_COMM);
    lvn_error_clear();
    end();
}

static void refused(const char *variable, const char *value, enum lvn_status wanted, const char *says, const char *too)
{
    begin("");
    setenv(variable, value, 1);
    enum lvn_status status = live_and_die();
    unsetenv(variable);
    if (status != wanted || !strstr(levin_error_text(), says) || !strstr(levin_error_text(), too))
        fail_msg("%s=%s: %d, %s", variable, value, status, levin_error_text());
    assert_int_equal(cuda.left(), 0);
    lvn_error_clear();
    end();
}

static void unsupported_combinations_are_refused(void **state)
{
    (void)state;
    here_or_skip();
    refused("LEVIN_DOUBLE_DRIVER", "12080", LVN_UNSUPPORTED, "CUDA 12.8", "NVRTC 13.0");
    refused("LEVIN_DOUBLE_CAPABILITY", "70", LVN_UNSUPPORTED, "7.0", "NVRTC 13.0");
    refused("LEVIN_DOUBLE_MEMORY", "20", LVN_MEMORY, "Double 0", "of 20 bytes free");
    refused("LEVIN_DOUBLE_DEVICES", "0", LVN_UNSUPPORTED, "finds no device", "nvidia-smi");
    refused("LEVIN_DOUBLE_FAIL", "cuInit:1:802", LVN_UNSUPPORTED, "does not start", "nvidia-fabricmanager");
    refused("LEVIN_DOUBLE_FAIL", "cuInit:1:803", LVN_UNSUPPORTED, "does not start", "to different drivers");
    refused("LEVIN_DOUBLE_FAIL", "cuInit:1:999", LVN_UNSUPPORTED, "does not start", "nvidia-uvm");
    refused("LEVIN_DOUBLE_FAIL", "cuDevicePrimaryCtxRetain:1:46", LVN_COMM, "another process uses", "compute mode");
    struct lvn_device *d;
    begin("");
    assert_int_equal(
        lvn_backend_find("cuda")->open(&d, &(struct lvn_device_options){.real = LVN_F32, .threads = 1, .number = 3}),
        LVN_ARG);
    assert_non_null(strstr(levin_error_text(), "device 3 was requested, but CUDA sees 1 on this machine"));
    lvn_error_clear();
    setenv("LEVIN_DOUBLE_CAPABILITY", "120", 1); /* newer than NVRTC: PTX */
    assert_int_equal(live_and_die(), LVN_OK);
    unsetenv("LEVIN_DOUBLE_CAPABILITY");
    assert_int_equal(nvrtc.calls("nvrtcGetPTX"), 1);
    assert_int_equal(nvrtc.calls("nvrtcGetCUBIN"), 0);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_is_captured_once_and_replayed),
        cmocka_unit_test(many_micro_batches_are_captured_in_parts),
        cmocka_unit_test(what_is_too_long_is_walked_through),
        cmocka_unit_test(what_cannot_be_captured_is_launched),
        cmocka_unit_test(variables_turn_capturing_off),
        cmocka_unit_test(memory_for_libraries_is_reserved),
        cmocka_unit_test(what_is_written_comes_back),
        cmocka_unit_test(a_snapshot_is_read_during_work),
        cmocka_unit_test(a_lost_device_is_as_a_lost_rank),
        cmocka_unit_test(unsupported_combinations_are_refused),
        cmocka_unit_test(products_fall_back_to_the_kernel),
        cmocka_unit_test(attention_by_wgmma_is_noted),
        cmocka_unit_test(a_library_that_is_too_new_is_left_out),
        cmocka_unit_test(operands_are_rounded_once),
        cmocka_unit_test(products_in_bf16),
        cmocka_unit_test(tf32_is_where_it_was_asked_for),
        cmocka_unit_test(operands_may_lie_badly),
        cmocka_unit_test(the_fastest_algorithm_is_chosen_once),
        cmocka_unit_test(a_recorded_algorithm_is_used),
        cmocka_unit_test(a_measurement_shows_progress_and_can_be_interrupted),
        cmocka_unit_test(bits_that_must_stay_depend_on_no_measurement),
        cmocka_unit_test(every_call_of_a_measurement_may_fail),
        cmocka_unit_test(every_call_of_the_library_may_fail),
        cmocka_unit_test(every_call_of_the_compiler_may_fail),
        cmocka_unit_test(every_call_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

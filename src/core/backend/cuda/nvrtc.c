/* nvrtc.c - see nvrtc.h. */
#include "backend/cuda/nvrtc.h"

#include "backend/cuda/driver.h"
#include "base/arena.h"

typedef void *program;

#define FUNCTIONS(F)                                                                                                   \
    F(int, version, (int *major, int *minor), "nvrtcVersion")                                                          \
    F(const char *, error_text, (int error), "nvrtcGetErrorString")                                                    \
    F(int, n_architectures, (int *n), "nvrtcGetNumSupportedArchs")                                                     \
    F(int, architectures, (int *list), "nvrtcGetSupportedArchs")                                                       \
    F(int, create,                                                                                                     \
      (program * p, const char *source, const char *name, int n_headers, const char *const *headers,                   \
       const char *const *names),                                                                                      \
      "nvrtcCreateProgram")                                                                                            \
    F(int, destroy, (program * p), "nvrtcDestroyProgram")                                                              \
    F(int, compile, (program p, int n, const char *const *options), "nvrtcCompileProgram")                             \
    F(int, cubin_bytes, (program p, size_t * n), "nvrtcGetCUBINSize")                                                  \
    F(int, cubin, (program p, char *to), "nvrtcGetCUBIN")                                                              \
    F(int, ptx_bytes, (program p, size_t * n), "nvrtcGetPTXSize")                                                      \
    F(int, ptx, (program p, char *to), "nvrtcGetPTX")                                                                  \
    F(int, log_bytes, (program p, size_t * n), "nvrtcGetProgramLogSize")                                               \
    F(int, log, (program p, char *to), "nvrtcGetProgramLog")

static struct {
    FUNCTIONS(LVN_LIBRARY_POINTER)
} nvrtc;

static const char *version(void)
{
    static char text[32];
    int major = 0, minor = 0;
    nvrtc.version(&major, &minor); /* cannot fail with valid pointers */
    snprintf(text, sizeof text, "NVRTC %d.%d", major, minor);
    return text;
}

enum { MAX_ARCHITECTURES = 64 };

/* List the architectures that NVRTC compiles for, and return their number; 0: not known. */
static int list_architectures(int list[MAX_ARCHITECTURES])
{
    int n = 0;
    const bool known = nvrtc.n_architectures(&n) == 0 && n <= MAX_ARCHITECTURES && nvrtc.architectures(list) == 0;
    return known ? n : 0;
}

/* Does this NVRTC work with the driver and with the device in use? If no device is open yet: with all devices. Version
 * 13 does not compile for compute capabilities below 7.5, although drivers that support version 13 still run such
 * devices. */
static bool fits(void)
{
    int major = 0, minor = 0, list[MAX_ARCHITECTURES];
    const int n = list_architectures(list), capability = lvn_cuda_capability();
    bool compiles = n == 0 || capability == 0;
    for (int k = 0; k < n; k++) compiles |= list[k] <= capability;
    return compiles && (nvrtc.version(&major, &minor) || lvn_cuda_driver_supports(major));
}

struct lvn_library lvn_library_nvrtc = {
    .name = "libnvrtc",
    .files = {"libnvrtc.so.13", "libnvrtc.so.12"},
    .folders =
        (const char *const[]){"$CUDA_HOME/lib64", "$CUDA_PATH/lib64",
                              "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/cu13/lib",
                              "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib", "$CONDA_PREFIX/lib",
                              "/usr/local/cuda/lib64", "$HOME/.local/lib/python3*/site-packages/nvidia/cu13/lib",
                              "$HOME/.local/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib",
                              "/usr/local/lib/python3*/*-packages/nvidia/cu13/lib",
                              "/usr/local/lib/python3*/*-packages/nvidia/cuda_nvrtc/lib", NULL},
    .use = "compiling kernels for NVIDIA GPUs",
    .hint = "pip install nvidia-cuda-nvrtc into an active environment, or set LD_LIBRARY_PATH or CUDA_HOME to a CUDA "
            "toolkit of version 12 or 13",
    .symbols = (const char *const[]){FUNCTIONS(LVN_LIBRARY_SYMBOL) NULL},
    .functions = &nvrtc,
    .requires = &lvn_library_cuda,
    .is_compatible = fits,
    .version = version};

enum lvn_status lvn_nvrtc_version(char *text, size_t bytes, int *major)
{
    int minor;
    LVN_TRY(lvn_library_open(&lvn_library_nvrtc));
    LVN_CHECK(nvrtc.version(major, &minor) == 0, UNSUPPORTED, "libnvrtc does not report its version");
    snprintf(text, bytes, "%s", version());
    return LVN_OK;
}

enum lvn_status lvn_nvrtc_architecture(char text[LVN_NVRTC_ARCHITECTURE], int capability)
{
    int list[MAX_ARCHITECTURES], newest = 0, oldest = 1000;
    LVN_TRY(lvn_library_open(&lvn_library_nvrtc));
    const int n = list_architectures(list);
    LVN_CHECK(n > 0, UNSUPPORTED, "%s does not report which devices it compiles for", version());
    for (int i = 0; i < n; i++) {
        if (list[i] == capability) {
            snprintf(text, LVN_NVRTC_ARCHITECTURE, "sm_%d%s", capability,
                     capability == 90 ? "a" : ""); /* a: with wgmma and TMA instructions */
            return LVN_OK;
        }
        if (list[i] > newest && list[i] < capability) newest = list[i];
        if (list[i] < oldest) oldest = list[i];
    }
    LVN_CHECK(newest > 0, UNSUPPORTED,
              "the device's compute capability is %d.%d, but %s compiles for %d.%d and later; install NVRTC 12, "
              "which supports 5.0 and later (pip install nvidia-cuda-nvrtc-cu12)",
              capability / 10, capability % 10, version(), oldest / 10, oldest % 10);
    snprintf(text, LVN_NVRTC_ARCHITECTURE, "compute_%d", newest);
    return LVN_OK;
}

/* --- compiling --- */

static enum lvn_status get_image(struct lvn_nvrtc_image *out, program p)
{
    out->n = 0;
    int result = out->ptx ? nvrtc.ptx_bytes(p, &out->n) : nvrtc.cubin_bytes(p, &out->n);
    LVN_CHECK(result == 0 && out->n > 0, UNSUPPORTED, "NVRTC returned no result: %s", nvrtc.error_text(result));
    out->bytes = lvn_calloc(out->n + 1, 1);
    if (!out->bytes) return LVN_MEMORY;
    result = out->ptx ? nvrtc.ptx(p, out->bytes) : nvrtc.cubin(p, out->bytes);
    if (result == 0) return LVN_OK;
    free(out->bytes);
    out->bytes = NULL;
    LVN_FAIL(UNSUPPORTED, "NVRTC returned no image: %s", nvrtc.error_text(result));
}

/* The first line of the log that contains "error", otherwise its first line. */
static int first_line(const char *log, const char **line)
{
    const char *error = strstr(log, "error");
    *line = log;
    for (const char *at = error; at && at >= log; at--)
        if (at == log || at[-1] == '\n') {
            *line = at;
            break;
        }
    return (int)strcspn(*line, "\n");
}

static enum lvn_status compile(struct lvn_nvrtc_image *out, program p, const char *name, const char *architecture,
                               const char *const *options, char **log)
{
    enum { MAX = 24 };
    const char *list[MAX] = {0}, *line;
    char target[64];
    int n = 0;
    size_t bytes = 0;
    snprintf(target, sizeof target, "--gpu-architecture=%s", architecture);
    list[n++] = target;
    for (; options && *options && n < MAX; options++) list[n++] = *options;
    int result = nvrtc.compile(p, n, list);
    if (nvrtc.log_bytes(p, &bytes)) bytes = 0;
    *log = lvn_calloc(bytes + 1, 1);
    if (!*log) return LVN_MEMORY;
    if (bytes > 0 && nvrtc.log(p, *log)) **log = '\0';
    if (result) {
        int length = first_line(*log, &line);
        LVN_FAIL(UNSUPPORTED, "%s: the kernel does not compile for %s (%s: %s): %.*s", name, architecture, version(),
                 nvrtc.error_text(result), length, line);
    }
    out->ptx = !strncmp(architecture, "compute_", 8);
    return get_image(out, p);
}

enum lvn_status lvn_nvrtc_compile(struct lvn_nvrtc_image *out, const char *name, const char *source,
                                  const char *architecture, const char *const *options, char **log)
{
    program p = NULL;
    char file[80], *copy = NULL;
    *out = (struct lvn_nvrtc_image){0};
    if (log) *log = NULL;
    LVN_TRY(lvn_library_open(&lvn_library_nvrtc));
    snprintf(file, sizeof file, "%s.k", name);
    int result = nvrtc.create(&p, source, file, 0, NULL, NULL);
    LVN_CHECK(result == 0, UNSUPPORTED, "%s: NVRTC rejected the source: %s", name, nvrtc.error_text(result));
    enum lvn_status status = compile(out, p, name, architecture, options, &copy);
    nvrtc.destroy(&p);
    if (log)
        *log = copy;
    else
        free(copy);
    return status;
}

/* nvrtc.c - a test double of NVRTC. Its "image" is the source after #define lines for the -D options; the driver's
 * double compiles it as OpenCL C with plain pointers. Supports compute capabilities 7.5, 8.0, 9.0 and 10.0, or
 * those up to LEVIN_DOUBLE_NEWEST (100). A copy of it named libnvrtc.so.12 reports version 12 and supports 5.0, too. */
#include <dlfcn.h>

#include "double.h"

#define EXPORT __attribute__((visibility("default")))
#define CALL(name, code)                                                                                               \
    do {                                                                                                               \
        int failed_ = double_call(name, code);                                                                         \
        if (failed_) return failed_;                                                                                   \
    } while (0)

enum { BAD_INPUT = 3, COMPILATION = 6 };

struct program {
    char *source, *image;
    const char *log;
};

static long programs;

__attribute__((destructor)) static void report(void)
{
    FILE *f = double_report();
    if (!f) return;
    fprintf(f, "left programs %ld\n", programs);
    fclose(f);
}

static const char major_of_file[] = "";

static bool is_older(void)
{
    Dl_info here;
    return dladdr(major_of_file, &here) && strstr(here.dli_fname, ".so.12");
}

EXPORT int nvrtcVersion(int *major, int *minor)
{
    *major = (int)double_number("LEVIN_DOUBLE_NVRTC", is_older() ? 12 : 13);
    *minor = 0;
    return 0;
}

EXPORT const char *nvrtcGetErrorString(int error)
{
    return error == COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_OF_A_DOUBLE";
}

static int list_architectures(int *list)
{
    static const int all[] = {50, 75, 80, 90, 100};
    const long oldest = is_older() ? 50 : 75, newest = double_number("LEVIN_DOUBLE_NEWEST", 100);
    int n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] >= oldest && all[i] <= newest) list[n++] = all[i];
    return n;
}

EXPORT int nvrtcGetNumSupportedArchs(int *n)
{
    CALL("nvrtcGetNumSupportedArchs", BAD_INPUT);
    int list[8];
    *n = list_architectures(list);
    return 0;
}

EXPORT int nvrtcGetSupportedArchs(int *list)
{
    CALL("nvrtcGetSupportedArchs", BAD_INPUT);
    (void)list_architectures(list);
    return 0;
}

EXPORT int nvrtcCreateProgram(struct program **p, const char *source, const char *name, int n,
                              const char *const *headers, const char *const *names)
{
    (void)name, (void)n, (void)headers, (void)names;
    CALL("nvrtcCreateProgram", BAD_INPUT);
    *p = calloc(1, sizeof **p);
    (*p)->source = strdup(source);
    (*p)->log = "";
    programs++;
    return 0;
}

EXPORT int nvrtcDestroyProgram(struct program **p)
{
    free((*p)->source);
    free((*p)->image);
    free(*p);
    *p = NULL;
    programs--;
    return 0;
}

EXPORT int nvrtcCompileProgram(struct program *p, int n, const char *const *options)
{
    int failed = double_call("nvrtcCompileProgram", COMPILATION);
    if (failed) p->log = "double.k(7): error: simulated by the test\nand more\n";
    if (failed) return failed;
    size_t bytes = strlen(p->source) + 128;
    for (int i = 0; i < n; i++) bytes += strlen(options[i]) + 16;
    p->image = calloc(1, bytes);
    strcpy(p->image, "/* image of a double */\n#define LVN_POINTERS\n#define LVN_DOUBLE\n");
    for (int i = 0; i < n; i++) {
        if (strncmp(options[i], "-D", 2) || !strcmp(options[i], "-DLVN_CUDA")) continue;
        char *at = p->image + strlen(p->image), *equals;
        sprintf(at, "#define %s\n", options[i] + 2);
        if ((equals = strchr(at, '='))) *equals = ' ';
    }
    strcat(p->image, p->source);
    return 0;
}

EXPORT int nvrtcGetCUBINSize(struct program *p, size_t *n)
{
    CALL("nvrtcGetCUBINSize", BAD_INPUT);
    *n = strlen(p->image) + 1;
    return 0;
}

EXPORT int nvrtcGetCUBIN(struct program *p, char *to)
{
    CALL("nvrtcGetCUBIN", BAD_INPUT);
    strcpy(to, p->image);
    return 0;
}

EXPORT int nvrtcGetPTXSize(struct program *p, size_t *n)
{
    CALL("nvrtcGetPTXSize", BAD_INPUT);
    *n = strlen(p->image) + 1;
    return 0;
}

EXPORT int nvrtcGetPTX(struct program *p, char *to)
{
    CALL("nvrtcGetPTX", BAD_INPUT);
    strcpy(to, p->image);
    return 0;
}

EXPORT int nvrtcGetProgramLogSize(struct program *p, size_t *n)
{
    *n = strlen(p->log) + 1;
    return 0;
}

EXPORT int nvrtcGetProgramLog(struct program *p, char *to)
{
    strcpy(to, p->log);
    return 0;
}

/* For tests in the same process: calls are counted from zero. */
EXPORT void doubleBegin(void)
{
    double_begin();
}

EXPORT long doubleLeft(void)
{
    return programs;
}

EXPORT long doubleCalls(const char *name)
{
    return double_calls(name);
}

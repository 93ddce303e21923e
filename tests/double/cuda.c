/* cuda.c - a double of NVIDIA's driver, for tests: the calls that levin makes, over an OpenCL device of the processor
 * that takes plain pointers. It is never installed.
 *
 * Nothing runs when it is launched. Work of a stream waits in a lane, and runs when a caller waits for it, in the worst
 * order that the events allow: with LEVIN_DOUBLE_ORDER=late (or nothing) a lane runs as late as it may, only when its
 * own work or an event of it is waited for; with early all other lanes run first, as far as they can. So a missing
 * event gives wrong numbers in one order or the other. Uploads from pinned memory read it when they run, as on a GPU;
 * those from other memory take a copy at once, as the driver does. Memory begins as garbage, is overwritten with
 * garbage when freed, and is watched on both sides. A captured graph keeps its lanes, and runs as often as it is
 * launched.
 *
 *   LEVIN_DOUBLE_DEVICES, _CAPABILITY, _DRIVER, _MEMORY   what it reports about itself (1, 90, 13020, 8 GiB)
 *   LEVIN_DOUBLE_LAST                                     the capability of all devices but the first
 *   LEVIN_DOUBLE_KIND                                     the name of all devices, instead of one for each
 *   LEVIN_DOUBLE_TAKEN                                    memory that another process takes once a plan has begun (0)
 *   LEVIN_DOUBLE_MIG                                      number of consecutive devices that are parts of one card (1)
 *   LEVIN_DOUBLE_KERNELS                                  a folder for compiled kernels, which processes share
 *   LEVIN_DOUBLE_FAIL, _REPORT                            see double.h
 *
 * Not supported: more than one context a device, priorities of streams. */
#include "lanes.h"

/* --- what it reports about itself --- */

__attribute__((destructor)) static void report(void)
{
    FILE *f = double_report();
    if (!f) return;
    for (struct block *b = blocks; b; b = b->next) broken += !intact(b);
    fprintf(f, "kernels %ld\nbroken %ld\nmost %zu\n", kernels, broken, max_in_use);
    fprintf(f, "left memory %ld\nleft pinned %ld\nleft streams %ld\nleft events %ld\n", left.memory, left.pinned,
            left.streams, left.events);
    fprintf(f, "left modules %ld\nleft graphs %ld\nleft runs %ld\nleft contexts %d\n", left.modules, left.graphs,
            left.runs, retained);
    fclose(f);
}

/* For tests in the same process: calls are counted from zero, and the device works again. */
EXPORT void doubleBegin(void)
{
    double_begin();
    sticky = 0;
}

/* The number of objects that are not released yet, and of blocks with writes outside of them. */
EXPORT long doubleLeft(void)
{
    return left.memory + left.pinned + left.streams + left.events + left.modules + left.graphs + left.runs + retained +
           broken;
}

EXPORT long doubleCalls(const char *name)
{
    return double_calls(name);
}

EXPORT int cuInit(unsigned flags)
{
    const char *why;
    (void)flags;
    CALL("cuInit", UNKNOWN);
    if (device) return 0;
    process = getpid();
    device = ocl_open(&why);
    if (!device) fprintf(stderr, "double: %s\n", why);
    return device ? 0 : NO_DEVICE;
}

EXPORT int cuDriverGetVersion(int *version)
{
    CALL("cuDriverGetVersion", UNKNOWN);
    *version = (int)double_number("LEVIN_DOUBLE_DRIVER", 13020);
    return 0;
}

EXPORT int cuGetErrorName(int error, const char **text)
{
    static char name[64];
    snprintf(name, sizeof name, "CUDA_ERROR_NUMBER_%d", error);
    *text = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : name;
    return 0;
}

EXPORT int cuGetErrorString(int error, const char **text)
{
    (void)error;
    *text = "said by a double";
    return 0;
}

EXPORT int cuDeviceGetCount(int *n)
{
    CALL("cuDeviceGetCount", UNKNOWN);
    *n = (int)double_number("LEVIN_DOUBLE_DEVICES", 1);
    return 0;
}

EXPORT int cuDeviceGet(int *handle, int number)
{
    CALL("cuDeviceGet", INVALID_DEVICE);
    if (number < 0 || number >= double_number("LEVIN_DOUBLE_DEVICES", 1)) return INVALID_DEVICE;
    *handle = number + 1000;
    return 0;
}

EXPORT int cuDeviceGetName(char *name, int bytes, int handle)
{
    CALL("cuDeviceGetName", INVALID_DEVICE);
    const char *kind = getenv("LEVIN_DOUBLE_KIND");
    if (kind)
        snprintf(name, (size_t)bytes, "%s", kind);
    else
        snprintf(name, (size_t)bytes, "Double %d", handle - 1000);
    return 0;
}

EXPORT int cuDeviceGetUuid_v2(unsigned char id[16], int handle)
{
    const char *visible = getenv("LEVIN_DOUBLE_FIRST"); /* as if CUDA_VISIBLE_DEVICES began with it */
    CALL("cuDeviceGetUuid_v2", INVALID_DEVICE);
    memset(id, 0x5a, 16);
    id[15] = (unsigned char)(handle - 1000 + (visible ? atoi(visible) : 0));
    return 0;
}

EXPORT int cuDeviceGetPCIBusId(char *id, int bytes, int handle)
{
    const char *visible = getenv("LEVIN_DOUBLE_FIRST");
    CALL("cuDeviceGetPCIBusId", INVALID_DEVICE);
    const int number = handle - 1000 + (visible ? atoi(visible) : 0);
    snprintf(id, (size_t)bytes, "0000:%02x:00.0", number / (int)double_number("LEVIN_DOUBLE_MIG", 1));
    return 0;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int handle)
{
    (void)handle;
    CALL("cuDeviceTotalMem_v2", INVALID_DEVICE);
    *bytes = (size_t)double_number("LEVIN_DOUBLE_MEMORY", 8l << 30);
    return 0;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int handle)
{
    const long first = double_number("LEVIN_DOUBLE_CAPABILITY", 90),
               capability = handle > 1000 ? double_number("LEVIN_DOUBLE_LAST", first) : first;
    CALL("cuDeviceGetAttribute", INVALID);
    *value = attribute == 75 ? (int)(capability / 10) : attribute == 76 ? (int)(capability % 10) : 1;
    return 0;
}

EXPORT int cuDevicePrimaryCtxRetain(void **out, int handle)
{
    int error = 0;
    (void)handle;
    CALL("cuDevicePrimaryCtxRetain", OUT_OF_MEMORY);
    if (!context) {
        context = ocl.CreateContext(NULL, 1, &device, NULL, NULL, &error);
        if (context) queue = ocl.CreateCommandQueueWithProperties(context, device, NULL, &error);
    }
    if (!queue) return UNKNOWN;
    retained++;
    *out = context;
    return 0;
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int handle)
{
    (void)handle;
    (void)double_call("cuDevicePrimaryCtxRelease_v2", 0);
    if (retained == 0) return INVALID;
    retained--;
    return 0;
}

EXPORT int cuCtxSetCurrent(void *c)
{
    CALL("cuCtxSetCurrent", INVALID);
    if (c && c != context) return INVALID;
    current = c;
    return 0;
}

/* --- memory --- */

EXPORT int cuMemGetInfo_v2(size_t *available, size_t *total)
{
    static bool told;
    CALL("cuMemGetInfo_v2", INVALID);
    *total = (size_t)double_number("LEVIN_DOUBLE_MEMORY", 8l << 30);
    *available = *total - in_use;
    if (!told) in_use += (size_t)double_number("LEVIN_DOUBLE_TAKEN", 0);
    told = true;
    return 0;
}

EXPORT int cuMemAllocAsync(uint64_t *p, size_t bytes, struct stream *s)
{
    CALL("cuMemAllocAsync", OUT_OF_MEMORY);
    if (s->capture) return CAPTURE_UNSUPPORTED;
    pthread_mutex_lock(&lock);
    bool fits = in_use + bytes <= (size_t)double_number("LEVIN_DOUBLE_MEMORY", 8l << 30);
    if (fits) {
        *p = (uint64_t)(uintptr_t)block_new(bytes, false)->p;
        in_use += bytes;
        if (in_use > max_in_use) max_in_use = in_use;
        left.memory++;
    }
    pthread_mutex_unlock(&lock);
    return fits ? 0 : OUT_OF_MEMORY;
}

EXPORT int cuMemFreeAsync(uint64_t p, struct stream *s)
{
    int failed = double_call("cuMemFreeAsync", INVALID);
    if (failed) return failed;
    pthread_mutex_lock(&lock);
    left.memory--;
    int answer =
        sticky ? block_free((void *)(uintptr_t)p) : put(s, (struct op){.kind = FREE, .to = (void *)(uintptr_t)p});
    pthread_mutex_unlock(&lock);
    return answer;
}

EXPORT int cuMemsetD8Async(uint64_t p, unsigned char value, size_t bytes, struct stream *s)
{
    CALL("cuMemsetD8Async", INVALID);
    if (!find((void *)(uintptr_t)p, bytes)) return INVALID;
    return put(s, (struct op){.kind = ZERO, .to = (void *)(uintptr_t)p, .bytes = bytes, .value = value});
}

EXPORT int cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    CALL("cuMemHostAlloc", OUT_OF_MEMORY);
    pthread_mutex_lock(&lock);
    *p = block_new(bytes, true)->p;
    left.pinned++;
    pthread_mutex_unlock(&lock);
    return 0;
}

EXPORT int cuMemFreeHost(void *p)
{
    int failed = double_call("cuMemFreeHost", INVALID);
    if (failed) return failed;
    pthread_mutex_lock(&lock);
    for (struct stream *s = streams; s && !sticky; s = s->next) (void)run_until(&s->lane, NULL); /* as the driver */
    int answer = block_free(p);
    left.pinned -= answer == 0;
    pthread_mutex_unlock(&lock);
    return answer;
}

static bool is_pinned(const void *p, size_t bytes)
{
    const struct block *b = find(p, bytes);
    return b && b->pinned;
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct stream *s)
{
    CALL("cuMemcpyHtoDAsync_v2", INVALID);
    if (!find((void *)(uintptr_t)to, bytes)) return INVALID;
    struct op o = {.kind = COPY, .to = (void *)(uintptr_t)to, .from = (void *)(uintptr_t)from, .bytes = bytes};
    if (!is_pinned(from, bytes)) {
        if (s->capture) return CAPTURE_UNSUPPORTED;
        o.own = o.from = memcpy(malloc(bytes), from, bytes);
    }
    return put(s, o);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct stream *s)
{
    CALL("cuMemcpyDtoHAsync_v2", INVALID);
    if (!find((void *)(uintptr_t)from, bytes)) return INVALID;
    bool pinned = is_pinned(to, bytes);
    if (s->capture && !pinned) return CAPTURE_UNSUPPORTED;
    put(s, (struct op){.kind = COPY, .to = to, .from = (void *)(uintptr_t)from, .bytes = bytes});
    return pinned ? 0 : finish(s);
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct stream *s)
{
    CALL("cuMemcpyDtoDAsync_v2", INVALID);
    if (!find((void *)(uintptr_t)to, bytes) || !find((void *)(uintptr_t)from, bytes)) return INVALID;
    return put(s,
               (struct op){.kind = COPY, .to = (void *)(uintptr_t)to, .from = (void *)(uintptr_t)from, .bytes = bytes});
}

/* --- streams and events --- */

EXPORT int cuStreamCreateWithPriority(struct stream **s, unsigned flags, int priority)
{
    (void)flags;
    (void)priority;
    CALL("cuStreamCreateWithPriority", OUT_OF_MEMORY);
    *s = calloc(1, sizeof **s);
    (*s)->next = streams;
    streams = *s;
    left.streams++;
    return 0;
}

EXPORT int cuStreamDestroy_v2(struct stream *s)
{
    int failed = double_call("cuStreamDestroy_v2", INVALID);
    if (failed) return failed;
    struct stream **at = &streams;
    while (*at && *at != s) at = &(*at)->next;
    if (!*at) return INVALID;
    if (!sticky) (void)run_until(&s->lane, NULL);
    *at = s->next;
    free(s->lane.ops);
    free(s);
    left.streams--;
    return 0;
}

EXPORT int cuStreamSynchronize(struct stream *s)
{
    CALL("cuStreamSynchronize", UNKNOWN);
    return s->capture ? CAPTURE_UNSUPPORTED : finish(s);
}

/* Every other query of a stream with unfinished work is answered with NOT_READY. */
EXPORT int cuStreamQuery(struct stream *s)
{
    static int asked;
    CALL("cuStreamQuery", UNKNOWN);
    if (s->capture) return CAPTURE_UNSUPPORTED;
    if (s->lane.n > s->lane.next && asked++ % 2 == 0) return NOT_READY;
    return finish(s);
}

EXPORT int cuLaunchHostFunc(struct stream *s, void (*call)(void *data), void *data)
{
    CALL("cuLaunchHostFunc", INVALID);
    return put(s, (struct op){.kind = HOST, .call = call, .to = data});
}

/* For doubles of libraries: like the driver's user objects, *graphs counts the graphs that the capture of this stream
 * becomes. */
EXPORT bool doubleHeld(struct stream *s, atomic_int *graphs)
{
    struct graph *g = s->capture;
    if (!g) return true;
    for (int k = 0; k < g->n_held; k++)
        if (g->held[k] == graphs) return true;
    if (g->n_held == MAX_HELD) return false;
    g->held[g->n_held++] = graphs;
    atomic_fetch_add(graphs, 1);
    return true;
}

/* For doubles of libraries: they allocate memory of the device, and keep it. */
EXPORT bool doubleTake(size_t bytes)
{
    pthread_mutex_lock(&lock);
    const bool fits = in_use + bytes <= (size_t)double_number("LEVIN_DOUBLE_MEMORY", 8l << 30);
    if (fits) in_use += bytes;
    pthread_mutex_unlock(&lock);
    return fits;
}

/* For doubles of libraries: their work takes this long on the device's clock. */
EXPORT void doublePass(double ms)
{
    pthread_mutex_lock(&lock);
    clock_ms += ms;
    pthread_mutex_unlock(&lock);
}

EXPORT bool doubleCaptured(const struct stream *s)
{
    return s->capture;
}

EXPORT int cuEventCreate(struct event **e, unsigned flags)
{
    CALL("cuEventCreate", OUT_OF_MEMORY);
    *e = calloc(1, sizeof **e);
    (*e)->timed = !(flags & 2);
    left.events++;
    return 0;
}

EXPORT int cuEventDestroy_v2(struct event *e)
{
    int failed = double_call("cuEventDestroy_v2", INVALID);
    if (failed) return failed;
    free(e);
    left.events--;
    return 0;
}

EXPORT int cuEventRecord(struct event *e, struct stream *s)
{
    CALL("cuEventRecord", INVALID);
    struct mark *m = calloc(1, sizeof *m);
    pthread_mutex_lock(&lock);
    m->next = marks;
    marks = m;
    e->mark = m;
    e->capture = s->capture;
    put(s, (struct op){.kind = RECORD, .mark = m});
    m->lane = lane_of(s);
    pthread_mutex_unlock(&lock);
    return 0;
}

EXPORT int cuStreamWaitEvent(struct stream *s, struct event *e, unsigned flags)
{
    (void)flags;
    CALL("cuStreamWaitEvent", INVALID);
    if (!e->mark) return 0;
    if (e->capture && !s->capture) s->capture = e->capture; /* it joins in */
    if (s->capture && e->capture != s->capture) return CAPTURE_UNSUPPORTED;
    return put(s, (struct op){.kind = WAIT, .mark = e->mark});
}

EXPORT int cuEventSynchronize(struct event *e)
{
    CALL("cuEventSynchronize", UNKNOWN);
    if (!e->mark || e->mark->done) return 0;
    if (e->capture) return CAPTURE_UNSUPPORTED;
    run_all_but(e->mark->lane);
    return e->mark->done ? 0 : run_until(e->mark->lane, e->mark);
}

EXPORT int cuEventElapsedTime(float *ms, struct event *from, struct event *to)
{
    CALL("cuEventElapsedTime", UNKNOWN);
    if (!from->timed || !to->timed || !from->mark || !to->mark || from->capture || to->capture) return INVALID;
    if (!from->mark->done || !to->mark->done) return NOT_READY;
    *ms = (float)(to->mark->at - from->mark->at);
    return 0;
}

/* --- kernels --- */

/* The runtime's optimizer takes most of the time of tests of small shapes. */
static const char build_options[] = "-cl-std=CL3.0 -cl-kernel-arg-info -cl-opt-disable";

/* Two letters for an argument: l in local memory, p another pointer, v a value; then its bytes, 0 for a type that
 * levin's kernels do not have. */
static void describe_argument(FILE *to, cl kernel, const char *name, unsigned k)
{
    unsigned where = 0;
    char type[80] = "";
    ocl.GetKernelArgInfo(kernel, k, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof where, &where, NULL);
    ocl.GetKernelArgInfo(kernel, k, CL_KERNEL_ARG_TYPE_NAME, sizeof type, type, NULL);
    const bool pointer = where == CL_ADDRESS_GLOBAL || where == CL_ADDRESS_CONSTANT;
    const bool eight = pointer || strstr(type, "long") || strstr(type, "double");
    const bool four = strstr(type, "int") || strstr(type, "float");
    if (!eight && !four) fprintf(stderr, "double: argument %u of %s is of type %s\n", k, name, type);
    fprintf(to, "%c%c", where == CL_ADDRESS_LOCAL ? 'l' : pointer ? 'p' : 'v', eight ? '8' : four ? '4' : '0');
}

/* The arguments of all kernels of a program, since a program made from a binary cannot list them. */
static char *describe(cl program)
{
    cl found[64];
    unsigned n = 0, n_args;
    char *text = NULL, name[200];
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    if (ocl.CreateKernelsInProgram(program, 64, found, &n)) n = 0;
    for (unsigned i = 0; i < n; i++) {
        ocl.GetKernelInfo(found[i], CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
        ocl.GetKernelInfo(found[i], CL_KERNEL_NUM_ARGS, sizeof n_args, &n_args, NULL);
        fprintf(to, "%s ", name);
        for (unsigned k = 0; k < n_args; k++) describe_argument(to, found[i], name, k);
        fputc('\n', to);
        ocl.ReleaseKernel(found[i]);
    }
    fclose(to);
    return text;
}

/* The file of a text in the folder LEVIN_DOUBLE_KERNELS; false if there is no such folder. The runtime takes up to
 * seconds for a kernel, and each process of a test, and each test, compiles the same ones. The name is the hash of the
 * text, the options, the version of the runtime and the processor; the file is the text and the signatures, each with
 * its final 0, and the binary. */
static bool file_of(const char *text, char path[static 4096])
{
    char driver[200] = "", name[200] = "";
    const char *folder = getenv("LEVIN_DOUBLE_KERNELS"), *parts[] = {text, build_options, driver, name};
    uint64_t hash = 0xcbf29ce484222325u;
    if (!folder || !*folder) return false;
    ocl.GetDeviceInfo(device, CL_DRIVER_VERSION, sizeof driver - 1, driver, NULL);
    ocl.GetDeviceInfo(device, CL_DEVICE_NAME, sizeof name - 1, name, NULL);
    for (int k = 0; k < 4; k++)
        for (const char *at = parts[k]; *at; at++) hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    return snprintf(path, 4096, "%s/%016llx", folder, (unsigned long long)hash) < 4000;
}

static cl build_binary(const unsigned char *binary, size_t n)
{
    int status, error;
    cl program = ocl.CreateProgramWithBinary(context, 1, &device, &n, &binary, &status, &error);
    if (!program || !ocl.BuildProgram(program, 1, &device, build_options, NULL, NULL)) return program;
    ocl.ReleaseProgram(program);
    return NULL;
}

/* Load what an earlier process compiled; false: none did. */
static bool stored(const char *path, struct compiled *c)
{
    FILE *f = fopen(path, "re");
    if (!f) return false;
    fseek(f, 0, SEEK_END);
    const size_t bytes = (size_t)ftell(f), of_text = strlen(c->text) + 1;
    char *all = calloc(bytes + 1, 1);
    rewind(f);
    const bool same = fread(all, 1, bytes, f) == bytes && bytes > of_text && !memcmp(all, c->text, of_text);
    fclose(f);
    const size_t before = same ? of_text + strlen(all + of_text) + 1 : bytes;
    if (before < bytes) c->program = build_binary((unsigned char *)all + before, bytes - before);
    if (c->program) c->signatures = strdup(all + of_text);
    free(all);
    return c->program != NULL;
}

/* A failure to write it is no error: the next process compiles it again. */
static void store(const char *path, const struct compiled *c)
{
    char part[4200];
    size_t n = 0, of_text = strlen(c->text) + 1, of_signatures = strlen(c->signatures) + 1;
    if (ocl.GetProgramInfo(c->program, CL_PROGRAM_BINARY_SIZES, sizeof n, &n, NULL) || !n) return;
    unsigned char *binary = malloc(n);
    snprintf(part, sizeof part, "%s.%d", path, (int)getpid());
    FILE *f =
        ocl.GetProgramInfo(c->program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) ? NULL : fopen(part, "we");
    if (f) {
        bool whole = fwrite(c->text, 1, of_text, f) == of_text;
        whole = fwrite(c->signatures, 1, of_signatures, f) == of_signatures && whole;
        whole = fwrite(binary, 1, n, f) == n && whole;
        whole = !fclose(f) && whole;
        if (!whole || rename(part, path)) unlink(part);
    }
    free(binary);
}

static int compile_source(struct compiled *c)
{
    int error;
    const char *text = c->text;
    cl program = ocl.CreateProgramWithSource(context, 1, &text, NULL, &error);
    if (error) return UNKNOWN;
    if (ocl.BuildProgram(program, 1, &device, build_options, NULL, NULL)) {
        static char log[4000];
        ocl.GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
        fprintf(stderr, "double: a kernel does not compile\n%s\n", log);
        ocl.ReleaseProgram(program);
        return NO_BINARY;
    }
    c->program = program;
    c->signatures = describe(program);
    return 0;
}

static int compile(const char *text, struct compiled **out)
{
    char path[4096];
    for (struct compiled *c = compiled; c; c = c->next)
        if (!strcmp(c->text, text)) return *out = c, 0;
    struct compiled *c = calloc(1, sizeof *c);
    c->text = strdup(text);
    const bool has_file = file_of(text, path);
    if (!has_file || !stored(path, c)) {
        int error = compile_source(c);
        if (error) return free(c->text), free(c), error;
        if (has_file) store(path, c);
    }
    c->next = compiled;
    compiled = *out = c;
    return 0;
}

EXPORT int cuModuleLoadData(struct module **out, const void *image)
{
    int error;
    const char *text = image;
    CALL("cuModuleLoadData", NO_BINARY);
    if (strncmp(text, "/* image of a double */", 23)) return NO_BINARY;
    struct compiled *c = NULL;
    error = compile(text, &c);
    if (error) return error;
    *out = calloc(1, sizeof **out);
    (*out)->program = c->program;
    (*out)->signatures = c->signatures;
    left.modules++;
    return 0;
}

EXPORT int cuModuleUnload(struct module *m)
{
    int failed = double_call("cuModuleUnload", INVALID);
    if (failed) return failed;
    for (struct function *f = m->functions, *next; f; f = next) {
        next = f->next;
        ocl.ReleaseKernel(f->kernel);
        free(f->name);
        free(f);
    }
    free(m);
    left.modules--;
    return 0;
}

/* Take the arguments of f from the lines of its program; false: too many, or of unknown types. */
static bool take_arguments(struct function *f, const char *line)
{
    const size_t n = strlen(f->name);
    while (*line && !(!strncmp(line, f->name, n) && line[n] == ' ')) line += strcspn(line, "\n") + 1;
    if (!*line) return false;
    for (line += n + 1; *line != '\n'; line += 2, f->n++) {
        if (f->n == MAX_ARGS || line[1] == '0') return false;
        f->arg[f->n].local = line[0] == 'l';
        f->arg[f->n].pointer = line[0] == 'p';
        f->arg[f->n].bytes = (size_t)(line[1] - '0');
    }
    return true;
}

EXPORT int cuModuleGetFunction(struct function **out, struct module *m, const char *name)
{
    int error;
    CALL("cuModuleGetFunction", NOT_FOUND);
    struct function *f = calloc(1, sizeof *f);
    f->kernel = ocl.CreateKernel(m->program, name, &error);
    f->name = strdup(name);
    f->next = m->functions;
    m->functions = f;
    if (error) m->functions = f->next, free(f->name), free(f);
    if (error) return NOT_FOUND;
    if (!take_arguments(f, m->signatures)) return INVALID;
    *out = f;
    return 0;
}

EXPORT int cuFuncGetAttribute(int *value, int attribute, struct function *f)
{
    (void)attribute, (void)f;
    CALL("cuFuncGetAttribute", INVALID);
    *value = 0;
    return 0;
}

EXPORT int cuLaunchKernel(struct function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz, unsigned shared, struct stream *s, void **args, void **extra)
{
    CALL("cuLaunchKernel", INVALID);
    if (extra || !gx || !gy || !gz || gy > 65535 || gz > 65535 || bx * by * bz > 1024) return INVALID;
    struct op o = {.kind = KERNEL, .f = f, .grid = {gx, gy, gz}, .group = {bx, by, bz}, .shared = shared};
    o.args = calloc((size_t)f->n + 1, sizeof *o.args);
    for (int k = 0, given = 0; k < f->n; k++)
        if (!f->arg[k].local) memcpy(o.args[k], args[given++], f->arg[k].bytes);
    return put(s, o);
}

/* --- graphs --- */

EXPORT int cuStreamBeginCapture_v2(struct stream *s, int mode)
{
    (void)mode;
    CALL("cuStreamBeginCapture_v2", INVALID);
    if (s->capture) return INVALID;
    s->capture = calloc(1, sizeof *s->capture);
    s->capture->owners = 1;
    s->began = true;
    (void)lane_of(s);
    return 0;
}

EXPORT int cuStreamEndCapture(struct stream *s, struct graph **out)
{
    struct graph *g = s->capture;
    *out = NULL;
    if (!g || !s->began) return INVALID;
    for (struct stream *t = streams; t; t = t->next)
        if (t->capture == g) t->capture = NULL, t->began = false;
    int failed = double_call("cuStreamEndCapture", INVALID);
    for (int l = 1; l < g->n_lanes && !failed; l++) { /* the work of other streams must have been waited for */
        const struct op *last = &g->lanes[l].ops[g->lanes[l].n - 1];
        if (last->kind != RECORD) failed = CAPTURE_UNJOINED;
    }
    if (failed) graph_release(g);
    if (failed) return failed;
    for (struct mark *m = marks; m; m = m->next) /* lanes do not move from now on */
        for (int l = 0; l < g->n_lanes; l++)
            for (int k = 0; k < g->lanes[l].n; k++)
                if (g->lanes[l].ops[k].kind == RECORD && g->lanes[l].ops[k].mark == m) m->lane = &g->lanes[l];
    *out = g;
    left.graphs++;
    return 0;
}

EXPORT int cuGraphInstantiateWithFlags(struct graph **run, struct graph *g, uint64_t flags)
{
    (void)flags;
    CALL("cuGraphInstantiateWithFlags", OUT_OF_MEMORY);
    g->owners++;
    *run = g;
    left.runs++;
    return 0;
}

EXPORT int cuGraphDestroy(struct graph *g)
{
    int failed = double_call("cuGraphDestroy", INVALID);
    if (failed) return failed;
    graph_release(g);
    left.graphs--;
    return 0;
}

EXPORT int cuGraphLaunch(struct graph *g, struct stream *s)
{
    CALL("cuGraphLaunch", INVALID);
    g->owners++;
    return put(s, (struct op){.kind = GRAPH, .graph = g});
}

EXPORT int cuGraphExecDestroy(struct graph *g)
{
    int failed = double_call("cuGraphExecDestroy", INVALID);
    if (failed) return failed;
    graph_release(g);
    left.runs--;
    return 0;
}

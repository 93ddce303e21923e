/* nccl.c - a double of NVIDIA's NCCL, for tests: the calls that levin makes, between processes of one host. It is never
 * installed.
 *
 * The ranks share a file in memory, which the id names. A call on a stream becomes a host function there
 * (cuLaunchHostFunc of the double of the driver), so it runs in the stream's order, late, within graphs, as often as
 * these are launched. Ranks meet at every chunk of every collective, compare their calls, and add in the order of their
 * numbers. A rank that waits for a lost rank waits until its communicator is aborted. NCCL connects an algorithm,
 * which it chooses by kind and size of a collective, when it is first used: that takes memory of the device, and may
 * not happen within a capture, where a network plug-in would allocate. Destroying or aborting a communicator waits
 * until the last graph that was captured with it is gone, as NCCL does (commDestroySync() in its init.cc).
 *
 *   LEVIN_DOUBLE_NCCL                      the version it reports (22703)
 *   LEVIN_DOUBLE_NCCL_MEMORY               bytes of device memory that a communicator takes and keeps (0), a
 *                                          third at the first use of each kind of collective
 *   LEVIN_DOUBLE_DIE=RANK:COUNT[:SIGNAL]   that rank gets the signal (9) in its COUNT-th collective; 0: when it joins
 *   LEVIN_DOUBLE_JOIN=RANK:refused|late    that rank is refused when it joins, or waits there for ever
 *   LEVIN_DOUBLE_FAIL, _REPORT             see double.h; ncclCommGetAsyncError reports the error, and itself succeeds
 *
 * Several communicators: those of a rank must use one stream, because their ranks would meet in different orders in
 * several; another stream is refused. Not supported: other operations than sums. */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "double.h"

enum { CUDA_ERROR = 1, SYSTEM_ERROR = 2, INTERNAL_ERROR = 3, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };
enum { UINT8 = 1, INT32 = 2, INT64 = 4, FLOAT32 = 7, FLOAT64 = 8, BFLOAT16 = 9 };
enum { ALL_REDUCE, REDUCE, BROADCAST, KINDS };
enum { MAX_RANKS = 8, PIECE = 1 << 16 /* bytes */ };
#define EXPORT __attribute__((visibility("default"), noinline))
#define CALL(name, code)                                                                                               \
    int failed_ = double_call(name, code);                                                                             \
    if (failed_) return failed_

struct id {
    char path[128];
};

/* The next call of a rank; all ranks must make the same one. */
struct task {
    int kind, type, root;
    size_t count;
};

struct capacity {
    atomic_int joined, arrived, round;
    struct task task[MAX_RANKS];
    char piece[MAX_RANKS][PIECE];
};

struct comm {
    struct capacity *capacity;
    int rank, size;
    long done;
    atomic_int aborted, wrong, graphs; /* graphs: captured with it */
    bool connected[KINDS][64];         /* for counts with this number of bits */
    bool taken[KINDS];                 /* its memory is allocated */
    struct work *works;
};

struct work {
    struct comm *comm;
    struct task task;
    char *x;
    struct work *next; /* of the communicator's: a graph may run it again */
};

static int (*launch)(void *stream, void (*f)(void *), void *data);
static bool (*held)(void *stream, atomic_int *graphs);
static bool (*captured)(void *stream);
static bool (*take)(size_t bytes);
static int depth;
static long comms;
static void *line; /* the stream of all communicators */

__attribute__((destructor)) static void report(void)
{
    FILE *f = double_report();
    if (!f) return;
    fprintf(f, "left comms %ld\n", comms);
    fclose(f);
}

/* --- meeting of ranks --- */

/* False: it was aborted. */
static bool meet(struct comm *c)
{
    struct capacity *r = c->capacity;
    int round = atomic_load(&r->round);
    if (atomic_fetch_add(&r->arrived, 1) + 1 == c->size) {
        atomic_store(&r->arrived, 0);
        atomic_fetch_add(&r->round, 1);
        return true;
    }
    while (atomic_load(&r->round) == round) {
        if (atomic_load(&c->aborted)) return false;
        usleep(50);
    }
    return true;
}

static size_t bytes_of(int type)
{
    return type == UINT8 ? 1 : type == BFLOAT16 ? 2 : type == INT32 || type == FLOAT32 ? 4 : 8;
}

static float from_bf16(uint16_t x)
{
    uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint16_t to_bf16(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static void add(char *x, const char *y, size_t n, int type)
{
    for (size_t i = 0; i < n; i++) {
        if (type == FLOAT32) ((float *)x)[i] += ((const float *)y)[i];
        if (type == FLOAT64) ((double *)x)[i] += ((const double *)y)[i];
        if (type == INT32) ((int32_t *)x)[i] += ((const int32_t *)y)[i];
        if (type == INT64) ((int64_t *)x)[i] += ((const int64_t *)y)[i];
        if (type == BFLOAT16)
            ((uint16_t *)x)[i] = to_bf16(from_bf16(((uint16_t *)x)[i]) + from_bf16(((const uint16_t *)y)[i]));
    }
}

static bool all_alike(const struct comm *c)
{
    const struct task *first = &c->capacity->task[0];
    for (const struct task *t = first + 1; t < first + c->size; t++)
        if (t->kind != first->kind || t->type != first->type || t->root != first->root || t->count != first->count)
            return false;
    return true;
}

static bool do_piece(struct comm *c, const struct task *t, char *x, size_t n)
{
    struct capacity *r = c->capacity;
    const size_t bytes = n * bytes_of(t->type);
    if (t->kind != BROADCAST || c->rank == t->root) memcpy(r->piece[c->rank], x, bytes);
    if (!meet(c)) return false;
    if (t->kind == BROADCAST) {
        memcpy(x, r->piece[t->root], bytes);
    } else if (t->kind == ALL_REDUCE || c->rank == t->root) {
        memcpy(x, r->piece[0], bytes);
        for (int i = 1; i < c->size; i++) add(x, r->piece[i], n, t->type);
    }
    return meet(c);
}

static void die_if_asked(struct comm *c)
{
    const char *text = getenv("LEVIN_DOUBLE_DIE");
    char *rest;
    if (!text || strtol(text, &rest, 10) != c->rank || *rest != ':' || strtol(rest + 1, &rest, 10) != c->done) return;
    kill(getpid(), *rest == ':' ? (int)strtol(rest + 1, NULL, 10) : SIGKILL);
}

/* Whether this rank is refused; it does not return if it is late. */
static bool refused(const struct comm *c)
{
    const char *text = getenv("LEVIN_DOUBLE_JOIN");
    char *rest;
    if (!text || strtol(text, &rest, 10) != c->rank) return false;
    while (!strcmp(rest, ":late")) sleep(1);
    return !strcmp(rest, ":refused");
}

static void run(void *data)
{
    struct work *w = data;
    struct comm *c = w->comm;
    c->done++;
    const size_t max = PIECE / bytes_of(w->task.type);
    die_if_asked(c);
    c->capacity->task[c->rank] = w->task;
    if (!meet(c)) return;
    if (!all_alike(c)) {
        fprintf(stderr, "double: rank %d does what the others do not\n", c->rank);
        atomic_store(&c->wrong, INVALID_USAGE);
    }
    if (!meet(c) || atomic_load(&c->wrong)) return;
    for (size_t at = 0; at < w->task.count; at += max) {
        size_t n = w->task.count - at < max ? w->task.count - at : max;
        if (!do_piece(c, &w->task, w->x + at * bytes_of(w->task.type), n)) return;
    }
}

static int connect_algorithm(struct comm *c, const struct task *t, bool is_captured)
{
    int bits = 0;
    while (t->count >> bits > 1) bits++;
    if (is_captured && !c->connected[t->kind][bits]) {
        fprintf(stderr, "double: rank %d connects an algorithm within a capture\n", c->rank);
        return INTERNAL_ERROR;
    }
    if (!c->taken[t->kind] && !take((size_t)double_number("LEVIN_DOUBLE_NCCL_MEMORY", 0) / KINDS)) return CUDA_ERROR;
    c->connected[t->kind][bits] = c->taken[t->kind] = true;
    return 0;
}

static int ask(struct comm *c, struct task t, const void *from, void *to, int op, void *stream)
{
    bool known = (t.type == UINT8 && t.kind == BROADCAST) || t.type == INT32 || t.type == INT64 ||
                 (t.type >= FLOAT32 && t.type <= BFLOAT16);
    if (!c || !known || op != 0 || from != to || t.root >= c->size) return INVALID_ARGUMENT;
    if (!line) line = stream;
    if (stream != line) {
        fprintf(stderr, "double: rank %d uses two streams for its communicators\n", c->rank);
        return INVALID_USAGE;
    }
    int failed = connect_algorithm(c, &t, captured(stream));
    if (failed) return failed;
    struct work *w = calloc(1, sizeof *w);
    *w = (struct work){.comm = c, .task = t, .x = to, .next = c->works};
    c->works = w;
    return !held(stream, &c->graphs) || launch(stream, run, w) ? CUDA_ERROR : 0;
}

/* --- the calls --- */

EXPORT int ncclGetVersion(int *version)
{
    *version = (int)double_number("LEVIN_DOUBLE_NCCL", 22703);
    return 0;
}

EXPORT const char *ncclGetErrorString(int error)
{
    return error == 6 ? "remote process exited or there was a network error" : "an error of a double";
}

EXPORT const char *ncclGetLastError(struct comm *c)
{
    (void)c;
    return "said by a double";
}

EXPORT int ncclGetUniqueId(struct id *id)
{
    static int made;
    CALL("ncclGetUniqueId", SYSTEM_ERROR);
    memset(id, 0, sizeof *id);
    snprintf(id->path, sizeof id->path, "/dev/shm/levin-double-nccl.%d.%d", (int)getpid(), made++);
    int file = open(id->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct capacity))) return SYSTEM_ERROR;
    close(file);
    return 0;
}

EXPORT int ncclCommInitRank(struct comm **out, int size, struct id id, int rank)
{
    int failed = double_call("ncclCommInitRank", INVALID_USAGE);
    if (failed) (void)unlink(id.path);
    if (failed) return failed;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *function;
    if (!driver || !(function = dlsym(driver, "cuLaunchHostFunc"))) return CUDA_ERROR;
    memcpy(&launch, &function, sizeof function);
    if (!(function = dlsym(driver, "doubleHeld"))) return CUDA_ERROR;
    memcpy(&held, &function, sizeof function);
    if (!(function = dlsym(driver, "doubleCaptured"))) return CUDA_ERROR;
    memcpy(&captured, &function, sizeof function);
    if (!(function = dlsym(driver, "doubleTake"))) return CUDA_ERROR;
    memcpy(&take, &function, sizeof function);
    int file = open(id.path, O_RDWR | O_CLOEXEC);
    if (file < 0 || size > MAX_RANKS || rank >= size) return SYSTEM_ERROR;
    struct comm *c = *out = calloc(1, sizeof *c);
    *c = (struct comm){.rank = rank, .size = size};
    c->capacity = mmap(NULL, sizeof *c->capacity, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    die_if_asked(c);
    if (refused(c)) return INVALID_USAGE;
    atomic_fetch_add(&c->capacity->joined, 1);
    while (atomic_load(&c->capacity->joined) < size) usleep(50);
    (void)unlink(id.path);
    comms++;
    return 0;
}

static void wait_for_graphs(const struct comm *c)
{
    while (atomic_load(&c->graphs) > 0) usleep(1000);
}

static void release(struct comm *c)
{
    for (struct work *w = c->works, *next; w; w = next) {
        next = w->next;
        free(w);
    }
    munmap(c->capacity, sizeof *c->capacity);
    free(c);
    if (--comms == 0) line = NULL;
}

EXPORT int ncclCommDestroy(struct comm *c)
{
    CALL("ncclCommDestroy", INTERNAL_ERROR);
    wait_for_graphs(c);
    release(c);
    return 0;
}

/* Running work sees the abort; the memory that it needs is kept until the process ends, which is soon. */
EXPORT int ncclCommAbort(struct comm *c)
{
    CALL("ncclCommAbort", INTERNAL_ERROR);
    atomic_store(&c->aborted, 1);
    comms--;
    const char *path = getenv("LEVIN_DOUBLE_REPORT");
    FILE *f = path && *path ? fopen(path, "ae") : NULL; /* the process may end without further calls */
    if (f) fprintf(f, "aborted rank %d\n", c->rank);
    if (f) fclose(f);
    wait_for_graphs(c);
    return 0;
}

EXPORT int ncclCommGetAsyncError(struct comm *c, int *error)
{
    *error = double_call("ncclCommGetAsyncError", 6);
    if (!*error) *error = atomic_load(&c->wrong);
    return 0;
}

EXPORT int ncclGroupStart(void)
{
    CALL("ncclGroupStart", INTERNAL_ERROR);
    depth++;
    return 0;
}

EXPORT int ncclGroupEnd(void)
{
    CALL("ncclGroupEnd", INTERNAL_ERROR);
    return --depth < 0 ? INVALID_USAGE : 0;
}

EXPORT int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, struct comm *c, void *stream)
{
    CALL("ncclAllReduce", INTERNAL_ERROR);
    return ask(c, (struct task){.kind = ALL_REDUCE, .type = type, .count = n}, from, to, op, stream);
}

EXPORT int ncclReduce(const void *from, void *to, size_t n, int type, int op, int root, struct comm *c, void *stream)
{
    CALL("ncclReduce", INTERNAL_ERROR);
    return ask(c, (struct task){.kind = REDUCE, .type = type, .root = root, .count = n}, from, to, op, stream);
}

EXPORT int ncclBroadcast(const void *from, void *to, size_t n, int type, int root, struct comm *c, void *stream)
{
    CALL("ncclBroadcast", INTERNAL_ERROR);
    return ask(c, (struct task){.kind = BROADCAST, .type = type, .root = root, .count = n}, from, to, 0, stream);
}

/* For tests in the same process: calls are counted from zero. */
EXPORT void doubleBegin(void)
{
    double_begin();
}

EXPORT long doubleLeft(void)
{
    return comms;
}

EXPORT long doubleCalls(const char *name)
{
    return double_calls(name);
}

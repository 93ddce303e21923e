/* nccl.c - collectives in the memory of CUDA devices by NCCL, opened at run time: reductions of gradients and gathers
 * of parameters from device to device. All it knows about CUDA is that NCCL uses addresses and streams. They come from
 * the backend's queues (backend/backend.h, struct lvn_queue_ops), which also keep the order of operations, even in a
 * captured graph. Shards, whose lengths may differ, are one reduction or broadcast per rank, in an NCCL group that
 * becomes one launch.
 *
 * While the CPU waits for the device it polls NCCL's asynchronous errors. After an error, or when a rank is lost,
 * the communicator is aborted: pending collectives end, their results are invalid, and later calls fail.
 *
 * Source: NCCL's user guide and header (docs.nvidia.com/deeplearning/nccl, github.com/NVIDIA/nccl): names, enums and
 * order of arguments are those of 2.13 and later; NCCL works within graphs since 2.9. */
#include <pthread.h>
#include <time.h>

#include "backend/backend.h"
#include "base/arena.h"
#include "base/text.h"
#include "base/threads.h"
#include "comm/comm_kind.h"
#include "comm/comm_private.h"
#include "host/library.h"

extern const struct lvn_comm_kind lvn_comm_kind_nccl;

struct nccl_handle;
struct nccl_id { /* passed by value */
    char bytes[LVN_COMM_ID];
};
enum { MAX_TEST_BYTES = 64 << 20 };
enum { NCCL_REMOTE_ERROR = 6, NCCL_IN_PROGRESS = 7 };
enum { NCCL_SUM = 0, NCCL_MAX = 2, NCCL_MIN = 3 };
enum { NCCL_UINT8 = 1, NCCL_INT32 = 2, NCCL_INT64 = 4, NCCL_FLOAT32 = 7, NCCL_FLOAT64 = 8, NCCL_BFLOAT16 = 9 };

#define NCCL_FUNCTIONS(F)                                                                                              \
    F(int, version, (int *version), "ncclGetVersion")                                                                  \
    F(const char *, error_text, (int error), "ncclGetErrorString")                                                     \
    F(const char *, last_error, (struct nccl_handle * c), "ncclGetLastError")                                          \
    F(int, make_id, (struct nccl_id * id), "ncclGetUniqueId")                                                          \
    F(int, join, (struct nccl_handle * *c, int size, struct nccl_id id, int rank), "ncclCommInitRank")                 \
    F(int, destroy, (struct nccl_handle * c), "ncclCommDestroy")                                                       \
    F(int, abort, (struct nccl_handle * c), "ncclCommAbort")                                                           \
    F(int, error, (struct nccl_handle * c, int *error), "ncclCommGetAsyncError")                                       \
    F(int, group_begin, (void), "ncclGroupStart")                                                                      \
    F(int, group_end, (void), "ncclGroupEnd")                                                                          \
    F(int, all_reduce,                                                                                                 \
      (const void *from, void *to, size_t count, int type, int op, struct nccl_handle *c, void *stream),               \
      "ncclAllReduce")                                                                                                 \
    F(int, reduce,                                                                                                     \
      (const void *from, void *to, size_t count, int type, int op, int root, struct nccl_handle *c, void *stream),     \
      "ncclReduce")                                                                                                    \
    F(int, broadcast,                                                                                                  \
      (const void *from, void *to, size_t count, int type, int root, struct nccl_handle *c, void *stream),             \
      "ncclBroadcast")

static struct nccl {
    NCCL_FUNCTIONS(LVN_LIBRARY_POINTER)
} nccl;

static const char *version(void)
{
    static char text[32];
    int v = 0;
    if (nccl.version(&v)) v = 0;
    snprintf(text, sizeof text, "NCCL %d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    return text;
}

static struct lvn_library library = {.name = "libnccl",
                                     .files = {"libnccl.so.2"},
                                     .use = "transferring tensors from GPU to GPU",
                                     .hint =
                                         "install NCCL 2.13 or later and add its folder to LD_LIBRARY_PATH, or set "
                                         "trainer.nccl_library to its file; without it tensors go through host memory",
                                     .symbols = (const char *const[]){NCCL_FUNCTIONS(LVN_LIBRARY_SYMBOL) NULL},
                                     .functions = &nccl,
                                     .version = version};

/* A communicator between the devices of the ranks, with its own queue. */
struct nccl_comm {
    struct lvn_comm base;
    struct lvn_device *device;
    const struct lvn_queue_ops *queues;
    struct lvn_device_queue *queue;
    struct lvn_comm *host_comm;       /* in host memory, between the same ranks */
    struct lvn_comm *owned_host_comm; /* of a group: equal to `host_comm`; NULL: the caller closes `host_comm` */
    struct nccl_handle *handle;       /* NULL: aborted, or not joined yet */
    double timeout;                   /* seconds for joining */
    pthread_mutex_t lock;             /* guards handle: another thread may abort it */
    char where[160];                  /* this rank among those of the run: "rank 1 on node2" */
};

/* --- errors --- */

static enum lvn_status status_of(const struct nccl_comm *gpu_comm, int code, const char *action)
{
    if (code == 0 || code == NCCL_IN_PROGRESS) return LVN_OK;
    const char *detail = nccl.last_error(NULL);
    const enum lvn_status status =
        lvn_fail(LVN_COMM, "%s: %s on %s: NCCL returned %s (%d)%s%s", gpu_comm->where, action, gpu_comm->device->title,
                 nccl.error_text(code), code, detail && *detail ? ": " : "", detail && *detail ? detail : "");
    return code == NCCL_REMOTE_ERROR ? lvn_comm_follows(status) : status;
}

static void abort_handle(void *handle)
{
    (void)nccl.abort(handle);
}

/* The caller holds the lock. Pending collectives end immediately, but ncclCommAbort() returns only after the last graph
 * captured with the communicator is destroyed, which is later. So another thread calls it, and this one waits 0.5 s. */
static void abort_locked(struct nccl_comm *gpu_comm)
{
    const double timeout = 0.5;
    struct nccl_handle *handle = gpu_comm->handle;
    gpu_comm->handle = NULL;
    if (handle) (void)lvn_thread_with_timeout(timeout, abort_handle, handle);
}

static void cancel(struct lvn_comm *comm)
{
    struct nccl_comm *gpu_comm = (struct nccl_comm *)comm;
    if (gpu_comm->queues->use(gpu_comm->device) != LVN_OK)
        lvn_error_clear(); /* the device is lost: abort nevertheless */
    pthread_mutex_lock(&gpu_comm->lock);
    abort_locked(gpu_comm);
    pthread_mutex_unlock(&gpu_comm->lock);
}

/* Check for an asynchronous error of NCCL, or an abort by another thread. The thread that aborted is about to terminate
 * this process with its own message; this one waits 3 s for that. */
static enum lvn_status check_errors(void *comm)
{
    struct nccl_comm *gpu_comm = comm;
    const struct timespec grace = {.tv_sec = 3};
    int error = 0, failed = 0;
    pthread_mutex_lock(&gpu_comm->lock);
    bool gone = !gpu_comm->handle;
    if (!gone) failed = nccl.error(gpu_comm->handle, &error);
    enum lvn_status status = gone ? LVN_COMM : status_of(gpu_comm, failed ? failed : error, "a collective");
    if (!gone && status != LVN_OK) abort_locked(gpu_comm);
    pthread_mutex_unlock(&gpu_comm->lock);
    if (!gone) return status;
    nanosleep(&grace, NULL);
    LVN_FAIL(COMM, "%s: a collective on %s was aborted because another rank is lost", gpu_comm->where,
             gpu_comm->device->title);
}

/* --- collectives --- */

/* fp16 is missing: a sum over ranks would overflow its range. 0: not supported. */
static const int types[LVN_DTYPE_COUNT] = {
    [LVN_F32] = NCCL_FLOAT32, [LVN_BF16] = NCCL_BFLOAT16, [LVN_F64] = NCCL_FLOAT64,
    [LVN_I32] = NCCL_INT32,   [LVN_I64] = NCCL_INT64,     [LVN_U8] = NCCL_UINT8};

/* Reduce each rank's part to that rank, or broadcast it from there. */
static int exchange_parts(struct nccl_comm *gpu_comm, const struct lvn_request *request, int type)
{
    const int64_t bytes = lvn_dtype_bytes((enum lvn_dtype)request->type);
    void *stream = gpu_comm->queue->native;
    int failed = nccl.group_begin();
    for (int i = 0; i < gpu_comm->base.size && !failed; i++) {
        const size_t n = (size_t)(request->first[i + 1] - request->first[i]);
        void *p = (char *)request->x + request->first[i] * bytes;
        if (n == 0) continue;
        failed = request->kind == LVN_REQUEST_REDUCE_SCATTER
                     ? nccl.reduce(p, p, n, type, NCCL_SUM, i, gpu_comm->handle, stream)
                     : nccl.broadcast(p, p, n, type, i, gpu_comm->handle, stream);
    }
    const int ended = nccl.group_end();
    return failed ? failed : ended;
}

static int exchange(struct nccl_comm *gpu_comm, const struct lvn_request *request)
{
    static const int op[] = {[LVN_SUM] = NCCL_SUM, [LVN_MIN] = NCCL_MIN, [LVN_MAX] = NCCL_MAX};
    const int type = types[request->type];
    void *stream = gpu_comm->queue->native;
    if (request->kind == LVN_REQUEST_ALL_REDUCE)
        return nccl.all_reduce(request->x, request->x, (size_t)request->count, type, op[request->op], gpu_comm->handle,
                               stream);
    if (request->kind == LVN_REQUEST_BROADCAST)
        return nccl.broadcast(request->x, request->x, (size_t)request->count, type, request->peer, gpu_comm->handle,
                              stream);
    return exchange_parts(gpu_comm, request, type);
}

/* NULL: not supported. */
static const char *const request_names[] = {[LVN_REQUEST_ALL_REDUCE] = "all-reduce",
                                            [LVN_REQUEST_REDUCE_SCATTER] = "reduce-scatter",
                                            [LVN_REQUEST_ALL_GATHER] = "all-gather",
                                            [LVN_REQUEST_BROADCAST] = "broadcast",
                                            [LVN_REQUEST_CALL] = NULL};

static enum lvn_status start(struct nccl_comm *gpu_comm, struct lvn_request *request)
{
    char action[60];
    LVN_CHECK(request_names[request->kind], UNSUPPORTED,
              "%s: NCCL cannot serve this request: it has no fixed order of additions, and messages go through host "
              "memory",
              gpu_comm->where);
    LVN_CHECK(types[request->type], UNSUPPORTED, "%s: levin does not transfer %s with NCCL", gpu_comm->where,
              lvn_dtype_name((enum lvn_dtype)request->type));
    LVN_TRY(gpu_comm->queues->begin(gpu_comm->queue));
    pthread_mutex_lock(&gpu_comm->lock);
    int code = gpu_comm->handle ? exchange(gpu_comm, request) : NCCL_REMOTE_ERROR;
    pthread_mutex_unlock(&gpu_comm->lock);
    snprintf(action, sizeof action, "%s %lld", request_names[request->kind], (long long)request->number);
    LVN_TRY(status_of(gpu_comm, code, action));
    return gpu_comm->queues->mark(gpu_comm->queue, &request->mark);
}

static void record(struct nccl_comm *gpu_comm, struct lvn_request *request, enum lvn_status status)
{
    request->status = status;
    if (status != LVN_OK) snprintf(gpu_comm->base.text, sizeof gpu_comm->base.text, "%s", levin_error_text());
}

static void submit(struct lvn_comm *comm, struct lvn_request *request)
{
    struct nccl_comm *gpu_comm = (struct nccl_comm *)comm;
    record(gpu_comm, request, start(gpu_comm, request));
}

/* Work that is launched later waits for the collective; the CPU does not. */
static void wait(struct lvn_comm *comm, struct lvn_request *request, const struct timespec *until)
{
    struct nccl_comm *gpu_comm = (struct nccl_comm *)comm;
    (void)until;
    if (request->status == LVN_OK) record(gpu_comm, request, gpu_comm->queues->end(gpu_comm->queue, request->mark));
    __atomic_store_n(&request->done, 1, __ATOMIC_RELEASE);
}

/* --- joining and leaving --- */

static enum lvn_status load(const char *path, char describe[400])
{
    static char file[4096];
    int v = 0;
    if (path && *path) {
        LVN_CHECK(lvn_fit(file, sizeof file, "%s", path), ARG, "trainer.nccl_library: %.60s... is too long", path);
        library.files[0] = file;
    }
    LVN_TRY(lvn_library_open(&library));
    LVN_CHECK(
        nccl.version(&v) == 0 && v / 10000 == 2, UNSUPPORTED,
        "%s has the version number %d; levin supports NCCL 2 from 2.13 on: set trainer.nccl_library to such a file",
        lvn_library_path(*(void **)&nccl), v);
    snprintf(describe, 400, "%s (%s)", version(), lvn_library_path(*(void **)&nccl));
    return LVN_OK;
}

static enum lvn_status make_id(char id[LVN_COMM_ID])
{
    struct nccl_id created;
    int code = nccl.make_id(&created);
    const char *detail = code ? nccl.last_error(NULL) : NULL;
    LVN_CHECK(code == 0, UNSUPPORTED,
              "creating an id for the ranks: NCCL returned %s (%d)%s%s; check NCCL_SOCKET_IFNAME",
              nccl.error_text(code), code, detail && *detail ? ": " : "", detail && *detail ? detail : "");
    memcpy(id, created.bytes, sizeof created.bytes);
    return LVN_OK;
}

static void close_comm(struct lvn_comm *comm)
{
    struct nccl_comm *gpu_comm = (struct nccl_comm *)comm;
    pthread_mutex_lock(&gpu_comm->lock);
    bool joined = gpu_comm->handle != NULL;
    pthread_mutex_unlock(&gpu_comm->lock);
    lvn_error_save();
    if (joined &&
        (gpu_comm->queues->use(gpu_comm->device) != LVN_OK || gpu_comm->queues->finish(gpu_comm->queue) != LVN_OK))
        cancel(comm); /* the device or a rank is lost: do not wait for the others */
    lvn_error_restore();
    if (gpu_comm->handle) (void)nccl.destroy(gpu_comm->handle);
    if (gpu_comm->queue) gpu_comm->queues->close(gpu_comm->queue);
    lvn_comm_close(gpu_comm->owned_host_comm);
    pthread_mutex_destroy(&gpu_comm->lock);
    free(gpu_comm);
}

static enum lvn_status put_one(struct lvn_memory *memory, int64_t i)
{
    const float one = 1;
    return lvn_memory_write(memory, i * (int64_t)sizeof one, &one, sizeof one);
}

static enum lvn_status expect(struct nccl_comm *gpu_comm, struct lvn_request *request, const struct lvn_memory *memory,
                              int64_t i, int expected)
{
    float x;
    LVN_TRY(lvn_comm_wait(&gpu_comm->base, request));
    LVN_TRY(gpu_comm->queues->finish(gpu_comm->queue));
    LVN_TRY(lvn_memory_read(memory, i * (int64_t)sizeof x, &x, sizeof x));
    LVN_CHECK(x == (float)expected, COMM,
              "%s: a test %s over %d ranks with NCCL gave %g instead of %d on %s; set trainer.transport, so that "
              "collectives go through host memory",
              gpu_comm->where, request_names[request->kind], gpu_comm->base.size, (double)x, expected,
              gpu_comm->device->title);
    return LVN_OK;
}

/* Check collectives of all kinds and sizes, whose results are known. NCCL allocates most of its memory when an
 * algorithm is first used (2.22 and later), and chooses one by kind and size. This memory must be allocated before a
 * run plans with the memory that is free. `first`: equal parts of `count` zeros in memory. */
static enum lvn_status self_test(struct nccl_comm *gpu_comm, struct lvn_memory *memory, int64_t count,
                                 const int64_t *first)
{
    const int size = gpu_comm->base.size, rank = gpu_comm->base.rank, next = (rank + 1) % size;
    void *x = gpu_comm->queues->address(memory, 0);
    struct lvn_request request;
    for (int64_t n = count; n > 0; n /= 64) {
        LVN_TRY(put_one(memory, n - 1));
        lvn_comm_all_reduce(&gpu_comm->base, &request, x, n, LVN_F32, LVN_SUM);
        LVN_TRY(expect(gpu_comm, &request, memory, n - 1, size));
    }
    LVN_TRY(put_one(memory, first[rank]));
    lvn_comm_all_gather(&gpu_comm->base, &request, x, first, LVN_F32);
    LVN_TRY(expect(gpu_comm, &request, memory, first[next], 1));
    lvn_comm_reduce_scatter(&gpu_comm->base, &request, x, first, LVN_F32);
    return expect(gpu_comm, &request, memory, first[rank], size);
}

/* A rank's join. If NCCL does not return in time, its thread continues to use this struct, which is then never freed.
 */
struct joining {
    struct nccl_comm *gpu_comm;
    struct lvn_memory *memory; /* for the self test */
    int32_t count;             /* of its floats, the same on all ranks */
    int64_t *first;            /* [size + 1] */
    struct nccl_id id;
    enum lvn_status status;
    bool consequence;
    char text[1024];
};

static enum lvn_status join_and_test(const struct joining *j)
{
    struct nccl_comm *gpu_comm = j->gpu_comm;
    LVN_TRY(gpu_comm->queues->use(gpu_comm->device));
    LVN_TRY(status_of(gpu_comm, nccl.join(&gpu_comm->handle, gpu_comm->base.size, j->id, gpu_comm->base.rank),
                      "joining the other ranks"));
    for (int i = 0; i <= gpu_comm->base.size; i++) j->first[i] = (int64_t)j->count * i / gpu_comm->base.size;
    return self_test(gpu_comm, j->memory, j->count, j->first);
}

static void run_join(void *argument)
{
    struct joining *j = argument;
    j->status = join_and_test(j);
    j->consequence = lvn_comm_is_consequence();
    snprintf(j->text, sizeof j->text, "%s", j->status == LVN_OK ? "" : levin_error_text());
}

/* Everything that can fail on one rank before the ranks meet in NCCL, where the others would wait for it. */
static enum lvn_status prepare(struct nccl_comm *gpu_comm, struct joining **out, const struct lvn_comm_options *o)
{
    struct joining *j = *out = lvn_calloc(1, sizeof *j);
    if (!j) return LVN_MEMORY;
    j->gpu_comm = gpu_comm;
    memcpy(j->id.bytes, o->id, sizeof j->id.bytes);
    j->first = lvn_calloc((size_t)gpu_comm->base.size + 1, sizeof *j->first);
    if (!j->first) return LVN_MEMORY;
    LVN_TRY(gpu_comm->queues->open(&gpu_comm->queue, gpu_comm->device, check_errors, gpu_comm));
    const int64_t bytes = gpu_comm->device->memory_bytes / 1024; /* little, and enough for algorithms of long vectors */
    j->count = (int32_t)(bytes > MAX_TEST_BYTES ? MAX_TEST_BYTES : bytes) / (int32_t)sizeof(float);
    if (j->count < gpu_comm->base.size) j->count = gpu_comm->base.size;
    return lvn_memory_new(&j->memory, gpu_comm->device, j->count * (int64_t)sizeof(float));
}

/* True: all ranks are ready, and j->count is the smallest count of all. False: this rank or another one is not ready,
 * and *status is the error. */
static bool all_ready(const struct nccl_comm *gpu_comm, struct joining *j, enum lvn_status *status)
{
    int32_t count = *status == LVN_OK ? j->count : 0;
    lvn_error_save();
    const enum lvn_status agreed = lvn_comm_all_reduce_now(gpu_comm->host_comm, &count, 1, LVN_I32, LVN_MIN);
    if (agreed == LVN_OK) lvn_error_restore();
    if (j) j->count = count;
    if (*status != LVN_OK || (agreed == LVN_OK && count)) return *status == LVN_OK;
    *status = agreed != LVN_OK
                  ? agreed
                  : lvn_comm_follows(lvn_fail(LVN_COMM, "%s: another rank could not prepare to join", gpu_comm->where));
    return false;
}

/* *late: NCCL has not returned, and gpu_comm must not be freed. */
static enum lvn_status join(struct nccl_comm *gpu_comm, const struct lvn_comm_options *o, bool *late)
{
    struct joining *j;
    enum lvn_status status = prepare(gpu_comm, &j, o);
    const bool ready = all_ready(gpu_comm, j, &status);
    *late = ready && o->timeout > 0 && !lvn_thread_with_timeout(o->timeout, run_join, j);
    if (ready && o->timeout <= 0) run_join(j);
    if (*late)
        return lvn_comm_follows(lvn_fail(
            LVN_COMM,
            "%s: %s has not joined the devices of the other ranks with %s within %g s; check that NCCL_SOCKET_IFNAME "
            "names an interface that connects all hosts, and NCCL's log (NCCL_DEBUG=INFO), raise "
            "trainer.start_timeout, or set trainer.transport, so that collectives go through host memory",
            gpu_comm->where, gpu_comm->device->title, version(), o->timeout));
    if (ready && j->status != LVN_OK) {
        status = lvn_fail(j->status, "%s", j->text);
        if (j->consequence) (void)lvn_comm_follows(status);
    }
    lvn_error_save();
    if (j) lvn_memory_free(j->memory);
    if (j) free(j->first);
    free(j);
    lvn_error_restore();
    return status;
}

static enum lvn_status split(struct lvn_comm *comm, struct lvn_comm **out, int color, int key);

static enum lvn_status open_comm(struct lvn_comm **out, const struct lvn_comm_options *o)
{
    static const struct lvn_comm_ops ops = {
        .submit = submit, .wait = wait, .split = split, .cancel = cancel, .close = close_comm};
    struct nccl_comm *gpu_comm = lvn_calloc(1, sizeof *gpu_comm);
    *out = NULL;
    if (!gpu_comm) return LVN_MEMORY;
    lvn_comm_init(&gpu_comm->base, &ops, o->rank, o->size);
    gpu_comm->base.device = gpu_comm->device = o->device;
    gpu_comm->queues = o->device->backend->queues;
    gpu_comm->host_comm = o->host_comm;
    gpu_comm->timeout = o->timeout;
    pthread_mutex_init(&gpu_comm->lock, NULL);
    snprintf(gpu_comm->base.describe, sizeof gpu_comm->base.describe, "%s", version());
    snprintf(gpu_comm->where, sizeof gpu_comm->where, "%s", o->where);
    bool late;
    enum lvn_status status = join(gpu_comm, o, &late);
    if (status == LVN_OK)
        *out = &gpu_comm->base;
    else if (!late)
        close_comm(&gpu_comm->base);
    return status;
}

/* A group has its own id, and uses a group of the communicator in host memory. Either all groups are created or none; a
 * rank without a group takes part in this agreement. */
static enum lvn_status split(struct lvn_comm *comm, struct lvn_comm **out, int color, int key)
{
    struct nccl_comm *gpu_comm = (struct nccl_comm *)comm;
    struct lvn_comm *host_comm;
    enum lvn_status status = lvn_comm_split(gpu_comm->host_comm, &host_comm, color, key);
    if (status != LVN_OK) return status;
    const struct lvn_comm_options o = {.rank = host_comm ? lvn_comm_rank(host_comm) : 0,
                                       .size = host_comm ? lvn_comm_size(host_comm) : 1,
                                       .kind = &lvn_comm_kind_nccl,
                                       .device = gpu_comm->device,
                                       .host_comm = host_comm,
                                       .timeout = gpu_comm->timeout,
                                       .where = gpu_comm->where};
    if (host_comm) status = lvn_comm_open(out, &o);
    if (*out) ((struct nccl_comm *)*out)->owned_host_comm = host_comm;
    int32_t created = status == LVN_OK;
    enum lvn_status agreed = lvn_comm_all_reduce_now(gpu_comm->host_comm, &created, 1, LVN_I32, LVN_MIN);
    if (agreed == LVN_OK && created) return LVN_OK;
    lvn_error_save();
    lvn_comm_close(*out ? *out : host_comm);
    lvn_error_restore();
    *out = NULL;
    if (status != LVN_OK || agreed != LVN_OK) return status != LVN_OK ? status : agreed;
    return lvn_comm_follows(
        lvn_fail(LVN_COMM, "%s: another rank could not create its group of devices", gpu_comm->where));
}

const struct lvn_comm_kind lvn_comm_kind_nccl = {.name = "nccl",
                                                 .description = "NVIDIA's NCCL, from device to device",
                                                 .connection = LVN_CONNECTED_BY_COMM,
                                                 .memory = "cuda",
                                                 .library = &library,
                                                 .open = open_comm,
                                                 .load = load,
                                                 .make_id = make_id};

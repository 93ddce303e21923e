/* nccl.c - collectives in the memory of CUDA devices by NCCL, opened at run time: sums and gathers of gradients from
 * device to device. It knows nothing of CUDA but that NCCL takes addresses and streams: those come from the backend's
 * queues (backend/backend.h, struct lvn_queue_ops), and with them the order of events, which a captured graph keeps.
 * Parts of unequal length (zero1) are one reduction or broadcast per rank, in an NCCL group that becomes one launch.
 *
 * While the processor waits for the device it polls NCCL's asynchronous errors. After one, or when a rank is lost,
 * the communicator is aborted: pending collectives end, their results are invalid, and no later call succeeds.
 *
 * Source: NCCL's user guide and header (docs.nvidia.com/deeplearning/nccl, github.com/NVIDIA/nccl): names, enums and
 * order of arguments are those of 2.13 and later; it works within graphs since 2.9. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
                                     .use = "exchanging tensors from GPU to GPU",
                                     .hint =
                                         "install NCCL 2.13 or later and put its folder into LD_LIBRARY_PATH, or its "
                                         "file into trainer.nccl_library; without it they go through host memory",
                                     .symbols = (const char *const[]){NCCL_FUNCTIONS(LVN_LIBRARY_SYMBOL) NULL},
                                     .functions = &nccl,
                                     .version = version};

/* A communicator over the devices of the ranks, with a queue of its own. */
struct nccl_comm {
    struct lvn_comm base;
    struct lvn_device *device;
    const struct lvn_queue_ops *queues;
    struct lvn_device_queue *queue;
    struct lvn_comm *over;      /* between the processors of the same ranks */
    struct lvn_comm *owned;     /* the same, of a group; NULL: the caller's */
    struct nccl_handle *handle; /* NULL: aborted, or not joined yet */
    pthread_mutex_t lock;       /* guards handle: another thread may abort it */
    const char *host;           /* of this rank */
    char where[160];            /* "rank 1 on node2" */
};

/* --- errors --- */

static enum lvn_status answer_of(const struct nccl_comm *c, int answer, const char *action)
{
    if (answer == 0 || answer == NCCL_IN_PROGRESS) return LVN_OK;
    const char *detail = nccl.last_error(NULL);
    LVN_FAIL(COMM, "%s: %s on %s: NCCL returned %s (%d)%s%s", c->where, action, c->device->title,
             nccl.error_text(answer), answer, detail && *detail ? ": " : "", detail && *detail ? detail : "");
}

static void abort_handle(void *handle)
{
    (void)nccl.abort(handle);
}

/* With the lock held. Pending collectives end at once, but ncclCommAbort() returns only after the last graph
 * captured with the communicator is destroyed, which is later: so it is called in a thread of its own. */
static void abort_locked(struct nccl_comm *c)
{
    const double patience = 0.5;
    struct nccl_handle *handle = c->handle;
    c->handle = NULL;
    if (handle) (void)lvn_thread_with_timeout(patience, abort_handle, handle);
}

static void cancel(struct lvn_comm *base)
{
    struct nccl_comm *c = (struct nccl_comm *)base;
    if (c->queues->use(c->device) != LVN_OK) lvn_error_clear(); /* the device is lost: NCCL is told nevertheless */
    pthread_mutex_lock(&c->lock);
    abort_locked(c);
    pthread_mutex_unlock(&c->lock);
}

/* Check for an asynchronous error of NCCL, or an abort by another thread. The thread that aborted is about to end
 * this process with its own message; this one waits 3 s for that. */
static enum lvn_status check_errors(void *comm)
{
    struct nccl_comm *c = comm;
    const struct timespec grace = {.tv_sec = 3};
    int error = 0, failed = 0;
    pthread_mutex_lock(&c->lock);
    bool gone = !c->handle;
    if (!gone) failed = nccl.error(c->handle, &error);
    enum lvn_status status = gone ? LVN_COMM : answer_of(c, failed ? failed : error, "exchanging numbers");
    if (!gone && status != LVN_OK) abort_locked(c);
    pthread_mutex_unlock(&c->lock);
    if (!gone) return status;
    nanosleep(&grace, NULL);
    LVN_FAIL(COMM, "%s: exchanging numbers on %s was aborted, because another rank is lost", c->where,
             c->device->title);
}

/* --- collectives --- */

/* Not fp16: a sum over ranks would overflow its range. 0: no such type. */
static const int types[LVN_DTYPE_COUNT] = {
    [LVN_F32] = NCCL_FLOAT32, [LVN_BF16] = NCCL_BFLOAT16, [LVN_F64] = NCCL_FLOAT64,
    [LVN_I32] = NCCL_INT32,   [LVN_I64] = NCCL_INT64,     [LVN_U8] = NCCL_UINT8};

/* Reduce each rank's part to that rank, or broadcast it from there. */
static int exchange_parts(struct nccl_comm *c, const struct lvn_request *r, int type)
{
    const int64_t bytes = lvn_dtype_bytes((enum lvn_dtype)r->type);
    void *stream = c->queue->native;
    int failed = nccl.group_begin();
    for (int i = 0; i < c->base.size && !failed; i++) {
        const size_t n = (size_t)(r->first[i + 1] - r->first[i]);
        void *p = (char *)r->x + r->first[i] * bytes;
        if (n == 0) continue;
        failed = r->kind == LVN_REQUEST_REDUCE_SCATTER ? nccl.reduce(p, p, n, type, NCCL_SUM, i, c->handle, stream)
                                                       : nccl.broadcast(p, p, n, type, i, c->handle, stream);
    }
    const int ended = nccl.group_end();
    return failed ? failed : ended;
}

static int exchange(struct nccl_comm *c, const struct lvn_request *r)
{
    static const int op[] = {[LVN_SUM] = NCCL_SUM, [LVN_MIN] = NCCL_MIN, [LVN_MAX] = NCCL_MAX};
    const int type = types[r->type];
    void *stream = c->queue->native;
    if (r->kind == LVN_REQUEST_ALL_REDUCE)
        return nccl.all_reduce(r->x, r->x, (size_t)r->count, type, op[r->op], c->handle, stream);
    if (r->kind == LVN_REQUEST_BROADCAST)
        return nccl.broadcast(r->x, r->x, (size_t)r->count, type, r->peer, c->handle, stream);
    return exchange_parts(c, r, type);
}

static enum lvn_status start(struct nccl_comm *c, const struct lvn_request *r)
{
    static const char *const names[] = {[LVN_REQUEST_ALL_REDUCE] = "all-reduce",
                                        [LVN_REQUEST_REDUCE_SCATTER] = "reduce-scatter",
                                        [LVN_REQUEST_ALL_GATHER] = "all-gather",
                                        [LVN_REQUEST_BROADCAST] = "broadcast",
                                        [LVN_REQUEST_CALL] = NULL};
    char action[60];
    LVN_CHECK(names[r->kind], UNSUPPORTED,
              "%s: NCCL adds in no fixed order, and single messages go through host memory", c->where);
    LVN_CHECK(types[r->type], UNSUPPORTED, "%s: levin exchanges no %s by NCCL", c->where,
              lvn_dtype_name((enum lvn_dtype)r->type));
    LVN_TRY(c->queues->begin(c->queue));
    pthread_mutex_lock(&c->lock);
    int answer = c->handle ? exchange(c, r) : NCCL_REMOTE_ERROR;
    pthread_mutex_unlock(&c->lock);
    snprintf(action, sizeof action, "%s %lld", names[r->kind], (long long)r->number);
    return answer_of(c, answer, action);
}

static void record(struct nccl_comm *c, struct lvn_request *r, enum lvn_status status)
{
    r->status = status;
    if (status != LVN_OK) snprintf(c->base.text, sizeof c->base.text, "%s", lvn_error_text());
}

static void submit(struct lvn_comm *base, struct lvn_request *r)
{
    struct nccl_comm *c = (struct nccl_comm *)base;
    record(c, r, start(c, r));
}

/* Programs that are launched later wait, not the processor. */
static void wait(struct lvn_comm *base, struct lvn_request *r, const struct timespec *until)
{
    struct nccl_comm *c = (struct nccl_comm *)base;
    (void)until;
    if (r->status == LVN_OK) record(c, r, c->queues->end(c->queue));
    __atomic_store_n(&r->done, 1, __ATOMIC_RELEASE);
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
    LVN_CHECK(nccl.version(&v) == 0 && v / 10000 == 2, UNSUPPORTED, "%s is NCCL %d, and levin supports NCCL 2",
              lvn_library_path(*(void **)&nccl), v / 10000);
    snprintf(describe, 400, "%s (%s)", version(), lvn_library_path(*(void **)&nccl));
    return LVN_OK;
}

static enum lvn_status make_id(char id[LVN_COMM_ID])
{
    struct nccl_id made;
    int answer = nccl.make_id(&made);
    const char *detail = answer ? nccl.last_error(NULL) : NULL;
    LVN_CHECK(answer == 0, UNSUPPORTED,
              "making an id for the ranks: NCCL returned %s (%d)%s%s: check NCCL_SOCKET_IFNAME",
              nccl.error_text(answer), answer, detail && *detail ? ": " : "", detail && *detail ? detail : "");
    memcpy(id, made.bytes, sizeof made.bytes);
    return LVN_OK;
}

static void close_comm(struct lvn_comm *base)
{
    struct nccl_comm *c = (struct nccl_comm *)base;
    pthread_mutex_lock(&c->lock);
    bool joined = c->handle != NULL;
    pthread_mutex_unlock(&c->lock);
    lvn_error_save();
    if (joined && (c->queues->use(c->device) != LVN_OK || c->queues->finish(c->queue) != LVN_OK))
        cancel(base); /* the device or a rank is lost: do not wait for the others */
    lvn_error_restore();
    if (c->handle) (void)nccl.destroy(c->handle);
    if (c->queue) c->queues->close(c->queue);
    lvn_comm_close(c->owned);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* Self test: a sum whose result is known. */
static enum lvn_status self_test(struct nccl_comm *c, struct lvn_memory *m)
{
    struct lvn_request r;
    float x = 1;
    LVN_TRY(lvn_memory_write(m, 0, &x, sizeof x));
    lvn_comm_all_reduce(&c->base, &r, c->queues->address(m, 0), 1, LVN_F32, LVN_SUM);
    LVN_TRY(lvn_comm_wait(&c->base, &r));
    LVN_TRY(c->queues->finish(c->queue));
    LVN_TRY(lvn_memory_read(m, 0, &x, sizeof x));
    LVN_CHECK(x == (float)c->base.size, COMM, "%s: %d ones added over the ranks by NCCL gave %g on %s", c->where,
              c->base.size, (double)x, c->device->title);
    return LVN_OK;
}

static enum lvn_status join(struct nccl_comm *c, const struct lvn_comm_options *o)
{
    struct lvn_memory *m;
    struct nccl_id id;
    memcpy(id.bytes, o->id, sizeof id.bytes);
    LVN_TRY(c->queues->open(&c->queue, c->device, check_errors, c));
    LVN_TRY(answer_of(c, nccl.join(&c->handle, o->size, id, o->rank), "joining the other ranks"));
    LVN_TRY(lvn_memory_new(&m, c->device, sizeof(float)));
    enum lvn_status status = self_test(c, m);
    lvn_memory_free(m);
    return status;
}

static enum lvn_status split(struct lvn_comm *base, struct lvn_comm **out, int colour, int key);

static enum lvn_status open_comm(struct lvn_comm **out, const struct lvn_comm_options *o)
{
    static const struct lvn_comm_ops ops = {
        .submit = submit, .wait = wait, .split = split, .cancel = cancel, .close = close_comm};
    struct nccl_comm *c = lvn_calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return LVN_MEMORY;
    lvn_comm_init(&c->base, &ops, o->rank, o->size);
    c->base.device = c->device = o->device;
    c->queues = o->device->backend->queues;
    c->over = o->over;
    c->host = o->host;
    pthread_mutex_init(&c->lock, NULL);
    snprintf(c->base.describe, sizeof c->base.describe, "%s", version());
    snprintf(c->where, sizeof c->where, "rank %d on %s", o->rank, o->host);
    enum lvn_status status = join(c, o);
    if (status == LVN_OK)
        *out = &c->base;
    else
        close_comm(&c->base);
    return status;
}

/* A group is a communicator with an id of its own, which goes over a group of the processors. All groups are made, or
 * none: a rank in none takes part in the agreement. */
static enum lvn_status split(struct lvn_comm *base, struct lvn_comm **out, int colour, int key)
{
    struct nccl_comm *c = (struct nccl_comm *)base;
    struct lvn_comm *over;
    enum lvn_status status = lvn_comm_split(c->over, &over, colour, key);
    if (status != LVN_OK) return status;
    const struct lvn_comm_options o = {.rank = over ? lvn_comm_rank(over) : 0,
                                       .size = over ? lvn_comm_size(over) : 1,
                                       .kind = &lvn_comm_kind_nccl,
                                       .device = c->device,
                                       .over = over,
                                       .host = c->host};
    if (over) status = lvn_comm_open(out, &o);
    if (*out) ((struct nccl_comm *)*out)->owned = over;
    int32_t made = status == LVN_OK;
    enum lvn_status agreed = lvn_comm_all_reduce_now(c->over, &made, 1, LVN_I32, LVN_MIN);
    if (agreed == LVN_OK && made) return LVN_OK;
    lvn_error_save();
    lvn_comm_close(*out ? *out : over);
    lvn_error_restore();
    *out = NULL;
    if (status != LVN_OK || agreed != LVN_OK) return status != LVN_OK ? status : agreed;
    LVN_FAIL(COMM, "%s: another rank could not make its group of devices", c->where);
}

const struct lvn_comm_kind lvn_comm_kind_nccl = {.name = "nccl",
                                                 .description = "NVIDIA's NCCL, from device to device",
                                                 .meeting = LVN_MEETS_COMM,
                                                 .memory = "cuda",
                                                 .library = &library,
                                                 .open = open_comm,
                                                 .load = load,
                                                 .make_id = make_id};

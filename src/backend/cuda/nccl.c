/* nccl.c - see nccl.h. */
#include "backend/cuda/nccl.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/threads.h"

struct lvn_nccl_comm;
struct lvn_nccl_id { /* passed by value */
    char bytes[LVN_GROUP_ID];
};
enum { NCCL_REMOTE_ERROR = 6, NCCL_IN_PROGRESS = 7 };
enum { NCCL_SUM = 0 };
enum { NCCL_INT32 = 2, NCCL_INT64 = 4, NCCL_FLOAT32 = 7, NCCL_FLOAT64 = 8, NCCL_BFLOAT16 = 9 };

#define NCCL_FUNCTIONS(F)                                                                                              \
    F(int, version, (int *version), "ncclGetVersion")                                                                  \
    F(const char *, error_text, (int error), "ncclGetErrorString")                                                     \
    F(const char *, last_error, (struct lvn_nccl_comm * c), "ncclGetLastError")                                        \
    F(int, make_id, (struct lvn_nccl_id * id), "ncclGetUniqueId")                                                      \
    F(int, join, (struct lvn_nccl_comm * *c, int size, struct lvn_nccl_id id, int rank), "ncclCommInitRank")           \
    F(int, destroy, (struct lvn_nccl_comm * c), "ncclCommDestroy")                                                     \
    F(int, abort, (struct lvn_nccl_comm * c), "ncclCommAbort")                                                         \
    F(int, error, (struct lvn_nccl_comm * c, int *error), "ncclCommGetAsyncError")                                     \
    F(int, group_begin, (void), "ncclGroupStart")                                                                      \
    F(int, group_end, (void), "ncclGroupEnd")                                                                          \
    F(int, all_reduce,                                                                                                 \
      (const void *from, void *to, size_t count, int type, int op, struct lvn_nccl_comm *c,                            \
       struct lvn_cuda_stream *s),                                                                                     \
      "ncclAllReduce")                                                                                                 \
    F(int, reduce,                                                                                                     \
      (const void *from, void *to, size_t count, int type, int op, int root, struct lvn_nccl_comm *c,                  \
       struct lvn_cuda_stream *s),                                                                                     \
      "ncclReduce")                                                                                                    \
    F(int, broadcast,                                                                                                  \
      (const void *from, void *to, size_t count, int type, int root, struct lvn_nccl_comm *c,                          \
       struct lvn_cuda_stream *s),                                                                                     \
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

struct lvn_library lvn_library_nccl = {.name = "libnccl",
                                       .files = {"libnccl.so.2"},
                                       .use = "exchanging gradients from GPU to GPU",
                                       .hint =
                                           "install NCCL 2.13 or later and put its folder into LD_LIBRARY_PATH, or its "
                                           "file into trainer.nccl_library; without it they go through host memory",
                                       .symbols = (const char *const[]){NCCL_FUNCTIONS(LVN_LIBRARY_SYMBOL) NULL},
                                       .functions = &nccl,
                                       .version = version};

struct lvn_cuda_group {
    struct lvn_nccl_comm *comm; /* NULL: aborted */
    struct lvn_cuda_stream *stream;
    struct lvn_cuda_event *computed;  /* the operands of a collective are computed */
    struct lvn_cuda_event *exchanged; /* the collectives started so far are done */
    pthread_mutex_t lock;             /* guards comm: another thread may abort it */
    bool pending;                     /* a collective was started that `work` does not wait for yet */
    int rank, size;
    char where[160]; /* "rank 1 on node2" */
};

/* --- errors --- */

static enum lvn_status answer_of(const struct lvn_cuda_device *d, int answer, const char *action)
{
    const struct lvn_cuda_group *g = d->group;
    if (answer == 0 || answer == NCCL_IN_PROGRESS) return LVN_OK;
    const char *detail = nccl.last_error(NULL);
    LVN_FAIL(COMM, "%s: %s on device %d (%s): NCCL returned %s (%d)%s%s", g->where, action, d->facts.number,
             d->facts.name, nccl.error_text(answer), answer, detail && *detail ? ": " : "",
             detail && *detail ? detail : "");
}
#define TRY(d, answer, action) LVN_TRY(answer_of(d, answer, action))

static void abort_comm(void *comm)
{
    (void)nccl.abort(comm);
}

/* With the lock held. Pending collectives end at once, but ncclCommAbort() returns only after the last graph
 * captured with the communicator is destroyed, which is later: so it is called in a thread of its own. */
static void abort_locked(struct lvn_cuda_group *g)
{
    const double patience = 0.5;
    struct lvn_nccl_comm *c = g->comm;
    g->comm = NULL;
    if (c) (void)lvn_thread_with_timeout(patience, abort_comm, c);
}

static void abort_group(struct lvn_device *base)
{
    struct lvn_cuda_device *d = lvn_cuda_of(base);
    (void)lvn_cuda.context_use(d->context);
    pthread_mutex_lock(&d->group->lock);
    abort_locked(d->group);
    pthread_mutex_unlock(&d->group->lock);
}

/* Check for an asynchronous error of NCCL, or an abort by another thread. The thread that aborted is about to end
 * this process with its own message; this one waits 3 s for that. */
static enum lvn_status check_errors(struct lvn_cuda_device *d)
{
    struct lvn_cuda_group *g = d->group;
    const struct timespec grace = {.tv_sec = 3};
    int error = 0, failed = 0;
    pthread_mutex_lock(&g->lock);
    bool gone = !g->comm;
    if (!gone) failed = nccl.error(g->comm, &error);
    enum lvn_status status = gone ? LVN_COMM : answer_of(d, failed ? failed : error, "exchanging numbers");
    if (!gone && status != LVN_OK) abort_locked(g);
    pthread_mutex_unlock(&g->lock);
    if (!gone) return status;
    nanosleep(&grace, NULL);
    LVN_FAIL(COMM, "%s: exchanging numbers on device %d (%s) was aborted, because another rank is lost", g->where,
             d->facts.number, d->facts.name);
}

static enum lvn_status finish(struct lvn_cuda_device *d, struct lvn_cuda_stream *s)
{
    enum { PATIENCE = 2000, CHECK = 200 };
    const struct timespec nap = {.tv_nsec = 20000};
    int answer = lvn_cuda.stream_query(s);
    for (int64_t n = 1; answer == LVN_CUDA_NOT_READY; n++, answer = lvn_cuda.stream_query(s)) {
        if (n % CHECK == 0) LVN_TRY(check_errors(d));
        if (n < PATIENCE)
            sched_yield();
        else
            nanosleep(&nap, NULL);
    }
    LVN_CUDA_DO(d, answer, "computing");
    return check_errors(d);
}

enum lvn_status lvn_cuda_group_wait(struct lvn_cuda_device *d)
{
    return finish(d, d->work);
}

/* --- joining --- */

static enum lvn_status open_library(const char *library, char describe[400])
{
    static char file[4096];
    int v = 0;
    if (library && *library) {
        LVN_CHECK(lvn_fit(file, sizeof file, "%s", library), ARG, "trainer.nccl_library: %.60s... is too long",
                  library);
        lvn_library_nccl.files[0] = file;
    }
    LVN_TRY(lvn_library_open(&lvn_library_nccl));
    LVN_CHECK(nccl.version(&v) == 0 && v / 10000 == 2, UNSUPPORTED, "%s is NCCL %d, and levin supports NCCL 2",
              lvn_library_path(*(void **)&nccl), v / 10000);
    snprintf(describe, 400, "%s (%s)", version(), lvn_library_path(*(void **)&nccl));
    return LVN_OK;
}

static enum lvn_status make_id(char id[LVN_GROUP_ID])
{
    struct lvn_nccl_id made;
    int answer = nccl.make_id(&made);
    const char *detail = answer ? nccl.last_error(NULL) : NULL;
    LVN_CHECK(answer == 0, UNSUPPORTED,
              "making an id for the ranks: NCCL returned %s (%d)%s%s: check NCCL_SOCKET_IFNAME",
              nccl.error_text(answer), answer, detail && *detail ? ": " : "", detail && *detail ? detail : "");
    memcpy(id, made.bytes, sizeof made.bytes);
    return LVN_OK;
}

static void *pointer(lvn_cuda_address a)
{
    return (void *)(uintptr_t)a;
}

/* Self test: a sum whose result is known. */
static enum lvn_status self_test(struct lvn_cuda_device *d, struct lvn_memory *m)
{
    struct lvn_cuda_group *g = d->group;
    float x = 1;
    void *p = pointer(lvn_cuda_address_of(m, 0));
    LVN_TRY(lvn_cuda_write(m, 0, &x, sizeof x));
    LVN_TRY(finish(d, d->work));
    TRY(d, nccl.all_reduce(p, p, 1, NCCL_FLOAT32, NCCL_SUM, g->comm, g->stream), "testing a sum over the ranks");
    LVN_TRY(finish(d, g->stream));
    LVN_TRY(lvn_cuda_read(m, 0, &x, sizeof x));
    LVN_CHECK(x == (float)g->size, COMM, "%s: %d ones added over the ranks by NCCL gave %g on device %d (%s)", g->where,
              g->size, (double)x, d->facts.number, d->facts.name);
    return LVN_OK;
}

static enum lvn_status make(struct lvn_cuda_device *d, const struct lvn_group_options *o)
{
    struct lvn_cuda_group *g = d->group;
    struct lvn_memory *m;
    struct lvn_nccl_id id;
    memcpy(id.bytes, o->id, sizeof id.bytes);
    LVN_CUDA_DO(d, lvn_cuda.stream_new(&g->stream, LVN_CUDA_NON_BLOCKING), "making a stream");
    LVN_CUDA_DO(d, lvn_cuda.event_new(&g->computed, LVN_CUDA_NO_TIMING), "making an event");
    LVN_CUDA_DO(d, lvn_cuda.event_new(&g->exchanged, LVN_CUDA_NO_TIMING), "making an event");
    TRY(d, nccl.join(&g->comm, o->size, id, o->rank), "joining the other ranks");
    LVN_TRY(lvn_memory_new(&m, &d->base, sizeof(float)));
    enum lvn_status status = self_test(d, m);
    lvn_memory_free(m);
    return status;
}

static enum lvn_status join(struct lvn_device *base, const struct lvn_group_options *o)
{
    struct lvn_cuda_device *d = lvn_cuda_of(base);
    struct lvn_cuda_group *g = d->group = lvn_calloc(1, sizeof *g);
    if (!g) return LVN_MEMORY;
    pthread_mutex_init(&g->lock, NULL);
    g->rank = o->rank;
    g->size = o->size;
    snprintf(g->where, sizeof g->where, "rank %d on %s", o->rank, o->host);
    LVN_TRY(lvn_cuda_use(d));
    return make(d, o);
}

void lvn_cuda_group_free(struct lvn_cuda_device *d)
{
    struct lvn_cuda_group *g = d->group;
    if (!g) return;
    if (g->comm && lvn_cuda.stream_finish(g->stream))
        abort_locked(g); /* the device is lost: do not wait for the other ranks */
    if (g->comm) (void)nccl.destroy(g->comm);
    if (g->computed) (void)lvn_cuda.event_free(g->computed);
    if (g->exchanged) (void)lvn_cuda.event_free(g->exchanged);
    if (g->stream) (void)lvn_cuda.stream_free(g->stream);
    pthread_mutex_destroy(&g->lock);
    free(g);
    d->group = NULL;
}

const struct lvn_group_ops lvn_cuda_group_ops = {
    .name = "NCCL", .open = open_library, .make_id = make_id, .join = join, .abort = abort_group};

/* --- collectives --- */

/* Not fp16: a sum over ranks would overflow its range. */
static const struct {
    bool sums;
    int type;
} types[LVN_DTYPE_COUNT] = {[LVN_F32] = {true, NCCL_FLOAT32},
                            [LVN_BF16] = {true, NCCL_BFLOAT16},
                            [LVN_F64] = {true, NCCL_FLOAT64},
                            [LVN_I32] = {true, NCCL_INT32},
                            [LVN_I64] = {true, NCCL_INT64}};

/* Reduce each rank's part of out[0] to that rank, or broadcast it from there. */
static int exchange_parts(struct lvn_cuda_group *g, const struct lvn_instr *i, lvn_cuda_address at,
                          const int64_t *first)
{
    const enum lvn_dtype dtype = i->out[0].desc.dtype;
    const int64_t bytes = lvn_dtype_bytes(dtype);
    const int type = types[dtype].type;
    int failed = nccl.group_begin();
    for (int r = 0; r < g->size && !failed; r++) {
        const size_t n = (size_t)(first[r + 1] - first[r]);
        void *p = pointer(at + (lvn_cuda_address)(first[r] * bytes));
        if (n == 0) continue;
        failed = i->id == LVN_OP_reduce_scatter ? nccl.reduce(p, p, n, type, NCCL_SUM, r, g->comm, g->stream)
                                                : nccl.broadcast(p, p, n, type, r, g->comm, g->stream);
    }
    const int ended = nccl.group_end();
    return failed ? failed : ended;
}

static int exchange(struct lvn_cuda_group *g, const struct lvn_instr *i, lvn_cuda_address at, const int64_t *first)
{
    const struct lvn_desc *all = &i->out[0].desc;
    void *p = pointer(at);
    if (i->id != LVN_OP_all_reduce) return exchange_parts(g, i, at, first);
    return nccl.all_reduce(p, p, (size_t)lvn_desc_count(all), types[all->dtype].type, NCCL_SUM, g->comm, g->stream);
}

enum lvn_status lvn_cuda_group_stream_wait(struct lvn_cuda_device *d)
{
    struct lvn_cuda_group *g = d->group;
    if (!g || !g->pending) return LVN_OK;
    g->pending = false;
    LVN_CUDA_DO(d, lvn_cuda.event_record(g->exchanged, g->stream), "recording the end of a sum");
    LVN_CUDA_DO(d, lvn_cuda.stream_wait(d->work, g->exchanged, 0), "making a sum wait");
    return LVN_OK;
}

enum lvn_status lvn_cuda_group_launch(struct lvn_gpu_program *p, const struct lvn_instr *i,
                                      const struct lvn_collectives *collectives)
{
    struct lvn_cuda_device *d = lvn_cuda_of(p->base.device);
    struct lvn_cuda_group *g = d->group;
    int64_t offset;
    if (i->id == LVN_OP_wait) return lvn_cuda_group_stream_wait(d);
    LVN_CHECK(i->id != LVN_OP_tree_reduce, INTERNAL, "%s: NCCL adds in no fixed order", i->name);
    LVN_CHECK(types[i->out[0].desc.dtype].sums, INTERNAL, "%s: levin has no sum of %s by NCCL", i->name,
              lvn_dtype_name(i->out[0].desc.dtype));
    const struct lvn_memory *m = lvn_gpu_operand_memory(p, &i->out[0], &offset);
    LVN_CUDA_DO(d, lvn_cuda.event_record(g->computed, d->work), "recording the work that a sum waits for");
    LVN_CUDA_DO(d, lvn_cuda.stream_wait(g->stream, g->computed, 0), "making a sum wait");
    g->pending = true;
    pthread_mutex_lock(&g->lock);
    int answer = g->comm ? exchange(g, i, lvn_cuda_address_of(m, offset), collectives->parts(collectives->context, i))
                         : NCCL_REMOTE_ERROR;
    pthread_mutex_unlock(&g->lock);
    TRY(d, answer, i->name);
    return LVN_OK;
}

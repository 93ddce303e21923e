/* cuda_device.c - see cuda_device.h. */
#include "backend/cuda/cuda_device.h"

#include <sched.h>
#include <time.h>

#include "base/arena.h"
#include "base/getenv.h"
#include "base/log.h"
#include "base/text.h"

bool lvn_cuda_switch(const char *name, bool fallback)
{
    const char *text = lvn_getenv(name);
    if (text && (!strcmp(text, "on") || !strcmp(text, "1"))) return true;
    if (text && (!strcmp(text, "off") || !strcmp(text, "0"))) return false;
    if (text) lvn_log(LVN_LOG_WARN, "%s is '%.40s', expected on or off; using %s", name, text, fallback ? "on" : "off");
    return fallback;
}

enum lvn_status lvn_cuda_use(const struct lvn_cuda_device *d)
{
    LVN_CUDA_DO(d, lvn_cuda.context_use(d->context), "choosing a device");
    return LVN_OK;
}

static enum lvn_status make_chunks(const struct lvn_cuda_device *d, struct lvn_cuda_chunk *chunk)
{
    for (struct lvn_cuda_chunk *p = chunk; p < chunk + LVN_CUDA_CHUNKS; p++) {
        if (!p->p) LVN_CUDA_DO(d, lvn_cuda.pinned_alloc((void **)&p->p, LVN_CUDA_CHUNK, 0), "pinning memory");
        if (!p->copied) LVN_CUDA_DO(d, lvn_cuda.event_new(&p->copied, LVN_CUDA_NO_TIMING), "creating an event");
    }
    return LVN_OK;
}

static enum lvn_status make_reader(const struct lvn_cuda_device *d, struct lvn_cuda_reader *r, const char *action)
{
    r->action = action;
    if (!r->stream) LVN_CUDA_DO(d, lvn_cuda.stream_new(&r->stream, LVN_CUDA_NON_BLOCKING, 0), "creating a stream");
    if (!r->issued) LVN_CUDA_DO(d, lvn_cuda.event_new(&r->issued, LVN_CUDA_NO_TIMING), "creating an event");
    return make_chunks(d, r->chunk);
}

static enum lvn_status make_streams(struct lvn_cuda_device *d)
{
    LVN_CUDA_DO(d, lvn_cuda.stream_new(&d->work, LVN_CUDA_NON_BLOCKING, 0), "creating a stream");
    d->writer.stream = d->work;
    LVN_TRY(make_chunks(d, d->writer.chunk));
    return make_reader(d, &d->reader, "copying from the device");
}

static enum lvn_status update_memory(struct lvn_device *device)
{
    struct lvn_cuda_device *d = lvn_cuda_of(device);
    size_t available = 0, total = 0;
    LVN_TRY(lvn_cuda_use(d));
    if (d->work) LVN_CUDA_DO(d, lvn_cuda.stream_finish(d->work), "freeing memory"); /* a pool keeps it until then */
    LVN_CUDA_DO(d, lvn_cuda.memory_info(&available, &total), "querying free memory");
    device->memory_bytes = (int64_t)available - lvn_backend_reserve(device->backend, (int64_t)total);
    if (device->memory_bytes < 1) device->memory_bytes = 1;
    return LVN_OK;
}

enum lvn_status lvn_cuda_open(struct lvn_cuda_device *d, int number)
{
    int n, pools = 0;
    pthread_mutex_init(&d->lock, NULL);
    d->synchronous = lvn_cuda_switch("LEVIN_CUDA_WAIT", false);
    d->graphs = lvn_cuda_switch("LEVIN_CUDA_GRAPHS", true) && !d->synchronous;
    LVN_TRY(lvn_cuda_devices(&n));
    LVN_CHECK(number < n, ARG, "device %d was requested, but CUDA sees %d on this machine, numbered from 0", number, n);
    LVN_TRY(lvn_cuda_device_facts(&d->facts, number));
    lvn_cuda_capability_set(d->facts.capability);
    snprintf(d->base.title, sizeof d->base.title, "device %d (%s)", number, d->facts.name);
    LVN_CUDA_DO(d, lvn_cuda.device_attribute(&pools, LVN_CUDA_MEMORY_POOLS, d->facts.handle), "querying memory pools");
    LVN_CHECK(pools, UNSUPPORTED, "device %d (%s) has no memory pools, which require a driver of CUDA 11.2 or later",
              number, d->facts.name);
    LVN_CUDA_DO(d, lvn_cuda.context_retain(&d->context, d->facts.handle), "retaining the device's primary context");
    LVN_TRY(lvn_cuda_use(d));
    LVN_TRY(update_memory(&d->base));
    return make_streams(d);
}

/* Ignore errors of releasing, because the resources of a lost device are freed with the process. */
static void ignore(int result)
{
    (void)result;
}

static void free_chunks(struct lvn_cuda_chunk *chunk)
{
    for (struct lvn_cuda_chunk *p = chunk; p < chunk + LVN_CUDA_CHUNKS; p++) {
        if (p->copied) ignore(lvn_cuda.event_free(p->copied));
        if (p->p) ignore(lvn_cuda.pinned_free(p->p));
    }
}

static void free_reader(struct lvn_cuda_reader *r)
{
    if (r->stream) ignore(lvn_cuda.stream_finish(r->stream));
    free_chunks(r->chunk);
    if (r->issued) ignore(lvn_cuda.event_free(r->issued));
    if (r->stream) ignore(lvn_cuda.stream_free(r->stream));
}

void lvn_cuda_close(struct lvn_cuda_device *d)
{
    if (d->context) {
        ignore(lvn_cuda.context_use(d->context));
        if (d->work) ignore(lvn_cuda.stream_finish(d->work));
        free_reader(&d->snapshot_reader);
        free_reader(&d->reader);
        if (d->batch_writer.stream) ignore(lvn_cuda.stream_finish(d->batch_writer.stream));
        free_chunks(d->batch_writer.chunk);
        free_chunks(d->writer.chunk);
        if (d->sent) ignore(lvn_cuda.event_free(d->sent));
        if (d->moved) ignore(lvn_cuda.event_free(d->moved));
        if (d->batch_writer.stream) ignore(lvn_cuda.stream_free(d->batch_writer.stream));
        if (d->work) ignore(lvn_cuda.stream_free(d->work));
        ignore(lvn_cuda.context_release(d->facts.handle));
    }
    pthread_mutex_destroy(&d->lock);
}

/* --- memory --- */

static enum lvn_status alloc_zeroed(lvn_cuda_address *at, struct lvn_cuda_device *d, int64_t bytes)
{
    size_t available = 0, total = 0;
    char want[LVN_NUMBER_TEXT], have[LVN_NUMBER_TEXT], all[LVN_NUMBER_TEXT];
    LVN_TRY(lvn_cuda_use(d));
    LVN_CUDA_DO(d, lvn_cuda.memory_info(&available, &total), "querying free memory");
    int result = lvn_cuda.memory_alloc(at, (size_t)bytes, d->work);
    if (result == LVN_CUDA_OUT_OF_MEMORY) *at = 0;
    LVN_CHECK(result != LVN_CUDA_OUT_OF_MEMORY, MEMORY,
              "device %d (%s) has %s of %s free, but %s is needed; choose a smaller trainer.micro_batch_size, "
              "model.block_size or model, or end other programs on it (nvidia-smi)",
              d->facts.number, d->facts.name, lvn_bytes_text((int64_t)available, have),
              lvn_bytes_text((int64_t)total, all), lvn_bytes_text(bytes, want));
    LVN_CUDA_DO(d, result, "allocating memory");
    LVN_CUDA_DO(d, lvn_cuda.memory_zero(*at, 0, (size_t)bytes, d->work), "clearing memory");
    return LVN_OK;
}

enum lvn_status lvn_cuda_alloc(struct lvn_memory **out, struct lvn_device *base, int64_t bytes)
{
    struct lvn_cuda_memory *m = lvn_calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return LVN_MEMORY;
    m->base = (struct lvn_memory){.device = base, .bytes = bytes};
    enum lvn_status status = alloc_zeroed(&m->address, lvn_cuda_of(base), bytes);
    if (status == LVN_OK)
        *out = &m->base;
    else
        lvn_cuda_free(&m->base);
    return status;
}

static void free_staging(struct lvn_cuda_device *d, struct lvn_cuda_memory *m)
{
    struct lvn_cuda_memory **at = &d->double_buffered;
    if (!m->staging) return;
    while (*at && *at != m) at = &(*at)->next;
    if (*at) *at = m->next;
    ignore(lvn_cuda.stream_finish(d->batch_writer.stream)); /* a write may still be pending */
    ignore(lvn_cuda.memory_free(m->staging, d->work));
}

void lvn_cuda_free(struct lvn_memory *base)
{
    struct lvn_cuda_memory *m = (struct lvn_cuda_memory *)base;
    struct lvn_cuda_device *d = lvn_cuda_of(base->device);
    ignore(lvn_cuda.context_use(d->context));
    free_staging(d, m);
    if (m->address) ignore(lvn_cuda.memory_free(m->address, d->work));
    free(m);
}

/* --- writing --- */

/* Copy one chunk through pinned memory. */
static enum lvn_status upload(const struct lvn_cuda_device *d, struct lvn_cuda_writer *w, lvn_cuda_address to,
                              const void *from, int64_t bytes)
{
    const struct lvn_cuda_chunk *p = &w->chunk[w->next];
    w->next = (w->next + 1) % LVN_CUDA_CHUNKS;
    LVN_CUDA_DO(d, lvn_cuda.event_finish(p->copied), "waiting for a copy to the device");
    memcpy(p->p, from, (size_t)bytes);
    LVN_CUDA_DO(d, lvn_cuda.upload(to, p->p, (size_t)bytes, w->stream), "copying to the device");
    LVN_CUDA_DO(d, lvn_cuda.event_record(p->copied, w->stream), "recording a copy to the device");
    return LVN_OK;
}

static int64_t chunk_bytes(int64_t bytes)
{
    return bytes < LVN_CUDA_CHUNK ? bytes : LVN_CUDA_CHUNK;
}

static enum lvn_status upload_all(const struct lvn_cuda_device *d, struct lvn_cuda_writer *w, lvn_cuda_address to,
                                  const char *from, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += LVN_CUDA_CHUNK)
        LVN_TRY(upload(d, w, to + (lvn_cuda_address)at, from + at, chunk_bytes(bytes - at)));
    return LVN_OK;
}

/* Write to the staging buffer, after its previous contents have been copied out. */
static enum lvn_status send(struct lvn_cuda_device *d, struct lvn_cuda_memory *m, int64_t offset, const void *from,
                            int64_t bytes)
{
    LVN_CUDA_DO(d, lvn_cuda.stream_wait(d->batch_writer.stream, d->moved, 0), "ordering copies to the device");
    LVN_TRY(upload_all(d, &d->batch_writer, m->staging + (lvn_cuda_address)offset, from, bytes));
    const bool pending = m->to > m->from;
    m->from = pending && m->from < offset ? m->from : offset;
    m->to = pending && m->to > offset + bytes ? m->to : offset + bytes;
    return LVN_OK;
}

enum lvn_status lvn_cuda_write(struct lvn_memory *to, int64_t offset, const void *from, int64_t bytes)
{
    struct lvn_cuda_device *d = lvn_cuda_of(to->device);
    struct lvn_cuda_memory *m = (struct lvn_cuda_memory *)to;
    enum lvn_status status = lvn_cuda_use(d);
    if (status != LVN_OK) return status;
    pthread_mutex_lock(&d->lock);
    status = m->staging ? send(d, m, offset, from, bytes)
                        : upload_all(d, &d->writer, lvn_cuda_address_of(to, offset), from, bytes);
    pthread_mutex_unlock(&d->lock);
    return status;
}

enum lvn_status lvn_cuda_double_buffer(struct lvn_memory *base)
{
    struct lvn_cuda_device *d = lvn_cuda_of(base->device);
    struct lvn_cuda_memory *m = (struct lvn_cuda_memory *)base;
    if (m->staging) return LVN_OK;
    LVN_TRY(lvn_cuda_use(d));
    if (!d->batch_writer.stream)
        LVN_CUDA_DO(d, lvn_cuda.stream_new(&d->batch_writer.stream, LVN_CUDA_NON_BLOCKING, 0), "creating a stream");
    if (!d->sent) LVN_CUDA_DO(d, lvn_cuda.event_new(&d->sent, LVN_CUDA_NO_TIMING), "creating an event");
    if (!d->moved) LVN_CUDA_DO(d, lvn_cuda.event_new(&d->moved, LVN_CUDA_NO_TIMING), "creating an event");
    LVN_TRY(make_chunks(d, d->batch_writer.chunk));
    enum lvn_status status = alloc_zeroed(&m->staging, d, base->bytes);
    if (m->staging) {
        m->next = d->double_buffered;
        d->double_buffered = m;
    }
    LVN_TRY(status);
    LVN_CUDA_DO(d, lvn_cuda.event_record(d->moved, d->work), "recording the first use of a staging buffer");
    return LVN_OK;
}

static enum lvn_status copy_staged(const struct lvn_cuda_device *d, struct lvn_cuda_memory *m)
{
    const lvn_cuda_address from = (lvn_cuda_address)m->from;
    if (m->to == m->from) return LVN_OK;
    LVN_CUDA_DO(d, lvn_cuda.copy(m->address + from, m->staging + from, (size_t)(m->to - m->from), d->work),
                "copying a batch");
    m->from = m->to = 0;
    return LVN_OK;
}

static bool has_pending(const struct lvn_cuda_device *d)
{
    for (const struct lvn_cuda_memory *m = d->double_buffered; m; m = m->next)
        if (m->to > m->from) return true;
    return false;
}

enum lvn_status lvn_cuda_commit_writes(struct lvn_cuda_device *d)
{
    if (!has_pending(d)) return LVN_OK;
    LVN_CUDA_DO(d, lvn_cuda.event_record(d->sent, d->batch_writer.stream), "recording the copy of a batch");
    LVN_CUDA_DO(d, lvn_cuda.stream_wait(d->work, d->sent, 0), "waiting for a batch");
    for (struct lvn_cuda_memory *m = d->double_buffered; m; m = m->next) LVN_TRY(copy_staged(d, m));
    LVN_CUDA_DO(d, lvn_cuda.event_record(d->moved, d->work), "recording the copy of a batch");
    return LVN_OK;
}

/* --- reading --- */

/* Make later reads of this reader wait for everything issued to `work` so far. */
static enum lvn_status wait_for_work(const struct lvn_cuda_device *d, const struct lvn_cuda_reader *r)
{
    LVN_CUDA_DO(d, lvn_cuda.event_record(r->issued, d->work), "recording the work that a copy waits for");
    LVN_CUDA_DO(d, lvn_cuda.stream_wait(r->stream, r->issued, 0), "ordering a copy from the device");
    return LVN_OK;
}

static const struct lvn_cuda_chunk *chunk_at(const struct lvn_cuda_reader *r, int64_t at)
{
    return &r->chunk[at / LVN_CUDA_CHUNK % LVN_CUDA_CHUNKS];
}

static enum lvn_status start_download(const struct lvn_cuda_device *d, const struct lvn_cuda_reader *r, int64_t at,
                                      lvn_cuda_address from, int64_t bytes)
{
    const struct lvn_cuda_chunk *p = chunk_at(r, at);
    LVN_CUDA_DO(d, lvn_cuda.download(p->p, from, (size_t)bytes, r->stream), r->action);
    LVN_CUDA_DO(d, lvn_cuda.event_record(p->copied, r->stream), r->action);
    return LVN_OK;
}

static enum lvn_status copy(const struct lvn_cuda_device *d, const struct lvn_cuda_reader *r, char *to,
                            lvn_cuda_address from, int64_t bytes)
{
    int64_t issued = 0;
    for (int64_t at = 0; at < bytes; at += LVN_CUDA_CHUNK) {
        for (; issued < bytes && issued < at + LVN_CUDA_CHUNKS * LVN_CUDA_CHUNK; issued += LVN_CUDA_CHUNK)
            LVN_TRY(start_download(d, r, issued, from + (lvn_cuda_address)issued, chunk_bytes(bytes - issued)));
        LVN_CUDA_DO(d, lvn_cuda.event_finish(chunk_at(r, at)->copied), r->action);
        memcpy(to + at, chunk_at(r, at)->p, (size_t)chunk_bytes(bytes - at));
    }
    return LVN_OK;
}

static enum lvn_status download(const struct lvn_cuda_device *d, const struct lvn_cuda_reader *r, char *to,
                                lvn_cuda_address from, int64_t bytes)
{
    enum lvn_status status = copy(d, r, to, from, bytes);
    if (status != LVN_OK) ignore(lvn_cuda.stream_finish(r->stream)); /* the caller may free `to` when this returns */
    return status;
}

enum lvn_status lvn_cuda_read(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes)
{
    struct lvn_cuda_device *d = lvn_cuda_of(from->device);
    LVN_TRY(lvn_cuda_use(d));
    LVN_TRY(lvn_cuda_commit_writes(d));
    pthread_mutex_lock(&d->lock);
    enum lvn_status status = wait_for_work(d, &d->reader);
    if (status == LVN_OK) status = download(d, &d->reader, to, lvn_cuda_address_of(from, offset), bytes);
    pthread_mutex_unlock(&d->lock);
    return status;
}

enum lvn_status lvn_cuda_snapshot(struct lvn_device *base)
{
    struct lvn_cuda_device *d = lvn_cuda_of(base);
    LVN_TRY(lvn_cuda_use(d));
    LVN_TRY(make_reader(d, &d->snapshot_reader, "copying from the device for a checkpoint"));
    return wait_for_work(d, &d->snapshot_reader);
}

enum lvn_status lvn_cuda_read_snapshot(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes)
{
    struct lvn_cuda_device *d = lvn_cuda_of(from->device);
    LVN_TRY(lvn_cuda_use(d));
    return download(d, &d->snapshot_reader, to, lvn_cuda_address_of(from, offset), bytes);
}

/* --- queues for communication libraries ---
 *
 * All queues of a device are one stream, which runs next to `work`; this code does not depend on a particular library.
 * So collectives of several communicators run in the order in which they were started, as NCCL requires where ranks
 * share more than one of them. A library's work waits in the stream until `work` has computed everything that was
 * launched before; end() makes `work` wait for the stream up to a mark, so that work which was started later runs
 * beside `work`. Both use events, which a captured graph records, so a step does not involve the host. While the host
 * waits for the device it polls the checks of all queues, because errors of libraries are asynchronous. */

enum { MARKS = LVN_CUDA_MARKS };
struct lvn_cuda_queue {
    struct lvn_device_queue base;
    enum lvn_status (*check)(void *context);
    void *context;
    struct lvn_cuda_queue *next; /* of the device's */
};

static struct lvn_cuda_queue *queue_of(struct lvn_device_queue *q)
{
    return (struct lvn_cuda_queue *)q;
}

static enum lvn_status check_all(const struct lvn_cuda_device *d)
{
    for (const struct lvn_cuda_queue *q = d->queues; q; q = q->next) LVN_TRY(q->check(q->context));
    return LVN_OK;
}

/* Wait for a stream, as long as no check of a queue fails. */
static enum lvn_status wait_for_stream(const struct lvn_cuda_device *d, struct lvn_cuda_stream *s)
{
    enum { YIELD_POLLS = 2000, POLLS_PER_CHECK = 200 };
    const struct timespec nap = {.tv_nsec = 20000};
    int result = lvn_cuda.stream_query(s);
    for (int64_t n = 1; result == LVN_CUDA_NOT_READY; n++, result = lvn_cuda.stream_query(s)) {
        if (n % POLLS_PER_CHECK == 0) LVN_TRY(check_all(d));
        if (n < YIELD_POLLS)
            sched_yield();
        else
            nanosleep(&nap, NULL);
    }
    LVN_CUDA_DO(d, result, "computing");
    return check_all(d);
}

static enum lvn_status mark(struct lvn_cuda_device *d)
{
    struct lvn_cuda_comm_stream *comm = &d->comm;
    LVN_CUDA_DO(d, lvn_cuda.event_record(comm->reached[(comm->marks + 1) % MARKS], comm->stream),
                "recording the end of a collective");
    comm->marks++;
    comm->unmarked = false;
    return LVN_OK;
}

static enum lvn_status queue_mark(struct lvn_device_queue *q, int64_t *number)
{
    struct lvn_cuda_device *d = lvn_cuda_of(q->device);
    LVN_TRY(mark(d));
    *number = d->comm.marks;
    return LVN_OK;
}

static enum lvn_status wait_for_mark(struct lvn_cuda_device *d, int64_t number)
{
    struct lvn_cuda_comm_stream *comm = &d->comm;
    /* Events of marks up to `ended` may belong to an earlier captured graph, outside of which CUDA forbids waiting for
     * them. */
    if (number <= comm->ended) return LVN_OK;
    comm->ended = number;
    LVN_CUDA_DO(d, lvn_cuda.stream_wait(d->work, comm->reached[number % MARKS], 0),
                "making the stream wait for a collective");
    return LVN_OK;
}

static enum lvn_status queue_end(struct lvn_device_queue *q, int64_t number)
{
    return wait_for_mark(lvn_cuda_of(q->device), number);
}

enum lvn_status lvn_cuda_queues_end(struct lvn_cuda_device *d)
{
    if (d->comm.unmarked) LVN_TRY(mark(d));
    return wait_for_mark(d, d->comm.marks);
}

static enum lvn_status use_device(const struct lvn_device *d)
{
    return lvn_cuda_use(lvn_cuda_of(d));
}

static enum lvn_status queue_begin(struct lvn_device_queue *q)
{
    struct lvn_cuda_device *d = lvn_cuda_of(q->device);
    LVN_CUDA_DO(d, lvn_cuda.event_record(d->comm.computed, d->work), "recording the work before a collective");
    LVN_CUDA_DO(d, lvn_cuda.stream_wait(d->comm.stream, d->comm.computed, 0), "making a collective wait");
    d->comm.unmarked = true;
    return LVN_OK;
}

static enum lvn_status queue_finish(struct lvn_device_queue *q)
{
    const struct lvn_cuda_device *d = lvn_cuda_of(q->device);
    return wait_for_stream(d, d->comm.stream);
}

static void comm_stream_close(struct lvn_cuda_comm_stream *comm)
{
    if (comm->computed) (void)lvn_cuda.event_free(comm->computed);
    for (int i = 0; i < MARKS; i++)
        if (comm->reached[i]) (void)lvn_cuda.event_free(comm->reached[i]);
    if (comm->stream) (void)lvn_cuda.stream_free(comm->stream);
    *comm = (struct lvn_cuda_comm_stream){0};
}

static void queue_close(struct lvn_device_queue *base)
{
    struct lvn_cuda_queue *q = queue_of(base);
    struct lvn_cuda_device *d = lvn_cuda_of(base->device);
    struct lvn_cuda_queue **at = &d->queues;
    while (*at && *at != q) at = &(*at)->next;
    if (*at) *at = q->next;
    (void)lvn_cuda.context_use(d->context);
    if (!d->queues) comm_stream_close(&d->comm);
    free(q);
}

static enum lvn_status comm_stream_open(struct lvn_cuda_device *d)
{
    struct lvn_cuda_comm_stream *comm = &d->comm;
    LVN_TRY(lvn_cuda_use(d));
    LVN_CUDA_DO(d, lvn_cuda.stream_new(&comm->stream, LVN_CUDA_NON_BLOCKING, LVN_CUDA_URGENT), "creating a stream");
    LVN_CUDA_DO(d, lvn_cuda.event_new(&comm->computed, LVN_CUDA_NO_TIMING), "creating an event");
    for (int i = 0; i < MARKS; i++)
        LVN_CUDA_DO(d, lvn_cuda.event_new(&comm->reached[i], LVN_CUDA_NO_TIMING), "creating an event");
    return LVN_OK;
}

static enum lvn_status queue_open(struct lvn_device_queue **out, struct lvn_device *base,
                                  enum lvn_status (*check)(void *context), void *context)
{
    struct lvn_cuda_device *d = lvn_cuda_of(base);
    struct lvn_cuda_queue *q = lvn_calloc(1, sizeof *q);
    *out = NULL;
    if (!q) return LVN_MEMORY;
    *q = (struct lvn_cuda_queue){.base.device = base, .check = check, .context = context};
    enum lvn_status status = d->comm.stream ? LVN_OK : comm_stream_open(d);
    if (status != LVN_OK) {
        queue_close(&q->base);
        return status;
    }
    q->base.native = d->comm.stream;
    q->next = d->queues;
    d->queues = q;
    *out = &q->base;
    return LVN_OK;
}

static void *queue_address(const struct lvn_memory *m, int64_t offset)
{
    return (void *)(uintptr_t)lvn_cuda_address_of(m, offset);
}

const struct lvn_queue_ops lvn_cuda_queue_ops = {.open = queue_open,
                                                 .close = queue_close,
                                                 .use = use_device,
                                                 .begin = queue_begin,
                                                 .mark = queue_mark,
                                                 .end = queue_end,
                                                 .finish = queue_finish,
                                                 .address = queue_address,
                                                 .update_memory = update_memory};

enum lvn_status lvn_cuda_wait(struct lvn_device *base)
{
    struct lvn_cuda_device *d = lvn_cuda_of(base);
    LVN_TRY(lvn_cuda_use(d));
    if (d->queues) return wait_for_stream(d, d->work);
    LVN_CUDA_DO(d, lvn_cuda.stream_finish(d->work), "computing");
    return LVN_OK;
}

/* queue.c - see queue.h. */
#include "backend/cuda/queue.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "base/arena.h"

struct lvn_cuda_queue {
    struct lvn_device_queue base;
    struct lvn_cuda_stream *stream;
    struct lvn_cuda_event *computed; /* everything that programs launched before is done */
    struct lvn_cuda_event *reached;  /* everything submitted to the queue so far is done */
    bool pending;                    /* it contains work that `work` does not wait for yet */
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

static enum lvn_status wait_for(const struct lvn_cuda_device *d, struct lvn_cuda_stream *s)
{
    enum { PATIENCE = 2000, CHECK = 200 };
    const struct timespec nap = {.tv_nsec = 20000};
    int answer = lvn_cuda.stream_query(s);
    for (int64_t n = 1; answer == LVN_CUDA_NOT_READY; n++, answer = lvn_cuda.stream_query(s)) {
        if (n % CHECK == 0) LVN_TRY(check_all(d));
        if (n < PATIENCE)
            sched_yield();
        else
            nanosleep(&nap, NULL);
    }
    LVN_CUDA_DO(d, answer, "computing");
    return check_all(d);
}

enum lvn_status lvn_cuda_queues_wait(struct lvn_cuda_device *d)
{
    return wait_for(d, d->work);
}

static enum lvn_status end_queue(struct lvn_cuda_device *d, struct lvn_cuda_queue *q)
{
    if (!q->pending) return LVN_OK;
    q->pending = false;
    LVN_CUDA_DO(d, lvn_cuda.event_record(q->reached, q->stream), "recording the end of a sum");
    LVN_CUDA_DO(d, lvn_cuda.stream_wait(d->work, q->reached, 0), "making a sum wait");
    return LVN_OK;
}

enum lvn_status lvn_cuda_queues_end(struct lvn_cuda_device *d)
{
    for (struct lvn_cuda_queue *q = d->queues; q; q = q->next) LVN_TRY(end_queue(d, q));
    return LVN_OK;
}

/* --- functions for communication libraries --- */

static enum lvn_status use(const struct lvn_device *d)
{
    return lvn_cuda_use(lvn_cuda_of(d));
}

static enum lvn_status begin(struct lvn_device_queue *base)
{
    struct lvn_cuda_queue *q = queue_of(base);
    struct lvn_cuda_device *d = lvn_cuda_of(base->device);
    LVN_CUDA_DO(d, lvn_cuda.event_record(q->computed, d->work), "recording the work that a sum waits for");
    LVN_CUDA_DO(d, lvn_cuda.stream_wait(q->stream, q->computed, 0), "making a sum wait");
    q->pending = true;
    return LVN_OK;
}

static enum lvn_status end(struct lvn_device_queue *q)
{
    return end_queue(lvn_cuda_of(q->device), queue_of(q));
}

static enum lvn_status finish(struct lvn_device_queue *q)
{
    return wait_for(lvn_cuda_of(q->device), queue_of(q)->stream);
}

static void close_queue(struct lvn_device_queue *base)
{
    struct lvn_cuda_queue *q = queue_of(base);
    struct lvn_cuda_device *d = lvn_cuda_of(base->device);
    struct lvn_cuda_queue **at = &d->queues;
    while (*at && *at != q) at = &(*at)->next;
    if (*at) *at = q->next;
    (void)lvn_cuda.context_use(d->context);
    if (q->computed) (void)lvn_cuda.event_free(q->computed);
    if (q->reached) (void)lvn_cuda.event_free(q->reached);
    if (q->stream) (void)lvn_cuda.stream_free(q->stream);
    free(q);
}

static enum lvn_status make(struct lvn_cuda_device *d, struct lvn_cuda_queue *q)
{
    LVN_TRY(lvn_cuda_use(d));
    LVN_CUDA_DO(d, lvn_cuda.stream_new(&q->stream, LVN_CUDA_NON_BLOCKING), "making a stream");
    LVN_CUDA_DO(d, lvn_cuda.event_new(&q->computed, LVN_CUDA_NO_TIMING), "making an event");
    LVN_CUDA_DO(d, lvn_cuda.event_new(&q->reached, LVN_CUDA_NO_TIMING), "making an event");
    return LVN_OK;
}

static enum lvn_status open_queue(struct lvn_device_queue **out, struct lvn_device *base,
                                  enum lvn_status (*check)(void *context), void *context)
{
    struct lvn_cuda_device *d = lvn_cuda_of(base);
    struct lvn_cuda_queue *q = lvn_calloc(1, sizeof *q);
    *out = NULL;
    if (!q) return LVN_MEMORY;
    *q = (struct lvn_cuda_queue){.base.device = base, .check = check, .context = context};
    enum lvn_status status = make(d, q);
    if (status != LVN_OK) {
        close_queue(&q->base);
        return status;
    }
    q->base.native = q->stream;
    q->next = d->queues;
    d->queues = q;
    *out = &q->base;
    return LVN_OK;
}

static void *address(const struct lvn_memory *m, int64_t offset)
{
    return (void *)(uintptr_t)lvn_cuda_address_of(m, offset);
}

const struct lvn_queue_ops lvn_cuda_queue_ops = {.open = open_queue,
                                                 .close = close_queue,
                                                 .use = use,
                                                 .begin = begin,
                                                 .end = end,
                                                 .finish = finish,
                                                 .address = address};

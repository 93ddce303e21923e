/* device.c - see device.h. */
#include "backend/cuda/device.h"

#include <stdlib.h>
#include <string.h>

#include "backend/cuda/nccl.h"
#include "base/arena.h"
#include "base/text.h"

enum lvn_status lvn_cuda_use(const struct lvn_cuda_device *d)
{
    LVN_CUDA_DO(d, lvn_cuda.context_use(d->context), "choosing a device");
    return LVN_OK;
}

static enum lvn_status make_parts(struct lvn_cuda_device *d)
{
    LVN_CUDA_DO(d, lvn_cuda.stream_new(&d->work, LVN_CUDA_NON_BLOCKING), "making a stream");
    LVN_CUDA_DO(d, lvn_cuda.stream_new(&d->reading, LVN_CUDA_NON_BLOCKING), "making a stream");
    LVN_CUDA_DO(d, lvn_cuda.event_new(&d->asked, LVN_CUDA_NO_TIMING), "making an event");
    LVN_CUDA_DO(d, lvn_cuda.event_new(&d->read, LVN_CUDA_NO_TIMING), "making an event");
    LVN_CUDA_DO(d, lvn_cuda.pinned_alloc((void **)&d->room, LVN_CUDA_PIECE, 0), "pinning memory");
    for (int k = 0; k < LVN_CUDA_PIECES; k++) {
        struct piece *p = &d->piece[k];
        LVN_CUDA_DO(d, lvn_cuda.pinned_alloc((void **)&p->p, LVN_CUDA_PIECE, 0), "pinning memory");
        LVN_CUDA_DO(d, lvn_cuda.event_new(&p->copied, LVN_CUDA_NO_TIMING), "making an event");
    }
    return LVN_OK;
}

enum lvn_status lvn_cuda_open(struct lvn_cuda_device *d, int number)
{
    int n, pools = 0;
    pthread_mutex_init(&d->lock, NULL);
    LVN_TRY(lvn_cuda_devices(&n));
    LVN_CHECK(number < n, ARG, "device %d is asked for, and this machine has %d that CUDA sees, numbered from 0",
              number, n);
    LVN_TRY(lvn_cuda_device_facts(&d->facts, number));
    LVN_CUDA_DO(d, lvn_cuda.device_attribute(&pools, LVN_CUDA_MEMORY_POOLS, d->facts.handle),
                "asking for memory pools");
    LVN_CHECK(pools, UNSUPPORTED, "device %d (%s) has no memory pools: a driver of CUDA 11.2 or later is wanted",
              number, d->facts.name);
    LVN_CUDA_DO(d, lvn_cuda.context_retain(&d->context, d->facts.handle), "taking the device");
    LVN_TRY(lvn_cuda_use(d));
    size_t available = 0, total = 0;
    LVN_CUDA_DO(d, lvn_cuda.memory_info(&available, &total), "asking for free memory");
    d->base.memory_bytes = (int64_t)available;
    return make_parts(d);
}

/* What cannot be released any more, because the device is lost, goes with the process. */
static void leave(int answer)
{
    (void)answer;
}

void lvn_cuda_close(struct lvn_cuda_device *d)
{
    if (d->context) {
        leave(lvn_cuda.context_use(d->context));
        lvn_cuda_group_free(d);
        if (d->work) leave(lvn_cuda.stream_finish(d->work));
        if (d->reading) leave(lvn_cuda.stream_finish(d->reading));
        for (int k = 0; k < LVN_CUDA_PIECES; k++) {
            if (d->piece[k].copied) leave(lvn_cuda.event_free(d->piece[k].copied));
            if (d->piece[k].p) leave(lvn_cuda.pinned_free(d->piece[k].p));
        }
        if (d->room) leave(lvn_cuda.pinned_free(d->room));
        if (d->asked) leave(lvn_cuda.event_free(d->asked));
        if (d->read) leave(lvn_cuda.event_free(d->read));
        if (d->work) leave(lvn_cuda.stream_free(d->work));
        if (d->reading) leave(lvn_cuda.stream_free(d->reading));
        leave(lvn_cuda.context_release(d->facts.handle));
    }
    pthread_mutex_destroy(&d->lock);
}

/* --- memory --- */

static enum lvn_status take(struct lvn_cuda_memory *m, struct lvn_cuda_device *d, int64_t bytes)
{
    size_t available = 0, total = 0;
    char want[LVN_NUMBER_TEXT], have[LVN_NUMBER_TEXT], all[LVN_NUMBER_TEXT];
    LVN_TRY(lvn_cuda_use(d));
    LVN_CUDA_DO(d, lvn_cuda.memory_info(&available, &total), "asking for free memory");
    int answer = lvn_cuda.memory_alloc(&m->at, (size_t)bytes, d->work);
    if (answer == LVN_CUDA_OUT_OF_MEMORY) m->at = 0;
    LVN_CHECK(answer != LVN_CUDA_OUT_OF_MEMORY, MEMORY,
              "device %d (%s) has %s of %s left, and %s are wanted: choose a smaller trainer.micro_batch_size, "
              "model.block_size or model, or end what else runs there (nvidia-smi)",
              d->facts.number, d->facts.name, lvn_bytes_text((int64_t)available, have),
              lvn_bytes_text((int64_t)total, all), lvn_bytes_text(bytes, want));
    LVN_CUDA_DO(d, answer, "taking memory");
    LVN_CUDA_DO(d, lvn_cuda.memory_zero(m->at, 0, (size_t)bytes, d->work), "clearing memory");
    return LVN_OK;
}

enum lvn_status lvn_cuda_alloc(struct lvn_memory **out, struct lvn_device *base, int64_t bytes)
{
    struct lvn_cuda_memory *m = lvn_calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return LVN_MEMORY;
    m->base = (struct lvn_memory){.device = base, .bytes = bytes};
    enum lvn_status status = take(m, lvn_cuda_of(base), bytes);
    if (status == LVN_OK)
        *out = &m->base;
    else
        lvn_cuda_free(&m->base);
    return status;
}

void lvn_cuda_free(struct lvn_memory *base)
{
    struct lvn_cuda_memory *m = (struct lvn_cuda_memory *)base;
    struct lvn_cuda_device *d = lvn_cuda_of(base->device);
    leave(lvn_cuda.context_use(d->context));
    if (m->at) leave(lvn_cuda.memory_free(m->at, d->work));
    free(m);
}

/* One piece of an upload, through pinned memory. */
static enum lvn_status upload(struct lvn_cuda_device *d, lvn_cuda_address to, const void *from, int64_t bytes)
{
    struct piece *p = &d->piece[d->next_piece];
    d->next_piece = (d->next_piece + 1) % LVN_CUDA_PIECES;
    LVN_CUDA_DO(d, lvn_cuda.event_finish(p->copied), "waiting for a copy to the device");
    memcpy(p->p, from, (size_t)bytes);
    LVN_CUDA_DO(d, lvn_cuda.upload(to, p->p, (size_t)bytes, d->work), "copying to the device");
    LVN_CUDA_DO(d, lvn_cuda.event_record(p->copied, d->work), "noting a copy to the device");
    return LVN_OK;
}

static int64_t piece_of(int64_t bytes)
{
    return bytes < LVN_CUDA_PIECE ? bytes : LVN_CUDA_PIECE;
}

enum lvn_status lvn_cuda_write(struct lvn_memory *to, int64_t offset, const void *from, int64_t bytes)
{
    struct lvn_cuda_device *d = lvn_cuda_of(to->device);
    enum lvn_status status = lvn_cuda_use(d);
    pthread_mutex_lock(&d->lock);
    for (int64_t at = 0; at < bytes && status == LVN_OK; at += LVN_CUDA_PIECE)
        status = upload(d, lvn_cuda_address_of(to, offset + at), (const char *)from + at, piece_of(bytes - at));
    pthread_mutex_unlock(&d->lock);
    return status;
}

static enum lvn_status download(struct lvn_cuda_device *d, void *to, lvn_cuda_address from, int64_t bytes)
{
    LVN_CUDA_DO(d, lvn_cuda.download(d->room, from, (size_t)bytes, d->reading), "copying from the device");
    LVN_CUDA_DO(d, lvn_cuda.event_record(d->read, d->reading), "noting a copy from the device");
    LVN_CUDA_DO(d, lvn_cuda.event_finish(d->read), "waiting for a copy from the device");
    memcpy(to, d->room, (size_t)bytes);
    return LVN_OK;
}

static enum lvn_status download_all(const struct lvn_memory *from, int64_t offset, char *to, int64_t bytes)
{
    struct lvn_cuda_device *d = lvn_cuda_of(from->device);
    LVN_TRY(lvn_cuda_use(d));
    LVN_CUDA_DO(d, lvn_cuda.event_record(d->asked, d->work), "noting what was asked for");
    LVN_CUDA_DO(d, lvn_cuda.stream_wait(d->reading, d->asked, 0), "ordering a copy from the device");
    for (int64_t at = 0; at < bytes; at += LVN_CUDA_PIECE)
        LVN_TRY(download(d, to + at, lvn_cuda_address_of(from, offset + at), piece_of(bytes - at)));
    return LVN_OK;
}

enum lvn_status lvn_cuda_read(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes)
{
    struct lvn_cuda_device *d = lvn_cuda_of(from->device);
    pthread_mutex_lock(&d->lock);
    enum lvn_status status = download_all(from, offset, to, bytes);
    pthread_mutex_unlock(&d->lock);
    return status;
}

enum lvn_status lvn_cuda_wait(struct lvn_device *base)
{
    struct lvn_cuda_device *d = lvn_cuda_of(base);
    LVN_TRY(lvn_cuda_use(d));
    if (d->group) return lvn_cuda_group_wait(d);
    LVN_CUDA_DO(d, lvn_cuda.stream_finish(d->work), "computing");
    return LVN_OK;
}

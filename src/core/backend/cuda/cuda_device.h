/* cuda_device.h - an open CUDA device: context, streams, pinned buffers, and its memory. cuda.c lists these functions
 * in its struct lvn_backend.
 *
 * Programs run on one stream, `work`, in order. Double-buffered memory (batches) is written on a separate stream to a
 * staging buffer on the device, which `work` copies to its destination before the next run. Reads use another stream,
 * after everything that was issued to `work` before; a checkpoint's thread reads on a third one, after everything
 * issued before the snapshot. Copies in either direction alternate between two pinned chunks: the device copies one
 * while the host fills or empties the other. */
#ifndef LVN_CUDA_DEVICE_H
#define LVN_CUDA_DEVICE_H

#include <pthread.h>

#include "backend/backend.h"
#include "backend/cuda/driver.h"

enum {
    LVN_CUDA_CHUNKS = 2,
    LVN_CUDA_MARKS = 8, /* number of marks that have their own event; an older mark uses the event of a later one */
    LVN_CUDA_CHUNK = 4 << 20,   /* bytes */
    LVN_CUDA_RESERVE = 1 << 30, /* bytes, an estimate: NCCL 0.3 GiB and more, cuBLASLt's kernels 0.1 to 0.4 GiB, local
                                   memory of kernels, graphs of steps */
};

struct lvn_cuda_loaded_module; /* modules.h */
struct lvn_cuda_products;      /* cublaslt.h */
struct lvn_cuda_queue;

/* A pinned buffer of LVN_CUDA_CHUNK bytes. */
struct lvn_cuda_chunk {
    char *p;                       /* pinned host memory */
    struct lvn_cuda_event *copied; /* recorded after the last copy from or to the chunk */
};

/* Copies from host to device. */
struct lvn_cuda_writer {
    struct lvn_cuda_stream *stream;
    struct lvn_cuda_chunk chunk[LVN_CUDA_CHUNKS];
    int next;
};

/* Copies from device to host. */
struct lvn_cuda_reader {
    const char *action; /* for messages */
    struct lvn_cuda_stream *stream;
    struct lvn_cuda_event *issued; /* recorded after everything that was issued to `work` before the read */
    struct lvn_cuda_chunk chunk[LVN_CUDA_CHUNKS];
};

/* The stream of all queues of communication libraries, and its events. */
struct lvn_cuda_comm_stream {
    struct lvn_cuda_stream *stream;                 /* NULL: no queue is open */
    struct lvn_cuda_event *computed;                /* everything that programs launched before is done */
    struct lvn_cuda_event *reached[LVN_CUDA_MARKS]; /* [mark % MARKS]: everything submitted before the mark is done */
    int64_t marks, ended;                           /* number of marks; the last one that `work` waits for */
    bool unmarked;                                  /* it contains work after the last mark */
};

struct lvn_cuda_device {
    struct lvn_device base;
    struct lvn_cuda_facts facts;
    void *context;
    struct lvn_cuda_stream *work;
    struct lvn_cuda_reader reader;
    struct lvn_cuda_reader snapshot_reader; /* created for the first snapshot; used by one thread at a time */
    struct lvn_cuda_writer writer;          /* on `work` */
    struct lvn_cuda_writer batch_writer;    /* to staging buffers; created with the first of them */
    struct lvn_cuda_event *sent;            /* recorded after the writes to the staging buffers */
    struct lvn_cuda_event *moved; /* recorded after the copies from the staging buffers, which are then free */
    struct lvn_cuda_memory *double_buffered; /* list of all double-buffered memory */
    struct lvn_cuda_loaded_module *modules;
    struct lvn_cuda_products *products; /* cuBLASLt; NULL: levin's kernels multiply matrices */
    struct lvn_cuda_queue *queues;      /* list of the queues of communication libraries */
    struct lvn_cuda_comm_stream comm;
    bool wgmma;           /* kernels that can use it do (LEVIN_WGMMA) */
    bool graphs;          /* runs are captured as graphs (LEVIN_CUDA_GRAPHS) */
    bool synchronous;     /* synchronize after each launch, so that errors name it (LEVIN_CUDA_WAIT) */
    pthread_mutex_t lock; /* guards chunks and `reader` */
};

struct lvn_cuda_memory {
    struct lvn_memory base;
    lvn_cuda_address address;
    lvn_cuda_address staging; /* staging buffer of double-buffered memory; 0: none */
    int64_t from, to;         /* range of `staging` that is still to be copied, in bytes */
    struct lvn_cuda_memory *next;
};

static inline struct lvn_cuda_device *lvn_cuda_of(const struct lvn_device *d)
{
    return (struct lvn_cuda_device *)(uintptr_t)d;
}

/* The address of an operand; 0: absent. */
static inline lvn_cuda_address lvn_cuda_address_of(const struct lvn_memory *m, int64_t offset)
{
    return m ? ((const struct lvn_cuda_memory *)m)->address + (lvn_cuda_address)offset : 0;
}

/* Make the device's context current in the calling thread. */
enum lvn_status lvn_cuda_use(const struct lvn_cuda_device *d) LVN_CHECKED;
/* LVN_CUDA_TRY() for a call on this device. */
#define LVN_CUDA_DO(d, result, action) LVN_CUDA_TRY(result, action, (d)->facts.number)

/* Value of a boolean environment variable: on or 1, off or 0. If it is unset or has another value (logged): `fallback`.
 */
bool lvn_cuda_switch(const char *name, bool fallback);

enum lvn_status lvn_cuda_open(struct lvn_cuda_device *d, int number) LVN_CHECKED;
void lvn_cuda_close(struct lvn_cuda_device *d); /* also for a device whose opening failed */

/* Functions of struct lvn_backend. */
enum lvn_status lvn_cuda_alloc(struct lvn_memory **out, struct lvn_device *d, int64_t bytes);
void lvn_cuda_free(struct lvn_memory *m);
enum lvn_status lvn_cuda_write(struct lvn_memory *to, int64_t offset, const void *from, int64_t bytes);
enum lvn_status lvn_cuda_double_buffer(struct lvn_memory *m);
/* Copy staged writes to their destinations, before anything issued to `work` later. */
enum lvn_status lvn_cuda_commit_writes(struct lvn_cuda_device *d) LVN_CHECKED;
enum lvn_status lvn_cuda_read(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes);
enum lvn_status lvn_cuda_snapshot(struct lvn_device *d);
enum lvn_status lvn_cuda_read_snapshot(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes);
enum lvn_status lvn_cuda_wait(struct lvn_device *d);

/* Queues for communication libraries: one stream that runs next to `work`. */
extern const struct lvn_queue_ops lvn_cuda_queue_ops;
/* Make `work` wait for everything that queues contain. */
enum lvn_status lvn_cuda_queues_end(struct lvn_cuda_device *d) LVN_CHECKED;

#endif

/* cuda_device.h - an open device: its context, its streams, pinned memory to copy through, and memory.
 *
 * Work is asked of one stream, in order. Batches are written beside it (beside()): a fourth stream fills a waiting room
 * on the device, and `work` moves what came there to its place before the next run. What is read goes through another,
 * once all that was asked for before has been done; what a thread reads beside the work (a checkpoint), through a
 * third, once all has been done that was asked for before the mark. Copies in either direction go through two pinned
 * pieces in turns: the device copies one while the processor is at the other. */
#ifndef LVN_CUDA_DEVICE_H
#define LVN_CUDA_DEVICE_H

#include <pthread.h>

#include "backend/backend.h"
#include "backend/cuda/driver.h"

enum {
    LVN_CUDA_PIECES = 2,
    LVN_CUDA_PIECE = 4 << 20,   /* bytes */
    LVN_CUDA_RESERVE = 1 << 30, /* bytes, by guess: NCCL 0.3 GiB and more, cuBLASLt's kernels 0.1 to 0.4, local memory
                                   of kernels, graphs of steps */
};

struct lvn_cuda_module_kept; /* modules.h */
struct lvn_cuda_products;    /* products.h */
struct lvn_cuda_group;       /* nccl.h */

struct lvn_cuda_piece {
    char *p; /* pinned */
    struct lvn_cuda_event *copied;
};

/* How memory gets to the device. */
struct lvn_cuda_writer {
    struct lvn_cuda_stream *stream;
    struct lvn_cuda_piece piece[LVN_CUDA_PIECES];
    int next;
};

/* How memory gets to the processor. */
struct lvn_cuda_reader {
    const char *what; /* is done, for sentences */
    struct lvn_cuda_stream *stream;
    struct lvn_cuda_event *asked; /* of `work`, before what is read */
    struct lvn_cuda_piece piece[LVN_CUDA_PIECES];
};

struct lvn_cuda_device {
    struct lvn_device base;
    struct lvn_cuda_facts facts;
    void *context;
    struct lvn_cuda_stream *work;
    struct lvn_cuda_reader reading, marked;  /* marked: made at the first mark; of one thread at a time */
    struct lvn_cuda_writer writing, sending; /* writing: in `work`; sending: made with the first waiting room */
    struct lvn_cuda_event *sent, *moved;     /* all that was sent has come; what had come has left the waiting rooms */
    struct lvn_cuda_memory *rooms;           /* all memory that has one */
    struct lvn_cuda_module_kept *modules;
    struct lvn_cuda_products *products; /* NULL: kernels make them */
    struct lvn_cuda_group *group;       /* with those of other ranks; NULL: none */
    bool graphs;                        /* runs are captured (LEVIN_CUDA_GRAPHS) */
    bool waits;                         /* each launch is waited for (LEVIN_CUDA_WAIT) */
    pthread_mutex_t lock;               /* of pieces and of `reading` */
};

struct lvn_cuda_memory {
    struct lvn_memory base;
    lvn_cuda_address at;
    lvn_cuda_address capacity; /* where what is written waits; 0: there is none */
    int64_t from, to;          /* bytes that wait */
    struct lvn_cuda_memory *next;
};

static inline struct lvn_cuda_device *lvn_cuda_of(const struct lvn_device *d)
{
    return (struct lvn_cuda_device *)(uintptr_t)d;
}

/* The address of an operand; 0: it is absent. */
static inline lvn_cuda_address lvn_cuda_address_of(const struct lvn_memory *m, int64_t offset)
{
    return m ? ((const struct lvn_cuda_memory *)m)->at + (lvn_cuda_address)offset : 0;
}

/* The calling thread's calls are for this device. */
enum lvn_status lvn_cuda_use(const struct lvn_cuda_device *d) LVN_CHECKED;
/* What the driver answered to `what` on this device. */
#define LVN_CUDA_DO(d, answer, what) LVN_CUDA_TRY(answer, what, (d)->facts.number)

/* What the environment variable says: on or 1, off or 0. Unset, or set to something else, which is warned of:
 * `initial`. */
bool lvn_cuda_switch(const char *name, bool initial);

enum lvn_status lvn_cuda_open(struct lvn_cuda_device *d, int number) LVN_CHECKED;
void lvn_cuda_close(struct lvn_cuda_device *d); /* of one that failed to open, too */

/* Functions of the backend. */
enum lvn_status lvn_cuda_alloc(struct lvn_memory **out, struct lvn_device *d, int64_t bytes);
void lvn_cuda_free(struct lvn_memory *m);
enum lvn_status lvn_cuda_write(struct lvn_memory *to, int64_t offset, const void *from, int64_t bytes);
enum lvn_status lvn_cuda_double_buffer(struct lvn_memory *m);
/* What was sent to waiting rooms is there for what `work` is asked for from now on. */
enum lvn_status lvn_cuda_arrive(struct lvn_cuda_device *d) LVN_CHECKED;
enum lvn_status lvn_cuda_read(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes);
enum lvn_status lvn_cuda_snapshot(struct lvn_device *d);
enum lvn_status lvn_cuda_read_snapshot(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes);
enum lvn_status lvn_cuda_wait(struct lvn_device *d);

#endif

/* backend.h - the interface of a backend: a kind of device that provides memory and kernels, and runs whole programs.
 *
 * The engine (src/run/engine) calls it. A device is opened, a program is planned for it (the memory planning pass calls
 * choose() for the kernel of every instruction), memory is allocated, program and memory are bound, and the bound
 * program runs, once per step. Everything that depends on neither the step nor the micro-batch is done when the program
 * is bound: resolving pointers, setting kernel arguments, capturing a graph.
 *
 * A device executes write(), read() and run() asynchronously, in the order of the calls; wait() synchronizes.
 *
 * A backend is one const instance of struct lvn_backend at the end of its file, and its line in backends.def. It knows
 * nothing about models, training, or other ranks, whose collectives the engine passes in (struct lvn_collectives). */
#ifndef LVN_BACKEND_H
#define LVN_BACKEND_H

#include "passes/launch_order.h"

struct lvn_text;

/* An open device. Backends extend this struct and the next two with private fields. */
struct lvn_device {
    const struct lvn_backend *backend;
    enum lvn_dtype real;  /* the real type: fp32 or fp64 */
    int threads;          /* CPU threads for computing */
    int64_t memory_bytes; /* available to a run: free memory when the device was opened (OpenCL: all of it, since it has
                             no query for free memory), minus the reserve; 0: host memory */
    bool tf32;            /* fp32 matrix multiplications round their operands to TF32 */
    char note[320];       /* logged when a run starts; "": none */
    char title[128];      /* "device 0 (NVIDIA H100)", for messages; "": the backend has no queues */
};
/* Memory of a device. */
struct lvn_memory {
    struct lvn_device *device;
    int64_t bytes;
    void *host; /* host address; NULL: only write() and read() can access the memory */
};
/* A program bound to memory. */
struct lvn_bound {
    struct lvn_device *device;
};

/* A device of this machine. */
struct lvn_device_facts {
    char name[128];
    char driver[64];
    char id[128];   /* identifies the device on this host in every process; "": unknown */
    char card[32];  /* identifies the physical card, of which a device may be a part (MIG); "": unknown */
    int64_t memory; /* bytes */
    bool gpu;       /* trainer.accelerator gpu may use it */
    bool xpu;       /* an Intel GPU */
};

struct lvn_device_options {
    enum lvn_dtype real;
    int threads; /* at least 1 */
    int number;  /* index of the device if the backend has several */
    bool tf32;   /* fp32 matrix multiplications may round their operands to TF32 if the device supports it */
    bool tunes;  /* the caller will call tune() of the backend: plan scratch for all algorithms that it may choose */
};

/* The memory that a program is bound to. */
struct lvn_binding {
    struct lvn_memory
        *buffer[LVN_BUFFER_COUNT];    /* NULL: not used by the program. See `inputs` and `caches` for INPUT and CACHE */
    struct lvn_memory *const *inputs; /* [graph->n_inputs]; micro-batch m is at m times the bytes of one */
    struct lvn_memory *const *caches; /* [graph->n_caches] */
    int64_t cache_batch;              /* index of this program's part if several programs share the caches */
    struct lvn_step *step;            /* host memory, read when a run begins */
    int64_t micro_batch_rows;         /* samples per micro-batch, by which first_row advances */
};

/* One run: micro-batches 0..n-1, then the update instructions, if any. */
struct lvn_execution {
    int64_t n_micro_batches;
    bool without_update;                       /* stop after backward */
    const struct lvn_collectives *collectives; /* NULL: collectives do nothing */
    /* Hooks, called on the calling thread; NULL: none. */
    void *context;
    void (*before_update)(void *context); /* backward is done; parameters and state are about to change */
    /* After each instruction, including collectives. */
    void (*launched)(void *context, const struct lvn_launch_order *at);
};

/* Peak rates of a device, measured by rate(). Utilization is reported relative to the device's measured matrix
 * multiplications, the speed of generation relative to its memory bandwidth. A measurement takes a fraction of a second
 * and returns the best of several tries. */
enum lvn_rate {
    LVN_RATE_PRODUCTS,      /* FLOP/s of fp32 matrix multiplications of a GPT's sizes */
    LVN_RATE_PRODUCTS_BF16, /* the same if operands may be rounded to bf16 */
    LVN_RATE_READING,       /* bytes/s read from memory */
};

/* A queue of a device (a CUDA stream) that runs concurrently with programs. Communication libraries that work on this
 * backend's memory (comm/comm_kinds.def) submit their work to it and need nothing else of a device. Work of all queues
 * of a device runs in the order in which it was submitted. */
struct lvn_device_queue {
    struct lvn_device *device;
    void *native; /* the native handle: for CUDA a stream */
};
struct lvn_queue_ops {
    /* check: polled while the host waits for the device; if it fails, the wait ends with its status. */
    enum lvn_status (*open)(struct lvn_device_queue **out, struct lvn_device *d,
                            enum lvn_status (*check)(void *context), void *context);
    void (*close)(struct lvn_device_queue *q); /* its work must be complete; close it before the device */
    /* Make the device current for library calls of this thread. */
    enum lvn_status (*use)(const struct lvn_device *d);
    /* Work submitted to the queue after this call waits for everything that programs launched before it. */
    enum lvn_status (*begin)(struct lvn_device_queue *q);
    /* Number the work that is in the device's queues. */
    enum lvn_status (*mark)(struct lvn_device_queue *q, int64_t *mark);
    /* Programs launched after this call wait for the work up to the mark, and for no later work. */
    enum lvn_status (*end)(struct lvn_device_queue *q, int64_t mark);
    /* Block the host until the queue is empty. */
    enum lvn_status (*finish)(struct lvn_device_queue *q);
    void *(*address)(const struct lvn_memory *m, int64_t offset); /* for library calls */
    /* Measure d->memory_bytes again, after a communication library has taken memory of the device. */
    enum lvn_status (*update_memory)(struct lvn_device *d);
};

/* Algorithms that a device chooses by measuring. They decide bits, so a run records them, and all ranks use those of
 * rank 0. A choice is a line of text, valid for one kind of device and one version of its library. */
struct lvn_tuned {
    int measured; /* choices that were made by measuring, and stored for later runs */
    int refused;  /* recorded choices that the library does not accept now */
    int first;    /* uses of the library's first algorithm although there are several, or another was recorded */
};
struct lvn_tuning_ops {
    /* Use these lines in tune(). */
    enum lvn_status (*use_recorded)(struct lvn_device *d, const char *lines);
    /* Choose the algorithms of a bound program that has not run: those of the lines; if `measure`, of the others those
     * of this machine's cache, or the fastest. Overwrites memory that the program writes. Adds to *t. */
    enum lvn_status (*tune)(struct lvn_bound *b, bool measure, struct lvn_tuned *t);
    /* Append the lines of all choices that the device uses. */
    void (*list)(const struct lvn_device *d, struct lvn_text *out);
};

struct lvn_backend {
    const char *name;            /* value of trainer.accelerator */
    const char *description;     /* a noun phrase, for messages */
    bool fp16;                   /* has kernels for fp16 values */
    bool packed;                 /* linear layers accept weights in packed blocks */
    bool rounds_decoding;        /* in mixed precision, multiplications of decoding may round its fp32 activations */
    bool hides;                  /* attention supports hidden ranges of keys (graph.h) */
    bool host_memory;            /* the host reads and writes its memory in place */
    bool computes;               /* false: for planning only; it has no memory, and a run only reports its launches */
    int64_t micro_batch_tokens;  /* a larger micro-batch needs more memory and is not faster; 0: not known */
    struct lvn_library *library; /* library that provides its devices; NULL: none */
    int64_t reserve;             /* bytes; see lvn_backend_reserve() */
    /* Facts of device i; false: no more devices. NULL: it computes on the CPU or not at all. */
    bool (*describe)(int i, struct lvn_device_facts *f);
    /* For backends that need long to find devices: should trainer.accelerator auto search here? NULL: always. */
    bool (*for_auto)(void);

    enum lvn_status (*open)(struct lvn_device **out, const struct lvn_device_options *o);
    void (*close)(struct lvn_device *d);

    /* Zeroed memory, aligned for operands of any type. */
    enum lvn_status (*alloc)(struct lvn_memory **out, struct lvn_device *d, int64_t bytes);
    void (*free)(struct lvn_memory *m);
    enum lvn_status (*write)(struct lvn_memory *to, int64_t offset, const void *from, int64_t bytes);
    enum lvn_status (*read)(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes);
    /* Make later writes to m asynchronous by double buffering, which needs the same amount of device memory again. They
     * become visible to the next run or read. NULL: writes cannot overlap with a run. */
    enum lvn_status (*double_buffer)(struct lvn_memory *m);
    /* For lvn_device_snapshot(). NULL: a read does not wait for earlier runs. */
    enum lvn_status (*snapshot)(struct lvn_device *d);
    enum lvn_status (*read_snapshot)(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes);
    int64_t staging; /* bytes of host memory that the first snapshot allocates */

    /* Choose the kernel of a planned instruction: set i->kernel, *scratch to the bytes that it needs, and i->rounds,
     * which is 0 on entry. UNSUPPORTED with a message: the backend has no kernel. Backends of GPUs accept NULL for d,
     * to plan for a device that this machine does not have. */
    enum lvn_status (*choose)(const struct lvn_device *d, struct lvn_instr *i, int64_t *scratch);
    /* Program and memory must outlive the bound program. */
    enum lvn_status (*bind)(struct lvn_bound **out, const struct lvn_program *p, const struct lvn_binding *b);
    void (*unbind)(struct lvn_bound *b);
    /* COMM: a collective failed and recorded the error; nothing was updated. */
    enum lvn_status (*run)(struct lvn_bound *b, const struct lvn_execution *r);
    /* Wait until all calls so far have been executed; returns their first error. NULL: calls are synchronous. */
    enum lvn_status (*wait)(struct lvn_device *d);

    enum lvn_status (*rate)(struct lvn_device *d, enum lvn_rate rate, double *per_s); /* NULL: not measured */
    const struct lvn_queue_ops *queues;  /* NULL: collectives are staged through host memory */
    const struct lvn_tuning_ops *tuning; /* NULL: nothing is measured */
};

/* The backend of this name; NULL: none. gpu: the first one that finds a GPU; xpu: the first one that finds an Intel
 * GPU; if none does, a backend whose open() fails with the reason. auto: like gpu, otherwise the first of the table. */
const struct lvn_backend *lvn_backend_find(const char *name);
/* Entry i of the table; NULL: no more. */
const struct lvn_backend *lvn_backend_at(int i);
/* Bytes of a device with this much memory that no plan may use, because drivers and libraries allocate them after a run
 * has started: `reserve`, but at most a sixteenth of the memory. `levin plan` and runs both leave them free. */
int64_t lvn_backend_reserve(const struct lvn_backend *b, int64_t memory);
/* Number of devices that the backend can open; 0 for the CPU. */
int lvn_backend_devices(const struct lvn_backend *b);
/* The reason why the backend has no GPU or, if it has one, no Intel GPU. Only for backends with describe(). */
void lvn_backend_why_none(const struct lvn_backend *b, char *text, size_t capacity);

/* What computes: the device with the library of its matrix multiplications, or the backend's name. */
static inline const char *lvn_device_text(const struct lvn_device *d)
{
    return *d->note ? d->note : d->backend->name;
}

/* See wait() of the backend. */
enum lvn_status lvn_device_wait(struct lvn_device *d) LVN_CHECKED;
/* *per_s is 0 if the backend does not measure this rate. */
enum lvn_status lvn_device_rate(struct lvn_device *d, enum lvn_rate rate, double *per_s) LVN_CHECKED;

/* --- memory of any backend --- */

/* *out is NULL for 0 bytes. */
enum lvn_status lvn_memory_new(struct lvn_memory **out, struct lvn_device *d, int64_t bytes) LVN_CHECKED;
void lvn_memory_free(struct lvn_memory *m); /* does nothing if m is NULL */
enum lvn_status lvn_memory_write(struct lvn_memory *to, int64_t offset, const void *from, int64_t bytes) LVN_CHECKED;
/* Make later writes to m asynchronous by double buffering, which needs the same amount of device memory again. Does
 * nothing if the backend cannot do that. */
enum lvn_status lvn_memory_double_buffer(struct lvn_memory *m) LVN_CHECKED;
/* Synchronous. */
enum lvn_status lvn_memory_read(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes) LVN_CHECKED;
/* Take a device snapshot. From then on one other thread may read memory as it was at the time of this call with
 * lvn_memory_read_snapshot(), concurrently with later launches. The caller must not change memory that is still to be
 * read. */
enum lvn_status lvn_device_snapshot(struct lvn_device *d) LVN_CHECKED;
enum lvn_status lvn_memory_read_snapshot(const struct lvn_memory *from, int64_t offset, void *to,
                                         int64_t bytes) LVN_CHECKED;
/* A read-only view: the bytes in place, or copied to `buffer` if the host cannot access the memory. NULL: the copy
 * failed and recorded the error. */
const void *lvn_memory_view(const struct lvn_memory *m, int64_t offset, int64_t bytes, void *buffer);

/* A window for reading and writing: the bytes in place, or a copy, which is filled if `fill` is set and written back if
 * the window is closed with `write_back`. Close it even if opening failed. */
struct lvn_window {
    struct lvn_memory *memory;
    int64_t offset;
    int64_t bytes;
    void *p; /* the bytes, or their copy */
};
enum lvn_status lvn_window_open(struct lvn_window *w, struct lvn_memory *m, int64_t offset, int64_t bytes,
                                bool fill) LVN_CHECKED;
enum lvn_status lvn_window_close(struct lvn_window *w, bool write_back) LVN_CHECKED;

#endif

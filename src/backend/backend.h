/* backend.h - what a kind of device must supply: memory, kernels, and running whole programs.
 *
 * One const instance stands at the end of a backend's file, and its line in backends.def. A device is opened, a program
 * is planned for it (the place pass asks choose() for every kernel), its memory is allocated, program and memory are
 * bound, and what is bound runs. Whatever depends on neither the step nor the micro-batch is done when it is bound:
 * resolving pointers, setting arguments, capturing a graph.
 *
 * A device works through what it is asked for (write, read, run) in that order, and may be behind: wait() waits. */
#ifndef LVN_BACKEND_H
#define LVN_BACKEND_H

#include "passes/program.h"

/* An open device, some memory of it, a program bound to memory. Backends put more behind these. */
struct lvn_device {
    const struct lvn_backend *backend;
    enum lvn_dtype real;  /* what real numbers are: fp32 or fp64 */
    int threads;          /* of the processor, that compute */
    int64_t memory_bytes; /* of its own, for a run: free when it was opened, less the reserve; 0: the processor's */
    bool tf32;            /* products of fp32 round their operands to TF32 */
    char note[320];       /* what a run should say of it at its start; "": nothing */
};
struct lvn_memory {
    struct lvn_device *device;
    int64_t bytes;
    void *host; /* where the processor sees it; NULL: nowhere, and only write() and read() reach it */
};
struct lvn_bound {
    struct lvn_device *device;
};

/* What a backend finds on this machine. */
struct lvn_device_facts {
    char name[128], driver[64];
    char id[128];   /* of this device and no other of the host, whoever asks; "": it has none */
    int64_t memory; /* bytes */
    bool gpu;       /* what trainer.accelerator gpu may take */
    bool xpu;       /* an Intel GPU */
};

struct lvn_device_options {
    enum lvn_dtype real;
    int threads; /* at least 1 */
    int number;  /* which device, where the backend has several */
    bool tf32;   /* products of fp32 may round their operands to TF32, where the device has that */
};

/* Where the buffers lie. */
struct lvn_binding {
    struct lvn_memory *buffer[LVN_BUFFER_COUNT]; /* NULL: the program uses none; INPUT and CACHE: see below */
    struct lvn_memory *const *inputs; /* [graph->n_inputs], of micro-batch 0; micro-batch m lies m times its bytes on */
    struct lvn_memory *const *caches; /* [graph->n_caches] */
    int64_t cache_batch;              /* the caches hold those of several programs: of which number the program's are */
    struct lvn_step *step;            /* the processor's: read when a run begins */
    int64_t micro_batch_rows;         /* samples in a micro-batch: first_row moves on by so many */
};

/* One run: micro-batches 0..n-1, then the update instructions, if any. */
struct lvn_execution {
    int64_t n_micro_batches;
    bool without_update;                       /* stop behind backward */
    const struct lvn_collectives *collectives; /* NULL: those of the program do nothing */
    /* Hooks, on the calling thread; NULL: off. */
    void *context;
    void (*before_update)(void *context); /* backward is done; parameters and state are about to change */
    void (*launched)(void *context,
                     const struct lvn_launch_order *at); /* each instruction, collectives too: it is done */
};

/* What a device does at best in a second, measured: utilisation is told against its own products, the speed of
 * generation against its memory. Each takes a fraction of a second, and the best try counts. */
enum lvn_rate {
    LVN_RATE_PRODUCTS,      /* floating-point operations of matrix products of a GPT's sizes, in fp32 */
    LVN_RATE_PRODUCTS_BF16, /* of operands that may be rounded to bf16 */
    LVN_RATE_READING,       /* bytes read from memory */
};

/* Devices of several ranks that exchange numbers by themselves, over a library of theirs and a queue of their own
 * beside what they compute. From join() on the collectives of programs go that way, but of those that run one
 * instruction after the other for a hook (struct lvn_execution). Sums in a fixed order are not among what it can do. */
enum { LVN_GROUP_ID = 128 };
struct lvn_group_options {
    int rank, size;
    const char *host;      /* of this rank, for sentences */
    char id[LVN_GROUP_ID]; /* that rank 0 has made */
};
struct lvn_group_ops {
    const char *name;
    /* Open the library, "" or NULL: the loader's own; what it is, for people. */
    enum lvn_status (*open)(const char *library, char describe[400]);
    enum lvn_status (*make_id)(char id[LVN_GROUP_ID]);
    /* All ranks, each with a device of its own. The device leaves when it is closed. */
    enum lvn_status (*join)(struct lvn_device *d, const struct lvn_group_options *o);
    /* What is under way ends, and run() or wait() fails with COMM. Any thread; may take long. */
    void (*abort)(struct lvn_device *d);
};

struct lvn_backend {
    const char *name, *what;     /* for trainer.accelerator, and in one sentence */
    bool fp16;                   /* has kernels for values in fp16 */
    bool outers;                 /* has kernels for gradients that are not written (ops/outer.h) */
    bool computes;               /* else it only plans: it has no memory, and a run tells its launches alone */
    struct lvn_library *library; /* that finds its devices; NULL: none */
    int64_t reserve;             /* see lvn_backend_reserve() */
    /* Its device number i; false: there are no more. NULL: it computes on the processor, or nowhere. */
    bool (*describe)(int i, struct lvn_device_facts *f);
    /* Is it worth asking for trainer.accelerator auto, where asking takes time? NULL: it takes none. */
    bool (*for_auto)(void);

    enum lvn_status (*open)(struct lvn_device **out, const struct lvn_device_options *o);
    void (*close)(struct lvn_device *d);

    /* Zeroed, for operands of any type. */
    enum lvn_status (*alloc)(struct lvn_memory **out, struct lvn_device *d, int64_t bytes);
    void (*free)(struct lvn_memory *m);
    enum lvn_status (*write)(struct lvn_memory *to, int64_t offset, const void *from, int64_t bytes);
    enum lvn_status (*read)(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes);
    /* What is written to m from now on goes there beside what runs, by way of as much memory again: the next run or
     * read finds it. NULL: nothing to gain. */
    enum lvn_status (*beside)(struct lvn_memory *m);
    /* Reading beside what runs; NULL: a read waits for nothing anyhow. See lvn_device_snapshot(). `staging` bytes of
     * the processor's memory are taken for it at the first mark. */
    enum lvn_status (*mark)(struct lvn_device *d);
    enum lvn_status (*read_marked)(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes);
    int64_t staging;

    /* The kernel of a planned instruction, into i->kernel, and the bytes of scratch that it wants. UNSUPPORTED with a
     * sentence where there is none. d: backends of GPUs take NULL, too, for one that is not here. */
    enum lvn_status (*choose)(const struct lvn_device *d, struct lvn_instr *i, int64_t *scratch);
    /* The program and the memory must outlive what is bound. */
    enum lvn_status (*bind)(struct lvn_bound **out, const struct lvn_program *p, const struct lvn_binding *b);
    void (*unbind)(struct lvn_bound *b);
    /* COMM: a collective failed, and recorded why; nothing was updated. */
    enum lvn_status (*run)(struct lvn_bound *b, const struct lvn_execution *r);
    /* Until everything asked for is done; what went wrong in it. */
    enum lvn_status (*wait)(struct lvn_device *d);

    enum lvn_status (*rate)(struct lvn_device *d, enum lvn_rate what, double *per_s); /* NULL: not measured */
    const struct lvn_group_ops *group; /* NULL: its collectives are staged in the processor's memory */
};

/* The backend of this name; gpu: the first that finds a GPU, xpu: an Intel GPU, or, where none does, one that cannot be
 * opened and says why; auto: as gpu, or else the first of the table. NULL: there is none. Number i of the table; NULL:
 * there are no more. */
const struct lvn_backend *lvn_backend_find(const char *name);
const struct lvn_backend *lvn_backend_at(int i);
/* Bytes of a device with this much memory that no plan counts, for drivers and libraries take them when a run has
 * begun: `reserve`, a sixteenth of the memory at most. `levin plan` and runs leave them free alike. */
int64_t lvn_backend_reserve(const struct lvn_backend *b, int64_t memory);
/* How many devices the backend could open; 0 where it is the processor. */
int lvn_backend_devices(const struct lvn_backend *b);
/* Why it has no GPU, as a sentence. Only for one that describes devices. */
void lvn_backend_why_none(const struct lvn_backend *b, char *text, size_t capacity);

/* 0: the backend does not measure it. */
enum lvn_status lvn_device_rate(struct lvn_device *d, enum lvn_rate what, double *per_s) LVN_CHECKED;

/* --- memory, whoever has it --- */

/* NULL for no bytes. */
enum lvn_status lvn_memory_new(struct lvn_memory **out, struct lvn_device *d, int64_t bytes) LVN_CHECKED;
void lvn_memory_free(struct lvn_memory *m); /* NULL: nothing */
enum lvn_status lvn_memory_write(struct lvn_memory *to, int64_t offset, const void *from, int64_t bytes) LVN_CHECKED;
/* Later writes go there beside what runs, where the backend can do that. */
enum lvn_status lvn_memory_double_buffer(struct lvn_memory *m) LVN_CHECKED;
/* `to` holds the bytes when it returns. */
enum lvn_status lvn_memory_read(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes) LVN_CHECKED;
/* From now on one thread may read, beside the one that works with the device and whatever that asks for, what memory
 * held at this moment. Who changes memory that is still to be read must wait until it has been. */
enum lvn_status lvn_device_snapshot(struct lvn_device *d) LVN_CHECKED;
/* What the calling thread reads is that: true, until false. */
void lvn_read_from_snapshot(bool they_are);
/* To look at: the bytes where they lie, or copied into `room`. NULL: that failed, and was recorded. */
const void *lvn_memory_view(const struct lvn_memory *m, int64_t offset, int64_t bytes, void *capacity);

/* To read and to change: the bytes where they lie, or a copy, which is read when `fill` says so and written back when
 * the window is closed with `keep`. Close what was opened, whatever it returned. */
struct lvn_window {
    struct lvn_memory *memory;
    int64_t offset, bytes;
    void *p;
};
enum lvn_status lvn_window_open(struct lvn_window *w, struct lvn_memory *m, int64_t offset, int64_t bytes,
                                bool fill) LVN_CHECKED;
enum lvn_status lvn_window_close(struct lvn_window *w, bool keep) LVN_CHECKED;

#endif

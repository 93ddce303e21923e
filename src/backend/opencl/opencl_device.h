/* opencl_device.h - an open device of OpenCL, and its memory: private to backend/opencl. */
#ifndef LVN_OPENCL_DEVICE_H
#define LVN_OPENCL_DEVICE_H

#include "backend/gpu/gpu_program.h"
#include "backend/opencl/cl.h"

enum {
    LVN_OPENCL_SMALL = 256,         /* bytes of a write that is copied, so that nothing waits for it */
    LVN_OPENCL_INTEL = 0x8086,      /* its number among the makers of devices for PCI */
    LVN_OPENCL_WRITES = 64,         /* that may be under way */
    LVN_OPENCL_RESERVE = 512 << 20, /* bytes, by guess: what the driver and kernels with local memory take */
};

struct lvn_opencl_device {
    struct lvn_device base;
    void *id, *context, *queue;
    void *marked, *sending;           /* queues beside the work: what is read there, what is written; NULL: not yet */
    void *at_mark;                    /* the event of all that was asked for before the mark */
    struct lvn_opencl_memory *beside; /* all memory that is written there */
    bool part;                        /* id is ours to release */
    char own[128];                    /* for struct lvn_device_facts */
    char name[128], driver[64], platform[64], version[64];
    int64_t memory, largest; /* bytes: in all, in one buffer */
    bool cpu, intel, has_double, divides_exactly;
    bool shares_memory;        /* with the processor */
    bool relaxed;              /* a GPU that gives out more than `largest` where it is told so, and kernels are */
    bool beyond;               /* it did */
    enum lvn_gpu_variant form; /* of launches that have two; unknown: the faster one */
    bool units;                /* of these those that are for lvn_gpu_choose() */
    bool large_registers;      /* an Intel GPU with matrix units whose compiler takes the option for 256 registers */
    int matrix; /* items of a sub-group that multiplies matrices of bf16, 16 or 8; 0: there is no unit for it */
    char small[LVN_OPENCL_WRITES][LVN_OPENCL_SMALL];
    int n_small;
    struct lvn_opencl_text *texts; /* what was compiled on it */
};

struct lvn_opencl_memory {
    struct lvn_memory base;
    void *buffer;
    void *capacity;     /* where what is written beside the work waits; NULL: there is none */
    void *sent, *moved; /* events of the last copy to there, and from there */
    int64_t from, to;   /* bytes that wait */
    struct lvn_opencl_memory *next;
};

static inline void *lvn_opencl_buffer(const struct lvn_memory *m)
{
    return ((const struct lvn_opencl_memory *)m)->buffer;
}

/* Number `number` of all devices, or d->id is NULL; returns how many platforms count. Leave it always. */
int lvn_opencl_find(struct lvn_opencl_device *d, int number);
void lvn_opencl_leave(struct lvn_opencl_device *d);
/* Is it there, and large enough for kernels? */
enum lvn_status lvn_opencl_check(const struct lvn_opencl_device *d, int platforms) LVN_CHECKED;

/* In front of every text, where tests put doubles of what this machine's compilers lack; NULL: nothing. And whether
 * that gives a device `units`. */
extern const char *lvn_opencl_prelude;
extern bool lvn_opencl_prelude_units;

/* Build options for a text that begins with these #define lines; part of every key in the cache of kernels. */
const char *lvn_opencl_options(const struct lvn_opencl_device *d, const char *defines);
/* Sets large_registers by a build of an empty kernel, since compilers refuse options that they do not know. The device
 * has a context. */
void lvn_opencl_probe_options(struct lvn_opencl_device *d);
/* The program of a module's text, from this device's, from the cache, or compiled. By any thread. */
extern const struct lvn_gpu_driver lvn_opencl_driver;
void lvn_opencl_texts_free(struct lvn_opencl_device *d);

/* --- launches that have two forms: tuning_variants.c --- */
/* For struct lvn_gpu_driver's faster. */
enum lvn_gpu_variant lvn_opencl_faster(const struct lvn_gpu_program *p, const struct lvn_gpu_launch *l);
/* Of a launch both forms of which are ready: the faster one, measured and kept. */
enum lvn_status lvn_opencl_measure(enum lvn_gpu_variant *form, struct lvn_gpu_program *p,
                                   struct lvn_gpu_launch *l) LVN_CHECKED;

#endif

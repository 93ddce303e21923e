/* opencl_device.h - an open OpenCL device and its memory; private to backend/opencl. */
#ifndef LVN_OPENCL_DEVICE_H
#define LVN_OPENCL_DEVICE_H

#include "backend/gpu/gpu_program.h"
#include "backend/opencl/cl.h"

enum {
    LVN_OPENCL_SMALL = 256,         /* bytes: writes up to this size are copied, and do not wait for the device */
    LVN_OPENCL_INTEL = 0x8086,      /* PCI vendor id */
    LVN_OPENCL_WRITES = 64,         /* small writes that may be pending */
    LVN_OPENCL_RESERVE = 512 << 20, /* bytes, an estimate: memory for the driver and for kernels with local memory */
};

struct lvn_opencl_device {
    struct lvn_device base;
    void *id;
    void *context;
    void *queue;                               /* runs programs, in order */
    void *snapshot_queue;                      /* reads of a snapshot; NULL: not created yet */
    void *copy_queue;                          /* writes to double-buffered memory; NULL: not created yet */
    void *snapshot_event;                      /* all calls before the snapshot are done */
    struct lvn_opencl_memory *double_buffered; /* list of all double-buffered memory */
    bool is_sub_device;                        /* id must be released */
    char unique_id[128];                       /* for struct lvn_device_facts */
    char name[128];
    char driver[64];
    char platform[64];
    char version[64];
    int64_t memory;       /* bytes */
    int64_t largest;      /* bytes: CL_DEVICE_MAX_MEM_ALLOC_SIZE */
    int64_t local;        /* bytes of local memory of a group */
    bool cpu;             /* it is a CPU */
    bool intel;           /* its vendor is Intel */
    bool has_double;      /* cl_khr_fp64 */
    bool divides_exactly; /* its compiler supports -cl-fp32-correctly-rounded-divide-sqrt */
    bool shares_memory;   /* its memory is host memory */
    bool can_pass_limit;  /* an Intel GPU, which allocates more than `largest` with an option for buffers and kernels */
    bool past_limit;      /* it has allocated more than `largest` */
    bool matrix_units;    /* the argument of lvn_gpu_choose() */
    bool large_registers; /* an Intel GPU with matrix units whose compiler has the option for 256 registers */
    int matrix;           /* sub-group size, 16 or 8, of its matrix multiply-add of bf16; 0: no matrix units */
    char small[LVN_OPENCL_WRITES][LVN_OPENCL_SMALL];
    int n_small;
    struct lvn_opencl_program *programs; /* compiled for it */
};

struct lvn_opencl_memory {
    struct lvn_memory base;
    void *buffer;
    void *staging;    /* staging buffer of double-buffered memory; NULL: writes go to `buffer` */
    void *sent;       /* event of the last write to `staging` */
    void *moved;      /* event of the last copy from `staging` to `buffer` */
    int64_t from, to; /* range of `staging` that is still to be copied, bytes */
    struct lvn_opencl_memory *next;
};

static inline void *lvn_opencl_buffer(const struct lvn_memory *m)
{
    return ((const struct lvn_opencl_memory *)m)->buffer;
}

/* --- opencl_device_find.c --- */

/* Find device `number` of all; d->id is NULL if there are fewer. Returns the number of platforms considered. Always
 * call lvn_opencl_release() afterwards. */
int lvn_opencl_find(struct lvn_opencl_device *d, int number);
void lvn_opencl_release(struct lvn_opencl_device *d);
/* UNSUPPORTED: the device was not found, or is too small for kernels. */
enum lvn_status lvn_opencl_check(const struct lvn_opencl_device *d, int platforms) LVN_CHECKED;

#endif

/* driver.h - the CUDA driver, opened at run time: the functions that the backend calls, and its errors as messages.
 *
 * This file declares what it uses; the build needs nothing of CUDA. Functions are called as lvn_cuda.launch(...) within
 * LVN_CUDA_TRY, which turns an error into a message with the action and the device. A lost device ends the run with
 * COMM, like a lost rank.
 *
 * Source: the CUDA driver API's reference; the suffixes _v2 belong to its binary interface since CUDA 4. */
#ifndef LVN_CUDA_DRIVER_H
#define LVN_CUDA_DRIVER_H

#include "host/library.h"

struct lvn_cuda_stream;
struct lvn_cuda_event;
struct lvn_cuda_module;
struct lvn_cuda_function;
struct lvn_cuda_graph;
struct lvn_cuda_graph_run; /* instantiated */
typedef uint64_t lvn_cuda_address;

/* Driver results with special handling. */
enum {
    LVN_CUDA_OUT_OF_MEMORY = 2,
    LVN_CUDA_STUB = 34,
    LVN_CUDA_UNAVAILABLE = 46,
    LVN_CUDA_NO_DEVICE = 100,
    LVN_CUDA_NO_BINARY_FOR_GPU = 209,
    LVN_CUDA_ECC = 214,
    LVN_CUDA_UNSUPPORTED_PTX = 222,
    LVN_CUDA_NOT_READY = 600,
    LVN_CUDA_SYSTEM_NOT_READY = 802,
    LVN_CUDA_SYSTEM_DRIVER_MISMATCH = 803,
    LVN_CUDA_COMPAT_NOT_SUPPORTED = 804,
};
enum lvn_cuda_attribute {
    LVN_CUDA_CAPABILITY_MAJOR = 75,
    LVN_CUDA_CAPABILITY_MINOR = 76,
    LVN_CUDA_MEMORY_POOLS = 115,
};
enum lvn_cuda_function_attribute { LVN_CUDA_SHARED_BYTES = 1, LVN_CUDA_LOCAL_BYTES = 3, LVN_CUDA_REGISTERS = 4 };
enum { LVN_CUDA_NON_BLOCKING = 1, LVN_CUDA_NO_TIMING = 2, LVN_CUDA_CAPTURE_RELAXED = 2 };
/* A stream's priority; the driver limits it to the highest one that the device has. Groups of a collective are placed
 * before those of a product that was launched earlier, of which more than fit are waiting. */
enum { LVN_CUDA_URGENT = -5 };

#define LVN_CUDA_FUNCTIONS(F)                                                                                          \
    F(int, init, (unsigned flags), "cuInit")                                                                           \
    F(int, driver_version, (int *version), "cuDriverGetVersion")                                                       \
    F(int, error_name, (int error, const char **text), "cuGetErrorName")                                               \
    F(int, error_text, (int error, const char **text), "cuGetErrorString")                                             \
    F(int, device_count, (int *n), "cuDeviceGetCount")                                                                 \
    F(int, device_get, (int *device, int number), "cuDeviceGet")                                                       \
    F(int, device_name, (char *name, int bytes, int device), "cuDeviceGetName")                                        \
    F(int, device_bus, (char *id, int bytes, int device), "cuDeviceGetPCIBusId")                                       \
    F(int, device_memory, (size_t * bytes, int device), "cuDeviceTotalMem_v2")                                         \
    F(int, device_id, (unsigned char id[16], int device), "cuDeviceGetUuid_v2")                                        \
    F(int, device_attribute, (int *value, int attribute, int device), "cuDeviceGetAttribute")                          \
    F(int, context_retain, (void **context, int device), "cuDevicePrimaryCtxRetain")                                   \
    F(int, context_release, (int device), "cuDevicePrimaryCtxRelease_v2")                                              \
    F(int, context_use, (void *context), "cuCtxSetCurrent")                                                            \
    F(int, memory_info, (size_t * available, size_t * total), "cuMemGetInfo_v2")                                       \
    F(int, memory_alloc, (lvn_cuda_address * p, size_t bytes, struct lvn_cuda_stream * s), "cuMemAllocAsync")          \
    F(int, memory_free, (lvn_cuda_address p, struct lvn_cuda_stream * s), "cuMemFreeAsync")                            \
    F(int, memory_zero, (lvn_cuda_address p, unsigned char value, size_t bytes, struct lvn_cuda_stream *s),            \
      "cuMemsetD8Async")                                                                                               \
    F(int, pinned_alloc, (void **p, size_t bytes, unsigned flags), "cuMemHostAlloc")                                   \
    F(int, pinned_free, (void *p), "cuMemFreeHost")                                                                    \
    F(int, upload, (lvn_cuda_address to, const void *from, size_t bytes, struct lvn_cuda_stream *s),                   \
      "cuMemcpyHtoDAsync_v2")                                                                                          \
    F(int, download, (void *to, lvn_cuda_address from, size_t bytes, struct lvn_cuda_stream *s),                       \
      "cuMemcpyDtoHAsync_v2")                                                                                          \
    F(int, copy, (lvn_cuda_address to, lvn_cuda_address from, size_t bytes, struct lvn_cuda_stream * s),               \
      "cuMemcpyDtoDAsync_v2")                                                                                          \
    F(int, stream_new, (struct lvn_cuda_stream * *s, unsigned flags, int priority), "cuStreamCreateWithPriority")      \
    F(int, stream_free, (struct lvn_cuda_stream * s), "cuStreamDestroy_v2")                                            \
    F(int, stream_finish, (struct lvn_cuda_stream * s), "cuStreamSynchronize")                                         \
    F(int, stream_query, (struct lvn_cuda_stream * s), "cuStreamQuery")                                                \
    F(int, stream_wait, (struct lvn_cuda_stream * s, struct lvn_cuda_event * e, unsigned flags), "cuStreamWaitEvent")  \
    F(int, event_new, (struct lvn_cuda_event * *e, unsigned flags), "cuEventCreate")                                   \
    F(int, event_free, (struct lvn_cuda_event * e), "cuEventDestroy_v2")                                               \
    F(int, event_record, (struct lvn_cuda_event * e, struct lvn_cuda_stream * s), "cuEventRecord")                     \
    F(int, event_finish, (struct lvn_cuda_event * e), "cuEventSynchronize")                                            \
    F(int, event_elapsed, (float *ms, struct lvn_cuda_event *from, struct lvn_cuda_event *to), "cuEventElapsedTime")   \
    F(int, module_load, (struct lvn_cuda_module * *m, const void *image), "cuModuleLoadData")                          \
    F(int, module_free, (struct lvn_cuda_module * m), "cuModuleUnload")                                                \
    F(int, module_function, (struct lvn_cuda_function * *f, struct lvn_cuda_module * m, const char *name),             \
      "cuModuleGetFunction")                                                                                           \
    F(int, function_attribute, (int *value, int attribute, struct lvn_cuda_function *f), "cuFuncGetAttribute")         \
    F(int, launch,                                                                                                     \
      (struct lvn_cuda_function * f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,     \
       unsigned shared_bytes, struct lvn_cuda_stream *s, void **arguments, void **extra),                              \
      "cuLaunchKernel")                                                                                                \
    F(int, capture_begin, (struct lvn_cuda_stream * s, int mode), "cuStreamBeginCapture_v2")                           \
    F(int, capture_end, (struct lvn_cuda_stream * s, struct lvn_cuda_graph * *g), "cuStreamEndCapture")                \
    F(int, graph_prepare, (struct lvn_cuda_graph_run * *run, struct lvn_cuda_graph * g, uint64_t flags),               \
      "cuGraphInstantiateWithFlags")                                                                                   \
    F(int, graph_free, (struct lvn_cuda_graph * g), "cuGraphDestroy")                                                  \
    F(int, graph_launch, (struct lvn_cuda_graph_run * run, struct lvn_cuda_stream * s), "cuGraphLaunch")               \
    F(int, graph_run_free, (struct lvn_cuda_graph_run * run), "cuGraphExecDestroy")

extern struct lvn_cuda_driver {
    LVN_CUDA_FUNCTIONS(LVN_LIBRARY_POINTER)
} lvn_cuda;

/* A device of this machine: index `number` within CUDA_VISIBLE_DEVICES. */
struct lvn_cuda_facts {
    int number;
    int handle;
    int capability; /* 90 for 9.0 */
    char name[100];
    int64_t bytes;
    unsigned char id[16]; /* its UUID, or that of the MIG instance */
    char card[32];        /* PCI bus id; equal for the MIG instances of a GPU */
    int driver;           /* 13020 for 13.2 */
};

/* Does the driver support a library of this major version of CUDA? True without a driver. */
bool lvn_cuda_driver_supports(int major);
/* The compute capability, 70 for 7.0, of the first device that was opened; before that the lowest of this machine's
 * devices; 0: not known, because the driver has not started. */
int lvn_cuda_capability(void);
void lvn_cuda_capability_set(int capability);
/* The number of devices; UNSUPPORTED with a message: no driver, or no device. */
enum lvn_status lvn_cuda_devices(int *n) LVN_CHECKED;
enum lvn_status lvn_cuda_device_facts(struct lvn_cuda_facts *f, int number) LVN_CHECKED;

/* Convert a driver result to a status; an error records a message with the action. number: the device; < 0: none. */
enum lvn_status lvn_cuda_answer(int result, const char *action, int number) LVN_CHECKED;
#define LVN_CUDA_TRY(result, action, number) LVN_TRY(lvn_cuda_answer(result, action, number))

#endif

/* cl.h - the functions of OpenCL 1.2 that levin calls. The library is opened when a device is first needed
 * (host/library.h); the build needs nothing of OpenCL.
 *
 * Types, constants and signatures are those of the Khronos headers (OpenCL 1.2, registry.khronos.org/OpenCL).
 * Handles are pointers. */
#ifndef LVN_CL_H
#define LVN_CL_H

#include "host/library.h"

enum {
    CL_SUCCESS = 0,
    CL_DEVICE_NOT_FOUND = -1,
    CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
    CL_OUT_OF_RESOURCES = -5,
    CL_OUT_OF_HOST_MEMORY = -6,
    CL_PLATFORM_NAME = 0x0902,
    CL_DEVICE_TYPE = 0x1000,
    CL_DEVICE_VENDOR_ID = 0x1001,
    CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
    CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    CL_DEVICE_SINGLE_FP_CONFIG = 0x101B,
    CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
    CL_DEVICE_NAME = 0x102B,
    CL_DRIVER_VERSION = 0x102D,
    CL_DEVICE_VERSION = 0x102F,
    CL_DEVICE_EXTENSIONS = 0x1030,
    CL_DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
    CL_DEVICE_PARTITION_MAX_SUB_DEVICES = 0x1043,
    CL_DEVICE_UUID = 0x106A,                  /* cl_khr_device_uuid */
    CL_DEVICE_SUB_GROUP_SIZES_INTEL = 0x4108, /* cl_intel_required_subgroup_size */
    CL_CONTEXT_PLATFORM = 0x1084,
    CL_DEVICE_PARTITION_EQUALLY = 0x1086,
    CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN = 0x1088,
    CL_PROGRAM_BINARY_SIZES = 0x1165,
    CL_PROGRAM_BINARIES = 0x1166,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_KERNEL_LOCAL_MEM_SIZE = 0x11B2,
    CL_MEM_READ_WRITE = 1,
    CL_MEM_ALLOW_UNRESTRICTED_SIZE_INTEL = 1 << 23,
    CL_DEVICE_TYPE_CPU = 2,
    CL_DEVICE_AFFINITY_DOMAIN_NEXT_PARTITIONABLE = 1 << 5,
    CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 1 << 7,
};

#define LVN_CL_FUNCTIONS(F)                                                                                            \
    F(int, platforms, (uint32_t, void **, uint32_t *), "clGetPlatformIDs")                                             \
    F(int, platform_info, (void *, uint32_t, size_t, void *, size_t *), "clGetPlatformInfo")                           \
    F(int, devices, (void *, uint64_t, uint32_t, void **, uint32_t *), "clGetDeviceIDs")                               \
    F(int, device_info, (void *, uint32_t, size_t, void *, size_t *), "clGetDeviceInfo")                               \
    F(int, sub_devices, (void *, const intptr_t *, uint32_t, void **, uint32_t *), "clCreateSubDevices")               \
    F(int, release_device, (void *), "clReleaseDevice")                                                                \
    F(void *, context, (const intptr_t *, uint32_t, void *const *, void *, void *, int *), "clCreateContext")          \
    F(int, release_context, (void *), "clReleaseContext")                                                              \
    F(void *, queue, (void *, void *, uint64_t, int *), "clCreateCommandQueue")                                        \
    F(int, release_queue, (void *), "clReleaseCommandQueue")                                                           \
    F(void *, buffer, (void *, uint64_t, size_t, void *, int *), "clCreateBuffer")                                     \
    F(int, release_buffer, (void *), "clReleaseMemObject")                                                             \
    F(int, write, (void *, void *, uint32_t, size_t, size_t, const void *, uint32_t, void *, void *),                  \
      "clEnqueueWriteBuffer")                                                                                          \
    F(int, read, (void *, void *, uint32_t, size_t, size_t, void *, uint32_t, void *, void *), "clEnqueueReadBuffer")  \
    F(int, copy, (void *, void *, void *, size_t, size_t, size_t, uint32_t, void *, void *), "clEnqueueCopyBuffer")    \
    F(int, marker, (void *, uint32_t, void *, void *), "clEnqueueMarkerWithWaitList")                                  \
    F(int, release_event, (void *), "clReleaseEvent")                                                                  \
    F(int, fill, (void *, void *, const void *, size_t, size_t, size_t, uint32_t, void *, void *),                     \
      "clEnqueueFillBuffer")                                                                                           \
    F(void *, program, (void *, uint32_t, const char **, const size_t *, int *), "clCreateProgramWithSource")          \
    F(void *, program_of_binary,                                                                                       \
      (void *, uint32_t, void *const *, const size_t *, const unsigned char **, int *, int *),                         \
      "clCreateProgramWithBinary")                                                                                     \
    F(int, build, (void *, uint32_t, void *const *, const char *, void *, void *), "clBuildProgram")                   \
    F(int, build_info, (void *, void *, uint32_t, size_t, void *, size_t *), "clGetProgramBuildInfo")                  \
    F(int, program_info, (void *, uint32_t, size_t, void *, size_t *), "clGetProgramInfo")                             \
    F(int, release_program, (void *), "clReleaseProgram")                                                              \
    F(void *, kernel, (void *, const char *, int *), "clCreateKernel")                                                 \
    F(int, kernel_info, (void *, void *, uint32_t, size_t, void *, size_t *), "clGetKernelWorkGroupInfo")              \
    F(int, release_kernel, (void *), "clReleaseKernel")                                                                \
    F(int, argument, (void *, uint32_t, size_t, const void *), "clSetKernelArg")                                       \
    F(int, launch,                                                                                                     \
      (void *, void *, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, void *, void *),            \
      "clEnqueueNDRangeKernel")                                                                                        \
    F(int, flush, (void *), "clFlush")                                                                                 \
    F(int, finish, (void *), "clFinish")

struct lvn_cl {
    LVN_CL_FUNCTIONS(LVN_LIBRARY_POINTER)
};
extern struct lvn_cl lvn_cl;

/* An error code as text for messages: "out of memory (-4)". */
const char *lvn_cl_error(int code);
/* MEMORY or IO. */
enum lvn_status lvn_cl_status(int code);
/* What a user can do about it, beginning with "; "; "": not known. */
const char *lvn_cl_cure(int code);

#endif

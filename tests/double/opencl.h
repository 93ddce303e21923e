/* opencl.h - the few functions of OpenCL that the double of NVIDIA's driver runs kernels with, opened at run time.
 *
 * Source: the OpenCL 3.0 API specification. */
#ifndef LVN_DOUBLE_OPENCL_H
#define LVN_DOUBLE_OPENCL_H

#include <dlfcn.h>
#include <stdint.h>

typedef void *cl; /* any handle */

enum {
    CL_DEVICE_TYPE_ALL_LOW = -1,
    CL_DEVICE_NAME = 0x102b,
    CL_DRIVER_VERSION = 0x102d,
    CL_DEVICE_SVM_CAPABILITIES = 0x1053,
    CL_SVM_FINE_GRAIN_SYSTEM = 4,
    CL_PROGRAM_BINARY_SIZES = 0x1165,
    CL_PROGRAM_BINARIES = 0x1166,
    CL_PROGRAM_BUILD_LOG = 0x1183,
    CL_KERNEL_FUNCTION_NAME = 0x1190,
    CL_KERNEL_NUM_ARGS = 0x1191,
    CL_KERNEL_ARG_ADDRESS_QUALIFIER = 0x1196,
    CL_KERNEL_ARG_TYPE_NAME = 0x1198,
    CL_ADDRESS_GLOBAL = 0x119b,
    CL_ADDRESS_LOCAL = 0x119c,
    CL_ADDRESS_CONSTANT = 0x119d,
};

#define CL_FUNCTIONS(F)                                                                                                \
    F(int, GetPlatformIDs, (unsigned n, cl *list, unsigned *found))                                                    \
    F(int, GetDeviceIDs, (cl platform, uint64_t type, unsigned n, cl *list, unsigned *found))                          \
    F(int, GetDeviceInfo, (cl device, unsigned what, size_t bytes, void *to, size_t *length))                          \
    F(cl, CreateContext, (const intptr_t *how, unsigned n, const cl *devices, void *notify, void *data, int *error))   \
    F(int, ReleaseContext, (cl context))                                                                               \
    F(cl, CreateCommandQueueWithProperties, (cl context, cl device, const uint64_t *how, int *error))                  \
    F(int, ReleaseCommandQueue, (cl queue))                                                                            \
    F(cl, CreateProgramWithSource, (cl context, unsigned n, const char **text, const size_t *length, int *error))      \
    F(cl, CreateProgramWithBinary,                                                                                     \
      (cl context, unsigned n, const cl *devices, const size_t *length, const unsigned char **binary, int *status,     \
       int *error))                                                                                                    \
    F(int, GetProgramInfo, (cl program, unsigned what, size_t bytes, void *to, size_t *length))                        \
    F(int, BuildProgram, (cl program, unsigned n, const cl *devices, const char *options, void *notify, void *data))   \
    F(int, GetProgramBuildInfo, (cl program, cl device, unsigned what, size_t bytes, void *to, size_t *length))        \
    F(int, ReleaseProgram, (cl program))                                                                               \
    F(int, CreateKernelsInProgram, (cl program, unsigned n, cl *kernels, unsigned *found))                             \
    F(cl, CreateKernel, (cl program, const char *name, int *error))                                                    \
    F(int, ReleaseKernel, (cl kernel))                                                                                 \
    F(int, GetKernelInfo, (cl kernel, unsigned what, size_t bytes, void *to, size_t *length))                          \
    F(int, GetKernelArgInfo, (cl kernel, unsigned i, unsigned what, size_t bytes, void *to, size_t *length))           \
    F(int, SetKernelArg, (cl kernel, unsigned i, size_t bytes, const void *value))                                     \
    F(int, SetKernelArgSVMPointer, (cl kernel, unsigned i, const void *value))                                         \
    F(int, EnqueueNDRangeKernel,                                                                                       \
      (cl queue, cl kernel, unsigned dims, const size_t *offset, const size_t *global, const size_t *local,            \
       unsigned n, const void *events, void *event))                                                                   \
    F(int, Finish, (cl queue))

static struct {
#define CL_POINTER(type, name, arguments) type(*name) arguments;
    CL_FUNCTIONS(CL_POINTER)
#undef CL_POINTER
} ocl;

/* A device whose kernels accept any pointer; NULL: `why` says what is missing. */
static inline cl ocl_open(const char **why)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL), *p;
    cl platforms[16], device;
    unsigned n = 0, none;
    *why = "libOpenCL.so.1 was not found";
    if (!library) return NULL;
#define CL_FIND(type, name, arguments)                                                                                 \
    *why = "libOpenCL.so.1 lacks cl" #name;                                                                            \
    if (!(p = dlsym(library, "cl" #name))) return NULL;                                                                \
    memcpy((void *)&ocl.name, &p, sizeof p);
    CL_FUNCTIONS(CL_FIND)
#undef CL_FIND
    *why = "no OpenCL device here shares plain pointers with the processor (intel-opencl-rt does)";
    if (ocl.GetPlatformIDs(16, platforms, &n)) return NULL;
    for (unsigned i = 0; i < n && i < 16; i++) {
        uint64_t shared = 0;
        if (ocl.GetDeviceIDs(platforms[i], 0xffffffffu, 1, &device, &none)) continue;
        if (ocl.GetDeviceInfo(device, CL_DEVICE_SVM_CAPABILITIES, sizeof shared, &shared, NULL)) continue;
        if (shared & CL_SVM_FINE_GRAIN_SYSTEM) return device;
    }
    return NULL;
}

#endif

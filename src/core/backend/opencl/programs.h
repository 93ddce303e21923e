/* programs.h - kernels on an OpenCL device: the struct lvn_gpu_driver of the backend opencl, and its build options.
 * opencl.c calls it; private to backend/opencl. */
#ifndef LVN_OPENCL_PROGRAMS_H
#define LVN_OPENCL_PROGRAMS_H

#include "backend/opencl/opencl_device.h"

/* Tests set this text, which precedes every module, to replace features that this machine's compilers lack; NULL: none.
 * Modules with it are compiled without optimization, which takes several times as long as the tests.
 * lvn_opencl_prelude_units: it gives a device matrix units. */
extern const char *lvn_opencl_prelude;
extern bool lvn_opencl_prelude_units;

/* Build options for a text that begins with these #define lines; part of every key in the cache of kernels. */
const char *lvn_opencl_options(const struct lvn_opencl_device *d, const char *defines);
/* Set large_registers by compiling an empty kernel with the option, since compilers refuse unknown options. The device
 * must have a context. */
void lvn_opencl_probe_options(struct lvn_opencl_device *d);
/* Compiles modules (once per device and text, from the cache of kernels if possible) and launches kernels. */
extern const struct lvn_gpu_driver lvn_opencl_driver;
void lvn_opencl_programs_free(struct lvn_opencl_device *d);

#endif

/* nvrtc.h - NVRTC, NVIDIA's run-time compiler for kernels, opened at run time. modules.c calls it; it needs neither a
 * GPU nor a driver.
 *
 * It compiles a source into a cubin for an architecture. For an architecture newer than NVRTC it compiles into PTX of
 * the newest one that it supports, which the driver then compiles.
 *
 * Source: NVRTC's reference. */
#ifndef LVN_CUDA_NVRTC_H
#define LVN_CUDA_NVRTC_H

#include "host/library.h"

/* Result of a compilation. */
struct lvn_nvrtc_image {
    void *bytes; /* free with free(); terminated by a NUL byte that n does not count */
    size_t n;
    bool ptx; /* else a cubin */
};

/* "NVRTC 13.0": part of the key in the cache of kernels. */
enum lvn_status lvn_nvrtc_version(char *text, size_t bytes, int *major) LVN_CHECKED;
enum { LVN_NVRTC_ARCHITECTURE = 24 };
/* The architecture to compile for on a device of this capability: "sm_90a"; or, if NVRTC does not support the device's,
 * "compute_100" (the image is PTX). UNSUPPORTED: the device is too old for this NVRTC. */
enum lvn_status lvn_nvrtc_architecture(char text[LVN_NVRTC_ARCHITECTURE], int capability) LVN_CHECKED;
/* Compile `source`. name: the operation, for messages. options: additional options, NULL-terminated. log: NULL, or
 * receives the whole log with its warnings (free with free()). UNSUPPORTED with the first line of the compiler's error.
 */
enum lvn_status lvn_nvrtc_compile(struct lvn_nvrtc_image *out, const char *name, const char *source,
                                  const char *architecture, const char *const *options, char **log) LVN_CHECKED;

#endif

/* nvrtc.h - NVIDIA's compiler for kernels, opened at run time.
 *
 * It makes of a source what a device of some architecture runs: a cubin, or, for an architecture that it does not know
 * yet, PTX of the newest that it does, which the driver then finishes. It needs neither a GPU nor a driver.
 *
 * Source: NVRTC's reference. */
#ifndef LVN_CUDA_NVRTC_H
#define LVN_CUDA_NVRTC_H

#include <stddef.h>

#include "host/library.h"

/* What a compilation gives. */
struct lvn_nvrtc_image {
    void *bytes; /* release with free(); ends with a zero, which does not count */
    size_t n;
    bool ptx;
};

/* "NVRTC 13.0": part of the key under which images are kept. */
enum lvn_status lvn_nvrtc_version(char *text, size_t bytes, int *major) LVN_CHECKED;
enum { LVN_NVRTC_ARCHITECTURE = 24 };
/* The architecture that is asked for, for a device of this capability: "sm_90a"; or, where NVRTC does not know it,
 * "compute_100", and the image will be PTX. UNSUPPORTED: the device is too old for this NVRTC. */
enum lvn_status lvn_nvrtc_architecture(char text[LVN_NVRTC_ARCHITECTURE], int capability) LVN_CHECKED;
/* name: of the operation, for messages. options: further ones, NULL ends them. log: NULL, or where the whole log goes
 * (release with free()), warnings too. UNSUPPORTED with the compiler's first line. */
enum lvn_status lvn_nvrtc_compile(struct lvn_nvrtc_image *out, const char *name, const char *source,
                                  const char *architecture, const char *const *options, char **log) LVN_CHECKED;

#endif

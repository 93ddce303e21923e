/* device_skip.h - opens a device for a test, or skips the test with a reason. */
#ifndef LVN_DEVICE_SKIP_H
#define LVN_DEVICE_SKIP_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"

/* Tests run with the double of CUDA's driver once in each of its orders (LEVIN_DOUBLE_ORDER), which means nothing to
 * other backends: the run with the order `late` tests all backends, the one with `early` only cuda. */
static inline bool device_is_for_late(const struct lvn_backend *backend)
{
    const char *order = getenv("LEVIN_DOUBLE_ORDER");
    return order && !strcmp(order, "early") && strcmp(backend->name, "cuda");
}

/* tests/run_double sets this where it found a runtime for the doubles: every backend must then have a device, and a
 * test that finds none fails instead of being skipped. */
static inline bool device_is_required(void)
{
    return getenv("LEVIN_DOUBLE_REQUIRED") != NULL;
}

/* The backend's first device, in fp32; if it has none, the test is skipped. LEVIN_DEVICE_BACKEND names the only backend
 * that is tested, on a machine with a real device. */
static inline struct lvn_device *device_or_skip(const struct lvn_backend *backend)
{
    struct lvn_device *d;
    const char *only = getenv("LEVIN_DEVICE_BACKEND");
    if (device_is_for_late(backend)) {
        print_message("skipped: the run with LEVIN_DOUBLE_ORDER=late has %s\n", backend->name);
        skip();
    }
    if (only && strcmp(only, backend->name)) {
        print_message("skipped: only %s is tested (LEVIN_DEVICE_BACKEND)\n", only);
        skip();
    }
    if (backend->open(&d, &(struct lvn_device_options){.real = LVN_F32, .threads = 1}) == LVN_OK) {
        if (*d->note) print_message("%s\n", d->note);
        return d;
    }
    if (device_is_required()) fail_msg("%s does not open: %s", backend->name, levin_error_text());
    print_message("skipped: %s\n", levin_error_text());
    lvn_error_clear();
    skip();
    return NULL;
}

/* For tests that open one themselves. */
static inline void need_device(const struct lvn_backend *backend)
{
    backend->close(device_or_skip(backend));
}

#endif

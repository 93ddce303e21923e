/* tuning_variants.c - autotuning: measures which of two launches with bit-identical results is faster on a device, once
 * for each shape, when a program is bound (programs.c), and stores it in the kernel cache. The measured launches
 * overwrite their outputs, which the first run writes again. */
#include "backend/opencl/tuning_variants.h"

#include <math.h>
#include <stdlib.h>

#include "backend/gpu/gpu_kernels.h"
#include "backend/opencl/opencl_device.h"
#include "backend/opencl/programs.h"
#include "base/clock.h"

enum { TIMES = 3 }; /* runs of each variant after a warm-up; the fastest one counts */

/* The key in the cache: device, compiler, both sources and their options, and all integers among the arguments (sizes,
 * strides). */
static const char *key_of(struct lvn_arena *a, const struct lvn_opencl_device *d, const struct lvn_gpu_launch *l)
{
    const char *options = lvn_opencl_options(d, l->defines), *of_other = lvn_opencl_options(d, l->other->defines);
    const char *key =
        lvn_arena_printf(a, "opencl form\n%s\n%s\n%s\n%s\n%s\n%s\n%s %s %lld %lld %lld\n%s\n%s", d->platform, d->name,
                         d->driver, d->version, options, of_other, l->source, l->kernel, (long long)l->grid[0],
                         (long long)l->grid[1], (long long)l->grid[2], l->defines, l->other->defines);
    for (int k = 0; key && k < l->n_args; k++) {
        const struct lvn_gpu_arg *x = &l->args[k];
        const bool number = x->kind == LVN_GPU_VALUE_LONG || x->kind == LVN_GPU_VALUE_INT;
        const bool absent = x->kind == LVN_GPU_OPERAND_NONE || (x->name && !x->memory);
        key = lvn_arena_printf(a, number ? "%s %lld" : absent ? "%s -" : "%s .", key, (long long)x->number);
    }
    return key;
}

static enum lvn_gpu_variant cached(const char *key)
{
    void *binary;
    int64_t bytes;
    enum lvn_gpu_variant variant = LVN_GPU_VARIANT_UNKNOWN;
    if (!key || !lvn_kernels_find(key, &binary, &bytes)) return variant;
    const char byte = bytes == 1 ? *(char *)binary : -1;
    if (byte == LVN_GPU_VARIANT_FIRST || byte == LVN_GPU_VARIANT_SECOND) variant = (enum lvn_gpu_variant)byte;
    free(binary);
    return variant;
}

enum lvn_gpu_variant lvn_opencl_faster(const struct lvn_gpu_program *p, const struct lvn_gpu_launch *l)
{
    LVN_LOCAL_ARENA(arena);
    const struct lvn_opencl_device *d = (const struct lvn_opencl_device *)p->base.device;
    return d->variant != LVN_GPU_VARIANT_UNKNOWN ? d->variant : cached(key_of(&arena, d, l));
}

/* Seconds of one launch. */
static enum lvn_status time_one(double *seconds, struct lvn_gpu_program *p, struct lvn_gpu_launch *l)
{
    struct lvn_device *d = p->base.device;
    const double start = lvn_seconds();
    LVN_TRY(p->driver->launch(p, l));
    LVN_TRY(d->backend->wait(d));
    *seconds = lvn_seconds() - start;
    return LVN_OK;
}

enum lvn_status lvn_opencl_measure(enum lvn_gpu_variant *variant, struct lvn_gpu_program *p, struct lvn_gpu_launch *l)
{
    LVN_LOCAL_ARENA(arena);
    struct lvn_device *d = p->base.device;
    struct lvn_gpu_launch *const variants[2] = {l, l->other};
    const char *key = key_of(&arena, (const struct lvn_opencl_device *)d, l);
    double min[2] = {INFINITY, INFINITY}, seconds;
    if (!key) return LVN_MEMORY;
    *variant = cached(key); /* another launch of this program may have measured it */
    if (*variant != LVN_GPU_VARIANT_UNKNOWN) return LVN_OK;
    LVN_TRY(d->backend->wait(d));
    for (int n = 0; n <= TIMES; n++)
        for (int f = 0; f < 2; f++) {
            LVN_TRY(time_one(&seconds, p, variants[f]));
            if (n > 0) min[f] = fmin(min[f], seconds);
        }
    *variant = min[1] < min[0] ? LVN_GPU_VARIANT_SECOND : LVN_GPU_VARIANT_FIRST;
    lvn_kernels_store(key, &(char){(char)*variant}, 1);
    return LVN_OK;
}

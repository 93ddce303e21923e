/* device_variants.h - skips cases whose kernels have been compiled for similar sizes.
 *
 * Compiling takes nearly all of the time of tests of devices. A kernel is compiled for each combination of its
 * operands' types, for its attributes (window, softcap, segments) and for some sizes: D, the channels of a head, and
 * COLUMNS, those of a row. A case whose kernels are all compiled always runs, whatever its shapes are. A case
 * that requires a further source is skipped if each of its kernels has run with the same definitions, where D and
 * COLUMNS count as equal if they round up to the same multiple of `round`. In 16 bits, computing one gradient at a time
 * needs further sources, because absent operands are fp32, so only one case of each operation does it. Cases run from
 * the last to the first, because those of tile borders follow the tiny ones in the table. */
#ifndef LVN_DEVICE_VARIANTS_H
#define LVN_DEVICE_VARIANTS_H

#include "backend/gpu/kernel_sources.h"
#include "backend/opencl/opencl_device.h"
#include "device_run.h"
#include "passes/program.h"

enum { MAX_VARIANTS = 2000 };

static struct variants {
    int round; /* 0: nothing is left out */
    int n, left_out;
    uint64_t source[MAX_VARIANTS], kind[MAX_VARIANTS]; /* hashes of what ran */
} variants;

/* Definitions with their sizes rounded up. */
static inline const char *variant_kind(struct lvn_arena *a, const struct lvn_gpu_launch *l)
{
    const char *kind = lvn_arena_printf(a, "%s %s\n", l->source, l->kernel);
    char name[64], value[64];
    for (const char *at = l->defines; (at = strstr(at, "#define ")); at++) {
        assert_int_equal(sscanf(at, "#define %63s %63s", name, value), 2);
        const bool size = variants.round && (!strcmp(name, "D") || !strcmp(name, "COLUMNS"));
        const int number = size ? (atoi(value) + variants.round - 1) / variants.round * variants.round : 0;
        kind = lvn_arena_printf(a, size ? "%s%s %d\n" : "%s%s %.0d%s\n", kind, name, number, value);
    }
    assert_non_null(kind);
    return kind;
}

static inline bool variant_has(const uint64_t *all, uint64_t hash)
{
    for (int k = 0; k < variants.n; k++)
        if (all[k] == hash) return true;
    return false;
}

/* The launches of an instruction. */
static inline struct lvn_gpu variant_launches(struct lvn_arena *a, struct lvn_call *call, const struct lvn_device *d,
                                              const struct lvn_instr *i)
{
    const struct lvn_gpu_operation *o = lvn_gpu_operation_of(i->id);
    const bool opencl = !strcmp(d->backend->name, "opencl");
    struct lvn_gpu g = {.call = call, .arena = a};
    if (!o) return g;
    void (*const phase[])(struct lvn_gpu *) = {o->forward, o->backward, o->restore};
    g.source = o->name;
    g.matrix_units = !opencl || ((const struct lvn_opencl_device *)d)->matrix_units;
    lvn_instr_describe(i, call);
    if (phase[i->phase]) phase[i->phase](&g);
    lvn_error_clear();
    return g;
}

enum variant_state { ALL_COMPILED, NEW_SOURCE, NEW_KIND };

/* The state of what a phase launches; `ran` counts it as run. */
static inline enum variant_state variants_of(const struct lvn_device *d, struct run *r, enum lvn_phase phase,
                                             unsigned expected, bool ran)
{
    static struct device_run described;
    LVN_LOCAL_ARENA(arena);
    struct lvn_call call;
    enum variant_state state = ALL_COMPILED;
    device_describe(&described, r, phase, expected, 0);
    const struct lvn_gpu g = variant_launches(&arena, &call, d, &described.instr);
    for (int k = 0; k < g.n_launches; k++) {
        const struct lvn_gpu_launch *l = &g.launches[k];
        const uint64_t source = lvn_name_hash(lvn_arena_printf(&arena, "%s %s\n%s", l->source, l->kernel, l->defines));
        const uint64_t kind = lvn_name_hash(variant_kind(&arena, l));
        const bool new_source = !variant_has(variants.source, source), new_kind = !variant_has(variants.kind, kind);
        if (new_source && state == ALL_COMPILED) state = NEW_SOURCE;
        if (new_kind) state = NEW_KIND;
        if (!ran || (!new_source && !new_kind)) continue;
        assert_true(variants.n < MAX_VARIANTS);
        variants.source[variants.n] = source;
        variants.kind[variants.n++] = kind;
    }
    return state;
}

/* Is this case left out? */
static inline bool variants_leave_out(const struct lvn_device *d, struct run *r, bool backward, bool restore)
{
    enum variant_state state = variants_of(d, r, LVN_FORWARD, 0, false);
    for (int k = 0; k < 2; k++) {
        enum variant_state of = ALL_COMPILED;
        if (k == 0 && backward) of = variants_of(d, r, LVN_BACKWARD, ~0u, false);
        if (k == 1 && restore) of = variants_of(d, r, LVN_RESTORE, 0, false);
        if (of > state) state = of;
    }
    if (variants.round && state == NEW_SOURCE) {
        variants.left_out++;
        return true;
    }
    variants_of(d, r, LVN_FORWARD, 0, true);
    if (backward) variants_of(d, r, LVN_BACKWARD, ~0u, true);
    if (restore) variants_of(d, r, LVN_RESTORE, 0, true);
    return false;
}

#endif

/* adamw.cpu.c - AdamW on CPUs, in one pass over gradient, parameters and moments: 28 bytes per element; see
 * adamw.c.
 *
 * Every operation of the definition is one instruction on every instruction set, so the bits are those of the plain
 * kernel. bf16 moments need half the memory and 12 bytes less traffic per element. */
#include "ops/adamw.h"

#include "ops/update_cpu.h"

/* struct lvn_adamw_constants in fp32. */
struct constants {
#define CONSTANT(name) float name;
    LVN_ADAMW_CONSTANTS(CONSTANT)
};

LVN_INLINE void update(const void *constants, vf g, vf *p, vf moment[LVN_MAX_MOMENTS])
{
    const struct constants *k = constants;
    vf m = moment[0], v = moment[1];
    g = update_gradient(g, k->scale, k->clip_value);
    if (k->l2 != 0) g = vfma(vset(k->l2), *p, g);
    m = vnormal(vfma(vset(k->one_minus_beta1), g - m, m));
    v = vnormal(vfma(k->one_minus_beta2 * g, g, k->beta2 * v));
    vf denominator = vfma(vsqrt(v), vset(k->root), vset(k->eps));
    *p = vfma(vset(-k->step_size), m / denominator, *p * k->keep);
    moment[0] = m, moment[1] = v;
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const struct lvn_adamw_constants d = lvn_adamw_constants_make(call);
#define ROUNDED(name) .name = (float)d.name,
    const struct constants k = {LVN_ADAMW_CONSTANTS(ROUNDED)};
    update_all(update, &k, 2, true, call, thread, n_threads);
}

LVN_CPU_OPERATION(adamw, .forward = forward);

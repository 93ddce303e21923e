/* sgd.cpu.c - sgd.c's definition, to the bit, in one pass over gradient, parameters and momentum. */
#include "backend/cpu/simd.h"
#include "base/threads.h"
#include "graph/op.h"

struct constants {
    float scale, clip, decay, momentum, lr;
};

LVN_INLINE void update(const struct constants *k, vf g, vf *p, vf *b)
{
    g = g * k->scale;
    if (k->clip != 0) g = vmax(vset(-k->clip), vmin(vset(k->clip), g)); /* in this order NaN stays */
    if (k->decay != 0) g = vfma(vset(k->decay), *p, g);
    if (k->momentum != 0) g = vfma(vset(k->momentum), *b, g);
    *b = g;
    *p = vfma(vset(-k->lr), g, *p);
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const struct lvn_step *step = call->step;
    if (step->clip_scale == 0) return;
    const struct constants k = {
        .scale = (float)step->clip_scale,
        .clip = (float)call->attr->sgd.clip_value,
        .decay = (float)call->attr->sgd.weight_decay,
        .momentum = (float)call->attr->sgd.momentum,
        .lr = (float)(step->lr * call->attr->sgd.lr_scale),
    };
    const float *grad = call->in[0].p;
    float *param = call->out[0].p, *buffer = k.momentum != 0 ? call->out[1].p : NULL;
    int64_t i, end;
    lvn_share(lvn_desc_count(call->in[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    for (; i + LVN_LANES <= end; i += LVN_LANES) {
        vf p = vload(param + i), b = buffer ? vload(buffer + i) : vset(0);
        update(&k, vload(grad + i), &p, &b);
        vstore(param + i, p);
        if (buffer) vstore(buffer + i, b);
    }
    if (i < end) {
        vf p = vload_n(param + i, end - i), b = buffer ? vload_n(buffer + i, end - i) : vset(0);
        update(&k, vload_n(grad + i, end - i), &p, &b);
        vstore_n(param + i, p, end - i);
        if (buffer) vstore_n(buffer + i, b, end - i);
    }
}

extern const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_sgd);
const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_sgd) = {.forward = forward};

/* muon_direction.cpu.c - the direction of Muon on CPUs, a vector at a time. */
#include "ops/muon.h"
#include "ops/update_cpu.h"

struct momentum {
    float scale; /* clip factor of the norm */
    float clip;  /* of values; 0: off */
    float mu, one_minus_mu;
};

/* The update loop passes x in place of the parameters. */
LVN_INLINE void direction(const void *constants, vf g, vf *x, vf moment[LVN_MAX_MOMENTS])
{
    const struct momentum *k = constants;
    g = update_gradient(g, k->scale, k->clip);
    moment[0] = vnormal(vfma(vset(k->one_minus_mu), g - moment[0], moment[0]));
    *x = vfma(vset(k->mu), moment[0] - g, g);
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const double mu = muon_momentum(call);
    const struct momentum k = {(float)call->result->clip_scale, (float)call->attr->update.clip_value, (float)mu,
                               (float)(1 - mu)};
    const bool grads = call->in[0].desc->dtype == LVN_BF16, state = call->out[1].desc->dtype == LVN_BF16;
    int64_t begin, end;
    lvn_thread_range(lvn_desc_count(call->in[0].desc), 64, thread, n_threads, &begin, &end);
    if (k.scale == 0 || begin >= end) return;
    const struct update_arrays x = {
        vat(call->in[0].p, begin, grads), vat(call->out[0].p, begin, false), {vat(call->out[1].p, begin, state)}, call};
    const struct rounding r = rounding_make(call->step, call->attr->update.number + begin);
    if (grads || state) LVN_ISA_NAME(lvn_bits_sum_update)(call, begin, end, false);
    if (grads && state)
        update_bf16(direction, &k, 1, &r, true, false, true, &x, end - begin);
    else if (grads)
        update_bf16(direction, &k, 1, &r, true, false, false, &x, end - begin);
    else if (state)
        update_bf16(direction, &k, 1, &r, false, false, true, &x, end - begin);
    else
        update_fp32(direction, &k, 1, &x, end - begin);
    if (grads || state) LVN_ISA_NAME(lvn_bits_sum_update)(call, begin, end, true);
}

LVN_CPU_OPERATION(muon_direction, .forward = forward);

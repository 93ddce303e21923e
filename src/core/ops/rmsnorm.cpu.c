/* rmsnorm.cpu.c - RMS normalization on CPUs: layer normalization with a mean of 0; see norm_cpu.h. */
#include "ops/norm_cpu.h"

#include "backend/cpu/cpu_kernels.h"

static int64_t columns(const struct lvn_call *call)
{
    return call->in[0].desc->dim[call->in[0].desc->rank - 1];
}

static struct norm_weights weights(const struct lvn_call *call)
{
    const float *gamma = call->in[1].p;
    if (!gamma) return (struct norm_weights){norm_ones, 0, 0};
    return (struct norm_weights){gamma, 1, (float)call->attr->rmsnorm.offset};
}

static void results(int k, int64_t r, const struct lvn_call *call)
{
    const struct norm_weights w = weights(call);
    norm_results(k, r, call->in[0].p, NULL, call->out[1].p, &w, NULL, columns(call), &call->out[0]);
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *x = call->in[0].p; /* (R,C) */
    float *rstd = call->out[1].p;   /* (R) */
    int64_t C = columns(call), r, end;
    lvn_thread_range(lvn_desc_rows(call->out[0].desc), ROWS, thread, n_threads, &r, &end);
    for (; r + ROWS <= end; r += ROWS) {
        norm_scales(ROWS, x + r * C, C, call->attr->rmsnorm.eps, NULL, rstd + r);
        results(ROWS, r, call);
    }
    for (; r < end; r++) {
        norm_scales(1, x + r * C, C, call->attr->rmsnorm.eps, NULL, rstd + r);
        results(1, r, call);
    }
}

static void restore(const struct lvn_call *call, int thread, int n_threads)
{
    int64_t r, end;
    lvn_thread_range(lvn_desc_rows(call->out[0].desc), ROWS, thread, n_threads, &r, &end);
    for (; r < end; r++) results(1, r, call);
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    const struct norm_backward o = {
        .x = call->in[0].p,
        .dy = call->dout[0].p,
        .rstd = call->out[1].p,
        .w = weights(call),
        .da = call->din[0].p,
        .add_a = call->add[0],
        .R = lvn_desc_rows(call->dout[0].desc),
        .C = columns(call),
        .sums = call->din[1].p ? call->scratch : NULL,
    };
    norm_backward_plain(&o, call->dout[0].desc->dtype == LVN_BF16, thread, n_threads);
    if (o.sums) norm_backward_vectors(o.sums, o.R, o.C, call->din[1].p, call->add[1], NULL, false, thread, n_threads);
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    (void)n_threads;
    if (call->phase != LVN_BACKWARD) return 0;
    return norm_scratch(lvn_desc_rows(call->dout[0].desc), columns(call));
}

LVN_CPU_OPERATION(rmsnorm, .forward = forward, .backward = backward, .restore = restore, .scratch = scratch);

/* layernorm.cpu.c - layer normalization on CPUs, four rows at a time; see norm_cpu.h. */
#include "ops/norm_cpu.h"

#include "backend/cpu/cpu_kernels.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *x = call->in[0].p, *beta = call->in[2].p; /* (R,C), (C) */
    const struct norm_weights w = {call->in[1].p, 1, 0};
    float *mean = call->out[1].p, *rstd = call->out[2].p; /* (R), (R) */
    int64_t C = call->in[1].desc->dim[0], r, end;
    double eps = call->attr->layernorm.eps;
    lvn_thread_range(lvn_desc_rows(call->out[0].desc), ROWS, thread, n_threads, &r, &end);
    for (; r + ROWS <= end; r += ROWS) {
        norm_moments(ROWS, x + r * C, C, eps, mean + r, rstd + r);
        norm_results(ROWS, r, x, mean, rstd, &w, beta, C, &call->out[0]);
    }
    for (; r < end; r++) {
        norm_moments(1, x + r * C, C, eps, mean + r, rstd + r);
        norm_results(1, r, x, mean, rstd, &w, beta, C, &call->out[0]);
    }
}

static void restore(const struct lvn_call *call, int thread, int n_threads)
{
    const float *x = call->in[0].p, *beta = call->in[2].p;
    const struct norm_weights w = {call->in[1].p, 1, 0};
    const float *mean = call->out[1].p, *rstd = call->out[2].p;
    int64_t C = call->in[1].desc->dim[0], r, end;
    lvn_thread_range(lvn_desc_rows(call->out[0].desc), ROWS, thread, n_threads, &r, &end);
    for (; r < end; r++) norm_results(1, r, x, mean, rstd, &w, beta, C, &call->out[0]);
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    const struct norm_backward o = {
        .x = call->in[0].p,
        .dy = call->dout[0].p,
        .mean = call->out[1].p,
        .rstd = call->out[2].p,
        .w = {call->in[1].p, 1, 0},
        .da = call->din[0].p,
        .add_a = call->add[0],
        .R = lvn_desc_rows(call->dout[0].desc),
        .C = call->in[1].desc->dim[0],
        .sums = call->din[1].p || call->din[2].p ? call->scratch : NULL,
    };
    norm_backward_plain(&o, call->dout[0].desc->dtype == LVN_BF16, thread, n_threads);
    if (o.sums)
        norm_backward_vectors(o.sums, o.R, o.C, call->din[1].p, call->add[1], call->din[2].p, call->add[2], thread,
                              n_threads);
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    (void)n_threads;
    if (call->phase != LVN_BACKWARD) return 0;
    return norm_scratch(lvn_desc_rows(call->dout[0].desc), call->in[1].desc->dim[0]);
}

LVN_CPU_OPERATION(layernorm, .forward = forward, .backward = backward, .restore = restore, .scratch = scratch);

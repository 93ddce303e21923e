/* cross_entropy.cpu.c - cross entropy on CPUs; see cross_entropy.c.
 *
 * Threads divide the rows; thread 0 sums the losses in order, so bits do not depend on the number of threads. This
 * operation is for models whose logits are an output; others use linear_cross_entropy, which computes the loss while
 * the logits are in the cache. */
#include "ops/cross_entropy_cpu.h"

#include "backend/cpu/cpu_kernels.h"
#include "base/threads.h"

static bool ignored(const struct lvn_call *call, int32_t label)
{
    return label < 0 || label == call->attr->cross_entropy.ignore;
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *logits = call->in[0].p;   /* (R,V) */
    const int32_t *labels = call->in[1].p; /* (R) */
    double *total = call->out[0].p;
    float *loss = call->out[1].p, *normalizer = call->out[2].p; /* (R) */
    const struct lvn_desc *d = call->in[0].desc;
    int64_t V = d->dim[d->rank - 1], rows = lvn_desc_rows(d), r, end;
    lvn_thread_range(rows, 1, thread, n_threads, &r, &end);
    for (; r < end; r++) {
        normalizer[r] = logsumexp(logits + r * V, V);
        loss[r] = ignored(call, labels[r]) ? 0 : normalizer[r] - logits[r * V + labels[r]];
    }
    lvn_team_barrier();
    if (thread) return;
    *total = 0;
    for (r = 0; r < rows; r++) *total += loss[r];
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *logits = call->in[0].p, *normalizer = call->out[2].p; /* (R,V), (R) */
    const int32_t *labels = call->in[1].p;                             /* (R) */
    float *dlogits = call->din[0].p, scale = (float)call->step->grad_scale;
    const struct lvn_desc *d = call->in[0].desc;
    int64_t V = d->dim[d->rank - 1], r, end;
    bool add = call->add[0];
    lvn_thread_range(lvn_desc_rows(d), 1, thread, n_threads, &r, &end);
    for (; dlogits && r < end; r++) {
        const float *z = logits + r * V;
        float *dz = dlogits + r * V;
        if (ignored(call, labels[r])) {
            if (!add) memset(dz, 0, (size_t)V * sizeof *dz);
            continue;
        }
        softmax_slope(z, V, normalizer[r], labels[r], scale, add, dz);
    }
}

LVN_CPU_OPERATION(cross_entropy, .forward = forward, .backward = backward);

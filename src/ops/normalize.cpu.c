/* normalize.cpu.c - bytes to floats, by a table of the 256 values that there are. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/simd.h"
#include "base/threads.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const uint8_t *x = call->in[0].p;
    float *y = call->out[0].p, value[256];
    int64_t i, end;
    for (int b = 0; b < 256; b++)
        value[b] = (float)((b / 255.0 - call->attr->normalize.mean) / call->attr->normalize.std);
    lvn_share(lvn_desc_count(call->out[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    for (; i < end; i++) y[i] = value[x[i]];
}

LVN_CPU_OPERATION(normalize, .forward = forward);

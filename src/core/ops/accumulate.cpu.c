/* accumulate.cpu.c - accumulate on CPUs: threads divide the elements; see accumulate.c.
 *
 * The compiler vectorizes the plain loops. The bf16 instructions of some CPUs are not used, because they treat
 * subnormal values as zero. */
#include <float.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/bf16.h"
#include "base/threads.h"

/* To bf16, rounded like operands of a bf16 matrix multiplication: subnormal values become 0. */
static inline uint16_t rounded(float x)
{
    return lvn_bf16_make(fabsf(x) < FLT_MIN ? copysignf(0, x) : x);
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    enum { GRAIN = 64 }; /* elements: threads share no cache line */
    int64_t begin, end;
    lvn_thread_range(lvn_desc_count(call->in[0].desc), GRAIN, thread, n_threads, &begin, &end);
    const bool narrows = call->in[0].desc->dtype != LVN_BF16 && call->out[0].desc->dtype == LVN_BF16;
    if (call->attr->accumulate.copy && narrows) {
        const float *source = call->in[0].p;
        uint16_t *target = call->out[0].p;
        for (int64_t i = begin; i < end; i++) target[i] = rounded(source[i]);
    } else if (call->attr->accumulate.copy) {
        const int64_t each = lvn_dtype_bytes(call->in[0].desc->dtype);
        memcpy((char *)call->out[0].p + begin * each, (const char *)call->in[0].p + begin * each,
               (size_t)((end - begin) * each));
    } else if (call->in[0].desc->dtype == LVN_BF16) {
        const uint16_t *source = call->in[0].p;
        uint16_t *target = call->out[0].p;
        for (int64_t i = begin; i < end; i++)
            target[i] = lvn_bf16_make(lvn_bf16_get(target[i]) + lvn_bf16_get(source[i]));
    } else {
        const float *source = call->in[0].p;
        float *target = call->out[0].p;
        for (int64_t i = begin; i < end; i++) target[i] += source[i];
    }
}

LVN_CPU_OPERATION(accumulate, .forward = forward);

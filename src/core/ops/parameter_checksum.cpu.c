/* parameter_checksum.cpu.c - parameter_checksum.c on CPUs: threads divide the range, and thread 0 adds their integer
 * sums. */
#include "ops/parameter_checksum.h"

#include "backend/cpu/cpu_kernels.h"
#include "base/threads.h"

static struct lvn_checksum_sums sum_f32(const uint32_t *x, int64_t begin, int64_t end)
{
    uint64_t plain = 0, weighted = 0;
    for (int64_t i = begin; i < end; i++) {
        plain += x[i];
        weighted += (uint64_t)x[i] * lvn_checksum_factor(i);
    }
    return (struct lvn_checksum_sums){plain, weighted};
}

static struct lvn_checksum_sums sum_bf16(const uint16_t *x, int64_t begin, int64_t end)
{
    uint64_t plain = 0, weighted = 0;
    for (int64_t i = begin; i < end; i++) {
        const uint32_t bits = (uint32_t)x[i] << 16;
        plain += bits;
        weighted += (uint64_t)bits * lvn_checksum_factor(i);
    }
    return (struct lvn_checksum_sums){plain, weighted};
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    struct lvn_checksum_sums *part = call->scratch, all = {0}; /* [n_threads] */
    int64_t begin, end;
    lvn_thread_range(lvn_desc_count(call->in[0].desc), 64, thread, n_threads, &begin, &end);
    part[thread] =
        call->in[0].desc->dtype == LVN_BF16 ? sum_bf16(call->in[0].p, begin, end) : sum_f32(call->in[0].p, begin, end);
    lvn_team_barrier();
    for (int i = 0; i < n_threads; i++) {
        all.plain += part[i].plain;
        all.weighted += part[i].weighted;
    }
    if (thread == 0) lvn_checksum_put(&all, call->out[0].p);
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    (void)call;
    return n_threads * (int64_t)sizeof(struct lvn_checksum_sums);
}

LVN_CPU_OPERATION(parameter_checksum, .forward = forward, .scratch = scratch);

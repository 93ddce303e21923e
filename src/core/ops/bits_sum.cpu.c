/* bits_sum.cpu.c - the checksum of bits_sum.c on CPUs: each thread adds the checksum of its range. */
#include "ops/bits_sum.h"

#include "ops/update_cpu.h"

void LVN_ISA_NAME(lvn_bits_sum_update)(const struct lvn_call *call, int64_t begin, int64_t end, bool after)
{
    uint32_t bits = 0;
    if (!call->attr->update.summed) return;
    for (int k = 0; k < LVN_MAX_OUT; k++)
        if (call->attr->update.summed >> k & 1) bits += lvn_bits_sum(&call->out[k], begin, end);
    lvn_update_add(call, after ? bits : -bits);
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    int64_t begin, end;
    if (!lvn_bits_sum_is_due(call->step, call->attr->bits_sum.number, call->attr->bits_sum.period)) return;
    lvn_thread_range(lvn_desc_count(call->in[0].desc), 64, thread, n_threads, &begin, &end);
    __atomic_fetch_add((uint32_t *)call->out[0].p, lvn_bits_sum(&call->in[0], begin, end), __ATOMIC_RELAXED);
}

LVN_CPU_OPERATION(bits_sum, .forward = forward);

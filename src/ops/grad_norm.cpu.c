/* grad_norm.cpu.c - grad_norm.c's sum, in its order and to the bit: threads share the blocks of 4096 elements, thread 0
 * adds them up. */
#include "backend/cpu/simd.h"
#include "base/threads.h"
#include "graph/op.h"

enum { BLOCK = 4096 };

typedef double vd __attribute__((vector_size(64)));
typedef float vf8 __attribute__((vector_size(32)));

/* Lanes 0..7 and 8..15 of the block's sixteen sums. The square of a float is exact in double, so it makes no difference
 * to the bits whether it is fused into the addition. */
LVN_INLINE void add_squares(vd sum[2], const float *g)
{
    for (int half = 0; half < 2; half++) {
        vf8 x;
        memcpy(&x, g + 8 * half, sizeof x);
        vd y = __builtin_convertvector(x, vd);
        sum[half] += y * y;
    }
}

static double block_sum(const float *g, int64_t n)
{
    vd sum[2] = {{0}, {0}};
    int64_t i = 0;
    for (; i + LVN_LANES <= n; i += LVN_LANES) add_squares(sum, g + i);
    if (i < n) {
        float rest[LVN_LANES] = {0};
        memcpy(rest, g + i, (size_t)(n - i) * sizeof *g);
        add_squares(sum, rest);
    }
    double lane[8];
    vd folded = sum[0] + sum[1];
    memcpy(lane, &folded, sizeof lane);
    for (int half = 4; half >= 1; half /= 2)
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *g = call->in[0].p;
    double *sums = call->scratch; /* (blocks) */
    int64_t n = lvn_desc_count(call->in[0].desc), blocks = (n + BLOCK - 1) / BLOCK, b, end;
    lvn_share(blocks, 8, thread, n_threads, &b, &end);
    for (; b < end; b++) sums[b] = block_sum(g + b * BLOCK, n - b * BLOCK < BLOCK ? n - b * BLOCK : BLOCK);
    lvn_team_barrier();
    if (thread) return;
    for (int64_t step = 1; step < blocks; step *= 2)
        for (b = 0; b + step < blocks; b += 2 * step) sums[b] += sums[b + step];
    double norm = sqrt(sums[0]), clip = call->attr->grad_norm.clip_norm;
    call->step->grad_norm = norm;
    call->step->clip_scale = !isfinite(norm) ? 0 : clip > 0 && clip < norm + 1e-6 ? clip / (norm + 1e-6) : 1;
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    (void)n_threads;
    return (lvn_desc_count(call->in[0].desc) + BLOCK - 1) / BLOCK * (int64_t)sizeof(double);
}

extern const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_grad_norm);
const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_grad_norm) = {.forward = forward, .scratch = scratch};

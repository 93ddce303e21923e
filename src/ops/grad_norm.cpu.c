/* grad_norm.cpu.c - grad_norm.c's sum, in its order and to the bit: threads share the blocks of 4096 elements, thread 0
 * adds them up. */
#include "backend/cpu/simd.h"
#include "base/threads.h"
#include "graph/op.h"

enum { BLOCK = 4096 };

/* The sixteen sums of a block, in parts that stay in registers (see struct vacc in simd.h). */
#if defined(__AVX512F__)
enum { PART = 8 };
#elif defined(__AVX__)
enum { PART = 4 };
#else
enum { PART = 2 };
#endif
enum { PARTS = LVN_LANES / PART };
typedef double vd __attribute__((vector_size(8 * PART)));
typedef float vh __attribute__((vector_size(4 * PART)));
struct sums {
    vd p[PARTS];
};

/* The square of a float is exact in double, so it makes no difference to the bits whether it is fused into the sum. */
LVN_INLINE struct sums add_squares(struct sums s, const float *g)
{
    for (int i = 0; i < PARTS; i++) {
        vh x;
        memcpy(&x, g + PART * i, sizeof x);
        vd y = __builtin_convertvector(x, vd);
        s.p[i] += y * y;
    }
    return s;
}

static double block_sum(const float *g, int64_t n)
{
    struct sums s = {0};
    int64_t i = 0;
    for (; i + LVN_LANES <= n; i += LVN_LANES) {
        __builtin_prefetch(g + i + 1024); /* beyond the block too: the next one follows */
        s = add_squares(s, g + i);
    }
    if (i < n) {
        float rest[LVN_LANES] = {0};
        memcpy(rest, g + i, (size_t)(n - i) * sizeof *g);
        s = add_squares(s, rest);
    }
    double lane[LVN_LANES];
    memcpy(lane, &s, sizeof lane);
    for (int half = LVN_LANES / 2; half >= 1; half /= 2)
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

/* chain.h - the steps of an elementwise chain (attr.chain.steps), which the fuse_chains pass makes and ops/chain.c
 * computes.
 *
 * A chain starts with the elements of its first input. Each step replaces a value; MUL reads the next input. The first
 * step is in the lowest bits. Kernels of devices are compiled for the steps of a chain, which therefore fit an int. */
#ifndef LVN_CHAIN_H
#define LVN_CHAIN_H

#include <stdint.h>

/* STEP(NAME, operation) for each function of one value, in the order of the numbers in ops/chain.k. */
#define LVN_CHAIN_FUNCTIONS(STEP)                                                                                      \
    STEP(SILU, silu)                                                                                                   \
    STEP(RELU, relu)                                                                                                   \
    STEP(RELU2, relu2)                                                                                                 \
    STEP(GELU, gelu)                                                                                                   \
    STEP(GELU_TANH, gelu_tanh)                                                                                         \
    STEP(TANH, tanh)

/* MUL: times the element of the next input. SCALE: times attr.chain.factor, at most once. */
enum lvn_chain_step {
    LVN_CHAIN_END,
    LVN_CHAIN_MUL,
// clang-format off
#define STEP(NAME, operation) LVN_CHAIN_##NAME,
    LVN_CHAIN_FUNCTIONS(STEP)
#undef STEP
    // clang-format on
    LVN_CHAIN_SCALE,
    LVN_CHAIN_STEP_COUNT
};

enum { LVN_CHAIN_BITS = 4, LVN_CHAIN_STEPS = 7 };

static inline enum lvn_chain_step lvn_chain_step(int64_t steps, int k)
{
    return k < LVN_CHAIN_STEPS ? (enum lvn_chain_step)(steps >> k * LVN_CHAIN_BITS & 15) : LVN_CHAIN_END;
}

/* Number of steps, up to LVN_CHAIN_STEPS. */
static inline int lvn_chain_length(int64_t steps)
{
    int n = 0;
    while (lvn_chain_step(steps, n)) n++;
    return n;
}

/* Number of steps of one kind: of MUL, one less than the inputs. */
static inline int lvn_chain_count(int64_t steps, enum lvn_chain_step step)
{
    int n = 0;
    for (int k = 0; k < LVN_CHAIN_STEPS; k++) n += lvn_chain_step(steps, k) == step;
    return n;
}

#endif

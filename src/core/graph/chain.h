/* chain.h - the steps of an elementwise chain (attr.chain.steps), which the fuse_chains pass makes and ops/chain.c
 * computes.
 *
 * A chain starts with the elements of its first input. Each step replaces a value; MUL reads the next input. The first
 * step is in the lowest bits. Kernels of devices are compiled for the steps of a chain, which therefore fit an int. */
#ifndef LVN_CHAIN_H
#define LVN_CHAIN_H

#include <stdint.h>

enum lvn_chain_step {
    LVN_CHAIN_END,
    LVN_CHAIN_MUL, /* times the element of the next input */
    LVN_CHAIN_SILU,
    LVN_CHAIN_RELU,
    LVN_CHAIN_RELU2,
    LVN_CHAIN_GELU,
    LVN_CHAIN_GELU_TANH,
    LVN_CHAIN_TANH,
    LVN_CHAIN_SCALE, /* times attr.chain.factor; at most once */
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

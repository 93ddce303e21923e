/* random.h - counter-based random numbers: they depend on where they are used, not on which thread or rank draws them.
 * Initialization, data order, dropout, sampling and stochastic rounding use them.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011): four 32-bit
 * values are a pure function of a 64-bit key and a 128-bit counter. The key is the run's seed; the counter encodes the
 * use (step, position in the global batch, operation, coordinate). So weights, data order and dropout are the same for
 * every number of ranks and threads, and dropout masks can be recomputed instead of stored. */
#ifndef LVN_RANDOM_H
#define LVN_RANDOM_H

#include "base/status.h"

struct lvn_philox {
    uint32_t v[4];
};

static inline struct lvn_philox lvn_philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (struct lvn_philox){{c0, c1, c2, c3}};
}

/* The use of a stream, mixed into the key, so that two uses never share values. */
enum lvn_stream {
    LVN_STREAM_DROPOUT,
    LVN_STREAM_INIT,
    LVN_STREAM_DATA,
    LVN_STREAM_SAMPLE,
    LVN_STREAM_TEST,
    LVN_STREAM_ROUNDING
};

/* FNV-1a of a name: the word of the counter that identifies a parameter or an operation. */
static inline uint64_t lvn_name_hash(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 0x100000001b3u;
    return h;
}

/* 24 random bits to [0, 1). */
static inline float lvn_uniform(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24f;
}

/* out[i] = N(0, std) for i in [0, n), a function of (seed, name hash, first + i) only. first: a multiple of 4.
 * Box-Muller in double. */
void lvn_random_normal(uint64_t seed, uint64_t name_hash, float std, int64_t first, int64_t n, float *out);
/* The same for a uniform distribution in [-bound, bound). */
void lvn_random_uniform(uint64_t seed, uint64_t name_hash, float bound, int64_t first, int64_t n, float *out);
/* A bijection of [0, n), a function of (seed, epoch): element i of a random permutation, which is not stored (a Feistel
 * network on the next power of four; values outside [0, n) are mapped again). */
int64_t lvn_random_permute(uint64_t seed, uint64_t epoch, int64_t n, int64_t i);
/* A uniform integer in [0, n), a function of (seed, a, b). */
int64_t lvn_random_below(uint64_t seed, uint64_t a, uint64_t b, int64_t n);

/* Dropout. Element (row, column) of an operation's output is retained if its 16 random bits are >= threshold. row:
 * position in the global batch times rows per sample, plus the row within the sample; so it does not depend on the
 * division of the batch. Eight adjacent columns share one Philox call (see lvn_dropout_bits()). */
struct lvn_dropout_key {
    uint64_t seed;
    uint64_t step;
    uint32_t op; /* hash of the operation's scoped name, folded to 32 bits */
};
static inline uint32_t lvn_dropout_threshold(double p)
{
    return (uint32_t)(p * 65536.0 + 0.5);
}
/* The 16 bits of element (row, column). Counter words: column/8, row, row's high half folded with the operation, and
 * the step; the key is seed. Vector kernels compute the same values for eight columns at a time. */
static inline uint32_t lvn_dropout_bits(const struct lvn_dropout_key *k, uint64_t row, uint32_t column)
{
    struct lvn_philox philox = lvn_philox(k->seed ^ ((uint64_t)LVN_STREAM_DROPOUT << 56), column / 8, (uint32_t)row,
                                          k->op ^ (uint32_t)(row >> 32) * 0x9E3779B9u, (uint32_t)k->step);
    uint32_t word = philox.v[column % 8 / 2];
    return column % 2 ? word >> 16 : word & 0xffffu;
}

/* Fill `bytes` with n random bytes of the operating system, at most 256: for keys and names that must not be guessable.
 * IO if the system has none; `purpose` ("a token") is used in the message. */
enum lvn_status lvn_random_secret(void *bytes, size_t n, const char *purpose);

#endif

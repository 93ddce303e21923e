/* python_random.h - the random numbers of Python's `random`, by which other programs choose few-shot examples.
 *
 * The generator is the Mersenne Twister (Matsumoto and Nishimura, "Mersenne Twister: a 623-dimensionally
 * equidistributed uniform pseudo-random number generator", 1998), seeded as Random(seed) of CPython. It has
 * only shuffle and sample. For all other purposes levin uses base/random.h. */
#ifndef LVN_PYTHON_RANDOM_H
#define LVN_PYTHON_RANDOM_H

#include "base/arena.h"

struct lvn_python_random {
    uint32_t word[624];
    int at;
};

/* Random(seed) */
void lvn_python_random_init(struct lvn_python_random *r, uint32_t seed);
/* shuffle of a list with these n indices. */
void lvn_python_shuffle(struct lvn_python_random *r, int64_t *index, int64_t n);
/* sample of range(n) and k with k <= n: k different indices below n. */
enum lvn_status lvn_python_sample(struct lvn_python_random *r, int64_t n, int64_t k, int64_t *out) LVN_CHECKED;

#endif

/* python_random.c - see python_random.h. */
#include "benchmarks/python_random.h"

enum { WORDS = 624, SHIFT = 397 };

static void init_words(struct lvn_python_random *r, uint32_t seed)
{
    r->word[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++) r->word[i] = 1812433253U * (r->word[i - 1] ^ (r->word[i - 1] >> 30)) + i;
    r->at = WORDS;
}

/* Seeding by a list of one word. */
void lvn_python_random_init(struct lvn_python_random *r, uint32_t seed)
{
    uint32_t i = 1, *w = r->word;
    init_words(r, 19650218U);
    for (int k = 0; k < WORDS; k++) {
        w[i] = (w[i] ^ ((w[i - 1] ^ (w[i - 1] >> 30)) * 1664525U)) + seed;
        if (++i == WORDS) w[0] = w[WORDS - 1], i = 1;
    }
    for (int k = 0; k < WORDS - 1; k++) {
        w[i] = (w[i] ^ ((w[i - 1] ^ (w[i - 1] >> 30)) * 1566083941U)) - i;
        if (++i == WORDS) w[0] = w[WORDS - 1], i = 1;
    }
    w[0] = 0x80000000U;
}

static void next_words(struct lvn_python_random *r)
{
    uint32_t *w = r->word;
    for (int i = 0; i < WORDS; i++) {
        const uint32_t y = (w[i] & 0x80000000U) | (w[(i + 1) % WORDS] & 0x7fffffffU);
        w[i] = w[(i + SHIFT) % WORDS] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfU : 0);
    }
    r->at = 0;
}

static uint32_t next(struct lvn_python_random *r)
{
    if (r->at == WORDS) next_words(r);
    uint32_t y = r->word[r->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680U;
    y ^= (y << 15) & 0xefc60000U;
    return y ^ (y >> 18);
}

/* A number below n, with n from 1 to 2^31: draws bit_length(n) random bits until they are below n. */
static int64_t below(struct lvn_python_random *r, int64_t n)
{
    int bits = 0;
    uint32_t x;
    while (n >> bits) bits++;
    do x = next(r) >> (32 - bits);
    while (x >= n);
    return x;
}

void lvn_python_shuffle(struct lvn_python_random *r, int64_t *index, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = below(r, i + 1), kept = index[i];
        index[i] = index[j];
        index[j] = kept;
    }
}

static bool is_among(const int64_t *list, int64_t n, int64_t x)
{
    for (int64_t i = 0; i < n; i++)
        if (list[i] == x) return true;
    return false;
}

enum lvn_status lvn_python_sample(struct lvn_python_random *r, int64_t n, int64_t k, int64_t *out)
{
    /* CPython compares the sizes of a list and of a set, and thereby chooses one of two methods. */
    const int64_t set_size = 21 + (k > 5 ? (int64_t)pow(4, ceil(log((double)k * 3) / log(4))) : 0);
    if (n > set_size) {
        for (int64_t i = 0; i < k; i++) do
                out[i] = below(r, n);
            while (is_among(out, i, out[i]));
        return LVN_OK;
    }
    int64_t *pool = lvn_malloc(sizeof *pool * (size_t)(n + 1));
    if (!pool) return LVN_MEMORY;
    for (int64_t i = 0; i < n; i++) pool[i] = i;
    for (int64_t i = 0; i < k; i++) {
        const int64_t j = below(r, n - i);
        out[i] = pool[j];
        pool[j] = pool[n - i - 1];
    }
    free(pool);
    return LVN_OK;
}

/* random.c - see random.h: normal and uniform values, permutations and ranges from the counter-based generator, and
 * the system's random bytes. */
#include "base/random.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Words 4 i to 4 i + 3 of the stream for initial values. */
static struct lvn_philox init_words(uint64_t seed, uint64_t name_hash, int64_t i)
{
    return lvn_philox(seed ^ ((uint64_t)LVN_STREAM_INIT << 56), (uint32_t)i, (uint32_t)((uint64_t)i >> 32),
                      (uint32_t)name_hash, (uint32_t)(name_hash >> 32));
}

void lvn_random_normal(uint64_t seed, uint64_t name_hash, float std, int64_t first, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i += 4) {
        struct lvn_philox philox = init_words(seed, name_hash, (first + i) / 4);
        for (int j = 0; j < 4 && i + j < n; j++) {
            double u = (philox.v[j & ~1] + 0.5) * 0x1p-32, angle = 6.283185307179586 * (philox.v[j | 1] * 0x1p-32);
            out[i + j] = (float)(std * (sqrt(-2.0 * log(u)) * (j & 1 ? sin(angle) : cos(angle))));
        }
    }
}

void lvn_random_uniform(uint64_t seed, uint64_t name_hash, float bound, int64_t first, int64_t n, float *out)
{
    for (int64_t i = 0; i < n; i += 4) {
        struct lvn_philox philox = init_words(seed, name_hash, (first + i) / 4);
        for (int j = 0; j < 4 && i + j < n; j++) out[i + j] = (2 * lvn_uniform(philox.v[j]) - 1) * bound;
    }
}

int64_t lvn_random_permute(uint64_t seed, uint64_t epoch, int64_t n, int64_t i)
{
    int n_bits = 1; /* bits in each half of the Feistel network's block: 4^half_bits >= n */
    while (n_bits < 31 && (int64_t)1 << (2 * n_bits) < n) n_bits++;
    uint32_t mask = ((uint32_t)1 << n_bits) - 1;
    uint64_t x = (uint64_t)i;
    do {
        uint32_t left = (uint32_t)(x >> n_bits) & mask, right = (uint32_t)x & mask;
        for (uint32_t round = 0; round < 6; round++) {
            struct lvn_philox philox = lvn_philox(seed ^ ((uint64_t)LVN_STREAM_DATA << 56), right, round,
                                                  (uint32_t)epoch, (uint32_t)(epoch >> 32));
            uint32_t next = left ^ (philox.v[0] & mask);
            left = right;
            right = next;
        }
        x = (uint64_t)left << n_bits | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

int64_t lvn_random_below(uint64_t seed, uint64_t a, uint64_t b, int64_t n)
{
    struct lvn_philox philox = lvn_philox(seed ^ ((uint64_t)LVN_STREAM_SAMPLE << 56), (uint32_t)a, (uint32_t)(a >> 32),
                                          (uint32_t)b, (uint32_t)(b >> 32));
    uint64_t bits = (uint64_t)philox.v[0] << 32 | philox.v[1];
    return (int64_t)(uint64_t)(((unsigned __int128)bits * (uint64_t)n) >> 64);
}

/* The system call itself: glibc has a function for it since 2.25, but the program also runs with older versions.
 * Kernels before 3.17 lack the call; they have /dev/urandom. */
static ssize_t from_kernel(void *bytes, size_t n)
{
    ssize_t got;
    do {
        got = syscall(SYS_getrandom, bytes, n, 0);
    } while (got < 0 && errno == EINTR);
    return got;
}

static ssize_t from_device(void *bytes, size_t n)
{
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t got = read(fd, bytes, n);
    int cause = errno;
    close(fd);
    errno = cause;
    return got;
}

enum lvn_status lvn_random_secret(void *bytes, size_t n, const char *purpose)
{
    ssize_t got = from_kernel(bytes, n);
    if (got < 0 && errno == ENOSYS) got = from_device(bytes, n);
    LVN_CHECK(got == (ssize_t)n, IO, "cannot obtain random bytes for %s: %s", purpose,
              got < 0 ? strerror(errno) : "too few bytes");
    return LVN_OK;
}

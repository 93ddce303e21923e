/* isa.c - see isa.h.
 *
 * LEVIN_ISA=generic|avx2|avx512|avx512_bf16|amx lowers the choice, for tests and for identical results on a smaller
 * machine. It never raises it; other values are ignored. */
#include "host/isa.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(LVN_X86)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

static const char *const names[LVN_ISA_COUNT] = {[LVN_ISA_GENERIC] = "generic",
                                                 [LVN_ISA_AVX2] = "avx2",
                                                 [LVN_ISA_AVX512] = "avx512",
                                                 [LVN_ISA_AVX512_BF16] = "avx512_bf16",
                                                 [LVN_ISA_AMX] = "amx"};

#if defined(LVN_X86)
/* AMX with bf16: CPUID leaf 7, EDX bits 22 (AMX-BF16) and 24 (AMX-TILE). Its registers are large, so Linux grants them
 * to a process only on request (arch_prctl(2), ARCH_REQ_XCOMP_PERM of XFEATURE_XTILEDATA); threads inherit the
 * permission. */
static bool request_amx(void)
{
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
    return d >> 22 & 1 && d >> 24 & 1 && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}

/* Features that lvn_isa_processor() reads from CPUID (Intel SDM, volume 2A; AMD APM, volume 3, appendix E). The
 * compiler's __builtin_cpu_supports() would be simpler, but zig's library lacks the function that it calls. */
struct features {
    bool avx2;   /* and FMA, and the system saves 256-bit registers */
    bool avx512; /* F, BW, DQ and VL, and the system saves 512-bit registers and masks */
    bool bf16;   /* AVX512_BF16 */
    bool fast_dots;
};

/* XCR0: the registers that the system saves for a process. */
static unsigned saved_registers(void)
{
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static bool all(unsigned bits, unsigned required)
{
    return (bits & required) == required;
}

/* True if dot products of bf16 are faster than fp32. Those of AMD (from Zen 4) and of Intel's Cooper Lake (family 6,
 * model 85) have the throughput of multiply-adds and do twice the work. On Intel's processors with AMX they need four
 * times as long as a multiply-add, which is half its speed; so without permission for AMX, AVX-512 is the better choice
 * there. */
static bool has_fast_dots(unsigned signature)
{
    unsigned a, b, c, d;
    const bool is_intel = __get_cpuid(0, &a, &b, &c, &d) && b == signature_INTEL_ebx;
    return !is_intel || (signature >> 12 & 0xf0) + (signature >> 4 & 0xf) == 85;
}

static struct features read_features(void)
{
    const unsigned fma = 1u << 12, saves = 1u << 27, avx = 1u << 28;        /* leaf 1, ECX */
    const unsigned avx2 = 1u << 5, avx512 = 1u << 16 | 1u << 17 | 3u << 30; /* leaf 7, EBX: F, DQ, BW and VL */
    const unsigned bits_256 = 1u << 1 | 1u << 2, bits_512 = 7u << 5;        /* XCR0 */
    struct features f = {0};
    unsigned signature, a, b, c, d;
    if (!__get_cpuid(1, &signature, &b, &c, &d) || !all(c, fma | saves | avx)) return f;
    const unsigned saved = saved_registers();
    if (!all(saved, bits_256) || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
    f.avx2 = all(b, avx2);
    f.avx512 = f.avx2 && all(b, avx512) && all(saved, bits_512);
    f.bf16 = f.avx512 && a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && all(a, 1u << 5);
    f.fast_dots = f.bf16 && has_fast_dots(signature);
    return f;
}

static struct features features;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool amx;

static void find_features(void)
{
    features = read_features();
    amx = features.bf16 && request_amx();
}
#endif

const char *lvn_isa_name(enum lvn_isa isa)
{
    return names[isa];
}

enum lvn_isa lvn_isa_processor(void)
{
#if defined(LVN_X86)
    pthread_once(&once, find_features);
    if (!features.avx2) return LVN_ISA_GENERIC;
    if (!features.avx512) return LVN_ISA_AVX2;
    if (amx) return LVN_ISA_AMX;
    return features.fast_dots ? LVN_ISA_AVX512_BF16 : LVN_ISA_AVX512;
#else
    return LVN_ISA_GENERIC;
#endif
}

static enum lvn_isa limit = LVN_ISA_COUNT - 1;

void lvn_isa_limit(enum lvn_isa max)
{
    limit = max;
}

enum lvn_isa lvn_isa_best(void)
{
    enum lvn_isa best = lvn_isa_processor();
    if (best > limit) best = limit;
    const char *requested = getenv("LEVIN_ISA");
    for (int isa = 0; requested && isa < (int)best; isa++)
        if (!strcmp(requested, names[isa])) return (enum lvn_isa)isa;
    return best;
}

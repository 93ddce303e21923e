/* isa.c - see isa.h.
 *
 * LEVIN_ISA=generic|avx2|avx512|avx512_bf16|amx lowers the choice: for tests, and for agreement with a lesser machine.
 * It never raises it; other values are ignored. */
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

/* Are dot products of bf16 faster than fp32? Those of AMD (from Zen 4) and of Intel's Cooper Lake (family 6, model 85)
 * are issued as often as multiply-adds and do twice the work. On Intel's processors with AMX they take four times as
 * long as a multiply-add, which is half its speed; so if AMX is denied there, AVX-512 is the better choice. */
static bool has_fast_dots(void)
{
    unsigned a, b, c, d;
    if (!__builtin_cpu_supports("avx512bf16")) return false;
    if (!__builtin_cpu_is("intel")) return true;
    return __get_cpuid(1, &a, &b, &c, &d) && (a >> 12 & 0xf0) + (a >> 4 & 0xf) == 85;
}

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool amx;

static void find_amx(void)
{
    amx = request_amx();
}

static bool has_amx(void)
{
    pthread_once(&once, find_amx);
    return amx;
}
#endif

const char *lvn_isa_name(enum lvn_isa isa)
{
    return names[isa];
}

enum lvn_isa lvn_isa_processor(void)
{
#if defined(LVN_X86)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return LVN_ISA_GENERIC;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
        return LVN_ISA_AVX2;
    if (__builtin_cpu_supports("avx512bf16") && has_amx()) return LVN_ISA_AMX;
    return has_fast_dots() ? LVN_ISA_AVX512_BF16 : LVN_ISA_AVX512;
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
    const char *wanted = getenv("LEVIN_ISA");
    for (int isa = 0; wanted && isa < (int)best; isa++)
        if (!strcmp(wanted, names[isa])) return (enum lvn_isa)isa;
    return best;
}

/* isa.c - which of the instruction sets that the kernels were compiled for runs here.
 *
 * LEVIN_ISA=generic|avx2|avx512 holds the choice down: for tests, and to agree with a lesser machine. It never raises
 * it; a value that is none of these is ignored. */
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"

static const char *const names[LVN_ISA_COUNT] = {
    [LVN_ISA_GENERIC] = "generic", [LVN_ISA_AVX2] = "avx2", [LVN_ISA_AVX512] = "avx512"};

const char *lvn_isa_name(enum lvn_isa isa)
{
    return names[isa];
}

enum lvn_isa lvn_isa_of_processor(void)
{
#if defined(LVN_X86)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return LVN_ISA_GENERIC;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return LVN_ISA_AVX512;
    return LVN_ISA_AVX2;
#else
    return LVN_ISA_GENERIC;
#endif
}

static enum lvn_isa limit = LVN_ISA_AVX512;

void lvn_isa_limit(enum lvn_isa most)
{
    limit = most;
}

enum lvn_isa lvn_isa_best(void)
{
    enum lvn_isa best = lvn_isa_of_processor();
    if (best > limit) best = limit;
    const char *wanted = getenv("LEVIN_ISA");
    for (int isa = 0; wanted && isa < (int)best; isa++)
        if (!strcmp(wanted, names[isa])) return (enum lvn_isa)isa;
    return best;
}

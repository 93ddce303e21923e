/* kernels.c - the kernel tables of the CPU: fast kernels where src/ops/NAME.cpu.c is there, plain ones elsewhere.
 *
 * generated/cpu_kernels.def is written by the build: LVN_CPU_KERNEL(NAME) for each NAME.cpu.c. A fast kernel that lacks
 * a phase gets the plain one's; its scratch() must then say what that needs. */
#include <pthread.h>

#include "backend/backend.h"
#include "backend/cpu/gemm.h"

#if defined(LVN_X86)
#define LVN_CPU_KERNEL(name)                                                                                           \
    extern const struct lvn_kernels lvn_cpu_##name##_generic, lvn_cpu_##name##_avx2, lvn_cpu_##name##_avx512,          \
        lvn_cpu_##name##_avx512_bf16, lvn_cpu_##name##_amx;
#include "cpu_kernels.def"
#undef LVN_CPU_KERNEL
#else
#define LVN_CPU_KERNEL(name) extern const struct lvn_kernels lvn_cpu_##name##_generic;
#include "cpu_kernels.def"
#undef LVN_CPU_KERNEL
#endif

static const struct lvn_kernels *const fast[LVN_ISA_COUNT][LVN_OP_COUNT] = {
#if defined(LVN_X86)
#define LVN_CPU_KERNEL(name)                                                                                           \
    [LVN_ISA_GENERIC][LVN_OP_##name] = &lvn_cpu_##name##_generic,                                                      \
    [LVN_ISA_AVX2][LVN_OP_##name] = &lvn_cpu_##name##_avx2,                                                            \
    [LVN_ISA_AVX512][LVN_OP_##name] = &lvn_cpu_##name##_avx512,                                                        \
    [LVN_ISA_AVX512_BF16][LVN_OP_##name] = &lvn_cpu_##name##_avx512_bf16,                                              \
    [LVN_ISA_AMX][LVN_OP_##name] = &lvn_cpu_##name##_amx,
#else
#define LVN_CPU_KERNEL(name) [LVN_ISA_GENERIC][LVN_OP_##name] = &lvn_cpu_##name##_generic,
#endif
#include "cpu_kernels.def"
#undef LVN_CPU_KERNEL
};

static struct lvn_kernels cpu[LVN_ISA_COUNT][LVN_OP_COUNT], plain_f32[LVN_OP_COUNT], plain_f64[LVN_OP_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void)
{
    for (int id = 0; id < LVN_OP_COUNT; id++) {
        plain_f32[id] = lvn_op((enum lvn_op_id)id, LVN_F32)->spec;
        plain_f64[id] = lvn_op((enum lvn_op_id)id, LVN_F64)->spec;
        for (int isa = 0; isa < LVN_ISA_COUNT; isa++) {
            const struct lvn_kernels *f = fast[isa][id];
            struct lvn_kernels k = plain_f32[id];
            if (f) {
                if (f->forward) k.forward = f->forward;
                if (f->backward) k.backward = f->backward;
                if (f->restore) k.restore = f->restore;
                k.scratch = f->scratch;
            }
            cpu[isa][id] = k;
        }
    }
}

const struct lvn_gemm_kernel *lvn_gemm_kernel(enum lvn_isa isa)
{
    static const struct lvn_gemm_kernel *const kernels[LVN_ISA_COUNT] = {
        [LVN_ISA_GENERIC] = &lvn_gemm_generic,
#if defined(LVN_X86)
        [LVN_ISA_AVX2] = &lvn_gemm_avx2,
        [LVN_ISA_AVX512] = &lvn_gemm_avx512,
        [LVN_ISA_AVX512_BF16] = &lvn_gemm_avx512_bf16,
        [LVN_ISA_AMX] = &lvn_gemm_amx,
#endif
    };
    return kernels[isa];
}

const struct lvn_kernels *lvn_cpu_kernels(enum lvn_isa isa)
{
    pthread_once(&once, fill);
    return cpu[isa];
}

const struct lvn_kernels *lvn_reference_kernels(enum lvn_dtype real)
{
    pthread_once(&once, fill);
    return real == LVN_F64 ? plain_f64 : plain_f32;
}

/* cpu_kernels.c - see cpu_kernels.h. The build writes generated/cpu_kernels.def: for each instruction set a line
 * LVN_CPU_GEMM(ISA, suffix), and one LVN_CPU_KERNEL(name, ISA, suffix) for each src/core/ops/NAME.cpu.c that is
 * compiled for it. */
#include "backend/cpu/cpu_kernels.h"

#include <pthread.h>

#include "backend/cpu/gemm.h"

#define LVN_CPU_GEMM(isa, suffix) extern const struct lvn_gemm_kernel lvn_gemm_##suffix;
#define LVN_CPU_KERNEL(name, isa, suffix) extern const struct lvn_kernels lvn_cpu_##name##_##suffix;
#include "cpu_kernels.def"
#undef LVN_CPU_GEMM
#undef LVN_CPU_KERNEL

#define LVN_CPU_GEMM(isa, suffix)
#define LVN_CPU_KERNEL(name, isa, suffix) [LVN_ISA_##isa][LVN_OP_##name] = &lvn_cpu_##name##_##suffix,
static const struct lvn_kernels *const fast[LVN_ISA_COUNT][LVN_OP_COUNT] = {
#include "cpu_kernels.def"
};
#undef LVN_CPU_GEMM
#undef LVN_CPU_KERNEL

#define LVN_CPU_GEMM(isa, suffix) [LVN_ISA_##isa] = &lvn_gemm_##suffix,
#define LVN_CPU_KERNEL(name, isa, suffix)
static const struct lvn_gemm_kernel *const gemm[LVN_ISA_COUNT] = {
#include "cpu_kernels.def"
};
#undef LVN_CPU_GEMM
#undef LVN_CPU_KERNEL

/* The best instruction set not above `isa` for which kernels were built. */
static enum lvn_isa built(enum lvn_isa isa)
{
    while (!gemm[isa]) isa--;
    return isa;
}

/* The fast kernels of an operation; NULL: none. Kernels whose code would equal that of a lower instruction set are only
 * compiled for the lower one: see CMakeLists.txt. */
static const struct lvn_kernels *fast_of(enum lvn_isa isa, int id)
{
    while (isa > LVN_ISA_GENERIC && !fast[isa][id]) isa--;
    return fast[isa][id];
}

static struct lvn_cpu_op ops[LVN_ISA_COUNT][LVN_OP_COUNT], plain_f32[LVN_OP_COUNT], plain_f64[LVN_OP_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_plain(struct lvn_cpu_op *o, const struct lvn_op *op)
{
    o->plain_scratch = op->spec.scratch;
    for (int phase = 0; phase < LVN_PHASE_COUNT; phase++) o->plain[phase] = lvn_op_plain(op, (enum lvn_phase)phase);
}

static void fill(void)
{
    for (int id = 0; id < LVN_OP_COUNT; id++) {
        fill_plain(&plain_f32[id], lvn_op((enum lvn_op_id)id, LVN_F32));
        fill_plain(&plain_f64[id], lvn_op((enum lvn_op_id)id, LVN_F64));
        for (int isa = 0; isa < LVN_ISA_COUNT; isa++) {
            const struct lvn_kernels *f = fast_of((enum lvn_isa)isa, id);
            struct lvn_cpu_op *o = &ops[isa][id];
            *o = plain_f32[id];
            if (!f) continue;
            o->fast[LVN_FORWARD] = f->forward;
            o->fast[LVN_BACKWARD] = f->backward;
            o->fast[LVN_RESTORE] = f->restore;
            o->fast_scratch = f->scratch;
            o->fast_rounds = f->rounds;
        }
    }
}

const struct lvn_cpu_op *lvn_cpu_ops(enum lvn_isa isa)
{
    pthread_once(&once, fill);
    return ops[isa];
}

const struct lvn_cpu_op *lvn_cpu_plain_ops(enum lvn_dtype real)
{
    pthread_once(&once, fill);
    return real == LVN_F64 ? plain_f64 : plain_f32;
}

int64_t lvn_cpu_scratch(const struct lvn_cpu_op *op, const struct lvn_call *call, int n_threads)
{
    if (op->fast[call->phase]) return op->fast_scratch ? op->fast_scratch(call, n_threads) : 0;
    return op->plain_scratch ? op->plain_scratch(call) : 0;
}

uint32_t lvn_cpu_rounds(const struct lvn_cpu_op *op, const struct lvn_call *call)
{
    return op->fast[call->phase] && op->fast_rounds ? op->fast_rounds(call) : 0;
}

const struct lvn_gemm_kernel *lvn_gemm_kernel(enum lvn_isa isa)
{
    return gemm[built(isa)];
}

/* cpu_kernels.h - the table of CPU kernels. run.c calls them; all threads of a team call each kernel together.
 *
 * src/core/ops/NAME.cpu.c has the fast kernels of an operation and is compiled once per instruction set. A phase
 * without a fast kernel, or an operation without such a file, uses the plain kernel, which one thread calls. */
#ifndef LVN_CPU_KERNELS_H
#define LVN_CPU_KERNELS_H

#include "graph/op.h"
#include "host/isa.h"

/* Called by all threads of the team with the same call, or by one thread alone, for which n_threads is 1;
 * base/threads.h describes how they divide the work. */
typedef void lvn_kernel(const struct lvn_call *call, int thread, int n_threads);

/* The kernels of a NAME.cpu.c. */
struct lvn_kernels {
    lvn_kernel *forward, *backward, *restore; /* NULL: the plain kernel */
    /* Bytes of scratch for call->phase; NULL: none. `call` has shapes and attributes, but no pointers. */
    int64_t (*scratch)(const struct lvn_call *call, int n_threads);
    /* lvn_instr.rounds; NULL: none. `call` has no pointers here either. */
    uint32_t (*rounds)(const struct lvn_call *call);
};

/* At the end of a NAME.cpu.c: LVN_CPU_OPERATION(gelu, .forward = forward, .backward = backward); */
#define LVN_CPU_OPERATION(name, ...)                                                                                   \
    extern const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_##name);                                                      \
    const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_##name) = {__VA_ARGS__}

/* The kernels of an operation on one instruction set, by phase. If both are NULL, there is no kernel. */
struct lvn_cpu_op {
    lvn_kernel *fast[LVN_PHASE_COUNT];
    lvn_plain_kernel *plain[LVN_PHASE_COUNT];
    int64_t (*fast_scratch)(const struct lvn_call *call, int n_threads);
    uint32_t (*fast_rounds)(const struct lvn_call *call);
    int64_t (*plain_scratch)(const struct lvn_call *call);
};

/* All operations, [LVN_OP_COUNT], with fast fp32 kernels. */
const struct lvn_cpu_op *lvn_cpu_ops(enum lvn_isa isa);
/* All operations with plain kernels only, in fp32 or fp64. */
const struct lvn_cpu_op *lvn_cpu_plain_ops(enum lvn_dtype real);

/* The matrix multiplication (gemm.h) for an instruction set. */
struct lvn_gemm_kernel;
const struct lvn_gemm_kernel *lvn_gemm_kernel(enum lvn_isa isa);

/* Bytes of scratch that call->phase needs. */
int64_t lvn_cpu_scratch(const struct lvn_cpu_op *op, const struct lvn_call *call, int n_threads);
/* The inputs that call->phase reads only after rounding; see lvn_instr.rounds. */
uint32_t lvn_cpu_rounds(const struct lvn_cpu_op *op, const struct lvn_call *call);
/* Run call->phase; called by all threads of the team, and a barrier must follow. */
static inline void lvn_cpu_call(const struct lvn_cpu_op *op, const struct lvn_call *call, int thread, int n_threads)
{
    if (op->fast[call->phase])
        op->fast[call->phase](call, thread, n_threads);
    else if (thread == 0)
        op->plain[call->phase](call);
}

#endif

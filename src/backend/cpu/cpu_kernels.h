/* cpu_kernels.h - the operations of a program on the processor: kernels that a team of threads calls together.
 *
 * src/ops/NAME.cpu.c holds the fast kernels of an operation and is compiled once per instruction set. A phase for which
 * it has none, and an operation without such a file, is left to the plain kernel, which one thread calls. */
#ifndef LVN_CPU_KERNELS_H
#define LVN_CPU_KERNELS_H

#include "graph/op.h"
#include "host/isa.h"

/* Called by all threads of the team with the same call; see base/threads.h for how work is shared. */
typedef void lvn_kernel(const struct lvn_call *call, int thread, int n_threads);

/* What a NAME.cpu.c supplies. */
struct lvn_kernels {
    lvn_kernel *forward, *backward, *restore; /* NULL: the plain one */
    /* Bytes of scratch for a phase; NULL: none. `call` carries descriptions and attributes, no pointers. */
    int64_t (*scratch)(const struct lvn_call *call, int n_threads);
};

/* Ends a NAME.cpu.c: LVN_CPU_OPERATION(gelu, .forward = forward, .backward = backward); */
#define LVN_CPU_OPERATION(name, ...)                                                                                   \
    extern const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_##name);                                                      \
    const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_##name) = {__VA_ARGS__}

/* An operation on one instruction set, by phase; both NULL: it has none. */
struct lvn_cpu_op {
    lvn_kernel *fast[LVN_PHASE_COUNT];
    lvn_plain_kernel *plain[LVN_PHASE_COUNT];
    int64_t (*fast_scratch)(const struct lvn_call *call, int n_threads);
    int64_t (*plain_scratch)(const struct lvn_call *call);
};

/* All operations, [LVN_OP_COUNT]: in fp32; with the plain kernels alone. */
const struct lvn_cpu_op *lvn_cpu_ops(enum lvn_isa isa);
const struct lvn_cpu_op *lvn_cpu_plain_ops(enum lvn_dtype real);

/* Bytes of scratch that the call's phase wants. */
int64_t lvn_cpu_scratch(const struct lvn_cpu_op *op, const struct lvn_call *call, int n_threads);
/* The call's phase, by all threads of the team; a barrier must follow. */
static inline void lvn_cpu_call(const struct lvn_cpu_op *op, const struct lvn_call *call, int thread, int n_threads)
{
    if (op->fast[call->phase])
        op->fast[call->phase](call, thread, n_threads);
    else if (thread == 0)
        op->plain[call->phase](call);
}

#endif

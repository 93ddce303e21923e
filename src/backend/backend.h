/* backend.h - what a kind of device must supply.
 *
 * One const instance per backend stands at the end of its file. cpu: kernels for the best instruction set that this
 * processor has; reference: the plain kernels of src/ops, in fp32 or fp64. */
#ifndef LVN_BACKEND_H
#define LVN_BACKEND_H

#include "graph/op.h"

/* Instruction sets that the CPU kernels are compiled for, worst first. */
enum lvn_isa { LVN_ISA_GENERIC, LVN_ISA_AVX2, LVN_ISA_AVX512, LVN_ISA_AVX512_BF16, LVN_ISA_AMX, LVN_ISA_COUNT };
const char *lvn_isa_name(enum lvn_isa isa);
/* The best one that this processor, LEVIN_ISA (generic, avx2, avx512, avx512_bf16 or amx) and lvn_isa_limit() allow. */
enum lvn_isa lvn_isa_best(void);
/* Take none better than this one from now on: what ranks agreed on. Before any kernels are chosen. */
void lvn_isa_limit(enum lvn_isa most);
/* The best one that this processor has. */
enum lvn_isa lvn_isa_of_processor(void);

/* Kernel tables, [LVN_OP_COUNT]. Where an operation has no fast kernel the plain one stands in. */
const struct lvn_kernels *lvn_cpu_kernels(enum lvn_isa isa);
const struct lvn_kernels *lvn_reference_kernels(enum lvn_dtype real);

/* Memory for large buffers: 64-byte aligned, zeroed, in huge pages where the system has them. The bytes are not touched
 * before use. NULL (with an error recorded) when the system refuses. */
void *lvn_pages_alloc(int64_t bytes);
void lvn_pages_free(void *p, int64_t bytes);

#endif

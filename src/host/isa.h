/* isa.h - the instruction sets that the CPU kernels are compiled for, and the choice among them. */
#ifndef LVN_ISA_H
#define LVN_ISA_H

/* In ascending order of speed. */
enum lvn_isa { LVN_ISA_GENERIC, LVN_ISA_AVX2, LVN_ISA_AVX512, LVN_ISA_AVX512_BF16, LVN_ISA_AMX, LVN_ISA_COUNT };

const char *lvn_isa_name(enum lvn_isa isa);
/* The best instruction set that this processor, LEVIN_ISA (generic, avx2, avx512, avx512_bf16 or amx) and
 * lvn_isa_limit() allow. */
enum lvn_isa lvn_isa_best(void);
/* Sets an upper bound, on which the ranks agreed. To be called before kernels are chosen. */
void lvn_isa_limit(enum lvn_isa max);
/* The best instruction set of this processor. */
enum lvn_isa lvn_isa_processor(void);

/* For a NAME.cpu.c: a symbol's name with the instruction set that the file is being compiled for, NAME_avx512. */
#define LVN_PASTE_(a, b) a##_##b
#define LVN_PASTE(a, b) LVN_PASTE_(a, b)
#define LVN_ISA_NAME(name) LVN_PASTE(name, LVN_ISA_SUFFIX)

#endif

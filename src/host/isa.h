/* isa.h - the instruction sets that fast kernels are compiled for, and which of them runs here. */
#ifndef LVN_ISA_H
#define LVN_ISA_H

/* Worst first. */
enum lvn_isa { LVN_ISA_GENERIC, LVN_ISA_AVX2, LVN_ISA_AVX512, LVN_ISA_AVX512_BF16, LVN_ISA_AMX, LVN_ISA_COUNT };

const char *lvn_isa_name(enum lvn_isa isa);
/* The best one that this processor, LEVIN_ISA (generic, avx2, avx512, avx512_bf16 or amx) and lvn_isa_limit() allow. */
enum lvn_isa lvn_isa_best(void);
/* Take none better than this one from now on: what ranks agreed on. Before any kernels are chosen. */
void lvn_isa_limit(enum lvn_isa max);
/* The best one that this processor has. */
enum lvn_isa lvn_isa_processor(void);

/* In a NAME.cpu.c: the name of a symbol for the instruction set that the file is being compiled for, NAME_avx512. */
#define LVN_PASTE_(a, b) a##_##b
#define LVN_PASTE(a, b) LVN_PASTE_(a, b)
#define LVN_ISA_NAME(name) LVN_PASTE(name, LVN_ISA_SUFFIX)

#endif
